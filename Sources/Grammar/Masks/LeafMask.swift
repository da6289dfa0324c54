// What the vocabulary can do inside one leaf of a grammar, whatever stands below it; kept for the next visit.

import Synchronization

/// The tokens that stay inside a leaf, and where tokens leave it.
final class LeafMask: Sendable {
  /// Sorted by the cost of completing the leaf after them. Where they are many, those of the first group, which is
  /// nearly all, stand only in `full`.
  private let tokens: [Int32]
  /// The tokens up to `end` leave the leaf to be completed with at most `cost` bytes.
  let groups: [(cost: Int32, end: Int)]
  /// Nodes of the trie at which the leaf is complete; what follows is up to the stacks below.
  let exits: [Int32]
  /// All tokens as a mask, where they are many.
  private let full: TokenMask?

  /// - Parameter found: tokens by the cost after them.
  init(found: [Int32: [Int32]], exits: [Int32], count: Int) {
    let isLarge = found.values.reduce(0) { $0 + $1.count } > 512
    var mask = TokenMask(count: isLarge ? count : 0)
    var tokens: [Int32] = []
    var groups: [(cost: Int32, end: Int)] = []
    for cost in found.keys.sorted() {
      let ids = found[cost] ?? []
      if isLarge { mask.insert(ids) }
      if !isLarge || !groups.isEmpty { tokens += ids }
      groups.append((cost, tokens.count))
    }
    self.tokens = tokens
    self.groups = groups
    self.exits = exits
    full = isLarge ? mask : nil
  }

  var byteCount: Int {
    tokens.count * 4 + exits.count * 4 + groups.count * 16 + (full?.words.count ?? 0) * 8 + 256
  }

  /// Adds the tokens after which the leaf costs at most `limit`.
  func add(to mask: inout TokenMask, limit: Int32) {
    guard let last = groups.last, let group = groups.last(where: { $0.cost <= limit }) else { return }
    guard var cheap = full else {
      mask.insert(tokens[..<group.end])
      return
    }
    if group.cost < last.cost {
      for token in tokens[group.end...] { cheap.remove(token) }
    }
    mask.formUnion(cheap)
  }

  /// Walks the whole vocabulary through `leaf` from a state.
  static func make(_ dfa: ByteDFA, state: Int32, vocabulary: GrammarVocabulary) -> LeafMask {
    // Plain arrays in local constants: the loop visits hundreds of thousands of nodes.
    let (bytes, ends, depths) = (vocabulary.trie.byte, vocabulary.trie.end, vocabulary.trie.depth)
    let (tokenStart, tokens) = (vocabulary.trie.tokenStart, vocabulary.trie.tokens)
    let (next, classOf, classCount) = (dfa.next, dfa.classOf, dfa.classCount)
    let (accepting, continues, costs) = (dfa.accepting, dfa.continues, dfa.cost)
    var states = [Int32](repeating: state, count: vocabulary.longestToken + 1)
    var found: [Int32: [Int32]] = [:]
    // Nearly all tokens of a leaf have the same cost.
    var run: (cost: Int32, ids: [Int32]) = (-1, [])
    var exits: [Int32] = []
    var node = 1
    while node < bytes.count {
      let depth = Int(depths[node])
      let after = next[Int(states[depth - 1]) * classCount + Int(classOf[Int(bytes[node])])]
      guard after >= 0 else {
        node = Int(ends[node])
        continue
      }
      if accepting[Int(after)] { exits.append(Int32(truncatingIfNeeded: node)) }
      guard continues[Int(after)] else {
        node = Int(ends[node])
        continue
      }
      let (from, to) = (Int(tokenStart[node]), Int(tokenStart[node + 1]))
      if from < to {
        let cost = costs[Int(after)]
        if cost != run.cost {
          if !run.ids.isEmpty { found[run.cost, default: []].append(contentsOf: run.ids) }
          run = (cost, [])
        }
        for at in from..<to { run.ids.append(tokens[at]) }
      }
      states[depth] = after
      node += 1
    }
    if !run.ids.isEmpty { found[run.cost, default: []].append(contentsOf: run.ids) }
    return LeafMask(found: found, exits: exits, count: vocabulary.count)
  }
}

/// Leaf masks by place; all are forgotten when they would take more bytes than allowed.
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

  var byteCount: Int { content.withLock { $0.bytes } }

  func forget() { content.withLock { $0 = Content() } }

  /// - Parameters:
  ///   - limit: most bytes.
  ///   - make: is called without the lock; two threads may both make the same mask.
  func mask(_ key: Key, limit: Int, make: () -> LeafMask) -> LeafMask {
    if let known = content.withLock({ $0.masks[key] }) { return known }
    let made = make()
    content.withLock { content in
      if content.bytes + made.byteCount > limit { content = Content() }
      guard content.masks.updateValue(made, forKey: key) == nil else { return }
      content.bytes += made.byteCount
    }
    return made
  }
}
