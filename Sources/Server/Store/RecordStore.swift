// Records by id, bounded in number, bytes and age: one file each in a folder, or, without one, in memory.
//
// A record is bytes that nobody here understands. A change reaches the disk first, flushed, and then what is known of it in
// memory: what a caller is told is stored survives a crash, and what cannot be stored is an error that changes nothing here. A
// file that is damaged all the same is reported and left alone. Memory keeps what records are listed and found by; their bytes
// are read when they are asked for.

import JSON
import Platform

final class RecordStore: Sendable {
  struct Limits: Sendable {
    var count = 1_000
    var bytes = 64 << 20
    var seconds = 30 * 24 * 3_600
  }

  /// What a record says about itself.
  struct Description {
    /// Nil where it does not say.
    var id: String?
    /// Whose it is; nil for everybody's.
    var owner: String?
    /// Names by which it can be found too.
    var parts: [String]
    /// What lists show of it, kept in memory.
    var head: [UInt8] = []
  }

  private struct Entry {
    var count: Int
    /// Its bytes, where they are in no file.
    var bytes: [UInt8]?
    var head: [UInt8]
    /// Position in the order of writing.
    var serial: Int
    /// Seconds since 1970 when it was written; nil where that is not known.
    var written: Int?
    var owner: String
    var parts: [String]

    /// About what it takes in memory, with what it is found by.
    var memory: Int { 400 + head.count + (bytes?.count ?? 0) + parts.reduce(0) { $0 + 150 + $1.utf8.count } }
  }

  /// What one owner has in the store.
  private struct Share {
    /// Ids in the order of writing; stale where the serial is not the entry's.
    var order: [(serial: Int, id: String)] = []
    var head = 0
    var count = 0
    var bytes = 0
  }

  private struct State {
    var entries: [String: Entry] = [:]
    /// By owner.
    var shares: [String: Share] = [:]
    var nextSerial = 0
    var bytes = 0
    var memory = 0
    /// Name of a part → the record it was seen in last.
    var parts: [ByteKey: String] = [:]
    var clock = RecordClock()
    var health = StoreHealth()
  }

  private let limits: Limits
  private let folder: String?
  private let files: any FileSystem
  private let now: @Sendable () -> Int
  private let describe: @Sendable ([UInt8]) -> Description
  private let state = Monitor(State())
  private struct Changes {
    /// Files of removed records that could not be deleted yet.
    var leftovers: Set<String> = []
    var inventory: Inventory?
  }

  /// Held while a change is made, so that changes reach the folder in their order; readers never wait for it.
  private let writing: Monitor<Changes>

  /// - Parameters:
  ///   - folder: where records live beyond the process; it must exist. Nil keeps them in memory.
  ///   - describe: reads a record's bytes.
  /// - Throws: when the folder cannot be read: it is no empty store.
  init(
    limits: Limits, folder: String?, files: any FileSystem = SystemFiles(),
    now: @escaping @Sendable () -> Int,
    describe: @escaping @Sendable ([UInt8]) -> Description
  ) throws(PlatformError) {
    self.limits = limits
    self.folder = folder
    self.files = files
    self.now = now
    self.describe = describe
    writing = Monitor(Changes(inventory: folder.map { Inventory(folder: $0, files: files) }))
    if let folder { try recover(folder) }
  }

  /// A store in memory.
  init(
    limits: Limits, now: @escaping @Sendable () -> Int, describe: @escaping @Sendable ([UInt8]) -> Description
  ) {
    self.limits = limits
    folder = nil
    files = SystemFiles()
    self.now = now
    self.describe = describe
    writing = Monitor(Changes())
  }

  var count: Int { state.withLock { $0.entries.count } }

  var totalBytes: Int { state.withLock { $0.bytes } }

  /// About the bytes that it takes in memory, with what it finds records by.
  var memoryBytes: Int { state.withLock { $0.memory } }

  /// Whether changes reach the folder.
  var health: StoreHealth { state.withLock { $0.health } }

  /// Positions in the order of writing, stale ones among them.
  var positionCount: Int { state.withLock { $0.shares.values.reduce(0) { $0 + $1.order.count } } }

  /// All ids, oldest first.
  var ids: [String] {
    state.withLock { state in state.entries.sorted { $0.value.serial < $1.value.serial }.map(\.key) }
  }

  /// What lists show of a record, whose it is, and the number of its bytes.
  func head(_ id: String) -> (bytes: [UInt8], owner: String?, count: Int)? {
    entry(id).map { ($0.head, $0.owner.isEmpty ? nil : $0.owner, $0.count) }
  }

  private func entry(_ id: String) -> Entry? {
    let now = now()
    return state.withLock { state in
      state.entries[id].flatMap { entry in
        state.clock.isExpired(entry.written, now: now, after: limits.seconds) ? nil : entry
      }
    }
  }

  /// The bytes of a record; nil where there is none.
  ///
  /// - Parameter reserve: told what reading them takes; they are not read where it is not to be had, and not told.
  /// - Throws: when they cannot be read, or are not those that were stored.
  func get(_ id: String, reserve: (Int) -> Bool = { _ in true }) throws(PlatformError) -> [UInt8]? {
    guard let entry = entry(id) else { return nil }
    guard let folder, entry.bytes == nil else { return entry.bytes }
    guard reserve(2 * entry.count + Self.headBytes) else { return nil }
    let path = folder + "/" + id + Self.ending
    do throws(PlatformError) {
      let file = RecordFile(try files.read(path, limit: limits.bytes + Self.headBytes))
      if let file, file.id ?? id == id, file.serial >= min(entry.serial, RecordFile.largestNumber) {
        return file.bytes
      }
    } catch .file(_, _, ENOENT) {
    } catch {
      Log.error("a stored record cannot be read", ["file": path, "error": "\(error)"])
      throw error
    }
    // Deleted, or changed, while it was read.
    guard let now = self.entry(id), now.serial == entry.serial else { return try get(id, reserve: reserve) }
    Log.error("a stored record is damaged", ["file": path])
    throw .damaged(path: path)
  }

  /// The id of the record that holds a part of this name.
  func id(ofPart name: String) -> String? { state.withLock { $0.parts[ByteKey(name)] } }

  /// Puts a record in, or in the place of the one of its id.
  func put(_ id: String, _ bytes: [UInt8]) throws(PlatformError) {
    try writing.withLock { (changes) throws(PlatformError) in try store(id, bytes, &changes) }
  }

  /// Puts a record in the place of one that is still there; false where it is gone.
  @discardableResult
  func replace(_ id: String, _ bytes: [UInt8]) throws(PlatformError) -> Bool {
    try writing.withLock { (changes) throws(PlatformError) in
      guard entry(id) != nil else { return false }
      try store(id, bytes, &changes)
      return true
    }
  }

  /// Changes a record as one step: no other change comes between. Nil leaves it as it is.
  ///
  /// - Returns: whether there was a change.
  /// - Throws: when the record cannot be read, or the change cannot be stored; then it is not made.
  @discardableResult
  func update(
    _ id: String, reserve: (Int) -> Bool = { _ in true }, _ change: ([UInt8]?) -> [UInt8]?
  ) throws(PlatformError) -> Bool {
    try writing.withLock { (changes) throws(PlatformError) in
      guard let bytes = change(try get(id, reserve: reserve)) else { return false }
      try store(id, bytes, &changes)
      return true
    }
  }

  private func store(_ id: String, _ bytes: [UInt8], _ changes: inout Changes) throws(PlatformError) {
    guard bytes.count <= limits.bytes else {
      throw .tooLarge(path: id, bytes: bytes.count, limit: limits.bytes)
    }
    let description = describe(bytes)
    try checkShare(id, bytes, description)
    let (serial, written) = nextPosition()
    do throws(PlatformError) {
      try save(id, bytes, serial: serial, written: written)
      try changes.inventory?.note([(id, serial)])
    } catch {
      // A new record may have come as far as its name; it is not to be found by the next start.
      if let folder, state.withLock({ $0.entries[id] == nil }) {
        try? files.remove(folder + "/" + id + Self.ending)
      }
      note(error)
      throw error
    }
    note(nil)
    let kept = folder == nil ? bytes : nil
    clear(insert(id, kept, bytes.count, description, serial: serial, written: written), &changes)
  }

  /// Changes a record in memory alone, where the folder did not take the change; one that is gone stays gone.
  func hold(_ id: String, _ bytes: [UInt8]) {
    writing.withLock { changes in
      guard bytes.count <= limits.bytes, state.withLock({ $0.entries[id] != nil }) else { return }
      let (serial, written) = nextPosition()
      clear(insert(id, bytes, bytes.count, describe(bytes), serial: serial, written: written), &changes)
    }
  }

  /// False when there is none.
  ///
  /// - Throws: when it may be there again after a restart; then it still is there now.
  func remove(_ id: String) throws(PlatformError) -> Bool {
    try writing.withLock { (changes) throws(PlatformError) in
      guard let serial = state.withLock({ $0.entries[id]?.serial }) else { return false }
      do throws(PlatformError) {
        try changes.inventory?.note([(id, nil)])
        try deleteFile(id)
      } catch {
        try? changes.inventory?.note([(id, serial)])
        note(error)
        throw error
      }
      note(nil)
      _ = state.withLock { Self.drop(id, from: &$0) }
      return true
    }
  }

  // MARK: Memory

  /// What the next record is written as. A clock that was set back does not make it older than the one before.
  private func nextPosition() -> (serial: Int, written: Int) {
    let now = now()
    return state.withLock { ($0.nextSerial, max(now, $0.clock.newest ?? now)) }
  }

  /// - Throws: when a record is larger than its owner's part of the store, and others have the rest.
  private func checkShare(_ id: String, _ bytes: [UInt8], _ description: Description) throws(PlatformError) {
    let owner = description.owner ?? ""
    let (owners, others) = state.withLock { state in
      (
        Set(state.shares.keys).union([owner]).count,
        state.shares.reduce(0) { $1.key == owner ? $0 : $0 + $1.value.bytes }
      )
    }
    guard bytes.count > limits.bytes / owners, others + bytes.count > limits.bytes else { return }
    throw .tooLarge(path: id, bytes: bytes.count, limit: limits.bytes / owners)
  }

  /// Puts a record in and drops what is too much: first what is too old, then the oldest of the owner that has most, so
  /// that nobody pushes out what others have stored.
  ///
  /// - Parameter bytes: those that are in no file.
  private func insert(
    _ id: String, _ bytes: [UInt8]?, _ count: Int, _ description: Description, serial: Int, written: Int?
  ) -> [String] {
    let owner = description.owner ?? ""
    let entry = Entry(
      count: count, bytes: bytes, head: description.head, serial: serial, written: written, owner: owner,
      parts: description.parts)
    let now = now()
    let limits = limits
    let (removed, expired) = state.withLock { state -> ([String], Int) in
      Self.drop(id, from: &state)
      // No sum here overflows: see `RecordFile.largestNumber`.
      state.nextSerial = max(state.nextSerial, serial + 1)
      if let written { state.clock.note(written, gap: limits.seconds) }
      state.entries[id] = entry
      state.shares[owner, default: Share()].order.append((serial, id))
      state.shares[owner, default: Share()].count += 1
      state.shares[owner, default: Share()].bytes += count
      state.bytes += count
      state.memory += entry.memory
      for part in entry.parts { state.parts[ByteKey(part)] = id }
      var removed: [String] = []
      var expired = 0
      while let oldest = Self.oldest(&state), let entry = state.entries[oldest] {
        let isExpired = state.clock.isExpired(entry.written, now: now, after: limits.seconds)
        guard isExpired || state.entries.count > limits.count || state.bytes > limits.bytes else { break }
        let id = isExpired ? oldest : Self.oldest(ofLargestIn: &state, limits) ?? oldest
        Self.drop(id, from: &state)
        removed.append(id)
        if isExpired { expired += 1 }
      }
      return (removed, expired)
    }
    if let first = removed.first {
      Log.info(
        "records removed",
        [
          "count": "\(removed.count)", "first": first,
          "because": expired == 0 ? "too many" : expired == removed.count ? "too old" : "too old or too many",
        ])
    }
    return removed
  }

  @discardableResult
  private static func drop(_ id: String, from state: inout State) -> Bool {
    guard let entry = state.entries.removeValue(forKey: id) else { return false }
    state.bytes -= entry.count
    state.memory -= entry.memory
    state.shares[entry.owner]?.bytes -= entry.count
    state.shares[entry.owner]?.count -= 1
    if state.shares[entry.owner]?.count == 0 { state.shares[entry.owner] = nil }
    for part in entry.parts where state.parts[ByteKey(part)] == id { state.parts[ByteKey(part)] = nil }
    return true
  }

  /// The id written longest ago.
  private static func oldest(_ state: inout State) -> String? {
    var best: (serial: Int, id: String)?
    for owner in Array(state.shares.keys) {
      guard let id = oldest(of: owner, &state), let serial = state.entries[id]?.serial else { continue }
      if serial < best?.serial ?? .max { best = (serial, id) }
    }
    return best?.id
  }

  /// The oldest record of the owner that has the largest part of the store, by bytes or by number.
  private static func oldest(ofLargestIn state: inout State, _ limits: Limits) -> String? {
    let isFull = state.bytes > limits.bytes
    let largest = state.shares.max { a, b in
      isFull
        ? (a.value.bytes, a.key) < (b.value.bytes, b.key) : (a.value.count, a.key) < (b.value.count, b.key)
    }
    return largest.flatMap { oldest(of: $0.key, &state) }
  }

  private static func oldest(of owner: String, _ state: inout State) -> String? {
    guard var share = state.shares.removeValue(forKey: owner) else { return nil }
    defer { state.shares[owner] = share }
    // Changed and removed records leave stale positions, each with an id that takes memory.
    if share.order.count > 2 * share.count + 64 {
      share.order = share.order[share.head...].filter { state.entries[$0.id]?.serial == $0.serial }
      share.head = 0
    }
    while share.head < share.order.count {
      let (serial, id) = share.order[share.head]
      if state.entries[id]?.serial == serial { return id }
      share.order[share.head].id = ""
      share.head += 1
    }
    return nil
  }

  // MARK: Folder

  static let ending = ".record"
  /// Most that a file has beyond the bytes of its record.
  static let headBytes = 1_024

  private func save(_ id: String, _ bytes: [UInt8], serial: Int, written: Int) throws(PlatformError) {
    guard let folder else { return }
    let file = RecordFile.encode(bytes, id: id, serial: serial, written: written)
    try files.writeDurably(file, folder: folder, name: id + Self.ending)
  }

  private func deleteFile(_ id: String) throws(PlatformError) {
    guard let folder else { return }
    try files.removeDurably(folder: folder, name: id + Self.ending)
  }

  /// Deletes the files of records that were dropped; what cannot be deleted is tried again with the next change.
  private func clear(_ removed: [String], _ changes: inout Changes) {
    guard let folder else { return }
    // One that came back is not flushed away: a new start drops what is too much again.
    changes.leftovers = changes.leftovers.union(removed).filter { id in
      state.withLock { $0.entries[id] == nil }
    }
    do throws(PlatformError) {
      try changes.inventory?.note(changes.leftovers.map { ($0, nil) })
      for id in changes.leftovers {
        try files.remove(folder + "/" + id + Self.ending)
        changes.leftovers.remove(id)
      }
    } catch {
      note(error)
    }
  }

  /// Keeps what became of a change, for `health`, and tells the log when that is new.
  private func note(_ error: PlatformError?) {
    guard let folder else { return }
    let isNews = state.withLock { state in
      defer { state.health.isFailing = error != nil }
      if error != nil { state.health.failures += 1 }
      return state.health.isFailing != (error != nil)
    }
    if let error {
      Log.error("a change of a record is not stored", ["folder": folder, "error": "\(error)"])
    } else if isNews {
      Log.info("records are stored again", ["folder": folder])
    }
  }

  /// The records that are in a folder, and their serials as far as the beginnings of their files say.
  static func present(_ folder: String, files: any FileSystem) throws(PlatformError) -> [String: Int?] {
    var found: [String: Int?] = [:]
    for name in try files.names(in: folder) where name.hasSuffix(ending) {
      let head = try? files.beginning(folder + "/" + name, count: headBytes).bytes
      found[String(name.dropLast(ending.count))] = .some(head.flatMap(RecordFile.serial))
    }
    return found
  }

  /// Reads all files. What is not whole is reported and left.
  private func recover(_ folder: String) throws(PlatformError) {
    var found: [(id: String, serial: Int, written: Int?, count: Int, description: Description)] = []
    let list = try Inventory.read(folder: folder, files: files)
    let faults = Inventory.faults(list, try Self.present(folder, files: files))
    for (id, problem) in faults.sorted(by: { $0.key < $1.key }) {
      Log.error("a stored record is not as it was", ["folder": folder, "record": id, "because": problem])
    }
    var lost = faults.count
    for name in try files.names(in: folder) {
      if name.hasSuffix(".tmp") {
        // A write that never finished: its record was not stored.
        do throws(PlatformError) { try files.remove(folder + "/" + name) } catch { note(error) }
        continue
      }
      guard name.hasSuffix(Self.ending) else { continue }
      switch try RecordFile.read(name, in: folder, files: files, limit: limits.bytes, describe: describe) {
      case .success(let (id, record, description)):
        found.append((id, record.serial, record.written, record.bytes.count, description))
      case .failure(let fault):
        lost += 1
        Log.error("a stored record was skipped", ["file": folder + "/" + name, "because": fault.problem])
      }
    }
    state.withLock { $0.health.lost = lost }
    var removed: [String] = []
    for (id, serial, written, count, description) in found.sorted(by: { $0.serial < $1.serial }) {
      removed += insert(id, nil, count, description, serial: serial, written: written)
    }
    let kept = state.withLock { $0.entries.mapValues(\.serial) }
    writing.withLock { changes in
      do throws(PlatformError) { try changes.inventory?.begin(kept) } catch { note(error) }
      clear(removed, &changes)
    }
    Log.info("records recovered", ["folder": folder, "count": "\(count)"])
  }
}

/// Whether a store's changes reach its folder.
struct StoreHealth: Equatable {
  /// Changes that did not, so far.
  var failures = 0
  /// Whether the last one did not.
  var isFailing = false
  /// Records that were missing, damaged or older than they should be at the start.
  var lost = 0

  static func + (a: StoreHealth, b: StoreHealth) -> StoreHealth {
    StoreHealth(
      failures: a.failures + b.failures, isFailing: a.isFailing || b.isFailing, lost: a.lost + b.lost)
  }
}

/// The times of a store's records, and which of them tell an age.
///
/// A clock may be wrong at one start. So an age counts only as far back as the records follow one another, and the
/// clock follows the newest, at distances that are shorter than the age itself: records before a leap stay.
struct RecordClock {
  private(set) var newest: Int?
  /// The oldest record since the last leap.
  private var firstSinceLeap = Int.min

  /// Takes in the time of a record, in the order of writing.
  mutating func note(_ written: Int, gap: Int) {
    if let newest, written - newest > gap { firstSinceLeap = written }
    newest = max(newest ?? written, written)
  }

  /// Whether a record of this time has had its time; nil never has.
  func isExpired(_ written: Int?, now: Int, after seconds: Int) -> Bool {
    guard let written else { return false }
    return counts(written, now: now, within: seconds) && written <= now - seconds
  }

  /// Whether the time since a record can be told from this clock.
  func counts(_ written: Int, now: Int, within gap: Int) -> Bool {
    guard let newest, newest > now - gap else { return false }
    return written >= firstSinceLeap
  }
}
