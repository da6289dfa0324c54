// Families with recurrent layers in the engine, with real arithmetic: each request gives what it gives alone, whatever
// is cached, preempted, drafted or computed beside it.

import Checkpoint
import Models
import Platform
import Sampling
import Support
import Testing

@testable import Compute
@testable import Inference

@Suite struct RecurrentFamilyTests: EngineHarness {
  /// Checkpoints of `Fixtures/models` whose layers keep states.
  static let folders = [
    "falconh1-tiny", "granite4-tiny", "kimilinear-tiny", "lfm2-tiny", "nemotronh-tiny", "qwen35-tiny",
    "qwen3next-tiny",
  ]

  private func engine(
    _ folder: String, _ adjust: (inout EngineConfiguration) -> Void = { _ in }
  ) throws -> EngineClient {
    var configuration = EngineConfiguration(modelPath: TestData.fixtures + "/models/" + folder, threads: 1)
    configuration.computeMode = .exact
    configuration.kvCacheBytes = 16 << 20
    configuration.maxSequences = 4
    adjust(&configuration)
    return try EngineClient.start(configuration)
  }

  @Test(arguments: folders)
  func `what one engine has saved on disk, the next goes on from`(folder: String) throws {
    let place = try Folder()
    let prompt = prompt(seed: 3, count: 100)
    func run(_ adjust: (inout EngineConfiguration) -> Void) throws -> (tokens: [Int32], fromDisk: Int) {
      let engine = try engine(folder, adjust)
      defer { engine.stop() }
      // The weights have been hashed.
      _ = engine.saving?.wait()
      let tokens = collect(try engine.submit(request(prompt, 40))).tokens
      return (tokens, engine.statistics.prefixDiskTokens)
    }
    let alone = try run { $0.prefixCacheBytes = 0 }
    let first = try run { $0.prefixCacheFolder = place.path }
    let second = try run { $0.prefixCacheFolder = place.path }
    #expect(first.tokens == alone.tokens && first.fromDisk == 0)
    // The last border of blocks in the prompt.
    #expect(second.tokens == alone.tokens && second.fromDisk == 96)
  }

  /// Bytes of the states of as many sequences, and of some blocks.
  private func memory(_ folder: String, sequences: Int, blocks: Int) throws -> Int {
    let path = TestData.fixtures + "/models/" + folder
    let compute = try ComputeContext(threads: 1)
    let shape = try ModelFamily.load(try ModelFolder(path: path), compute: compute).cacheShape
    let slots = sequences * EngineMemory.slotsPerSequence
    return try slots * StateCache.bytesPerSlot(shape.recurrent)
      + blocks * KVCache.bytesPerBlock(shape.keysValues, format: .f32)
  }

  @Test(arguments: folders)
  func `together, cached, preempted and drafted, each gives what it gives alone`(folder: String) throws {
    let prompts = (0..<6).map { index -> [Int32] in
      let part = prompt(seed: UInt64(index % 2), count: 47)
      return part + part + [Int32(index)]
    }
    let requests = prompts.enumerated().map { index, prompt in
      var request = request(prompt, 60)
      request.sampling.temperature = 0.5
      request.sampling.seed = UInt64(index)
      request.draft = Array(prompt.reversed())
      return request
    }
    let plain = try engine(folder) {
      $0.prefixCacheBytes = 0
      $0.speculates = false
    }
    let expected = try requests.map { collect(try plain.submit($0)).tokens }
    plain.stop()
    #expect(expected.allSatisfy { $0.count == 60 })

    let shortage = try memory(folder, sequences: 4, blocks: 12)
    for (rows, isShort) in [(7, false), (256, false), (64, true)] {
      let engine = try engine(folder) {
        $0.rowsPerStep = rows
        $0.maxContext = 256
        if isShort { $0.kvCacheBytes = shortage }
      }
      let together = try requests.map { try engine.submit($0) }
      #expect(together.map { collect($0).tokens } == expected, "\(rows) rows")
      // Once more, now with what the first time has left.
      #expect(try requests.map { collect(try engine.submit($0)).tokens } == expected, "\(rows) rows")
      #expect(engine.statistics.prefixHitTokens > 0)
      #expect(!isShort || engine.statistics.preemptions > 0)
      engine.stop()
    }
  }
}
