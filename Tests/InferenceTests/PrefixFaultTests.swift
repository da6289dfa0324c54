// Every system call of the prefix folder fails once, or from there on: no block is ever wrong, and saving goes on.

import Compute
import Platform
import Support
import Testing

@testable import Inference

@Suite struct PrefixFaultTests {
  private static let faults = [ENOSPC, EIO, EMFILE, EACCES].map { SimulatedDisk.Fault.error($0) } + [.short]
  private static let rootName = String(repeating: "0f", count: 32)
  private static let payloadBytes = 200

  private let names = BlockNames(content: [1], compute: "x", version: "1", shape: [])

  private func open(_ disk: SimulatedDisk, blocks: Int = 100) throws -> PrefixFolder {
    try PrefixFolder(
      path: "/prefixes", limit: blocks * (PrefixFile.headerBytes + Self.payloadBytes),
      payloadBytes: Self.payloadBytes, files: disk)
  }

  /// A path of blocks, each after the one before.
  private func path(_ seeds: ClosedRange<Int32>) -> [PrefixBlock] {
    var parent = Self.rootName
    return seeds.map { seed in
      let tokens = (0..<Int32(KVCache.blockTokens)).map { seed * 100 + $0 }
      let name = names.name(of: tokens, after: parent)
      defer { parent = name }
      return PrefixBlock(
        name: name, parent: parent, tokens: tokens,
        payload: [UInt8](repeating: UInt8(seed), count: Self.payloadBytes))
    }
  }

  private func read(_ block: PrefixBlock, _ folder: PrefixFolder) -> [UInt8]? {
    folder.read(block.name, parent: block.parent, tokens: block.tokens).map(Array.init)
  }

  /// A server's life: opened, written, read, opened again. What was written and is not known to be damaged.
  private func live(_ disk: SimulatedDisk, _ blocks: [PrefixBlock]) -> [PrefixBlock] {
    var written: [PrefixBlock] = []
    for part in [blocks[..<3], blocks[3...]] {
      guard let folder = try? open(disk) else { continue }
      for block in part where folder.write(block) && folder.contains(block.name) { written.append(block) }
      for block in written {
        let found = read(block, folder)
        #expect(found == nil || found == block.payload)
      }
    }
    return written
  }

  @Test(arguments: faults, [false, true])
  func `what was written is there after a restart, and never wrong`(
    fault: SimulatedDisk.Fault, isLasting: Bool
  ) throws {
    let blocks = path(1...5)
    for losesPower in [false, true] {
      var number = 0
      while true {
        let disk = SimulatedDisk()
        disk.follow(.init(fault, at: number, isLasting: isLasting))
        let written = live(disk, blocks)
        let isOver = disk.calls <= number
        #expect(disk.openDescriptors == 0)
        disk.restart(losingPower: losesPower)
        disk.follow(nil)
        let folder = try open(disk)
        for block in blocks {
          let found = read(block, folder)
          #expect(found == nil || found == block.payload)
          if written.contains(where: { $0.name == block.name }) {
            #expect(found != nil, "\(fault) at call \(number) costs a block")
          }
          // A fault that has passed does not keep blocks from being saved.
          folder.write(block)
          #expect(read(block, folder) == block.payload)
        }
        if isOver { break }
        number += 1
      }
      #expect(number > 40)
    }
  }

  @Test func `one fault does not end the saving`() throws {
    let blocks = path(1...6)
    for code in [ENOSPC, EMFILE, EIO] {
      for number in 0..<5 {
        let disk = SimulatedDisk()
        let folder = try open(disk)
        folder.write(blocks[0])
        disk.follow(.init(.error(code), at: number))
        folder.write(blocks[1])
        for block in blocks[2...] {
          #expect(folder.write(block))
          #expect(read(block, folder) == block.payload)
        }
      }
    }
  }

  @Test func `files that cannot be deleted count, and go when they can`() throws {
    let disk = SimulatedDisk()
    let blocks = path(1...10)
    for block in blocks { try open(disk).write(block) }
    let folder = try open(disk, blocks: 5)
    // The start deletes nothing: it only takes the blocks out of the index.
    #expect(folder.count == 5 && disk.files.count { $0.hasSuffix(".kv") } == 10)
    #expect(blocks[..<5].allSatisfy { folder.contains($0.name) })
    disk.follow(.init(.error(EIO), at: 0, isLasting: true))
    folder.deleteDoomed()
    #expect(!folder.hasRoom && folder.bytes == 10 * (PrefixFile.headerBytes + Self.payloadBytes))
    disk.follow(nil)
    folder.deleteDoomed()
    #expect(disk.files.count { $0.hasSuffix(".kv") } == 5)
  }

  @Test func `half the limit of 20,000 blocks costs the start no deletion, and a few calls for each`() throws
  {
    let (disk, count) = (SimulatedDisk(), 20_000)
    // Long paths and short ones.
    var parent = Self.rootName
    for number in 0..<count {
      let tokens = (0..<Int32(KVCache.blockTokens)).map { Int32(number) * 100 + $0 }
      if number % 500 < 250 { parent = Self.rootName }
      let name = names.name(of: tokens, after: parent)
      let bytes = try #require(
        PrefixFile.encode(
          name: name, parent: parent, tokens: tokens, payload: [UInt8](repeating: 1, count: Self.payloadBytes)
        ))
      disk.put("/prefixes/\(name)\(PrefixFile.ending)", bytes)
      parent = name
    }
    let before = disk.calls
    let folder = try open(disk, blocks: count / 2)
    #expect(folder.count == count / 2 && disk.files.count { $0.hasSuffix(PrefixFile.ending) } == count)
    #expect(disk.calls - before < 6 * count, "\(disk.calls - before)")
  }

  @Test func `the blocks of other models go in the background, unless they are served`() throws {
    let disk = SimulatedDisk()
    let bytes = PrefixFile.headerBytes + Self.payloadBytes
    func store(_ content: UInt8, blocks: Int) throws -> PrefixStore? {
      try PrefixStore.open(
        folder: "/all", limit: blocks * bytes,
        names: BlockNames(content: [content], compute: "x", version: "1", shape: []),
        bytesPerBlock: Self.payloadBytes, files: disk)
    }
    func fill(_ store: PrefixStore?) throws {
      let blocks = path(1...4)
      for block in blocks {
        while store?.hasRoom == false { usleep(1_000) }
        store?.save(block)
      }
      store?.finish([], within: 10) { _ in blocks[0] }
    }
    try fill(store(1, blocks: 100))
    #expect(disk.files.count { $0.hasSuffix(".kv") } == 4)
    let second = try store(2, blocks: 4)
    second?.finish([], within: 10) { _ in path(1...1)[0] }
    #expect(disk.files.count { $0.hasSuffix(".kv") } == 2)
  }

  @Test func `a check tells what is damaged, and changes nothing`() throws {
    let disk = SimulatedDisk()
    _ = try PrefixStore.open(
      folder: "/all", limit: 1 << 20, names: names, bytesPerBlock: Self.payloadBytes, files: disk)?
      .finish([], within: 10) { _ in path(1...1)[0] }
    let model = StoreOpening.folderName(names, SHA256.digest([]))
    for block in path(1...3) {
      let file = try #require(
        PrefixFile.encode(
          name: block.name, parent: block.parent, tokens: block.tokens, payload: block.payload))
      disk.put("/all/\(model)/\(block.name).kv", file)
    }
    let whole = try PrefixStore.check(folder: "/all", files: disk)
    #expect(whole.whole == 3 && whole.faults.isEmpty)
    let first = path(1...3)[0].name
    var damaged = try #require(disk.content("/all/\(model)/\(first).kv"))
    damaged[damaged.count - 1] ^= 1
    disk.put("/all/\(model)/\(first).kv", damaged)
    disk.put("/all/\(model)/\(path(1...3)[1].name).kv", [])
    let before = disk.files
    let report = try PrefixStore.check(folder: "/all", files: disk)
    #expect(report.whole == 1 && report.faults.count == 2)
    #expect(disk.files == before)
    // Hashes of weights beside them.
    disk.put("/all/0.weights", Array("mlxserve-weights-1 0 0 0".utf8))
    #expect(
      try PrefixStore.check(folder: "/all", files: disk).faults.map(\.path).contains("/all/0.weights"))
    #expect(throws: PlatformError.self) { try PrefixStore.check(folder: "/none", files: disk) }
  }
}
