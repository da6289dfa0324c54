// What sequences need not compute: blocks of others, from memory and from disk; and what is saved for later runs.

import Compute
import Platform

extension Engine {
  /// What reading from disk may take of one turn when no stream waits.
  private static var loadSeconds: Double { 0.5 }

  /// Sequences that stand at the border of a block take over what others have computed meanwhile, or what an
  /// earlier run of the server has left on disk.
  func adoptPrefixes() {
    // Streams wait while files are read.
    let seconds = running.contains(where: \.isDecoding) ? maxStall / 8 : Self.loadSeconds
    let deadline = Instant.now.adding(seconds: seconds)
    for sequence in running where sequence.isAtBorder {
      prefixes.adopt(sequence.keys, path: &sequence.path, table: &sequence.blocks, pool: &pool)
      sequence.computed = sequence.path.blocks * KVCache.blockTokens
      sequence.isLoading = loadPrefix(of: sequence, until: deadline)
    }
    for sequence in running where sequence.missingMedia != nil { sequence.takeSoft { media.soft(of: $0) } }
  }

  /// Reads the blocks that come next from disk. True when there is more than the time allows.
  private func loadPrefix(of sequence: ActiveSequence, until deadline: Instant) -> Bool {
    guard let store, prefixes.isEnabled else { return false }
    while let tokens = PrefixCache.nextBlock(sequence.keys, sequence.path),
      let (name, parent) = prefixes.name(of: tokens, after: sequence.path), store.contains(name)
    {
      guard Instant.now < deadline else { return true }
      let blocks = sequence.path.blocks + 1
      memory.grow(&pool, untilFree: 1)
      prefixes.evict(untilFree: 1, pool: &pool)
      guard pool.freeCount > 0, let payload = store.read(name, parent: parent, tokens: tokens),
        pool.extend(&sequence.blocks, to: blocks), cache.setBlock(sequence.blocks[blocks - 1], payload)
      else { return false }
      sequence.computed = blocks * KVCache.blockTokens
      prefixes.record(
        sequence.keys, computed: sequence.computed, path: &sequence.path, table: sequence.blocks,
        pool: &pool)
      statistics.prefixDiskTokens += KVCache.blockTokens
    }
    return false
  }

  /// Copies the part of a cached block that agrees with what follows: a copy of 32 positions is quicker than
  /// computing one.
  func copyPartial(of sequence: ActiveSequence) {
    guard let (source, count) = prefixes.partial(sequence.keys, sequence.path) else { return }
    pool.retain(CollectionOfOne(source))
    let blocks = sequence.path.blocks + 1
    memory.grow(&pool, untilFree: 1)
    prefixes.evict(untilFree: 1, pool: &pool)
    if pool.extend(&sequence.blocks, to: blocks) {
      cache.copyBlock(source, to: sequence.blocks[blocks - 1])
      sequence.computed += count
    }
    var held = [source]
    pool.release(&held)
  }

  /// An older sequence that is about to compute the very block that this one needs next: another choice of the same
  /// request, or a request with the same instructions. Waiting for it is cheaper than computing the block twice.
  func twin(of index: Int) -> Int? {
    let sequence = running[index]
    let end = sequence.computed + KVCache.blockTokens
    guard prefixes.isEnabled, sequence.isAtBorder, sequence.pending > KVCache.blockTokens else { return nil }
    return running[..<index].firstIndex { older in
      older.pending > 1 && older.path.root == sequence.path.root && older.computed < end
        && older.computed >= sequence.computed && older.tokens.count > end
        && older.keys[..<end].elementsEqual(sequence.keys[..<end])
    }
  }

  // MARK: Saving

  /// Gives blocks that were used again to the writer: one per turn while there is work, so that streams wait for
  /// the copy of a block at most.
  func saveHotPrefixes() {
    guard let store, prefixes.hasNewlyHot else { return }
    var left = running.isEmpty ? Int.max : 1
    while left > 0, store.hasRoom, let record = prefixes.takeNewlyHot() {
      guard !store.isSaved(record.name) else { continue }
      store.save(block(record))
      left -= 1
    }
  }

  /// The end: saves everything that is not on disk, lately used first.
  func savePrefixes() {
    store?.finish(prefixes.records) { block($0) }
  }

  private func block(_ record: PrefixCache.Record) -> PrefixBlock {
    PrefixBlock(
      name: record.name, parent: record.parent, tokens: record.tokens,
      payload: cache.bytes(ofBlock: record.block))
  }
}
