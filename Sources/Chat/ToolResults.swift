// Results of tools behind the calls that they answer, in the order of the calls.

package import JSON

/// Templates print results by their place, and many without name or id: a result in another place is read as another
/// call's.
struct ToolResults {
  /// Stands where a call has no result.
  private static let missing = "This call has no result."

  /// A call of the turn that is being arranged, with what answers it.
  private struct Call {
    let id: JSONValue
    let name: JSONValue?
    var results: [JSONObject] = []

    /// Its result. Of several the contents stand below each other, one that is repeated once.
    func result() -> JSONObject {
      var result = results.first ?? JSONObject([("role", "tool"), ("content", .string(ToolResults.missing))])
      if results.count > 1 {
        var contents: [JSONValue] = []
        for content in results.compactMap({ $0["content"] }) where content != contents.last {
          contents.append(content)
        }
        result["content"] = .joined(contents)
      }
      result["tool_call_id"] = id
      result["name"] = result["name"] ?? name
      return result
    }
  }

  /// Calls that one word names, the first of which is answered first.
  private struct Line {
    var places: [Int] = []
    var next = 0

    mutating func open(in calls: [Call]) -> Int? {
      while next < places.count, !calls[places[next]].results.isEmpty { next += 1 }
      return next < places.count ? places[next] : nil
    }
  }

  private var arranged: [JSONObject] = []
  /// The functions that were called, by the ids of the calls.
  private var names: [ByteKey: JSONValue] = [:]
  /// Calls that came without an id.
  private var unnamed = 0

  /// The messages with results behind the assistant's messages that called for them, one for each call, and what stood
  /// between them behind those. A result belongs to the call of its id; without an id, or where the calls came without
  /// one, to a call of its name, and else to the first that is open. What no call of the turn before waits for is a text
  /// of the user.
  ///
  /// - Parameter opensAnswer: whether an answer follows: then calls at the end need results too.
  static func arranged(_ messages: [JSONObject], opensAnswer: Bool) -> [JSONObject] {
    var results = ToolResults()
    var index = 0
    while index < messages.count {
      let turn = messages[index...].prefix { !calls(of: $0).isEmpty }
      let end = messages[turn.endIndex...].prefix { $0["role"] != "assistant" }.endIndex
      if turn.isEmpty {
        results.addOther(messages[index])
        index += 1
      } else {
        results.addTurn(turn, messages[turn.endIndex..<end], isOver: end == messages.count && !opensAnswer)
        index = end
      }
    }
    return results.arranged
  }

  private static func calls(of message: JSONObject) -> [JSONValue] { message["tool_calls"]?.arrayValue ?? [] }

  private static func key(_ value: JSONValue?) -> ByteKey? { value?.stringValue.map { ByteKey($0) } }

  /// The message with an id for each of its calls.
  private mutating func identified(_ message: JSONObject) -> JSONObject {
    var message = message
    message["tool_calls"] = .array(
      Self.calls(of: message).map { call in
        guard call["id"]?.stringValue == nil, var object = call.objectValue else { return call }
        unnamed += 1
        object["id"] = .string("call_\(unnamed)")
        return .object(object)
      })
    return message
  }

  /// - Parameter isOver: whether nothing comes after these messages, no answer either.
  private mutating func addTurn(_ turn: ArraySlice<JSONObject>, _ rest: ArraySlice<JSONObject>, isOver: Bool)
  {
    let haveIDs = turn.flatMap(Self.calls).contains { $0["id"]?.stringValue != nil }
    let turn = turn.map { identified($0) }
    var calls: [Call] = []
    var byID: [ByteKey: Line] = [:]
    var byName: [ByteKey: Line] = [:]
    for call in turn.flatMap(Self.calls) {
      let name = call["function"]?["name"]
      if let id = Self.key(call["id"]) { byID[id, default: Line()].places.append(calls.count) }
      if let name = Self.key(name) { byName[name, default: Line()].places.append(calls.count) }
      calls.append(Call(id: call["id"] ?? "", name: name))
    }
    var all = Line(places: Array(calls.indices))
    // Those with an id of this turn first: the others take what is left.
    var unknown: Set<Int> = []
    var others: Set<Int> = []
    for (index, message) in zip(rest.indices, rest) {
      let id = Self.key(message["tool_call_id"])
      if message["role"] != "tool" {
        others.insert(index)
      } else if let id, let place = byID[id]?.open(in: calls) ?? byID[id]?.places.last {
        calls[place].results.append(message)
      } else if let id, haveIDs || names[id] != nil {
        others.insert(index)
      } else {
        unknown.insert(index)
      }
    }
    for index in rest.indices where unknown.contains(index) {
      let name = Self.key(rest[index]["name"])
      if let place = name.flatMap({ byName[$0]?.open(in: calls) }) ?? all.open(in: calls) {
        calls[place].results.append(rest[index])
      } else {
        others.insert(index)
      }
    }
    for call in calls { if let id = Self.key(call.id) { names[id] = call.name } }
    arranged += turn
    let last = isOver && others.isEmpty ? calls.lastIndex { !$0.results.isEmpty } : calls.indices.last
    if let last { arranged += calls[...last].map { $0.result() } }
    for index in rest.indices where others.contains(index) { addOther(rest[index]) }
  }

  private mutating func addOther(_ message: JSONObject) {
    guard message["role"] == "tool" else { return arranged.append(message) }
    let id = message["tool_call_id"]
    let name = message["name"] ?? Self.key(id).flatMap { names[$0] }
    let words = "Result of \(name?.stringValue ?? "a call")\(id?.stringValue.map { " (\($0))" } ?? ""):\n"
    arranged.append(CallsInText.result(message, title: words))
  }
}

extension Conversation {
  /// Messages in the order in which templates are shown them, whatever the template.
  ///
  /// - Parameter opensAnswer: whether an answer follows.
  package static func arranged(_ messages: [JSONValue], opensAnswer: Bool = true) -> [JSONValue] {
    let objects = messages.compactMap(\.objectValue)
    guard objects.count == messages.count else { return messages }
    return ToolResults.arranged(objects, opensAnswer: opensAnswer).map(JSONValue.object)
  }

  /// Whether the prompt ends with the beginning of an answer.
  var opensAnswer: Bool { addGenerationPrompt && !continueFinalMessage }
}

extension JSONValue {
  /// Contents of messages as one, below each other.
  static func joined(_ contents: [JSONValue]) -> JSONValue {
    let texts = contents.compactMap(\.stringValue)
    if texts.count == contents.count { return .string(texts.joined(separator: "\n\n")) }
    let parts = contents.map { $0.arrayValue ?? [.textPart($0.stringValue ?? "")] }
    return .array(Array(parts.joined(separator: [.textPart("\n\n")])))
  }

  static func textPart(_ text: String) -> JSONValue { ["type": "text", "text": .string(text)] }
}
