// Mirostat: keeps the surprise of an answer near an aim, by cutting off what is too surprising for now.
// Source: Basu et al., "Mirostat: A Neural Text Decoding Algorithm that Directly Controls Perplexity", ICLR 2021.

import Sampling

/// The state of one sequence: how much surprise its next token may have.
struct Mirostat: Sendable {
  private let version: Int
  private let tau: Double
  private let eta: Double
  /// Bits.
  private(set) var allowedSurprise: Double

  /// Tokens from which version 1 estimates how steeply probabilities fall.
  private static let estimationTokens = 100
  private static let ln2 = 0.693_147_180_559_945_309

  /// Nil when it is off.
  init?(_ parameters: SamplingParameters) {
    guard parameters.mirostat > 0 else { return nil }
    version = parameters.mirostat
    tau = max(0, Double(parameters.mirostatTau))
    eta = Double(parameters.mirostatEta)
    allowedSurprise = 2 * tau
  }

  /// Draws a position of a row of logits, and learns from its surprise.
  mutating func draw(
    _ row: UnsafeMutableBufferPointer<Float>, maxima: [Float], temperature: Float, uniform: Double
  ) -> Int? {
    guard let largest = maxima.max(), largest > -.infinity else { return nil }
    var best: [RankedKey] = []
    if version == 1 {
      best = Selection.largest(
        Self.estimationTokens, of: UnsafeBufferPointer(row), blockMaxima: maxima
      ).sorted(by: >)
    }
    var weights = WeightedRow(
      exponentiating: row, largest: largest, scale: 1 / temperature, keepsLogits: false)
    // The logits are gone; the order of the weights is theirs.
    let cut = version == 1 ? rankCut(best, weights) : surpriseCut(weights)
    weights.sums = VectorMath.drop(
      row, below: cut.value, lastEqual: cut.position, blockMaxima: VectorMath.blockMaxima(.init(row)))
    guard let position = Sampler.position(in: .init(row), at: uniform, blockSums: weights.sums) else {
      return nil
    }
    learn(probability: Double(row[position]) / weights.total)
    return position
  }

  private mutating func learn(probability: Double) {
    guard probability > 0 else { return }
    let surprise = -VectorMath.logarithm(probability) / Self.ln2
    allowedSurprise -= eta * (surprise - tau)
  }

  /// Version 2: the least weight whose surprise is allowed; the likeliest token always stays.
  private func surpriseCut(_ weights: WeightedRow) -> RankedKey {
    let bound = weights.total * VectorMath.exponential(-allowedSurprise * Self.ln2)
    guard bound < 1 else {
      let first = weights.row.firstIndex { $0 >= 1 } ?? 0
      return RankedKey(value: 1, position: first)
    }
    return RankedKey(value: max(Float(bound), 1e-38), position: RankedKey.last)
  }

  /// Version 1: the last of the `k` likeliest tokens, where `k` gives the surprise under a law of Zipf.
  private func rankCut(_ best: [RankedKey], _ weights: WeightedRow) -> RankedKey {
    let count = weights.row.count
    let k = Self.tokens(
      allowedSurprise: allowedSurprise, vocabulary: count,
      logWeights: best.map { key in
        VectorMath.logarithm(max(Double(weights.row[key.position]), .leastNormalMagnitude))
      })
    if k <= best.count, k > 0 {
      let key = best[k - 1]
      return RankedKey(value: max(weights.row[key.position], 1e-38), position: key.position)
    }
    let row = UnsafeBufferPointer(weights.row)
    let kept = Selection.largest(k, of: row, blockMaxima: VectorMath.blockMaxima(row))
    let last = kept.min() ?? RankedKey(value: 0, position: RankedKey.last)
    return RankedKey(value: max(last.value, 1e-38), position: last.position)
  }

  /// How many of the likeliest tokens to keep.
  ///
  /// - Parameter logWeights: of the likeliest tokens, in descending order, natural.
  static func tokens(allowedSurprise: Double, vocabulary: Int, logWeights: [Double]) -> Int {
    var products = 0.0
    var squares = 0.0
    for (index, (this, next)) in zip(logWeights, logWeights.dropFirst()).enumerated() {
      let t = VectorMath.logarithm(Double(index + 2) / Double(index + 1))
      products += t * (this - next)
      squares += t * t
    }
    let slope = squares > 0 ? products / squares : 0
    guard slope > 1e-9 else { return vocabulary }
    let excess = slope - 1
    let reach = VectorMath.exponential(allowedSurprise * ln2)
    let share = 1 - VectorMath.power(Double(vocabulary), -excess)
    // At a slope of 1 the quotient has a limit.
    let base =
      abs(excess) < 1e-9 ? reach / VectorMath.logarithm(Double(max(vocabulary, 2))) : excess * reach / share
    let k = VectorMath.power(base, 1 / slope)
    return Int(max(1, min(k, Double(vocabulary))))
  }
}
