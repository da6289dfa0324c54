// Keys and values of earlier prompts and answers, kept for sequences that begin with the same tokens.
//
// KV blocks form a tree: a block's parent holds the tokens before it, so a path from the root is a prefix. A block is
// found by its parent and its own tokens, compared token by token: no hash has to be trusted. What is found is the
// very memory that computing it again would fill with the same bits, because nothing in a forward pass depends on
// how a prompt was cut into steps. Full blocks are shared; of a block that agrees only in its first tokens, and of
// the unfilled last block of a text, a copy is made. When blocks run out, leaves that nobody has used again go first, of
// equals the one that was used longest ago: where two conversations do not fit together, one of them stays whole, while
// plain recency would have each push the other out. Every use of a block raises its rank by one step above the rank that
// was given up last, so that old merits fade (greedy dual, Cherkasova 1998).
//
// Where a model has recurrent layers, some blocks have the state after their last token beside them. A sequence can only
// go on where there is one: what is found ends with such a block, and an unfilled block is of use as a whole.
//
// Where a model has sliding layers, a sequence can only go on where their last window is whole. When blocks run out, the
// sliding part of blocks inside of texts goes first: what is left still continues every text at its end, and where texts
// part.
//
// Blocks live long and are many: what is kept of them lies in a few large pieces. A piece of its own for each would keep a
// page of the heap, wherever it lies among what requests need for a moment.

import Compute

/// Pure bookkeeping over `BlockPool`; engine thread only.
struct PrefixCache {
  /// Sequences with different roots share nothing.
  struct Root: Hashable {
    /// Keys rotated by one variant are useless to another.
    var ropeVariant: Int
    /// 0 where tenants share their prefixes.
    var tenant: UInt64 = 0
    /// What another adapter has computed, or none, is another model's.
    var adapter: AdapterChoice?
  }

  fileprivate enum Parent: Hashable {
    case root(Root)
    case entry(Int)
  }

  /// What blocks are found by that agree in a part only.
  private struct Beginning: Hashable {
    let parent: Parent
    let first: Int32
  }

  private struct Entry {
    let parent: Parent
    /// A block's worth of them, or fewer for the last block of a text.
    let tokens: TokenSlots.Place
    /// Of parent and tokens.
    let hash: Int
    /// Of all tokens from the root on.
    let content: Int
    /// The next entry of the same hash.
    var nextEqual: Int?
    /// Neighbours among the entries that begin alike.
    var older: Int?
    var younger: Int?
    var block: Int32
    /// For the disk; nil without one, and for blocks that are not full.
    let name: String?
    /// The slot of the state after the block's tokens.
    var state: Int32?
    var children = 0
    var lastUse: UInt64
    /// Sequences that have used it, the one that has computed it included, at most `mostUses`.
    var uses: Int
    /// What it is worth: lower ones are given up first.
    var rank: Int
    /// Whether the cache holds the sliding layers' part too.
    var isWhole = true
    /// Whether another sequence has used it since it was computed.
    var isHot = false
  }

  private var entries: [Int: Entry] = [:]
  private var slots = TokenSlots()
  /// The first entry of each hash.
  private var index: [Int: Int] = [:]
  /// The youngest entry of each beginning.
  private var beginnings: [Beginning: Int] = [:]
  private var nextEntry = 0
  private var clock: UInt64 = 0
  /// The highest rank that was given up.
  private var floor = 0
  /// Contents of blocks that were given up, the latest last.
  private var lost = LostBlocks()
  /// Tokens that were computed although they had been there.
  private(set) var recomputedTokens = 0
  /// Blocks that were given up.
  private(set) var givenUp = 0
  /// Most blocks; 0 switches the cache off.
  let limit: Int
  /// The window of the sliding layers; nil for models without them.
  let window: Int?
  private let names: BlockNames?
  /// Nil for models without recurrent layers.
  private var states: PrefixStates?
  /// Entries that became hot since they were last taken: parents before children.
  private var newlyHot: [Int] = []

  /// Fewer equal tokens are not worth the copy of a block.
  private static let leastShared = 4
  /// Most blocks with the same first token that are compared.
  private static let compared = 32
  private static let mostNewlyHot = 1 << 14
  /// Uses that count: what is used no more goes after so many rounds of others.
  private static let mostUses = 8

  /// - Parameter names: what blocks are called on disk; nil without one.
  init(limit: Int, names: BlockNames? = nil, window: Int? = nil, states: PrefixStates? = nil) {
    self.window = window
    self.limit = states?.limit == 0 ? 0 : limit
    (self.names, self.states) = (names, states)
  }

  var isEnabled: Bool { limit > 0 }

  var count: Int { entries.count }

  /// Bytes of the blocks.
  func bytes(_ pool: BlockPool) -> Int {
    let narrow = window == nil ? 0 : entries.values.count { !pool.isWhole($0.block) }
    return entries.count * pool.bytes.whole - narrow * pool.bytes.sliding
  }

  /// Where a sequence stands in the tree.
  struct Path: Equatable {
    let root: Root
    /// The last full block that is in the cache.
    fileprivate var last: Parent
    /// Blocks from the root to `last`.
    fileprivate(set) var blocks = 0

    init(_ root: Root) {
      self.root = root
      last = .root(root)
    }

    fileprivate mutating func append(_ id: Int) {
      last = .entry(id)
      blocks += 1
    }
  }

  /// Appends to `table` the cached blocks that continue `path` with `tokens`, each retained for the caller; the sliding
  /// part only of those that the next token sees.
  ///
  /// At least one token is left to compute: the caller wants its logits.
  ///
  /// - Returns: the slot of the state after the last block, where the model has states and a block was found.
  @discardableResult
  mutating func adopt(
    _ tokens: [Int32], path: inout Path, table: inout [Int32], pool: inout BlockPool
  ) -> Int32? {
    guard isEnabled else { return nil }
    clock += 1
    var state: Int32?
    let (ids, usable) = found(tokens, after: path)
    let seen = firstSeen(after: path.blocks + usable)
    for id in ids.prefix(usable) {
      guard let entry = entries[id] else { break }
      use(id)
      pool.retain(CollectionOfOne(entry.block), sliding: path.blocks >= seen)
      table.append(entry.block)
      path.append(id)
      state = entry.state
    }
    return state
  }

  /// Leading tokens of a prompt that a sequence would find.
  func count(of tokens: [Int32], under root: Root) -> Int {
    isEnabled ? found(tokens, after: Path(root)).usable * KVCache.blockTokens : 0
  }

  /// The cached blocks that continue `path` with `tokens`, and how many of them lead to where a sequence can go on.
  private func found(_ tokens: [Int32], after path: Path) -> (ids: [Int], usable: Int) {
    var (ids, path, usable): ([Int], Path, Int) = ([], path, 0)
    // Blocks up to the last one that is not whole.
    var narrow = 0
    while let block = Self.nextBlock(tokens, path), let id = find(block[...], after: path.last) {
      ids.append(id)
      path.append(id)
      if entries[id]?.isWhole == false { narrow = path.blocks }
      // The window after this block, and the state.
      guard narrow <= firstSeen(after: path.blocks) else { continue }
      if states == nil || entries[id]?.state != nil { usable = ids.count }
    }
    return (ids, usable)
  }

  /// The first block that the token after `blocks` blocks sees in sliding layers.
  private func firstSeen(after blocks: Int) -> Int {
    KVCache.firstSeen(from: blocks * KVCache.blockTokens, window: window)
  }

  /// Keeps a copy of the state of a sequence that stands at `path`, unless there is one.
  mutating func keep(state slot: Int32, at path: Path) {
    guard case .entry(let id) = path.last, entries[id] != nil, entries[id]?.state == nil else { return }
    let copy = copy(slot)
    entries[id]?.state = copy
  }

  /// A copy of a state, in place of the one that was used longest ago if there are too many. Nil where there is none.
  private mutating func copy(_ slot: Int32) -> Int32? {
    if states?.isFull == true {
      let oldest = entries.lazy.filter { $0.value.state != nil }.min { Self.precedes($0, $1) }
      if let oldest { giveUpState(of: oldest.key) }
    }
    return states?.copy(slot)
  }

  /// Which of two is given up first.
  private static func precedes(_ a: (key: Int, value: Entry), _ b: (key: Int, value: Entry)) -> Bool {
    (a.value.rank, a.value.lastUse, a.key) < (b.value.rank, b.value.lastUse, b.key)
  }

  private mutating func giveUpState(of id: Int) {
    guard let slot = entries[id]?.state else { return }
    entries[id]?.state = nil
    states?.release(slot)
  }

  /// The tokens of the block after `path`, with at least one more after it.
  static func nextBlock(_ tokens: [Int32], _ path: Path) -> [Int32]? {
    let start = path.blocks * KVCache.blockTokens
    guard start + KVCache.blockTokens < tokens.count else { return nil }
    return Array(tokens[start..<start + KVCache.blockTokens])
  }

  // MARK: Finding

  private static func hash(_ tokens: ArraySlice<Int32>, after parent: Parent) -> Int {
    var hasher = Hasher()
    hasher.combine(parent)
    for token in tokens { hasher.combine(token) }
    return hasher.finalize()
  }

  private func find(_ tokens: ArraySlice<Int32>, after parent: Parent) -> Int? {
    var next = index[Self.hash(tokens, after: parent)]
    while let id = next, let entry = entries[id] {
      if entry.parent == parent, slots[entry.tokens] == tokens { return id }
      next = entry.nextEqual
    }
    return nil
  }

  /// The entries that begin alike, the youngest first.
  private func beginning(with first: Int32, after parent: Parent, most: Int = .max) -> [Int] {
    var found: [Int] = []
    var next = beginnings[Beginning(parent: parent, first: first)]
    while let id = next, found.count < most {
      found.append(id)
      next = entries[id]?.older
    }
    return found
  }

  /// Puts an entry first in its lists.
  private mutating func link(_ id: Int, _ beginning: Beginning) {
    guard let hash = entries[id]?.hash else { return }
    entries[id]?.nextEqual = index.updateValue(id, forKey: hash)
    guard let older = beginnings.updateValue(id, forKey: beginning) else { return }
    entries[id]?.older = older
    entries[older]?.younger = id
  }

  /// Takes one that is gone out of its lists.
  private mutating func unlink(_ id: Int, _ gone: Entry, _ beginning: Beginning) {
    if index[gone.hash] == id {
      index[gone.hash] = gone.nextEqual
    } else {
      var before = index[gone.hash]
      while let at = before, let next = entries[at]?.nextEqual, next != id { before = next }
      if let before { entries[before]?.nextEqual = gone.nextEqual }
    }
    if let older = gone.older { entries[older]?.younger = gone.younger }
    if let younger = gone.younger {
      entries[younger]?.older = gone.older
    } else {
      beginnings[beginning] = gone.older
    }
  }

  /// A cached block that agrees with a sequence in its first tokens.
  struct Part {
    /// Full blocks before it that the sequence does not have yet, and where they lead.
    let before: [Int32]
    let path: Path
    let block: Int32
    /// Positions that agree.
    let count: Int
    /// The slot of the state after them.
    let state: Int32?
  }

  /// The cached block after `path` that agrees with `tokens` the furthest, for a copy of its first positions.
  mutating func partial(_ tokens: [Int32], _ path: Path) -> Part? {
    guard isEnabled else { return nil }
    // Full blocks without a state are of use on the way to an unfilled one with it.
    let way = states == nil ? [] : found(tokens, after: path).ids
    for count in (0...way.count).reversed()
    where way.prefix(count).allSatisfy({ entries[$0]?.isWhole == true }) {
      var end = path
      for id in way.prefix(count) { end.append(id) }
      guard let best = part(of: tokens, after: end), let entry = entries[best.entry] else { continue }
      clock += 1
      for id in way.prefix(count) + [best.entry] { use(id) }
      return Part(
        before: way.prefix(count).compactMap { entries[$0]?.block }, path: end, block: entry.block,
        count: best.count, state: entry.state)
    }
    return nil
  }

  private func part(of tokens: [Int32], after path: Path) -> (entry: Int, count: Int)? {
    let wanted = tokens.dropFirst(path.blocks * KVCache.blockTokens).dropLast().prefix(KVCache.blockTokens)
    guard let first = wanted.first else { return nil }
    var best: (entry: Int, count: Int)?
    for id in beginning(with: first, after: path.last, most: Self.compared) {
      guard let entry = entries[id], entry.isWhole else { continue }
      let count = Self.shared(slots[entry.tokens], wanted)
      if states != nil, entry.state == nil || count < entry.tokens.count { continue }
      // Of equally good ones the youngest.
      if count >= Self.leastShared, count > best?.count ?? 0 { best = (id, count) }
    }
    return best
  }

  private static func shared(_ a: ArraySlice<Int32>, _ b: ArraySlice<Int32>) -> Int {
    zip(a, b).prefix { $0 == $1 }.count
  }

  private mutating func use(_ id: Int) {
    guard let uses = entries[id]?.uses else { return }
    entries[id]?.lastUse = clock
    entries[id]?.uses = min(uses + 1, Self.mostUses)
    entries[id]?.rank = floor + min(uses + 1, Self.mostUses)
    heat(id)
  }

  /// Has a block saved, where there is a disk.
  private mutating func heat(_ id: Int) {
    guard names != nil, entries[id]?.isHot == false else { return }
    entries[id]?.isHot = true
    guard entries[id]?.name != nil else { return }
    // A disk that cannot keep up gets the latest.
    if newlyHot.count >= Self.mostNewlyHot { newlyHot.removeFirst() }
    newlyHot.append(id)
  }

  /// Records the sequence's blocks that have become full; each stays retained by the cache.
  ///
  /// - Parameters:
  ///   - computed: leading tokens whose keys and values are in `table`.
  ///   - isKept: whether they are to be saved whoever else uses them.
  mutating func record(
    _ tokens: [Int32], computed: Int, path: inout Path, table: [Int32], pool: inout BlockPool,
    isKept: Bool = false
  ) {
    guard isEnabled else { return }
    let size = KVCache.blockTokens
    clock += 1
    while (path.blocks + 1) * size <= computed {
      let block = tokens[path.blocks * size..<(path.blocks + 1) * size]
      if let known = find(block, after: path.last) {
        // Another sequence was first, and both blocks hold the same bits.
        entries[known]?.lastUse = clock
        replace(known, by: table[path.blocks], pool: &pool)
        path.last = .entry(known)
      } else {
        path.last = .entry(insert(block, after: path.last, block: table[path.blocks], pool: &pool))
      }
      path.blocks += 1
      if isKept, case .entry(let id) = path.last { heat(id) }
    }
  }

  /// Takes a sequence's block in place of one that has lost its sliding part, or that nobody else reads: else the text
  /// would lie in memory twice, and what the sequence computes next would keep both from being given back.
  private mutating func replace(_ id: Int, by block: Int32, pool: inout BlockPool) {
    guard let entry = entries[id], entry.block != block, pool.isWhole(block) else { return }
    guard !entry.isWhole || pool.referenceCount(entry.block) == 1 else { return }
    pool.retain(CollectionOfOne(block))
    pool.release(CollectionOfOne(entry.block), sliding: entry.isWhole)
    entries[id]?.block = block
    entries[id]?.isWhole = true
  }

  /// Records the last block of a sequence that gives its memory back, as far as it is filled.
  mutating func recordTail(_ tokens: [Int32], of sequence: SequenceMemory, pool: inout BlockPool) {
    let (path, table, computed) = (sequence.path, sequence.blocks, sequence.count)
    let start = path.blocks * KVCache.blockTokens
    guard isEnabled, computed - start >= Self.leastShared, computed - start < KVCache.blockTokens,
      table.indices.contains(path.blocks)
    else { return }
    let tail = tokens[start..<computed]
    guard states == nil else {
      return recordTail(tail, after: path, block: table[path.blocks], state: sequence.slot, pool: &pool)
    }
    let isKnown = beginning(with: tail[start], after: path.last).contains { id in
      entries[id].map { Self.shared(slots[$0.tokens], tail) == tail.count } ?? false
    }
    clock += 1
    if !isKnown { _ = insert(tail, after: path.last, block: table[path.blocks], pool: &pool) }
  }

  /// Records an unfilled block with its state.
  private mutating func recordTail(
    _ tail: ArraySlice<Int32>, after path: Path, block: Int32, state: Int32?, pool: inout BlockPool
  ) {
    clock += 1
    let known = find(tail, after: path.last)
    guard let state, known.flatMap({ entries[$0]?.state }) == nil, let copy = copy(state) else { return }
    let id = known ?? insert(tail, after: path.last, block: block, pool: &pool)
    entries[id]?.lastUse = clock
    entries[id]?.state = copy
  }

  /// - Parameter tokens: at least one.
  private mutating func insert(
    _ tokens: ArraySlice<Int32>, after parent: Parent, block: Int32, pool: inout BlockPool
  ) -> Int {
    let id = nextEntry
    nextEntry += 1
    removeBeginnings(of: tokens, after: parent, pool: &pool)
    let isWhole = pool.isWhole(block)
    pool.retain(CollectionOfOne(block), sliding: isWhole)
    var uses = 1
    if case .entry(let parent) = parent {
      entries[parent]?.children += 1
      // What goes on with a text that was used again is likely to be, other than a text of its own.
      uses = min(2, entries[parent]?.uses ?? 1)
    }
    let isFull = tokens.count == KVCache.blockTokens
    let content = content(of: tokens, after: parent)
    if lost.remove(content) { recomputedTokens += tokens.count }
    let parentName = isFull ? name(of: parent) : nil
    let ownName = parentName.flatMap { names?.name(of: Array(tokens), after: $0) }
    entries[id] = Entry(
      parent: parent, tokens: slots.take(tokens), hash: Self.hash(tokens, after: parent), content: content,
      block: block, name: ownName, lastUse: clock, uses: uses, rank: floor + uses, isWhole: isWhole)
    link(id, Beginning(parent: parent, first: tokens[tokens.startIndex]))
    return id
  }

  /// What stands for all tokens up to the end of a block.
  private func content(of tokens: ArraySlice<Int32>, after parent: Parent) -> Int {
    var hasher = Hasher()
    switch parent {
    case .root(let root): hasher.combine(root)
    case .entry(let id): hasher.combine(entries[id]?.content)
    }
    for token in tokens { hasher.combine(token) }
    return hasher.finalize()
  }

  /// Unfilled blocks that a new one begins with are of no more use, unless they have a state of their own.
  private mutating func removeBeginnings(
    of tokens: ArraySlice<Int32>, after parent: Parent, pool: inout BlockPool
  ) {
    guard states == nil else { return }
    for id in beginning(with: tokens[tokens.startIndex], after: parent) {
      guard let place = entries[id]?.tokens, place.count < tokens.count,
        Self.shared(slots[place], tokens) == place.count
      else { continue }
      forget(id, pool: &pool)
    }
  }

  /// Gives up what exceeds the limit, once a sequence has released its blocks: what running ones hold is theirs.
  mutating func trim(pool: inout BlockPool) {
    if entries.count > limit { remove(entries.count - limit, pool: &pool) }
  }

  /// Whole blocks that weigh what only the cache holds: they can be had back.
  func evictableCount(_ pool: BlockPool) -> Int {
    let bytes = entries.values.reduce(0) { sum, entry in
      let isAlone = pool.referenceCount(entry.block) == 1
      let sliding = entry.isWhole && pool.slidingReferenceCount(entry.block) == 1 ? pool.bytes.sliding : 0
      return sum + (isAlone ? pool.bytes.narrow : 0) + sliding
    }
    return bytes / pool.bytes.whole
  }

  /// Gives back what only the cache holds until `free` blocks are free or nothing is left: first the sliding part of
  /// blocks inside of texts, then the leaves that are worth least.
  mutating func evict(untilFree free: Int, pool: inout BlockPool) {
    if window != nil, pool.bytes.sliding > 0, pool.freeCount < free { narrow(untilFree: free, pool: &pool) }
    // A few more than needed: finding the oldest looks at all of them.
    if pool.freeCount < free { remove(free - pool.freeCount + entries.count / 64, pool: &pool) }
  }

  /// Gives up sliding parts that continue no text at its end, nor where texts part: what is worth least first.
  private mutating func narrow(untilFree free: Int, pool: inout BlockPool) {
    let ends = ends
    let inner = entries.filter { $0.value.isWhole && !ends.contains($0.key) }
      .filter { pool.slidingReferenceCount($0.value.block) == 1 }
      .sorted { Self.precedes($0, $1) }
    // A few more than needed, as in `evict`.
    var spare = inner.count / 64
    for (id, entry) in inner {
      if pool.freeCount >= free {
        guard spare > 0 else { return }
        spare -= 1
      }
      entries[id]?.isWhole = false
      pool.releaseSliding(CollectionOfOne(entry.block))
    }
  }

  /// The blocks of the last window of each text, and before each place where texts part.
  private var ends: Set<Int> {
    let size = KVCache.blockTokens
    // A window that begins inside a block sees that too.
    let length = min(limit, (window ?? 0) / size + 1)
    var ends: Set<Int> = []
    for (id, entry) in entries where entry.children != 1 {
      var next = Parent.entry(id)
      for _ in 0..<length {
        guard case .entry(let id) = next, let entry = entries[id] else { break }
        ends.insert(id)
        next = entry.parent
      }
    }
    return ends
  }

  private mutating func remove(_ count: Int, pool: inout BlockPool) {
    // A leaf that a sequence still reads keeps its whole path; parents become leaves when their children go.
    var leaves = entries.filter { $0.value.children == 0 && pool.referenceCount($0.value.block) == 1 }
      .sorted { Self.precedes($1, $0) }
    var left = count
    while left > 0, let least = leaves.popLast() {
      left -= 1
      floor = max(floor, least.value.rank)
      lost.add(least.value.content)
      givenUp += 1
      guard case .entry(let id) = forget(least.key, pool: &pool), let parent = entries[id] else { continue }
      if parent.children == 0, pool.referenceCount(parent.block) == 1 {
        // Every use of a child was one of its parent: find its place from the young end.
        let place = leaves.firstIndex { Self.precedes($0, (id, parent)) }
        leaves.insert((id, parent), at: place ?? leaves.endIndex)
      }
    }
  }

  /// Takes a leaf out of the tree; its parent is returned.
  @discardableResult
  private mutating func forget(_ id: Int, pool: inout BlockPool) -> Parent? {
    guard let gone = entries.removeValue(forKey: id) else { return nil }
    if let slot = gone.state { states?.release(slot) }
    if let first = slots[gone.tokens].first { unlink(id, gone, Beginning(parent: gone.parent, first: first)) }
    slots.release(gone.tokens)
    pool.release(CollectionOfOne(gone.block), sliding: gone.isWhole)
    if case .entry(let parent) = gone.parent { entries[parent]?.children -= 1 }
    return gone.parent
  }
}

/// The last blocks that were given up, by their contents.
private struct LostBlocks {
  private var contents: Set<Int> = []
  private var order: [Int] = []

  private static let most = 1 << 13

  mutating func add(_ content: Int) {
    guard contents.insert(content).inserted else { return }
    order.append(content)
    guard order.count > 2 * Self.most else { return }
    for old in order.prefix(Self.most) { contents.remove(old) }
    order.removeFirst(Self.most)
  }

  /// Whether it was there.
  mutating func remove(_ content: Int) -> Bool { contents.remove(content) != nil }
}

// MARK: - What the disk needs to know

extension PrefixCache {
  /// A full block, as the disk knows it.
  struct Record {
    let name: String
    let parent: String
    let tokens: [Int32]
    let block: Int32
    /// The slot of the state after it, where one is kept.
    let state: Int32?
  }

  /// Nil where the block has been forgotten, as one may be that a sequence stands after without holding it: what
  /// follows it can have no name, since names stand for all that came before.
  private func name(of parent: Parent) -> String? {
    switch parent {
    case .root(let root): names?.name(of: root)
    case .entry(let id): entries[id]?.name
    }
  }

  /// What the block that continues `path` with these tokens is called, and what the one before it.
  func name(of tokens: [Int32], after path: Path) -> (own: String, parent: String)? {
    guard let names, let parent = name(of: path.last) else { return nil }
    return (names.name(of: tokens, after: parent), parent)
  }

  private func record(_ id: Int) -> Record? {
    // Files hold whole blocks.
    guard let entry = entries[id], entry.isWhole, let name = entry.name,
      let parent = self.name(of: entry.parent)
    else {
      return nil
    }
    return Record(
      name: name, parent: parent, tokens: Array(slots[entry.tokens]), block: entry.block,
      state: entry.state)
  }

  var hasNewlyHot: Bool { !newlyHot.isEmpty }

  /// The next block that became hot, and is still there.
  mutating func takeNewlyHot() -> Record? {
    while !newlyHot.isEmpty {
      if let record = record(newlyHot.removeFirst()) { return record }
    }
    return nil
  }

  /// All full blocks, parents before children, lately used paths first.
  var records: [Record] {
    var lastUses = entries.mapValues(\.lastUse)
    // Children are younger than their parents: from the youngest on, each path's use reaches its root.
    for id in entries.keys.sorted(by: >) {
      guard case .entry(let parent)? = entries[id]?.parent, let use = lastUses[id] else { continue }
      lastUses[parent] = lastUses[parent].map { max($0, use) }
    }
    return lastUses.sorted { ($1.value, $0.key) < ($0.value, $1.key) }.compactMap { record($0.key) }
  }
}
