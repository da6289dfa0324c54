// The filters beside top_k, top_p and min_p against a slow model of them that sorts, in double precision.

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

private func draw(_ logits: [Float], _ parameters: SamplingParameters, seed: UInt64, step: Int = 0) -> Int {
  var sampler = Sampler(parameters, seed: seed, promptTokens: [], stopTokens: [])
  var row = logits
  return Int(sampler.sample(&row, step: step, wantTop: nil).id)
}

private func support(_ logits: [Float], _ change: (inout SamplingParameters) -> Void) -> Set<Int> {
  let parameters = makeParameters(change)
  return Set((UInt64(0)..<400).map { draw(logits, parameters, seed: $0) })
}

/// Probabilities 0.5, 0.25, 0.125, 0.125.
private let halves: [Float] = [3, 2, 1, 1].map { $0 * 0.693_147_2 }

/// The documented order, step by step, on sorted candidates.
private struct SlowModel {
  let logits: [Double]
  var kept: [Int]
  var temperature: Double

  init(_ logits: [Float], _ p: SamplingParameters, excludesTop: Bool) {
    self.logits = logits.map(Double.init)
    temperature = p.dynatempRange > 0 ? 1 : Double(p.temperature)
    kept = logits.indices.sorted { logits[$0] != logits[$1] ? logits[$0] > logits[$1] : $0 < $1 }
    if p.topNSigma > 0 { sigma(Double(p.topNSigma)) }
    if p.topK > 0 { kept = Array(kept.prefix(p.topK)) }
    if p.typicalP < 1 { typical(Double(p.typicalP)) }
    if p.topP < 1 { nucleus(Double(p.topP)) }
    if p.minP > 0, let best = kept.first {
      let bound = Double(p.minP) * weight(best)
      let weights = Dictionary(uniqueKeysWithValues: kept.map { ($0, weight($0)) })
      kept = kept.filter { weights[$0] ?? 0 >= bound }
    }
    if excludesTop { exclude(Double(p.xtcThreshold)) }
    if p.dynatempRange > 0 { follow(p) }
  }

  private func weight(_ index: Int) -> Double { exp((logits[index] - logits[kept[0]]) / temperature) }

  var probabilities: [Double] {
    let total = kept.reduce(0) { $0 + weight($1) }
    var result = [Double](repeating: 0, count: logits.count)
    for index in kept { result[index] = weight(index) / total }
    return result
  }

  private var entropy: Double {
    probabilities.filter { $0 > 0 }.reduce(0) { $0 - $1 * log($1) }
  }

  private mutating func sigma(_ deviations: Double) {
    let mean = logits.reduce(0, +) / Double(logits.count)
    let variance = logits.reduce(0) { $0 + ($1 - mean) * ($1 - mean) } / Double(logits.count)
    let bound = logits[kept[0]] - deviations * variance.squareRoot()
    kept.removeAll { logits[$0] < bound }
  }

  private mutating func typical(_ mass: Double) {
    let p = probabilities
    let expected = entropy
    let order = kept.sorted { abs(-log(p[$0]) - expected) < abs(-log(p[$1]) - expected) }
    var sum = 0.0
    var chosen: Set<Int> = []
    for index in order {
      chosen.insert(index)
      sum += p[index]
      if sum > mass { break }
    }
    kept = kept.filter(chosen.contains)
  }

  private mutating func nucleus(_ mass: Double) {
    let p = probabilities
    var sum = 0.0
    var count = 0
    while count < kept.count && (count == 0 || sum < mass) {
      sum += p[kept[count]]
      count += 1
    }
    kept = Array(kept.prefix(count))
  }

  private mutating func exclude(_ threshold: Double) {
    let p = probabilities
    let count = kept.count(where: { p[$0] >= threshold })
    if count > 1 { kept = Array(kept.dropFirst(count - 1)) }
  }

  private mutating func follow(_ p: SamplingParameters) {
    guard kept.count > 1 else { return }
    let share = entropy / log(Double(kept.count))
    let low = max(0, Double(p.temperature) - Double(p.dynatempRange))
    let high = Double(p.temperature) + Double(p.dynatempRange)
    temperature = low + (high - low) * exp(Double(p.dynatempExponent) * log(share))
  }
}

@Suite struct FilterTests {
  @Test func `each filter keeps the tokens it should`() {
    // The mean of 3, 2, 1, 1 is 1.75, their deviation 0.829.
    #expect(support(halves) { $0.topNSigma = 1 } == [0])
    #expect(support(halves) { $0.topNSigma = 1.25 } == [0, 1])
    #expect(support(halves) { $0.topNSigma = 3 } == [0, 1, 2, 3])
    #expect(support(halves) { $0.topNSigma = -1 } == [0, 1, 2, 3])
    // The entropy is 1.75 bits: the second token's surprise of 2 is nearest, then the first one's.
    #expect(support(halves) { $0.typicalP = 0 } == [1])
    #expect(support(halves) { $0.typicalP = 0.24 } == [1])
    #expect(support(halves) { $0.typicalP = 0.26 } == [0, 1])
    #expect(support(halves) { $0.typicalP = 0.76 } == [0, 1, 2])
    #expect(support(halves) { $0.typicalP = 1 } == [0, 1, 2, 3])
    // Two tokens have a quarter or more: the first is left out.
    #expect(support(halves) { ($0.xtcProbability, $0.xtcThreshold) = (1, 0.2) } == [1, 2, 3])
    #expect(support(halves) { ($0.xtcProbability, $0.xtcThreshold) = (1, 0.1) } == [3])
    #expect(support(halves) { ($0.xtcProbability, $0.xtcThreshold) = (1, 0.4) } == [0, 1, 2, 3])
    #expect(support(halves) { ($0.xtcProbability, $0.xtcThreshold) = (1, 0.6) } == [0, 1, 2, 3])
    #expect(support(halves) { ($0.xtcProbability, $0.xtcThreshold) = (0, 0.1) } == [0, 1, 2, 3])
  }

  @Test func `top choices are left out as often as asked for`() {
    let parameters = makeParameters { ($0.xtcProbability, $0.xtcThreshold) = (0.25, 0.1) }
    let last = (0..<8_000).count { draw(halves, parameters, seed: 5, step: $0) == 3 }
    // A quarter of the steps, and an eighth of the others: 0.344; its deviation is 0.0053.
    #expect(abs(Double(last) / 8_000 - 0.34375) < 0.027)
  }

  @Test func `a dynamic temperature is low where the model is sure, and high where it is not`() {
    let parameters = makeParameters { ($0.temperature, $0.dynatempRange) = (1, 1) }
    // Nearly sure: nearly greedy. All equal: nothing to change.
    #expect((UInt64(0)..<200).allSatisfy { draw([9, 0, 0], parameters, seed: $0) == 0 })
    #expect(Set((UInt64(0)..<200).map { draw([1, 1, 1], parameters, seed: $0) }) == [0, 1, 2])
    #expect(
      support([2, 1, 0]) { ($0.temperature, $0.dynatempRange, $0.dynatempExponent) = (0, 1, 1) } == [0])
  }

  @Test func `every draw is what the slow model says`() {
    var random = SeededGenerator(seed: 31)
    for round in 0..<500 {
      let size = Int.random(in: 1...300, using: &random)
      let spread = Float.random(in: 0.5...6, using: &random)
      let logits = (0..<size).map { _ in Float.random(in: -spread...spread, using: &random) }
      let parameters = makeParameters {
        $0.temperature = [0.3, 0.8, 1, 1.7][round % 4]
        if round % 2 == 0 { $0.topNSigma = Float.random(in: 0.2...3, using: &random) }
        if round % 3 == 0 { $0.topK = Int.random(in: 1...size + 3, using: &random) }
        if round % 5 > 2 { $0.typicalP = Float.random(in: 0...1, using: &random) }
        if round % 7 > 4 { $0.topP = Float.random(in: 0.2...1, using: &random) }
        if round % 11 > 8 { $0.minP = Float.random(in: 0...0.3, using: &random) }
        if round % 4 == 1 {
          $0.xtcProbability = 0.5
          $0.xtcThreshold = Float.random(in: 0.01...0.5, using: &random)
        }
        if round % 6 == 5 {
          $0.dynatempRange = Float.random(in: 0.1...1, using: &random)
          $0.dynatempExponent = Float.random(in: 0.5...2, using: &random)
        }
      }
      for step in 0..<12 {
        let seed = UInt64(round)
        let chance = Random.uniform(seed: seed, step: UInt64(step), stream: 1)
        let excludes = parameters.xtcProbability > 0 && chance < Double(parameters.xtcProbability)
        let exact = SlowModel(logits, parameters, excludesTop: excludes).probabilities
        let drawn = draw(logits, parameters, seed: seed, step: step)
        let u = Random.uniform(seed: seed, step: UInt64(step))
        let below = exact[..<drawn].reduce(0, +)
        #expect(
          u >= below - 2e-5 && u <= below + exact[drawn] + 2e-5,
          "round \(round) step \(step): \(parameters) drew \(drawn)")
      }
    }
  }

  @Test func `any values give a token of the row`() {
    var random = SeededGenerator(seed: 77)
    let odd: [Float] = [0, 1, -1, 1e-7, 0.3, 2, 1e30, .infinity, -.infinity, .nan, .greatestFiniteMagnitude]
    func pick() -> Float { odd[Int.random(in: 0..<odd.count, using: &random)] }
    for round in 0..<3_000 {
      let logits = (0..<Int.random(in: 1...90, using: &random)).map { _ in pick() }
      let parameters = makeParameters {
        ($0.temperature, $0.typicalP, $0.topNSigma) = (pick(), pick(), pick())
        ($0.xtcProbability, $0.xtcThreshold) = (pick(), pick())
        ($0.dynatempRange, $0.dynatempExponent) = (pick(), pick())
        ($0.mirostatTau, $0.mirostatEta) = (pick(), pick())
        $0.mirostat = [0, 1, 2][round % 3]
        ($0.dryMultiplier, $0.dryBase) = (pick(), pick())
        $0.dryAllowedLength = [0, 1, 2, .max][round % 4]
        $0.dryPenaltyLastN = [-1, 0, 3][round % 3]
        $0.repeatLastN = [-1, 0, 2][round % 3]
        $0.repetitionPenalty = pick()
        $0.bannedSequences = [[1], [], [0, 2], [.max, .min]]
        if round % 5 == 0 { $0.allowedTokens = [0, 3, -1, .max / 2_000_000] }
      }
      var sampler = Sampler(parameters, seed: random.next(), promptTokens: [0, 1, 0, 1], stopTokens: [7])
      for step in 0..<4 {
        var row = logits
        let drawn = sampler.sample(&row, step: step, wantTop: nil)
        #expect(drawn.isArbitrary ? drawn.id == 7 : logits.indices.contains(Int(drawn.id)))
      }
    }
  }
}

@Suite struct MirostatTests {
  @Test func `version 2 cuts off what is too surprising, and learns from what it draws`() throws {
    var parameters = makeParameters { ($0.mirostat, $0.mirostatTau, $0.mirostatEta) = (2, 1, 0.5) }
    parameters.mirostatTau = 1
    var mirostat = try #require(Mirostat(parameters))
    #expect(mirostat.allowedSurprise == 2)
    // Surprises of 1, 2, 3 and 3 bits: two tokens stay, with 2/3 and 1/3.
    func draw(_ uniform: Double) -> Int? {
      var row = halves
      return row.withUnsafeMutableBufferPointer {
        mirostat.draw($0, maxima: VectorMath.blockMaxima(.init($0)), temperature: 1, uniform: uniform)
      }
    }
    #expect(draw(0.9) == 1)
    // log2(3) is 1.585 bits: 0.585 too many, half of it is learned.
    #expect(abs(mirostat.allowedSurprise - 1.707_518_7) < 1e-6)
    // Now only the first is allowed, without any surprise.
    #expect(draw(0.99) == 0)
    #expect(abs(mirostat.allowedSurprise - 2.207_518_7) < 1e-6)
  }

  @Test func `version 1 keeps as many tokens as a law of Zipf gives that surprise`() {
    // Exactly p(i) = 1 / (i + 1)^2: a slope of 2. k = (1 · 2^3 / (1 − 1000^−1))^(1/2) = 2.83.
    let weights = (1...100).map { -2 * VectorMath.logarithm(Double($0)) }
    #expect(Mirostat.tokens(allowedSurprise: 3, vocabulary: 1_000, logWeights: weights) == 2)
    #expect(Mirostat.tokens(allowedSurprise: 8, vocabulary: 1_000, logWeights: weights) == 16)
    // No slope at all: nothing to go by.
    #expect(Mirostat.tokens(allowedSurprise: 3, vocabulary: 50, logWeights: [0, 0, 0]) == 50)
    #expect(Mirostat.tokens(allowedSurprise: 0, vocabulary: 50, logWeights: [0]) == 50)
    #expect(Mirostat.tokens(allowedSurprise: -9, vocabulary: 1_000, logWeights: weights) == 1)
  }

  @Test(arguments: [1, 2])
  func `the surprise of a long answer comes near the aim`(version: Int) {
    let logits = (1...2_000).map { -1.1 * Float(VectorMath.logarithm(Double($0))) }
    let parameters = makeParameters {
      ($0.mirostat, $0.mirostatTau, $0.mirostatEta) = (version, 3, 0.1)
    }
    var sampler = Sampler(parameters, seed: 3, promptTokens: [], stopTokens: [])
    let drawn = (0..<3_000).map { step -> Int in
      var row = logits
      return Int(sampler.sample(&row, step: step, wantTop: nil).id)
    }
    // The free distribution has 7.4 bits; what Mirostat leaves has far fewer tokens.
    #expect(Set(drawn).count < 400)
    #expect(Set(drawn).count > 10)
    let greedy = makeParameters { ($0.mirostat, $0.temperature) = (version, 0) }
    #expect(draw(logits, greedy, seed: 1) == 0)
  }
}

@Suite struct RepetitionTests {
  private func penalised(
    _ text: [Int32], _ change: (inout SamplingParameters) -> Void = { _ in }
  ) -> [Float] {
    let parameters = makeParameters {
      ($0.dryMultiplier, $0.dryBase, $0.dryAllowedLength) = (1, 2, 2)
      change(&$0)
    }
    var row = [Float](repeating: 0, count: 10)
    row.withUnsafeMutableBufferPointer { _ = Repetitions(parameters)?.apply(to: $0, after: text) }
    return row
  }

  private func row(_ penalties: [Int: Float]) -> [Float] { (0..<10).map { -(penalties[$0] ?? 0) } }

  @Test func `a token that would repeat a sequence is lowered by its length`() {
    #expect(penalised([1, 2, 3, 1, 2]) == row([3: 1]))
    #expect(penalised([4, 1, 2, 3, 4, 1, 2]) == row([3: 2]))
    #expect(penalised([5, 4, 1, 2, 3, 5, 4, 1, 2]) == row([3: 4]))
    // One token in common is allowed.
    #expect(penalised([9, 2, 3, 1, 2]) == row([:]))
    #expect(penalised([9, 2, 3, 1, 2]) { $0.dryAllowedLength = 1 } == row([3: 1]))
    // The longest of several repetitions counts.
    #expect(penalised([1, 2, 3, 8, 0, 1, 2, 3, 8, 1, 2, 4, 0, 1, 2]) == row([3: 2, 4: 1]))
  }

  @Test func `it is off, or looks at a part of the text`() {
    let text: [Int32] = [1, 2, 3, 1, 2]
    #expect(penalised(text) { $0.dryMultiplier = 0 } == row([:]))
    #expect(penalised(text) { $0.dryPenaltyLastN = 0 } == row([:]))
    #expect(penalised(text) { $0.dryPenaltyLastN = 4 } == row([:]))
    #expect(penalised(text) { $0.dryPenaltyLastN = 5 } == row([3: 1]))
    #expect(penalised([]) == row([:]))
  }

  @Test func `sequences do not reach across a breaker`() {
    let text: [Int32] = [4, 1, 2, 3, 4, 1, 2]
    #expect(penalised(text) { $0.dryBreakers.insert(4, tail: []) } == row([3: 1]))
    #expect(penalised(text) { $0.dryBreakers.insert(1, tail: []) } == row([:]))
    // Of two tokens: 4, 1 stands before the 2.
    #expect(penalised(text) { $0.dryBreakers.insert(4, tail: [1]) } == row([:]))
    #expect(penalised(text) { $0.dryBreakers.insert(4, tail: [7]) } == row([3: 2]))
  }

  @Test func `it agrees with looking at every place`() {
    var random = SeededGenerator(seed: 8)
    for round in 0..<400 {
      let text = (0..<Int.random(in: 0...60, using: &random)).map { _ in
        Int32.random(in: 0...3, using: &random)
      }
      let breaks = round % 2 == 0
      var expected = [Float](repeating: 0, count: 10)
      var most = text.count
      if breaks, let last = text.lastIndex(of: 3) { most = text.count - 1 - last }
      var longest: [Int32: Int] = [:]
      for end in text.indices.dropLast() {
        var length = 0
        while length <= end && length < most && text[end - length] == text[text.count - 1 - length] {
          length += 1
        }
        if length >= 2 { longest[text[end + 1]] = max(longest[text[end + 1]] ?? 0, length) }
      }
      for (token, length) in longest {
        expected[Int(token)] = -Float(VectorMath.power(2, Double(length - 2)))
      }
      let found = penalised(text) { if breaks { $0.dryBreakers.insert(3, tail: []) } }
      for (found, expected) in zip(found, expected) {
        #expect(abs(found - expected) <= 1e-5 * abs(expected), "\(text)")
      }
    }
  }
}

@Suite struct TokenBanTests {
  private let greedy = makeParameters { $0.temperature = 0 }

  private func answer(_ logits: [Float], _ parameters: SamplingParameters, count: Int, prompt: [Int32] = [])
    -> [Int32]
  {
    var sampler = Sampler(parameters, seed: 1, promptTokens: prompt, stopTokens: [])
    return (0..<count).map { step in
      var row = logits
      return sampler.sample(&row, step: step, wantTop: nil).id
    }
  }

  @Test func `a banned sequence does not come to its end`() {
    var parameters = greedy
    parameters.bannedSequences = [[0, 0], [1]]
    #expect(answer([9, 8, 7], parameters, count: 5) == [0, 2, 0, 2, 0])
    // What stands in the prompt is not the answer's.
    #expect(answer([9, 8, 7], parameters, count: 1, prompt: [0]) == [0])
  }

  @Test func `only allowed tokens are chosen`() {
    var parameters = greedy
    parameters.allowedTokens = [2, 1]
    #expect(answer([9, 8, 7], parameters, count: 2) == [1, 1])
    parameters.allowedTokens = [70]
    var sampler = Sampler(parameters, seed: 1, promptTokens: [], stopTokens: [])
    var row: [Float] = [1, 2]
    #expect(sampler.sample(&row, step: 0, wantTop: nil).isArbitrary)
  }

  @Test func `the repetition penalty can look at the last tokens alone`() {
    var parameters = greedy
    parameters.repetitionPenalty = 100
    #expect(answer([9, 8, 7], parameters, count: 4) == [0, 1, 2, 0])
    parameters.repeatLastN = 1
    #expect(answer([9, 8, 7], parameters, count: 4) == [0, 1, 0, 1])
    #expect(answer([9, 8, 7], parameters, count: 2, prompt: [0]) == [1, 0])
    parameters.repeatLastN = 0
    #expect(answer([9, 8, 7], parameters, count: 3) == [0, 0, 0])
  }
}
