// A model with a sliding layer in the engine: the same tokens in a fraction of the memory, however they are computed.

import Models
import Platform
import Sampling
import Support
import Testing

@testable import Compute
@testable import Inference

/// A model whose logits depend on the last tokens as a sliding layer has them, and on all as another layer has them. A
/// block of the sliding layer fills whole pages: what has been given back too early reads as zeros.
private final class SlidingModel: CausalModel {
  static let window = 70
  static let shape = [
    KVLayerShape(kvHeads: 1, headDim: 64, window: window), KVLayerShape(kvHeads: 1, headDim: 1),
  ]
  /// In float32.
  static let bytes = BlockBytes(whole: 256 + (16 << 10), sliding: 16 << 10)

  let vocabularySize = HashModel.vocabulary
  let contextLength = 4096
  let cacheShape = shape.map { LayerCache.keysValues($0) }
  let weightBytesPerToken = 1

  func ropeVariant(forTokens tokens: Int) -> Int { 0 }

  func forward(_ batch: Batch, cache: KVCache, logits: inout Logits) {
    let rows = logits.resize(rows: batch.logitRowCount, columns: vocabularySize)
    var next = 0
    for span in batch.spans {
      for (offset, token) in span.tokens.enumerated() {
        let position = span.start + offset
        for layer in 0..<2 { Self.key(cache, layer, span.blocks, position).pointee = Float(token + 1) }
        guard span.logitRows.contains(offset) else { continue }
        let all = (0...position).map { Int32(Self.key(cache, 1, span.blocks, $0).pointee) }
        let seen = (max(0, position - Self.window + 1)...position)
          .map { Int32(Self.key(cache, 0, span.blocks, $0).pointee) }
        for (column, value) in HashModel.logits(after: all + seen).enumerated() {
          rows.row(next)[column] = value
        }
        next += 1
      }
    }
  }

  private static func key(
    _ cache: KVCache, _ layer: Int, _ blocks: [Int32], _ position: Int
  ) -> UnsafeMutablePointer<Float> {
    cache.layer(layer).keys(block: Int(blocks[position / 32]), head: 0).assumingMemoryBound(to: Float.self)
      + position % 32
  }

  /// What greedy decoding must give, computed without an engine.
  static func greedy(after prompt: [Int32], count: Int) -> [Int32] {
    var keys = prompt.map { $0 + 1 }
    for _ in 0..<count {
      let values = HashModel.logits(after: keys + keys.suffix(window))
      keys.append(Int32(values.indices.max { values[$0] < values[$1] } ?? 0) + 1)
    }
    return keys.dropFirst(prompt.count).map { $0 - 1 }
  }
}

@Suite struct SlidingTests: EngineHarness {
  private func engine(_ adjust: (inout EngineConfiguration) -> Void = { _ in }) throws -> EngineClient {
    var configuration = EngineConfiguration(modelPath: "", threads: 1)
    configuration.kvCacheBytes = 8 << 20
    configuration.kvFormat = .f32
    adjust(&configuration)
    return try EngineClient.start(configuration) { _ in
      EngineClient.LoadedModel(model: SlidingModel(), weightBytes: 0, computeName: "toy")
    }
  }

  @Test(arguments: [0, 1 << 20])
  func `a window makes the same tokens, whatever the size of the chunks`(prefixBytes: Int) throws {
    let prompt = prompt(seed: 1, count: 400)
    let expected = SlidingModel.greedy(after: prompt, count: 40)
    for rows in [1, 7, 32, 256, 1000] {
      let engine = try engine {
        $0.rowsPerStep = rows
        $0.prefixCacheBytes = prefixBytes
      }
      #expect(collect(try engine.submit(request(prompt, 40))).tokens == expected, "rows per step: \(rows)")
      engine.stop()
    }
  }

  @Test func `what has left the window goes back to the system`() throws {
    let engine = try engine {
      $0.rowsPerStep = 32
      $0.prefixCacheBytes = 0
    }
    defer { engine.stop() }
    let prompt = prompt(seed: 2, count: 2000)
    #expect(
      collect(try engine.submit(request(prompt, 3))).tokens == SlidingModel.greedy(after: prompt, count: 3))
    // 63 blocks, of which those of the window and of one step had their sliding part.
    #expect(engine.touched.value <= 63 * 256 + 6 * SlidingModel.bytes.sliding)
    #expect(engine.touched.value > 0)
  }

  @Test(arguments: [0, 1 << 20])
  func `a context fits into memory that its whole blocks would exceed, beside others`(prefixBytes: Int) throws
  {
    // 125 whole blocks would take 2 MB.
    let engine = try engine {
      $0.maxContext = 4000
      $0.rowsPerStep = 64
      $0.kvCacheBytes = 40 * SlidingModel.bytes.whole
      $0.ledger = MemoryLedger(limit: 128 * SlidingModel.bytes.whole + (1 << 20))
      $0.prefixCacheBytes = prefixBytes
    }
    defer { engine.stop() }
    let prompts = (0..<3).map { prompt(seed: UInt64($0), count: 3900) }
    let generations = try prompts.map { try engine.submit(request($0, 4)) }
    for (prompt, generation) in zip(prompts, generations) {
      #expect(collect(generation).tokens == SlidingModel.greedy(after: prompt, count: 4))
    }
  }

  @Test func `a second turn goes on where the first has ended, and branches where its window is whole`()
    throws
  {
    let engine = try engine()
    defer { engine.stop() }
    let prompt = prompt(seed: 3, count: 500)
    let answer = collect(try engine.submit(request(prompt, 40))).tokens
    let next = prompt + answer + [1, 2, 3]
    let second = try engine.submit(request(next, 20))
    #expect(cachedTokens(second) == 539)
    #expect(collect(second).tokens == SlidingModel.greedy(after: next, count: 20))
    let other = Array(prompt[..<300]) + [7, 7, 7]
    let parted = try engine.submit(request(other, 20))
    #expect(cachedTokens(parted) == 300)
    #expect(collect(parted).tokens == SlidingModel.greedy(after: other, count: 20))
  }

  @Test(arguments: [0, 400 << 10])
  func `together, sampled, drafted and short of memory, each gives what it gives alone`(prefixBytes: Int)
    throws
  {
    let prompts = (0..<10).map { index -> [Int32] in
      let part = prompt(seed: UInt64(index % 3), count: 60)
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
    for (speculates, together) in [(false, false), (false, true), (true, false), (true, true)] {
      let engine = try engine {
        $0.speculates = speculates
        $0.rowsPerStep = 48
        $0.kvCacheBytes = 16 * SlidingModel.bytes.whole
        $0.ledger = MemoryLedger(limit: 16 * SlidingModel.bytes.whole)
        $0.maxContext = 400
        $0.prefixCacheBytes = prefixBytes
      }
      if together {
        let generations = try requests.map { try engine.submit($0) }
        answers.append(generations.map { collect($0).tokens })
        #expect(engine.statistics.preemptions > 0)
      } else {
        answers.append(try requests.map { collect(try engine.submit($0)).tokens })
      }
      engine.stop()
    }
    for answer in answers.dropFirst() { #expect(answer == answers[0]) }
    #expect(answers[0].allSatisfy { $0.count == 80 })
  }

  // MARK: Bookkeeping

  private func pool(_ blocks: Int) -> BlockPool {
    BlockPool(blockCount: 64, quota: blocks, bytes: SlidingModel.bytes)
  }

  @Test func `a narrow block leaves room for others, and becomes free as one without memory`() throws {
    let cache = try KVCache(shape: SlidingModel.shape, blockCount: 64)
    var pool = pool(4)
    var table: [Int32] = []
    #expect(pool.extend(&table, to: 4))
    #expect(!pool.extend(&table, to: 5))
    pool.retain([table[0]])
    pool.releaseSliding(table[..<2])
    // The other reader of the first block still sees its sliding part.
    #expect(pool.isWhole(table[0]) && !pool.isWhole(table[1]))
    pool.releaseSliding([table[0]])
    pool.settle(cache)
    #expect(pool.freeCount == 1)
    #expect(pool.touched == 2 * 256 + 2 * SlidingModel.bytes.whole)
    #expect(pool.extend(&table, to: 5))
    pool.release(table[..<2], sliding: false)
    pool.release([table[0]], sliding: false)
    pool.settle(cache)
    #expect(pool.touched == 3 * SlidingModel.bytes.whole)
    #expect(pool.freeCount == 1)
  }

  @Test func `whatever is taken, narrowed and given back, memory stays within the quota`() throws {
    let cache = try KVCache(shape: SlidingModel.shape, blockCount: 64)
    var random = SeededGenerator(seed: 4)
    var pool = pool(20)
    var tables = [(blocks: [Int32], firstWhole: Int)](repeating: ([], 0), count: 8)
    for _ in 0..<20_000 {
      let at = Int.random(in: 0..<tables.count, using: &random)
      switch Int.random(in: 0..<5, using: &random) {
      case 0:
        pool.release(tables[at].blocks[tables[at].firstWhole...])
        pool.release(tables[at].blocks[..<tables[at].firstWhole], sliding: false)
        tables[at] = ([], 0)
      case 1, 2:
        let start = max(tables[at].firstWhole, tables[at].blocks.count - 2)
        pool.releaseSliding(tables[at].blocks[tables[at].firstWhole..<start])
        tables[at].firstWhole = start
      default:
        _ = pool.extend(
          &tables[at].blocks, to: tables[at].blocks.count + Int.random(in: 0...4, using: &random))
      }
      if Bool.random(using: &random) { pool.settle(cache) }
      let held = tables.flatMap(\.blocks)
      #expect(Set(held).count == held.count)
      let narrow = tables.reduce(0) { $0 + $1.firstWhole }
      #expect(pool.usedBytes == held.count * pool.bytes.whole - narrow * pool.bytes.sliding)
      #expect(pool.touched <= 20 * pool.bytes.whole)
    }
  }

  @Test func `cached prefixes give up what is inside of texts first, and get it back when it is computed`()
    throws
  {
    let store = BlockNames(content: [1], compute: "x", version: "1", shape: SlidingModel.shape)
    let storage = try KVCache(shape: SlidingModel.shape, blockCount: 64)
    var pool = pool(12)
    var cache = PrefixCache(limit: 64, names: store, window: SlidingModel.window)
    let text = (0..<400).map { Int32($0) }
    func record() -> [Int32] {
      var path = PrefixCache.Path(PrefixCache.Root(ropeVariant: 0))
      var table: [Int32] = []
      #expect(pool.extend(&table, to: 10))
      cache.record(text, computed: 320, path: &path, table: table, pool: &pool)
      return table
    }
    func found(_ count: Int) -> Int {
      var path = PrefixCache.Path(PrefixCache.Root(ropeVariant: 0))
      var held: [Int32] = []
      cache.adopt(Array(text[..<count]), path: &path, table: &held, pool: &pool)
      let first = min(held.count, KVCache.firstSeen(from: held.count * 32, window: SlidingModel.window))
      #expect(held[first...].allSatisfy(pool.isWhole))
      pool.release(held[first...])
      pool.release(held[..<first], sliding: false)
      return held.count
    }
    var table = record()
    pool.release(&table)
    #expect(found(200) == 6)
    #expect(cache.records.count == 10)
    // Two of twelve are free. Six more weigh as much as seven sliding parts: all but those of the last window.
    cache.evict(untilFree: 8, pool: &pool)
    pool.settle(storage)
    #expect(cache.count == 10)
    #expect(pool.freeCount >= 8)
    #expect(cache.bytes(pool) == 10 * 256 + 3 * SlidingModel.bytes.sliding)
    #expect(found(400) == 10)
    #expect(found(200) == 0)
    // Files hold whole blocks.
    #expect(cache.records.count < 5)
    // Computed again, the blocks take the place of those without a sliding part.
    pool.quota = 40
    table = record()
    pool.release(&table)
    pool.settle(storage)
    #expect(found(200) == 6)
    #expect(cache.count == 10)
    #expect(cache.records.count == 10)
    #expect(pool.usedBytes == 10 * SlidingModel.bytes.whole)
  }
}
