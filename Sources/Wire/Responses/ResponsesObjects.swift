// Further objects of the Responses API: usage, endings, lists, compactions, conversations, and replayed streams.

package import JSON

extension Usage {
  /// The counts as Responses names them, all members present.
  package var responsesJSON: JSONValue {
    [
      "input_tokens": .int(promptTokens),
      "input_tokens_details": ["cached_tokens": .int(cachedTokens), "cache_write_tokens": 0],
      "output_tokens": .int(completionTokens),
      "output_tokens_details": ["reasoning_tokens": .int(reasoningTokens)],
      "total_tokens": .int(promptTokens + completionTokens),
    ]
  }
}

/// How a response ends.
package enum ResponseEnding: Sendable, Equatable {
  case completed
  /// The token limit was reached.
  case incomplete
  case cancelled
  case failed(code: String = "server_error", message: String)

  /// `status` of the response.
  package var status: String {
    switch self {
    case .completed: "completed"
    case .incomplete: "incomplete"
    case .cancelled: "cancelled"
    case .failed: "failed"
    }
  }
}

/// The bodies of a response at its stages, and what is told of its items.
package enum ResponseObject {
  /// The body of a response that has ended.
  package static func ended(
    _ body: JSONObject, _ ending: ResponseEnding, output: [JSONValue], usage: Usage?, at seconds: Int
  ) -> JSONObject {
    var body = body
    body["status"] = .string(ending.status)
    body["output"] = .array(output)
    switch ending {
    case .completed: body["completed_at"] = .int(seconds)
    case .incomplete: body["incomplete_details"] = ["reason": "max_output_tokens"]
    case .failed(let code, let message):
      body["error"] = ["code": .string(code), "message": .string(message)]
    case .cancelled: break
    }
    if let usage { body["usage"] = usage.responsesJSON }
    return body
  }

  /// The body as it was before anything had been generated.
  package static func begun(_ body: JSONObject, status: String) -> JSONObject {
    var body = body
    body["status"] = .string(status)
    body["output"] = []
    for name in ["completed_at", "error", "incomplete_details", "usage"] { body[name] = .null }
    return body
  }

  /// The name of the event that ends a stream of this response.
  package static func terminalType(_ body: JSONObject) -> String {
    switch body["status"]?.stringValue {
    case "completed": "response.completed"
    case "failed": "response.failed"
    // There is no event for a cancelled response; its status says what it is.
    default: "response.incomplete"
    }
  }

  /// The answer to DELETE /v1/responses/{id}.
  package static func deleted(_ id: String) -> JSONValue {
    ["id": .string(id), "object": "response", "deleted": true]
  }

  /// A page of items: `first_id` and `last_id` are empty strings when there are none, as the SDK wants strings.
  package static func list(_ items: [JSONValue], hasMore: Bool) -> JSONValue {
    [
      "object": "list", "data": .array(items), "first_id": items.first?["id"] ?? "",
      "last_id": items.last?["id"] ?? "", "has_more": .bool(hasMore),
    ]
  }

  /// The whole conversation in one item. Nothing is summarised: what goes in comes out.
  package static func compaction(
    id: String, itemID: String, createdAt: Int, items: [JSONValue], usage: Usage
  ) -> JSONValue {
    [
      "id": .string(id), "object": "response.compaction", "created_at": .int(createdAt),
      "output": [
        [
          "id": .string(itemID), "type": "compaction",
          "encrypted_content": .string(SealedContent.compaction.seal(JSONValue.array(items).text)),
        ]
      ],
      "usage": usage.responsesJSON,
    ]
  }

  /// An item with its reasoning in `encrypted_content`, as `include` asks for on retrieval.
  package static func sealed(_ item: JSONValue) -> JSONValue {
    guard var object = item.objectValue, object["type"] == "reasoning", object["encrypted_content"] == nil
    else {
      return item
    }
    let parts = object["content"]?.arrayValue ?? object["summary"]?.arrayValue ?? []
    let text = parts.compactMap { $0["text"]?.stringValue }.joined()
    object["encrypted_content"] = .string(SealedContent.reasoning.seal(text))
    return .object(object)
  }
}

/// A failed request on a WebSocket.
package enum ResponsesSocketError {
  /// - Parameter streamID: `stream_id` of the request, if it had one.
  package static func json(_ error: APIError, streamID: JSONValue?) -> JSONValue {
    var object = JSONObject([("type", "error"), ("status", .int(error.status))])
    object["error"] = error.json["error"] ?? .null
    if let streamID { object["stream_id"] = streamID }
    return .object(object)
  }
}

/// The events of a stored response, as they were sent.
package enum ResponseReplay {
  /// - Parameters:
  ///   - body: the response when it had ended.
  ///   - cuts: of each output item.
  package static func events(
    of body: JSONObject, cuts: [ResponseEventWriter.Cuts], reasoning: ReasoningEvents
  ) -> [ResponseEvent] {
    var writer = ResponseEventWriter(reasoning: reasoning)
    var events: [ResponseEvent] = []
    if body["background"] == true {
      let queued = ResponseObject.begun(body, status: "queued")
      events.append(writer.lifecycle("response.created", queued))
      events.append(writer.lifecycle("response.queued", queued))
    } else {
      events.append(
        writer.lifecycle("response.created", ResponseObject.begun(body, status: "in_progress")))
    }
    events.append(
      writer.lifecycle("response.in_progress", ResponseObject.begun(body, status: "in_progress")))
    for (index, item) in (body["output"]?.arrayValue ?? []).enumerated() {
      if item["type"] == "file_search_call" {
        events += writer.begin(.init(.fileSearch, id: item["id"]?.stringValue ?? ""))
        events += writer.searching() + writer.endSearch(item)
        continue
      }
      if let type = item["type"]?.stringValue, MCPItem.types.contains(type) {
        events += writer.begin(.init(.remote(item), id: item["id"]?.stringValue ?? ""))
        events += writer.endRemote(item)
        continue
      }
      guard let (kind, text, logprobs) = parts(of: item) else { continue }
      events += writer.begin(kind)
      let own = cuts.indices.contains(index) ? cuts[index] : ResponseEventWriter.Cuts()
      let annotations = item["content"]?[0]?["annotations"]?.arrayValue ?? []
      var cited = 0
      func cite(_ deltas: Int) -> [ResponseEvent] {
        var events: [ResponseEvent] = []
        while cited < annotations.count, cited >= own.annotations.count || own.annotations[cited] <= deltas {
          events += writer.annotate(annotations[cited])
          cited += 1
        }
        return events
      }
      for (number, (delta, entries)) in pieces(of: text, logprobs, own).enumerated() {
        if cited < own.annotations.count { events += cite(number) }
        events += writer.add(delta, logprobs: entries)
      }
      events += cite(.max)
      events += writer.close(
        isComplete: item["status"] == "completed", seals: item["encrypted_content"] != nil)
    }
    events.append(writer.lifecycle(ResponseObject.terminalType(body), body))
    return events
  }

  private static func parts(of item: JSONValue) -> (ResponseEventWriter.Item, String, [JSONValue])? {
    let id = item["id"]?.stringValue ?? ""
    switch item["type"]?.stringValue {
    case "message":
      let part = item["content"]?[0]
      return (.init(.message, id: id), part?["text"]?.stringValue ?? "", part?["logprobs"]?.arrayValue ?? [])
    case "reasoning":
      let asSummary = item["content"] == nil
      let part = asSummary ? item["summary"]?[0] : item["content"]?[0]
      return (.init(.reasoning(asSummary: asSummary), id: id), part?["text"]?.stringValue ?? "", [])
    case "function_call", "custom_tool_call":
      let isCustom = item["type"] == "custom_tool_call"
      let call = ResponseEventWriter.Item(
        .call(isCustom: isCustom), id: id, callID: item["call_id"]?.stringValue ?? "",
        name: item["name"]?.stringValue ?? "", namespace: item["namespace"]?.stringValue)
      return (call, item[isCustom ? "input" : "arguments"]?.stringValue ?? "", [])
    default:
      return ClientToolItem.call(of: item).map {
        (.init(.clientCall, id: id, callID: $0.callID, name: $0.tool), $0.arguments, [])
      }
    }
  }

  /// The text cut as it was; what the cuts do not reach is one more piece.
  private static func pieces(of text: String, _ logprobs: [JSONValue], _ cuts: ResponseEventWriter.Cuts)
    -> [(String, [JSONValue])]
  {
    var bytes = Array(text.utf8)[...]
    var entries = logprobs[...]
    var pieces: [(String, [JSONValue])] = []
    for (index, count) in cuts.bytes.enumerated() {
      let own = cuts.logprobs.indices.contains(index) ? cuts.logprobs[index] : 0
      pieces.append((String(decoding: bytes.prefix(count), as: UTF8.self), Array(entries.prefix(own))))
      bytes = bytes.dropFirst(count)
      entries = entries.dropFirst(own)
    }
    if !bytes.isEmpty { pieces.append((String(decoding: bytes, as: UTF8.self), Array(entries))) }
    return pieces
  }
}

/// A conversation: items that responses read and append to.
package enum ConversationObject {
  /// The body of a conversation.
  ///
  /// - Parameter createdAt: seconds since 1970.
  package static func json(id: String, createdAt: Int, metadata: JSONValue) -> JSONValue {
    ["id": .string(id), "object": "conversation", "created_at": .int(createdAt), "metadata": metadata]
  }

  /// The answer to DELETE /v1/conversations/{id}.
  package static func deleted(_ id: String) -> JSONValue {
    ["id": .string(id), "object": "conversation.deleted", "deleted": true]
  }
}

/// The body of a new conversation, of an update, or of new items.
package struct ConversationRequest: RequestBody {
  package let metadata: JSONValue?
  /// An array of items, not read yet.
  package let items: JSONValue?
  package var ignored: [String] = []

  /// Items that one request may bring.
  private static let itemLimit = 20

  package init(_ fields: inout Fields) throws(APIError) {
    try GenerationOptions.acceptDescriptions(&fields)
    metadata = fields.value("metadata")
    items = fields.value("items", Shape.array(of: Shape.named("InputItem"), 0...Self.itemLimit))
    guard let items else { return }
    guard let array = items.arrayValue else {
      throw .wrongType("items", expected: "an array of items", found: items)
    }
    guard array.count <= Self.itemLimit else {
      throw APIError(
        status: 400, code: "array_above_max_length", param: "items",
        message: "Invalid 'items': the array has \(array.count) elements, more than \(Self.itemLimit).")
    }
  }
}
