// States of recurrent layers: what a slot holds, and that sequences and snapshots do not touch each other.

import Testing

@testable import Compute

@Suite struct StateCacheTests {
  /// The second layer has no convolution, and neither fills whole cache lines.
  private let shape = [
    StateShape(convolutionRows: 3, convolutionChannels: 10, heads: 2, keyDim: 4, valueDim: 5),
    StateShape(heads: 1, keyDim: 7, valueDim: 1),
  ]

  /// Writes other numbers into every element of a slot.
  private func fill(_ cache: StateCache, _ slot: Int32, from first: Float) {
    var next = first
    for rows in matrices(cache, slot) {
      for row in 0..<rows.count {
        rows.set(row, to: (0..<rows.columns).map { next + Float($0) }[...])
        next += Float(rows.columns)
      }
    }
  }

  private func matrices(_ cache: StateCache, _ slot: Int32) -> [Rows] {
    cache.shape.indices.flatMap { [cache.convolution($0, of: slot), cache.state($0, of: slot)] }
  }

  private func values(_ cache: StateCache, _ slot: Int32) -> [Float] {
    matrices(cache, slot).flatMap { rows in (0..<rows.count).flatMap { rows.values(ofRow: $0) } }
  }

  @Test func `a slot has room for every layer's matrices, each on a cache line of its own`() throws {
    #expect(try shape[0].byteCount() == (3 * 10 + 2 * 4 * 5) * 4)
    #expect(try shape[1].byteCount() == 7 * 4)
    // 120 and 160 bytes, then 28, each up to a multiple of 64.
    #expect(try StateCache.bytesPerSlot(shape) == 128 + 192 + 64)
    let cache = try StateCache(shape: shape, slotCount: 2)
    #expect(cache.bytesPerSlot == 384)
    let slot = try #require(cache.take())
    #expect(matrices(cache, slot).map(\.count) == [3, 8, 0, 7])
    #expect(matrices(cache, slot).map(\.columns) == [10, 5, 0, 1])
    for rows in matrices(cache, slot) { #expect(Int(bitPattern: rows.base) % 64 == 0) }
  }

  @Test func `recent positions lie after the matrices, and a layer may have a convolution alone`() throws {
    let shape = [
      StateShape(heads: 1, keyDim: 2, valueDim: 3, recentChannels: 5),
      StateShape(convolutionRows: 2, convolutionChannels: 8, heads: 0, keyDim: 0, valueDim: 0),
    ]
    #expect(try shape[0].byteCount() == (2 * 3 + 32 * 5) * 4)
    #expect(try shape[1].byteCount() == 2 * 8 * 4)
    // 24 and 640 bytes, then 64, each up to a multiple of 64.
    #expect(try StateCache.bytesPerSlot(shape) == 64 + 640 + 64)
    let cache = try StateCache(shape: shape, slotCount: 1)
    let slot = try #require(cache.take())
    #expect(cache.recent(0, of: slot).count == 32 && cache.recent(0, of: slot).columns == 5)
    #expect(cache.recent(0, of: slot).base == cache.state(0, of: slot).base + 16)
    #expect(cache.state(1, of: slot).count == 0 && cache.recent(1, of: slot).columns == 0)
  }

  @Test func `a taken slot is zero, also after somebody else has had it`() throws {
    let cache = try StateCache(shape: shape, slotCount: 1)
    for _ in 0..<2 {
      let slot = try #require(cache.take())
      #expect(values(cache, slot) == [Float](repeating: 0, count: 77))
      fill(cache, slot, from: 1)
      #expect(values(cache, slot) == (1...77).map(Float.init))
      cache.release(slot)
    }
  }

  @Test func `slots run out, and a released one can be taken again`() throws {
    let cache = try StateCache(shape: shape, slotCount: 3)
    let slots = (0..<3).compactMap { _ in cache.take() }
    #expect(slots == [0, 1, 2] && cache.freeSlots == 0)
    #expect(cache.take() == nil && cache.fork(1) == nil)
    cache.release(1)
    #expect(cache.freeSlots == 1)
    #expect(cache.take() == 1)
  }

  @Test func `a sequence goes back to its snapshot, and its neighbours stay`() throws {
    let cache = try StateCache(shape: shape, slotCount: 3)
    let (sequence, neighbour) = (try #require(cache.take()), try #require(cache.take()))
    fill(cache, neighbour, from: 5000)
    fill(cache, sequence, from: 100)
    let before = values(cache, sequence)
    let snapshot = try #require(cache.fork(sequence))
    fill(cache, sequence, from: 900)
    #expect(values(cache, snapshot) == before)
    cache.copy(snapshot, to: sequence)
    #expect(values(cache, sequence) == before)
    cache.clear(sequence)
    #expect(values(cache, sequence).allSatisfy { $0 == 0 } && values(cache, snapshot) == before)
    #expect(values(cache, neighbour) == (0..<77).map { 5000 + Float($0) })
  }

  @Test func `the bytes of a slot bring its state back, in another cache too`() throws {
    let cache = try StateCache(shape: shape, slotCount: 2)
    let slot = try #require(cache.take())
    fill(cache, slot, from: 7)
    let (before, bytes) = (values(cache, slot), cache.bytes(ofSlot: slot))
    #expect(bytes.count == cache.bytesPerSlot)
    let other = try StateCache(shape: shape, slotCount: 5)
    let target = try #require(other.take())
    #expect(!other.setSlot(target, bytes.dropLast()))
    #expect(!other.setSlot(target, []))
    #expect(values(other, target).allSatisfy { $0 == 0 })
    #expect(other.setSlot(target, ([1] + bytes)[1...]))
    #expect(values(other, target) == before)
  }

  @Test func `large slots are zero again after their pages went back to the system`() throws {
    let large = [StateShape(heads: 3, keyDim: 64, valueDim: 64)]
    let cache = try StateCache(shape: large, slotCount: 3)
    let slots = (0..<3).compactMap { _ in cache.take() }
    for slot in slots { fill(cache, slot, from: Float(slot)) }
    let kept = [values(cache, 0), values(cache, 2)]
    cache.release(1)
    #expect([values(cache, 0), values(cache, 2)] == kept)
    #expect(cache.take() == 1)
    #expect(values(cache, 1).allSatisfy { $0 == 0 })
  }

  @Test(arguments: [
    StateShape(heads: 0, keyDim: 1, valueDim: 1), StateShape(heads: 0, keyDim: 0, valueDim: 0),
    StateShape(heads: 1, keyDim: 1, valueDim: 1, recentChannels: -1),
    StateShape(heads: 1, keyDim: -1, valueDim: 1),
    StateShape(convolutionRows: -1, heads: 1, keyDim: 1, valueDim: 1),
    StateShape(heads: 1 << 20, keyDim: 1 << 20, valueDim: 1 << 20),
    StateShape(heads: 1 << 20, keyDim: 1 << 20, valueDim: 1 << 21),
    StateShape(convolutionRows: 1 << 20, convolutionChannels: .max, heads: 1, keyDim: 1, valueDim: 1),
  ])
  func `shapes that make no sense are refused`(_ shape: StateShape) {
    #expect(throws: ComputeError.self) { try StateCache(shape: [shape], slotCount: 1) }
  }

  @Test func `caches without layers or slots, and of more bytes than there are, are refused`() {
    #expect(throws: ComputeError.self) { try StateCache(shape: [], slotCount: 1) }
    #expect(throws: ComputeError.self) { try StateCache(shape: shape, slotCount: 0) }
    #expect(throws: ComputeError.self) { try StateCache(shape: shape, slotCount: .max) }
    let wide = StateShape(heads: 1 << 20, keyDim: 1 << 20, valueDim: 1 << 16)
    #expect(throws: ComputeError.self) {
      try StateCache(shape: [StateShape](repeating: wide, count: 64), slotCount: 1)
    }
  }

  @Test func `a model's layers sort themselves into keys and values and states`() {
    let (keys, state) = (KVLayerShape(kvHeads: 2, headDim: 8), StateShape(heads: 1, keyDim: 2, valueDim: 3))
    let other = KVLayerShape(kvHeads: 1, headDim: 4)
    let layers: [LayerCache] = [.recurrent(state), .keysValues(keys), .recurrent(state), .keysValues(other)]
    #expect(layers.keysValues == [keys, other])
    #expect(layers.recurrent == [state, state])
  }
}
