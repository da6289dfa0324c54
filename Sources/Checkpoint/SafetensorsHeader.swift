// The JSON header of a safetensors file, checked against every rule of the format.
//
//     {"__metadata__": {"format": "mlx"},
//      "model.norm.weight": {"dtype": "BF16", "shape": [2048], "data_offsets": [0, 4096]}, …}
//
// A parser of its own instead of JSONValue: a repeated key must be refused (two readers would see two
// different files), numbers must be plain unsigned integers, and a header may list 100 000 tensors.
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
    var scanner = HeaderScanner(bytes: bytes, file: file)
    // The format demands that the first byte be the brace: no byte order mark, no padding in front.
    guard bytes.first == UInt8(ascii: "{") else {
      throw scanner.problem("the header does not start with '{'")
    }
    var hasMetadata = false
    var names: Set<ByteKey> = []
    try scanner.readMembers { (s: inout HeaderScanner, name: String) throws(CheckpointError) in
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
    scanner.skipSpace()
    guard scanner.isAtEnd else { throw scanner.problem("text after the header's closing '}'") }
    try checkCover(dataBytes: dataBytes, file: file)
  }

  private static func readMetadata(
    _ s: inout HeaderScanner
  ) throws(CheckpointError) -> [(key: String, value: String)] {
    var pairs: [(key: String, value: String)] = []
    try s.readMembers { (s: inout HeaderScanner, key: String) throws(CheckpointError) in
      guard s.current == UInt8(ascii: "\"") else {
        throw s.problem("a value of __metadata__ is not a string")
      }
      pairs.append((key, try s.readString()))
    }
    return pairs
  }

  private static func readEntry(_ s: inout HeaderScanner, name: String) throws(CheckpointError) -> Entry {
    let quoted = CheckpointError.quoted(name)
    var dtype: String?
    var shape: [Int]?
    var offsets: [Int]?
    try s.readMembers { (s: inout HeaderScanner, key: String) throws(CheckpointError) in
      let isRepeated: Bool
      switch key {
      case "dtype":
        isRepeated = dtype != nil
        guard s.current == UInt8(ascii: "\"") else {
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

/// Reads the subset of JSON that headers use; nothing here recurses.
private struct HeaderScanner {
  let bytes: [UInt8]
  let file: String
  var at = 0

  init(bytes: [UInt8], file: String) {
    self.bytes = bytes
    self.file = file
  }

  var current: UInt8? { at < bytes.count ? bytes[at] : nil }
  var isAtEnd: Bool { at == bytes.count }

  func problem(_ words: String) -> CheckpointError { .badHeader(file: file, offset: at, problem: words) }

  mutating func skipSpace() {
    while at < bytes.count {
      switch bytes[at] {
      case 0x20, 0x09, 0x0A, 0x0D: at += 1
      default: return
      }
    }
  }

  private mutating func take(_ byte: UInt8) -> Bool {
    guard current == byte else { return false }
    at += 1
    return true
  }

  /// Reads an object; `body` finds the scanner at the value of each key and must consume it.
  mutating func readMembers(
    _ body: (inout HeaderScanner, String) throws(CheckpointError) -> Void
  ) throws(CheckpointError) {
    guard take(UInt8(ascii: "{")) else { throw problem("expected '{'") }
    skipSpace()
    if take(UInt8(ascii: "}")) { return }
    while true {
      guard current == UInt8(ascii: "\"") else { throw problem("expected a key in double quotes") }
      let key = try readString()
      skipSpace()
      guard take(UInt8(ascii: ":")) else { throw problem("expected ':'") }
      skipSpace()
      try body(&self, key)
      skipSpace()
      if take(UInt8(ascii: "}")) { return }
      guard take(UInt8(ascii: ",")) else { throw problem("expected ',' or '}'") }
      skipSpace()
    }
  }

  /// Moves from an opening quote past the closing one; true when an escape lies between them.
  private mutating func skipString() throws(CheckpointError) -> Bool {
    var hasEscape = false
    at += 1
    while let byte = current {
      switch byte {
      case UInt8(ascii: "\""):
        at += 1
        return hasEscape
      case UInt8(ascii: "\\"):
        hasEscape = true
        at += 2
      case 0..<0x20: throw problem("control characters in strings must be escaped")
      default: at += 1
      }
    }
    at = bytes.count
    throw problem("the header ends inside a string")
  }

  mutating func readString() throws(CheckpointError) -> String {
    let start = at
    let hasEscape = try skipString()
    if hasEscape {
      let value = try parse(start..<at)
      guard let text = value.stringValue else { throw problem("expected a string") }
      return text
    }
    guard let text = String(validating: bytes[start + 1..<at - 1], as: UTF8.self) else {
      at = start
      throw problem("a string is not valid UTF-8")
    }
    return text
  }

  private func parse(_ range: Range<Int>) throws(CheckpointError) -> JSONValue {
    do {
      return try JSONValue(parsing: Array(bytes[range]))
    } catch {
      let words =
        switch error {
        case .syntax(_, let problem): problem
        case .tooDeep(_, let limit): "nested more than \(limit) levels deep"
        case .tooMany(_, let limit): "more than \(limit) values"
        }
      throw .badHeader(file: file, offset: range.lowerBound + error.offset, problem: words)
    }
  }

  /// An array of at most `limit` unsigned integers that fit `Int`.
  mutating func readIntegers(of owner: String, limit: Int) throws(CheckpointError) -> [Int] {
    guard take(UInt8(ascii: "[")) else { throw problem("expected an array of integers for tensor \(owner)") }
    var values: [Int] = []
    skipSpace()
    if take(UInt8(ascii: "]")) { return values }
    while true {
      guard values.count < limit else { throw problem("too many numbers for tensor \(owner)") }
      values.append(try readInteger(of: owner))
      skipSpace()
      if take(UInt8(ascii: "]")) { return values }
      guard take(UInt8(ascii: ",")) else { throw problem("tensor \(owner) needs plain integers in an array") }
      skipSpace()
    }
  }

  private mutating func readInteger(of owner: String) throws(CheckpointError) -> Int {
    let start = at
    var value = 0
    while let byte = current, byte >= UInt8(ascii: "0"), byte <= UInt8(ascii: "9") {
      let (tens, overflow) = value.multipliedReportingOverflow(by: 10)
      let (next, carry) = tens.addingReportingOverflow(Int(byte - UInt8(ascii: "0")))
      guard !overflow, !carry else { throw problem("a number of tensor \(owner) is too large") }
      value = next
      at += 1
    }
    guard at > start, !(at - start > 1 && bytes[start] == UInt8(ascii: "0")) else {
      throw problem("tensor \(owner) needs non-negative integers")
    }
    return value
  }

  /// Passes over a value of a key that the format does not define, after checking that it is JSON.
  mutating func skipValue() throws(CheckpointError) {
    let start = at
    var depth = 0
    scan: while let byte = current {
      switch byte {
      case UInt8(ascii: "\""):
        _ = try skipString()
        if depth == 0 { break scan }
        continue
      case UInt8(ascii: "{"), UInt8(ascii: "["): depth += 1
      case UInt8(ascii: "}"), UInt8(ascii: "]"):
        if depth == 0 { break scan }
        depth -= 1
        if depth == 0 {
          at += 1
          break scan
        }
      case UInt8(ascii: ",") where depth == 0: break scan
      default: break
      }
      at += 1
    }
    _ = try parse(start..<at)
  }
}
