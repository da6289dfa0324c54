// What one rendering may use.

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
