// Fields and paths that clients of llama-server, vLLM and SGLang know: honoured, or refused by name.

import HTTP
import Inference
import JSON
import Sampling
import Server
import Testing

struct OtherServersTests {
  private func send(
    _ fields: String, to path: String = "/v1/chat/completions", _ service: FakeService = FakeService("xyz")
  ) throws -> Answer {
    let input =
      path.hasSuffix("/completions") && !path.contains("chat")
      ? #""prompt":"ab""# : #""max_tokens":9,"messages":[{"role":"user","content":"hi"}]"#
    return try makeApp(service).send("POST", path, body: #"{"model":"m",\#(input),\#(fields)}"#)
  }

  @Test(arguments: [
    #""use_beam_search":true"#, #""lora":[{"id":0}]"#, #""samplers":["top_k"]"#, #""session_id":"s""#,
    #""n_probs":5"#, #""skip_special_tokens":false"#, #""documents":[{}]"#, #""thread_id":"t""#,
    #""custom_logit_processor":"x""#, #""stop_regex":"a+""#, #""length_penalty":0.5"#,
  ])
  func `a word that would change the answer is refused by name`(field: String) throws {
    let answer = try send(field)
    let name = field.split(separator: "\"").first.map(String.init) ?? ""
    #expect(answer.refusal == "400 unsupported_parameter \(name)")
  }

  @Test(arguments: [
    #""use_beam_search":false"#, #""lora":[]"#, #""tfs_z":1.0"#, #""n_probs":0"#, #""best_of":1"#,
    #""skip_special_tokens":true"#, #""session_id":null"#,
  ])
  func `the same word asks for nothing with a neutral value`(field: String) throws {
    let answer = try send(field)
    #expect(answer.status == 200, "\(answer.text)")
    #expect(answer.headers["x-mlxserve-ignored"] == nil)
  }

  @Test func `words and tokens that may not come reach the engine`() throws {
    let service = FakeService("xyz")
    let answer = try send(
      #""bad_words":["ab"],"allowed_token_ids":[120,121],"dry_multiplier":1,"dry_sequence_breakers":["q"]"#,
      to: "/v1/chat/completions", service)
    #expect(answer.status == 200, "\(answer.text)")
    let sampling = try #require(service.requests.first?.sampling)
    #expect(sampling.bannedSequences == [[97, 98], [32, 97, 98]])
    #expect(sampling.allowedTokens == [120, 121])
    #expect(sampling.dryBreakers.lengthAfterLast(in: [113, 1, 2]) == 2)
    #expect(sampling.dryBreakers.lengthAfterLast(in: [10, 1, 2]) == 3)
  }

  @Test func `without breakers of its own a request has the usual ones`() throws {
    let service = FakeService("xyz")
    _ = try send(#""dry_multiplier":1"#, to: "/v1/completions", service)
    let breakers = try #require(service.requests.first?.sampling.dryBreakers)
    for byte in [10, 58, 34, 42] as [Int32] { #expect(breakers.lengthAfterLast(in: [1, byte, 2, 3]) == 2) }
  }

  @Test func `a breaker of several tokens is found however it is cut`() throws {
    let service = FakeService("xyz")
    _ = try send(#""dry_multiplier":1,"dry_sequence_breakers":["ab"]"#, to: "/v1/completions", service)
    let breakers = try #require(service.requests.first?.sampling.dryBreakers)
    #expect(breakers.lengthAfterLast(in: [97, 98, 1]) == 1)
    #expect(breakers.lengthAfterLast(in: [97, 99, 98, 1]) == 4)
  }

  @Test func `the stop string is part of the answer where a client wants it`() throws {
    let fields = #""stop":["y"],"include_stop_str_in_output":true"#
    #expect(try send(fields).json["choices"]?[0]?["message"]?["content"] == "xy")
    #expect(
      try send(#""stop":["y"],"no_stop_trim":true"#, to: "/v1/completions").json["choices"]?[0]?["text"]
        == "xy")
    #expect(try send(#""stop":["y"]"#).json["choices"]?[0]?["message"]?["content"] == "x")
  }

  @Test func `a prompt is cut to its last tokens`() throws {
    let service = FakeService("xyz")
    _ = try send(#""truncate_prompt_tokens":1"#, to: "/v1/completions", service)
    _ = try send(#""truncate_prompt_tokens":-1"#, to: "/v1/completions", service)
    #expect(service.requests.map(\.promptTokens) == [[98], [97, 98]])
    #expect(try send(#""truncate_prompt_tokens":0"#).status == 400)
  }

  @Test func `ids of prompt and answer are told`() throws {
    let chat = try send(#""return_token_ids":true"#).json
    #expect(chat["choices"]?[0]?["token_ids"] == [120, 121, 122])
    #expect((chat["prompt_token_ids"]?.arrayValue?.count ?? 0) > 3)
    let plain = try send(#""return_token_ids":true"#, to: "/v1/completions").json["choices"]?[0]
    #expect(plain?["prompt_token_ids"] == [97, 98])
    #expect(plain?["token_ids"] == [120, 121, 122])
    let events = try send(#""return_token_ids":true,"stream":true"#).text
    #expect(events.contains(#""prompt_token_ids":["#))
    #expect(events.contains(#""token_ids":[120]"#) || events.contains(#""token_ids":[120,"#))
  }

  @Test func `log probabilities of the prompt are told as vLLM tells them`() throws {
    for path in ["/v1/chat/completions", "/v1/completions"] {
      let json = try send(#""prompt_logprobs":2"#, to: path).json
      let list = (json["prompt_logprobs"] ?? json["choices"]?[0]?["prompt_logprobs"])?.arrayValue
      let entries = try #require(list)
      #expect(entries.first == JSONValue.null)
      let last = try #require(entries.last?.objectValue)
      #expect(last.count == 2)
      #expect(last.entries.first?.value["logprob"] == -0.5)
      #expect(last.entries.last?.value["rank"] == 2)
    }
    #expect(try send(#""prompt_logprobs":2,"stream":true"#).status == 400)
  }

  @Test func `an answer that continues a message can begin with it`() throws {
    let body =
      #"{"model":"m","continue_final_message":true,"echo":true,"messages":[{"role":"user","content":"hi"},"#
      + #"{"role":"assistant","content":"ab"}]}"#
    let answer = try makeApp(FakeService("xyz")).send("POST", "/v1/chat/completions", body: body)
    #expect(answer.json["choices"]?[0]?["message"]?["content"] == "abxyz", "\(answer.text)")
    #expect(try send(#""echo":true"#).status == 400)
  }

  @Test(arguments: ["/chat/completions", "/v1/chat/completions/", "/chat/completions/"])
  func `a path may leave out its root and end with a slash`(path: String) throws {
    let body = #"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#
    #expect(try makeApp(FakeService("xyz")).send("POST", path, body: body).status == 200)
  }

  @Test func `clients of other servers find what they ask a server about itself`() throws {
    let app = makeApp(FakeService("x"))
    #expect(try app.send("GET", "/version").json["version"] == "0.0.0")
    let info = try app.send("GET", "/tokenizer_info").json
    #expect(info["vocab_size"] == 262)
    #expect(info["chat_template"]?.stringValue?.contains("<|im_start|>") == true)
    let properties = try app.send("GET", "/props?model=m").json
    #expect(properties["default_generation_settings"]?["n_ctx"] == 400)
    #expect(properties["default_generation_settings"]?["params"]?["typical_p"]?.doubleValue == 1)
    #expect(try app.send("GET", "/slots").json[0]?["is_processing"] == false)
    #expect(try app.send("GET", "/props?model=nope").status == 404)
  }

  @Test func `asking about a model with a GET loads none, and keeps none`() throws {
    let garage = Garage()
    let fleet = try garage.fleet(["m", "n"])
    defer { fleet.stop() }
    let app = App(fleet)
    let paths = [
      "/props", "/slots", "/tokenizer_info", "/props?model=n", "/slots?model=n", "/tokenizer_info?model=n",
    ]
    for path in paths {
      #expect(try app.send("GET", path).refusal == "503 model_not_loaded model", "\(path)")
    }
    #expect(try app.send("GET", "/info").status == 503)
    #expect(garage.loads == [])
    #expect(try app.send("POST", "/tokenize", body: #"{"model":"n","content":"x"}"#).status == 200)
    for path in paths {
      #expect(try app.send("GET", path).status == (path.hasSuffix("=n") ? 200 : 503), "\(path)")
    }
    #expect(garage.loads == ["n"])
  }
}
