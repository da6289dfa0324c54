// Tool calls written as JSON: finding name and arguments, keeping the model's own text of the arguments.

import JSON

/// A call as a model wrote it.
struct ToolCall: Equatable {
  let name: String
  /// JSON text of an object.
  let arguments: String
}

enum ToolCallText {
  /// The calls of a JSON object or an array of objects; nil unless all of it is well-formed.
  static func calls(in bytes: [UInt8]) -> [ToolCall]? {
    let text = Bytes.trimmed(bytes)
    // Validated as a whole first: the scans below may rely on it.
    guard let value = try? JSONValue(parsing: text) else { return nil }
    switch value {
    case .object: return call(in: text).map { [$0] }
    case .array(let elements) where !elements.isEmpty:
      var calls: [ToolCall] = []
      for range in JSONScanner(text).elements() {
        guard let call = call(in: Array(text[range])) else { return nil }
        calls.append(call)
      }
      return calls
    default: return nil
    }
  }

  /// Whether the bytes are a JSON object.
  static func isObject(_ text: [UInt8]) -> Bool {
    guard case .object = try? JSONValue(parsing: text) else { return false }
    return true
  }

  /// A call object: `name` with `arguments` or `parameters`, possibly inside `function`.
  private static func call(in text: [UInt8]) -> ToolCall? {
    var name: String?
    var arguments: [UInt8]?
    for member in JSONScanner(text).members() {
      let value = Array(text[member.value])
      switch member.key {
      case "name": name = (try? JSONValue(parsing: value))?.stringValue
      case "arguments", "parameters": arguments = value
      case "function" where value.first == UInt8(ascii: "{"): return call(in: value)
      case "function" where name == nil: name = (try? JSONValue(parsing: value))?.stringValue
      default: break
      }
    }
    guard let name, !name.utf8.isEmpty, let object = object(arguments ?? Array("{}".utf8)) else { return nil }
    return ToolCall(name: name, arguments: object)
  }

  /// The text of an arguments object: as it is, or out of a JSON string that holds one.
  private static func object(_ text: [UInt8]) -> String? {
    switch try? JSONValue(parsing: text) {
    case .object: return Bytes.text(text)
    case .null: return "{}"
    case .string(let inner):
      guard case .object = try? JSONValue(parsing: inner) else { return nil }
      return Bytes.text(Bytes.trimmed(Array(inner.utf8)))
    default: return nil
    }
  }
}

/// Ranges of the parts of a JSON text that is known to be valid.
struct JSONScanner {
  private let bytes: [UInt8]

  init(_ bytes: [UInt8]) { self.bytes = bytes }

  /// Members of the outermost object; the values' ranges have no whitespace around.
  func members() -> [(key: String, value: Range<Int>)] {
    var members: [(key: String, value: Range<Int>)] = []
    var at = skipSpace(1)
    while at < bytes.count, bytes[at] == UInt8(ascii: "\"") {
      let keyEnd = end(of: at)
      let key = (try? JSONValue(parsing: Array(bytes[at..<keyEnd])))?.stringValue ?? ""
      at = skipSpace(skipSpace(keyEnd) + 1)
      let valueEnd = end(of: at)
      members.append((key, at..<valueEnd))
      at = skipSpace(skipSpace(valueEnd) + 1)
    }
    return members
  }

  /// Elements of the outermost array.
  func elements() -> [Range<Int>] {
    var elements: [Range<Int>] = []
    var at = skipSpace(1)
    while at < bytes.count, bytes[at] != UInt8(ascii: "]") {
      let valueEnd = end(of: at)
      elements.append(at..<valueEnd)
      at = skipSpace(skipSpace(valueEnd) + 1)
    }
    return elements
  }

  private func skipSpace(_ start: Int) -> Int {
    var at = start
    while at < bytes.count, Bytes.isSpace(bytes[at]) { at += 1 }
    return at
  }

  /// The end of the value that starts at `start`; the end of the text for an unfinished one.
  func end(of start: Int) -> Int {
    var depth = 0
    var at = start
    var isInString = false
    while at < bytes.count {
      let byte = bytes[at]
      at += 1
      if isInString {
        if byte == UInt8(ascii: "\\") { at += 1 }
        if byte == UInt8(ascii: "\"") { isInString = false }
      } else {
        switch byte {
        case UInt8(ascii: "\""): isInString = true
        case UInt8(ascii: "{"), UInt8(ascii: "["): depth += 1
        case UInt8(ascii: "}"), UInt8(ascii: "]"): depth -= 1
        case UInt8(ascii: ","), UInt8(ascii: ":"):
          if depth == 0 { return trimEnd(at - 1, start) }
        default: break
        }
        if depth < 0 { return trimEnd(at - 1, start) }
        if depth == 0, !isInString,
          byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "}") || byte == UInt8(ascii: "]")
        {
          return min(at, bytes.count)
        }
      }
    }
    return trimEnd(bytes.count, start)
  }

  private func trimEnd(_ end: Int, _ start: Int) -> Int {
    var end = end
    while end > start, Bytes.isSpace(bytes[end - 1]) { end -= 1 }
    return end
  }
}
