// An index in a folder: documents go in and out durably, and searches work on views that nobody changes.
//
// What is put in goes to a log and to a segment in memory. Now and then the documents in memory become a segment in a file,
// and a new log begins; the manifest says which files count. Whoever holds a view keeps its segments, also those whose
// files are gone.

package import Platform
import Synchronization

/// One index. Any number of threads search; changes take turns.
package final class VectorIndex: Sendable {
  /// When documents move from memory to a file.
  package struct Limits: Sendable {
    /// Bytes of the log.
    package var logBytes = 64 << 20
    /// Documents in memory.
    package var memoryDocuments = 1_024
    /// Segments beyond which all become one.
    package var segments = 8

    package init() {}
  }

  package let folder: String
  package let files: any FileSystem
  let limits: Limits
  private let lock: FolderLock
  let writing: Monitor<IndexWriter>
  let shared: Monitor<IndexView>
  /// Held while a file beside the index is written: the number of the last one.
  let sideWriting: Monitor<Int>
  private let compacted: @Sendable () -> Void
  /// Of the log, for those who must not wait for a writer.
  private let logSize = Atomic<Int>(0)
  /// Names the model and everything else that vectors depend on.
  package let fingerprint: String
  /// What was damaged when it was opened, in words: it is put aside, and the index goes on without what was in it.
  package let losses: [String]

  /// Opens an index, or makes an empty one in a folder whose parent exists.
  ///
  /// - Parameter compacted: called when files were written anew.
  /// - Throws: when another process holds the folder, or what is in it cannot be read now.
  package init(
    folder: String, fingerprint: String, dimensions: Int, limits: Limits = Limits(),
    files: any FileSystem = SystemFiles(), compacted: @escaping @Sendable () -> Void = {}
  ) throws(IndexError) {
    guard dimensions > 0, dimensions <= 1 << 14 else { throw .badVector }
    (self.folder, self.files, self.limits) = (folder, files, limits)
    self.compacted = compacted
    lock = try IndexError.system { () throws(PlatformError) in
      try files.makeFolder(folder)
      return try FolderLock(folder: folder, files: files)
    }
    let names = try IndexError.system { () throws(PlatformError) in try files.names(in: folder) }
    var recovery = try IndexRecovery(
      folder: folder, names: names, fingerprint: fingerprint, dimensions: dimensions, files: files)
    guard !recovery.manifest.fingerprint.isEmpty else {
      throw .damaged(path: folder, what: "there is no index in it")
    }
    losses = recovery.losses
    self.fingerprint = recovery.manifest.fingerprint
    var view = try recovery.finish()
    view.side = Self.openSide(folder, names, files)
    let numbers = names.filter { $0.hasSuffix(SideFile.ending) }
      .compactMap { Int($0.dropLast(SideFile.ending.count)) }
    sideWriting = Monitor(numbers.max() ?? 0)
    for name in recovery.damaged { Self.putAside(name, folder, files) }
    let (manifest, logEnd) = (recovery.manifest, recovery.logEnd)
    shared = Monitor(view)
    writing = Monitor(
      IndexWriter(
        manifest: manifest,
        log: try IndexError.system { () throws(PlatformError) in
          try logEnd.map { end throws(PlatformError) in
            try LogFile.open(folder: folder, name: manifest.log, end, files: files)
          }
        }, rows: recovery.rows, pending: recovery.pending))
    noteLog(logEnd?.count ?? 0)
    if logEnd == nil {
      try writing.withLock { writer throws(IndexError) in try compact(&writer, all: false) }
    } else {
      removeStrangers(names, manifest)
    }
  }

  /// Gives a damaged file a name under which nobody reads it. The first start that finds the index whole deletes it.
  private static func putAside(_ name: String, _ folder: String, _ files: any FileSystem) {
    let result = files.rename(folder + "/" + name, to: folder + "/" + name + damagedEnding)
    if result < 0, result != -Int(ENOENT) { _ = files.unlink(folder + "/" + name) }
  }

  private static let damagedEnding = ".damaged"

  /// Reads every byte of the index, and puts aside what is damaged.
  ///
  /// - Returns: what it was, in words: the index is without what was in it.
  package func heal() throws(IndexError) -> [String] {
    let side = view.side.filter(\.isDamaged)
    for file in side {
      // What is whole of it stays.
      _ = try rewriteSide([file], file.maker, { false }, keeps: { _ in true })
    }
    var losses = side.map { "\(folder)/\($0.name) is damaged" }
    var damaged: Set<String> = []
    for part in view.parts {
      guard let name = part.file, let fault = part.segment.faults().first else { continue }
      damaged.insert(name)
      losses.append("\(fault)")
    }
    guard !damaged.isEmpty else { return losses }
    try writing.withLock { writer throws(IndexError) in
      try settle(&writer, mayCompact: false)
      for name in damaged { Self.putAside(name, folder, files) }
      shared.withLock { $0 = $0.without(damaged) }
      try compact(&writer, all: false)
    }
    return losses
  }

  /// After every change of the log.
  func noteLog(_ bytes: Int) { logSize.store(bytes, ordering: .relaxed) }

  /// After files were written anew.
  func noteCompaction() { compacted() }

  /// An index as it is on disk, without its lock: another process may write to it meanwhile.
  ///
  /// - Returns: nil when there is none.
  package static func snapshot(
    folder: String, files: any FileSystem = SystemFiles()
  ) throws(IndexError) -> (view: IndexView, fingerprint: String, losses: [String])? {
    var tries = 5
    while true {
      tries -= 1
      let names: [String]
      do throws(PlatformError) { names = try files.names(in: folder) } catch .file(_, _, ENOENT) {
        return nil
      } catch { throw .system(error) }
      var recovery = try IndexRecovery(
        folder: folder, names: names, fingerprint: "", dimensions: 1, files: files)
      guard !recovery.manifest.fingerprint.isEmpty || names.contains(Manifest.name) else { return nil }
      // The writer may take files away that the manifest named a moment ago.
      guard recovery.losses.isEmpty || tries == 0 else { continue }
      return (try recovery.finish(), recovery.manifest.fingerprint, recovery.losses)
    }
  }

  /// Everything that is damaged, in words.
  package func faults() -> [String] { Self.faults(view) { _ in } }

  private static func faults(_ view: IndexView, _ pace: (Int) -> Void) -> [String] {
    view.parts.flatMap { $0.segment.faults(pace) }.map { "\($0)" }
  }

  /// About the bytes that a `check` takes beside mapped files: what is in the log, as documents and as vectors by their keys and
  /// in rows, and the tables of documents.
  package static func bytesToCheck(
    folder: String, documents: Int, files: any FileSystem = SystemFiles()
  ) -> Int {
    let logs = ((try? files.names(in: folder)) ?? []).filter { $0.hasSuffix(".log") }
    let bytes = logs.reduce(0) { $0 + (((try? files.mapped(folder + "/" + $1)) ?? nil)?.count ?? 0) }
    return (1 << 20) + 4 * bytes + 2_048 * documents
  }

  /// The same of an index that another process may use, without its lock.
  ///
  /// - Parameter pace: told the bytes that were read.
  /// - Returns: and the documents that can be read; nil where that cannot be told.
  package static func check(
    folder: String, files: any FileSystem = SystemFiles(), pace: (Int) -> Void = { _ in }
  ) -> (faults: [String], view: IndexView?) {
    do throws(IndexError) {
      guard let found = try snapshot(folder: folder, files: files) else { return ([], nil) }
      let names = (try? files.names(in: folder)) ?? []
      let sides = names.filter { $0.hasSuffix(SideFile.ending) }.filter { name in
        guard let content = try? Optional.some(files.mapped(folder + "/" + name)) else { return false }
        return content.flatMap { SideFile($0, name: name) }?.isDamaged ?? true
      }
      return (
        found.losses + faults(found.view, pace) + sides.map { "\(folder)/\($0) is damaged" }, found.view
      )
    } catch {
      return (["\(error)"], nil)
    }
  }

  /// Files of an earlier life that no manifest names, and what was damaged before all was whole.
  private func removeStrangers(_ names: [String], _ manifest: Manifest) {
    let known = Set(manifest.segments.map(\.name) + [manifest.log])
    for name in names where !known.contains(name) {
      guard [".segment", ".log", ".tmp", Self.damagedEnding].contains(where: name.hasSuffix) else { continue }
      _ = files.unlink(folder + "/" + name)
    }
  }

  /// All documents as they are now.
  package var view: IndexView { shared.withLock { $0 } }

  /// About the bytes in memory: documents that are in no file, vectors that the log has, and both once more where they
  /// are written.
  package var memoryBytes: Int { view.memoryBytes + logBytes }

  /// Bytes of the log.
  package var logBytes: Int { logSize.load(ordering: .relaxed) }

  // MARK: Changes

  /// Whether the vector of a key is at hand, from whatever document.
  package func hasRow(_ key: RowKey) -> Bool {
    if writing.withLock({ $0.rows[key] != nil }) { return true }
    let view = view
    // A segment that is damaged has nothing.
    return view.parts.contains { ((try? $0.segment.row(of: key)) ?? nil) != nil }
  }

  /// Keeps vectors of a document that is not complete yet: they outlive the process, though maybe not a loss of power.
  package func remember(_ rows: [(key: RowKey, vector: [Float])]) throws(IndexError) {
    guard !rows.isEmpty else { return }
    let dimensions = view.dimensions
    var kept: [(key: RowKey, vector: [Float])] = []
    for row in rows {
      guard row.vector.count == dimensions, let vector = RowCode.normalized(row.vector) else {
        throw .badVector
      }
      kept.append((row.key, vector))
    }
    try change { writer throws(IndexError) in
      try writer.append([(.rows, IndexWriter.payload(rows: kept))])
      for row in kept {
        writer.rows[row.key] = row.vector
        writer.pending.insert(row.key)
      }
    }
  }

  /// Puts a document in, in place of one of the same name. Its vectors are at hand. It outlives a loss of power.
  ///
  /// - Parameter reserve: told the bytes that its words take beside it; false where they are not to be had.
  package func commit(
    _ document: NewDocument, reserve: (Int) -> Bool = { _ in true }
  ) throws(IndexError) {
    try change { writer throws(IndexError) in
      let view = self.view
      var missing: [(key: RowKey, vector: [Float])] = []
      var vectors: [Float] = []
      vectors.reserveCapacity(document.passages.reduce(0) { $0 + $1.rows.count } * view.dimensions)
      for key in document.passages.flatMap(\.rows) {
        if let row = writer.rows[key] {
          vectors += row
        } else {
          let row = try view.vector(of: key)
          missing.append((key, row))
          vectors += row
        }
      }
      let serial = writer.manifest.nextSerial
      let segment = try Segment(
        [(document, serial)], vectors: vectors, dimensions: view.dimensions, reserve: reserve)
      var records: [(LogKind, [UInt8])] = []
      if !missing.isEmpty { records.append((.rows, IndexWriter.payload(rows: missing))) }
      records.append((.document, IndexWriter.payload(document, serial: serial)))
      try writer.append(records)
      try writer.flush()
      for row in missing { writer.rows[row.key] = row.vector }
      writer.pending.subtract(document.passages.flatMap(\.rows))
      writer.manifest.nextSerial = serial + 1
      shared.withLock { $0.put(segment) }
      try joinMemory()
    }
    // What a new file needs may be there with the next change.
    do throws(IndexError) { try tidy(reserve) } catch .noMemory {}
  }

  /// Takes a document out; false when there is none.
  package func remove(_ key: String) throws(IndexError) -> Bool { try remove([key]) > 0 }

  /// Takes documents out, with one flush for all.
  ///
  /// - Returns: how many there were.
  package func remove(_ keys: [String]) throws(IndexError) -> Int {
    var count = 0
    try change { writer throws(IndexError) in
      let known = keys.filter { self.view.places[$0] != nil }
      guard !known.isEmpty else { return }
      try writer.append(known.map { (.removal, Array($0.utf8)) })
      try writer.flush()
      shared.withLock { view in for key in known { view.remove(key) } }
      count = known.count
    }
    if count > 0 { try tidy() }
    return count
  }

  /// Replaces what the owner wants to know of documents, with one flush for all.
  ///
  /// - Returns: how many documents there were.
  package func setInfos(_ infos: [(key: String, info: [UInt8])]) throws(IndexError) -> Int {
    var count = 0
    try change { writer throws(IndexError) in
      let known = infos.filter { self.view.places[$0.key] != nil }
      guard !known.isEmpty else { return }
      try writer.append(known.map { (.info, IndexWriter.payload(info: $0.info, key: $0.key)) })
      try writer.flush()
      shared.withLock { view in for (key, info) in known { view.setInfo(key, info) } }
      count = known.count
    }
    return count
  }

  /// Joins parts in memory while searches go on with the view that is.
  private func joinMemory() throws(IndexError) {
    var next = view
    let count = next.parts.count
    try next.joinMemory()
    guard next.parts.count != count else { return }
    shared.withLock { view in
      // Somebody else may have added one meanwhile.
      next.side = view.side
      view = next
    }
  }

  private func change(_ body: (inout IndexWriter) throws(IndexError) -> Void) throws(IndexError) {
    try writing.withLock { writer throws(IndexError) in
      defer { noteLog(writer.log?.byteCount ?? 0) }
      try settle(&writer)
      try body(&writer)
    }
  }
}
