// Tables and JSON as lines of text: a record is one block of `name: value` lines.

import JSON

enum RecordText {
  /// Most bytes of a field of a table.
  private static let longestField = 1 << 20
  /// Most columns of a table: as many as a sheet of the usual programs has.
  static let mostColumns = 16_384
  /// Arrays and objects nested deeper than this are no records.
  private static let deepest = 128
  /// Most bytes of the names of all columns.
  private static let longestHeader = 1 << 20

  /// What a reader holds of a table beside its text: a field and the names of the columns, both as they grow, and where
  /// each name ends.
  static func bytesToRead(table text: [UInt8]) -> Int {
    min(8 * text.count, 3 * (longestField + longestHeader) + 3 * 8 * mostColumns)
  }

  // MARK: JSON

  /// A JSON text as records; nil when it is none, or a single value.
  static func json(
    _ text: [UInt8], _ lines: inout LineMap?, _ reserve: (Int) -> Bool
  ) throws(SearchError) -> [UInt8]? {
    var isJSON = false
    let found = try Records.made(reserve, &lines) { (out) throws(SearchError) in
      isJSON = try out.isJSON { out in
        var reader = try JSONReader(text)
        let isArray = reader.isAtArray()
        guard isArray || reader.next == UInt8(ascii: "{") else { throw reader.problem("a single value") }
        if !isArray, var cells = try cells(reader) {
          try append(notebook: &cells, of: text, to: &out)
          try reader.skipValue()
        } else if isArray {
          try reader.enterArray()
          while try reader.nextElement() { try append(&reader, of: text, to: &out) }
        } else {
          try append(&reader, of: text, to: &out)
        }
        try reader.finish()
      }
    }
    return isJSON ? found : nil
  }

  /// One record per line; a line that is no JSON is kept as it is.
  static func jsonLines(
    _ text: [UInt8], _ lines: inout LineMap?, _ reserve: (Int) -> Bool
  ) throws(SearchError) -> [UInt8] {
    try Records.made(reserve, &lines) { (out) throws(SearchError) in
      for line in LineRanges(text) where text[line].contains(where: { $0 > 0x20 }) {
        out.note(line.lowerBound, of: text)
        let isJSON = try out.isJSON { out in
          var reader = try JSONReader(Array(text[line]))
          _ = reader.isAtArray()
          try append(&reader, of: nil, to: &out)
          try reader.finish()
        }
        guard !isJSON else { continue }
        try out.add(text[line])
        try out.add("\n\n".utf8)
      }
    }
  }

  /// The value that is next, as a record.
  ///
  /// - Parameter file: what the reader reads, where lines are noted.
  private static func append(
    _ reader: inout JSONReader, of file: [UInt8]?, to out: inout Records
  ) throws {
    // One for all depths: a path for each would be as many copies of a long name.
    var path: [UInt8] = []
    try append(&reader, of: file, &path, depth: 0, to: &out)
    try out.add("\n".utf8)
  }

  private static func append(
    _ reader: inout JSONReader, of file: [UInt8]?, _ path: inout [UInt8], depth: Int, to out: inout Records
  ) throws {
    switch reader.next {
    case UInt8(ascii: "{") where depth >= deepest, UInt8(ascii: "[") where depth >= deepest:
      throw reader.problem("nested too deeply")
    case UInt8(ascii: "{"):
      let length = path.count
      var key: [UInt8] = []
      try reader.enterObject()
      while try reader.nextKey(into: &key) {
        if length > 0 { path.append(UInt8(ascii: ".")) }
        path += key
        try append(&reader, of: file, &path, depth: depth + 1, to: &out)
        path.removeLast(path.count - length)
      }
    case UInt8(ascii: "["):
      try reader.enterArray()
      while try reader.nextElement() { try append(&reader, of: file, &path, depth: depth + 1, to: &out) }
    default:
      if let file { out.note(reader.position, of: file) }
      switch try reader.readValue() {
      case .null: break
      case .string(let text): try line(path[...], text.utf8, &out)
      case let value: try line(path[...], value.bytes, &out)
      }
    }
  }

  /// Names stand in front of every value, so that a file can become much longer than it is.
  private static func line(
    _ name: ArraySlice<UInt8>, _ value: some Collection<UInt8>, _ out: inout Records
  ) throws(SearchError) {
    if !name.isEmpty {
      try out.add(name)
      try out.add(": ".utf8)
    }
    try out.add(value)
    try out.add("\n".utf8)
  }

  /// A reader at the cells of a notebook; nil for another object.
  private static func cells(_ reader: JSONReader) throws -> JSONReader? {
    var (reader, found, isNotebook) = (reader, JSONReader?.none, false)
    var key: [UInt8] = []
    try reader.enterObject()
    while try reader.nextKey(into: &key) {
      if key.elementsEqual("cells".utf8), reader.isAtArray() { found = reader }
      if key.elementsEqual("nbformat".utf8) { isNotebook = true }
      try reader.skipValue()
    }
    return isNotebook ? found : nil
  }

  /// The text of each cell.
  private static func append(
    notebook reader: inout JSONReader, of file: [UInt8], to out: inout Records
  ) throws {
    func addText(_ reader: inout JSONReader, _ out: inout Records) throws {
      let offset = reader.position
      guard let text = try reader.readValue().stringValue else { return }
      out.note(offset, of: file)
      try out.add(text.utf8)
    }
    var key: [UInt8] = []
    try reader.enterArray()
    while try reader.nextElement() {
      guard reader.next == UInt8(ascii: "{") else {
        try reader.skipValue()
        continue
      }
      try reader.enterObject()
      while try reader.nextKey(into: &key) {
        if !key.elementsEqual("source".utf8) {
          try reader.skipValue()
        } else if reader.isAtArray() {
          try reader.enterArray()
          while try reader.nextElement() { try addText(&reader, &out) }
        } else {
          try addText(&reader, &out)
        }
      }
      try out.add("\n\n".utf8)
    }
  }

  // MARK: Tables

  /// Rows of a table (RFC 4180) as records, each with the names of its columns.
  static func table(
    _ text: [UInt8], separator: UInt8, _ lines: inout LineMap?, _ reserve: (Int) -> Bool
  ) throws(SearchError) -> [UInt8] {
    try Records.made(reserve, &lines) { (out) throws(SearchError) in
      var reader = TableReader(text, separator)
      guard let header = try header(&reader) else { return }
      var hasRecords = false
      while !reader.isAtEnd {
        var isEmpty = true
        try forEachField(of: &reader) { column, field, start throws(SearchError) in
          guard !field.isEmpty else { return }
          isEmpty = false
          out.note(start, of: text)
          try line(header.name(column), field, &out)
          out.noteLines(field, from: start, of: text)
        }
        guard !isEmpty else { continue }
        hasRecords = true
        try out.add("\n".utf8)
      }
      guard !hasRecords else { return }
      // A table of one row is its header.
      for column in header.ends.indices { try line([], header.name(column), &out) }
    }
  }

  /// The names of the columns.
  private struct Header {
    /// One after the other.
    var names: [UInt8] = []
    /// Where each ends.
    var ends: [Int] = []

    /// Empty for a column that the first row does not have.
    func name(_ column: Int) -> ArraySlice<UInt8> {
      guard column < ends.count else { return [] }
      return names[(column == 0 ? 0 : ends[column - 1])..<ends[column]]
    }
  }

  /// The first row that is not empty; nil when there is none.
  private static func header(_ reader: inout TableReader) throws(SearchError) -> Header? {
    while !reader.isAtEnd {
      var header = Header()
      try forEachField(of: &reader) { _, field, _ throws(SearchError) in
        guard header.names.count + field.count <= longestHeader else {
          throw .invalidFile("the names of the table's columns have more than \(longestHeader >> 20) MiB")
        }
        header.names += field
        header.ends.append(header.names.count)
      }
      if !header.names.isEmpty { return header }
    }
    return nil
  }

  /// The fields of a row; one at a time is held.
  private static func forEachField(
    of reader: inout TableReader,
    _ body: (_ column: Int, _ field: [UInt8], _ start: Int) throws(SearchError) -> Void
  ) throws(SearchError) {
    var column = 0
    var hasMore = true
    while hasMore {
      hasMore = try reader.next()
      guard column < mostColumns else {
        throw .invalidFile("the table has more than \(mostColumns) columns")
      }
      try body(column, reader.field, reader.fieldStart)
      column += 1
    }
  }

  /// Fields of a table, one after another.
  private struct TableReader {
    private let text: [UInt8]
    private let separator: UInt8
    private var at = 0
    /// The one that was read last, and where it begins.
    private(set) var field: [UInt8] = []
    private(set) var fieldStart = 0

    init(_ text: [UInt8], _ separator: UInt8) { (self.text, self.separator) = (text, separator) }

    var isAtEnd: Bool { at >= text.count }

    /// Reads a field; false for the last of its row.
    mutating func next() throws(SearchError) -> Bool {
      let (quote, newline) = (UInt8(ascii: "\""), UInt8(ascii: "\n"))
      field.removeAll(keepingCapacity: true)
      fieldStart = at
      var isQuoted = false
      var isFresh = true
      while at < text.count {
        let byte = text[at]
        at += 1
        if isQuoted {
          if byte != quote {
            field.append(byte)
          } else if at < text.count, text[at] == quote {
            field.append(quote)
            at += 1
          } else {
            isQuoted = false
          }
        } else if byte == quote, isFresh {
          isQuoted = true
          isFresh = false
        } else if byte == separator {
          return true
        } else if byte == newline {
          return false
        } else {
          field.append(byte)
          isFresh = false
        }
        guard field.count <= longestField else {
          throw .invalidFile("a field of the table has more than \(longestField) bytes: is a quote missing?")
        }
      }
      return false
    }
  }
}

/// Text in the making. It is made twice: the first time its bytes are only counted, so that they can be claimed and take
/// no more than they are.
private struct Records {
  private var bytes: [UInt8] = []
  private var count = 0
  private var isCounting = true
  /// Where the second time is noted what comes from where; nil where nobody asks.
  private var lines: LineMap?

  /// - Throws: `noMemory` where the bytes cannot be claimed, `invalidFile` where they are too many.
  static func made(
    _ reserve: (Int) -> Bool, _ lines: inout LineMap?, _ write: (inout Records) throws(SearchError) -> Void
  ) throws(SearchError) -> [UInt8] {
    var records = Records()
    try write(&records)
    guard reserve(records.count) else { throw .noMemory(bytes: records.count) }
    records.bytes.reserveCapacity(records.count)
    (records.isCounting, records.count, records.lines) = (false, 0, lines)
    try write(&records)
    lines = records.lines
    return records.bytes
  }

  /// What is added next stands at `offset` of the file.
  mutating func note(_ offset: Int, of file: [UInt8]) {
    if !isCounting { lines?.note(offset, of: file, at: bytes.count) }
  }

  /// The line that was added last ends with a field whose line breaks are those of the file.
  mutating func noteLines(_ field: [UInt8], from start: Int, of file: [UInt8]) {
    let newline = UInt8(ascii: "\n")
    guard !isCounting, lines != nil, field.contains(newline) else { return }
    var offset = start
    let place = bytes.count - 1 - field.count
    for (index, byte) in field.enumerated() where byte == newline {
      while offset < file.count, file[offset] != newline { offset += 1 }
      offset += 1
      lines?.note(offset, of: file, at: place + index + 1)
    }
  }

  /// Whether what `write` reads is JSON. If not, nothing of it stays.
  mutating func isJSON(_ write: (inout Records) throws -> Void) throws(SearchError) -> Bool {
    let before = (bytes: bytes.count, count: count)
    do {
      try write(&self)
      return true
    } catch let error as SearchError {
      throw error
    } catch {
      bytes.removeSubrange(before.bytes...)
      count = before.count
      return false
    }
  }

  mutating func add(_ part: some Collection<UInt8>) throws(SearchError) {
    count += part.count
    guard count < FileReader.limit else {
      throw .invalidFile("as records the file has more than \(FileReader.limit >> 20) MiB")
    }
    if !isCounting { bytes += part }
  }
}

/// The lines of a text, without their ends.
struct LineRanges: Sequence, IteratorProtocol {
  private let text: [UInt8]
  private var at = 0

  init(_ text: [UInt8]) { self.text = text }

  mutating func next() -> Range<Int>? {
    guard at < text.count else { return nil }
    let start = at
    let end = text[start...].firstIndex(of: UInt8(ascii: "\n")) ?? text.count
    at = end + 1
    return start..<end
  }
}
