// A strict RFC 8259 parser: bytes in, JSONValue out, every error with its byte offset.

/// Why text is no JSON that is taken here; `offset` counts bytes from 0.
package enum JSONError: Error, Equatable, CustomStringConvertible {
  case syntax(offset: Int, problem: String)
  case tooDeep(offset: Int, limit: Int)
  case tooMany(offset: Int, limit: Int)

  package var offset: Int {
    switch self {
    case .syntax(let offset, _), .tooDeep(let offset, _), .tooMany(let offset, _): offset
    }
  }

  package var description: String {
    switch self {
    case .syntax(let offset, let problem): "invalid JSON at byte \(offset): \(problem)"
    case .tooDeep(let offset, let limit):
      "JSON nested more than \(limit) levels deep at byte \(offset)"
    case .tooMany(let offset, let limit): "JSON of more than \(limit) values at byte \(offset)"
    }
  }
}

extension JSONValue {
  /// Longer integers are refused; Python's limit is near it.
  package static let maxIntegerDigits = 4096

  /// Parses one JSON document.
  ///
  /// - Parameters:
  ///   - bytes: UTF-8 text. A byte order mark is refused (RFC 8259 section 8.1).
  ///   - maxDepth: arrays and objects nested deeper than this are an error; the parser and everything
  ///     that later walks the value recurse, so the limit also bounds their stacks.
  ///   - maxValues: more values (arrays and objects count, and what is in them) are an error. Two bytes of text can
  ///     become a hundred in memory, so this bounds what a document can grow to.
  ///   - allowsNonFinite: also take `Infinity`, `-Infinity` and `NaN`, which Python's json writes.
  /// - Throws: `JSONError` with the byte offset of the problem.
  package init(
    parsing bytes: [UInt8], maxDepth: Int = 128, maxValues: Int = .max, allowsNonFinite: Bool = false
  ) throws(JSONError) {
    var parser = JSONParser(bytes: bytes, maxDepth: maxDepth, maxValues: maxValues)
    parser.allowsNonFinite = allowsNonFinite
    self = try parser.parseDocument()
  }

  package init(parsing text: String, maxDepth: Int = 128) throws(JSONError) {
    try self.init(parsing: Array(text.utf8), maxDepth: maxDepth)
  }
}

private func isDigit(_ byte: UInt8) -> Bool { byte >= 0x30 && byte <= 0x39 }

private struct JSONParser {
  let bytes: [UInt8]
  let maxDepth: Int
  let maxValues: Int
  var allowsNonFinite = false
  var at = 0
  var depth = 0
  var values = 0

  init(bytes: [UInt8], maxDepth: Int, maxValues: Int) {
    (self.bytes, self.maxDepth, self.maxValues) = (bytes, maxDepth, maxValues)
  }

  mutating func parseDocument() throws(JSONError) -> JSONValue {
    skipSpace()
    let value = try parseValue()
    skipSpace()
    guard at == bytes.count else { throw problem("text after the end of the document") }
    return value
  }

  private func problem(_ words: String) -> JSONError { .syntax(offset: at, problem: words) }

  private var current: UInt8? { at < bytes.count ? bytes[at] : nil }

  private mutating func skipSpace() {
    while at < bytes.count {
      switch bytes[at] {
      case 0x20, 0x0A, 0x0D, 0x09: at += 1
      default: return
      }
    }
  }

  private mutating func parseValue() throws(JSONError) -> JSONValue {
    guard values < maxValues else { throw .tooMany(offset: at, limit: maxValues) }
    values += 1
    switch current {
    case UInt8(ascii: "{"): return try nested { p throws(JSONError) in try p.parseObject() }
    case UInt8(ascii: "["): return try nested { p throws(JSONError) in try p.parseArray() }
    case UInt8(ascii: "\""): return .string(try parseString())
    case UInt8(ascii: "t"): return try literal("true", .bool(true))
    case UInt8(ascii: "f"): return try literal("false", .bool(false))
    case UInt8(ascii: "n"): return try literal("null", .null)
    case UInt8(ascii: "I") where allowsNonFinite: return try literal("Infinity", .double(.infinity))
    case UInt8(ascii: "N") where allowsNonFinite: return try literal("NaN", .double(.nan))
    case UInt8(ascii: "-") where allowsNonFinite && bytes[at...].starts(with: "-Infinity".utf8):
      return try literal("-Infinity", .double(-.infinity))
    case let byte? where byte == UInt8(ascii: "-") || isDigit(byte): return try parseNumber()
    case nil: throw problem("the document ends where a value should stand")
    case _?: throw problem("expected a value")
    }
  }

  private mutating func nested(
    _ body: (inout JSONParser) throws(JSONError) -> JSONValue
  ) throws(JSONError) -> JSONValue {
    guard depth < maxDepth else { throw .tooDeep(offset: at, limit: maxDepth) }
    depth += 1
    defer { depth -= 1 }
    return try body(&self)
  }

  private mutating func literal(_ word: StaticString, _ value: JSONValue) throws(JSONError) -> JSONValue {
    let text = word.description.utf8
    guard bytes.count - at >= text.count, bytes[at..<at + text.count].elementsEqual(text) else {
      throw problem("expected a value")
    }
    at += text.count
    return value
  }

  private mutating func parseObject() throws(JSONError) -> JSONValue {
    var object = JSONObject()
    at += 1
    skipSpace()
    if current == UInt8(ascii: "}") {
      at += 1
      return .object(object)
    }
    while true {
      guard current == UInt8(ascii: "\"") else { throw problem("expected a key in double quotes") }
      let key = try parseString()
      skipSpace()
      guard current == UInt8(ascii: ":") else { throw problem("expected ':' after the key") }
      at += 1
      skipSpace()
      object[key] = try parseValue()
      skipSpace()
      switch current {
      case UInt8(ascii: ","):
        at += 1
        skipSpace()
      case UInt8(ascii: "}"):
        at += 1
        return .object(object)
      default: throw problem("expected ',' or '}'")
      }
    }
  }

  private mutating func parseArray() throws(JSONError) -> JSONValue {
    var array: [JSONValue] = []
    at += 1
    skipSpace()
    if current == UInt8(ascii: "]") {
      at += 1
      return .array(array)
    }
    while true {
      array.append(try parseValue())
      skipSpace()
      switch current {
      case UInt8(ascii: ","):
        at += 1
        skipSpace()
      case UInt8(ascii: "]"):
        at += 1
        return .array(array)
      default: throw problem("expected ',' or ']'")
      }
    }
  }

  private mutating func parseString() throws(JSONError) -> String {
    let opening = at
    at += 1
    let start = at
    // Most strings have no escape: then the bytes between the quotes are the string.
    while at < bytes.count, bytes[at] != UInt8(ascii: "\""), bytes[at] != UInt8(ascii: "\\"),
      bytes[at] >= 0x20
    {
      at += 1
    }
    let text: String?
    if current == UInt8(ascii: "\"") {
      text = String(validating: bytes[start..<at], as: UTF8.self)
    } else {
      var decoded = Array(bytes[start..<at])
      try parseEscapedRest(into: &decoded)
      text = String(validating: decoded, as: UTF8.self)
    }
    at += 1
    guard let text else { throw .syntax(offset: opening, problem: "the string is not valid UTF-8") }
    return text
  }

  /// Reads up to the closing quote, decoding escapes; leaves `at` on the quote.
  private mutating func parseEscapedRest(into out: inout [UInt8]) throws(JSONError) {
    while let byte = current {
      switch byte {
      case UInt8(ascii: "\""): return
      case UInt8(ascii: "\\"): try parseEscape(into: &out)
      case 0..<0x20: throw problem("control characters in strings must be escaped")
      default:
        out.append(byte)
        at += 1
      }
    }
    throw problem("the string does not end")
  }

  private mutating func parseEscape(into out: inout [UInt8]) throws(JSONError) {
    guard at + 1 < bytes.count else { throw problem("the string does not end") }
    let simple: UInt8
    switch bytes[at + 1] {
    case UInt8(ascii: "\""): simple = 0x22
    case UInt8(ascii: "\\"): simple = 0x5C
    case UInt8(ascii: "/"): simple = 0x2F
    case UInt8(ascii: "b"): simple = 0x08
    case UInt8(ascii: "f"): simple = 0x0C
    case UInt8(ascii: "n"): simple = 0x0A
    case UInt8(ascii: "r"): simple = 0x0D
    case UInt8(ascii: "t"): simple = 0x09
    case UInt8(ascii: "u"):
      out.append(contentsOf: String(try parseUnicodeEscape()).utf8)
      return
    default: throw problem("unknown escape")
    }
    out.append(simple)
    at += 2
  }

  /// `\uXXXX`, or a surrogate pair of them. A lone surrogate has no UTF-8 form: it becomes U+FFFD.
  private mutating func parseUnicodeEscape() throws(JSONError) -> Unicode.Scalar {
    let replacement: Unicode.Scalar = "\u{FFFD}"
    let high = try hexUnit()
    if let scalar = Unicode.Scalar(high) { return scalar }
    guard high < 0xDC00, at + 1 < bytes.count, bytes[at] == UInt8(ascii: "\\"),
      bytes[at + 1] == UInt8(ascii: "u")
    else { return replacement }
    let afterHigh = at
    let low = try hexUnit()
    guard (0xDC00...0xDFFF).contains(low) else {
      // The second escape stands for itself.
      at = afterHigh
      return replacement
    }
    return Unicode.Scalar(0x10000 + (high - 0xD800) << 10 + (low - 0xDC00)) ?? replacement
  }

  private mutating func hexUnit() throws(JSONError) -> UInt32 {
    guard at + 6 <= bytes.count else { throw problem("\\u needs four hexadecimal digits") }
    var unit: UInt32 = 0
    for byte in bytes[at + 2..<at + 6] {
      switch byte {
      case UInt8(ascii: "0")...UInt8(ascii: "9"): unit = unit << 4 | UInt32(byte - 48)
      case UInt8(ascii: "a")...UInt8(ascii: "f"): unit = unit << 4 | UInt32(byte - 87)
      case UInt8(ascii: "A")...UInt8(ascii: "F"): unit = unit << 4 | UInt32(byte - 55)
      default: throw problem("\\u needs four hexadecimal digits")
      }
    }
    at += 6
    return unit
  }

  private mutating func digits() -> Int {
    let start = at
    while let byte = current, isDigit(byte) { at += 1 }
    return at - start
  }

  private mutating func parseNumber() throws(JSONError) -> JSONValue {
    let start = at
    var isInteger = true
    if current == UInt8(ascii: "-") { at += 1 }
    let leadingZero = current == UInt8(ascii: "0")
    let whole = digits()
    guard whole > 0, !(leadingZero && whole > 1) else {
      throw .syntax(offset: start, problem: "malformed number")
    }
    if current == UInt8(ascii: ".") {
      isInteger = false
      at += 1
      guard digits() > 0 else { throw problem("a number needs digits after the point") }
    }
    if current == UInt8(ascii: "e") || current == UInt8(ascii: "E") {
      isInteger = false
      at += 1
      if current == UInt8(ascii: "+") || current == UInt8(ascii: "-") { at += 1 }
      guard digits() > 0 else { throw problem("a number needs digits in its exponent") }
    }
    let text = String(decoding: bytes[start..<at], as: UTF8.self)
    if isInteger {
      if let int = Int(text) { return .int(int) }
      guard whole <= JSONValue.maxIntegerDigits else {
        throw .syntax(offset: start, problem: "an integer of more than \(JSONValue.maxIntegerDigits) digits")
      }
      return .bigInteger(text)
    }
    guard let value = Double(text), value.isFinite else {
      throw .syntax(offset: start, problem: "the number is too large for a double")
    }
    return .double(value)
  }
}
