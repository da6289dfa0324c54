// What the last conversations begin with is asked for again while nobody waits, also by the next process.

import Inference
import JSON
import Pipeline
import Platform
import Support
import Testing

@testable import Server

/// A service whose counts a test sets.
private final class CountedService: GenerationService {
  let inner: FakeService
  let counts: Monitor<EngineStatistics>

  init() {
    inner = FakeService(maxContext: 4_000) { _, _ in Script(text: "x") }
    var counts = EngineStatistics()
    (counts.prefixBlocksMost, counts.blockTokens) = (100, 32)
    self.counts = Monitor(counts)
  }

  var limits: EngineLimits { inner.limits }
  var statistics: EngineStatistics { counts.withLock { $0 } }

  func submit(_ request: GenerationRequest) throws(InferenceError) -> Generation {
    try inner.submit(request)
  }
}

struct ReadAheadTests {
  private let disk = SimulatedDisk()
  private let service = CountedService()

  private func reader() -> ReadAhead {
    let model = LoadedModel(
      id: "m", created: 5, service: service, tokenizer: tinyTokenizer, template: tinyTemplate,
      endTokens: [Marker.end])
    return ReadAhead("/prefixes", models: ModelFleet(ResidentModel(model)), files: disk, quiet: 0)
  }

  private func tokens(_ seed: Int, _ count: Int) -> [Int32] {
    (0..<count).map { Int32((seed * 31 + $0 * 7) % 256) }
  }

  /// The prompts that were read ahead, once there are `count` of them and no more follow.
  private func prompts(_ count: Int) -> [[Int32]] {
    for _ in 0..<500 where service.inner.requests.count < count { usleep(10_000) }
    usleep(50_000)
    return service.inner.requests.map(\.promptTokens)
  }

  @Test func `the last conversations are read ahead, the latest first, each as far as it has come`() throws {
    let reader = reader()
    reader.note(tokens(1, 300), tenant: 7, model: "m")
    reader.note(tokens(2, 300), tenant: 0, model: "m")
    reader.note(tokens(1, 400), tenant: 7, model: "m")
    reader.note(tokens(3, 100), tenant: 0, model: "m")
    reader.start()
    defer { reader.stop() }
    #expect(prompts(2) == [tokens(1, 400), tokens(2, 300)])
    let requests = service.inner.requests
    #expect(requests.allSatisfy { $0.givesWay && $0.keepsPrefix && $0.maxTokens == 1 })
    #expect(requests.map(\.tenant) == [7, 0])
  }

  @Test func `it is looked at again when memory was short, not else, and not while somebody waits`() throws {
    let reader = reader()
    service.counts.update { $0.running = 1 }
    reader.note(tokens(1, 300), tenant: 0, model: "m")
    reader.start()
    defer { reader.stop() }
    usleep(1_200_000)
    #expect(service.inner.requests.isEmpty)
    service.counts.update { $0.running = 0 }
    #expect(prompts(1).count == 1)
    usleep(1_200_000)
    #expect(service.inner.requests.count == 1)
    service.counts.update { $0.prefixBlocksGivenUp = 3 }
    #expect(prompts(2).count == 2)
  }

  @Test func `the next process knows them, and reads no more than half of what memory keeps`() throws {
    let first = reader()
    service.counts.update { $0.running = 1 }
    for seed in 1...12 { first.note(tokens(seed, 500), tenant: 3, model: "m") }
    first.start()
    first.stop()
    #expect(service.inner.requests.isEmpty)
    service.counts.update { $0.running = 0 }
    let second = reader()
    second.start()
    defer { second.stop() }
    // 1,600 tokens.
    #expect(prompts(3) == [12, 11, 10].map { tokens($0, 500) })
  }

  @Test func `a damaged file is none`() throws {
    try disk.makeFolder("/prefixes")
    let name = "likely-\(SHA256.hexadecimal(SHA256.digest(Array("m".utf8))).prefix(16)).json"
    for damage in ["", "{", #"{"prompts":[1,{"tenant":"x"},{"tenant":"0","tokens":["a"]}]}"#] {
      try disk.writeDurably(Array(damage.utf8), folder: "/prefixes", name: name)
      let reader = reader()
      reader.start()
      usleep(600_000)
      reader.stop()
    }
    #expect(service.inner.requests.isEmpty)
  }
}
