// Token masks: the vocabulary's trie walked by the recogniser.

/// The recogniser with its masks, for one grammar. When it has grown too large, what a matcher holds is moved into a
/// fresh one.
struct MaskBuilder {
  let leaves: LeafMasks
  private(set) var recogniser: Recogniser
  private var masks: [Int32: (mask: TokenMask, maxCost: Int32)] = [:]
  private var maskBytes = 0
  /// The mask at hand.
  private var mask = UnfinishedMask(count: 0, limit: 0)
  /// Whether it was left unfinished.
  private var isGivenUp = false

  private var vocabulary: GrammarVocabulary { leaves.vocabulary }

  init(graph: GrammarGraph, vocabulary: GrammarVocabulary, leaves: LeafCache, memory: GrammarMemory) {
    self.leaves = LeafMasks(vocabulary: vocabulary, cache: leaves, memory: memory)
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
    let (whole, maxCost) = wholeMask(set, isUnwanted)
    // One token is kept for the end.
    if remaining - 2 >= Int(maxCost) { return whole }
    for reserve in [2, 1] where remaining >= reserve {
      let tight = build(set, limit: Int32(clamping: remaining - reserve), isUnwanted).tokens
      if !tight.isEmpty { return tight }
    }
    return whole
  }

  private mutating func wholeMask(_ set: Int32, _ isUnwanted: () -> Bool) -> (mask: TokenMask, maxCost: Int32)
  {
    if let known = masks[set] { return known }
    let built = build(set, limit: Cost.none - 1, isUnwanted)
    if !isGivenUp {
      masks[set] = (built.tokens, built.maxCost)
      maskBytes += built.tokens.words.count * 8 + 96
    }
    return (built.tokens, built.maxCost)
  }

  /// The tokens after which the answer can be completed with `limit` bytes.
  private mutating func build(_ set: Int32, limit: Int32, _ isUnwanted: () -> Bool) -> UnfinishedMask {
    mask = UnfinishedMask(count: vocabulary.count, limit: limit)
    for (number, item) in Array(recogniser.items(of: set)).enumerated() {
      // Of a few alternatives each asks when what comes after it is walked.
      if number & 15 == 15, !isGivenUp { isGivenUp = isUnwanted() }
      guard !isGivenUp else { break }
      guard item.node >= 0 else {
        mask.add(vocabulary.endTokens, cost: 0)
        continue
      }
      switch recogniser.graph.nodes[Int(item.node)] {
      case .token(let id):
        // First the step, which may add a set: the array must be read after it.
        let next = recogniser.resume(item.tail)
        mask.add(CollectionOfOne(id), cost: recogniser.costs[Int(next)])
      case .leaf(let leaf): add(OpenLeaf(leaf, item, vocabulary), isUnwanted)
      case .quote(let quote): add(OpenQuote(quote, item, vocabulary))
      case .sequence, .choice, .repeated, .object, .array: break
      }
    }
    for (leaving, sets) in mask.exits where !isGivenUp {
      // What no set can hold is followed one by one.
      let count = sets.reduce(0) { $0 + recogniser.items(of: $1).count }
      for set in count <= Recogniser.widestSet ? [recogniser.union(sets)] : sets {
        follow(leaving, set, isUnwanted)
      }
    }
    return mask
  }

  /// Adds the tokens that stay inside a leaf, and where others leave it.
  private mutating func add(_ open: OpenLeaf, _ isUnwanted: () -> Bool) {
    let (item, found) = (open.item, leaves.mask(of: open))
    let isDistinct = open.leaf.textCounts != nil
    if !found.inside.isEmpty {
      let below = recogniser.costs[Int(item.tail)]
      var inside = found.inside
      let maxCost = Cost.sum(open.maxCost(found), below)
      if maxCost > mask.limit {
        inside = leaves.costs(of: open, found).tokens(
          limit: mask.limit - below - open.beyond, count: vocabulary.count)
      }
      mask.add(isDistinct ? .many(distinct(item, inside)) : inside, maxCost: maxCost)
    }
    guard !found.leaving.exits.isEmpty else { return }
    guard isDistinct else {
      mask.leave(at: found.leaving, for: recogniser.resume(item.tail))
      return
    }
    let (seen, before) = recogniser.distinctPayload(item.payload)
    for exit in found.leaving.exits {
      var text = before
      for byte in vocabulary.trie.text(to: Int(exit)) { text = recogniser.appending(text, byte) }
      guard let next = recogniser.adding(text, to: seen) else { continue }
      walk(Int(exit), recogniser.resume(item.tail, seen: next), isUnwanted)
    }
  }

  /// The same for a quote.
  private mutating func add(_ open: OpenQuote) {
    let tail = open.item.tail
    let below = recogniser.costs[Int(tail)]
    var found = leaves.mask(of: open)
    let maxCost = Cost.sum(Cost.sum(found.maxCost, open.beyond), below)
    if maxCost > mask.limit { found = leaves.mask(of: open, costingAtMost: mask.limit - below) }
    if !found.inside.isEmpty { mask.add(found.inside, maxCost: maxCost) }
    if !found.leaving.exits.isEmpty { mask.leave(at: found.leaving, for: recogniser.resume(tail)) }
  }

  /// Tokens inside a leaf whose texts must differ: those that follow an earlier text may have no way on.
  ///
  /// - Parameter inside: the tokens that stay inside, whatever the texts are.
  private mutating func distinct(_ item: StackItem, _ inside: TokenSet) -> TokenMask {
    var own = inside.mask(count: vocabulary.count)
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
        for token in vocabulary.trie.tokens[vocabulary.trie.tokens(below: node)] { own.remove(token) }
        break
      }
    }
    return own
  }

  /// Adds the tokens that leave a leaf, where `set` is the set after it. What comes after the leaf is walked once,
  /// whichever texts of the leaf it follows.
  private mutating func follow(_ leaf: LeafExits, _ set: Int32, _ isUnwanted: () -> Bool) {
    guard set != Recogniser.empty else { return }
    let cost = recogniser.costs[Int(set)]
    if cost <= mask.limit, !leaf.ending.isEmpty { mask.add(leaf.ending, maxCost: cost) }
    for (index, byte) in leaf.bytes.enumerated() {
      let next = recogniser.step(set, byte)
      guard next != Recogniser.empty else { continue }
      walk(leaf.nodes[Int(leaf.starts[index])..<Int(leaf.starts[index + 1])], next, isUnwanted)
    }
  }

  /// Adds the tokens at and below nodes, where `set` is the set at all of them.
  private mutating func walk(_ roots: ArraySlice<Int32>, _ set: Int32, _ isUnwanted: () -> Bool) {
    let trie = vocabulary.trie
    var open: [(nodes: ArraySlice<Int32>, set: Int32)] = [(roots, set)]
    var children: [UInt64] = []
    while let (nodes, set) = open.popLast() {
      if !isGivenUp { isGivenUp = isUnwanted() }
      guard !isGivenUp else { return }
      if nodes.count == 1, let node = nodes.first {
        walk(Int(node), set, isUnwanted)
        continue
      }
      let cost = recogniser.costs[Int(set)]
      for node in nodes { mask.add(trie.tokens[trie.tokens(at: Int(node))], cost: cost) }
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
  private mutating func walk(_ root: Int, _ set: Int32, _ isUnwanted: () -> Bool) {
    if !isGivenUp { isGivenUp = isUnwanted() }
    guard set != Recogniser.empty, !isGivenUp else { return }
    let trie = vocabulary.trie
    let end = Int(trie.end[root])
    let base = Int(trie.depth[root])
    mask.add(trie.tokens[trie.tokens(at: root)], cost: recogniser.costs[Int(set)])
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
      mask.add(trie.tokens[trie.tokens(at: node)], cost: recogniser.costs[Int(next)])
      sets.removeLast(sets.count - depth)
      sets.append(next)
      node += 1
    }
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

/// A mask in the making.
private struct UnfinishedMask {
  /// The most bytes with which the answer must be completed after a token.
  let limit: Int32
  private(set) var tokens: TokenMask
  /// The most bytes that completing the answer takes after one of them, or more than that.
  private(set) var maxCost: Int32 = 0
  /// Where tokens leave leaves, and the sets after those that they leave at the same nodes: these are followed together,
  /// for they have much in common.
  private(set) var exits: [(leaving: LeafExits, sets: [Int32])] = []
  private var places: [ObjectIdentifier: Int] = [:]

  init(count: Int, limit: Int32) {
    self.limit = limit
    tokens = TokenMask(count: count)
  }

  /// Adds tokens after which the answer is completed with `cost` bytes, if that is within the limit.
  @inline(__always)
  mutating func add(_ more: some Collection<Int32>, cost: Int32) {
    guard !more.isEmpty, cost <= limit else { return }
    maxCost = max(maxCost, cost)
    tokens.insert(more)
  }

  /// Adds tokens that are within the limit.
  mutating func add(_ more: TokenSet, maxCost: Int32) {
    self.maxCost = max(self.maxCost, min(limit, maxCost))
    more.add(to: &tokens)
  }

  mutating func leave(at leaving: LeafExits, for set: Int32) {
    if let known = places[ObjectIdentifier(leaving)] {
      exits[known].sets.append(set)
    } else {
      places[ObjectIdentifier(leaving)] = exits.count
      exits.append((leaving, [set]))
    }
  }
}
