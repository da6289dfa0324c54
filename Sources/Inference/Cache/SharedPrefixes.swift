// What sequences need not compute: blocks of others, from memory and from disk; and what is saved for later runs.
//
// A sequence is known by its keys: its tokens, and in place of an image or an audio clip what stands for its content.

import Compute
import Platform

extension EngineMemory {
  /// Whether sequences share what they compute at all.
  var sharesPrefixes: Bool { prefixes.isEnabled }

  /// Takes over what others have computed of a sequence that stands at a border. At least one of its tokens is left to
  /// compute.
  func fork(_ sequence: inout SequenceMemory, keys: [Int32]) {
    prefixes.adopt(keys, path: &sequence.path, table: &sequence.blocks, pool: &pool)
    sequence.count = sequence.path.blocks * KVCache.blockTokens
  }

  /// Takes over the part of a cached block that agrees with what follows, as a copy: copying 32 positions is quicker
  /// than computing one.
  func forkPart(_ sequence: inout SequenceMemory, keys: [Int32]) {
    guard let (source, count) = prefixes.partial(keys, sequence.path) else { return }
    pool.retain(CollectionOfOne(source))
    let blocks = sequence.path.blocks + 1
    makeRoom(forBlocks: 1)
    if pool.extend(&sequence.blocks, to: blocks) {
      cache.copyBlock(source, to: sequence.blocks[blocks - 1])
      sequence.count += count
    }
    var held = [source]
    pool.release(&held)
  }

  /// Reads the blocks that come next from disk. True when there is more than the time allows.
  func load(_ sequence: inout SequenceMemory, keys: [Int32], until deadline: Instant) -> Bool {
    guard let store, prefixes.isEnabled else { return false }
    while let tokens = PrefixCache.nextBlock(keys, sequence.path),
      let (name, parent) = prefixes.name(of: tokens, after: sequence.path), store.contains(name)
    {
      guard Instant.now < deadline else { return true }
      let blocks = sequence.path.blocks + 1
      makeRoom(forBlocks: 1)
      guard pool.freeCount > 0, let payload = store.read(name, parent: parent, tokens: tokens),
        pool.extend(&sequence.blocks, to: blocks), cache.setBlock(sequence.blocks[blocks - 1], payload)
      else { return false }
      sequence.count = blocks * KVCache.blockTokens
      snapshot(&sequence, keys: keys)
    }
    return false
  }

  /// Shows others what the sequence has computed, as far as its blocks are full.
  func snapshot(_ sequence: inout SequenceMemory, keys: [Int32]) {
    prefixes.record(
      keys, computed: sequence.count, path: &sequence.path, table: sequence.blocks, pool: &pool)
  }

  /// The end of what a sequence that has computed `count` tokens shows to others next.
  func border(after count: Int) -> Int { (count / KVCache.blockTokens + 1) * KVCache.blockTokens }

  // MARK: Saving

  /// Whether blocks that were used again wait to be saved.
  var hasUnsaved: Bool { prefixes.hasNewlyHot }

  /// Gives blocks that were used again to the writer, at most `most` of them: a stream waits for the copy of each.
  func saveHot(most: Int) {
    guard let store, prefixes.hasNewlyHot else { return }
    var left = most
    while left > 0, store.hasRoom, let record = prefixes.takeNewlyHot() {
      guard !store.isSaved(record.name) else { continue }
      store.save(block(record))
      left -= 1
    }
  }

  /// The end: saves everything that is not on disk, lately used first.
  func saveAll() {
    store?.finish(prefixes.records) { block($0) }
  }

  private func block(_ record: PrefixCache.Record) -> PrefixBlock {
    PrefixBlock(
      name: record.name, parent: record.parent, tokens: record.tokens,
      payload: cache.bytes(ofBlock: record.block))
  }
}
