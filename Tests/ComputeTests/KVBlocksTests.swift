// Blocks of keys and values as bytes: taken out, put back, copied, in every format.

import Platform
import Testing

@testable import Compute

@Suite struct KVBlocksTests {
  private let shape = [KVLayerShape(kvHeads: 2, headDim: 8), KVLayerShape(kvHeads: 1, headDim: 4)]

  private func pattern(_ count: Int, seed: Int) -> [UInt8] {
    (0..<count).map { UInt8(truncatingIfNeeded: ($0 &* 31) ^ ($0 >> 7) &+ seed) }
  }

  @Test(arguments: KVFormat.allCases)
  func `a block is what was put there, and its neighbours are not touched`(
    _ format: KVFormat
  ) throws {
    let cache = try KVCache(shape: shape, blockCount: 5, format: format)
    let blocks = (0..<5).map { pattern(cache.bytesPerBlock, seed: $0) }
    for (index, bytes) in blocks.enumerated() { #expect(cache.setBlock(Int32(index), bytes[...])) }
    for (index, bytes) in blocks.enumerated() { #expect(cache.bytes(ofBlock: Int32(index)) == bytes) }
    cache.copyBlock(1, to: 3)
    #expect((0..<5).map { cache.bytes(ofBlock: $0) } == [0, 1, 2, 1, 4].map { blocks[$0] })
  }

  @Test func `bytes of another size are refused`() throws {
    let cache = try KVCache(shape: shape, blockCount: 2)
    let before = cache.bytes(ofBlock: 1)
    #expect(!cache.setBlock(1, pattern(cache.bytesPerBlock - 1, seed: 0)[...]))
    #expect(!cache.setBlock(1, []))
    #expect(cache.bytes(ofBlock: 1) == before)
  }

  @Test func `the bytes of a block are the kernels' keys and values`() throws {
    let cache = try KVCache(shape: [KVLayerShape(kvHeads: 1, headDim: 1)], blockCount: 2)
    cache.layer(0).keys(block: 1, head: 0).storeBytes(of: 1.5, toByteOffset: 8, as: Float.self)
    let bytes = cache.bytes(ofBlock: 1)
    #expect(bytes.count == 256)
    #expect(Array(bytes[8..<12]) == [0, 0, 0xC0, 0x3F])
  }

  @Test(arguments: KVFormat.allCases)
  func `the sliding layers' part of a block is given back alone`(format: KVFormat) throws {
    let shape = [
      KVLayerShape(kvHeads: 2, headDim: 256, window: 64), KVLayerShape(kvHeads: 2, headDim: 256),
    ]
    let cache = try KVCache(shape: shape, blockCount: 4, format: format)
    #expect(cache.window == 64)
    #expect(cache.slidingBytesPerBlock * 2 == cache.bytesPerBlock)
    let ones = [UInt8](repeating: 1, count: cache.bytesPerBlock)
    for block in 0..<4 as Range<Int32> { #expect(cache.setBlock(block, ones[...])) }
    cache.discard([1, 2], onlySliding: true)
    let half = cache.slidingBytesPerBlock
    for block in [1, 2] as [Int32] {
      let bytes = cache.bytes(ofBlock: block)
      // What shares a page with a neighbour stays.
      #expect(bytes[..<half].count { $0 != 0 } < 2 * Int(getpagesize()))
      #expect(bytes[half...].allSatisfy { $0 == 1 })
    }
    for block in [0, 3] as [Int32] { #expect(cache.bytes(ofBlock: block) == ones) }
    #expect(KVCache.firstSeen(from: 95, window: 64) == 1)
    #expect(KVCache.firstSeen(from: 94, window: 64) == 0)
    #expect(KVCache.firstSeen(from: 95, window: nil) == 0)
    #expect(KVCache.firstSeen(from: 95, window: 1 << 40) == 0)
  }
}
