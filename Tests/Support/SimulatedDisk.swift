// A disk in memory that fails where a test wants it to, and loses what was not flushed when its power goes.

package import Platform

/// Files and folders as one process sees them, and as they would be found after a loss of power.
package final class SimulatedDisk: FileSystem {
  /// What happens to a call.
  package enum Fault: Sendable, Hashable {
    /// It fails with this error number and does nothing. A full disk fails what writes alone.
    case error(Int32)
    /// It transfers only a part, if it reads or writes.
    case short
  }

  /// Which calls fail: counted from 0 over all kinds of calls.
  package struct Plan: Sendable {
    let fault: Fault
    let first: Int
    let isLasting: Bool

    /// - Parameter isLasting: whether every call after the first fails too.
    package init(_ fault: Fault, at first: Int, isLasting: Bool = false) {
      self.fault = fault
      self.first = first
      self.isLasting = isLasting
    }
  }

  private struct Node {
    var bytes: [UInt8] = []
    var flushed: [UInt8] = []
    var modified = 0.0
    var isLocked = false
  }

  private struct Entry: Equatable {
    /// Nil for a folder.
    let node: Int?
  }

  private struct State {
    var nodes: [Node] = []
    var entries: [String: Entry] = [:]
    var flushedEntries: [String: Entry] = [:]
    /// By descriptor: the path it was opened by, and its entry.
    var open: [Int: (path: String, entry: Entry)] = [:]
    var nextDescriptor = 100
    var time = 1.0
    var calls = 0
    var plan: Plan?
  }

  private let state = Monitor(State())
  private let beforeCall: @Sendable () -> Void

  /// A disk with one folder, `/`.
  ///
  /// - Parameter beforeCall: runs on the calling thread, which a test can have wait there.
  package init(beforeCall: @escaping @Sendable () -> Void = {}) {
    self.beforeCall = beforeCall
    state.withLock { state in
      state.entries["/"] = Entry(node: nil)
      state.flushedEntries = state.entries
    }
  }

  /// How many calls there were since the last plan.
  package var calls: Int { state.withLock { $0.calls } }

  /// Descriptors that nobody has closed.
  package var openDescriptors: Int { state.withLock { $0.open.count } }

  /// Begins to count calls anew; nil lets all of them work.
  package func follow(_ plan: Plan?) {
    state.withLock { state in
      state.plan = plan
      state.calls = 0
    }
  }

  /// The process ends: its descriptors and locks go. Without power, what was not flushed goes too.
  package func restart(losingPower: Bool) {
    state.withLock { state in
      state.open = [:]
      for index in state.nodes.indices { state.nodes[index].isLocked = false }
      guard losingPower else { return }
      state.entries = state.flushedEntries
      for index in state.nodes.indices { state.nodes[index].bytes = state.nodes[index].flushed }
    }
  }

  /// The content of a file as it is now.
  package func content(_ path: String) -> [UInt8]? {
    state.withLock { state in state.entries[path]?.node.map { state.nodes[$0].bytes } }
  }

  /// Puts a file there, flushed; it counts as no call.
  package func put(_ path: String, _ bytes: [UInt8]) {
    state.withLock { state in
      state.nodes.append(Node(bytes: bytes, flushed: bytes, modified: state.time))
      let entry = Entry(node: state.nodes.count - 1)
      state.entries[path] = entry
      state.flushedEntries[path] = entry
    }
  }

  /// The paths of all files.
  package var files: [String] {
    state.withLock { state in state.entries.filter { $0.value.node != nil }.keys.sorted() }
  }

  // MARK: Calls

  /// Counts a call and does it, unless the plan has it fail. `isShort` tells the body to transfer a part.
  private func call(isReading: Bool = false, _ body: (inout State, _ isShort: Bool) -> Int) -> Int {
    beforeCall()
    return state.withLock { state in
      let number = state.calls
      state.calls += 1
      state.time += 1
      if let plan = state.plan, plan.isLasting ? number >= plan.first : number == plan.first {
        switch plan.fault {
        case .error(ENOSPC) where isReading: break
        case .error(let code): return -Int(code)
        case .short: return body(&state, true)
        }
      }
      return body(&state, false)
    }
  }

  private static func parent(of path: String) -> String {
    let end = path.utf8.lastIndex(of: UInt8(ascii: "/")) ?? path.startIndex
    return end == path.startIndex ? "/" : String(path[..<end])
  }

  package func open(_ path: String, _ flags: Int32) -> Int {
    call(isReading: flags & (O_WRONLY | O_RDWR | O_CREAT) == 0) { state, _ in
      if state.entries[path] == nil {
        guard flags & O_CREAT != 0, state.entries[Self.parent(of: path)] != nil else { return -Int(ENOENT) }
        state.nodes.append(Node(modified: state.time))
        state.entries[path] = Entry(node: state.nodes.count - 1)
      }
      guard let entry = state.entries[path] else { return -Int(ENOENT) }
      if entry.node != nil, flags & O_DIRECTORY != 0 { return -Int(ENOTDIR) }
      if let node = entry.node, flags & O_TRUNC != 0 { state.nodes[node].bytes = [] }
      state.nextDescriptor += 1
      state.open[state.nextDescriptor] = (path, entry)
      return state.nextDescriptor
    }
  }

  package func read(_ descriptor: Int, _ buffer: UnsafeMutableRawBufferPointer, at offset: Int) -> Int {
    call(isReading: true) { state, isShort in
      guard let node = state.open[descriptor]?.entry.node else { return -Int(EBADF) }
      let rest = state.nodes[node].bytes.dropFirst(offset)
      let count = min(rest.count, isShort ? (buffer.count + 1) / 2 : buffer.count)
      buffer.copyBytes(from: rest.prefix(count))
      return count
    }
  }

  package func write(_ descriptor: Int, _ bytes: UnsafeRawBufferPointer, at offset: Int) -> Int {
    call { state, isShort in
      guard let node = state.open[descriptor]?.entry.node else { return -Int(EBADF) }
      let count = isShort ? (bytes.count + 1) / 2 : bytes.count
      let missing = offset + count - state.nodes[node].bytes.count
      if missing > 0 { state.nodes[node].bytes += [UInt8](repeating: 0, count: missing) }
      state.nodes[node].bytes.replaceSubrange(offset..<offset + count, with: bytes.prefix(count))
      state.nodes[node].modified = state.time
      return count
    }
  }

  package func truncate(_ descriptor: Int, to count: Int) -> Int {
    call { state, _ in
      guard let node = state.open[descriptor]?.entry.node else { return -Int(EBADF) }
      let excess = state.nodes[node].bytes.count - count
      if excess > 0 { state.nodes[node].bytes.removeLast(excess) }
      return 0
    }
  }

  /// A copy, as long as the file stays as it is.
  package func map(_ descriptor: Int, _ count: Int, into bytes: inout SharedBytes?) -> Int {
    var found: [UInt8] = []
    let result = call(isReading: true) { state, _ in
      guard let node = state.open[descriptor]?.entry.node else { return -Int(EBADF) }
      found = Array(state.nodes[node].bytes.prefix(count))
      return found.count < count ? -Int(EINVAL) : 0
    }
    if result == 0 { bytes = SharedBytes(copying: found) }
    return result
  }

  package func examine(_ descriptor: Int, _ facts: inout FileFacts) -> Int {
    var found = FileFacts()
    let result = call(isReading: true) { state, _ in
      guard let entry = state.open[descriptor]?.entry else { return -Int(EBADF) }
      if let node = entry.node {
        found.isRegular = true
        found.bytes = state.nodes[node].bytes.count
        found.modified = state.nodes[node].modified
      }
      return 0
    }
    if result == 0 { facts = found }
    return result
  }

  package func synchronize(_ descriptor: Int) -> Int {
    call { state, _ in
      guard let (path, entry) = state.open[descriptor] else { return -Int(EBADF) }
      if let node = entry.node {
        state.nodes[node].flushed = state.nodes[node].bytes
        return 0
      }
      for name in Set(state.entries.keys).union(state.flushedEntries.keys)
      where name != "/" && Self.parent(of: name) == path { state.flushedEntries[name] = state.entries[name] }
      return 0
    }
  }

  package func lock(_ descriptor: Int) -> Int {
    call { state, _ in
      guard let node = state.open[descriptor]?.entry.node else { return -Int(EBADF) }
      guard !state.nodes[node].isLocked else { return -Int(EWOULDBLOCK) }
      state.nodes[node].isLocked = true
      return 0
    }
  }

  package func close(_ descriptor: Int) {
    state.withLock { state in
      guard let node = state.open.removeValue(forKey: descriptor)?.entry.node else { return }
      state.nodes[node].isLocked = false
    }
  }

  package func rename(_ path: String, to target: String) -> Int {
    call { state, _ in
      guard let entry = state.entries.removeValue(forKey: path) else { return -Int(ENOENT) }
      state.entries[target] = entry
      return 0
    }
  }

  package func unlink(_ path: String) -> Int {
    call { state, _ in state.entries.removeValue(forKey: path) == nil ? -Int(ENOENT) : 0 }
  }

  package func mkdir(_ path: String) -> Int {
    call { state, _ in
      guard state.entries[path] == nil else { return -Int(EEXIST) }
      guard state.entries[Self.parent(of: path)] != nil else { return -Int(ENOENT) }
      state.entries[path] = Entry(node: nil)
      return 0
    }
  }

  package func rmdir(_ path: String) -> Int {
    call { state, _ in
      guard state.entries[path] == Entry(node: nil) else { return -Int(ENOENT) }
      guard !state.entries.keys.contains(where: { $0 != path && Self.parent(of: $0) == path }) else {
        return -Int(ENOTEMPTY)
      }
      state.entries[path] = nil
      return 0
    }
  }

  package func touch(_ path: String) -> Int {
    call { state, _ in
      guard let node = state.entries[path]?.node else { return -Int(ENOENT) }
      state.nodes[node].modified = state.time
      return 0
    }
  }

  package func list(_ folder: String, into names: inout [String]) -> Int {
    var found: [String] = []
    let result = call(isReading: true) { state, isShort in
      guard state.entries[folder] == Entry(node: nil) else { return -Int(ENOENT) }
      // In an order that does not change from process to process.
      found = state.entries.keys.filter { $0 != "/" && Self.parent(of: $0) == folder }
        .compactMap { $0.split(separator: "/").last.map(String.init) }.sorted()
      return 0
    }
    names += found
    return result
  }
}
