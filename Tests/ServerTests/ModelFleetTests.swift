// Several models: loaded on demand, once; unloaded when memory is short, never while they are used.

import Inference
import JSON
import Pipeline
import Platform
import Testing
import Wire

@testable import Server

/// Loads fake models whose answer is their name, and counts.
final class Garage: Sendable {
  struct Log {
    var loads: [String] = []
    var stops: [String] = []
    /// Loads wait until this is true.
    var isOpen = true
  }

  let ledger: MemoryLedger
  let log = Monitor(Log())
  private let bytes: [String: Int]
  /// What `reclaim` gives back, once, of each model.
  private let spare: Monitor<[String: Int]>

  /// - Parameter bytes: of the weights of each model; 10 of those not named.
  init(limit: Int = .max, bytes: [String: Int] = [:], spare: [String: Int] = [:]) {
    ledger = MemoryLedger(limit: limit)
    self.bytes = bytes
    self.spare = Monitor(spare)
  }

  var loads: [String] { log.withLock { $0.loads } }
  var stops: [String] { log.withLock { $0.stops } }

  @Sendable func load(_ source: ModelSource, _ progress: Progress) throws -> ResidentModel {
    progress.begin(8)
    progress.add(2)
    let _: Bool? = log.wait { $0.isOpen ? true : nil }
    log.update { $0.loads.append(source.id) }
    if source.id == "broken" { throw InferenceError.modelLoading("\(source.path)/config.json: it is empty") }
    let weights = bytes[source.id] ?? 10
    let extra = spare.withLock { $0[source.id] ?? 0 }
    guard ledger.reserve([(.weights, weights), (.prefixCache, extra)]) else {
      throw InferenceError.modelTooLarge(
        weightBytes: weights, cacheBytes: extra, context: 32, leftBytes: ledger.left, limitBytes: ledger.limit
      )
    }
    var model = ResidentModel(
      LoadedModel(
        id: source.id, created: 5, service: FakeService("I am \(source.id)."), tokenizer: tinyTokenizer,
        template: tinyTemplate, endTokens: [Marker.end]))
    model.weightBytes = weights
    model.reclaim = { [self] _ in
      let given = spare.withLock { spare in
        defer { spare[source.id] = 0 }
        return spare[source.id] ?? 0
      }
      ledger.release(given, from: .prefixCache)
      return given
    }
    model.stop = { [self] in
      ledger.release(weights, from: .weights)
      ledger.release(spare.withLock { $0[source.id] ?? 0 }, from: .prefixCache)
      log.update { $0.stops.append(source.id) }
    }
    return model
  }

  func fleet(
    _ names: [String], folder: String? = nil, aliases: [ModelCatalog.Alias] = [],
    _ adjust: (inout ModelFleet.Settings) -> Void = { _ in }
  ) throws -> ModelFleet {
    var settings = ModelFleet.Settings()
    settings.ledger = ledger
    settings.roomSeconds = 0
    settings.tick = 0.01
    // The memory of the test's own process is none of the ledger's business.
    settings.measuresProcess = false
    adjust(&settings)
    let catalog = try ModelCatalog(
      named: names.map { ModelSource(id: $0, path: "/models/" + $0) }, folder: folder, aliases: aliases)
    return try ModelFleet(catalog, settings: settings, load: load)
  }
}

extension ModelFleet {
  /// Uses a model and lets it go.
  func use(_ name: String) throws { _ = try lease(name) }

  func value(_ name: String) throws -> String { try status(of: name).value }

  /// Waits until the model is `loaded` or `unloaded`.
  func wait(_ name: String, _ value: String) throws -> Bool {
    for _ in 0..<1_000 {
      if try self.value(name) == value { return true }
      usleep(10_000)
    }
    return false
  }
}

private func refusal(_ body: () throws(APIError) -> Void) -> String {
  do throws(APIError) {
    try body()
    return "none"
  } catch {
    return "\(error.status) \(error.code ?? "") \(error.message)"
  }
}

@Suite struct ModelFleetTests {
  @Test func `of what is reserved for bodies only the bodies themselves are taken for what is measured`()
    throws
  {
    let held = try #require(ProcessUsage.privateBytes)
    var settings = ModelFleet.Settings()
    settings.ledger = MemoryLedger()
    #expect(settings.ledger.reserve(2 * held, for: .requestBodies))
    settings.observe([])
    // Half of it is measured as the bodies' own.
    #expect(settings.ledger.bytes(of: .other) > held / 4)
  }

  @Test func `a model is loaded by its first request, and once for all that come together`() throws {
    let garage = Garage()
    garage.log.update { $0.isOpen = false }
    let fleet = try garage.fleet(["a", "b"])
    defer { fleet.stop() }
    #expect(try fleet.value("a") == "unloaded")
    let done = Monitor(0)
    for _ in 0..<8 {
      try Thread(name: "request") {
        if (try? fleet.lease("a").model.id) == "a" { done.update { $0 += 1 } }
      }.detach()
    }
    #expect(try fleet.wait("a", "loading"))
    // It is wanted before it is being loaded.
    for _ in 0..<1_000 where try fleet.status(of: "a").progress == nil { usleep(10_000) }
    #expect(try fleet.status(of: "a").progress == 0.25)
    garage.log.update { $0.isOpen = true }
    let all: Bool? = done.wait(until: Instant.now.adding(seconds: 20)) { $0 == 8 ? true : nil }
    #expect(all == true)
    #expect(garage.loads == ["a"])
    #expect(try fleet.value("b") == "unloaded")
    for name in ["a", "b"] { #expect(try fleet.status(of: name).progress == nil) }
  }

  @Test func `a model that cannot be loaded is an error of its own, and is tried again`() throws {
    let garage = Garage()
    let fleet = try garage.fleet(["broken", "good"])
    defer { fleet.stop() }
    let expected = "500 model_load_failed The model 'broken' cannot be loaded: config.json: it is empty"
    #expect(refusal { () throws(APIError) in _ = try fleet.lease("broken") } == expected)
    #expect(try fleet.status(of: "broken").failure == "config.json: it is empty")
    try fleet.use("good")
    #expect(refusal { () throws(APIError) in _ = try fleet.lease("broken") } == expected)
    #expect(garage.loads == ["broken", "good", "broken"])
  }

  @Test func `the model that was used longest ago goes first`() throws {
    let garage = Garage(limit: 25)
    let fleet = try garage.fleet(["a", "b", "c"])
    defer { fleet.stop() }
    for name in ["a", "b", "a", "c"] { try fleet.use(name) }
    #expect(garage.stops == ["b"])
    #expect(try [fleet.value("a"), fleet.value("b"), fleet.value("c")] == ["loaded", "unloaded", "loaded"])
    #expect(garage.ledger.bytes(of: .weights) == 20)
  }

  @Test func `a model in use stays, and who finds no room is told the numbers`() throws {
    let garage = Garage(limit: 25 << 20, bytes: ["a": 10 << 20, "b": 10 << 20, "c": 10 << 20])
    let fleet = try garage.fleet(["a", "b", "c"])
    defer { fleet.stop() }
    let held = [try fleet.lease("a"), try fleet.lease("b")]
    #expect(
      refusal { () throws(APIError) in _ = try fleet.lease("c") }
        == "503 insufficient_memory There is no room for the model 'c': it needs 10 MiB of weights and 0 KiB for 32 tokens "
        + "of keys and values, and 5 MiB are left of --memory 25 MiB.")
    #expect(garage.stops == [])
    withExtendedLifetime(held) {}
  }

  @Test func `who finds no room waits for work to end`() throws {
    let garage = Garage(limit: 15)
    let fleet = try garage.fleet(["a", "b"]) { $0.roomSeconds = 20 }
    defer { fleet.stop() }
    let held = Monitor<ModelLease?>(try fleet.lease("a"))
    try Thread(name: "work") {
      usleep(50_000)
      held.update { $0 = nil }
    }.detach()
    try fleet.use("b")
    #expect(garage.stops == ["a"])
  }

  @Test func `what can never fit is refused at once`() throws {
    let garage = Garage(limit: 15, bytes: ["b": 20])
    let fleet = try garage.fleet(["a", "b"]) { $0.roomSeconds = 1_000 }
    defer { fleet.stop() }
    let held = try fleet.lease("a")
    #expect(refusal { () throws(APIError) in _ = try fleet.lease("b") }.hasPrefix("503 insufficient_memory"))
    #expect(garage.stops == [])
    withExtendedLifetime(held) {}
  }

  @Test func `cached prefixes go before models`() throws {
    let garage = Garage(limit: 25, spare: ["a": 10])
    let fleet = try garage.fleet(["a", "b"])
    defer { fleet.stop() }
    for name in ["a", "b"] { try fleet.use(name) }
    #expect(garage.stops == [])
    #expect(try fleet.value("a") == "loaded")
    #expect(garage.ledger.bytes(of: .prefixCache) == 0)
  }

  @Test func `a running engine that asks for memory gets that of idle models`() throws {
    let garage = Garage(limit: 25)
    let fleet = try garage.fleet(["a", "b"])
    defer { fleet.stop() }
    try fleet.use("a")
    let held = try fleet.lease("b")
    garage.ledger.ask(for: 15)
    #expect(try fleet.wait("a", "unloaded"))
    #expect(garage.stops == ["a"])
    withExtendedLifetime(held) {}
  }

  @Test func `pinned models stay until they are unloaded by request`() throws {
    let garage = Garage(limit: 15)
    let fleet = try garage.fleet(["a", "b"]) {
      $0.pinned = ["a"]
      $0.idleSeconds = 0.01
    }
    defer { fleet.stop() }
    try fleet.use("a")
    #expect(refusal { () throws(APIError) in _ = try fleet.lease("b") }.hasPrefix("503 insufficient_memory"))
    #expect(try fleet.beginUnloading("a", seconds: 20))
    try fleet.use("b")
    #expect(try fleet.wait("b", "unloaded"))
    // On a busy machine it can be idle before it is had for the first time.
    #expect(garage.stops.first == "a" && garage.stops.dropFirst().allSatisfy { $0 == "b" })
  }

  @Test func `an idle model is unloaded, and loaded again when it is asked for`() throws {
    let garage = Garage()
    let fleet = try garage.fleet(["a"]) { $0.idleSeconds = 0.05 }
    defer { fleet.stop() }
    let held = Monitor<ModelLease?>(try fleet.lease("a"))
    usleep(200_000)
    #expect(garage.stops == [])
    held.update { $0 = nil }
    #expect(try fleet.wait("a", "unloaded"))
    try fleet.use("a")
    #expect(garage.loads == ["a", "a"])
  }

  @Test func `looking at what is loaded does not keep a model from being idle`() throws {
    let garage = Garage()
    let fleet = try garage.fleet(["a"]) { $0.idleSeconds = 0.05 }
    defer { fleet.stop() }
    try fleet.use("a")
    for _ in 0..<200 where garage.stops.isEmpty {
      #expect(fleet.leaseLoaded().count <= 1)
      usleep(10_000)
    }
    #expect(garage.stops == ["a"])
  }

  @Test func `unloading waits for work, and newcomers wait for the model to come back`() throws {
    let garage = Garage()
    let fleet = try garage.fleet(["a"])
    defer { fleet.stop() }
    let held = Monitor<ModelLease?>(try fleet.lease("a"))
    #expect(try !fleet.beginUnloading("a", seconds: 0.02))
    #expect(garage.stops == [])
    let done = Monitor(false)
    try Thread(name: "newcomer") {
      try? fleet.use("a")
      done.update { $0 = true }
    }.detach()
    held.update { $0 = nil }
    let _: Bool? = done.wait { $0 ? true : nil }
    #expect(garage.loads == ["a", "a"])
    #expect(garage.stops == ["a"])
  }

  @Test func `a request to load takes a wish to unload back`() throws {
    let garage = Garage()
    let fleet = try garage.fleet(["a"])
    defer { fleet.stop() }
    #expect(try !fleet.beginLoading("a"))
    #expect(try fleet.wait("a", "loaded"))
    let held = try fleet.lease("a")
    #expect(try !fleet.beginUnloading("a", seconds: 0))
    #expect(try fleet.beginLoading("a"))
    try fleet.use("a")
    #expect(garage.loads == ["a"])
    withExtendedLifetime(held) {}
  }

  @Test func `a folder that goes is served as long as its model is loaded`() throws {
    let folder = try ModelsFolder(["x"])
    let garage = Garage()
    let fleet = try garage.fleet(["a"], folder: folder.path)
    defer { fleet.stop() }
    try fleet.use("x")
    folder.remove("x")
    try fleet.use("x")
    #expect(garage.loads == ["x"])
    #expect(try fleet.beginUnloading("x", seconds: 20))
    #expect(
      refusal { () throws(APIError) in _ = try fleet.lease("x") }
        == "404 model_not_found The model 'x' does not exist. This server has 'a'.")
  }

  @Test func `who waits for a model when the server drains is sent away`() throws {
    let garage = Garage()
    garage.log.update { $0.isOpen = false }
    let fleet = try garage.fleet(["a"])
    let outcome = Monitor("")
    try Thread(name: "request") {
      let text = refusal { () throws(APIError) in _ = try fleet.lease("a") }
      outcome.update { $0 = text }
    }.detach()
    #expect(try fleet.wait("a", "loading"))
    fleet.drain()
    let text: String? = outcome.wait { $0.isEmpty ? nil : $0 }
    #expect(text?.hasPrefix("503 shutting_down") == true)
    garage.log.update { $0.isOpen = true }
    fleet.stop()
    #expect(garage.stops == garage.loads)
  }

  @Test func `a hundred loads and unloads leave nothing behind`() throws {
    let garage = Garage()
    let fleet = try garage.fleet(["a"])
    defer { fleet.stop() }
    for _ in 0..<100 {
      try fleet.use("a")
      #expect(try fleet.beginUnloading("a", seconds: 20))
    }
    #expect(garage.stops.count == 100)
    #expect(garage.ledger.snapshot().total == 0)
  }

  @Test func `models rest since the last of them was used`() {
    var state = FleetState()
    #expect(state.restSince == nil)
    for (index, uses) in [1, 0].enumerated() {
      state.update(ModelSource(id: "m\(index)", path: "")) { entry in
        entry.uses = uses
        entry.lastUse = Instant(nanoseconds: Int64(5 + index))
      }
    }
    #expect(state.restSince == nil)
    state.update("m0") { $0.uses = 0 }
    #expect(state.restSince == Instant(nanoseconds: 6))
  }
}
