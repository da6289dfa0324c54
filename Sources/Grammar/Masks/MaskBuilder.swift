// Token masks: the vocabulary's trie walked by the recogniser.

/// The recogniser with its masks, for one grammar. When it has grown too large, what a matcher holds is moved into a
/// fresh one.
struct MaskBuilder {
  let graph: GrammarGraph
  let vocabulary: GrammarVocabulary
  let leaves: LeafCache
  private(set) var recogniser: Recogniser
  private var masks: [Int32: (mask: TokenMask, worst: Int32)] = [:]
  private var maskBytes = 0
  /// Whether the mask at hand was left unfinished.
  private var isGivenUp = false

  private let memory: GrammarMemory

  init(graph: GrammarGraph, vocabulary: GrammarVocabulary, leaves: LeafCache, memory: GrammarMemory) {
    self.graph = graph
    self.vocabulary = vocabulary
    self.leaves = leaves
    self.memory = memory
    recogniser = Recogniser(graph: graph)
  }

  /// The set at the start of an answer.
  mutating func start(isUnwanted: () -> Bool = { false }) -> Int32 {
    recogniser.begin()
    return recogniser.start(isUnwanted: isUnwanted)
  }

  /// Whether the start was found, and not left because nobody waited.
  var hasStarted: Bool { recogniser.started != nil }

  /// Whether the last question took more steps than it may, so that stacks are missing.
  var isCut: Bool { recogniser.isCut }

  func cost(_ set: Int32) -> Int32 { recogniser.costs[Int(set)] }

  func canEnd(_ set: Int32) -> Bool { recogniser.items(of: set).contains { $0.node < 0 } }

  func mustEnd(_ set: Int32) -> Bool { set == Recogniser.ended }

  /// The set after a token; the empty set when it is not allowed.
  mutating func step(_ set: Int32, token: Int32) -> Int32 {
    recogniser.begin()
    let marked = recogniser.step(set, token: token)
    let bytes = vocabulary.bytes(of: token)
    guard !bytes.isEmpty else { return marked }
    var at = set
    for byte in bytes {
      at = recogniser.step(at, byte)
      if at == Recogniser.empty { break }
    }
    return marked == Recogniser.empty ? at : recogniser.union(marked, at)
  }

  // MARK: Masks

  /// - Parameter isUnwanted: whether nobody waits for the mask any more; asked now and then. Part of a mask, which is not
  ///   remembered, where that is so.
  mutating func mask(
    _ set: Int32, remaining: Int, isUnwanted: () -> Bool = { false }
  ) -> TokenMask {
    recogniser.begin()
    isGivenUp = false
    let (mask, worst) = fullMask(set, isUnwanted)
    // One token is kept for the end.
    if remaining - 2 >= Int(worst) { return mask }
    for reserve in [2, 1] where remaining >= reserve {
      let tight = build(set, limit: Int32(clamping: remaining - reserve), isUnwanted).mask
      if !tight.isEmpty { return tight }
    }
    return mask
  }

  private mutating func fullMask(
    _ set: Int32, _ isUnwanted: () -> Bool
  ) -> (mask: TokenMask, worst: Int32) {
    if let known = masks[set] { return known }
    let built = build(set, limit: Cost.none - 1, isUnwanted)
    guard !isGivenUp else { return built }
    masks[set] = built
    maskBytes += built.mask.words.count * 8 + 96
    return built
  }

  /// The tokens after which the answer can be completed with `limit` bytes, and the most bytes that one needs.
  private mutating func build(
    _ set: Int32, limit: Int32, _ isUnwanted: () -> Bool
  ) -> (mask: TokenMask, worst: Int32) {
    var mask = TokenMask(count: vocabulary.count)
    var worst: Int32 = 0
    var exits = Exits()
    var covered: PlainSet?
    var wide: [WideLeaf] = []
    for (number, item) in Array(recogniser.items(of: set)).enumerated() {
      // Of a few alternatives each asks when what comes after it is walked.
      if number & 15 == 15, !isGivenUp { isGivenUp = isUnwanted() }
      guard !isGivenUp else { break }
      guard item.node >= 0 else {
        for token in vocabulary.endTokens { mask.insert(token) }
        continue
      }
      switch graph.nodes[Int(item.node)] {
      case .token(let id):
        // First the step, which may add a set: the array must be read after it.
        let next = recogniser.resume(item.tail)
        let cost = recogniser.costs[Int(next)]
        if cost <= limit {
          mask.insert(id)
          worst = max(worst, cost)
        }
      case .leaf(let leaf):
        let open = OpenLeaf(leaf, item, vocabulary)
        switch look(at: open) {
        case .mask(let found): add(open, found, limit, &mask, &worst, &exits, &covered, isUnwanted)
        case .wide(let reach):
          wide.append(WideLeaf(open: open, reach: reach, plain: open.plain(reach, vocabulary)))
        }
      case .sequence, .choice, .repeated, .object, .array: break
      }
    }
    // Those first that let most plain text through: it need not be looked at in the others.
    if wide.count > 1 {
      wide.sort { vocabulary.plain.count($0.plain) > vocabulary.plain.count($1.plain) }
    }
    for leaf in wide {
      isGivenUp = isGivenUp || isUnwanted()
      guard !isGivenUp else { break }
      // With a limit, each token of a leaf may be looked at.
      let (open, found) = walked(leaf, covered: limit == Cost.none - 1 ? covered : nil)
      add(open, found, limit, &mask, &worst, &exits, &covered, isUnwanted)
    }
    for (leaving, sets) in exits.all where !isGivenUp {
      // What no set can hold is followed one by one.
      let count = sets.reduce(0) { $0 + recogniser.items(of: $1).count }
      for set in count <= Recogniser.widestSet ? [recogniser.union(sets)] : sets {
        follow(leaving, set, limit, &mask, &worst, isUnwanted)
      }
    }
    return (mask, worst)
  }

  /// Where tokens leave leaves, and the sets after those that they leave at the same nodes: these are followed together,
  /// for they have much in common.
  private struct Exits {
    private var place: [ObjectIdentifier: Int] = [:]
    private(set) var all: [(leaving: LeafExits, sets: [Int32])] = []

    mutating func add(_ leaving: LeafExits, _ set: Int32) {
      if let known = place[ObjectIdentifier(leaving)] {
        all[known].sets.append(set)
      } else {
        place[ObjectIdentifier(leaving)] = all.count
        all.append((leaving, [set]))
      }
    }
  }

  /// A leaf on top of a stack, and where what is found of it is kept.
  private struct OpenLeaf {
    let leaf: GrammarLeaf
    let item: StackItem
    var key: LeafCache.Key
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

    /// The most tokens that surely stay inside.
    func plain(_ reach: PlainReach, _ vocabulary: GrammarVocabulary) -> PlainSet? {
      let most = room.map { UInt8(clamping: $0.plain) } ?? PlainReach.endless
      return vocabulary.plain.set(reach.best(item.state).map { ($0.kinds, min($0.count, most)) })
    }

    /// Bytes of the characters that are missing, but for those that a token can tell.
    var beyond: Int32 { Cost.product(leaf.length?.counts.width ?? 0, missing - Int(key.missing)) }

    /// The most bytes that completing the leaf takes after a token that stays inside, or more than that.
    func dearest(_ inside: LeafMask) -> Int32 {
      guard let counts = leaf.length?.counts else { return inside.dearest }
      return Cost.sum(counts.dearest, Cost.product(counts.width, missing))
    }
  }

  /// Adds the tokens of a leaf, and where they leave it.
  ///
  /// - Parameter covered: the most plain tokens of one leaf that were added.
  private mutating func add(
    _ open: OpenLeaf, _ inside: LeafMask, _ limit: Int32, _ mask: inout TokenMask, _ worst: inout Int32,
    _ exits: inout Exits, _ covered: inout PlainSet?, _ isUnwanted: () -> Bool
  ) {
    let (leaf, item) = (open.leaf, open.item)
    if !inside.inside.isEmpty {
      let below = recogniser.costs[Int(item.tail)]
      let dearest = Cost.sum(open.dearest(inside), below)
      worst = max(worst, min(limit, dearest))
      var own = TokenMask(count: leaf.textCounts == nil ? 0 : vocabulary.count)
      if dearest <= limit {
        if leaf.textCounts == nil {
          inside.inside.add(to: &mask)
          if vocabulary.plain.count(inside.plain) > vocabulary.plain.count(covered) { covered = inside.plain }
        } else {
          inside.inside.add(to: &own)
        }
      } else {
        let costs = leafCosts(open, inside)
        let limit = limit - below - open.beyond
        if leaf.textCounts == nil {
          costs.add(to: &mask, limit: limit)
        } else {
          costs.add(to: &own, limit: limit)
        }
      }
      if leaf.textCounts != nil { addDistinct(item, own, &mask) }
    }
    let leaving = inside.leaving
    guard !leaving.exits.isEmpty else { return }
    guard leaf.textCounts != nil else {
      exits.add(leaving, recogniser.resume(item.tail))
      return
    }
    let (seen, before) = recogniser.distinctPayload(item.payload)
    for exit in leaving.exits {
      var text = before
      for byte in vocabulary.trie.text(to: Int(exit)) { text = recogniser.appending(text, byte) }
      guard let next = recogniser.adding(text, to: seen) else { continue }
      walk(Int(exit), recogniser.resume(item.tail, seen: next), limit, &mask, &worst, isUnwanted)
    }
  }

  /// A leaf for whose mask much of the vocabulary must be walked.
  private struct WideLeaf {
    let open: OpenLeaf
    let reach: PlainReach
    /// Tokens that surely stay inside.
    let plain: PlainSet?
  }

  private enum Look {
    case mask(LeafMask)
    /// What its automaton does with plain text.
    case wide(PlainReach)
  }

  /// The mask of a leaf, unless much of the vocabulary must be walked for it.
  private func look(at open: OpenLeaf) -> Look {
    let (leaf, key, limit) = (open.leaf, open.key, memory.leafLimit)
    if let mask = leaves.known(key) { return .mask(mask) }
    if leaf.isAnyString, let length = leaf.length {
      // The closures name what they take: with `self` they would take a copy of the whole builder.
      return .mask(
        leaves.mask(key, limit: limit) { [vocabulary] in
          vocabulary.reach(leaf.dfa, length.counts, key.state).mask(
            missing: Int(key.missing), left: Int(key.left), vocabulary: vocabulary)
        })
    }
    let isWide = PlainReach.mayHelp(leaf.dfa, key.state)
    // Kin know by a look which of their states behave like shared ones.
    let kin =
      isWide && open.room == nil && !CommonLanguages.isShared(leaf.dfa)
      ? leaves.kindred(key.leaf, leaf.dfa, limit: limit) : nil
    let known: LeafMask? =
      if let kin {
        leaves.mask(of: key.state, kin, vocabulary, limit: limit)
      } else if open.room != nil {
        nil
      } else {
        SharedState(leaf.dfa, key.state).flatMap { vocabulary.mask($0) }
      }
    if let known { return .mask(leaves.mask(key, limit: limit) { (known, true) }) }
    if isWide { return .wide(leaves.reach(key.leaf, leaf.dfa, limit: limit)) }
    return .mask(walked(open, nil, plain: nil))
  }

  /// The mask of a leaf for which the vocabulary is walked.
  ///
  /// - Parameter covered: plain tokens that are allowed whatever the leaf does: its mask may say nothing of them.
  private func walked(_ leaf: WideLeaf, covered: PlainSet?) -> (open: OpenLeaf, mask: LeafMask) {
    var open = leaf.open
    if vocabulary.plain.count(covered) > vocabulary.plain.count(leaf.plain) { open.key.covered = covered }
    return (open, walked(open, leaf.reach, plain: leaf.plain))
  }

  private func walked(_ open: OpenLeaf, _ reach: PlainReach?, plain: PlainSet?) -> LeafMask {
    let (dfa, key, limit) = (open.leaf.dfa, open.key, memory.leafLimit)
    return leaves.mask(key, limit: limit) { [leaves, vocabulary] in
      let mask = LeafMask.make(
        dfa, state: key.state, reach: reach, plain: plain, covered: key.covered, room: open.room,
        vocabulary: vocabulary
      ) {
        leaves.leaving($0, vocabulary, limit: limit)
      }
      return (mask, false)
    }
  }

  /// - Returns: the costs, short of the characters that are missing beyond what a token can tell.
  private func leafCosts(_ open: OpenLeaf, _ inside: LeafMask) -> LeafCosts {
    let (leaf, key) = (open.leaf, open.key)
    if leaf.isAnyString, let length = leaf.length {
      return vocabulary.reach(leaf.dfa, length.counts, key.state).costs(
        missing: Int(key.missing), left: Int(key.left))
    }
    return leaves.costs(key, limit: memory.leafLimit) { [vocabulary] in
      LeafCosts.make(
        leaf, state: key.state, missing: Int(key.missing), inside: inside, vocabulary: vocabulary)
    }
  }

  /// Tokens inside a leaf whose texts must differ: those that follow an earlier text may have no way on.
  ///
  /// - Parameter inside: the tokens that stay inside, whatever the texts are.
  private mutating func addDistinct(_ item: StackItem, _ inside: TokenMask, _ mask: inout TokenMask) {
    var own = inside
    let (seen, before) = recogniser.distinctPayload(item.payload)
    let length = recogniser.bytes(ofText: before).count
    let set = recogniser.single(item)
    for earlier in recogniser.texts(recogniser.list(seen), from: before) {
      var node = 0
      var at = set
      for byte in recogniser.bytes(ofText: earlier).dropFirst(length) {
        guard let child = vocabulary.trie.child(of: node, byte) else { break }
        node = child
        at = recogniser.step(at, byte)
        guard !recogniser.items(of: at).contains(where: { $0.node == item.node && $0.tail == item.tail })
        else {
          continue
        }
        // Nothing inside the leaf goes on from here.
        for next in node..<Int(vocabulary.trie.end[node]) {
          for token in vocabulary.trie.tokens[vocabulary.trie.tokens(at: next)] { own.remove(token) }
        }
        break
      }
    }
    mask.formUnion(own)
  }

  /// Adds the tokens that leave a leaf, where `set` is the set after it. What comes after the leaf is walked once,
  /// whichever texts of the leaf it follows.
  private mutating func follow(
    _ leaf: LeafExits, _ set: Int32, _ limit: Int32, _ mask: inout TokenMask, _ worst: inout Int32,
    _ isUnwanted: () -> Bool
  ) {
    guard set != Recogniser.empty else { return }
    let cost = recogniser.costs[Int(set)]
    if cost <= limit, !leaf.ending.isEmpty {
      leaf.ending.add(to: &mask)
      worst = max(worst, cost)
    }
    for (index, byte) in leaf.bytes.enumerated() {
      let next = recogniser.step(set, byte)
      guard next != Recogniser.empty else { continue }
      let nodes = leaf.nodes[Int(leaf.starts[index])..<Int(leaf.starts[index + 1])]
      walk(nodes, next, limit, &mask, &worst, isUnwanted)
    }
  }

  /// Adds the tokens at and below nodes, where `set` is the set at all of them.
  private mutating func walk(
    _ roots: ArraySlice<Int32>, _ set: Int32, _ limit: Int32, _ mask: inout TokenMask, _ worst: inout Int32,
    _ isUnwanted: () -> Bool
  ) {
    let trie = vocabulary.trie
    var open: [(nodes: ArraySlice<Int32>, set: Int32)] = [(roots, set)]
    var children: [UInt64] = []
    while let (nodes, set) = open.popLast() {
      if !isGivenUp { isGivenUp = isUnwanted() }
      guard !isGivenUp else { return }
      if nodes.count == 1, let node = nodes.first {
        walk(Int(node), set, limit, &mask, &worst, isUnwanted)
        continue
      }
      for node in nodes { add(Int(node), set, limit, &mask, &worst) }
      children.removeAll(keepingCapacity: true)
      trie.eachChild(of: nodes) { children.append(UInt64(trie.byte[$0]) << 32 | UInt64($0)) }
      children.sort()
      var from = 0
      while from < children.count {
        let byte = UInt8(truncatingIfNeeded: children[from] >> 32)
        var to = from + 1
        while to < children.count, children[to] >> 32 == UInt64(byte) { to += 1 }
        let next = recogniser.step(set, byte)
        if next != Recogniser.empty {
          open.append((children[from..<to].map { Int32(truncatingIfNeeded: $0) }[...], next))
        }
        from = to
      }
    }
  }

  /// The same for one node.
  private mutating func walk(
    _ root: Int, _ set: Int32, _ limit: Int32, _ mask: inout TokenMask, _ worst: inout Int32,
    _ isUnwanted: () -> Bool
  ) {
    if !isGivenUp { isGivenUp = isUnwanted() }
    guard set != Recogniser.empty, !isGivenUp else { return }
    let trie = vocabulary.trie
    let end = Int(trie.end[root])
    let base = Int(trie.depth[root])
    add(root, set, limit, &mask, &worst)
    guard root + 1 < end else { return }
    var sets = [set]
    var node = root + 1
    var visits = 0
    while node < end {
      visits &+= 1
      if visits & 1023 == 0, isUnwanted() {
        isGivenUp = true
        return
      }
      let depth = Int(trie.depth[node]) - base
      let next = recogniser.step(sets[depth - 1], trie.byte[node])
      guard next != Recogniser.empty else {
        node = Int(trie.end[node])
        continue
      }
      add(node, next, limit, &mask, &worst)
      sets.removeLast(sets.count - depth)
      sets.append(next)
      node += 1
    }
  }

  @inline(__always)
  private func add(
    _ node: Int, _ set: Int32, _ limit: Int32, _ mask: inout TokenMask, _ worst: inout Int32
  ) {
    let tokens = vocabulary.trie.tokens(at: node)
    guard !tokens.isEmpty else { return }
    let cost = recogniser.costs[Int(set)]
    guard cost <= limit else { return }
    worst = max(worst, cost)
    for token in vocabulary.trie.tokens[tokens] { mask.insert(token) }
  }

  // MARK: Moving

  var byteCount: Int { recogniser.byteCount + maskBytes }

  /// Takes over a set of another builder of the same grammar.
  mutating func adopt(_ set: Int32, from other: MaskBuilder) -> Int32 {
    var known: [Int32: Int32] = [:]
    recogniser.begin()
    return recogniser.adopt(set, from: other.recogniser, &known)
  }
}
