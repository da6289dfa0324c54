// Perplexity of toy models with known likelihoods, of the demo model against the engine, and how texts are cut.

import Checkpoint
import Decoding
import Models
import Platform
import Support
import Testing
import Tokenizers

@testable import Compute
@testable import Inference

/// Holds every token for equally likely, or one of them for certain or impossible.
private final class FlatModel: CausalModel {
  let vocabularySize = 50
  let contextLength = 64
  let cacheShape: [LayerCache] = [.keysValues(KVLayerShape(kvHeads: 1, headDim: 1))]
  let weightBytesPerToken = 1
  /// The logit of token 7; all others have 0.
  private let special: Float
  /// Every span that was computed: first position and count.
  private(set) var spans: [[Int]] = []

  init(special: Float = 0) { self.special = special }

  func ropeVariant(forTokens tokens: Int) -> Int { 0 }

  func forward(_ batch: Batch, cache: KVCache, logits: inout Logits) {
    let rows = logits.resize(rows: batch.logitRowCount, columns: vocabularySize)
    for span in batch.spans { spans.append([span.start, span.tokens.count]) }
    for row in 0..<batch.logitRowCount {
      for column in 0..<vocabularySize { rows.row(row)[column] = column == 7 ? special : 0 }
    }
  }
}

@Suite struct PerplexityTests {
  private let text = [Int32](0..<40)

  private func evaluator(_ models: FlatModel...) -> PerplexityEvaluator {
    PerplexityEvaluator(
      models: models, formats: models.map { _ in .f32 }, computeNames: models.map { _ in "toy" })
  }

  @Test func `a model that knows nothing has the perplexity of its vocabulary`() throws {
    let result = try evaluator(FlatModel()).evaluate(text, opening: [1], window: 16)
    #expect(result.tokens == 40)
    #expect(result.windows == 3)
    #expect(abs(result.perplexity - 50) < 1e-4)
    #expect(result.comparison == nil)
  }

  @Test func `windows begin anew with the opening and leave their last token out`() throws {
    let model = FlatModel()
    _ = try evaluator(model).evaluate(text, opening: [1], window: 16)
    #expect(model.spans == [[0, 15], [0, 15], [0, 10]])
  }

  @Test func `without an opening the first token of each window is not predicted`() throws {
    let result = try evaluator(FlatModel()).evaluate(text, opening: [], window: 16)
    #expect(result.tokens == 37)
    #expect(result.windows == 3)
  }

  @Test func `a limit cuts the last window, and progress tells the total`() throws {
    var totals: Set<Int> = []
    var last = 0
    let result = try evaluator(FlatModel()).evaluate(text, opening: [1], window: 16, limit: 17) {
      last = $0.tokens
      totals.insert($1)
    }
    #expect(result.tokens == 17 && last == 17)
    #expect(totals == [17])
  }

  @Test func `texts are cut into windows that cover them`() {
    let uncut = TextWindows(textCount: 5, openingCount: 1, window: 16, limit: .max)
    #expect(uncut.ranges == [0..<5] && uncut.predicted == 5)
    // A single token that nothing precedes is left over.
    let rest = TextWindows(textCount: 9, openingCount: 0, window: 4, limit: .max)
    #expect(rest.ranges == [0..<4, 4..<8] && rest.predicted == 6)
    let limited = TextWindows(textCount: 9, openingCount: 0, window: 4, limit: 4)
    #expect(limited.ranges == [0..<4, 4..<6] && limited.predicted == 4)
  }

  @Test func `two modes are compared token by token`() throws {
    let result = try evaluator(FlatModel(), FlatModel(special: Float(log(51.0))))
      .evaluate(text, opening: [1], window: 64)
    // The second gives token 7 a probability of 51/100, and each other token 1/100.
    let comparison = try #require(result.comparison)
    #expect(abs(comparison.negativeLogLikelihood - (39 * log(100) - log(0.51))) < 1e-4)
    let divergence = (49 * log(100.0 / 50) + log(1 / 0.51 / 50)) / 50
    #expect(abs(comparison.divergence - 40 * divergence) < 1e-4)
    #expect(abs(comparison.largestDivergence - divergence) < 1e-6)
    #expect(comparison.sameLikeliest == 0)
    #expect(abs(result.perplexity - 50) < 1e-4)
  }

  @Test func `what cannot be evaluated is refused`() throws {
    let evaluator = self.evaluator(FlatModel())
    #expect(throws: InferenceError.textTooShort(tokens: 1)) {
      try evaluator.evaluate([3], opening: [1], window: 16)
    }
    #expect(throws: InferenceError.badWindow(tokens: 65, least: 2, most: 64)) {
      try evaluator.evaluate(text, opening: [1], window: 65)
    }
    #expect(throws: InferenceError.badWindow(tokens: 2, least: 3, most: 64)) {
      try evaluator.evaluate(text, opening: [1, 1], window: 2)
    }
    #expect(throws: InferenceError.tokenOutOfRange(token: 50, vocabularySize: 50)) {
      try evaluator.evaluate([3, 50], opening: [1], window: 16)
    }
    let broken = self.evaluator(FlatModel(special: .nan))
    #expect(throws: InferenceError.brokenLogits(position: 7)) {
      try broken.evaluate(text, opening: [1], window: 64)
    }
    #expect(throws: InferenceError.noFastMode(compute: "portable")) {
      var configuration = EngineConfiguration(modelPath: TestData.fixtures + "/models/demo", threads: 1)
      configuration.isa = .portable
      _ = try PerplexityEvaluator(configuration, comparing: true)
    }
  }

  @Test func `the demo model's perplexity is that of the engine's prompt log probabilities`() throws {
    let configuration = EngineConfiguration(modelPath: TestData.fixtures + "/models/demo", threads: 2)
    let file = try #require(try ModelFolder(path: configuration.modelPath).tokenizerFile)
    let words = "The capital of France is Paris, and two plus three is five. What is your favourite colour? "
    let text = try Tokenizer(tokenizerJSON: file).encode(words + words + words, addSpecialTokens: false)
    let window = 24
    try #require(text.count > 2 * window)

    let engine = try EngineClient.start(configuration)
    defer { engine.stop() }
    var expected = 0.0
    var count = 0
    for start in stride(from: 0, to: text.count, by: window) {
      var request = GenerationRequest(
        promptTokens: Array(text[start..<min(text.count, start + window)]), maxTokens: 1)
      request.promptLogprobs = 0
      let generation = try engine.submit(request)
      while case .element(let event) = generation.next(until: Instant.now.adding(seconds: 60)) {
        guard case .promptLogprobs(let tokens) = event else { continue }
        for token in tokens.compactMap({ $0 }) {
          expected -= Double(token.logprob)
          count += 1
        }
      }
    }
    let result = try PerplexityEvaluator(configuration, comparing: false)
      .evaluate(text, opening: [], window: window)
    #expect(result.tokens == count && count > 2 * window - 4)
    #expect(abs(result.perplexity / exp(expected / Double(count)) - 1) < 1e-5)
  }
}
