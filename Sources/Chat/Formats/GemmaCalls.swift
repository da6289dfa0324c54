// Gemma 4: `<|tool_call>call:name{key:<|"|>text<|"|>,n:3,list:[...],object:{...}}<tool_call|>`.

import JSON

struct GemmaCalls: CallSyntax {
  let openings = [CallOpening("<|tool_call>", close: "<tool_call|>")]
  let quotes = CallQuotes.gemma

  func calls(in body: [UInt8]) -> [ToolCall]? {
    var reader = Reader(bytes: Bytes.trimmed(body))
    guard reader.skip("call:"), let brace = reader.bytes.firstIndex(of: UInt8(ascii: "{")), brace >= reader.at
    else { return nil }
    let name = Bytes.trimmed(Array(reader.bytes[reader.at..<brace]))
    reader.at = brace
    guard !name.isEmpty, let value = reader.value(depth: 0), case .object = value, reader.isAtEnd else {
      return nil
    }
    return [ToolCall(name: Bytes.text(name), arguments: value.text)]
  }

  func cutCalls(in body: [UInt8]) -> [ToolCall]? {
    closedCalls(in: Bytes.trimmed(body), quotes: ["<|\"|>", "\""], outside: 0)
  }

  /// Reads the value grammar: like JSON, with bare keys and strings between `<|"|>`.
  private struct Reader {
    let bytes: [UInt8]
    var at = 0

    static let quote = Array("<|\"|>".utf8)
    static let maxDepth = 64

    init(bytes: [UInt8]) { self.bytes = bytes }

    var isAtEnd: Bool { at == bytes.count }

    mutating func skipSpace() {
      while at < bytes.count, Bytes.isSpace(bytes[at]) { at += 1 }
    }

    mutating func skip(_ word: String) -> Bool {
      guard bytes[at...].starts(with: word.utf8) else { return false }
      at += word.utf8.count
      return true
    }

    mutating func value(depth: Int) -> JSONValue? {
      guard depth < Self.maxDepth else { return nil }
      skipSpace()
      guard at < bytes.count else { return nil }
      let result: JSONValue?
      switch bytes[at] {
      case UInt8(ascii: "{"): result = object(depth)
      case UInt8(ascii: "["): result = array(depth)
      case UInt8(ascii: "<"), UInt8(ascii: "\""): result = string().map { .string($0) }
      default: result = word()
      }
      skipSpace()
      return result
    }

    private mutating func object(_ depth: Int) -> JSONValue? {
      var object = JSONObject()
      at += 1
      skipSpace()
      while at < bytes.count, bytes[at] != UInt8(ascii: "}") {
        guard let key = key(), let value = value(depth: depth + 1) else { return nil }
        object[key] = value
        guard endsItem(UInt8(ascii: "}")) else { return nil }
      }
      guard skip("}") else { return nil }
      return .object(object)
    }

    private mutating func array(_ depth: Int) -> JSONValue? {
      var array: [JSONValue] = []
      at += 1
      skipSpace()
      while at < bytes.count, bytes[at] != UInt8(ascii: "]") {
        guard let value = value(depth: depth + 1) else { return nil }
        array.append(value)
        guard endsItem(UInt8(ascii: "]")) else { return nil }
      }
      guard skip("]") else { return nil }
      return .array(array)
    }

    /// After an item: a comma, or the closing bracket is next.
    private mutating func endsItem(_ close: UInt8) -> Bool {
      skipSpace()
      if skip(",") {
        skipSpace()
        return true
      }
      return at < bytes.count && bytes[at] == close
    }

    /// Bare up to the colon, or quoted.
    private mutating func key() -> String? {
      var text: String?
      if bytes[at] == UInt8(ascii: "<") || bytes[at] == UInt8(ascii: "\"") {
        text = string()
        skipSpace()
      } else if let colon = bytes[at...].firstIndex(of: UInt8(ascii: ":")) {
        text = Bytes.text(Bytes.trimmed(Array(bytes[at..<colon])))
        at = colon
      }
      guard let text, !text.utf8.isEmpty, skip(":") else { return nil }
      return text
    }

    private mutating func string() -> String? {
      if bytes[at...].starts(with: Self.quote) {
        let start = at + Self.quote.count
        guard let end = Bytes.find(Self.quote, in: bytes[...], from: start) else { return nil }
        at = end + Self.quote.count
        return Bytes.text(bytes[start..<end])
      }
      guard bytes[at] == UInt8(ascii: "\"") else { return nil }
      var end = at + 1
      while end < bytes.count, bytes[end] != UInt8(ascii: "\"") {
        end += bytes[end] == UInt8(ascii: "\\") ? 2 : 1
      }
      guard end < bytes.count, let value = try? JSONValue(parsing: Array(bytes[at...end])) else { return nil }
      at = end + 1
      return value.stringValue
    }

    /// A number, `true`, `false`, `null`; any other bare word is text.
    private mutating func word() -> JSONValue? {
      let start = at
      while at < bytes.count, ![UInt8(ascii: ","), UInt8(ascii: "}"), UInt8(ascii: "]")].contains(bytes[at]) {
        at += 1
      }
      let text = Bytes.trimmed(Array(bytes[start..<at]))
      guard !text.isEmpty else { return nil }
      return (try? JSONValue(parsing: text)) ?? .string(Bytes.text(text))
    }
  }
}
