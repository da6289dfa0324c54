// POST /v1/messages against scripted generations.

import Decoding
import HTTP
import Inference
import JSON
import Sampling
import Server
import Testing
import Tokenizers
import Wire

private let thinkingAnswer = "<think>\nhm\n</think>\n\nYes."
private let callAnswer =
  #"<tool_call>\#n{"name": "get_weather", "arguments": {"city": "Oslo"}}\#n</tool_call>"#
private let tools =
  #""tools":[{"name":"get_weather","input_schema":{"type":"object","properties":{}}}]"#
private let thinks = #""thinking":{"type":"enabled","budget_tokens":5}"#

extension App {
  /// A request with one user message and further members.
  fileprivate func message(_ extra: String = "", path: String = "/v1/messages") throws -> Answer {
    let body =
      #"{"model":"m","max_tokens":99,"messages":[{"role":"user","content":"hi"}]\#(extra.isEmpty ? "" : ",\(extra)")}"#
    return try send("POST", path, body: body)
  }
}

/// `name data` of each event.
private func events(_ answer: Answer) -> [String] {
  answer.text.split(separator: "\n\n").map { block in
    let lines = block.split(separator: "\n")
    return lines.count == 2 ? "\(lines[0].dropFirst(7)) \(lines[1].dropFirst(6))" : String(block)
  }
}

struct MessagesRouteTests {
  @Test func `a whole answer`() throws {
    let service = FakeService("Hello")
    let answer = try makeApp(service).message(#""temperature":0,"top_k":3"#)
    #expect(answer.status == 200)
    #expect(answer.headers["request-id"] == "req_test")
    #expect(
      answer.text
        == #"{"id":"msg_ID","type":"message","role":"assistant","model":"m","content":[{"type":"text","#
        + #""text":"Hello","citations":null}],"stop_reason":"end_turn","stop_sequence":null,"stop_details":null,"#
        + #""container":null,"usage":{"input_tokens":27,"cache_creation_input_tokens":0,"#
        + #""cache_read_input_tokens":0,"output_tokens":5,"output_tokens_details":{"thinking_tokens":0},"#
        + #""server_tool_use":null,"cache_creation":null,"service_tier":"standard","inference_geo":null}}"#)
    let request = try #require(service.requests.first)
    #expect(
      tinyTokenizer.decode(request.promptTokens, skipSpecialTokens: false)
        == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n")
    #expect(request.maxTokens == 99)
    #expect(request.sampling.topK == 3)
  }

  @Test func `a streamed answer`() throws {
    let answer = try makeApp(FakeService("Hi")).message(#""stream":true"#)
    #expect(answer.headers["content-type"] == "text/event-stream; charset=utf-8")
    let found = events(answer)
    #expect(found.count == 7)
    #expect(
      found[0].hasPrefix(
        #"message_start {"type":"message_start","message":{"id":"msg_ID","type":"message","role":"assistant","#
          + #""model":"m","content":[],"stop_reason":null"#))
    #expect(found[0].contains(#""input_tokens":27"#) && found[0].contains(#""output_tokens":0"#))
    #expect(
      Array(found[1...4]) == [
        #"content_block_start {"type":"content_block_start","index":0,"content_block":{"type":"text","text":"","#
          + #""citations":null}}"#,
        #"content_block_delta {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"H"}}"#,
        #"content_block_delta {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"i"}}"#,
        #"content_block_stop {"type":"content_block_stop","index":0}"#,
      ])
    #expect(
      found[5].hasPrefix(
        #"message_delta {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null"#))
    #expect(found[5].contains(#""output_tokens":2"#))
    #expect(found[6] == #"message_stop {"type":"message_stop"}"#)
    #expect(!answer.text.contains("[DONE]"))
  }

  @Test func `an empty answer has no blocks`() throws {
    #expect(try makeApp(FakeService("")).message().json["content"] == [])
    let names = events(try makeApp(FakeService("")).message(#""stream":true"#)).map {
      $0.prefix { $0 != " " }
    }
    #expect(names == ["message_start", "message_delta", "message_stop"])
  }

  @Test func `reasoning is a block with a signature`() throws {
    let app = makeApp(FakeService(thinkingAnswer))
    let blocks = try app.message(thinks).json["content"]
    #expect(blocks?[0]?["type"] == "thinking")
    #expect(blocks?[0]?["thinking"] == "hm")
    #expect(blocks?[0]?["signature"]?.stringValue?.hasPrefix("mlxserve_") == true)
    #expect(blocks?[1]?["text"] == "Yes.")
    let found = events(try app.message("\(thinks),\"stream\":true"))
    #expect(found[1].contains(#""content_block":{"type":"thinking","thinking":"","signature":""}"#))
    #expect(found[2].contains(#""delta":{"type":"thinking_delta","thinking":"h"}"#))
    #expect(
      found[4].contains(
        #""delta":{"type":"signature_delta","signature":\#(blocks?[0]?["signature"]?.text ?? "")}"#))
    #expect(found[5] == #"content_block_stop {"type":"content_block_stop","index":0}"#)
    #expect(found[6].contains(#""index":1,"content_block":{"type":"text""#))
  }

  @Test func `reasoning that is not shown keeps its block`() throws {
    let app = makeApp(FakeService(thinkingAnswer))
    let hidden = #""thinking":{"type":"adaptive","display":"omitted"}"#
    let answer = try app.message(hidden).json
    #expect(answer["content"]?[0]?["thinking"] == "")
    #expect(answer["content"]?[1]?["text"] == "Yes.")
    #expect(answer["usage"]?["output_tokens_details"]?["thinking_tokens"] == 8)
    let found = events(try app.message("\(hidden),\"stream\":true"))
    #expect(found[1].contains("thinking"))
    #expect(found[2].contains("signature_delta"))
  }

  @Test func `a tool use, whole and streamed`() throws {
    let app = makeApp(FakeService(callAnswer))
    let answer = try app.message(tools).json
    #expect(
      answer["content"]?.text
        == #"[{"type":"tool_use","id":"toolu_ID","name":"get_weather","input":{"city":"Oslo"},"#
        + #""caller":{"type":"direct"}}]"#)
    #expect(answer["stop_reason"] == "tool_use")
    let found = events(try app.message("\(tools),\"stream\":true"))
    #expect(
      found[1].contains(
        #""content_block":{"type":"tool_use","id":"toolu_ID","name":"get_weather","input":{},"#))
    #expect(found.contains { $0.contains(#""type":"input_json_delta","partial_json":"#) })
    #expect(found[found.count - 3] == #"content_block_stop {"type":"content_block_stop","index":0}"#)
    #expect(found[found.count - 2].contains(#""stop_reason":"tool_use""#))
  }

  @Test func `the reason of the end`() throws {
    let stopped = try makeApp(FakeService("one END two")).message(#""stop_sequences":["X","END"]"#).json
    #expect(stopped["stop_reason"] == "stop_sequence")
    #expect(stopped["stop_sequence"] == "END")
    #expect(stopped["content"]?[0]?["text"] == "one ")
    // Found only when the text has ended: it could have gone on to a longer one.
    let late = try makeApp(FakeService("one EN")).message(#""stop_sequences":["EN","ENDS"],"stream":true"#)
    #expect(late.text.contains(#""stop_reason":"stop_sequence","stop_sequence":"EN""#))
    let cut = try makeApp(FakeService(String(repeating: "x", count: 200))).message().json
    #expect(cut["stop_reason"] == "max_tokens")
    #expect(cut["usage"]?["output_tokens"] == 99)
  }

  @Test func `cached tokens are not input tokens`() throws {
    let service = FakeService { _, _ in Script(text: "x", cachedTokens: 16) }
    let usage = try makeApp(service).message().json["usage"]
    #expect(usage?["input_tokens"] == 11)
    #expect(usage?["cache_read_input_tokens"] == 16)
  }

  @Test func `tokens are counted without an answer`() throws {
    let service = FakeService("x")
    let answer = try makeApp(service).message(path: "/v1/messages/count_tokens")
    #expect(answer.text == #"{"input_tokens":27}"#)
    #expect(service.requests.isEmpty)
  }

  @Test(arguments: [
    ("POST", "/v1/messages", "{", 400, "invalid_request_error"),
    ("POST", "/v1/messages", #"{"model":"m"}"#, 400, "invalid_request_error"),
    (
      "POST", "/v1/messages", #"{"model":"x","max_tokens":1,"messages":[{"role":"user","content":"a"}]}"#,
      404, "not_found_error"
    ),
    ("GET", "/v1/messages", "", 405, "invalid_request_error"),
    ("POST", "/v1/messages/nope/x", "{}", 404, "not_found_error"),
    (
      "POST", "/v1/messages/count_tokens", #"{"model":"m","messages":[{"role":"robot","content":"a"}]}"#,
      400, "invalid_request_error"
    ),
  ])
  func `errors have the shape of this wire`(
    method: String, path: String, body: String, status: Int, type: String
  ) throws {
    let answer = try makeApp(FakeService("x")).send(method, path, body: body)
    #expect(answer.status == status)
    #expect(answer.json["type"] == "error")
    #expect(answer.json["error"]?["type"]?.stringValue == type)
    #expect(answer.json["error"]?["message"]?.stringValue?.isEmpty == false)
    #expect(answer.json["request_id"] == "req_test")
  }

  @Test func `a full queue is told with the time to wait`() throws {
    let service = FakeService { _, _ in Script(submitError: .queueFull(limit: 1)) }
    let answer = try makeApp(service).message()
    #expect(answer.status == 429)
    #expect(answer.headers["retry-after"] == "1")
    #expect(answer.json["error"]?["type"] == "rate_limit_error")
  }

  @Test func `a failure in a stream is its last event`() throws {
    let service = FakeService { _, _ in Script(text: "a", error: .draining) }
    let last = events(try makeApp(service).message(#""stream":true"#)).last
    #expect(last?.hasPrefix(#"error {"type":"error","error":{"type":"overloaded_error""#) == true)
  }

  @Test func `a final assistant message that cannot be continued is named`() throws {
    let answer = try makeApp(FakeService("x")).send(
      "POST", "/v1/messages",
      body:
        #"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":" "}]}"#
    )
    #expect(answer.status == 400)
    #expect(answer.text.contains("'messages[1]'"))
  }
}
