// What is computed with one adapter is never used for another, nor for the model without any: in memory and on disk.

import Platform
import Support
import Testing

@testable import Inference

@Suite struct AdapterPrefixTests: EngineHarness {
  private static let model = TestData.fixtures + "/models/qwen3-tiny-q4"
  /// Longer than two blocks.
  private static let text = (0..<80).map { Int32(($0 * 13 + 7) % 150) }

  /// Two adapters of every layer's queries and values, in folders of their names.
  private func write(to folder: String) throws -> [AdapterSource] {
    try ["a", "b"].enumerated().map { index, name in
      let maps = (0..<3).flatMap { layer in
        [("q_proj", 256), ("v_proj", 128)].map {
          AdapterWriter.Map(name: "model.layers.\(layer).self_attn.\($0.0)", rows: $0.1, columns: 128)
        }
      }
      try AdapterWriter(maps, seed: UInt64(index + 1)).write(to: folder + "/" + name)
      return AdapterSource(name: name, path: folder + "/" + name)
    }
  }

  private func start(
    _ adapters: [AdapterSource], _ change: (inout EngineConfiguration) -> Void = { _ in }
  ) throws -> EngineClient {
    var configuration = EngineConfiguration(modelPath: Self.model, threads: 1)
    configuration.kvCacheBytes = 8 << 20
    configuration.adapters = adapters
    change(&configuration)
    return try EngineClient.start(configuration)
  }

  private func answer(_ client: EngineClient, _ choice: AdapterChoice?) throws -> (
    tokens: [Int32], cached: Int
  ) {
    var request = request(Self.text, 12)
    request.adapter = choice
    request.keepsPrefix = true
    let found = collect(try client.submit(request))
    #expect(found.reason == .length)
    return (found.tokens, found.timings.cachedTokens)
  }

  private func choices(_ client: EngineClient) -> [AdapterChoice?] {
    [nil] + client.adapters.map { AdapterChoice(digest: $0.digest) }
  }

  @Test func `memory has a prefix for each of them`() throws {
    try withFolder { folder in
      let adapters = try write(to: folder)
      let plain = try start(adapters) { $0.prefixCacheBytes = 0 }
      let wanted = try choices(plain).map { try answer(plain, $0) }
      plain.stop()
      #expect(Set(wanted.map(\.tokens)).count == 3)
      #expect(wanted.allSatisfy { $0.cached == 0 })
      let client = try start(adapters)
      defer { client.stop() }
      for _ in 0..<2 {
        for (choice, wanted) in zip(choices(client), wanted) {
          #expect(try answer(client, choice).tokens == wanted.tokens)
        }
      }
      // What each has asked once is there for itself.
      for choice in choices(client) { #expect(try answer(client, choice).cached >= 64) }
    }
  }

  @Test func `the first request of one finds nothing of the others`() throws {
    try withFolder { folder in
      let client = try start(try write(to: folder))
      defer { client.stop() }
      for choice in choices(client) { #expect(try answer(client, choice).cached == 0) }
      // Another strength is another adapter.
      let half = client.adapters.first.map { AdapterChoice(digest: $0.digest, strength: 0.5) }
      #expect(try answer(client, half).cached == 0)
    }
  }

  @Test func `the disk has a prefix for each of them`() throws {
    try withFolder { folder in
      let adapters = try write(to: folder)
      func disk(_ configuration: inout EngineConfiguration) {
        configuration.prefixCacheFolder = folder + "/prefixes"
      }
      // The folder is the first engine's for as long as its client is there.
      func answers() throws -> (base: [Int32], a: [Int32]) {
        let first = try start(adapters, disk)
        #expect(first.waitForSaving())
        defer { first.stop() }
        return (try answer(first, nil).tokens, try answer(first, choices(first)[1]).tokens)
      }
      let (base, a) = try answers()
      let second = try start(adapters, disk)
      #expect(second.waitForSaving())
      defer { second.stop() }
      // B has never been asked.
      #expect(try answer(second, choices(second)[2]).cached == 0)
      let (againA, againBase) = (try answer(second, choices(second)[1]), try answer(second, nil))
      #expect(againA.cached >= 64 && againBase.cached >= 64)
      #expect(againA.tokens == a && againBase.tokens == base)
    }
  }

  @Test func `two names of one adapter share, and changed weights do not`() throws {
    try withFolder { folder in
      var adapters = try write(to: folder)
      adapters[1].path = adapters[0].path
      let client = try start(adapters)
      #expect(client.adapters[0].digest == client.adapters[1].digest)
      client.stop()
      let before = client.adapters[0].digest
      var writer = AdapterWriter([.init(name: "model.layers.0.self_attn.q_proj", rows: 256, columns: 128)])
      writer.config += " "
      try writer.write(to: folder + "/a")
      let other = try start([adapters[0]])
      defer { other.stop() }
      #expect(other.adapters[0].digest != before)
    }
  }

  /// Requests of all three at once have the tokens that they have alone.
  @Test func `company changes no token`() throws {
    try withFolder { folder in
      let client = try start(try write(to: folder)) {
        $0.prefixCacheBytes = 0
        $0.rowsPerStep = 40
      }
      defer { client.stop() }
      let alone = try choices(client).map { try answer(client, $0).tokens }
      let together = try (0..<6).map { index in
        var request = request(Self.text, 12)
        request.adapter = choices(client)[index % 3]
        return try client.submit(request)
      }
      for (index, work) in together.enumerated() { #expect(collect(work).tokens == alone[index % 3]) }
    }
  }

  @Test func `memory is claimed, and what is not loaded is refused`() throws {
    try withFolder { folder in
      let adapters = try write(to: folder)
      let ledger = MemoryLedger(limit: 1 << 30)
      let client = try start(adapters) { $0.ledger = ledger }
      #expect(ledger.bytes(of: .adapters) > 0)
      #expect(throws: InferenceError.unknownAdapter) {
        var request = request(Self.text, 1)
        request.adapter = AdapterChoice(digest: "00")
        _ = try client.submit(request)
      }
      client.stop()
      // One that was found beside the model is left out where it cannot be used; one that was named ends the start.
      let broken = AdapterSource(name: "c", path: folder, isFound: true)
      let without = try start([broken])
      #expect(without.adapters.isEmpty)
      without.stop()
      #expect(throws: InferenceError.self) { try start([AdapterSource(name: "c", path: folder)]) }
    }
  }
}
