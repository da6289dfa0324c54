// Tables and JSON as lines of text: a record is one block of `name: value` lines.

import JSON

enum RecordText {
  /// Most bytes of a field of a table.
  private static let longestField = 1 << 20

  // MARK: JSON

  /// A JSON text as records; nil when it is none, or a single value.
  static func json(_ text: [UInt8]) throws(SearchError) -> [UInt8]? {
    guard let value = try? JSONValue(parsing: text) else { return nil }
    if let cells = value["cells"]?.arrayValue, value["nbformat"] != nil { return notebook(cells) }
    var out: [UInt8] = []
    switch value {
    case .array(let elements):
      for element in elements { try append(element, to: &out) }
    case .object: try append(value, to: &out)
    default: return nil
    }
    return out
  }

  /// One record per line; a line that is no JSON is kept as it is.
  static func jsonLines(_ text: [UInt8]) throws(SearchError) -> [UInt8] {
    var out: [UInt8] = []
    for line in text.split(separator: UInt8(ascii: "\n")) where line.contains(where: { $0 > 0x20 }) {
      if let value = try? JSONValue(parsing: Array(line)) {
        try append(value, to: &out)
      } else {
        out += line + [UInt8(ascii: "\n"), UInt8(ascii: "\n")]
      }
    }
    return out
  }

  private static func append(_ value: JSONValue, to out: inout [UInt8]) throws(SearchError) {
    try lines(value, path: "", depth: 0, &out)
    out.append(UInt8(ascii: "\n"))
  }

  private static func lines(
    _ value: JSONValue, path: String, depth: Int, _ out: inout [UInt8]
  ) throws(SearchError) {
    switch value {
    case .object(let object) where depth < 64:
      for (key, value) in object.entries {
        try lines(value, path: path.isEmpty ? key : path + "." + key, depth: depth + 1, &out)
      }
    case .array(let elements) where depth < 64:
      for element in elements { try lines(element, path: path, depth: depth + 1, &out) }
    case .null: break
    case .string(let text): try line(path, Array(text.utf8), &out)
    default: try line(path, value.bytes, &out)
    }
  }

  /// Names stand in front of every value, so that a file can become much longer than it is.
  private static func line(_ path: String, _ value: [UInt8], _ out: inout [UInt8]) throws(SearchError) {
    guard out.count + path.utf8.count + value.count < FileReader.limit else {
      throw .invalidFile("as records the file has more than \(FileReader.limit >> 20) MiB")
    }
    if !path.isEmpty { out += Array("\(path): ".utf8) }
    out += value
    out.append(UInt8(ascii: "\n"))
  }

  /// The cells of a notebook.
  private static func notebook(_ cells: [JSONValue]) -> [UInt8] {
    var out: [UInt8] = []
    for cell in cells {
      let source = cell["source"]
      let text = source?.stringValue ?? (source?.arrayValue ?? []).compactMap(\.stringValue).joined()
      out += Array(text.utf8)
      out += Array("\n\n".utf8)
    }
    return out
  }

  // MARK: Tables

  /// Rows of a table (RFC 4180) as records, each with the names of its columns.
  static func table(_ text: [UInt8], separator: UInt8) throws(SearchError) -> [UInt8] {
    var out: [UInt8] = []
    var header: [[UInt8]] = []
    var at = 0
    while at < text.count {
      let row = try row(text, &at, separator)
      guard row.contains(where: { !$0.isEmpty }) else { continue }
      if header.isEmpty {
        header = row
        continue
      }
      for (index, field) in row.enumerated() where !field.isEmpty {
        try line(index < header.count ? String(decoding: header[index], as: UTF8.self) : "", field, &out)
      }
      out.append(UInt8(ascii: "\n"))
    }
    // A table of one row is its header.
    if out.isEmpty { for field in header { try line("", field, &out) } }
    return out
  }

  private static func row(_ text: [UInt8], _ at: inout Int, _ separator: UInt8) throws(SearchError)
    -> [[UInt8]]
  {
    let (quote, newline) = (UInt8(ascii: "\""), UInt8(ascii: "\n"))
    var fields: [[UInt8]] = []
    var field: [UInt8] = []
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
        fields.append(field)
        field = []
        isFresh = true
      } else if byte == newline {
        break
      } else {
        field.append(byte)
        isFresh = false
      }
      guard field.count <= longestField else {
        throw .invalidFile("a field of the table has more than \(longestField) bytes: is a quote missing?")
      }
    }
    return fields + [field]
  }
}
