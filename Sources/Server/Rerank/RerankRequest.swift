// The body of POST /v1/rerank, as clients of Jina, Cohere, Voyage and vLLM send it, and of POST /v1/score.

import JSON
import Wire

/// A query, and the documents to put in order for it.
struct RerankRequest: RequestBody {
  let query: String
  let documents: [String]
  let limit: Int?
  let returnsDocuments: Bool
  let isRaw: Bool
  let cut: PairCut
  let instruction: String?
  var ignored: [String] = []

  /// The path of a document, or of the query for an index below 0.
  func name(of index: Int) -> String { index < 0 ? "query" : "documents[\(index)]" }

  init(_ fields: inout Fields) throws(APIError) {
    try fields.anyModel()
    query = try fields.requiredString("query", "may be empty", like: #""water""#)
    // The members that are read of documents that are objects.
    let names = try fields.texts(
      "rank_fields", maxCount: 64,
      "of documents that are objects: the members that are read, as lines of `name: value`",
      like: #"["title"]"#)
    documents = try Self.documents(&fields, names)
    let count = try fields.integer("top_n", in: 1...Int(Int32.max), "most results")
    let synonym = try fields.integer("top_k", in: 1...Int(Int32.max), "the same")
    fields.rule(
      #"{"not": {"required": ["top_n", "top_k"], "properties": {"top_n": {"type": "integer"}, "top_k": {"type": "integer"}}}}"#
    )
    if count != nil, synonym != nil {
      throw .invalidValue("top_k", "it cannot be given together with 'top_n'")
    }
    limit = count ?? synonym
    returnsDocuments = try fields.bool("return_documents", "each result has `document.text`") ?? false
    isRaw = try fields.rawScores()
    cut = try PairCut(&fields)
    instruction = try fields.instruction()
    _ = try fields.integer(
      "max_chunks_per_doc", in: 1...Int(Int32.max), .accepted("a document is one chunk"), like: "10")
    try fields.acceptPriority()
    try GenerationOptions.acceptDescriptions(&fields)
  }

  private static func documents(_ fields: inout Fields, _ names: [String]?) throws(APIError) -> [String] {
    let most = fields.limits.rerankedDocuments
    let values = try fields.requiredArray(
      "documents", of: #"{"type": ["string", "object"]}"#, maxCount: most,
      "up to \(most) texts, or objects with `text`", like: #"["river","hill"]"#)
    fields.rule(
      #"""
      {"anyOf": [{"properties": {"documents": {"type": "array", "items": {"anyOf": [{"type": "string"},
        {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}}]}}}},
        {"required": ["rank_fields"], "properties": {"rank_fields": {"type": "array", "minItems": 1}}}]}
      """#)
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

extension Fields {
  fileprivate mutating func rawScores() throws(APIError) -> Bool {
    try bool("raw_scores", "logits; by default scores are from 0 to 1, by the logistic function") ?? false
  }

  fileprivate mutating func instruction() throws(APIError) -> String? {
    try string(
      "instruction", maxBytes: 1 << 16, .refusedByMost("honoured by Qwen3-Reranker: what it judges by"))
  }

  fileprivate mutating func acceptPriority() throws(APIError) {
    _ = try integer("priority", in: Int(Int32.min)...Int(Int32.max), .accepted(), like: "0")
  }
}

/// The body of POST /v1/score, as clients of vLLM send it: pairs of texts.
struct ScoreRequest: RequestBody {
  /// One for all documents, or one for each.
  let queries: [String]
  let documents: [String]
  let isRaw: Bool
  let cut: PairCut
  let instruction: String?
  /// What the client calls the documents, for errors.
  let field: String
  var ignored: [String] = []

  /// The path of a document, or of the query for an index below 0.
  func name(of index: Int) -> String { index < 0 ? "text_1" : "\(field)[\(index)]" }

  init(_ fields: inout Fields) throws(APIError) {
    try fields.anyModel()
    (queries, _) = try Self.texts(&fields, ["text_1", "queries", "data_1"])
    (documents, field) = try Self.texts(&fields, ["text_2", "documents", "data_2"])
    guard queries.count == 1 || queries.count == documents.count else {
      throw .invalidValue(
        field, "there are \(documents.count) texts beside \(queries.count): one, or as many as there are here"
      )
    }
    isRaw = try fields.rawScores()
    cut = try PairCut(&fields)
    instruction = try fields.instruction()
    try fields.acceptPriority()
    try GenerationOptions.acceptDescriptions(&fields)
  }

  /// A text or a list of them, under the first of its names that there is.
  private static func texts(_ fields: inout Fields, _ names: [String]) throws(APIError) -> ([String], String)
  {
    for name in names {
      _ = fields.value(
        name, Shape.any(Shape.string, Shape.array(of: Shape.string, 1...Int.max)),
        name == names[0] ? "a text, or a list of them" : "the same", like: #""water""#)
    }
    let name = try fields.one(of: names, #"{"type": ["string", "array"]}"#)
    let value = try fields.required(name)
    if let text = value.stringValue { return ([text], name) }
    return (try fields.requiredTexts(name, maxCount: fields.limits.rerankedDocuments), name)
  }
}
