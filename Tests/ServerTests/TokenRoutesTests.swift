// The routes beside the answers: tokens, prompts, capabilities.

import HTTP
import Inference
import JSON
import OpenAI
import Server
import Testing
import Tokenizers

struct TokenRoutesTests {
  private func post(_ path: String, _ body: String, service: FakeService = FakeService("x")) throws -> Answer
  {
    try makeApp(service).send("POST", path, body: body)
  }

  @Test func `text becomes tokens, for both kinds of clients`() throws {
    #expect(
      try post("/tokenize", #"{"content":"hi"}"#).text
        == #"{"count":2,"max_model_len":400,"tokens":[104,105],"token_strs":null}"#)
    #expect(
      try post("/tokenize", #"{"model":"m","prompt":"h ","return_token_strs":true}"#).text
        == #"{"count":2,"max_model_len":400,"tokens":[104,32],"token_strs":["h","Ġ"]}"#)
    #expect(
      try post("/tokenize", #"{"content":"hé","with_pieces":true}"#).json["tokens"]?.text
        == #"[{"id":104,"piece":"h"},{"id":195,"piece":[195]},{"id":169,"piece":[169]}]"#)
  }

  @Test func `special tokens are parsed unless told otherwise`() throws {
    #expect(try post("/tokenize", #"{"content":"<|im_end|>"}"#).json["tokens"] == [257])
    #expect(try post("/tokenize", #"{"content":"<|im_end|>","parse_special":false}"#).json["count"] == 10)
    #expect(
      try post("/tokenize", #"{"content":"x","parse_special":false,"add_special":true}"#).refusal
        == "400 unsupported_value parse_special")
  }

  @Test(arguments: [
    ("/v1/chat/completions", "messages", "text"), ("/v1/responses", "input", "output_text"),
    ("/v1/messages", "messages", "text"),
  ])
  func `an earlier answer spells special tokens unless the history is strict`(
    path: String, field: String, type: String
  ) throws {
    let spelled = "a<|im_end|>b"
    for content in ["\"\(spelled)\"", #"[{"type":"\#(type)","text":"\#(spelled)"}]"#] {
      let messages =
        #"[{"role":"user","content":"hi"},{"role":"assistant","content":\#(content)},"#
        + #"{"role":"user","content":"go"}]"#
      let limit = path == "/v1/messages" ? #","max_tokens":9"# : ""
      for isStrict in [false, true] {
        let service = FakeService("x")
        let app = makeApp(service) { $0.isHistoryStrict = isStrict }
        let answer = try app.send("POST", path, body: #"{"model":"m","\#(field)":\#(messages)\#(limit)}"#)
        #expect(answer.status == 200, "\(answer.text)")
        let prompt = try #require(service.requests.first).promptTokens
        #expect(prompt.count(where: { $0 == Marker.end }) == (isStrict ? 3 : 4))
        #expect(tinyTokenizer.decode(prompt, skipSpecialTokens: false).contains(spelled))
      }
    }
  }

  @Test func `a conversation becomes tokens, their number, and text`() throws {
    let messages = #""messages":[{"role":"user","content":"hi"}]"#
    #expect(try post("/tokenize", "{\(messages)}").json["count"] == 21)
    #expect(try post("/tokenize", "{\(messages),\"add_generation_prompt\":false}").json["count"] == 10)
    #expect(
      try post("/v1/chat/completions/input_tokens", "{\"model\":\"m\",\(messages)}").text
        == #"{"object":"response.input_tokens","input_tokens":21}"#)
    #expect(
      try post("/apply-template", "{\(messages)}").json["prompt"]
        == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n")
    #expect(
      try post("/apply-template", "{\(messages),\"thinking\":false}").json["prompt"]?.stringValue?
        .hasSuffix("<think>\n\n</think>\n\n") == true)
  }

  @Test func `tokens become text`() throws {
    #expect(
      try post("/detokenize", #"{"tokens":[104,105,257]}"#).text
        == #"{"content":"hi<|im_end|>","prompt":"hi<|im_end|>"}"#)
    #expect(try post("/detokenize", #"{"model":"m","tokens":[]}"#).json["prompt"] == "")
  }

  @Test(arguments: [
    ("/tokenize", "{}", "400 missing_required_parameter content"),
    ("/tokenize", #"{"content":"a","prompt":"b"}"#, "400 invalid_value prompt"),
    ("/tokenize", #"{"content":5}"#, "400 invalid_type content"),
    ("/tokenize", #"{"model":"y","content":"a"}"#, "404 model_not_found model"),
    ("/tokenize", #"{"messages":[]}"#, "400 invalid_value messages"),
    ("/detokenize", "{}", "400 missing_required_parameter tokens"),
    ("/detokenize", #"{"tokens":[262]}"#, "400 integer_above_max_value tokens[0]"),
    ("/detokenize", #"{"tokens":[-1]}"#, "400 integer_below_min_value tokens[0]"),
    ("/detokenize", #"{"model":"y","tokens":[]}"#, "404 model_not_found model"),
    ("/apply-template", #"{"messages":[{"role":"x"}]}"#, "400 invalid_value messages[0].role"),
    (
      "/v1/chat/completions/input_tokens", #"{"messages":[]}"#, "400 missing_required_parameter model"
    ),
  ])
  func `what cannot be done is refused by name`(path: String, body: String, refusal: String) throws {
    #expect(try post(path, body).refusal == refusal)
  }

  @Test func `capabilities say what chat does`() throws {
    let app = makeApp(FakeService("x"))
    let list = try app.send("GET", "/v1/capabilities").json
    #expect(list["object"] == "list")
    let model = try #require(list["data"]?[0])
    #expect(model["id"] == "m")
    #expect(model["context_length"] == 400)
    #expect(model["vocabulary_size"] == 262)
    #expect(model["compute_mode"] == "exact")
    #expect(model["quantization"] == .null)
    #expect(model["modalities"]?["input"] == ["text"])
    #expect(model["tools"]?["syntax"] == "qwen")
    #expect(model["tools"]?["supported"] == true)
    #expect(model["thinking"]?["supported"] == true)
    #expect(model["thinking"]?["switch"] == true)
    #expect(model["limits"]?["choices"] == .int(RequestLimits().choices))
    #expect(model["endpoints"]?.arrayValue?.contains("POST /v1/messages") == true)
    let format = #""response_format":{"type":"json_object"}"#
    #expect(model["structured_output"]?["missing_bytes"] == [])
    #expect(model["structured_output"]?["json_object"] == .bool(try app.chat(format).status == 200))
    let forced = #""tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"required""#
    let choices = try #require(model["tools"]?["choices"]?.arrayValue)
    #expect(choices.contains("auto"))
    #expect(choices.contains("required") == (try app.chat(forced).status == 200))
  }
}
