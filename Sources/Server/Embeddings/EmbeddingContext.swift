// What a request for vectors or scores works with, and what its faults are called.

import HTTP
import Inference
import JSON
import Pipeline
import Wire

/// Holds the model for as long as it lives.
struct EmbeddingContext: Sendable {
  let scope: RequestScope
  let embedder: Embedder

  var limits: RequestLimits { scope.limits }
  /// Token ids below it are in the tokenizer and in the model.
  var vocabularySize: Int { scope.model.vocabularySize }
}

extension ServerContext {
  /// The model that a body names, which must make vectors or scores.
  ///
  /// - Throws: as `request`, and 400 for a model that generates.
  func embedding(_ body: JSONValue, for context: ConnectionContext) throws(APIError) -> EmbeddingContext {
    let scope = try textModel(body, scores: false, for: context)
    if scope.model.transcriber != nil { throw .onlyTranscribes(model: scope.model.id) }
    guard let embedder = scope.model.embedder else { throw .cannotEmbed(model: scope.model.id) }
    guard embedder.service.limits.labels == 0 else {
      throw APIError(
        status: 400, code: "unsupported_operation", param: "model",
        message: "The model '\(scope.model.id)' makes scores, not vectors. Use /v1/rerank or /predict.")
    }
    return EmbeddingContext(scope: scope, embedder: embedder)
  }

  /// The model that a body names; where it names none, the first that makes vectors, or scores, else the other of the two,
  /// else the first of all.
  func textModel(
    _ body: JSONValue, scores: Bool, loads: Bool = true, for context: ConnectionContext
  ) throws(APIError) -> RequestScope {
    guard body["model"]?.stringValue?.isEmpty ?? true else { return try anyRequest(body, for: context) }
    let all = models.statuses
    let embedders = all.filter { $0.source.makes(scores: false, $0.model?.loaded) }
    let rerankers = all.filter { $0.source.makes(scores: true, $0.model?.loaded) }
    guard let found = (scores ? rerankers + embedders : embedders + rerankers).first else {
      return try anyRequest(body, loads: loads, for: context)
    }
    return RequestScope(server: self, lease: try models.lease(found.source.id, loads: loads), for: context)
  }
}

extension ModelSource {
  /// Whether the model makes vectors, or scores; of one that is not loaded its folder says so.
  func makes(scores: Bool, _ loaded: LoadedModel?) -> Bool {
    guard let loaded else { return scores ? LoadedModel.makesScores(path) : LoadedModel.makesVectors(path) }
    return loaded.embedder.map { ($0.service.limits.labels > 0) == scores } ?? false
  }
}

extension APIError {
  /// - Parameter name: the path of an input by its index.
  init(_ error: EmbeddingError, name: (_ index: Int) -> String) {
    switch error {
    case .tooLong(let index, let tokens, let limit):
      self.init(
        status: 400, code: "context_length_exceeded", param: name(index),
        message:
          "This model's maximum context length is \(limit) tokens. However, '\(name(index))' has \(tokens) tokens. "
          + "Shorten it, or send \"truncate\": true.")
    case .empty(let index): self = .invalidValue(name(index), "it has no tokens")
    case .tokenOutOfRange(let index, _, _): self = .invalidValue(name(index), "\(error)")
    case .unknownPrompt: self = .invalidValue("prompt_name", "\(error)")
    case .tooManyTokens: self = .invalidValue("input", "\(error)")
    case .dimensions: self = .invalidValue("dimensions", "\(error)")
    case .engine(let error): self.init(error, param: name(0))
    case .unwanted: self = APIError(AnswerFailure.clientGone, param: name(0))
    }
  }

  static func cannotEmbed(model: String) -> APIError {
    APIError(
      status: 400, code: "unsupported_operation", param: "model",
      message:
        "The model '\(model)' generates text and makes no vectors. Name an embedding model: /v1/models lists the models."
    )
  }

  static func cannotGenerate(model: String) -> APIError {
    APIError(
      status: 400, code: "unsupported_operation", param: "model",
      message:
        "The model '\(model)' makes vectors or scores of texts and writes none. Use /v1/embeddings or /v1/rerank, or name a "
        + "chat model.")
  }
}

extension EmbeddingContext {
  /// - Throws: 400 when a request has more tokens than are taken.
  func check(tokens: Int) throws(EmbeddingError) {
    guard tokens <= limits.embeddingTokens else {
      throw .tooManyTokens(tokens: tokens, limit: limits.embeddingTokens)
    }
  }
}
