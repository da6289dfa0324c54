// Engines under one ledger: what they reserve, what they give back, and how they end when nothing is left.

import Decoding
import Models
import Platform
import Sampling
import Support
import Synchronization
import Testing

@testable import Compute
@testable import Inference

/// A model whose next token is a function of its last one and the position; counts how many forward passes of all
/// such models run at a time.
private final class StepModel: CausalModel {
  static let running = Atomic<Int>(0)
  static let most = Atomic<Int>(0)

  let vocabularySize = 16
  let contextLength: Int
  let cacheShape: [LayerCache] = [.keysValues(KVLayerShape(kvHeads: 1, headDim: 64))]
  let weightBytesPerToken = 1
  private let isCounted: Bool

  init(contextLength: Int = 1 << 15, isCounted: Bool = false) {
    self.contextLength = contextLength
    self.isCounted = isCounted
  }

  func ropeVariant(forTokens tokens: Int) -> Int { 0 }

  func forward(_ batch: Batch, cache: KVCache, logits: inout Logits) {
    if isCounted {
      let now = Self.running.wrappingAdd(1, ordering: .sequentiallyConsistent).newValue
      Self.most.max(now, ordering: .sequentiallyConsistent)
      usleep(100)
    }
    let rows = logits.resize(rows: batch.logitRowCount, columns: vocabularySize)
    var next = 0
    for span in batch.spans {
      for offset in span.logitRows {
        for column in 0..<vocabularySize { rows.row(next)[column] = 0 }
        rows.row(next)[(Int(span.tokens[offset]) * 5 + span.start + offset + 1) % vocabularySize] = 9
        next += 1
      }
    }
    if isCounted { Self.running.wrappingSubtract(1, ordering: .sequentiallyConsistent) }
  }

  static func greedy(after prompt: [Int32], count: Int) -> [Int32] {
    var tokens = prompt
    for _ in 0..<count { tokens.append((tokens[tokens.count - 1] * 5 + Int32(tokens.count)) % 16) }
    return Array(tokens.dropFirst(prompt.count))
  }
}

@Suite struct EngineMemoryTests {
  /// 32 tokens of one head of 64 float32 keys and values.
  private static let bytesPerBlock = 2 * 32 * 64 * 4
  private static let guaranteed = 128 * bytesPerBlock

  private func client(
    _ ledger: MemoryLedger, weights: Int = 1_000, idle: Int = 0, turns: SharedCompute? = nil,
    isCounted: Bool = false,
    _ adjust: (inout EngineConfiguration) -> Void = { _ in }
  ) throws -> EngineClient {
    var configuration = EngineConfiguration(modelPath: "", threads: 1)
    configuration.ledger = ledger
    configuration.kvFormat = .f32
    configuration.kvCacheBytes = 1 << 30
    configuration.memoryPatience = 0.05
    adjust(&configuration)
    return try EngineClient.start(configuration) { _ in
      EngineClient.LoadedModel(
        model: StepModel(isCounted: isCounted), weightBytes: weights, idleBytes: idle, computeName: "toy",
        turns: turns)
    }
  }

  private func prompt(_ count: Int, from first: Int32 = 1) -> [Int32] {
    (0..<count).map { (Int32($0 % 1_000) &* 7 &+ first) % 16 }
  }

  private func submit(_ engine: EngineClient, _ prompt: [Int32], _ count: Int) throws -> Generation {
    var request = GenerationRequest(promptTokens: prompt, maxTokens: count)
    request.sampling.temperature = 0
    return try engine.submit(request)
  }

  private func collect(_ generation: Generation) -> (tokens: [Int32], error: InferenceError?) {
    var tokens: [Int32] = []
    while true {
      switch generation.next(until: Instant.now.adding(seconds: 60)) {
      case .element(.token(let token)): tokens.append(token.id)
      case .element(.failed(let error)): return (tokens, error)
      case .element(.finished), .closed, .timedOut: return (tokens, nil)
      case .element: continue
      }
    }
  }

  @Test func `an engine holds its weights and a first stretch of context, and gives all back`() throws {
    let ledger = MemoryLedger(limit: 1 << 30)
    let engine = try client(ledger)
    #expect(ledger.bytes(of: .weights) == 1_000)
    #expect(ledger.bytes(of: .kvCache) == Self.guaranteed)
    #expect(collect(try submit(engine, prompt(6_000), 3)).tokens.count == 3)
    #expect(ledger.bytes(of: .kvCache) + ledger.bytes(of: .prefixCache) > Self.guaranteed)
    engine.stop()
    #expect(ledger.snapshot().total == 0)
    #expect(engine.touched.value == 0)
  }

  @Test func `weights that need not be in memory are not counted`() throws {
    let ledger = MemoryLedger(limit: 8 << 20)
    let engine = try client(ledger, weights: 1 << 30, idle: (1 << 30) - 1_000)
    #expect(ledger.bytes(of: .weights) == 1_000)
    #expect(engine.weightBytes == 1 << 30)
    engine.stop()
    #expect(ledger.snapshot().total == 0)
  }

  @Test func `a model that does not fit says what it needs and what is left`() throws {
    let ledger = MemoryLedger(limit: 8 << 20)
    #expect(ledger.reserve(3 << 20, for: .other))
    let error = InferenceError.modelTooLarge(
      weightBytes: 4 << 20, cacheBytes: Self.guaranteed, context: 4_096, leftBytes: 5 << 20,
      limitBytes: 8 << 20)
    #expect(throws: error) { try client(ledger, weights: 4 << 20) }
    #expect(
      "\(error)"
        == "needs 4 MiB of weights and 2 MiB for 4096 tokens of keys and values, and 5 MiB are left of "
        + "--memory 8 MiB")
    #expect(ledger.snapshot().total == 3 << 20)
  }

  @Test func `a sequence that finds no more memory fails with the numbers, and the next one works`() throws {
    let ledger = MemoryLedger(limit: Self.guaranteed + 1_000 + 8 * Self.bytesPerBlock)
    let engine = try client(ledger)
    defer { engine.stop() }
    let (tokens, error) = collect(try submit(engine, prompt(6_000), 3))
    #expect(tokens.isEmpty)
    guard case .outOfMemory(_, 512, let left, ledger.limit)? = error else {
      Issue.record("\(String(describing: error))")
      return
    }
    #expect(left < 1 << 14)
    let short = prompt(50)
    #expect(collect(try submit(engine, short, 20)).tokens == StepModel.greedy(after: short, count: 20))
  }

  @Test func `a sequence goes on when others give memory back in time`() throws {
    let ledger = MemoryLedger(limit: Self.guaranteed + 1_000 + 100 * Self.bytesPerBlock)
    #expect(ledger.reserve(100 * Self.bytesPerBlock, for: .other))
    ledger.onShortage { _ in ledger.set(.other, to: 0) }
    let engine = try client(ledger) { $0.memoryPatience = 30 }
    defer { engine.stop() }
    let long = prompt(5_000)
    #expect(collect(try submit(engine, long, 5)).tokens == StepModel.greedy(after: long, count: 5))
  }

  @Test func `sequences that share little memory come to the same ends`() throws {
    let ledger = MemoryLedger(limit: Self.guaranteed + 1_000 + 40 * Self.bytesPerBlock)
    let engine = try client(ledger) { $0.rowsPerStep = 1_000 }
    defer { engine.stop() }
    let prompts = (0..<4).map { prompt(2_500, from: Int32($0)) }
    let generations = try prompts.map { try submit(engine, $0, 100) }
    for (prompt, generation) in zip(prompts, generations) {
      let (tokens, error) = collect(generation)
      #expect(error == nil)
      #expect(tokens == StepModel.greedy(after: prompt, count: 100))
    }
    #expect(ledger.snapshot().lines.reduce(0) { $0 + $1.bytes } <= ledger.limit)
  }

  @Test func `cached prefixes are given back when they are asked for`() throws {
    let ledger = MemoryLedger(limit: 1 << 30)
    let engine = try client(ledger)
    defer { engine.stop() }
    let long = prompt(8_000)
    let expected = StepModel.greedy(after: long, count: 4)
    #expect(collect(try submit(engine, long, 4)).tokens == expected)
    let held = ledger.bytes(of: .kvCache) + ledger.bytes(of: .prefixCache)
    #expect(ledger.bytes(of: .prefixCache) == 250 * Self.bytesPerBlock)
    #expect(engine.touched.value == 251 * Self.bytesPerBlock)
    // What is free goes first: here there is nearly nothing.
    let given = engine.reclaim(100 * Self.bytesPerBlock - 5, seconds: 30)
    #expect(given == 100 * Self.bytesPerBlock)
    #expect(ledger.bytes(of: .kvCache) + ledger.bytes(of: .prefixCache) == held - given)
    // The pages of a few blocks are shared with others that stay.
    #expect(engine.touched.value <= 160 * Self.bytesPerBlock)
    // Never what is guaranteed.
    _ = engine.reclaim(.max / 2, seconds: 30)
    #expect(ledger.bytes(of: .kvCache) + ledger.bytes(of: .prefixCache) == Self.guaranteed)
    #expect(collect(try submit(engine, long, 4)).tokens == expected)
  }

  @Test func `engines that share their kernels compute one at a time, and what they would alone`() throws {
    let turns = SharedCompute(try ComputeContext(threads: 1))
    let ledger = MemoryLedger(limit: 1 << 30)
    let engines = try (0..<3).map { _ in try client(ledger, turns: turns, isCounted: true) }
    defer { for engine in engines { engine.stop() } }
    let prompts = (0..<3).map { prompt(40, from: Int32($0)) }
    let generations = try zip(engines, prompts).map { try submit($0, $1, 200) }
    for (prompt, generation) in zip(prompts, generations) {
      #expect(collect(generation).tokens == StepModel.greedy(after: prompt, count: 200))
    }
    #expect(StepModel.most.load(ordering: .sequentiallyConsistent) == 1)
  }
}
