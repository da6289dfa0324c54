// Where "don't repeat yourself" begins anew: texts such as a line's end, as the tokens that spell them.

/// Tokens with which a breaking text begins, and what must follow each of them.
package struct SequenceBreakers: Sendable, Equatable {
  /// The tokens that may follow the first one, by that one; an empty list where it holds the whole text.
  private var tails: [Int32: [[Int32]]] = [:]

  package init() {}

  /// All spellings, in an order of their own.
  package var sequences: [[Int32]] {
    tails.flatMap { first, tails in tails.map { [first] + $0 } }.sorted { $0.lexicographicallyPrecedes($1) }
  }

  /// Adds a spelling: its first token and the others.
  package mutating func insert(_ first: Int32, tail: [Int32]) {
    if tails[first]?.contains(tail) != true { tails[first, default: []].append(tail) }
  }

  /// How many tokens stand after the last breaking text; all of them when there is none. O(count).
  package func lengthAfterLast(in tokens: some RandomAccessCollection<Int32>) -> Int {
    guard !tails.isEmpty else { return tokens.count }
    for (distance, token) in tokens.reversed().enumerated() {
      let rest = tokens.suffix(distance)
      let spellings = tails[token, default: []].filter { rest.starts(with: $0) }
      if let longest = spellings.map(\.count).max() { return distance - longest }
    }
    return tokens.count
  }
}
