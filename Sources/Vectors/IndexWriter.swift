// What changes of an index are written with, and how a start reads them again.

import Platform

/// The writing side of an index; whoever holds the index's lock has it.
struct IndexWriter {
  var manifest: Manifest
  /// Nil when it could not be read.
  var log: LogFile?
  /// Vectors that the log has.
  var rows: [RowKey: [Float]]
  /// Those of them that no document has used yet.
  var pending: Set<RowKey>
  /// Whether the manifest on disk may be another: nothing may be written before it is settled.
  var isUncertain = false
  /// Whether a flush failed: what the system still writes of the log is unknown, so a new one has to begin.
  var hasFailed = false

  init(manifest: Manifest, log: LogFile?, rows: [RowKey: [Float]], pending: Set<RowKey>) {
    (self.manifest, self.log, self.rows) = (manifest, log, rows)
    self.pending = pending
  }

  mutating func append(_ records: [(kind: LogKind, payload: [UInt8])]) throws(IndexError) {
    try log?.append(records)
  }

  mutating func flush() throws(IndexError) {
    do throws(IndexError) {
      try log?.flush()
    } catch {
      hasFailed = true
      throw error
    }
  }

  // MARK: Payloads

  static func payload(rows: [(key: RowKey, vector: [Float])]) -> [UInt8] {
    var writer = ByteWriter()
    writer.u32(rows.count)
    for row in rows {
      writer.u64(row.key.high)
      writer.u64(row.key.low)
      writer.floats(row.vector)
    }
    return writer.bytes
  }

  static func payload(_ document: NewDocument, serial: UInt64) -> [UInt8] {
    var writer = ByteWriter()
    writer.u64(serial)
    writer.block(Array(document.key.utf8))
    writer.block(document.info)
    writer.u32(document.passages.count)
    for passage in document.passages {
      writer.block(passage.text)
      writer.block(passage.heading)
      writer.u32(passage.range.lowerBound)
      writer.u32(passage.range.upperBound)
      writer.u32(passage.rows.count)
      for key in passage.rows {
        writer.u64(key.high)
        writer.u64(key.low)
      }
    }
    writer.block(document.name)
    writer.u32(document.hasNameRow ? 1 : 0)
    return writer.bytes
  }

  static func payload(info: [UInt8], key: String) -> [UInt8] {
    var writer = ByteWriter()
    writer.block(Array(key.utf8))
    writer.block(info)
    return writer.bytes
  }
}

/// An index while its files are read. Where one of them is lost, all that is whole in the folder is taken, whoever names it.
struct IndexRecovery {
  var manifest: Manifest
  /// What is damaged or not there, in words.
  private(set) var losses: [String] = []
  /// Names of files that are damaged.
  private(set) var damaged: [String] = []
  /// Where the log ends; nil where a new one has to begin.
  private(set) var logEnd: LogEnd?
  private var view: IndexView
  private(set) var rows: [RowKey: [Float]] = [:]
  private(set) var pending: Set<RowKey> = []
  /// Documents of the log that become one part, with the rows of all.
  private var waiting: [(document: NewDocument, serial: UInt64)] = []
  private var vectors: [Float] = []

  /// Of the records of a log alone.
  init(_ manifest: Manifest) {
    self.manifest = manifest
    view = IndexView(dimensions: manifest.dimensions)
  }

  /// Reads what is in a folder.
  ///
  /// - Parameters:
  ///   - names: of its files.
  ///   - fingerprint: empty for whichever the index has.
  /// - Throws: what may pass, for a file of a later version, and where nothing says which model the index is of.
  init(
    folder: String, names: [String], fingerprint: String, dimensions: Int, files: any FileSystem
  ) throws(IndexError) {
    self.init(Manifest(fingerprint: fingerprint, dimensions: dimensions))
    let path = folder + "/" + Manifest.name
    var isKnown = names.contains(Manifest.name)
    if isKnown {
      do throws(IndexError) {
        let bytes = try IndexError.system { () throws(PlatformError) in try files.read(path, limit: 1 << 28) }
        self.init(try Manifest(bytes, path: path))
      } catch {
        try lose(Manifest.name, error)
        isKnown = false
      }
    }
    if isKnown {
      for entry in manifest.segments {
        try taking(entry.name) { recovery throws(IndexError) in
          recovery.view.append(try recovery.segment(entry, folder, files), entry)
        }
      }
      try taking(manifest.log) { recovery throws(IndexError) in
        let end = try recovery.read(recovery.manifest.log, recovery.manifest.logStart, folder, files)
        recovery.logEnd = end
      }
      if losses.isEmpty { return }
    } else if losses.isEmpty, !names.contains(where: { Self.hasContent($0, folder, files) }) {
      return
    } else if fingerprint.isEmpty {
      throw .damaged(path: path, what: "it is missing, or not what was written")
    }
    try salvage(names, folder, files, isKnown: isKnown)
  }

  private static let (segment, log) = (".segment", ".log")

  /// Whether a file is one of an index that was more than begun.
  private static func hasContent(_ name: String, _ folder: String, _ files: any FileSystem) -> Bool {
    guard name.hasSuffix(log) else { return name.hasSuffix(segment) }
    return ((try? files.mapped(folder + "/" + name)) ?? nil) != nil
  }

  /// Does something with a file, which may be lost.
  private mutating func taking(
    _ name: String, _ body: (inout IndexRecovery) throws(IndexError) -> Void
  ) throws(IndexError) {
    do throws(IndexError) { try body(&self) } catch { try lose(name, error) }
  }

  private mutating func lose(_ name: String, _ error: IndexError) throws(IndexError) {
    guard error.isLoss, !damaged.contains(name) else {
      if error.isLoss { return }
      throw error
    }
    damaged.append(name)
    if !losses.contains("\(error)") { losses.append("\(error)") }
  }

  private func segment(
    _ entry: Manifest.Entry, _ folder: String, _ files: any FileSystem
  ) throws(IndexError) -> Segment {
    let path = folder + "/" + entry.name
    let segment = try Segment(file: path, files: files)
    guard segment.footer.dimensions == manifest.dimensions else {
      throw .damaged(path: path, what: "its vectors have another size")
    }
    guard entry.seal ?? segment.seal == segment.seal else {
      throw .damaged(path: path, what: "it is another segment")
    }
    return segment
  }

  private mutating func read(
    _ name: String, _ start: UInt64?, _ folder: String, _ files: any FileSystem
  ) throws(IndexError) -> LogEnd {
    let path = folder + "/" + name
    let content = try IndexError.system { () throws(PlatformError) in try files.mapped(path) }
    let kind = SegmentFooter.kind(of: manifest.fingerprint)
    guard let start = start ?? LogFile.start(of: content, kind) else {
      throw .damaged(path: path, what: "it is of another index")
    }
    let end = try LogFile.read(content, start: start) { kind, payload throws(IndexError) in
      try take(kind, payload)
    }
    guard !end.isDamaged else {
      try lose(name, .damaged(path: path, what: "it is another log, or was changed after byte \(end.count)"))
      return end
    }
    return end
  }

  /// Takes every file that is whole, the oldest first: of a document that several have, the last version counts. Documents that
  /// were removed may be there again, and whoever owns the index knows them.
  private mutating func salvage(
    _ names: [String], _ folder: String, _ files: any FileSystem, isKnown: Bool
  ) throws(IndexError) {
    let entries = Dictionary(manifest.segments.map { ($0.name, $0) }, uniquingKeysWith: { first, _ in first })
    if !isKnown { losses.append("\(folder)/\(Manifest.name) does not say what belongs to the index") }
    (view, rows, pending, waiting, vectors) = (IndexView(dimensions: manifest.dimensions), [:], [], [], [])
    logEnd = nil
    // What has come in the place of another may be whole.
    damaged.removeAll { $0 != Manifest.name }
    let kind = SegmentFooter.kind(of: manifest.fingerprint)
    let numbered = names.compactMap { name -> (number: Int, name: String)? in
      guard name.hasSuffix(Self.segment) || name.hasSuffix(Self.log),
        let number = name.split(separator: ".").first.flatMap({ Int($0) }), (1..<1 << 40).contains(number)
      else { return nil }
      return (number, name)
    }.sorted { ($0.number, $0.name) < ($1.number, $1.name) }
    for (number, name) in numbered {
      manifest.nextFile = max(manifest.nextFile, number + 1)
      try taking(name) { recovery throws(IndexError) in
        guard name.hasSuffix(Self.segment) else {
          _ = try recovery.read(name, nil, folder, files)
          return try recovery.putWaiting()
        }
        // Without what the manifest says of it, for one that has come in the place of another.
        var entry = Manifest.Entry(name: name)
        let segment = try recovery.segment(entry, folder, files)
        if let known = entries[name], known.seal ?? segment.seal == segment.seal { entry = known }
        guard entry.seal != nil || segment.footer.kind == kind || segment.footer.kind == 0 else {
          throw .damaged(path: folder + "/" + name, what: "it is of another index")
        }
        if let fault = segment.faults().first { throw fault }
        recovery.view.append(segment, entry)
        let last = segment.documents.map(\.serial).max() ?? 0
        recovery.manifest.nextSerial = max(
          recovery.manifest.nextSerial, min(last, UInt64(Manifest.mostSerial - 1)) + 1)
      }
    }
  }

  /// Applies a record of the log.
  mutating func take(_ kind: LogKind, _ payload: UnsafeRawBufferPointer) throws(IndexError) {
    let damage = IndexError.damaged(path: manifest.log, what: "a record has wrong content")
    var reader = ByteReader(payload)
    switch kind {
    case .rows:
      guard let count = reader.u32(), count <= payload.count / 16 else { throw damage }
      for _ in 0..<count {
        guard let key = Self.key(&reader), let vector = reader.floats(manifest.dimensions) else {
          throw damage
        }
        rows[key] = vector
        pending.insert(key)
      }
    case .document:
      guard let serial = reader.u64(), serial < UInt64(Manifest.mostSerial),
        let document = Self.document(&reader)
      else { throw damage }
      let keys = document.passages.flatMap(\.rows)
      guard keys.allSatisfy({ rows[$0] != nil }) else { throw damage }
      if waiting.contains(where: { $0.document.key == document.key }) { try putWaiting() }
      pending.subtract(keys)
      // A log that was not deleted yet has what a segment has.
      if let known = view.places[document.key], view.document(known).serial >= serial { return }
      waiting.append((document, serial))
      for key in keys { vectors += rows[key] ?? [] }
      manifest.nextSerial = max(manifest.nextSerial, serial + 1)
      if MemoryLayout<Float>.stride * vectors.count > IndexView.mostJoined / 2 { try putWaiting() }
    case .removal:
      try putWaiting()
      view.remove(String(decoding: payload, as: UTF8.self))
    case .info:
      try putWaiting()
      guard let key = reader.block(), let info = reader.block() else { throw damage }
      view.setInfo(String(decoding: key, as: UTF8.self), info)
    }
  }

  private mutating func putWaiting() throws(IndexError) {
    guard !waiting.isEmpty else { return }
    view.put(try Segment(waiting, vectors: vectors, dimensions: manifest.dimensions))
    (waiting, vectors) = ([], [])
    try view.joinMemory()
  }

  /// The view, when all records were taken.
  mutating func finish() throws(IndexError) -> IndexView {
    try putWaiting()
    return view
  }

  private static func key(_ reader: inout ByteReader) -> RowKey? {
    guard let high = reader.u64(), let low = reader.u64() else { return nil }
    return RowKey(high: high, low: low)
  }

  private static func document(_ reader: inout ByteReader) -> NewDocument? {
    guard let key = reader.block(), let info = reader.block(), let count = reader.u32(),
      count <= reader.left
    else { return nil }
    var passages: [Passage] = []
    for _ in 0..<count {
      guard let text = reader.block(), let heading = reader.block(), let start = reader.u32(),
        let end = reader.u32(), let rowCount = reader.u32(), start <= end, rowCount <= reader.left / 16
      else { return nil }
      var rows: [RowKey] = []
      for _ in 0..<rowCount {
        guard let row = Self.key(&reader) else { return nil }
        rows.append(row)
      }
      passages.append(Passage(text: text, heading: heading, range: start..<end, rows: rows))
    }
    var document = NewDocument(key: String(decoding: key, as: UTF8.self), info: info, passages: passages)
    // Logs of an older version end here.
    guard reader.left > 0 else { return document }
    guard let name = reader.block(), let flags = reader.u32() else { return nil }
    document.name = name
    document.hasNameRow = flags & 1 != 0
    return document
  }
}

extension Segment {
  /// Documents in memory, in the order of their serials.
  ///
  /// - Parameters:
  ///   - vectors: the rows of all of them.
  ///   - reserve: told the bytes that their words take while it is made; false where they are not to be had.
  convenience init(
    _ documents: [(document: NewDocument, serial: UInt64)], vectors: [Float], dimensions: Int,
    reserve: (Int) -> Bool = { _ in true }
  ) throws(IndexError) {
    let result = vectors.withUnsafeBufferPointer { vectors -> Result<SharedBytes, IndexError> in
      var rest = vectors[...]
      let sources = documents.map { document, serial in
        let rows = document.passages.reduce(0) { $0 + $1.rows.count }
        defer { rest = rest.dropFirst(rows * dimensions) }
        return SourceDocument(
          key: document.key, info: document.info, serial: serial, name: document.name,
          passages: document.passages, hasNameRow: document.hasNameRow,
          vectors: UnsafeBufferPointer(rebasing: rest.prefix(rows * dimensions)))
      }
      do throws(IndexError) {
        return .success(try Self.bytes(sources, dimensions, reserve))
      } catch {
        return .failure(error)
      }
    }
    try self.init(try result.get(), path: Self.memory)
  }

  /// Documents in memory, of other segments.
  convenience init(_ documents: [SourceDocument], dimensions: Int) throws(IndexError) {
    try self.init(try Self.bytes(documents, dimensions), path: Self.memory)
  }

  private static let memory = "(memory)"

  private static func bytes(
    _ documents: [SourceDocument], _ dimensions: Int, _ reserve: (Int) -> Bool = { _ in true }
  ) throws(IndexError) -> SharedBytes {
    var sink = SegmentSink(nil)
    try SegmentWriter(dimensions: dimensions, documents: documents).write(to: &sink, reserve: reserve)
    return SharedBytes(copying: sink.pending)
  }
}

extension IndexView {
  /// Adds a segment of a file. Of a document that is there twice the last version counts.
  mutating func append(_ segment: Segment, _ entry: Manifest.Entry) {
    var part = IndexPart(
      segment: segment, file: entry.name, removed: Set(entry.removed), infos: entry.infos)
    for number in part.live {
      let document = segment.documents[number]
      if let known = places[document.key] {
        guard self.document(known).serial < document.serial else {
          part.removed.insert(number)
          continue
        }
        remove(document.key)
      }
      places[document.key] = Place(part: parts.count, number: number)
    }
    parts.append(part)
  }

  /// The same without some files.
  func without(_ names: Set<String>) -> IndexView {
    var rest = self
    (rest.parts, rest.places) = ([], [:])
    for part in parts where !names.contains(part.file ?? "") {
      for number in part.live {
        rest.places[part.segment.documents[number].key] = Place(part: rest.parts.count, number: number)
      }
      rest.parts.append(part)
    }
    return rest
  }

  /// Adds documents in memory, in place of those of the same names.
  mutating func put(_ segment: Segment) {
    for (number, document) in segment.documents.enumerated() {
      remove(document.key)
      places[document.key] = Place(part: parts.count, number: number)
    }
    parts.append(IndexPart(segment: segment, file: nil))
  }

  mutating func remove(_ key: String) {
    guard let place = places.removeValue(forKey: key) else { return }
    // Parts keep their numbers: views and hits of now name them.
    parts[place.part].removed.insert(place.number)
    parts[place.part].infos[place.number] = nil
  }

  mutating func setInfo(_ key: String, _ info: [UInt8]) {
    guard let place = places[key] else { return }
    parts[place.part].infos[place.number] = info
  }

  /// The vector of a key in any segment.
  func vector(of key: RowKey) throws(IndexError) -> [Float] {
    for part in parts {
      if let row = try part.segment.row(of: key) { return Array(try part.segment.vector(row)) }
    }
    throw .missingRow
  }
}
