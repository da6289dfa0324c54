// The events of a Responses stream and the output items they build, in the order that clients insist on.
//
// Items follow each other: each is closed before the next opens. The same writer makes the events of a live stream
// and, from the finished response and the lengths of its deltas, those of a replay: they are equal to the byte.

package import JSON

/// One event; the type is also its name in the stream.
package struct ResponseEvent: Sendable, Equatable {
  /// `sequence_number`: counts all events of the response from 0.
  package let sequence: Int
  package let type: String
  /// The data of the event.
  package let json: JSONValue

  private static let readingType = "mlxserve:prompt_progress"

  /// How far the prompt is read: an event of this server's own and nothing of the response, so that it has no number and
  /// is not told again.
  package static func reading(_ progress: JSONValue) -> ResponseEvent {
    ResponseEvent(
      sequence: -1, type: readingType, json: ["type": .string(readingType), "prompt_progress": progress])
  }

  package var isReading: Bool { sequence < 0 }
}

/// How reasoning is written into streams.
package enum ReasoningEvents: String, Sendable, CaseIterable {
  /// `response.reasoning_text.*`, the names that OpenAI's SDKs know.
  case openai
  /// `response.reasoning.*`, the names of the Open Responses specification.
  case openresponses
  /// The item comes whole: no deltas.
  case none
}

/// Makes the events of one response in their order, and keeps the items that they build.
package struct ResponseEventWriter: Sendable {
  /// An item that is begun, before it has any text.
  package struct Item: Sendable, Equatable {
    /// What it is.
    package enum Kind: Sendable, Equatable {
      case message
      case reasoning(asSummary: Bool)
      /// Of a function, or of a tool that takes free text.
      case call(isCustom: Bool)
      /// Of a tool whose calls are items of their own: it is told whole.
      case clientCall
      /// A search in files, which has no text of its own.
      case fileSearch
      /// Of a server of tools: a list, a call, or a question whether to call. The item as far as it is known.
      case remote(JSONValue)
    }

    fileprivate let kind: Kind
    fileprivate let id: String
    fileprivate let callID: String
    fileprivate let name: String
    fileprivate let namespace: String?

    /// - Parameters:
    ///   - callID: of a call, and so are the rest.
    ///   - name: of its tool.
    package init(
      _ kind: Kind, id: String, callID: String = "", name: String = "", namespace: String? = nil
    ) {
      (self.kind, self.id, self.callID) = (kind, id, callID)
      (self.name, self.namespace) = (name, namespace)
    }
  }

  /// The lengths of what was sent of one item, enough to send it again in the same pieces.
  package struct Cuts: Sendable, Equatable {
    /// UTF-8 bytes of each delta.
    package var bytes: [Int] = []
    /// Log probabilities with each delta; empty when there are none at all.
    package var logprobs: [Int] = []
    /// Deltas before each annotation.
    package var annotations: [Int] = []

    package init() {}

    fileprivate mutating func add(bytes count: Int, logprobs entries: Int) {
      bytes.append(count)
      guard entries > 0 || !logprobs.isEmpty else { return }
      // Deltas before the first one with log probabilities had none.
      logprobs += Array(repeating: 0, count: max(0, bytes.count - 1 - logprobs.count)) + [entries]
    }
  }

  private struct Open {
    var item: Item
    var text = ""
    var logprobs: [JSONValue] = []
    var annotations: [JSONValue] = []
    var cuts = Cuts()
  }

  /// Items that are complete.
  package private(set) var output: [JSONValue] = []
  /// Of each item of `output`.
  package private(set) var cuts: [Cuts] = []
  private let reasoning: ReasoningEvents
  private var sequence = 0
  private var open: Open?

  package init(reasoning: ReasoningEvents) { self.reasoning = reasoning }

  // MARK: The response

  /// An event about the whole response.
  package mutating func lifecycle(_ type: String, _ body: JSONObject) -> ResponseEvent {
    event(type, [("response", .object(body))])
  }

  /// - Parameters:
  ///   - item: the one that it is about, if it is open.
  ///   - index: the name of the place in it, which has one part.
  private mutating func event(
    _ type: String, of item: Item? = nil, at index: String? = nil, _ members: [(String, JSONValue)]
  ) -> ResponseEvent {
    defer { sequence += 1 }
    var all: [(String, JSONValue)] = []
    all.reserveCapacity(5 + members.count)
    all.append(("type", .string(type)))
    all.append(("sequence_number", .int(sequence)))
    if let item {
      all.append(("item_id", .string(item.id)))
      all.append(("output_index", .int(output.count)))
    }
    if let index { all.append((index, 0)) }
    return ResponseEvent(sequence: sequence, type: type, json: .object(JSONObject(all + members)))
  }

  // MARK: Items

  /// Begins an item; the one before must be closed.
  package mutating func begin(_ item: Item) -> [ResponseEvent] {
    let current = Open(item: item)
    open = current
    let added = event(
      "response.output_item.added",
      [("output_index", .int(output.count)), ("item", json(of: current, "in_progress"))])
    return [added] + (item.kind == .fileSearch ? [searchEvent("in_progress", item.id)] : [])
      + remoteEvents(item) + partEvents("added", current)
  }

  /// The place in the open message's text, in Unicode scalars.
  package var textLength: Int { open?.text.unicodeScalars.count ?? 0 }

  /// A citation at the end of the open message's text so far.
  package mutating func annotate(_ annotation: JSONValue) -> [ResponseEvent] {
    guard let current = open, current.item.kind == .message else { return [] }
    open?.annotations.append(annotation)
    open?.cuts.annotations.append(current.cuts.bytes.count)
    return [
      event(
        "response.output_text.annotation.added", of: current.item, at: "content_index",
        [("annotation_index", .int(current.annotations.count)), ("annotation", annotation)])
    ]
  }

  /// The open search has begun.
  package mutating func searching() -> [ResponseEvent] {
    guard let item = open?.item, item.kind == .fileSearch else { return [] }
    return [searchEvent("searching", item.id)]
  }

  /// Ends the open search.
  ///
  /// - Parameter item: the whole item.
  package mutating func endSearch(_ item: JSONValue) -> [ResponseEvent] {
    guard let search = open?.item, search.kind == .fileSearch else { return [] }
    let completed = item["status"] == "completed" ? [searchEvent("completed", search.id)] : []
    return completed + [end(item, Cuts())]
  }

  /// What is told of an item of a server of tools when it begins: of a call all of its arguments.
  private mutating func remoteEvents(_ item: Item) -> [ResponseEvent] {
    guard case .remote(let whole) = item.kind else { return [] }
    switch whole["type"]?.stringValue {
    case "mcp_list_tools": return [event("response.mcp_list_tools.in_progress", of: item, [])]
    case "mcp_call":
      let arguments = whole["arguments"] ?? ""
      return [
        event("response.mcp_call.in_progress", of: item, []),
        event("response.mcp_call_arguments.delta", of: item, [("delta", arguments)]),
        event("response.mcp_call_arguments.done", of: item, [("arguments", arguments)]),
      ]
    default: return []
    }
  }

  /// Ends the open item of a server of tools.
  package mutating func endRemote(_ whole: JSONValue) -> [ResponseEvent] {
    guard let item = open?.item, case .remote = item.kind else { return [] }
    var events: [ResponseEvent] = []
    switch whole["type"]?.stringValue {
    case "mcp_list_tools":
      let isFailed = whole["error"]?.isNull == false
      events = [event("response.mcp_list_tools.\(isFailed ? "failed" : "completed")", of: item, [])]
    case "mcp_call" where whole["status"] != "incomplete":
      let isFailed = whole["status"] == "failed"
      events = [event("response.mcp_call.\(isFailed ? "failed" : "completed")", of: item, [])]
    default: break
    }
    return events + [end(whole, Cuts())]
  }

  private mutating func searchEvent(_ name: String, _ id: String) -> ResponseEvent {
    event(
      "response.file_search_call.\(name)", [("output_index", .int(output.count)), ("item_id", .string(id))])
  }

  /// More of the open item's text or arguments.
  package mutating func add(_ text: String, logprobs: [JSONValue] = []) -> [ResponseEvent] {
    guard let item = open?.item, !text.utf8.isEmpty else { return [] }
    // In place: a copy of the text for each delta would make long answers slow.
    open?.text += text
    open?.logprobs += logprobs
    guard let words = words(of: item) else { return [] }
    open?.cuts.add(bytes: text.utf8.count, logprobs: logprobs.count)
    let delta = ("delta", JSONValue.string(text))
    return [
      event(
        words.delta, of: item, at: words.index,
        item.kind == .message ? [delta, ("logprobs", .array(logprobs))] : [delta])
    ]
  }

  /// Ends the open item.
  ///
  /// - Parameters:
  ///   - isComplete: false when a limit or a failure cut it off.
  ///   - seals: whether reasoning is also given as `encrypted_content`.
  package mutating func close(isComplete: Bool, seals: Bool = false) -> [ResponseEvent] {
    guard let current = open else { return [] }
    if case .remote(let item) = current.item.kind { return endRemote(MCPItem.cut(item)) }
    var events: [ResponseEvent] = []
    if let words = words(of: current.item) {
      let text = (words.member, JSONValue.string(current.text))
      let members =
        switch current.item.kind {
        case .message: [text, ("logprobs", .array(current.logprobs))]
        case .call(isCustom: false): [("name", .string(current.item.name)), text]
        default: [text]
        }
      events.append(event(words.done, of: current.item, at: words.index, members))
    }
    events += partEvents("done", current)
    let item = json(of: current, isComplete ? "completed" : "incomplete", seals: seals)
    return events + [end(item, current.cuts)]
  }

  private mutating func end(_ item: JSONValue, _ cuts: Cuts) -> ResponseEvent {
    let done = event("response.output_item.done", [("output_index", .int(output.count)), ("item", item)])
    output.append(item)
    self.cuts.append(cuts)
    open = nil
    return done
  }

  /// Forgets the last items, the open one first, of which nobody has been told.
  package mutating func removeLast(_ count: Int) {
    var left = count
    if open != nil, left > 0 {
      open = nil
      left -= 1
    }
    output.removeLast(min(left, output.count))
    cuts.removeLast(min(left, cuts.count))
  }

  // MARK: Names

  /// The events of an item's text, the place in it, and the member that has all of it; nil for one that comes whole.
  private func words(of item: Item) -> (delta: String, done: String, index: String?, member: String)? {
    switch item.kind {
    case .message: ("response.output_text.delta", "response.output_text.done", "content_index", "text")
    case .reasoning where reasoning == .none: nil
    case .reasoning(asSummary: true):
      (
        "response.reasoning_summary_text.delta", "response.reasoning_summary_text.done", "summary_index",
        "text"
      )
    case .reasoning where reasoning == .openresponses:
      ("response.reasoning.delta", "response.reasoning.done", "content_index", "text")
    case .reasoning:
      ("response.reasoning_text.delta", "response.reasoning_text.done", "content_index", "text")
    case .call(isCustom: true):
      ("response.custom_tool_call_input.delta", "response.custom_tool_call_input.done", nil, "input")
    case .call(isCustom: false):
      ("response.function_call_arguments.delta", "response.function_call_arguments.done", nil, "arguments")
    case .clientCall, .fileSearch, .remote: nil
    }
  }

  /// The event about the one part that an item of text has.
  private mutating func partEvents(_ ending: String, _ current: Open) -> [ResponseEvent] {
    let isSummary = current.item.kind == .reasoning(asSummary: true)
    guard words(of: current.item)?.index != nil else { return [] }
    return [
      event(
        "response.\(isSummary ? "reasoning_summary_part" : "content_part").\(ending)", of: current.item,
        at: isSummary ? "summary_index" : "content_index", [("part", part(of: current))])
    ]
  }

  // MARK: Objects

  private func part(of current: Open) -> JSONValue {
    switch current.item.kind {
    case .reasoning(asSummary: true): ["type": "summary_text", "text": .string(current.text)]
    case .reasoning: ["type": "reasoning_text", "text": .string(current.text)]
    default:
      [
        "type": "output_text", "text": .string(current.text), "annotations": .array(current.annotations),
        "logprobs": .array(current.logprobs),
      ]
    }
  }

  /// An item; one that is in progress has no parts yet.
  private func json(of current: Open, _ status: String, seals: Bool = false) -> JSONValue {
    let item = current.item
    let parts: JSONValue = status == "in_progress" ? [] : [part(of: current)]
    func object(_ type: String, _ members: KeyValuePairs<String, JSONValue>) -> JSONObject {
      JSONObject([("id", .string(item.id)), ("type", .string(type))] + members.map { ($0.key, $0.value) })
    }
    switch item.kind {
    case .message:
      return .object(
        object("message", ["role": "assistant", "status": .string(status), "content": parts]))
    case .reasoning(let asSummary):
      var reasoning = object("reasoning", ["status": .string(status), "summary": asSummary ? parts : []])
      if !asSummary { reasoning["content"] = parts }
      if seals { reasoning["encrypted_content"] = .string(SealedContent.reasoning.seal(current.text)) }
      return .object(reasoning)
    case .call(let isCustom):
      var call = object(
        isCustom ? "custom_tool_call" : "function_call",
        [
          "status": .string(status), "call_id": .string(item.callID), "name": .string(item.name),
          isCustom ? "input" : "arguments": .string(current.text),
        ])
      if let namespace = item.namespace { call["namespace"] = .string(namespace) }
      return .object(call)
    case .clientCall:
      return ClientToolItem.item(
        ofTool: item.name, id: item.id, callID: item.callID, status: status, arguments: current.text)
    case .remote(let whole): return MCPItem.begun(whole)
    case .fileSearch:
      // One that ends here was cut off.
      let status = status == "in_progress" ? status : "incomplete"
      return .object(
        object("file_search_call", ["status": .string(status), "queries": [], "results": nil]))
    }
  }
}
