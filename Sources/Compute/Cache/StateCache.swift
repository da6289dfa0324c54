// States of recurrent layers: a sequence holds one slot, and a snapshot of a sequence holds another.
//
// A slot is the state of all recurrent layers after some number of positions:
//
//   slot 0   layer 0: convolution [rows][channels] | state [heads][keyDim][valueDim] | recent [32][channels],
//            layer 1: ..., layer 2: ...
//   slot 1   ...
//
// A recurrence may keep what recent positions add to its matrices beside them, and add it 32 positions at a time, at the
// borders of blocks (`LinearRecurrence`). Every part starts at a multiple of 64 bytes. A step overwrites the state, so that a sequence can only go back to a
// position of which a snapshot was taken: `fork` takes one, `copy` puts it back. All slots lie in one anonymous mapping,
// and memory is committed as they are first taken.

import Platform

/// States of all sequences. Engine thread only; kernels of one step write different slots.
package final class StateCache {
  package let shape: [StateShape]
  package let slotCount: Int
  /// Bytes of one slot over all layers, with padding.
  package let bytesPerSlot: Int

  private let memory: AnonymousMemory
  /// Where each layer's parts start in a slot, in bytes.
  private let places: [Place]
  /// Free slots, the next one last.
  private var free: [Int32]
  private var isTaken: [Bool]

  private struct Place {
    let convolution, state, recent: Int
  }

  /// Reserves address space; memory is committed when slots are taken.
  ///
  /// - Throws: `invalidSize` when a size is not positive or the total overflows, `outOfMemory`.
  package init(shape: [StateShape], slotCount: Int) throws(ComputeError) {
    let (places, perSlot) = try Self.layout(shape)
    guard (1...Int(Int32.max)).contains(slotCount) else {
      throw .invalidSize(what: "state slots", value: slotCount)
    }
    let (total, overflow) = perSlot.multipliedReportingOverflow(by: slotCount)
    guard !overflow else { throw .invalidSize(what: "state slots", value: slotCount) }
    (self.shape, self.slotCount, self.places) = (shape, slotCount, places)
    bytesPerSlot = perSlot
    memory = try AnonymousMemory(byteCount: total, purpose: "the states of recurrent layers")
    free = (0..<slotCount).reversed().map { Int32(truncatingIfNeeded: $0) }
    isTaken = [Bool](repeating: false, count: slotCount)
  }

  /// Bytes of one slot for layers of this shape, to size a cache before making it.
  ///
  /// - Throws: `invalidSize` without layers, for sizes out of range and when the sum overflows.
  package static func bytesPerSlot(_ shape: [StateShape]) throws(ComputeError) -> Int {
    try layout(shape).bytes
  }

  private static func layout(_ shape: [StateShape]) throws(ComputeError) -> (places: [Place], bytes: Int) {
    guard !shape.isEmpty else { throw .invalidSize(what: "recurrent layers", value: 0) }
    var (places, next): ([Place], Int) = ([], 0)
    for layer in shape {
      let (bytes, parts) = (try layer.byteCount(), try layer.parts())
      // All parts are within `bytes`, which fits: only the padding and the sum may not.
      let (end, overflow) = next.addingReportingOverflow(bytes + 192)
      guard !overflow, end <= Int.max / 2 else { throw .invalidSize(what: "recurrent state", value: bytes) }
      let state = next + aligned(parts.convolution * MemoryLayout<Float>.size)
      let recent = state + aligned(parts.state * MemoryLayout<Float>.size)
      places.append(Place(convolution: next, state: state, recent: recent))
      next = recent + aligned(parts.recent * MemoryLayout<Float>.size)
    }
    return (places, next)
  }

  private static func aligned(_ bytes: Int) -> Int { (bytes + 63) & ~63 }

  // MARK: Slots

  /// Slots that nobody holds.
  package var freeSlots: Int { free.count }

  /// A slot of zeros, the state before the first position; nil when all are taken.
  package func take() -> Int32? {
    guard let slot = free.popLast() else { return nil }
    isTaken[Int(slot)] = true
    clear(slot)
    return slot
  }

  /// A slot with the state of `source`: of a second sequence, or a snapshot to go back to. Nil when all are taken.
  package func fork(_ source: Int32) -> Int32? {
    precondition(holds(source), "state slot is not taken")
    guard let slot = free.popLast() else { return nil }
    isTaken[Int(slot)] = true
    copy(source, to: slot)
    return slot
  }

  /// Gives a slot back, and its whole pages to the system.
  package func release(_ slot: Int32) {
    precondition(holds(slot), "state slot is not taken")
    isTaken[Int(slot)] = false
    free.append(slot)
    let page = Int(getpagesize())
    let start = (Int(slot) * bytesPerSlot + page - 1) / page * page
    let end = (Int(slot) + 1) * bytesPerSlot / page * page
    if start < end { memory.discard(start..<end) }
  }

  /// The state before the first position.
  package func clear(_ slot: Int32) {
    bytes(slot).initializeMemory(as: UInt8.self, repeating: 0)
  }

  /// Overwrites the state of `target`: a sequence goes back to a snapshot.
  package func copy(_ source: Int32, to target: Int32) {
    bytes(target).copyMemory(from: UnsafeRawBufferPointer(bytes(source)))
  }

  /// The state of all layers: `bytesPerSlot` bytes, for `setSlot`.
  package func bytes(ofSlot slot: Int32) -> [UInt8] { Array(bytes(slot)) }

  /// Puts back what `bytes(ofSlot:)` gave, from a cache of the same shape. False, and nothing changed, when it has another
  /// size.
  package func setSlot(_ slot: Int32, _ source: ArraySlice<UInt8>) -> Bool {
    guard source.count == bytesPerSlot else { return false }
    source.withUnsafeBytes { bytes(slot).copyMemory(from: $0) }
    return true
  }

  private func holds(_ slot: Int32) -> Bool {
    isTaken.indices.contains(Int(slot)) && isTaken[Int(slot)]
  }

  private func bytes(_ slot: Int32) -> UnsafeMutableRawBufferPointer {
    precondition(holds(slot), "state slot is not taken")
    return UnsafeMutableRawBufferPointer(start: memory.start + Int(slot) * bytesPerSlot, count: bytesPerSlot)
  }

  // MARK: Layers

  /// The inputs that a layer's convolution still needs, the oldest first: `[convolutionRows, convolutionChannels]` in
  /// place. `layer` counts the recurrent layers alone.
  package func convolution(_ layer: Int, of slot: Int32) -> Rows {
    rows(
      at: places[layer].convolution, of: slot, shape[layer].convolutionRows, shape[layer].convolutionChannels)
  }

  /// The matrices of a layer's heads, one below the other: `[heads · keyDim, valueDim]` in place.
  package func state(_ layer: Int, of slot: Int32) -> Rows {
    rows(at: places[layer].state, of: slot, shape[layer].heads * shape[layer].keyDim, shape[layer].valueDim)
  }

  /// What a layer keeps of the positions since the last border of blocks: `[32, recentChannels]` in place, in the order
  /// of its recurrence.
  package func recent(_ layer: Int, of slot: Int32) -> Rows {
    rows(at: places[layer].recent, of: slot, KVCache.blockTokens, shape[layer].recentChannels)
  }

  private func rows(at offset: Int, of slot: Int32, _ count: Int, _ columns: Int) -> Rows {
    precondition(holds(slot), "state slot is not taken")
    let base = memory.start + Int(slot) * bytesPerSlot + offset
    return Rows(
      base: base.assumingMemoryBound(to: Float.self), count: count, columns: columns, stride: columns)
  }
}
