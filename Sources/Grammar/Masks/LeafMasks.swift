// What the vocabulary can do inside one leaf of a grammar, and the ways to find that without walking all of it.
//
// `WholeWalk.leaf` says what is found. All else is only faster, and tests compare each with it:
//
// | Shortcut | Holds when | Saves |
// |---|---|---|
// | `kept` | the grammar has been at this state | everything, the second time |
// | `counted` | a leaf of all strings, with bounds on their characters | one walk for all counts: a fifth of the time of all masks |
// | `changed` | the automaton is a shared one but for a few texts, as all keys but the declared ones | all but the few texts: a third of the 99th percentile |
// | `shared` | the same texts follow as in a state that all grammars share | the walk: a third of the 99th percentile |
// | `TokenSlice` in `walked` | characters of some kinds all lead on | 96 % of the tokens: a third of the time of all masks |
// | `SliceReach.counts` in `walked` | the same, from a state inside the walk | the part of the trie below it: a third of the slowest mask |
// | `MaskBuilder.follow` | several texts of a leaf, or several leaves, go on in the same way | a walk for each of them |
//
// The shares are those of `schemas.py` (docs/decisions/008); what is worth less than a tenth there goes. The last is worth
// a twentieth there, and stays for single schemas of many alternatives whose largest masks took 9 ms without it, and 0.5 with.

/// The masks of the leaves of one grammar.
struct LeafMasks: Sendable {
  let vocabulary: GrammarVocabulary
  let cache: LeafCache
  let memory: GrammarMemory

  /// The tokens that stay inside, and where others leave the leaf.
  func mask(of open: OpenLeaf) -> LeafMask {
    kept(open) ?? counted(open) ?? changed(open) ?? shared(open) ?? walked(open)
  }

  // MARK: Only faster

  private func kept(_ open: OpenLeaf) -> LeafMask? { cache.mask(open.key) }

  private func counted(_ open: OpenLeaf) -> LeafMask? {
    guard let reach = reach(of: open) else { return nil }
    let (mask, isShared) = reach.mask(
      missing: Int(open.key.missing), left: Int(open.key.left), vocabulary: vocabulary)
    return cache.keep(mask, open.key, isShared: isShared, limit: memory.leafLimit)
  }

  private func changed(_ open: OpenLeaf) -> LeafMask? {
    guard let delta = delta(of: open), let (mask, isShared) = delta.mask(of: open.key.state, vocabulary)
    else { return nil }
    return cache.keep(mask, open.key, isShared: isShared, limit: memory.leafLimit)
  }

  private func shared(_ open: OpenLeaf) -> LeafMask? {
    // A delta knows by a look which of its states behave like shared ones.
    guard open.room == nil, delta(of: open) == nil,
      let mask = SharedState(open.leaf.dfa, open.key.state).flatMap({ vocabulary.mask($0) })
    else { return nil }
    return cache.keep(mask, open.key, isShared: true, limit: memory.leafLimit)
  }

  // MARK: The walk

  private func walked(_ open: OpenLeaf) -> LeafMask {
    let (dfa, limit) = (open.leaf.dfa, memory.leafLimit)
    let reach =
      SliceReach.mayHelp(dfa, open.key.state) ? cache.reach(open.key.leaf, dfa, limit: limit) : nil
    let mask = LeafMask.make(
      dfa, state: open.key.state, reach: reach, room: open.room, vocabulary: vocabulary
    ) {
      cache.leaving($0, vocabulary, limit: limit)
    }
    return cache.keep(mask, open.key, isShared: false, limit: limit)
  }

  /// What completing the leaf costs after its tokens, short of the characters that are missing beyond what a token can tell.
  func costs(of open: OpenLeaf, _ inside: LeafMask) -> LeafCosts {
    let key = open.key
    if let reach = reach(of: open) { return reach.costs(missing: Int(key.missing), left: Int(key.left)) }
    return cache.costs(key, limit: memory.leafLimit) {
      LeafCosts.make(
        open.leaf, state: key.state, missing: Int(key.missing), inside: inside, vocabulary: vocabulary)
    }
  }

  private func reach(of open: OpenLeaf) -> StringReach? {
    guard open.leaf.isAnyString, let length = open.leaf.length else { return nil }
    return vocabulary.reach(open.leaf.dfa, length.counts, open.key.state)
  }

  private func delta(of open: OpenLeaf) -> AutomatonDelta? {
    guard open.room == nil, SliceReach.mayHelp(open.leaf.dfa, open.key.state),
      !CommonLanguages.isShared(open.leaf.dfa)
    else { return nil }
    return cache.delta(open.key.leaf, open.leaf.dfa, limit: memory.leafLimit)
  }
}

/// A leaf on top of a stack, and the key under which its mask is kept.
struct OpenLeaf {
  let leaf: GrammarLeaf
  let item: StackItem
  private(set) var key: LeafCache.Key
  /// Characters that must still come.
  let missing: Int
  /// For characters, where they are counted and a token can tell.
  let room: CharacterRoom?

  init(_ leaf: GrammarLeaf, _ item: StackItem, _ vocabulary: GrammarVocabulary) {
    (self.leaf, self.item) = (leaf, item)
    key = LeafCache.Key(leaf: item.node, state: item.state, missing: 0, left: 0)
    guard let length = leaf.length else {
      (missing, room) = (0, nil)
      return
    }
    let counts = length.counts
    missing = max(0, length.min - Int(item.payload))
    let left = length.max == Int.max ? Int.max : length.max - Int(item.payload)
    // What no token can reach makes no difference.
    let farthest = vocabulary.longestToken + counts.largestLeast
    let room = CharacterRoom(
      missing: min(missing, farthest + counts.largestMost + 1), left: min(left, farthest), counts: counts)
    (key.missing, key.left) = (Int32(clamping: room.missing), Int32(clamping: room.left))
    if missing == 0, left >= farthest, !leaf.isAnyString {
      // The automaton alone decides.
      key.left = Int32.max
      self.room = nil
    } else {
      self.room = room
    }
  }

  /// Bytes of the characters that are missing, but for those that a token can tell.
  var beyond: Int32 { Cost.product(leaf.length?.counts.width ?? 0, missing - Int(key.missing)) }

  /// The most bytes that completing the leaf takes after a token that stays inside, or more than that.
  func maxCost(_ inside: LeafMask) -> Int32 {
    guard let counts = leaf.length?.counts else { return inside.maxCost }
    return Cost.sum(counts.maxCost, Cost.product(counts.width, missing))
  }
}

/// Characters that must still come in a string, and that may.
struct CharacterRoom {
  var missing: Int
  var left: Int
  let counts: CharacterCounts

  /// So many unescaped characters may come in any state, whichever they are.
  var unescaped: Int { missing > 0 && !counts.isEndless ? 0 : max(0, left - counts.largestLeast) }

  /// Whether a text may still come to an end from a state after so many characters.
  @inline(__always)
  func allows(_ state: Int32, after count: Int) -> Bool {
    counts.allow(state, after: count, min: missing, max: left)
  }
}
