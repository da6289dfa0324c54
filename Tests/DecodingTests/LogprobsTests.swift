// Log probabilities: values, order, and what they ignore.

import Platform
import Sampling
import Support
import Testing

@testable import Decoding

private func close(_ a: Float, _ b: Double) -> Bool { abs(Double(a) - b) <= 2e-6 * max(1, abs(b)) }

@Suite struct LogprobsTests {
  @Test func `probabilities of one half and two quarters`() {
    let described = Logprobs.describe(token: 2, logits: [5.693_147_2, 5, 5], top: 2)
    #expect(described.id == 2)
    #expect(close(described.logprob, log(0.25)))
    #expect(described.top.map(\.id) == [0, 1])
    #expect(close(described.top[0].logprob, log(0.5)))
    #expect(close(described.top[1].logprob, log(0.25)))
    #expect(!described.isArbitrary)
  }

  @Test func `a large vocabulary agrees with double precision`() {
    var random = SeededGenerator(seed: 1)
    let logits = (0..<5000).map { _ in Float.random(in: -20...20, using: &random) }
    let logSum = log(logits.reduce(0.0) { $0 + exp(Double($1)) })
    for token in [0, 17, 4999] {
      let described = Logprobs.describe(token: Int32(token), logits: logits, top: 20)
      #expect(close(described.logprob, Double(logits[token]) - logSum))
      #expect(described.top.count == 20)
      let order = logits.indices.sorted { logits[$0] > logits[$1] }.prefix(20)
      #expect(described.top.map { Int($0.id) } == Array(order))
      #expect(zip(described.top, order).allSatisfy { close($0.logprob, Double(logits[$1]) - logSum) })
    }
  }

  @Test func `log probabilities are finite and at most 0`() {
    let cases: [[Float]] = [
      [.nan, 1, .infinity], [-.infinity, 3, -.greatestFiniteMagnitude], [.infinity, .infinity, .nan],
      [.greatestFiniteMagnitude, -.greatestFiniteMagnitude, 0], [1e30, -1e30, 0], [5, 5, 5],
    ]
    for logits in cases {
      for token in Int32(-1)...3 {
        let described = Logprobs.describe(token: token, logits: logits, top: 3)
        for value in [described.logprob] + described.top.map(\.logprob) {
          #expect(value <= 0 && value >= -9999, "\(logits) \(token): \(described)")
        }
        #expect(described.top.map(\.logprob) == described.top.map(\.logprob).sorted(by: >))
      }
    }
    #expect(Logprobs.describe(token: 0, logits: [.nan], top: 1).isArbitrary)
  }

  @Test func `asking for more tokens than there are gives them all`() {
    #expect(Logprobs.describe(token: 0, logits: [1, 2], top: 20).top.map(\.id) == [1, 0])
    #expect(Logprobs.describe(token: 0, logits: [1, 2], top: 0).top.isEmpty)
  }

  @Test func `the sampler reports the model's distribution, before bias, penalties and temperature`() {
    var parameters = SamplingParameters()
    parameters.temperature = 0
    parameters.logitBias = [0: -100, 2: 50]
    parameters.repetitionPenalty = 1.5
    var sampler = Sampler(parameters, seed: 0, promptTokens: [0, 1], stopTokens: [])
    var row: [Float] = [3, 2, 1]
    let drawn = sampler.sample(&row, step: 0, wantTop: 2)
    #expect(drawn.id == 2)
    let expected = Logprobs.describe(token: 2, logits: [3, 2, 1], top: 2)
    #expect(drawn == expected)
    #expect(drawn.top.map(\.id) == [0, 1])
    row = [3, 2, 1]
    #expect(sampler.sample(&row, step: 1, wantTop: nil).logprob == 0)
    row = [3, 2, 1]
    #expect(sampler.sample(&row, step: 2, wantTop: 0).logprob == expected.logprob)
  }
}
