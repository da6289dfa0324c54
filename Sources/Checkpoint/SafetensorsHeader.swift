// The JSON header of a safetensors file, checked against every rule of the format.
//
//     {"__metadata__": {"format": "mlx"},
//      "model.norm.weight": {"dtype": "BF16", "shape": [2048], "data_offsets": [0, 4096]}, …}
//
// Read key by key and not as a JSONValue: a repeated key must be refused (two readers would see two different
// files), numbers must be plain unsigned integers, and a header may list 100 000 tensors.
// Source: github.com/huggingface/safetensors, README "Format".

import Compute
import JSON

/// The tensors that a header declares, in header order.
struct SafetensorsHeader {
  /// One tensor; `range` counts bytes from the start of the data section.
  struct Entry: Sendable, Equatable {
    let name: String
    /// The element type as the file spells it.
    let dtypeName: String
    let shape: [Int]
    let range: Range<Int>

    /// Nil for the types of the format that no MLX language model uses (8-bit floats, complex).
    var dtype: DType? { DType(rawValue: dtypeName) }
  }

  private(set) var entries: [Entry] = []
  /// `__metadata__`, in file order.
  private(set) var metadata: [(key: String, value: String)] = []

  /// - Parameters:
  ///   - bytes: the header without its length prefix.
  ///   - dataBytes: the size of the data section, which the tensors must cover without gap or overlap.
  ///   - file: the path for errors.
  init(_ bytes: [UInt8], dataBytes: Int, file: String) throws(CheckpointError) {
    // The format demands that the first byte be the brace: no byte order mark, no padding in front.
    guard bytes.first == UInt8(ascii: "{") else {
      throw .badHeader(file: file, offset: 0, problem: "the header does not start with '{'")
    }
    var reader = try HeaderReader(bytes, file: file)
    var hasMetadata = false
    var names: Set<ByteKey> = []
    try reader.readMembers { (s: inout HeaderReader, name: String) throws(CheckpointError) in
      if name.utf8.elementsEqual("__metadata__".utf8) {
        guard !hasMetadata else { throw s.problem("__metadata__ appears twice") }
        hasMetadata = true
        metadata = try Self.readMetadata(&s)
        return
      }
      guard names.insert(ByteKey(name)).inserted else {
        throw s.problem("tensor \(CheckpointError.quoted(name)) appears twice")
      }
      entries.append(try Self.readEntry(&s, name: name))
    }
    try reader.finish()
    try checkCover(dataBytes: dataBytes, file: file)
  }

  /// MLX writes `null` where a file was saved without metadata.
  private static func readMetadata(
    _ s: inout HeaderReader
  ) throws(CheckpointError) -> [(key: String, value: String)] {
    if s.isAtNull {
      try s.skipValue()
      return []
    }
    var pairs: [(key: String, value: String)] = []
    try s.readMembers { (s: inout HeaderReader, key: String) throws(CheckpointError) in
      guard s.isAtString else {
        throw s.problem("a value of __metadata__ is not a string")
      }
      pairs.append((key, try s.readString()))
    }
    return pairs
  }

  private static func readEntry(_ s: inout HeaderReader, name: String) throws(CheckpointError) -> Entry {
    let quoted = CheckpointError.quoted(name)
    var dtype: String?
    var shape: [Int]?
    var offsets: [Int]?
    try s.readMembers { (s: inout HeaderReader, key: String) throws(CheckpointError) in
      let isRepeated: Bool
      switch key {
      case "dtype":
        isRepeated = dtype != nil
        guard s.isAtString else {
          throw s.problem("the dtype of \(quoted) is not a string")
        }
        dtype = try s.readString()
      case "shape":
        isRepeated = shape != nil
        shape = try s.readIntegers(of: quoted, limit: 32)
      case "data_offsets":
        isRepeated = offsets != nil
        offsets = try s.readIntegers(of: quoted, limit: 3)
      default:
        isRepeated = false
        try s.skipValue()
      }
      if isRepeated { throw s.problem("\(key) of tensor \(quoted) appears twice") }
    }
    guard let dtype else { throw s.problem("tensor \(quoted) has no dtype") }
    guard let shape else { throw s.problem("tensor \(quoted) has no shape") }
    guard let offsets, offsets.count == 2 else {
      throw s.problem("tensor \(quoted) needs data_offsets with two numbers")
    }
    guard let bits = elementBits(dtype) else {
      throw s.problem("tensor \(quoted) has the unknown dtype \(CheckpointError.quoted(dtype))")
    }
    guard offsets[0] <= offsets[1] else {
      throw s.problem("the data_offsets of tensor \(quoted) are reversed")
    }
    guard let size = byteCount(shape, bits: bits) else {
      throw s.problem("the size of tensor \(quoted) with shape \(shape) is not a number of bytes")
    }
    guard size == offsets[1] - offsets[0] else {
      throw s.problem(
        "tensor \(quoted) with shape \(shape) of \(dtype) needs \(size) bytes, "
          + "its data_offsets span \(offsets[1] - offsets[0])")
    }
    return Entry(name: name, dtypeName: dtype, shape: shape, range: offsets[0]..<offsets[1])
  }

  /// Bits of one element; nil when the format has no such type.
  private static func elementBits(_ dtype: String) -> Int? {
    if let known = DType(rawValue: dtype) { return known.size * 8 }
    return switch dtype {
    case "F4": 4
    case "F6_E2M3", "F6_E3M2": 6
    case "F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ": 8
    case "C64": 64
    default: nil
    }
  }

  /// Bytes of a tensor; nil on overflow. Dimensions multiply in whatever order the users of the shape
  /// choose, so a zero among them does not excuse an overflow of the others.
  private static func byteCount(_ shape: [Int], bits: Int) -> Int? {
    var product = bits
    for dimension in shape where dimension != 0 {
      let (next, overflow) = product.multipliedReportingOverflow(by: dimension)
      if overflow { return nil }
      product = next
    }
    if shape.contains(0) { return 0 }
    return product % 8 == 0 ? product / 8 : nil
  }

  /// In order of their offsets the tensors must follow each other and fill the data section exactly.
  private func checkCover(dataBytes: Int, file: String) throws(CheckpointError) {
    let order = entries.indices.sorted {
      let (a, b) = (entries[$0].range, entries[$1].range)
      return (a.lowerBound, a.upperBound) < (b.lowerBound, b.upperBound)
    }
    var end = 0
    for index in order {
      let entry = entries[index]
      guard entry.range.lowerBound == end else {
        let fault = entry.range.lowerBound < end ? "overlaps the tensor before it" : "leaves a gap before it"
        throw .badHeader(
          file: file, offset: nil, problem: "tensor \(CheckpointError.quoted(entry.name)) \(fault)")
      }
      end = entry.range.upperBound
    }
    guard end == dataBytes else {
      let fault =
        end > dataBytes
        ? "the file is cut short: its tensors need \(end) bytes of data, it has \(dataBytes)"
        : "\(dataBytes - end) bytes after the last tensor belong to no tensor"
      throw .badHeader(file: file, offset: nil, problem: fault)
    }
  }
}

/// A header's JSON in place: what headers add to JSON's rules, and its errors as errors of the file.
private struct HeaderReader {
  private let bytes: [UInt8]
  private let file: String
  private var json: JSONReader

  init(_ bytes: [UInt8], file: String) throws(CheckpointError) {
    do {
      json = try JSONReader(bytes)
    } catch {
      throw .badHeader(file: file, offset: nil, problem: "the header is not valid UTF-8")
    }
    (self.bytes, self.file) = (bytes, file)
  }

  func problem(_ words: String) -> CheckpointError { problem(words, at: json.position) }

  private func problem(_ words: String, at offset: Int) -> CheckpointError {
    .badHeader(file: file, offset: offset, problem: words)
  }

  private mutating func read<Result>(
    _ body: (inout JSONReader) throws(JSONError) -> Result
  ) throws(CheckpointError) -> Result {
    do {
      return try body(&json)
    } catch {
      switch error {
      case .syntax(let offset, let words): throw problem(words, at: offset)
      case .tooDeep(let offset, let limit):
        throw problem("nested more than \(limit) levels deep", at: offset)
      case .tooMany(let offset, let limit): throw problem("more than \(limit) values", at: offset)
      }
    }
  }

  /// Whether the value of the key that was read last begins like a string.
  var isAtString: Bool { json.position < bytes.count && bytes[json.position] == UInt8(ascii: "\"") }

  /// Whether the value of the key that was read last begins like `null`.
  var isAtNull: Bool { json.position < bytes.count && bytes[json.position] == UInt8(ascii: "n") }

  /// Reads an object; `body` finds the reader at the value of each key and must consume it.
  mutating func readMembers(
    _ body: (inout HeaderReader, String) throws(CheckpointError) -> Void
  ) throws(CheckpointError) {
    try read { json throws(JSONError) in try json.enterObject() }
    var key: [UInt8] = []
    while try read({ json throws(JSONError) in try json.nextKey(into: &key) }) {
      try body(&self, String(decoding: key, as: UTF8.self))
    }
  }

  mutating func readString() throws(CheckpointError) -> String {
    var text: [UInt8] = []
    try read { json throws(JSONError) in try json.readString(into: &text) }
    return String(decoding: text, as: UTF8.self)
  }

  /// An array of at most `limit` unsigned integers that fit `Int`.
  mutating func readIntegers(of owner: String, limit: Int) throws(CheckpointError) -> [Int] {
    guard json.isAtArray() else { throw problem("expected an array of integers for tensor \(owner)") }
    try read { json throws(JSONError) in try json.enterArray() }
    var values: [Int] = []
    while try read({ json throws(JSONError) in try json.nextElement() }) {
      guard values.count < limit else { throw problem("too many numbers for tensor \(owner)") }
      values.append(try readInteger(of: owner))
    }
    return values
  }

  /// Digits alone: the integers of JSON have `-0` too.
  private mutating func readInteger(of owner: String) throws(CheckpointError) -> Int {
    let range = try read { json throws(JSONError) in try json.skipValue() }
    let digits = bytes[range]
    guard digits.allSatisfy({ (0x30...0x39).contains($0) }), digits.count == 1 || digits.first != 0x30 else {
      throw problem("tensor \(owner) needs non-negative integers", at: range.lowerBound)
    }
    guard let value = Int(String(decoding: digits, as: UTF8.self)) else {
      throw problem("a number of tensor \(owner) is too large", at: range.lowerBound)
    }
    return value
  }

  /// Passes over a value of a key that the format does not define, after checking that it is JSON.
  mutating func skipValue() throws(CheckpointError) {
    _ = try read { json throws(JSONError) in try json.readValue() }
  }

  mutating func finish() throws(CheckpointError) {
    try read { json throws(JSONError) in try json.finish() }
  }
}
