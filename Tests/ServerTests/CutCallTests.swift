// A tool call that the token limit cuts: it comes once, as far as it came, on every wire.

import HTTP
import Inference
import JSON
import Testing
import Wire

@testable import Server

struct CutCallTests {
  private static let whole = #"<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>"#
  private static let cut = #"<tool_call>{"name": "f", "arguments": {"a": "Par"#
  private static let bare = #"<tool_call>{"na"#

  private let tools = #""tools":[{"type":"function","function":{"name":"f"}}]"#

  private func app(_ text: String) -> App {
    makeApp(FakeService { _, _ in Script(text: text, end: .length) })
  }

  private func chat(_ text: String, _ extra: String = "") throws -> Answer {
    try app(text).chat(tools + extra)
  }

  private func messages(_ text: String, _ extra: String = "") throws -> Answer {
    try app(text).send(
      "POST", "/v1/messages",
      body:
        #"{"model":"m","max_tokens":90,"messages":[{"role":"user","content":"hi"}],"tools":[{"name":"f","input_schema":{"type":"object"}}]\#(extra)}"#
    )
  }

  private func responses(
    _ text: String, _ tool: String = #"{"type":"function","name":"f"}"#, _ extra: String = ""
  ) throws
    -> Answer
  {
    try app(text).send(
      "POST", "/v1/responses", body: #"{"model":"m","input":"hi","tools":[\#(tool)]\#(extra)}"#)
  }

  @Test func `chat has it once, whole and streamed`() throws {
    let choice = try chat("So. " + Self.whole + Self.cut).json["choices"]?[0]
    let calls = choice?["message"]?["tool_calls"]?.arrayValue ?? []
    #expect(choice?["finish_reason"] == "length")
    #expect(choice?["message"]?["content"] == "So.")
    #expect(calls.map { $0["function"]?["arguments"] } == [#"{"a": 1}"#, #"{"a": "Par"#])
    #expect(choice?["malformed_tool_calls"] == nil)
    let deltas = try chat("So. " + Self.whole + Self.cut, #","stream":true"#).events.dropLast().map {
      try JSONValue(parsing: $0)["choices"]?[0]
    }
    let text = deltas.compactMap { $0?["delta"]?["content"]?.stringValue }.joined()
    let pieces = deltas.compactMap { $0?["delta"]?["tool_calls"]?[0] }
    let second = pieces.filter { $0["index"] == 1 }.compactMap { $0["function"]?["arguments"]?.stringValue }
    #expect(text == "So.")
    #expect(second.joined() == #"{"a": "Par"#)
    #expect(deltas.last??["finish_reason"] == "length")
    #expect(deltas.last??["malformed_tool_calls"] == nil)
  }

  @Test func `before its name is known it is content, once`() throws {
    let choice = try chat(Self.bare).json["choices"]?[0]
    #expect(choice?["message"]?["content"] == .string(Self.bare))
    #expect(choice?["message"]?["tool_calls"] == nil)
    #expect(choice?["finish_reason"] == "length")
    let message = try messages(Self.bare).json
    #expect(message["content"]?.arrayValue?.count == 1)
    #expect(message["content"]?[0]?["text"] == .string(Self.bare))
  }

  @Test func `the text of a custom tool is sent as far as it came`() throws {
    let custom = #""tools":[{"type":"custom","custom":{"name":"f"}}]"#
    let text = #"<tool_call>{"name": "f", "arguments": {"input": "ab"#
    let call = try app(text).chat(custom).json["choices"]?[0]?["message"]?["tool_calls"]?[0]
    let events = try app(text).chat(custom + #","stream":true"#).events.dropLast().map {
      try JSONValue(parsing: $0)["choices"]?[0]?["delta"]?["tool_calls"]?[0]?["custom"]
    }
    let streamed = events.compactMap { $0?["input"]?.stringValue }.joined()
    #expect(call?["custom"]?["input"] == #"{"input": "ab"#)
    #expect(streamed == #"{"input": "ab"#)
    let item = try responses(text, #"{"type":"custom","name":"f"}"#).json["output"]?[0]
    #expect(item?["input"] == #"{"input": "ab"#)
  }

  @Test func `Messages keeps what is no object as its guide says, and streams the pieces`() throws {
    let message = try messages(Self.cut).json
    let blocks = message["content"]?.arrayValue ?? []
    #expect(blocks.map { $0["type"] } == ["tool_use"])
    #expect(blocks.first?["input"] == ["INVALID_JSON": #"{"a": "Par"#])
    #expect(message["stop_reason"] == "max_tokens")
    let events = try messages(Self.cut, #","stream":true"#).text.split(separator: "\n").filter {
      $0.hasPrefix("data: ")
    }.map { try JSONValue(parsing: String($0.dropFirst(6))) }
    let kinds = events.compactMap { $0["content_block"]?["type"] }
    let parts = events.compactMap { $0["delta"]?["partial_json"]?.stringValue }.joined()
    #expect(kinds == ["tool_use"])
    #expect(parts == #"{"a": "Par"#)
    #expect(events.count { $0["type"] == "content_block_stop" } == 1)
    #expect(events.compactMap { $0["delta"]?["stop_reason"] } == ["max_tokens"])
  }

  @Test func `Responses has it as the last item, which is incomplete`() throws {
    let response = try responses("So. " + Self.cut).json
    let items = response["output"]?.arrayValue ?? []
    #expect(response["status"] == "incomplete")
    #expect(response["incomplete_details"]?["reason"] == "max_output_tokens")
    #expect(items.map { $0["type"] } == ["message", "function_call"])
    #expect(items.last?["arguments"] == #"{"a": "Par"#)
    #expect(items.last?["status"] == "incomplete")
    let streamed = try responses("So. " + Self.cut, #"{"type":"function","name":"f"}"#, #","stream":true"#)
    let last = try JSONValue(
      parsing: streamed.text.split(separator: "\n").last { $0.hasPrefix("data: {") }?.dropFirst(6).description
        ?? "")
    #expect(last["type"] == "response.incomplete")
    #expect(last["response"]?["output"]?.arrayValue?.map { $0["type"] } == ["message", "function_call"])
  }

  @Test func `Ollama, whose arguments are objects, has it as content`() throws {
    for stream in [true, false] {
      let body = #"{"model":"m","stream":\#(stream),"messages":[{"role":"user","content":"hi"}],\#(tools)}"#
      let lines = try app(Self.whole + Self.cut).send("POST", "/api/chat", body: body).text.split(
        separator: "\n"
      )
      .map { try JSONValue(parsing: String($0)) }
      let text = lines.compactMap { $0["message"]?["content"]?.stringValue }.joined()
      let calls = lines.compactMap { $0["message"]?["tool_calls"]?.arrayValue }.flatMap { $0 }
      #expect(text == Self.cut)
      #expect(calls.map { $0["function"]?["arguments"] } == [["a": 1]])
      #expect(lines.last?["done_reason"] == "length")
    }
  }

  @Test(arguments: ["mcp.docs.find", "a.b", "f."])
  func `names of tools may have dots on Ollama's wire`(name: String) throws {
    let text = #"<tool_call>{"name": "\#(name)", "arguments": {"a": 1}}</tool_call>"#
    let tool = #"{"type":"function","function":{"name":"\#(name)"}}"#
    let answer = try makeApp(FakeService(text)).send(
      "POST", "/api/chat",
      body: #"{"model":"m","stream":false,"messages":[{"role":"user","content":"hi"}],"tools":[\#(tool)]}"#)
    #expect(answer.json["message"]?["tool_calls"]?[0]?["function"]?["name"] == .string(name))
    let chat = try makeApp(FakeService(text)).chat(#""tools":[\#(tool)]"#)
    #expect(chat.refusal == "400 invalid_value tools[0].function.name")
  }

  @Test(arguments: ["a b", "a/b", "", "é"])
  func `other names stay refused there`(name: String) throws {
    let tool = #"{"type":"function","function":{"name":"\#(name)"}}"#
    let answer = try makeApp(FakeService("x")).send(
      "POST", "/api/chat",
      body: #"{"model":"m","stream":false,"messages":[{"role":"user","content":"hi"}],"tools":[\#(tool)]}"#)
    #expect(answer.status == 400)
    #expect(answer.json["error"]?.stringValue?.contains("^[a-zA-Z0-9_.-]{1,128}$") == true)
  }
}
