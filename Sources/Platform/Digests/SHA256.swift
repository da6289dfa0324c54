// SHA-256 (FIPS 180-4), fed piece by piece: names content, such as files of a checkpoint, by what is in them.

/// The hash of all bytes given to `update` so far; a copy goes on by itself.
package struct SHA256 {
  /// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
  private static let constants: [UInt32] = [
    0x428a_2f98, 0x7137_4491, 0xb5c0_fbcf, 0xe9b5_dba5, 0x3956_c25b, 0x59f1_11f1, 0x923f_82a4, 0xab1c_5ed5,
    0xd807_aa98, 0x1283_5b01, 0x2431_85be, 0x550c_7dc3, 0x72be_5d74, 0x80de_b1fe, 0x9bdc_06a7, 0xc19b_f174,
    0xe49b_69c1, 0xefbe_4786, 0x0fc1_9dc6, 0x240c_a1cc, 0x2de9_2c6f, 0x4a74_84aa, 0x5cb0_a9dc, 0x76f9_88da,
    0x983e_5152, 0xa831_c66d, 0xb003_27c8, 0xbf59_7fc7, 0xc6e0_0bf3, 0xd5a7_9147, 0x06ca_6351, 0x1429_2967,
    0x27b7_0a85, 0x2e1b_2138, 0x4d2c_6dfc, 0x5338_0d13, 0x650a_7354, 0x766a_0abb, 0x81c2_c92e, 0x9272_2c85,
    0xa2bf_e8a1, 0xa81a_664b, 0xc24b_8b70, 0xc76c_51a3, 0xd192_e819, 0xd699_0624, 0xf40e_3585, 0x106a_a070,
    0x19a4_c116, 0x1e37_6c08, 0x2748_774c, 0x34b0_bcb5, 0x391c_0cb3, 0x4ed8_aa4a, 0x5b9c_ca4f, 0x682e_6ff3,
    0x748f_82ee, 0x78a5_636f, 0x84c8_7814, 0x8cc7_0208, 0x90be_fffa, 0xa450_6ceb, 0xbef9_a3f7, 0xc671_78f2,
  ]

  private var state: [UInt32] = [
    0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19,
  ]
  private var words = [UInt32](repeating: 0, count: 64)
  private var blocks = MessageBlocks()

  package init() {}

  /// Appends bytes to the message; how it is cut into calls does not matter.
  package mutating func update(_ bytes: [UInt8]) { update(bytes[...]) }

  /// Appends a part of an array without a copy.
  package mutating func update(_ bytes: ArraySlice<UInt8>) {
    bytes.withUnsafeBytes { update($0) }
  }

  /// Appends bytes that are somewhere in memory, such as a mapped file, without a copy.
  package mutating func update(_ bytes: UnsafeRawBufferPointer) {
    blocks.update(bytes) { Self.mix($0, &words, &state) }
  }

  /// The 32 bytes of the digest of everything so far.
  package func finish() -> [UInt8] {
    var last = self
    last.update(blocks.padding)
    return MessageBlocks.digest(last.state)
  }

  /// The 32 bytes of the digest of one message.
  package static func digest(_ bytes: [UInt8]) -> [UInt8] {
    var hash = SHA256()
    hash.update(bytes)
    return hash.finish()
  }

  /// The digest as `sha256sum` prints it: 64 lowercase hexadecimal digits.
  package static func hexadecimal(_ digest: [UInt8]) -> String {
    let digits = Array("0123456789abcdef".utf8)
    return String(
      decoding: digest.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
  }

  /// The 32 bytes that 64 hexadecimal digits spell; nil for anything else.
  package static func digest(hexadecimal text: String) -> [UInt8]? {
    let digits = text.utf8.compactMap { Character(Unicode.Scalar($0)).hexDigitValue }
    guard digits.count == 64, text.utf8.count == 64 else { return nil }
    return (0..<32).map { UInt8(digits[2 * $0] * 16 + digits[2 * $0 + 1]) }
  }

  private static func mix(_ block: UnsafeRawBufferPointer, _ words: inout [UInt32], _ state: inout [UInt32]) {
    words.withUnsafeMutableBufferPointer { w in
      for index in 0..<16 {
        w[index] = UInt32(bigEndian: block.loadUnaligned(fromByteOffset: index * 4, as: UInt32.self))
      }
      for index in 16..<64 {
        let (a, b) = (w[index - 15], w[index - 2])
        let low = rotated(a, by: 7) ^ rotated(a, by: 18) ^ (a >> 3)
        let high = rotated(b, by: 17) ^ rotated(b, by: 19) ^ (b >> 10)
        w[index] = w[index - 16] &+ low &+ w[index - 7] &+ high
      }
    }
    var (a, b, c, d) = (state[0], state[1], state[2], state[3])
    var (e, f, g, h) = (state[4], state[5], state[6], state[7])
    words.withUnsafeBufferPointer { words in
      constants.withUnsafeBufferPointer { constants in
        for index in 0..<64 {
          let e1 = rotated(e, by: 6) ^ rotated(e, by: 11) ^ rotated(e, by: 25)
          let next = h &+ e1 &+ (e & f ^ ~e & g) &+ constants[index] &+ words[index]
          let a1 = rotated(a, by: 2) ^ rotated(a, by: 13) ^ rotated(a, by: 22)
          let last = a1 &+ (a & b ^ a & c ^ b & c)
          (h, g, f, e, d, c, b, a) = (g, f, e, d &+ next, c, b, a, next &+ last)
        }
      }
    }
    for (index, value) in [a, b, c, d, e, f, g, h].enumerated() { state[index] &+= value }
  }

  @inline(__always)
  private static func rotated(_ word: UInt32, by count: UInt32) -> UInt32 {
    MessageBlocks.rotatedRight(word, by: count)
  }
}
