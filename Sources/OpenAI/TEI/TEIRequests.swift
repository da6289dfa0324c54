// The bodies of the routes that clients of Hugging Face's text-embeddings-inference (TEI) use.

package import JSON

/// What all of TEI's routes take beside their inputs.
package struct TEIOptions: Sendable {
  /// Nil refuses what is too long.
  package var truncation: EmbeddingsRequest.Truncation?
  /// One of the model's prompts.
  package var promptName: String?
  /// Top-level fields that nobody knows.
  package var ignored: [String] = []

  init() {}

  /// - Throws: the first problem found, with the path of its field.
  init(_ fields: inout Fields) throws(APIError) {
    let truncates = try fields.bool("truncate") ?? false
    let direction = try fields.word("truncation_direction", of: ["left", "right", "Left", "Right"])
    truncation = truncates ? (direction?.lowercased() == "left" ? .left : .right) : nil
    promptName = try fields.string("prompt_name")
  }
}

extension APIError {
  /// TEI tells of a list without elements by a type of its own.
  static func emptyInput(_ field: String) -> APIError {
    APIError(
      status: 400, type: "Empty", code: "empty_input", param: field, message: "'\(field)' cannot be empty.")
  }
}

/// POST /embed, /embed_all and /embed_sparse.
package struct TEIEmbedRequest: Sendable {
  package var inputs: [TextInput]
  package var options: TEIOptions
  package var normalizes: Bool
  package var dimensions: Int?

  /// - Parameter vocabularySize: token ids in the body must be below it.
  /// - Throws: the first problem found, with the path of its field.
  package init(_ body: JSONValue, limits: RequestLimits, vocabularySize: Int) throws(APIError) {
    var fields = try Fields(body)
    _ = try fields.string("model")
    let value = try fields.required("inputs")
    if value.arrayValue?.isEmpty ?? false { throw .emptyInput("inputs") }
    (inputs, _) = try EmbeddingsRequest.reader(limits, vocabularySize).read(value, field: "inputs")
    options = try TEIOptions(&fields)
    normalizes = try fields.bool("normalize") ?? true
    dimensions = try fields.integer("dimensions", in: 1...1 << 20)
    options.ignored = fields.unread
  }
}

/// POST /rerank with `texts`.
package struct TEIRerankRequest: Sendable {
  package var query: String
  package var texts: [String]
  package var options: TEIOptions
  package var isRaw: Bool
  package var returnsTexts: Bool

  /// - Throws: the first problem found, with the path of its field.
  package init(_ body: JSONValue, limits: RequestLimits) throws(APIError) {
    var fields = try Fields(body)
    _ = try fields.string("model")
    query = try fields.requiredString("query")
    if fields.value("texts")?.arrayValue?.isEmpty ?? false { throw .emptyInput("texts") }
    texts = try fields.requiredTexts("texts", maxCount: limits.rerankedDocuments)
    options = try TEIOptions(&fields)
    isRaw = try fields.bool("raw_scores") ?? false
    returnsTexts = try fields.bool("return_text") ?? false
    options.ignored = fields.unread
  }
}

/// POST /predict: texts or pairs of texts for a classifier.
package struct TEIPredictRequest: Sendable {
  /// A text alone, or two.
  package struct Input: Sendable {
    package var first: String
    package var second: String?
  }

  package var inputs: [Input]
  /// Whether the answer is a list for each input.
  package var isBatch: Bool
  package var options: TEIOptions
  package var isRaw: Bool

  /// - Throws: the first problem found, with the path of its field.
  package init(_ body: JSONValue, limits: RequestLimits) throws(APIError) {
    var fields = try Fields(body)
    _ = try fields.string("model")
    let value = try fields.required("inputs")
    (inputs, isBatch) = try Self.inputs(value, limits)
    options = try TEIOptions(&fields)
    isRaw = try fields.bool("raw_scores") ?? false
    options.ignored = fields.unread
  }

  /// A text, a pair as a list of two texts, or a list of such lists.
  private static func inputs(
    _ value: JSONValue, _ limits: RequestLimits
  ) throws(APIError) -> ([Input], Bool) {
    if let text = value.stringValue { return ([Input(first: text)], false) }
    guard let elements = value.arrayValue else {
      throw .wrongType("inputs", expected: "a text, a pair of texts, or a list of such lists", found: value)
    }
    guard let first = elements.first else { throw .emptyInput("inputs") }
    guard first.arrayValue != nil else { return ([try input(elements, "inputs")], false) }
    guard elements.count <= limits.embeddingInputs else {
      throw .invalidValue(
        "inputs", "there are \(elements.count) inputs, more than \(limits.embeddingInputs)")
    }
    var inputs: [Input] = []
    for (index, element) in elements.enumerated() {
      let path = "inputs[\(index)]"
      guard let texts = element.arrayValue else {
        throw .wrongType(path, expected: "a list of one or two texts", found: element)
      }
      inputs.append(try input(texts, path))
    }
    return (inputs, true)
  }

  private static func input(_ texts: [JSONValue], _ path: String) throws(APIError) -> Input {
    guard (1...2).contains(texts.count) else {
      throw .invalidValue(path, "it has \(texts.count) texts; a pair has two")
    }
    var found: [String] = []
    for (index, text) in texts.enumerated() {
      guard let string = text.stringValue else {
        throw .wrongType("\(path)[\(index)]", expected: "a string", found: text)
      }
      found.append(string)
    }
    return Input(first: found[0], second: found.count > 1 ? found[1] : nil)
  }
}

/// POST /similarity: how near sentences are to one.
package struct TEISimilarityRequest: Sendable {
  package var source: String
  package var sentences: [String]
  package var options: TEIOptions

  /// - Throws: the first problem found, with the path of its field.
  package init(_ body: JSONValue, limits: RequestLimits) throws(APIError) {
    var fields = try Fields(body)
    _ = try fields.string("model")
    var inputs = try fields.requiredFields("inputs")
    source = try inputs.requiredString("source_sentence")
    if inputs.value("sentences")?.arrayValue?.isEmpty ?? false { throw .emptyInput("inputs.sentences") }
    sentences = try inputs.requiredTexts("sentences", maxCount: limits.embeddingInputs - 1)
    if var parameters = try fields.fields("parameters") {
      options = try TEIOptions(&parameters)
    } else {
      options = TEIOptions()
    }
    options.ignored = fields.unread
  }
}

/// POST /tokenize with `inputs`.
package struct TEITokenizeRequest: Sendable {
  package var texts: [String]
  package var addsSpecialTokens: Bool
  package var promptName: String?
  /// Top-level fields that nobody knows.
  package var ignored: [String]

  /// - Throws: the first problem found, with the path of its field.
  package init(_ body: JSONValue, limits: RequestLimits) throws(APIError) {
    var fields = try Fields(body)
    _ = try fields.string("model")
    let value = try fields.required("inputs")
    if value.arrayValue?.isEmpty ?? false { throw .emptyInput("inputs") }
    if let text = value.stringValue {
      texts = [text]
    } else {
      texts = try fields.requiredTexts("inputs", maxCount: limits.embeddingInputs)
    }
    addsSpecialTokens = try fields.bool("add_special_tokens") ?? true
    promptName = try fields.string("prompt_name")
    ignored = fields.unread
  }
}

/// POST /decode: texts of token ids.
package struct TEIDecodeRequest: Sendable {
  package var lists: [[Int32]]
  package var skipsSpecialTokens: Bool
  /// Top-level fields that nobody knows.
  package var ignored: [String]

  /// - Parameter vocabularySize: token ids in the body must be below it.
  /// - Throws: the first problem found, with the path of its field.
  package init(_ body: JSONValue, limits: RequestLimits, vocabularySize: Int) throws(APIError) {
    var fields = try Fields(body)
    _ = try fields.string("model")
    guard let values = try fields.array("ids", maxCount: limits.detokenizedTokens) else {
      throw .missing("ids")
    }
    guard let first = values.first else { throw .emptyInput("ids") }
    let isList = first.arrayValue != nil
    lists = []
    for (index, value) in (isList ? values : [.array(values)]).enumerated() {
      let path = isList ? "ids[\(index)]" : "ids"
      guard let ids = value.arrayValue else {
        throw .wrongType(path, expected: "an array of token ids", found: value)
      }
      var tokens: [Int32] = []
      for (place, id) in ids.enumerated() {
        tokens.append(try TokenID.read(id, vocabularySize: vocabularySize, name: "\(path)[\(place)]"))
      }
      lists.append(tokens)
    }
    skipsSpecialTokens = try fields.bool("skip_special_tokens") ?? true
    ignored = fields.unread
  }
}
