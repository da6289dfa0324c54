// The part of /openapi.json that is about reranking and scoring, and about TEI's routes.

import JSON
import OpenAI

enum OpenAPIScores {
  private typealias Operation = OpenAPIDocument.Operation

  static let operations: [OpenAPIDocument.Operation] = rankings + tei

  /// TEI's clients tell these apart: what a body says wrongly, what the model cannot do, and a queue that is full.
  static let failures = ["422", "424", "429"]

  private static let rankings =
    [
      ("/v1/rerank", "rerank", "Puts documents in order for a query"),
      ("/v2/rerank", "rerankCohere", "The same, at Cohere's path"),
      ("/v1/reranking", "rerankLong", "The same, at llama.cpp's path"),
      ("/reranking", "rerankLongShort", "The same, at llama.cpp's path"),
      ("/rerank", "rerankShort", "The same; with 'texts' in TEI's shape"),
    ].map { path, id, summary in
      Operation(
        method: "POST", pattern: path, id: id, summary: summary,
        request: path == "/rerank" ? "AnyRerankRequest" : "RerankRequest",
        response: path == "/rerank" ? "AnyRanking" : "Ranking",
        error: path == "/rerank" ? "ErrorOfTwoWires" : "Error", failures: path == "/rerank" ? failures : [])
    } + [
      Operation(
        method: "POST", pattern: "/v1/score", id: "score", summary: "Scores of pairs of texts",
        request: "ScoreRequest", response: "Scores"),
      Operation(
        method: "POST", pattern: "/score", id: "scoreShort", summary: "The same", request: "ScoreRequest",
        response: "Scores"),
    ]

  private static func operation(
    _ path: String, _ id: String, _ summary: String, _ request: String, _ response: String
  ) -> Operation {
    Operation(
      method: "POST", pattern: path, id: id, summary: summary, request: request, response: response,
      error: "TEIError", failures: failures)
  }

  private static let tei = [
    operation("/embed", "teiEmbed", "Vectors of texts (TEI)", "TEIEmbedRequest", "Vectors"),
    operation(
      "/embed_all", "teiEmbedAll", "The state of every token (TEI)", "TEIEmbedRequest", "VectorLists"),
    operation("/embed_sparse", "teiEmbedSparse", "Sparse vectors (TEI)", "TEIEmbedRequest", "SparseVectors"),
    operation("/predict", "teiPredict", "Labels of texts or pairs (TEI)", "TEIPredictRequest", "Predictions"),
    operation(
      "/similarity", "teiSimilarity", "How near sentences are to one (TEI)", "TEISimilarityRequest", "Vector"),
    operation("/decode", "teiDecode", "Texts of tokens (TEI)", "TEIDecodeRequest", "Strings"),
    Operation(
      method: "GET", pattern: "/info", id: "teiInfo", summary: "What the model is (TEI)", response: "Any",
      error: "TEIError", failures: failures),
  ]

  /// Bodies, members of an object of schemas.
  ///
  /// - Parameter descriptions: members that most bodies of OpenAI's API have and that change nothing.
  static func requests(_ limits: RequestLimits, _ descriptions: String) -> String {
    let truncation = #"""
      "truncate": {"anyOf": [{"type": "boolean"}, {"enum": ["left", "right"]}]},
      "truncate_prompt_tokens": {"type": "integer", "minimum": -1, "maximum": 16777216},
      "max_tokens_per_doc": {"type": "integer", "minimum": 1, "maximum": 16777216},
      "instruction": {"type": "string"}, "raw_scores": {"type": "boolean"}, "priority": {"type": "integer", "minimum": -2147483648, "maximum": 2147483647}
      """#
    let texts =
      #"{"anyOf": [{"type": "string"}, {"type": "array", "minItems": 1, "items": {"type": "string"}}]}"#
    let tokens = #"{"type": "array", "minItems": 1, "items": {"type": "integer", "minimum": 0}}"#
    let pair = #"{"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "string"}}"#
    // One of three names on each side.
    func side(_ names: [String]) -> String {
      let branches = names.map { name in
        let others = names.filter { $0 != name }.map { #""\#($0)": {"type": "null"}"# }.joined(
          separator: ", ")
        return
          #"{"required": ["\#(name)"], "properties": {"\#(name)": {"type": ["string", "array"]}, \#(others)}}"#
      }
      return #"{"anyOf": [\#(branches.joined(separator: ", "))]}"#
    }
    let pairs = side(["text_1", "queries", "data_1"]) + ", " + side(["text_2", "documents", "data_2"])
    let cut = #"""
      "truncate": {"type": "boolean"}, "truncation_direction": {"enum": ["left", "right", "Left", "Right"]},
      "prompt_name": {"type": "string"}
      """#
    return #"""
      "RerankRequest": {"type": "object", "required": ["query", "documents"], "anyOf": [
        {"properties": {"documents": {"type": "array", "items": {"anyOf": [{"type": "string"},
          {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}}]}}}},
        {"required": ["rank_fields"], "properties": {"rank_fields": {"type": "array", "minItems": 1}}}],
        "not": {"required": ["top_n", "top_k"], "properties": {"top_n": {"type": "integer"}, "top_k": {"type": "integer"}}},
        "properties": {
        "model": {"type": "string"}, "query": {"type": "string"},
        "documents": {"type": "array", "minItems": 1, "maxItems": \#(limits.rerankedDocuments),
          "items": {"type": ["string", "object"]}},
        "rank_fields": {"type": "array", "items": {"type": "string"}},
        "top_n": {"type": "integer", "minimum": 1, "maximum": 2147483647}, "top_k": {"type": "integer", "minimum": 1, "maximum": 2147483647},
        "return_documents": {"type": "boolean"}, "max_chunks_per_doc": {"type": "integer", "minimum": 1, "maximum": 2147483647},
        \#(truncation), \#(descriptions)}},
      "AnyRerankRequest": {"anyOf": [{"$ref": "#/components/schemas/RerankRequest"},
        {"$ref": "#/components/schemas/TEIRerankRequest"}]},
      "ScoreRequest": {"type": "object", "allOf": [\#(pairs)], "properties": {
        "model": {"type": "string"}, "text_1": \#(texts), "text_2": \#(texts), "queries": \#(texts),
        "documents": \#(texts), "data_1": \#(texts), "data_2": \#(texts), \#(truncation), \#(descriptions)}},
      "TEIRerankRequest": {"type": "object", "required": ["query", "texts"], "properties": {
        "query": {"type": "string"}, "texts": {"type": "array", "minItems": 1, "items": {"type": "string"}},
        "raw_scores": {"type": "boolean"}, "return_text": {"type": "boolean"}, \#(cut)}},
      "TEIEmbedRequest": {"type": "object", "required": ["inputs"], "properties": {
        "inputs": {"anyOf": [{"type": "string"}, \#(tokens),
          {"type": "array", "minItems": 1, "maxItems": \#(limits.embeddingInputs), "items": {"type": "string"}},
          {"type": "array", "minItems": 1, "maxItems": \#(limits.embeddingInputs), "items": \#(tokens)}]}, "normalize": {"type": "boolean"},
        "dimensions": {"type": "integer", "minimum": 1}, \#(cut)}},
      "TEIPredictRequest": {"type": "object", "required": ["inputs"], "properties": {
        "inputs": {"anyOf": [{"type": "string"}, \#(pair), {"type": "array", "minItems": 1,
          "maxItems": \#(limits.embeddingInputs), "items": \#(pair)}]}, "raw_scores": {"type": "boolean"}, \#(cut)}},
      "TEISimilarityRequest": {"type": "object", "required": ["inputs"], "properties": {
        "inputs": {"type": "object", "required": ["source_sentence", "sentences"], "properties": {
          "source_sentence": {"type": "string"},
          "sentences": {"type": "array", "minItems": 1, "items": {"type": "string"}}}},
        "parameters": {"type": "object", "properties": {\#(cut)}}}},
      "TEIDecodeRequest": {"type": "object", "required": ["ids"], "properties": {
        "ids": {"anyOf": [{"type": "array", "minItems": 1, "items": {"type": "integer", "minimum": 0}},
          {"type": "array", "minItems": 1, "items": {"type": "array", "items": {"type": "integer", "minimum": 0}}}]},
        "skip_special_tokens": {"type": "boolean"}}}
      """#
  }

  /// In the notation of `OpenAPIResponses`, members of an object.
  static let answers = #"""
    "RankedDocument": {"index": "integer", "relevance_score": "number", "document?": {"text": "string"}},
    "Ranking": {"id": "string", "object": "'list'", "model": "string", "results": ["RankedDocument"],
      "usage": {"prompt_tokens": "integer", "total_tokens": "integer"}, "truncated?": ["integer"],
      "meta": {"api_version": {"version": "string"}, "billed_units": {"search_units": "integer"},
        "tokens": {"input_tokens": "integer"}}},
    "AnyRanking": "Ranking|TEIRanking",
    "TEIRanking": [{"index": "integer", "text?": "string", "score": "number"}],
    "Scores": {"id": "string", "object": "'list'", "created": "integer", "model": "string",
      "data": [{"index": "integer", "object": "'score'", "score": "number"}],
      "usage": {"prompt_tokens": "integer", "total_tokens": "integer"}, "truncated?": ["integer"]},
    "Vectors": ["Vector"],
    "VectorLists": ["Vectors"],
    "SparseVectors": ["SparseVector"],
    "SparseVector": [{"index": "integer", "value": "number"}],
    "Prediction": [{"score": "number", "label": "string"}],
    "PredictionList": ["Prediction"],
    "Predictions": "Prediction|PredictionList",
    "TEIError": {"error": "string", "error_type": "string"},
    "ErrorOfTwoWires": "Error|TEIError"
    """#
}
