// What a start reads of an archive's folder, and how what is damaged of it is made again or told.
//
// Records of files, stores and batches of requests are written twice, as NAME.json and NAME.copy; an entry that is lost is
// failed, with that reason, and a batch of files is made of its entries. The inventory says what is lost. What is deleted gets the
// name NAME.gone first, so that a start goes on with it. Indexes are read through in the background: of a damaged one the
// whole parts stay, and files that are not in it any more are indexed again.

import JSON
import Pipeline
import Platform
import Search
import Vectors
import Wire

extension Archive {
  static let (json, copy, gone) = (".json", ".copy", ".gone")

  /// Why an entry whose record is lost is not searched: nobody knows its attributes any more.
  static let lostEntry =
    "the record of this file in this vector store was damaged: put the file into the store again"

  // MARK: Records

  /// The names of records without their endings.
  static func bases(_ names: [String], _ endings: [String] = [json]) -> [String] {
    Set(
      names.compactMap { name in
        endings.first(where: name.hasSuffix).map { String(name.dropLast($0.utf8.count)) }
      }
    ).sorted()
  }

  /// A record that was written twice. Where one of the two is lost, it is written again.
  func readTwice<Record>(
    _ place: String, _ base: String, _ make: (JSONValue) -> Record?
  ) throws(PlatformError) -> Record? {
    var found: [(bytes: [UInt8], record: Record, version: Int)] = []
    for ending in [Self.json, Self.copy] {
      let path = folder + "/" + place + "/" + base + ending
      guard let bytes = try bytes(path), let record = value(of: bytes, path).flatMap(make) else { continue }
      found.append((bytes, record, SealedRecord.version(bytes) ?? 0))
    }
    // Of two the newer: an older one was put back, or its writing failed.
    guard let newest = found.max(by: { $0.version < $1.version }) else { return nil }
    if found.count < 2 || found[0].bytes != found[1].bytes {
      Log.error("a record or its copy is lost, and is made again", ["file": "\(folder)/\(place)/\(base)"])
      for ending in [Self.json, Self.copy] {
        try? files.writeDurably(newest.bytes, folder: folder + "/" + place, name: base + ending)
      }
    }
    return newest.record
  }

  /// A record; nil for one that is not whole, which stays on the disk and is told.
  func read(_ path: String) throws(PlatformError) -> JSONValue? {
    try bytes(path).flatMap { value(of: $0, path) }
  }

  /// The bytes of a record; nil for one that cannot be read now.
  private func bytes(_ path: String) throws(PlatformError) -> [UInt8]? {
    do throws(PlatformError) {
      return try files.read(path, limit: Self.recordBytes)
    } catch .file(_, _, ENOENT) {
      return nil
    } catch {
      if error.isPassing { throw error }
      Log.error("a record cannot be read", ["file": path, "error": "\(error)"])
      return nil
    }
  }

  /// The record of bytes; nil, and told, for bytes that are none.
  private func value(of bytes: [UInt8], _ path: String) -> JSONValue? {
    do { return try SealedRecord.record(bytes, path: path) } catch {
      Log.error("a record is damaged", ["file": path, "error": "\(error)"])
      return nil
    }
  }

  /// What is in a folder that need not be there. One that cannot be read ends the start: its files are not gone.
  func names(in folder: String) throws(PlatformError) -> [String] { try Self.names(in: folder, files) }

  static func names(in folder: String, _ files: any FileSystem) throws(PlatformError) -> [String] {
    do throws(PlatformError) {
      return try files.names(in: folder)
    } catch .file(_, _, ENOENT) {
      return []
    } catch .file(_, _, ENOTDIR) {
      Log.error("a file is in the place of a folder", ["file": folder])
      return []
    }
  }

  /// Takes a record away: by another name, which needs no room on the disk, and which the next start understands. What belongs to
  /// it is taken away after that, and `forget` comes last.
  ///
  /// - Parameter name: what the inventory knows it by, if that is another one.
  func bury(_ place: String, _ base: String, as name: String? = nil) throws(APIError) {
    try storing { () throws(PlatformError) in
      let path = folder + "/" + place + "/" + base
      do throws(PlatformError) {
        try files.publish(path + Self.json, folder: folder + "/" + place, name: base + Self.gone)
      } catch .file(_, _, ENOENT) {
        // Lost already: its copy must not bring it back.
        try files.removeDurably(folder: folder + "/" + place, name: base + Self.copy)
      }
      try note(name ?? place + "/" + base, nil)
    }
  }

  /// Takes away what is left of a record that was buried, and what belongs to it. What cannot be deleted now goes at the next start.
  ///
  /// - Parameter endings: nil where there is nothing but the record.
  func forget(_ place: String, _ base: String, with endings: [String]? = nil) {
    let path = folder + "/" + place + "/" + base
    do throws(PlatformError) {
      if let endings {
        for ending in endings + [Self.copy] { try files.remove(path + ending) }
        // A copy that came back alone would bring all of it back.
        try files.synchronizeFolder(folder + "/" + place)
      }
      try files.remove(path + Self.gone)
    } catch {
      Log.debug("what was deleted leaves a file until the next start", ["error": "\(error)"])
    }
  }

  /// Takes the folder of a store away that was buried; that it was comes last.
  func clear(store id: String) {
    let (place, mark) = (folder + "/stores/" + id, "store" + Self.gone)
    func others() -> [String]? { (try? files.names(in: place))?.filter { $0 != mark } }
    for name in others() ?? [] { removeTree(place + "/" + name, depth: 1) }
    do throws(PlatformError) { try files.synchronizeFolder(place) } catch { return }
    if others() == [] { removeTree(place, depth: 0) }
  }

  // MARK: The start

  /// The versions of the records that are in an archive's folder, as far as their beginnings say, by places and names. One that is
  /// being deleted counts.
  static func versions(_ folder: String, files: any FileSystem) throws(PlatformError) -> [String: Int?] {
    var found: [String: Int?] = [:]
    func look(_ place: String, only: String? = nil) throws(PlatformError) {
      let names = try names(in: folder + "/" + place, files)
      for base in bases(names, [gone]) { found[place + "/" + base] = .some(nil) }
      for base in bases(names) where found[place + "/" + base] == nil && only ?? base == base {
        let head = try? files.beginning(folder + "/\(place)/\(base)" + json, count: 64).bytes
        found[place + "/" + base] = .some(head.flatMap(SealedRecord.version))
      }
    }
    for place in ["files", "batches"] { try look(place) }
    for id in try files.names(in: folder + "/stores") {
      let store = "stores/" + id
      guard !(try names(in: folder + "/" + store, files).contains("store" + gone)) else { continue }
      try look(store, only: "store")
      for part in ["/entries", "/batches"] { try look(store + part) }
    }
    return found
  }

  func recover() throws(PlatformError) {
    var found = State()
    let list = try Inventory.read(folder: folder, files: files)
    let faults = Inventory.faults(
      list, try Self.versions(folder, files: files), unlisted: Inventory.before)
    for (name, problem) in faults.sorted(by: { $0.key < $1.key }) {
      Log.error("a record is not as it was", ["file": "\(folder)/\(name)", "because": problem])
    }
    (found.lost, found.isListed) = (Set(faults.keys), list != nil || faults[Inventory.name] != nil)
    found.health.lost = faults.count
    found.nextVersion = 2 + (list?.records.values.max() ?? 0)
    let present = Set(try files.names(in: folder + "/files"))
    for base in Self.bases(present.sorted(), [Self.gone]) { forget("files", base, with: [".data"]) }
    for base in Self.bases(present.sorted(), [Self.json, Self.copy]) where !present.contains(base + Self.gone)
    {
      // Under another's name it would be served, and deleted, as that.
      let record = try readTwice("files", base) { value in
        FileRecord(value).flatMap { $0.id == base ? $0 : nil }
      }
      guard let record else { continue }
      if !present.contains(base + ".data") {
        Log.error("the bytes of a file are lost", ["file": folder + "/files/\(base).data"])
      }
      found.files[base] = record
      found.quotas.add(record.holding, of: record.owner)
    }
    for id in try files.names(in: folder + "/stores") {
      guard let store = try recoverStore(id, &found) else { continue }
      found.stores[id] = store
      found.quotas.add(store.holding, of: store.record.owner)
      for entry in store.entries.values.sorted(by: { $0.file < $1.file }) where entry.status == .inProgress {
        found.queue.append(Work(store: id, file: entry.file, turn: entry.turn))
      }
      if store.record.index != nil { found.unchecked.append(id) }
    }
    // Bytes that nothing knows are those of a file that never arrived.
    let known = found.stores.values.reduce(into: Set<String>()) { $0.formUnion($1.entries.keys) }
    for name in present.sorted() where !name.hasSuffix(Self.json) && !name.hasSuffix(Self.copy) {
      let base = Self.bases([name], [".data"]).first ?? ""
      guard !known.contains(base), !found.lost.contains("files/" + base),
        !present.contains(base + Self.json), !present.contains(base + Self.copy)
      else { continue }
      try? files.remove(folder + "/files/" + name)
    }
    // Before it is written down what there is.
    for base in Self.bases(try names(in: folder + "/batches"), [Self.json, Self.copy]) {
      _ = try readTwice("batches", base) { value in
        RequestBatch(value).flatMap { $0.id == base ? $0 : nil }
      }
    }
    found.unseen = found.files.keys.sorted()
    let ready = found
    state.withLock { $0 = ready }
    let now = try Self.versions(folder, files: files).compactMapValues { $0 }
    do throws(PlatformError) {
      try inventory.withLock { (list) throws(PlatformError) in try list?.begin(now) }
    } catch {
      Log.error("the inventory cannot be written", ["folder": folder, "error": "\(error)"])
    }
  }

  /// Writes a record in the place of one that is lost.
  private func restore(_ record: JSONValue, _ place: String, _ base: String, _ found: inout State) {
    let bytes = SealedRecord.bytes(of: record, version: found.nextVersion)
    found.nextVersion += 1
    try? files.writeDurably(bytes, folder: folder + "/" + place, name: base + Self.json)
  }

  private func recoverStore(_ id: String, _ found: inout State) throws(PlatformError) -> Store? {
    let place = "stores/" + id
    let inside = try names(in: folder + "/" + place)
    let entries = try names(in: folder + "/" + place + "/entries")
    let batches = try names(in: folder + "/" + place + "/batches")
    guard !inside.contains("store" + Self.gone) else {
      clear(store: id)
      return nil
    }
    guard inside.contains(where: { $0 == "store.json" || $0 == "store.copy" }) else {
      if entries.isEmpty, batches.isEmpty, !inside.contains(where: { $0.hasPrefix("index-") }) {
        // It was being made.
        removeTree(folder + "/" + place, depth: 0)
      } else {
        Log.error("a vector store has lost its record, and is not served", ["folder": folder + "/" + place])
      }
      return nil
    }
    let record = try readTwice(place, "store") { value in
      StoreRecord(value).flatMap { $0.id == id ? $0 : nil }
    }
    guard let record else { return nil }
    var store = Store(record: record)
    try recoverEntries(of: &store, entries, &found)
    for base in Self.bases(batches) {
      let batch = try read(folder + "/\(place)/batches/\(base).json").flatMap(BatchRecord.init)
      if let batch, batch.store == id, batch.id == base { store.set(batch, of: base) }
    }
    for (batch, entries) in Dictionary(grouping: store.entries.values, by: { $0.batch ?? "" })
    where store.batches[batch] == nil
      && (batches.contains(batch + Self.json) || found.lost.contains("\(place)/batches/\(batch)"))
    {
      Log.error(
        "a batch of files is lost, and is made again from its entries", ["store": id, "batch": batch])
      let made = BatchRecord(
        id: batch, store: id, created: entries.map(\.created).min() ?? record.created,
        files: entries.map(\.file).sorted())
      store.set(made, of: batch)
      restore(made.record, place + "/batches", batch, &found)
    }
    return store
  }

  private func recoverEntries(
    of store: inout Store, _ names: [String], _ found: inout State
  ) throws(PlatformError) {
    let place = "stores/\(store.record.id)/entries"
    var whole: [String: EntryRecord] = [:]
    var lost = found.lost.filter { $0.hasPrefix(place + "/") }.map { String($0.dropFirst(place.count + 1)) }
      .filter { !names.contains($0 + Self.json) }
    for base in Self.bases(names) {
      guard found.files[base] != nil || found.isListed else {
        // Its file was deleted, by an earlier version.
        try? files.remove(folder + "/\(place)/\(base).json")
        continue
      }
      let path = folder + "/\(place)/\(base).json"
      // One that the disk does not give may be whole.
      guard let bytes = try bytes(path) else { continue }
      guard let entry = value(of: bytes, path).flatMap(EntryRecord.init), entry.store == store.record.id
      else {
        lost.append(base)
        continue
      }
      // Of two that have changed places both are whole.
      if entry.file != base { lost.append(base) }
      if whole[entry.file] == nil || entry.file == base { whole[entry.file] = entry }
    }
    for entry in whole.values {
      guard found.files[entry.file] != nil || names.contains(entry.file + Self.json) else { continue }
      store.set(entry, of: entry.file)
      found.nextTurn = max(found.nextTurn, entry.turn + 1)
    }
    for base in lost where found.files[base] != nil {
      if store.entries[base] == nil {
        store.set(EntryRecord(lost: base, of: store.record, created: found.files[base]?.created), of: base)
        Log.error("a file of a vector store has lost its record", ["store": store.record.id, "file": base])
      }
      restore(store.entries[base]?.record ?? .null, place, base, &found)
    }
  }

  // MARK: Indexes

  /// Reads the whole index of a store, and has made again what is damaged or missing.
  ///
  /// - Parameters:
  ///   - memory: where is claimed what that takes.
  ///   - pace: told the bytes that were read.
  ///   - encoder: the store's model, which a store of an earlier version may need.
  /// - Throws: `SearchError.noMemory` where there is none for it now.
  func inspect(
    _ id: String, _ memory: MemoryLoan, pace: (Int) -> Void, _ encoder: () throws -> ModelEncoder
  ) throws {
    guard let store = state.withLock({ $0.stores[id] }), let name = store.record.index else { return }
    if store.index == nil {
      let place = folder + "/stores/\(id)/" + name
      let bytes = VectorIndex.bytesToCheck(folder: place, documents: store.entries.count, files: files)
      guard memory.extend(by: bytes) else { throw SearchError.noMemory(bytes: bytes) }
      let (faults, view) = VectorIndex.check(folder: place, files: files, pace: pace)
      if faults.isEmpty, let view, difference(view, store).isNone { return }
    }
    var index: VectorIndex?
    do {
      index = try openIndex(id)
    } catch let error as IndexError where error.isDamage && store.record.fingerprint == nil {
      // What nobody has written down, the model says.
      let encoder = try encoder()
      guard "index-" + encoder.fingerprint.prefix(16) == name else { throw error }
      index = try self.index(of: id, encoder)
    }
    if let index { try heal(id, index) }
  }

  /// Puts aside what is damaged of an open index, and has it made again.
  func heal(_ id: String, _ index: VectorIndex) throws {
    for loss in try index.heal() { Log.error("an index is damaged", ["store": id, "error": loss]) }
    try reconcile(id, index)
  }

  /// What an index should have and has not, and what it has and should not.
  struct Difference {
    var missing: [EntryRecord] = []
    var strangers: [String] = []

    var isNone: Bool { missing.isEmpty && strangers.isEmpty }
  }

  func difference(_ view: IndexView, _ store: Store) -> Difference {
    Difference(
      missing: store.entries.values.filter { $0.status == .completed && view.document($0.file) == nil }
        .sorted { $0.file < $1.file },
      strangers: view.documents.map(\.key).filter { store.entries[$0] == nil })
  }

  /// Has files indexed again that an index has lost, and takes out what does not belong to it. While an index for another model is
  /// being built, which has the newest files alone, it looks at nothing.
  func reconcile(_ id: String, _ index: VectorIndex) throws(APIError) {
    try changing { () throws(APIError) in
      guard let store = state.withLock({ $0.stores[id] }), store.next == nil else { return }
      let place = folder + "/stores/\(id)"
      let (inside, entries) = try storing { () throws(PlatformError) in
        (try names(in: place), try names(in: place + "/entries"))
      }
      guard inside.count(where: { $0.hasPrefix("index-") }) == 1 else { return }
      let difference = difference(index.view, store)
      if !difference.missing.isEmpty {
        Log.error(
          "an index has lost files, which are indexed again",
          ["store": id, "files": "\(difference.missing.count)", "first": difference.missing[0].file])
      }
      for entry in difference.missing {
        var again = entry
        again.status = .inProgress
        try enqueue(again, 0)
      }
      // What was deleted, or committed and not told yet.
      for file in difference.strangers where !entries.contains(file + Self.json) {
        do throws(IndexError) { _ = try index.remove(file) } catch { throw APIError(indexing: error) }
      }
      for base in Self.bases(entries, [Self.gone]) { forget("stores/\(id)/entries", base) }
    }
  }
}

extension EntryRecord {
  /// An entry in the place of one whose record is lost.
  fileprivate init(lost file: String, of store: StoreRecord, created: Int?) {
    self.init(file: file, store: store.id, created: created ?? store.created)
    status = .failed
    error = ("server_error", Archive.lostEntry)
  }
}
