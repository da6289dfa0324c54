// The tools over notes as data: their schemas, and what each does.

package import JSON

/// Arguments of a call, read with their bounds.
struct ToolArguments {
  /// Bytes of a text.
  static let longest = 8_000
  private let object: JSONObject

  init(_ object: JSONObject) { self.object = object }

  func text(_ name: String, longest: Int = longest) throws(NoteError) -> String? {
    guard let value = object[name], value != .null else { return nil }
    guard let text = value.stringValue else { throw .failed("'\(name)' is a text") }
    guard text.utf8.count <= longest else { throw .failed("'\(name)' is longer than \(longest) bytes") }
    return text
  }

  func isTrue(_ name: String) throws(NoteError) -> Bool {
    guard let value = object[name], value != .null else { return false }
    guard let isTrue = value.boolValue else { throw .failed("'\(name)' is true or false") }
    return isTrue
  }

  func needed(_ name: String, longest: Int = longest) throws(NoteError) -> String {
    guard let text = try text(name, longest: longest), text.contains(where: { !$0.isWhitespace }) else {
      throw .failed("'\(name)' is missing")
    }
    return text
  }

  func number(_ name: String, in range: ClosedRange<Int>, usual: Int) throws(NoteError) -> Int {
    guard let value = object[name], value != .null else { return usual }
    guard let number = value.intValue, range.contains(number) else {
      throw .failed("'\(name)' is a whole number from \(range.lowerBound) to \(range.upperBound)")
    }
    return number
  }
}

/// What a tool says: as text for a model, and as a value for a program.
struct ToolResult {
  var text: String
  var value: JSONValue

  var json: JSONValue {
    ["content": [["type": "text", "text": .string(text)]], "structuredContent": value, "isError": false]
  }
}

struct NoteTool: Sendable {
  let name: String
  private let title: String
  private let description: String
  private let input: JSONValue
  private let required: [String]
  private let output: JSONValue
  private var isReadOnly = true
  let run: @Sendable (ToolArguments, any NoteSource, MCPWork) throws(NoteError) -> ToolResult

  /// Those that a source can do.
  static func all(_ source: any NoteSource) -> [NoteTool] {
    [search, read, list] + (source.answers ? [ask] : []) + (source.writes ? [write] : [])
  }

  /// As `tools/list` tells of it.
  var json: JSONValue {
    [
      "name": .string(name), "title": .string(title), "description": .string(description),
      "inputSchema": [
        "type": "object", "properties": input, "required": .array(required.map { .string($0) }),
      ],
      "outputSchema": [
        "type": "object", "properties": output,
        "required": .array((output.objectValue?.keys ?? []).map { .string($0) }),
      ],
      "annotations": [
        "title": .string(title), "readOnlyHint": .bool(isReadOnly), "destructiveHint": false,
        "idempotentHint": .bool(isReadOnly), "openWorldHint": false,
      ],
    ]
  }

  // MARK: Schemas

  private static let folder: JSONValue = [
    "type": "string",
    "description": "one folder or store by its name, as list_notes tells them; all without it",
  ]
  private static let question: JSONValue = ["type": "string", "description": "what is looked for, in words"]

  private static func number(_ range: ClosedRange<Int>, _ usual: Int, _ words: String) -> JSONValue {
    [
      "type": "integer", "minimum": .int(range.lowerBound), "maximum": .int(range.upperBound),
      "default": .int(usual), "description": .string(words),
    ]
  }

  private static func objects(_ members: JSONValue) -> JSONValue {
    ["type": "array", "items": ["type": "object", "properties": members]]
  }

  private static let (text, integer): (JSONValue, JSONValue) = (["type": "string"], ["type": "integer"])

  // MARK: Search

  private static let limits = 1...20

  static let search = NoteTool(
    name: "search_notes", title: "Search notes",
    description:
      "Finds passages of the user's notes by meaning and by words. Each result has the note's path, the line, the sentence "
      + "that answers best, and why it was found. Use it before read_note.",
    input: [
      "query": question, "limit": number(limits, 5, "how many results"), "folder": folder,
    ], required: ["query"],
    output: [
      "results": objects([
        "note": text, "title": text, "uri": text, "line": integer, "page": integer,
        "score": ["type": "number"], "sentence": text, "why": text, "text": text,
      ])
    ]
  ) { (arguments, source, work) throws(NoteError) in
    let passages = try source.search(
      arguments.needed("query"), in: chosen(arguments, source, work),
      limit: arguments.number("limit", in: limits, usual: 5), work)
    return ToolResult(
      text: passages.isEmpty
        ? "Nothing was found." : passages.enumerated().map { $1.words($0 + 1) }.joined(separator: "\n\n"),
      value: ["results": .array(passages.map(\.json))])
  }

  /// The folder that a call names.
  private static func chosen(
    _ arguments: ToolArguments, _ source: any NoteSource, _ work: MCPWork
  ) throws(NoteError) -> String? {
    guard let name = try arguments.text("folder"), !name.isEmpty else { return nil }
    let folders = try source.folders(work)
    guard let folder = folders.first(where: { $0.utf8.elementsEqual(name.utf8) }) else {
      throw .failed("there is no folder '\(name.prefix(100))'; there are: \(folders.joined(separator: ", "))")
    }
    return folder
  }

  // MARK: Read

  private static let lineRange = 1...10_000_000
  /// Bytes of one answer: what is more is read with another call.
  private static let mostBytes = 64 << 10

  static let read = NoteTool(
    name: "read_note", title: "Read a note",
    description:
      "The text of a note, whole or from a line on. Long notes come in parts: next_line says where to go on.",
    input: [
      "note": [
        "type": "string", "description": "the path of the note, as search_notes or list_notes shows it",
      ],
      "line": number(lineRange, 1, "the first line"), "lines": number(1...5_000, 400, "how many lines"),
    ], required: ["note"],
    output: [
      "note": text, "uri": text, "line": integer, "lines": integer, "total_lines": integer, "text": text,
    ]
  ) { (arguments, source, work) throws(NoteError) in
    let name = try arguments.needed("note")
    let first = try arguments.number("line", in: lineRange, usual: 1)
    let count = try arguments.number("lines", in: 1...5_000, usual: 400)
    let notes = try source.notes(work)
    // Its title will do where no other has it.
    let titled = notes.filter { $0.title.utf8.elementsEqual(name.utf8) }
    guard let note = notes.first(where: { $0.isNamed(name) }) ?? (titled.count == 1 ? titled[0] : nil) else {
      throw .failed("there is no note '\(name.prefix(300))'; list_notes shows those that there are")
    }
    var lines = try source.text(of: note, work).split(separator: "\n", omittingEmptySubsequences: false)
    if lines.last == "" { lines.removeLast() }
    let total = lines.count
    guard first <= max(1, total) else { throw .failed("the note has \(total) lines") }
    var (part, bytes): ([Substring], Int) = ([], 0)
    for line in lines.dropFirst(first - 1).prefix(count) {
      bytes += line.utf8.count + 1
      // One line that is longer than all that may be told is cut.
      if bytes > mostBytes {
        if part.isEmpty { part.append(Substring(decoding: line.utf8.prefix(mostBytes), as: UTF8.self)) }
        break
      }
      part.append(line)
    }
    let next = first + part.count
    var value = JSONObject([
      ("note", .string(note.name)), ("uri", .string(note.uri)), ("line", .int(first)),
      ("lines", .int(part.count)), ("total_lines", .int(total)),
      ("text", .string(part.joined(separator: "\n"))),
    ])
    if next <= total { value["next_line"] = .int(next) }
    return ToolResult(
      text: part.joined(separator: "\n")
        + (next <= total ? "\n[\(total - next + 1) more lines: call read_note with line \(next)]" : ""),
      value: .object(value))
  }

  // MARK: List

  static let list = NoteTool(
    name: "list_notes", title: "List notes",
    description:
      "The notes there are, with their paths and sizes, a page at a time, and the names of their folders.",
    input: [
      "contains": ["type": "string", "description": "only notes whose path or title has this text in it"],
      "folder": folder,
      "after": ["type": "string", "description": "the last note of the page before"],
      "limit": number(1...1_000, 100, "how many"),
    ], required: [],
    output: [
      "folders": ["type": "array", "items": text], "total": integer,
      "notes": objects(["note": text, "title": text, "uri": text, "bytes": integer]),
    ]
  ) { (arguments, source, work) throws(NoteError) in
    let limit = try arguments.number("limit", in: 1...1_000, usual: NoteServer.pageLength)
    let folder = try chosen(arguments, source, work)
    let part = try arguments.text("contains")?.lowercased() ?? ""
    let all = try source.notes(work).filter { note in
      (folder == nil || note.folder == folder)
        && (part.isEmpty || note.name.lowercased().contains(part) || note.title.lowercased().contains(part))
    }
    var rest = all[...]
    if let last = try arguments.text("after") {
      guard let place = all.firstIndex(where: { $0.isNamed(last) }) else {
        throw .failed("'after' names no note of this list")
      }
      rest = all[(place + 1)...]
    }
    let page = rest.prefix(limit)
    var value = JSONObject([
      ("folders", .array(try source.folders(work).map { .string($0) })), ("total", .int(all.count)),
      ("notes", .array(page.map(\.json))),
    ])
    var words = page.map { $0.name == $0.title ? $0.name : "\($0.name)  \($0.title)" }
    if page.count < rest.count, let last = page.last {
      value["next_after"] = .string(last.name)
      words.append("[\(rest.count - page.count) more: call list_notes with after \"\(last.name)\"]")
    }
    return ToolResult(
      text: words.isEmpty ? "There are no notes." : words.joined(separator: "\n"), value: .object(value))
  }

  // MARK: Ask

  static let ask = NoteTool(
    name: "ask", title: "Ask the notes",
    description:
      "A local model answers a question from the user's notes. The answer comes with passages that it rests on, each as it "
      + "stands in a note. It takes longer than search_notes.",
    input: ["question": question, "folder": folder], required: ["question"],
    output: [
      "answer": text,
      "citations": objects([
        "note": text, "title": text, "uri": text, "line": integer, "page": integer, "text": text,
      ]),
    ]
  ) { (arguments, source, work) throws(NoteError) in
    let answer = try source.answer(arguments.needed("question"), in: chosen(arguments, source, work), work)
    return ToolResult(text: answer.shown, value: answer.json)
  }

  // MARK: Write

  static let write = NoteTool(
    name: "write_note", title: "Write a note",
    description:
      "Makes a note, or with append adds to the end of one. What stands in a note is never changed. Only when the user asks.",
    input: [
      "note": ["type": "string", "description": "the path of the note, which ends in .md or .txt"],
      "text": ["type": "string", "description": "what is written, as Markdown"],
      "append": ["type": "boolean", "description": "add to a note that is there", "default": false],
    ], required: ["note", "text"], output: ["note": text, "uri": text, "bytes": integer], isReadOnly: false
  ) { (arguments, source, work) throws(NoteError) in
    let note = try source.write(
      arguments.needed("text", longest: mostBytes), to: arguments.needed("note"),
      appends: arguments.isTrue("append"), work)
    return ToolResult(
      text: "\(note.name) has \(note.bytes) bytes now.",
      value: ["note": .string(note.name), "uri": .string(note.uri), "bytes": .int(note.bytes)])
  }
}

extension NoteAnswer {
  /// The answer, and below it each passage with its place.
  package var shown: String {
    let quotes = quotes.map { quote in
      "> \(quote.text.split(whereSeparator: \.isNewline).joined(separator: " "))\n  (\(quote.note.title)\(quote.place?.words ?? ""))"
    }
    return ([text] + quotes).joined(separator: "\n\n")
  }

  package var json: JSONValue {
    [
      "answer": .string(text),
      "citations": .array(
        quotes.map { quote in
          .object(JSONObject(quote.note.members(at: quote.place) + [("text", .string(quote.text))]))
        }),
    ]
  }
}

extension Note {
  fileprivate func members(at place: NotePlace?) -> [(String, JSONValue)] {
    [("note", .string(name)), ("title", .string(title)), ("uri", .string(uri))]
      + (place.map { [$0.member] } ?? [])
  }

  fileprivate var json: JSONValue {
    .object(JSONObject(members(at: nil) + [("bytes", .int(bytes))]))
  }
}

extension NotePassage {
  fileprivate var json: JSONValue {
    var members = note.members(at: place) + [("score", .double(score))]
    if let sentence { members.append(("sentence", .string(sentence))) }
    return .object(JSONObject(members + [("why", .string(why)), ("text", .string(text))]))
  }

  fileprivate func words(_ number: Int) -> String {
    let head =
      "\(number). \(note.title == note.name ? note.name : "\(note.title) (\(note.name))")\(place?.words ?? "")"
    return "\(head) (\(why))\n\(text)"
  }
}
