// The runtime's filters, tests and functions under the numbers by which parsed templates call them.

enum BuiltinTables {
  private static let filterEntries = Array(Filters.table)
  private static let testEntries = Array(Tests.table)

  static let filters = filterEntries.map(\.value)
  static let tests = testEntries.map(\.value)

  static let names = Builtins(
    filters: numbers(filterEntries), tests: numbers(testEntries), functions: Set(Globals.table.keys))

  private static func numbers<Function>(_ entries: [(key: String, value: Function)]) -> [String: Int] {
    Dictionary(uniqueKeysWithValues: entries.enumerated().map { ($0.element.key, $0.offset) })
  }
}
