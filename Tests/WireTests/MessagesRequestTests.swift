// The body of /v1/messages as a chat request.

import JSON
import Sampling
import Testing
import Wire

private func read(_ members: String, onlyCounts: Bool = false) throws -> MessagesRequest {
  try MessagesRequest(
    JSONValue(parsing: #"{"model":"m",\#(members)}"#), limits: RequestLimits(), vocabularySize: 1000,
    onlyCounts: onlyCounts)
}

private let hi = #""max_tokens":9,"messages":[{"role":"user","content":"hi"}]"#

/// The chat messages that `messages` becomes, as JSON text.
private func chatMessages(_ messages: String, system: String = "null") throws -> [String] {
  try read(#""max_tokens":9,"system":\#(system),"messages":\#(messages)"#).chat.messages.map(\.text)
}

private func extraRefusal(_ extra: String) -> String { refusal { try read("\(hi),\(extra)") } }

private func contentRefusal(_ messages: String) -> String {
  refusal { try read(#""max_tokens":9,"messages":\#(messages)"#) }
}

struct MessagesRequestTests {
  @Test func `a system prompt comes first, text blocks are parts`() throws {
    #expect(
      try chatMessages(#"[{"role":"user","content":"hi"}]"#, system: #""Be brief.""#)
        == [#"{"role":"system","content":"Be brief."}"#, #"{"role":"user","content":"hi"}"#])
    #expect(
      try chatMessages(
        #"[{"role":"user","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}]}]"#,
        system: #"[{"type":"text","text":"s"}]"#)
        == [
          #"{"role":"system","content":[{"type":"text","text":"s"}]}"#,
          #"{"role":"user","content":[{"type":"text","text":"a"}]}"#,
        ])
  }

  @Test func `tool uses and results become calls and tool messages`() throws {
    let messages = try chatMessages(
      #"[{"role":"user","content":"q"},"#
        + #"{"role":"assistant","content":[{"type":"text","text":"Let me see."},"#
        + #"{"type":"tool_use","id":"t1","name":"f","input":{"x":1}}]},"#
        + #"{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"4"},"#
        + #"{"type":"text","text":"Well?"}]}]"#)
    #expect(
      messages == [
        #"{"role":"user","content":"q"}"#,
        #"{"role":"assistant","content":"Let me see.","tool_calls":[{"id":"t1","type":"function","#
          + #""function":{"name":"f","arguments":"{\"x\":1}"}}]}"#,
        #"{"role":"tool","tool_call_id":"t1","content":"4"}"#,
        #"{"role":"user","content":[{"type":"text","text":"Well?"}]}"#,
      ])
  }

  @Test func `a result that is an error says so`() throws {
    let call = #"{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{}}]}"#
    func result(_ members: String) throws -> String? {
      try chatMessages(
        #"[\#(call),{"role":"user","content":[{"type":"tool_result","tool_use_id":"t",\#(members)}]}]"#
      ).last
    }
    #expect(
      try result(#""is_error":true,"content":"no such file""#)
        == #"{"role":"tool","tool_call_id":"t","content":[{"type":"text","text":"Error: "},"#
        + #"{"type":"text","text":"no such file"}]}"#)
    #expect(try result(#""is_error":false"#) == #"{"role":"tool","tool_call_id":"t","content":""}"#)
    #expect(try result(#""content":[]"#) == #"{"role":"tool","tool_call_id":"t","content":""}"#)
    // Blocks of kinds that came later than this server.
    #expect(
      try result(
        #""content":[{"type":"place","at":1,"cache_control":{"type":"ephemeral"}},{"type":"tool_reference","tool_name":"b"}]"#
      )
        == #"{"role":"tool","tool_call_id":"t","content":[{"type":"text","text":"{\"type\":\"place\",\"at\":1}"},"#
        + #"{"type":"text","text":"b"}]}"#)
  }

  @Test func `own reasoning come back, those of other servers are left out`() throws {
    let own = #"{"type":"thinking","thinking":"hm","signature":"\#(ReasoningSignature.make(of: "hm"))"}"#
    let foreign = #"{"type":"thinking","thinking":"hm","signature":"EqQB"}"#
    func assistant(_ block: String) throws -> String {
      try chatMessages(
        #"[{"role":"assistant","content":[\#(block),{"type":"text","text":"a"}]},{"role":"user","content":"b"}]"#
      )[0]
    }
    #expect(try assistant(own) == #"{"role":"assistant","content":"a","reasoning_content":"hm"}"#)
    #expect(try assistant(foreign) == #"{"role":"assistant","content":"a"}"#)
    let sealed = #"{"type":"redacted_thinking","data":"x"}"#
    #expect(try assistant(sealed) == #"{"role":"assistant","content":"a"}"#)
    let all =
      #"[{"role":"assistant","content":[\#(own),\#(foreign),\#(sealed)]},{"role":"user","content":"b"}]"#
    #expect(
      try read(#""max_tokens":9,"messages":\#(all)"#).chat.dropped
        == ["messages[0].content[1].type=thinking", "messages[0].content[2].type=redacted_thinking"])
  }

  @Test func `an assistant message that stands last is continued`() throws {
    let request = try read(
      #""max_tokens":9,"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"The"}]"#)
    #expect(request.chat.continuesFinalMessage)
    #expect(!request.chat.addsGenerationPrompt)
    #expect(try !read(hi).chat.continuesFinalMessage)
  }

  @Test func `options are those of a chat request`() throws {
    let request = try read(
      "\(hi)," + #""temperature":0.5,"top_p":0.9,"top_k":5,"stop_sequences":["END"],"stream":true,"seed":3,"#
        + #""metadata":{"user_id":"u"},"service_tier":"auto","cache_control":{"type":"ephemeral"},"nope":1"#)
    #expect(request.chat.options.maxTokens == 9)
    #expect(request.chat.options.sampling == [.temperature: 0.5, .topP: 0.9, .topK: 5])
    #expect(request.chat.options.stops == ["END"])
    #expect(request.chat.options.streams)
    #expect(request.chat.options.seed == 3)
    #expect(request.chat.options.choices == 1)
    #expect(request.ignored == ["nope"])
  }

  @Test func `thinking is off unless asked for`() throws {
    #expect(try read(hi).chat.thinking == false)
    #expect(try read(#"\#(hi),"thinking":{"type":"disabled"}"#).chat.thinking == false)
    #expect(try read(#"\#(hi),"thinking":{"type":"adaptive"}"#).chat.thinking == true)
    let enabled = try read(#"\#(hi),"thinking":{"type":"enabled","budget_tokens":8}"#)
    #expect(enabled.chat.thinking == true)
    #expect(enabled.showsThinking)
    #expect(
      try !read(#"\#(hi),"thinking":{"type":"adaptive","display":"omitted"}"#).showsThinking)
    #expect(try read(#"\#(hi),"thinking":{"type":"adaptive","display":"updates"}"#).showsThinking)
    #expect(
      extraRefusal(#""thinking":{"type":"enabled","budget_tokens":9}"#)
        == "invalid_value thinking.budget_tokens")
  }

  @Test func `tools have a schema of their own name`() throws {
    let schema = #"{"type":"object","properties":{}}"#
    let tool = #"{"name":"f","description":"d","input_schema":\#(schema)}"#
    let request = try read(
      #"\#(hi),"tools":[\#(tool)],"tool_choice":{"type":"auto","disable_parallel_tool_use":true}"#)
    #expect(
      request.chat.tools.map(\.json.text) == [
        #"{"type":"function","function":{"name":"f","description":"d","parameters":\#(schema)}}"#
      ])
    #expect(!request.chat.allowsParallelCalls)
    let none = #"\#(hi),"tools":[\#(tool)],"tool_choice":{"type":"none"}"#
    #expect(try read(none).chat.toolChoice == .none && read(none).chat.tools.count == 1)
    #expect(try read(none + #","hide_tools":true"#).chat.tools.isEmpty)
  }

  @Test func `documents and search results are their text`() throws {
    let request = try read(
      #""max_tokens":9,"messages":[{"role":"user","content":["#
        + #"{"type":"document","title":"T","context":"c","source":{"type":"text","media_type":"text/plain","data":"body"}},"#
        + #"{"type":"document","source":{"type":"content","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}},"#
        + #"{"type":"document","source":{"type":"base64","media_type":"text/markdown","data":"IyBI"}},"#
        + #"{"type":"search_result","title":"R","source":"http://x","content":[{"type":"text","text":"found"}]}]}]"#
    )
    let parts = request.chat.messages.first?["content"]?.arrayValue?.compactMap { $0["text"]?.stringValue }
    #expect(parts == ["T:\nc\nbody\n", "a\nb", "# H", "R (http://x):\nfound\n"])
  }

  @Test func `what a provider's own tools are and did is left out`() throws {
    let request = try read(
      #""max_tokens":9,"tools":[{"type":"web_search_20250305","name":"web_search"},{"type":"code_execution_20250825","name":"code"}],"#
        + #""messages":[{"role":"user","content":"q"},{"role":"assistant","content":["#
        + #"{"type":"server_tool_use","id":"s","name":"web_search","input":{}},"#
        + #"{"type":"web_search_tool_result","tool_use_id":"s","content":[]},{"type":"text","text":"a"}]},"#
        + #"{"role":"user","content":"r"}]"#)
    #expect(
      request.chat.dropped == ["tools[0].type=web_search_20250305", "tools[1].type=code_execution_20250825"])
    #expect(request.chat.tools.isEmpty)
    #expect(request.chat.messages[1] == ["role": "assistant", "content": "a"])
  }

  @Test(arguments: [
    (#""tools":[{"name":"f"}]"#, "missing_required_parameter tools[0].input_schema"),
    (#""tools":[{"name":"a b","input_schema":{}}]"#, "invalid_value tools[0].name"),
    (
      #""tools":[{"name":"f","input_schema":{"type":"what"}}],"tool_choice":{"type":"any"}"#,
      "invalid_value tools[0].input_schema"
    ),
    (#""tool_choice":{"type":"tool","name":"g"}"#, "invalid_value tool_choice.name"),
    (#""tool_choice":{"type":"some"}"#, "invalid_value tool_choice.type"),
    (#""stop_sequences":[""]"#, "invalid_value stop_sequences"),
    (#""temperature":3"#, "decimal_above_max_value temperature"),
    (#""container":"c""#, "unsupported_parameter container"),
    (#""output_config":{"effort":"huge"}"#, "invalid_value output_config.effort"),
    (#""output_config":{"format":{"type":"yaml"}}"#, "invalid_value output_config.format.type"),
  ])
  func `errors name the field of this wire`(extra: String, expected: String) {
    #expect(extraRefusal(extra) == expected)
  }

  @Test(arguments: [
    ("[]", "invalid_value messages"),
    (#"[{"role":"robot","content":"x"}]"#, "invalid_value messages[0].role"),
    (#"[{"role":"user"}]"#, "missing_required_parameter messages[0].content"),
    (#"[{"role":"user","content":[]}]"#, "invalid_value messages[0].content"),
    (
      #"[{"role":"user","content":[{"type":"text","text":"x"},{"type":"image","source":{}}]}]"#,
      "missing_required_parameter messages[0].content[1].source.type"
    ),
    (
      #"[{"role":"user","content":[{"type":"image","source":{"type":"file","file_id":"f"}}]}]"#,
      "unsupported_value messages[0].content[0].source.type"
    ),
    (
      #"[{"role":"user","content":[{"type":"document","source":{}}]}]"#,
      "missing_required_parameter messages[0].content[0].source.type"
    ),
    (
      #"[{"role":"user","content":[{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":""}}]}]"#,
      "unsupported_value messages[0].content[0].source.media_type"
    ),
    (
      #"[{"role":"user","content":[{"type":"search_result","title":"t","source":"s"}]}]"#,
      "missing_required_parameter messages[0].content[0].content"
    ),
    (
      #"[{"role":"user","content":[{"type":"text","text":"x"},{"type":"tool_result"}]}]"#,
      "missing_required_parameter messages[0].content[1].tool_use_id"
    ),
    (
      #"[{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":"x"}]}]"#,
      "invalid_type messages[0].content[0].input"
    ),
  ])
  func `a block is taken over or refused with its path`(messages: String, expected: String) {
    #expect(contentRefusal(messages) == expected)
  }

  @Test(arguments: [
    (
      #""tools":[{"name":"a b","input_schema":{}}]"#,
      "Invalid 'tools[0].name': it must match ^[a-zA-Z0-9_-]{1,128}$."
    ),
    (
      #""tools":[{"name":"f","input_schema":{}},{"name":"f","input_schema":{}}]"#,
      "Invalid 'tools[1].name': the name 'f' is used twice."
    ),
    (
      #""tools":[{"name":"f","input_schema":[]}],"tool_choice":{"type":"any"}"#,
      "Invalid type for 'tools[0].input_schema': expected an object, but got an array."
    ),
    (
      #""tools":[{"name":"f","input_schema":{"type":"what"}}],"tool_choice":{"type":"tool","name":"f"}"#,
      "Invalid 'tools[0].input_schema': 'what' is not a type of JSON Schema."
    ),
    (#""tool_choice":{"type":"any"}"#, "Invalid 'tool_choice': 'any' needs 'tools'."),
    (
      #""stop_sequences":[1]"#,
      "Invalid type for 'stop_sequences[0]': expected a string, but got an integer."
    ),
    (
      #""output_config":{"effort":"huge"}"#,
      "Invalid 'output_config.effort': expected one of 'none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max', "
        + "but got 'huge'."
    ),
    (
      #""output_config":{"format":{"type":"json_schema","schema":1}}"#,
      "Invalid type for 'output_config.format.schema': expected an object, but got an integer."
    ),
    (#""min_tokens":10"#, "Invalid 'min_tokens': 10 is more than the limit of 9 tokens."),
  ])
  func `the message of an error has this wire's names`(extra: String, message: String) {
    #expect {
      try read("\(hi),\(extra)")
    } throws: { error in
      "\(error)" == message
    }
  }

  @Test func `what is found wrong later has this wire's names too`() throws {
    let tools = #""tools":[{"name":"f","input_schema":{"type":"object"}}]"#
    let format = #""output_config":{"format":{"type":"json_schema","schema":{}}}"#
    let thinking = #""thinking":{"type":"enabled","budget_tokens":8}"#
    let request = try read([hi, tools, format, thinking].joined(separator: ",")).chat
    #expect(request.tools.map(\.parametersField) == ["tools[0].input_schema"])
    #expect(request.format?.param == "output_config.format.schema")
    #expect(request.thinkingBudget?.field == "thinking.budget_tokens")
    let image = #"{"type":"image","source":{"type":"url","url":"u"}}"#
    let continued = try read(
      #""max_tokens":9,"system":"s","messages":[{"role":"user","content":[\#(image)]},"#
        + #"{"role":"assistant","content":"The"}]"#
    ).chat
    #expect(continued.continuationField == "messages[1]")
    #expect(continued.media.map(\.path) == ["messages[0].content[0]"])
    #expect(continued.media.map(\.field) == ["messages[0].content[0].source.url"])
  }

  @Test func `the limit is required unless tokens are counted`() throws {
    let body = #""messages":[{"role":"user","content":"hi"}]"#
    #expect(refusal { try read(body) } == "missing_required_parameter max_tokens")
    #expect(try read(body, onlyCounts: true).chat.options.maxTokens == nil)
  }
}
