// What clients see when something is wrong: before an answer, during it, and when they leave.

import Chat
import HTTP
import Inference
import JSON
import Pipeline
import Platform
import Server
import Testing
import Wire

struct FailureTests {
  private func app(_ error: InferenceError) -> App {
    makeApp(FakeService { _, _ in Script(submitError: error) })
  }

  @Test func `an unknown model is not found`() throws {
    let app = makeApp(FakeService("x"))
    let body = #"{"model":"nope","messages":[{"role":"user","content":"hi"}]}"#
    #expect(try app.send("POST", "/v1/chat/completions", body: body).refusal == "404 model_not_found model")
    #expect(try app.send("POST", "/v1/completions", body: #"{"model":"nope","prompt":"x"}"#).status == 404)
  }

  @Test(arguments: ["", "{\"model\":", "[]", "\"x\"", "42", "null", "{\"model\":\"\u{0}\"}"])
  func `a body that is no JSON object is refused`(body: String) throws {
    let answer = try makeApp(FakeService("x")).send("POST", "/v1/chat/completions", body: body)
    #expect(answer.status == 400)
    #expect(answer.headers["content-type"] == "application/json")
    #expect(answer.json["error"]?.objectValue?.keys == ["message", "type", "param", "code"])
  }

  @Test func `only JSON bodies are read`() throws {
    let app = makeApp(FakeService("x"))
    let body = #"{"model":"m","prompt":"x"}"#
    func status(_ headers: Headers) throws -> Int {
      try app.send("POST", "/v1/completions", body: body, headers: headers).status
    }
    #expect(try status([:]) == 200)
    #expect(try status(["Content-Type": "application/json; charset=utf-8"]) == 200)
    #expect(try status(["content-type": "Text/Plain"]) == 200)
    #expect(try status(["content-type": "text/xml"]) == 415)
    #expect(try status(["content-type": "multipart/form-data; boundary=x"]) == 415)
  }

  private struct Streamed: Error {}

  private static let body = #"{"model":"m","prompt":"x"}"#
  /// Of that body, by gzip -9 of a file `b.json`: the head has a name.
  private static let packed =
    "H4sICAAAAAAC/2IuanNvbgCrVsrNT0nNUbJSylXSUSooys8tKAFyKpRqAakUaXgaAAAA"

  private func send(_ base64: String, _ coding: String, limit: Int = 1_000) throws -> Response {
    let request = try Request(
      "POST", "/v1/completions", headers: ["Content-Encoding": coding],
      body: try #require(Base64.decode(base64)))
    let context = ConnectionContext()
    context.bodyLimit = limit
    return makeApp(FakeService("x")).respond(to: request, context)
  }

  @Test(arguments: ["gzip", "x-gzip", "GZip", "identity, gzip"])
  func `a body that is packed with gzip is read as what it holds`(coding: String) throws {
    #expect(try send(Self.packed, coding).status == 200)
  }

  @Test func `what a packed body holds is bounded like a body`() throws {
    #expect(try send(Self.packed, "gzip", limit: Self.body.utf8.count).status == 200)
    let answer = try send(Self.packed, "gzip", limit: Self.body.utf8.count - 1)
    #expect(answer.status == 413 && answer.errorCode == "request_too_large")
    // 50,000 bytes, as the end says: refused before a byte is unpacked.
    var bomb = try #require(Base64.decode(Self.packed))
    bomb.replaceSubrange(bomb.count - 4..<bomb.count, with: [0x50, 0xC3, 0, 0])
    #expect(try send(Base64.encode(bomb), "gzip").status == 413)
  }

  @Test func `every byte of a packed body counts`() throws {
    let whole = try #require(Base64.decode(Self.packed))
    for index in 0..<whole.count where !(4..<10).contains(index) && !(10..<17).contains(index) {
      var bytes = whole
      bytes[index] ^= 0x40
      #expect(try send(Base64.encode(bytes), "gzip").status != 200, "byte \(index)")
    }
    for count in 0..<whole.count {
      #expect(try send(Base64.encode(Array(whole.prefix(count))), "gzip").status >= 400, "\(count) bytes")
    }
    #expect(try send(Base64.encode(whole + whole), "gzip").status == 400)
  }

  @Test(arguments: ["zstd", "br", "deflate", "gzip, gzip", "gzip, zstd"])
  func `another coding is refused by its name`(coding: String) throws {
    let answer = try send(Self.packed, coding)
    #expect(answer.status == 415 && answer.errorCode == "unsupported_media_type")
    #expect(answer.headers["accept-encoding"] == "gzip")
    guard case .bytes(let bytes) = answer.body else { throw Streamed() }
    #expect(String(decoding: bytes, as: UTF8.self).contains("'\(coding)' is not read here"))
  }

  @Test(arguments: ["", #""stream":true"#])
  func `a prompt beyond the context is refused with both numbers, streamed or not`(extra: String) throws {
    let app = makeApp(FakeService(maxContext: 21) { _, _ in Script(text: "x") })
    let answer = try app.chat(extra)
    #expect(answer.refusal == "400 context_length_exceeded messages")
    let message = answer.json["error"]?["message"]?.stringValue
    #expect(message?.contains("maximum context length is 21 tokens") == true)
    #expect(message?.contains("resulted in 21 tokens") == true)
    let larger = makeApp(FakeService(maxContext: 22) { _, _ in Script(text: "xy") })
    #expect(try larger.chat().json["usage"]?["completion_tokens"] == 1)
  }

  @Test func `a full queue answers 429 and when to come back`() throws {
    let answer = try app(.queueFull(limit: 4)).chat(#""stream":true"#)
    #expect(answer.refusal == "429 rate_limit_exceeded null")
    #expect(answer.json["error"]?["type"] == "rate_limit_error")
    #expect(answer.headers["retry-after"] == "1")
  }

  @Test func `a server that shuts down answers 503`() throws {
    let answer = try app(.draining).chat()
    #expect(answer.refusal == "503 shutting_down null")
    #expect(answer.headers["retry-after"] == "1")
    let draining = ConnectionContext(phase: { .draining })
    for (path, status) in [("/health", 503), ("/ready", 503), ("/readyz", 503), ("/livez", 200)] {
      #expect(try makeApp(FakeService("")).send("GET", path, context: draining).status == status)
    }
  }

  @Test func `a template that refuses the messages says why`() throws {
    let body = #"{"model":"m","messages":[{"role":"user","content":"forbidden"}]}"#
    let answer = try makeApp(FakeService("x")).send("POST", "/v1/chat/completions", body: body)
    #expect(answer.refusal == "400 invalid_value messages")
    #expect(answer.json["error"]?["message"]?.stringValue?.contains("This is not to be said") == true)
    // What it says of the order of messages is no reason to refuse them.
    let late = #"{"model":"m","messages":[{"role":"user","content":"a"},{"role":"system","content":"b"}]}"#
    #expect(try makeApp(FakeService("x")).send("POST", "/v1/chat/completions", body: late).status == 200)
  }

  @Test func `forced tools are refused by a template that knows none`() throws {
    let template = try ChatTemplate(
      source: "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}", specialTokens: []
    ) { (0, 0) }
    let model = LoadedModel(
      id: "m", created: 5, service: FakeService("x"), tokenizer: tinyTokenizer, template: template,
      endTokens: [])
    let tools = #""tools":[{"type":"function","function":{"name":"f"}}]"#
    #expect(
      try App(model).chat(tools + #","tool_choice":"required""#).refusal == "400 unsupported_value tools")
    #expect(try App(model).chat(tools + #","tool_choice":"none""#).status == 200)
    let counted = #"{"model":"m","input":"x","tools":[{"type":"function","name":"f"}]}"#
    // To count or to show a prompt needs no calls.
    #expect(try App(model).send("POST", "/v1/responses/input_tokens", body: counted).status == 200)
    #expect(
      try App(model).send(
        "POST", "/apply-template", body: #"{"messages":[{"role":"user","content":"x"}],\#(tools)}"#
      ).status == 200)
  }

  @Test func `a model without a template has completions only`() throws {
    let model = LoadedModel(
      id: "m", created: 5, service: FakeService("x"), tokenizer: tinyTokenizer, template: nil, endTokens: [])
    let app = App(model)
    #expect(try app.chat().refusal == "400 unsupported_value model")
    for path in ["", "/input_tokens", "/compact"] {
      let answer = try app.send("POST", "/v1/responses" + path, body: #"{"model":"m","input":"x"}"#)
      #expect(answer.refusal == "400 unsupported_value model", "\(path)")
    }
    #expect(try app.complete(#""prompt":"x""#).status == 200)
  }

  @Test func `a failure before the end of a whole answer is an error response`() throws {
    let service = FakeService { _, _ in Script(text: "Hi", error: .modelLoading("the disk is gone")) }
    #expect(try makeApp(service).chat().status == 503)
  }

  @Test func `a failure in a stream is an error event before the end mark`() throws {
    let service = FakeService { _, _ in Script(text: "Hi", error: .draining) }
    let events = try makeApp(service).chat(#""stream":true"#).events
    #expect(events.count == 5)
    #expect(
      events[3]
        == #"{"error":{"message":"The server is shutting down. Try another one, or again later.","#
        + #""type":"server_error","param":null,"code":"shutting_down"}}"#)
    #expect(events[4] == "[DONE]")
  }

  @Test func `a generation that the engine gave up is no finished answer`() throws {
    let events = try makeApp(FakeService("Hi", end: .cancelled)).chat(#""stream":true"#).events
    #expect(events[3].contains("client_too_slow"))
    #expect(try makeApp(FakeService("Hi", end: .cancelled)).chat().status == 500)
  }

  @Test func `a client that leaves ends its generation`() throws {
    let service = FakeService("Hi", end: nil)
    _ = try makeApp(service).chat(context: ConnectionContext(isClientGone: { true }))
    #expect(service.cancelled == [true])
  }

  @Test func `a stream that is cut off ends all its generations`() throws {
    let service = FakeService("Hi", end: nil)
    let request = try Request(
      "POST", "/v1/chat/completions",
      body: Array(#"{"model":"m","messages":[{"role":"user","content":"x"}],"stream":true,"n":2}"#.utf8))
    let response = makeApp(service).respond(to: request, ConnectionContext())
    guard case .stream(let write) = response.body else {
      Issue.record("the response is not a stream")
      return
    }
    let writes = Monitor(0)
    #expect(throws: SocketError.self) {
      try write(
        BodyWriter { _, _ throws(SocketError) in
          writes.update { $0 += 1 }
          if writes.withLock({ $0 }) == 3 { throw .clientGone }
        })
    }
    #expect(service.cancelled == [true, true])
  }

  @Test func `time that runs out ends a stream with a word`() throws {
    let service = FakeService("Hi", end: nil)
    let answer = try makeApp(service).chat(
      #""stream":true"#, context: ConnectionContext(phase: { .expired }))
    #expect(answer.events.suffix(2).first?.contains("shutting_down") == true)
    #expect(service.cancelled == [true])
  }

  @Test func `a waiting stream sends comments`() throws {
    let service = FakeService { _, _ in Script(text: "Hi", delay: 0.4) }
    let answer = try makeApp(service) {
      $0.keepAliveSeconds = 0.1
      $0.pollSeconds = 0.01
    }.chat(#""stream":true"#)
    let before = answer.text.split(separator: "data: ", maxSplits: 1)[0]
    #expect(before.hasPrefix(": keep-alive\n\n: keep-alive\n\n"))
    #expect(answer.events.count == 5)
  }

  @Test func `unknown fields are named in a header`() throws {
    let app = makeApp(FakeService("x"))
    #expect(
      try app.chat(#""zeta":1,"a,b":2,"é\n":3"#).headers["x-mlxserve-ignored"] == "zeta, a%2Cb, %C3%A9%0A")
    #expect(try app.chat(#""stream":true,"zeta":1"#).headers["x-mlxserve-ignored"] == "zeta")
    #expect(try app.complete(#""prompt":"x","zeta":1"#).headers["x-mlxserve-ignored"] == "zeta")
    #expect(try app.chat().headers["x-mlxserve-ignored"] == nil)
    let many = (0..<1000).map { "\"field\($0)\":1" }.joined(separator: ",")
    let header = try app.chat(many).headers["x-mlxserve-ignored"] ?? ""
    #expect(header.hasPrefix("field0, field1, ") && header.hasSuffix(", ..."))
    #expect(header.utf8.count < 1100)
  }
}
