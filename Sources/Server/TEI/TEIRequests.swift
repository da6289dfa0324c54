// The bodies of the routes that clients of Hugging Face's text-embeddings-inference (TEI) use.

import JSON
import Wire

/// What all of TEI's routes take beside their inputs.
struct TEIOptions: Sendable {
  /// Nil refuses what is too long.
  var truncation: EmbeddingsRequest.Truncation?
  /// One of the model's prompts.
  var promptName: String?

  init() {}

  init(_ fields: inout Fields) throws(APIError) {
    let truncates = try fields.bool("truncate", "cuts texts that are too long; by default they are refused")
    let end = try fields.word(
      "truncation_direction", of: ["left", "right", "Left", "Right"], "the end of a text that is cut")
    if truncates ?? false { truncation = end?.lowercased() == "left" ? .left : .right }
    promptName = try fields.string("prompt_name", "one of the model's prompts", like: #""query""#)
  }
}

extension APIError {
  /// TEI tells of a list without elements by a type of its own.
  static func emptyInput(_ field: String) -> APIError {
    APIError(
      status: 400, type: "Empty", code: "empty_input", param: field, message: "'\(field)' cannot be empty.")
  }
}

extension Fields {
  /// A list may have no elements only where it is missing.
  fileprivate func refuseEmpty(_ field: String) throws(APIError) {
    if object[field]?.arrayValue?.isEmpty ?? false { throw .emptyInput(name(of: field)) }
  }
}

/// POST /embed, /embed_all and /embed_sparse.
struct TEIEmbedRequest: RequestBody {
  let inputs: [TextInput]
  let options: TEIOptions
  let normalizes: Bool
  let dimensions: Int?
  var ignored: [String] = []

  init(_ fields: inout Fields) throws(APIError) {
    try fields.anyModel()
    try fields.refuseEmpty("inputs")
    inputs = try fields.requiredInputs(
      "inputs", "inputs", maxCount: fields.limits.embeddingInputs, "a text, token ids, or a list of either",
      like: #"["river","hill"]"#
    ).inputs
    options = try TEIOptions(&fields)
    normalizes = try fields.bool("normalize", "false leaves vectors as the model makes them") ?? true
    dimensions = try fields.integer("dimensions", in: 1...1 << 20, "the first elements of a vector")
  }
}

/// POST /rerank with `texts`.
struct TEIRerankRequest: RequestBody {
  let query: String
  let texts: [String]
  let options: TEIOptions
  let isRaw: Bool
  let returnsTexts: Bool
  var ignored: [String] = []

  init(_ fields: inout Fields) throws(APIError) {
    try fields.anyModel()
    query = try fields.requiredString("query", like: #""water""#)
    try fields.refuseEmpty("texts")
    texts = try fields.requiredTexts(
      "texts", maxCount: fields.limits.rerankedDocuments, like: #"["river","hill"]"#)
    options = try TEIOptions(&fields)
    isRaw = try fields.bool("raw_scores", "logits; by default scores are from 0 to 1") ?? false
    returnsTexts = try fields.bool("return_text", "each result has its text") ?? false
  }
}

/// POST /predict: texts or pairs of texts for a classifier.
struct TEIPredictRequest: RequestBody {
  /// A text alone, or two.
  struct Input: Sendable {
    let first: String
    var second: String?
  }

  let inputs: [Input]
  /// Whether the answer is a list for each input.
  let isBatch: Bool
  let options: TEIOptions
  let isRaw: Bool
  var ignored: [String] = []

  init(_ fields: inout Fields) throws(APIError) {
    try fields.anyModel()
    let pair = Shape.array(of: Shape.string, 1...2)
    let shape = Shape.any(Shape.string, pair, Shape.array(of: pair, 1...fields.limits.embeddingInputs))
    let value = try fields.required(
      "inputs", shape, "a text, a pair as a list of two, or a list of such lists", like: #""I like it.""#)
    (inputs, isBatch) = try Self.inputs(value, fields.limits)
    options = try TEIOptions(&fields)
    isRaw = try fields.bool("raw_scores", "logits; by default shares that add up to 1") ?? false
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
struct TEISimilarityRequest: RequestBody {
  let source: String
  let sentences: [String]
  let options: TEIOptions
  var ignored: [String] = []

  init(_ fields: inout Fields) throws(APIError) {
    try fields.anyModel()
    (source, sentences) = try fields.requiredObject("inputs") { (inputs) throws(APIError) in
      let source = try inputs.requiredString("source_sentence", like: #""stream""#)
      try inputs.refuseEmpty("sentences")
      return (
        source,
        try inputs.requiredTexts(
          "sentences", maxCount: inputs.limits.embeddingInputs - 1, like: #"["river","hill"]"#)
      )
    }
    options =
      try fields.object("parameters") { (parameters) throws(APIError) in try TEIOptions(&parameters) }
      ?? TEIOptions()
  }
}

/// POST /tokenize with `inputs`.
struct TEITokenizeRequest: RequestBody {
  let texts: [String]
  let addsSpecialTokens: Bool
  let promptName: String?
  var ignored: [String] = []

  init(_ fields: inout Fields) throws(APIError) {
    try fields.anyModel()
    let most = fields.limits.embeddingInputs
    let value = try fields.required(
      "inputs", Shape.any(Shape.string, Shape.array(of: Shape.string, 1...most)),
      "a text, or a list of texts",
      like: #""Hello!""#)
    try fields.refuseEmpty("inputs")
    if let text = value.stringValue {
      texts = [text]
    } else {
      texts = try fields.requiredTexts("inputs", maxCount: most)
    }
    addsSpecialTokens = try fields.bool("add_special_tokens", like: "false") ?? true
    promptName = try fields.string("prompt_name", "one of the model's prompts")
  }
}

/// POST /decode: texts of token ids.
struct TEIDecodeRequest: RequestBody {
  let lists: [[Int32]]
  let skipsSpecialTokens: Bool
  var ignored: [String] = []

  init(_ fields: inout Fields) throws(APIError) {
    try fields.anyModel()
    try fields.refuseEmpty("ids")
    let id = Shape.integer(0...Int.max)
    let values = try fields.requiredArray(
      "ids", of: Shape.any(id, Shape.array(of: id, 0...Int.max)), maxCount: fields.limits.detokenizedTokens,
      "ids, or lists of them", like: "[1,2]")
    let isList = values[0].arrayValue != nil
    var lists: [[Int32]] = []
    for (index, value) in (isList ? values : [.array(values)]).enumerated() {
      let path = isList ? "ids[\(index)]" : "ids"
      guard let ids = value.arrayValue else {
        throw .wrongType(path, expected: "an array of token ids", found: value)
      }
      lists.append(try TokenID.read(ids, vocabularySize: fields.vocabularySize, path: path))
    }
    self.lists = lists
    skipsSpecialTokens = try fields.bool("skip_special_tokens", like: "false") ?? true
  }
}
