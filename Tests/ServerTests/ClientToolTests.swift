// Tools as agents send them: free text, namespaces, and those of a provider, over the wires.

import HTTP
import Inference
import JSON
import Server
import Testing

struct ClientToolTests {
  private let call = #"<tool_call>{"name": "NAME", "arguments": ARGUMENTS}</tool_call>"#

  private func service(_ name: String, _ arguments: String) -> FakeService {
    FakeService(call.replacing("NAME", with: name).replacing("ARGUMENTS", with: arguments))
  }

  private func responses(_ service: FakeService, _ members: String) throws -> Answer {
    try makeApp(service).send("POST", "/v1/responses", body: #"{"model":"m","input":"go",\#(members)}"#)
  }

  private let custom = #"{"type":"custom","name":"raw","description":"free text"}"#

  @Test func `a call of a custom tool is its text`() throws {
    let answer = try responses(service("raw", #"{"input": "a\nb"}"#), #""tools":[\#(custom)]"#)
    let item = try #require(answer.json["output"]?[0])
    #expect(
      item["type"] == "custom_tool_call" && item["name"] == "raw" && item["input"] == "a\nb", "\(answer.text)"
    )
    #expect(answer.json["tools"]?[0]?["type"] == "custom")
  }

  @Test func `its events have the names of the API`() throws {
    let answer = try responses(service("raw", #"{"input": "ab"}"#), #""tools":[\#(custom)],"stream":true"#)
    #expect(answer.text.contains(#""type":"response.custom_tool_call_input.delta","#))
    #expect(answer.text.contains(#""type":"response.custom_tool_call_input.done","#))
    #expect(!answer.text.contains("function_call_arguments"))
  }

  @Test func `a call of a tool in a namespace has both names`() throws {
    let tools = #"{"type":"namespace","name":"docs","tools":[{"type":"function","name":"find"}]}"#
    let service = service("docs__find", "{}")
    let answer = try responses(service, #""tools":[\#(tools)]"#)
    let item = try #require(answer.json["output"]?[0])
    #expect(item["name"] == "find" && item["namespace"] == "docs", "\(answer.text)")
  }

  @Test func `chat has custom tools in its own form`() throws {
    let tool = #"{"type":"custom","custom":{"name":"raw"}}"#
    let body = #"{"model":"m","messages":[{"role":"user","content":"go"}],"tools":[\#(tool)]}"#
    let call = try makeApp(service("raw", #"{"input": "ab"}"#)).send(
      "POST", "/v1/chat/completions", body: body
    )
    .json["choices"]?[0]?["message"]?["tool_calls"]?[0]
    #expect(call?["type"] == "custom")
    #expect(call?["custom"] == ["name": "raw", "input": "ab"])
    let stream = try makeApp(service("raw", #"{"input": "ab"}"#)).send(
      "POST", "/v1/chat/completions", body: body.replacing(#""model""#, with: #""stream":true,"model""#)
    ).text
    #expect(stream.contains(#""type":"custom","custom":{"name":"raw","input":""}"#))
    #expect(stream.contains(#"{"index":0,"custom":{"input":"ab"}}"#))
  }

  @Test func `a function's call after a custom call that failed has its own arguments`() throws {
    let tools = #"{"type":"custom","custom":{"name":"raw"}},{"type":"function","function":{"name":"find"}}"#
    let broken = #"<tool_call>{"name": "raw", "arguments": {"input": "a"]}</tool_call>"#
    let whole = call.replacing("NAME", with: "find").replacing("ARGUMENTS", with: #"{"x": 1}"#)
    let stream = try makeApp(FakeService(broken + whole)).send(
      "POST", "/v1/chat/completions",
      body: #"{"model":"m","stream":true,"messages":[{"role":"user","content":"go"}],"tools":[\#(tools)]}"#)
    let events = try stream.events.filter { $0 != "[DONE]" }.map { try JSONValue(parsing: $0) }
    let calls = events.compactMap { $0["choices"]?[0]?["delta"]?["tool_calls"]?[0] }
    #expect(calls.contains { $0["custom"]?["name"] == "raw" }, "\(stream.text)")
    let arguments = calls.compactMap { $0["function"]?["arguments"]?.stringValue }.joined()
    #expect(arguments == #"{"x": 1}"# || arguments == #"{"x":1}"#, "\(stream.text)")
    #expect(!calls.contains { $0["custom"]?["input"]?.stringValue?.contains("x") == true }, "\(stream.text)")
  }

  @Test func `a provider's tools are left out on every wire, and named`() throws {
    let bodies = [
      (
        "/v1/chat/completions",
        #""messages":[{"role":"user","content":"go"}],"tools":[{"type":"web_search"}]"#
      ),
      ("/v1/responses", #""input":"go","tools":[{"type":"web_search"}]"#),
      (
        "/v1/messages",
        #""max_tokens":9,"messages":[{"role":"user","content":"go"}],"tools":[{"type":"web_search","name":"w"}]"#
      ),
    ]
    for (path, members) in bodies {
      let answer = try makeApp(FakeService("xyz")).send("POST", path, body: #"{"model":"m",\#(members)}"#)
      #expect(answer.status == 200, "\(answer.text)")
      #expect(answer.headers["x-mlxserve-ignored"] == "tools[0].type=web_search")
    }
  }

  @Test func `two hundred tools are taken`() throws {
    let tools = (0..<200).map { #"{"type":"function","function":{"name":"f\#($0)"}}"# }.joined(separator: ",")
    let body = #"{"model":"m","messages":[{"role":"user","content":"go"}],"tools":[\#(tools)]}"#
    #expect(
      try makeApp(FakeService(maxContext: 9_000) { _, _ in Script(text: "x") }).send(
        "POST", "/v1/chat/completions", body: body
      ).status == 200)
  }

  @Test func `a text file of a chat message is its text`() throws {
    let service = FakeService("xyz")
    let part = #"{"type":"file","file":{"filename":"a.md","file_data":"data:text/markdown;base64,IyBI"}}"#
    let body = #"{"model":"m","messages":[{"role":"user","content":[\#(part)]}]}"#
    #expect(try makeApp(service).send("POST", "/v1/chat/completions", body: body).status == 200)
    let prompt = String(
      decoding: service.requests[0].promptTokens.map { UInt8(truncatingIfNeeded: $0) }, as: UTF8.self)
    #expect(prompt.contains("a.md:\n# H\n"))
  }

  @Test func `Anthropic's clients find models in their own shape`() throws {
    let app = makeApp(FakeService("x"))
    let list = try app.send("GET", "/v1/models", headers: ["anthropic-version": "2023-06-01"]).json
    #expect(list["data"]?[0]?["type"] == "model" && list["data"]?[0]?["id"] == "m")
    #expect(list["has_more"] == false && list["first_id"] == "m" && list["last_id"] == "m")
    let one = try app.send("GET", "/v1/models/m", headers: ["anthropic-version": "2023-06-01"]).json
    #expect(one["display_name"] == "m" && one["created_at"]?.stringValue?.hasSuffix("Z") == true)
    #expect(try app.send("GET", "/v1/models").json["object"] == "list")
  }
}
