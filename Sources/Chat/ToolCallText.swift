// Tool calls written as JSON: finding name and arguments, keeping the model's own text of the arguments.

import JSON

/// A call as a model wrote it.
struct ToolCall: Equatable {
  let name: String
  /// JSON text of an object; where the answer ended within the call, its beginning.
  let arguments: String
  var isCut = false
}

extension ToolCall {
  /// A call in which the answer ended: arguments that are whole, and what came of one more.
  init(cut name: String, _ whole: JSONObject, _ next: (key: String, text: String)? = nil) {
    var text = Bytes.text(JSONValue.object(whole).text.utf8.dropLast())
    if let next { text += (whole.isEmpty ? "" : ",") + JSONValue.string(next.key).text + ":" + next.text }
    self.init(name: name, arguments: text, isCut: true)
  }
}

enum ToolCallText {
  /// The calls of a JSON object or an array of objects; nil unless all of it is well-formed.
  static func calls(in bytes: [UInt8]) -> [ToolCall]? {
    let text = Bytes.trimmed(bytes)
    // Validated as a whole: the readers below only look for where things are.
    guard let value = try? JSONValue(parsing: text) else { return nil }
    do throws(JSONError) {
      switch value {
      case .object: return try call(in: text).map { [$0] }
      case .array(let elements) where !elements.isEmpty: return try calls(inArray: text)
      default: return nil
      }
    } catch {
      return nil
    }
  }

  private static func calls(inArray text: [UInt8]) throws(JSONError) -> [ToolCall]? {
    var reader = try JSONReader(text)
    var calls: [ToolCall] = []
    try reader.enterArray()
    while try reader.nextElement() {
      guard let call = try call(in: Array(text[reader.skipValue()])) else { return nil }
      calls.append(call)
    }
    return calls
  }

  /// Whether the bytes are a JSON object.
  static func isObject(_ text: [UInt8]) -> Bool {
    guard case .object = try? JSONValue(parsing: text) else { return false }
    return true
  }

  /// A call object: `name` with `arguments` or `parameters`, possibly inside `function`.
  private static func call(in text: [UInt8]) throws(JSONError) -> ToolCall? {
    var reader = try JSONReader(text)
    var key: [UInt8] = []
    var name: String?
    var arguments: [UInt8]?
    try reader.enterObject()
    while try reader.nextKey(into: &key) {
      let value = try Array(text[reader.skipValue()])
      switch Bytes.text(key) {
      case "name", "tool_name": name = (try? JSONValue(parsing: value))?.stringValue
      case "arguments", "parameters": arguments = value
      case "function" where value.first == UInt8(ascii: "{"): return try call(in: value)
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
