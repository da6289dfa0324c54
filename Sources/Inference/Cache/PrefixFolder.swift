// The blocks of one model on disk: an index in memory, bounded bytes, the longest unused leaves deleted first.

import Compute
import Platform

/// What is to be written.
struct PrefixBlock: Sendable {
  let name: String
  let parent: String
  let tokens: [Int32]
  let payload: [UInt8]
  /// The state of recurrent layers after its last token, where one is kept.
  var state: [UInt8]?
  /// What the copies take of the process's memory, until they are written.
  var memory: MemoryLoan?
}

/// Used by the engine's thread and the writer's.
final class PrefixFolder: Sendable {
  private struct Item {
    let parent: String
    var children = 0
    var lastUse: Int
  }

  private struct State {
    var items: [String: Item] = [:]
    /// Blocks that are no longer in the index and whose files are to be deleted.
    var doomed: Set<String> = []
    var clock = 0
    /// Whether the last write failed: what is there can still be read.
    var isFailing = false
  }

  let path: String
  private let files: any FileSystem
  /// Blocks that the folder may hold.
  private let most: Int
  private let payloadBytes: Int
  private let state = Monitor(State())
  private let lock: FolderLock

  /// Opens or makes the folder and reads the headers of the files in it. What is not whole is deleted.
  ///
  /// - Parameter limit: bytes; what is beyond leaves the index at once, and the disk with `deleteDoomed`.
  /// - Throws: when the folder cannot be used, or another process uses it.
  init(
    path: String, limit: Int, payloadBytes: Int, files: any FileSystem = SystemFiles()
  ) throws(PlatformError) {
    try files.makeFolder(path)
    lock = try FolderLock(folder: path, files: files)
    (self.path, self.files, self.payloadBytes) = (path, files, payloadBytes)
    most = limit / (PrefixFile.headerBytes + payloadBytes)
    recover(try files.names(in: path))
    state.withLock { Self.shrink(&$0, to: most) }
  }

  var count: Int { state.withLock { $0.items.count } }

  /// What is on disk, blocks that wait for their deletion among it.
  var bytes: Int {
    state.withLock { ($0.items.count + $0.doomed.count) * (PrefixFile.headerBytes + payloadBytes) }
  }

  /// Whether blocks can be written without deleting others.
  var hasRoom: Bool { state.withLock { $0.items.count + $0.doomed.count < most } }

  func contains(_ name: String) -> Bool { state.withLock { $0.items[name] != nil } }

  private func fileName(_ name: String) -> String { name + PrefixFile.ending }

  // MARK: Start

  private func recover(_ names: [String]) {
    var found: [(file: PrefixFile, modified: Double)] = []
    for name in names where name.hasSuffix(PrefixFile.ending) || name.hasSuffix(PrefixFile.ending + ".tmp") {
      do throws(PlatformError) {
        let (header, facts) = try files.beginning(path + "/" + name, count: PrefixFile.headerBytes)
        // A write that was cut off has left the temporary name.
        guard name.hasSuffix(PrefixFile.ending), let file = PrefixFile(header: header),
          fileName(file.name).utf8.elementsEqual(name.utf8), file.payloadBytes == payloadBytes,
          facts.bytes == PrefixFile.headerBytes + payloadBytes
        else {
          discard(name, "not whole, or of another format")
          continue
        }
        found.append((file, facts.modified))
      } catch {
        // It may be whole: a descriptor or memory was short.
        Log.warning("a saved prefix cannot be read", ["error": "\(error)"])
      }
    }
    state.withLock { state in
      for (file, _) in found.sorted(by: { $0.modified < $1.modified }) {
        Self.insert(file.name, parent: file.parent, &state)
      }
      // Files come in any order: children may have been there before their parent.
      for name in state.items.keys { state.items[name]?.children = 0 }
      for item in state.items.values { state.items[item.parent]?.children += 1 }
    }
  }

  // MARK: Use

  /// The payload of a block; nil when it is not there, or no longer whole.
  func read(_ name: String, parent: String, tokens: [Int32]) -> ArraySlice<UInt8>? {
    guard contains(name) else { return nil }
    let file = fileName(name)
    let bytes: [UInt8]
    do {
      bytes = try files.read(path + "/" + file, limit: PrefixFile.headerBytes + payloadBytes)
    } catch {
      if case .file(_, _, ENOENT) = error {
        state.withLock { Self.remove(name, &$0) }
      } else {
        // It may be whole: a descriptor or memory was short, or the disk failed once.
        Log.warning("a saved prefix cannot be read", ["error": "\(error)"])
      }
      return nil
    }
    guard let header = PrefixFile(header: bytes), header.name.utf8.elementsEqual(name.utf8),
      header.tokens == tokens, header.parent == parent, let payload = header.payload(of: bytes)
    else {
      discard(file, "damaged")
      state.withLock { Self.remove(name, &$0) }
      return nil
    }
    state.withLock { state in
      state.clock += 1
      state.items[name]?.lastUse = state.clock
    }
    // Only the order of deletion after a restart hangs on it.
    _ = files.touch(path + "/" + file)
    return payload
  }

  /// Writes a block, after deleting what is too much. A failure is told once, and the next block is tried again.
  ///
  /// - Returns: false when the disk did not take it.
  @discardableResult
  func write(_ block: PrefixBlock) -> Bool {
    guard !contains(block.name),
      let bytes = PrefixFile.encode(
        name: block.name, parent: block.parent, tokens: block.tokens, payload: block.payload)
    else { return true }
    state.withLock { state in
      guard state.items.count >= most else { return }
      // Several at once: to look for the oldest, all must be looked at.
      Self.shrink(&state, to: most - max(1, most / 64), keeping: block.parent)
    }
    deleteDoomed()
    // What is left may be the block's own path: a text that is longer than the limit is saved as far as it fits.
    guard state.withLock({ $0.items.count + $0.doomed.count < most }) else { return true }
    do throws(PlatformError) {
      try files.writeDurably(bytes, folder: path, name: fileName(block.name))
      note(nil)
      state.withLock { Self.insert(block.name, parent: block.parent, &$0) }
      return true
    } catch {
      // It may have come as far as its name.
      try? files.remove(path + "/" + fileName(block.name))
      note(error)
      return false
    }
  }

  private func note(_ error: PlatformError?) {
    let isNews = state.withLock { state in
      defer { state.isFailing = error != nil }
      return state.isFailing != (error != nil)
    }
    guard isNews else { return }
    if let error {
      Log.warning("prefixes cannot be saved now", ["folder": path, "error": "\(error)"])
    } else {
      Log.info("prefixes are saved again", ["folder": path])
    }
  }

  // MARK: The index

  private static func insert(_ name: String, parent: String, _ state: inout State) {
    state.clock += 1
    state.doomed.remove(name)
    state.items[name] = Item(parent: parent, lastUse: state.clock)
    state.items[parent]?.children += 1
  }

  private static func remove(_ name: String, _ state: inout State) {
    guard let item = state.items.removeValue(forKey: name) else { return }
    state.items[item.parent]?.children -= 1
  }

  /// Takes the longest unused leaves out of the index until no more than `count` blocks are left.
  private static func shrink(_ state: inout State, to count: Int, keeping kept: String? = nil) {
    guard state.items.count > count else { return }
    // A block that was saved after its children counts less than none when they go.
    func leaf(_ name: String, _ item: Item) -> (name: String, lastUse: Int)? {
      item.children <= 0 && name != kept ? (name, item.lastUse) : nil
    }
    // The longest unused last.
    var leaves = state.items.compactMap { leaf($0.key, $0.value) }.sorted { $0.lastUse > $1.lastUse }
    while state.items.count > count, let (name, _) = leaves.popLast() {
      let parent = state.items[name]?.parent
      remove(name, &state)
      state.doomed.insert(name)
      guard let parent, let item = state.items[parent], let bared = leaf(parent, item) else { continue }
      leaves.insert(bared, at: place(of: bared.lastUse, in: leaves))
    }
  }

  /// Where a use belongs in a falling order: binary search, because a long path bares its blocks one by one.
  private static func place(of lastUse: Int, in leaves: [(name: String, lastUse: Int)]) -> Int {
    var (low, high) = (0, leaves.count)
    while low < high {
      let middle = (low + high) / 2
      if leaves[middle].lastUse > lastUse { low = middle + 1 } else { high = middle }
    }
    return low
  }

  // MARK: Deleting

  /// Deletes the files of blocks that have left the index; what cannot be deleted is tried again with the next block.
  /// Nothing is flushed: a block that comes back after a loss of power is as good as before.
  func deleteDoomed() {
    for name in state.withLock({ $0.doomed }) {
      do throws(PlatformError) {
        try files.remove(path + "/" + fileName(name))
        state.withLock { _ = $0.doomed.remove(name) }
      } catch {
        return note(error)
      }
    }
  }

  private func discard(_ file: String, _ reason: String) {
    Log.warning("a saved prefix is deleted", ["file": path + "/" + file, "because": reason])
    try? files.remove(path + "/" + file)
  }
}
