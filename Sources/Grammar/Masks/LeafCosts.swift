// What completing a leaf costs after each token, for answers that come near their limit.

/// The tokens that stay inside a leaf, the cheapest first.
final class LeafCosts: Sendable {
  private let tokens: [Int32]
  /// The tokens up to `end` leave the leaf to be completed with at most `cost` bytes.
  private let groups: [(cost: Int32, end: Int)]

  /// - Parameter found: tokens by the cost after them.
  init(_ found: [Int32: [Int32]]) {
    var tokens: [Int32] = []
    var groups: [(cost: Int32, end: Int)] = []
    for cost in found.keys.sorted() {
      tokens += found[cost] ?? []
      groups.append((cost, tokens.count))
    }
    (self.tokens, self.groups) = (tokens, groups)
  }

  var byteCount: Int { tokens.count * 4 + groups.count * 16 + 128 }

  /// The tokens after which the leaf costs at most `limit`.
  func tokens(limit: Int32, count: Int) -> TokenSet {
    TokenSet(Array(tokens[..<(groups.last { $0.cost <= limit }?.end ?? 0)]), count: count)
  }

  /// Looks at each token that stays inside from a state.
  ///
  /// - Parameter missing: characters that must still come, where they are counted.
  static func make(
    _ leaf: GrammarLeaf, state: Int32, missing: Int, inside: LeafMask, vocabulary: GrammarVocabulary
  ) -> LeafCosts {
    var found: [Int32: [Int32]] = [:]
    for (index, word) in inside.inside.mask(count: vocabulary.count).words.enumerated() where word != 0 {
      for bit in 0..<64 where word & 1 << UInt64(bit) != 0 {
        let token = Int32(truncatingIfNeeded: index * 64 + bit)
        let (end, begun) = follow(vocabulary.bytes(of: token), leaf, state)
        let cost =
          leaf.length?.counts.cost(end, missing: max(0, missing - begun)) ?? leaf.dfa.cost[Int(end)]
        found[cost, default: []].append(token)
      }
    }
    return LeafCosts(found)
  }

  /// The state after a token, and the characters that it begins where they are counted.
  private static func follow(_ bytes: ArraySlice<UInt8>, _ leaf: GrammarLeaf, _ state: Int32) -> (Int32, Int)
  {
    var (state, begun) = (state, 0)
    for byte in bytes {
      if leaf.length?.counts.begins(state, byte) ?? false { begun += 1 }
      state = leaf.dfa.step(state, byte)
    }
    return (state, begun)
  }
}
