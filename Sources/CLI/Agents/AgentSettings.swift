// What an agent is told: the words of its table filled in, settings that go into files, and how a file would change.

import JSON
import Platform

/// What the server says of itself and of one model.
struct AgentFacts: Sendable {
  /// `http://127.0.0.1:8080`
  var url: String
  var model: String
  /// Tokens of prompt and answer together.
  var context: Int
  /// What clients send; `none` where the server wants none.
  var key = "none"

  /// How long an answer may take: a prompt of 60,000 tokens takes a CPU the better part of an hour.
  static let seconds = 3_600
  /// A quarter of the context for one answer, and no more than agents need.
  var output: Int { max(1, min(8_192, context / 4)) }

  private var words: [(name: String, text: String)] {
    [
      ("url", url), ("v1", url + "/v1"), ("model", model), ("key", key), ("context", "\(context)"),
      ("input", "\(context - output)"), ("output", "\(output)"), ("seconds", "\(Self.seconds)"),
      ("milliseconds", "\(Self.seconds * 1000)"),
    ]
  }

  /// A text with its words filled in.
  ///
  /// - Parameter quotes: whether they stand between double quotes, of which they must not be the end.
  func filled(_ text: String, quotes: Bool = false) -> String {
    words.reduce(text) { text, word in
      let value = quotes ? String(JSONValue.string(word.text).text.dropFirst().dropLast()) : word.text
      return text.replacing("{\(word.name)}", with: value)
    }
  }

  /// A JSON value with the words in its names and texts filled in; a text that is a number's word alone is that number.
  func filled(_ value: JSONValue) -> JSONValue {
    switch value {
    case .string(let text):
      let isNumber = ["{context}", "{input}", "{output}"].contains(text)
      return isNumber ? .int(Int(filled(text)) ?? 0) : .string(filled(text))
    case .array(let values): return .array(values.map(filled))
    case .object(let object):
      return .object(JSONObject(object.entries.map { (filled($0.key), filled($0.value)) }))
    default: return value
    }
  }
}

/// A file as it is and as it would be.
struct AgentFile {
  let path: String
  /// Nil where there is none.
  let before: String?
  let after: String

  var isChanged: Bool { before != after }
  private static let limit = 4 << 20

  /// - Throws: `AgentError` where the file has what this program must not touch.
  init(_ file: Agent.SettingsFile, _ facts: AgentFacts, home: String) throws {
    guard !file.isJSON else {
      self = try AgentFile(file.path, facts.filled(try JSONValue(parsing: file.content)), home: home)
      return
    }
    after = facts.filled(file.content, quotes: true)
    (path, before) = try Self.present(file.path, home: home, wanted: after)
    if let text = before, text != after { throw AgentError.ownText(path, after) }
  }

  /// A file of JSON that is to have something.
  ///
  /// - Parameter named: begins with `~/`.
  init(_ named: String, _ own: JSONValue, home: String) throws {
    (path, before) = try Self.present(named, home: home, wanted: own.indented)
    let text = before ?? ""
    guard !text.utf8.isEmpty else {
      after = Self.text(own, like: "")
      return
    }
    guard let present = try? JSONValue(parsing: text) else { throw AgentError.notPlain(path, own.indented) }
    let merged = Self.merged(present, own)
    // What is there already stays as it is written.
    after = merged == present ? text : Self.text(merged, like: text)
  }

  /// A file as it is; its text is nil where there is none.
  private static func present(
    _ named: String, home: String, wanted: String
  ) throws -> (path: String, text: String?) {
    let whole = home + named.dropFirst()
    // A link stays one.
    let path = File.resolved(whole) ?? whole
    guard File.exists(path) else { return (path, nil) }
    guard let text = String(validating: try File.read(path, limit: limit), as: UTF8.self) else {
      throw AgentError.notPlain(path, wanted)
    }
    return (path, text)
  }

  /// JSON in lines, indented as a text is.
  private static func text(_ value: JSONValue, like text: String) -> String {
    let line = text.split(separator: "\n").first { $0.hasPrefix(" ") || $0.hasPrefix("\t") } ?? "  "
    let unit = line.first == "\t" ? "\t" : String(line.prefix { $0 == " " })
    return value.indented.split(separator: "\n").map { line in
      let depth = line.prefix { $0 == " " }.count / 4
      return String(repeating: unit, count: depth) + line.dropFirst(4 * depth) + "\n"
    }.joined()
  }

  /// Members of objects are added or replaced one by one, objects of a list by their names; all else stays.
  static func merged(_ present: JSONValue, _ own: JSONValue) -> JSONValue {
    switch (present, own) {
    case (.object(var object), .object(let more)):
      for (name, value) in more.entries { object[name] = object[name].map { merged($0, value) } ?? value }
      return .object(object)
    case (.array(var list), .array(let more)):
      for value in more {
        let place = list.firstIndex { $0 == value || ($0["name"] != nil && $0["name"] == value["name"]) }
        if let place { list[place] = merged(list[place], value) } else { list.append(value) }
      }
      return .array(list)
    default: return own
    }
  }

  /// Lines that go (`-`), come (`+`) and stay.
  var difference: [String] {
    func lines(_ text: String) -> [Substring] {
      text.split(separator: "\n", omittingEmptySubsequences: false)
    }
    let (old, new) = (lines(before ?? ""), lines(after))
    guard before != nil else { return new.dropLast(new.last == "" ? 1 : 0).map { "+ " + $0 } }
    let change = new.difference(from: old)
    var (gone, come): (Set<Int>, Set<Int>) = ([], [])
    for case .remove(let place, _, _) in change { gone.insert(place) }
    for case .insert(let place, _, _) in change { come.insert(place) }
    var (result, at): ([String], Int) = ([], 0)
    func add(_ places: Range<Int>) { for place in places { result.append("+ " + new[place]) } }
    for (place, line) in old.enumerated() {
      if gone.contains(place) {
        result.append("- " + line)
        continue
      }
      let next = (at..<new.count).first { !come.contains($0) } ?? new.count
      add(at..<next)
      result.append("  " + line)
      at = next + 1
    }
    add(min(at, new.count)..<new.count)
    // The end of the last line.
    if result.last == "  " { result.removeLast() }
    return result
  }

  /// Writes the file whole; what was there before is kept beside it.
  ///
  /// - Returns: where that is; nil where there was nothing.
  func write() throws -> String? {
    try File.makeFolders(File.parent(of: path))
    guard let before else {
      try File.replace(path, with: Array(after.utf8), mode: 0o600)
      return nil
    }
    var status = stat()
    let mode = unsafe stat(path, &status) == 0 ? UInt16(truncatingIfNeeded: status.st_mode & 0o777) : 0o600
    let backup =
      (1...999).lazy.map { "\(path).before-mlxserve-\($0)" }.first { !File.exists($0) } ?? path + ".bak"
    try File.replace(backup, with: Array(before.utf8), mode: mode)
    try File.replace(path, with: Array(after.utf8), mode: mode)
    return backup
  }
}

enum AgentError: Error, CustomStringConvertible {
  case unknown(String, suggestion: String?)
  /// Nobody answers, or not with a model that can be used.
  case noServer(String)
  /// JSON with comments, or no text at all; and what should be in it.
  case notPlain(String, String)
  case ownText(String, String)
  case notInstalled(program: String, title: String)
  case notStarted(program: String, code: Int32)

  var description: String {
    switch self {
    case .unknown(let name, let near):
      "there is no agent '\(name)'" + (near.map { "; did you mean '\($0)'?" } ?? ".")
        + " 'mlxserve launch' lists them."
    case .noServer(let words): words
    case .notPlain(let path, let content):
      "\(path) is not plain JSON (comments?), so it stays as it is. Add this yourself:\n\(content)"
    case .ownText(let path, let content):
      "\(path) has settings of yours, so it stays as it is. Add what is missing yourself:\n\(content)"
    case .notInstalled(let program, let title):
      "\(title) is not installed: there is no program '\(program)' in PATH. What is shown above works once it is."
    case .notStarted(let program, let code):
      "cannot start \(program): \(unsafe String(cString: strerror(code)))"
    }
  }
}
