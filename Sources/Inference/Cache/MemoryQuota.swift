// What one engine may take of the process's memory: its weights and states, and a quota of KV blocks.
//
// The cache's address space is laid out for the worst case, but a block may be written only within the pool's quota,
// and the quota is raised only by what the ledger grants. A few blocks are granted for as long as the engine lives, so
// that a sequence of some length always gets to its end.

import Compute
import Platform
import Synchronization

/// Engine thread only, but for `touchedBytes`.
final class MemoryQuota {
  /// Blocks that the quota grows by when there is room: asking for each would be a lock per block.
  private static let growth = 8
  /// Time between two calls for help, seconds.
  private static let askingInterval = 0.05

  let ledger: MemoryLedger
  private let weightBytes: Int
  private let stateBytes: Int
  /// What blocks weigh; the quota counts whole ones.
  let bytes: BlockBytes
  private let guaranteed: Int
  private let touched: TouchedBytes
  /// Whole blocks that may be filled.
  private(set) var blocks: Int
  /// Bytes counted as prefix cache; the rest of the quota is counted as KV cache.
  private var prefixBytes = 0
  private var nextAsk = Instant(nanoseconds: 0)

  /// Reserves the weights, the states of recurrent layers and the guaranteed blocks; they are released when this goes.
  /// Nil when they are not left.
  init?(
    ledger: MemoryLedger, weightBytes: Int, stateBytes: Int = 0, bytes: BlockBytes, guaranteedBlocks: Int,
    touched: TouchedBytes
  ) {
    let (cacheBytes, overflow) = guaranteedBlocks.multipliedReportingOverflow(by: bytes.whole)
    let parts: [(MemoryKind, Int)] = [
      (.weights, weightBytes), (.kvCache, stateBytes), (.kvCache, cacheBytes),
    ]
    guard !overflow, ledger.reserve(parts) else { return nil }
    (self.ledger, self.weightBytes, self.stateBytes) = (ledger, weightBytes, stateBytes)
    (self.bytes, self.touched) = (bytes, touched)
    guaranteed = guaranteedBlocks
    blocks = guaranteedBlocks
  }

  deinit {
    ledger.release(weightBytes, from: .weights)
    ledger.release(prefixBytes, from: .prefixCache)
    ledger.release(blocks * bytes.whole - prefixBytes + stateBytes, from: .kvCache)
    touched.set(0)
  }

  /// Blocks that the quota could still grow by.
  func growable(_ pool: BlockPool) -> Int {
    min(pool.count - pool.quota, ledger.leftForGrowth / max(1, bytes.whole))
  }

  /// Raises the pool's quota until `free` blocks are free, or as far as the ledger grants.
  func grow(_ pool: inout BlockPool, untilFree free: Int) {
    let missing = min(free - pool.freeCount, pool.count - pool.quota)
    guard missing > 0 else { return }
    let wanted = min(max(missing, Self.growth), pool.count - pool.quota)
    for count in [wanted, missing, min(missing, growable(pool))] where count > 0 {
      guard ledger.reserveGrowth(count * bytes.whole, for: .kvCache) else { continue }
      blocks += count
      pool.quota = blocks
      return
    }
  }

  /// Asks the others for the memory of `count` blocks, now and then.
  func ask(forBlocks count: Int, at now: Instant) { ask(forBytes: max(0, count) * bytes.whole, at: now) }

  /// The same for what is no block.
  func ask(forBytes count: Int, at now: Instant) {
    guard now >= nextAsk else { return }
    nextAsk = now.adding(seconds: Self.askingInterval)
    ledger.ask(for: count + ledger.slack)
  }

  /// Gives back free memory, and that of cached prefixes if it must be.
  ///
  /// - Returns: how many bytes.
  func shrink(by wish: Int, _ pool: inout BlockPool, _ prefixes: inout PrefixCache, _ cache: KVCache) -> Int {
    let spare = blocks - guaranteed
    let wanted = min(spare, wish / bytes.whole + (wish % bytes.whole > 0 ? 1 : 0))
    guard wanted > 0 else { return 0 }
    prefixes.evict(untilFree: wanted, pool: &pool)
    pool.settle(cache)
    let given = min(wanted, pool.freeCount)
    guard given > 0 else { return 0 }
    blocks -= given
    cache.discard(pool.lowerQuota(to: blocks))
    account(pool, prefixes, cache.states)
    ledger.release(given * bytes.whole, from: .kvCache)
    return given * bytes.whole
  }

  /// Tells the ledger how much of the quota the prefix cache holds.
  func account(_ pool: BlockPool, _ prefixes: PrefixCache, _ states: StateCache?) {
    let cached = min(prefixes.bytes(pool), blocks * bytes.whole)
    ledger.move(cached - prefixBytes, from: .kvCache, to: .prefixCache)
    prefixBytes = cached
    let stateBytes = states.map { ($0.slotCount - $0.freeSlots) * $0.bytesPerSlot } ?? 0
    touched.set(pool.touched + stateBytes)
  }
}

/// Bytes of a cache that have been written and so are in memory; read by any thread.
package final class TouchedBytes: Sendable {
  private let bytes = Atomic<Int>(0)

  func set(_ value: Int) { bytes.store(value, ordering: .relaxed) }
  package var value: Int { bytes.load(ordering: .relaxed) }
}
