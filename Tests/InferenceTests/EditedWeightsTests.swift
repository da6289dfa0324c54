// Saved prefixes belong to the weights they were computed with, to the last byte: edited weights never use them.

import Checkpoint
import Platform
import Sampling
import Support
import Testing

@testable import Inference

/// A copy of a small checkpoint, and a prefix directory; both go with their owner.
private final class Place {
  static let fixture = TestData.fixtures + "/models/llama-tiny-q3"
  let path: String
  var model: String { path + "/model" }
  var prefixes: String { path + "/prefixes" }
  var weights: String { model + "/model.safetensors" }

  init() throws {
    var template = Array("/tmp/mlxserve-weights-XXXXXX".utf8CString)
    guard mkdtemp(&template) != nil else { throw PlatformError.system(action: "make a folder", code: errno) }
    path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    try copy(to: model)
  }

  /// Copies the checkpoint to another folder.
  func copy(to folder: String) throws {
    try SystemFiles().makeFolder(folder)
    for name in ["config.json", "model.safetensors"] {
      let bytes = try File.read(Self.fixture + "/" + name, limit: 1 << 20)
      try SystemFiles().writeDurably(bytes, folder: folder, name: name)
    }
  }

  /// Saved blocks of all weights.
  var blocks: Int {
    folders.reduce(0) { $0 + ((try? File.names(in: $1)) ?? []).count { $0.hasSuffix(".kv") } }
  }

  private var folders: [String] {
    ((try? File.names(in: prefixes)) ?? []).filter(PrefixStore.isModel).map { prefixes + "/" + $0 }
  }

  /// Where the data of the tensors begins.
  var dataStart: Int {
    let bytes = (try? File.read(weights, limit: 1 << 20)) ?? []
    return 8 + (0..<8).reduce(0) { $0 | Int(bytes[$1]) << (8 * $1) }
  }

  enum Way: CaseIterable { case inPlace, timesRestored, renamed }

  /// Changes one byte of the weights.
  func edit(_ position: Int, _ way: Way) throws {
    var bytes = try File.read(weights, limit: 1 << 20)
    bytes[position] ^= 0x10
    if way == .renamed {
      return try SystemFiles().writeDurably(bytes, folder: model, name: "model.safetensors")
    }
    var status = stat()
    stat(weights, &status)
    let descriptor = open(weights, O_WRONLY)
    defer { close(descriptor) }
    #expect(pwrite(descriptor, [bytes[position]], 1, off_t(position)) == 1)
    guard way == .timesRestored else { return }
    #if canImport(Darwin)
      let times = [status.st_atimespec, status.st_mtimespec]
    #else
      let times = [status.st_atim, status.st_mtim]
    #endif
    #expect(futimens(descriptor, times) == 0)
  }

  deinit { Self.remove(path) }

  private static func remove(_ path: String) {
    guard File.isDirectory(path) else {
      _ = unlink(path)
      return
    }
    for name in (try? File.names(in: path)) ?? [] { remove(path + "/" + name) }
    rmdir(path)
  }
}

@Suite struct EditedWeightsTests: EngineHarness {
  private static let prompt: [Int32] = (0..<150).map { ($0 * 37 + 11) % 150 }

  private func start(_ model: String, prefixes: String?) throws -> EngineClient {
    var configuration = EngineConfiguration(modelPath: model, threads: 1)
    configuration.kvCacheBytes = 1 << 20
    configuration.prefixCacheFolder = prefixes
    return try EngineClient.start(configuration)
  }

  /// One answer: cached tokens, and its own.
  private func answer(_ client: EngineClient) throws -> (cached: Int?, tokens: [Int32]) {
    let generation = try client.submit(request(Self.prompt, 8))
    return (cachedTokens(generation), collect(generation).tokens)
  }

  /// What weights answer without a prefix directory.
  private func plainAnswer(_ model: String) throws -> [Int32] {
    let client = try start(model, prefixes: nil)
    defer { client.stop() }
    return try answer(client).tokens
  }

  /// Waits until an engine knows its weights.
  private func waitUntilOpen(_ client: EngineClient) -> Bool {
    let deadline = Instant.now.adding(seconds: 30)
    while client.saving?.prefixes == nil {
      guard Instant.now < deadline else { return false }
      usleep(2_000)
    }
    return true
  }

  /// Starts a server, waits until it knows its weights, asks it and ends it.
  private func served(_ place: Place, _ model: String? = nil) throws -> (cached: Int?, tokens: [Int32]) {
    let client = try start(model ?? place.model, prefixes: place.prefixes)
    defer { client.stop() }
    let isOpen = waitUntilOpen(client)
    #expect(isOpen)
    return try answer(client)
  }

  @Test func `blocks of edited weights are never used, whichever byte changed and however`() throws {
    let place = try Place()
    let size = try File.facts(place.weights).bytes
    let first = try served(place)
    #expect(first.cached == 0 && place.blocks == 4)
    let positions = [size - 1] + stride(from: place.dataStart, to: size, by: 9973)
    for (index, position) in positions.enumerated() {
      let way = Place.Way.allCases[index % 3]
      try place.edit(position, way)
      let edited = try served(place)
      #expect(edited.cached == 0, "byte \(position), \(way)")
      #expect(edited.tokens == (try plainAnswer(place.model)))
      try place.edit(position, .inPlace)
    }
    let restored = try served(place)
    #expect(restored.cached == 128 && restored.tokens == first.tokens)
  }

  @Test func `a copy of the folder uses what the original has saved, once it is hashed`() throws {
    let place = try Place()
    let first = try served(place)
    try place.copy(to: place.path + "/copy")
    let second = try served(place, place.path + "/copy")
    #expect(second.cached == 128 && second.tokens == first.tokens)
  }

  @Test func `weights that nobody has touched are known at once`() throws {
    let place = try Place()
    // The copy is too new to be known by its times; the fixture is not.
    let first = try served(place, Place.fixture)
    #expect(first.cached == 0)
    let client = try start(Place.fixture, prefixes: place.prefixes)
    defer { client.stop() }
    let second = try answer(client)
    #expect(second.cached == 128 && second.tokens == first.tokens)
  }

  @Test func `weights that change while they are served end the use of saved blocks`() throws {
    let place = try Place()
    _ = try served(place)
    let size = try File.facts(place.weights).bytes
    for way in Place.Way.allCases {
      let client = try start(place.model, prefixes: place.prefixes)
      let isOpen = waitUntilOpen(client)
      #expect(isOpen)
      try place.edit(size - 1, way)
      let cached = try answer(client).cached
      #expect(cached == 0)
      client.stop()
      #expect(place.blocks == 4)
      try place.edit(size - 1, .renamed)
    }
  }

  @Test func `an engine that ends does not wait for the hash`() throws {
    let place = try Place()
    let client = try start(place.model, prefixes: place.prefixes)
    client.stop()
    #expect(place.blocks == 0)
    #expect(try served(place).cached == 0)
  }

  @Test func `every byte of the files counts in the digest, and their places do not`() throws {
    let place = try Place()
    func digest(_ model: String) throws -> [UInt8]? {
      try ModelFolder(path: model).mappedFiles.digest { _ in true }
    }
    let original = try #require(try digest(place.model))
    try place.copy(to: place.path + "/copy")
    #expect(try digest(place.path + "/copy") == original)
    let size = try File.facts(place.weights).bytes
    for position in stride(from: size - 1, to: place.dataStart, by: -499) {
      try place.edit(position, .timesRestored)
      #expect(try digest(place.model) != original, "byte \(position)")
      try place.edit(position, .timesRestored)
    }
    #expect(try digest(place.model) == original)
    #expect(try ModelFolder(path: place.model).mappedFiles.digest { _ in false } == nil)
  }

  @Test func `a hash is believed as long as its files are untouched and its own file is whole`() throws {
    let place = try Place()
    try SystemFiles().makeFolder(place.prefixes)
    let known = KnownWeights(folder: place.prefixes, files: SystemFiles())
    let fixture = try ModelFolder(path: Place.fixture).mappedFiles
    let digest = SHA256.digest([1, 2, 3])
    #expect(known.digest(of: fixture) == nil)
    known.remember(digest, of: fixture, since: Instant.wallNanoseconds)
    #expect(known.digest(of: fixture) == digest)
    // Files that were changed within the last seconds may change again without a trace.
    let copy = try ModelFolder(path: place.model).mappedFiles
    known.remember(digest, of: copy, since: Instant.wallNanoseconds)
    #expect(known.digest(of: copy) == nil)
    let name = try #require(try File.names(in: place.prefixes).first)
    let bytes = try File.read(place.prefixes + "/" + name, limit: 1000)
    for position in bytes.indices {
      var damaged = bytes
      damaged[position] ^= 1
      try SystemFiles().writeDurably(damaged, folder: place.prefixes, name: name)
      #expect(known.digest(of: fixture) == nil, "byte \(position)")
      #expect(try PrefixStore.check(folder: place.prefixes).faults.count == 1)
    }
    try SystemFiles().writeDurably(bytes, folder: place.prefixes, name: name)
    #expect(known.digest(of: fixture) == digest)
    #expect(try PrefixStore.check(folder: place.prefixes).faults.isEmpty)
  }
}
