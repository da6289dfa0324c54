// The body of POST /v1/responses: what it becomes, and what is refused in which words.

import JSON
import Sampling
import Testing

@testable import Wire

/// Ids in the order they are made: `1`, `2`, ...
final class Counter {
  private var value = 0
  func next() -> String {
    value += 1
    return "\(value)"
  }
}

struct ResponsesRequestTests {
  private func request(_ members: String, refusesHostedTools: Bool = false) throws -> ResponsesRequest {
    var limits = RequestLimits()
    limits.refusesHostedTools = refusesHostedTools
    return try ResponsesRequest(
      JSONValue(parsing: #"{"model":"m",\#(members)}"#), isMessage: false, limits: limits,
      vocabularySize: 1_000)
  }

  private func input(_ request: ResponsesRequest) throws -> ResponsesInput {
    let counter = Counter()
    return try ResponsesItemReader(limits: RequestLimits(), makeID: counter.next, resolve: { _ in nil })
      .read(request.input ?? .null)
  }

  private func chat(_ members: String) throws -> ChatRequest {
    let request = try request(members)
    return try request.chatRequest(context: [], input: input(request), limits: RequestLimits())
  }

  private func refusal(_ members: String) -> String {
    do {
      _ = try chat(members)
      return "accepted"
    } catch let error as APIError {
      return "\(error.code ?? "null") \(error.param ?? "null")"
    } catch {
      return "\(error)"
    }
  }

  @Test(
    arguments: [
      (#""response_format":{"type":"text"}"#, "response_format"),
      (#""reasoning_effort":"low""#, "reasoning_effort"),
      (#""max_tokens":5"#, "max_tokens"), (#""max_completion_tokens":5"#, "max_completion_tokens"),
      (#""messages":[]"#, "messages"), (#""n":2"#, "n"), (#""logprobs":true"#, "logprobs"),
    ])
  func `what chat calls otherwise is refused, not dropped`(member: String, name: String) {
    #expect(refusal(#""input":"x",\#(member)"#) == "unsupported_parameter \(name)")
  }

  @Test func `what says nothing in chat's words is taken`() {
    #expect(refusal(#""input":"x","n":1,"logprobs":false,"max_tokens":null"#) == "accepted")
  }

  /// Messages that items become.
  private func messages(_ items: String, _ more: String = "") throws -> JSONValue {
    .array(try chat(#""input":\#(items)\#(more)"#).messages)
  }

  // MARK: Messages

  @Test func `a turn is one message, whatever items it came in`() throws {
    let items = """
      [{"role":"user","content":"u"},
       {"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"t"}]},
       {"role":"assistant","content":[{"type":"output_text","text":"a"},{"type":"output_text","text":"b"}]},
       {"type":"function_call","call_id":"c1","name":"f","arguments":"{}"},
       {"type":"custom_tool_call","call_id":"c2","name":"g","input":"x"},
       {"type":"function_call_output","call_id":"c1","output":"1"},
       {"type":"custom_tool_call_output","call_id":"c2","output":[{"type":"input_text","text":"2"},{"type":"new","a":1}]},
       {"type":"reasoning","summary":[{"type":"summary_text","text":"s"}]},
       {"role":"assistant","content":"c"},{"role":"assistant","content":"d"}]
      """
    let f: JSONValue = ["id": "c1", "type": "function", "function": ["name": "f", "arguments": "{}"]]
    let g: JSONValue = [
      "id": "c2", "type": "function", "function": ["name": "g", "arguments": #"{"input":"x"}"#],
    ]
    let expected: JSONValue = [
      ["role": "user", "content": "u"],
      ["role": "assistant", "reasoning_content": "t", "content": "ab", "tool_calls": [f, g]],
      ["role": "tool", "tool_call_id": "c1", "content": "1"],
      ["role": "tool", "tool_call_id": "c2", "content": #"2{"type":"new","a":1}"#],
      ["role": "assistant", "reasoning_content": "s", "content": "c"],
      ["role": "assistant", "content": "d"],
    ]
    #expect(try messages(items) == expected)
  }

  @Test func `instructions and leading system items are one system message`() throws {
    let items =
      #"[{"role":"developer","content":"b"},{"role":"system","content":"c"},{"role":"user","content":"u"}]"#
    #expect(
      try messages(items, #","instructions":"a""#)
        == [["role": "system", "content": "a\n\nb\n\nc"], ["role": "user", "content": "u"]])
    let later = #"[{"role":"user","content":"u"},{"role":"developer","content":"d"}]"#
    #expect(
      try messages(later)
        == [["role": "user", "content": "u"], ["role": "developer", "content": "d"]])
  }

  @Test func `reasoning at the end is a turn without words`() throws {
    let items = #"[{"role":"user","content":"u"},{"type":"reasoning","summary":[],"content":[{"text":"t"}]}]"#
    #expect(
      try messages(items)
        == [
          ["role": "user", "content": "u"], ["role": "assistant", "reasoning_content": "t", "content": ""],
        ])
  }

  @Test func `a call that was cut off is left out`() throws {
    let items =
      #"[{"role":"user","content":"u"},{"type":"function_call","call_id":"c","name":"f","arguments":"{","#
      + #""status":"incomplete"}]"#
    #expect(try messages(items) == [["role": "user", "content": "u"]])
  }

  @Test func `sealed reasoning are opened and foreign ones ignored`() throws {
    let sealed = SealedContent.reasoning.seal("thought: é")
    #expect(SealedContent.reasoning.open(sealed) == "thought: é")
    #expect(SealedContent.compaction.open(sealed) == nil)
    // Padding alone carries nothing.
    for end in 0..<sealed.utf8.count - 2 {
      #expect(SealedContent.reasoning.open(String(decoding: sealed.utf8.prefix(end), as: UTF8.self)) == nil)
    }
    let items = { (token: String) in
      #"[{"type":"reasoning","summary":[],"encrypted_content":"\#(token)"},{"role":"assistant","content":"a"}]"#
    }
    #expect(
      try messages(items(sealed))
        == [["role": "assistant", "reasoning_content": "thought: é", "content": "a"]])
    #expect(try messages(items("gAAAA")) == [["role": "assistant", "content": "a"]])
  }

  @Test func `a compaction is the items it was made of, and nothing nests in it`() throws {
    let items: JSONValue = [["type": "message", "role": "user", "content": "u"]]
    let token = SealedContent.compaction.seal(items.text)
    let body =
      #"[{"type":"compaction","id":"x","encrypted_content":"\#(token)"},{"role":"user","content":"v"}]"#
    #expect(
      try messages(body) == [["role": "user", "content": "u"], ["role": "user", "content": "v"]])
    let nested: JSONValue = [["type": "compaction", "encrypted_content": .string(token)]]
    let twice = SealedContent.compaction.seal(nested.text)
    #expect(
      refusal(#""input":[{"type":"compaction","encrypted_content":"\#(twice)"}]"#)
        == "invalid_value input")
    for foreign in ["gAAAAABo", SealedContent.compaction.seal("{")] {
      let item = #"{"type":"compaction","id":"x","encrypted_content":"\#(foreign)"}"#
      #expect(
        try messages(#"[\#(item),{"role":"user","content":"v"}]"#) == [["role": "user", "content": "v"]])
    }
  }

  @Test func `items get ids and keep those they have`() throws {
    let request = try request(
      #""input":[{"role":"user","content":"u"},{"id":"mine","role":"assistant","content":"a"},"#
        + #"{"type":"reasoning","summary":null,"content":null,"id":null},"#
        + #"{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},"#
        + #"{"type":"function_call_output","call_id":"c","output":"1"},{"type":"web_search_call","id":"w"}]"#)
    let input = try input(request)
    #expect(
      input.items.map { $0["id"]?.stringValue } == ["msg_1", "mine", "rs_2", "fc_3", "fco_4", "w"])
    #expect(input.items[2] == ["id": "rs_2", "type": "reasoning", "summary": []])
    #expect(input.items[3]["status"] == "completed")
    #expect(input.unused == ["input[5].type=web_search_call"])
  }

  @Test func `a file of text is its text`() throws {
    let part = { (members: String) in
      #""input":[{"role":"user","content":[{"type":"input_file",\#(members)}]}]"#
    }
    #expect(
      try chat(part(#""file_data":"data:text/markdown;charset=utf-8;base64,IyBI""#)).messages
        == [["role": "user", "content": "# H"]])
    #expect(
      try chat(part(#""filename":"a.json","file_data":"e30=""#)).messages
        == [["role": "user", "content": "a.json:\n{}\n"]])
    #expect(
      refusal(part(#""filename":"a.exe","file_data":"e30=""#))
        == "unsupported_value input[0].content[0].file_data")
  }

  @Test func `tools of a client with forms of their own are calls of functions`() throws {
    let request = try chat(
      #""input":[{"role":"user","content":"go"},"#
        + #"{"type":"local_shell_call","id":"l","call_id":"c1","action":{"type":"exec","command":["ls"]},"status":"completed"},"#
        + #"{"type":"local_shell_call_output","id":"c1","output":"a.txt"},"#
        + #"{"type":"apply_patch_call","call_id":"c2","operation":{"type":"delete_file","path":"a"}},"#
        + #"{"type":"apply_patch_call_output","call_id":"c2","status":"completed"},"#
        + #"{"type":"custom_tool_call","call_id":"c3","name":"raw","input":"x\ny"},"#
        + #"{"type":"custom_tool_call_output","call_id":"c3","output":"done"},"#
        + #"{"type":"function_call","call_id":"c4","namespace":"mcp__docs__","name":"find","arguments":"{}"},"#
        + #"{"type":"function_call_output","call_id":"c4","output":"1"}]"#)
    let calls = request.messages.compactMap { $0["tool_calls"]?[0]?["function"] }
    #expect(
      calls == [
        ["name": "local_shell", "arguments": #"{"type":"exec","command":["ls"]}"#],
        ["name": "apply_patch", "arguments": #"{"type":"delete_file","path":"a"}"#],
        ["name": "raw", "arguments": #"{"input":"x\ny"}"#], ["name": "mcp__docs__find", "arguments": "{}"],
      ])
    #expect(
      request.messages.filter { $0["role"] == "tool" }.map { $0["content"] } == [
        "a.txt", "completed", "done", "1",
      ])
    #expect(
      refusal(#""input":[{"type":"local_shell_call","call_id":"c"}]"#)
        == "missing_required_parameter input[0].action")
  }

  @Test func `tools of free text and of namespaces are functions for the model`() throws {
    let long = String(repeating: "n", count: 100)
    let request = try chat(
      #""input":"x","tools":[{"type":"custom","name":"raw","description":"d","format":{"type":"grammar","syntax":"regex","definition":"a|b"}},"#
        + #"{"type":"custom","name":"patch","format":{"type":"grammar","syntax":"lark","definition":"start: \"a\""}},"#
        + #"{"type":"namespace","name":"mcp__docs","description":"d","tools":[{"type":"function","name":"find"}]},"#
        + #"{"type":"namespace","name":"\#(long)","tools":[{"type":"function","name":"\#(long)"}]}]"#)
    #expect(request.tools.map(\.kind) == [.custom, .custom, .function, .function])
    #expect(request.tools.prefix(3).map(\.name) == ["raw", "patch", "mcp__docs__find"])
    #expect(request.tools.map(\.clientName) == ["raw", "patch", "find", long])
    #expect(request.tools.map(\.isStrict) == [true, true, false, false])
    #expect(request.tools[0].parameters?["properties"]?["input"]?["pattern"] == "^(?:a|b)$")
    #expect(request.tools[1].json["function"]?["description"]?.stringValue?.contains(#"start: "a""#) == true)
    #expect(request.tools[3].name.utf8.count == 128)
    #expect(request.dropped == [])
  }

  // MARK: Fields in chat's words

  @Test func `tools and options are those of chat`() throws {
    let chat = try chat(
      #""input":"x","tools":[{"type":"function","name":"f","parameters":{"type":"object"},"strict":false}],"#
        + #""parallel_tool_calls":false,"max_output_tokens":5,"temperature":0.5,"stop":null,"#
        + #""reasoning":{"effort":"low"},"top_logprobs":2"#)
    #expect(chat.tools.map(\.name) == ["f"])
    #expect(!chat.allowsParallelCalls)
    #expect(chat.options.maxTokens == 5)
    #expect(chat.options.sampling == [.temperature: 0.5])
    #expect(chat.reasoningEffort == "low")
    #expect(chat.topLogprobs == 2)
    #expect(chat.ignored == [])
  }

  @Test func `errors name the place in this body`() {
    let cases: [(String, String)] = [
      (#""input":"x","tools":[{"type":"function","name":"a b"}]"#, "invalid_value tools[0].name"),
      (
        #""input":"x","tool_choice":"required","tools":[{"type":"function","name":"a","parameters":5}]"#,
        "invalid_type tools[0].parameters"
      ),
      (#""input":"x","tools":[{"type":"custom"}]"#, "missing_required_parameter tools[0].name"),
      (
        #""input":"x","tools":[{"type":"function","name":"a"},{"type":"function","name":"a"}]"#,
        "invalid_value tools[1].name"
      ),
      (
        #""input":"x","tools":[{"type":"function","name":"a"}],"tool_choice":{"type":"function","name":"b"}"#,
        "invalid_value tool_choice.name"
      ),
      (
        #""input":"x","tools":[{"type":"function","name":"a"}],"tool_choice":{"type":"allowed_tools","mode":"auto","#
          + #""tools":[{"type":"function","name":"b"}]}"#, "invalid_value tool_choice.tools[0].name"
      ),
      (#""input":"x","text":{"format":{"type":"nope"}}"#, "invalid_value text.format.type"),
      (#""input":"x","text":{"verbosity":"nope"}"#, "invalid_value text.verbosity"),
      (#""input":"x","reasoning":{"effort":"nope"}"#, "invalid_value reasoning.effort"),
      (#""input":"x","temperature":3"#, "decimal_above_max_value temperature"),
      (#""input":"x","max_output_tokens":0"#, "integer_below_min_value max_output_tokens"),
      (
        #""input":[{"role":"user","content":"a"},{"role":"user","content":[{"type":"input_image","image_url":5}]}]"#,
        "invalid_type input[1].content[0].image_url"
      ),
      (
        #""input":[{"role":"user","content":[{"type":"input_image","image_url":"u","detail":"huge"}]}]"#,
        "invalid_value input[0].content[0].detail"
      ),
      (
        #""input":[{"role":"user","content":[{"type":"input_image","file_id":"f"}]}]"#,
        "unsupported_parameter input[0].content[0].file_id"
      ),
      (
        #""input":[{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},"#
          + #"{"type":"function_call_output","call_id":"c","output":[{"type":"input_image","image_url":5}]}]"#,
        "invalid_type input[1].output[0].image_url"
      ),
      (
        #""input":[{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},"#
          + #"{"type":"function_call_output","call_id":"c","output":[{"type":"input_video","url":"u"}]}]"#,
        "invalid_value input[1].output[0].type"
      ),
      (#""input":"x","background":true,"store":false"#, "invalid_value background"),
      (#""instructions":"x""#, "missing_required_parameter input"),
    ]
    for (members, expected) in cases { #expect(refusal(members) == expected, "\(members)") }
  }

  @Test func `the message of an error names the same place`() throws {
    do {
      _ = try chat(
        #""input":"x","tools":[{"type":"web_search"},{"type":"function","name":""}]"#)
      Issue.record("accepted")
    } catch let error as APIError {
      #expect(error.param == "tools[1].name")
      #expect(error.message.hasPrefix("Invalid 'tools[1].name':"))
    }
  }

  @Test func `what is found wrong later has this wire's names too`() throws {
    let image = #"{"type":"input_image","image_url":"u"}"#
    let chat = try chat(
      #""input":[{"role":"user","content":"a"},{"role":"user","content":[\#(image)]}],"#
        + #""tools":[{"type":"web_search"},{"type":"function","name":"f"}],"thinking_budget":3,"#
        + #""text":{"format":{"type":"json_schema","name":"n","schema":{}}}"#)
    #expect(chat.messagesField == "input")
    #expect(chat.tools.map(\.parametersField) == ["tools[1].parameters"])
    #expect(chat.format?.param == "text.format.schema")
    #expect(chat.thinkingBudget?.field == "thinking_budget")
    #expect(chat.media.map(\.path) == ["input[1].content[0]"])
    #expect(chat.media.map(\.field) == ["input[1].content[0].image_url"])
  }

  @Test func `one turn has no more calls than a request has tools`() {
    let call = #"{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}"#
    func calls(_ count: Int) -> String {
      refusal(#""input":[\#(Array(repeating: call, count: count).joined(separator: ","))]"#)
    }
    #expect(calls(RequestLimits().tools) == "accepted")
    #expect(calls(RequestLimits().tools + 1) == "invalid_value input[1024]")
  }

  @Test func `tools that a provider runs are left out and named, or refused`() throws {
    let members = #""input":"x","nonsense":1,"tools":[{"type":"web_search"},{"type":"function","name":"f"}]"#
    let request = try request(members)
    #expect(request.unknown == ["nonsense"])
    #expect(request.unused == [])
    #expect(try chat(members).dropped == ["tools[0].type=web_search"])
    #expect(try chat(members).tools.map(\.name) == ["f"])
    do {
      _ = try self.request(members, refusesHostedTools: true)
      Issue.record("accepted")
    } catch let error as APIError {
      #expect(error.param == "tools[0].type" && error.message.contains("--refuse-hosted-tools"))
    }
  }

  // MARK: The echo

  @Test func `the response repeats the request, defaults filled in`() throws {
    let body = try request(#""input":"x""#).responseBody(
      id: "resp_1", createdAt: 7, sampling: [.temperature: 0.7])
    let expected =
      #"{"id":"resp_1","object":"response","created_at":7,"completed_at":null,"status":"in_progress","#
      + #""background":false,"error":null,"incomplete_details":null,"instructions":null,"model":"m","output":[],"#
      + #""previous_response_id":null,"service_tier":"default","store":true,"temperature":0.7,"top_p":1.0,"#
      + #""presence_penalty":0.0,"frequency_penalty":0.0,"truncation":"disabled","usage":null,"#
      + #""reasoning":{"effort":null,"summary":null},"top_logprobs":0,"max_tool_calls":null,"#
      + #""max_output_tokens":null,"prompt_cache_key":null,"safety_identifier":null,"metadata":{},"#
      + #""parallel_tool_calls":true,"tool_choice":"auto","tools":[],"text":{"format":{"type":"text"}}}"#
    #expect(JSONValue.object(body).text == expected)
  }

  @Test func `a schema is repeated as it was given`() throws {
    let format = #"{"type":"json_schema","name":"n","schema":{"type":"object"},"strict":true}"#
    let request = try request(#""input":"x","text":{"format":\#(format),"verbosity":"low"}"#)
    let text = request.responseBody(id: "r", createdAt: 0, sampling: [:])["text"]
    #expect(
      text == [
        "format": [
          "type": "json_schema", "name": "n", "description": nil, "schema": ["type": "object"],
          "strict": true,
        ], "verbosity": "low",
      ])
  }
}

struct Base64Tests {
  @Test(arguments: [
    ("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE="),
    ("foobar", "Zm9vYmFy"),
  ])
  func `the vectors of RFC 4648`(text: String, encoded: String) {
    #expect(Base64.encode(Array(text.utf8)) == encoded)
    #expect(Base64.decode(encoded) == Array(text.utf8))
    #expect(Base64.decode(String(encoded.prefix { $0 != "=" })) == Array(text.utf8))
  }

  @Test func `all bytes survive, in both alphabets`() {
    let bytes = (0...255).map { UInt8($0) }
    let text = Base64.encode(bytes)
    #expect(Base64.decode(text) == bytes)
    let urlSafe = String(text.map { $0 == "+" ? "-" : $0 == "/" ? "_" : $0 })
    #expect(Base64.decode(urlSafe) == bytes)
  }

  @Test(arguments: ["Z", "Zg=", "Zg===", "Z===", "Zm9v=", "Zm 9v", "Zm9v\n", "Zé==", "=", "===="])
  func `anything else is not base64`(text: String) {
    #expect(Base64.decode(text) == nil)
  }
}
