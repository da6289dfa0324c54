// The body of POST /v1/rerank, as clients of Jina, Cohere, Voyage and vLLM send it.

package import JSON

/// A query, and the documents to put in order for it.
package struct RerankRequest: Sendable {
  package var query: String
  /// At least one.
  package var documents: [String]
  /// Most results; nil for all.
  package var limit: Int?
  /// Whether results have their documents' text.
  package var returnsDocuments: Bool
  /// Whether scores are logits instead of numbers from 0 to 1.
  package var isRaw: Bool
  package var cut: PairCut
  /// What a decoder is to judge by.
  package var instruction: String?
  /// Top-level fields that nobody knows.
  package var ignored: [String]

  /// The path of a document, or of the query for an index below 0.
  package func name(of index: Int) -> String { index < 0 ? "query" : "documents[\(index)]" }
}

/// How pairs are cut that are too long.
package struct PairCut: Sendable {
  /// Nil refuses pairs that are too long.
  package var truncation: EmbeddingsRequest.Truncation?
  /// Most tokens of a pair; nil for the model's limit.
  package var maxTokens: Int?
  /// Most tokens of a document.
  package var maxDocumentTokens: Int?

  /// - Throws: the first problem found, with the path of its field.
  package init(_ fields: inout Fields) throws(APIError) {
    (truncation, maxTokens) = try EmbeddingsRequest.truncation(&fields)
    maxDocumentTokens = try fields.integer("max_tokens_per_doc", in: 1...1 << 24)
  }
}

extension RerankRequest {
  /// - Throws: the first problem found, with the path of its field.
  package init(_ body: JSONValue, limits: RequestLimits) throws(APIError) {
    var fields = try Fields(body)
    _ = try fields.string("model")
    query = try fields.requiredString("query")
    // The members that are read of documents that are objects.
    let names = try fields.texts("rank_fields", maxCount: 64)
    documents = try Self.documents(&fields, names, limits)
    let count = try fields.integer("top_n", in: 1...Int(Int32.max))
    let synonym = try fields.integer("top_k", in: 1...Int(Int32.max))
    if count != nil, synonym != nil {
      throw .invalidValue("top_k", "it cannot be given together with 'top_n'")
    }
    limit = count ?? synonym
    returnsDocuments = try fields.bool("return_documents") ?? false
    isRaw = try fields.bool("raw_scores") ?? false
    cut = try PairCut(&fields)
    instruction = try fields.string("instruction", maxBytes: 1 << 16)
    _ = try fields.integer("max_chunks_per_doc", in: 1...Int(Int32.max))
    _ = try fields.integer("priority", in: Int(Int32.min)...Int(Int32.max))
    try GenerationOptions.acceptDescriptions(&fields)
    ignored = fields.unread
  }

  private static func documents(
    _ fields: inout Fields, _ names: [String]?, _ limits: RequestLimits
  ) throws(APIError) -> [String] {
    guard let values = try fields.array("documents", maxCount: limits.rerankedDocuments) else {
      throw .missing("documents")
    }
    guard !values.isEmpty else { throw .invalidValue("documents", "it is empty") }
    var documents: [String] = []
    for (index, value) in values.enumerated() {
      documents.append(try document(value, names, path: "documents[\(index)]"))
    }
    return documents
  }

  /// A text, an object with `text`, or one whose named members are joined as lines of `name: value`.
  private static func document(
    _ value: JSONValue, _ names: [String]?, path: String
  ) throws(APIError) -> String {
    if let text = value.stringValue { return text }
    guard let object = value.objectValue else {
      throw .wrongType(path, expected: "a string or an object with 'text'", found: value)
    }
    if let names, !names.isEmpty {
      let lines = names.compactMap { name in
        object[name].map { "\(name): \($0.stringValue ?? $0.text)" }
      }
      guard !lines.isEmpty else { throw .invalidValue(path, "it has none of the fields of 'rank_fields'") }
      return lines.joined(separator: "\n")
    }
    guard let text = object["text"] else {
      throw .invalidValue(path, "it has no 'text'; other fields need 'rank_fields'")
    }
    guard let text = text.stringValue else {
      throw .wrongType(path + ".text", expected: "a string", found: text)
    }
    return text
  }
}

/// The body of POST /v1/score, as clients of vLLM send it: pairs of texts.
package struct ScoreRequest: Sendable {
  /// One for all documents, or one for each.
  package var queries: [String]
  package var documents: [String]
  /// Whether scores are logits instead of numbers from 0 to 1.
  package var isRaw: Bool
  package var cut: PairCut
  package var instruction: String?
  /// What the client calls the documents, for errors.
  package var field: String
  /// Top-level fields that nobody knows.
  package var ignored: [String]

  /// The path of a document, or of the query for an index below 0.
  package func name(of index: Int) -> String { index < 0 ? "text_1" : "\(field)[\(index)]" }

  /// - Throws: the first problem found, with the path of its field.
  package init(_ body: JSONValue, limits: RequestLimits) throws(APIError) {
    var fields = try Fields(body)
    _ = try fields.string("model")
    (queries, _) = try Self.texts(&fields, ["text_1", "queries", "data_1"], limits)
    (documents, field) = try Self.texts(&fields, ["text_2", "documents", "data_2"], limits)
    guard queries.count == 1 || queries.count == documents.count else {
      throw .invalidValue(
        field, "there are \(documents.count) texts beside \(queries.count): one, or as many as there are here"
      )
    }
    isRaw = try fields.bool("raw_scores") ?? false
    cut = try PairCut(&fields)
    instruction = try fields.string("instruction", maxBytes: 1 << 16)
    _ = try fields.integer("priority", in: Int(Int32.min)...Int(Int32.max))
    try GenerationOptions.acceptDescriptions(&fields)
    ignored = fields.unread
  }

  /// A text or a list of them, under the first of its names that there is.
  private static func texts(
    _ fields: inout Fields, _ names: [String], _ limits: RequestLimits
  ) throws(APIError) -> ([String], String) {
    let given = names.filter { fields.value($0) != nil }
    guard let name = given.first, let value = fields.value(name) else { throw .missing(names[0]) }
    guard given.count == 1 else {
      throw .invalidValue(given[1], "it cannot be given together with '\(name)'")
    }
    if let text = value.stringValue { return ([text], name) }
    return (try fields.requiredTexts(name, maxCount: limits.rerankedDocuments), name)
  }
}
