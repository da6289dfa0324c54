// SHA-1 (FIPS 180-4): how Git names content. Forgers can make two contents of one name; damage cannot.

/// The hash of all bytes given to `update` so far; a copy goes on by itself.
package struct SHA1 {
  private var state: [UInt32] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0]
  private var words = [UInt32](repeating: 0, count: 80)
  private var blocks = MessageBlocks()

  package init() {}

  /// The hash of a file of that many bytes as Git names it: its kind and length come first.
  package static func ofGitBlob(bytes count: Int) -> SHA1 {
    var hash = SHA1()
    hash.update(Array("blob \(count)".utf8) + [0])
    return hash
  }

  /// Appends bytes to the message; how it is cut into calls does not matter.
  package mutating func update(_ bytes: [UInt8]) { update(bytes[...]) }

  /// Appends a part of an array without a copy.
  package mutating func update(_ bytes: ArraySlice<UInt8>) {
    bytes.withUnsafeBytes { bytes in blocks.update(bytes) { Self.mix($0, &words, &state) } }
  }

  /// The 20 bytes of the digest of everything so far.
  package func finish() -> [UInt8] {
    var last = self
    last.update(blocks.padding)
    return MessageBlocks.digest(last.state)
  }

  private static func mix(_ block: UnsafeRawBufferPointer, _ words: inout [UInt32], _ state: inout [UInt32]) {
    words.withUnsafeMutableBufferPointer { w in
      for index in 0..<16 {
        w[index] = UInt32(bigEndian: block.loadUnaligned(fromByteOffset: index * 4, as: UInt32.self))
      }
      for index in 16..<80 {
        let mixed = w[index - 3] ^ w[index - 8] ^ w[index - 14] ^ w[index - 16]
        w[index] = MessageBlocks.rotatedRight(mixed, by: 31)
      }
    }
    var (a, b, c, d, e) = (state[0], state[1], state[2], state[3], state[4])
    for index in 0..<80 {
      let (chosen, constant): (UInt32, UInt32) =
        switch index {
        case 0..<20: (b & c | ~b & d, 0x5a82_7999)
        case 20..<40: (b ^ c ^ d, 0x6ed9_eba1)
        case 40..<60: (b & c | b & d | c & d, 0x8f1b_bcdc)
        default: (b ^ c ^ d, 0xca62_c1d6)
        }
      let next = MessageBlocks.rotatedRight(a, by: 27) &+ chosen &+ e &+ constant &+ words[index]
      (a, b, c, d, e) = (next, a, MessageBlocks.rotatedRight(b, by: 2), c, d)
    }
    for (index, value) in [a, b, c, d, e].enumerated() { state[index] &+= value }
  }
}
