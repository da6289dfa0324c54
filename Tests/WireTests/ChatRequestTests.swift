// What a chat request may hold, field by field.

import JSON
import Sampling
import Support
import Testing
import Wire

struct ChatRequestTests {
  @Test func `a minimal request takes every default`() throws {
    let request = try chat(chatBody(""))
    #expect(request.messages == [["role": "user", "content": "hi"]])
    #expect(request.options == GenerationOptions())
    #expect(request.tools.isEmpty)
    #expect(request.allowsParallelCalls)
    #expect(request.topLogprobs == nil)
    #expect(request.thinking == nil)
    #expect(request.reasoningEffort == nil)
    #expect(request.showsReasoning)
    #expect(request.addsGenerationPrompt)
    #expect(!request.continuesFinalMessage)
    #expect(request.ignored == [])
  }

  @Test func `null is the same as absent for every optional field`() throws {
    let names = [
      "audio", "frequency_penalty", "presence_penalty", "function_call", "functions", "logit_bias",
      "logprobs",
      "top_logprobs", "max_completion_tokens", "max_tokens", "max_output_tokens", "metadata", "modalities",
      "moderation", "n", "parallel_tool_calls", "prediction", "prompt_cache_key", "prompt_cache_options",
      "prompt_cache_retention", "reasoning_effort", "response_format", "safety_identifier", "user", "seed",
      "service_tier", "stop", "store", "stream", "stream_options", "temperature", "top_p", "tools",
      "tool_choice",
      "verbosity", "web_search_options", "top_k", "min_p", "repetition_penalty", "ignore_eos", "min_tokens",
      "stop_token_ids", "chat_template_kwargs", "include_reasoning", "add_generation_prompt",
      "continue_final_message", "thinking", "nobody_knows_this",
    ]
    let request = try chat(chatBody(names.map { "\"\($0)\":null" }.joined(separator: ",")))
    #expect(request.options == GenerationOptions())
    #expect(request.ignored == [])
  }

  @Test func `sampling fields are read`() throws {
    let request = try chat(
      chatBody(
        #""temperature":0.5,"top_p":0.9,"top_k":40,"min_p":0.1,"repetition_penalty":1.1,"presence_penalty":-2,"#
          + #""frequency_penalty":2,"seed":-1,"logit_bias":{"7":-100,"999":1.5},"min_tokens":3,"ignore_eos":true,"#
          + #""stop":["a","b"],"stop_token_ids":[5,6],"n":2,"max_tokens":10"#))
    var expected = GenerationOptions()
    expected.sampling = [
      .temperature: 0.5, .topP: 0.9, .topK: 40, .minP: 0.1, .repetitionPenalty: 1.1, .presencePenalty: -2,
      .frequencyPenalty: 2,
    ]
    expected.seed = -1
    expected.logitBias = [7: -100, 999: 1.5]
    expected.minTokens = 3
    expected.ignoresEOS = true
    expected.stops = ["a", "b"]
    expected.stopTokens = [5, 6]
    expected.choices = 2
    expected.maxTokens = 10
    #expect(request.options == expected)
  }

  @Test func `the three names of the token limit are one, the newest wins`() throws {
    #expect(try chat(chatBody(#""max_tokens":5"#)).options.maxTokens == 5)
    #expect(try chat(chatBody(#""max_output_tokens":6"#)).options.maxTokens == 6)
    #expect(try chat(chatBody(#""max_tokens":5,"max_completion_tokens":7"#)).options.maxTokens == 7)
    #expect(try chat(chatBody(#""max_tokens":9223372036854775807"#)).options.maxTokens == .max)
  }

  @Test(arguments: [
    ("\"max_tokens\":0", "integer_below_min_value max_tokens"),
    ("\"max_tokens\":-5", "integer_below_min_value max_tokens"),
    ("\"max_tokens\":2.5", "invalid_type max_tokens"),
    ("\"max_tokens\":\"5\"", "invalid_type max_tokens"),
    ("\"max_tokens\":9223372036854775808", "integer_above_max_value max_tokens"),
    ("\"max_tokens\":-9223372036854775809", "integer_below_min_value max_tokens"),
    ("\"max_completion_tokens\":true", "invalid_type max_completion_tokens"),
    ("\"max_output_tokens\":0", "integer_below_min_value max_output_tokens"),
    ("\"temperature\":-0.1", "decimal_below_min_value temperature"),
    ("\"temperature\":2.1", "decimal_above_max_value temperature"),
    ("\"temperature\":\"hot\"", "invalid_type temperature"),
    ("\"top_p\":1.5", "decimal_above_max_value top_p"),
    ("\"presence_penalty\":3", "decimal_above_max_value presence_penalty"),
    ("\"frequency_penalty\":-3", "decimal_below_min_value frequency_penalty"),
    ("\"repetition_penalty\":0", "decimal_below_min_value repetition_penalty"),
    ("\"min_p\":-1", "decimal_below_min_value min_p"),
    ("\"top_k\":1.5", "invalid_type top_k"),
    ("\"top_k\":-2", "integer_below_min_value top_k"),
    ("\"n\":0", "integer_below_min_value n"),
    ("\"n\":129", "integer_above_max_value n"),
    ("\"n\":123456789012345678901234567890", "integer_above_max_value n"),
    ("\"seed\":9223372036854775808", "integer_above_max_value seed"),
    ("\"seed\":1.0", "invalid_type seed"),
    ("\"min_tokens\":5,\"max_tokens\":4", "invalid_value min_tokens"),
    ("\"logprobs\":1", "invalid_type logprobs"),
    ("\"top_logprobs\":3", "invalid_value top_logprobs"),
    ("\"logprobs\":true,\"top_logprobs\":21", "integer_above_max_value top_logprobs"),
    ("\"logit_bias\":{\"abc\":1}", "invalid_value logit_bias"),
    ("\"logit_bias\":{\"1000\":1}", "invalid_value logit_bias"),
    ("\"logit_bias\":{\"-1\":1}", "invalid_value logit_bias"),
    ("\"logit_bias\":{\"\u{663}\":1}", "invalid_value logit_bias"),
    ("\"logit_bias\":{\"1\":101}", "decimal_above_max_value logit_bias"),
    ("\"logit_bias\":[]", "invalid_type logit_bias"),
    ("\"stop\":\"\"", "invalid_value stop"),
    ("\"stop\":{}", "invalid_type stop"),
    ("\"stop\":[\"a\",1]", "invalid_type stop[1]"),
    ("\"stop_token_ids\":[1000]", "integer_above_max_value stop_token_ids[0]"),
    ("\"stream\":1", "invalid_type stream"),
    ("\"stream_options\":{\"include_usage\":true}", "invalid_value stream_options"),
    ("\"stream\":true,\"stream_options\":{\"include_usage\":1}", "invalid_type stream_options.include_usage"),
    ("\"user\":1", "invalid_type user"),
    ("\"metadata\":{\"a\":1}", "invalid_type metadata.a"),
    ("\"service_tier\":\"gold\"", "invalid_value service_tier"),
    ("\"verbosity\":\"loud\"", "invalid_value verbosity"),
    ("\"reasoning_effort\":\"banana\"", "invalid_value reasoning_effort"),
    ("\"thinking\":\"yes\"", "invalid_type thinking"),
    ("\"modalities\":[\"text\",\"audio\"]", "unsupported_value modalities"),
    ("\"web_search_options\":{}", "unsupported_parameter web_search_options"),
    ("\"functions\":[]", "unsupported_parameter functions"),
    ("\"function_call\":\"auto\"", "unsupported_parameter function_call"),
    ("\"moderation\":{}", "unsupported_parameter moderation"),
    ("\"chat_template\":\"x\"", "unsupported_parameter chat_template"),
    ("\"chat_template_kwargs\":{\"messages\":[]}", "invalid_value chat_template_kwargs.messages"),
    (
      "\"chat_template_kwargs\":{\"enable_thinking\":\"no\"}",
      "invalid_type chat_template_kwargs.enable_thinking"
    ),
    ("\"response_format\":\"json\"", "invalid_type response_format"),
    ("\"response_format\":{}", "missing_required_parameter response_format.type"),
    ("\"response_format\":{\"type\":\"sound\"}", "invalid_value response_format.type"),
    (
      "\"response_format\":{\"type\":\"json_schema\"}",
      "missing_required_parameter response_format.json_schema"
    ),
    (
      "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"x\"}}",
      "missing_required_parameter response_format.json_schema.schema"
    ),
    (
      "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"schema\":[]}}",
      "invalid_type response_format.json_schema.schema"
    ),
    ("\"response_format\":{\"type\":\"json_object\",\"schema\":1}", "invalid_type response_format.schema"),
    ("\"guided_json\":7", "invalid_type guided_json"),
    ("\"guided_json\":\"{\"", "invalid_value guided_json"),
    ("\"guided_regex\":\"\"", "invalid_value guided_regex"),
    ("\"guided_regex\":{}", "invalid_type guided_regex"),
    ("\"guided_choice\":[]", "invalid_value guided_choice"),
    ("\"guided_choice\":[1]", "invalid_type guided_choice[0]"),
    ("\"guided_choice\":[\"a\",\"\"]", "invalid_value guided_choice[1]"),
    ("\"guided_regex\":\"a\",\"guided_choice\":[\"a\"]", "invalid_value guided_choice"),
    (
      "\"response_format\":{\"type\":\"json_object\"},\"grammar\":\"root ::= \\\"a\\\"\"",
      "invalid_value grammar"
    ),
    ("\"guided_whitespace_pattern\":\" \"", "unsupported_parameter guided_whitespace_pattern"),
    ("\"grammar_lazy\":true", "unsupported_parameter grammar_lazy"),
    (
      "\"structured_outputs\":{\"structural_tag\":\"x\"}",
      "invalid_value structured_outputs.structural_tag"
    ),
    ("\"structured_outputs\":{\"regex\":1}", "invalid_type structured_outputs.regex"),
    ("\"prediction\":\"x\"", "invalid_type prediction"),
    ("\"prediction\":{\"type\":\"edit\"}", "invalid_value prediction.type"),
    ("\"prediction\":{\"type\":\"content\",\"content\":1}", "invalid_type prediction.content"),
    (
      "\"prediction\":{\"type\":\"content\",\"content\":[{\"type\":\"text\"}]}",
      "missing_required_parameter prediction.content[0].text"
    ),
    ("\"thinking_budget\":-1", "integer_below_min_value thinking_budget"),
    ("\"thinking_budget\":\"1\"", "invalid_type thinking_budget"),
    ("\"thinking\":{\"budget_tokens\":1.5}", "invalid_type thinking.budget_tokens"),
    ("\"reasoning\":{\"max_tokens\":-1}", "integer_below_min_value reasoning.max_tokens"),
    ("\"reasoning\":{\"effort\":\"banana\"}", "invalid_value reasoning.effort"),
    ("\"reasoning\":7", "invalid_type reasoning"),
    (
      "\"chat_template_kwargs\":{\"thinking_budget\":\"x\"}",
      "invalid_type chat_template_kwargs.thinking_budget"
    ),
    ("\"continue_final_message\":true", "invalid_value continue_final_message"),
  ])
  func `a bad value names its field`(extra: String, expected: String) {
    #expect(chatRefusal(extra) == expected)
  }

  @Test(arguments: [
    "\"stop\":null", "\"stop\":[]", "\"stop\":[\"1\",\"2\",\"3\",\"4\",\"5\",\"6\"]", "\"top_k\":-1",
    "\"top_p\":0", "\"temperature\":0", "\"temperature\":-0.0", "\"temperature\":1e-400",
    "\"top_logprobs\":0",
    "\"metadata\":{\"a\":\"b\"},\"user\":\"u\",\"safety_identifier\":\"s\",\"prompt_cache_key\":\"k\"",
    "\"service_tier\":\"auto\",\"store\":true,\"verbosity\":\"low\",\"prediction\":{\"type\":\"content\"}",
    "\"modalities\":[\"text\"]", "\"response_format\":{\"type\":\"text\"}", "\"audio\":{}",
    "\"stream\":true,\"stream_options\":{\"include_obfuscation\":false}",
  ])
  func `values at the edge are accepted`(extra: String) {
    #expect(chatRefusal(extra) == "accepted")
  }

  @Test func `unknown fields are accepted and collected in order`() throws {
    let request = try chat(chatBody(#""zeta":1,"alpha":{"x":[]},"temperature\u0301":9,"gone":null"#))
    #expect(request.ignored == ["zeta", "alpha", "temperature\u{301}"])
  }

  @Test func `model must be a string with text`() {
    let messages = #""messages":[{"role":"user","content":"x"}]"#
    #expect(refusal { try chat("{\(messages)}") } == "missing_required_parameter model")
    #expect(refusal { try chat("{\(messages),\"model\":null}") } == "missing_required_parameter model")
    #expect(refusal { try chat("{\(messages),\"model\":\"\"}") } == "invalid_value model")
    #expect(refusal { try chat("{\(messages),\"model\":1}") } == "invalid_type model")
  }

  @Test(arguments: ["[]", "\"x\"", "42", "null"])
  func `a body that is no object is a wrong type without a name`(body: String) {
    #expect(refusal { try chat(body) } == "invalid_type null")
  }

  @Test(
    arguments: [
      (#""thinking":false"#, false, nil), (#""thinking":true"#, true, nil),
      (#""thinking":{"type":"disabled"}"#, false, nil),
      (#""reasoning_effort":"none""#, false, nil), (#""reasoning_effort":"low""#, true, "low"),
      (#""chat_template_kwargs":{"enable_thinking":false}"#, false, nil),
      (#""chat_template_kwargs":{"enable_thinking":false},"reasoning_effort":"high""#, true, "high"),
      (#""thinking":false,"reasoning_effort":"high""#, false, nil),
      (#""reasoning":{"effort":"low"}"#, true, "low"), (#""reasoning":{"enabled":false}"#, false, nil),
      (#""reasoning":{"effort":"low"},"reasoning_effort":"none""#, false, nil),
      (#""thinking_budget":0"#, false, nil), (#""thinking_budget":9"#, true, nil),
      (#""thinking_budget":9,"thinking":false"#, false, nil),
    ] as [(String, Bool, String?)])
  func `the fields that switch thinking have a fixed order`(extra: String, thinking: Bool, effort: String?)
    throws
  {
    let request = try chat(chatBody(extra))
    #expect(request.thinking == thinking)
    #expect(request.reasoningEffort == effort)
  }

  @Test(arguments: [
    (#""thinking_budget":5,"reasoning":{"max_tokens":6}"#, 5, "thinking_budget"),
    (#""thinking_token_budget":5"#, 5, "thinking_token_budget"),
    (#""thinking_budget_tokens":5"#, 5, "thinking_budget_tokens"),
    (#""thinking_budget_tokens":-1,"reasoning_budget_tokens":7"#, 7, "reasoning_budget_tokens"),
    (#""reasoning_budget_tokens":5,"thinking_budget":6"#, 6, "thinking_budget"),
    (#""reasoning":{"max_tokens":6}"#, 6, "reasoning.max_tokens"),
    (
      #""thinking":{"type":"enabled","budget_tokens":7},"reasoning":{"max_tokens":6}"#, 7,
      "thinking.budget_tokens"
    ),
    (#""chat_template_kwargs":{"thinking_budget":8}"#, 8, "chat_template_kwargs.thinking_budget"),
  ])
  func `a thinking budget has four names`(extra: String, tokens: Int, field: String) throws {
    #expect(try chat(chatBody(extra)).thinkingBudget == ThinkingBudget(tokens: tokens, field: field))
  }

  @Test(arguments: ["thinking_budget_tokens", "reasoning_budget_tokens"])
  func `-1 is no budget under llama-server's names`(name: String) throws {
    let request = try chat(chatBody("\"\(name)\":-1"))
    #expect(request.thinkingBudget == nil && request.thinking == nil)
    #expect(chatRefusal("\"\(name)\":-2") == "integer_below_min_value \(name)")
  }

  @Test func `reasoning can be hidden in two ways, and its unknown members are named`() throws {
    #expect(try !chat(chatBody(#""include_reasoning":false"#)).showsReasoning)
    #expect(try !chat(chatBody(#""reasoning":{"exclude":true}"#)).showsReasoning)
    let request = try chat(chatBody(#""reasoning":{"summary":"auto","depth":3},"odd":1"#))
    #expect(request.showsReasoning)
    #expect(request.ignored == ["odd", "reasoning.depth"])
  }

  @Test(
    arguments: [
      (#""response_format":{"type":"json_object"}"#, .anyObject, "response_format"),
      (
        #""response_format":{"type":"json_object","schema":{"type":"object"}}"#, .schema(["type": "object"]),
        "response_format.schema"
      ),
      (
        #""response_format":{"type":"json_schema","json_schema":{"name":"x","strict":false,"schema":{}}}"#,
        .schema([:]), "response_format.json_schema.schema"
      ),
      (#""guided_json":{"type":"null"}"#, .schema(["type": "null"]), "guided_json"),
      (#""guided_json":"{\"type\":\"null\"}""#, .schema(["type": "null"]), "guided_json"),
      (#""json_schema":{"type":"null"}"#, .schema(["type": "null"]), "json_schema"),
      (#""guided_regex":"a+""#, .regex("a+"), "guided_regex"),
      (#""guided_choice":["a","b"]"#, .choice(["a", "b"]), "guided_choice"),
      (#""guided_grammar":"root ::= x""#, .grammar("root ::= x"), "guided_grammar"),
      (#""grammar":"root ::= x""#, .grammar("root ::= x"), "grammar"),
      (#""structured_outputs":{"json":true}"#, .schema(true), "structured_outputs.json"),
      (#""structured_outputs":{"regex":"a"}"#, .regex("a"), "structured_outputs.regex"),
      (#""structured_outputs":{"choice":["a"]}"#, .choice(["a"]), "structured_outputs.choice"),
      (#""structured_outputs":{"grammar":"g"}"#, .grammar("g"), "structured_outputs.grammar"),
      (#""regex":"a""#, .regex("a"), "regex"), (#""ebnf":"g""#, .grammar("g"), "ebnf"),
      (#""structural_tag":{"format":{}}"#, .structuralTag(["format": [:]]), "structural_tag"),
      (
        #""structured_outputs":{"structural_tag":"{\"triggers\":[]}"}"#,
        .structuralTag(["triggers": []]), "structured_outputs.structural_tag"
      ),
      (#""structured_outputs":{"json_object":true}"#, .anyObject, "structured_outputs.json_object"),
    ] as [(String, ResponseFormat.Form, String)])
  func `a format has many names`(extra: String, form: ResponseFormat.Form, param: String) throws {
    #expect(try chat(chatBody(extra)).format == ResponseFormat(form, param: param))
  }

  @Test(
    arguments: [
      (#""guided_json":{"type":"null"},"structured_outputs":{"json":"{\"type\": \"null\"}"}"#, "guided_json"),
      (
        #""response_format":{"type":"json_object"},"structured_outputs":{"json_object":true}"#,
        "response_format"
      ),
      (#""guided_choice":["a","b"],"structured_outputs":{"choice":["a","b"]}"#, "guided_choice"),
      (#""guided_regex":"a","regex":"a","structured_outputs":{"regex":"a"}"#, "guided_regex"),
    ])
  func `the same under several names is one format`(extra: String, param: String) throws {
    #expect(try chat(chatBody(extra)).format?.param == param)
    let strict =
      #""guided_json":{},"response_format":{"type":"json_schema","json_schema":{"name":"x","strict":true,"schema":{}}}"#
    #expect(try chat(chatBody(strict)).format?.isStrict == true)
  }

  @Test(arguments: [
    (#""guided_json":{"type":"null"},"json_schema":{"type":"string"}"#, "json_schema"),
    (#""guided_choice":["a","b"],"structured_outputs":{"choice":["b","a"]}"#, "structured_outputs.choice"),
    ("\"regex\":\"e\u{301}\",\"guided_regex\":\"\u{E9}\"", "regex"),
    (#""regex":"a","guided_regex":"a","ebnf":"a""#, "ebnf"),
  ])
  func `what is not the same is refused`(extra: String, param: String) {
    #expect(chatRefusal(extra) == "invalid_value \(param)")
  }

  @Test func `a prediction is text or parts`() throws {
    func prediction(_ content: String) throws -> String? {
      try chat(chatBody(#""prediction":{"type":"content","content":\#(content)}"#)).prediction
    }
    #expect(try prediction(#""abc""#) == "abc")
    #expect(try prediction(#"[{"type":"text","text":"a"},{"type":"text","text":"b"}]"#) == "ab")
  }

  @Test func `mutated bodies are refused or accepted, never a trap`() throws {
    let body =
      chatBody(
        #""temperature":0.5,"stop":["a"],"logit_bias":{"1":2},"tools":[{"type":"function","function":"#
          + #"{"name":"f","parameters":{"type":"object","properties":{"a":{"pattern":"(a|b)+"}}}}}],"seed":7"#
      )
    var random = SeededGenerator(seed: 41)
    for _ in 0..<5_000 {
      let bytes = mutated(Array(body.utf8), using: &random)
      guard let value = try? JSONValue(parsing: bytes) else { continue }
      do {
        _ = try ChatRequest(value, limits: RequestLimits(), vocabularySize: 1000)
      } catch {
        #expect(error.status == 400)
      }
    }
  }
}
