// The memory of an engine's sequences: who holds what of it, and what remains of sequences that have ended.
//
// A sequence holds a `SequenceMemory`. It grows by `extend`, begins with what others have computed by `fork` and `load`,
// leaves them its own by `snapshot`, forgets drafts that did not come true by `rewind`, and gives all back by `release`.
// When memory is short, cached prefixes that no sequence reads go first.

import Compute
import Platform

/// Engine thread only.
final class EngineMemory {
  let cache: KVCache
  let quota: MemoryQuota
  /// Prefixes on disk.
  let store: PrefixStore?
  var pool: BlockPool
  var prefixes: PrefixCache

  /// Most blocks of the prefix cache: a tiny model must not drown in bookkeeping.
  private static let prefixBlocks = 1 << 14

  /// - Parameter prefixBytes: most bytes of cached prefixes; 0 for none.
  init(cache: KVCache, quota: MemoryQuota, prefixBytes: Int, store: PrefixStore?) {
    self.cache = cache
    self.quota = quota
    self.store = store
    pool = BlockPool(blockCount: cache.blockCount, quota: quota.blocks)
    prefixes = PrefixCache(
      limit: min(cache.blockCount, prefixBytes / max(1, cache.bytesPerBlock), Self.prefixBlocks),
      names: store?.names)
  }

  /// Blocks held by sequences or by cached prefixes.
  var usedBlocks: Int { pool.usedCount }
  /// Blocks held by cached prefixes.
  var cachedBlocks: Int { prefixes.count }

  /// Tokens for which there is room: it is free, can be had, or is held by nobody but the prefix cache.
  func freeTokens() -> Int {
    (pool.freeCount + quota.growable(pool) + prefixes.evictableCount(pool)) * KVCache.blockTokens
  }

  /// Gives a sequence room for so many tokens more. Where there is none it returns false, nothing is taken, and others
  /// are asked for memory.
  func extend(_ sequence: inout SequenceMemory, by rows: Int) -> Bool {
    let blocks = KVCache.blocks(forTokens: sequence.count + rows)
    let missing = blocks - sequence.blocks.count
    makeRoom(forBlocks: missing)
    if pool.extend(&sequence.blocks, to: blocks) { return true }
    quota.ask(forBlocks: missing - pool.freeCount, at: .now)
    return false
  }

  /// Tries to have so many blocks free.
  func makeRoom(forBlocks count: Int) {
    quota.grow(&pool, untilFree: count)
    prefixes.evict(untilFree: count, pool: &pool)
  }

  /// Goes back to the first `count` tokens: rows of a draft that did not come true are forgotten, and overwritten by
  /// the next ones.
  func rewind(_ sequence: inout SequenceMemory, to count: Int) {
    sequence.count = min(sequence.count, count)
  }

  /// Takes everything back, and keeps it as a cached prefix as far as the cache has room. The sequence could begin anew
  /// with what is left.
  func release(_ sequence: inout SequenceMemory, keys: [Int32]) {
    prefixes.recordTail(
      keys, computed: sequence.count, path: sequence.path, table: sequence.blocks, pool: &pool)
    pool.release(&sequence.blocks)
    prefixes.trim(pool: &pool)
    sequence = SequenceMemory(sequence.path.root)
  }

  /// Gives memory back to the ledger: what is free, and that of cached prefixes if it must be.
  ///
  /// - Returns: how many bytes.
  func shrink(by bytes: Int) -> Int { quota.shrink(by: bytes, &pool, &prefixes, cache) }

  /// Tells the ledger how much of the memory the prefix cache holds.
  func account() { quota.account(pool, prefixes) }
}
