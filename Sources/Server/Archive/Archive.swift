// Files and vector stores of all clients: kept in a folder, looked up by owner, and worked on by one thread.
//
//   files/ID.json, files/ID.data       a file; its record and those of stores are there twice (ID.copy)
//   stores/ID/store.json               a store
//   stores/ID/entries/ID.json          a file in it
//   stores/ID/batches/ID.json          files that came together
//   stores/ID/index-…/                 its index, one for each model that it had
//   attempts/                          what is being worked on
//   inventory                          which records there are

import HTTP
import JSON
package import Platform
import Search
import Vectors
import Wire

/// Everything that clients search in.
package final class Archive: Sendable {
  /// Bounds of what clients may keep, and where it is.
  package struct Settings: Sendable {
    /// Nil for a folder of the process's own, gone with it.
    package var folder: String?
    /// The model that makes vectors where a store names none; nil for the first that does.
    package var embeddingModel: String?
    /// Most bytes of one file.
    package var fileBytes = 64 << 20
    /// Most bytes of all files of one client.
    package var clientBytes = 1 << 30
    /// Most bytes of all files.
    package var bytes = 10 << 30
    package var storesPerClient = 100
    package var filesPerStore = 10_000
    /// Batches of files that a store remembers; the oldest that is over goes for a new one.
    package var batchesPerStore = 100
    package var passagesPerStore = 1_000_000
    /// Searches at a time.
    package var searches = 4
    /// Searches that wait for a place.
    package var waiting = 64
    /// Longest search, seconds.
    package var searchSeconds = 5.0
    /// Most bytes of everything in the process (`--memory`).
    package var memory = Int.max
    /// Seconds on a clock that nobody sets, for what must not end because the time of day is wrong.
    package var uptime: @Sendable () -> Double = { Instant.now.seconds(since: Instant(nanoseconds: 0)) }

    /// What an index keeps in memory before it goes to a file: its log twice and some more.
    var indexLimits: VectorIndex.Limits {
      var limits = VectorIndex.Limits()
      limits.logBytes = min(limits.logBytes, max(1 << 20, memory / 64))
      return limits
    }

    /// Files of one client: as many as would fill its room with 10 kB each.
    var filesPerClient: Int { max(100, clientBytes / 10_000) }

    /// What records of all clients may take in memory, and those of one client half of that.
    var recordBytes: Int { max(1 << 20, min(256 << 20, memory / 16)) }

    /// What indexes of one client may take on the disk beside its files.
    var clientIndexBytes: Int {
      clientBytes.multipliedReportingOverflow(by: 4).overflow ? .max : 4 * clientBytes
    }

    /// What all indexes may keep in memory before the one that grows goes to a file.
    var indexBytes: Int { max(1 << 20, memory / 32) }

    package init() {}
  }

  /// One store in memory.
  struct Store: Sendable {
    var record: StoreRecord
    private(set) var entries: [String: EntryRecord] = [:]
    private(set) var batches: [String: BatchRecord] = [:]
    /// What the record, entries and batches take, and the indexes on the disk.
    private(set) var holding = Holding()
    /// Open while it is used.
    var index: VectorIndex?
    /// One for a new model, which does not answer yet.
    var next: VectorIndex?

    init(record: StoreRecord) {
      self.record = record
      holding = record.holding
    }

    /// Puts an entry in, or takes it out.
    mutating func set(_ entry: EntryRecord?, of file: String) {
      holding += (entry?.holding ?? Holding()) - (entries[file]?.holding ?? Holding())
      entries[file] = entry
    }

    /// Puts a batch in, or takes it out.
    mutating func set(_ batch: BatchRecord?, of id: String) {
      holding += (batch?.holding ?? Holding()) - (batches[id]?.holding ?? Holding())
      batches[id] = batch
    }

    mutating func set(_ record: StoreRecord) {
      holding += record.holding - self.record.holding
      self.record = record
    }

    var openIndexes: [VectorIndex] { [index, next].compactMap { $0 } }
  }

  struct State: Sendable {
    var files: [String: FileRecord] = [:]
    var stores: [String: Store] = [:]
    /// What clients have, and what is being written for them.
    var quotas = Quotas()
    /// The turn of the next entry: none has the turn of another, so that work for one that is gone is known by it.
    var nextTurn = 0
    /// Files that wait to be indexed, in order.
    var queue: [Work] = []
    /// What was taken from it last.
    var atWork: Work?
    var isStopped = false
    /// Searches that run, and that wait.
    var searching = 0
    var waiting = 0
    /// Searches so far, and the latest of each session that searches now.
    var turns = 0
    var sessions: [ByteKey: Int] = [:]
    /// Stores whose indexes are being built for another model.
    var rebuilding: Set<String> = []
    var counts = ArchiveCounts()
    var health = StoreHealth()
    /// The version of the next record.
    var nextVersion = 1
    /// Records that the start has missed, by their places and names.
    var lost: Set<String> = []
    /// Whether there was an inventory at the start: earlier versions wrote none, and left entries of files that were deleted.
    var isListed = false
    /// Stores whose indexes nobody has read through since the start.
    var unchecked: [String] = []
    /// Files whose bytes nobody has read since the start.
    var unseen: [String] = []
    /// Stores with passages whose sentences nobody has read yet, in the order in which they were asked for.
    var unread: [String] = []
    /// The folder of a process without a state directory, once there is something in it.
    var temporary: PassingFolder?
  }

  /// A file that is to be indexed.
  struct Work: Sendable, Equatable {
    var store: String
    var file: String
    var turn: Int
    /// The key of who asked for it; 0 without one, and after a restart.
    var key: UInt64 = 0
  }

  /// Most bytes of a record.
  static let recordBytes = 1 << 24

  let settings: Settings
  let folder: String
  let files: any FileSystem
  let now: @Sendable () -> Int
  let state = Monitor(State())
  /// Files that come in parts, by their ids.
  let uploads = Monitor([String: Upload]())
  /// Held while records are changed, from the last look at what is there to the change in memory. It comes before the lock of
  /// an index, and that before `state`.
  private let writing = Monitor(false)
  /// Nil where no other process can know the folder.
  let inventory: Monitor<Inventory?>
  /// Nil where no other process can know the folder.
  private let lock: FolderLock?
  private let isTemporary: Bool
  /// Work that an earlier process may have died of.
  let attempts: Attempts
  /// One index is opened at a time: its folder has a lock.
  let opening = Monitor(false)

  /// Reads what the folder holds.
  ///
  /// - Throws: when the folder cannot be used, or another process uses it.
  package init(
    _ settings: Settings = Settings(), files: any FileSystem = SystemFiles(),
    now: @escaping @Sendable () -> Int = { Int(Instant.wallSeconds) }
  ) throws(PlatformError) {
    self.settings = settings
    self.files = files
    self.now = now
    isTemporary = settings.folder == nil
    folder = settings.folder ?? PassingFolder.freePath()
    inventory = Monitor(settings.folder.map { Inventory(folder: $0, files: files) })
    attempts = Attempts(folder: settings.folder.map { $0 + "/attempts" }, files: files)
    guard !isTemporary else {
      lock = nil
      return
    }
    try files.makeFolder(folder)
    lock = try FolderLock(folder: folder, files: files)
    try makeFolders()
    try recover()
  }

  /// Makes what is not there yet. A server without a state directory touches no disk before its first file or store.
  func makeFolders() throws(PlatformError) {
    if isTemporary {
      try state.withLock { state throws(PlatformError) in
        if state.temporary == nil { state.temporary = try PassingFolder(folder) }
      }
    }
    for place in ["", "/files", "/stores"] { try files.makeFolder(folder + place) }
  }

  /// Changes records as one step. Whoever changes some looks once more within it whether what they are about is still there.
  func changing<Result>(_ body: () throws(APIError) -> Result) throws(APIError) -> Result {
    try writing.withLock { _ throws(APIError) in try body() }
  }

  /// Writes a record so that it outlives a loss of power; within `changing`, since two threads may write the same record, by
  /// way of the same temporary file.
  ///
  /// - Parameter twice: whether a copy is written after it, from which it is made again if it is lost.
  func write(_ record: JSONValue, _ place: String, _ name: String, twice: Bool = false) throws(APIError) {
    let version = state.withLock { state in
      defer { state.nextVersion += 1 }
      return state.nextVersion
    }
    let bytes = SealedRecord.bytes(of: record, version: version)
    let base = String(name.dropLast(Self.json.utf8.count))
    try storing { () throws(PlatformError) in
      try files.writeDurably(bytes, folder: folder + "/" + place, name: name)
      if twice { try? files.writeDurably(bytes, folder: folder + "/" + place, name: base + Self.copy) }
      try note(place + "/" + base, version)
    }
  }

  /// Writes down that a record is there, or goes.
  func note(_ name: String, _ version: Int?) throws(PlatformError) {
    try inventory.withLock { (list) throws(PlatformError) in try list?.note([(name, version)]) }
  }

  /// Changes what is kept. `/ready` and the metrics tell when that fails.
  func storing<Result>(_ change: () throws(PlatformError) -> Result) throws(APIError) -> Result {
    do throws(APIError) {
      let result = try Server.storing(change)
      state.withLock { $0.health.isFailing = false }
      return result
    } catch {
      state.withLock { state in
        state.health.failures += 1
        state.health.isFailing = true
      }
      throw error
    }
  }

  /// Whether what is acknowledged reaches the folder.
  var health: StoreHealth { state.withLock { $0.health } }

  /// Ends the work, and takes a folder of the process's own away.
  package func stop() {
    let folder = state.update { state in
      state.isStopped = true
      return state.temporary.take()
    }
    // It goes here, outside the lock.
    withExtendedLifetime(folder) {}
  }

  func removeTree(_ path: String, depth: Int) {
    guard depth < 8 else { return }
    var names: [String] = []
    guard files.list(path, into: &names) >= 0 else {
      _ = files.unlink(path)
      return
    }
    for name in names { removeTree(path + "/" + name, depth: depth + 1) }
    _ = files.rmdir(path)
  }

  /// Bytes of indexes that are in memory and in no file, and of records.
  package var memoryBytes: Int {
    let (open, records) = state.withLock { state in
      (
        state.stores.values.flatMap(\.openIndexes),
        state.quotas.all.memory + state.queue.count * MemoryLayout<Work>.stride
      )
    }
    return open.reduce(records) { $0 + $1.memoryBytes }
  }

  /// Moves what an index has in memory to a file, where all of them together hold more than they may.
  ///
  /// - Parameter reserve: told the bytes that this takes; false where they are not to be had.
  func settle(_ index: VectorIndex, reserve: (Int) -> Bool = { _ in true }) throws(IndexError) {
    let open = state.withLock { state in state.stores.values.flatMap(\.openIndexes) }
    guard open.reduce(0, { $0 + $1.memoryBytes }) > settings.indexBytes else { return }
    // The largest gives most; this one has just grown, and is written to a file when it is alone.
    let largest = open.max { $0.memoryBytes < $1.memoryBytes } ?? index
    try largest.compact(reserve: reserve)
  }

  /// Has the sentences of a store read in the background.
  func noteUnread(_ store: String) {
    let isKnown = state.withLock { $0.unread.contains(store) }
    guard !isKnown else { return }
    state.update { if !$0.unread.contains(store), $0.stores[store] != nil { $0.unread.append(store) } }
  }

  // MARK: Owners

  /// What is written into a client's records; nil for a client without a key.
  static func owner(_ client: ClientIdentity) -> String? {
    client.name == nil ? nil : String(client.number, radix: 16)
  }

  /// Whether a client sees what an owner has.
  static func sees(_ client: ClientIdentity, _ owner: String?) -> Bool {
    owner == nil || owner == Self.owner(client)
  }

  // MARK: Files

  func file(_ id: String, _ client: ClientIdentity) throws(APIError) -> FileRecord {
    let time = now()
    let found = state.withLock { $0.files[id] }
    guard let found, Self.sees(client, found.owner), !found.isExpired(now: time) else {
      throw .notFound("file", id)
    }
    return found
  }

  /// A client's files, the oldest first.
  func files(of client: ClientIdentity) -> [FileRecord] {
    let time = now()
    return state.withLock { state in
      state.files.values.filter { Self.sees(client, $0.owner) && !$0.isExpired(now: time) }
    }.sorted { ($0.created, $0.id) < ($1.created, $1.id) }
  }

  /// - Parameter upload: what was promised for it, and is given back with it.
  func add(
    _ file: FileRecord, _ content: [UInt8], inPlaceOf promised: Holding = Holding()
  ) throws(APIError) {
    dropOldFiles()
    var file = file
    file.bytes = content.count
    file.checksum = SealedRecord.sum(of: content[...])
    let added = file
    try reserve(added.holding - promised, for: added.owner)
    do throws(APIError) {
      try storing { () throws(PlatformError) in
        try makeFolders()
        try files.writeDurably(content, folder: folder + "/files", name: file.id + ".data")
      }
      try changing { () throws(APIError) in
        try write(added.record, "files", added.id + ".json", twice: true)
        state.withLock { $0.files[added.id] = added }
      }
    } catch {
      // Bytes that an older record stands for stay.
      if state.withLock({ $0.files[file.id] == nil }) {
        forget("files", file.id, with: [Self.json, ".data"])
      }
      state.withLock { $0.quotas.add(promised - added.holding, of: added.owner) }
      throw error
    }
  }

  /// Counts what is about to be written for a client, if it has room for it. Whoever does not write it gives it back.
  func reserve(_ more: Holding, for owner: String?) throws(APIError) {
    let time = now()
    let refusal = state.withLock { state in
      let files = state.files
      return state.quotas.reserve(more, for: owner, settings) {
        // What its owner does not see any more is no matter of his.
        files.values.reduce(into: Holding()) { sum, file in
          if file.owner == owner, file.isExpired(now: time) { sum += file.holding }
        }
      }
    }
    guard let refusal else { return }
    throw APIError(status: 400, code: Quotas.code, message: refusal.words(more, settings))
  }

  /// Counts what is there, or gives back what is not.
  func count(_ more: Holding, of owner: String?) { state.withLock { $0.quotas.add(more, of: owner) } }

  /// Deletes files whose time has come, by a clock that agrees with the newest: one that is wrong at one start costs none.
  private func dropOldFiles() {
    let time = now()
    let all = state.withLock { Array($0.files.values) }
    guard all.contains(where: { $0.isExpired(now: time) }) else { return }
    var clock = RecordClock()
    for created in all.map(\.created).sorted() { clock.note(created, gap: FileRecord.longestLife) }
    for file in all where file.isExpired(now: time) {
      guard clock.counts(file.created, now: time, within: FileRecord.longestLife) else { continue }
      Log.info("a file whose time has come is deleted", ["file": file.id])
      try? remove(file)
    }
  }

  /// Takes over bytes that are in a file of this disk already. Done again, it does what is left to do.
  func adopt(_ file: FileRecord, from path: String) throws(APIError) {
    var file = file
    file.checksum = try Server.storing { () throws(PlatformError) in
      do throws(PlatformError) {
        return try files.mapped(path).map { SealedRecord.sum(of: $0) } ?? SealedRecord.sum(of: [])
      } catch .file(_, _, ENOENT) {
        // It has moved already.
        return nil
      }
    }
    let added = file
    // The record first: bytes without one go at the next start.
    try changing { () throws(APIError) in
      try write(added.record, "files", added.id + ".json", twice: true)
      try storing { () throws(PlatformError) in
        try files.publish(path, folder: folder + "/files", name: added.id + ".data")
      }
      state.withLock { state in
        let old = state.files.updateValue(added, forKey: added.id)?.holding
        state.quotas.add(added.holding - (old ?? Holding()), of: added.owner)
      }
    }
  }

  /// - Throws: 500 for bytes that are not those that were stored.
  func content(of file: FileRecord) throws(APIError) -> [UInt8] {
    let content = try reading(file) { path throws(PlatformError) in try files.read(path, limit: file.bytes) }
    try check(file, SealedRecord.sum(of: content[...]))
    return content
  }

  /// Reads the bytes of a file. That they are gone, or that there are more of them, is damage.
  private func reading<Result>(
    _ file: FileRecord, _ read: (String) throws(PlatformError) -> Result
  ) throws(APIError) -> Result {
    do throws(PlatformError) {
      return try read(folder + "/files/" + file.id + ".data")
    } catch .file(_, _, ENOENT), .tooLarge, .notARegularFile {
      throw damaged(file)
    } catch {
      throw APIError(storing: error)
    }
  }

  /// The same, mapped; nil for an empty file.
  func mappedContent(of file: FileRecord) throws(APIError) -> SharedBytes? {
    let content = try reading(file) { path throws(PlatformError) in try files.mapped(path) }
    if let content { try check(file, SealedRecord.sum(of: content)) }
    return content
  }

  private func check(_ file: FileRecord, _ sum: String) throws(APIError) {
    if let checksum = file.checksum, checksum != sum { throw damaged(file) }
  }

  /// What is told of a file whose bytes are not there, or others: that it is damaged, or was deleted meanwhile.
  private func damaged(_ file: FileRecord) -> APIError {
    guard state.withLock({ $0.files[file.id] != nil }) else { return .notFound("file", file.id) }
    Log.error("a file is damaged", ["file": file.id])
    return APIError(
      status: 500, type: "server_error", code: "file_damaged",
      message: "The bytes of the file '\(file.id)' are not those that were stored.")
  }

  /// Deletes a file, also from every store that it is in.
  ///
  /// - Throws: 404 for one that is deleted already.
  func remove(_ file: FileRecord) throws(APIError) {
    try changing { () throws(APIError) in
      guard state.withLock({ $0.files[file.id] != nil }) else { throw .notFound("file", file.id) }
      let stores = state.withLock { state in
        state.stores.values.filter { $0.entries[file.id] != nil }.map(\.record.id)
      }
      for store in stores { _ = try dropEntry(file.id, store: store) }
      try bury("files", file.id)
      // Before its bytes go: whoever misses them looks here whether they should be there.
      state.withLock { state in
        guard let gone = state.files.removeValue(forKey: file.id) else { return }
        state.quotas.add(Holding() - gone.holding, of: gone.owner)
      }
      forget("files", file.id, with: [".data"])
    }
  }

  // MARK: Stores

  func store(_ id: String, _ client: ClientIdentity) throws(APIError) -> Store {
    let found = state.withLock { $0.stores[id] }
    guard let found, Self.sees(client, found.record.owner) else { throw .notFound("vector store", id) }
    return found
  }

  /// A client's stores, the oldest first.
  func stores(of client: ClientIdentity) -> [Store] {
    state.withLock { state in state.stores.values.filter { Self.sees(client, $0.record.owner) } }
      .sorted { ($0.record.created, $0.record.id) < ($1.record.created, $1.record.id) }
  }

  func add(_ record: StoreRecord) throws(APIError) {
    let place = folder + "/stores/" + record.id
    try changing { () throws(APIError) in
      let count = state.withLock { state in state.stores.values.count { $0.record.owner == record.owner } }
      guard count < settings.storesPerClient else {
        throw APIError(
          status: 400, code: "store_limit_exceeded",
          message: "There are \(count) vector stores already; delete one first.")
      }
      try reserve(record.holding, for: record.owner)
      do throws(APIError) {
        try storing { () throws(PlatformError) in
          try makeFolders()
          try files.makeFolder(place)
          try files.makeFolder(place + "/entries")
          try files.makeFolder(place + "/batches")
        }
        try write(record.record, "stores/" + record.id, "store.json", twice: true)
      } catch {
        self.count(Holding() - record.holding, of: record.owner)
        throw error
      }
      state.withLock { $0.stores[record.id] = Store(record: record) }
    }
  }

  /// Changes a store's record, on disk first.
  @discardableResult
  func change(_ id: String, _ body: (inout StoreRecord) -> Void) throws(APIError) -> Store {
    try changing { () throws(APIError) in
      guard var store = state.withLock({ $0.stores[id] }) else { throw .notFound("vector store", id) }
      var record = store.record
      body(&record)
      let more = record.holding - store.record.holding
      if !more.isLess { try reserve(more, for: record.owner) }
      do throws(APIError) { try write(record.record, "stores/" + id, "store.json", twice: true) } catch {
        if !more.isLess { count(Holding() - more, of: record.owner) }
        throw error
      }
      if more.isLess { count(more, of: record.owner) }
      let changed = record
      store.set(changed)
      state.update { $0.stores[id]?.set(changed) }
      return store
    }
  }

  func removeStore(_ id: String) throws(APIError) {
    try changing { () throws(APIError) in
      guard state.withLock({ $0.stores[id] != nil }) else { throw .notFound("vector store", id) }
      try bury("stores/" + id, "store", as: "stores/\(id)/")
      // The index is closed with its last search.
      state.update { state in
        if let gone = state.stores.removeValue(forKey: id) {
          state.quotas.add(Holding() - gone.holding, of: gone.record.owner)
        }
        state.queue.removeAll { $0.store == id }
        state.unread.removeAll { $0 == id }
        state.unchecked.removeAll { $0 == id }
      }
    }
    attempts.end("rebuild." + id)
    // Nobody makes an index in it meanwhile.
    opening.withLock { _ in clear(store: id) }
  }

  // MARK: Files of stores

  /// Puts files into a store; one that is in already stays as it is, unless its attributes or the way it is cut change.
  ///
  /// - Parameter key: of who asks for it.
  /// - Throws: 404 for a store or a file that is gone.
  func add(_ entries: [EntryRecord], batch: BatchRecord?, key: UInt64 = 0) throws(APIError) {
    guard let id = entries.first?.store else { return }
    try changing { () throws(APIError) in
      let store = try openStore(id)
      let missing = state.withLock { state in entries.first { state.files[$0.file] == nil }?.file }
      if let missing { throw .notFound("file", missing) }
      let new = entries.count { store.entries[$0.file] == nil }
      guard store.entries.count + new <= settings.filesPerStore else {
        throw APIError(
          status: 400, code: "store_limit_exceeded",
          message: "A vector store holds at most \(settings.filesPerStore) files.")
      }
      if let batch { try put(batch, in: store) }
    }
    for entry in entries {
      // One at a time, so that others have their turn. What is deleted meanwhile was put in and deleted.
      try changing { () throws(APIError) in
        guard let store = state.withLock({ $0.stores[id] }),
          state.withLock({ $0.files[entry.file] != nil })
        else { return }
        try put(entry, in: store, key)
      }
    }
  }

  /// - Throws: 404 where it is gone.
  func openStore(_ id: String) throws(APIError) -> Store {
    guard let store = state.withLock({ $0.stores[id] }) else { throw .notFound("vector store", id) }
    return store
  }

  private func put(_ entry: EntryRecord, in store: Store, _ key: UInt64) throws(APIError) {
    if let old = store.entries[entry.file] {
      guard old.strategy != entry.strategy || old.status == .failed || old.status == .cancelled else {
        // Only what is told of it changes.
        var kept = old
        kept.attributes = entry.attributes
        kept.batch = entry.batch ?? old.batch
        return try write(kept)
      }
    }
    try enqueue(entry, key)
  }

  /// Writes an entry that is to be indexed; within `changing`.
  func enqueue(_ entry: EntryRecord, _ key: UInt64) throws(APIError) {
    var entry = entry
    entry.turn = state.withLock { state in
      defer { state.nextTurn += 1 }
      return state.nextTurn
    }
    try write(entry)
    let work = Work(store: entry.store, file: entry.file, turn: entry.turn, key: key)
    state.update { $0.queue.append(work) }
  }

  /// Writes an entry whose store is there, in place of the one of its file; within `changing`.
  func write(_ entry: EntryRecord) throws(APIError) {
    let (owner, old) = state.withLock { state in
      (state.stores[entry.store]?.record.owner, state.stores[entry.store]?.entries[entry.file]?.holding)
    }
    let more = entry.holding - (old ?? Holding())
    if !more.isLess { try reserve(more, for: owner) }
    do throws(APIError) {
      try write(entry.record, "stores/\(entry.store)/entries", entry.file + ".json")
    } catch {
      if !more.isLess { count(Holding() - more, of: owner) }
      throw error
    }
    if more.isLess { count(more, of: owner) }
    state.update { $0.stores[entry.store]?.set(entry, of: entry.file) }
  }

  /// Writes a batch of files; within `changing`. The oldest that is over goes where there are too many.
  private func put(_ batch: BatchRecord, in store: Store) throws(APIError) {
    let place = "stores/\(batch.store)/batches"
    if store.batches[batch.id] == nil, store.batches.count >= settings.batchesPerStore {
      let over = store.batches.values.filter { batch in
        !batch.files.contains {
          store.entries[$0]?.batch == batch.id && store.entries[$0]?.status == .inProgress
        }
      }
      guard let oldest = over.min(by: { ($0.created, $0.id) < ($1.created, $1.id) }) else {
        throw APIError(
          status: 429, type: "rate_limit_error", code: "batch_limit_exceeded",
          message: "\(store.batches.count) batches of files are under way in this vector store.",
          retryAfter: 10)
      }
      try storing { () throws(PlatformError) in
        try note(place + "/" + oldest.id, nil)
        try files.removeDurably(folder: folder + "/" + place, name: oldest.id + ".json")
      }
      count(Holding() - oldest.holding, of: store.record.owner)
      state.update { $0.stores[batch.store]?.set(nil as BatchRecord?, of: oldest.id) }
    }
    let more = batch.holding - (store.batches[batch.id]?.holding ?? Holding())
    try reserve(more, for: store.record.owner)
    do throws(APIError) { try write(batch.record, place, batch.id + ".json") } catch {
      count(Holding() - more, of: store.record.owner)
      throw error
    }
    state.update { $0.stores[batch.store]?.set(batch, of: batch.id) }
  }

  /// Changes an entry that is still there, on disk first; nil when it is gone, or has another turn than it had.
  ///
  /// - Parameter turn: nil for any.
  @discardableResult
  func changeEntry(
    _ file: String, store: String, turn: Int? = nil, _ change: (inout EntryRecord) -> Void
  ) throws(APIError) -> EntryRecord? {
    try changing { () throws(APIError) in
      guard var entry = state.withLock({ $0.stores[store]?.entries[file] }), turn ?? entry.turn == entry.turn
      else { return nil }
      change(&entry)
      try write(entry)
      return entry
    }
  }

  /// Cancels what is indexed for these keys, and what waits for it.
  func cut(keys: Set<UInt64>) {
    let open = state.update { state -> [EntryRecord] in
      let work = (state.queue + [state.atWork].compactMap(\.self)).filter { keys.contains($0.key) }
      state.queue.removeAll { keys.contains($0.key) }
      return work.compactMap { work in
        state.stores[work.store]?.entries[work.file].flatMap {
          $0.turn == work.turn && $0.status == .inProgress ? $0 : nil
        }
      }
    }
    for entry in open {
      do throws(APIError) { try cancel(entry) } catch {
        Log.error("what became of a file is not stored", ["file": entry.file, "error": error.message])
      }
    }
  }

  /// Whoever indexes it sees that its turn is over.
  private func cancel(_ entry: EntryRecord) throws(APIError) {
    try changing { () throws(APIError) in
      guard var ended = state.withLock({ $0.stores[entry.store]?.entries[entry.file] }),
        ended.turn == entry.turn, ended.status == .inProgress
      else { return }
      ended.status = .cancelled
      ended.turn += 1
      let shown = ended
      // Also where the disk does not take it.
      state.update { state in
        state.nextTurn = max(state.nextTurn, shown.turn + 1)
        state.stores[shown.store]?.set(shown, of: shown.file)
      }
      try write(ended)
    }
  }

  /// Takes a file out of a store; false when it is not in it.
  func removeEntry(_ file: String, store id: String) throws(APIError) -> Bool {
    try changing { () throws(APIError) in try dropEntry(file, store: id) }
  }

  /// The same within `changing`.
  private func dropEntry(_ file: String, store id: String) throws(APIError) -> Bool {
    guard let store = state.withLock({ $0.stores[id] }), let entry = store.entries[file] else { return false }
    let place = "stores/\(id)/entries"
    try bury(place, file)
    // First the entry: whoever indexes it now looks for it after it has committed, and takes it out again.
    state.update { state in
      state.stores[id]?.set(nil as EntryRecord?, of: file)
      state.quotas.add(Holding() - entry.holding, of: store.record.owner)
      state.queue.removeAll { $0.store == id && $0.file == file }
    }
    for index in [store.index, store.next].compactMap({ $0 }) {
      do throws(IndexError) { _ = try index.remove(file) } catch { throw APIError(indexing: error) }
    }
    // An index that is not open is told when it is opened.
    if store.index != nil || store.record.index == nil { forget(place, file) }
    return true
  }

  /// Takes what was committed to an index out of it again where its entry is gone.
  func settleEntry(_ file: String, store: String, _ index: VectorIndex) throws(APIError) {
    try changing { () throws(APIError) in
      guard state.withLock({ $0.stores[store]?.entries[file] == nil }) else { return }
      do throws(IndexError) { _ = try index.remove(file) } catch { throw APIError(indexing: error) }
    }
  }

  /// Cancels what of a batch is not done.
  ///
  /// - Throws: 404 where it is gone.
  func cancel(_ batch: BatchRecord) throws(APIError) {
    let open = try changing { () throws(APIError) -> [EntryRecord] in
      let store = try openStore(batch.store)
      guard var record = store.batches[batch.id] else { throw .notFound("file batch", batch.id) }
      record.isCancelled = true
      try put(record, in: store)
      let cancelled = record
      return state.update { state -> [EntryRecord] in
        let entries = state.stores[cancelled.store]?.entries ?? [:]
        let open = cancelled.files.compactMap { entries[$0] }.filter {
          $0.status == .inProgress && $0.batch == cancelled.id
        }
        let names = Set(open.map(\.file))
        state.queue.removeAll { $0.store == cancelled.store && names.contains($0.file) }
        return open
      }
    }
    for entry in open { try cancel(entry) }
  }
}

extension Archive {
  /// What it has done and holds, at one moment.
  var facts: ArchiveFacts {
    let (counts, waiting, unread, open) = state.withLock { state in
      (
        state.counts, state.queue.count, state.unread.count, state.stores.sorted { $0.key < $1.key }
      )
    }
    var facts = ArchiveFacts(counts: counts, waiting: waiting, unread: unread)
    for (id, store) in open {
      for index in store.openIndexes {
        let view = index.view
        facts.fileBytes += view.fileBytes
        facts.sideBytes += view.sideBytes
        facts.readChunks += SentencePass.readPassages(view)
        facts.memoryBytes += view.memoryBytes
        facts.logBytes += index.logBytes
      }
      guard facts.chunks.count < ArchiveFacts.mostStores, let index = store.index else { continue }
      let view = index.view
      facts.chunks.append((id, view.passageCount))
      if let next = store.next {
        facts.rebuilding.append(
          (id, Double(next.view.documentCount) / Double(max(1, view.documentCount))))
      }
    }
    return facts
  }
}

/// What /metrics tells of an archive.
struct ArchiveFacts: Sendable {
  /// Stores that are told one by one.
  static let mostStores = 100

  var counts = ArchiveCounts()
  /// Files that wait to be indexed.
  var waiting = 0
  /// Stores whose sentences are to be read.
  var unread = 0
  /// Bytes of open indexes.
  var fileBytes = 0
  var memoryBytes = 0
  /// Bytes of their logs.
  var logBytes = 0
  /// What is kept of sentences, and of how many chunks.
  var sideBytes = 0
  var readChunks = 0
  /// Passages of open indexes, by store.
  var chunks: [(store: String, count: Int)] = []
  /// How far indexes for another model have come, from 0 to 1.
  var rebuilding: [(store: String, share: Double)] = []
}

/// What the archive has done, for /metrics.
struct ArchiveCounts: Sendable, Equatable {
  var indexedFiles = 0
  var indexedChunks = 0
  var failures: [String: Int] = [:]
  var encodedTexts = 0
  var searches = 0
  var degraded = 0
  var refused = 0
  /// Results with vectors, and by words alone.
  var results = [0, 0]
  /// By phase.
  var seconds: [String: Histogram] = [:]
  var rows = 0
  var rescored = 0
  /// What explaining results took.
  var sentences = SentenceCount()
  /// Vectors that one search has scored in float32.
  var candidates = Histogram(bounds: Histogram.searchCandidates)
  var compactions = 0
}

extension APIError {
  static func notFound(_ kind: String, _ id: String) -> APIError {
    APIError(status: 404, code: "not_found", message: "There is no \(kind) '\(APIError.shortened(id))'.")
  }

  init(indexing error: IndexError) {
    switch error {
    case .system(let error): self.init(storing: error)
    case .noMemory:
      self.init(
        status: 503, type: "server_error", code: APIError.outOfMemoryCode, message: "\(error)", retryAfter: 5)
    default: self.init(status: 500, type: "server_error", code: "index_error", message: "\(error)")
    }
  }
}
