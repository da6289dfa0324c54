// Keys and values of earlier prompts and answers, kept for sequences that begin with the same tokens.
//
// Full KV blocks form a tree: a block's parent holds the tokens before it, so a path from the root is a prefix. A
// block is found by its parent and its own tokens, compared token by token: no hash has to be trusted. What is
// found is the very memory that computing it again would fill with the same bits, because nothing in a forward
// pass depends on how a prompt was cut into steps. When blocks run out, the leaf that was used longest ago goes.

import Compute

/// Pure bookkeeping over `BlockPool`; engine thread only.
struct PrefixCache {
  /// What a block is found by.
  private struct Key: Hashable {
    /// The entry of the block before; `root` for the first. Keys rotated by another variant have another root.
    let parent: Int
    let tokens: [Int32]
  }

  private struct Entry {
    let key: Key
    let block: Int32
    var children = 0
    var lastUse: UInt64
  }

  private var entries: [Int: Entry] = [:]
  private var index: [Key: Int] = [:]
  private var nextEntry = 0
  private var clock: UInt64 = 0
  /// Most blocks; 0 switches the cache off.
  private let limit: Int

  init(limit: Int) { self.limit = limit }

  var isEnabled: Bool { limit > 0 }

  var count: Int { entries.count }

  /// Where a sequence stands in the tree.
  struct Path: Equatable {
    /// The entry of the last full block that is in the cache.
    fileprivate var last: Int
    /// Blocks from the root to `last`.
    fileprivate(set) var blocks: Int

    /// The root for sequences of one RoPE variant.
    init(ropeVariant: Int) {
      last = -1 - ropeVariant
      blocks = 0
    }
  }

  /// Appends to `table` the cached blocks that continue `path` with `tokens`, each retained for the caller.
  ///
  /// At least one token is left to compute: its logits are what the caller is after.
  mutating func adopt(_ tokens: [Int32], path: inout Path, table: inout [Int32], pool: inout BlockPool) {
    guard isEnabled else { return }
    let size = KVCache.blockTokens
    clock += 1
    while (path.blocks + 1) * size < tokens.count {
      let range = path.blocks * size..<(path.blocks + 1) * size
      guard let entry = index[Key(parent: path.last, tokens: Array(tokens[range]))],
        let block = entries[entry]?.block
      else { return }
      entries[entry]?.lastUse = clock
      pool.retain(CollectionOfOne(block))
      table.append(block)
      path.last = entry
      path.blocks += 1
    }
  }

  /// Records the sequence's blocks that have become full; each stays retained by the cache.
  ///
  /// - Parameter computed: leading tokens whose keys and values are in `table`.
  mutating func record(
    _ tokens: [Int32], computed: Int, path: inout Path, table: [Int32], pool: inout BlockPool
  ) {
    guard isEnabled else { return }
    let size = KVCache.blockTokens
    clock += 1
    while (path.blocks + 1) * size <= computed {
      let range = path.blocks * size..<(path.blocks + 1) * size
      let key = Key(parent: path.last, tokens: Array(tokens[range]))
      if let known = index[key] {
        // Another sequence was first; both blocks hold the same bits, and this one stays the sequence's own.
        entries[known]?.lastUse = clock
        path.last = known
      } else {
        let block = table[path.blocks]
        pool.retain(CollectionOfOne(block))
        entries[path.last]?.children += 1
        entries[nextEntry] = Entry(key: key, block: block, lastUse: clock)
        index[key] = nextEntry
        path.last = nextEntry
        nextEntry += 1
      }
      path.blocks += 1
    }
  }

  /// Gives up what exceeds the limit, once a sequence has released its blocks: what running ones hold is theirs.
  mutating func trim(pool: inout BlockPool) {
    if entries.count > limit { remove(entries.count - limit, pool: &pool) }
  }

  /// Blocks that only the cache holds: they can be had back.
  func evictableCount(_ pool: BlockPool) -> Int {
    entries.values.count { pool.referenceCount($0.block) == 1 }
  }

  /// Gives back blocks that only the cache holds until `free` are free or none is left: the longest unused leaves
  /// first.
  mutating func evict(untilFree free: Int, pool: inout BlockPool) {
    if pool.freeCount < free { remove(free - pool.freeCount, pool: &pool) }
  }

  private mutating func remove(_ count: Int, pool: inout BlockPool) {
    // A leaf that a sequence still reads keeps its whole path; parents become leaves when their children go.
    var leaves = entries.filter { $0.value.children == 0 && pool.referenceCount($0.value.block) == 1 }
      .map { (entry: $0.key, lastUse: $0.value.lastUse) }
      .sorted { ($0.lastUse, $0.entry) > ($1.lastUse, $1.entry) }
    var left = count
    while left > 0, let oldest = leaves.popLast() {
      left -= 1
      guard let gone = entries.removeValue(forKey: oldest.entry) else { continue }
      index[gone.key] = nil
      var table = [gone.block]
      pool.release(&table)
      guard var parent = entries[gone.key.parent] else { continue }
      parent.children -= 1
      entries[gone.key.parent] = parent
      if parent.children == 0, pool.referenceCount(parent.block) == 1 {
        // A parent is at least as recently used as its children were: find its place from the young end.
        let place = leaves.firstIndex { ($0.lastUse, $0.entry) < (parent.lastUse, gone.key.parent) }
        leaves.insert((gone.key.parent, parent.lastUse), at: place ?? leaves.endIndex)
      }
    }
  }
}
