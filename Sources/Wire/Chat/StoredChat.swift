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

  /// The body of POST /v1/chat/completions/{id}: the metadata that it is to have.
  ///
  /// - Returns: them, and fields that nobody knows.
  package static func update(_ body: JSONValue) throws(APIError) -> (metadata: JSONValue, ignored: [String]) {
    var fields = try Fields(body)
    guard fields.object["metadata"] != nil else { throw .missing("metadata") }
    try GenerationOptions.acceptDescriptions(&fields)
    return (fields.value("metadata") ?? [:], fields.unread)
  }
}
