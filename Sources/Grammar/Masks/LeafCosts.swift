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
    self.tokens = tokens
    self.groups = groups
  }

  var byteCount: Int { tokens.count * 4 + groups.count * 16 + 128 }

  /// Adds the tokens after which the leaf costs at most `limit`.
  func add(to mask: inout TokenMask, limit: Int32) {
    guard let group = groups.last(where: { $0.cost <= limit }) else { return }
    mask.insert(tokens[..<group.end])
  }

  /// Looks at each token that stays inside from a state.
  static func make(
    _ dfa: ByteDFA, state: Int32, inside: LeafMask, vocabulary: GrammarVocabulary
  ) -> LeafCosts {
    var found: [Int32: [Int32]] = [:]
    var own = TokenMask(count: vocabulary.count)
    inside.inside.add(to: &own)
    for (index, word) in own.words.enumerated() where word != 0 {
      for bit in 0..<64 where word & 1 << UInt64(bit) != 0 {
        let token = Int32(truncatingIfNeeded: index * 64 + bit)
        let end = vocabulary.bytes(of: token).reduce(state) { dfa.step($0, $1) }
        found[dfa.cost[Int(end)], default: []].append(token)
      }
    }
    return LeafCosts(found)
  }
}
