// What sequences need not compute: blocks of others, from memory and from disk; and what is saved for later runs.
//
// A sequence is known by its keys: its tokens, and in place of an image or an audio clip what stands for its content.

import Compute
import Platform

extension EngineMemory {
  /// Tokens between two states that are kept of a running sequence.
  private static var stateInterval: Int { 256 }

  /// Whether sequences share what they compute at all.
  var sharesPrefixes: Bool { prefixes.isEnabled }

  /// Takes over what others have computed of a sequence that stands at a border. At least one of its tokens is left to
  /// compute.
  func fork(_ sequence: inout SequenceMemory, keys: [Int32]) {
    guard holdsState(&sequence) else { return }
    let held = sequence.blocks.count
    let state = prefixes.adopt(keys, path: &sequence.path, table: &sequence.blocks, pool: &pool)
    sequence.count = sequence.path.blocks * KVCache.blockTokens
    slide(&sequence, held: held)
    if let state { resume(sequence, from: state) }
  }

  /// Takes over the part of a cached block that agrees with what follows, as a copy: copying 32 positions is quicker
  /// than computing one.
  func forkPart(_ sequence: inout SequenceMemory, keys: [Int32]) {
    guard holdsState(&sequence), let part = prefixes.partial(keys, sequence.path) else { return }
    let held = part.before + [part.block]
    pool.retain(held)
    makeRoom(forBlocks: 1)
    guard pool.freeCount > 0 else { return pool.release(held) }
    sequence.blocks += part.before
    sequence.path = part.path
    sequence.count = part.path.blocks * KVCache.blockTokens + part.count
    if pool.extend(&sequence.blocks, to: part.path.blocks + 1), let block = sequence.blocks.last {
      cache.copyBlock(part.block, to: block)
    }
    if let state = part.state { resume(sequence, from: state) }
    pool.release([part.block])
  }

  /// Reads the blocks that come next from disk. True when there is more than the time allows.
  func load(_ sequence: inout SequenceMemory, keys: [Int32], until deadline: Instant) -> Bool {
    guard let store, prefixes.isEnabled else { return false }
    guard cache.states == nil else {
      return loadStretches(&sequence, keys: keys, from: store, until: deadline)
    }
    while let tokens = PrefixCache.nextBlock(keys, sequence.path),
      let (name, parent) = prefixes.name(of: tokens, after: sequence.path), store.contains(name)
    {
      guard Instant.now < deadline else { return true }
      let blocks = sequence.path.blocks + 1
      slide(&sequence)
      makeRoom(forBlocks: 1)
      guard pool.freeCount > 0, let payload = store.read(name, parent: parent, tokens: tokens),
        pool.extend(&sequence.blocks, to: blocks), cache.setBlock(sequence.blocks[blocks - 1], payload)
      else { return false }
      sequence.count = blocks * KVCache.blockTokens
      snapshot(&sequence, keys: keys)
    }
    return false
  }

  /// A block as the disk knows it.
  private struct StoredBlock {
    let name, parent: String
    let tokens: [Int32]
  }

  /// Most blocks before a state that are read for it.
  private static var longestStretch: Int { 64 }

  /// As `load`, for models with recurrent layers: blocks up to one whose state is there too, and that state. Nothing
  /// changes where one of them cannot be read.
  private func loadStretches(
    _ sequence: inout SequenceMemory, keys: [Int32], from store: PrefixStore, until deadline: Instant
  ) -> Bool {
    while let stretch = stretch(after: sequence, keys: keys, in: store) {
      guard Instant.now < deadline else { return true }
      guard load(stretch, &sequence, keys: keys, from: store) else { return false }
    }
    return false
  }

  /// The blocks that come next on disk, up to the first whose state is there.
  private func stretch(
    after sequence: SequenceMemory, keys: [Int32], in store: PrefixStore
  ) -> [StoredBlock]? {
    guard var tokens = PrefixCache.nextBlock(keys, sequence.path),
      var (name, parent) = prefixes.name(of: tokens, after: sequence.path)
    else { return nil }
    var blocks: [StoredBlock] = []
    let size = KVCache.blockTokens
    while blocks.count < Self.longestStretch, store.contains(name) {
      blocks.append(StoredBlock(name: name, parent: parent, tokens: tokens))
      if store.containsState(name) { return blocks }
      let start = (sequence.path.blocks + blocks.count) * size
      guard start + size < keys.count else { return nil }
      tokens = Array(keys[start..<start + size])
      (name, parent) = (store.names.name(of: tokens, after: name), name)
    }
    return nil
  }

  private func load(
    _ stretch: [StoredBlock], _ sequence: inout SequenceMemory, keys: [Int32], from store: PrefixStore
  ) -> Bool {
    var payloads: [ArraySlice<UInt8>] = []
    for block in stretch {
      guard let payload = store.read(block.name, parent: block.parent, tokens: block.tokens) else {
        return false
      }
      payloads.append(payload)
    }
    guard holdsState(&sequence), let slot = sequence.slot, let last = stretch.last,
      let state = store.readState(last.name, parent: last.parent, tokens: last.tokens)
    else { return false }
    let (first, count) = (sequence.path.blocks, stretch.count)
    slide(&sequence)
    makeRoom(forBlocks: count)
    guard pool.freeCount >= count, pool.extend(&sequence.blocks, to: first + count) else { return false }
    for (index, payload) in payloads.enumerated() {
      guard cache.setBlock(sequence.blocks[first + index], payload) else { return false }
    }
    guard cache.states?.setSlot(slot, state) == true else { return false }
    sequence.count = (first + count) * KVCache.blockTokens
    prefixes.record(
      keys, computed: sequence.count, path: &sequence.path, table: sequence.blocks, pool: &pool,
      isKept: sequence.isKept)
    prefixes.keep(state: slot, at: sequence.path)
    return true
  }

  /// Shows others what the sequence has computed, as far as its blocks are full, and its state where it stands at a
  /// border.
  func snapshot(_ sequence: inout SequenceMemory, keys: [Int32]) {
    prefixes.record(
      keys, computed: sequence.count, path: &sequence.path, table: sequence.blocks, pool: &pool,
      isKept: sequence.isKept)
    guard let slot = sequence.slot, border(after: sequence.count - 1, of: sequence) == sequence.count else {
      return
    }
    prefixes.keep(state: slot, at: sequence.path)
  }

  /// The first position after `count` at which what `sequence` has computed can be shared: the end of a block. A state
  /// is kept at some borders only, among them the last one in the prompt.
  func border(after count: Int, of sequence: SequenceMemory) -> Int {
    let size = KVCache.blockTokens
    guard cache.states != nil else { return (count / size + 1) * size }
    let next = (count / Self.stateInterval + 1) * Self.stateInterval
    let last = (sequence.promptCount - 1) / size * size
    return last > count ? min(last, next) : next
  }

  /// Rows that a step may compute of a sequence such that it stops where its state is kept.
  func rowsToBorder(of sequence: SequenceMemory) -> Int {
    guard sharesPrefixes, cache.states != nil else { return .max }
    return border(after: sequence.count, of: sequence) - sequence.count
  }

  // MARK: Saving

  /// Whether blocks that were used again wait to be saved.
  var hasUnsaved: Bool { store?.isOpen == true && prefixes.hasNewlyHot }

  /// Gives blocks that were used again to the writer, at most `most` of them: a stream waits for the copy of each.
  func saveHot(most: Int) {
    guard let store, prefixes.hasNewlyHot else { return }
    var left = most
    // Once as they are handed over, and once in the bytes of a file.
    let bytes = 2 * (cache.bytesPerBlock + (cache.states?.bytesPerSlot ?? 0))
    while left > 0, store.hasRoom, prefixes.hasNewlyHot {
      guard let loan = MemoryLoan(holding: bytes, of: quota.ledger, for: .prefixCache) else {
        // It is saved when it is used once more, or at the end.
        _ = prefixes.takeNewlyHot()
        return quota.ask(forBytes: bytes, at: .now)
      }
      guard let record = prefixes.takeNewlyHot() else { return }
      guard !store.isSaved(record) else { continue }
      var block = block(record)
      block.memory = loan
      store.save(block)
      // A state is as long as dozens of blocks.
      left -= record.state == nil ? 1 : most
    }
  }

  /// The end: saves everything that is not on disk, lately used first, for so many seconds.
  func saveAll(within seconds: Double) {
    store?.finish(prefixes.records, within: seconds) { block($0) }
  }

  private func block(_ record: PrefixCache.Record) -> PrefixBlock {
    PrefixBlock(
      name: record.name, parent: record.parent, tokens: record.tokens,
      payload: cache.bytes(ofBlock: record.block),
      state: record.state.flatMap { cache.states?.bytes(ofSlot: $0) })
  }
}
