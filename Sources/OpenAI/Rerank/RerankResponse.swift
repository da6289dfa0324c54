// The answers of /v1/rerank and /v1/score: one object has what clients of Jina, Cohere and vLLM look for.

package import JSON

/// A document's score, by its place in the request.
package struct RankedDocument: Sendable, Equatable {
  package var index: Int
  package var score: Float
  /// Nil where texts are not wanted.
  package var text: String?

  package init(index: Int, score: Float, text: String? = nil) {
    self.index = index
    self.score = score
    self.text = text
  }

  /// The best first; equal ones in the order of the request.
  package static func sorted(_ scores: [Float]) -> [RankedDocument] {
    scores.enumerated().map { RankedDocument(index: $0, score: $1) }.sorted { a, b in
      a.score != b.score ? a.score > b.score : a.index < b.index
    }
  }
}

/// What reranking and scoring answer.
package struct RerankResponse: Sendable {
  package var id: String
  package var model: String
  /// Of all pairs.
  package var tokens: Int
  /// Indices of documents that were cut.
  package var truncated: [Int]

  package init(id: String, model: String, tokens: Int, truncated: [Int]) {
    self.id = id
    self.model = model
    self.tokens = tokens
    self.truncated = truncated
  }

  private var usage: JSONValue { ["prompt_tokens": .int(tokens), "total_tokens": .int(tokens)] }

  private func finished(_ members: [(String, JSONValue)]) -> JSONValue {
    var object = JSONObject(members)
    if !truncated.isEmpty { object["truncated"] = .array(truncated.map(JSONValue.int)) }
    return .object(object)
  }

  /// The body of POST /v1/rerank.
  package func ranking(_ results: [RankedDocument]) -> JSONValue {
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
  package func scores(_ scores: [Float], created: Int) -> JSONValue {
    let data = scores.enumerated().map { index, score -> JSONValue in
      ["index": .int(index), "object": "score", "score": .double(Double(score))]
    }
    return finished([
      ("id", .string(id)), ("object", "list"), ("created", .int(created)), ("model", .string(model)),
      ("data", .array(data)), ("usage", usage),
    ])
  }
}
