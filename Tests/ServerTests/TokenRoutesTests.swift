// The routes beside the answers: tokens, prompts, capabilities.

import HTTP
import Inference
import JSON
import Pipeline
import Platform
import Testing
import Tokenizers
import Wire

@testable import Server

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

/// Two models that generate, whose markers have each other's ids.
@Suite struct TokenizersOfSeveralModelsTests {
  private func fleet(_ folder: ModelsFolder, aliases: [ModelCatalog.Alias] = []) throws -> ModelFleet {
    let catalog = try ModelCatalog(
      named: ["a", "b"].map { ModelSource(id: $0, path: folder.path + "/" + $0) }, aliases: aliases)
    return try ModelFleet(catalog) { source, _ in
      let names = source.id == "a" ? Marker.names : Marker.names.reversed()
      return ResidentModel(
        LoadedModel(
          id: source.id, created: 5, service: FakeService("x"),
          tokenizer: makeTinyTokenizer(names.map { ($0, false) }), template: tinyTemplate, endTokens: []))
    }
  }

  private func write(_ text: String, to path: String) {
    let file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
    StandardStream.write(text, to: file)
    close(file)
  }

  @Test func `where tokenizers differ the model is named, in the body or the address`() throws {
    let folder = try ModelsFolder(["a", "b"])
    write("{1}", to: folder.path + "/a/tokenizer.json")
    write("{2}", to: folder.path + "/b/tokenizer.json")
    let fleet = try fleet(folder)
    defer { fleet.stop() }
    let app = App(fleet)
    func text(_ body: String, _ address: String = "/detokenize") throws -> JSONValue? {
      try app.send("POST", address, body: body).json["content"]
    }
    #expect(try text(#"{"model":"a","tokens":[256]}"#) == "<|im_start|>")
    #expect(try text(#"{"model":"b","tokens":[256]}"#) == "</tool_call>")
    #expect(try text(#"{"tokens":[256]}"#, "/detokenize?model=b") == "</tool_call>")
    #expect(try text(#"{"model":"a","tokens":[256]}"#, "/detokenize?model=b") == "<|im_start|>")
    let ids = try app.send("POST", "/tokenize", body: #"{"model":"b","prompt":"</tool_call>"}"#).json[
      "tokens"]
    #expect(ids == [256])
    #expect(try app.send("GET", "/tokenizer_info?model=b").json["model"] == "b")
    for (method, path) in [("POST", "/tokenize"), ("POST", "/detokenize"), ("GET", "/tokenizer_info")] {
      let answer = try app.send(method, path, body: #"{"prompt":"x","tokens":[1]}"#)
      #expect(answer.refusal == "400 missing_required_parameter model", "\(path)")
      #expect(answer.json["error"]?["message"]?.stringValue?.contains("'a', 'b'") == true)
    }
  }

  @Test func `with the same tokenizer, or a name for all who cannot, nobody has to`() throws {
    let folder = try ModelsFolder(["a", "b"])
    for name in ["a", "b"] { write("{1}", to: folder.path + "/\(name)/tokenizer.json") }
    let same = try fleet(folder)
    defer { same.stop() }
    // Of a model that is loaded.
    let first = try same.lease("a")
    #expect(try App(same).send("GET", "/tokenizer_info").json["model"] == "a")
    withExtendedLifetime(first) {}
    write("{2}", to: folder.path + "/b/tokenizer.json")
    let aliased = try fleet(folder, aliases: [.init(name: "*", model: "b")])
    defer { aliased.stop() }
    let second = try aliased.lease("")
    #expect(try App(aliased).send("GET", "/tokenizer_info").json["model"] == "b")
    withExtendedLifetime(second) {}
    #expect(
      try App(aliased).send("POST", "/detokenize", body: #"{"tokens":[256]}"#).json["content"]
        == "</tool_call>")
  }
}
