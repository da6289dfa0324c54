// What a stream of tokens says, in the words of the API: log probabilities, and how a choice ended.

import Decoding
import JSON
import Pipeline
import Tokenizers
import Wire

extension RequestScope {
  func logprob(_ token: SampledToken) -> LogprobEntry {
    LogprobEntry(
      token: .init(bytes: model.tokenizer.bytes(of: token.id), logprob: token.logprob),
      top: token.top.map { .init(bytes: model.tokenizer.bytes(of: $0.id), logprob: $0.logprob) })
  }

  /// What is to be told of a prompt's tokens; `found` is empty where their log probabilities are not known.
  func promptDetails(_ options: GenerationOptions, prompt: [Int32], found: [SampledToken?]) -> TokenDetails {
    var details = TokenDetails(promptTokens: options.returnsTokens ? prompt : nil)
    guard options.promptLogprobs != nil else { return details }
    details.promptLogprobs = .list(count: prompt.count) { [self] position in
      guard found.indices.contains(position), let token = found[position] else { return .value(nil) }
      return .value(promptEntry(token).json)
    }
    return details
  }

  private func promptEntry(_ token: SampledToken) -> PromptLogprobEntry {
    func candidate(_ id: Int32, _ logprob: Float, rank: Int) -> PromptLogprobEntry.Candidate {
      PromptLogprobEntry.Candidate(
        id: id, alternative: .init(bytes: model.tokenizer.bytes(of: id), logprob: logprob), rank: rank)
    }
    return PromptLogprobEntry(
      candidates: [candidate(token.id, token.logprob, rank: Int(token.rank))]
        + token.top.enumerated().map { candidate($1.id, $1.logprob, rank: $0 + 1) })
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
