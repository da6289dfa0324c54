// The tables of docs/api.md, sent to the server row by row.

import HTTP
import JSON
import Platform
import Sampling
import Server
import Support
import Testing
import Wire

/// A row of a field table.
struct DocumentedField: Sendable, CustomTestStringConvertible {
  let name: String
  let treatment: String
  let example: String
  let note: String

  var testDescription: String { name }

  /// The rows between a heading and the next one.
  static func all(under heading: String) -> [DocumentedField] {
    guard let bytes = try? File.read(TestData.root + "/docs/api.md", limit: 1 << 20) else { return [] }
    var isInside = false
    var fields: [DocumentedField] = []
    for line in bytes.split(separator: 10).map({ String(decoding: $0, as: UTF8.self) }) {
      if line.hasPrefix("## ") { isInside = line == "## " + heading }
      let cells = line.split(separator: "|").map { $0.drop { $0 == " " }.split(separator: "  ").first ?? "" }
      guard isInside, line.hasPrefix("| `"), cells.count >= 3 else { continue }
      func plain(_ cell: Substring) -> String { cell.filter { $0 != "`" }.description.trimmed }
      fields.append(
        DocumentedField(
          name: plain(cells[0]), treatment: plain(cells[1]), example: plain(cells[2]),
          note: cells.count > 3 ? plain(cells[3]) : ""))
    }
    return fields
  }
}

extension DocumentedField {
  /// The names in the first column of the tables under a heading; a cell may hold several.
  static func names(in file: String, under heading: String) -> Set<String> {
    guard let bytes = try? File.read(TestData.root + file, limit: 1 << 20) else { return [] }
    var isInside = false
    var names: Set<String> = []
    for line in bytes.split(separator: 10).map({ String(decoding: $0, as: UTF8.self) }) {
      if line.hasPrefix("## ") { isInside = line == "## " + heading }
      guard isInside, line.hasPrefix("| `"), let cell = line.split(separator: "|").first else { continue }
      names.formUnion(cell.split(separator: "`").map(String.init).filter { !$0.hasPrefix(" ") && $0 != ", " })
    }
    return names
  }
}

extension String {
  fileprivate var trimmed: String {
    var rest = self[...]
    while rest.last == " " { rest.removeLast() }
    return String(rest)
  }
}

struct DocumentationTests {
  private static let chat = DocumentedField.all(under: "Chat completions")
  private static let completions = DocumentedField.all(under: "Completions")
  private static let responses = DocumentedField.all(under: "Responses")
  private static let messages = DocumentedField.all(under: "Messages")
  private static let tokens = DocumentedField.all(under: "Tokens and prompts")

  /// Members that a request needs, without the one under test.
  private func body(_ field: DocumentedField, needed: [(String, String)]) -> String {
    var members = needed.filter { $0.0 != field.name }.map { "\"\($0.0)\":\($0.1)" }
    if field.name == "stream_options" { members.append("\"stream\":true") }
    if field.name == "top_logprobs", needed.contains(where: { $0.0 == "messages" }) {
      members.append("\"logprobs\":true")
    }
    // Examples name models of a real server.
    let own = field.name == "model" ? needed.first { $0.0 == "model" }?.1 ?? "\"m\"" : nil
    members.append("\"\(field.name)\":\(own ?? field.example)")
    return "{\(members.joined(separator: ","))}"
  }

  private func check(
    _ field: DocumentedField, path: String, needed: [(String, String)],
    _ app: App = makeApp(FakeService("xyz"))
  ) throws {
    let answer = try app.send("POST", path, body: body(field, needed: needed))
    #expect(answer.headers["x-mlxserve-ignored"] == nil)
    switch field.treatment {
    case "honoured", "accepted": #expect(answer.status == 200, "\(answer.text)")
    case "refused": #expect(answer.refusal == "400 unsupported_parameter \(field.name)")
    default: Issue.record("'\(field.treatment)' is no treatment")
    }
  }

  @Test(arguments: chat)
  func `a chat field is treated as documented`(field: DocumentedField) throws {
    try check(
      field, path: "/v1/chat/completions",
      needed: [("model", "\"m\""), ("messages", #"[{"role":"user","content":"hi"}]"#)])
  }

  @Test(arguments: completions)
  func `a completions field is treated as documented`(field: DocumentedField) throws {
    try check(field, path: "/v1/completions", needed: [("model", "\"m\""), ("prompt", "\"x\"")])
  }

  @Test(arguments: DocumentedField.all(under: "Embeddings"))
  func `an embeddings field is treated as documented`(field: DocumentedField) throws {
    try check(
      field, path: "/v1/embeddings", needed: [("model", "\"e\""), ("input", "\"x\"")], makeEmbeddingApp())
  }

  @Test(arguments: DocumentedField.all(under: "Rerank"))
  func `a rerank field is treated as documented`(field: DocumentedField) throws {
    try check(
      field, path: "/v1/rerank",
      needed: [("model", "\"r\""), ("query", "\"x\""), ("documents", #"[{"text":"a","title":"b"}]"#)],
      makeRerankApp())
  }

  @Test(arguments: responses)
  func `a responses field is treated as documented`(field: DocumentedField) throws {
    // The examples of these two go on from something that was made before.
    if ["previous_response_id", "conversation"].contains(field.name) { return }
    try check(field, path: "/v1/responses", needed: [("model", "\"m\""), ("input", "\"x\"")])
  }

  @Test(arguments: messages)
  func `a messages field is treated as documented`(field: DocumentedField) throws {
    let needed = [
      ("model", "\"m\""), ("max_tokens", "9"), ("messages", #"[{"role":"user","content":"hi"}]"#),
    ]
    let answer = try makeApp(FakeService("xyz")).send(
      "POST", "/v1/messages", body: body(field, needed: needed))
    #expect(answer.headers["x-mlxserve-ignored"] == (field.name == "compaction" ? "compaction" : nil))
    #expect(answer.status == (field.treatment == "refused" ? 400 : 200), "\(answer.text)")
    if answer.status == 400 { #expect(answer.text.contains("'\(field.name)'")) }
  }

  @Test(arguments: tokens)
  func `a tokenize field is treated as documented`(field: DocumentedField) throws {
    let inputs = ["content", "prompt", "messages"]
    let ofChat = ["tools", "add_generation_prompt", "continue_final_message", "chat_template_kwargs"]
    let input =
      ofChat.contains(field.name)
      ? ("messages", #"[{"role":"user","content":"hi"}]"#) : ("content", "\"x\"")
    try check(field, path: "/tokenize", needed: inputs.contains(field.name) ? [] : [input])
  }
}
