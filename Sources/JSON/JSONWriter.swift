// JSON text from values: compact, UTF-8, only the escapes that RFC 8259 requires.

extension JSONValue {
  /// The value as compact JSON text.
  package var text: String { String(decoding: bytes, as: UTF8.self) }

  /// The value as compact JSON in UTF-8.
  package var bytes: [UInt8] {
    var writer = JSONWriter()
    writer.write(self)
    return writer.bytes
  }
}

/// Appends JSON to a byte buffer.
package struct JSONWriter {
  package private(set) var bytes: [UInt8] = []

  package init() {}

  /// Appends one value. A double that is not finite is written as `null`: JSON has no word for it.
  package mutating func write(_ value: JSONValue) {
    switch value {
    case .null: append("null")
    case .bool(let flag): append(flag ? "true" : "false")
    case .int(let int): append(String(int))
    case .bigInteger(let digits): append(digits)
    case .double(let double): append(double.isFinite ? double.description : "null")
    case .string(let string): writeString(string)
    case .array(let array):
      append("[")
      for (i, element) in array.enumerated() {
        if i > 0 { append(",") }
        write(element)
      }
      append("]")
    case .object(let object):
      append("{")
      for (i, member) in object.entries.enumerated() {
        if i > 0 { append(",") }
        writeString(member.key)
        append(":")
        write(member.value)
      }
      append("}")
    }
  }

  /// Appends a bracket or a brace of a value that is written member by member.
  mutating func bracket(_ sign: String) { append(sign) }

  /// Appends the key of a member, with its colon.
  mutating func writeKey(_ key: String) {
    writeString(key)
    append(":")
  }

  /// Appends an array of numbers, each with the shortest digits that read back as the same float32; `null` for those that
  /// are not finite.
  package mutating func write(_ numbers: [Float]) {
    append("[")
    for (i, number) in numbers.enumerated() {
      if i > 0 { append(",") }
      append(number.isFinite ? number.description : "null")
    }
    append("]")
  }

  /// Appends JSON that is written out in the source.
  package mutating func writeRaw(_ text: StaticString) {
    append(text.description)
  }

  /// Appends the comma between two elements that are written one by one.
  package mutating func separate() { append(",") }

  private mutating func append(_ text: String) { bytes.append(contentsOf: text.utf8) }

  /// Bytes that a string has as JSON, with its quotes: up to six for one of its own.
  package static func bytes(of string: String) -> Int {
    string.utf8.reduce(2) { count, byte in
      switch byte {
      case UInt8(ascii: "\""), UInt8(ascii: "\\"), 0x08...0x0A, 0x0C, 0x0D: count + 2
      case 0..<0x20: count + 6
      default: count + 1
      }
    }
  }

  /// Writes a string with its quotes.
  package mutating func writeString(_ string: String) {
    bytes.append(UInt8(ascii: "\""))
    for byte in string.utf8 {
      switch byte {
      case UInt8(ascii: "\""): append("\\\"")
      case UInt8(ascii: "\\"): append("\\\\")
      case 0x0A: append("\\n")
      case 0x0D: append("\\r")
      case 0x09: append("\\t")
      case 0x08: append("\\b")
      case 0x0C: append("\\f")
      case 0..<0x20:
        let hex = String(byte, radix: 16)
        append("\\u" + String(repeating: "0", count: 4 - hex.count) + hex)
      default: bytes.append(byte)
      }
    }
    bytes.append(UInt8(ascii: "\""))
  }
}

extension JSONValue {
  /// The value as files for people have it: a member or an element in a line, and numbers that are not finite as Python
  /// writes them.
  package var indented: String { indented(after: "\n") + "\n" }

  /// - Parameter line: the break and the indentation of the lines around the value.
  private func indented(after line: String) -> String {
    let inner = line + "    "
    switch self {
    case .object(let object) where !object.isEmpty:
      let members = object.entries.map {
        JSONValue.string($0.key).text + ": " + $0.value.indented(after: inner)
      }
      return "{" + inner + members.joined(separator: "," + inner) + line + "}"
    case .array(let array) where !array.isEmpty:
      return "[" + inner + array.map { $0.indented(after: inner) }.joined(separator: "," + inner) + line + "]"
    case .double(let value) where !value.isFinite:
      return value.isNaN ? "NaN" : value < 0 ? "-Infinity" : "Infinity"
    default: return text
    }
  }
}
