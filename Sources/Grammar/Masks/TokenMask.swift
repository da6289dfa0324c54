// A set of token ids, one bit each.

/// Which tokens may come next. A value; copies share storage until changed.
package struct TokenMask: Sendable, Equatable {
  /// Bit `id % 64` of word `id / 64`.
  package private(set) var words: [UInt64]
  /// Ids are below this.
  package let count: Int

  /// The empty set of ids below `count`.
  package init(count: Int) {
    self.count = max(0, count)
    words = [UInt64](repeating: 0, count: (self.count + 63) / 64)
  }

  /// The ids below `count` for which `isMember` holds. O(count).
  init(count: Int, where isMember: (Int32) -> Bool) {
    self.init(count: count)
    for id in 0..<Int32(clamping: count) where isMember(id) { insert(id) }
  }

  /// Whether the id is in the set; false for ids that cannot be.
  package func contains(_ id: Int32) -> Bool {
    guard id >= 0, Int(id) < count else { return false }
    return words[Int(id) / 64] & (1 << UInt64(id % 64)) != 0
  }

  /// Adds an id; one that cannot be in the set is passed over.
  package mutating func insert(_ id: Int32) {
    guard id >= 0, Int(id) < count else { return }
    words[Int(id) / 64] |= 1 << UInt64(id % 64)
  }

  /// Adds ids; those that cannot be in the set are passed over.
  mutating func insert(_ ids: some Sequence<Int32>) {
    for id in ids where id >= 0 && Int(id) < count { words[Int(id) / 64] |= 1 << UInt64(id % 64) }
  }

  /// Removes an id, if it is there.
  package mutating func remove(_ id: Int32) {
    guard id >= 0, Int(id) < count else { return }
    words[Int(id) / 64] &= ~(1 << UInt64(id % 64))
  }

  /// Adds the ids of another set of the same vocabulary.
  package mutating func formUnion(_ other: TokenMask) {
    for index in 0..<min(words.count, other.words.count) { words[index] |= other.words[index] }
  }

  /// Whether no id is in the set. O(count / 64).
  package var isEmpty: Bool { words.allSatisfy { $0 == 0 } }
}
