// Prefixes on disk: found by name, read when a request needs them, written by a thread of their own.

import Compute
import Platform

/// Engine thread only, but for `check`.
package final class PrefixStore {
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
  static func open(
    folder: String, limit: Int, names: BlockNames, bytesPerBlock: Int, files: any FileSystem = SystemFiles()
  ) throws(PlatformError) -> PrefixStore? {
    try files.makeFolder(folder)
    let own = String(SHA256.hexadecimal(names.model).prefix(32))
    var others = OtherModels(folder: folder, files: files)
    try others.find(besides: own)
    others.shrink(to: limit / 2)
    do throws(PlatformError) {
      let prefixes = try PrefixFolder(
        path: folder + "/" + own, limit: max(0, limit - others.bytes), payloadBytes: bytesPerBlock,
        files: files)
      return try PrefixStore(names, prefixes, others)
    } catch {
      guard case .file(_, _, EWOULDBLOCK) = error else { throw error }
      Log.warning("prefixes are kept in memory only", ["error": "\(error)"])
      return nil
    }
  }

  /// Whether a name in the folder is that of a model's own folder.
  static func isModel(_ name: String) -> Bool {
    name.utf8.count == 32 && name.utf8.allSatisfy { (0x30...0x39).contains($0) || (0x61...0x66).contains($0) }
  }

  private init(
    _ names: BlockNames, _ folder: PrefixFolder, _ others: OtherModels
  ) throws(PlatformError) {
    self.names = names
    self.folder = folder
    let queue = queue
    writer = try Thread(name: "prefix-writer", stackBytes: 512 << 10) {
      // Tens of thousands of files are deleted while the server already answers.
      others.deleteDoomed()
      folder.deleteDoomed()
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
      guard Instant.now < deadline, folder.hasRoom, folder.write(block(record)) else { return }
    }
  }
}

/// What other models have left in the folder.
private struct OtherModels: Sendable {
  private struct Block {
    let folder: String
    let name: String
    let bytes: Int
    let modified: Double
  }

  private let folder: String
  private let files: any FileSystem
  private var blocks: [Block] = []
  /// Those to be deleted, and the locks of their folders.
  private var doomed: [Block] = []
  private var locks: [String: FolderLock?] = [:]

  init(folder: String, files: any FileSystem) {
    self.folder = folder
    self.files = files
  }

  /// Looks for the blocks of all models but one.
  ///
  /// - Throws: when the folder cannot be read; what cannot be read in it is told and left.
  mutating func find(besides own: String) throws(PlatformError) {
    for name in try files.names(in: folder)
    where PrefixStore.isModel(name) && !name.utf8.elementsEqual(own.utf8) {
      let path = folder + "/" + name
      do throws(PlatformError) {
        for file in try files.names(in: path) where file.hasSuffix(PrefixFile.ending) {
          let facts = try files.beginning(path + "/" + file, count: 0).facts
          blocks.append(Block(folder: path, name: file, bytes: facts.bytes, modified: facts.modified))
        }
      } catch {
        Log.warning("saved prefixes of another model cannot be read", ["error": "\(error)"])
      }
    }
    blocks.sort { $0.modified < $1.modified }
  }

  var bytes: Int { blocks.reduce(0) { $0 + $1.bytes } }

  /// Takes out the oldest blocks of models that nobody serves now.
  mutating func shrink(to limit: Int) {
    var left = bytes
    var kept: [Block] = []
    for block in blocks {
      guard left > limit, isFree(block.folder) else {
        kept.append(block)
        continue
      }
      doomed.append(block)
      left -= block.bytes
    }
    blocks = kept
  }

  /// Whether no process serves the model of a folder; while this value lives, none can.
  private mutating func isFree(_ folder: String) -> Bool {
    if let lock = locks[folder] { return lock != nil }
    let lock = try? FolderLock(folder: folder, files: files)
    locks[folder] = .some(lock)
    return lock != nil
  }

  func deleteDoomed() {
    for block in doomed {
      do throws(PlatformError) {
        try files.remove(block.folder + "/" + block.name)
      } catch {
        return Log.warning("saved prefixes of another model cannot be deleted", ["error": "\(error)"])
      }
    }
  }
}
