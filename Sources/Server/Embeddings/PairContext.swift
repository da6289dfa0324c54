// What a request for scores of pairs works with, whatever its wire.

import HTTP
import Inference
import JSON
import Pipeline
import Platform
import Wire

/// A document's score, by its place in the request.
struct RankedDocument: Sendable, Equatable {
  var index: Int
  var score: Float
  /// Nil where texts are not wanted.
  var text: String?

  /// The best first; equal ones in the order of the request.
  static func sorted(_ scores: [Float]) -> [RankedDocument] {
    scores.enumerated().map { RankedDocument(index: $0, score: $1) }.sorted { a, b in
      a.score != b.score ? a.score > b.score : a.index < b.index
    }
  }
}

/// How pairs are cut that are too long.
struct PairCut: Sendable {
  /// Nil refuses pairs that are too long.
  let truncation: EmbeddingsRequest.Truncation?
  /// Most tokens of a pair; nil for the model's limit.
  let maxTokens: Int?
  /// Most tokens of a document.
  let maxDocumentTokens: Int?

  /// - Throws: the first problem found, with the path of its field.
  init(_ fields: inout Fields) throws(APIError) {
    (truncation, maxTokens) = try EmbeddingsRequest.truncation(
      &fields, "of a pair that is too long the longer text loses that end")
    maxDocumentTokens = try fields.integer(
      "max_tokens_per_doc", in: 1...1 << 24, "most tokens of a document, which loses its end", like: "8")
  }
}

/// Pairs with their scores, in the order of the request.
struct ScoredPairs {
  var scores: [Float]
  var tokens: Int
  var truncated: [Int]
}

extension ServerContext {
  /// The model that a body names, or the first that can do it, which must score pairs of texts.
  ///
  /// - Throws: as `request`, and 400 for a model that scores none.
  func reranking(_ body: JSONValue, for context: ConnectionContext) throws(APIError) -> EmbeddingContext {
    let scope = try textModel(body, scores: true, for: context)
    guard let embedder = scope.model.embedder, embedder.scoresPairs else {
      throw .cannotRerank(model: scope.model.id, labels: scope.model.embedder?.service.limits.labels ?? 0)
    }
    return EmbeddingContext(scope: scope, embedder: embedder)
  }
}

extension EmbeddingContext {
  func options(_ cut: PairCut, _ instruction: String?) throws(APIError) -> PairOptions {
    guard instruction == nil || embedder.takesInstruction else {
      throw .unsupportedParameter("instruction", "this model takes none: it is not a decoder that is asked")
    }
    var options = PairOptions()
    options.truncation = cut.truncation.map(Embedder.Truncation.init)
    options.maxTokens = cut.maxTokens
    options.maxDocumentTokens = cut.maxDocumentTokens
    options.instruction = instruction
    return options
  }

  /// Scores of documents for one query, or for one of each.
  ///
  /// - Parameter name: the path of a document by its index, of the query below 0.
  func score(
    _ queries: [String], _ documents: [String], _ options: PairOptions, isRaw: Bool,
    _ context: ConnectionContext, name: (_ index: Int) -> String
  ) throws(APIError) -> ScoredPairs {
    do throws(EmbeddingError) {
      let prepared = try embedder.preparePairs(queries, documents, options)
      try check(tokens: prepared.tokenCount)
      let logits = try encode(prepared, context).map { $0.first ?? 0 }
      return ScoredPairs(
        scores: isRaw ? logits : logits.map(Embedder.sigmoid), tokens: prepared.tokenCount,
        truncated: prepared.truncated)
    } catch {
      throw APIError(error, name: name)
    }
  }

  /// What the encoder makes of prepared texts.
  func encode(_ prepared: Embedder.Prepared, _ context: ConnectionContext) throws(EmbeddingError) -> [[Float]]
  {
    let begin = Instant.now
    let found = try embedder.encode(
      prepared.texts, tenant: scope.client.number, poll: scope.settings.pollSeconds,
      isUnwanted: context.isClientGone)
    scope.settings.metrics.add(
      encoding: Instant.now.seconds(since: begin), isScoring: embedder.service.limits.labels > 0,
      model: scope.model.id)
    return found
  }
}

extension Embedder.Truncation {
  init(_ end: EmbeddingsRequest.Truncation) {
    self =
      switch end {
      case .right: .right
      case .left: .left
      }
  }
}

extension APIError {
  static func cannotRerank(model: String, labels: Int) -> APIError {
    APIError(
      status: 400, code: "unsupported_operation", param: "model",
      message: "The model '\(model)' is not a reranker. "
        + (labels > 1
          ? "It has \(labels) labels: use /predict." : "Name one whose 'task' in /v1/models is 'rerank'."))
  }
}
