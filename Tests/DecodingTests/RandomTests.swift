// The generator against the published vectors of Philox 4x32-10, and the uniform numbers made from it.

import Testing

@testable import Decoding

@Suite struct RandomTests {
  // Source: Random123, tests/kat_vectors.
  @Test(arguments: [
    (
      SIMD4<UInt32>(repeating: 0), SIMD2<UInt32>(repeating: 0),
      SIMD4<UInt32>(0x6627_E8D5, 0xE169_C58D, 0xBC57_AC4C, 0x9B00_DBD8)
    ),
    (
      SIMD4<UInt32>(repeating: .max), SIMD2<UInt32>(repeating: .max),
      SIMD4<UInt32>(0x408F_276D, 0x41C8_3B0E, 0xA20B_C7C6, 0x6D54_51FD)
    ),
    (
      SIMD4<UInt32>(0x243F_6A88, 0x85A3_08D3, 0x1319_8A2E, 0x0370_7344),
      SIMD2<UInt32>(0xA409_3822, 0x299F_31D0),
      SIMD4<UInt32>(0xD16C_FE09, 0x94FD_CCEB, 0x5001_E420, 0x2412_6EA1)
    ),
  ])
  func `Philox gives the published blocks`(
    counter: SIMD4<UInt32>, key: SIMD2<UInt32>, block: SIMD4<UInt32>
  ) {
    #expect(Random.philox(counter: counter, key: key) == block)
  }

  @Test func `a draw depends on seed and step alone`() {
    let first = Random.uniform(seed: 7, step: 3)
    _ = Random.uniform(seed: 7, step: 2)
    #expect(Random.uniform(seed: 7, step: 3) == first)
    #expect(Random.uniform(seed: 8, step: 3) != first)
    #expect(Random.uniform(seed: 7, step: 1 << 40 | 3) != first)
    #expect(Random.uniform(seed: 7 | 1 << 40, step: 3) != first)
  }

  @Test func `draws fill the unit interval evenly`() {
    var bins = [Int](repeating: 0, count: 16)
    var neighbours = 0.0
    for step in UInt64(0)..<64_000 {
      let u = Random.uniform(seed: 1, step: step)
      #expect(u >= 0 && u < 1)
      bins[Int(u * 16)] += 1
      neighbours += (u - 0.5) * (Random.uniform(seed: 1, step: step + 1) - 0.5)
    }
    // Each bin expects 4000 with a standard deviation of 61; neighbouring draws are not correlated.
    #expect(bins.allSatisfy { abs($0 - 4000) < 250 }, "\(bins)")
    #expect(abs(neighbours / 64_000) < 0.002)
  }
}
