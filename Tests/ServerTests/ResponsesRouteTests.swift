// POST /v1/responses and its neighbours with scripted generations: endings, faults, background, conversations.

import Decoding
import HTTP
import Inference
import JSON
import Pipeline
import Platform
import Sampling
import Testing
import Tokenizers
import Wire

@testable import Server

private let tool = #""tools":[{"type":"function","name":"get_weather"}]"#

private func call(_ arguments: String) -> String {
  "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": \(arguments)}\n</tool_call>"
}

struct ResponsesRouteTests {
  /// An application whose ids are all different.
  private func app(_ service: FakeService, configure: (inout ServerSettings) -> Void = { _ in }) -> App {
    let count = Monitor(0)
    return makeApp(service) { settings in
      settings.makeID = {
        count.update {
          $0 += 1
          return "\($0)"
        }
      }
      configure(&settings)
    }
  }

  private func post(
    _ app: App, _ members: String, path: String = "/v1/responses",
    context: ConnectionContext = ConnectionContext()
  ) throws -> Answer {
    try app.send("POST", path, body: #"{"model":"m",\#(members)}"#, context: context)
  }

  /// The events of a streamed answer; its last line must be the end mark.
  private func events(_ answer: Answer) throws -> [JSONValue] {
    let blocks = answer.text.split(separator: "\n\n")
    #expect(blocks.last == "data: [DONE]")
    return try blocks.dropLast().map { block in
      let lines = block.split(separator: "\n")
      try #require(lines.count == 2)
      let event = try JSONValue(parsing: String(lines[1].dropFirst("data: ".count)))
      #expect(lines[0] == "event: \(event["type"]?.stringValue ?? "")")
      return event
    }
  }

  private func types(_ events: [JSONValue]) -> [String] {
    events.map { String($0["type"]?.stringValue?.dropFirst("response.".count) ?? "") }
  }

  // MARK: Items

  @Test func `text and two calls are three items, each closed before the next`() throws {
    let app = app(FakeService("Let me see." + call(#"{"city": "Oslo"}"#) + "\n" + call("{}")))
    let events = try events(post(app, #""input":"x","stream":true,\#(tool)"#))
    let order = types(events).filter { !$0.hasSuffix("delta") }
    let closed = ["function_call_arguments.done", "output_item.done"]
    let text = [
      "created", "in_progress", "output_item.added", "content_part.added", "output_text.done",
      "content_part.done", "output_item.done", "output_item.added",
    ]
    #expect(order == [text, closed, ["output_item.added"], closed, ["completed"]].flatMap { $0 })
    #expect(events.map { $0["sequence_number"]?.intValue } == Array(0..<events.count))
    let output = events.last?["response"]?["output"]?.arrayValue ?? []
    #expect(output.map { $0["type"]?.stringValue } == ["message", "function_call", "function_call"])
    #expect(output.map { $0["status"]?.stringValue } == ["completed", "completed", "completed"])
    #expect(output.last?["arguments"] == "{}")
    #expect(Set(output.compactMap { $0["id"]?.stringValue }).count == 3)
  }

  @Test func `a call without arguments has one delta`() throws {
    let app = app(FakeService("<tool_call>\n{\"name\": \"get_weather\"}\n</tool_call>"))
    let events = try events(post(app, #""input":"x","stream":true,\#(tool)"#))
    let deltas = events.filter { $0["type"] == "response.function_call_arguments.delta" }
    #expect(deltas.map { $0["delta"]?.stringValue } == ["{}"])
    #expect(events.last?["response"]?["output"]?[0]?["arguments"] == "{}")
  }

  @Test func `an answer without a word is an empty message`() throws {
    let output = try post(app(FakeService("")), #""input":"x""#).json["output"]
    #expect(output?[0]?["type"] == "message")
    #expect(output?[0]?["content"]?[0]?["text"] == "")
    #expect(output?[0]?["status"] == "completed")
    #expect(
      try post(app(FakeService("")), #""input":"x","max_output_tokens":1"#).json["status"] == "completed")
  }

  @Test func `streamed and whole responses are the same`() throws {
    let script = "<think>\nhm\n</think>\n\nanswer" + call(#"{"a": [1, 2.0]}"#)
    let whole = try post(app(FakeService(script)), #""input":"x",\#(tool)"#).json
    let streamed = try events(post(app(FakeService(script)), #""input":"x","stream":true,\#(tool)"#))
    #expect(streamed.last?["response"] == whole)
    #expect(
      whole["output"]?.arrayValue?.map { $0["type"]?.stringValue } == [
        "reasoning", "message", "function_call",
      ])
  }

  @Test func `temperature and penalties are the model's where the request says nothing`() throws {
    var model = LoadedModel(
      id: "m", created: 5, service: FakeService("x"), tokenizer: tinyTokenizer, template: tinyTemplate,
      endTokens: [Marker.end])
    model.recommended[.temperature] = 0.7
    model.recommended[.topP] = 0.8
    let body = try post(App(model), #""input":"x""#).json
    #expect(body["temperature"] == 0.7)
    #expect(body["top_p"] == 0.8)
    #expect(try post(App(model), #""input":"x","temperature":0.25"#).json["temperature"] == 0.25)
  }

  // MARK: Endings

  @Test func `a fault in a stream is a failed response, told and stored`() throws {
    let app = app(FakeService { _, _ in Script(text: "some", error: .brokenLogits(position: 1)) })
    let events = try events(post(app, #""input":"x","stream":true"#))
    #expect(
      types(events).suffix(4) == ["output_text.done", "content_part.done", "output_item.done", "failed"])
    let body = try #require(events.last?["response"])
    #expect(body["status"] == "failed")
    #expect(body["error"]?["code"] == "server_error")
    #expect(body["output"]?[0]?["status"] == "incomplete")
    #expect(body["output"]?[0]?["content"]?[0]?["text"] == "some")
    let id = body["id"]?.stringValue ?? ""
    #expect(try app.send("GET", "/v1/responses/\(id)").json == body)
    #expect(try self.events(app.send("GET", "/v1/responses/\(id)?stream=true")) == events)
  }

  @Test func `a fault of a whole answer is an error and stores nothing`() throws {
    let store = ResponseStore()
    let app = app(FakeService { _, _ in Script(text: "some", error: .brokenLogits(position: 1)) }) {
      $0.store = store
    }
    let answer = try post(app, #""input":"x""#)
    #expect(answer.status == 500)
    #expect(answer.json["error"]?["type"] == "server_error")
    #expect(store.records(of: ClientIdentity()).response("resp_2") == nil)
  }

  @Test func `a client that leaves a stream leaves a cancelled response`() throws {
    let service = FakeService("never ends", end: nil)
    let store = ResponseStore()
    let app = app(service) { $0.store = store }
    let request = try Request(
      "POST", "/v1/responses", headers: ["content-type": "application/json"],
      body: Array(#"{"model":"m","input":"x","stream":true}"#.utf8))
    let response = app.respond(to: request, ConnectionContext())
    guard case .stream(let write) = response.body else { return #expect(Bool(false)) }
    let sent = Monitor(0)
    #expect(throws: SocketError.clientGone) {
      try write(BodyWriter(gone: { sent.withLock { $0 > 4 } }, output: { _, _ in sent.update { $0 += 1 } }))
    }
    #expect(service.cancelled == [true])
    let body = try app.send("GET", "/v1/responses/resp_2").json
    #expect(body["status"] == "cancelled")
    #expect(body["output"]?[0]?["status"] == "incomplete")
  }

  @Test func `the end of the server's time fails a stream`() throws {
    let app = app(FakeService("never ends", end: nil))
    let answer = try post(app, #""input":"x","stream":true"#, context: ConnectionContext(phase: { .expired }))
    #expect(try events(answer).last?["type"] == "response.failed")
  }

  @Test func `a full queue is refused before a stream begins, in the background too`() throws {
    let service = FakeService { _, _ in Script(submitError: .queueFull(limit: 1)) }
    for members in [#""input":"x""#, #""input":"x","stream":true"#, #""input":"x","background":true"#] {
      #expect(try post(app(service), members).refusal == "429 rate_limit_exceeded null")
    }
  }

  // MARK: Truncation

  @Test func `the oldest turns go first, and calls with their results`() {
    let roles = [
      "system", "user", "assistant", "tool", "assistant", "user", "assistant", "tool", "assistant",
    ]
    let messages = roles.map { JSONValue.object(JSONObject([("role", .string($0))])) }
    #expect(ResponsePlan.turnStarts(messages) == [1, 5, 6, 8])
  }

  @Test func `a prompt that is too long loses its beginning when it may`() throws {
    let service = FakeService(maxContext: 120) { _, _ in Script(text: "ok") }
    let turns = (0..<10).map {
      #"{"role":"user","content":"question \#($0)"},{"role":"assistant","content":"\#($0)"}"#
    }
    let input =
      #""input":[{"role":"system","content":"S"},\#(turns.joined(separator: ",")),{"role":"user","content":"last"}]"#
    let app = app(service)
    #expect(try post(app, input).refusal == "400 context_length_exceeded input")
    #expect(try post(app, input + #","truncation":"auto""#).status == 200)
    let prompt = tinyTokenizer.decode(service.requests[0].promptTokens, skipSpecialTokens: false)
    #expect(prompt.hasPrefix("<|im_start|>system\nS<|im_end|>\n<|im_start|>user\n"))
    #expect(prompt.contains("question 9"))
    #expect(!prompt.contains("question 8"))
    #expect(prompt.contains("last"))
    let long = String(repeating: "x", count: 200)
    #expect(
      try post(app, #""truncation":"auto","input":"\#(long)""#).refusal == "400 context_length_exceeded input"
    )
  }

  // MARK: Background

  @Test func `a background response is queued, found, followed and done`() throws {
    let app = app(FakeService { _, _ in Script(text: "answer", delay: 0.2) })
    let queued = try post(app, #""input":"x","background":true"#).json
    #expect(queued["status"] == "queued")
    let id = queued["id"]?.stringValue ?? ""
    let followed = try events(app.send("GET", "/v1/responses/\(id)?stream=true"))
    #expect(types(followed).prefix(4) == ["created", "queued", "in_progress", "output_item.added"])
    let body = try app.send("GET", "/v1/responses/\(id)").json
    #expect(body["status"] == "completed")
    #expect(followed.last?["response"] == body)
    #expect(try events(app.send("GET", "/v1/responses/\(id)?stream=true")) == followed)
    #expect(
      try events(app.send("GET", "/v1/responses/\(id)?stream=true&starting_after=2")) == Array(followed[3...])
    )
    app.finish(seconds: 1)
    #expect(try post(app, #""input":"x","background":true"#).refusal == "429 rate_limit_exceeded null")
  }

  @Test func `a running response can be cancelled but not continued, and many wait their turn`() throws {
    let service = FakeService("never ends", end: nil)
    let app = app(service)
    let ids = try (0..<32).map { _ in
      try post(app, #""input":"x","background":true"#).json["id"]?.stringValue ?? ""
    }
    #expect(try post(app, #""input":"x","background":true"#).refusal == "429 rate_limit_exceeded null")
    #expect(
      try post(app, #""input":"y","previous_response_id":"\#(ids[0])""#).refusal
        == "400 invalid_value previous_response_id")
    let cancelled = try post(app, "\"a\":1", path: "/v1/responses/\(ids[0])/cancel").json
    #expect(cancelled["status"] == "cancelled")
    #expect(try app.send("DELETE", "/v1/responses/\(ids[1])").json["deleted"] == true)
    #expect(try app.send("GET", "/v1/responses/\(ids[2])").json["status"] == "in_progress")
    app.finish(seconds: 0)
    let failed = try app.send("GET", "/v1/responses/\(ids[2])").json
    #expect(failed["status"] == "failed")
    #expect(failed["error"]?["code"] == "server_error")
    #expect(service.cancelled == [Bool](repeating: true, count: 32))
    #expect(try app.send("GET", "/v1/responses/\(ids[1])").status == 404)
  }

  @Test func `a key leaves half of the places in the background to others`() throws {
    let app = app(FakeService("never ends", end: nil))
    func ask(_ key: UInt64) throws -> Int {
      let context = ConnectionContext()
      context.client = ClientIdentity(number: key, name: "k\(key)", key: key, isAdmin: false)
      return try post(app, #""input":"x","background":true"#, context: context).status
    }
    #expect(try (0..<17).map { _ in try ask(1) } == [Int](repeating: 200, count: 16) + [429])
    #expect(try (0..<17).map { _ in try ask(2) } == [Int](repeating: 200, count: 16) + [429])
    app.finish(seconds: 0)
  }

  // MARK: Conversations

  @Test func `a failed response adds nothing to its conversation`() throws {
    let app = app(
      FakeService { _, count in
        count == 0 ? Script(text: "bad", error: .brokenLogits(position: 1)) : Script(text: "good")
      })
    let id = try app.send("POST", "/v1/conversations").json["id"]?.stringValue ?? ""
    _ = try post(app, #""input":"x","stream":true,"conversation":"\#(id)""#)
    #expect(try app.send("GET", "/v1/conversations/\(id)/items").json["data"] == [])
    #expect(
      try post(app, #""input":"x","conversation":{"id":"\#(id)"}"#).json["conversation"] == [
        "id": .string(id)
      ])
    let items = try app.send("GET", "/v1/conversations/\(id)/items?order=asc").json
    #expect(items["data"]?.arrayValue?.map { $0["role"]?.stringValue } == ["user", "assistant"])
    #expect(items["has_more"] == false)
  }

  @Test func `a conversation takes no more items than can be read again`() throws {
    let app = app(FakeService("x"))
    let id =
      try app.send("POST", "/v1/conversations", body: #"{"metadata":{"a":"b"}}"#).json["id"]?.stringValue
      ?? ""
    let text = String(repeating: "a", count: 7 << 20)
    let items = #"{"items":[{"type":"message","role":"user","content":"\#(text)"}]}"#
    func add() throws -> Answer { try app.send("POST", "/v1/conversations/\(id)/items", body: items) }
    #expect(try add().status == 200)
    #expect(try add().status == 200)
    #expect(try add().refusal == "400 invalid_value items")
    let found = try app.send("GET", "/v1/conversations/\(id)").json
    #expect(found["id"]?.stringValue == id && found["metadata"] == ["a": "b"])
    #expect(try app.send("GET", "/v1/conversations/\(id)/items").json["data"]?.arrayValue?.count == 2)
  }

  @Test func `what a conversation does not know is named`() throws {
    let app = app(FakeService("x"))
    #expect(
      try app.send("POST", "/v1/conversations", body: #"{"x":1}"#).headers["x-mlxserve-ignored"] == "x")
    #expect(try app.send("GET", "/v1/conversations/nope").status == 404)
    #expect(try app.send("POST", "/v1/conversations/nope/items", body: #"{"items":[]}"#).status == 404)
    #expect(
      try app.send("POST", "/v1/conversations", body: #"{"metadata":5}"#).refusal
        == "400 invalid_type metadata")
  }

  // MARK: WebSocket

  @Test func `a plain GET is told to upgrade, a page of another site is refused`() throws {
    let app = app(FakeService("x"))
    let plain = try app.send("GET", "/v1/responses")
    #expect(plain.refusal == "426 upgrade_required null")
    #expect(plain.headers["upgrade"] == "websocket")
    let headers: Headers = [
      "host": "box.local:8080", "upgrade": "websocket", "connection": "upgrade",
      "sec-websocket-version": "13",
      "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    ]
    #expect(try app.send("GET", "/v1/responses", headers: headers).status == 101)
  }
}
