// The index of a folder of files: it follows what was changed, added, renamed and deleted since the last time.

import JSON
import Platform
package import Vectors

/// What an index knows of a file.
struct FileRecord: Sendable, Equatable {
  var bytes: Int
  var modified: Int64
  var inode: UInt64
  var hash: String

  var info: [UInt8] {
    let value: JSONValue = [
      "bytes": .int(bytes), "modified": .int(Int(modified)), "inode": .string(String(inode)),
      "hash": .string(hash),
    ]
    return value.bytes
  }

  init(_ entry: FolderWalk.Entry, hash: String) {
    (bytes, modified, inode) = (entry.bytes, entry.modified, entry.inode)
    self.hash = hash
  }

  init?(_ info: [UInt8]) {
    guard let value = try? JSONValue(parsing: info), let bytes = value["bytes"]?.intValue,
      let modified = value["modified"]?.intValue,
      let inode = value["inode"]?.stringValue.flatMap(UInt64.init),
      let hash = value["hash"]?.stringValue
    else { return nil }
    (self.bytes, self.modified, self.inode, self.hash) = (bytes, Int64(modified), inode, hash)
  }

  func isSame(_ entry: FolderWalk.Entry) -> Bool {
    bytes == entry.bytes && modified == entry.modified && inode == entry.inode
  }
}

/// How far the update of a folder has come.
package struct FolderProgress: Sendable, Equatable {
  package var files = 0
  package var filesDone = 0
  package var rowsDone = 0
  package var bytes = 0
  package var bytesDone = 0
}

/// What an update did.
package struct FolderReport: Sendable {
  package var indexed = 0
  package var renamed = 0
  package var removed = 0
  package var unchanged = 0
  /// Vectors that were computed.
  package var encoded = 0
  /// Whether an older version had made the index: its words were written anew.
  package var renewed = false
  /// Files that are not in the index, with the reason.
  package var skipped: [(path: String, reason: String)] = []
  /// Files that are read in an encoding that they do not say.
  package var guessed: [(path: String, encoding: String)] = []
}

/// Keeps the index of a folder true.
package struct FolderIndex: Sendable {
  /// What is taken of a folder.
  package struct Rules: Sendable {
    package var split = SplitRules.notes
    /// Most bytes of a file.
    package var fileBytes = 2 << 20
    package var files = 100_000
    /// Hidden files too, and those that `.gitignore` names.
    package var includesIgnored = false

    package init() {}
  }

  private let folder: String
  private let index: VectorIndex
  private let encoder: any PassageEncoder
  private let rules: Rules
  private let attempts: Attempts

  package init(_ folder: String, index: VectorIndex, encoder: any PassageEncoder, rules: Rules = Rules()) {
    attempts = Attempts(folder: index.folder + "/attempts", files: index.files)
    (self.folder, self.index, self.encoder) = (folder, index, encoder)
    self.rules = rules
  }

  /// The files that are to be searched.
  private func walk() throws(SearchError) -> FolderWalk {
    let includesIgnored = rules.includesIgnored
    var ignored = includesIgnored ? IgnoreRules() : IgnoreRules(for: folder)
    do throws(PlatformError) {
      return try FolderWalk(folder, limit: rules.files) { path, isFolder in
        guard !includesIgnored else { return true }
        let name = path.split(separator: "/").last ?? ""
        guard !name.hasPrefix("."), !ignored.ignores(path, isFolder: isFolder) else { return false }
        if isFolder, name == "node_modules" { return false }
        if isFolder { ignored.addFile(of: folder + "/" + path, folder: path) }
        return true
      }
    } catch {
      throw .invalid("\(error)")
    }
  }

  /// Brings the index to the state of the folder.
  ///
  /// - Parameters:
  ///   - isUnwanted: ends the update between two batches; what was done stays.
  ///   - progress: called often.
  package func update(
    isUnwanted: () -> Bool = { false }, progress: (FolderProgress) -> Void = { _ in }
  ) throws(SearchError) -> FolderReport {
    let walk = try walk()
    var report = FolderReport()
    var touched: [(key: String, info: [UInt8])] = []
    report.skipped = walk.skipped
    if walk.isCut { report.skipped.append((folder, "more than \(rules.files) files")) }
    // Of an older version: its files are known by their contents, so that names alone are read.
    report.renewed = try SearchError.index { () throws(IndexError) in
      try index.renewWords { Array(DocumentName(path: $0).words.utf8) }
    }
    let view = index.view
    var known = view.documents.reduce(into: [String: FileRecord]()) { known, document in
      known[document.key] = FileRecord(document.info)
      let name = DocumentName(path: document.key)
      let isNamed = document.name == Array(name.words.utf8) && document.hasNameRow == (name.meaning != nil)
      if !isNamed { known[document.key]?.hash = "" }
    }
    var work: [FolderWalk.Entry] = []
    for entry in walk.files {
      guard FileReader.reads(entry.path.split(separator: "/").last.map(String.init) ?? "") else {
        report.skipped.append((entry.path, "not a kind of file that is read"))
        continue
      }
      guard entry.bytes <= rules.fileBytes else {
        report.skipped.append((entry.path, "larger than \(rules.fileBytes >> 20) MiB"))
        continue
      }
      if let record = known[entry.path], record.isSame(entry), !record.hash.isEmpty {
        report.unchanged += 1
        known[entry.path] = nil
      } else {
        work.append(entry)
      }
    }
    var state = FolderProgress()
    state.files = work.count
    state.bytes = work.reduce(0) { $0 + $1.bytes }
    // Small files first: there is something to find soon.
    work.sort { $0.bytes < $1.bytes }
    for entry in work {
      guard !isUnwanted() else { throw .cancelled }
      try update(entry, known[entry.path], &report, &touched, isUnwanted) { rows in
        state.rowsDone += rows
        progress(state)
      }
      known[entry.path] = nil
      state.filesDone += 1
      state.bytesDone += entry.bytes
      progress(state)
    }
    // Last, so that a file that was renamed still lends its vectors.
    report.removed = known.count
    try SearchError.index { () throws(IndexError) in
      _ = try index.setInfos(touched)
      _ = try index.remove(known.keys.sorted())
    }
    if report.indexed > 0 || report.removed > 0 {
      try SearchError.index { () throws(IndexError) in try index.compact() }
    }
    return report
  }

  private func update(
    _ entry: FolderWalk.Entry, _ old: FileRecord?, _ report: inout FolderReport,
    _ touched: inout [(key: String, info: [UInt8])], _ isUnwanted: () -> Bool, _ progress: (Int) -> Void
  ) throws(SearchError) {
    let bytes: [UInt8]
    let parts = entry.path.split(separator: "/").map(String.init)
    do throws(PlatformError) {
      bytes = try File.read(parts, below: folder, limit: rules.fileBytes)
    } catch {
      report.skipped.append((entry.path, "\(error)"))
      return
    }
    let record = FileRecord(entry, hash: SHA256.hexadecimal(SHA256.digest(bytes)))
    if let old, old.hash == record.hash {
      // The same, though touched; written with all others.
      touched.append((entry.path, record.info))
      report.unchanged += 1
      return
    }
    // Of its content too: a file that was changed is tried again.
    let attempt = SHA256.hexadecimal(SHA256.digest(Array((entry.path + "/" + record.hash).utf8)))
    guard attempts.begin(attempt, isUnwanted: isUnwanted) else {
      report.skipped.append((entry.path, Attempts.reason("read this file")))
      return
    }
    defer { attempts.end(attempt) }
    do throws(SearchError) {
      let source = try FileReader.read(bytes, name: parts.last ?? "", isUnwanted: isUnwanted)
      var last = 0
      let state = try DocumentIndexer(index: index, encoder: encoder).index(
        source, key: entry.path, info: record.info, name: DocumentName(path: entry.path), rules: rules.split,
        isUnwanted: isUnwanted
      ) { state in
        attempts.restart(attempt)
        progress(state.encoded - last)
        last = state.encoded
      }
      if let encoding = source.guessedEncoding { report.guessed.append((entry.path, encoding)) }
      report.encoded += state.encoded
      if state.encoded == 0 { report.renamed += 1 } else { report.indexed += 1 }
    } catch {
      switch error {
      case .unsupportedFile, .invalidFile:
        report.skipped.append((entry.path, "\(error)"))
        _ = try SearchError.index { () throws(IndexError) in try index.remove(entry.path) }
      default: throw error
      }
    }
  }
}
