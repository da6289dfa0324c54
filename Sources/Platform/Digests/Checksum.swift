// A 64-bit checksum of bytes: finds damage, not malice.

/// The checksum of files that only this program reads, such as stored prefixes.
package enum Checksum {
  /// Four lanes of eight bytes each, every step of which can be undone: no change within one word goes unseen, and
  /// any other with a chance of 2⁻⁶⁴.
  package static func of(_ bytes: [UInt8]) -> UInt64 { bytes.withUnsafeBytes { of($0) } }

  /// The checksum of a slice: that of an array of the same bytes.
  package static func of(_ bytes: ArraySlice<UInt8>) -> UInt64 { bytes.withUnsafeBytes { of($0) } }

  /// The checksum of bytes that are somewhere in memory, such as a mapped file.
  package static func of(_ bytes: UnsafeRawBufferPointer) -> UInt64 {
    let factor = SIMD4<UInt64>(repeating: 0x9E37_79B9_7F4A_7C15)
    var lanes = SIMD4<UInt64>(
      0x243F_6A88_85A3_08D3, 0x1319_8A2E_0370_7344, 0xA409_3822_299F_31D0, 0x082E_FA98_EC4E_6C89)
    var at = 0
    while at + 32 <= bytes.count {
      lanes = mixed(lanes ^ bytes.loadUnaligned(fromByteOffset: at, as: SIMD4<UInt64>.self), factor)
      at += 32
    }
    var rest = SIMD4<UInt64>.zero
    for (index, byte) in bytes[at...].enumerated() {
      rest[index / 8] |= UInt64(byte) << UInt64(index % 8 * 8)
    }
    lanes = mixed(lanes ^ rest, factor)
    var sum = UInt64(bytes.count)
    for lane in 0..<4 {
      sum = (sum ^ lanes[lane]) &* factor[0]
      sum ^= sum >> 29
    }
    return sum
  }

  @inline(__always)
  private static func mixed(_ lanes: SIMD4<UInt64>, _ factor: SIMD4<UInt64>) -> SIMD4<UInt64> {
    let product = lanes &* factor
    return product ^ (product &>> 32)
  }
}
