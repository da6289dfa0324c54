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
    self.manifest = manifest
    self.log = log
    self.rows = rows
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
    return writer.bytes
  }

  static func payload(info: [UInt8], key: String) -> [UInt8] {
    var writer = ByteWriter()
    writer.block(Array(key.utf8))
    writer.block(info)
    return writer.bytes
  }
}

/// An index while its files are read.
struct IndexRecovery {
  var manifest: Manifest
  private(set) var view: IndexView
  private(set) var rows: [RowKey: [Float]] = [:]
  private(set) var pending: Set<RowKey> = []

  init(_ manifest: Manifest, folder: String, files: any FileSystem) throws(IndexError) {
    self.manifest = manifest
    view = IndexView(dimensions: manifest.dimensions)
    for entry in manifest.segments {
      let path = folder + "/" + entry.name
      let segment = try Segment(file: path, files: files)
      guard segment.footer.dimensions == manifest.dimensions else {
        throw .damaged(path: path, what: "its vectors have another size")
      }
      view.append(segment, entry)
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
      var vectors: [Float] = []
      for key in document.passages.flatMap(\.rows) {
        guard let row = rows[key] else { throw damage }
        vectors += row
        pending.remove(key)
      }
      view.put(
        try Segment(document, serial: serial, vectors: vectors, dimensions: manifest.dimensions))
      manifest.nextSerial = max(manifest.nextSerial, serial + 1)
    case .removal: view.remove(String(decoding: payload, as: UTF8.self))
    case .info:
      guard let key = reader.block(), let info = reader.block() else { throw damage }
      view.setInfo(String(decoding: key, as: UTF8.self), info)
    }
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
    return NewDocument(key: String(decoding: key, as: UTF8.self), info: info, passages: passages)
  }
}

extension Segment {
  /// One document in memory.
  convenience init(
    _ document: NewDocument, serial: UInt64, vectors: [Float], dimensions: Int
  ) throws(IndexError) {
    let result = vectors.withUnsafeBufferPointer { vectors -> Result<SharedBytes, IndexError> in
      let source = SourceDocument(
        key: document.key, info: document.info, serial: serial, passages: document.passages, vectors: vectors)
      do throws(IndexError) {
        var sink = SegmentSink(nil)
        try SegmentWriter(dimensions: dimensions, documents: [source]).write(to: &sink)
        return .success(SharedBytes(copying: sink.pending))
      } catch {
        return .failure(error)
      }
    }
    try self.init(try result.get(), path: "(memory)")
  }
}

extension IndexView {
  /// Adds a segment of a file.
  mutating func append(_ segment: Segment, _ entry: Manifest.Entry) {
    parts.append(
      IndexPart(segment: segment, file: entry.name, removed: Set(entry.removed), infos: entry.infos))
    for number in parts[parts.count - 1].live {
      places[segment.documents[number].key] = Place(part: parts.count - 1, number: number)
    }
  }

  /// Adds a document in memory, in place of one of the same name.
  mutating func put(_ segment: Segment) {
    guard let document = segment.documents.first else { return }
    remove(document.key)
    places[document.key] = Place(part: parts.count, number: 0)
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
