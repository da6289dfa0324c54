// Likelihoods and divergences of rows of logits against double precision, and rows that hold no numbers.

import Platform
import Support
import Testing

@testable import Decoding

@Suite struct PredictionTests {
  @Test func `equal logits make every token equally likely`() {
    let prediction = Prediction(logits: [Float](repeating: 3, count: 361))
    #expect(abs(prediction.negativeLogLikelihood(of: 17) - log(361)) < 1e-6)
    #expect(prediction.likeliest == 0)
    #expect(prediction.divergence(from: Prediction(logits: [Float](repeating: -8, count: 361))) < 1e-6)
  }

  @Test func `the divergence of a fair coin from a coin of one to three`() {
    let fair = Prediction(logits: [7, 7])
    let loaded = Prediction(logits: [0, Float(log(3.0))])
    #expect(abs(fair.divergence(from: loaded) - 0.143_841_036) < 1e-6)
    #expect(abs(loaded.divergence(from: fair) - 0.130_812_035) < 1e-6)
    #expect(abs(loaded.negativeLogLikelihood(of: 1) - 0.287_682_072) < 1e-6)
  }

  @Test(arguments: [1, 15, 16, 65, 5000])
  func `rows of any length agree with double precision`(count: Int) {
    var random = SeededGenerator(seed: UInt64(count))
    let x = (0..<count).map { _ in Float.random(in: -12...12, using: &random) }
    let y = x.map { $0 + Float.random(in: -0.2...0.2, using: &random) + 40 }
    let xSum = log(x.reduce(0.0) { $0 + exp(Double($1)) })
    let ySum = log(y.reduce(0.0) { $0 + exp(Double($1)) })
    let expected = zip(x, y).reduce(0.0) { sum, pair in
      let p = Double(pair.0) - xSum
      return sum + exp(p) * (p - (Double(pair.1) - ySum))
    }
    let prediction = Prediction(logits: x)
    #expect(abs(prediction.divergence(from: Prediction(logits: y)) - expected) < 1e-6)
    #expect(abs(prediction.negativeLogLikelihood(of: 0) - (xSum - Double(x[0]))) < 2e-6)
    #expect(prediction.likeliest.map(Int.init) == x.indices.max { x[$0] < x[$1] })
    #expect(prediction.divergence(from: prediction) < 1e-6)
  }

  @Test func `impossible tokens cost infinitely much, but only where they are expected`() {
    let some = Prediction(logits: [1, -.infinity])
    #expect(some.negativeLogLikelihood(of: 0) == 0)
    #expect(some.negativeLogLikelihood(of: 1) == .infinity)
    #expect(some.divergence(from: Prediction(logits: [2, 2])) == 0.693_147_180_559_945_3)
    #expect(Prediction(logits: [2, 2]).divergence(from: some) == .infinity)
  }

  @Test func `rows without finite numbers and ids outside the row are never likely`() {
    for logits in [[], [.nan, .nan], [-.infinity, -.infinity], [.infinity, 0]] as [[Float]] {
      let prediction = Prediction(logits: logits)
      #expect(prediction.negativeLogLikelihood(of: 0) == .infinity)
      #expect(prediction.likeliest == nil)
      #expect(prediction.divergence(from: Prediction(logits: [0, 0])) == .infinity)
    }
    let prediction = Prediction(logits: [.nan, 4])
    #expect(prediction.negativeLogLikelihood(of: 1) == 0)
    for id in [-1, 0, 2, Int32.max] { #expect(prediction.negativeLogLikelihood(of: id) == .infinity) }
    #expect(Prediction(logits: [1]).divergence(from: Prediction(logits: [1, 1])) == .infinity)
  }
}
