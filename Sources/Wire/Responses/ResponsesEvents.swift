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
  package enum Item: Sendable, Equatable {
    case message(id: String)
    case reasoning(id: String, asSummary: Bool)
    case call(id: String, callID: String, name: String, namespace: String? = nil)
    /// A call of a tool that takes free text.
    case customCall(id: String, callID: String, name: String, namespace: String? = nil)
    /// A call of a tool whose calls are items of their own: it is told whole.
    case clientCall(id: String, callID: String, tool: String)
    /// A search in files, which has no text of its own.
    case fileSearch(id: String)
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

  private mutating func event(_ type: String, _ members: [(String, JSONValue)]) -> ResponseEvent {
    defer { sequence += 1 }
    return ResponseEvent(
      sequence: sequence, type: type,
      json: .object(
        JSONObject([("type", .string(type)), ("sequence_number", .int(sequence))] + members)))
  }

  // MARK: Items

  /// Begins an item; the one before must be closed.
  package mutating func begin(_ item: Item) -> [ResponseEvent] {
    open = Open(item: item)
    let index = output.count
    var events = [
      event("response.output_item.added", [("output_index", .int(index)), ("item", started(item))])
    ]
    switch item {
    case .message(let id):
      events.append(partEvent("response.content_part.added", id, textPart(Open(item: item))))
    case .reasoning(_, _) where reasoning == .none: break
    case .reasoning(let id, asSummary: true):
      events.append(summaryPartEvent("response.reasoning_summary_part.added", id, ""))
    case .reasoning(let id, asSummary: false):
      events.append(partEvent("response.content_part.added", id, reasoningPart("")))
    case .call, .customCall, .clientCall: break
    case .fileSearch(let id): events.append(searchEvent("in_progress", id))
    }
    return events
  }

  /// The place in the open message's text, in Unicode scalars.
  package var textLength: Int { open?.text.unicodeScalars.count ?? 0 }

  /// A citation at the end of the open message's text so far.
  package mutating func annotate(_ annotation: JSONValue) -> [ResponseEvent] {
    guard case .message(let id) = open?.item, let number = open?.annotations.count else { return [] }
    open?.annotations.append(annotation)
    if let deltas = open?.cuts.bytes.count { open?.cuts.annotations.append(deltas) }
    return [
      event(
        "response.output_text.annotation.added",
        [
          ("item_id", .string(id)), ("output_index", .int(output.count)), ("content_index", 0),
          ("annotation_index", .int(number)), ("annotation", annotation),
        ])
    ]
  }

  /// The open search has begun.
  package mutating func searching() -> [ResponseEvent] {
    guard case .fileSearch(let id) = open?.item else { return [] }
    return [searchEvent("searching", id)]
  }

  /// Ends the open search.
  ///
  /// - Parameter item: the whole item.
  package mutating func endSearch(_ item: JSONValue) -> [ResponseEvent] {
    guard case .fileSearch(let id) = open?.item else { return [] }
    var events: [ResponseEvent] = []
    if item["status"] == "completed" { events.append(searchEvent("completed", id)) }
    events.append(
      event("response.output_item.done", [("output_index", .int(output.count)), ("item", item)]))
    output.append(item)
    cuts.append(Cuts())
    open = nil
    return events
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
    if case .reasoning = item, reasoning == .none { return [] }
    if case .clientCall = item { return [] }
    open?.cuts.add(bytes: text.utf8.count, logprobs: logprobs.count)
    let index = JSONValue.int(output.count)
    switch item {
    case .message(let id):
      return [
        event(
          "response.output_text.delta",
          [
            ("item_id", .string(id)), ("output_index", index), ("content_index", 0),
            ("delta", .string(text)), ("logprobs", .array(logprobs)),
          ])
      ]
    case .reasoning(let id, let asSummary):
      return [
        event(
          reasoningName(asSummary, "delta"),
          [
            ("item_id", .string(id)), ("output_index", index),
            (asSummary ? "summary_index" : "content_index", 0), ("delta", .string(text)),
          ])
      ]
    case .call(let id, _, _, _):
      return [
        event(
          "response.function_call_arguments.delta",
          [("item_id", .string(id)), ("output_index", index), ("delta", .string(text))])
      ]
    case .customCall(let id, _, _, _):
      return [
        event(
          "response.custom_tool_call_input.delta",
          [("item_id", .string(id)), ("output_index", index), ("delta", .string(text))])
      ]
    case .fileSearch, .clientCall: return []
    }
  }

  /// Ends the open item.
  ///
  /// - Parameters:
  ///   - isComplete: false when a limit or a failure cut it off.
  ///   - seals: whether reasoning is also given as `encrypted_content`.
  package mutating func close(isComplete: Bool, seals: Bool = false) -> [ResponseEvent] {
    guard let current = open else { return [] }
    var events = doneEvents(current)
    let index = output.count
    let item = finished(current, isComplete: isComplete, seals: seals)
    events.append(event("response.output_item.done", [("output_index", .int(index)), ("item", item)]))
    output.append(item)
    cuts.append(current.cuts)
    open = nil
    return events
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

  private mutating func doneEvents(_ current: Open) -> [ResponseEvent] {
    let index = JSONValue.int(output.count)
    switch current.item {
    case .message(let id):
      let done = event(
        "response.output_text.done",
        [
          ("item_id", .string(id)), ("output_index", index), ("content_index", 0),
          ("text", .string(current.text)), ("logprobs", .array(current.logprobs)),
        ])
      return [done, partEvent("response.content_part.done", id, textPart(current))]
    case .reasoning(_, _) where reasoning == .none: return []
    case .reasoning(let id, let asSummary):
      let done = event(
        reasoningName(asSummary, "done"),
        [
          ("item_id", .string(id)), ("output_index", index),
          (asSummary ? "summary_index" : "content_index", 0), ("text", .string(current.text)),
        ])
      return [
        done,
        asSummary
          ? summaryPartEvent("response.reasoning_summary_part.done", id, current.text)
          : partEvent("response.content_part.done", id, reasoningPart(current.text)),
      ]
    case .customCall(let id, _, _, _):
      return [
        event(
          "response.custom_tool_call_input.done",
          [("item_id", .string(id)), ("output_index", index), ("input", .string(current.text))])
      ]
    case .call(let id, _, let name, _):
      return [
        event(
          "response.function_call_arguments.done",
          [
            ("item_id", .string(id)), ("output_index", index), ("name", .string(name)),
            ("arguments", .string(current.text)),
          ])
      ]
    case .fileSearch, .clientCall: return []
    }
  }

  private func reasoningName(_ asSummary: Bool, _ ending: String) -> String {
    if asSummary { return "response.reasoning_summary_text.\(ending)" }
    return reasoning == .openresponses
      ? "response.reasoning.\(ending)" : "response.reasoning_text.\(ending)"
  }

  private mutating func partEvent(_ type: String, _ id: String, _ part: JSONValue) -> ResponseEvent {
    event(
      type,
      [("item_id", .string(id)), ("output_index", .int(output.count)), ("content_index", 0), ("part", part)])
  }

  private mutating func summaryPartEvent(_ type: String, _ id: String, _ text: String) -> ResponseEvent {
    event(
      type,
      [
        ("item_id", .string(id)), ("output_index", .int(output.count)), ("summary_index", 0),
        ("part", summaryPart(text)),
      ])
  }

  // MARK: Objects

  private func textPart(_ current: Open) -> JSONValue {
    [
      "type": "output_text", "text": .string(current.text), "annotations": .array(current.annotations),
      "logprobs": .array(current.logprobs),
    ]
  }

  private func reasoningPart(_ text: String) -> JSONValue {
    ["type": "reasoning_text", "text": .string(text)]
  }

  private func summaryPart(_ text: String) -> JSONValue { ["type": "summary_text", "text": .string(text)] }

  private static func call(_ members: [(String, String)], _ namespace: String?) -> JSONValue {
    var item = JSONObject(members.map { ($0, .string($1)) })
    if let namespace { item["namespace"] = .string(namespace) }
    return .object(item)
  }

  private func started(_ item: Item) -> JSONValue {
    switch item {
    case .message(let id):
      ["id": .string(id), "type": "message", "role": "assistant", "status": "in_progress", "content": []]
    case .reasoning(let id, asSummary: true):
      ["id": .string(id), "type": "reasoning", "status": "in_progress", "summary": []]
    case .reasoning(let id, asSummary: false):
      ["id": .string(id), "type": "reasoning", "status": "in_progress", "summary": [], "content": []]
    case .call(let id, let callID, let name, let namespace):
      Self.call(
        [
          ("id", id), ("type", "function_call"), ("status", "in_progress"), ("call_id", callID),
          ("name", name), ("arguments", ""),
        ],
        namespace)
    case .customCall(let id, let callID, let name, let namespace):
      Self.call(
        [
          ("id", id), ("type", "custom_tool_call"), ("status", "in_progress"), ("call_id", callID),
          ("name", name), ("input", ""),
        ],
        namespace)
    case .clientCall(let id, let callID, let tool):
      ClientToolItem.item(ofTool: tool, id: id, callID: callID, status: "in_progress", arguments: "")
    case .fileSearch(let id):
      ["id": .string(id), "type": "file_search_call", "status": "in_progress", "queries": [], "results": nil]
    }
  }

  private func finished(_ current: Open, isComplete: Bool, seals: Bool) -> JSONValue {
    let word = isComplete ? "completed" : "incomplete"
    let status = JSONValue.string(word)
    switch current.item {
    case .message(let id):
      return [
        "id": .string(id), "type": "message", "role": "assistant", "status": status,
        "content": [textPart(current)],
      ]
    case .reasoning(let id, let asSummary):
      var item = JSONObject([("id", .string(id)), ("type", "reasoning"), ("status", status)])
      item["summary"] = asSummary ? [summaryPart(current.text)] : []
      if !asSummary { item["content"] = [reasoningPart(current.text)] }
      if seals { item["encrypted_content"] = .string(SealedContent.reasoning.seal(current.text)) }
      return .object(item)
    case .call(let id, let callID, let name, let namespace):
      return Self.call(
        [
          ("id", id), ("type", "function_call"), ("status", word), ("call_id", callID), ("name", name),
          ("arguments", current.text),
        ],
        namespace)
    case .customCall(let id, let callID, let name, let namespace):
      return Self.call(
        [
          ("id", id), ("type", "custom_tool_call"), ("status", word), ("call_id", callID), ("name", name),
          ("input", current.text),
        ],
        namespace)
    case .clientCall(let id, let callID, let tool):
      return ClientToolItem.item(ofTool: tool, id: id, callID: callID, status: word, arguments: current.text)
    case .fileSearch(let id):
      // A search that was cut off.
      return [
        "id": .string(id), "type": "file_search_call", "status": "incomplete", "queries": [], "results": nil,
      ]
    }
  }
}
