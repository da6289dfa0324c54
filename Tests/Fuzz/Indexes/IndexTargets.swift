// Files of an index: its log and its segments, and those beside it.

import Driver
import Platform

@testable import Vectors

@_cdecl("fuzz_indexes_main")
public func main(_ count: CInt, _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?) -> CInt {
  Fuzz.run(count, arguments, ["index": IndexTargets.index])
}

enum IndexTargets {
  /// The first byte chooses: a record of a log of that kind, after two whole ones; a file beside the index; or a segment whose
  /// sums are made right.
  static func index(_ bytes: [UInt8]) {
    guard let kind = bytes.first else { return }
    let rest = Array(bytes.dropFirst())
    if let kind = LogKind(rawValue: Int(kind)) {
      guard let view = try? recovered([(kind, rest)]) else { return }
      use(view)
    } else if kind == 255 {
      side(rest)
    } else {
      segment(rest)
    }
  }

  /// A document in memory, with a vector of its own.
  private static func recovered(_ records: [(LogKind, [UInt8])]) throws -> IndexView {
    let key = RowKey(high: 1, low: 2)
    let passage = Passage(text: Array("hello world".utf8), range: 0..<11, rows: [key])
    let whole: [(LogKind, [UInt8])] = [
      (.rows, IndexWriter.payload(rows: [(key: key, vector: [0.5, 0.5, 0.5, 0.5])])),
      (.document, IndexWriter.payload(NewDocument(key: "k", info: [], passages: [passage]), serial: 1)),
    ]
    var recovery = IndexRecovery(Manifest(fingerprint: "f", dimensions: 4))
    for (kind, payload) in whole + records {
      try SharedBytes(copying: payload).bytes.withMemoryRebound(to: UInt8.self) { bytes in
        try recovery.take(kind, UnsafeRawBufferPointer(bytes))
      }
    }
    return try recovery.finish()
  }

  private static let template: [UInt8] = {
    let passage = Passage(text: Array("hello world".utf8), range: 0..<11, rows: [RowKey(high: 1, low: 2)])
    let document = NewDocument(key: "k", info: [], passages: [passage])
    var sink = SegmentSink(nil)
    let vectors: [Float] = [0.5, 0.5, 0.5, 0.5]
    vectors.withUnsafeBufferPointer { vectors in
      let source = SourceDocument(
        key: "k", info: [], serial: 1, name: Array("a name".utf8), passages: document.passages,
        hasNameRow: false,
        vectors: vectors)
      try? SegmentWriter(dimensions: 4, documents: [source]).write(to: &sink)
    }
    return sink.pending
  }()

  /// Pairs of a place and a byte change a whole segment.
  private static func segment(_ changes: [UInt8]) {
    var bytes = template
    for at in stride(from: 0, to: changes.count - 2, by: 3) {
      bytes[(Int(changes[at]) << 8 | Int(changes[at + 1])) % bytes.count] = changes[at + 2]
    }
    let end = bytes.count - SegmentFooter.bytes(in: SegmentFooter.version)
    write(Checksum.of(bytes[..<(end - 8)]), to: &bytes, at: end - 8)
    write(Checksum.of(bytes[end..<(bytes.count - 8)]), to: &bytes, at: bytes.count - 8)
    guard let segment = try? Segment(SharedBytes(copying: bytes), path: "s"), segment.footer.dimensions == 4
    else { return }
    var view = IndexView(dimensions: 4)
    view.append(segment, Manifest.Entry(name: "s"))
    use(view)
  }

  /// A file with a right table of wrong records, four bytes each: a key, where its entry begins, and how long it is.
  private static func side(_ bytes: [UInt8]) {
    let count = min(Int(bytes.first ?? 0), bytes.count / 4)
    let maker = RowKey(high: 1, low: 1)
    let records = (0..<count).map { number -> SideRecord in
      let four = bytes[(4 * number)..<(4 * number + 4)].map(UInt64.init)
      // The longest are longer than any file.
      let start = four[1] == 255 ? UInt64.max - four[2] : four[1] << 8 | four[2]
      return SideRecord(
        high: four[0], low: 0, offset: start, count: four[3] == 255 ? .max : UInt32(four[3]))
    }
    let whole = bytes + SideFile.ending(records, at: bytes.count, maker: maker)
    guard let file = SideFile(SharedBytes(copying: whole), name: "s") else {
      return check(false, "a file with a right end is one")
    }
    check(file.count == count, "all records are there")
    for record in file.records {
      check(file.has(record.key), "a record is found by its key")
      check((file.entry(record)?.count ?? 0) <= bytes.count, "an entry lies in its file")
      _ = file.bytes(of: record.key)
    }
    // The end itself, changed.
    _ = SideFile(SharedBytes(copying: bytes), name: "s")?.records
  }

  private static func write(_ value: UInt64, to bytes: inout [UInt8], at place: Int) {
    for byte in 0..<8 { bytes[place + byte] = UInt8(truncatingIfNeeded: value >> UInt64(8 * byte)) }
  }

  private static func use(_ view: IndexView) {
    if let found = try? view.nearest([0.5, 0.5, 0.5, 0.5], limit: 3) {
      check(found.hits.count <= 3, "a search finds no more than it is asked for")
      for hit in found.hits { _ = try? view.passage(hit) }
    }
    _ = try? view.byWords(WordQuery(Array("hello".utf8)), limit: 3)
    for document in view.documents { _ = try? view.exported(document.key) }
  }
}
