// Random numbers without a state: Philox 4x32-10, a function of the seed and the number of the draw.
//
// A request's draw n must not depend on how its earlier draws were made (alone, in a batch, before a
// preemption), so the generator is a keyed hash of n instead of a sequence.
// Source: Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011.

/// Uniform numbers by seed and number of the draw; the same on every machine.
package enum Random {
  /// The Philox 4x32-10 block of a counter under a key.
  static func philox(counter: SIMD4<UInt32>, key: SIMD2<UInt32>) -> SIMD4<UInt32> {
    var counter = counter
    var key = key
    for _ in 0..<10 {
      let low = UInt32(0xD251_1F53).multipliedFullWidth(by: counter[0])
      let high = UInt32(0xCD9E_8D57).multipliedFullWidth(by: counter[2])
      counter = SIMD4(
        high.high ^ counter[1] ^ key[0], high.low, low.high ^ counter[3] ^ key[1], low.low)
      key &+= SIMD2(0x9E37_79B9, 0xBB67_AE85)
    }
    return counter
  }

  /// A uniform number in 0..<1 with 53 random bits: the draw number `step` under `seed`.
  ///
  /// - Parameter stream: numbers of other streams have nothing to do with these.
  package static func uniform(seed: UInt64, step: UInt64, stream: UInt32 = 0) -> Double {
    let block = philox(
      counter: SIMD4(UInt32(truncatingIfNeeded: step), UInt32(truncatingIfNeeded: step >> 32), stream, 0),
      key: SIMD2(UInt32(truncatingIfNeeded: seed), UInt32(truncatingIfNeeded: seed >> 32)))
    let bits = UInt64(block[1]) << 32 | UInt64(block[0])
    return Double(bits >> 11) * 0x1p-53
  }
}
