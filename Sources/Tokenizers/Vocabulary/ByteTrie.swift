// Byte strings by their beginnings: which of many stand at a place of a text.

/// A trie. Each string has a value of its owner's choice.
package struct ByteTrie: Sendable {
  /// (node, byte) to node; nodes count from 0, the root.
  private var edges: [UInt64: Int32] = [:]
  /// Of the string that ends at each node, -1 where none does.
  private var values: [Int32] = [-1]
  private var isFirst = [Bool](repeating: false, count: 256)

  /// No strings.
  package init() {}

  /// Adds a string; of equal ones the first counts, and the empty one never.
  ///
  /// - Parameter value: not negative.
  /// - Returns: whether it is new.
  @discardableResult
  package mutating func insert(_ string: ArraySlice<UInt8>, value: Int32 = 0) -> Bool {
    guard let first = string.first else { return false }
    isFirst[Int(first)] = true
    var node: Int32 = 0
    for byte in string {
      let edge = UInt64(node) << 8 | UInt64(byte)
      if let next = edges[edge] {
        node = next
      } else {
        node = Int32(truncatingIfNeeded: values.count)
        edges[edge] = node
        values.append(-1)
      }
    }
    guard values[Int(node)] < 0 else { return false }
    values[Int(node)] = value
    return true
  }

  /// The longest string that stands at `start`, and where it ends, at `limit` at most; nil for the text's end.
  package func longestMatch(
    in text: [UInt8], from start: Int, to limit: Int? = nil
  ) -> (value: Int32, end: Int)? {
    var longest: (Int32, Int)?
    walk(text, from: start, to: limit ?? text.count) { at, value in
      if let value { longest = (value, at) }
      return true
    }
    return longest
  }

  /// Whether a string stands at `start`, or begins with everything from there to `end`.
  package func matches(in text: [UInt8], from start: Int, endingAt end: Int) -> Bool {
    var matches = false
    walk(text, from: start, to: text.count) { at, value in
      matches = value != nil || at >= end
      return !matches
    }
    return matches
  }

  /// Follows the text as long as a string goes on like it, and `body`, which gets the place after each byte and the
  /// value of a string that ends there, says so.
  @inline(__always)
  private func walk(
    _ text: [UInt8], from start: Int, to limit: Int, _ body: (_ at: Int, _ value: Int32?) -> Bool
  ) {
    guard start < limit, isFirst[Int(text[start])] else { return }
    var node: Int32 = 0
    var at = start
    while at < limit, let next = edges[UInt64(node) << 8 | UInt64(text[at])] {
      node = next
      at += 1
      let value = values[Int(node)]
      guard body(at, value < 0 ? nil : value) else { return }
    }
  }
}
