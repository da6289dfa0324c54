// Bodies of /v1/vector_stores: what is made, changed and searched.

package import JSON

/// How a file is cut.
package struct ChunkingStrategy: Sendable, Equatable {
  /// Most tokens of a chunk.
  package var size = 800
  /// Tokens that a chunk shares with the one before it.
  package var overlap = 400

  package init() {}

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
    guard let value = fields.value(field) else { return fields.object[field] == nil ? nil : JSONObject() }
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
package struct VectorStoreRequest: Sendable {
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
  package var ignored: [String]

  package init(_ body: JSONValue) throws(APIError) {
    var fields = try Fields(body)
    name = try fields.string("name", maxBytes: 1_024)
    description = try fields.string("description", maxBytes: 4_096)
    fileIDs = try Self.strings(&fields, "file_ids", limit: 500) ?? []
    metadata = try Attributes.metadata(&fields)
    strategy = try ChunkingStrategy(fields.value("chunking_strategy"), name: "chunking_strategy")
    namesExpiry = fields.object["expires_after"] != nil
    expiry = try ExpiryRule(fields.value("expires_after"))
    model = try fields.string("embedding_model")
    ignored = fields.unread
  }

  static func strings(_ fields: inout Fields, _ field: String, limit: Int) throws(APIError) -> [String]? {
    guard let value = fields.value(field) else { return nil }
    let name = fields.name(of: field)
    guard let list = value.arrayValue else { throw .wrongType(name, expected: "an array", found: value) }
    try APIError.check(count: list.count, atMost: limit, field: name)
    var strings: [String] = []
    for (index, element) in list.enumerated() {
      guard let text = element.stringValue else {
        throw .wrongType("\(name)[\(index)]", expected: "a string", found: element)
      }
      strings.append(text)
    }
    return strings
  }
}

/// One file that is put into a store.
package struct StoreFileRequest: Sendable {
  package var fileID: String
  package var attributes: JSONObject?
  package var strategy: ChunkingStrategy
  /// The path of the id, for errors.
  package var name: String
  package var ignored: [String]

  package init(_ body: JSONValue, path: String = "") throws(APIError) {
    var fields = try Fields(body, path: path)
    fileID = try fields.requiredString("file_id")
    attributes = try Attributes.attributes(&fields)
    strategy = try ChunkingStrategy(
      fields.value("chunking_strategy"), name: fields.name(of: "chunking_strategy"))
    name = fields.name(of: "file_id")
    ignored = fields.unread
  }

  fileprivate init(_ id: String, _ attributes: JSONObject?, _ strategy: ChunkingStrategy, name: String) {
    fileID = id
    self.attributes = attributes
    self.strategy = strategy
    self.name = name
    ignored = []
  }
}

/// POST /v1/vector_stores/{id}/file_batches.
package struct FileBatchRequest: Sendable {
  package var files: [StoreFileRequest] = []
  package var ignored: [String]

  package init(_ body: JSONValue) throws(APIError) {
    var fields = try Fields(body)
    let ids = try VectorStoreRequest.strings(&fields, "file_ids", limit: 2_000)
    let attributes = try Attributes.attributes(&fields)
    let strategy = try ChunkingStrategy(fields.value("chunking_strategy"), name: "chunking_strategy")
    let list = fields.value("files")
    guard (ids == nil) != (list == nil) else {
      throw ids == nil
        ? .missing("file_ids") : .invalidValue("files", "it cannot stand beside 'file_ids'")
    }
    for (index, id) in (ids ?? []).enumerated() {
      files.append(StoreFileRequest(id, attributes, strategy, name: "file_ids[\(index)]"))
    }
    if let list {
      guard let elements = list.arrayValue else {
        throw .wrongType("files", expected: "an array", found: list)
      }
      try APIError.check(count: elements.count, atMost: 2_000, field: "files")
      for (index, element) in elements.enumerated() {
        files.append(try StoreFileRequest(element, path: "files[\(index)]"))
      }
    }
    guard !files.isEmpty else { throw .invalidValue(ids == nil ? "files" : "file_ids", "it is empty") }
    ignored = fields.unread
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
package struct StoreSearchRequest: Sendable {
  package var queries: [String]
  package var limit: Int
  package var filter: AttributeFilter?
  package var ranking: RankingOptions
  package var explains: Bool
  /// Whether every vector is read, however many there are.
  package var isExact: Bool
  package var ignored: [String]

  private static let longest = 100_000

  package init(_ body: JSONValue) throws(APIError) {
    var fields = try Fields(body)
    let query = try fields.required("query")
    if let text = query.stringValue {
      queries = [text]
    } else if query.arrayValue != nil {
      queries = try VectorStoreRequest.strings(&fields, "query", limit: 16) ?? []
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
    if let value = fields.value("filters") { filter = try AttributeFilter(value) }
    ranking = try RankingOptions(fields.value("ranking_options"), name: "ranking_options")
    _ = try fields.bool("rewrite_query")
    explains = try fields.bool("explain") ?? false
    isExact = try fields.bool("exact") ?? false
    ignored = fields.unread
  }
}
