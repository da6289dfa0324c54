// An answer that is said beforehand: it is the same, in fewer steps, and another one is found out.

import Decoding
import Platform
import Sampling
import Support
import Testing

@testable import Inference

@Suite struct ExpectedAnswerTests: EngineHarness {
  @Test func `what is expected is sampled as ever, many tokens in a step`() throws {
    let watch = Monitor(HashModel.Watch())
    let client = try client(watch: watch) { $0.speculates = false }
    defer { client.stop() }
    for (length, count) in [(5, 1), (40, 2), (7, 300)] {
      var request = request(prompt(seed: UInt64(length), count: length), count)
      request.sampling.temperature = 1.3
      request.sampling.seed = 11
      let before = watch.withLock { $0.steps }
      let plain = collect(try client.submit(request))
      let middle = watch.withLock { $0.steps }
      request.expected = plain.tokens
      let again = collect(try client.submit(request))
      let steps = watch.withLock { $0.steps } - middle
      #expect(again.tokens == plain.tokens && again.reason == .length)
      #expect(middle - before >= count && steps <= 2 + count / 64, "\(steps) steps")
    }
  }

  @Test func `one that does not come true changes nothing`() throws {
    let client = try client()
    defer { client.stop() }
    var random = SeededGenerator(seed: 5)
    for seed in 0..<20 {
      var request = request(prompt(seed: UInt64(seed), count: 12), 60)
      let plain = collect(try client.submit(request)).tokens
      request.expected = plain
      request.expected[Int.random(in: 0..<60, using: &random)] = Int32.random(in: 0..<50, using: &random)
      request.expected += [1, 2, 3]
      #expect(collect(try client.submit(request)).tokens == plain)
    }
  }

  @Test func `tokens that the model does not have are refused`() throws {
    let client = try client()
    defer { client.stop() }
    var request = request([1, 2], 4)
    request.expected = [3, 50]
    #expect(throws: InferenceError.tokenOutOfRange(token: 50, vocabularySize: 50)) {
      _ = try client.submit(request)
    }
  }
}
