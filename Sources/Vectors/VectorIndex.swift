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
  /// Why the index takes no changes; nil when it does.
  package let damage: String?

  /// Opens an index, or makes an empty one in a folder whose parent exists.
  ///
  /// - Parameter compacted: called when files were written anew.
  /// - Throws: when another process holds the folder, or what is in it cannot be read.
  package init(
    folder: String, fingerprint: String, dimensions: Int, limits: Limits = Limits(),
    files: any FileSystem = SystemFiles(), compacted: @escaping @Sendable () -> Void = {}
  ) throws(IndexError) {
    guard dimensions > 0, dimensions <= 1 << 14 else { throw .badVector }
    self.folder = folder
    self.files = files
    self.limits = limits
    self.compacted = compacted
    lock = try IndexError.system { () throws(PlatformError) in
      try files.makeFolder(folder)
      return try FolderLock(folder: folder, files: files)
    }
    let names = try IndexError.system { () throws(PlatformError) in try files.names(in: folder) }
    var manifest = Manifest(fingerprint: fingerprint, dimensions: dimensions)
    var log: LogFile?
    if names.contains(Manifest.name) {
      manifest = try Self.readManifest(folder, files)
    } else {
      log = try IndexError.system { () throws(PlatformError) in
        let log = try LogFile.create(folder: folder, name: manifest.log, files: files)
        try files.writeDurably(manifest.bytes, folder: folder, name: Manifest.name)
        return log
      }
    }
    self.fingerprint = manifest.fingerprint
    var recovery = try IndexRecovery(manifest, folder: folder, files: files)
    var damage: String?
    if log == nil {
      do throws(IndexError) {
        log = try LogFile.open(folder: folder, name: manifest.log, files: files) {
          kind, payload throws(IndexError) in
          try recovery.take(kind, payload)
        }
      } catch {
        guard case .readOnly(let reason) = error else { throw error }
        damage = reason
      }
    }
    self.damage = damage
    let logBytes = log?.byteCount ?? 0
    var view = try recovery.finish()
    view.side = Self.openSide(folder, names, files)
    let numbers = names.filter { $0.hasSuffix(SideFile.ending) }
      .compactMap { Int($0.dropLast(SideFile.ending.count)) }
    sideWriting = Monitor(numbers.max() ?? 0)
    shared = Monitor(view)
    writing = Monitor(
      IndexWriter(manifest: recovery.manifest, log: log, rows: recovery.rows, pending: recovery.pending))
    noteLog(logBytes)
    if damage == nil { removeStrangers(names, manifest) }
  }

  /// After every change of the log.
  func noteLog(_ bytes: Int) { logSize.store(bytes, ordering: .relaxed) }

  /// After files were written anew.
  func noteCompaction() { compacted() }

  private static func readManifest(_ folder: String, _ files: any FileSystem) throws(IndexError) -> Manifest {
    let path = folder + "/" + Manifest.name
    let bytes = try IndexError.system { () throws(PlatformError) in try files.read(path, limit: 1 << 28) }
    return try Manifest(bytes, path: path)
  }

  /// An index as it is on disk, without its lock: another process may write to it meanwhile.
  ///
  /// - Returns: nil when there is none.
  package static func snapshot(
    folder: String, files: any FileSystem = SystemFiles()
  ) throws(IndexError) -> (view: IndexView, fingerprint: String)? {
    var failure: IndexError?
    // The writer may take files away that the manifest named a moment ago.
    for _ in 0..<5 {
      do throws(IndexError) {
        let manifest = try readManifest(folder, files)
        var recovery = try IndexRecovery(manifest, folder: folder, files: files)
        let path = folder + "/" + manifest.log
        let content = try IndexError.system { () throws(PlatformError) in try files.mapped(path) }
        try LogFile.read(content, path: path, files) { kind, payload throws(IndexError) in
          try recovery.take(kind, payload)
        }
        return (try recovery.finish(), manifest.fingerprint)
      } catch .system(.file(_, let path, ENOENT)) {
        if path == folder + "/" + Manifest.name { return nil }
        failure = .system(.file(action: "open", path: path, code: ENOENT))
      }
    }
    if let failure { throw failure }
    return nil
  }

  /// Everything that is damaged, in words.
  package func faults() -> [String] {
    (damage.map { [$0] } ?? []) + view.parts.flatMap { $0.segment.faults() }
  }

  /// The same of an index that another process may use, without its lock.
  package static func check(folder: String, files: any FileSystem = SystemFiles()) -> [String] {
    do throws(IndexError) {
      let found = try snapshot(folder: folder, files: files)
      return found?.view.parts.flatMap { $0.segment.faults() } ?? []
    } catch {
      return ["\(error)"]
    }
  }

  /// Files of an earlier life that no manifest names.
  private func removeStrangers(_ names: [String], _ manifest: Manifest) {
    let known = Set(manifest.segments.map(\.name) + [manifest.log])
    for name in names where !known.contains(name) {
      guard name.hasSuffix(".segment") || name.hasSuffix(".log") || name.hasSuffix(".tmp") else { continue }
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
    try tidy()
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

  /// Replaces what the owner wants to know of a document; false when there is none.
  package func setInfo(_ key: String, _ info: [UInt8]) throws(IndexError) -> Bool {
    try setInfos([(key, info)]) > 0
  }

  /// The same for several, with one flush for all.
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
    if let damage { throw .readOnly(reason: damage) }
    try writing.withLock { writer throws(IndexError) in
      defer { noteLog(writer.log?.byteCount ?? 0) }
      try settle(&writer)
      try body(&writer)
    }
  }
}
