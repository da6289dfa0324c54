// A model with a running state in the engine: the same tokens alone and together, cached, preempted, forked and drafted.

import Models
import Platform
import Sampling
import Support
import Testing

@testable import Compute
@testable import Inference

/// A model whose logits depend on a running hash of all tokens, kept as a state, and on all tokens as the cache of keys
/// has them: a state that belongs to another position or another sequence changes every later token, as a wrong block
/// does.
private final class RecurrentModel: CausalModel {
  let vocabularySize = HashModel.vocabulary
  let contextLength = 4096
  let cacheShape: [LayerCache] = [
    .keysValues(KVLayerShape(kvHeads: 1, headDim: 1)),
    .recurrent(StateShape(heads: 1, keyDim: 4, valueDim: 1)),
  ]
  let weightBytesPerToken = 1

  func ropeVariant(forTokens tokens: Int) -> Int { 0 }

  func forward(_ batch: Batch, cache: KVCache, logits: inout Logits) {
    let rows = logits.resize(rows: batch.logitRowCount, columns: vocabularySize)
    var next = 0
    for span in batch.spans {
      guard let states = cache.states, let slot = span.slot else { continue }
      let state = states.state(0, of: slot)
      var hash = (0..<4).reduce(UInt64(0)) { $0 << 16 | UInt64(state.row($1)[0]) }
      for (offset, token) in span.tokens.enumerated() {
        let position = span.start + offset
        HashModel.slot(cache, span.blocks, position).pointee = Float(token)
        hash = Self.step(hash, token)
        guard span.logitRows.contains(offset) else { continue }
        let sequence = (0...position).map { Int32(HashModel.slot(cache, span.blocks, $0).pointee) }
        for (column, value) in Self.logits(hash, sequence).enumerated() { rows.row(next)[column] = value }
        next += 1
      }
      for part in 0..<4 { state.row(part)[0] = Float(hash >> UInt64(48 - 16 * part) & 0xFFFF) }
    }
  }

  private static func step(_ hash: UInt64, _ token: Int32) -> UInt64 {
    (hash ^ UInt64(UInt32(bitPattern: token))) &* 1_099_511_628_211 &+ 1
  }

  private static func logits(_ hash: UInt64, _ tokens: [Int32]) -> [Float] {
    HashModel.logits(
      after: tokens + [Int32(truncatingIfNeeded: hash), Int32(truncatingIfNeeded: hash >> 32)])
  }

  /// What greedy decoding must give, computed without an engine.
  static func greedy(after prompt: [Int32], count: Int) -> [Int32] {
    var tokens = prompt
    var hash = prompt.reduce(UInt64(0)) { step($0, $1) }
    for _ in 0..<count {
      let values = logits(hash, tokens)
      let token = Int32(values.indices.max { values[$0] < values[$1] } ?? 0)
      hash = step(hash, token)
      tokens.append(token)
    }
    return Array(tokens.dropFirst(prompt.count))
  }
}

@Suite struct RecurrentTests: EngineHarness {
  private func engine(_ adjust: (inout EngineConfiguration) -> Void = { _ in }) throws -> EngineClient {
    var configuration = EngineConfiguration(modelPath: "", threads: 1)
    configuration.kvCacheBytes = 1 << 20
    adjust(&configuration)
    return try EngineClient.start(configuration) { _ in
      EngineClient.LoadedModel(model: RecurrentModel(), weightBytes: 0, computeName: "toy")
    }
  }

  /// Bytes of the states of an engine that runs `sequences` at a time: a slot is a cache line here.
  private func stateBytes(sequences: Int) -> Int { 64 * 3 * sequences }

  @Test func `a state makes the same tokens, whatever the size of the chunks`() throws {
    let prompt = prompt(seed: 1, count: 300)
    let expected = RecurrentModel.greedy(after: prompt, count: 40)
    for rows in [1, 7, 32, 256, 1000] {
      let engine = try engine { $0.rowsPerStep = rows }
      #expect(collect(try engine.submit(request(prompt, 40))).tokens == expected, "rows per step: \(rows)")
      engine.stop()
    }
  }

  @Test func `a second turn goes on with the state that the first has left`() throws {
    let engine = try engine()
    defer { engine.stop() }
    let prompt = prompt(seed: 3, count: 100)
    let answer = collect(try engine.submit(request(prompt, 40))).tokens
    #expect(answer == RecurrentModel.greedy(after: prompt, count: 40))
    let next = prompt + answer + [1, 2, 3]
    let second = try engine.submit(request(next, 20))
    #expect(cachedTokens(second) == 139)
    #expect(collect(second).tokens == RecurrentModel.greedy(after: next, count: 20))
    // The last border of the prompt has a state; where another text parts from it, there is none.
    let again = try engine.submit(request(prompt, 40))
    #expect(cachedTokens(again) == 96)
    #expect(collect(again).tokens == answer)
    let other = Array(prompt[..<80]) + [7, 7, 7]
    let parted = try engine.submit(request(other, 20))
    #expect(cachedTokens(parted) == 0)
    #expect(collect(parted).tokens == RecurrentModel.greedy(after: other, count: 20))
  }

  @Test func `choices of one prompt share its prefill, and each has a state of its own`() throws {
    let engine = try engine { $0.rowsPerStep = 64 }
    defer { engine.stop() }
    let prompt = prompt(seed: 8, count: 700)
    func choice(_ seed: UInt64) -> GenerationRequest {
      var request = request(prompt, 30)
      request.sampling.temperature = 1
      request.sampling.seed = seed
      return request
    }
    let alone = try (0..<4).map { collect(try engine.submit(choice($0))).tokens }
    let together = try self.engine { $0.rowsPerStep = 64 }
    defer { together.stop() }
    let generations = try (0..<4).map { try together.submit(choice($0)) }
    for (generation, tokens) in zip(generations, alone) { #expect(collect(generation).tokens == tokens) }
    #expect(Set(alone).count == 4)
    // 672 of 700 tokens are computed once, whether or not the first was begun alone.
    #expect(together.statistics.prefillTokens <= 672 + 4 * 28)
  }

  @Test(arguments: [0, 1 << 20])
  func `preempted sequences come back to their tokens`(prefixBytes: Int) throws {
    let prompts = (0..<12).map { prompt(seed: UInt64($0), count: 20 + 11 * $0) }
    let engine = try engine {
      $0.maxContext = 512
      $0.kvCacheBytes = 24 * 256 + stateBytes(sequences: 8)
      $0.rowsPerStep = 48
      $0.prefixCacheBytes = prefixBytes
    }
    defer { engine.stop() }
    let generations = try prompts.map { try engine.submit(request($0, 120)) }
    for (prompt, generation) in zip(prompts, generations) {
      #expect(collect(generation).tokens == RecurrentModel.greedy(after: prompt, count: 120))
    }
    #expect(engine.statistics.preemptions > 0)
  }

  @Test func `drafts change the number of steps, not the tokens`() throws {
    let beginning = prompt(seed: 21, count: 40)
    let answer = RecurrentModel.greedy(after: beginning, count: 300)
    // Right to its end, wrong from its first token, and wrong in every seventh.
    let drafts = [answer, answer.map { ($0 + 1) % 50 }, answer.enumerated().map { $0 % 7 == 6 ? 0 : $1 }]
    for draft in drafts {
      let engine = try engine()
      var drafted = request(beginning, 300)
      drafted.draft = draft
      let (tokens, reason, timings) = collect(try engine.submit(drafted))
      #expect(tokens == answer)
      #expect(reason == .length)
      #expect(timings.generatedTokens == 300)
      engine.stop()
    }
  }

  @Test func `together, sampled, drafted and short of memory, each gives what it gives alone`() throws {
    let prompts = (0..<10).map { index -> [Int32] in
      let part = prompt(seed: UInt64(index % 3), count: 30)
      return part + part + part + [Int32(index / 2)]
    }
    let requests = prompts.enumerated().map { index, prompt in
      var request = request(prompt, 80)
      request.sampling.temperature = 0.2
      request.sampling.seed = UInt64(index)
      request.draft = Array(prompt.reversed())
      return request
    }
    var answers: [[[Int32]]] = []
    for speculates in [false, true] {
      for together in [false, true] {
        let engine = try engine {
          $0.speculates = speculates
          $0.kvCacheBytes = 40 * 256 + stateBytes(sequences: 8)
          $0.maxContext = 400
        }
        if together {
          let generations = try requests.map { try engine.submit($0) }
          answers.append(generations.map { collect($0).tokens })
        } else {
          answers.append(try requests.map { collect(try engine.submit($0)).tokens })
        }
        engine.stop()
      }
    }
    for answer in answers.dropFirst() { #expect(answer == answers[0]) }
    #expect(answers[0].allSatisfy { $0.count == 80 })
  }

  @Test func `states are counted, and given back with everything else`() throws {
    let ledger = MemoryLedger(limit: 1 << 30)
    let engine = try engine { $0.ledger = ledger }
    let prompt = prompt(seed: 5, count: 100)
    #expect(ledger.bytes(of: .kvCache) == 128 * 256 + stateBytes(sequences: 8))
    for _ in 0..<3 {
      #expect(
        collect(try engine.submit(request(prompt, 9))).tokens
          == RecurrentModel.greedy(after: prompt, count: 9))
    }
    engine.stop()
    #expect(ledger.snapshot().total == 0)
    #expect(engine.touched.value == 0)
  }

  @Test func `the prefix cache finds borders with a state, and gives up the oldest states first`() throws {
    let states = try StateCache(shape: [StateShape(heads: 1, keyDim: 1, valueDim: 1)], slotCount: 4)
    let slot = try #require(states.take())
    var pool = BlockPool(blockCount: 16)
    var cache = PrefixCache(limit: 16, states: PrefixStates(states, limit: 2))
    let text = (0..<160).map { Int32($0) }
    var path = PrefixCache.Path(PrefixCache.Root(ropeVariant: 0))
    var table: [Int32] = []
    #expect(pool.extend(&table, to: 4))
    for computed in [32, 64, 96, 128] {
      cache.record(text, computed: computed, path: &path, table: table, pool: &pool)
      if computed != 64, computed != 128 {
        states.state(0, of: slot).row(0)[0] = Float(computed)
        cache.keep(state: slot, at: path)
      }
    }
    func found(_ count: Int) -> (blocks: Int, state: Float?) {
      var path = PrefixCache.Path(PrefixCache.Root(ropeVariant: 0))
      var held: [Int32] = []
      let state = cache.adopt(Array(text[..<count]), path: &path, table: &held, pool: &pool)
      #expect(held.count == path.blocks)
      pool.release(held)
      return (path.blocks, state.map { states.state(0, of: $0).row(0)[0] })
    }
    #expect(found(160) == (3, 96))
    #expect(found(97) == (3, 96))
    #expect(found(96) == (1, 32))
    #expect(found(32) == (0, nil))
    // The state of the first block has been used later than that of the third.
    #expect(found(33) == (1, 32))
    cache.keep(state: slot, at: path)
    #expect(found(160) == (4, 96))
    #expect(found(128) == (1, 32))
    #expect(states.freeSlots == 1)
  }
}
