// Tokens as clients see them in log probabilities.

import Decoding
import OpenAI
import Tokenizers

extension RequestContext {
  func logprob(_ token: SampledToken) -> LogprobEntry {
    LogprobEntry(
      token: .init(bytes: model.tokenizer.bytes(of: token.id), logprob: token.logprob),
      top: token.top.map { .init(bytes: model.tokenizer.bytes(of: $0.id), logprob: $0.logprob) })
  }

  /// The first token of a prompt: nothing predicts it.
  func unpredicted(_ id: Int32) -> LogprobEntry {
    LogprobEntry(token: .init(bytes: model.tokenizer.bytes(of: id), logprob: nil), top: [])
  }

  /// Unicode scalars of a token's text; none for a part of a character.
  func scalars(of id: Int32) -> Int {
    String(validating: model.tokenizer.bytes(of: id), as: UTF8.self)?.unicodeScalars.count ?? 0
  }
}
