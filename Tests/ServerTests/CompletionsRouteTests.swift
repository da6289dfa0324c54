// POST /v1/completions against scripted generations.

import Decoding
import HTTP
import Inference
import JSON
import Pipeline
import Sampling
import Server
import Testing
import Tokenizers
import Wire

struct CompletionsRouteTests {
  @Test func `a whole completion`() throws {
    let service = FakeService(" world")
    let answer = try makeApp(service).complete(#""prompt":"Hello""#)
    #expect(
      answer.text
        == #"{"id":"cmpl-ID","object":"text_completion","created":7,"model":"m","system_fingerprint":"fp","#
        + #""choices":[{"text":" world","index":0,"logprobs":null,"finish_reason":"stop"}],"#
        + #""usage":{"prompt_tokens":5,"completion_tokens":6,"total_tokens":11,"prompt_tokens_details":"#
        + #"{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":0},"input_tokens":5,"#
        + #""output_tokens":6,"output_tokens_details":{"reasoning_tokens":0}}}"#)
    #expect(service.requests[0].maxTokens == 16)
    #expect(service.requests[0].promptLogprobs == nil)
  }

  @Test func `a streamed completion`() throws {
    let events = try makeApp(FakeService("ab")).complete(
      #""prompt":"x","stream":true,"stream_options":{"include_usage":true},"echo":true"#
    ).events
    func chunk(_ text: String, _ finish: String = "null") -> String {
      #"{"id":"cmpl-ID","object":"text_completion","created":7,"model":"m","system_fingerprint":"fp","#
        + #""choices":[{"text":"\#(text)","index":0,"logprobs":null,"finish_reason":\#(finish)}],"usage":null}"#
    }
    #expect(events.prefix(4) == [chunk("x"), chunk("a"), chunk("b"), chunk("", #""stop""#)])
    #expect(events[4].contains(#""choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"#))
    #expect(events[5] == "[DONE]")
  }

  @Test func `several prompts give choices in prompt order`() throws {
    let service = FakeService { request, index in
      Script(text: tinyTokenizer.decode(request.promptTokens, skipSpecialTokens: true) + "\(index % 2)")
    }
    let app = makeApp(service)
    let strings = try app.complete(#""prompt":["a","b"],"n":2,"seed":1"#)
    #expect(
      strings.json["choices"]?.arrayValue?.compactMap { $0["text"]?.stringValue } == ["a0", "a1", "b0", "b1"])
    #expect(strings.json["choices"]?.arrayValue?.compactMap { $0["index"]?.intValue } == [0, 1, 2, 3])
    #expect(strings.json["usage"]?["prompt_tokens"] == 2)
    #expect(service.requests.map(\.sampling.seed) == [1, 2, 1, 2])
    let ids = try app.complete(#""prompt":[[97],[98,99]]"#)
    #expect(ids.json["choices"]?.arrayValue?.compactMap { $0["text"]?.stringValue } == ["a0", "bc1"])
    #expect(try app.complete(#""prompt":[97,98]"#).json["choices"]?[0]?["text"] == "ab0")
  }

  @Test func `more prompts than the window are worked off in turn`() throws {
    let prompts = [String](repeating: "\"a\"", count: 30).joined(separator: ",")
    let service = FakeService("b")
    let answer = try makeApp(service).complete("\"prompt\":[\(prompts)]")
    #expect(answer.json["choices"]?.arrayValue?.count == 30)
    #expect(answer.json["usage"]?["completion_tokens"] == 30)
  }

  @Test func `a queue that is full for later prompts only delays them`() throws {
    let service = FakeService { _, index in Script(text: "b", delay: index == 0 ? 0.05 : 0) }
    let limited = LimitedService(service, limit: 3)
    let model = LoadedModel(
      id: "m", created: 5, service: limited, tokenizer: tinyTokenizer, template: nil, endTokens: [])
    let answer = try App(model).complete(#""prompt":["a","a","a","a","a","a"]"#)
    #expect(answer.json["choices"]?.arrayValue?.count == 6)
    #expect(limited.refusals > 0)
  }

  @Test func `echo with log probabilities describes the prompt, nothing predicts its first token`() throws {
    let answer = try makeApp(FakeService("c")).complete(
      #""prompt":"éb","echo":true,"logprobs":1,"max_tokens":1"#)
    let choice = answer.json["choices"]?[0]
    #expect(choice?["text"] == "ébc")
    #expect(
      choice?["logprobs"]?.text
        == #"{"tokens":["bytes:\\xc3","bytes:\\xa9","b","c"],"token_logprobs":[null,-0.5,-0.5,-0.5],"#
        + #""top_logprobs":[null,{"bytes:\\xa9":-0.5},{"b":-0.5},{"c":-0.5}],"text_offset":[0,0,1,2]}"#)
  }

  @Test func `no tokens at all still give the prompt's log probabilities`() throws {
    let answer = try makeApp(FakeService("c")).complete(
      #""prompt":[97,98],"echo":true,"logprobs":0,"max_tokens":0"#)
    let choice = answer.json["choices"]?[0]
    #expect(choice?["text"] == "ab")
    #expect(choice?["finish_reason"] == "length")
    #expect(choice?["logprobs"]?["token_logprobs"] == [nil, -0.5])
    #expect(answer.json["usage"]?["completion_tokens"] == 0)
  }

  @Test func `stop strings and log probabilities of plain completions`() throws {
    let answer = try makeApp(FakeService("one, two")).complete(
      #""prompt":"x","stop":",","logprobs":2"#)
    let choice = answer.json["choices"]?[0]
    #expect(choice?["text"] == "one")
    #expect(choice?["logprobs"]?["tokens"] == ["o", "n", "e"])
    #expect(choice?["logprobs"]?["text_offset"] == [0, 1, 2])
    #expect(answer.json["usage"]?["completion_tokens"] == 4)
  }

  @Test func `a prompt beyond the context names the prompt`() throws {
    let app = makeApp(FakeService(maxContext: 3) { _, _ in Script(text: "x") })
    #expect(try app.complete(#""prompt":"abc""#).refusal == "400 context_length_exceeded prompt")
    #expect(try app.complete(#""prompt":"""#).refusal == "400 invalid_value prompt")
    #expect(try app.complete(#""prompt":[262]"#).refusal == "400 integer_above_max_value prompt[0]")
  }
}
