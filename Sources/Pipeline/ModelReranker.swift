// A loaded reranker as a search wants it.

import Inference
package import Platform
package import Search

/// Judges passages until its time is over.
package struct ModelReranker: PassageReranker {
  private let embedder: Embedder
  private let deadline: Instant?
  private let tenant: UInt64
  /// Held as long as the model is used.
  private let lease: (any Sendable)?

  /// Pairs between two looks at the clock.
  private static let batch = 8

  /// - Parameters:
  ///   - deadline: after which no further passages are judged; nil for none.
  ///   - tenant: the client, as a number that says nothing else.
  ///   - lease: what keeps the model loaded.
  /// - Returns: nil for a model that scores no pairs.
  package init?(
    _ model: LoadedModel, until deadline: Instant? = nil, tenant: UInt64 = 0, lease: (any Sendable)? = nil
  ) {
    guard let embedder = model.embedder, embedder.scoresPairs else { return nil }
    self.embedder = embedder
    self.deadline = deadline
    self.tenant = tenant
    self.lease = lease
  }

  /// As the protocol has it; a passage that is too long is judged by its beginning.
  package func scores(
    _ query: String, _ texts: [String], isUnwanted: () -> Bool
  ) throws(SearchError) -> [Float] {
    var options = PairOptions()
    // A passage is judged by what the model takes of it.
    options.truncation = .right
    var scores: [Float] = []
    do throws(EmbeddingError) {
      while scores.count < texts.count {
        if let deadline, Instant.now > deadline { break }
        let part = Array(texts[scores.count..<min(scores.count + Self.batch, texts.count)])
        let prepared = try embedder.preparePairs([query], part, options)
        let logits = try embedder.encode(prepared.texts, tenant: tenant, isUnwanted: isUnwanted)
        scores += logits.map { Embedder.sigmoid($0.first ?? 0) }
      }
    } catch {
      if case .unwanted = error { throw .cancelled }
      throw .encoder("\(error)")
    }
    return scores
  }
}
