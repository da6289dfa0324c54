// What the vocabulary can do inside a string whose characters are counted, whatever the count: one walk for all counts.

/// The tokens that stay inside a string from one state of its automaton, by the characters that they begin.
final class StringReach: Sendable {
  /// Tokens that begin as many characters and leave the string to be closed with as many bytes.
  private struct Group {
    let characters: Int
    let cost: Int32
    let tokens: [Int32]
  }

  private let groups: [Group]
  /// Nodes of the trie at which the string is complete, and the characters up to there.
  private let exits: [(node: Int32, characters: Int)]

  init(_ string: ByteDFA, state: Int32, vocabulary: GrammarVocabulary) {
    struct Key: Hashable {
      var characters: Int
      var cost: Int32
    }
    let trie = vocabulary.trie
    var states = [Int32](repeating: state, count: vocabulary.longestToken + 1)
    var counts = [Int](repeating: 0, count: vocabulary.longestToken + 1)
    var found: [Key: [Int32]] = [:]
    // Neighbours in the trie are nearly always of one group.
    var run = (key: Key(characters: -1, cost: 0), tokens: [Int32]())
    var exits: [(node: Int32, characters: Int)] = []
    var node = 1
    while node < trie.count {
      let depth = Int(trie.depth[node])
      let before = states[depth - 1]
      let after = string.step(before, trie.byte[node])
      guard after >= 0 else {
        node = Int(trie.end[node])
        continue
      }
      let isBegun = GrammarLeaf.beginsCharacter(before, trie.byte[node])
      let count = counts[depth - 1] + (isBegun ? 1 : 0)
      if string.accepting[Int(after)] { exits.append((Int32(truncatingIfNeeded: node), count)) }
      guard string.continues[Int(after)] else {
        node = Int(trie.end[node])
        continue
      }
      let tokens = trie.tokens(at: node)
      if !tokens.isEmpty {
        let key = Key(characters: count, cost: string.cost[Int(after)])
        if key != run.key {
          found[run.key, default: []] += run.tokens
          run = (key, [])
        }
        run.tokens += trie.tokens[tokens]
      }
      states[depth] = after
      counts[depth] = count
      node += 1
    }
    found[run.key, default: []] += run.tokens
    groups = found.filter { !$0.value.isEmpty }
      .map { Group(characters: $0.key.characters, cost: $0.key.cost, tokens: $0.value) }
    self.exits = exits
  }

  /// - Parameters:
  ///   - missing: characters that must still come.
  ///   - left: characters that may still come.
  ///   - count: tokens of the vocabulary.
  func mask(missing: Int, left: Int, count: Int) -> LeafMask {
    var found: [Int32: [Int32]] = [:]
    for group in groups where group.characters <= left {
      let cost = Cost.sum(group.cost, Int32(clamping: max(0, missing - group.characters)))
      found[cost, default: []] += group.tokens
    }
    let open = exits.filter { $0.characters >= missing && $0.characters <= left }
    return LeafMask(found: found, exits: open.map(\.node), count: count)
  }
}
