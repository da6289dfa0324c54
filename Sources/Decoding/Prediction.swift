// What a row of logits says about the next token: how likely one is, and how far two rows disagree.

/// The softmax of a row of logits. Natural logarithms throughout: likelihoods and divergences are in nats.
package struct Prediction: Sendable {
  private let logits: [Float]
  /// The largest logit; -infinity when the row holds no number.
  private let maximum: Float
  /// Σ exp(logit - maximum): from 1 to the number of logits.
  private let sum: Double

  /// O(vocabulary). NaN counts as negative infinity.
  package init(logits: [Float]) {
    self.logits = logits
    (maximum, sum) = logits.withUnsafeBufferPointer { row in
      let maximum = VectorMath.blockMaxima(row).max() ?? -.infinity
      return (maximum, maximum.isFinite ? VectorMath.sumOfExponentials(row, maximum: maximum) : 1)
    }
  }

  /// -ln p(token): 0 for a certain token; infinity for an impossible one, and where the logits are not finite.
  package func negativeLogLikelihood(of token: Int32) -> Double {
    guard maximum.isFinite, logits.indices.contains(Int(token)) else { return .infinity }
    let logit = logits[Int(token)]
    return logit.isNaN ? .infinity : max(0, VectorMath.logarithm(sum) - (Double(logit) - Double(maximum)))
  }

  /// The likeliest token, the lowest id among equals; nil when the logits are not finite.
  package var likeliest: Int32? {
    guard maximum.isFinite else { return nil }
    return logits.firstIndex(of: maximum).flatMap { Int32(exactly: $0) }
  }

  /// KL(self ‖ other) = Σ p · ln(p / q): what it costs to predict by `other` what `self` describes.
  ///
  /// At least 0. Infinity when `other` calls impossible what `self` does not, or the rows differ in length.
  package func divergence(from other: Prediction) -> Double {
    guard maximum.isFinite, other.maximum.isFinite, logits.count == other.logits.count else {
      return .infinity
    }
    let weighted = logits.withUnsafeBufferPointer { p in
      other.logits.withUnsafeBufferPointer { q in
        VectorMath.sumOfWeightedDifferences(p, maximum: maximum, q, maximum: other.maximum)
      }
    }
    let divergence = weighted / sum - VectorMath.logarithm(sum) + VectorMath.logarithm(other.sum)
    return divergence.isNaN ? .infinity : max(0, divergence)
  }
}
