// Penalties on tokens that have already occurred, and the counts that they need.

import Sampling

/// The repetition penalty looks at prompt and answer (as in transformers), the presence and frequency penalties
/// at the answer alone (as in the OpenAI API).
struct Penalties: Sendable {
  private let repetition: Float
  private let presence: Float
  private let frequency: Float
  /// Last tokens that the repetition penalty looks at; negative for all.
  private let window: Int
  /// The tokens of prompt and answer, where the window asks for their order.
  private var recent: [Int32] = []
  /// Occurrences in the answer of every token seen; 0 for tokens of the prompt alone. Empty when unused.
  private var counts: [Int32: Int32] = [:]

  private var isActive: Bool { repetition != 1 || presence != 0 || frequency != 0 }

  init(_ parameters: SamplingParameters, promptTokens: [Int32]) {
    window = parameters.repeatLastN
    repetition = window == 0 ? 1 : parameters.repetitionPenalty
    presence = parameters.presencePenalty
    frequency = parameters.frequencyPenalty
    if repetition != 1 {
      if window > 0 {
        recent = promptTokens
      } else {
        for token in promptTokens { counts[token] = 0 }
      }
    }
  }

  /// Counts a token of the answer.
  mutating func record(_ token: Int32) {
    guard isActive else { return }
    counts[token, default: 0] &+= 1
    if window > 0 && repetition != 1 { recent.append(token) }
  }

  /// O(distinct tokens seen). Ids that the row does not have are passed over. False when there is nothing to change.
  func apply(to row: UnsafeMutableBufferPointer<Float>) -> Bool {
    let repeated = Set(recent.suffix(max(0, window)))
    for token in repeated where counts[token] == nil && row.indices.contains(Int(token)) {
      let logit = row[Int(token)]
      row[Int(token)] = logit > 0 ? logit / repetition : logit * repetition
    }
    for (token, count) in counts {
      let id = Int(token)
      guard row.indices.contains(id) else { continue }
      var logit = row[id]
      if repetition != 1 && (window < 0 || repeated.contains(token)) {
        logit = logit > 0 ? logit / repetition : logit * repetition
      }
      if count > 0 { logit -= presence + frequency * Float(count) }
      row[id] = logit
    }
    return !counts.isEmpty || !repeated.isEmpty
  }
}
