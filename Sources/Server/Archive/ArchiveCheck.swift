// What `mlxserve verify --state-dir` looks at of files and vector stores: every byte of every record, file and index, without a
// change and without the folder's lock.

import JSON
package import Platform
import Vectors
import Wire

extension Archive {
  /// Reads everything below the folder of an archive.
  ///
  /// - Throws: when a folder cannot be listed.
  package static func check(
    folder: String, files: any FileSystem = SystemFiles()
  ) throws(PlatformError) -> FolderReport {
    var check = ArchiveCheck(folder: folder, files: files)
    let inventory = try Inventory.check(folder: folder, files: files, unlisted: Inventory.before) {
      () throws(PlatformError) in
      try versions(folder, files: files)
    }
    try check.lookAtFiles()
    for id in try files.names(in: folder + "/stores") { try check.lookAtStore(id) }
    try check.lookAtBatches()
    for (name, content) in try check.contents("attempts", [""], limit: 16) {
      // Empty where its writing was under way.
      let isRight = content.allSatisfy { (0x31...0x33).contains($0) } && content.count <= 1
      check.tell("attempts/" + name, isRight ? nil : "it is not a number of attempts")
    }
    for fault in inventory {
      check.tell(fault.name + (fault.name == Inventory.name ? "" : json), fault.problem)
    }
    return check.report
  }
}

/// Looks at one folder after another. A server may work in them: what is missing is looked for once more before it is told.
private struct ArchiveCheck {
  let folder: String
  let files: any FileSystem
  var report = FolderReport()
  private var told: Set<String> = []

  init(folder: String, files: any FileSystem) { (self.folder, self.files) = (folder, files) }

  /// - Parameter problem: nil for a file that is whole. The first one of a file counts.
  mutating func tell(_ path: String, _ problem: String?) {
    if let problem {
      if told.insert(path).inserted { report.faults.append((folder + "/" + path, problem)) }
    } else {
      report.whole += 1
    }
  }

  /// What is in a folder that need not be there.
  private func names(_ place: String) throws(PlatformError) -> [String] {
    do throws(PlatformError) { return try files.names(in: folder + "/" + place) } catch .file(_, _, ENOENT) {
      return []
    }
  }

  private func isThere(_ place: String, _ base: String, _ endings: [String]) -> Bool {
    let found = (try? names(place)) ?? []
    return endings.contains { found.contains(base + $0) }
  }

  /// The files of some endings that are still there.
  mutating func contents(
    _ place: String, _ endings: [String], limit: Int = Archive.recordBytes
  ) throws(PlatformError) -> [(name: String, bytes: [UInt8])] {
    var found: [(String, [UInt8])] = []
    for name in try names(place) where endings.contains(where: name.hasSuffix) {
      do throws(PlatformError) {
        found.append((name, try files.read(folder + "/\(place)/" + name, limit: limit)))
      } catch .file(_, _, ENOENT) {
        continue
      } catch {
        tell("\(place)/\(name)", "\(error)")
      }
    }
    return found
  }

  /// Reads the records of a folder and their copies. Temporary files are those of a server that writes now, or go at the next
  /// start.
  ///
  /// - Parameter make: the record of a value, if it belongs under this name.
  private mutating func records<Record>(
    _ place: String, isTwice: Bool, only name: String? = nil, _ make: (JSONValue, _ base: String) -> Record?
  ) throws(PlatformError) -> [(base: String, record: Record)] {
    var found: [String: (version: Int, record: Record)] = [:]
    let endings = [Archive.json] + (isTwice ? [Archive.copy] : [])
    let gone = Set(Archive.bases(try names(place), [Archive.gone]))
    for (file, bytes) in try contents(place, endings.map { (name ?? "") + $0 }) {
      let base = Archive.bases([file], endings).first ?? ""
      let path = "\(place)/\(file)"
      do {
        let value = try SealedRecord.record(bytes, path: folder + "/" + path)
        guard let record = make(value, base) else {
          tell(path, "its content is another record's, or none")
          continue
        }
        let version = SealedRecord.version(bytes) ?? 0
        if version >= found[base]?.version ?? 0 { found[base] = (version, record) }
        if file.hasSuffix(Archive.json) { tell(path, nil) }
      } catch {
        tell(path, "\(error)")
      }
    }
    for base in found.keys.sorted() where isTwice && !gone.contains(base) {
      let path = "\(place)/\(base)"
      // A server that works here writes one after the other, and notes both then.
      guard let record = head(path + Archive.json) else {
        if isThere(place, base, [Archive.copy]), !isThere(place, base, [Archive.json, Archive.gone]) {
          tell(path + Archive.json, "it is missing, and its copy is there")
        }
        continue
      }
      let list = try Inventory.read(folder: folder, files: files)
      guard record > 0, list?.records[path] == record, head(path + Archive.json) == record else { continue }
      switch head(path + Archive.copy) {
      case record?: break
      case nil where isThere(place, base, [Archive.json]): tell(path + Archive.copy, "it is missing")
      case let other?:
        tell(path + Archive.copy, "it is another version: \(other), and the record is \(record)")
      default: break
      }
    }
    return found.filter { !gone.contains($0.key) }.sorted { $0.key < $1.key }.map {
      ($0.key, $0.value.record)
    }
  }

  /// The version of a record, as far as its beginning says; nil where it is not there.
  private func head(_ path: String) -> Int? {
    (try? files.beginning(folder + "/" + path, count: 64).bytes).map { SealedRecord.version($0) ?? 0 }
  }

  /// Whether every file has the bytes that its record tells of.
  mutating func lookAtFiles() throws(PlatformError) {
    let records = try records("files", isTwice: true) { value, id in
      FileRecord(value).flatMap { $0.id == id ? $0 : nil }
    }
    for (id, record) in records {
      let path = "files/\(id).data"
      do throws(PlatformError) {
        let content = try files.mapped(folder + "/" + path)
        let found = content?.count ?? 0
        if found != record.bytes {
          tell(path, "it has \(found) bytes, and its record says \(record.bytes)")
        } else if let sum = record.checksum, content.map({ SealedRecord.sum(of: $0) }) ?? sum != sum {
          tell(path, "its bytes are not those that were stored")
        }
      } catch {
        if isThere("files", id, [Archive.json, Archive.copy]), !isThere("files", id, [Archive.gone]) {
          tell(path, "\(error)")
        }
      }
    }
  }

  mutating func lookAtStore(_ id: String) throws(PlatformError) {
    let place = "stores/" + id
    let inside: [String]
    do throws(PlatformError) { inside = try names(place) } catch .file(_, _, ENOTDIR) {
      return tell(place, "a file is in the place of a folder")
    }
    guard !inside.contains("store" + Archive.gone) else { return }
    let records = try records(place, isTwice: true, only: "store") { value, _ in
      StoreRecord(value).flatMap { $0.id == id ? $0 : nil }
    }
    guard let store = records.first?.record else { return }
    let entries = try self.records(place + "/entries", isTwice: false) { value, name in
      EntryRecord(value).flatMap { $0.file == name && $0.store == id ? $0 : nil }
    }.map(\.record)
    _ = try self.records(place + "/batches", isTwice: false) { value, name in
      BatchRecord(value).flatMap { $0.id == name && $0.store == id ? $0 : nil }
    }
    let indexes = inside.filter { $0.hasPrefix("index-") }
    for name in indexes {
      let found = VectorIndex.check(folder: folder + "/\(place)/" + name, files: files)
      if found.faults.isEmpty { report.whole += 1 }
      for fault in found.faults { tell("\(place)/\(name)", fault) }
      if let view = found.view, name == store.index, indexes.count == 1 {
        lookAt(view, "\(place)/\(name)", store, entries)
      }
    }
    if let index = store.index, !indexes.contains(index), entries.contains(where: { $0.status == .completed })
    {
      tell("\(place)/\(index)", "it is missing")
    }
  }

  /// Whether an index has what the entries say, and nothing else.
  private mutating func lookAt(
    _ view: IndexView, _ path: String, _ store: StoreRecord, _ entries: [EntryRecord]
  ) {
    let place = "stores/\(store.id)/entries"
    for entry in entries where entry.status == .completed && view.document(entry.file) == nil {
      let now = try? files.read(folder + "/\(place)/\(entry.file).json", limit: Archive.recordBytes)
      guard let now, (try? SealedRecord.record(now, path: "")).flatMap(EntryRecord.init) == entry else {
        continue
      }
      tell(path, "the file \(entry.file) is not in it")
    }
  }

  mutating func lookAtBatches() throws(PlatformError) {
    let batches = try records("batches", isTwice: true) { value, id in
      RequestBatch(value).flatMap { $0.id == id ? $0 : nil }
    }
    for (id, batch) in batches {
      let results = RequestBatch.resultEndings.map {
        (try? files.mapped(folder + "/batches/\(id)\($0)")) ?? nil
      }
      guard !batch.isOver else {
        if !batch.sums.isEmpty, batch.sums != RequestBatch.sums(results) {
          tell("batches/" + id, "its answers are not those that were stored")
        }
        continue
      }
      let requests = (try? files.mapped(folder + "/batches/\(id).requests")) ?? nil
      var known: Set<ByteKey> = []
      for line in requests?.lines(takesRest: true) ?? [] {
        if let line = requests.flatMap({ BatchLine(sealed: $0.copy(line), of: id) }) {
          known.insert(ByteKey(line.customID))
        }
      }
      let whole = known.count
      var isWhole = true
      for content in results.compactMap({ $0 }) {
        for line in content.lines(takesRest: false) {
          let customID = (try? SealedRecord.record(content.copy(line), path: "", in: id))?["custom_id"]?
            .stringValue
          isWhole = isWhole && customID.map { whole < batch.total || known.contains(ByteKey($0)) } == true
        }
      }
      if !isWhole { tell("batches/" + id, "a line of its answers is damaged, or another batch's") }
      guard whole != batch.total, isThere("batches", id, [".requests"]) || batch.phase == .running else {
        continue
      }
      tell("batches/\(id).requests", "\(whole) of \(batch.total) requests are whole")
    }
  }
}
