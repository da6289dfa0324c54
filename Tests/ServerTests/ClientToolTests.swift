// Tools as agents send them: free text, namespaces, and those of a provider, over the wires.

import HTTP
import Inference
import JSON
import Platform
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

  // MARK: Searches for tools

  private let search = #"{"type":"tool_search","execution":"client"}"#
  private let deferred = #"{"type":"function","name":"weather","defer_loading":true}"#

  private func prompt(_ service: FakeService) -> String {
    String(decoding: service.requests[0].promptTokens.map { UInt8(truncatingIfNeeded: $0) }, as: UTF8.self)
  }

  /// The names in the prompt's list of tools.
  private func shown(_ service: FakeService) -> String {
    let prompt = prompt(service)
    guard let start = prompt.firstRange(of: "<tools>"), let end = prompt.firstRange(of: " </tools>") else {
      return ""
    }
    return String(prompt[start.upperBound..<end.lowerBound])
  }

  @Test func `the model asks the client for tools`() throws {
    let service = service("tool_search", #"{"query": "weather"}"#)
    let answer = try responses(service, #""tools":[\#(deferred),\#(search)]"#)
    #expect(shown(service) == "tool_search")
    let item = try #require(answer.json["output"]?[0])
    #expect(item["type"] == "tool_search_call" && item["execution"] == "client", "\(answer.text)")
    #expect(item["arguments"] == ["query": "weather"] && item["status"] == "completed")
    #expect(item["call_id"] == "call_ID" && item["name"] == nil)
    #expect(answer.json["tools"]?[1] == ["type": "tool_search", "execution": "client"])
    #expect(answer.json["tools"]?[0]?["defer_loading"] == true)
    #expect(answer.headers["x-mlxserve-ignored"] == nil)
  }

  @Test func `a search is told whole in a stream, and again in its replay`() throws {
    let app = makeApp(service("tool_search", #"{"query": "weather"}"#))
    let members = #""tools":[\#(search)],"stream":true"#
    let stream = try app.send("POST", "/v1/responses", body: #"{"model":"m","input":"go",\#(members)}"#).text
    #expect(!stream.contains("arguments.delta"))
    let lines = stream.split(separator: "\n").filter { $0.hasPrefix("data: {") }
    let items = try lines.map { try JSONValue(parsing: String($0.dropFirst(6))) }.compactMap { $0["item"] }
    #expect(items.map { $0["arguments"] } == [[:], ["query": "weather"]])
    #expect(try app.send("GET", "/v1/responses/resp_ID?stream=true").text == stream)
  }

  @Test(arguments: [
    (
      #"{"type":"local_shell"}"#, "local_shell", #"{"command": ["ls"], "timeout_ms": 5}"#,
      #""action":{"type":"exec","command":["ls"],"env":{},"timeout_ms":5}"#, "lsh_ID"
    ),
    (
      #"{"type":"shell","environment":{"type":"local","skills":[{"name":"pdf","path":"/s","description":"Reads PDF"}]}}"#,
      "shell", #"{"commands": ["ls", "pwd"]}"#, #""action":{"commands":["ls","pwd"]}"#, "sh_ID"
    ),
    (
      #"{"type":"apply_patch"}"#, "apply_patch", #"{"type": "delete_file", "path": "a"}"#,
      #""operation":{"type":"delete_file","path":"a"}"#, "apc_ID"
    ),
  ]) func `the client runs it, and its calls are items of their own`(
    tool: String, name: String, arguments: String, asked: String, id: String
  ) throws {
    let service = service(name, arguments)
    let app = makeApp(service)
    let body =
      #"{"model":"m","input":"go","tools":[\#(tool)],"tool_choice":{"type":"\#(name)"},"stream":true}"#
    let stream = try app.send("POST", "/v1/responses", body: body).text
    let lines = stream.split(separator: "\n").filter { $0.hasPrefix("data: {") }
    let items = try lines.map { try JSONValue(parsing: String($0.dropFirst(6))) }.compactMap { $0["item"] }
    let end = #","call_id":"call_ID",\#(asked)}"#
    #expect(
      items.last?.text == #"{"id":"\#(id)","type":"\#(name)_call","status":"completed"\#(end)"#, "\(stream)")
    #expect(items.first?["status"] == "in_progress" && items.count == 2)
    #expect(shown(service) == name)
    #expect(try app.send("GET", "/v1/responses/resp_ID?stream=true").text == stream)
  }

  @Test(arguments: [
    (
      #"{"type":"local_shell_call","id":"l","call_id":"c","action":{"type":"exec","command":["ls"],"env":{}},"status":"completed"}"#,
      #"{"type":"local_shell_call_output","call_id":"c","output":"a.txt"}"#, "a.txt"
    ),
    (
      #"{"type":"shell_call","call_id":"c","action":{"commands":["ls"]}}"#,
      #"{"type":"shell_call_output","call_id":"c","output":[{"stdout":"a","stderr":"","outcome":{"type":"exit","exit_code":0}}]}"#,
      #"[{"stdout":"a","stderr":"","outcome":{"type":"exit","exit_code":0}}]"#
    ),
    (
      #"{"type":"apply_patch_call","call_id":"c","operation":{"type":"delete_file","path":"a"},"status":"completed"}"#,
      #"{"type":"apply_patch_call_output","call_id":"c","status":"failed","output":"no such file"}"#,
      "Error: no such file"
    ),
    (
      #"{"type":"apply_patch_call","call_id":"c","operation":{"type":"delete_file","path":"a"},"status":"completed"}"#,
      #"{"type":"apply_patch_call_output","call_id":"c","status":"completed"}"#, "completed"
    ),
  ]) func `what came of it reaches the model`(call: String, output: String, text: String) throws {
    let service = FakeService("xyz")
    let answer = try makeApp(service).send(
      "POST", "/v1/responses",
      body: #"{"model":"m","input":[{"role":"user","content":"go"},\#(call),\#(output)]}"#)
    #expect(answer.status == 200, "\(answer.text)")
    #expect(prompt(service).contains("tool\n\(text)"), "\(prompt(service))")
  }

  @Test(arguments: [
    (
      #"{"type":"tool_search_output","call_id":"c","execution":"client","tools":[TOOL]}"#,
      "tool_search", "weather"
    ),
    (#"{"type":"tool_search_output","call_id":"c","tools":[]}"#, "tool_search", ""),
    // What another server has searched itself.
    (
      #"{"type":"tool_search_output","call_id":null,"execution":"server","tools":[TOOL]}"#,
      "tool_search weather", nil
    ),
    (#"{"type":"additional_tools","role":"developer","tools":[TOOL]}"#, "tool_search weather", nil),
    (
      #"{"type":"tool_search_output","call_id":"c","tools":[{"type":"namespace","name":"maps","tools":[TOOL]}]}"#,
      "tool_search", "maps__weather"
    ),
  ]) func `tools that were found reach the model, those of an answer in it`(
    item: String, names: String, found: String?
  ) throws {
    let call = #"{"type":"tool_search_call","call_id":"c","execution":"client","arguments":{"query":"w"}}"#
    let input =
      #"{"role":"user","content":"go"},\#(found != nil ? call + "," : "")"#
      + item.replacing("TOOL", with: deferred)
    let service = FakeService("xyz")
    let answer = try makeApp(service).send(
      "POST", "/v1/responses", body: #"{"model":"m","input":[\#(input)],"tools":[\#(search)]}"#)
    #expect(answer.status == 200, "\(answer.text)")
    #expect(shown(service) == names)
    #expect(answer.headers["x-mlxserve-ignored"] == nil)
    #expect(prompt(service).contains("tool\n") == (found != nil))
    guard let found else { return }
    let told =
      found.isEmpty
      ? "No tool was found."
      : "Tools that can be called now:\n" + #"{"type":"function","function":{"name":"\#(found)"}}"#
    #expect(prompt(service).contains("tool\n\(told)"), "\(prompt(service))")
  }

  @Test func `a tool that was found stays found in the next response`() throws {
    let service = FakeService { _, index in Script(text: index == 0 ? "xyz" : "yz") }
    let app = makeApp(service) { settings in
      let ids = Monitor(0)
      settings.makeID = {
        ids.withLock {
          $0 += 1
          return "\($0)"
        }
      }
    }
    let found = #"{"type":"additional_tools","role":"developer","tools":[\#(deferred)]}"#
    let first = try app.send(
      "POST", "/v1/responses",
      body: #"{"model":"m","input":[{"role":"user","content":"go"},\#(found)],"tools":[\#(search)]}"#)
    let id = first.json["id"]?.stringValue ?? ""
    let members =
      #""previous_response_id":"\#(id)","tools":[\#(search)],"tool_choice":{"type":"function","name":"weather"}"#
    let next = try app.send("POST", "/v1/responses", body: #"{"model":"m","input":"on",\#(members)}"#)
    #expect(next.status == 200, "\(next.text)")
    let prompt = String(
      decoding: service.requests[1].promptTokens.map { UInt8(truncatingIfNeeded: $0) }, as: UTF8.self)
    #expect(prompt.contains("<tools>tool_search weather </tools>"))
  }

  @Test(arguments: [
    ("", "weather", "tools[0].defer_loading"),
    (#",{"type":"tool_search"}"#, "weather", "tools[1].type=tool_search, tools[0].defer_loading"),
    (#",SEARCH],"tool_choice":{"type":"function","name":"weather"},"include":["#, "tool_search weather", nil),
  ]) func `a deferred tool that nothing else would show is shown`(
    more: String, names: String, ignored: String?
  ) throws {
    let service = FakeService("xyz")
    let answer = try responses(service, #""tools":[\#(deferred)\#(more.replacing("SEARCH", with: search))]"#)
    #expect(answer.status == 200, "\(answer.text)")
    #expect(shown(service) == names)
    #expect(answer.headers["x-mlxserve-ignored"] == ignored)
  }

  @Test(arguments: [
    (
      #""tools":[{"type":"web_search"}],"tool_choice":{"type":"web_search"}"#,
      "unsupported_value tool_choice.type"
    ),
    (
      #""tools":[{"type":"web_search","name":"find"}],"tool_choice":{"type":"function","name":"find"}"#,
      "unsupported_value tool_choice.name"
    ),
    (#""tools":[{"type":"web_search_2025"}],"tool_choice":"required""#, "invalid_value tool_choice"),
  ]) func `a tool that was left out is told as that when it is chosen`(members: String, refusal: String)
    throws
  {
    let answer = try responses(FakeService("xyz"), members)
    #expect(answer.refusal == "400 " + refusal, "\(answer.text)")
    #expect(answer.text.contains("run by its provider, and was left out"))
    #expect(answer.text.contains("tools[0].type"))
  }

  @Test func `what was left out can be among the tools that are allowed`() throws {
    let service = FakeService("xyz")
    let tools = #"{"type":"web_search"},{"type":"function","name":"a"},{"type":"function","name":"b"}"#
    let allowed =
      #"{"type":"allowed_tools","mode":"auto","tools":[{"type":"web_search"},{"type":"function","name":"b"}]}"#
    let answer = try responses(service, #""tools":[\#(tools)],"tool_choice":\#(allowed)"#)
    #expect(answer.status == 200 && shown(service) == "b", "\(answer.text)")
    let other = allowed.replacing("web_search", with: "image_generation")
    #expect(
      try responses(FakeService("xyz"), #""tools":[\#(tools)],"tool_choice":\#(other)"#).refusal
        == "400 unsupported_value tool_choice.tools[0].type")
  }

  // MARK: Anthropic's

  private func messages(_ service: FakeService, _ members: String, after history: String = "") throws
    -> Answer
  {
    try makeApp(service).send(
      "POST", "/v1/messages",
      body:
        #"{"model":"m","max_tokens":90,"messages":[{"role":"user","content":"go"}\#(history)],\#(members)}"#)
  }

  @Test(arguments: [
    (#"{"type":"bash_20250124","name":"bash"}"#, "bash"),
    (#"{"type":"text_editor_20241022","name":"str_replace_editor"}"#, "str_replace_editor"),
    (
      #"{"type":"text_editor_20250728","name":"str_replace_based_edit_tool","max_characters":9}"#,
      "str_replace_based_edit_tool"
    ),
    (#"{"type":"memory_20250818","name":"memory"}"#, "memory"),
    (
      #"{"type":"computer_20250124","name":"computer","display_width_px":800,"display_height_px":600}"#,
      "computer"
    ),
    (
      #"{"type":"computer_toolset_20260801","configs":{"key":{"enabled":false},"zoom":{"enabled":false}}}"#,
      "hold_key type cursor_position mouse_move left_mouse_down left_mouse_up left_click left_click_drag right_click middle_click double_click triple_click scroll wait screenshot"
    ),
  ]) func `tools that a client runs are functions`(tool: String, names: String) throws {
    let service = FakeService("xyz")
    let answer = try messages(service, #""tools":[\#(tool)]"#)
    #expect(answer.status == 200 && answer.headers["x-mlxserve-ignored"] == nil, "\(answer.text)")
    #expect(shown(service) == names)
  }

  @Test func `a call of the shell is a block like others`() throws {
    let service = service("bash", #"{"command": "ls"}"#)
    let answer = try messages(
      service,
      #""tools":[{"type":"bash_20250124","name":"bash","strict":true}],"tool_choice":{"type":"tool","name":"bash"}"#
    )
    let block = try #require(answer.json["content"]?[0])
    #expect(block["type"] == "tool_use" && block["name"] == "bash", "\(answer.text)")
    #expect(block["input"] == ["command": "ls"])
  }

  @Test func `a reference in a result shows a deferred tool there`() throws {
    let tools =
      #""tools":[{"name":"find","input_schema":{"type":"object"}},{"name":"weather","defer_loading":true,"input_schema":{"type":"object"}}]"#
    let first = FakeService("xyz")
    #expect(try messages(first, tools).status == 200)
    #expect(shown(first) == "find")
    let history =
      #",{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"find","input":{}}]},"#
      + #"{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":[{"type":"text","text":"1"}]},"#
      + #"{"type":"text","text":"on"}]}"#
    let unfound = FakeService("xyz")
    #expect(try messages(unfound, tools, after: history).status == 200)
    #expect(shown(unfound) == "find")
    let found = FakeService("xyz")
    let reference = history.replacing(
      #"{"type":"text","text":"1"}"#, with: #"{"type":"tool_reference","tool_name":"weather"}"#)
    let loaded = try messages(found, tools, after: reference)
    #expect(loaded.status == 200, "\(loaded.text)")
    // What stands before the result is not read again.
    #expect(shown(found) == "find")
    let definition = #"{"type":"function","function":{"name":"weather","parameters":{"type":"object"}}}"#
    #expect(prompt(found).contains("tool\n\(definition)"), "\(prompt(found))")
    let chosen = try messages(
      FakeService(#"{"name":"weather","arguments":{}}"#),
      tools + #","tool_choice":{"type":"tool","name":"weather"}"#, after: reference)
    #expect(chosen.status == 200, "\(chosen.text)")
    // One of a provider's search, which the model is not shown.
    let provided = FakeService("xyz")
    let block =
      #"{"type":"tool_search_tool_result","tool_use_id":"s","content":{"type":"tool_search_tool_search_result","#
      + #""tool_references":[{"type":"tool_reference","tool_name":"weather"}]}},{"type":"text","text":"I see."}"#
    let earlier = #",{"role":"assistant","content":[\#(block)]},{"role":"user","content":"on"}"#
    #expect(try messages(provided, tools, after: earlier).status == 200)
    #expect(shown(provided) == "find weather")
    // A provider's search cannot find it here.
    let hosted = FakeService("xyz")
    let answer = try messages(
      hosted,
      tools.dropLast() + #",{"type":"tool_search_tool_bm25_20251119","name":"tool_search_tool_bm25"}]"#)
    #expect(
      answer.headers["x-mlxserve-ignored"]
        == "tools[2].type=tool_search_tool_bm25_20251119, tools[1].defer_loading")
    #expect(shown(hosted) == "find weather")
  }

  @Test func `a provider's tool that was left out cannot be chosen by its name`() throws {
    let answer = try messages(
      FakeService("xyz"),
      #""tools":[{"type":"web_search_20250305","name":"web_search"}],"tool_choice":{"type":"tool","name":"web_search"}"#
    )
    #expect(answer.status == 400)
    #expect(
      answer.json["error"]?["message"]
        == .string(
          "Unsupported value for 'tool_choice.name': tools[0].type 'web_search_20250305' is run by its provider, and was "
            + "left out; choose a tool that the client runs. An MCP server can have such a tool: name it in POST "
            + "/v1/responses as a tool of type 'mcp'.")
    )
  }

  @Test(arguments: [
    (
      "/v1/responses", #""input":"go","context_management":[{"type":"compaction","compact_threshold":9}]"#,
      "context_management[0].type=compaction"
    ),
    (
      "/v1/messages",
      #""max_tokens":9,"messages":[{"role":"user","content":"go"}],"context_management":{"edits":[{"type":"compact_20260112"},{"type":"clear_thinking_20251015"}]}"#,
      "context_management.edits[0].type=compact_20260112, context_management.edits[1].type=clear_thinking_20251015"
    ),
    (
      "/v1/messages",
      #""max_tokens":9,"messages":[{"role":"user","content":"go"}],"compaction":{"type":"summarize"}"#,
      "compaction"
    ),
    (
      "/v1/responses",
      #""input":[{"type":"compaction","encrypted_content":"gAAAAABo"},{"role":"user","content":"go"}]"#,
      "input[0].type=compaction"
    ),
    (
      "/v1/messages/count_tokens",
      #""messages":[{"role":"user","content":"go"}],"context_management":{"edits":[{"type":"compact_20260112"}]},"compaction":{"type":"summarize"}"#,
      "context_management.edits[0].type=compact_20260112"
    ),
  ]) func `what would manage the context is left out by name`(path: String, members: String, ignored: String)
    throws
  {
    let app = makeApp(FakeService("xyz")) { $0.strictParameters = true }
    let answer = try app.send("POST", path, body: #"{"model":"m",\#(members)}"#)
    #expect(answer.status == 200, "\(answer.text)")
    #expect(answer.headers["x-mlxserve-ignored"] == ignored)
  }

  @Test func `a summary stands for what was before it`() throws {
    let service = FakeService("xyz")
    let history =
      #",{"role":"assistant","content":[{"type":"text","text":"long ago"},{"type":"compaction","content":"They met."},"#
      + #"{"type":"text","text":"And now?"}]},{"role":"user","content":"on"}"#
    #expect(try messages(service, #""system":"Be brief.""#, after: history).status == 200)
    let texts = prompt(service).split(separator: "\u{1}\n").map { $0.drop { $0 == "\0" } }
    #expect(
      texts.dropLast() == [
        "system\nBe brief.", "user\nSummary of the conversation so far:\n\nThey met.", "assistant\nAnd now?",
        "user\non",
      ])
    let alone = FakeService("xyz")
    let only =
      #",{"role":"assistant","content":[{"type":"compaction","content":null}]},{"role":"user","content":"on"}"#
    #expect(try messages(alone, #""stream":false"#, after: only).status == 200)
    #expect(prompt(alone).contains("go") && !prompt(alone).contains("Summary"))
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

  @Test func `with Anthropic's header errors have its shape on OpenAI's paths`() throws {
    let app = makeApp(FakeService("x"))
    let header: Headers = ["anthropic-version": "2023-06-01", "content-type": "application/json"]
    for (method, path, kind, status) in [
      ("GET", "/v1/models/nope", "not_found_error", 404), ("GET", "/v1/models/a/b", "not_found_error", 404),
      ("GET", "/v1/nothing", "not_found_error", 404),
      ("POST", "/v1/chat/completions", "invalid_request_error", 400),
    ] {
      let answer = try app.send(method, path, headers: header)
      #expect(answer.status == status, "\(path)")
      #expect(answer.json["type"] == "error", "\(path): \(answer.text)")
      #expect(answer.json["error"]?["type"] == .string(kind))
      #expect(answer.json["request_id"] == "req_test")
      #expect(answer.headers["request-id"] == "req_test")
    }
    let own = try app.send("GET", "/v1/models/nope")
    #expect(own.refusal == "404 model_not_found model")
    #expect(own.json["type"] == nil)
    // Other wires keep their own.
    #expect(try app.send("POST", "/api/chat", headers: header).json["error"] == "missing request body")
  }
}
