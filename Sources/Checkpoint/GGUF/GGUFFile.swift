// One GGUF file: little-endian metadata by keys, a table of tensors, then their data. Read to the end of the table, checked
// against every rule, and mapped.
//
//     "GGUF" | version u32 | tensors u64 | pairs u64
//     pair: key, type u32, value        tensor: name, dimensions u32, sizes u64 (the row's first), type u32, offset u64
//     zeros up to a multiple of general.alignment | data
//
// A string is its length, u64, and its bytes. Source: github.com/ggml-org/ggml, docs/gguf.md.

import Compute
import JSON
import Platform

/// A mapped file, what it says of itself, and where its tensors lie. Values that nobody asks for stay in the file.
package final class GGUFFile: Sendable {
  /// A value of the metadata, or where it lies.
  private enum Value: Sendable {
    case integer(Int)
    case float(Double)
    case bool(Bool)
    case string(Range<Int>)
    /// The elements, of one type.
    case array(type: UInt32, count: Int, start: Int)
  }

  /// How a tensor is stored.
  enum Storage: Sendable, Equatable {
    case dense(DType)
    case blocks(BlockFormat)
    /// What nothing here reads.
    case unread(name: String)
  }

  struct Tensor: Sendable {
    let name: String
    let storage: Storage
    /// Outermost dimension first, as in safetensors.
    var shape: [Int]
    /// In the file.
    var range: Range<Int>
  }

  package let path: String
  let file: MappedFile
  let tensors: [Tensor]
  private let values: [ByteKey: Value]
  /// `general.architecture`.
  package let architecture: String

  /// - Throws: `.file`, or `.badGGUF` with the place of what breaks a rule.
  package init(path: String) throws(CheckpointError) {
    file = try ForeignFormat.mapped(path, unless: "GGUF")
    self.path = path
    var reader = GGUFReader(file.bytes, path)
    let (tensorCount, pairCount) = try reader.head()
    var values: [ByteKey: Value] = [:]
    for _ in 0..<pairCount {
      let start = reader.at
      let key = try reader.name("key", limit: 65_535)
      let value = try Self.value(&reader, key)
      guard values.updateValue(value, forKey: ByteKey(key)) == nil else {
        throw reader.problem("the key \(CheckpointError.quoted(key)) appears twice", at: start)
      }
    }
    self.values = values
    guard case .string(let range)? = values[ByteKey("general.architecture")], range.count <= 100 else {
      throw reader.problem("general.architecture is missing or no string")
    }
    architecture = String(decoding: file.bytes[range], as: UTF8.self)
    var alignment = 32
    if let value = values[ByteKey("general.alignment")] {
      guard case .integer(let number) = value, (1...1 << 20).contains(number), number & (number - 1) == 0
      else { throw reader.problem("general.alignment, the alignment of the data, is no power of two") }
      alignment = number
    }
    tensors = try Self.tensors(&reader, tensorCount, alignment: alignment)
  }

  private static func value(_ reader: inout GGUFReader, _ key: String) throws(CheckpointError) -> Value {
    let type = UInt32(truncatingIfNeeded: try reader.integer(4, signed: false))
    switch type {
    case 0, 2, 4, 10: return .integer(try reader.integer(widths[Int(type)], signed: false))
    case 1, 3, 5, 11: return .integer(try reader.integer(widths[Int(type)], signed: true))
    case 6, 12: return .float(try reader.float(widths[Int(type)]))
    case 7:
      let value = try reader.integer(1, signed: false)
      guard value < 2 else { throw reader.problem("the bool \(CheckpointError.quoted(key)) is \(value)") }
      return .bool(value == 1)
    case 8: return .string(try reader.string())
    case 9:
      let element = UInt32(truncatingIfNeeded: try reader.integer(4, signed: false))
      guard element != 9 else {
        throw reader.problem("\(CheckpointError.quoted(key)) is a nested array")
      }
      guard element < widths.count else {
        throw reader.problem("\(CheckpointError.quoted(key)) has elements of type \(element)")
      }
      let least = element == 8 ? 8 : widths[Int(element)]
      let count = try reader.count("elements of \(CheckpointError.quoted(key))", eachAtLeast: least)
      let start = reader.at
      if element == 8 {
        for _ in 0..<count { _ = try reader.string() }
      } else {
        try reader.skip(count * least)
      }
      return .array(type: element, count: count, start: start)
    default: throw reader.problem("the value of \(CheckpointError.quoted(key)) has type \(type)")
    }
  }

  /// Bytes of a value of each type; 0 where it says its length itself.
  private static let widths = [1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8]

  // MARK: Tensors

  private static func tensors(
    _ reader: inout GGUFReader, _ count: Int, alignment: Int
  ) throws(CheckpointError) -> [Tensor] {
    var found: [(name: String, storage: Storage, shape: [Int], offset: Int, bytes: Int)] = []
    var names: Set<ByteKey> = []
    for _ in 0..<count {
      let start = reader.at
      let name = try reader.name("name of a tensor", limit: 63)
      let quoted = "tensor \(CheckpointError.quoted(name))"
      guard names.insert(ByteKey(name)).inserted else {
        throw reader.problem("\(quoted) appears twice", at: start)
      }
      let dimensions = try reader.integer(4, signed: false)
      guard (1...4).contains(dimensions) else {
        throw reader.problem("\(quoted) has \(dimensions) dimensions", at: start)
      }
      var (sizes, elements) = ([Int](), 1)
      for _ in 0..<dimensions {
        let size = try reader.integer(8, signed: false)
        guard size > 0 else { throw reader.problem("a dimension of \(quoted) is 0", at: start) }
        let (product, overflow) = elements.multipliedReportingOverflow(by: size)
        guard !overflow, product < 1 << 48 else { throw reader.problem("\(quoted) is too large", at: start) }
        sizes.append(size)
        elements = product
      }
      let type = try reader.integer(4, signed: false)
      guard let (storage, values, bytes) = Self.storage(type) else {
        throw reader.problem("\(quoted) has the unknown type \(type)", at: start)
      }
      guard sizes[0] % values == 0 else {
        throw reader.problem(
          "a row of \(quoted) has \(sizes[0]) numbers, which is no multiple of \(values)", at: start)
      }
      let offset = try reader.integer(8, signed: false)
      guard offset <= reader.bytes.count else {
        throw reader.problem("the data of \(quoted) lies past the end of the file", at: start)
      }
      guard offset % alignment == 0 else {
        throw reader.problem("the data of \(quoted) is not aligned to \(alignment) bytes", at: start)
      }
      found.append((name, storage, sizes.reversed(), offset, elements / values * bytes))
    }
    let end = reader.bytes.count
    let (padded, _) = reader.at.addingReportingOverflow(alignment - 1)
    let data = padded / alignment * alignment
    var tensors: [Tensor] = []
    for (name, storage, shape, offset, bytes) in found {
      guard data <= end, offset <= end - data, bytes <= end - data - offset else {
        throw reader.problem(
          "the data of tensor \(CheckpointError.quoted(name)) lies past the end of the file")
      }
      let range = data + offset..<data + offset + bytes
      tensors.append(Tensor(name: name, storage: storage, shape: shape, range: range))
    }
    let sorted = tensors.sorted { $0.range.lowerBound < $1.range.lowerBound }
    for (first, second) in zip(sorted, sorted.dropFirst())
    where second.range.lowerBound < first.range.upperBound {
      throw reader.problem(
        "tensors \(CheckpointError.quoted(first.name)) and \(CheckpointError.quoted(second.name)) overlap")
    }
    return tensors
  }

  /// A type of tensors by its number, with the numbers and the bytes of a block.
  private static func storage(_ type: Int) -> (Storage, values: Int, bytes: Int)? {
    func dense(_ type: DType) -> (Storage, values: Int, bytes: Int) { (.dense(type), 1, type.size) }
    if let number = UInt32(exactly: type), let format = BlockFormat(rawValue: number) {
      return (.blocks(format), format.values, format.bytes)
    }
    return switch type {
    case 0: dense(.f32)
    case 1: dense(.f16)
    case 24: dense(.i8)
    case 25: dense(.i16)
    case 26: dense(.i32)
    case 27: dense(.i64)
    case 28: dense(.f64)
    case 30: dense(.bf16)
    case 16: (.unread(name: "IQ2_XXS"), 256, 66)
    case 17: (.unread(name: "IQ2_XS"), 256, 74)
    case 18: (.unread(name: "IQ3_XXS"), 256, 98)
    case 19: (.unread(name: "IQ1_S"), 256, 50)
    case 21: (.unread(name: "IQ3_S"), 256, 110)
    case 22: (.unread(name: "IQ2_S"), 256, 82)
    case 29: (.unread(name: "IQ1_M"), 256, 56)
    case 40: (.unread(name: "NVFP4"), 64, 36)
    default: nil
    }
  }

  // MARK: Metadata

  func has(_ key: String) -> Bool { values[ByteKey(key)] != nil }

  /// An integer, or a float that is whole.
  func int(_ key: String) -> Int? {
    switch values[ByteKey(key)] {
    case .integer(let value): value
    case .float(let value): Int(exactly: value)
    default: nil
    }
  }

  func double(_ key: String) -> Double? {
    switch values[ByteKey(key)] {
    case .integer(let value): Double(value)
    case .float(let value): value.isFinite ? value : nil
    default: nil
    }
  }

  func bool(_ key: String) -> Bool? {
    guard case .bool(let value)? = values[ByteKey(key)] else { return nil }
    return value
  }

  func string(_ key: String) -> String? {
    guard case .string(let range)? = values[ByteKey(key)] else { return nil }
    return String(decoding: file.bytes[range], as: UTF8.self)
  }

  /// Elements of an array of integers, bools or floats, as many as there are; nil for anything else.
  func numbers(_ key: String) -> [Double]? {
    guard case .array(let type, let count, let start)? = values[ByteKey(key)], type != 8 else { return nil }
    var reader = GGUFReader(file.bytes, path, from: start)
    let width = Self.widths[Int(type)]
    var numbers: [Double] = []
    numbers.reserveCapacity(count)
    for _ in 0..<count {
      let isFloat = type == 6 || type == 12
      // The array was walked over when the file was opened.
      guard
        let number = try? isFloat
          ? reader.float(width) : Double(reader.integer(width, signed: [1, 3, 5, 11].contains(type)))
      else { return nil }
      numbers.append(number)
    }
    return numbers
  }

  /// Bytes of the strings of an array; nil for anything else.
  func strings(_ key: String) -> [[UInt8]]? { places(key)?.map { Array(file.bytes[$0]) } }

  /// Some strings of an array, by their indices: a vocabulary has hundreds of thousands.
  func strings(_ key: String, at indices: Set<Int>) -> [Int: [UInt8]] {
    let places = places(key) ?? []
    return indices.reduce(into: [:]) { found, index in
      if places.indices.contains(index) { found[index] = Array(file.bytes[places[index]]) }
    }
  }

  private func places(_ key: String) -> [Range<Int>]? {
    guard case .array(8, let count, let start)? = values[ByteKey(key)] else { return nil }
    var reader = GGUFReader(file.bytes, path, from: start)
    return try? (0..<count).map { _ in try reader.string() }
  }
}

/// Reads the parts of a file in order; never past its end.
private struct GGUFReader {
  let bytes: UnsafeRawBufferPointer
  let path: String
  private(set) var at = 0

  init(_ bytes: UnsafeRawBufferPointer, _ path: String, from start: Int = 0) {
    (self.bytes, self.path, at) = (bytes, path, start)
  }

  func problem(_ words: String, at place: Int? = nil) -> CheckpointError {
    .badGGUF(file: path, offset: place ?? at, problem: words)
  }

  /// Magic and version; the counts of tensors and pairs.
  mutating func head() throws(CheckpointError) -> (tensors: Int, pairs: Int) {
    guard !bytes.isEmpty else { throw problem("the file is empty") }
    guard bytes.count >= 4, bytes.starts(with: "GGUF".utf8) else { throw problem("its magic is not 'GGUF'") }
    at = 4
    let version = try integer(4, signed: false)
    guard version == 2 || version == 3 else {
      throw problem(
        version > 0 && version & 0xFFFF == 0
          ? "it is a big-endian file, for other machines" : "version \(version) is not one of 2 and 3")
    }
    let tensors = try count("tensors", eachAtLeast: 24)
    let pairs = try count("pairs of metadata", eachAtLeast: 13)
    return (tensors, pairs)
  }

  /// How many of something follow; fewer than the rest of the file has room for.
  mutating func count(_ what: String, eachAtLeast least: Int) throws(CheckpointError) -> Int {
    let number = try integer(8, signed: false)
    guard number <= (bytes.count - at) / least else {
      throw problem("the count of \(what), \(number), is more than there is room for before the file ends")
    }
    return number
  }

  mutating func skip(_ count: Int) throws(CheckpointError) {
    guard count <= bytes.count - at else { throw problem("the file ends too early") }
    at += count
  }

  /// - Parameter width: 1, 2, 4 or 8. Unsigned numbers of 8 bytes that no `Int` holds become the largest that one does.
  mutating func integer(_ width: Int, signed: Bool) throws(CheckpointError) -> Int {
    let start = at
    try skip(width)
    var value: UInt64 = 0
    for index in 0..<width { value |= UInt64(bytes[start + index]) << UInt64(8 * index) }
    guard signed else { return Int(exactly: value) ?? .max }
    let unused = UInt64(64 - 8 * width)
    return Int(Int64(bitPattern: value << unused) >> Int64(unused))
  }

  mutating func float(_ width: Int) throws(CheckpointError) -> Double {
    let start = at
    try skip(width)
    return width == 4
      ? Double(
        Float(bitPattern: UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: start, as: UInt32.self))))
      : Double(bitPattern: UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: start, as: UInt64.self)))
  }

  mutating func string() throws(CheckpointError) -> Range<Int> {
    let place = at
    let length = try integer(8, signed: false)
    guard length <= bytes.count - at else {
      throw problem("the file ends before a string of length \(length)", at: place)
    }
    at += length
    return at - length..<at
  }

  /// A key or a name.
  mutating func name(_ what: String, limit: Int) throws(CheckpointError) -> String {
    let place = at
    let range = try string()
    guard !range.isEmpty else {
      // Behind the table of tensors there are zeros.
      let count = what == "key" ? "" : ": the table ends before its count says"
      throw problem("an empty \(what)\(count)", at: place)
    }
    guard range.count <= limit else {
      throw problem("a \(what) of \(range.count) bytes; \(limit) are allowed", at: place)
    }
    let text = String(decoding: bytes[range], as: UTF8.self)
    guard text.utf8.elementsEqual(bytes[range]) else { throw problem("a \(what) is not UTF-8", at: place) }
    return text
  }
}
