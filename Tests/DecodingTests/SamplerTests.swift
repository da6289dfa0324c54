// The sampler: literal cases, agreement with a slow exact model of itself, and the statistics of its draws.

import Platform
import Sampling
import Support
import Testing

@testable import Decoding

private func makeParameters(_ change: (inout SamplingParameters) -> Void) -> SamplingParameters {
  var parameters = SamplingParameters()
  change(&parameters)
  return parameters
}

private func sample(
  _ logits: [Float], _ parameters: SamplingParameters = SamplingParameters(), seed: UInt64 = 1, step: Int = 0,
  stopTokens: Set<Int32> = [], top: Int? = nil
) -> SampledToken {
  var sampler = Sampler(parameters, seed: seed, promptTokens: [], stopTokens: stopTokens)
  var row = logits
  return sampler.sample(&row, step: step, wantTop: top)
}

private let greedy = makeParameters { $0.temperature = 0 }

/// The exact probabilities of the documented order, by sorting and in double precision.
private func exactProbabilities(_ logits: [Float], _ p: SamplingParameters) -> [Double] {
  let scaled = logits.map { Double($0) / Double(p.temperature) }
  let order = logits.indices.filter { !scaled[$0].isNaN }.sorted {
    logits[$0] != logits[$1] ? logits[$0] > logits[$1] : $0 < $1
  }
  var kept = Array(order.prefix(p.topK > 0 ? p.topK : .max))
  let best = scaled[order[0]]
  func weights() -> [Double] { kept.map { exp(scaled[$0] - best) } }
  if p.topP < 1 {
    let all = weights()
    let total = all.reduce(0, +)
    var mass = 0.0
    var count = 0
    while count < all.count && (count == 0 || mass < Double(p.topP) * total) {
      mass += all[count]
      count += 1
    }
    kept = Array(kept.prefix(count))
  }
  kept.removeAll { exp(scaled[$0] - best) < Double(p.minP) }
  let all = weights()
  let total = all.reduce(0, +)
  var result = [Double](repeating: 0, count: logits.count)
  for (index, weight) in zip(kept, all) { result[index] = weight / total }
  return result
}

@Suite struct GreedyTests {
  @Test func `temperature 0 takes the largest logit, the lowest id among equals`() {
    #expect(sample([1, 3, 2], greedy).id == 1)
    #expect(sample([1, 3, 3], greedy).id == 1)
    #expect(sample([0, -0.0], greedy).id == 0)
    #expect(sample([-0.0, 0], greedy).id == 0)
    #expect(sample([7], greedy).id == 0)
    var wide = [Float](repeating: -1, count: 1000)
    wide[700] = 5
    wide[999] = 5
    #expect(sample(wide, greedy).id == 700)
  }

  @Test(arguments: [0, -0.0, 1e-6, -1, .nan] as [Float])
  func `tiny and senseless temperatures are greedy`(temperature: Float) {
    let parameters = makeParameters { $0.temperature = temperature }
    for seed in UInt64(0)..<20 { #expect(sample([1, 1.0001, 0.9], parameters, seed: seed).id == 1) }
  }

  @Test func `top_k 1 is greedy at any temperature`() {
    let parameters = makeParameters {
      $0.temperature = 1e6
      $0.topK = 1
    }
    for seed in UInt64(0)..<20 { #expect(sample([1, 1.0001, 0.9], parameters, seed: seed).id == 1) }
  }

  @Test func `NaN and infinities do not get in the way`() {
    #expect(sample([.nan, 1, .nan, 2], greedy).id == 3)
    #expect(sample([.nan, -.infinity, -3], greedy).id == 2)
    #expect(sample([1, .infinity, .infinity], greedy).id == 1)
    for seed in UInt64(0)..<50 {
      let drawn = sample([.nan, .infinity, 3, .infinity, -.infinity], seed: seed)
      #expect([1, 3].contains(drawn.id) && !drawn.isArbitrary)
    }
    #expect(sample([.greatestFiniteMagnitude, -.greatestFiniteMagnitude]).id == 0)
  }

  @Test func `a row without any number gives a stop token and says so`() {
    for logits: [Float] in [[.nan, .nan], [-.infinity, -.infinity], []] {
      for parameters in [greedy, SamplingParameters()] {
        let drawn = sample(logits, parameters, stopTokens: [9, 4], top: 2)
        #expect(drawn.id == 4)
        #expect(drawn.isArbitrary)
        #expect(drawn.top.isEmpty)
        #expect(drawn.logprob == -9999)
      }
    }
    #expect(sample([.nan]).id == 0)
  }
}

@Suite struct SamplerTests {
  @Test func `each filter keeps the tokens it should`() {
    // Probabilities 0.5, 0.25, 0.125, 0.125.
    let logits: [Float] = [3, 2, 1, 1].map { $0 * 0.693_147_2 }
    func support(_ change: (inout SamplingParameters) -> Void) -> Set<Int32> {
      let parameters = makeParameters(change)
      return Set((UInt64(0)..<300).map { sample(logits, parameters, seed: $0).id })
    }
    #expect(support { _ in } == [0, 1, 2, 3])
    #expect(support { $0.topK = 2 } == [0, 1])
    #expect(support { $0.topK = 3 } == [0, 1, 2])
    #expect(support { $0.topK = 4 } == [0, 1, 2, 3])
    #expect(support { $0.topK = 1000 } == [0, 1, 2, 3])
    #expect(support { $0.topP = 0 } == [0])
    #expect(support { $0.topP = 0.49 } == [0])
    #expect(support { $0.topP = 0.51 } == [0, 1])
    #expect(support { $0.topP = 0.8 } == [0, 1, 2])
    #expect(support { $0.topP = 0.9 } == [0, 1, 2, 3])
    #expect(support { $0.minP = 0.4 } == [0, 1])
    #expect(support { $0.minP = 1 } == [0])
    #expect(support { $0.minP = 0.2 } == [0, 1, 2, 3])
    // top_p acts on what top_k left: 0.5 of 0.75 is 0.67.
    #expect(
      support {
        $0.topK = 2
        $0.topP = 0.6
      } == [0])
    // The temperature comes first: at 0.5 the probabilities are 16, 4, 1, 1 of 22.
    #expect(
      support {
        $0.temperature = 0.5
        $0.topP = 0.72
      } == [0])
    #expect(
      support {
        $0.topP = 0.9
        $0.minP = 0.4
      } == [0, 1])
    // Values that `check` refuses switch a filter off or keep the best token.
    #expect(support { $0.topP = .nan } == [0, 1, 2, 3])
    #expect(support { $0.minP = .nan } == [0, 1, 2, 3])
    #expect(support { $0.minP = 7 } == [0])
    #expect(support { $0.topP = -1 } == [0])
    #expect(support { $0.topK = -1 } == [0, 1, 2, 3])
    #expect(support { $0.temperature = .infinity } == [0, 1, 2, 3])
  }

  @Test func `every draw is the exact inverse of the distribution function`() {
    var random = SeededGenerator(seed: 5)
    for round in 0..<400 {
      let size = Int.random(in: 1...400, using: &random)
      let spread = Float.random(in: 0.1...6, using: &random)
      var logits = (0..<size).map { _ in Float.random(in: -spread...spread, using: &random) }
      if round % 5 == 0 { logits = logits.map { $0.rounded() } }
      let parameters = makeParameters {
        $0.temperature = [0.2, 0.7, 1, 2][round % 4]
        if round % 3 > 0 { $0.topK = Int.random(in: 1...size + 5, using: &random) }
        if round % 7 > 2 { $0.topP = Float.random(in: 0...1, using: &random) }
        if round % 11 > 6 { $0.minP = Float.random(in: 0...0.5, using: &random) }
      }
      let exact = exactProbabilities(logits, parameters)
      for step in 0..<20 {
        let drawn = Int(sample(logits, parameters, seed: UInt64(round), step: step).id)
        let u = Random.uniform(seed: UInt64(round), step: UInt64(step))
        let below = exact[..<drawn].reduce(0, +)
        // The set that is kept may differ by a token whose probability lies on the very edge.
        #expect(
          u >= below - 1e-5 && u <= below + exact[drawn] + 1e-5,
          "round \(round) step \(step): \(parameters) drew \(drawn)")
      }
    }
  }

  @Test(arguments: [
    makeParameters { _ in },
    makeParameters { $0.temperature = 0.7 },
    makeParameters {
      $0.temperature = 1.5
      $0.topK = 12
    },
    makeParameters { $0.topP = 0.8 },
    makeParameters {
      $0.temperature = 0.9
      $0.topK = 20
      $0.topP = 0.9
      $0.minP = 0.05
    },
  ])
  func `frequencies of draws match the exact probabilities`(parameters: SamplingParameters) {
    var random = SeededGenerator(seed: 17)
    let logits = (0..<100).map { _ in Float.random(in: -3...3, using: &random) }
    let exact = exactProbabilities(logits, parameters)
    let draws = 8000
    var counts = [Int](repeating: 0, count: logits.count)
    var sampler = Sampler(parameters, seed: 99, promptTokens: [], stopTokens: [])
    for step in 0..<draws {
      var row = logits
      counts[Int(sampler.sample(&row, step: step, wantTop: nil).id)] += 1
    }
    var chiSquare = 0.0
    var bins = 0
    for (count, probability) in zip(counts, exact) {
      if probability == 0 {
        #expect(count == 0)
        continue
      }
      let expected = probability * Double(draws)
      chiSquare += (Double(count) - expected) * (Double(count) - expected) / expected
      bins += 1
    }
    // The statistic has mean n and standard deviation sqrt(2n): five of them are never exceeded by chance.
    let freedom = Double(bins - 1)
    #expect(chiSquare < freedom + 5 * (2 * freedom).squareRoot(), "\(chiSquare) for \(freedom)")
  }

  @Test func `a draw depends on seed and step, not on the draws before it`() {
    let logits = (0..<500).map { Float($0 % 17) / 4 }
    let parameters = makeParameters { $0.topP = 0.95 }
    var all = Sampler(parameters, seed: 3, promptTokens: [], stopTokens: [])
    let whole = (0..<30).map { step in
      var row = logits
      return all.sample(&row, step: step, wantTop: nil).id
    }
    #expect(Set(whole).count > 5)
    for step in [0, 13, 29] { #expect(sample(logits, parameters, seed: 3, step: step).id == whole[step]) }
    #expect((0..<30).map { sample(logits, parameters, seed: 4, step: $0).id } != whole)
  }

  @Test func `any bits as logits and any parameters give a token of the row`() {
    var random = SeededGenerator(seed: 23)
    let odd: [Float] = [0, 1, -1, 1e-7, 0.3, 2, 1e30, .infinity, -.infinity, .nan, .greatestFiniteMagnitude]
    func pick() -> Float { odd[Int.random(in: 0..<odd.count, using: &random)] }
    for round in 0..<3000 {
      let size = Int.random(in: 1...200, using: &random)
      var logits = (0..<size).map { _ in Float(bitPattern: UInt32(truncatingIfNeeded: random.next())) }
      if round % 2 == 0 { logits = logits.map { _ in pick() } }
      let parameters = makeParameters {
        ($0.temperature, $0.topP, $0.minP) = (pick(), pick(), pick())
        $0.topK = [0, 1, 5, -3, .max, .min][round % 6]
        ($0.repetitionPenalty, $0.presencePenalty, $0.frequencyPenalty) = (pick(), pick(), pick())
        $0.logitBias = [0: pick(), 3: pick()]
      }
      var sampler = Sampler(parameters, seed: random.next(), promptTokens: [0, 1, 2], stopTokens: [7])
      for step in 0..<3 {
        var row = logits
        let drawn = sampler.sample(&row, step: step, wantTop: round % 3 == 0 ? 5 : nil)
        #expect(drawn.isArbitrary ? drawn.id == 7 : logits.indices.contains(Int(drawn.id)))
        #expect(drawn.logprob <= 0 && drawn.logprob >= -9999)
      }
    }
  }

  @Test func `an absurd step is a step like any other`() {
    #expect((0..<4).contains(sample([1, 1, 1, 1], step: .max).id))
    #expect((0..<4).contains(sample([1, 1, 1, 1], step: -1).id))
  }
}

@Suite struct LogitBiasTests {
  @Test func `a bias is added before everything else`() {
    #expect(sample([1, 3, 2], makeParameters { ($0.temperature, $0.logitBias) = (0, [1: -100]) }).id == 2)
    #expect(sample([1, 3, 2], makeParameters { ($0.temperature, $0.logitBias) = (0, [0: 100]) }).id == 0)
    #expect(
      sample([1, 3, 2], makeParameters { ($0.temperature, $0.logitBias) = (0, [1: -.infinity]) }).id == 2)
  }

  @Test func `banned tokens never appear`() {
    let parameters = makeParameters { $0.logitBias = [1: -.infinity, 2: -.infinity] }
    for seed in UInt64(0)..<50 { #expect(sample([0, 50, .infinity, 0], parameters, seed: seed).id % 3 == 0) }
  }

  @Test func `stop tokens are banned until min_tokens are there`() {
    let parameters = makeParameters { ($0.temperature, $0.minTokens) = (0, 2) }
    #expect(sample([1, 9], parameters, step: 0, stopTokens: [1]).id == 0)
    #expect(sample([1, 9], parameters, step: 1, stopTokens: [1]).id == 0)
    #expect(sample([1, 9], parameters, step: 2, stopTokens: [1]).id == 1)
  }

  @Test func `ids outside the row are passed over`() {
    let parameters = makeParameters {
      $0.temperature = 0
      $0.logitBias = [-1: 5, 3: 5, .max: 5, .min: 5, -7: -.infinity, 1000: -.infinity]
      $0.minTokens = 4
    }
    #expect(sample([1, 3, 2], parameters, stopTokens: [-1, 77]).id == 1)
  }

  @Test func `when everything is banned the answer is arbitrary`() {
    let parameters = makeParameters { $0.logitBias = [0: -.infinity, 1: -.infinity] }
    #expect(sample([1, 2], parameters).isArbitrary)
  }
}
