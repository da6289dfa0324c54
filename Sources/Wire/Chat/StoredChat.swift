// Stored chat completions as clients read them: the answer with its metadata, the messages it was asked with, and bodies.

package import JSON

/// Objects of stored chat completions.
package enum StoredChat {
  /// The messages of a request, as the API lists them.
  ///
  /// - Parameter id: of the completion.
  package static func messages(_ messages: [JSONValue], of id: String) -> [JSONValue] {
    messages.enumerated().map { index, message in
      var object = JSONObject([("id", .string("\(id)-\(index)"))])
      let parts = message["content"]?.arrayValue
      for (key, value) in (message.objectValue ?? JSONObject()).entries { object[key] = value }
      // A list of parts has a member of its own.
      object["content"] = parts == nil ? message["content"] ?? .null : .null
      object["content_parts"] = parts.map(JSONValue.array) ?? .null
      return .object(object)
    }
  }

  /// The answer to DELETE /v1/chat/completions/{id}.
  package static func deleted(_ id: String) -> JSONValue {
    ["id": .string(id), "object": "chat.completion.deleted", "deleted": true]
  }
}

/// POST /v1/chat/completions/{id}.
package struct StoredChatUpdate: RequestBody {
  /// What the completion is to have; empty for `null`.
  package let metadata: JSONValue
  package var ignored: [String] = []

  package init(_ fields: inout Fields) throws(APIError) {
    fields.rule(#"{"required": ["metadata"]}"#)
    guard fields.isNoted || fields.object["metadata"] != nil else { throw .missing("metadata") }
    try GenerationOptions.acceptDescriptions(&fields)
    metadata = fields.value("metadata") ?? [:]
  }
}
