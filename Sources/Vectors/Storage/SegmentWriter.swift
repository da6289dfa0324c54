// Writes a segment: every section in one pass over the documents, to a file or to memory.

import Platform

/// Where a segment's bytes go, with the checksums of its blocks.
struct SegmentSink {
  private let file: (files: any FileSystem, descriptor: Int, path: String)?
  /// Bytes that are not written yet; all of them when there is no file.
  private(set) var pending: [UInt8] = []
  private(set) var offset = 0
  private var written = 0
  private var sums: [UInt64] = []
  /// Of the pending bytes, those that belong to no whole block yet begin here.
  private var summed = 0

  /// Bytes that are written at once: Linux keeps what is written in such pieces in large pages, and a scan then waits less
  /// for the translation of addresses.
  private static let piece = 2 * SegmentFooter.block

  init(_ file: (files: any FileSystem, descriptor: Int, path: String)?) { self.file = file }

  mutating func append(_ bytes: UnsafeRawBufferPointer) throws(IndexError) {
    var rest = bytes[...]
    while !rest.isEmpty {
      let taken = rest.prefix(SegmentFooter.block - (pending.count - summed))
      pending.append(contentsOf: taken)
      offset += taken.count
      rest = rest.dropFirst(taken.count)
      if pending.count - summed == SegmentFooter.block { try endBlock() }
    }
  }

  mutating func append(_ bytes: [UInt8]) throws(IndexError) {
    // Typed throws do not pass through `withUnsafeBytes`.
    let result = bytes.withUnsafeBytes { buffer -> IndexError? in
      do throws(IndexError) { try append(buffer) } catch { return error }
      return nil
    }
    if let result { throw result }
  }

  mutating func append<Value: BitwiseCopyable>(values: [Value]) throws(IndexError) {
    let result = values.withUnsafeBytes { buffer -> IndexError? in
      do throws(IndexError) { try append(buffer) } catch { return error }
      return nil
    }
    if let result { throw result }
  }

  /// Zeros up to the next multiple of 64.
  mutating func align() throws(IndexError) {
    try append([UInt8](repeating: 0, count: (64 - offset % 64) % 64))
  }

  private mutating func endBlock() throws(IndexError) {
    sums.append(Checksum.of(pending[summed...]))
    summed = pending.count
    if pending.count >= Self.piece { try write() }
  }

  private mutating func write() throws(IndexError) {
    guard let file else { return }
    do throws(PlatformError) {
      try file.files.write(pending, to: file.descriptor, at: written, path: file.path)
    } catch {
      throw .system(error)
    }
    written += pending.count
    pending.removeAll(keepingCapacity: true)
    summed = 0
  }

  /// Appends the checksums and the footer.
  mutating func finish(_ footer: SegmentFooter) throws(IndexError) {
    if pending.count > summed { try endBlock() }
    var writer = ByteWriter()
    for sum in sums { writer.u64(sum) }
    pending += writer.bytes + footer.encoded
    try write()
  }
}

/// Documents as a segment.
struct SegmentWriter {
  private let dimensions: Int
  private let documents: [SourceDocument]
  private let kind: Int

  /// - Parameter documents: in the order of their serials. Their vectors must stay in place.
  init(dimensions: Int, documents: [SourceDocument], kind: Int = 0) {
    (self.dimensions, self.documents, self.kind) = (dimensions, documents, kind)
  }

  /// - Parameter reserve: told the bytes that the tables of words take; false where they are not to be had.
  /// - Throws: when a number does not fit the format, or a write fails.
  func write(
    to sink: inout SegmentSink, reserve: (Int) -> Bool = { _ in true }
  ) throws(IndexError) {
    var footer = SegmentFooter()
    footer.dimensions = dimensions
    footer.kind = kind
    footer.documents = documents.count
    for document in documents {
      footer.rows += document.vectors.count / max(1, dimensions)
      footer.passages += document.passages.count
    }
    guard footer.rows < 1 << 31, footer.passages < 1 << 31 else {
      throw .tooLarge(what: "the number of rows")
    }
    try writeRows(to: &sink, &footer)
    try writePassages(to: &sink, &footer)
    try writeTerms(to: &sink, &footer, reserve)
    try section(.documents, &sink, &footer) { sink throws(IndexError) in
      var (passage, row) = (0, 0)
      for document in documents {
        var writer = ByteWriter()
        writer.u64(document.serial)
        writer.u32(passage)
        writer.u32(row)
        writer.block(Array(document.key.utf8))
        writer.block(document.info)
        try sink.append(writer.bytes)
        passage += document.passages.count
        row += document.vectors.count / max(1, dimensions)
      }
      for document in documents {
        var writer = ByteWriter()
        writer.block(document.name)
        writer.u32(document.hasNameRow ? 1 : 0)
        try sink.append(writer.bytes)
      }
    }
    try writeSigns(to: &sink, &footer)
    try sink.finish(footer)
  }

  private func section(
    _ section: Section, _ sink: inout SegmentSink, _ footer: inout SegmentFooter,
    _ body: (inout SegmentSink) throws(IndexError) -> Void
  ) throws(IndexError) {
    try sink.align()
    let start = sink.offset
    try body(&sink)
    footer.sections[section.rawValue] = start..<sink.offset
  }

  private func writeRows(to sink: inout SegmentSink, _ footer: inout SegmentFooter) throws(IndexError) {
    var scales: [Float] = []
    var errors: [Float] = []
    var codes = [UInt8](repeating: 0, count: RowCode.stride(of: dimensions))
    try section(.codes, &sink, &footer) { sink throws(IndexError) in
      for document in documents {
        var at = 0
        while at + dimensions <= document.vectors.count {
          let row = UnsafeBufferPointer(rebasing: document.vectors[at..<at + dimensions])
          let (scale, error) = codes.withUnsafeMutableBufferPointer { codes in
            codes.baseAddress.map { RowCode.encode(row, into: $0) } ?? (0, 0)
          }
          scales.append(scale)
          errors.append(error)
          try sink.append(codes)
          at += dimensions
        }
      }
    }
    try section(.scales, &sink, &footer) { sink throws(IndexError) in try sink.append(values: scales) }
    try section(.errors, &sink, &footer) { sink throws(IndexError) in try sink.append(values: errors) }
    try section(.floats, &sink, &footer) { sink throws(IndexError) in
      for document in documents { try sink.append(UnsafeRawBufferPointer(document.vectors)) }
    }
  }

  /// Signs of many rows, 32 rows at a time.
  private func writeSigns(to sink: inout SegmentSink, _ footer: inout SegmentFooter) throws(IndexError) {
    guard footer.rows >= SignCode.leastRows else { return }
    let turn = SignTurn(dimensions: dimensions)
    let mean = mean(rows: footer.rows)
    var factors: [Float] = []
    let empty = [UInt8](repeating: 0, count: SignCode.blockRows * turn.rowBytes)
    try section(.signs, &sink, &footer) { sink throws(IndexError) in
      var block = empty
      for document in documents {
        var at = 0
        while at + dimensions <= document.vectors.count {
          let row = UnsafeBufferPointer(rebasing: document.vectors[at..<at + dimensions])
          let place = factors.count % SignCode.blockRows
          factors.append(SignCode.encode(turn(row, minus: mean), row: place, of: &block))
          if place == SignCode.blockRows - 1 {
            try sink.append(block)
            block = empty
          }
          at += dimensions
        }
      }
      if factors.count % SignCode.blockRows > 0 { try sink.append(block) }
    }
    try section(.signFactors, &sink, &footer) { sink throws(IndexError) in try sink.append(values: factors) }
    try section(.signMean, &sink, &footer) { sink throws(IndexError) in try sink.append(values: mean) }
  }

  /// The mean of the rows, by some of them.
  private func mean(rows: Int) -> [Float] {
    let step = max(1, rows / 65_536)
    var (sums, count, number) = ([Double](repeating: 0, count: dimensions), 0, 0)
    for document in documents {
      for at in stride(from: 0, to: document.vectors.count / max(1, dimensions) * dimensions, by: dimensions)
      {
        if number % step == 0 {
          for index in 0..<dimensions { sums[index] += Double(document.vectors[at + index]) }
          count += 1
        }
        number += 1
      }
    }
    return sums.map { Float($0 / Double(max(1, count))) }
  }

  private func writePassages(to sink: inout SegmentSink, _ footer: inout SegmentFooter) throws(IndexError) {
    var records: [PassageRecord] = []
    var owners: [UInt32] = []
    var keys: [KeyRecord] = []
    var text: UInt64 = 0
    for (number, document) in documents.enumerated() {
      for passage in document.passages {
        guard let start = UInt32(exactly: passage.range.lowerBound),
          let end = UInt32(exactly: passage.range.upperBound)
        else { throw .tooLarge(what: "the text of a document") }
        records.append(
          PassageRecord(
            text: text, textBytes: UInt32(truncatingIfNeeded: passage.text.count),
            headingBytes: UInt32(truncatingIfNeeded: passage.heading.count), start: start, end: end,
            firstRow: UInt32(truncatingIfNeeded: owners.count), document: UInt32(truncatingIfNeeded: number)))
        for key in passage.rows {
          keys.append(
            KeyRecord(high: key.high, low: key.low, row: UInt32(truncatingIfNeeded: owners.count)))
          owners.append(UInt32(truncatingIfNeeded: records.count - 1))
        }
        text += UInt64(passage.text.count + passage.heading.count)
      }
    }
    guard owners.count == footer.rows else { throw .missingRow }
    records.append(
      PassageRecord(
        text: text, textBytes: 0, headingBytes: 0, start: 0, end: 0,
        firstRow: UInt32(truncatingIfNeeded: owners.count),
        document: UInt32(truncatingIfNeeded: documents.count)))
    keys.sort { ($0.key, $0.row) < ($1.key, $1.row) }
    try section(.owners, &sink, &footer) { sink throws(IndexError) in try sink.append(values: owners) }
    try section(.passages, &sink, &footer) { sink throws(IndexError) in try sink.append(values: records) }
    try section(.texts, &sink, &footer) { sink throws(IndexError) in
      for document in documents {
        for passage in document.passages {
          try sink.append(passage.text)
          try sink.append(passage.heading)
        }
      }
    }
    try section(.keys, &sink, &footer) { sink throws(IndexError) in try sink.append(values: keys) }
  }

  private func writeTerms(
    to sink: inout SegmentSink, _ footer: inout SegmentFooter, _ reserve: (Int) -> Bool
  ) throws(IndexError) {
    var builder = TermTableBuilder()
    for document in documents {
      for passage in document.passages { try builder.add(passage.text, name: document.name, reserve) }
    }
    let tables = builder.tables()
    footer.terms = tables.termOffsets.count - 1
    guard tables.terms.count <= Int(UInt32.max) else { throw .tooLarge(what: "the number of terms") }
    try section(.termOffsets, &sink, &footer) { sink throws(IndexError) in
      try sink.append(values: tables.termOffsets)
    }
    try section(.terms, &sink, &footer) { sink throws(IndexError) in try sink.append(tables.terms) }
    try section(.postingOffsets, &sink, &footer) { sink throws(IndexError) in
      try sink.append(values: tables.postingOffsets)
    }
    try section(.postings, &sink, &footer) { sink throws(IndexError) in try sink.append(tables.postings) }
    try section(.lengths, &sink, &footer) { sink throws(IndexError) in
      try sink.append(values: builder.lengths)
    }
  }
}
