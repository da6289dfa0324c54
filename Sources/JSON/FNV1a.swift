// FNV-1a, a short hash that is the same on every machine: for names and check sums, no protection against malice.

/// The 64-bit variant of the function by Fowler, Noll and Vo (draft-eastlake-fnv, "FNV-1a").
package enum FNV1a {
  private static let basis: UInt64 = 0xCBF2_9CE4_8422_2325
  private static let prime: UInt64 = 0x0000_0100_0000_01B3

  /// The hash of bytes.
  package static func hash(_ bytes: [UInt8]) -> UInt64 {
    var hash = basis
    for byte in bytes { hash = (hash ^ UInt64(byte)) &* prime }
    return hash
  }

  /// The hash of a text's UTF-8.
  package static func hash(_ text: String) -> UInt64 { hash(Array(text.utf8)) }
}

extension UInt64 {
  /// As 16 hexadecimal digits: hashes and checksums in texts that all have one length.
  package var hexadecimal: String {
    let digits = String(self, radix: 16)
    return String(repeating: "0", count: 16 - digits.utf8.count) + digits
  }
}
