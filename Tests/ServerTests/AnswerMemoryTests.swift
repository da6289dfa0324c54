// What requests and answers in the making claim of the server's memory, and that it is given back.

import HTTP
import JSON
import OpenAI
import Platform
import Testing

@testable import Server

@Suite struct AnswerMemoryTests {
  private func context(_ ledger: MemoryLedger) -> ConnectionContext {
    let context = ConnectionContext()
    context.memory = MemoryLoan(ledger, for: .answers, patience: 0)
    return context
  }

  /// An answer to a POST whose claims are made in `ledger`; they are given back when it returns.
  private func send(_ app: App, _ path: String, _ body: String, _ ledger: MemoryLedger) throws -> Answer {
    try app.send("POST", path, body: body, context: context(ledger))
  }

  private let chat = #"{"model":"m","messages":[{"role":"user","content":"a"}]"#

  @Test func `log probabilities are kept as ids, and written in parts of a bounded size`() throws {
    let text = String(repeating: "ab", count: 180)
    let app = makeApp(FakeService(text))
    let ledger = MemoryLedger()
    let short = try send(app, "/v1/chat/completions", chat + #","logprobs":true,"top_logprobs":2}"#, ledger)
    #expect(short.headers["transfer-encoding"] == nil)
    let body = chat + #","n":16,"logprobs":true,"top_logprobs":2}"#
    let response = app.respond(
      to: try Request("POST", "/v1/chat/completions", body: Array(body.utf8)), context(ledger))
    guard case .stream(let write) = response.body else {
      Issue.record("a long answer is in one piece")
      return
    }
    var (bytes, largest): ([UInt8], Int) = ([], 0)
    try write(
      BodyWriter { part, _ in
        bytes += part
        largest = max(largest, part.count)
      })
    #expect(largest < 70_000 && bytes.count > 500_000)
    let choices = try JSONValue(parsing: bytes)["choices"]?.arrayValue ?? []
    #expect(choices.count == 16)
    for choice in choices {
      #expect(choice["logprobs"] == short.json["choices"]?[0]?["logprobs"])
      #expect(choice["message"]?["content"]?.stringValue == text)
    }
  }

  @Test(arguments: [
    ("/v1/chat/completions", #","n":8,"logprobs":true,"top_logprobs":2}"#),
    ("/v1/chat/completions", #","n":8}"#),
  ])
  func `an answer that outgrows the limit is refused, and what it claimed is given back`(
    path: String, options: String
  ) throws {
    let app = makeApp(FakeService(String(repeating: "ab", count: 180)))
    let ledger = MemoryLedger(limit: 40_000)
    #expect(try send(app, path, chat + options, ledger).refusal == "503 insufficient_memory null")
    #expect(ledger.bytes(of: .answers) == 0)
    #expect(try send(app, path, chat + "}", ledger).status == 200)
    #expect(ledger.bytes(of: .answers) == 0)
    // A stream keeps nothing of it.
    #expect(try send(app, path, chat + #","stream":true}"#, ledger).status == 200)
  }

  @Test(arguments: [
    ("/v1/completions", #"{"model":"m","prompt":"a","n":8,"logprobs":2}"#),
    ("/v1/messages", #"{"model":"m","max_tokens":300,"messages":[{"role":"user","content":"a"}]}"#),
    ("/v1/responses", #"{"model":"m","input":"a"}"#),
  ])
  func `the same on every wire`(path: String, body: String) throws {
    let app = makeApp(FakeService(String(repeating: "ab", count: 180)))
    let ledger = MemoryLedger(limit: 15_000)
    let answer = try send(app, path, body, ledger)
    #expect(answer.status == 503 && answer.text.contains("needs"), "\(answer.text)")
    #expect(ledger.bytes(of: .answers) == 0)
    #expect(try send(app, path, body, MemoryLedger()).status == 200)
  }

  @Test func `the values of a body are claimed before they are made`() throws {
    let app = makeApp(FakeService("x"))
    let objects = Array(repeating: "{}", count: 10_000).joined(separator: ",")
    let body = #"{"model":"m","messages":[\#(objects)]}"#
    #expect(
      try send(app, "/v1/chat/completions", body, MemoryLedger(limit: 1 << 20)).refusal
        == "503 insufficient_memory null")
    #expect(try send(app, "/v1/chat/completions", body, MemoryLedger(limit: 2 << 20)).status == 400)
  }

  @Test func `a stored conversation is read only where there is room for it`() throws {
    let app = makeApp(FakeService("x"))
    let item = #"{"role":"user","content":"a"}"#
    let parts = Array(repeating: #"{"type":"input_text","text":"a"}"#, count: 50).joined(separator: ",")
    let items = Array(repeating: #"{"role":"user","content":[\#(parts)]}"#, count: 20).joined(separator: ",")
    let made = try send(app, "/v1/conversations", #"{"items":[\#(items)]}"#, MemoryLedger())
    let id = try #require(made.json["id"]?.stringValue)
    #expect(
      try send(app, "/v1/conversations", #"{"items":[\#(items)]}"#, MemoryLedger(limit: 600_000)).refusal
        == "503 insufficient_memory null")
    let small = MemoryLedger(limit: 100_000)
    for path in ["/v1/conversations/\(id)/items", "/v1/conversations/\(id)/items/none"] {
      let answer = try app.send("GET", path, context: context(small))
      #expect(answer.refusal == "503 insufficient_memory null")
    }
    #expect(
      try send(app, "/v1/responses", #"{"model":"m","input":"a","conversation":"\#(id)"}"#, small).refusal
        == "503 insufficient_memory null")
    #expect(
      try send(app, "/v1/conversations/\(id)/items", #"{"items":[\#(item)]}"#, small).refusal
        == "503 insufficient_memory null")
    #expect(small.bytes(of: .answers) == 0)
    #expect(try app.send("GET", "/v1/conversations/\(id)/items").status == 200)
    // The object alone does not need its items.
    #expect(try app.send("GET", "/v1/conversations/\(id)", context: context(small)).status == 200)
  }
}
