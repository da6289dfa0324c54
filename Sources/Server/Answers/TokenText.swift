// What a stream of tokens says, in the words of the API: log probabilities, and how a choice ended.

import Decoding
import OpenAI
import Pipeline
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

extension ChoiceFinish {
  init(_ end: TokenStream.End) {
    switch end {
    case .stop: self = .stop
    case .length: self = .length
    case .toolCalls: self = .toolCalls
    }
  }
}
