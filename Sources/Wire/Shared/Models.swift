// The model objects of GET /v1/models, and the bodies that name a model and nothing else.

package import JSON

/// A model as /v1/models shows it.
package struct ModelObject: Sendable, Equatable {
  package var id: String
  /// Seconds since 1970.
  package var created: Int
  package var ownedBy: String
  /// Most tokens of prompt and answer together; nil while that is not known.
  package var contextLength: Int?
  /// The model without its adapter; nil for a model that has none.
  package var parent: String?
  /// Other names.
  package var aliases: [String] = []
  /// `loaded`, `loading` or `unloaded`.
  package var status = "loaded"
  /// The part of its weights that is there, from 0 to 1, while it is being loaded.
  package var progress: Double?
  /// Why the last attempt to load it failed.
  package var failure: String?
  /// Whether it is unloaded by request alone.
  package var isPinned = false
  /// Of the weights, while it is loaded.
  package var sizeBytes: Int?

  /// `chat`, `embed` or `rerank`; nil while that is not known.
  package var task: String?
  /// What vectors of the model are; null for models that make none.
  package var embedding: JSONValue = nil

  /// What a prompt may hold: `["text", "image"]`; null while that is not known.
  package var inputModalities: JSONValue

  package init(
    id: String, created: Int, ownedBy: String, contextLength: Int?, inputModalities: JSONValue = ["text"]
  ) {
    self.id = id
    self.created = created
    self.ownedBy = ownedBy
    self.contextLength = contextLength
    self.inputModalities = inputModalities
  }

  /// OpenAI's four members, and what this server adds.
  package var json: JSONValue {
    var status = JSONObject([("value", .string(status))])
    if let progress { status["progress"] = .double(progress) }
    if let failure {
      status["failed"] = true
      status["error"] = .string(failure)
    }
    var object: JSONValue = [
      "id": .string(id), "object": "model", "created": .int(created), "owned_by": .string(ownedBy),
      "context_length": contextLength.map(JSONValue.int) ?? nil, "input_modalities": inputModalities,
      "task": task.map(JSONValue.string) ?? nil, "embedding": embedding,
      "size_bytes": sizeBytes.map(JSONValue.int) ?? nil, "aliases": .array(aliases.map(JSONValue.string)),
      "pinned": .bool(isPinned), "status": .object(status),
    ]
    if let parent, var members = object.objectValue {
      members["parent"] = .string(parent)
      object = .object(members)
    }
    return object
  }

  /// The model as Anthropic's clients know one.
  ///
  /// - Parameter createdAt: the moment in RFC 3339.
  package func messagesJSON(createdAt: String) -> JSONValue {
    [
      "type": "model", "id": .string(id), "display_name": .string(id), "created_at": .string(createdAt),
      "max_input_tokens": contextLength.map(JSONValue.int) ?? nil,
      "max_tokens": contextLength.map(JSONValue.int) ?? nil, "lifecycle": "active",
    ]
  }

  /// The list of models as Anthropic's clients know it: one page.
  package static func messagesList(_ models: [JSONValue]) -> JSONValue {
    [
      "data": .array(models), "has_more": false, "first_id": models.first?["id"] ?? .null,
      "last_id": models.last?["id"] ?? .null,
    ]
  }

  /// The body of GET /v1/models.
  package static func list(_ models: [ModelObject]) -> JSONValue {
    ["object": "list", "data": .array(models.map(\.json))]
  }
}

/// The body of POST /models/load and /models/unload.
package struct ModelRequest: RequestBody {
  package let model: String
  package var ignored: [String] = []

  package init(_ fields: inout Fields) throws(APIError) { model = try fields.model() }
}
