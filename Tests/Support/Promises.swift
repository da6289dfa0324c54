// What a restart may find of each stored thing: what was acknowledged last, and what was tried since.

/// Changes as a client saw them.
package struct Promises {
  /// By the thing's name: its possible values, nil for none.
  package private(set) var allowed: [String: Set<String?>] = [:]
  /// Changes that were refused.
  package private(set) var failures = 0

  package init() {}

  /// Makes a change to `value`; nil removes the thing.
  package mutating func change(_ key: String, to value: String?, _ body: () throws -> Void) {
    do {
      try body()
      allowed[key] = [value]
    } catch {
      allowed[key, default: [nil]].insert(value)
      failures += 1
    }
  }
}
