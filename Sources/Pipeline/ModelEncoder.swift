// A loaded model as an index wants it.

import Inference
import Platform
package import Search
import Tokenizers
import Vectors

/// An embedding model, with the words that it wants in front of questions and passages.
package struct ModelEncoder: PassageEncoder {
  private let embedder: Embedder
  private let tenant: UInt64
  private let priority: EmbeddingPriority
  package let fingerprint: String
  package let computation: String

  /// - Parameters:
  ///   - isBackground: whether nobody waits for the vectors.
  ///   - tenant: the client, as a number that says nothing else.
  /// - Returns: nil for a model that makes no vectors.
  package init?(_ model: LoadedModel, isBackground: Bool, tenant: UInt64 = 0) {
    guard let embedder = model.embedder, embedder.service.limits.labels == 0 else { return nil }
    self.embedder = embedder
    self.tenant = tenant
    priority = isBackground ? .background : .interactive
    // The words in front of texts and the rules by which they are cut are part of what vectors depend on.
    let parts = [
      model.systemFingerprint, embedder.prompts.query, embedder.prompts.document,
      "\(embedder.dimensions)", "\(WordSplitter.version)",
    ]
    fingerprint = SHA256.hexadecimal(SHA256.digest(Array(parts.joined(separator: "\u{0}").utf8)))
    computation = fingerprint + " " + model.facts.computeName
  }

  package var dimensions: Int { embedder.dimensions }

  package var room: Int {
    let frame = embedder.tokenizer.textFrame
    let prompt = max(tokenCount(embedder.prompts.query), tokenCount(embedder.prompts.document))
    // A text is counted in pieces; a few tokens more may come of it as a whole.
    return max(
      8, embedder.maxTokens - frame.before.count - frame.after.count - prompt - embedder.maxTokens / 16)
  }

  /// Tokens of a text, without special ones.
  package func tokenCount(_ text: String) -> Int {
    text.isEmpty ? 0 : embedder.tokenizer.encode(text, addSpecialTokens: false).count
  }

  /// The share of a text's tokens that the vocabulary does not know, from 0 to 1.
  package func unknownShare(of text: String) -> Float {
    guard let unknown = embedder.tokenizer.unknownToken else { return 0 }
    let ids = embedder.tokenizer.encode(text, addSpecialTokens: false)
    return ids.isEmpty ? 0 : Float(ids.count { $0 == unknown }) / Float(ids.count)
  }

  private func prompt(_ role: TextRole) -> Embedder.Prompt { role == .query ? .query : .document }

  /// Vectors of length 1, in the order of the texts.
  package func encode(
    _ texts: [String], as role: TextRole, isUnwanted: () -> Bool
  ) throws(SearchError) -> [[Float]] {
    var options = Embedder.Options()
    options.prompt = prompt(role)
    options.priority = priority
    options.tenant = tenant
    // A passage that has more tokens as a whole than in pieces loses the last of them, a long question its end.
    options.truncation = .right
    do throws(EmbeddingError) {
      return try embedder.embed(texts.map { .text($0) }, options, isUnwanted: isUnwanted).vectors
    } catch {
      if case .unwanted = error { throw .cancelled }
      throw .encoder("\(error)")
    }
  }
}
