// A message cut into the blocks of 64 bytes that SHA-1 and SHA-256 mix, and the padding that ends it (FIPS 180-4).

/// Collects bytes until they fill a block.
struct MessageBlocks {
  /// Bytes that do not fill a block yet.
  private var rest: [UInt8] = []
  private var count: UInt64 = 0

  /// Appends bytes, and gives every block that is full now to `mix`.
  mutating func update(_ bytes: UnsafeRawBufferPointer, mix: (UnsafeRawBufferPointer) -> Void) {
    count &+= UInt64(bytes.count)
    var bytes = bytes[...]
    if !rest.isEmpty {
      let taken = bytes.prefix(64 - rest.count)
      rest.append(contentsOf: taken)
      bytes = bytes.dropFirst(taken.count)
      guard rest.count == 64 else { return }
      rest.withUnsafeBytes { block in mix(block) }
      rest.removeAll(keepingCapacity: true)
    }
    while bytes.count >= 64 {
      mix(UnsafeRawBufferPointer(rebasing: bytes.prefix(64)))
      bytes = bytes.dropFirst(64)
    }
    rest.append(contentsOf: bytes)
  }

  /// What makes the last block full: a one bit, zeros, and the length in bits.
  var padding: [UInt8] {
    var padding: [UInt8] = [0x80]
    padding.append(contentsOf: repeatElement(0, count: (119 - Int(count % 64)) % 64))
    let bits = count &* 8
    for shift in stride(from: 56, through: 0, by: -8) {
      padding.append(UInt8(truncatingIfNeeded: bits >> UInt64(shift)))
    }
    return padding
  }

  /// The bytes of a digest: its words, the high byte first.
  static func digest(_ words: [UInt32]) -> [UInt8] {
    words.flatMap { word in
      stride(from: 24, through: 0, by: -8).map { UInt8(truncatingIfNeeded: word >> UInt32($0)) }
    }
  }

  @inline(__always)
  static func rotatedRight(_ word: UInt32, by count: UInt32) -> UInt32 {
    word >> count | word << (32 &- count)
  }
}
