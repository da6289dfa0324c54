// The names that a template may use without defining them, as far as the parser must know them.

/// Filters and tests by their number in the runtime's tables, and the names of global functions.
struct Builtins: Sendable {
  let filters: [String: Int]
  let tests: [String: Int]
  let functions: Set<String>
}
