// Texts to tokens and vectors: golden ids, truncation, prompts, cutting, and one engine for many requests.

import Checkpoint
import Compute
import Inference
import JSON
import Platform
import Support
import Testing
import Tokenizers

@testable import Pipeline

/// A folder with `expected.json` for texts.
struct SentenceGolden: Sendable, CustomTestStringConvertible {
  let path: String
  let expected: JSONValue

  var testDescription: String { path.split(separator: "/").suffix(2).joined(separator: "/") }

  static let all: [SentenceGolden] = {
    let places = [TestData.fixtures + "/models"] + (TestData.shared.map { [$0 + "/search/tiny"] } ?? [])
    return places.flatMap { place in
      ((try? File.names(in: place)) ?? []).sorted().compactMap { name in
        let path = place + "/" + name
        guard let bytes = try? File.read(path + "/expected.json", limit: 1 << 24),
          let expected = try? JSONValue(parsing: bytes), expected["cases"]?[0]?["text"] != nil,
          File.exists(path + "/tokenizer.json"), !name.contains("demo")
        else { return nil }
        return SentenceGolden(path: path, expected: expected)
      }
    }
  }()

  var cases: [JSONValue] { expected["cases"]?.arrayValue ?? [] }
}

/// An encoder that says what it was asked: the vector of a text is its tokens, up to eight of them.
final class EchoService: EmbeddingService {
  let limits: EmbeddingLimits
  private let requests = Monitor<[EmbeddingRequest]>([])

  init(maxTokens: Int = 512, vocabularySize: Int = 1 << 20, poolsPrompt: Bool = true) {
    var limits = EmbeddingLimits(
      maxTokens: maxTokens, vocabularySize: vocabularySize, dimensions: 8, hidden: 8)
    limits.poolsPrompt = poolsPrompt
    self.limits = limits
  }

  var embeddingStatistics: EmbeddingStatistics { EmbeddingStatistics() }
  var seen: [EmbeddingRequest] { requests.withLock { $0 } }

  func submit(_ request: EmbeddingRequest) throws(InferenceError) -> EmbeddingJob {
    requests.update { $0.append(request) }
    let mailbox = Mailbox<EmbeddingEvent>(capacity: request.texts.count + 1)
    for (index, text) in request.texts.enumerated() {
      let values = text.tokens.prefix(8).map { Float($0) }
      let padded = values + [Float](repeating: 0, count: 8 - values.count)
      _ = mailbox.trySend(.result(index: index, values: padded))
    }
    _ = mailbox.trySend(.finished)
    return EmbeddingJob(mailbox: mailbox)
  }
}

@Suite struct EmbedderTests {
  private func tokenIDs(_ value: JSONValue?) -> [Int32] {
    (value?.arrayValue ?? []).compactMap { $0.intValue.map { Int32($0) } }
  }

  private func tokenizer(_ path: String) throws -> Tokenizer {
    try Tokenizer(tokenizerJSON: try File.read(path + "/tokenizer.json", limit: 1 << 24))
  }

  @Test(arguments: SentenceGolden.all)
  func `texts have the tokens of the reference, cut to its length`(golden: SentenceGolden) throws {
    let embedder = try Embedder(
      service: EchoService(), tokenizer: tokenizer(golden.path), folder: ModelFolder(path: golden.path))
    #expect(embedder.maxTokens == golden.expected["max_seq_length"]?.intValue)
    var options = Embedder.Options()
    options.truncation = .right
    for expected in golden.cases {
      let text = try #require(expected["text"]?.stringValue)
      let prepared = try embedder.prepare([.text(text)], options)
      #expect(prepared.texts[0].tokens == tokenIDs(expected["input_ids"]), "\(text)")
      guard let whole = expected["tokens_untruncated"]?.intValue else { continue }
      #expect(prepared.truncated.isEmpty == (whole <= embedder.maxTokens))
      if whole > embedder.maxTokens {
        do {
          _ = try embedder.prepare([.text(text)])
          Issue.record("taken")
        } catch {
          guard case .tooLong(0, whole, embedder.maxTokens) = error else { throw error }
        }
      }
    }
  }

  private func embedder(_ service: EchoService = EchoService()) throws -> Embedder {
    let path = TestData.fixtures + "/models/encoder-tiny"
    return try Embedder(service: service, tokenizer: tokenizer(path), folder: ModelFolder(path: path))
  }

  @Test func `a prompt stands before the text, by its name or by its use`() throws {
    let embedder = try embedder()
    func tokens(_ text: String, _ prompt: Embedder.Prompt) throws -> [Int32] {
      var options = Embedder.Options()
      options.prompt = prompt
      return try embedder.prepare([.text(text)], options).texts[0].tokens
    }
    let literal = try tokens("query: the cat", .none)
    #expect(try tokens("the cat", .named("query")) == literal)
    #expect(try tokens("the cat", .query) == literal)
    #expect(try tokens("the cat", .literal("query: ")) == literal)
    #expect(try tokens("the cat", .document) == tokens("passage: the cat", .usual))
    #expect(throws: EmbeddingError.self) { try tokens("the cat", .named("nope")) }
    do { _ = try tokens("the cat", .named("nope")) } catch {
      #expect("\(error)".contains("'query', 'document'"))
    }
  }

  @Test func `a prompt that is not pooled is counted`() throws {
    var options = Embedder.Options()
    options.prompt = .query
    let texts = try embedder(EchoService(poolsPrompt: false)).prepare(
      [.text("the cat"), .tokens([5])], options)
    // [CLS], query and the colon.
    #expect(texts.texts.map(\.unpooled) == [3, 0])
    #expect(try embedder().prepare([.text("the cat")], options).texts[0].unpooled == 0)
  }

  @Test func `a text is cut at the end that is named, and keeps its special tokens`() throws {
    let embedder = try embedder()
    var options = Embedder.Options()
    options.maxTokens = 5
    options.truncation = .right
    let whole = try embedder.prepare([.text("the cat sat on the mat")]).texts[0].tokens
    let right = try embedder.prepare([.text("the cat sat on the mat")], options)
    #expect(right.texts[0].tokens == whole.prefix(4) + whole.suffix(1) && right.truncated == [0])
    options.truncation = .left
    let left = try embedder.prepare([.text("a"), .text("the cat sat on the mat")], options)
    #expect(left.texts[1].tokens == whole.prefix(1) + whole.suffix(4) && left.truncated == [1])
    options.maxTokens = 1
    #expect(throws: EmbeddingError.self) { try embedder.prepare([.text("the cat")], options) }
  }

  @Test func `token ids are encoded as they are`() throws {
    let embedder = try embedder()
    #expect(try embedder.prepare([.tokens([5, 6])]).texts[0].tokens == [5, 6])
    #expect(throws: EmbeddingError.self) { try embedder.prepare([.tokens([1 << 20])]) }
    #expect(throws: EmbeddingError.self) { try embedder.prepare([.tokens([-1])]) }
    #expect(throws: EmbeddingError.self) { try embedder.prepare([.tokens([])]) }
  }

  @Test func `equal texts are encoded once, and come back where they were`() throws {
    let service = EchoService()
    let embedder = try embedder(service)
    let (vectors, prepared) = try embedder.embed([.text("a"), .text("the cat"), .text("a")])
    #expect(service.seen[0].texts.count == 2 && prepared.texts.count == 3)
    #expect(vectors[0] == vectors[2] && vectors[0] != vectors[1])
  }

  @Test func `vectors are cut, then normalised`() throws {
    let embedder = Embedder(
      service: EchoService(), tokenizer: try tokenizer(TestData.fixtures + "/models/encoder-tiny"))
    var options = Embedder.Options()
    options.dimensions = 2
    #expect(embedder.finish([3, 4, 12], options) == [0.6, 0.8])
    options.normalizes = false
    #expect(embedder.finish([3, 4, 12], options) == [3, 4])
    options.dimensions = nil
    #expect(embedder.finish([0, 0, 0], Embedder.Options()) == [0, 0, 0])
    #expect(Embedder.cosine([1, 0], [0, 2]) == 0 && Embedder.cosine([1, 1], [2, 2]) == 1)
  }

  @Test func `a model that was not trained for it has its vectors whole`() throws {
    let path = TestData.fixtures + "/models/encoder-tiny"
    var options = Embedder.Options()
    options.dimensions = 4
    let strict = try embedder()
    #expect(throws: EmbeddingError.self) { try strict.prepare([.text("a")], options) }
    let free = try Embedder(
      service: EchoService(), tokenizer: tokenizer(path), folder: ModelFolder(path: path), cutsAny: true)
    #expect(try free.prepare([.text("a")], options).texts.count == 1)
    options.dimensions = 9
    #expect(throws: EmbeddingError.self) { try free.prepare([.text("a")], options) }
    options.dimensions = 8
    #expect(try strict.prepare([.text("a")], options).texts.count == 1)
  }

  // MARK: With the engine

  private func withEncoder(
    _ name: String = "encoder-tiny", _ change: (inout EngineConfiguration) -> Void = { _ in },
    _ body: (LoadedModel, any ModelEngine) throws -> Void
  ) throws {
    var configuration = EngineConfiguration(
      modelPath: TestData.fixtures + "/models/" + name, threads: 2)
    configuration.computeMode = .exact
    configuration.cutsAnyVectors = true
    change(&configuration)
    let (model, engine) = try LoadedModel.open(configuration)
    defer { engine.stop() }
    try body(model, engine)
  }

  @Test func `a folder of an encoder opens as one, with the vectors of the reference`() throws {
    try withEncoder { model, _ in
      let embedder = try #require(model.embedder)
      let golden = try #require(SentenceGolden.all.first { $0.path.hasSuffix("/encoder-tiny") })
      var options = Embedder.Options()
      options.truncation = .right
      let inputs = golden.cases.compactMap { $0["text"]?.stringValue.map { Embedder.Input.text($0) } }
      let vectors = try embedder.embed(inputs, options).vectors
      options.dimensions = 8
      let short = try embedder.embed(inputs, options).vectors
      for (index, expected) in golden.cases.enumerated() {
        for (found, wanted) in [
          (vectors[index], expected["embedding"]), (short[index], expected["matryoshka"]?["8"]),
        ] {
          let numbers = (wanted?.arrayValue ?? []).compactMap { $0.doubleValue.map { Float($0) } }
          #expect(found.count == numbers.count && zip(found, numbers).allSatisfy { abs($0 - $1) < 1e-4 })
        }
      }
      #expect(throws: InferenceError.cannotGenerate) { try model.generator() }
      #expect(throws: PipelineError.self) { try ChatSession(model) }
    }
  }

  /// Texts whose tokens differ: numbers of two digits are one unknown word.
  private static func differentTexts(_ count: Int) -> [String] {
    (0..<count).map { number in
      let letters = [1, 26, 676].map { UInt8(97 + number / $0 % 26) }
      return "the cat sat on the " + String(decoding: letters, as: UTF8.self)
    }
  }

  @Test func `many requests at once have the bits of each alone`() throws {
    try withEncoder { model, _ in
      let embedder = try #require(model.embedder)
      let texts = Self.differentTexts(40)
      let alone = try texts.map { try embedder.embed([.text($0)]).vectors[0] }
      try withEncoder { fresh, _ in
        let other = try #require(fresh.embedder)
        let results = Monitor<[[[Float]]]>([])
        let threads = try (0..<4).map { _ in
          try Thread(name: "client", stackBytes: 1 << 20) {
            if let vectors = try? other.embed(texts.map { .text($0) }).vectors {
              results.update { $0.append(vectors) }
            }
          }
        }
        for thread in threads { thread.join() }
        #expect(results.withLock { $0 } == [[[Float]]](repeating: alone, count: 4))
      }
    }
  }

  @Test func `a text that was encoded a moment ago is not encoded again`() throws {
    try withEncoder { model, _ in
      let embedder = try #require(model.embedder)
      let first = try embedder.embed([.text("the cat")]).vectors
      let before = embedder.service.embeddingStatistics
      let second = try embedder.embed([.text("the cat")]).vectors
      let after = embedder.service.embeddingStatistics
      #expect(first == second && after.texts == before.texts && after.cacheHits == before.cacheHits + 1)
    }
  }

  @Test func `work that nobody wants any more ends within a step`() throws {
    let slow: (inout EngineConfiguration) -> Void = { $0.stepDelayMilliseconds = 20 }
    try withEncoder("encoder-tiny", slow) { model, _ in
      let embedder = try #require(model.embedder)
      let texts = Self.differentTexts(2000).map { Embedder.Input.text($0) }
      #expect(throws: EmbeddingError.self) {
        try embedder.embed(texts, Embedder.Options(), isUnwanted: { true })
      }
      let steps = embedder.service.embeddingStatistics.steps
      _ = try embedder.embed([.text("a")])
      #expect(embedder.service.embeddingStatistics.steps <= steps + 2)
    }
  }

  @Test func `a model without room in memory is refused, and gives all back when it ends`() throws {
    let ledger = MemoryLedger(limit: 10_000)
    let small: (inout EngineConfiguration) -> Void = { $0.ledger = ledger }
    #expect(throws: InferenceError.self) { try withEncoder("encoder-tiny", small) { _, _ in } }
    #expect(ledger.bytes(of: .weights) == 0)
    let larger = MemoryLedger(limit: 64 << 20)
    let roomy: (inout EngineConfiguration) -> Void = { $0.ledger = larger }
    try withEncoder("encoder-tiny", roomy) { model, _ in
      #expect(larger.bytes(of: .weights) > 0)
      let embedder = try #require(model.embedder)
      _ = try embedder.embed([.text("a")])
      #expect(larger.bytes(of: .scratch) > 0)
    }
    #expect(larger.bytes(of: .weights) == 0)
  }
}
