// Blocks on disk: bounded, whole or gone, never another's; and an engine that finds them after a restart.

import Compute
import Platform
import Support
import Testing

@testable import Inference

/// A folder that goes with its owner.
final class Folder {
  let path: String

  init() throws {
    var template = Array("/tmp/mlxserve-prefixes-XXXXXX".utf8CString)
    guard mkdtemp(&template) != nil else { throw PlatformError.system(action: "make a folder", code: errno) }
    path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  /// All files below, with their paths.
  var files: [String] { Self.files(in: path) }

  private static func files(in folder: String) -> [String] {
    ((try? File.names(in: folder)) ?? []).flatMap { name in
      File.isDirectory(folder + "/" + name) ? files(in: folder + "/" + name) : [folder + "/" + name]
    }
  }

  var blocks: [String] { files.filter { $0.hasSuffix(".kv") } }

  deinit {
    for file in files { unlink(file) }
    for name in (try? File.names(in: path)) ?? [] { rmdir(path + "/" + name) }
    rmdir(path)
  }
}

private func replace(_ path: String, _ bytes: [UInt8]) throws {
  let parts = path.split(separator: "/", omittingEmptySubsequences: false)
  try SystemFiles().writeDurably(
    bytes, folder: parts.dropLast().joined(separator: "/"), name: parts.last.map(String.init) ?? "")
}

@Suite struct PrefixFolderTests {
  private let names = BlockNames(content: [1], compute: "x", version: "1", shape: [])
  private let payload = (0..<1000).map { UInt8(truncatingIfNeeded: $0 * 7) }
  private static let fileBytes = PrefixFile.headerBytes + 1000

  private func tokens(_ seed: Int32) -> [Int32] { (0..<32).map { seed * 100 + $0 } }

  private func open(_ folder: Folder, blocks: Int = 100) throws -> PrefixFolder {
    try PrefixFolder(path: folder.path, limit: blocks * Self.fileBytes, payloadBytes: 1000)
  }

  /// Writes a path of blocks after `parent`; their names.
  private func write(_ prefixes: PrefixFolder, _ seeds: [Int32], parent: String = rootName) -> [String] {
    var parent = parent
    return seeds.map { seed in
      let name = names.name(of: tokens(seed), after: parent)
      prefixes.write(PrefixBlock(name: name, parent: parent, tokens: tokens(seed), payload: payload))
      defer { parent = name }
      return name
    }
  }

  private static let rootName = String(repeating: "0f", count: 32)

  @Test func `what is written is read again, also by the next process`() throws {
    let folder = try Folder()
    var written: [String] = []
    do {
      let prefixes = try open(folder)
      written = write(prefixes, [1, 2])
      #expect(prefixes.read(written[1], parent: written[0], tokens: tokens(2)).map(Array.init) == payload)
    }
    let prefixes = try open(folder)
    #expect(prefixes.count == 2)
    #expect(prefixes.bytes == 2 * Self.fileBytes)
    #expect(prefixes.read(written[0], parent: Self.rootName, tokens: tokens(1)).map(Array.init) == payload)
    #expect(
      prefixes.read(names.name(of: tokens(3), after: written[0]), parent: written[0], tokens: tokens(3))
        == nil)
  }

  @Test func `names depend on everything that the bits depend on`() {
    let others = [
      BlockNames(content: [2], compute: "x", version: "1", shape: []),
      BlockNames(content: [1], compute: "y", version: "1", shape: []),
      BlockNames(content: [1], compute: "x", version: "2", shape: []),
      BlockNames(content: [1], compute: "x", version: "1", shape: [KVLayerShape(kvHeads: 1, headDim: 2)]),
    ]
    #expect(Set((others + [names]).map(\.model)).count == 5)
    let roots = [
      PrefixCache.Root(ropeVariant: 0), PrefixCache.Root(ropeVariant: 1),
      PrefixCache.Root(ropeVariant: 0, tenant: 1),
    ]
    #expect(Set(roots.map { names.name(of: $0) }).count == 3)
    #expect(names.name(of: tokens(1), after: "a") != names.name(of: tokens(1), after: "b"))
  }

  @Test func `one changed byte anywhere in a file makes it useless, and it is deleted`() throws {
    let folder = try Folder()
    var random = SeededGenerator(seed: 5)
    for _ in 0..<60 {
      let name = write(try open(folder), [1])[0]
      let file = folder.blocks[0]
      var bytes = try File.read(file, limit: 1 << 20)
      let place = Int.random(in: bytes.indices, using: &random)
      bytes[place] ^= UInt8.random(in: 1...255, using: &random)
      try replace(file, bytes)
      let prefixes = try open(folder)
      #expect(prefixes.read(name, parent: Self.rootName, tokens: tokens(1)) == nil, "byte \(place)")
      #expect(!prefixes.contains(name))
      #expect(folder.blocks == [])
    }
  }

  @Test func `a file that cannot be read now is left for later`() throws {
    let folder = try Folder()
    let prefixes = try open(folder)
    let name = write(prefixes, [1])[0]
    let file = folder.blocks[0]
    let whole = try File.read(file, limit: 1 << 20)
    unlink(file)
    mkdir(file, 0o700)
    #expect(prefixes.read(name, parent: Self.rootName, tokens: tokens(1)) == nil)
    #expect(prefixes.contains(name))
    #expect(rmdir(file) == 0)
    try replace(file, whole)
    #expect(prefixes.read(name, parent: Self.rootName, tokens: tokens(1)) != nil)
    unlink(file)
    #expect(prefixes.read(name, parent: Self.rootName, tokens: tokens(1)) == nil)
    #expect(!prefixes.contains(name))
  }

  @Test func `cut, empty and unfinished files are deleted, and what is not ours is left`() throws {
    let folder = try Folder()
    _ = write(try open(folder), [1])
    let bytes = try File.read(folder.blocks[0], limit: 1 << 20)
    for (index, length) in [0, 7, 100, PrefixFile.headerBytes, bytes.count - 1].enumerated() {
      try SystemFiles().writeDurably(Array(bytes[..<length]), folder: folder.path, name: "\(index).kv")
    }
    try SystemFiles().writeDurably(bytes, folder: folder.path, name: "otherwise-called.kv")
    try SystemFiles().writeDurably(Array(bytes[..<50]), folder: folder.path, name: "cut.kv.tmp")
    try SystemFiles().writeDurably([1, 2, 3], folder: folder.path, name: "notes.txt")
    let prefixes = try open(folder)
    #expect(prefixes.count == 1)
    #expect(folder.blocks.count == 1)
    #expect(
      Set(folder.files.compactMap { $0.split(separator: "/").last.map(String.init) }).isSuperset(of: [
        "notes.txt"
      ]))
    #expect(!folder.files.contains { $0.hasSuffix(".tmp") })
  }

  @Test func `the folder stays within its limit, and the leaf that was used longest ago goes first`() throws {
    let folder = try Folder()
    let prefixes = try open(folder, blocks: 4)
    let long = write(prefixes, [1, 2, 3])
    let other = write(prefixes, [9])
    #expect(prefixes.read(long[2], parent: long[1], tokens: tokens(3)) != nil)
    #expect(!prefixes.hasRoom)
    let newest = write(prefixes, [8])
    #expect(!prefixes.contains(other[0]))
    #expect(prefixes.contains(newest[0]) && long.allSatisfy(prefixes.contains))
    _ = write(prefixes, [7, 6])
    // Of the long path the end is gone first, and the beginning last.
    #expect(prefixes.contains(long[0]) && !prefixes.contains(long[2]))
    #expect(prefixes.count == 4)
    #expect(folder.blocks.count == 4)
  }

  @Test func `a folder has one user at a time`() throws {
    let folder = try Folder()
    let prefixes = try open(folder)
    #expect(throws: PlatformError.self) { try open(folder) }
    #expect(prefixes.count == 0)
  }

  @Test func `a block that cannot be written costs no other`() throws {
    let folder = try Folder()
    let prefixes = try open(folder)
    let first = write(prefixes, [1])
    // A folder in the place of the temporary file: it cannot be created.
    let blocked = names.name(of: tokens(2), after: first[0])
    try SystemFiles().makeFolder(folder.path + "/" + blocked + ".kv.tmp")
    _ = write(prefixes, [2], parent: first[0])
    rmdir(folder.path + "/" + blocked + ".kv.tmp")
    _ = write(prefixes, [3])
    #expect(prefixes.count == 2)
    #expect(!prefixes.contains(blocked))
    #expect(prefixes.read(first[0], parent: Self.rootName, tokens: tokens(1)) != nil)
  }
}

@Suite struct PrefixRestartTests: EngineHarness {
  /// Runs requests one after another on an engine of their own: cached tokens and answers.
  private func run(
    _ requests: [GenerationRequest], _ folder: Folder,
    _ adjust: (inout EngineConfiguration) -> Void = { _ in }
  ) throws -> (cached: [Int?], tokens: [[Int32]], statistics: EngineStatistics) {
    let client = try client {
      $0.prefixCacheFolder = folder.path
      adjust(&$0)
    }
    var cached: [Int?] = []
    var tokens: [[Int32]] = []
    for request in requests {
      let generation = try client.submit(request)
      cached.append(cachedTokens(generation))
      tokens.append(collect(generation).tokens)
    }
    let isQuiet = wait(client) { $0.running == 0 }
    #expect(isQuiet)
    let statistics = client.statistics
    client.stop()
    return (cached, tokens, statistics)
  }

  @Test func `a restart finds what an earlier run has computed, and answers the same`() throws {
    let folder = try Folder()
    let prompt = prompt(seed: 3, count: 150)
    let expected = HashModel.greedy(after: prompt, count: 12)
    let first = try run([request(prompt, 12)], folder)
    #expect(first.cached == [0])
    #expect(first.tokens == [expected])
    let second = try run([request(prompt, 12), request(Array(prompt[..<100]) + [1, 2, 3], 5)], folder)
    #expect(second.cached == [128, 100])
    #expect(
      second.tokens == [expected, HashModel.greedy(after: Array(prompt[..<100]) + [1, 2, 3], count: 5)])
    #expect(second.statistics.prefixDiskTokens == 128)
  }

  @Test func `other programs, kernels and formats do not use what is there`() throws {
    let folder = try Folder()
    let prompt = prompt(seed: 3, count: 150)
    _ = try run([request(prompt, 2)], folder)
    #expect(try run([request(prompt, 2)], folder) { $0.version = "2" }.cached == [0])
    #expect(try run([request(prompt, 2)], folder) { $0.kvFormat = .f32 }.cached == [128])
    #expect(folder.blocks.count == 8)
  }

  @Test func `damaged blocks are computed again`() throws {
    let folder = try Folder()
    let prompt = prompt(seed: 3, count: 150)
    _ = try run([request(prompt, 2)], folder)
    for file in folder.blocks {
      var bytes = try File.read(file, limit: 1 << 20)
      bytes[bytes.count - 1] ^= 1
      try replace(file, bytes)
    }
    let second = try run([request(prompt, 12)], folder)
    #expect(second.cached == [0])
    #expect(second.tokens == [HashModel.greedy(after: prompt, count: 12)])
  }

  @Test func `blocks that are used again are saved while the server runs`() throws {
    let folder = try Folder()
    let prompt = prompt(seed: 3, count: 150)
    let client = try client { $0.prefixCacheFolder = folder.path }
    for _ in 0..<2 { _ = collect(try client.submit(request(prompt, 4))) }
    let deadline = Instant.now.adding(seconds: 30)
    while folder.blocks.count < 4, Instant.now < deadline { usleep(2_000) }
    #expect(folder.blocks.count == 4)
    client.stop()
  }

  @Test func `what is to be kept is saved although nobody has used it again`() throws {
    let folder = try Folder()
    var kept = request(prompt(seed: 3, count: 150), 4)
    kept.keepsPrefix = true
    do {
      let client = try client { $0.prefixCacheFolder = folder.path }
      _ = collect(try client.submit(request(prompt(seed: 4, count: 150), 4)))
      _ = collect(try client.submit(kept))
      let deadline = Instant.now.adding(seconds: 30)
      while folder.blocks.count < 4, Instant.now < deadline { usleep(2_000) }
      #expect(folder.blocks.count == 4)
      client.stop()
    }
    // The rest at the end.
    #expect(folder.blocks.count == 8)
    // The folder was the client's as long as it was there.
    #expect(try run([kept], folder).cached == [128])
  }

  @Test func `with the scope of a tenant no prefix crosses to another, before and after a restart`() throws {
    let folder = try Folder()
    let requests = [UInt64(1), 2, 1].map { tenant -> GenerationRequest in
      var request = request(prompt(seed: 3, count: 150), 2)
      request.tenant = tenant
      return request
    }
    #expect(try run(requests, folder) { $0.sharesPrefixes = false }.cached == [0, 0, 149])
    #expect(try run([requests[1]], folder) { $0.sharesPrefixes = false }.cached == [128])
    #expect(
      try run([request(prompt(seed: 3, count: 150), 2)], folder) { $0.sharesPrefixes = false }.cached == [0])
    #expect(try run(requests, try Folder()).cached == [0, 149, 149])
  }
}
