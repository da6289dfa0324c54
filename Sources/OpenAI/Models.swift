// The model objects of GET /v1/models.

package import JSON

package struct ModelObject: Sendable, Equatable {
  package var id: String
  /// Seconds since 1970.
  package var created: Int
  package var ownedBy: String
  /// Most tokens of prompt and answer together.
  package var contextLength: Int
  /// What a prompt may hold: `["text", "image"]`.
  package var inputModalities: JSONValue

  package init(
    id: String, created: Int, ownedBy: String, contextLength: Int, inputModalities: JSONValue = ["text"]
  ) {
    self.id = id
    self.created = created
    self.ownedBy = ownedBy
    self.contextLength = contextLength
    self.inputModalities = inputModalities
  }

  package var json: JSONValue {
    [
      "id": .string(id), "object": "model", "created": .int(created), "owned_by": .string(ownedBy),
      "context_length": .int(contextLength), "input_modalities": inputModalities,
    ]
  }

  package static func list(_ models: [ModelObject]) -> JSONValue {
    ["object": "list", "data": .array(models.map(\.json))]
  }
}
