// A prompt that the context does not hold, and tools that a model does not have, in the words that clients look for.

import Chat
import HTTP
import Inference
import JSON
import Pipeline
import Testing
import Wire

@testable import Server

struct OverflowTests {
  /// One user message "hi" has 21 tokens.
  private func app(context: Int = 21) -> App {
    makeApp(FakeService(maxContext: context) { _, _ in Script(text: "x") })
  }

  private func error(_ path: String, _ body: String, context: Int = 21) throws -> JSONValue {
    let answer = try app(context: context).send("POST", path, body: body)
    #expect(answer.status == 400, "\(path): \(answer.text)")
    return answer.json["error"] ?? .null
  }

  private func appWithoutTools() throws -> App {
    let template = try ChatTemplate(
      source: "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}", specialTokens: []
    ) { (0, 0) }
    return App(
      LoadedModel(
        id: "m", created: 5, service: FakeService("x"), tokenizer: tinyTokenizer, template: template,
        endTokens: []))
  }

  private let hi = #""messages":[{"role":"user","content":"hi"}]"#

  @Test(arguments: ["", #","stream":true"#])
  func `chat and Responses say it in OpenAI's words`(extra: String) throws {
    let words =
      "This model's maximum context length is 20 tokens. However, your messages resulted in 21 tokens, and the "
      + "answer needs at least one. Please reduce the length of the messages."
    for (path, members, param) in [
      ("/v1/chat/completions", hi, "messages"), ("/v1/responses", #""input":"hi""#, "input"),
    ] {
      let found = try error(path, #"{"model":"m",\#(members)\#(extra)}"#, context: 20)
      #expect(
        found == [
          "message": .string(words), "type": "invalid_request_error", "param": .string(param),
          "code": "context_length_exceeded",
        ])
    }
  }

  @Test func `a text that is gone on with is a prompt`() throws {
    let found = try error("/v1/completions", #"{"model":"m","prompt":"abcd"}"#, context: 3)
    #expect(
      found["message"]
        == "This model's maximum context length is 3 tokens. However, your prompt resulted in 4 tokens, and the answer needs at least one. Please reduce the length of the prompt."
    )
  }

  /// Thinking is off unless a request says otherwise, so its prompt is longer by six tokens.
  @Test(arguments: [(26, 26), (27, 26), (5, 5)])
  func `Messages says it in Anthropic's words, and the comparison is true`(context: Int, maximum: Int) throws
  {
    let found = try error("/v1/messages", #"{"model":"m","max_tokens":5,\#(hi)}"#, context: context)
    #expect(
      found == [
        "type": "invalid_request_error",
        "message": .string(
          "prompt is too long: 27 tokens > \(maximum) maximum. Send fewer or shorter messages."),
      ])
  }

  @Test func `llama-server's paths have its words and counts`() throws {
    let found = try error("/completion", #"{"prompt":"abcd"}"#, context: 3)
    #expect(
      found == [
        "code": 400,
        "message": "request (4 tokens) exceeds the available context size (3 tokens), shorten it",
        "type": "exceed_context_size_error", "n_prompt_tokens": 4, "n_ctx": 3,
      ])
  }

  @Test func `Ollama's path has its words, with how much is too much`() throws {
    let body = #"{"model":"m","stream":false,"truncate":false,\#(hi)"#
    #expect(
      try error("/api/chat", body + "}", context: 18)
        == "prompt too long; exceeded max context length by 4 tokens: the prompt has 21 tokens, and the context length is 18. Shorten it."
    )
    #expect(
      try error("/api/chat", body + #","options":{"num_ctx":20}}"#, context: 400)
        == "prompt too long; exceeded max context length by 2 tokens: the prompt has 21 tokens, and the context length is 20. Shorten it, or raise num_ctx."
    )
    #expect(
      try error("/api/generate", #"{"model":"m","raw":true,"prompt":"abcd","stream":false}"#, context: 3)
        .stringValue?.hasPrefix("prompt too long; exceeded max context length by 2 tokens") == true)
  }

  @Test func `a beginning that was counted alone is said to be one`() {
    let beginning = ContextOverflow(tokens: 50, limit: 20, isWhole: false)
    #expect(
      beginning.message(param: "messages")
        == "This model's maximum context length is 20 tokens. However, your messages resulted in 50 tokens or more, and the answer needs at least one. Please reduce the length of the messages."
    )
    #expect(
      MessagesError(.contextLengthExceeded(beginning, param: "messages"), requestID: "r").json["error"]?[
        "message"]
        == "prompt is too long: 50 tokens > 20 maximum, counted as far as the memory allowed. Send fewer or shorter messages."
    )
  }

  @Test(arguments: [
    (
      "/v1/chat/completions",
      #""messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"f"}}]"#,
      #""required""#
    ),
    ("/v1/responses", #""input":"x","tools":[{"type":"function","name":"f"}]"#, #""required""#),
    (
      "/v1/messages",
      #""max_tokens":5,"messages":[{"role":"user","content":"x"}],"tools":[{"name":"f","input_schema":{"type":"object"}}]"#,
      #"{"type":"any"}"#
    ),
    (
      "/api/chat",
      #""messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"f"}}]"#, ""
    ),
  ])
  func `tools without a place in the template are left out, forced ones refused in Ollama's words`(
    path: String, members: String, forced: String
  ) throws {
    let app = try appWithoutTools()
    var body = #"{"model":"m",\#(members)"#
    if !forced.isEmpty {
      let answer = try app.send("POST", path, body: body + "}")
      #expect(answer.status == 200 && answer.headers["x-mlxserve-ignored"] == "tools")
      body += #","tool_choice":\#(forced)"#
    }
    let answer = try app.send("POST", path, body: body + "}")
    let error = answer.json["error"]
    #expect(answer.status == 400)
    #expect(
      (error?["message"] ?? error)
        == "\"m\" does not support tools: its chat template has no place for them.")
  }
}
