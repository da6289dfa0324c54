// What the vocabulary can do inside one leaf of a grammar, whatever stands below it; kept for the next visit.

import Synchronization

/// The tokens that stay inside a leaf, and where tokens leave it.
final class LeafMask: Sendable {
  /// Sorted by the cost of completing the leaf behind them.
  let tokens: [Int32]
  /// The tokens up to `end` leave the leaf to be completed with at most `cost` bytes.
  let groups: [(cost: Int32, end: Int)]
  /// Nodes of the trie at which the leaf is complete; what follows is up to the stacks below.
  let exits: [Int32]
  /// All tokens as a mask, where they are many.
  let full: TokenMask?

  init(tokens: [(cost: Int32, id: Int32)], exits: [Int32], count: Int) {
    let sorted = tokens.sorted { ($0.cost, $0.id) < ($1.cost, $1.id) }
    self.tokens = sorted.map(\.id)
    self.exits = exits
    var groups: [(cost: Int32, end: Int)] = []
    for (index, entry) in sorted.enumerated() {
      if let last = groups.last, last.cost == entry.cost {
        groups[groups.count - 1].end = index + 1
      } else {
        groups.append((entry.cost, index + 1))
      }
    }
    self.groups = groups
    guard sorted.count > 512 else {
      full = nil
      return
    }
    var mask = TokenMask(count: count)
    for entry in sorted { mask.insert(entry.id) }
    full = mask
  }

  var byteCount: Int {
    tokens.count * 4 + exits.count * 4 + groups.count * 16 + (full?.words.count ?? 0) * 8 + 128
  }

  /// Adds the tokens behind which the leaf costs at most `limit`.
  func add(to mask: inout TokenMask, limit: Int32) {
    guard let last = groups.last else { return }
    if limit >= last.cost, let full {
      mask.formUnion(full)
      return
    }
    guard let group = groups.last(where: { $0.cost <= limit }) else { return }
    for id in tokens[..<group.end] { mask.insert(id) }
  }

  /// Walks the whole vocabulary through `leaf` from a state.
  static func make(
    _ leaf: GrammarLeaf, state: Int32, missing: Int, left: Int, vocabulary: GrammarVocabulary
  ) -> LeafMask {
    let trie = vocabulary.trie
    let dfa = leaf.dfa
    let isCounted = leaf.length != nil
    var states = [Int32](repeating: state, count: vocabulary.longestToken + 1)
    var counts = [Int](repeating: 0, count: vocabulary.longestToken + 1)
    var found: [(cost: Int32, id: Int32)] = []
    var exits: [Int32] = []
    var node = 1
    while node < trie.count {
      let depth = Int(trie.depth[node])
      let byte = trie.byte[node]
      let before = states[depth - 1]
      let next = dfa.step(before, byte)
      guard next >= 0 else {
        node = Int(trie.end[node])
        continue
      }
      var count = counts[depth - 1]
      if isCounted {
        if leaf.beginsCharacter(before, byte) { count += 1 }
        if count > left || dfa.accepting[Int(next)] && count < missing {
          node = Int(trie.end[node])
          continue
        }
      }
      if dfa.accepting[Int(next)] { exits.append(Int32(truncatingIfNeeded: node)) }
      guard dfa.continues[Int(next)] else {
        node = Int(trie.end[node])
        continue
      }
      let tokens = trie.tokens(at: node)
      if !tokens.isEmpty {
        let cost = Cost.sum(dfa.cost[Int(next)], Int32(clamping: max(0, missing - count)))
        for token in trie.tokens[tokens] { found.append((cost, token)) }
      }
      states[depth] = next
      counts[depth] = count
      node += 1
    }
    return LeafMask(tokens: found, exits: exits, count: vocabulary.count)
  }
}

/// Leaf masks by place, up to so many bytes; then all are forgotten.
final class LeafCache: Sendable {
  struct Key: Hashable {
    var leaf: Int32
    var state: Int32
    /// Characters that must still come, and that may still come, as far as one token can tell.
    var missing: Int32
    var left: Int32
  }

  private struct Content {
    var masks: [Key: LeafMask] = [:]
    var bytes = 0
  }

  private let content = Mutex(Content())
  private let limit: Int

  init(limit: Int) { self.limit = limit }

  /// - Parameter make: is called without the lock; two threads may both make the same mask.
  func mask(_ key: Key, make: () -> LeafMask) -> LeafMask {
    if let known = content.withLock({ $0.masks[key] }) { return known }
    let made = make()
    content.withLock { content in
      if content.bytes + made.byteCount > limit { content = Content() }
      content.masks[key] = made
      content.bytes += made.byteCount
    }
    return made
  }
}
