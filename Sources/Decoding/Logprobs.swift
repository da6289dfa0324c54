// A sampled token, and the log probabilities to report with it.

/// A token with its natural logarithm of probability.
package struct TokenLogprob: Sendable, Equatable {
  package let id: Int32
  /// At most 0, at least -9999, never NaN.
  package let logprob: Float

  package init(id: Int32, logprob: Float) {
    (self.id, self.logprob) = (id, logprob)
  }
}

/// The sampler's answer for one position.
package struct SampledToken: Sendable, Equatable {
  package let id: Int32
  /// Of the model's own distribution, before bias, penalties and temperature. 0 when not requested.
  package let logprob: Float
  /// The most likely tokens of that distribution, most likely first; empty when not requested.
  package let top: [TokenLogprob]
  /// How many tokens were likelier, plus 1; 0 when not requested.
  package let rank: Int32
  /// True when the logits held no number for any token that is allowed: the model is broken, or everything is
  /// banned. The id then means nothing, and the sequence should end.
  package let isArbitrary: Bool

  package init(
    id: Int32, logprob: Float = 0, top: [TokenLogprob] = [], isArbitrary: Bool = false, rank: Int32 = 0
  ) {
    (self.rank, self.id, self.logprob) = (rank, id, logprob)
    (self.top, self.isArbitrary) = (top, isArbitrary)
  }
}

/// Log probabilities of a row of logits. Natural logarithms.
package enum Logprobs {
  /// What OpenAI reports for a token too unlikely for a finite number.
  static let lowest: Float = -9999

  /// The log probability of `token` and of the `top` most likely tokens under the softmax of `logits`.
  ///
  /// O(vocabulary). Among equally likely tokens the one with the lower id comes first.
  ///
  /// - Parameter ranks: whether the token's rank is told.
  package static func describe(token: Int32, logits: [Float], top: Int, ranks: Bool = false) -> SampledToken {
    logits.withUnsafeBufferPointer { row in
      let maxima = VectorMath.blockMaxima(row)
      let maximum = min(maxima.max() ?? -.infinity, .greatestFiniteMagnitude)
      guard maximum > -.infinity else { return SampledToken(id: token, logprob: lowest, isArbitrary: true) }
      let logSum = VectorMath.logarithm(VectorMath.sumOfExponentials(row, maximum: maximum))
      func logprob(_ logit: Float) -> Float {
        let exact = Double(min(logit, .greatestFiniteMagnitude)) - Double(maximum) - logSum
        return exact > Double(lowest) ? Float(min(exact, 0)) : lowest
      }
      let best = Selection.largest(top, of: row, blockMaxima: maxima).sorted(by: >)
      let index = Int(token)
      return SampledToken(
        id: token, logprob: row.indices.contains(index) ? logprob(row[index]) : lowest,
        top: best.map {
          TokenLogprob(id: Int32(truncatingIfNeeded: $0.position), logprob: logprob($0.value))
        },
        rank: ranks && row.indices.contains(index)
          ? 1 + row.reduce(0) { $0 + ($1 > row[index] ? 1 : 0) } : 0)
    }
  }
}
