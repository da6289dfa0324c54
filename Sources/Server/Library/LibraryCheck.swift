// What `mlxserve verify --state-dir` looks at of files and vector stores: every record and every index, without a change
// and without the folder's lock.

import JSON
package import Platform
import Vectors

extension Library {
  /// Reads all records and indexes below the folder of a library.
  ///
  /// - Throws: when a folder cannot be listed.
  package static func check(
    folder: String, files: any FileSystem = SystemFiles()
  ) throws(PlatformError) -> FolderReport {
    var check = LibraryCheck(files: files)
    try check.look(at: folder + "/files", ending: ".json") { value, id in
      FileRecord(value).map { $0.id == id } ?? false
    }
    try check.lookAtContents(of: folder + "/files")
    for id in try files.names(in: folder + "/stores") {
      let place = folder + "/stores/" + id
      try check.look(at: place, ending: "store.json") { value, _ in
        StoreRecord(value).map { $0.id == id } ?? false
      }
      try check.look(at: place + "/entries", ending: ".json") { value, name in
        EntryRecord(value).map { $0.file == name && $0.store == id } ?? false
      }
      try check.look(at: place + "/batches", ending: ".json") { value, name in
        BatchRecord(value).map { $0.id == name && $0.store == id } ?? false
      }
      for name in try files.names(in: place) where name.hasPrefix("index-") {
        let faults = VectorIndex.check(folder: place + "/" + name, files: files)
        if faults.isEmpty { check.report.whole += 1 }
        for fault in faults { check.report.faults.append((place + "/" + name, fault)) }
      }
    }
    if try files.names(in: folder).contains("batches") {
      try check.look(at: folder + "/batches", ending: ".json") { value, id in
        RequestBatch(value).map { $0.id == id } ?? false
      }
    }
    return check.report
  }
}

/// Looks at one folder after another.
private struct LibraryCheck {
  let files: any FileSystem
  var report = FolderReport()

  /// Reads the records of a folder. Temporary files are those of a server that writes now, or go at the next start.
  ///
  /// - Parameter isRight: whether a record belongs under the name of its file, given without its ending.
  mutating func look(
    at folder: String, ending: String, _ isRight: (JSONValue, String) -> Bool
  ) throws(PlatformError) {
    for name in try files.names(in: folder) where name.hasSuffix(ending) {
      let path = folder + "/" + name
      do {
        let value = try SealedRecord.record(try files.read(path, limit: Library.recordBytes), path: path)
        if isRight(value, String(name.dropLast(ending.utf8.count))) {
          report.whole += 1
        } else {
          report.faults.append((path, "its content is another record's, or none"))
        }
      } catch {
        report.faults.append((path, "\(error)"))
      }
    }
  }

  /// Whether every file has the bytes that its record tells of.
  mutating func lookAtContents(of folder: String) throws(PlatformError) {
    let names = Set(try files.names(in: folder))
    for name in names.sorted() where name.hasSuffix(".json") {
      guard let bytes = try? files.read(folder + "/" + name, limit: Library.recordBytes),
        let record = (try? SealedRecord.record(bytes, path: name)).flatMap(FileRecord.init)
      else { continue }
      let path = folder + "/" + record.id + ".data"
      do throws(PlatformError) {
        let content = try files.mapped(path)
        let found = content?.count ?? 0
        if found != record.bytes {
          report.faults.append((path, "it has \(found) bytes, and its record says \(record.bytes)"))
        } else if let content, let sum = record.checksum, SealedRecord.sum(of: content) != sum {
          report.faults.append((path, "its bytes are not those that were stored"))
        }
      } catch {
        report.faults.append((path, "\(error)"))
      }
    }
  }
}
