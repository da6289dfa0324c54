// Samplers in the order of a request, against a slow model that sorts and computes in double precision.

import Platform
import Sampling
import Support
import Testing

@testable import Decoding

/// Prompt and answer in which the sequence 1, 2 comes twice: 9 followed it.
private let prompt: [Int32] = [1, 2, 9, 4, 1, 2]

private func makeParameters(_ change: (inout SamplingParameters) -> Void) -> SamplingParameters {
  var parameters = SamplingParameters()
  change(&parameters)
  return parameters
}

/// What one request's samplers leave of a row, one after the other.
private struct SlowChain {
  let parameters: SamplingParameters
  /// Whether top choices are left out.
  let excludes: Bool
  var left: [(id: Int, logit: Double)]

  private var best: Double { left.map(\.logit).max() ?? 0 }

  var probabilities: [Double] {
    let weights = left.map { exp($0.logit - best) }
    let total = weights.reduce(0, +)
    return weights.map { $0 / total }
  }

  private var entropy: Double { probabilities.reduce(0) { $0 - ($1 > 0 ? $1 * log($1) : 0) } }

  /// The likeliest first, the lower id among equals.
  private mutating func sort() {
    left.sort { $0.logit != $1.logit ? $0.logit > $1.logit : $0.id < $1.id }
  }

  mutating func apply(_ stage: SamplerStage) {
    let p = parameters
    switch stage {
    case .penalties:
      for index in left.indices where prompt.contains(Int32(left[index].id)) {
        let logit = left[index].logit
        left[index].logit =
          logit > 0 ? logit / Double(p.repetitionPenalty) : logit * Double(p.repetitionPenalty)
      }
    case .dry:
      for index in left.indices where left[index].id == 9 { left[index].logit -= Double(p.dryMultiplier) }
    case .topNSigma:
      let mean = left.reduce(0) { $0 + $1.logit } / Double(left.count)
      let variance = left.reduce(0) { $0 + ($1.logit - mean) * ($1.logit - mean) } / Double(left.count)
      let bound = best - Double(p.topNSigma) * variance.squareRoot()
      left.removeAll { $0.logit < bound }
    case .topK:
      sort()
      left = Array(left.prefix(p.topK))
    case .typicalP:
      let (all, entropy) = (probabilities, entropy)
      let order = left.indices.sorted {
        let (x, y) = (abs(-log(all[$0]) - entropy), abs(-log(all[$1]) - entropy))
        return x != y ? x < y : left[$0].id < left[$1].id
      }
      var (mass, kept) = (0.0, [Int]())
      for index in order where mass <= Double(p.typicalP) {
        mass += all[index]
        kept.append(index)
      }
      left = kept.map { left[$0] }
    case .topP:
      sort()
      let all = probabilities
      var (mass, count) = (0.0, 0)
      while count < all.count, mass < Double(p.topP) {
        mass += all[count]
        count += 1
      }
      left = Array(left.prefix(count))
    case .minP:
      let bound = best + log(Double(p.minP))
      left.removeAll { $0.logit < bound }
    case .xtc:
      guard excludes else { return }
      sort()
      let choices = probabilities.prefix { $0 >= Double(p.xtcThreshold) }.count
      left.removeFirst(max(0, choices - 1))
    case .temperature:
      var temperature = Double(p.temperature)
      if p.dynatempRange > 0 {
        guard left.count > 1 else { return }
        let share = entropy / log(Double(left.count))
        let (low, high) = (
          max(0, temperature - Double(p.dynatempRange)), temperature + Double(p.dynatempRange)
        )
        temperature = low + (high - low) * pow(share, Double(p.dynatempExponent))
      }
      for index in left.indices { left[index].logit /= temperature }
    }
  }
}

@Suite struct SamplerOrderTests {
  @Test func `any order leaves what the slow model leaves`() {
    var random = SeededGenerator(seed: 5)
    for round in 0..<400 {
      let logits = (0..<300).map { _ in Float.random(in: -6...6, using: &random) }
      let stages = SamplerStage.allCases.shuffled(using: &random).prefix(
        Int.random(in: 0...9, using: &random))
      let parameters = makeParameters { p in
        p.order = Array(stages)
        p.repetitionPenalty = Float.random(in: 1.1...2, using: &random)
        p.dryMultiplier = Float.random(in: 0.5...2, using: &random)
        p.topNSigma = Float.random(in: 0.8...2, using: &random)
        p.topK = Int.random(in: 3...200, using: &random)
        p.typicalP = Float.random(in: 0.3...0.95, using: &random)
        p.topP = Float.random(in: 0.3...0.99, using: &random)
        p.minP = Float.random(in: 0.001...0.2, using: &random)
        p.xtcProbability = 0.5
        p.xtcThreshold = Float.random(in: 0.01...0.3, using: &random)
        p.temperature = Float.random(in: 0.3...3, using: &random)
        p.dynatempRange = Bool.random(using: &random) ? 0.25 : 0
        p.dynatempExponent = Float.random(in: 0.5...2, using: &random)
      }
      let sampler = Sampler(parameters, seed: UInt64(round), promptTokens: prompt, stopTokens: [])
      var slow = SlowChain(
        parameters: parameters, excludes: sampler.excludesTopChoices(step: 3),
        left: logits.enumerated().map { ($0.offset, Double($0.element)) })
      for stage in stages { slow.apply(stage) }
      var expected = [Double](repeating: 0, count: logits.count)
      for (token, probability) in zip(slow.left, slow.probabilities) { expected[token.id] = probability }

      var row = logits
      row.withUnsafeMutableBufferPointer { row in
        for stage in stages { sampler.apply(stage, to: row, step: 3) }
      }
      let best = Double(row.max() ?? 0)
      let weights = row.map { exp(Double($0) - best) }
      let total = weights.reduce(0, +)
      for (id, weight) in weights.enumerated() {
        #expect(
          abs(weight / total - expected[id]) < 1e-4 && (weight > 0) == (expected[id] > 0),
          "round \(round), \(stages), token \(id)")
      }
    }
  }

  @Test func `a filter before the temperature leaves out more than after it`() {
    func drawn(_ order: [SamplerStage]) -> Set<Int32> {
      let parameters = makeParameters {
        $0.temperature = 2
        $0.minP = 0.5
        $0.order = order
      }
      return Set(
        (0..<100 as Range<UInt64>).map { seed in
          var sampler = Sampler(parameters, seed: seed, promptTokens: [], stopTokens: [])
          var row: [Float] = [1, 2, -4]
          return sampler.sample(&row, step: 0, wantTop: nil).id
        })
    }
    #expect(drawn([.minP, .temperature]) == [1])
    #expect(drawn([.temperature, .minP]) == [0, 1])
    #expect(drawn([.temperature]) == [0, 1, 2])
    #expect(drawn([]).isSuperset(of: [0, 1]))
  }

  @Test func `a temperature of 0 takes the likeliest of what is left when its turn comes`() {
    func drawn(_ order: [SamplerStage]) -> Int32 {
      let parameters = makeParameters {
        $0.temperature = 0
        $0.xtcProbability = 1
        $0.xtcThreshold = 0.1
        $0.order = order
      }
      var sampler = Sampler(parameters, seed: 1, promptTokens: [], stopTokens: [])
      var row: [Float] = [1, 2, -4]
      return sampler.sample(&row, step: 0, wantTop: nil).id
    }
    #expect(drawn([.temperature, .xtc]) == 1)
    #expect(drawn([.xtc, .temperature]) == 0)
  }

  @Test(arguments: SamplerStage.allCases)
  func `what cannot be computed with still gives a token`(stage: SamplerStage) {
    let parameters = makeParameters {
      $0.order = [stage, .temperature, stage]
      $0.temperature = 1e-4
      $0.topNSigma = 1
      $0.topK = 2
      $0.typicalP = 0
      $0.topP = 0
      $0.minP = 1
      $0.xtcProbability = 1
      $0.xtcThreshold = 0
      $0.dynatempRange = 1e-4
    }
    let rows: [[Float]] = [
      [.nan, 1, .infinity], [-.infinity, .nan, -3], [.greatestFiniteMagnitude, -1e38, 0],
    ]
    for logits in rows {
      var sampler = Sampler(parameters, seed: 1, promptTokens: [], stopTokens: [])
      var row = logits
      let token = sampler.sample(&row, step: 0, wantTop: nil)
      #expect(!token.isArbitrary && !logits[Int(token.id)].isNaN)
    }
  }
}
