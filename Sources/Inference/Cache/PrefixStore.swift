// Prefixes on disk: found by name, read when a request needs them, written by a thread of their own.

import Compute
import Platform

/// Engine thread only.
final class PrefixStore {
  let names: BlockNames
  private let folder: PrefixFolder
  private let queue = Mailbox<PrefixBlock>(capacity: PrefixStore.queued)
  private let writer: Thread
  /// Blocks that have been given to the writer and may not be there yet.
  private var given: Set<String> = []

  /// Blocks that wait for the writer: each is a copy of some megabytes.
  private static let queued = 4
  /// What an engine that ends spends on saving what is left.
  private static let lastSeconds = 10.0

  /// Opens `folder/<model>`, and makes room in `folder` by deleting what other models have left there longest.
  ///
  /// - Returns: nil when another process uses the folder: it is told in the log, and prefixes stay in memory.
  static func open(folder: String, limit: Int, names: BlockNames, bytesPerBlock: Int) throws(PlatformError)
    -> PrefixStore?
  {
    try File.makeFolder(folder)
    let own = String(SHA256.hexadecimal(names.model).prefix(32))
    let others = OtherModels(folder: folder, own: own)
    others.shrink(to: limit / 2)
    do throws(PlatformError) {
      let prefixes = try PrefixFolder(
        path: folder + "/" + own, limit: max(0, limit - others.bytes), payloadBytes: bytesPerBlock)
      return try PrefixStore(names, prefixes)
    } catch {
      guard case .file(_, _, EWOULDBLOCK) = error else { throw error }
      Log.warning("prefixes are kept in memory only", ["error": "\(error)"])
      return nil
    }
  }

  private init(_ names: BlockNames, _ folder: PrefixFolder) throws(PlatformError) {
    self.names = names
    self.folder = folder
    let queue = queue
    writer = try Thread(name: "prefix-writer", stackBytes: 512 << 10) {
      while case .element(let block) = queue.receive() { folder.write(block) }
    }
    Log.info(
      "prefixes on disk", ["folder": folder.path, "blocks": "\(folder.count)", "bytes": "\(folder.bytes)"])
  }

  func contains(_ name: String) -> Bool { folder.contains(name) }

  func read(_ name: String, parent: String, tokens: [Int32]) -> ArraySlice<UInt8>? {
    folder.read(name, parent: parent, tokens: tokens)
  }

  func isSaved(_ name: String) -> Bool { given.contains(name) || folder.contains(name) }

  /// Whether the writer can take a block now.
  var hasRoom: Bool { !queue.isFull }

  /// Hands a block to the writer.
  func save(_ block: PrefixBlock) {
    if given.count >= 1 << 16 { given.removeAll() }
    if queue.trySend(block) { given.insert(block.name) }
  }

  /// Ends the writer, then writes what is still worth it, for a bounded time.
  func finish(_ records: [PrefixCache.Record], block: (PrefixCache.Record) -> PrefixBlock) {
    queue.close()
    writer.join()
    let deadline = Instant.now.adding(seconds: Self.lastSeconds)
    for record in records where !folder.contains(record.name) {
      guard Instant.now < deadline, folder.hasRoom else { return }
      folder.write(block(record))
    }
  }
}

/// What other models have left in the folder.
private final class OtherModels {
  private let folder: String
  private var files: [(folder: String, name: String, bytes: Int, modified: Double)] = []

  init(folder: String, own: String) {
    self.folder = folder
    for name in (try? File.names(in: folder)) ?? []
    where Self.isModel(name) && !name.utf8.elementsEqual(own.utf8) {
      let path = folder + "/" + name
      for file in (try? File.names(in: path)) ?? [] where file.hasSuffix(PrefixFile.ending) {
        guard let facts = File.facts(path + "/" + file) else { continue }
        files.append((path, file, facts.bytes, facts.modified))
      }
    }
    files.sort { $0.modified < $1.modified }
  }

  var bytes: Int { files.reduce(0) { $0 + $1.bytes } }

  /// Deletes the oldest files of models that nobody serves now.
  func shrink(to limit: Int) {
    var left = bytes
    var locks: [String: FolderLock?] = [:]
    files.removeAll { file in
      guard left > limit else { return false }
      if locks[file.folder] == nil { locks[file.folder] = .some(try? FolderLock(folder: file.folder)) }
      guard let lock = locks[file.folder], lock != nil else { return false }
      try? File.removeDurably(folder: file.folder, name: file.name)
      left -= file.bytes
      return true
    }
  }

  private static func isModel(_ name: String) -> Bool {
    name.utf8.count == 32 && name.utf8.allSatisfy { (0x30...0x39).contains($0) || (0x61...0x66).contains($0) }
  }
}
