// Results of tools behind the calls that they answer, in the order of the calls.

package import JSON

/// Templates print results by their place, and many without name or id: a result in another place is read as another
/// call's.
struct ToolResults {
  /// Stands where a call has no result and a later call of its turn has one.
  private static let missing = "This call has no result."

  /// A call of the turn that is being arranged, with what answers it.
  private struct Call {
    let id: JSONValue?
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
      result["tool_call_id"] = id ?? result["tool_call_id"]
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

  private let lone: (JSONObject, _ isBehindCalls: Bool) -> JSONObject
  private var arranged: [JSONObject] = []
  /// The functions that were called, by the ids of the calls.
  private var names: [ByteKey: JSONValue] = [:]

  /// The messages with results behind the assistant's messages that called for them, one for each call, and what stood
  /// between them behind those. A result belongs to the call with its id, where no call has had that id, to one of its
  /// name, and else to the first that is open.
  ///
  /// - Parameter lone: makes what is shown of a result that no call of the turn before waits for.
  static func arranged(
    _ messages: [JSONObject], lone: @escaping (JSONObject, _ isBehindCalls: Bool) -> JSONObject
  ) -> [JSONObject] {
    var results = ToolResults(lone: lone)
    var index = 0
    while index < messages.count {
      let turn = messages[index...].prefix { !calls(of: $0).isEmpty }
      let end = messages[turn.endIndex...].prefix { $0["role"] != "assistant" }.endIndex
      if turn.isEmpty {
        results.addOther(messages[index], isBehindCalls: false)
        index += 1
      } else {
        results.addTurn(turn, messages[turn.endIndex..<end])
        index = end
      }
    }
    return results.arranged
  }

  private init(lone: @escaping (JSONObject, Bool) -> JSONObject) { self.lone = lone }

  private static func calls(of message: JSONObject) -> [JSONValue] { message["tool_calls"]?.arrayValue ?? [] }

  private static func key(_ value: JSONValue?) -> ByteKey? { value?.stringValue.map { ByteKey($0) } }

  private mutating func addTurn(_ turn: ArraySlice<JSONObject>, _ rest: ArraySlice<JSONObject>) {
    var calls: [Call] = []
    var byID: [ByteKey: Line] = [:]
    var byName: [ByteKey: Line] = [:]
    for call in turn.flatMap(Self.calls) {
      let name = call["function"]?["name"]
      if let id = Self.key(call["id"]) { byID[id, default: Line()].places.append(calls.count) }
      if let name = Self.key(name) { byName[name, default: Line()].places.append(calls.count) }
      calls.append(Call(id: call["id"], name: name))
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
      } else if let id, names[id] != nil {
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
    if let last = calls.lastIndex(where: { !$0.results.isEmpty }) {
      arranged += calls[...last].map { $0.result() }
    }
    for index in rest.indices where others.contains(index) { addOther(rest[index], isBehindCalls: true) }
  }

  private mutating func addOther(_ message: JSONObject, isBehindCalls: Bool) {
    guard message["role"] == "tool" else { return arranged.append(message) }
    var result = message
    result["tool_call_id"] = result["tool_call_id"] ?? "call_0"
    result["name"] = result["name"] ?? Self.key(result["tool_call_id"]).flatMap { names[$0] }
    arranged.append(lone(result, isBehindCalls))
  }
}

extension Conversation {
  /// Messages in the order in which templates are shown them, whatever the template.
  package static func arranged(_ messages: [JSONValue]) -> [JSONValue] {
    let objects = messages.compactMap(\.objectValue)
    guard objects.count == messages.count else { return messages }
    return ToolResults.arranged(objects) { result, _ in result }.map(JSONValue.object)
  }
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
