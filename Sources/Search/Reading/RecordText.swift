// Tables and JSON as lines of text: a record is one block of `name: value` lines.

import JSON

enum RecordText {
  /// Most bytes of a field of a table.
  private static let longestField = 1 << 20
  /// Most columns of a table: as many as a sheet of the usual programs has.
  static let mostColumns = 16_384
  /// Most bytes of the names of all columns.
  private static let longestHeader = 1 << 20

  /// What a reader holds of a table beside its text: a field and the names of the columns, both as they grow, and where
  /// each name ends.
  static func bytesToRead(table text: [UInt8]) -> Int {
    min(8 * text.count, 3 * (longestField + longestHeader) + 3 * 8 * mostColumns)
  }

  // MARK: JSON

  /// A JSON text as records; nil when it is none, or a single value. What its values take is claimed by the caller.
  static func json(_ text: [UInt8], _ reserve: (Int) -> Bool) throws(SearchError) -> [UInt8]? {
    guard let value = try? JSONValue(parsing: text) else { return nil }
    if let cells = value["cells"]?.arrayValue, value["nbformat"] != nil {
      return try Records.made(reserve) { (out) throws(SearchError) in try notebook(cells, &out) }
    }
    switch value {
    case .array(let elements):
      return try Records.made(reserve) { (out) throws(SearchError) in
        for element in elements { try append(element, to: &out) }
      }
    case .object:
      return try Records.made(reserve) { (out) throws(SearchError) in try append(value, to: &out) }
    default: return nil
    }
  }

  /// One record per line; a line that is no JSON is kept as it is. What the values of one line take is claimed by the
  /// caller.
  static func jsonLines(_ text: [UInt8], _ reserve: (Int) -> Bool) throws(SearchError) -> [UInt8] {
    try Records.made(reserve) { (out) throws(SearchError) in
      for line in LineRanges(text) where text[line].contains(where: { $0 > 0x20 }) {
        if let value = try? JSONValue(parsing: Array(text[line])) {
          try append(value, to: &out)
        } else {
          try out.add(text[line])
          try out.add("\n\n".utf8)
        }
      }
    }
  }

  private static func append(_ value: JSONValue, to out: inout Records) throws(SearchError) {
    // One for all depths: a path for each would be as many copies of a long name.
    var path: [UInt8] = []
    try lines(value, &path, depth: 0, &out)
    try out.add("\n".utf8)
  }

  private static func lines(
    _ value: JSONValue, _ path: inout [UInt8], depth: Int, _ out: inout Records
  ) throws(SearchError) {
    switch value {
    case .object(let object) where depth < 64:
      let length = path.count
      for (key, value) in object.entries {
        if length > 0 { path.append(UInt8(ascii: ".")) }
        path += key.utf8
        try lines(value, &path, depth: depth + 1, &out)
        path.removeLast(path.count - length)
      }
    case .array(let elements) where depth < 64:
      for element in elements { try lines(element, &path, depth: depth + 1, &out) }
    case .null: break
    case .string(let text): try line(path[...], text.utf8, &out)
    default: try line(path[...], value.bytes, &out)
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

  /// The cells of a notebook.
  private static func notebook(_ cells: [JSONValue], _ out: inout Records) throws(SearchError) {
    for cell in cells {
      if let text = cell["source"]?.stringValue { try out.add(text.utf8) }
      for part in cell["source"]?.arrayValue ?? [] {
        if let text = part.stringValue { try out.add(text.utf8) }
      }
      try out.add("\n\n".utf8)
    }
  }

  // MARK: Tables

  /// Rows of a table (RFC 4180) as records, each with the names of its columns.
  static func table(
    _ text: [UInt8], separator: UInt8, _ reserve: (Int) -> Bool
  ) throws(SearchError) -> [UInt8] {
    try Records.made(reserve) { (out) throws(SearchError) in
      var reader = TableReader(text, separator)
      guard let header = try header(&reader) else { return }
      var hasRecords = false
      while !reader.isAtEnd {
        var isEmpty = true
        try forEachField(of: &reader) { column, field throws(SearchError) in
          guard !field.isEmpty else { return }
          isEmpty = false
          try line(header.name(column), field, &out)
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
      try forEachField(of: &reader) { _, field throws(SearchError) in
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
    of reader: inout TableReader, _ body: (_ column: Int, _ field: [UInt8]) throws(SearchError) -> Void
  ) throws(SearchError) {
    var column = 0
    var hasMore = true
    while hasMore {
      hasMore = try reader.next()
      guard column < mostColumns else {
        throw .invalidFile("the table has more than \(mostColumns) columns")
      }
      try body(column, reader.field)
      column += 1
    }
  }

  /// Fields of a table, one after another.
  private struct TableReader {
    private let text: [UInt8]
    private let separator: UInt8
    private var at = 0
    /// The one that was read last.
    private(set) var field: [UInt8] = []

    init(_ text: [UInt8], _ separator: UInt8) { (self.text, self.separator) = (text, separator) }

    var isAtEnd: Bool { at >= text.count }

    /// Reads a field; false for the last of its row.
    mutating func next() throws(SearchError) -> Bool {
      let (quote, newline) = (UInt8(ascii: "\""), UInt8(ascii: "\n"))
      field.removeAll(keepingCapacity: true)
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

  /// - Throws: `noMemory` where the bytes cannot be claimed, `invalidFile` where they are too many.
  static func made(
    _ reserve: (Int) -> Bool, _ write: (inout Records) throws(SearchError) -> Void
  ) throws(SearchError) -> [UInt8] {
    var records = Records()
    try write(&records)
    guard reserve(records.count) else { throw .noMemory(bytes: records.count) }
    records.bytes.reserveCapacity(records.count)
    (records.isCounting, records.count) = (false, 0)
    try write(&records)
    return records.bytes
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
