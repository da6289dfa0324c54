// Perplexity against the reference implementation's numbers, and the command's report.

import Checkpoint
import Compute
import JSON
import Platform
import Support
import Testing
import Tokenizers

@testable import CLI
@testable import Inference

@Suite struct PerplexityCommandTests {
  private static let models = (TestData.shared ?? "") + "/models/"

  @Test(
    .enabled(if: TestData.shared != nil, "shared test data is absent"),
    arguments: [("hf-stories260K-llama", 5.180905), ("hf-babyllama-tok361-llama", 3.203245)])
  func `forty windows of Alice have the reference's likelihood`(name: String, expected: Double) throws {
    let path = Self.models + name
    let text = try TestData.bytes((TestData.shared ?? "") + "/text/alice29.txt")
    let file = try #require(try ModelFolder(path: path).tokenizerFile)
    let tokenizer = try Tokenizer(tokenizerJSON: file)
    #expect(PerplexityCommand.opening(of: tokenizer) == [1])
    let tokens = tokenizer.encode(String(decoding: text, as: UTF8.self), addSpecialTokens: false)
    let result = try PerplexityEvaluator(exact(path), comparing: false)
      .evaluate(tokens, opening: [1], window: 256, limit: 40 * 255)
    #expect(result.tokens == 10200 && result.windows == 40)
    #expect(abs(result.negativeLogLikelihood / 10200 - expected) < 1e-5)
  }

  @Test(
    .enabled(if: TestData.shared != nil, "shared test data is absent"),
    arguments: [
      "stories260K-4bit-g32-affine", "stories260K-4bit-g32-mxfp4", "stories260K-8bit-g64-affine",
      "stories260K-phi3-8bit-g32", "stories260K-qwen2-8bit-g32", "babyllama-tok361-2bit-g32-affine",
      "babyllama-tok361-4bit-g16-nvfp4", "babyllama-tok361-6bit-g32-affine",
    ])
  func `a story has the likelihood that the reference gives it`(name: String) throws {
    let path = Self.models + name
    let golden = try JSONValue(parsing: try TestData.bytes(path + "/golden.json"))
    let story = (golden["story_ids"]?.arrayValue ?? []).compactMap { $0.intValue.map { Int32($0) } }
    let expected = try #require(golden["story_nll"]?.doubleValue)
    try #require(story.count > 100 && story.first == 1)
    let result = try PerplexityEvaluator(exact(path), comparing: false)
      .evaluate(Array(story.dropFirst()), opening: [1], window: story.count)
    #expect(result.tokens == story.count - 1)
    #expect(abs(result.negativeLogLikelihood / Double(result.tokens) - expected) < 2e-5)
  }

  @Test func `a report names both modes and how far they are apart`() {
    var result = PerplexityResult()
    result.tokens = 4
    result.windows = 2
    result.negativeLogLikelihood = 8
    result.comparison = .init()
    result.comparison?.negativeLogLikelihood = 8.02
    result.comparison?.divergence = 0.004
    result.comparison?.largestDivergence = 0.003
    result.comparison?.sameLikeliest = 3
    let report = PerplexityCommand.Report(
      model: "m", text: "t", compute: "avx512 and avx512 fast", context: 3, seconds: 2, result: result)
    #expect(
      report.table == """
        model       m
        compute     avx512 and avx512 fast
        text        t: 4 tokens in 2 windows of 3
        speed       2 tokens/s, 2.0 s
        exact       perplexity 7.3891 (2.00000 nats per token)
        fast        perplexity 7.4261 (2.00500 nats per token), 0.501 % from exact
        divergence  KL(exact to fast) 0.001000 nats per token, largest 0.00300
        agreement   75.00 % of tokens have the same likeliest
        """)
    #expect(report.json["mean_nll"]?.doubleValue == 2)
    #expect(report.json["comparison"]?["mean_kl"]?.doubleValue == 0.001)
    #expect(report.json["comparison"]?["same_top_token_share"]?.doubleValue == 0.75)
  }

  @Test func `a progress bar fills from left to right`() {
    #expect(ProgressBar.bar(0, of: 10) == "[------------------------------]   0 %")
    #expect(ProgressBar.bar(5, of: 10) == "[###############---------------]  50 %")
    #expect(ProgressBar.bar(12, of: 10) == "[##############################] 100 %")
    #expect(ProgressBar.bar(0, of: 0) == "[------------------------------]   0 %")
  }

  /// References computed in float32.
  private func exact(_ path: String) -> EngineConfiguration {
    var configuration = EngineConfiguration(modelPath: path)
    configuration.computeMode = .exact
    return configuration
  }
}
