// What requests make of guides: which answers a model may give to them.

import Decoding
import Grammar
import HTTP
import JSON
import Server
import Testing
import Tokenizers

@testable import Inference

private let weather =
  #"{"type":"function","function":{"name":"get_weather","parameters":{"type":"object","properties":"#
  + #"{"city":{"type":"string"}},"required":["city"],"additionalProperties":false}}}"#
private let strictTime =
  #"{"type":"function","function":{"name":"get_time","strict":true,"parameters":{"type":"object","properties":"#
  + #"{"utc":{"type":"boolean"}},"required":["utc"],"additionalProperties":false}}}"#
private let format =
  #""response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"enum":[1,"a"]}}}"#

/// `whole` when the guide of a request lets a model say all of `text` and end there, `part` when it may not end
/// there, else what it says instead: the text up to the first token that is not allowed.
private func saying(_ text: String, to extra: String, thinking: Bool = false) throws -> String {
  let service = FakeService("x")
  let answer = try makeApp(service).chat(extra + (thinking ? "" : #","thinking":false"#))
  guard answer.status == 200, let request = service.requests.first else { return answer.refusal }
  guard var guide = request.madeGuide else { return "free" }
  var said: [Int32] = []
  func allows(_ token: Int32) -> Bool {
    switch guide.allowance(remaining: 300) {
    case .any: true
    case .only(let forced): forced == token
    case .among(let mask): mask.contains(token)
    }
  }
  for token in tinyTokenizer.encode(text, addSpecialTokens: false) {
    guard allows(token) else { return tinyTokenizer.decode(said, skipSpecialTokens: false) }
    guide.accept(token)
    said.append(token)
  }
  return allows(Marker.end) ? "whole" : "part"
}

private func call(_ name: String, _ arguments: String) -> String {
  "<tool_call>\n{\"name\": \"\(name)\", \"arguments\": \(arguments)}\n</tool_call>"
}

struct ConstraintTests {
  // MARK: Formats

  @Test(arguments: [
    (format, "1"), (format, #""a""#), (#""response_format":{"type":"json_object"}"#, #"{"a": [1, null]}"#),
    (#""guided_regex":"[0-9]+x""#, "12x"), (#""guided_choice":["yes","no"]"#, "no"),
    (#""guided_grammar":"root ::= \"a\" | \"b\"""#, "b"),
    (#""guided_json":"{\"type\":\"boolean\"}""#, "true"),
    (#""structured_outputs":{"choice":["é"]}"#, "é"),
    (#""guided_grammar":"start: \"a\" | \"b\"""#, "b"), (#""ebnf":"root ::= \"a\"""#, "a"),
    (
      #""response_format":{"type":"structural_tag","triggers":["<f"],"structures":[{"begin":"<f>","schema":true,"end":"</f>"}]}"#,
      "so: <f>12</f>."
    ),
    (
      #""structural_tag":{"format":{"type":"tag","begin":"<a>","content":{"type":"any_text"},"end":"</a>"}}"#,
      "<a>x < y</a>"
    ),
    (
      #""structural_tag":{"format":{"type":"sequence","elements":[{"type":"const_string","value":"n="},"#
        + #"{"type":"repeat","min":2,"max":3,"content":{"type":"regex","pattern":"[0-9]"}}]}}"#, "n=123"
    ),
    (#""guided_json":{"properties":{"a":{}}},"additional_properties":true"#, #"{"b": 1}"#),
    (#""response_format":{"type":"quote","source":["a cat","a dog"]}"#, "dog"),
    (#""response_format":{"type":"quote","source":{"from":"messages"}}"#, "hi"),
    (#""guided_json":{"items":{"x-quote-of":{"from":"messages"}},"minItems":1}"#, #"["hi", "hi"]"#),
    (
      #""structural_tag":{"format":{"type":"tag","begin":"<q>","content":{"type":"quote","source":"a cat"},"end":"</q>"}}"#,
      "<q>cat</q>"
    ),
  ])
  func `a format allows what it describes and the end after it`(extra: String, text: String) throws {
    #expect(try saying(text, to: extra) == "whole")
  }

  @Test func `a schema of a draft that nobody knows is said to be read as one of the newest`() throws {
    func note(_ address: String) throws -> String? {
      let schema = #""guided_json":{"$schema":"\#(address)","type":"integer"}"#
      return try makeApp(FakeService("1")).chat(schema).headers["x-mlxserve-ignored"]
    }
    #expect(try note("http://example.com/mine") == "$schema=http://example.com/mine")
    #expect(try note("http://json-schema.org/draft-04/schema#") == nil)
    let schema = #""format":{"$schema":"http://example.com/mine","type":"integer"}"#
    let ollama = try makeApp(FakeService("1")).send(
      "POST", "/api/chat",
      body: #"{"model":"m","stream":false,"messages":[{"role":"user","content":"x"}],\#(schema)}"#)
    #expect(ollama.headers["x-mlxserve-ignored"] == "$schema=http://example.com/mine")
  }

  @Test func `a format allows nothing else`() throws {
    #expect(try saying("2", to: format) == "")
    #expect(try saying(#""ab""#, to: format) == #""a"#)
    #expect(try saying("12", to: #""guided_regex":"[0-9]+x""#) == "part")
    #expect(try saying("<tool_call>", to: format) == "")
    #expect(try saying("hi", to: #""response_format":{"type":"text"}"#) == "free")
    #expect(try saying(#"{"b": 1}"#, to: #""guided_json":{"properties":{"a":{}}}"#) == #"{""#)
    #expect(try saying("dot", to: #""response_format":{"type":"quote","source":["a cat","a dog"]}"#) == "do")
    let tool = weather.replacing(#"{"type":"string"}"#, with: #"{"x-quote-of":{"from":"messages"}}"#)
    let forced = #""tools":[\#(tool)],"tool_choice":"required""#
    #expect(try saying(call("get_weather", #"{"city": "hi"}"#), to: forced) == "whole")
    #expect(try saying(call("get_weather", #"{"city": "ho"}"#), to: forced).hasSuffix(#""h"#))
  }

  @Test(arguments: [
    (#""guided_regex":"(""#, "400 invalid_value guided_regex"),
    (#""guided_grammar":"x ::= \"a\"""#, "400 invalid_value guided_grammar"),
    (#""guided_grammar":"x: \"a\"""#, "400 invalid_value guided_grammar"),
    (#""structural_tag":{"format":{"type":"dispatch"}}"#, "400 unsupported_value structural_tag/format"),
    (
      #""structural_tag":{"format":{"type":"tag","begin":"x"}}"#,
      "400 invalid_value structural_tag/format/content/type"
    ),
    (
      #""response_format":{"type":"json_schema","json_schema":{"schema":{"properties":{"a/b":{"$ref":"http://x"}}}}}"#,
      "400 unsupported_value response_format.json_schema.schema/properties/a~1b"
    ),
    (#""guided_json":false"#, "400 invalid_value guided_json"),
    (#""response_format":{"type":"quote"}"#, "400 missing_required_parameter response_format.source"),
    (#""response_format":{"type":"quote","source":[1]}"#, "400 invalid_type response_format.source"),
    (#""response_format":{"type":"quote","source":""}"#, "400 invalid_value response_format.source"),
    (#""guided_json":{"x-quote-of":"a","pattern":"a"}"#, "400 unsupported_value guided_json"),
    (format + #","ignore_eos":true"#, "400 invalid_value ignore_eos"),
    (format + #","min_tokens":3"#, "400 invalid_value min_tokens"),
    (#""tools":[\#(weather)],"tool_choice":"required","min_tokens":3"#, "400 invalid_value min_tokens"),
    (
      #""tools":[{"type":"function","function":{"name":"f","strict":true,"parameters":{"properties":{"a":{"$ref":"http://x"}}}}}]"#,
      "400 unsupported_value tools[0].function.parameters/properties/a"
    ),
  ])
  func `what cannot be enforced is refused before the answer begins`(extra: String, refusal: String) throws {
    #expect(try saying("", to: extra) == refusal)
    let stream = try makeApp(FakeService("x")).chat(extra + #","stream":true"#)
    #expect(stream.status == 400)
  }

  @Test func `a prompt that is under way when its format is refused is given up`() throws {
    let service = FakeService { _, _ in Script(text: "x", end: nil) }
    let app = makeApp(service)
    #expect(try app.chat(#""guided_regex":"(""#).refusal == "400 invalid_value guided_regex")
    #expect(try app.complete(#""prompt":"x","guided_regex":"(""#).refusal == "400 invalid_value guided_regex")
    #expect(service.cancelled == [true, true])
  }

  @Test func `all choices of a request have the same format`() throws {
    let service = FakeService("1")
    #expect(try makeApp(service).chat(format + #","n":10"#).status == 200)
    #expect(service.requests.count == 10)
    for request in service.requests {
      var guide = try #require(request.madeGuide)
      guard case .among(let mask) = guide.allowance(remaining: 9) else {
        Issue.record("everything is allowed")
        return
      }
      #expect(mask.contains(Int32(UInt8(ascii: "1"))))
      #expect(!mask.contains(Int32(UInt8(ascii: "2"))))
    }
  }

  @Test func `a refused schema is named as its wire names it, in the message too`() throws {
    func tool(_ type: String, _ schema: String) -> String {
      #"{"type":"\#(type)","name":"f","strict":true,"\#(schema)":{"properties":{"a":{"$ref":"http://x"}}}}"#
    }
    let app = makeApp(FakeService("x"))
    let responses = try app.send(
      "POST", "/v1/responses",
      body: #"{"model":"m","input":"x","tools":[\#(tool("function", "parameters"))]}"#)
    #expect(responses.refusal == "400 unsupported_value tools[0].parameters/properties/a")
    let words = responses.json["error"]?["message"]?.stringValue ?? ""
    #expect(words.hasPrefix("Invalid 'tools[0].parameters': "), "\(words)")
    let messages = try app.send(
      "POST", "/v1/messages",
      body: #"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"x"}],"#
        + #""tools":[\#(tool("custom", "input_schema"))]}"#)
    #expect(messages.status == 400)
    let other = messages.json["error"]?["message"]?.stringValue ?? ""
    #expect(other.hasPrefix("Invalid 'tools[0].input_schema': "), "\(other)")
  }

  // MARK: Thoughts

  @Test func `reasoning comes before the constrained text`() throws {
    #expect(try saying("<think>\nhm { 2\n</think>\n\n1", to: format, thinking: true) == "whole")
    #expect(try saying("1", to: format, thinking: true) == "whole")
    #expect(
      try saying("<think>\nhm\n</think>\n\n2", to: format, thinking: true) == "<think>\nhm\n</think>\n\n")
    #expect(try saying("<think>", to: format) == "")
    // The answer does not end inside the reasoning.
    #expect(try saying("<think>\nhm", to: format, thinking: true) == "part")
  }

  @Test func `a budget closes the reasoning before the constrained text`() throws {
    let extra = format + #","thinking_budget":2"#
    #expect(try saying("<think>ab\n</think>\n\n1", to: extra, thinking: true) == "whole")
    #expect(try saying("<think>abc", to: extra, thinking: true) == "<think>ab")
  }

  @Test(arguments: [
    (#""thinking_budget":2"#, 2), (#""reasoning":{"max_tokens":3}"#, 3),
    (#""reasoning_effort":"minimal""#, 512),
    (#""reasoning_effort":"low""#, 1024), (#""reasoning_effort":"medium""#, 8192),
  ])
  func `budgets and levels of effort bound the reasoning`(extra: String, tokens: Int) throws {
    let service = FakeService("x")
    _ = try makeApp(service).chat(extra)
    var guide = try #require(service.requests[0].guide)
    for token in tinyTokenizer.encode(
      "<think>" + String(repeating: "a", count: tokens), addSpecialTokens: false)
    {
      #expect(guide.allowance(remaining: 1) == .any)
      guide.accept(token)
    }
    #expect(guide.allowance(remaining: 1) == .only(10))
  }

  @Test func `without a bound there is no guide`() throws {
    for extra in [
      #""reasoning_effort":"high""#, #""thinking":true"#, #""thinking_budget":0"#, #""thinking":false"#,
    ] {
      let service = FakeService("x")
      _ = try makeApp(service).chat(extra)
      #expect(service.requests[0].guide == nil)
    }
  }

  // MARK: Tools

  @Test func `required forces calls of the tools`() throws {
    let extra = #""tools":[\#(weather),\#(strictTime)],"tool_choice":"required""#
    let one = call("get_weather", #"{"city": "Oslo"}"#)
    #expect(try saying(one, to: extra) == "whole")
    #expect(try saying(one + "\n" + call("get_time", #"{"utc": true}"#), to: extra) == "whole")
    #expect(try saying("Hello", to: extra) == "")
    #expect(try saying(call("get_rain", "{}"), to: extra) == "<tool_call>\n{\"name\": \"get_")
    #expect(try saying(one + "\n" + one, to: extra + #","parallel_tool_calls":false"#) == one)
    #expect(try saying("<think>hm</think>\n\n" + one, to: extra, thinking: true) == "whole")
  }

  @Test func `a named tool is called once and no other`() throws {
    let extra =
      #""tools":[\#(weather),\#(strictTime)],"tool_choice":{"type":"function","function":{"name":"get_time"}}"#
    let one = call("get_time", #"{"utc": false}"#)
    #expect(try saying(one, to: extra) == "whole")
    #expect(try saying(one + "\n" + one, to: extra) == one)
    #expect(try saying(call("get_weather", "{}"), to: extra) == "<tool_call>\n{\"name\": \"get_")
    let both = FakeService(call("get_weather", "{}") + call("get_time", "{}"))
    let message = try makeApp(both).chat(extra).json["choices"]?[0]?["message"]
    #expect(message?["tool_calls"]?.arrayValue?.map { $0["function"]?["name"] } == ["get_time"])
  }

  @Test func `a strict tool binds its calls and leaves text free`() throws {
    let extra = #""tools":[\#(weather),\#(strictTime)]"#
    #expect(try saying("Hello!", to: extra) == "whole")
    #expect(try saying("Now: " + call("get_time", #"{"utc": true}"#), to: extra) == "whole")
    #expect(
      try saying(call("get_time", #"{"utc": 1"#), to: extra)
        == "<tool_call>\n{\"name\": \"get_time\", \"arguments\": {\"utc\": ")
    #expect(try saying("x", to: #""tools":[\#(weather)]"#) == "free")
  }

  @Test func `a choice of none allows any text in which no call begins`() throws {
    let none = #""tools":[\#(weather),\#(strictTime)],"tool_choice":"none""#
    #expect(try saying("Hello! {}", to: none) == "whole")
    #expect(try saying("Hello " + call("get_time", #"{"utc": true}"#), to: none) == "Hello ")
    #expect(try saying("1", to: none + "," + format) == "whole")
    // A grammar leaves no room for these, so a call is text.
    for other in [#""ignore_eos":true"#, #""min_tokens":2"#] {
      #expect(try saying("x", to: "\(none),\(other)") == "free")
    }
    #expect(try saying("x", to: none + #","hide_tools":true"#) == "free")
  }

  @Test func `with a format the answer is calls or the format`() throws {
    let extra = #""tools":[\#(weather)],"# + format
    #expect(try saying("1", to: extra) == "whole")
    #expect(try saying(call("get_weather", #"{"city": ""}"#), to: extra) == "whole")
    #expect(try saying("2", to: extra) == "")
    #expect(try saying("1" + call("get_weather", "{}"), to: extra) == "1")
  }

  @Test func `a forced tool without an enforceable schema takes any object`() throws {
    let loose =
      #"{"type":"function","function":{"name":"f","parameters":{"properties":{"a":{"$ref":"http://x"}}}}}"#
    let extra = #""tools":[\#(loose)],"tool_choice":"required""#
    #expect(try saying(call("f", #"{"b": [1]}"#), to: extra) == "whole")
    let bare = #"{"type":"function","function":{"name":"f"}}"#
    #expect(try saying(call("f", "{}"), to: #""tools":[\#(bare)],"tool_choice":"required""#) == "whole")
    #expect(
      try saying(call("f", #"{"a": 1}"#), to: #""tools":[\#(bare)],"tool_choice":"required""#)
        == "<tool_call>\n{\"name\": \"f\", \"arguments\": {")
  }

  // MARK: Other wires and fields

  @Test func `a continued text and the answer obey the format together`() throws {
    func request(_ text: String) -> String {
      #"{"model":"m","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"\#(text)"}],"#
        + #""continue_final_message":true,"guided_choice":["one two","one three"]}"#
    }
    let service = FakeService(" two")
    let app = makeApp(service)
    #expect(try app.send("POST", "/v1/chat/completions", body: request("one")).status == 200)
    var guide = try #require(service.requests[0].madeGuide)
    guard case .among(let mask) = guide.allowance(remaining: 9) else {
      Issue.record("everything is allowed")
      return
    }
    #expect(mask.contains(0x20))
    #expect(!mask.contains(Int32(UInt8(ascii: "o"))))
    let refused = try app.send("POST", "/v1/chat/completions", body: request("two"))
    #expect(refused.refusal == "400 invalid_value continue_final_message")
  }

  @Test func `completions can be constrained`() throws {
    let service = FakeService("a")
    let app = makeApp(service)
    #expect(try app.complete(#""prompt":"x","guided_choice":["a"]"#).status == 200)
    #expect(service.requests[0].madeGuide != nil)
    #expect(try app.complete(#""prompt":"x","guided_regex":"(""#).refusal == "400 invalid_value guided_regex")
  }

  @Test func `nothing is compiled for a client that has left, and the next one is served`() throws {
    let service = FakeService("a")
    let app = makeApp(service)
    func send(_ path: String, _ body: String, _ isGone: Bool) throws -> Answer {
      try app.send("POST", path, body: body, context: ConnectionContext(isClientGone: { isGone }))
    }
    // One that no tool is strict about would otherwise give way.
    let loose = strictTime.replacing(#""strict":true,"#, with: "")
    for (path, extra) in [
      ("/v1/completions", #""prompt":"x","guided_regex":"a""#),
      ("/v1/chat/completions", #""messages":[{"role":"user","content":"x"}],"guided_regex":"ab?""#),
      (
        "/v1/chat/completions",
        #""messages":[{"role":"user","content":"x"}],"tools":[\#(loose)],"tool_choice":"required""#
      ),
      ("/v1/responses", #""input":"x","text":{"format":{"type":"json_object"}}"#),
    ] {
      let body = #"{"model":"m",\#(extra)}"#
      let count = service.requests.count
      let given = try send(path, body, true)
      #expect(given.refusal == "499 client_gone null" && service.requests.count == count, "\(extra)")
      #expect(try send(path, body, false).status == 200 && service.requests.count == count + 1, "\(extra)")
    }
  }

  @Test func `a prediction becomes a draft`() throws {
    let service = FakeService("a")
    _ = try makeApp(service).chat(#""prediction":{"type":"content","content":"Hi"}"#)
    #expect(service.requests[0].draft == [72, 105])
  }

  @Test func `a strict server refuses fields that nobody knows`() throws {
    let app = makeApp(FakeService("x")) { $0.strictParameters = true }
    #expect(try app.chat(#""foo":1"#).refusal == "400 unknown_parameter foo")
    #expect(try app.complete(#""prompt":"x","foo":1"#).refusal == "400 unknown_parameter foo")
    #expect(try app.chat().status == 200)
  }
}
