// A toy model that notices every mistake of the engine, and what tests of the engine share.

import Decoding
import Models
import Platform
import Sampling
import Support

@testable import Compute
@testable import Inference

/// A model whose logits are a hash of all tokens so far, read back through the block table: a wrong block, a
/// skipped position or a mixed-up row changes every later token.
final class HashModel: CausalModel {
  static let vocabulary = 50
  /// A prompt that contains it gets logits that are not numbers.
  static let poison: Int32 = 49
  let vocabularySize: Int
  let contextLength = 4096
  let cacheShape: [LayerCache] = [.keysValues(KVLayerShape(kvHeads: 1, headDim: 1))]
  let weightBytesPerToken = 1
  private let gate: Monitor<Bool>?
  private let watch: Monitor<Watch>?
  private let isPoisonous: Bool
  /// Longer sequences have other rotary frequencies.
  private let shortLimit: Int

  /// What tests see of the steps, and how many there may be.
  struct Watch {
    var steps = 0
    var permits = Int.max
    /// First tokens of prompts in the order in which they were begun.
    var begun: [Int32] = []
    /// Rows of logits that were requested, in all and at most in one step.
    var logitRows = 0
    var mostLogitRows = 0
  }

  /// - Parameters:
  ///   - gate: each step waits until it is true.
  ///   - padding: columns after the vocabulary, which would win.
  init(
    gate: Monitor<Bool>? = nil, watch: Monitor<Watch>? = nil, isPoisonous: Bool = false,
    shortLimit: Int = .max, padding: Int = 0
  ) {
    vocabularySize = Self.vocabulary + padding
    self.shortLimit = shortLimit
    self.gate = gate
    self.watch = watch
    self.isPoisonous = isPoisonous
  }

  func ropeVariant(forTokens tokens: Int) -> Int { tokens <= shortLimit ? 0 : 1 }

  func forward(_ batch: Batch, cache: KVCache, logits: inout Logits) {
    let _: Bool? = gate?.wait { $0 ? true : nil }
    let _: Bool? = watch?.wait { watch in
      guard watch.steps < watch.permits else { return nil }
      watch.steps += 1
      for span in batch.spans where span.start == 0 { watch.begun.append(span.tokens[0]) }
      watch.logitRows += batch.logitRowCount
      watch.mostLogitRows = max(watch.mostLogitRows, batch.logitRowCount)
      return true
    }
    let rows = logits.resize(rows: batch.logitRowCount, columns: vocabularySize)
    var next = 0
    for span in batch.spans {
      for (offset, token) in span.tokens.enumerated() {
        let position = span.start + offset
        Self.slot(cache, span.blocks, position).pointee = Float(Self.key(token, span.ropeVariant))
        let isLast = offset == span.tokens.count - 1
        guard span.logits == .all || (span.logits == .last && isLast) else { continue }
        let sequence = (0...position).map { Int32(Self.slot(cache, span.blocks, $0).pointee) }
        let values = Self.logits(after: sequence)
        let isBroken = isPoisonous && sequence.contains(Self.poison)
        for (column, value) in values.enumerated() { rows.row(next)[column] = isBroken ? .nan : value }
        for column in Self.vocabulary..<vocabularySize { rows.row(next)[column] = 9 }
        next += 1
      }
    }
  }

  /// What the cache keeps of a token.
  private static func key(_ token: Int32, _ ropeVariant: Int) -> Int32 { token + 1000 * Int32(ropeVariant) }

  /// Where the cache keeps the only key of a position.
  static func slot(_ cache: KVCache, _ blocks: [Int32], _ position: Int) -> UnsafeMutablePointer<
    Float
  > {
    let block = cache.layer(0).keys(block: Int(blocks[position / 32]), head: 0)
    return block.assumingMemoryBound(to: Float.self) + position % 32
  }

  static func logits(after tokens: [Int32]) -> [Float] {
    var hash: UInt64 = 14_695_981_039_346_656_037
    for token in tokens { hash = (hash ^ UInt64(UInt32(bitPattern: token))) &* 1_099_511_628_211 }
    var random = SeededGenerator(seed: hash)
    return (0..<vocabulary).map { _ in Float.random(in: -4...4, using: &random) }
  }

  /// What greedy decoding must give, computed without an engine.
  static func greedy(after prompt: [Int32], count: Int, shortLimit: Int = .max) -> [Int32] {
    var tokens = prompt
    for _ in 0..<count {
      let values = logits(after: tokens.map { key($0, tokens.count <= shortLimit ? 0 : 1) })
      tokens.append(Int32(values.indices.max { values[$0] < values[$1] } ?? 0))
    }
    return Array(tokens.dropFirst(prompt.count))
  }
}

/// What suites that drive an engine have in common.
protocol EngineHarness {}

extension EngineHarness {
  func client(
    gate: Monitor<Bool>? = nil, watch: Monitor<HashModel.Watch>? = nil, isPoisonous: Bool = false,
    shortLimit: Int = .max, padding: Int = 0, turns: SharedCompute? = nil,
    _ adjust: (inout EngineConfiguration) -> Void = { _ in }
  ) throws -> EngineClient {
    var configuration = EngineConfiguration(modelPath: "", threads: 1)
    configuration.kvCacheBytes = 1 << 20
    adjust(&configuration)
    return try EngineClient.start(configuration) { _ in
      EngineClient.LoadedModel(
        model: HashModel(
          gate: gate, watch: watch, isPoisonous: isPoisonous, shortLimit: shortLimit, padding: padding),
        weightBytes: 0, computeName: "toy", turns: turns)
    }
  }

  var greedy: SamplingParameters {
    var parameters = SamplingParameters()
    parameters.temperature = 0
    return parameters
  }

  func request(_ prompt: [Int32], _ count: Int) -> GenerationRequest {
    GenerationRequest(
      promptTokens: prompt, maxTokens: count, sampling: greedy)
  }

  func prompt(seed: UInt64, count: Int) -> [Int32] {
    var random = SeededGenerator(seed: seed)
    return (0..<count).map { _ in Int32.random(in: 0..<Int32(HashModel.vocabulary), using: &random) }
  }

  /// All tokens and the end of a generation.
  func collect(_ generation: Generation) -> (
    tokens: [Int32], reason: FinishReason?, timings: GenerationTimings
  ) {
    var tokens: [Int32] = []
    while true {
      switch generation.next(until: Instant.now.adding(seconds: 30)) {
      case .element(.token(let token)): tokens.append(token.id)
      case .element(.finished(let reason, let timings)): return (tokens, reason, timings)
      case .element: continue
      case .closed, .timedOut: return (tokens, nil, GenerationTimings())
      }
    }
  }

  /// The cached tokens that the engine reports.
  func cachedTokens(_ generation: Generation) -> Int? {
    guard case .element(.started(let cached)) = generation.next(until: Instant.now.adding(seconds: 30)) else {
      return nil
    }
    return cached
  }

  /// Waits, for 30 seconds at most, until the engine's counts are as wanted.
  func wait(_ client: EngineClient, until isWanted: (EngineStatistics) -> Bool) -> Bool {
    let deadline = Instant.now.adding(seconds: 30)
    while !isWanted(client.statistics) {
      guard Instant.now < deadline else { return false }
      usleep(1_000)
    }
    return true
  }
}
