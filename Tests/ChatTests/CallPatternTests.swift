// Calls as patterns: what a constrained model may write is what the parser reads, in every syntax.

import Chat
import Grammar
import JSON
import Testing
import Tokenizers

private let markers = [
  "<end>", "<tool_call>", "</tool_call>", "<|tool_call>", "<tool_call|>", "<|\"|>", "<|tool_call|>",
  "<|/tool_call|>", "[TOOL_CALLS]", "[CALL_ID]", "[ARGS]",
]

/// Ids 0 to 255 are bytes, the markers follow.
private let tokenizer: Tokenizer? = {
  var vocabulary = JSONObject()
  var next: UInt32 = 256
  for byte in 0..<256 as Range<UInt32> {
    let isPrintable = (33...126).contains(byte) || (161...172).contains(byte) || (174...255).contains(byte)
    let value = isPrintable ? byte : next
    if !isPrintable { next += 1 }
    guard let scalar = Unicode.Scalar(value) else { continue }
    vocabulary[String(Character(scalar))] = .int(Int(byte))
  }
  let added = markers.enumerated().map { index, name -> JSONValue in
    [
      "id": .int(256 + index), "content": .string(name), "single_word": false, "lstrip": false,
      "rstrip": false,
      "normalized": false, "special": true,
    ]
  }
  let byteLevel: JSONValue = [
    "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false,
  ]
  let file: JSONValue = [
    "version": "1.0", "added_tokens": .array(added), "pre_tokenizer": byteLevel, "decoder": byteLevel,
    "model": ["type": "BPE", "vocab": .object(vocabulary), "merges": []],
  ]
  return try? Tokenizer(tokenizerJSON: file.bytes)
}()

private struct Family: Sendable, CustomTestStringConvertible {
  let testDescription: String
  let source: String
  /// The call `f {"a": "x", "n": 1}`, two calls, and a call whose `n` is no integer.
  let one: String
  let two: String
  let bad: String

  static let all = [
    Family(
      testDescription: "qwen", source: "<tool_call>",
      one: "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"x\", \"n\": 1}}\n</tool_call>",
      two:
        "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"x\", \"n\": 1}}\n</tool_call>\n<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>",
      bad: "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"x\", \"n\": \"1\"}}\n</tool_call>"),
    Family(
      testDescription: "llama", source: "<|python_tag|>",
      one: #"{"name": "f", "parameters": {"a": "x", "n": 1}}"#,
      two: #"{"name": "f", "parameters": {"a": "x", "n": 1}}; {"name": "g", "parameters": {}}"#,
      bad: #"{"name": "f", "parameters": {"a": "x", "n": "1"}}"#),
    Family(
      testDescription: "phi", source: "<|tool_call|>",
      one: #"<|tool_call|>[{"name": "f", "arguments": {"a": "x", "n": 1}}]<|/tool_call|>"#,
      two:
        #"<|tool_call|>[{"name": "f", "arguments": {"a": "x", "n": 1}}, {"name": "g", "arguments": {}}]<|/tool_call|>"#,
      bad: #"<|tool_call|>[{"name": "f", "arguments": {"a": "x", "n": "1"}}]<|/tool_call|>"#),
    Family(
      testDescription: "mistral", source: "[TOOL_CALLS]",
      one: #"[TOOL_CALLS] [{"name": "f", "arguments": {"a": "x", "n": 1}}]"#,
      two: #"[TOOL_CALLS] [{"name": "f", "arguments": {"a": "x", "n": 1}}, {"name": "g", "arguments": {}}]"#,
      bad: #"[TOOL_CALLS] [{"name": "f", "arguments": {"a": "x", "n": "1"}}]"#),
    Family(
      testDescription: "mistral with [ARGS]", source: "[TOOL_CALLS][ARGS]",
      one: #"[TOOL_CALLS]f[ARGS]{"a": "x", "n": 1}"#,
      two: #"[TOOL_CALLS]f[ARGS]{"a": "x", "n": 1}[TOOL_CALLS]g[ARGS]{}"#,
      bad: #"[TOOL_CALLS]f[ARGS]{"a": "x", "n": "1"}"#),
    Family(
      testDescription: "mistral with [CALL_ID]", source: "[TOOL_CALLS][CALL_ID][ARGS]",
      one: #"[TOOL_CALLS]f[CALL_ID]abc123xyz[ARGS]{"a": "x", "n": 1}"#,
      two: #"[TOOL_CALLS]f[CALL_ID]abc123xyz[ARGS]{"a": "x", "n": 1}[TOOL_CALLS]g[CALL_ID]000000000[ARGS]{}"#,
      bad: #"[TOOL_CALLS]f[CALL_ID]abc123xyz[ARGS]{"a": "x", "n": "1"}"#),
    Family(
      testDescription: "gemma", source: "<|tool_call><tool_call|>",
      one: "<|tool_call>call:f{a:<|\"|>x<|\"|>,n:1}<tool_call|>",
      two: "<|tool_call>call:f{a:<|\"|>x<|\"|>,n:1}<tool_call|><|tool_call>call:g{}<tool_call|>",
      bad: "<|tool_call>call:f{a:<|\"|>x<|\"|>,n:<|\"|>1<|\"|>}<tool_call|>"),
    Family(
      testDescription: "python", source: "<|tool_call_start|>",
      one: #"<|tool_call_start|>[f(a="x", n=1)]<|tool_call_end|>"#,
      two: #"<|tool_call_start|>[f(a="x", n=1), g()]<|tool_call_end|>"#,
      bad: #"<|tool_call_start|>[f(a="x", n="1")]<|tool_call_end|>"#),
    Family(
      testDescription: "xml", source: "<tool_call><function=",
      one:
        "<tool_call>\n<function=f>\n<parameter=a>\nx\n</parameter>\n<parameter=n>\n1\n</parameter>\n</function>\n</tool_call>",
      two:
        "<tool_call>\n<function=f>\n<parameter=a>\nx\n</parameter>\n<parameter=n>\n1\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=g>\n</function>\n</tool_call>",
      bad: "<tool_call>\n<function=f>\n<parameter=a>\nx\n</parameter>\n<parameter=n>\none\n</parameter>\n"),
    Family(
      testDescription: "seed", source: "<seed:tool_call><function=",
      one:
        "<seed:tool_call>\n<function=f>\n<parameter=a>x</parameter>\n<parameter=n>1</parameter>\n</function>\n</seed:tool_call>",
      two:
        "<seed:tool_call>\n<function=f>\n<parameter=a>x</parameter>\n<parameter=n>1</parameter>\n</function>\n</seed:tool_call>\n<seed:tool_call>\n<function=g>\n</function>\n</seed:tool_call>",
      bad: "<seed:tool_call>\n<function=f>\n<parameter=a>x</parameter>\n<parameter=n>one</parameter>\n"),
    Family(
      testDescription: "glm with line breaks", source: "<tool_call>{f}\n<arg_key>k</arg_key>",
      one:
        "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>x</arg_value>\n<arg_key>n</arg_key>\n<arg_value>1</arg_value>\n</tool_call>",
      two:
        "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>x</arg_value>\n<arg_key>n</arg_key>\n<arg_value>1</arg_value>\n</tool_call>\n<tool_call>g\n</tool_call>",
      bad:
        "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>x</arg_value>\n<arg_key>n</arg_key>\n<arg_value>one</arg_value>\n</tool_call>"
    ),
    Family(
      testDescription: "glm", source: "<tool_call>{f}<arg_key>k</arg_key>",
      one:
        "<tool_call>f<arg_key>a</arg_key><arg_value>x</arg_value><arg_key>n</arg_key><arg_value>1</arg_value></tool_call>",
      two:
        "<tool_call>f<arg_key>a</arg_key><arg_value>x</arg_value><arg_key>n</arg_key><arg_value>1</arg_value></tool_call><tool_call>g</tool_call>",
      bad: "<tool_call>f<arg_key>a</arg_key><arg_value>x</arg_value></tool_call>"),
    Family(
      testDescription: "minimax", source: "<minimax:tool_call>",
      one:
        "<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"a\">x</parameter>\n<parameter name=\"n\">1</parameter>\n</invoke>\n</minimax:tool_call>",
      two:
        "<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"a\">x</parameter>\n<parameter name=\"n\">1</parameter>\n</invoke>\n<invoke name=\"g\">\n</invoke>\n</minimax:tool_call>",
      bad: "<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"n\">1</parameter>\n"),
    Family(
      testDescription: "dsml", source: "<｜DSML｜function_calls>",
      one:
        "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"a\" string=\"true\">x</｜DSML｜parameter>\n<｜DSML｜parameter name=\"n\" string=\"false\">1</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
      two:
        "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"a\" string=\"true\">x</｜DSML｜parameter>\n<｜DSML｜parameter name=\"n\" string=\"false\">1</｜DSML｜parameter>\n</｜DSML｜invoke>\n<｜DSML｜invoke name=\"g\">\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
      bad: "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"f\">\n</｜DSML｜invoke>\n"),
    Family(
      testDescription: "kimi", source: "<|tool_calls_section_begin|>",
      one:
        #"<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"a": "x", "n": 1}<|tool_call_end|><|tool_calls_section_end|>"#,
      two:
        #"<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"a": "x", "n": 1}<|tool_call_end|><|tool_call_begin|>functions.g:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>"#,
      bad:
        #"<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"a": "x"}<|tool_call_end|><|tool_calls_section_end|>"#
    ),
    Family(
      testDescription: "deepseek", source: "<｜tool▁calls▁begin｜> ```json",
      one:
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\": \"x\", \"n\": 1}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
      two:
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\": \"x\", \"n\": 1}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
      bad:
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
    ),
    Family(
      testDescription: "deepseek 3.1", source: "<｜tool▁calls▁begin｜>",
      one:
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\": \"x\", \"n\": 1}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
      two:
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\": \"x\", \"n\": 1}<｜tool▁call▁end｜><｜tool▁call▁begin｜>g<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
      bad:
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"),
    Family(
      testDescription: "command", source: "<|START_ACTION|>",
      one:
        #"<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "f", "parameters": {"a": "x", "n": 1}}]<|END_ACTION|>"#,
      two:
        #"<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "f", "parameters": {"a": "x", "n": 1}}, {"tool_call_id": "1", "tool_name": "g", "parameters": {}}]<|END_ACTION|>"#,
      bad: #"<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "f", "parameters": {}}]<|END_ACTION|>"#),
  ]
}

private let schema: JSONValue = [
  "type": "object", "properties": ["a": ["type": "string"], "n": ["type": "integer"]],
  "required": ["a", "n"],
  "additionalProperties": false,
]
private let tools = [
  CallableTool(name: "f", arguments: .schema(schema)), CallableTool(name: "g", arguments: .none),
]

/// Whether a model held to the rules can say all of a text and end there.
private func allows(_ text: String, _ source: String, _ rules: CallRules) throws -> Bool {
  let tokenizer = try #require(tokenizer)
  let pattern = try OutputFormat(templateSource: source).pattern(for: rules, tokenizer: tokenizer)
  let vocabulary = GrammarVocabulary(tokenizer: tokenizer, endTokens: [256])
  var matcher = GrammarMatcher(try CompiledGrammar(pattern, vocabulary: vocabulary))
  for token in tokenizer.encode(text, addSpecialTokens: false) {
    let isAllowed = matcher.allowed(remaining: 1000).contains(token)
    guard matcher.accept(token), isAllowed else { return false }
  }
  return matcher.canEnd
}

/// The names and arguments that the parser finds.
private func parsed(_ text: String, _ source: String) -> [String] {
  let format = OutputFormat(templateSource: source)
  let described: [JSONValue] = [
    ["type": "function", "function": ["name": "f", "parameters": schema]],
    ["type": "function", "function": ["name": "g"]],
  ]
  var parser = format.makeParser(promptTail: "", tools: described)
  var calls: [String] = []
  for event in parser.feed(text) + parser.finish() {
    switch event {
    case .callBegan(let name): calls.append(name + " ")
    case .callArguments(let text): calls[calls.count - 1] += text.filter { $0 != " " }
    case .callEnded: break
    default: calls.append("\(event)")
    }
  }
  return calls
}

/// What ends a call or a part of it in some syntax, and what could be read as another value.
let nastyTexts = [
  "</parameter>", "\n</function>", "</function>", "\n</function>\n</tool_call>", "<parameter=b>",
  "\n<parameter=b>\n",
  "</tool_call>", "<tool_call>", "</seed:tool_call>", "<|tool_call_end|>",
  "<|tool_call>call:f{}<tool_call|>",
  "<|\"|>", "<|\"|>}<tool_call|>", "</arg_value>", "<arg_key>", "null", "12", "true", "{\"a\": 1}", "[1]",
  " x ", "\nx\n",
  "\"x\"", "\\", "\\\"", "</invoke>", "</minimax:tool_call>", "</｜DSML｜parameter>",
  "</｜DSML｜function_calls>",
  "<｜tool▁call▁end｜>", "```<｜tool▁call▁end｜>", "```", "\"\n```", "<|tool_calls_section_end|>",
  "<|END_ACTION|>",
  "\"}]<|/tool_call|>",
  "[TOOL_CALLS]", "; {\"name\": \"g\", \"parameters\": {}}", "</", "<b>",
  "</param>", "<param name=\"b\">", "<|suffix|>", "<|function_call|>", "<|call:end|>", "<|calls|>",
  "</function_calls>",
  "\ng()", ">>>g\n{}", "</calls>", "<|eom|>", "]", ")", "'", "\u{301}\"", "<|end|>", "<|call|>", "<|start|>",
]

/// Those that every syntax can hold.
let harmlessTexts = ["null", "12", "true", "{\"a\": 1}", "[1]", "\"x\"", "\\\"", "</", "<b>", " x ", "\nx\n"]

/// A call whose text `x` is another one, and what stands around it.
func withText(_ text: String, in call: String) -> (start: String, value: String, end: String)? {
  let around = [("|>", "<"), (">\n", "\n<"), (">", "<")].first { call.contains($0.0 + "x" + $0.1) }
  let (before, after) = around ?? ("", "")
  guard let place = call.firstRange(of: before + (around == nil ? "\"x\"" : "x") + after) else { return nil }
  return (
    call[..<place.lowerBound] + before, around == nil ? JSONValue.string(text).text : text,
    after + call[place.upperBound...]
  )
}

/// What is wrong with a call that is cut after any of its characters: before its arguments have begun it is content; then it
/// comes once, without its end, and its arguments are the beginning of the whole ones.
func cutProblems(_ call: String, _ arguments: String, _ makeParser: () -> OutputParser) -> [String] {
  var problems: [String] = []
  var hasBegun = false
  for count in 1...call.count {
    let text = String(call.prefix(count))
    var parser = makeParser()
    var (begun, ended, came, content) = (0, 0, "", "")
    for event in parser.feed(text) + parser.finish(isCut: true) {
      switch event {
      case .callBegan("f"): begun += 1
      case .callArguments(let text): came += text.filter { $0 != " " }
      case .callEnded: ended += 1
      case .content(let text), .callFailed(0, let text): content += text
      // What has been told is kept.
      case .callFailed: break
      default: problems.append("\(text): \(event)")
      }
    }
    if begun == 0 {
      // Headers of messages have no text.
      let shown =
        text.hasPrefix(" to=")
        ? String(text.split(separator: "<|message|>", maxSplits: 1).dropFirst().joined()) : text
      if hasBegun || ended > 0 || content != shown { problems.append("\(text) is content: \(content)") }
    } else if begun > 1 || !content.isEmpty || !arguments.hasPrefix(came) || ended > 0 && came != arguments {
      problems.append("\(text) has \(begun) calls with \(came), \(ended) ends, and \(content)")
    }
    hasBegun = hasBegun || begun > 0
  }
  return hasBegun ? problems : problems + ["nothing has begun"]
}

struct CallPatternTests {
  private func rules(forced: Bool = true, max: Int? = nil, content: Pattern? = nil) -> CallRules {
    CallRules(tools: tools, isForced: forced, maxCalls: max, content: content)
  }

  @Test(arguments: Family.all)
  private func `forced calls are written as the model writes them and read back`(family: Family) throws {
    #expect(try allows(family.one, family.source, rules()))
    #expect(try allows(family.two, family.source, rules()))
    #expect(try !allows(family.bad, family.source, rules()))
    #expect(try !allows("Hello", family.source, rules()))
    #expect(try !allows("", family.source, rules()))
    #expect(parsed(family.one, family.source) == [#"f {"a":"x","n":1}"#])
    #expect(parsed(family.two, family.source) == [#"f {"a":"x","n":1}"#, "g {}"])
  }

  @Test(arguments: Family.all)
  private func `one call only`(family: Family) throws {
    #expect(try allows(family.one, family.source, rules(max: 1)))
    #expect(try !allows(family.two, family.source, rules(max: 1)))
  }

  @Test(arguments: Family.all)
  private func `a free answer is text, and whatever begins a call is one`(family: Family) throws {
    #expect(try allows("Hello, {you}!", family.source, rules(forced: false)))
    #expect(try allows("", family.source, rules(forced: false)))
    #expect(try allows(family.one, family.source, rules(forced: false)))
    #expect(try !allows(family.bad, family.source, rules(forced: false)))
    guard family.testDescription != "llama" else { return }
    #expect(try allows("Well. " + family.two, family.source, rules(forced: false)))
  }

  @Test(arguments: Family.all)
  private func `content with a form of its own excludes calls`(family: Family) throws {
    let rules = rules(forced: false, content: .literal("yes"))
    #expect(try allows("yes", family.source, rules))
    #expect(try allows(family.one, family.source, rules))
    #expect(try !allows("no", family.source, rules))
    #expect(try !allows("yes" + family.one, family.source, rules))
  }

  @Test(arguments: Family.all)
  private func `arguments without a schema are any object`(family: Family) throws {
    var rules = rules()
    rules.tools = ["f", "g"].map { CallableTool(name: $0, arguments: .anyObject) }
    #expect(try allows(family.one, family.source, rules))
    #expect(try allows(family.two, family.source, rules))
  }

  @Test(arguments: Family.all)
  private func `a name of 128 characters is one in every syntax`(family: Family) throws {
    let name = String(repeating: "long_name-", count: 12) + "_of-128_"
    #expect(name.utf8.count == 128)
    let tokenizer = try #require(tokenizer)
    let format = OutputFormat(templateSource: family.source)
    let pattern = try format.pattern(of: CallableTool(name: name, arguments: .none), tokenizer: tokenizer)
    let grammar = try CompiledGrammar(
      pattern, vocabulary: GrammarVocabulary(tokenizer: tokenizer, endTokens: [256]))
    // What a model writes that takes the first token of those that are allowed, again and again.
    var matcher = GrammarMatcher(grammar)
    var written: [Int32] = []
    while !matcher.canEnd, written.count < 1_000 {
      let allowed = matcher.allowed(remaining: 2_000)
      let token = (0..<Int32(256 + markers.count)).first { $0 != 256 && allowed.contains($0) }
      guard let token, matcher.accept(token) else { break }
      written.append(token)
    }
    let text = tokenizer.decode(written, skipSpecialTokens: false)
    var parser = format.makeParser(
      promptTail: "", tools: [["type": "function", "function": ["name": .string(name)]]])
    #expect((parser.feed(text) + parser.finish()).contains(.callBegan(name: name)), "\(text)")
  }

  @Test(arguments: Family.all)
  private func `an argument that is a text of a grammar is enforced in every syntax`(family: Family) throws {
    var rules = rules(max: 1)
    rules.tools = [
      CallableTool(name: "f", arguments: .text(name: "a", .lark("start: \"x\" | \"y\\n\"")))
    ]
    // The call without its second argument, in whatever way that is written.
    var one = family.one
    for part in [
      ", \"n\": 1", ",n:1", ", n=1", "<parameter=n>\n1\n</parameter>\n", "<parameter=n>1</parameter>\n",
      "<arg_key>n</arg_key>\n<arg_value>1</arg_value>\n", "<arg_key>n</arg_key><arg_value>1</arg_value>",
      "<parameter name=\"n\">1</parameter>\n",
      "<｜DSML｜parameter name=\"n\" string=\"false\">1</｜DSML｜parameter>\n",
    ] { one = one.replacing(part, with: "") }
    #expect(try allows(one, family.source, rules), "\(one)")
    var bad = one.replacing("\"x\"", with: "\"z\"").replacing("<|\"|>x<|\"|>", with: "<|\"|>z<|\"|>")
    for open in [">\n", ">", "<arg_value>"] { bad = bad.replacing(open + "x", with: open + "z") }
    #expect(bad != one)
    #expect(try !allows(bad, family.source, rules), "\(bad)")
  }

  // MARK: Harmony

  private static let harmony = "<|start|>assistant<|channel|>analysis<|message|>"

  @Test func `gpt-oss's calls and answers have a header`() throws {
    let call = #"<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a": "x", "n": 1}"#
    let other = #" to=functions.f<|channel|>commentary json<|message|>{"a": "x", "n": 1}"#
    let answer = "<|channel|>final<|message|>yes"
    for text in [call, other] {
      #expect(try allows(text, Self.harmony, rules()))
      #expect(try allows(text, Self.harmony, rules(forced: false)))
      #expect(parsed(text, Self.harmony) == [#"f {"a":"x","n":1}"#])
    }
    #expect(try !allows(answer, Self.harmony, rules()))
    #expect(try !allows(call.replacing("1}", with: "\"1\"}"), Self.harmony, rules()))
    #expect(try allows(answer, Self.harmony, rules(forced: false)))
    let word = "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant"
    #expect(try allows(word + call, Self.harmony, rules(forced: false)))
    #expect(try !allows("yes", Self.harmony, rules(forced: false)))
    let formed = rules(forced: false, content: .literal("yes"))
    #expect(try allows(answer, Self.harmony, formed) && allows(call, Self.harmony, formed))
    #expect(try !allows(answer + "!", Self.harmony, formed))
  }

  // MARK: Gemma and XML

  private func gemma(_ arguments: String, _ schema: JSONValue) throws -> Bool {
    let rules = CallRules(
      tools: [CallableTool(name: "f", arguments: .schema(schema))], isForced: true, maxCalls: 1, content: nil)
    return try allows(
      "<|tool_call>call:f" + arguments.replacing("'", with: "<|\"|>") + "<tool_call|>",
      "<|tool_call><tool_call|>", rules)
  }

  @Test func `Gemma's objects have sorted keys, and optional ones may be left out`() throws {
    let schema: JSONValue = [
      "type": "object", "required": ["b"],
      "properties": ["C": ["type": "boolean"], "b": ["type": "number"], "a": ["enum": ["x", 1, nil]]],
    ]
    for good in ["{a:'x',b:1.5,C:true}", "{b:-2}", "{a:null,b:0}", "{b:1,C:false}", "{a:1,b:1}"] {
      #expect(try gemma(good, schema), "\(good)")
    }
    for bad in ["{}", "{a:'x'}", "{b:1,a:'x'}", "{,b:1}", "{b:1,}", "{a:'y',b:1}", "{b:'1'}", "{b:1,d:2}"] {
      #expect(try !gemma(bad, schema), "\(bad)")
    }
  }

  @Test func `Gemma's lists, unions and references`() throws {
    let schema: JSONValue = [
      "type": "object", "required": ["l", "u"], "$defs": ["S": ["type": "string"]],
      "properties": [
        "l": ["type": "array", "items": ["$ref": "#/$defs/S"], "minItems": 1, "maxItems": 2],
        "u": [
          "anyOf": [
            ["type": "null"], ["type": "object", "properties": ["k": ["type": ["integer", "string"]]]],
          ]
        ],
      ],
    ]
    for good in ["{l:['a'],u:null}", "{l:['a','{,}'],u:{k:1}}", "{l:[''],u:{}}", "{l:['a'],u:{k:'1'}}"] {
      #expect(try gemma(good, schema), "\(good)")
    }
    for bad in ["{l:[],u:null}", "{l:['a','b','c'],u:null}", "{l:['a'],u:1}", "{l:[1],u:null}"] {
      #expect(try !gemma(bad, schema), "\(bad)")
    }
  }

  @Test func `Gemma's bounds of a list may be any integers`() throws {
    func schema(_ least: Int, _ most: Int) -> JSONValue {
      let list: JSONValue = [
        "type": "array", "items": ["type": "string"], "minItems": .int(least), "maxItems": .int(most),
      ]
      return ["type": "object", "required": ["l"], "properties": ["l": list]]
    }
    #expect(try gemma("{l:[]}", schema(.min, .min)))
    #expect(try !gemma("{l:['a']}", schema(.min, .min)))
    #expect(try gemma("{l:['a']}", schema(.min, .max)))
    #expect(throws: GrammarError.self) { try gemma("{l:['a']}", schema(.max, .max)) }
  }

  @Test func `XML values are raw text where the schema has strings and JSON elsewhere`() throws {
    let schema: JSONValue = [
      "type": "object", "required": ["o"],
      "properties": [
        "s": ["type": "string", "enum": ["a b", "c"]], "o": ["type": "object"], "t": ["type": "string"],
      ],
    ]
    let rules = CallRules(
      tools: [CallableTool(name: "f", arguments: .schema(schema))], isForced: true, maxCalls: 1, content: nil)
    func xml(_ values: (String, String)...) throws -> Bool {
      let body = values.map { "<parameter=\($0)>\n\($1)\n</parameter>\n" }.joined()
      return try allows(
        "<tool_call>\n<function=f>\n\(body)</function>\n</tool_call>", "<tool_call><function=", rules)
    }
    #expect(try xml(("s", "a b"), ("o", "{\"k\": [1]}"), ("t", "any <b> text\n\nof \"lines\"")))
    #expect(try xml(("o", "{}")))
    #expect(try !xml(("s", "a"), ("o", "{}")))
    #expect(try !xml(("o", "[]")))
    #expect(try !xml(("s", "c")))
    #expect(try !xml(("o", "{}"), ("t", "a</parameter>b")))
  }

  @Test(
    arguments: [
      (["anyOf": [["type": "string"], ["type": "null"]]], ["x": "x", "null": nil, "12": "12", "": ""], []),
      (["type": ["string", "integer"]], ["12": 12, "1.5": "1.5", "x": "x", "[1]": "[1]"], []),
      (["enum": ["a", 1, nil]], ["a": "a", "1": 1, "null": nil], ["b", "2", "\"a\"", " a"]),
      (["const": "x y"], ["x y": "x y"], ["x", "\"x y\""]),
      (["type": "string", "pattern": "^[a-c]+$"], ["abc": "abc"], ["abd", ""]),
      (["type": "string", "format": "date"], ["2024-02-29": "2024-02-29"], ["2023-02-29"]),
      (["type": "string", "minLength": 2, "maxLength": 3], ["é日": "é日", "a\"\\": "a\"\\"], ["a", "abcd"]),
      ([:], ["x": "x", "12": 12, "{\"k\": 1}": ["k": 1], "[x": "[x", "\"x\"": "\"x\""], []),
      (true, ["x": "x", "null": nil], []),
      (
        ["anyOf": [["type": "string", "pattern": "^[0-9]{4}$"], ["type": "integer", "maximum": 9]]],
        ["7": 7, "0123": "0123"], ["12", "1234"]
      ),
      (
        ["anyOf": [["type": "string"], ["type": "array", "items": ["type": "integer"]]]],
        ["[1]": [1], "x]": "x]"], ["[\"a\"]"]
      ),
      (["$ref": "#/$defs/S"], ["p": "p"], ["q"]),
      (["oneOf": [["$ref": "#/$defs/S"], ["type": "boolean"]]], ["p": "p", "true": true], ["q", "1"]),
      (
        ["$ref": "#"], ["{}": [:], "{\"a\": {\"n\": 1, \"a\": {}}}": ["a": ["n": 1, "a": [:]]]],
        ["[]", "{\"a\": 1}"]
      ),
      (
        ["type": "object", "properties": ["h": ["type": "string"]]],
        ["{\"h\": \"<b>\"}": ["h": "<b>"], #"{"h": "\u003c/parameter>"}"#: ["h": "</parameter>"]],
        [
          "{\"h\": \"</parameter>\"}", "{\"h\": \"</arg_value>\"}", "{\"h\": \"</｜DSML｜parameter>\"}",
          "{\"h\": \"</tool_call></seed:tool_call></minimax:tool_call></｜DSML｜function_calls>\"}",
        ]
      ),
    ] as [(JSONValue, [String: JSONValue], [String])])
  func `calls of raw text hold any schema and are read as it says`(
    schema: JSONValue, good: [String: JSONValue], bad: [String]
  ) throws {
    let whole: JSONValue = [
      "type": "object", "properties": ["n": ["type": "integer"], "a": schema],
      "$defs": ["S": ["type": "string", "enum": ["p"]]],
    ]
    var rules = rules(max: 1)
    rules.tools = [CallableTool(name: "f", arguments: .schema(whole))]
    for family in Family.all {
      let open: [String: (String, String)] = [
        "xml": ("<parameter=a>\n", "\n</parameter>\n"), "seed": ("<parameter=a>", "</parameter>\n"),
        "glm": ("<arg_key>a</arg_key><arg_value>", "</arg_value>"),
        "minimax": ("<parameter name=\"a\">", "</parameter>\n"),
        "dsml": ("<｜DSML｜parameter name=\"a\" string=\"TEXT\">", "</｜DSML｜parameter>\n"),
      ]
      guard let (before, after) = open[family.testDescription] else { continue }
      func text(_ value: String, _ isText: Bool) -> String {
        let call = (before + value + after).replacing("TEXT", with: "\(isText)")
        let start = family.one.firstRange(of: before.replacing("TEXT", with: "true"))?.lowerBound
        let ends = ["</function>", "</tool_call>", "</invoke>", "</｜DSML｜invoke>"]
        let end = ends.compactMap { family.one.firstRange(of: $0)?.lowerBound }.min()
        return family.one[..<(start ?? family.one.startIndex)] + call
          + family.one[(end ?? family.one.endIndex)...]
      }
      for (value, expected) in good {
        let text = text(value, expected.stringValue != nil)
        #expect(try allows(text, family.source, rules), "\(text)")
        #expect(try arguments(in: text, family.source, whole)?["a"] == expected, "\(text)")
      }
      // What ends a value in another syntax is text; one that is marked as text is no JSON.
      let isMarked = before.contains("TEXT")
      for value in bad where !value.contains("{") || value.contains(after.split(separator: "\n")[0]) {
        let isJSON = (try? JSONValue(parsing: value)) != nil && schema["anyOf"] != nil
        #expect(try !allows(text(value, false), family.source, rules), "\(family): \(value)")
        if isMarked, isJSON { continue }
        #expect(try !allows(text(value, true), family.source, rules), "\(family): \(value)")
      }
    }
  }

  private func arguments(in text: String, _ source: String, _ schema: JSONValue) throws -> JSONValue? {
    let described: JSONValue = ["type": "function", "function": ["name": "f", "parameters": schema]]
    var parser = OutputFormat(templateSource: source).makeParser(promptTail: "", tools: [described])
    var arguments = ""
    for case .callArguments(let part) in parser.feed(text) + parser.finish() { arguments += part }
    return try? JSONValue(parsing: arguments)
  }

  private static let headed = Family(
    testDescription: "gpt-oss", source: harmony,
    one: #"<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a": "x", "n": 1}"#, two: "",
    bad: "")

  @Test(arguments: Family.all + [headed])
  private func `a forced call is read back, whatever its text is`(family: Family) throws {
    let tokenizer = try #require(tokenizer)
    let pattern = try OutputFormat(templateSource: family.source).pattern(for: rules(), tokenizer: tokenizer)
    let grammar = try CompiledGrammar(
      pattern, vocabulary: GrammarVocabulary(tokenizer: tokenizer, endTokens: [256]))
    var written: [String] = []
    for text in nastyTexts {
      let (start, value, end) = try #require(withText(text, in: family.one))
      // The markers in the text are spelled, as a model could.
      let tokens =
        tokenizer.encode(start, addSpecialTokens: false) + value.utf8.map { Int32($0) }
        + tokenizer.encode(end, addSpecialTokens: false)
      var matcher = GrammarMatcher(grammar)
      var isAllowed = true
      for token in tokens where isAllowed { isAllowed = matcher.accept(token) }
      guard isAllowed, matcher.canEnd else { continue }
      written.append(text)
      let read = try arguments(in: start + value + end, family.source, schema)?["a"]?.stringValue
      #expect(read == text, "\(family.testDescription): \(text) is read as \(read ?? "nothing")")
    }
    for text in harmlessTexts { #expect(written.contains(text), "\(family.testDescription): \(text)") }
  }

  @Test(arguments: Family.all)
  private func `a call that is cut comes as far as it came, wherever that is`(family: Family) throws {
    let described: [JSONValue] = [
      ["type": "function", "function": ["name": "f", "parameters": schema]],
      ["type": "function", "function": ["name": "g"]],
    ]
    let (start, value, end) = try #require(withText("xé </y", in: family.one))
    let format = OutputFormat(templateSource: family.source)
    let problems = cutProblems(start + value + end, #"{"a":"xé</y","n":1}"#) {
      format.makeParser(promptTail: "", tools: described)
    }
    #expect(problems == [])
  }

  @Test(
    arguments: [
      (["x-1": "3", "a": "t", "z": "any"], true), (["x-1": "3", "z": "1", "x-2": "100", "y1": "4"], true),
      (["x-1": "9", "z": "1"], false), (["x-1": "3", "z": "1", "x-2": "t"], false), (["x-1": "3"], false),
      (["x-1": "3", "z": "1", "q": "1"], false), (["x-1": "3", "z": "1", "x-9": "6"], false),
      (["x-1": "3", "z": "1", "x-9": "5"], true),
    ] as [(KeyValuePairs<String, String>, Bool)])
  func `members that are not declared are held to expressions and to what is required`(
    members: KeyValuePairs<String, String>, isGood: Bool
  ) throws {
    let schema: JSONValue = [
      "type": "object", "required": ["x-1", "z"],
      "properties": ["x-9": ["type": "integer", "maximum": 5], "a": ["type": "string"]],
      "patternProperties": ["^x-": ["type": "integer"], "1$": ["type": "integer", "maximum": 4]],
    ]
    // Declared ones come first, then those that are required.
    let order = ["x-9", "a", "x-1", "z"]
    let sorted = members.sorted {
      (order.firstIndex(of: $0.key) ?? 9) < (order.firstIndex(of: $1.key) ?? 9)
    }
    #expect(try raw(sorted.map { ($0.key, $0.value) }, schema) == [isGood, isGood, isGood, isGood])
  }

  @Test(
    arguments: [
      (["additionalProperties": ["type": "integer"]], "1", true),
      (["additionalProperties": ["type": "integer"]], "t", false), ([:], "t", true),
      (["properties": [:]], "t", false), (["properties": [:], "additionalProperties": true], "t", true),
      (["additionalProperties": false], "t", false),
    ] as [(JSONValue, String, Bool)])
  func `objects are open where JSON's are`(schema: JSONValue, value: String, isGood: Bool) throws {
    #expect(try raw([("k", value)], schema) == [isGood, isGood, isGood, isGood])
    #expect(try raw([], schema) == [true, true, true, true])
  }

  @Test func `a member that is required and forbidden is told`() throws {
    let schema: JSONValue = ["type": "object", "required": ["b"], "additionalProperties": false]
    #expect(throws: GrammarError.self) { try raw([("b", "1")], schema) }
  }

  /// Whether calls of raw text may hold these arguments: in the syntaxes of Qwen, Seed, GLM and MiniMax.
  private func raw(_ members: [(String, String)], _ schema: JSONValue) throws -> [Bool] {
    var rules = rules(max: 1)
    rules.tools = [CallableTool(name: "f", arguments: .schema(schema))]
    return try [
      ("xml", "<tool_call>\n<function=f>\n", "<parameter=K>\nV\n</parameter>\n", "</function>\n</tool_call>"),
      (
        "seed", "<seed:tool_call>\n<function=f>\n", "<parameter=K>V</parameter>\n",
        "</function>\n</seed:tool_call>"
      ),
      ("glm", "<tool_call>f", "<arg_key>K</arg_key><arg_value>V</arg_value>", "</tool_call>"),
      (
        "minimax", "<minimax:tool_call>\n<invoke name=\"f\">\n", "<parameter name=\"K\">V</parameter>\n",
        "</invoke>\n</minimax:tool_call>"
      ),
    ].map { (name, begin, element, end) in
      let source = Family.all.first { $0.testDescription == name }?.source ?? ""
      let elements = members.map { element.replacing("K", with: $0.0).replacing("V", with: $0.1) }
      return try allows(begin + elements.joined() + end, source, rules)
    }
  }

  @Test func `Gemma's strings obey the keywords of strings`() throws {
    let schema: JSONValue = [
      "type": "object", "required": ["a"],
      "properties": ["a": ["type": "string", "pattern": "^[a-c\"]+$", "maxLength": 3]],
    ]
    #expect(try gemma("{a:'abc'}", schema) && gemma("{a:'a\"b'}", schema))
    #expect(try !gemma("{a:'abd'}", schema) && !gemma("{a:'abca'}", schema) && !gemma("{a:''}", schema))
  }

  @Test(
    arguments: [
      (["properties": ["a": ["$ref": "#"]]], "$ref", "/properties/a"),
      (["properties": ["a": ["$ref": "#/$defs/x"]]], "$ref", "/properties/a"),
      (["properties": ["a": [:]]], "type", "/properties/a"),
      (["type": "object", "required": ["b"]], "required", ""),
      (["type": "object", "patternProperties": [:]], "patternProperties", ""),
    ] as [(JSONValue, String, String)])
  func `what these syntaxes cannot hold is named`(schema: JSONValue, keyword: String, path: String) throws {
    let tokenizer = try #require(tokenizer)
    let tool = CallableTool(name: "f", arguments: .schema(schema))
    do {
      _ = try OutputFormat(templateSource: "<|tool_call><tool_call|>").pattern(of: tool, tokenizer: tokenizer)
      Issue.record("\(schema.text) was taken")
    } catch {
      guard case .unsupported(keyword, path, _) = error else {
        _ = Issue.record("\(error)")
        return
      }
    }
  }

  @Test func `a recursive schema is refused in time`() throws {
    let tokenizer = try #require(tokenizer)
    let reference: JSONValue = ["$ref": "#/$defs/T"]
    let schema: JSONValue = [
      "$defs": ["T": ["type": "object", "properties": ["left": reference, "right": reference]]],
      "$ref": "#/$defs/T",
    ]
    let tool = CallableTool(name: "f", arguments: .schema(schema))
    #expect(throws: GrammarError.self) {
      _ = try OutputFormat(templateSource: "<|tool_call><tool_call|>").pattern(of: tool, tokenizer: tokenizer)
    }
  }
}
