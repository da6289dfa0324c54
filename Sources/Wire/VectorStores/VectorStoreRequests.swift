// Bodies of /v1/vector_stores: what is made, changed and searched.

package import JSON

/// How a file is cut.
package struct ChunkingStrategy: Sendable, Equatable {
  /// Most tokens of a chunk.
  package var size = 800
  /// Tokens that a chunk shares with the one before it.
  package var overlap = 400

  package init() {}

  /// `chunking_strategy` of a body.
  fileprivate init(_ fields: inout Fields) throws(APIError) {
    let name = "chunking_strategy"
    try self.init(
      fields.value(name, Shape.named("ChunkingStrategy"), like: #"{"type":"auto"}"#),
      name: fields.name(of: name))
  }

  /// `auto` is the default; nil is too.
  package init(_ value: JSONValue?, name: String) throws(APIError) {
    self.init()
    guard let value, !value.isNull else { return }
    var fields = try Fields(value, path: name)
    guard let kind = try fields.word("type", of: ["auto", "static"]) else { throw .missing("\(name).type") }
    guard kind == "static" else { return }
    var rules = try Fields(try fields.required("static"), path: "\(name).static")
    guard let size = try rules.integer("max_chunk_size_tokens", in: 100...4_096) else {
      throw .missing("\(name).static.max_chunk_size_tokens")
    }
    guard let overlap = try rules.integer("chunk_overlap_tokens", in: 0...4_096) else {
      throw .missing("\(name).static.chunk_overlap_tokens")
    }
    guard overlap <= size / 2 else {
      throw .invalidValue(
        "\(name).static.chunk_overlap_tokens", "it is more than half of max_chunk_size_tokens (\(size))")
    }
    (self.size, self.overlap) = (size, overlap)
  }

  package var json: JSONValue {
    [
      "type": "static",
      "static": ["max_chunk_size_tokens": .int(size), "chunk_overlap_tokens": .int(overlap)],
    ]
  }
}

/// What reads files whole.
private enum Reader {
  /// `read_by`: a model.
  static func read(_ fields: inout Fields) throws(APIError) -> String? {
    try fields.string(
      "read_by",
      "the model that reads each file whole, so that questions about it begin at once ([more](documents.md))",
      like: #""demo""#)
  }
}

/// When an object is to go.
package struct ExpiryRule: Sendable, Equatable {
  /// Days after the last use.
  package var days: Int

  /// Nil for `null` and for none.
  package init?(_ value: JSONValue?) throws(APIError) {
    guard let value, !value.isNull else { return nil }
    var fields = try Fields(value, path: "expires_after")
    guard try fields.word("anchor", of: ["last_active_at"]) != nil else {
      throw .missing("expires_after.anchor")
    }
    guard let days = try fields.integer("days", in: 1...365) else { throw .missing("expires_after.days") }
    self.days = days
  }

  package init(days: Int) { self.days = days }

  fileprivate static let shape = #"""
    {"type": "object", "required": ["anchor", "days"], "properties": {
      "anchor": {"const": "last_active_at"}, "days": {"type": "integer", "minimum": 1, "maximum": 365}}}
    """#

  package var json: JSONValue { ["anchor": "last_active_at", "days": .int(days)] }
}

/// Pairs that an object carries.
package enum Attributes {
  private static let count = 16
  private static let keyLength = 64
  private static let valueLength = 512

  /// `metadata`: strings. Nil when it is not there; empty for `null`.
  package static func metadata(_ fields: inout Fields) throws(APIError) -> JSONObject? {
    try read(&fields, "metadata", numbers: false)
  }

  /// `attributes`: strings, numbers and booleans. Nil when they are not there; empty for `null`.
  package static func attributes(_ fields: inout Fields) throws(APIError) -> JSONObject? {
    try read(&fields, "attributes", numbers: true)
  }

  private static func read(_ fields: inout Fields, _ field: String, numbers: Bool) throws(APIError)
    -> JSONObject?
  {
    let shape =
      numbers
      ? Shape.named("Attributes")
      : ##"{"$ref": "#/components/schemas/Metadata", "propertyNames": {"minLength": 1}}"##
    guard let value = fields.value(field, shape, like: #"{"year":"2025"}"#) else {
      return fields.object[field] == nil ? nil : JSONObject()
    }
    let name = fields.name(of: field)
    guard let object = value.objectValue else { throw .wrongType(name, expected: "an object", found: value) }
    guard object.count <= count else {
      throw .invalidValue(name, "there are \(object.count) pairs, more than \(count)")
    }
    for (key, value) in object.entries {
      guard !key.isEmpty, key.unicodeScalars.count <= keyLength else {
        throw .invalidValue(name, "a key has no characters, or more than \(keyLength)")
      }
      let place = "\(name).\(key)"
      if let text = value.stringValue {
        guard text.unicodeScalars.count <= valueLength else {
          throw .invalidValue(place, "the value is longer than \(valueLength) characters")
        }
      } else if !numbers || (value.boolValue == nil && value.doubleValue == nil) {
        throw .wrongType(place, expected: numbers ? "a string, number or boolean" : "a string", found: value)
      }
    }
    return object
  }
}

/// POST /v1/vector_stores and POST /v1/vector_stores/{id}.
package struct VectorStoreRequest: RequestBody {
  package var name: String?
  package var description: String?
  package var fileIDs: [String] = []
  package var metadata: JSONObject?
  package var strategy: ChunkingStrategy
  package var expiry: ExpiryRule?
  /// Whether the field is there: `null` ends the rule of a store.
  package var namesExpiry: Bool
  /// The model that makes its vectors.
  package var model: String?
  /// The model that reads its files whole.
  package var reader: String?
  package var ignored: [String] = []

  package init(_ fields: inout Fields) throws(APIError) {
    name = try fields.string("name", maxBytes: 1_024, like: #""Notes""#)
    description = try fields.string("description", maxBytes: 4_096)
    fileIDs = try fields.texts("file_ids", maxCount: 500, like: #"["file-1"]"#) ?? []
    metadata = try Attributes.metadata(&fields)
    strategy = try ChunkingStrategy(&fields)
    namesExpiry = fields.object["expires_after"] != nil
    _ = fields.value("expires_after", ExpiryRule.shape, "null ends the rule of a store")
    expiry = try ExpiryRule(fields.value("expires_after"))
    model = try fields.string("embedding_model", "the model that makes its vectors", like: #""minilm""#)
    reader = try Reader.read(&fields)
  }
}

/// One file that is put into a store.
package struct StoreFileRequest: RequestBody {
  package let fileID: String
  package let attributes: JSONObject?
  package let strategy: ChunkingStrategy
  /// The model that reads it whole.
  package let reader: String?
  /// The path of the id, for errors.
  package let name: String
  package var ignored: [String] = []

  package init(_ fields: inout Fields) throws(APIError) {
    fileID = try fields.requiredString("file_id", like: #""file-1""#)
    attributes = try Attributes.attributes(&fields)
    strategy = try ChunkingStrategy(&fields)
    reader = try Reader.read(&fields)
    name = fields.name(of: "file_id")
  }

  fileprivate init(_ id: String, _ attributes: JSONObject?, _ strategy: ChunkingStrategy, name: String) {
    (fileID, self.attributes, self.strategy, self.name) = (id, attributes, strategy, name)
    reader = nil
  }
}

/// POST /v1/vector_stores/{id}/files/{id}.
package struct AttributesRequest: RequestBody {
  /// Empty for `null`.
  package let attributes: JSONObject
  package var ignored: [String] = []

  package init(_ fields: inout Fields) throws(APIError) {
    let given = try Attributes.attributes(&fields)
    fields.rule(#"{"required": ["attributes"]}"#)
    guard fields.isNoted || given != nil else { throw .missing("attributes") }
    attributes = given ?? JSONObject()
  }
}

/// POST /v1/vector_stores/{id}/file_batches.
package struct FileBatchRequest: RequestBody {
  package let files: [StoreFileRequest]
  /// The model that reads them whole.
  package let reader: String?
  package var ignored: [String] = []

  package init(_ fields: inout Fields) throws(APIError) {
    let most = 2_000
    let isNoted = fields.isNoted
    let ids = try fields.texts("file_ids", maxCount: most, like: #"["file-1","file-2"]"#)
    let attributes = try Attributes.attributes(&fields)
    let strategy = try ChunkingStrategy(&fields)
    reader = try Reader.read(&fields)
    let list = fields.value("files")
    fields.rule(Shape.oneNamed(["file_ids", "files"], #"{"type": "array", "minItems": 1}"#))
    guard isNoted || (ids == nil) != (list == nil) else {
      throw ids == nil
        ? .missing("file_ids") : .invalidValue("files", "it cannot stand beside 'file_ids'")
    }
    let each = try fields.objects("files", maxCount: most, "instead of `file_ids`") {
      (file) throws(APIError) in
      var request = try StoreFileRequest(&file)
      request.ignored = file.unread
      return request
    }
    files =
      each
      ?? (ids ?? []).enumerated().map {
        StoreFileRequest($1, attributes, strategy, name: "file_ids[\($0)]")
      }
    guard isNoted || !files.isEmpty else {
      throw .invalidValue(ids == nil ? "files" : "file_ids", "it is empty")
    }
  }
}

/// How results of a search are ordered.
package struct RankingOptions: Sendable, Equatable {
  package var ranker = "auto"
  package var threshold = 0.0
  /// Weights of vectors and words; nil lets the server choose.
  package var weights: (embedding: Double, text: Double)?

  package init() {}

  package init(_ value: JSONValue?, name: String) throws(APIError) {
    guard let value, !value.isNull else { return }
    var fields = try Fields(value, path: name)
    ranker = try fields.word("ranker", of: ["none", "auto", "default-2024-11-15"]) ?? "auto"
    threshold = try fields.number("score_threshold", in: 0...1) ?? 0
    guard let hybrid = fields.value("hybrid_search") else { return }
    var parts = try Fields(hybrid, path: "\(name).hybrid_search")
    let given = (
      try parts.number("embedding_weight", in: 0...1_000_000),
      try parts.number("text_weight", in: 0...1_000_000)
    )
    guard given.0 != nil || given.1 != nil else { return }
    let (embedding, text) = (given.0 ?? 0, given.1 ?? 0)
    guard embedding + text > 0 else { throw .invalidValue("\(name).hybrid_search", "both weights are 0") }
    weights = (embedding, text)
  }

  package static func == (a: RankingOptions, b: RankingOptions) -> Bool { a.json == b.json }

  package var json: JSONValue {
    var object = JSONObject([("ranker", .string(ranker)), ("score_threshold", .double(threshold))])
    if let weights {
      object["hybrid_search"] = [
        "embedding_weight": .double(weights.embedding), "text_weight": .double(weights.text),
      ]
    }
    return .object(object)
  }
}

/// POST /v1/vector_stores/{id}/search.
package struct StoreSearchRequest: RequestBody {
  package var queries: [String]
  package var limit: Int
  package var filter: AttributeFilter?
  package var ranking: RankingOptions
  package var explains: Bool
  /// Whether every vector is read, however many there are.
  package var isExact: Bool
  package var ignored: [String] = []

  private static let longest = 100_000
  private static let mostQueries = 16

  package init(_ fields: inout Fields) throws(APIError) {
    let text = #"{"type": "string", "minLength": 1}"#
    let query = try fields.required(
      "query", Shape.any(text, Shape.array(of: text, 1...Self.mostQueries)), "a text, or several",
      like: #""What is said of rivers?""#)
    if let text = query.stringValue {
      queries = [text]
    } else if query.arrayValue != nil {
      queries = try fields.texts("query", maxCount: Self.mostQueries) ?? []
    } else {
      throw .wrongType("query", expected: "a string or an array of strings", found: query)
    }
    guard !queries.isEmpty else { throw .invalidValue("query", "it is empty") }
    for (index, text) in queries.enumerated() {
      let name = queries.count == 1 && query.stringValue != nil ? "query" : "query[\(index)]"
      guard text.unicodeScalars.contains(where: { !$0.properties.isWhitespace }) else {
        throw .invalidValue(name, "it is empty")
      }
      guard text.utf8.count <= Self.longest else {
        throw .invalidValue(name, "it is longer than \(Self.longest) bytes")
      }
    }
    limit = try fields.integer("max_num_results", in: 1...50) ?? 10
    filter = nil
    let filters = fields.value(
      "filters", Shape.named("AttributeFilter"), like: #"{"type":"gte","key":"year","value":2024}"#)
    if let filters { filter = try AttributeFilter(filters) }
    ranking = try RankingOptions(
      fields.value("ranking_options", Shape.named("RankingOptions"), like: #"{"ranker":"auto"}"#),
      name: "ranking_options")
    _ = try fields.bool("rewrite_query", .accepted())
    explains = try fields.bool("explain", "each result says why it is there") ?? false
    isExact = try fields.bool("exact", "every vector is read, however many there are") ?? false
  }
}
