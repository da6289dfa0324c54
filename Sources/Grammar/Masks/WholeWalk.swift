// The slow twin of all masks: each token by itself, byte by byte. It says what a mask is; all else here is only faster.

/// For tests: every shortcut is compared with it.
enum WholeWalk {
  /// The tokens after which an answer can be completed with `limit` bytes, and end tokens where it may end.
  static func mask(_ set: Int32, limit: Int32 = Cost.none - 1, _ builder: inout MaskBuilder) -> TokenMask {
    let vocabulary = builder.leaves.vocabulary
    var mask = TokenMask(count: vocabulary.count)
    if builder.canEnd(set) { mask.insert(vocabulary.endTokens) }
    for token in 0..<Int32(clamping: vocabulary.count) {
      let next = builder.step(set, token: token)
      if next != Recogniser.empty, builder.cost(next) <= limit { mask.insert(token) }
    }
    return mask
  }

  /// The tokens that stay inside a leaf from a state, and the nodes of the trie at which it may be left.
  static func leaf(
    _ dfa: ByteDFA, state: Int32, room: CharacterRoom? = nil, _ vocabulary: GrammarVocabulary
  ) -> LeafMask {
    let trie = vocabulary.trie
    var (inside, exits, maxCost) = ([Int32](), [Int32](), Int32(0))
    for node in trie.byte.indices.dropFirst() {
      var (at, begun) = (state, 0)
      for byte in trie.text(to: node) where at >= 0 {
        if let room, room.counts.begins(at, byte) { begun += 1 }
        at = dfa.step(at, byte)
        if let room, at >= 0, !room.allows(at, after: begun) { at = -1 }
      }
      guard at >= 0 else { continue }
      if dfa.accepting[Int(at)] { exits.append(Int32(clamping: node)) }
      let tokens = trie.tokens[trie.tokens(at: node)]
      guard dfa.continues[Int(at)], !tokens.isEmpty else { continue }
      inside += tokens
      maxCost = max(maxCost, dfa.cost[Int(at)])
    }
    return LeafMask(
      inside: TokenSet(inside, count: vocabulary.count), maxCost: maxCost,
      leaving: LeafExits(exits, vocabulary: vocabulary))
  }
}
