// The layout of a segment: sections one after another, their checksums, and at the end a footer that finds them.
//
//   section, section, …  |  u64 checksum of every MiB before here  |  footer
//
// All numbers are little-endian; a section begins at a multiple of 64 bytes. A footer at the end lets a segment be written
// in one pass, whatever its size.

import Platform

/// The sections in their order in the file.
enum Section: Int, CaseIterable {
  /// Rows as bytes, `[rows][stride]`.
  case codes
  /// f32 of each row: the scale of its codes.
  case scales
  /// f32 of each row: the bound of their error.
  case errors
  /// The rows themselves, f32 `[rows][dimensions]`.
  case floats
  /// u32 of each row: its passage.
  case owners
  /// `PassageRecord` of each passage, and one more that ends the last.
  case passages
  /// Texts and headings of the passages.
  case texts
  /// `KeyRecord` of each row, sorted.
  case keys
  /// u32: where each term begins, and where the last one ends.
  case termOffsets
  /// Terms, sorted by their bytes.
  case terms
  /// u64: where the postings of each term begin, and where the last ones end.
  case postingOffsets
  /// Distances between passages and frequencies, as varints.
  case postings
  /// u32 of each passage: words without stop words.
  case lengths
  /// Every document: serial, first passage, first row, key, info; from version 3 on then of every document name and flags.
  case documents
  // From version 2 on; empty where there are few rows.
  /// Signs of the rows, 32 side by side (`SignRows`).
  case signs
  /// f32 of each row: the factor of its signs.
  case signFactors
  /// The mean that was taken off before, f32 `[dimensions]`.
  case signMean

  /// How many there are in a version.
  static func count(in version: Int) -> Int { version < 2 ? 14 : allCases.count }
}

/// A passage in its table; 32 bytes.
struct PassageRecord: BitwiseCopyable {
  /// Where its text begins in the texts; its heading follows.
  var text: UInt64
  var textBytes: UInt32
  var headingBytes: UInt32
  /// The bytes of the document's text that it is.
  var start: UInt32
  var end: UInt32
  var firstRow: UInt32
  /// The document's number in the segment.
  var document: UInt32
}

/// A row by its key; 24 bytes.
struct KeyRecord: BitwiseCopyable {
  var high: UInt64
  var low: UInt64
  var row: UInt32
  var padding: UInt32 = 0

  var key: RowKey { RowKey(high: high, low: low) }
}

/// What the end of a segment says of it.
struct SegmentFooter: Equatable {
  static let magic: UInt64 = 0x3158_4449_5356_4C4D
  static let version = 4
  /// Bytes: magic, version, dimensions, rows, passages, documents, terms, kind, then offset and count of every section,
  /// and a checksum.
  static func bytes(in version: Int) -> Int { 8 * (8 + 2 * Section.count(in: version) + 1) }
  static let block = 1 << 20

  var dimensions = 0
  var rows = 0
  var passages = 0
  var documents = 0
  var terms = 0
  /// Says with which model its vectors were made (`kind(of:)`); 0 where that was not written.
  var kind = 0
  var version = Self.version
  var hasNames: Bool { version >= 3 }
  /// Whether its terms are those of today's rules; those of an older version are written anew from its texts.
  var hasWholeWords: Bool { version >= 4 }
  /// Where each section is.
  var sections = [Range<Int>](repeating: 0..<0, count: Section.allCases.count)

  var encoded: [UInt8] {
    var writer = ByteWriter()
    writer.u64(Self.magic)
    for value in [version, dimensions, rows, passages, documents, terms, kind] { writer.u64(UInt64(value)) }
    for section in sections.prefix(Section.count(in: version)) {
      writer.u64(UInt64(section.lowerBound))
      writer.u64(UInt64(section.count))
    }
    writer.u64(Checksum.of(writer.bytes))
    return writer.bytes
  }

  /// The footer at the end of a segment, and where it begins; nil when there is none.
  static func find(in bytes: UnsafeRawBufferPointer) -> (footer: SegmentFooter, start: Int)? {
    for version in stride(from: Self.version, through: 1, by: -1) {
      let start = bytes.count - Self.bytes(in: version)
      if start >= 0, let footer = SegmentFooter(UnsafeRawBufferPointer(rebasing: bytes[start...]), end: start)
      {
        return (footer, start)
      }
    }
    return nil
  }

  private init?(_ bytes: UnsafeRawBufferPointer, end: Int) {
    var reader = ByteReader(bytes)
    guard reader.u64() == Self.magic,
      Checksum.of(Array(bytes.dropLast(8))) == Self.last(bytes)
    else { return nil }
    func number() -> Int? { reader.u64().flatMap { Int(exactly: $0) } }
    guard let version = number(), let dimensions = number(), let rows = number(), let passages = number(),
      let documents = number(), let terms = number(), let kind = number()
    else { return nil }
    guard version > Self.version || bytes.count == Self.bytes(in: version) else { return nil }
    self.version = version
    (self.dimensions, self.rows, self.passages) = (dimensions, rows, passages)
    (self.documents, self.terms, self.kind) = (documents, terms, kind)
    for index in 0..<Section.count(in: version) {
      guard let start = number(), let count = number(), start <= end, count <= end - start, start % 64 == 0
      else { return nil }
      sections[index] = start..<start + count
    }
  }

  init() {}

  /// A number for the fingerprint of an index, never 0.
  static func kind(of fingerprint: String) -> Int {
    Int(Checksum.of(Array(fingerprint.utf8)) >> 2) | 1
  }

  private static func last(_ bytes: UnsafeRawBufferPointer) -> UInt64? {
    var reader = ByteReader(UnsafeRawBufferPointer(rebasing: bytes.suffix(8)))
    return reader.u64()
  }
}
