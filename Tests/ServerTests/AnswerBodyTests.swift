// Bodies and chunks, compared as text.

import JSON
import Testing
import Wire

@testable import Server

private let header = AnswerHeader(id: "chatcmpl-1", created: 7, model: "m", systemFingerprint: "fp")
private let usage = Usage(promptTokens: 11, cachedTokens: 4, completionTokens: 7, reasoningTokens: 2)
private let usageText =
  #"{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18,"prompt_tokens_details":{"cached_tokens":4},"#
  + #""completion_tokens_details":{"reasoning_tokens":2},"input_tokens":11,"output_tokens":7,"#
  + #""output_tokens_details":{"reasoning_tokens":2}}"#
private let call = ToolCall(id: "call_1", name: "f", arguments: "{\"a\":1}")

private func chunk(_ delta: ChatChunk.Delta, announcesUsage: Bool = false) -> String {
  ChatChunk(header: header, choice: 0, delta: delta, announcesUsage: announcesUsage).json.text
}

private func chunkText(
  _ delta: String, logprobs: String = "null", finish: String = "null", usage: String = ""
)
  -> String
{
  #"{"id":"chatcmpl-1","object":"chat.completion.chunk","created":7,"model":"m","system_fingerprint":"fp","#
    + #""choices":[{"index":0,"delta":\#(delta),"logprobs":\#(logprobs),"finish_reason":\#(finish)}]\#(usage)}"#
}

@Suite struct AnswerBodyTests {
  @Test func `a chat body has every member that clients demand`() {
    let choice = ChatChoice(index: 0, content: "Hi")
    #expect(
      ChatResponse(header: header, choices: [choice], usage: usage).json.text
        == #"{"id":"chatcmpl-1","object":"chat.completion","created":7,"model":"m","system_fingerprint":"fp","#
        + #""service_tier":"default","choices":[{"index":0,"message":{"role":"assistant","content":"Hi","#
        + #""refusal":null,"annotations":[]},"logprobs":null,"finish_reason":"stop"}],"usage":\#(usageText)}"#
    )
  }

  @Test func `content is null beside tool calls and empty otherwise`() {
    let calling = ChatChoice(
      index: 1, content: "", reasoning: "Let me see.", toolCalls: [call], finish: .toolCalls)
    let body = ChatResponse(header: header, choices: [calling], usage: usage).json
    #expect(
      body["choices"]?[0]?["message"]?.text
        == #"{"role":"assistant","content":null,"refusal":null,"annotations":[],"reasoning_content":"Let me see.","#
        + #""tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]}"#
    )
    let cut = ChatChoice(index: 0, content: "", reasoning: "a", finish: .length)
    let cutBody = ChatResponse(header: header, choices: [cut], usage: usage).json
    #expect(cutBody["choices"]?[0]?["message"]?["content"] == "")
    #expect(cutBody["choices"]?[0]?["finish_reason"] == "length")
  }

  @Test func `chunks hold one delta each`() {
    #expect(chunk(.role) == chunkText(#"{"role":"assistant","content":"","refusal":null}"#))
    #expect(chunk(.reasoning("a")) == chunkText(#"{"reasoning_content":"a"}"#))
    #expect(chunk(.content("b", logprobs: nil)) == chunkText(#"{"content":"b"}"#))
    #expect(
      chunk(.toolCall(index: 0, id: "call_1", name: "f"))
        == chunkText(
          #"{"tool_calls":[{"index":0,"id":"call_1","type":"function","#
            + #""function":{"name":"f","arguments":""}}]}"#))
    #expect(
      chunk(.toolArguments(index: 0, "{"))
        == chunkText(#"{"tool_calls":[{"index":0,"function":{"arguments":"{"}}]}"#))
    #expect(chunk(.finish(.toolCalls)) == chunkText("{}", finish: #""tool_calls""#))
    #expect(
      chunk(.finish(.stop), announcesUsage: true)
        == chunkText("{}", finish: #""stop""#, usage: #","usage":null"#))
  }

  @Test func `the usage chunk has no choices`() {
    #expect(
      ChatChunk.usage(usage, header: header).text
        == #"{"id":"chatcmpl-1","object":"chat.completion.chunk","created":7,"model":"m","#
        + #""system_fingerprint":"fp","choices":[],"usage":\#(usageText)}"#)
  }

  @Test func `log probabilities carry bytes and are never above zero or infinite`() {
    let entry = LogprobEntry(
      token: .init(bytes: [0xE2, 0x82], logprob: 0.5),
      top: [.init(bytes: Array("é".utf8), logprob: -0.5), .init(bytes: [], logprob: -.infinity)])
    #expect(
      chunk(.content("x", logprobs: [entry]))
        == chunkText(
          #"{"content":"x"}"#,
          logprobs: #"{"content":[{"token":"\#u{FFFD}","logprob":0.0,"bytes":[226,130],"top_logprobs":["#
            + #"{"token":"é","logprob":-0.5,"bytes":[195,169]},{"token":"","logprob":-9999.0,"bytes":[]}]}],"#
            + #""refusal":null}"#))
  }

  @Test func `legacy log probabilities are parallel arrays, null where nothing predicts`() {
    let entries: [LegacyLogprob] = [
      .init(logprob: LogprobEntry(token: .init(bytes: Array("a".utf8), logprob: nil), top: []), offset: 0),
      .init(
        logprob: LogprobEntry(
          token: .init(bytes: [0xE2], logprob: -1),
          top: [
            .init(bytes: [0xE2], logprob: -1), .init(bytes: [0x62], logprob: -2),
            .init(bytes: [0x62], logprob: -3),
          ]), offset: 1),
      // A sampled token that is not among the likeliest is there all the same.
      .init(
        logprob: LogprobEntry(
          token: .init(bytes: [0x63], logprob: -5), top: [.init(bytes: [0x62], logprob: -2)]), offset: 2),
      .init(logprob: LogprobEntry(token: .init(bytes: [0x64], logprob: -6), top: []), offset: 3),
    ]
    #expect(
      LegacyLogprob.parts(count: entries.count) { entries[$0] }.json.text
        == #"{"tokens":["a","bytes:\\xe2","c","d"],"token_logprobs":[null,-1.0,-5.0,-6.0],"#
        + #""top_logprobs":[null,{"bytes:\\xe2":-1.0,"b":-2.0},{"b":-2.0,"c":-5.0},{"d":-6.0}],"#
        + #""text_offset":[0,1,2,3]}"#)
  }

  @Test func `models are listed with their four members and the context length`() {
    let model = ModelObject(id: "org/m", created: 7, ownedBy: "mlxserve", contextLength: 128)
    #expect(
      ModelObject.list([model]).text
        == #"{"object":"list","data":[{"id":"org/m","object":"model","created":7,"owned_by":"mlxserve","#
        + #""context_length":128,"input_modalities":["text"],"task":null,"embedding":null,"size_bytes":null,"aliases":[],"pinned":false,"#
        + #""status":{"value":"loaded"}}]}"#)
  }

  @Test func `errors have all four keys`() {
    #expect(
      APIError(status: 404, code: nil, message: "No \"x\".").json.text
        == #"{"error":{"message":"No \"x\".","type":"invalid_request_error","param":null,"code":null}}"#)
    #expect(APIError.modelNotFound(String(repeating: "x", count: 5000), known: []).message.utf8.count < 300)
  }
}
