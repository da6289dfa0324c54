// Documents move from memory to a file, and files become one: without a moment in which a search or a crash finds less.

import Platform

extension VectorIndex {
  /// Moves what is in memory to a file when that is much, and joins files when there are many or much in them is gone.
  ///
  /// - Parameter reserve: as for `commit`.
  func tidy(_ reserve: (Int) -> Bool = { _ in true }) throws(IndexError) {
    let view = view
    let isFull = view.memoryDocuments > limits.memoryDocuments || logBytes > limits.logBytes
    guard isFull || Self.isSparse(view) else { return }
    try compact(
      all: Self.isSparse(view) || view.parts.count { $0.file != nil } >= limits.segments, reserve: reserve)
  }

  /// Whether more than a quarter of the rows in files, and more than a few, are gone.
  private static func isSparse(_ view: IndexView) -> Bool {
    var (rows, gone) = (0, 0)
    for part in view.parts where part.file != nil {
      rows += part.segment.footer.rows
      let documents = part.segment.documents
      for number in part.removed where documents.indices.contains(number) {
        gone += documents[number].rows.count
      }
    }
    return gone > 4_096 && gone > rows / 4
  }

  /// Moves all documents in memory to a file.
  ///
  /// - Parameter all: joins all files to one, and leaves out what is gone.
  package func compact(
    all: Bool = false, reserve: (Int) -> Bool = { _ in true }
  ) throws(IndexError) {
    try writing.withLock { writer throws(IndexError) in
      try settle(&writer, mayCompact: false)
      try compact(&writer, all: all, reserve: reserve)
    }
  }

  /// Writes the words of all documents anew where a file has them by older rules, which takes no model: they are in its texts.
  ///
  /// - Parameter name: of a document that has none.
  /// - Returns: whether that was necessary.
  package func renewWords(_ name: (String) -> [UInt8]) throws(IndexError) -> Bool {
    guard view.parts.contains(where: { !$0.segment.footer.hasWholeWords }) else {
      return false
    }
    try writing.withLock { writer throws(IndexError) in
      try settle(&writer, mayCompact: false)
      try compact(&writer, all: true, name: name)
    }
    return true
  }

  /// Makes sure that the manifest on disk is the one in memory, and the log one that can be trusted.
  func settle(_ writer: inout IndexWriter, mayCompact: Bool = true) throws(IndexError) {
    if writer.isUncertain {
      try writeManifest(writer.manifest)
      writer.isUncertain = false
    }
    if writer.hasFailed, mayCompact { try compact(&writer, all: false) }
  }

  private func writeManifest(_ manifest: Manifest) throws(IndexError) {
    try IndexError.system { () throws(PlatformError) in
      try files.writeDurably(manifest.bytes, folder: folder, name: Manifest.name)
    }
  }

  func compact(
    _ writer: inout IndexWriter, all: Bool, name: (String) -> [UInt8] = { _ in [] },
    reserve: (Int) -> Bool = { _ in true }
  ) throws(IndexError) {
    let view = self.view
    let moved = view.parts.filter { all || $0.file == nil }
    let kept = view.parts.filter { !all && $0.file != nil }
    var manifest = writer.manifest
    func newName(_ ending: String) -> String {
      defer { manifest.nextFile += 1 }
      let digits = String(manifest.nextFile)
      return String(repeating: "0", count: max(0, 4 - digits.count)) + digits + ending
    }
    manifest.segments = kept.map { part in
      Manifest.Entry(
        name: part.file ?? "", seal: part.segment.seal, removed: part.removed.sorted(), infos: part.infos)
    }
    var next = IndexView(dimensions: view.dimensions)
    for (part, entry) in zip(kept, manifest.segments) { next.append(part.segment, entry) }
    // `moved` keeps the vectors of these in place.
    var documents = try IndexView.sources(moved)
    for index in documents.indices where documents[index].name.isEmpty {
      documents[index].name = name(documents[index].key)
    }
    if !documents.isEmpty {
      var entry = Manifest.Entry(name: newName(".segment"))
      try writeSegment(documents, dimensions: view.dimensions, name: entry.name, reserve)
      let segment = try Segment(file: folder + "/" + entry.name, files: files)
      entry.seal = segment.seal
      manifest.segments.append(entry)
      next.append(segment, entry)
    }
    manifest.log = newName(".log")
    manifest.logStart = LogFile.freshStart(SegmentFooter.kind(of: fingerprint))
    let log = try IndexError.system { () throws(PlatformError) in
      try LogFile.create(folder: folder, name: manifest.log, start: manifest.logStart, files: files)
    }
    // Vectors of documents that are not complete go on living in the new log.
    let pending = writer.pending.sorted().prefix(10_000).compactMap { key in
      writer.rows[key].map { (key: key, vector: $0) }
    }
    if !pending.isEmpty {
      try log.append([(.rows, IndexWriter.payload(rows: pending))])
      try log.flush()
    }
    do throws(IndexError) {
      try writeManifest(manifest)
    } catch {
      // The disk may have either; both sets of files stay, and the numbers of the new ones are taken.
      writer.isUncertain = true
      writer.manifest.nextFile = manifest.nextFile
      throw error
    }
    let old = writer.manifest
    writer.manifest = manifest
    writer.log = log
    writer.rows = Dictionary(uniqueKeysWithValues: pending.map { ($0.key, $0.vector) })
    writer.pending = Set(pending.map(\.key))
    writer.hasFailed = false
    noteLog(log.byteCount)
    if !moved.isEmpty { noteCompaction() }
    shared.withLock { view in
      // Somebody else may have added one meanwhile.
      next.side = view.side
      view = next
    }
    // What cannot be deleted now is deleted by the next start.
    let names = Set(manifest.segments.map(\.name))
    for name in old.segments.map(\.name) + [old.log] where !names.contains(name) {
      _ = files.unlink(folder + "/" + name)
    }
  }

  private func writeSegment(
    _ documents: [SourceDocument], dimensions: Int, name: String, _ reserve: (Int) -> Bool
  ) throws(IndexError) {
    try publish(name) { descriptor, path throws(IndexError) in
      var sink = SegmentSink((files, descriptor, path))
      let kind = SegmentFooter.kind(of: fingerprint)
      try SegmentWriter(dimensions: dimensions, documents: documents, kind: kind)
        .write(to: &sink, reserve: reserve)
    }
  }

  /// Writes a file aside and then gives it its name; nothing is left of one that fails.
  func publish(
    _ name: String, _ write: (_ descriptor: Int, _ path: String) throws(IndexError) -> Void
  ) throws(IndexError) {
    let temporary = folder + "/" + name + ".tmp"
    let descriptor = try IndexError.system { () throws(PlatformError) in try files.create(temporary) }
    do throws(IndexError) {
      defer { files.close(descriptor) }
      try write(descriptor, temporary)
      try IndexError.system { () throws(PlatformError) in
        try files.flush(descriptor, path: temporary)
        try files.publish(temporary, folder: folder, name: name)
      }
    } catch {
      _ = files.unlink(temporary)
      throw error
    }
  }
}

extension IndexView {
  /// The living documents of some parts, in the order of their serials.
  fileprivate static func sources(_ parts: [IndexPart]) throws(IndexError) -> [SourceDocument] {
    var sources: [SourceDocument] = []
    for part in parts {
      let live = part.live
      guard !live.isEmpty else { continue }
      let keys = try part.segment.rowKeys()
      for number in live {
        var source = try part.segment.source(number, keys: keys[part.segment.documents[number].rows])
        source.info = part.info(number)
        sources.append(source)
      }
    }
    return sources.sorted { $0.serial < $1.serial }
  }

  /// Parts in memory that wait for each other.
  private static let fewParts = 8
  /// Bytes beyond which they stay as they are.
  static let mostJoined = 4 << 20

  /// Joins the last parts in memory where there are some of about the same size: a search asks each part for each of its words.
  ///
  /// Every document is written anew about as often as its part can double.
  mutating func joinMemory() throws(IndexError) {
    var (first, at, bytes) = (parts.count, parts.count, 0)
    while at > 0, parts[at - 1].file == nil, bytes + parts[at - 1].segment.byteCount <= Self.mostJoined {
      at -= 1
      let size = parts[at].segment.byteCount
      // One that is larger than all behind it waits.
      if size <= bytes || at == parts.count - 1 { first = at }
      bytes += size
    }
    let joined = Array(parts[first...])
    guard joined.count >= Self.fewParts else { return }
    let documents = try Self.sources(joined)
    let segment = documents.isEmpty ? nil : try Segment(documents, dimensions: dimensions)
    withExtendedLifetime(joined) {}
    for document in documents { places[document.key] = nil }
    parts.removeSubrange(first...)
    if let segment { put(segment) }
  }
}
