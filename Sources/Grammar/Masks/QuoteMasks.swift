// What the vocabulary can do inside a quote: the trie of the tokens and the suffix tree of the source, walked together.

/// A quote on top of a stack, and the key under which its mask is kept.
struct OpenQuote {
  let quote: QuoteLeaf
  let item: StackItem
  let key: LeafCache.Key
  /// Characters that must and may still come.
  let room: QuoteLeaf.Room
  /// The same as far as one token can tell, under which masks are kept.
  let nearRoom: QuoteLeaf.Room
  /// The most bytes by which completing the quote takes more than `nearRoom` tells.
  let beyond: Int32

  init(_ quote: QuoteLeaf, _ item: StackItem, _ vocabulary: GrammarVocabulary) {
    (self.quote, self.item) = (quote, item)
    room = quote.room(after: Int(item.payload))
    // A token with that many characters leaves one.
    let farthest = vocabulary.longestToken + 1
    let left = room.left == Int.max ? Int.max : min(room.left, farthest)
    nearRoom = QuoteLeaf.Room(missing: min(room.missing, farthest), left: left)
    let isNear = room.missing == nearRoom.missing && room.left == nearRoom.left
    beyond = isNear ? 0 : QuoteLeaf.largestCost(ofCharacters: room.missing - nearRoom.missing)
    key = LeafCache.Key(
      leaf: item.node, state: item.state, missing: Int32(clamping: nearRoom.missing),
      left: Int32(clamping: nearRoom.left))
  }
}

extension LeafMasks {
  /// The tokens that stay inside a quote, and where others leave it.
  func mask(of open: OpenQuote) -> LeafMask {
    if let known = cache.mask(open.key) { return known }
    let made = walked(open, open.nearRoom, costingAtMost: Cost.none)
    return cache.keep(made, open.key, isShared: false, limit: memory.leafLimit)
  }

  /// The same without the tokens that stay inside and after which the quote takes more bytes.
  func mask(of open: OpenQuote, costingAtMost limit: Int32) -> LeafMask {
    walked(open, open.room, costingAtMost: limit)
  }

  private func walked(
    _ open: OpenQuote, _ room: QuoteLeaf.Room, costingAtMost limit: Int32
  ) -> LeafMask {
    let walk = open.quote.use { steps in
      var walk = QuoteWalk(limit: limit, trie: vocabulary.trie)
      walk.run(from: open.key.state, room, &steps)
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
