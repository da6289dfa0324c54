// Follows calls written as JSON objects while their text grows, so that arguments can be streamed.
//
// It only looks for where things are: whether the text is a call at all is decided when all of it is there. The usual
// shape is followed, a name and then an object of arguments; anything else is left to the end.

import JSON

/// What is known of the calls in the body of an unfinished call.
struct CallProgress: Sendable {
  enum Step: Equatable {
    case began(name: String)
    /// These bytes belong to the arguments of the call that began last.
    case arguments(Range<Int>)
  }

  private enum Phase {
    /// Before an object, whose start is not known yet.
    case between
    /// In an object, before its arguments.
    case head(start: Int)
    /// Before an object of arguments that follows a name without an object around both.
    case name(start: Int)
    case arguments(start: Int, Nesting)
    /// After the arguments, up to the end of the call's object.
    case tail(Nesting)
    /// Not the usual shape: nothing more is said.
    case lost
  }

  /// Depth of brackets, and whether a string is open.
  private struct Nesting {
    var depth: Int
    var isInString = false
    var isEscaped = false

    /// True when the bracket that brought the depth to 1 is closed.
    mutating func closes(_ byte: UInt8) -> Bool {
      if isInString {
        if isEscaped {
          isEscaped = false
        } else if byte == UInt8(ascii: "\\") {
          isEscaped = true
        } else if byte == UInt8(ascii: "\"") {
          isInString = false
        }
        return false
      }
      switch byte {
      case UInt8(ascii: "\""): isInString = true
      case UInt8(ascii: "{"), UInt8(ascii: "["): depth += 1
      case UInt8(ascii: "}"), UInt8(ascii: "]"): depth -= 1
      default: break
      }
      return depth == 0
    }
  }

  private let shape: CallShape
  private let tools: ToolSchemas
  private var phase: Phase
  /// How far the body has been read.
  private var at: Int

  /// Bytes within which the arguments must begin.
  private static let maxHead = 256
  /// What may stand around calls, beside white space.
  private static let separators = Array("[,;]".utf8)

  init(_ shape: CallShape, tools: ToolSchemas, start: Int) {
    (self.shape, self.tools) = (shape, tools)
    at = start
    switch shape {
    case .objects: phase = .between
    case .namedArguments: phase = .name(start: start)
    case .whole: phase = .lost
    }
  }

  /// What the body says up to `end`; the body may be longer.
  mutating func advance(_ body: ArraySlice<UInt8>, to end: Int) -> [Step] {
    var steps: [Step] = []
    while at < end, step(body[..<end], &steps) {}
    return steps
  }

  /// One move; false when more text is needed.
  private mutating func step(_ body: ArraySlice<UInt8>, _ steps: inout [Step]) -> Bool {
    switch phase {
    case .lost: return false
    case .between:
      let byte = body[at]
      if byte == UInt8(ascii: "{") {
        phase = .head(start: at)
      } else if Bytes.isSpace(byte) || Self.separators.contains(byte) {
        at += 1
      } else {
        phase = .lost
      }
      return true
    case .head(let start): return readHead(CallHead.inObject(body[start...]), start, body, &steps)
    case .name(let start): return readHead(CallHead.named(body[start...]), start, body, &steps)
    case .arguments(let start, let nesting): return readArguments(start, nesting, body, &steps)
    case .tail(var nesting):
      let byte = body[at]
      at += 1
      phase = nesting.closes(byte) ? .between : .tail(nesting)
      return true
    }
  }

  private mutating func readHead(
    _ head: CallHead, _ start: Int, _ body: ArraySlice<UInt8>, _ steps: inout [Step]
  ) -> Bool {
    // The bound holds for a head that came in one piece, too: what is streamed does not depend on how the text was cut.
    switch head {
    case .found(let name, let arguments) where arguments - start < Self.maxHead && tools.contains(name):
      steps.append(.began(name: name))
      at = arguments
      phase = .arguments(start: arguments, Nesting(depth: 0))
      return true
    case .needsMore where body.endIndex - start < Self.maxHead:
      return false
    default:
      phase = .lost
      return false
    }
  }

  private mutating func readArguments(
    _ start: Int, _ nesting: Nesting, _ body: ArraySlice<UInt8>, _ steps: inout [Step]
  ) -> Bool {
    var nesting = nesting
    let first = at
    while at < body.endIndex {
      let closes = nesting.closes(body[at])
      at += 1
      guard closes else { continue }
      steps.append(.arguments(first..<at))
      guard ToolCallText.isObject(Array(body[start..<at])) else {
        phase = .lost
        return false
      }
      if shape == .objects {
        phase = .tail(Nesting(depth: 1))
      } else {
        // The end of the body ends the call.
        phase = .lost
      }
      return true
    }
    steps.append(.arguments(first..<at))
    phase = .arguments(start: start, nesting)
    return false
  }
}

/// How a syntax writes its calls.
enum CallShape: Sendable {
  /// Objects with a name and arguments, possibly in an array.
  case objects
  /// A name, a marker, and an object of arguments.
  case namedArguments
  /// Not as JSON: calls are known when they are complete.
  case whole
}

/// The beginning of a call, up to its arguments.
enum CallHead: Equatable {
  case needsMore
  case other
  case found(name: String, arguments: Int)

  /// `{"name": "f", "arguments": {`, with `type` or `id` before it.
  static func inObject(_ text: ArraySlice<UInt8>) -> CallHead {
    var reader = Reader(text: text, at: text.startIndex + 1)
    var name: String?
    while true {
      reader.skipSpace()
      guard let key = reader.string() else { return reader.failure }
      guard reader.skip(UInt8(ascii: ":")) else { return reader.failure }
      switch key {
      case "name", "type", "id", "tool_name", "tool_call_id":
        guard let value = reader.string() else { return reader.failure }
        if key == "name" || key == "tool_name" { name = value }
        guard reader.skip(UInt8(ascii: ",")) else { return reader.failure }
      case "arguments", "parameters":
        guard let name, !name.utf8.isEmpty else { return .other }
        guard let byte = reader.next else { return .needsMore }
        return byte == UInt8(ascii: "{") ? .found(name: name, arguments: reader.at) : .other
      default: return .other
      }
    }
  }

  /// `f[ARGS]{` or `f{`, perhaps with `[CALL_ID]` and an identifier before the arguments.
  static func named(_ text: ArraySlice<UInt8>) -> CallHead {
    let body = text.drop { Bytes.isSpace($0) }
    if let first = body.first, first == UInt8(ascii: "[") || first == UInt8(ascii: "{") { return .other }
    guard let brace = body.firstIndex(of: UInt8(ascii: "{")) else { return .needsMore }
    let mark = Bytes.find("[ARGS]", in: body[..<brace])
    let gap = mark.map { body[($0 + 6)..<brace] } ?? []
    guard Bytes.isSpace(gap) else { return .other }
    let head = body[..<(mark ?? brace)]
    let nameEnd = Bytes.find("[CALL_ID]", in: head) ?? head.endIndex
    let name = Bytes.text(Bytes.trimmed(Array(head[..<nameEnd])))
    guard !name.utf8.isEmpty, !name.utf8.contains(where: Bytes.isSpace) else { return .other }
    return .found(name: name, arguments: brace)
  }

  private struct Reader {
    let text: ArraySlice<UInt8>
    var at: Int

    /// Why the last step failed: the text ended, or something else stands there.
    var failure: CallHead { at >= text.endIndex ? .needsMore : .other }

    mutating func skipSpace() {
      while at < text.endIndex, Bytes.isSpace(text[at]) { at += 1 }
    }

    var next: UInt8? { at < text.endIndex ? text[at] : nil }

    /// The byte with white space around it.
    mutating func skip(_ byte: UInt8) -> Bool {
      skipSpace()
      guard next == byte else { return false }
      at += 1
      skipSpace()
      return true
    }

    mutating func string() -> String? {
      guard next == UInt8(ascii: "\"") else { return nil }
      var end = at + 1
      while end < text.endIndex, text[end] != UInt8(ascii: "\"") {
        end += text[end] == UInt8(ascii: "\\") ? 2 : 1
      }
      guard end < text.endIndex else {
        at = text.endIndex
        return nil
      }
      guard let value = try? JSONValue(parsing: Array(text[at...end])) else { return nil }
      at = end + 1
      return value.stringValue
    }
  }
}
