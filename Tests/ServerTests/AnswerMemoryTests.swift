// What requests and answers in the making claim of the server's memory, and that it is given back.

import HTTP
import JSON
import Platform
import Testing
import Wire

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
    #expect(ledger.isSoonFree)
    #expect(try send(app, path, chat + "}", ledger).status == 200)
    #expect(ledger.isSoonFree)
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
    #expect(ledger.isSoonFree)
    #expect(try send(app, path, body, MemoryLedger()).status == 200)
  }

  @Test(arguments: [
    ("/v1/chat/completions", #""messages":[{"role":"user","content":"TEXT"}]"#, "messages"),
    ("/v1/completions", #""prompt":"TEXT""#, "prompt"),
    ("/v1/responses", #""input":"TEXT""#, "input"),
    (
      "/v1/messages",
      #""max_tokens":1,"messages":[{"role":"user","content":[{"type":"text","text":"TEXT"}]}]"#, nil
    ),
    ("/completion", #""prompt":"TEXT""#, nil),
    ("/api/generate", #""raw":true,"stream":false,"prompt":"TEXT""#, nil),
    ("/api/generate", #""stream":false,"prompt":"TEXT""#, nil),
    ("/api/chat", #""stream":false,"messages":[{"role":"user","content":"TEXT"}]"#, nil),
  ])
  func `a text that is too long is told as that where there is no memory for it`(
    path: String, members: String, param: String?
  ) throws {
    func send(_ bytes: Int, limit: Int) throws -> Answer {
      let garage = Garage(limit: limit)
      let fleet = try garage.fleet(["m"])
      defer { fleet.stop() }
      let text = String(repeating: "a", count: bytes)
      let body = #"{"model":"m",\#(members.replacing("TEXT", with: text))}"#
      let answer = try App(fleet).send("POST", path, body: body)
      #expect(garage.ledger.isSoonFree)
      return answer
    }
    // The context holds 400 tokens of a byte each.
    let refused = try send(20_000, limit: 200_000)
    #expect(refused.status == 400 && refused.text.contains("400"), "\(refused.text)")
    if let param { #expect(refused.refusal == "400 context_length_exceeded \(param)") }
    // Where there is no room for its beginning either, nobody knows, and where it would fit, it comes too early.
    #expect(try send(20_000, limit: 20_000).status == 503)
    #expect(try send(2_000, limit: 20_000).status == 503)
    #expect(try send(100, limit: 200_000).status == 200)
  }

  @Test func `old messages that are longer than the memory are dropped like others`() throws {
    let garage = Garage(limit: 200_000)
    let fleet = try garage.fleet(["m"])
    defer { fleet.stop() }
    let long = String(repeating: "a", count: 20_000)
    let messages =
      #"[{"role":"user","content":"\#(long)"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]"#
    let ollama = try App(fleet).send(
      "POST", "/api/chat", body: #"{"model":"m","stream":false,"messages":\#(messages)}"#)
    #expect(ollama.status == 200 && ollama.headers["x-mlxserve-truncated"] != nil, "\(ollama.text)")
    let response = try App(fleet).send(
      "POST", "/v1/responses",
      body: #"{"model":"m","truncation":"auto","max_output_tokens":16,"input":\#(messages)}"#)
    #expect(response.status == 200, "\(response.text)")
    #expect(garage.ledger.isSoonFree)
  }

  @Test(arguments: [
    ("/api/chat", #""stream":false,"messages":"#), ("/v1/responses", #""truncation":"auto","input":"#),
  ])
  func `nobody looks for what fits once the client has gone`(path: String, members: String) throws {
    let long = String(repeating: "a", count: 1_000)
    let list = Array(repeating: #"{"role":"user","content":"\#(long)"}"#, count: 20).joined(separator: ",")
    let body = #"{"model":"m",\#(members)[\#(list)]}"#
    let app = makeApp(FakeService("x"))
    #expect(try app.send("POST", path, body: body).status == 400)
    let gone = try app.send("POST", path, body: body, context: ConnectionContext(isClientGone: { true }))
    #expect(gone.status == 499, "\(gone.text)")
    // One that leaves while it is looked for.
    let asked = Monitor(0)
    let leaving = ConnectionContext(isClientGone: {
      asked.update {
        $0 += 1
        return $0 > 1
      }
    })
    #expect(try app.send("POST", path, body: body, context: leaving).status >= 400)
    #expect(asked.withLock { $0 } > 0)
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
    #expect(small.isSoonFree)
    #expect(try app.send("GET", "/v1/conversations/\(id)/items").status == 200)
    // The object alone does not need its items.
    #expect(try app.send("GET", "/v1/conversations/\(id)", context: context(small)).status == 200)
  }
}

extension MemoryLedger {
  /// Whether no answer holds memory, at the latest when the beginning of the next turn has been rendered (`NextTurn`).
  fileprivate var isSoonFree: Bool {
    let deadline = Instant.now.adding(seconds: 20)
    while bytes(of: .answers) > 0, Instant.now < deadline { usleep(2_000) }
    return bytes(of: .answers) == 0
  }
}
