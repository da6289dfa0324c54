// LFM2: `<|tool_call_start|>[f(a="x", b=[1, 2]), g()]<|tool_call_end|>`, a Python list of calls with literals.

import JSON

struct PythonCalls: CallSyntax {
  let openings = [CallOpening("<|tool_call_start|>", close: "<|tool_call_end|>")]
  let quotes = CallQuotes.none

  func calls(in body: [UInt8]) -> [ToolCall]? {
    var reader = PythonReader(Bytes.trimmed(body))
    return reader.calls()
  }

  func cutCalls(in body: [UInt8]) -> [ToolCall]? {
    let body = Bytes.trimmed(body)
    return closedCalls(in: body, quotes: ["\"", "'"], outside: body.first == UInt8(ascii: "[") ? 1 : 0)
  }
}

extension PythonCalls {
  /// A message whose calls are text of its content, for templates that print contents alone.
  static func written(_ message: JSONObject) -> JSONObject {
    guard let calls = message["tool_calls"]?.arrayValue, !calls.isEmpty else { return message }
    let texts = calls.map { call -> String in
      let (name, arguments) = (call["function"]?["name"]?.stringValue, call["function"]?["arguments"])
      let pairs = (arguments?.objectValue?.entries ?? []).map { $0.key + "=" + literal($0.value) }
      return (name ?? "") + "(" + pairs.joined(separator: ", ") + ")"
    }
    var result = message
    let content = message["content"]?.stringValue ?? ""
    result["content"] = .string(
      content + "<|tool_call_start|>[" + texts.joined(separator: ", ") + "]<|tool_call_end|>")
    result["tool_calls"] = nil
    return result
  }

  private static func literal(_ value: JSONValue) -> String {
    switch value {
    case .bool(let isTrue): isTrue ? "True" : "False"
    case .null: "None"
    case .array(let values): "[" + values.map(literal).joined(separator: ", ") + "]"
    case .object(let object):
      "{"
        + object.entries.map { JSONValue.string($0.key).text + ": " + literal($0.value) }
        .joined(separator: ", ") + "}"
    default: value.text
    }
  }
}

/// Reads calls whose arguments are literals: strings in either quote, numbers, True, False, None, lists, tuples and
/// dictionaries. JSON's words for the last three are read too.
private struct PythonReader {
  private let bytes: [UInt8]
  private var at = 0

  private static let maxDepth = 64

  init(_ bytes: [UInt8]) { self.bytes = bytes }

  /// A list of calls, or calls without the brackets around them; nil when anything is malformed or there is none.
  mutating func calls() -> [ToolCall]? {
    let isList = skip("[")
    var calls: [ToolCall] = []
    while true {
      skipSpace()
      if at == bytes.count || next == UInt8(ascii: "]") { break }
      guard let call = call() else { return nil }
      calls.append(call)
      let end = at
      skipSpace()
      // One a line needs no comma.
      guard skip(",") || bytes[end..<at].contains(0x0A) else { break }
    }
    if isList, !skip("]") { return nil }
    skipSpace()
    return at == bytes.count && !calls.isEmpty ? calls : nil
  }

  /// `name(key=value, ...)`.
  private mutating func call() -> ToolCall? {
    guard let name = word(), skip("(") else { return nil }
    var arguments = JSONObject()
    while true {
      skipSpace()
      if skip(")") { return ToolCall(name: name, arguments: JSONValue.object(arguments).text) }
      guard let key = word() else { return nil }
      skipSpace()
      guard skip("=") else { return nil }
      guard let value = value(depth: 0) else { return nil }
      arguments[key] = value
      skipSpace()
      guard skip(",") || next == UInt8(ascii: ")") else { return nil }
    }
  }

  private mutating func value(depth: Int) -> JSONValue? {
    guard depth < Self.maxDepth else { return nil }
    skipSpace()
    switch next {
    case UInt8(ascii: "\""), UInt8(ascii: "'"): return strings()
    case UInt8(ascii: "["): return list(close: "]", depth)
    case UInt8(ascii: "("): return list(close: ")", depth)
    case UInt8(ascii: "{"): return dictionary(depth)
    default: return scalar()
    }
  }

  private mutating func list(close: String, _ depth: Int) -> JSONValue? {
    at += 1
    var values: [JSONValue] = []
    while true {
      skipSpace()
      if skip(close) { return .array(values) }
      guard let value = value(depth: depth + 1) else { return nil }
      values.append(value)
      skipSpace()
      guard skip(",") || next == close.utf8.first else { return nil }
    }
  }

  private mutating func dictionary(_ depth: Int) -> JSONValue? {
    at += 1
    var object = JSONObject()
    while true {
      skipSpace()
      if skip("}") { return .object(object) }
      guard case .string(let key) = strings() else { return nil }
      skipSpace()
      guard skip(":"), let value = value(depth: depth + 1) else { return nil }
      object[key] = value
      skipSpace()
      guard skip(",") || next == UInt8(ascii: "}") else { return nil }
    }
  }

  private mutating func scalar() -> JSONValue? {
    let start = at
    while let byte = next, !Self.ends.contains(byte), !Bytes.isSpace(byte) { at += 1 }
    let text = Array(bytes[start..<at])
    switch Bytes.text(text) {
    case "True", "true": return .bool(true)
    case "False", "false": return .bool(false)
    case "None", "null": return .null
    default:
      let digits = text.first == UInt8(ascii: "+") ? Array(text.dropFirst()) : text
      guard let value = try? JSONValue(parsing: digits.filter { $0 != UInt8(ascii: "_") }) else { return nil }
      return value.doubleValue == nil ? nil : value
    }
  }

  private static let ends = Array(",)]}".utf8)

  // MARK: Strings

  /// One string, or several that stand beside each other and are one.
  private mutating func strings() -> JSONValue? {
    var text: [UInt8] = []
    repeat {
      guard let part = string() else { return nil }
      text += part
      skipSpace()
    } while next == UInt8(ascii: "\"") || next == UInt8(ascii: "'")
    return .string(Bytes.text(text))
  }

  private mutating func string() -> [UInt8]? {
    guard let quote = next, quote == UInt8(ascii: "\"") || quote == UInt8(ascii: "'") else { return nil }
    at += 1
    var text: [UInt8] = []
    while let byte = next {
      at += 1
      switch byte {
      case quote: return text
      case UInt8(ascii: "\\"):
        guard escape(into: &text) else { return nil }
      default: text.append(byte)
      }
    }
    return nil
  }

  /// What follows a backslash; one that means nothing stands for itself, as in Python.
  private mutating func escape(into text: inout [UInt8]) -> Bool {
    guard let byte = next else { return false }
    at += 1
    switch byte {
    case UInt8(ascii: "n"): text.append(10)
    case UInt8(ascii: "t"): text.append(9)
    case UInt8(ascii: "r"): text.append(13)
    case UInt8(ascii: "b"): text.append(8)
    case UInt8(ascii: "f"): text.append(12)
    case UInt8(ascii: "\\"), UInt8(ascii: "\""), UInt8(ascii: "'"), UInt8(ascii: "/"): text.append(byte)
    case 10: break
    case UInt8(ascii: "x"): return scalar(digits: 2, into: &text)
    case UInt8(ascii: "u"): return scalar(digits: 4, into: &text)
    case UInt8(ascii: "U"): return scalar(digits: 8, into: &text)
    default: text += [UInt8(ascii: "\\"), byte]
    }
    return true
  }

  /// A scalar by its hexadecimal digits; two halves of a surrogate pair, as JSON has them, are one.
  private mutating func scalar(digits: Int, into text: inout [UInt8]) -> Bool {
    guard var value = hexadecimal(digits) else { return false }
    if (0xD800..<0xDC00).contains(value), skip("\\u") {
      guard let low = hexadecimal(4), (0xDC00..<0xE000).contains(low) else { return false }
      value = 0x10000 + (value - 0xD800) << 10 + (low - 0xDC00)
    }
    guard let scalar = Unicode.Scalar(value) else { return false }
    text += Array(String(Character(scalar)).utf8)
    return true
  }

  private mutating func hexadecimal(_ digits: Int) -> UInt32? {
    guard bytes.count - at >= digits else { return nil }
    defer { at += digits }
    return UInt32(Bytes.text(bytes[at..<at + digits]), radix: 16)
  }

  // MARK: Bytes

  private var next: UInt8? { at < bytes.count ? bytes[at] : nil }

  private mutating func skipSpace() {
    while let byte = next, Bytes.isSpace(byte) { at += 1 }
  }

  private mutating func skip(_ word: String) -> Bool {
    guard bytes[at...].starts(with: word.utf8) else { return false }
    at += word.utf8.count
    return true
  }

  /// The name of a function or a parameter; names of tools may have dashes and dots.
  private mutating func word() -> String? {
    skipSpace()
    let start = at
    while let byte = next, !Bytes.isSpace(byte), !Array("()[]{},=:'\"".utf8).contains(byte) { at += 1 }
    return at > start ? Bytes.text(bytes[start..<at]) : nil
  }
}
