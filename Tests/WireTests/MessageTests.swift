// Messages: roles, contents, tool calls and results.

import JSON
import Testing
import Wire

struct MessageTests {
  @Test(arguments: [
    ("null", "missing_required_parameter messages"),
    ("[]", "invalid_value messages"),
    ("\"string\"", "invalid_type messages"),
    ("[123]", "invalid_type messages[0]"),
    ("[null]", "invalid_type messages[0]"),
    ("[{}]", "missing_required_parameter messages[0].role"),
    (#"[{"role":123,"content":"x"}]"#, "invalid_type messages[0].role"),
    (#"[{"role":"robot","content":"x"}]"#, "invalid_value messages[0].role"),
    (#"[{"role":"function","content":"x","name":"f"}]"#, "unsupported_value messages[0].role"),
    (#"[{"role":"user"}]"#, "missing_required_parameter messages[0].content"),
    (#"[{"role":"user","content":123}]"#, "invalid_type messages[0].content"),
    (#"[{"role":"user","content":[]}]"#, "invalid_value messages[0].content"),
    (
      #"[{"role":"user","content":[{"type":"text"}]}]"#,
      "missing_required_parameter messages[0].content[0].text"
    ),
    (#"[{"role":"user","content":["x"]}]"#, "invalid_type messages[0].content[0]"),
    (
      #"[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":5}}]}]"#,
      "invalid_type messages[0].content[1].image_url.url"
    ),
    (
      #"[{"role":"user","content":[{"type":"image_url","image_url":{"url":"u","detail":"huge"}}]}]"#,
      "invalid_value messages[0].content[0].image_url.detail"
    ),
    (
      #"[{"role":"system","content":[{"type":"image_url","image_url":"u"}]}]"#,
      "invalid_value messages[0].content[0].type"
    ),
    (
      #"[{"role":"user","content":[{"type":"file","file":{}}]}]"#,
      "missing_required_parameter messages[0].content[0].file.file_data"
    ),
    (
      #"[{"role":"user","content":[{"type":"input_audio","input_audio":{}}]}]"#,
      "missing_required_parameter messages[0].content[0].input_audio.data"
    ),
    (#"[{"role":"system","content":[{"type":"file"}]}]"#, "invalid_value messages[0].content[0].type"),
    (#"[{"role":"user","content":"x","name":1}]"#, "invalid_type messages[0].name"),
    (#"[{"role":"assistant","content":1}]"#, "invalid_type messages[0].content"),
    (#"[{"role":"assistant","tool_calls":{}}]"#, "invalid_type messages[0].tool_calls"),
    (#"[{"role":"assistant","tool_calls":[{}]}]"#, "missing_required_parameter messages[0].tool_calls[0].id"),
    (
      #"[{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":{}}}]}]"#,
      "invalid_type messages[0].tool_calls[0].function.arguments"
    ),
    (
      #"[{"role":"assistant","tool_calls":[{"id":"c","type":"custom"}]}]"#,
      "missing_required_parameter messages[0].tool_calls[0].custom"
    ),
    (#"[{"role":"assistant","reasoning_content":1}]"#, "invalid_type messages[0].reasoning_content"),
    (
      #"[{"role":"user","content":"x"},{"role":"tool","content":"x"}]"#,
      "missing_required_parameter messages[1].tool_call_id"
    ),
  ])
  func `a bad message names its place`(messages: String, expected: String) {
    #expect(messagesRefusal(messages) == expected)
  }

  @Test func `images and audio leave placeholders in their order`() throws {
    let request = try chat(
      #"""
      {"model":"m","messages":[
        {"role":"user","content":[{"type":"text","text":"a","media":1},{"type":"image_url","image_url":"u"},
          {"type":"input_audio","input_audio":{"data":"attachment:s","format":"wav"}}]},
        {"role":"assistant","content":"b"},
        {"role":"user","content":[{"type":"image_url","image_url":{"url":"v","detail":"low"}}]}]}
      """#)
    #expect(
      request.media == [
        MediaPart(
          content: .image(url: "u", detail: .auto), path: "messages[0].content[1]",
          field: "messages[0].content[1].image_url"),
        MediaPart(
          content: .audio(data: "attachment:s", format: "wav"), path: "messages[0].content[2]",
          field: "messages[0].content[2].input_audio.data"),
        MediaPart(
          content: .image(url: "v", detail: .low), path: "messages[2].content[0]",
          field: "messages[2].content[0].image_url.url"),
      ])
    #expect(request.media.map(\.attachment) == [nil, "s", nil])
    #expect(request.messages[0]["content"]?[1] == ["type": "image", "media": 0])
    // A text with a member of this name is still a text.
    #expect(MediaPart.indices(in: request.messages) == [0, 1, 2])
  }

  @Test func `a request holds so many images and no more`() {
    var limits = RequestLimits()
    limits.mediaParts = 1
    let part = #"{"type":"image_url","image_url":"u"}"#
    #expect(
      refusal {
        try chat(#"{"model":"m","messages":[{"role":"user","content":[\#(part),\#(part)]}]}"#, limits: limits)
      } == "invalid_value messages[0].content[1]")
  }

  @Test(arguments: [
    ("data:image/PNG;base64,QUJD", "image/png", "QUJD"), ("data:;base64,", "", ""),
    ("data:image/png;name=x;base64,QQ", "image/png", "QQ"),
  ])
  func `data URLs have a type and base64`(url: String, type: String, encoded: String) {
    #expect(DataURL(url)?.type == type)
    #expect(DataURL(url)?.encoded == encoded)
  }

  @Test(arguments: ["data:,x", "data:text/plain,abc", "http://x", "", "data:;base64"])
  func `other URLs are no data URLs`(url: String) { #expect(DataURL(url) == nil) }

  @Test func `a tool round trip passes through without nulls`() throws {
    let request = try chat(
      #"""
      {"model":"m","messages":[
        {"role":"developer","content":"Be brief.","name":null},
        {"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
        {"role":"assistant","content":null,"refusal":null,"reasoning_content":"hm",
         "tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]},
        {"role":"tool","tool_call_id":"c1","content":""}]}
      """#)
    #expect(
      request.messages == [
        ["role": "developer", "content": "Be brief."],
        ["role": "user", "content": [["type": "text", "text": "a"], ["type": "text", "text": "b"]]],
        [
          "role": "assistant", "reasoning_content": "hm",
          "tool_calls": [["id": "c1", "type": "function", "function": ["name": "f", "arguments": "{}"]]],
        ],
        ["role": "tool", "tool_call_id": "c1", "content": ""],
      ])
  }

  @Test func `a tool's result may be empty, and hold blocks that nobody knows`() throws {
    func content(_ content: String) throws -> JSONValue? {
      try chat(
        #"""
        {"model":"m","messages":[
          {"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":"{}"}}]},
          {"role":"tool","tool_call_id":"c","content":\#(content)}]}
        """#
      ).messages[1]["content"]
    }
    #expect(try content("[]") == "")
    #expect(
      try content(
        #"[{"type":"text","text":"a"},{"type":"place","at":[1,2],"cache_control":{"type":"x"}},"#
          + #"{"type":"note","text":"c"},{"type":"tool_reference","tool_name":"d"}]"#)
        == [
          ["type": "text", "text": "a"],
          ["type": "text", "text": #"{"type":"place","at":[1,2]}"#], ["type": "text", "text": "c"],
          ["type": "text", "text": "d"],
        ])
    for type in ["image", "video_url", "document"] {
      #expect(
        refusal { _ = try content(#"[{"type":"\#(type)"}]"#) } == "invalid_value messages[1].content[0].type")
    }
    #expect(
      messagesRefusal(#"[{"role":"user","content":[{"type":"tool_reference"}]}]"#)
        == "invalid_value messages[0].content[0].type")
  }

  @Test(
    arguments: [
      (#""reasoning_content":"a","reasoning_details":[{"type":"reasoning.text","text":"a"}]"#, "a", []),
      (#""reasoning_details":[{"type":"reasoning.text","text":"a"},{"text":"b"}]"#, "ab", []),
      (#""thinking":"a""#, "a", []),
      (
        #""reasoning":"a","thinking":"b","reasoning_details":[{"type":"reasoning.encrypted","data":"x"}]"#,
        "a",
        ["messages[0].thinking", "messages[0].reasoning_details"]
      ),
      (
        #""thinking":{"budget":1},"reasoning_details":[{}],"reasoning":"""#, nil,
        ["messages[0].thinking", "messages[0].reasoning_details"]
      ),
    ] as [(String, String?, [String])])
  func `reasoning has many names, and what is left out is named`(
    members: String, reasoning: String?, leftOut: [String]
  ) throws {
    let request = try chat(
      #"{"model":"m","messages":[{"role":"assistant","content":"x",\#(members)},{"role":"user","content":"y"}]}"#
    )
    let message = request.messages[0]
    #expect(message["reasoning_content"]?.stringValue == reasoning)
    #expect(message.objectValue?.count == (reasoning == nil ? 2 : 3))
    #expect(request.dropped == leftOut)
    #expect(request.ignored == [])
  }

  @Test func `an assistant turn may be empty`() {
    #expect(
      messagesRefusal(#"[{"role":"user","content":"x"},{"role":"assistant","content":null}]"#) == "accepted")
    #expect(
      messagesRefusal(#"[{"role":"assistant","content":[{"type":"refusal","refusal":"no"}]}]"#) == "accepted")
  }

  @Test func `the number of messages is capped`() {
    let many = [String](repeating: #"{"role":"user","content":"x"}"#, count: 10_001).joined(separator: ",")
    #expect(messagesRefusal("[\(many)]") == "array_above_max_length messages")
  }

  @Test func `an answer may be continued when it is the assistant's`() throws {
    let request = try chat(
      #"{"model":"m","messages":[{"role":"user","content":"x"},{"role":"assistant","content":"y"}],"#
        + #""continue_final_message":true}"#)
    #expect(request.continuesFinalMessage)
    #expect(!request.addsGenerationPrompt)
  }
}
