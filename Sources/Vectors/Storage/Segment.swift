// Documents that no longer change: sections of a mapped file, or of memory, whose checksums are looked at when they are
// first used.

import KernelTypes
import Platform

/// One document in a segment's table.
struct SegmentDocument: Sendable {
  var key: String
  var info: [UInt8]
  var serial: UInt64
  var passages: Range<Int>
  var rows: Range<Int>
  var name: [UInt8] = []
  /// Whether the last row of its first passage is a vector of its name.
  var hasNameRow = false
}

/// An immutable part of an index. Any number of threads read it.
package final class Segment: Sendable {
  /// For errors.
  let path: String
  let footer: SegmentFooter
  let documents: [SegmentDocument]
  /// The checksum of its end, where those of all its bytes are: of two segments of one index it is never the same.
  let seal: UInt64
  /// Where the footer begins.
  private let end: Int
  private let content: SharedBytes
  /// Sections that were found to be whole.
  private let checked = Monitor([Bool](repeating: false, count: Section.allCases.count))
  /// Blocks of rows that were found to be whole: a search reads few of those in float32.
  private let checkedBlocks = Monitor(Set<Int>())

  private let wordTotal = Monitor<Int?>(nil)
  private let noise = Monitor<Float?>(nil)

  /// - Throws: when the bytes are no segment of this version.
  init(_ content: SharedBytes, path: String) throws(IndexError) {
    (self.path, self.content) = (path, content)
    let bytes = content.bytes
    guard let (footer, end) = SegmentFooter.find(in: bytes) else {
      throw .damaged(path: path, what: "its end is not that of a segment")
    }
    guard footer.version <= SegmentFooter.version else {
      throw .version(path: path, found: footer.version, supported: SegmentFooter.version)
    }
    guard Self.hasRightSizes(footer) else {
      throw .damaged(path: path, what: "its sections have wrong sizes")
    }
    (self.footer, self.end) = (footer, end)
    seal = Checksum.of(UnsafeRawBufferPointer(rebasing: bytes[Self.coveredBytes(end)...]))
    // The table of documents is read at once: who opens the index wants to know what is in it.
    let table = footer.sections[Section.documents.rawValue]
    if let block = Self.firstDamage(of: bytes, in: table, end: end) {
      throw .damaged(path: path, what: Self.words(block, .documents))
    }
    documents = try Self.readDocuments(bytes, footer, path)
  }

  /// Maps a file.
  convenience init(file path: String, files: any FileSystem) throws(IndexError) {
    let content = try IndexError.system { () throws(PlatformError) in try files.mapped(path) }
    guard let content else { throw .damaged(path: path, what: "it is empty") }
    try self.init(content, path: path)
  }

  /// Bytes of all sections.
  var byteCount: Int { content.bytes.count }

  private static func hasRightSizes(_ footer: SegmentFooter) -> Bool {
    let counts = [footer.dimensions, footer.rows, footer.passages, footer.documents, footer.terms]
    guard counts.allSatisfy({ $0 >= 0 && $0 < 1 << 31 }), (1...1 << 16).contains(footer.dimensions) else {
      return false
    }
    func size(_ section: Section) -> Int { footer.sections[section.rawValue].count }
    return size(.codes) == footer.rows * RowCode.stride(of: footer.dimensions)
      && size(.scales) == footer.rows * 4 && size(.errors) == footer.rows * 4
      && size(.floats) == footer.rows * footer.dimensions * 4 && size(.owners) == footer.rows * 4
      && size(.passages) == (footer.passages + 1) * MemoryLayout<PassageRecord>.stride
      && size(.keys) == footer.rows * MemoryLayout<KeyRecord>.stride
      && size(.termOffsets) == (footer.terms + 1) * 4 && size(.postingOffsets) == (footer.terms + 1) * 8
      && size(.lengths) == footer.passages * 4 && hasRightSigns(footer, size)
  }

  private static func hasRightSigns(_ footer: SegmentFooter, _ size: (Section) -> Int) -> Bool {
    guard size(.signs) > 0 else { return size(.signFactors) == 0 && size(.signMean) == 0 }
    return size(.signs) == SignCode.byteCount(rows: footer.rows, dimensions: footer.dimensions)
      && size(.signFactors) == footer.rows * 4 && size(.signMean) == footer.dimensions * 4
  }

  private static func readDocuments(
    _ bytes: UnsafeRawBufferPointer, _ footer: SegmentFooter, _ path: String
  ) throws(IndexError) -> [SegmentDocument] {
    let damage = IndexError.damaged(path: path, what: "its table of documents")
    var reader = ByteReader(
      UnsafeRawBufferPointer(rebasing: bytes[footer.sections[Section.documents.rawValue]]))
    var documents: [SegmentDocument] = []
    for _ in 0..<footer.documents {
      guard let serial = reader.u64(), let passage = reader.u32(), let row = reader.u32(),
        let key = reader.block(), let info = reader.block(), passage <= footer.passages, row <= footer.rows,
        passage >= documents.last?.passages.lowerBound ?? 0, row >= documents.last?.rows.lowerBound ?? 0
      else { throw damage }
      if let last = documents.indices.last {
        documents[last].passages = documents[last].passages.lowerBound..<passage
        documents[last].rows = documents[last].rows.lowerBound..<row
      }
      documents.append(
        SegmentDocument(
          key: String(decoding: key, as: UTF8.self), info: info, serial: serial,
          passages: passage..<footer.passages, rows: row..<footer.rows))
    }
    for number in documents.indices where footer.hasNames {
      guard let name = reader.block(), let flags = reader.u32() else { throw damage }
      documents[number].name = name
      documents[number].hasNameRow = flags & 1 != 0
    }
    return documents
  }

  // MARK: Sections

  /// The bytes of a section whose checksums are right.
  func section(_ section: Section) throws(IndexError) -> UnsafeRawBufferPointer {
    try check(section)
    return UnsafeRawBufferPointer(rebasing: content.bytes[footer.sections[section.rawValue]])
  }

  private func check(_ section: Section, _ pace: (Int) -> Void = { _ in }) throws(IndexError) {
    guard !checked.withLock({ $0[section.rawValue] }) else { return }
    let place = footer.sections[section.rawValue]
    if let block = Self.firstDamage(of: content.bytes, in: place, end: end, pace) {
      throw .damaged(path: path, what: Self.words(block, section))
    }
    checked.withLock { $0[section.rawValue] = true }
  }

  /// Checks the blocks of some bytes of a section, once.
  private func check(_ range: Range<Int>, _ section: Section) throws(IndexError) {
    guard !range.isEmpty else { return }
    let blocks = range.lowerBound / SegmentFooter.block...(range.upperBound - 1) / SegmentFooter.block
    guard !checkedBlocks.withLock({ known in blocks.allSatisfy(known.contains) }) else { return }
    if let block = Self.firstDamage(of: content.bytes, in: range, end: end) {
      throw .damaged(path: path, what: Self.words(block, section))
    }
    checkedBlocks.withLock { $0.formUnion(blocks) }
  }

  private static func words(_ block: Int, _ section: Section) -> String {
    "block \(block), the MiB from byte \(block * SegmentFooter.block) on (\(section))"
  }

  /// The first block of a range whose checksum is wrong.
  ///
  /// - Parameters:
  ///   - end: where the footer begins.
  ///   - pace: told the bytes of each block.
  private static func firstDamage(
    of bytes: UnsafeRawBufferPointer, in range: Range<Int>, end: Int, _ pace: (Int) -> Void = { _ in }
  ) -> Int? {
    guard !range.isEmpty else { return nil }
    // What the checksums cover ends where they begin: n blocks and n sums.
    let covered = coveredBytes(end)
    for block in range.lowerBound / SegmentFooter.block...(range.upperBound - 1) / SegmentFooter.block {
      let start = block * SegmentFooter.block
      let stop = min(start + SegmentFooter.block, covered)
      let at = covered + 8 * block
      guard start < stop, at + 8 <= end else { return block }
      let sum = UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: at, as: UInt64.self))
      if Checksum.of(UnsafeRawBufferPointer(rebasing: bytes[start..<stop])) != sum { return block }
      pace(stop - start)
    }
    return nil
  }

  /// Of `end` bytes, those before the checksums: each block of a MiB, the last one shorter, has eight bytes of them.
  private static func coveredBytes(_ end: Int) -> Int {
    let blocks = (end + SegmentFooter.block + 7) / (SegmentFooter.block + 8)
    return max(0, end - 8 * blocks)
  }

  /// All that is damaged.
  func faults(_ pace: (Int) -> Void = { _ in }) -> [IndexError] {
    Section.allCases.compactMap { section in
      do throws(IndexError) { try check(section, pace) } catch { return error }
      return nil
    }
  }

  /// A section as an array of values.
  func values<Value: BitwiseCopyable>(
    _ section: Section, as type: Value.Type
  ) throws(IndexError) -> UnsafeBufferPointer<Value> {
    try self.section(section).bindMemory(to: type)
  }

  // MARK: Content

  /// What a scan reads; nil when there are no rows.
  ///
  /// - Parameter isSparse: whether so few rows are read that only their own blocks are checked.
  func scanRows(_ ranges: [Range<Int>], isSparse: Bool = false) throws(IndexError) -> ScanRows? {
    let place = footer.sections[Section.codes.rawValue]
    let stride = RowCode.stride(of: footer.dimensions)
    if isSparse {
      for range in ranges {
        let start = place.lowerBound + range.lowerBound * stride
        try check(start..<start + range.count * stride, .codes)
      }
    } else {
      try check(.codes)
    }
    guard footer.rows > 0,
      let codes = UnsafeRawBufferPointer(rebasing: content.bytes[place]).baseAddress,
      let scales = try values(.scales, as: Float.self).baseAddress,
      let errors = try values(.errors, as: Float.self).baseAddress,
      let owners = try values(.owners, as: UInt32.self).baseAddress
    else { return nil }
    let rows = CodeRows(base: codes, rowBytes: stride, scales: scales, count: footer.rows)
    return ScanRows(
      vector: { [self] row throws(IndexError) in try vector(row) }, codes: rows, errors: errors,
      owners: owners,
      ranges: ranges)
  }

  /// What a scan of signs reads; nil when there are none.
  func signPart(_ ranges: [Range<Int>]) throws(IndexError) -> SignPart? {
    guard let signs = try section(.signs).baseAddress, !footer.sections[Section.signs.rawValue].isEmpty,
      let factors = try values(.signFactors, as: Float.self).baseAddress,
      let mean = try values(.signMean, as: Float.self).baseAddress
    else { return nil }
    let rows = SignRows(
      base: signs, rowBytes: RowCode.stride(of: footer.dimensions) / 8,
      blocks: (footer.rows + SignCode.blockRows - 1) / SignCode.blockRows)
    return SignPart(rows: rows, factors: factors, mean: mean, ranges: ranges)
  }

  /// The record of a passage and the row after its last.
  func record(_ passage: Int) throws(IndexError) -> (record: PassageRecord, rows: Range<Int>) {
    let records = try values(.passages, as: PassageRecord.self)
    guard passage >= 0, passage + 1 < records.count else {
      throw .damaged(path: path, what: "passage \(passage) does not exist")
    }
    let (first, end) = (Int(records[passage].firstRow), Int(records[passage + 1].firstRow))
    guard first <= end, end <= footer.rows, Int(records[passage].document) < documents.count else {
      throw .damaged(path: path, what: "passage \(passage) has no rows")
    }
    return (records[passage], first..<end)
  }

  /// The rows of a passage's text, and that of its document's name.
  func ownRows(_ passage: Int) throws(IndexError) -> (rows: Range<Int>, name: Int?) {
    let (record, rows) = try record(passage)
    let document = documents[Int(record.document)]
    guard document.hasNameRow, !document.passages.isEmpty else { return (rows, nil) }
    let first = document.passages.lowerBound
    let all = passage == first ? rows : try self.record(first).rows
    guard let name = all.last else { return (rows, nil) }
    return (passage == first ? rows.dropLast() : rows, name)
  }

  /// Text and heading of a passage.
  func text(_ record: PassageRecord) throws(IndexError) -> (text: [UInt8], heading: [UInt8]) {
    let texts = try section(.texts)
    let (textBytes, headingBytes) = (Int(record.textBytes), Int(record.headingBytes))
    guard let start = Int(exactly: record.text), start <= texts.count,
      textBytes + headingBytes <= texts.count - start
    else { throw .damaged(path: path, what: "a text lies beyond the end") }
    return (
      Array(texts[start..<start + textBytes]),
      Array(texts[start + textBytes..<start + textBytes + headingBytes])
    )
  }

  /// The row of a key.
  func row(of key: RowKey) throws(IndexError) -> Int? {
    let keys = try values(.keys, as: KeyRecord.self)
    var (low, high) = (0, keys.count)
    while low < high {
      let middle = (low + high) / 2
      if keys[middle].key < key { low = middle + 1 } else { high = middle }
    }
    guard low < keys.count, keys[low].key == key else { return nil }
    return min(Int(keys[low].row), footer.rows - 1)
  }

  /// A row in float32. Only the blocks that it is in are checked.
  func vector(_ row: Int) throws(IndexError) -> UnsafeBufferPointer<Float> {
    guard row >= 0, row < footer.rows else { throw .missingRow }
    let size = 4 * footer.dimensions
    let start = footer.sections[Section.floats.rawValue].lowerBound + row * size
    try check(start..<start + size, .floats)
    return UnsafeRawBufferPointer(rebasing: content.bytes[start..<start + size]).bindMemory(to: Float.self)
  }

  /// A document with all that a new segment needs of it.
  ///
  /// - Parameter keys: of the document's rows.
  func source(_ number: Int, keys: ArraySlice<RowKey>) throws(IndexError) -> SourceDocument {
    let document = documents[number]
    var passages: [Passage] = []
    for passage in document.passages {
      let (record, rows) = try record(passage)
      let (text, heading) = try text(record)
      let first = keys.startIndex + rows.lowerBound - document.rows.lowerBound
      guard record.start <= record.end, first >= keys.startIndex, first + rows.count <= keys.endIndex else {
        throw .damaged(path: path, what: "passage \(passage) has other rows than its document")
      }
      passages.append(
        Passage(
          text: text, heading: heading, range: Int(record.start)..<Int(record.end),
          rows: Array(keys[first..<first + rows.count])))
    }
    let floats = try values(.floats, as: Float.self)
    let range = document.rows.lowerBound * footer.dimensions..<document.rows.upperBound * footer.dimensions
    return SourceDocument(
      key: document.key, info: document.info, serial: document.serial, name: document.name,
      passages: passages, hasNameRow: document.hasNameRow,
      vectors: UnsafeBufferPointer(rebasing: floats[range]))
  }

  /// The keys of all rows, by row.
  func rowKeys() throws(IndexError) -> [RowKey] {
    var keys = [RowKey](repeating: RowKey(high: 0, low: 0), count: footer.rows)
    for record in try values(.keys, as: KeyRecord.self) where Int(record.row) < keys.count {
      keys[Int(record.row)] = record.key
    }
    return keys
  }

  /// Rows from which on a segment tells how near rows are by chance.
  static let telling = 4_096

  /// The cosine that 95 of 100 pairs of rows stay below, of neighbours at some places: a place is in few blocks, and these are
  /// checked when they are first read.
  func noiseFloor() throws(IndexError) -> Float {
    if let known = noise.withLock({ $0 }) { return known }
    let (places, neighbours) = (25, 40)
    let distance = max(neighbours, footer.rows / places)
    func row(_ place: Int, _ neighbour: Int) throws(IndexError) -> UnsafeBufferPointer<Float> {
      try vector(min(place * distance + neighbour, footer.rows - 1))
    }
    var scores: [Float] = []
    // Each of them beside one of another place, 500 pairs in all.
    for place in 0..<places {
      for neighbour in 0..<neighbours / 2 {
        let other = (place + 1 + neighbour % (places - 1)) % places
        let a = Array(try row(place, neighbour))
        let b = try row(other, neighbours / 2 + neighbour)
        scores.append(b.baseAddress.map { ExactScore.dot(a, $0) } ?? 0)
      }
    }
    let found = Self.noiseFloor(of: &scores)
    noise.withLock { $0 = found }
    return found
  }

  /// What 95 of 100 scores stay below.
  static func noiseFloor(of scores: inout [Float]) -> Float {
    scores.sort()
    return scores.isEmpty ? -1 : scores[scores.count * 95 / 100]
  }

  // MARK: Terms

  /// Words of all passages, without stop words.
  func words() throws(IndexError) -> Int {
    if let known = wordTotal.withLock({ $0 }) { return known }
    var total = 0
    for length in try values(.lengths, as: UInt32.self) { total += Int(length) }
    wordTotal.withLock { $0 = total }
    return total
  }

  /// The table of terms, its sections looked up once for all terms of a query.
  func termTable() throws(IndexError) -> SegmentTerms {
    SegmentTerms(
      path: path, passages: footer.passages, count: footer.terms,
      offsets: try values(.termOffsets, as: UInt32.self), terms: try section(.terms),
      places: try values(.postingOffsets, as: UInt64.self), postings: try section(.postings))
  }
}
