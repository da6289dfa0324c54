// A loaded template: source in, rendered text out.

package import JSON

/// Bounds of one rendering; a template that reaches one fails with `JinjaError.limit`.
package struct JinjaLimits: Sendable, Equatable {
  /// One for each call or filter, two loop rounds, four statements, eight expression nodes, 128 bytes of text.
  package var steps = 1_000_000
  /// Nesting of blocks and of expressions in the source, and of macro calls while rendering.
  package var depth = 100
  /// Elements of a `range`.
  package var range = 100_000
  /// UTF-8 bytes of the rendered text and of every string made on the way.
  package var outputBytes = 4 << 20

  package init() {}
}

/// An immutable, checked template; one instance may render on many threads at once.
package struct JinjaTemplate: Sendable {
  private let program: Program
  private let limits: JinjaLimits

  /// Parses `source` with the settings chat templates are written for: `trim_blocks`, `lstrip_blocks`,
  /// loop controls, `generation` blocks.
  ///
  /// - Throws: `JinjaError.syntax` for malformed source and for filters, tests, functions and tags that do
  ///   not exist; `JinjaError.syntax` too when the source nests deeper than `limits.depth`.
  package init(source: String, limits: JinjaLimits = JinjaLimits()) throws(JinjaError) {
    var lexer = Lexer(source: source)
    let tokens = try lexer.tokenize()
    var parser = Parser(tokens: tokens, lines: lexer.lines, maxDepth: limits.depth)
    program = try parser.parseProgram()
    self.limits = limits
  }

  /// Renders with the given global variables.
  ///
  /// - Parameter clock: the local time that `strftime_now` formats.
  /// - Throws: `JinjaError.raised`, `.failed` or `.limit`.
  package func render(
    _ variables: JSONObject, clock: @escaping @Sendable () -> CalendarTime
  ) throws(JinjaError) -> String {
    let interpreter = Interpreter(program: program, limits: limits, clock: clock)
    defer { interpreter.breakCycles() }
    return try interpreter.run(variables)
  }
}
