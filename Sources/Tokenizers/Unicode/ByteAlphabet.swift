// The byte-level alphabet: a printable scalar for each of the 256 bytes (GPT-2).

/// Printable Latin-1 stands for itself, the other bytes for U+0100, U+0101, ... in order.
enum ByteAlphabet {
  /// Spelling of each byte.
  static let spellings: [[UInt8]] = scalars.map { scalar in
    var spelling: [UInt8] = []
    spelling.append(scalar: scalar)
    return spelling
  }

  private static let scalars: [UInt32] = {
    var next: UInt32 = 0x100
    return (0..<256).map { (byte: UInt32) -> UInt32 in
      switch byte {
      case 33...126, 161...172, 174...255: return byte
      default:
        defer { next += 1 }
        return next
      }
    }
  }()

  /// The byte of each scalar below U+0144, -1 where there is none.
  private static let bytes: [Int16] = {
    var table = [Int16](repeating: -1, count: 0x144)
    for (byte, scalar) in scalars.enumerated() { table[Int(scalar)] = Int16(byte) }
    return table
  }()

  /// Appends the spelling of `bytes[range]`.
  static func spell(_ bytes: [UInt8], _ range: Range<Int>, into out: inout [UInt8]) {
    for at in range { out.append(contentsOf: spellings[Int(bytes[at])]) }
  }

  /// The bytes that a spelling stands for; itself when any scalar is outside the alphabet.
  static func bytes(of spelling: [UInt8]) -> [UInt8] {
    var out: [UInt8] = []
    out.reserveCapacity(spelling.count)
    var at = 0
    while at < spelling.count {
      let (scalar, length) = decodeScalar(spelling, at: at)
      guard scalar < 0x144, bytes[Int(scalar)] >= 0 else { return spelling }
      out.append(UInt8(truncatingIfNeeded: bytes[Int(scalar)]))
      at += length
    }
    return out
  }
}
