// Penalties: which tokens they touch and by how much.

import Sampling
import Testing

@testable import Decoding

private func penalised(
  _ logits: [Float], prompt: [Int32] = [], answer: [Int32] = [], _ change: (inout SamplingParameters) -> Void
) -> [Float] {
  var parameters = SamplingParameters()
  change(&parameters)
  var penalties = Penalties(parameters, promptTokens: prompt)
  for token in answer { penalties.record(token) }
  var row = logits
  row.withUnsafeMutableBufferPointer { _ = penalties.apply(to: $0) }
  return row
}

@Suite struct PenaltiesTests {
  @Test func `the repetition penalty touches prompt and answer, once`() {
    let found = penalised([4, -4, 0, 4, 4], prompt: [0, 1, 1], answer: [1, 3, 3, 2]) {
      $0.repetitionPenalty = 2
    }
    #expect(found == [2, -8, 0, 2, 4])
  }

  @Test func `a repetition penalty below 1 encourages`() {
    #expect(penalised([4, -4], prompt: [0, 1]) { $0.repetitionPenalty = 0.5 } == [8, -2])
  }

  @Test func `presence and frequency penalties touch the answer alone`() {
    let found = penalised([4, 4, 4, -4], prompt: [0, 0], answer: [1, 2, 2, 2, 3]) {
      $0.presencePenalty = 0.5
      $0.frequencyPenalty = 0.25
    }
    #expect(found == [4, 3.25, 2.75, -4.75])
  }

  @Test func `negative penalties raise logits`() {
    #expect(penalised([1, 1], answer: [1, 1]) { $0.frequencyPenalty = -2 } == [1, 5])
  }

  @Test func `the repetition penalty is applied before the others`() {
    let found = penalised([4], answer: [0]) {
      $0.repetitionPenalty = 2
      $0.presencePenalty = 1
    }
    #expect(found == [1])
  }

  @Test func `infinities stay, ids outside the row are passed over`() {
    let found = penalised([-.infinity, 1], prompt: [0, 5, -1], answer: [0, 9, .max, .min]) {
      $0.repetitionPenalty = 3
      $0.presencePenalty = 1
    }
    #expect(found == [-.infinity, 1])
  }

  @Test func `without penalties nothing is counted or changed`() {
    #expect(penalised([1, 2], prompt: [0], answer: [1]) { _ in } == [1, 2])
  }

  @Test func `the sampler records what it draws`() {
    var parameters = SamplingParameters()
    parameters.temperature = 0
    parameters.frequencyPenalty = 1
    var sampler = Sampler(parameters, seed: 0, promptTokens: [0, 0, 0], stopTokens: [])
    let drawn = (0..<6).map { step in
      var row: [Float] = [3, 2.5, 0]
      return sampler.sample(&row, step: step, wantTop: nil).id
    }
    #expect(drawn == [0, 1, 0, 1, 0, 1])
  }
}
