// The blocks of one model on disk: an index in memory, bounded bytes, the longest unused leaves deleted first.

import Compute
import Platform

/// What is to be written.
struct PrefixBlock: Sendable {
  let name: String
  let parent: String
  let tokens: [Int32]
  let payload: [UInt8]
}

/// Used by the engine's thread and the writer's.
final class PrefixFolder: Sendable {
  private struct Item {
    let parent: String
    let bytes: Int
    var children = 0
    var lastUse: Int
  }

  private struct State {
    var items: [String: Item] = [:]
    var bytes = 0
    var clock = 0
    /// Set when writing has failed: what is there can still be read.
    var isReadOnly = false
  }

  let path: String
  private let limit: Int
  private let payloadBytes: Int
  private let state = Monitor(State())
  private let lock: FolderLock

  /// Opens or makes the folder and reads the headers of the files in it. What is not whole is deleted.
  ///
  /// - Throws: when the folder cannot be used, or another process uses it.
  init(path: String, limit: Int, payloadBytes: Int) throws(PlatformError) {
    try File.makeFolder(path)
    lock = try FolderLock(folder: path)
    self.path = path
    self.limit = limit
    self.payloadBytes = payloadBytes
    recover(try File.names(in: path))
    state.withLock { Self.shrink(&$0, to: limit) }.forEach(delete)
  }

  var count: Int { state.withLock { $0.items.count } }
  var bytes: Int { state.withLock { $0.bytes } }

  /// Whether blocks can be written without deleting others.
  var hasRoom: Bool {
    state.withLock { !$0.isReadOnly && $0.bytes + PrefixFile.headerBytes + payloadBytes <= limit }
  }

  func contains(_ name: String) -> Bool { state.withLock { $0.items[name] != nil } }

  private func fileName(_ name: String) -> String { name + PrefixFile.ending }

  // MARK: Start

  private func recover(_ names: [String]) {
    var found: [(file: PrefixFile, modified: Double, bytes: Int)] = []
    for name in names where name.hasSuffix(PrefixFile.ending) || name.hasSuffix(PrefixFile.ending + ".tmp") {
      // A write that was cut off has left the temporary name.
      let header: [UInt8]
      do {
        header = try File.beginning(path + "/" + name, count: PrefixFile.headerBytes)
      } catch {
        // It may be whole: a descriptor or memory was short.
        Log.warning("a saved prefix cannot be read", ["error": "\(error)"])
        continue
      }
      guard name.hasSuffix(PrefixFile.ending), let facts = File.facts(path + "/" + name),
        let file = PrefixFile(header: header), fileName(file.name).utf8.elementsEqual(name.utf8),
        file.payloadBytes == payloadBytes, facts.bytes == PrefixFile.headerBytes + payloadBytes
      else {
        discard(name, "not whole, or of another format")
        continue
      }
      found.append((file, facts.modified, facts.bytes))
    }
    state.withLock { state in
      for (file, _, bytes) in found.sorted(by: { $0.modified < $1.modified }) {
        Self.insert(file.name, parent: file.parent, bytes: bytes, &state)
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
      bytes = try File.read(path + "/" + file, limit: PrefixFile.headerBytes + payloadBytes)
    } catch {
      if case .file(_, _, ENOENT) = error {
        state.withLock { Self.remove(name, &$0) }
      } else {
        // It may be whole: a descriptor or memory was short, or the disk failed once.
        Log.warning("a saved prefix cannot be read", ["error": "\(error)"])
      }
      return nil
    }
    guard let header = PrefixFile(header: bytes), header.tokens == tokens, header.parent == parent,
      let payload = header.payload(of: bytes)
    else {
      discard(file, "damaged")
      state.withLock { Self.remove(name, &$0) }
      return nil
    }
    state.withLock { state in
      state.clock += 1
      state.items[name]?.lastUse = state.clock
    }
    File.touch(path + "/" + file)
    return payload
  }

  /// Writes a block, after deleting what is too much. After the first failure nothing more is written.
  func write(_ block: PrefixBlock) {
    guard !contains(block.name),
      let bytes = PrefixFile.encode(
        name: block.name, parent: block.parent, tokens: block.tokens, payload: block.payload)
    else { return }
    let (mayWrite, victims) = state.withLock { state -> (Bool, [String]) in
      guard !state.isReadOnly, bytes.count <= limit else { return (false, []) }
      let victims = Self.shrink(&state, to: limit - bytes.count, keeping: block.parent)
      // What is left may be the block's own path: a text that is longer than the limit is saved as far as it fits.
      return (state.bytes <= limit - bytes.count, victims)
    }
    victims.forEach(delete)
    guard mayWrite else { return }
    do throws(PlatformError) {
      try File.writeDurably(bytes, folder: path, name: fileName(block.name))
      state.withLock { Self.insert(block.name, parent: block.parent, bytes: bytes.count, &$0) }
    } catch {
      state.withLock { $0.isReadOnly = true }
      Log.warning("prefixes are no longer saved", ["folder": path, "error": "\(error)"])
    }
  }

  // MARK: The index

  private static func insert(_ name: String, parent: String, bytes: Int, _ state: inout State) {
    state.clock += 1
    state.items[name] = Item(parent: parent, bytes: bytes, lastUse: state.clock)
    state.items[parent]?.children += 1
    state.bytes += bytes
  }

  private static func remove(_ name: String, _ state: inout State) {
    guard let item = state.items.removeValue(forKey: name) else { return }
    state.items[item.parent]?.children -= 1
    state.bytes -= item.bytes
  }

  /// Takes the longest unused leaves out of the index until no more than `bytes` are left.
  private static func shrink(_ state: inout State, to bytes: Int, keeping kept: String? = nil) -> [String] {
    var victims: [String] = []
    while state.bytes > bytes {
      // A block that was saved after its children counts less than none when they go.
      let leaves = state.items.lazy.filter { $0.value.children <= 0 && $0.key != kept }
      guard let oldest = leaves.min(by: { $0.value.lastUse < $1.value.lastUse })?.key else { break }
      remove(oldest, &state)
      victims.append(oldest)
    }
    return victims
  }

  private func delete(_ name: String) { try? File.removeDurably(folder: path, name: fileName(name)) }

  private func discard(_ file: String, _ reason: String) {
    Log.warning("a saved prefix is deleted", ["file": path + "/" + file, "because": reason])
    try? File.removeDurably(folder: path, name: file)
  }
}
