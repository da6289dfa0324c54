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
    arguments: ["stories260K-llama", "babyllama-tok361-llama"])
  func `windows of Alice have the reference's likelihood`(name: String) throws {
    let path = Self.models + "hf-" + name
    let texts = (TestData.shared ?? "") + "/text/"
    let golden = try JSONValue(parsing: try TestData.bytes(texts + "ppl-alice29.json"))[name]
    let windows = try #require(golden?["chunks"]?.intValue)
    let size = try #require(golden?["tokens_per_chunk"]?.intValue)
    let opening = Int32(try #require(golden?["bos"]?.intValue))
    let expected = try #require(golden?["mean_nll"]?.doubleValue)
    let text = try TestData.bytes(texts + "alice29.txt")
    let file = try #require(try ModelFolder(path: path).tokenizerFile)
    let tokenizer = try Tokenizer(tokenizerJSON: file)
    #expect(PerplexityCommand.opening(of: tokenizer) == [opening])
    let tokens = tokenizer.encode(String(decoding: text, as: UTF8.self), addSpecialTokens: false)
    let result = try PerplexityEvaluator(exact(path), comparing: false)
      .evaluate(tokens, opening: [opening], window: size + 1, limit: windows * size)
    #expect(result.tokens == windows * size && result.windows == windows)
    #expect(abs(result.negativeLogLikelihood / Double(windows * size) - expected) < 1e-5)
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
    try #require(story.count > 2)
    let result = try PerplexityEvaluator(exact(path), comparing: false)
      .evaluate(Array(story.dropFirst()), opening: [story[0]], window: story.count)
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
      model: "m", text: "t", compute: "avx512 and avx512 fast", mode: .fast, context: 3, seconds: 2,
      result: result)
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
    func bar(_ done: Int, of total: Int) -> String { ProgressBar.line(done, of: total, [], columns: 80) }
    #expect(bar(0, of: 10) == "[------------------------------]   0 %")
    #expect(bar(5, of: 10) == "[###############---------------]  50 %")
    #expect(bar(12, of: 10) == "[##############################] 100 %")
    #expect(bar(0, of: 0) == "[------------------------------]   0 %")
  }

  @Test func `lines of progress are narrower than the terminal, and say first what matters most`() {
    let words = ["12 of 80 files", "1:02:03 left", "301 passages/s", "Ctrl-C keeps what is done"]
    #expect(
      ProgressBar.line(1, of: 8, words, columns: 40) == " 12 %  12 of 80 files, 1:02:03 left")
    #expect(
      ProgressBar.line(1, of: 8, words, columns: 60)
        == " 12 %  12 of 80 files, 1:02:03 left, 301 passages/s")
    let path = "/home/somebody/models/mlx-community/all-minilm-l6-v2-8bit"
    #expect(Terminal.waiting("loading models/demo", seconds: 3, columns: 40) == "loading models/demo ... 3 s")
    #expect(
      Terminal.waiting("loading \(path)", seconds: 12, columns: 40)
        == "…mmunity/all-minilm-l6-v2-8bit ... 12 s")
    for columns in 40...160 {
      for name in [path, "模型/" + String(repeating: "搜索", count: 50)] {
        #expect(TextWidth.of(Terminal.waiting(name, seconds: 100, columns: columns)) < columns)
        for count in 0...words.count {
          let line = ProgressBar.line(3, of: 7, Array(words[..<count]) + [name], columns: columns)
          #expect(TextWidth.of(line) < columns, "\(line)")
        }
      }
    }
  }

  /// References computed in float32.
  private func exact(_ path: String) -> EngineConfiguration {
    var configuration = EngineConfiguration(modelPath: path)
    configuration.computeMode = .exact
    return configuration
  }
}
