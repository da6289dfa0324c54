// POST /v1/chat/completions against scripted generations.

import Decoding
import HTTP
import Inference
import JSON
import Sampling
import Server
import Testing
import Tokenizers
import Wire

private let thinkingAnswer = "<think>\nhm\n</think>\n\nYes."
private let callAnswer =
  #"<tool_call>\#n{"name": "get_weather", "arguments": {"city": "Oslo"}}\#n</tool_call>"#
private let tool =
  #"{"type":"function","function":{"name":"get_weather","parameters":{"type":"object","properties":{}}}}"#

struct ChatRouteTests {
  @Test func `a whole answer`() throws {
    let service = FakeService("Hello")
    let answer = try makeApp(service).chat(#""temperature":0,"seed":3"#)
    #expect(answer.status == 200)
    #expect(answer.headers["content-type"] == "application/json")
    #expect(
      answer.text
        == #"{"id":"chatcmpl-ID","object":"chat.completion","created":7,"model":"m","system_fingerprint":"fp","#
        + #""service_tier":"default","choices":[{"index":0,"message":{"role":"assistant","content":"Hello","#
        + #""refusal":null,"annotations":[]},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":21,"#
        + #""completion_tokens":5,"total_tokens":26,"prompt_tokens_details":{"cached_tokens":0},"#
        + #""completion_tokens_details":{"reasoning_tokens":0},"input_tokens":21,"output_tokens":5,"#
        + #""output_tokens_details":{"reasoning_tokens":0}}}"#)
    let request = try #require(service.requests.first)
    #expect(
      tinyTokenizer.decode(request.promptTokens, skipSpecialTokens: false)
        == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n")
    #expect(request.maxTokens == 400 - 21)
    #expect(request.stopTokens == [Marker.end])
    #expect(request.sampling.temperature == 0)
    #expect(request.sampling.seed == 3)
    #expect(request.tokenLimit == 262)
    #expect(request.topLogprobs == nil)
  }

  @Test func `options reach the engine, absent ones take the usual defaults`() throws {
    let service = FakeService("Hello")
    _ = try makeApp(service).chat(
      #""temperature":0.5,"top_p":0.25,"top_k":4,"min_p":0.125,"repetition_penalty":1.5,"presence_penalty":0.5,"#
        + #""frequency_penalty":-0.5,"logit_bias":{"7":-100},"min_tokens":2,"max_tokens":9,"seed":-1,"#
        + #""stop_token_ids":[65],"ignore_eos":true,"logprobs":true,"top_logprobs":2"#)
    _ = try makeApp(service).chat()
    var expected = SamplingParameters()
    expected.temperature = 0.8
    expected.topK = 40
    expected.topP = 0.95
    expected.minP = 0.05
    #expect(service.requests[1].sampling == expected)
    expected.temperature = 0.5
    expected.topP = 0.25
    expected.topK = 4
    expected.minP = 0.125
    expected.repetitionPenalty = 1.5
    expected.presencePenalty = 0.5
    expected.frequencyPenalty = -0.5
    expected.logitBias = [7: -100]
    expected.minTokens = 2
    expected.seed = .max
    #expect(service.requests[0].sampling == expected)
    #expect(service.requests[0].maxTokens == 9)
    #expect(service.requests[0].stopTokens == [65])
    #expect(service.requests[0].topLogprobs == 2)
  }

  @Test func `a streamed answer`() throws {
    let answer = try makeApp(FakeService("Hi")).chat(
      #""stream":true,"stream_options":{"include_usage":true}"#)
    func chunk(_ delta: String, _ finish: String = "null") -> String {
      #"data: {"id":"chatcmpl-ID","object":"chat.completion.chunk","created":7,"model":"m","system_fingerprint":"fp","#
        + #""choices":[{"index":0,"delta":\#(delta),"logprobs":null,"finish_reason":\#(finish)}],"usage":null}"#
        + "\n\n"
    }
    #expect(answer.headers["content-type"] == "text/event-stream; charset=utf-8")
    #expect(
      answer.text
        == chunk(#"{"role":"assistant","content":"","refusal":null}"#) + chunk(#"{"content":"H"}"#)
        + chunk(#"{"content":"i"}"#) + chunk("{}", #""stop""#)
        + #"data: {"id":"chatcmpl-ID","object":"chat.completion.chunk","created":7,"model":"m","#
        + #""system_fingerprint":"fp","choices":[],"usage":{"prompt_tokens":21,"completion_tokens":2,"#
        + #""total_tokens":23,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":"#
        + #"{"reasoning_tokens":0},"input_tokens":21,"output_tokens":2,"output_tokens_details":"#
        + #"{"reasoning_tokens":0}}}"# + "\n\ndata: [DONE]\n\n")
  }

  @Test func `without the option a stream holds no usage`() throws {
    let answer = try makeApp(FakeService("Hi")).chat(#""stream":true"#)
    #expect(!answer.text.contains("usage"))
    #expect(answer.events.count == 5)
    #expect(answer.events.last == "[DONE]")
  }

  @Test func `an empty answer still has role and finish`() throws {
    let stream = try makeApp(FakeService("")).chat(#""stream":true"#)
    #expect(stream.events.count == 3)
    #expect(stream.events[0].contains(#""role":"assistant""#))
    #expect(stream.events[1].contains(#""finish_reason":"stop""#))
    #expect(try makeApp(FakeService("")).chat().json["choices"]?[0]?["message"]?["content"] == "")
  }

  @Test func `reasoning goes to its own member, named as configured`() throws {
    let message = try makeApp(FakeService(thinkingAnswer)).chat().json["choices"]?[0]?["message"]
    #expect(message?["reasoning_content"] == "hm")
    #expect(message?["content"] == "Yes.")
    let both = try makeApp(FakeService(thinkingAnswer)) { $0.reasoningField = .both }.chat(#""stream":true"#)
    #expect(both.events[1].contains(#""delta":{"reasoning_content":"h","reasoning":"h"}"#))
  }

  @Test func `include_reasoning false hides the text and keeps the count`() throws {
    let app = makeApp(FakeService(thinkingAnswer))
    let answer = try app.chat(#""include_reasoning":false"#)
    #expect(answer.json["choices"]?[0]?["message"]?["reasoning_content"] == nil)
    #expect(answer.json["usage"]?["completion_tokens_details"]?["reasoning_tokens"] == 8)
    let stream = try app.chat(#""include_reasoning":false,"stream":true"#)
    #expect(!stream.text.contains("reasoning"))
    #expect(stream.events[1].contains(#""content":"Y""#))
  }

  @Test(arguments: [
    #""thinking":false"#, #""reasoning_effort":"none""#, #""chat_template_kwargs":{"enable_thinking":false}"#,
  ])
  func `thinking is switched off in the prompt`(extra: String) throws {
    let service = FakeService("Yes.")
    _ = try makeApp(service).chat(extra)
    let prompt = tinyTokenizer.decode(service.requests[0].promptTokens, skipSpecialTokens: false)
    #expect(prompt.hasSuffix("<|im_start|>assistant\n<think>\n\n</think>\n\n"))
  }

  @Test func `a tool call, whole and streamed`() throws {
    let app = makeApp(FakeService(callAnswer))
    let whole = try app.chat("\"tools\":[\(tool)]").json["choices"]?[0]
    #expect(
      whole?["message"]?.text
        == #"{"role":"assistant","content":null,"refusal":null,"annotations":[],"tool_calls":[{"id":"call_ID","#
        + #""type":"function","function":{"name":"get_weather","arguments":"{\"city\": \"Oslo\"}"}}]}"#)
    #expect(whole?["finish_reason"] == "tool_calls")
    let events = try app.chat("\"tools\":[\(tool)],\"stream\":true").events
    #expect(
      events[1].contains(
        #""delta":{"tool_calls":[{"index":0,"id":"call_ID","type":"function","function":{"name":"get_weather","#
          + #""arguments":""}}]}"#))
    #expect(events[2].contains(#""delta":{"tool_calls":[{"index":0,"function":{"arguments":"{"}}]}"#))
    #expect(joinedArguments(events) == [0: #"{"city": "Oslo"}"#])
    #expect(
      events.dropLast().last?.contains(#""delta":{},"logprobs":null,"finish_reason":"tool_calls""#) == true)
  }

  /// The arguments of each call of a stream, by index.
  private func joinedArguments(_ events: [String]) -> [Int: String] {
    var arguments: [Int: String] = [:]
    for event in events.dropLast() {
      let choice = (try? JSONValue(parsing: event))?["choices"]?[0]
      for call in choice?["delta"]?["tool_calls"]?.arrayValue ?? [] {
        arguments[call["index"]?.intValue ?? -1, default: ""] +=
          call["function"]?["arguments"]?.stringValue ?? "?"
      }
    }
    return arguments
  }

  @Test func `calls are numbered, and one only when parallel calls are refused`() throws {
    let app = makeApp(FakeService(callAnswer + callAnswer))
    let two = try app.chat("\"tools\":[\(tool)],\"stream\":true").events
    #expect(joinedArguments(two) == [0: #"{"city": "Oslo"}"#, 1: #"{"city": "Oslo"}"#])
    #expect(two.filter { $0.contains(#""id":"call_ID""#) }.count == 2)
    let one = try app.chat("\"tools\":[\(tool)],\"parallel_tool_calls\":false").json["choices"]?[0]
    #expect(one?["message"]?["tool_calls"]?.arrayValue?.count == 1)
    #expect(one?["finish_reason"] == "tool_calls")
  }

  @Test func `a malformed call is text, and the answer says so`() throws {
    let broken = String(callAnswer.dropLast(16))
    let app = makeApp(FakeService(broken))
    let choice = try app.chat("\"tools\":[\(tool)]").json["choices"]?[0]
    #expect(choice?["message"]?["content"]?.stringValue == broken)
    #expect(choice?["message"]?["tool_calls"] == nil)
    #expect(choice?["finish_reason"] == "stop")
    #expect(choice?["malformed_tool_calls"] == 1)
    let events = try app.chat("\"tools\":[\(tool)],\"stream\":true").events
    let last = try JSONValue(parsing: events[events.count - 2])["choices"]?[0]
    #expect(last?["finish_reason"] == "stop")
    #expect(last?["malformed_tool_calls"] == 1)
  }

  @Test func `a call of a tool that may not be called is text`() throws {
    let other = #"{"type":"function","function":{"name":"other"}}"#
    let allowed =
      #""tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","#
      + #""tools":[{"type":"function","function":{"name":"other"}}]}}"#
    let message = try makeApp(FakeService(callAnswer)).chat("\"tools\":[\(tool),\(other)],\(allowed)").json[
      "choices"]?[0]?["message"]
    #expect(message?["tool_calls"] == nil)
    #expect(message?["content"]?.stringValue == callAnswer)
  }

  @Test func `a stop string ends the generation and counts the token that completed it`() throws {
    let service = FakeService("one END two", end: nil)
    let answer = try makeApp(service).chat(#""stop":["END"]"#)
    #expect(answer.json["choices"]?[0]?["message"]?["content"] == "one ")
    #expect(answer.json["choices"]?[0]?["finish_reason"] == "stop")
    #expect(answer.json["usage"]?["completion_tokens"] == 7)
    #expect(service.cancelled == [true])
  }

  @Test func `a token limit is a finish reason and clamped to the context`() throws {
    let answer = try makeApp(FakeService("Hello")).chat(#""max_tokens":3"#)
    #expect(answer.json["choices"]?[0]?["message"]?["content"] == "Hel")
    #expect(answer.json["choices"]?[0]?["finish_reason"] == "length")
    #expect(answer.json["usage"]?["completion_tokens"] == 3)
    let service = FakeService("Hello")
    _ = try makeApp(service).chat(#""max_tokens":9223372036854775807"#)
    #expect(service.requests[0].maxTokens == 400 - 21)
  }

  @Test func `ignored end tokens are counted but have no text`() throws {
    let service = FakeService { _, _ in Script(text: "ab", extraTokens: [Marker.end, Marker.end, Marker.end])
    }
    let answer = try makeApp(service).chat(#""ignore_eos":true,"max_tokens":4"#)
    #expect(answer.json["choices"]?[0]?["message"]?["content"] == "ab")
    #expect(answer.json["usage"]?["completion_tokens"] == 4)
    #expect(answer.json["choices"]?[0]?["finish_reason"] == "length")
  }

  @Test func `control tokens have no text`() throws {
    let answer = try makeApp(FakeService("a<|im_start|>b")).chat()
    #expect(answer.json["choices"]?[0]?["message"]?["content"] == "ab")
    #expect(answer.json["usage"]?["completion_tokens"] == 3)
  }

  @Test func `the assistant's last message can be continued`() throws {
    let service = FakeService(" of tea")
    let body =
      #"{"model":"m","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"A cup"}],"#
      + #""continue_final_message":true}"#
    let answer = try makeApp(service).send("POST", "/v1/chat/completions", body: body)
    #expect(answer.json["choices"]?[0]?["message"]?["content"] == " of tea")
    let prompt = tinyTokenizer.decode(service.requests[0].promptTokens, skipSpecialTokens: false)
    #expect(prompt == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\nA cup")
  }

  @Test func `several choices have their own seeds and share the prompt's count`() throws {
    let service = FakeService { _, index in Script(text: ["A", "BB", "CCC"][index % 3], cachedTokens: 4) }
    let answer = try makeApp(service).chat(#""n":3,"seed":10"#)
    #expect(
      answer.json["choices"]?.arrayValue?.compactMap { $0["message"]?["content"]?.stringValue } == [
        "A", "BB", "CCC",
      ])
    #expect(answer.json["choices"]?.arrayValue?.compactMap { $0["index"]?.intValue } == [0, 1, 2])
    #expect(answer.json["usage"]?["prompt_tokens"] == 21)
    #expect(answer.json["usage"]?["prompt_tokens_details"]?["cached_tokens"] == 4)
    #expect(answer.json["usage"]?["completion_tokens"] == 6)
    #expect(service.requests.map(\.sampling.seed) == [10, 11, 12])
  }

  @Test func `the first chunks of several choices come in order`() throws {
    let service = FakeService { _, index in
      index == 0 ? Script(text: "slow", delay: 0.1) : Script(text: "fast")
    }
    let events = try makeApp(service).chat(#""n":2,"stream":true"#).events
    let indices = events.dropLast().compactMap { event -> Int? in
      (try? JSONValue(parsing: event))?["choices"]?[0]?["index"]?.intValue
    }
    #expect(indices.prefix(2) == [0, 1])
    #expect(indices[2] == 1)
    #expect(events.filter { $0.contains("finish_reason\":\"stop") }.count == 2)
  }

  @Test func `log probabilities belong to the tokens of the content`() throws {
    let extra = #""logprobs":true,"top_logprobs":2"#
    let app = makeApp(FakeService(thinkingAnswer))
    let whole = try app.chat(extra).json["choices"]?[0]?["logprobs"]
    #expect(whole?["content"]?.arrayValue?.compactMap { $0["token"]?.stringValue } == ["Y", "e", "s", "."])
    #expect(
      whole?["content"]?[0]?.text
        == #"{"token":"Y","logprob":-0.5,"bytes":[89],"top_logprobs":[{"token":"Y","logprob":-0.5,"bytes":[89]},"#
        + #"{"token":"X","logprob":-1.0,"bytes":[88]}]}"#)
    #expect(whole?["refusal"] == .null)
    let chunks = try app.chat(extra + #","stream":true"#).events.dropLast().map { try JSONValue(parsing: $0) }
    for chunk in chunks {
      let choice = chunk["choices"]?[0]
      let tokens = choice?["logprobs"]?["content"]?.arrayValue?.compactMap { $0["token"]?.stringValue }
      #expect((tokens ?? []).joined() == choice?["delta"]?["content"]?.stringValue ?? "")
    }
  }

  @Test func `streamed and whole answers agree byte for byte`() throws {
    let texts = ["Hello", thinkingAnswer, "a😀 b\u{301}\n\n", "x < y <thin", "stop ENDE", "  spaced  "]
    for text in texts {
      let app = makeApp(FakeService(text))
      let extra = #""stop":["END"]"#
      let whole = try app.chat(extra).json
      let chunks = try app.chat(extra + #","stream":true,"stream_options":{"include_usage":true}"#).events
        .dropLast().map { try JSONValue(parsing: $0) }
      func joined(_ key: String) -> String {
        chunks.compactMap { $0["choices"]?[0]?["delta"]?[key]?.stringValue }.joined()
      }
      let message = whole["choices"]?[0]?["message"]
      #expect(Array(joined("content").utf8) == Array((message?["content"]?.stringValue ?? "").utf8))
      #expect(joined("reasoning_content") == message?["reasoning_content"]?.stringValue ?? "")
      #expect(chunks.last?["usage"] == whole["usage"])
    }
  }
}
