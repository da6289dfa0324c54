// Passages with their vectors as JSON lines: what `mlxserve search --export` writes, or another program.

import JSON
import Platform
import Search
import Vectors

/// What is wrong with a line.
struct PassageLineError: Error, CustomStringConvertible {
  let file: String
  let line: Int
  let problem: String

  var description: String { "line \(line) of \(file): \(problem)" }
}

/// Joins lines of one document, which are neighbours, to documents of an index.
struct PassageReader {
  private let dimensions: Int
  private let fingerprint: String

  init(dimensions: Int, fingerprint: String) {
    (self.dimensions, self.fingerprint) = (dimensions, fingerprint)
  }

  private struct Line {
    var document: String
    var passage: Passage
    var rows: [(key: RowKey, vector: [Float])]
    var hasNameRow = false
  }

  /// - Parameters:
  ///   - name: of the file, for errors.
  ///   - put: gets each document with its vectors.
  /// - Returns: how many documents there were.
  func read(
    _ bytes: [UInt8], name: String, put: (NewDocument, [(key: RowKey, vector: [Float])]) throws -> Void
  ) throws -> Int {
    var count = 0
    var open: (document: NewDocument, rows: [(key: RowKey, vector: [Float])])?
    func close() throws {
      guard let done = open else { return }
      try put(done.document, done.rows)
      count += 1
    }
    let lines = bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
    for (number, text) in lines.enumerated() where !text.isEmpty {
      let line = try self.line(Array(text)) { PassageLineError(file: name, line: number + 1, problem: $0) }
      if open?.document.key != line.document {
        try close()
        // Without what an index knows of a file: a folder's update leaves such documents alone.
        open = (
          NewDocument(
            key: line.document, info: Array("{}".utf8),
            name: Array(DocumentName(path: line.document).words.utf8), passages: []), []
        )
      }
      if open?.document.passages.isEmpty == true { open?.document.hasNameRow = line.hasNameRow }
      open?.document.passages.append(line.passage)
      open?.rows += line.rows
    }
    try close()
    return count
  }

  private func line(_ text: [UInt8], _ fault: (String) -> PassageLineError) throws(PassageLineError) -> Line {
    guard let value = try? JSONValue(parsing: text), let body = value["text"]?.stringValue,
      let document = value["document"]?.stringValue, !document.isEmpty
    else { throw fault("it is not an object with 'document', 'text' and 'vectors'") }
    if let model = value["model"]?.stringValue, model != fingerprint {
      throw fault("its vectors are those of another model, or of another version of mlxserve")
    }
    let vectors = (value["vectors"]?.arrayValue ?? []).map { vector in
      (vector.arrayValue ?? []).compactMap { $0.doubleValue.map { Float($0) } }
    }
    guard !vectors.isEmpty, vectors.allSatisfy({ $0.count == dimensions }) else {
      throw fault("'vectors' has no vectors of \(dimensions) numbers")
    }
    let given = (value["keys"]?.arrayValue ?? []).compactMap { $0.stringValue.flatMap { RowKey(text: $0) } }
    let keys =
      given.count == vectors.count ? given : vectors.map { RowKey(of: Array("\(document) \($0)".utf8)) }
    let start = max(0, value["start"]?.intValue ?? 0)
    let (end, overflow) = start.addingReportingOverflow(body.utf8.count)
    guard !overflow else { throw fault("'start' is out of range") }
    var passage = Passage(
      text: Array(body.utf8), heading: Array((value["heading"]?.stringValue ?? "").utf8), range: start..<end,
      rows: keys)
    var rows = zip(keys, vectors).map { (key: $0, vector: $1) }
    guard let name = value["name_vector"]?.arrayValue, let text = value["name_key"]?.stringValue else {
      return Line(document: document, passage: passage, rows: rows)
    }
    let vector = name.compactMap { $0.doubleValue.map { Float($0) } }
    guard vector.count == dimensions, let key = RowKey(text: text) else {
      throw fault("'name_vector' has not \(dimensions) numbers, or 'name_key' is no key")
    }
    passage.rows.append(key)
    rows.append((key: key, vector: vector))
    return Line(document: document, passage: passage, rows: rows, hasNameRow: true)
  }
}
