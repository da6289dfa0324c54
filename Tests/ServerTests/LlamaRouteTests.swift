// POST /completion and /infill as llama-server's clients send them, against scripted generations.

import HTTP
import Inference
import JSON
import Pipeline
import Sampling
import Testing
import Tokenizers
import Wire

@testable import Server

/// Marks of a coder's vocabulary beside those of the chat template.
private let coder = makeTinyTokenizer(
  Marker.names.enumerated().map { ($1, $0 < 2) }
    + [
      "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>",
    ].map { ($0, false) })

struct LlamaRouteTests {
  private func app(_ service: FakeService = FakeService("x = 1")) -> App {
    makeApp(service, id: "tiny-coder", tokenizer: coder)
  }

  private func infill(_ members: String, _ app: App? = nil) throws -> Answer {
    try (app ?? self.app()).send("POST", "/infill", body: "{\(members)}")
  }

  private func complete(_ members: String, _ service: FakeService = FakeService("x = 1")) throws -> Answer {
    try app(service).send("POST", "/completion", body: "{\(members)}")
  }

  private let around = #""input_prefix":"a","input_suffix":"b""#

  @Test func `an infill answers with all that llama-server says`() throws {
    let service = FakeService { _, _ in Script(text: "x = 1", cachedTokens: 3) }
    let json = try infill(#"\#(around),"prompt":"c","n_predict":9"#, app(service)).json
    let members = [
      "index", "content", "tokens", "id_slot", "stop", "model", "tokens_predicted", "tokens_evaluated",
      "generation_settings", "prompt", "has_new_line", "truncated", "stop_type", "stopping_word",
      "tokens_cached", "timings",
    ]
    #expect(json.objectValue?.entries.map(\.key) == members)
    #expect(json["content"] == "x = 1" && json["stop"] == true && json["stop_type"] == "eos")
    #expect(json["model"] == "tiny-coder" && json["truncated"] == false && json["has_new_line"] == false)
    // The part of the line before the cursor follows the text before it.
    #expect(json["prompt"] == "<|fim_prefix|>ac<|fim_suffix|>b<|fim_middle|>")
    #expect(json["tokens_evaluated"] == 6 && json["tokens_predicted"] == 5 && json["tokens_cached"] == 11)
    let timings = json["timings"]
    #expect(timings?["cache_n"] == 3 && timings?["prompt_n"] == 3 && timings?["predicted_n"] == 5)
    for name in [
      "prompt_ms", "prompt_per_token_ms", "prompt_per_second", "predicted_ms", "predicted_per_second",
    ] {
      #expect(timings?[name]?.doubleValue != nil, "\(name)")
    }
    #expect(json["generation_settings"]?["n_predict"] == 9)
    #expect(json["generation_settings"]?["temperature"] == .double(Double(Float(0.8))))
    #expect(service.requests[0].stopTokens == [257, 262, 263, 264, 265, 266, 267])
  }

  @Test func `what stands around is needed`() throws {
    for members in [#""input_prefix":"a""#, #""input_suffix":"b""#, #""prompt":"c""#] {
      let answer = try infill(members)
      #expect(answer.status == 400)
      #expect(answer.json["error"]?["code"] == 400)
      #expect(answer.json["error"]?["type"] == "invalid_request_error")
    }
    #expect(try infill(#""input_prefix":1,"input_suffix":"b""#).status == 400)
    for empty in [
      #""input_prefix":"a","input_suffix":"""#, #""input_prefix":"","input_suffix":"b""#,
      #""input_prefix":"","input_suffix":"""#,
    ] { #expect(try infill(empty).status == 200) }
  }

  @Test func `other texts have a text and perhaps a name`() throws {
    let good = try infill(
      #"\#(around),"input_extra":[{"filename":"f","text":"t","time":[1,2]},{"text":"u"}]"#)
    #expect(
      good.json["prompt"]
        == .string(
          "<|repo_name|>myproject\n<|file_sep|>f\nt<|file_sep|>tmp\nu<|file_sep|>filename\n"
            + "<|fim_prefix|>a<|fim_suffix|>b<|fim_middle|>"))
    for bad in [
      "[{}]", #"[{"filename":"f"}]"#, #"[{"filename":123,"text":"t"}]"#, #"{"text":"t"}"#, #"["t"]"#,
    ] {
      #expect(try infill(#"\#(around),"input_extra":\#(bad)"#).status == 400, "\(bad)")
    }
  }

  @Test func `a warming request computes the prompt alone`() throws {
    let service = FakeService("word")
    let answer = try infill(
      #""input_prefix":"","input_suffix":"","prompt":"","n_predict":0,"t_max_prompt_ms":1,"response_fields":[""]"#,
      app(service))
    #expect(answer.text == "{}")
    #expect(answer.headers["x-mlxserve-ignored"] == nil)
    #expect(service.requests[0].maxTokens == 1)
    #expect(try infill(#"\#(around),"n_predict":0"#).json["content"] == "")
  }

  @Test func `members of the answer can be chosen`() throws {
    let answer = try infill(
      #"\#(around),"response_fields":["content","timings/prompt_n","nothing","timings/x"]"#)
    #expect(answer.text == #"{"content":"x = 1","timings/prompt_n":5}"#)
  }

  @Test func `a model without marks says so with 501`() throws {
    let answer = try makeApp(FakeService("x")).send("POST", "/infill", body: "{\(around)}")
    #expect(answer.status == 501)
    #expect(answer.json["error"]?["code"] == 501 && answer.json["error"]?["type"] == "not_supported_error")
    #expect(answer.json["error"]?["message"]?.stringValue?.contains("<|fim_prefix|>") == true)
  }

  @Test func `indentation ends an answer`() throws {
    let service = FakeService("    a\n      b\n  c\n")
    let json = try infill(#"\#(around),"n_indent":4"#, app(service)).json
    #expect(json["content"] == "    a\n      b\n")
    #expect(json["stop_type"] == "limit" && json["has_new_line"] == true)
    #expect(service.cancelled == [true])
  }

  @Test func `samplers are named or lettered`() throws {
    func sampling(_ samplers: String, _ more: String = "") throws -> SamplingParameters? {
      let service = FakeService("x")
      let answer = try infill(#"\#(around),"samplers":\#(samplers)\#(more)"#, app(service))
      return answer.status == 200 ? service.requests[0].sampling : nil
    }
    let vim = try #require(try sampling(#"["top_k","top_p","infill"]"#, #","top_k":40,"top_p":0.99"#))
    #expect(vim.topK == 40 && vim.topP == 0.99 && vim.minP == 0 && vim.isGreedy)
    let none = try #require(try sampling("[]"))
    #expect(none.topK == 0 && none.topP == 1 && none.minP == 0 && none.temperature == 1)
    let letters = try #require(try sampling(#""kt""#, #","top_k":5,"temperature":0.5,"min_p":0.3"#))
    #expect(letters.topK == 5 && letters.temperature == 0.5 && letters.minP == 0)
    let all =
      #","typical_p":0.5,"top_n_sigma":1,"xtc_probability":0.5,"dry_multiplier":1,"dynatemp_range":0.2"#
    let few = try #require(try sampling(#"["typ_p","temperature"]"#, all))
    #expect(few.typicalP == 0.5 && few.dynatempRange == 0.2)
    #expect(few.topNSigma <= 0 && few.xtcProbability == 0 && few.dryMultiplier == 0)
    let new = try #require(try sampling(#""sxd""#, all))
    #expect(new.topNSigma == 1 && new.xtcProbability == 0.5 && new.dryMultiplier == 1)
    #expect(new.typicalP == 1 && new.dynatempRange == 0)
    #expect(
      vim.order == [.topK, .topP, .temperature] && none.order == [] && letters.order == [.topK, .temperature])
    #expect(try sampling(#"["temperature","infill","min_p"]"#)?.order == [.temperature, .minP])
    #expect(new.order == [.topNSigma, .xtc, .dry])
    #expect(try sampling("null")?.order == nil)
    #expect(try sampling(#""\#(String(repeating: "k", count: 33))""#) == nil)
    #expect(try sampling(#"["nonsense"]"#) == nil)
    #expect(try sampling(#""q""#) == nil)
  }

  @Test func `what nobody can honour is named, and what changes nothing is not`() throws {
    let quiet = try complete(
      #""prompt":"a","cache_prompt":true,"id_slot":-1,"n_keep":0,"typical_p":1,"mirostat":0,"mirostat_tau":5,"#
        + #""dry_multiplier":0,"dry_base":1.75,"lora":[],"grammar":"","repeat_last_n":-1"#)
    #expect(quiet.status == 200, "\(quiet.text)")
    #expect(quiet.headers["x-mlxserve-ignored"] == nil)
    #expect(try complete(#""prompt":"a","nonsense":1"#).headers["x-mlxserve-ignored"] == "nonsense")
    #expect(try complete(#""prompt":"a","lora":[{"id":0,"scale":1}]"#).status == 400)
    #expect(
      try complete(#""prompt":{"prompt_string":"a","multimodal_data":["eA=="]}"#).status == 400)
  }

  @Test func `a stream ends with the whole object`() throws {
    let events = try infill(#"\#(around),"stream":true,"n_probs":1"#).events.map {
      try JSONValue(parsing: $0)
    }
    #expect(events.dropLast().compactMap { $0["content"]?.stringValue }.joined() == "x = 1")
    #expect(events.dropLast().allSatisfy { $0["stop"] == false && $0["tokens"]?.arrayValue?.count == 1 })
    #expect(events[0]["completion_probabilities"]?[0]?["id"] == .int(Int(UInt8(ascii: "x"))))
    let last = try #require(events.last)
    #expect(last["stop"] == true && last["content"] == "" && last["timings"]?["predicted_n"] == 5)
    #expect(last["generation_settings"]?["stream"] == true)
  }

  @Test func `prompts come as text, ids, both, or several`() throws {
    func prompts(_ value: String) throws -> [[Int32]] {
      let service = FakeService("x")
      let answer = try complete(#""prompt":\#(value)"#, service)
      #expect(answer.status == 200, "\(answer.text)")
      return service.requests.map(\.promptTokens)
    }
    #expect(try prompts(#""ab""#) == [[97, 98]])
    #expect(try prompts("[97,98]") == [[97, 98]])
    #expect(try prompts(#"["a",98,"c<|im_end|>"]"#) == [[97, 98, 99, 257]])
    #expect(try prompts(#"["a","b"]"#) == [[97], [98]])
    #expect(try prompts(#"["a",[98,"c"]]"#) == [[97], [98, 99]])
    #expect(try prompts(#"{"prompt_string":"ab"}"#) == [[97, 98]])
    #expect(try complete(#""prompt":"a""#).json.objectValue != nil)
    #expect(try complete(#""prompt":["a"]"#).json.arrayValue?.count == 1)
    for bad in ["[]", "3", "null", "[300]", "[[]]"] {
      #expect(try complete(#""prompt":\#(bad)"#).status == 400, "\(bad)")
    }
  }

  @Test func `the end has its reason`() throws {
    #expect(try complete(#""prompt":"a","n_predict":2"#).json["stop_type"] == "limit")
    let word = try complete(#""prompt":"a","stop":["","="]"#).json
    #expect(word["stop_type"] == "word" && word["stopping_word"] == "=" && word["content"] == "x ")
    #expect(try complete(#""prompt":"a","n_predict":-1"#).json["stop_type"] == "eos")
  }

  @Test func `seeds, biases and tokens`() throws {
    let service = FakeService("ab")
    let json = try complete(
      #""prompt":"a","seed":7,"logit_bias":[[98,-1.5],["97",false]],"return_tokens":true,"repeat_penalty":1.5"#,
      service
    ).json
    #expect(json["tokens"] == [97, 98])
    let sampling = service.requests[0].sampling
    #expect(
      sampling.seed == 7 && sampling.logitBias == [98: -1.5, 97: -100] && sampling.repetitionPenalty == 1.5)
    _ = try complete(#""prompt":"a","seed":-1"#, service)
    #expect(service.requests[1].sampling.seed == nil)
  }

  @Test func `a suffix in completions and in generate asks for the same prompt`() throws {
    let service = FakeService("x")
    let app = app(service)
    _ = try infill(around, app)
    let completion = try app.send(
      "POST", "/v1/completions", body: #"{"model":"tiny-coder","prompt":"a","suffix":"b"}"#)
    let generate = try app.send(
      "POST", "/api/generate", body: #"{"model":"tiny-coder","prompt":"a","suffix":"b","stream":false}"#)
    #expect(completion.status == 200 && generate.json["response"] == "x")
    #expect(Set(service.requests.map(\.promptTokens)).count == 1)
    #expect(Set(service.requests.map(\.stopTokens)).count == 1)
    // Without marks, and where an empty one asks for nothing.
    let plain = makeApp(FakeService("x"))
    #expect(try plain.complete(#""prompt":"a","suffix":"b""#).refusal == "400 unsupported_parameter suffix")
    #expect(try plain.complete(#""prompt":"a","suffix":"""#).status == 200)
    let refused = try plain.send("POST", "/api/generate", body: #"{"model":"m","prompt":"a","suffix":"b"}"#)
    #expect(refused.status == 400 && refused.json["error"] == #""m" does not support insert"#)
  }

  @Test func `editors learn from Ollama's words that a model fills`() throws {
    let coder = try app().send("POST", "/api/show", body: #"{"model":"tiny-coder"}"#).json
    #expect(coder["capabilities"]?.arrayValue?.contains("insert") == true)
    #expect(coder["template"]?.stringValue?.contains(".Suffix") == true)
    let plain = try makeApp(FakeService("x")).send("POST", "/api/show", body: #"{"model":"m"}"#).json
    #expect(plain["capabilities"]?.arrayValue?.contains("insert") == false)
    #expect(plain["template"]?.stringValue?.contains(".Suffix") == false)
  }
}
