// The memory of an engine's sequences: who holds what of it, and what remains of sequences that have ended.
//
// A sequence holds a `SequenceMemory`. It grows by `extend`, begins with what others have computed by `fork` and `load`,
// leaves them its own by `snapshot`, forgets drafts that did not come true by `rewind`, and gives all back by `release`.
// When memory is short, cached prefixes that no sequence reads go first.
//
// A sequence that has moved on needs no more of its earliest blocks than what layers without a window keep of them:
// `extend` gives up the rest. The prefix cache holds it until memory is short.
//
// Keys and values of earlier positions stay as they are, so that a sequence goes back to any of them by counting less.
// The state of recurrent layers is overwritten by every step: a sequence goes back only to where a copy was made, before
// a draft (`checkpoint`) and at some borders of blocks, for others (`snapshot`).

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
  /// Slots of state per sequence that may run: its own, the one it goes back to after a draft, and one for the prefix
  /// cache.
  static let slotsPerSequence = 3

  /// - Parameter prefixBytes: most bytes of cached prefixes; 0 for none.
  init(cache: KVCache, quota: MemoryQuota, prefixBytes: Int, store: PrefixStore?) {
    let window = cache.slidingBytesPerBlock > 0 ? cache.window : nil
    (self.cache, self.quota, self.store) = (cache, quota, store)
    pool = BlockPool(blockCount: cache.blockCount, quota: quota.blocks, bytes: quota.bytes)
    prefixes = PrefixCache(
      limit: min(cache.blockCount, prefixBytes / max(1, cache.bytesPerBlock), Self.prefixBlocks),
      names: store?.names, window: window,
      states: cache.states.map { PrefixStates($0, limit: $0.slotCount / Self.slotsPerSequence) })
  }

  /// Blocks held by sequences or by cached prefixes.
  var usedBlocks: Int { pool.usedCount }
  /// Blocks held by cached prefixes.
  var cachedBlocks: Int { prefixes.count }

  /// Tokens for which there is room: it is free, can be had, or is held by nobody but the prefix cache.
  func freeTokens() -> Int {
    (pool.freeCount + quota.growable(pool) + prefixes.evictableCount(pool)) * KVCache.blockTokens
  }

  /// What a sequence of `tokens` takes of `freeTokens`: fewer than it has, where blocks leave the window.
  func weight(ofTokens tokens: Int) -> Int {
    let blocks = KVCache.blocks(forTokens: tokens)
    guard blocks > pool.bytes.mostWhole, let bytes = pool.bytes.bytes(of: blocks) else { return tokens }
    return bytes / pool.bytes.whole * KVCache.blockTokens
  }

  /// Gives a sequence room for `rows` more tokens. Where there is none it returns false, nothing is taken, and other
  /// engines are asked for memory.
  func extend(_ sequence: inout SequenceMemory, by rows: Int) -> Bool {
    let blocks = KVCache.blocks(forTokens: sequence.count + rows)
    let missing = blocks - sequence.blocks.count
    slide(&sequence)
    makeRoom(forBlocks: missing)
    guard holdsState(&sequence) else { return false }
    if pool.extend(&sequence.blocks, to: blocks) { return true }
    quota.ask(forBlocks: missing - pool.freeCount, at: .now)
    return false
  }

  /// Tries to have `count` blocks free.
  func makeRoom(forBlocks count: Int) {
    pool.settle(cache)
    quota.grow(&pool, untilFree: count)
    prefixes.evict(untilFree: count, pool: &pool)
    pool.settle(cache)
  }

  /// Gives up the sliding part of blocks that no later row of the sequence sees there.
  ///
  /// - Parameter held: blocks of which the sequence held that part; nil for all.
  func slide(_ sequence: inout SequenceMemory, held: Int? = nil) {
    let start = min(KVCache.firstSeen(from: sequence.count, window: prefixes.window), sequence.blocks.count)
    guard start > sequence.firstWhole else { return }
    let end = min(start, held ?? start)
    if sequence.firstWhole < end { pool.releaseSliding(sequence.blocks[sequence.firstWhole..<end]) }
    sequence.firstWhole = start
  }

  /// Gives the sequence a slot for its state, zero before the first token, where the model has recurrent layers.
  func holdsState(_ sequence: inout SequenceMemory) -> Bool {
    guard let states = cache.states else { return true }
    if sequence.slot == nil { sequence.slot = states.take() }
    return sequence.slot != nil
  }

  /// Makes the state of a sequence a copy of another slot's.
  func resume(_ sequence: SequenceMemory, from source: Int32) {
    if let slot = sequence.slot { cache.states?.copy(source, to: slot) }
  }

  /// Remembers the state before a draft is verified.
  func checkpoint(_ sequence: inout SequenceMemory) {
    guard let states = cache.states, let slot = sequence.slot, let copy = states.fork(slot) else { return }
    sequence.checkpoint = (copy, sequence.count)
  }

  /// Goes back to the first `count` tokens, so that rows of a draft that did not come true are forgotten: keys and values
  /// are overwritten by the next rows. A state goes back to before the draft, and what came true of it is computed again.
  func rewind(_ sequence: inout SequenceMemory, to count: Int) {
    let checkpoint = sequence.checkpoint
    sequence.checkpoint = nil
    guard let states = cache.states, let slot = sequence.slot else {
      sequence.count = min(sequence.count, count)
      return
    }
    if count < sequence.count, let checkpoint {
      states.copy(checkpoint.slot, to: slot)
      sequence.count = checkpoint.count
    } else if count < sequence.count {
      releaseBlocks(&sequence)
      states.clear(slot)
      sequence = sequence.emptied
      sequence.slot = slot
    }
    if let checkpoint { states.release(checkpoint.slot) }
  }

  /// Takes everything back, and keeps it as a cached prefix as far as the cache has room. The sequence could begin anew
  /// with what is left.
  func release(_ sequence: inout SequenceMemory, keys: [Int32]) {
    prefixes.recordTail(keys, of: sequence, pool: &pool)
    releaseBlocks(&sequence)
    if let slot = sequence.slot { cache.states?.release(slot) }
    // What is still to be saved stays until the next one ends, or memory is short.
    if !(sequence.isKept && hasUnsaved) { prefixes.trim(pool: &pool) }
    sequence = sequence.emptied
  }

  private func releaseBlocks(_ sequence: inout SequenceMemory) {
    pool.release(sequence.blocks[sequence.firstWhole...])
    pool.release(sequence.blocks[..<sequence.firstWhole], sliding: false)
    sequence.blocks.removeAll()
    sequence.firstWhole = 0
  }

  /// Gives memory back to the ledger: what is free, and that of cached prefixes if it must be.
  ///
  /// - Returns: how many bytes.
  func shrink(by bytes: Int) -> Int { quota.shrink(by: bytes, &pool, &prefixes, cache) }

  /// Tells the ledger how much of the memory the prefix cache holds.
  func account() {
    pool.settle(cache)
    quota.account(pool, prefixes, cache.states)
  }
}
