// Numbers and bytes in the little-endian order of the index's files.

/// Appends values to bytes.
package struct ByteWriter {
  package var bytes: [UInt8] = []

  package init() {}

  package mutating func u32(_ value: Int) { number(UInt32(truncatingIfNeeded: value)) }
  package mutating func u64(_ value: UInt64) { number(value) }

  package mutating func block(_ block: [UInt8]) {
    u32(block.count)
    bytes += block
  }

  package mutating func floats(_ values: [Float]) {
    for value in values { number(value.bitPattern) }
  }

  private mutating func number(_ value: some FixedWidthInteger) {
    withUnsafeBytes(of: value.littleEndian) { bytes.append(contentsOf: $0) }
  }
}

/// Reads values from bytes; nil beyond their end.
package struct ByteReader {
  private let bytes: UnsafeRawBufferPointer
  private(set) var offset = 0

  init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

  /// Reads from an array.
  package static func reading<Result>(_ bytes: [UInt8], _ read: (inout ByteReader) -> Result) -> Result {
    bytes.withUnsafeBytes { bytes in
      var reader = ByteReader(bytes)
      return read(&reader)
    }
  }

  package var left: Int { bytes.count - offset }

  package mutating func u32() -> Int? { number(UInt32.self).map { Int($0) } }
  package mutating func u64() -> UInt64? { number(UInt64.self) }

  package mutating func block() -> [UInt8]? {
    u32().flatMap { bytes($0) }
  }

  package mutating func bytes(_ count: Int) -> [UInt8]? {
    guard count >= 0, count <= left else { return nil }
    defer { offset += count }
    return Array(bytes[offset..<offset + count])
  }

  package mutating func floats(_ count: Int) -> [Float]? {
    guard count >= 0, count <= left / 4 else { return nil }
    defer { offset += 4 * count }
    return (0..<count).map { index in
      Float(
        bitPattern: UInt32(
          littleEndian: bytes.loadUnaligned(fromByteOffset: offset + 4 * index, as: UInt32.self)))
    }
  }

  private mutating func number<Number: FixedWidthInteger & BitwiseCopyable>(_ type: Number.Type) -> Number? {
    let size = MemoryLayout<Number>.size
    guard left >= size else { return nil }
    defer { offset += size }
    return Number(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: type))
  }
}
