// Prefixes on disk: found by name, read when a request needs them, written by a thread of their own.

import Checkpoint
import Compute
import Platform

/// Engine thread only, but for `check`.
package final class PrefixStore {
  let names: BlockNames
  let opening: StoreOpening
  private let queue = Mailbox<PrefixBlock>(capacity: PrefixStore.queued)
  private let writer: Thread
  /// Hashes the weights, where they are not known by their files.
  private let hasher: Thread?
  /// Blocks that have been given to the writer and may not be there yet.
  private var given: Set<String> = []

  /// Blocks that wait for the writer: each is a copy of some megabytes.
  private static let queued = 4

  /// Opens the prefix directory. Blocks are found and saved once it is known which weights `content` has.
  ///
  /// - Returns: nil when another process uses what these weights have there: it is told in the log, and prefixes stay in
  ///   memory.
  static func open(
    folder: String, limit: Int, names: BlockNames, bytesPerBlock: Int, bytesPerState: Int = 0,
    weights: WeightFiles = WeightFiles(), files: any FileSystem = SystemFiles()
  ) throws(PlatformError) -> PrefixStore? {
    try files.makeFolder(folder)
    let opening = StoreOpening(
      folder: folder, limit: limit, names: names, bytesPerBlock: bytesPerBlock, bytesPerState: bytesPerState,
      weights: weights, files: files)
    guard let digest = opening.knownDigest else {
      // What is wrong with the folder itself is told at once.
      _ = try files.names(in: folder)
      return try PrefixStore(names, opening, isKnown: false)
    }
    do throws(PlatformError) {
      try opening.open(digest)
      return try PrefixStore(names, opening, isKnown: true)
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

  private init(_ names: BlockNames, _ opening: StoreOpening, isKnown: Bool) throws(PlatformError) {
    (self.names, self.opening) = (names, opening)
    let queue = queue
    writer = try Thread(name: "prefix-writer", stackBytes: 512 << 10) {
      guard let place = opening.wait() else { return }
      // Tens of thousands of files are deleted while the server already answers.
      place.others.deleteDoomed()
      place.folder.deleteDoomed()
      place.states?.deleteDoomed()
      while case .element(let block) = queue.receive() { opening.usable?.write(block) }
    }
    guard !isKnown else {
      hasher = nil
      return
    }
    do throws(PlatformError) {
      hasher = try Thread(name: "weights-hash", stackBytes: 512 << 10) { opening.hashAndOpen() }
    } catch {
      opening.stop()
      writer.join()
      throw error
    }
  }

  /// Whether it is known where blocks belong.
  var isOpen: Bool { opening.prefixes != nil }

  func contains(_ name: String) -> Bool { opening.prefixes?.contains(name) ?? false }

  func read(_ name: String, parent: String, tokens: [Int32]) -> ArraySlice<UInt8>? {
    opening.usable?.folder.read(name, parent: parent, tokens: tokens)
  }

  /// Whether the state after a block is there.
  func containsState(_ name: String) -> Bool { opening.place?.states?.contains(name) ?? false }

  /// The state after a block.
  func readState(_ name: String, parent: String, tokens: [Int32]) -> ArraySlice<UInt8>? {
    opening.usable?.states?.read(name, parent: parent, tokens: tokens)
  }

  func isSaved(_ record: PrefixCache.Record) -> Bool {
    given.contains(record.name) || opening.place?.holds(record) == true
  }

  /// Whether the writer can take a block now.
  var hasRoom: Bool { isOpen && !queue.isFull }

  /// Hands a block to the writer.
  func save(_ block: PrefixBlock) {
    if given.count >= 1 << 16 { given.removeAll() }
    if queue.trySend(block) { given.insert(block.name) }
  }

  /// Whether the engine computes: what is done in the background gives way.
  func note(isBusy: Bool) { opening.note(isBusy: isBusy) }

  /// Ends the threads, then writes what is still worth it, for so many seconds.
  func finish(
    _ records: [PrefixCache.Record], within seconds: Double, block: (PrefixCache.Record) -> PrefixBlock
  ) {
    opening.stop()
    hasher?.join()
    queue.close()
    writer.join()
    guard let place = opening.usable else { return }
    let deadline = Instant.now.adding(seconds: seconds)
    for record in records where !place.holds(record) {
      guard Instant.now < deadline, place.folder.hasRoom, place.write(block(record)) else { return }
    }
  }
}
