// What a legacy completions request may hold.

import Testing
import Wire

private func completionRefusal(_ members: String) -> String {
  refusal { try completion("{\"model\":\"m\",\(members)}") }
}

struct CompletionRequestTests {
  @Test(
    arguments: [
      (#""x""#, [.text("x")]), (#"["a","b"]"#, [.text("a"), .text("b")]), ("[1,2,3]", [.tokens([1, 2, 3])]),
      ("[[1,2],[3]]", [.tokens([1, 2]), .tokens([3])]),
    ] as [(String, [TextInput])])
  func `a prompt has four forms`(json: String, expected: [TextInput]) throws {
    #expect(try completion(#"{"model":"m","prompt":\#(json)}"#).prompts == expected)
  }

  @Test func `the default limit is sixteen tokens and zero is allowed`() throws {
    #expect(try completion(#"{"model":"m","prompt":"x"}"#).options.maxTokens == 16)
    #expect(try completion(#"{"model":"m","prompt":"x","max_tokens":0}"#).options.maxTokens == 0)
  }

  @Test(arguments: [
    ("\"x\":1", "missing_required_parameter prompt"),
    ("\"prompt\":null", "missing_required_parameter prompt"),
    ("\"prompt\":[]", "invalid_value prompt"),
    ("\"prompt\":{}", "invalid_type prompt"),
    ("\"prompt\":[[]]", "invalid_value prompt[0]"),
    ("\"prompt\":[\"a\",1]", "invalid_type prompt[1]"),
    ("\"prompt\":[1,\"a\"]", "invalid_type prompt[1]"),
    ("\"prompt\":[1000]", "integer_above_max_value prompt[0]"),
    ("\"prompt\":[-1]", "integer_below_min_value prompt[0]"),
    ("\"prompt\":[[1],[123456789012345678901234567890]]", "integer_above_max_value prompt[1][0]"),
    ("\"prompt\":\"x\",\"logprobs\":6", "integer_above_max_value logprobs"),
    ("\"prompt\":\"x\",\"logprobs\":true", "invalid_type logprobs"),
    ("\"prompt\":\"x\",\"echo\":1", "invalid_type echo"),
    ("\"prompt\":\"x\",\"tools\":[]", "unsupported_parameter tools"),
    ("\"prompt\":\"x\",\"top_logprobs\":2", "unsupported_parameter top_logprobs"),
    ("\"prompt\":\"x\",\"best_of\":2", "unsupported_value best_of"),
    ("\"prompt\":\"x\",\"max_tokens\":-1", "integer_below_min_value max_tokens"),
    ("\"prompt\":\"x\",\"response_format\":{\"type\":\"sound\"}", "invalid_value response_format.type"),
    (
      "\"prompt\":[\"a\",\"b\",\"c\",\"d\",\"e\",\"f\",\"g\",\"h\",\"i\"],\"n\":128",
      "integer_above_max_value n"
    ),
  ])
  func `a bad value names its field`(members: String, expected: String) {
    #expect(completionRefusal(members) == expected)
  }

  @Test func `the text can be constrained`() throws {
    let request = try completion(#"{"model":"m","prompt":"x","guided_choice":["a"]}"#)
    #expect(request.format == ResponseFormat(.choice(["a"]), param: "guided_choice"))
  }

  @Test func `echo, log probabilities and best_of equal to n are read`() throws {
    let request = try completion(
      #"{"model":"m","prompt":"x","echo":true,"logprobs":5,"n":2,"best_of":2,"suffix":null,"odd":1}"#)
    #expect(request.echoes)
    #expect(request.logprobs == 5)
    #expect(request.options.choices == 2)
    #expect(request.ignored == ["odd"])
    #expect(try completion(#"{"model":"m","prompt":"x","suffix":""}"#).ignored == [])
  }
}
