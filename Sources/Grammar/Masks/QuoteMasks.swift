// What the vocabulary can do inside a quote: the trie of the tokens and the suffix tree of the source, walked together.

/// A quote on top of a stack, and the key under which its mask is kept.
struct OpenQuote {
  let quote: QuoteLeaf
  let item: StackItem
  let key: LeafCache.Key
  /// Characters that must and may still come, as far as one token can tell.
  let room: QuoteLeaf.Room
  /// Bytes of those that must come beyond that.
  let beyond: Int32

  init(_ quote: QuoteLeaf, _ item: StackItem, _ vocabulary: GrammarVocabulary) {
    (self.quote, self.item) = (quote, item)
    let (whole, farthest) = (quote.room(after: Int(item.payload)), vocabulary.longestToken + 1)
    room = QuoteLeaf.Room(missing: min(whole.missing, farthest), left: min(whole.left, farthest))
    beyond = QuoteLeaf.cost(ofCharacters: whole.missing - room.missing)
    key = LeafCache.Key(
      leaf: item.node, state: item.state, missing: Int32(clamping: room.missing),
      left: Int32(clamping: room.left))
  }
}

extension LeafMasks {
  /// The tokens that stay inside a quote, and where others leave it.
  func mask(of open: OpenQuote) -> LeafMask {
    if let known = cache.mask(open.key) { return known }
    return cache.keep(walked(open), open.key, isShared: false, limit: memory.leafLimit)
  }

  /// - Parameter limit: tokens that stay inside are left out where completing the quote then takes more bytes.
  func walked(_ open: OpenQuote, costingAtMost limit: Int32 = Cost.none) -> LeafMask {
    let walk = open.quote.use { steps in
      var walk = QuoteWalk(limit: limit, trie: vocabulary.trie)
      walk.run(from: open.key.state, open.room, &steps)
      return walk
    }
    return LeafMask(
      inside: TokenSet(walk.inside, count: vocabulary.count), maxCost: walk.maxCost,
      leaving: walk.exits.isEmpty
        ? .none : cache.leaving(walk.exits, vocabulary, limit: memory.leafLimit))
  }
}

/// One walk over the vocabulary inside a quote.
private struct QuoteWalk {
  let limit: Int32
  let trie: TokenTrie
  private(set) var inside: [Int32] = []
  private(set) var exits: [Int32] = []
  /// The most bytes that completing the quote takes after one of `inside`.
  private(set) var maxCost: Int32 = 0

  private typealias Place = (node: Int, state: Int32, room: QuoteLeaf.Room)
  private var open: [Place] = []

  init(limit: Int32, trie: TokenTrie) { (self.limit, self.trie) = (limit, trie) }

  /// The exits are in the order of the trie, as those of other leaves are.
  mutating func run(from state: Int32, _ room: QuoteLeaf.Room, _ steps: inout QuoteLeaf.Steps) {
    let trie = trie
    open = [(0, state, room)]
    while let place = open.popLast() {
      // Only faster: where the source has one place left, one byte can come, and the other children are not tried.
      if let byte = steps.onlyByte(place.state) {
        if let child = trie.child(of: place.node, byte) { follow(child, place, &steps) }
      } else {
        trie.eachChild(of: CollectionOfOne(Int32(truncatingIfNeeded: place.node))) { child in
          follow(child, place, &steps)
        }
      }
    }
    exits.sort()
  }

  private mutating func follow(_ child: Int, _ place: Place, _ steps: inout QuoteLeaf.Steps) {
    guard let step = steps.step(place.state, place.room, trie.byte[child]) else { return }
    if step.mayEnd { exits.append(Int32(truncatingIfNeeded: child)) }
    guard step.goesOn else { return }
    let room = place.room.after(step)
    let cost = steps.cost(step.state, room)
    if cost <= limit {
      let tokens = trie.tokens[trie.tokens(at: child)]
      if !tokens.isEmpty { maxCost = max(maxCost, cost) }
      inside += tokens
    }
    open.append((child, step.state, room))
  }
}
