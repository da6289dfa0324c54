// The answers of /v1/rerank and /v1/score: one object has what clients of Jina, Cohere and vLLM look for.

import JSON

/// What reranking and scoring answer.
struct RerankResponse: Sendable {
  var id: String
  var model: String
  /// Of all pairs.
  var tokens: Int
  /// Indices of documents that were cut.
  var truncated: [Int]

  private var usage: JSONValue { ["prompt_tokens": .int(tokens), "total_tokens": .int(tokens)] }

  private func finished(_ members: [(String, JSONValue)]) -> JSONValue {
    var object = JSONObject(members)
    if !truncated.isEmpty { object["truncated"] = .array(truncated.map(JSONValue.int)) }
    return .object(object)
  }

  /// The body of POST /v1/rerank.
  func ranking(_ results: [RankedDocument]) -> JSONValue {
    let entries = results.map { result -> JSONValue in
      var entry = JSONObject([
        ("index", .int(result.index)), ("relevance_score", .double(Double(result.score))),
      ])
      if let text = result.text { entry["document"] = ["text": .string(text)] }
      return .object(entry)
    }
    return finished([
      ("id", .string(id)), ("object", "list"), ("model", .string(model)), ("results", .array(entries)),
      ("usage", usage),
      (
        "meta",
        [
          "api_version": ["version": "2"], "billed_units": ["search_units": 1],
          "tokens": ["input_tokens": .int(tokens)],
        ]
      ),
    ])
  }

  /// The body of POST /v1/score, in the order of the request.
  func scores(_ scores: [Float], created: Int) -> JSONValue {
    let data = scores.enumerated().map { index, score -> JSONValue in
      ["index": .int(index), "object": "score", "score": .double(Double(score))]
    }
    return finished([
      ("id", .string(id)), ("object", "list"), ("created", .int(created)), ("model", .string(model)),
      ("data", .array(data)), ("usage", usage),
    ])
  }
}
