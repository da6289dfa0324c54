// A loaded template: source in, rendered text out.

package import JSON

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
    var parser = Parser(
      tokens: tokens, lines: lexer.lines, builtins: BuiltinTables.names, maxDepth: limits.depth)
    program = try parser.parseProgram()
    self.limits = limits
  }

  /// Renders with the given global variables.
  ///
  /// - Parameters:
  ///   - passed: places of `raise_exception` that are to do nothing.
  ///   - changesLists: whether lists have Python's methods that change them. The reference refuses them; some templates
  ///     are written for renderers that do not.
  ///   - clock: the local time that `strftime_now` formats.
  /// - Throws: `JinjaError.raised`, `.failed` or `.limit`.
  package func render(
    _ variables: JSONObject, passing passed: Set<JinjaPosition> = [],
    changingLists changesLists: Bool = false,
    clock: @escaping @Sendable () -> CalendarTime
  ) throws(JinjaError) -> String {
    let interpreter = Interpreter(
      program: program, limits: limits, passed: passed, changesLists: changesLists, clock: clock)
    defer { interpreter.breakCycles() }
    return try interpreter.run(variables)
  }
}
