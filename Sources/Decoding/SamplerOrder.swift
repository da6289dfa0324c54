// Samplers in the order of a request: each works on what those before it have left.

import Sampling

extension Sampler {
  /// Applies the samplers and draws a position.
  ///
  /// - Parameter row: logits, at least one of them above negative infinity, none above the largest finite number.
  func drawInOrder(_ row: UnsafeMutableBufferPointer<Float>, step: Int) -> Int? {
    for stage in parameters.order ?? [] { apply(stage, to: row, step: step) }
    let weights = WeightedRow(
      exponentiating: row, largest: Self.largest(row), scale: 1, keepsLogits: false)
    let uniform = Random.uniform(seed: seed, step: UInt64(clamping: step))
    return Self.position(in: UnsafeBufferPointer(row), at: uniform, blockSums: weights.sums)
  }

  /// One of them. What it leaves out becomes negative infinity.
  func apply(_ stage: SamplerStage, to row: UnsafeMutableBufferPointer<Float>, step: Int) {
    switch stage {
    case .penalties: _ = penalties.apply(to: row)
    case .dry: _ = repetitions?.apply(to: row, after: text ?? [])
    case .topNSigma:
      guard parameters.topNSigma > 0 else { return }
      _ = SigmaFilter.apply(row, deviations: parameters.topNSigma, largest: Self.largest(row))
    case .topK: keepLargest(parameters.topK, of: row)
    case .typicalP where parameters.typicalP < 1: filter(row) { $0.keepTypical(mass: parameters.typicalP) }
    case .topP where parameters.topP < 1: filter(row) { $0.cut(topP: parameters.topP, minP: 0) }
    case .minP where parameters.minP > 0: filter(row) { $0.cut(topP: 1, minP: parameters.minP) }
    case .xtc where excludesTopChoices(step: step):
      filter(row) { $0.excludeTopChoices(threshold: parameters.xtcThreshold) }
    case .typicalP, .topP, .minP, .xtc: return
    case .temperature: heat(row)
    }
  }

  private static func largest(_ row: UnsafeMutableBufferPointer<Float>) -> Float {
    VectorMath.blockMaxima(UnsafeBufferPointer(row)).max() ?? -.infinity
  }

  private func keepLargest(_ count: Int, of row: UnsafeMutableBufferPointer<Float>) {
    guard count > 0, count < row.count else { return }
    let read = UnsafeBufferPointer(row)
    let best = Selection.largest(count, of: read, blockMaxima: VectorMath.blockMaxima(read))
    row.update(repeating: -.infinity)
    for key in best { row[key.position] = key.value }
  }

  /// Leaves out what a filter of weights leaves out.
  private func filter(_ row: UnsafeMutableBufferPointer<Float>, _ change: (inout WeightedRow) -> Void) {
    weigh(row) { weights in
      change(&weights)
      for (block, sum) in weights.sums.enumerated() {
        for position in VectorMath.positions(ofBlock: block, of: row.count)
        where sum == 0 || weights.row[position] <= 0 { row[position] = -.infinity }
      }
    }
  }

  /// The weights of what is left, beside the logits.
  private func weigh<Result>(
    _ row: UnsafeMutableBufferPointer<Float>, _ body: (inout WeightedRow) -> Result
  ) -> Result {
    var copy = Array(row)
    return copy.withUnsafeMutableBufferPointer { copy in
      var weights = WeightedRow(
        exponentiating: copy, largest: Self.largest(row), scale: 1, keepsLogits: true)
      return body(&weights)
    }
  }

  /// Divides the logits by the temperature, which may follow the entropy of what is left. Near 0 only the largest stays.
  private func heat(_ row: UnsafeMutableBufferPointer<Float>) {
    var temperature = Double(parameters.temperature)
    if parameters.dynatempRange > 0, !parameters.isGreedy {
      let found = weigh(row) { weights in
        weights.dynamicTemperature(
          weights.positions, parameters.temperature, parameters.dynatempRange, parameters.dynatempExponent)
      }
      guard let found else { return }
      temperature = found
    }
    guard temperature >= 1e-5 else { return keepLargest(1, of: row) }
    guard temperature != 1 else { return }
    for position in row.indices where row[position] > -.infinity {
      // A tiny temperature takes no logit out of the finite numbers.
      let logit = Double(row[position]) / temperature
      row[position] = Float(min(max(logit, -1e38), 1e38))
    }
  }
}
