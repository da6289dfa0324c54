// Rows of logits with their maxima: what they say of the row, whole and shortened, and whatever found them.

import Sampling
import Support
import Testing

@testable import Decoding

extension Sampler {
  /// Samples from an array, which is working space as the engine's rows are.
  mutating func sample(
    _ logits: inout [Float], step: Int, wantTop: Int?, allowance: Guide.Allowance = .any
  ) -> SampledToken {
    withRow(&logits) { sample($0, step: step, wantTop: wantTop, allowance: allowance) }
  }
}

/// A row whose maxima are found in `parts` parts, the last one first.
private func withRow<Result>(
  _ logits: inout [Float], parts: Int = 1, _ body: (LogitRow) -> Result
) -> Result {
  let blocks = LogitRow.blockCount(logits.count)
  var maxima = [Float](repeating: 12345, count: blocks)
  return logits.withUnsafeMutableBufferPointer { values in
    maxima.withUnsafeMutableBufferPointer { maxima in
      let row = LogitRow(values: values, maxima: maxima)
      for part in (0..<parts).reversed() {
        row.findMaxima(ofBlocks: blocks * part / parts..<blocks * (part + 1) / parts)
      }
      return body(row)
    }
  }
}

@Suite struct LogitRowTests {
  private func isUsable(_ logits: [Float]) -> Bool {
    var logits = logits
    return withRow(&logits, parts: 3) { $0.isUsable }
  }

  @Test func `a row can be used unless it holds what is no number, or nothing is possible`() {
    for count in [1, 15, 16, 17, 64, 65, 1000] {
      let row = (0..<count).map { Float($0) - 3 }
      #expect(isUsable(row))
      #expect(!isUsable([Float](repeating: -.infinity, count: count)))
      for place in Set([0, count / 2, count - 1]) {
        for bad in [Float.nan, .infinity] {
          var broken = row
          broken[place] = bad
          #expect(!isUsable(broken))
        }
        var possible = [Float](repeating: -.infinity, count: count)
        possible[place] = -2
        #expect(isUsable(possible))
      }
    }
    #expect(!isUsable([]))
  }

  @Test func `maxima are those of the whole row, whatever its parts`() {
    var random = SeededGenerator(seed: 4)
    for count in [0, 1, 63, 64, 65, 500, 5000] {
      var logits = (0..<count).map { _ in Float.random(in: -9...9, using: &random) }
      let expected = logits.withUnsafeBufferPointer { VectorMath.blockMaxima($0) }
      for parts in 1...4 { #expect(withRow(&logits, parts: parts) { $0.blockMaxima } == expected) }
    }
  }

  @Test func `a shortened row knows nothing of what it has lost`() {
    for count in [1, 63, 64, 65, 128, 130] {
      // Each logit is larger than those before it, and the last is none.
      var logits = (0..<130).map(Float.init) + [.nan]
      let (values, maxima, isUsable) = withRow(&logits) { row in
        let shorter = row.prefix(count)
        return (Array(shorter.values), shorter.blockMaxima, shorter.isUsable)
      }
      #expect(values == Array(logits.prefix(count)))
      #expect(maxima.max() == Float(count - 1))
      #expect(isUsable)
    }
    var logits: [Float] = [1, 2]
    #expect(withRow(&logits) { $0.prefix(3).values.count } == 2)
    #expect(withRow(&logits) { $0.prefix(0).isUsable } == false)
  }

  @Test func `a choice after a bias, a penalty or a ban is made from what they leave`() {
    // The largest logit is in the first of three blocks, the next one in the last.
    var logits = [Float](repeating: 0, count: 150)
    logits[3] = 2
    logits[140] = 1
    func chosen(allowance: Guide.Allowance = .any, _ change: (inout SamplingParameters) -> Void) -> Int32 {
      var parameters = SamplingParameters()
      parameters.temperature = 0
      change(&parameters)
      var sampler = Sampler(parameters, seed: 0, promptTokens: [3], stopTokens: [3])
      var row = logits
      return sampler.sample(&row, step: 0, wantTop: nil, allowance: allowance).id
    }
    #expect(chosen { _ in } == 3)
    #expect(chosen { $0.logitBias = [3: -2] } == 140)
    #expect(chosen { $0.logitBias = [70: 3] } == 70)
    #expect(chosen { $0.repetitionPenalty = 4 } == 140)
    #expect(chosen { $0.minTokens = 1 } == 140)
  }
}
