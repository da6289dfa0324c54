// Syntaxes of calls that are found out by rendering: templates in the manner of several families, and theirs where they
// are at hand.

import Grammar
import JSON
import Jinja
import Support
import Testing
import Tokenizers

@testable import Chat

/// A template with a line of tools, turns with tags of their own, and calls as a family writes them.
private struct Manner: Sendable, CustomTestStringConvertible {
  let testDescription: String
  /// The body of a loop over calls, and what stands around it.
  let calls: String
  /// A call of `f` with two arguments, then one of `g` without any.
  let two: String
  var answers = "{{ message.content }}"
  var begin = "<|assistant|>"

  var source: String {
    """
    {%- if tools %}<|tools|>{% for tool in tools %}{{ tool.function.name }} {% endfor %}{% endif %}
    {%- for message in messages %}
    {%- if message.role == 'assistant' %}\(begin)\
    {%- if message.tool_calls %}\(calls)<|end|>{% else %}\(answers)<|end|>{% endif %}
    {%- else %}<|{{ message.role }}|>{{ message.content }}<|end|>{% endif %}
    {%- endfor %}
    {%- if add_generation_prompt %}\(begin){% endif %}
    """
  }

  static let all = [
    Manner(
      testDescription: "keyed objects in an array (Apertus)",
      calls:
        "<|prefix|>[{% for c in message.tool_calls %}{\"{{ c.function.name }}\": {{ c.function.arguments | tojson }}}{% if not loop.last %}, {% endif %}{% endfor %}]<|suffix|>",
      two: #"<|prefix|>[{"f": {"a": "x", "n": 1}}, {"g": {}}]<|suffix|>"#),
    Manner(
      testDescription: "objects after a marker (GigaChat)",
      calls:
        "{% for c in message.tool_calls %}<|function_call|>{\"name\": \"{{ c.function.name }}\", \"arguments\": {{ c.function.arguments | tojson }}}{% endfor %}",
      two:
        #"<|function_call|>{"name": "f", "arguments": {"a": "x", "n": 1}}<|function_call|>{"name": "g", "arguments": {}}"#
    ),
    Manner(
      testDescription: "a section of calls with ids (Solar)",
      calls:
        "<|calls|>{% for c in message.tool_calls %}<|call:begin|>{{ c.id }}<|call:name|>{{ c.function.name }}<|call:args|>{{ c.function.arguments | tojson }}<|call:end|>{% endfor %}",
      two:
        #"<|calls|><|call:begin|>abcdefghi<|call:name|>f<|call:args|>{"a": "x", "n": 1}<|call:end|><|call:begin|>abcdefghj<|call:name|>g<|call:args|>{}<|call:end|>"#
    ),
    Manner(
      testDescription: "elements (MiniCPM)",
      calls:
        "{% for c in message.tool_calls %}<function name=\"{{ c.function.name }}\">{% for k, v in c.function.arguments.items() %}<param name=\"{{ k }}\">{{ v }}</param>{% endfor %}</function>{% endfor %}",
      two:
        "<function name=\"f\"><param name=\"a\">x</param><param name=\"n\">1</param></function><function name=\"g\"></function>"
    ),
    Manner(
      testDescription: "a list of Python calls alone (Llama 4)",
      calls:
        "[{% for c in message.tool_calls %}{{ c.function.name }}({% for k, v in c.function.arguments.items() %}{{ k }}={{ v | tojson }}{% if not loop.last %}, {% endif %}{% endfor %}){% if not loop.last %}, {% endif %}{% endfor %}]",
      two: #"[f(a="x", n=1), g()]"#),
    Manner(
      testDescription: "Python calls on lines between tags (OLMo 3)",
      calls:
        "<function_calls>{% for c in message.tool_calls %}{{ c.function.name }}({% for k, v in c.function.arguments.items() %}{{ k }}={{ v | tojson }}{% if not loop.last %}, {% endif %}{% endfor %}){% if not loop.last %}{{ '\\n' }}{% endif %}{% endfor %}</function_calls>",
      two: "<function_calls>f(a=\"x\", n=1)\ng()</function_calls>"),
    Manner(
      testDescription: "a name and a line of JSON after the prompt's marker (Functionary)",
      calls:
        "{% for c in message.tool_calls %}{% if not loop.first %}>>>{% endif %}{{ c.function.name }}\n{{ c.function.arguments | tojson }}{% endfor %}",
      two: ">>>f\n{\"a\": \"x\", \"n\": 1}>>>g\n{}", answers: "all\n{{ message.content }}",
      begin: "<|assistant|>>>>"),
    Manner(
      testDescription: "a message to each tool (Muse)",
      calls:
        "{% for c in message.tool_calls %}{% if not loop.first %}<|eom|><|start|>assistant{% endif %} to={{ c.function.name }}<|message|><calls>\n<invoke name=\"{{ c.function.name }}\">\n{% for k, v in c.function.arguments.items() %}<parameter name=\"{{ k }}\">{{ v }}</parameter>\n{% endfor %}</invoke>\n</calls>{% endfor %}",
      two:
        " to=f<|message|><calls>\n<invoke name=\"f\">\n<parameter name=\"a\">x</parameter>\n<parameter name=\"n\">1</parameter>\n</invoke>\n</calls><|eom|><|start|>assistant to=g<|message|><calls>\n<invoke name=\"g\">\n</invoke>\n</calls>",
      answers:
        "{% if message.reasoning_content %} to=self<|message|>{{ message.reasoning_content }}<|eom|><|start|>assistant{% endif %} to=user<|message|>{{ message.content }}",
      begin: "<|start|>assistant"),
  ]

  /// What stands before the text of an answer.
  var lead: String {
    answers.hasPrefix("all") ? "all\n" : begin.hasPrefix("<|start|>") ? " to=user<|message|>" : ""
  }

  /// The calls as the model writes them after the prompt.
  var written: String { begin.hasSuffix(">>>") ? String(two.dropFirst(3)) : two }
}

private let schema: JSONValue = [
  "type": "object", "properties": ["a": ["type": "string"], "n": ["type": "integer"]],
  "required": ["a", "n"], "additionalProperties": false,
]
private let tools: [JSONValue] = [
  ["type": "function", "function": ["name": "f", "description": "d", "parameters": schema]],
  ["type": "function", "function": ["name": "g", "description": "d", "parameters": ["type": "object"]]],
]

private func load(_ source: String) throws -> ChatTemplate {
  try ChatTemplate(source: source, specialTokens: []) { (0, 0) }
}

/// Content and calls that the parser finds, the text cut into pieces of some length.
private func parsed(_ text: String, _ format: OutputFormat, cut: Int = .max) -> [String] {
  var parser = format.makeParser(promptTail: "", tools: tools)
  var found: [String] = []
  var events: [OutputEvent] = []
  var rest = Array(text.utf8)[...]
  while !rest.isEmpty {
    events += parser.feed(String(decoding: rest.prefix(cut), as: UTF8.self))
    rest = rest.dropFirst(cut)
  }
  for event in events + parser.finish() {
    switch event {
    case .callBegan(let name): found.append(name + " ")
    case .callArguments(let text): found[found.count - 1] += text.filter { $0 != " " }
    case .callEnded: break
    case .content(let text):
      if found.last?.hasPrefix("text ") == true {
        found[found.count - 1] += text
      } else {
        found.append("text " + text)
      }
    default: found.append("\(event)")
    }
  }
  return found
}

struct FoundCallsTests {
  private let calls = [#"f {"a":"x","n":1}"#, "g {}"]

  @Test(arguments: Manner.all)
  private func `calls are found in the template, and read however they are cut`(manner: Manner) throws {
    let template = try load(manner.source)
    #expect(template.supportsTools && template.format.toolSyntax == .found)
    for cut in [1, 3, 7, .max] { #expect(parsed(manner.written, template.format, cut: cut) == calls) }
  }

  @Test(arguments: Manner.all)
  private func `text without calls is content`(manner: Manner) throws {
    let format = try load(manner.source).format
    let lead = manner.lead
    for text in ["Hello, {you}!", "f is a letter", "a < b", "1 [2] 3"] {
      for cut in [1, .max] { #expect(parsed(lead + text, format, cut: cut) == ["text " + text]) }
    }
    var parser = format.makeParser(promptTail: "", tools: nil)
    #expect(parser.feed(lead + "Hello") + parser.finish() == [.content("Hello")])
  }

  @Test(arguments: Manner.all)
  private func `a call of an unknown tool, or of half a call, is content`(manner: Manner) throws {
    let format = try load(manner.source).format
    let other = manner.written.replacing("f", with: "q")
    #expect(!parsed(other, format).contains { $0.hasPrefix("q ") })
    let half = String(manner.written.prefix(manner.written.count / 3))
    #expect(!parsed(half, format).contains { $0.hasPrefix("g ") })
  }

  @Test(arguments: Manner.all)
  private func `a constrained model writes the same calls`(manner: Manner) throws {
    let format = try load(manner.source).format
    let tokenizer = try #require(plainTokenizer)
    let callable = [
      CallableTool(name: "f", arguments: .schema(schema)), CallableTool(name: "g", arguments: .none),
    ]
    func allows(_ text: String, isForced: Bool) throws -> Bool {
      let rules = CallRules(tools: callable, isForced: isForced, maxCalls: nil, content: nil)
      let vocabulary = GrammarVocabulary(tokenizer: tokenizer, endTokens: [256])
      var matcher = GrammarMatcher(
        try CompiledGrammar(format.pattern(for: rules, tokenizer: tokenizer), vocabulary: vocabulary))
      for token in tokenizer.encode(text, addSpecialTokens: false) {
        guard matcher.accept(token) else { return false }
      }
      return matcher.canEnd
    }
    #expect(try allows(manner.written, isForced: true))
    #expect(try allows(manner.written, isForced: false))
    #expect(try !allows("Hello", isForced: true))
    let lead = manner.lead
    #expect(try allows(lead + "Hello", isForced: false))
    #expect(try !allows(manner.written.replacing("1", with: "one"), isForced: true))
  }

  @Test(arguments: Manner.all)
  private func `a forced call is read back, whatever its text is`(manner: Manner) throws {
    let format = try load(manner.source).format
    let tokenizer = try #require(plainTokenizer)
    let callable = [
      CallableTool(name: "f", arguments: .schema(schema)), CallableTool(name: "g", arguments: .none),
    ]
    let rules = CallRules(tools: callable, isForced: true, maxCalls: nil, content: nil)
    let grammar = try CompiledGrammar(
      format.pattern(for: rules, tokenizer: tokenizer),
      vocabulary: GrammarVocabulary(tokenizer: tokenizer, endTokens: [256]))
    var written: [String] = []
    for text in nastyTexts {
      let (start, value, end) = try #require(withText(text, in: manner.written))
      let call = start + value + end
      var matcher = GrammarMatcher(grammar)
      guard call.utf8.allSatisfy({ matcher.accept(Int32($0)) }), matcher.canEnd else { continue }
      written.append(text)
      var parser = format.makeParser(promptTail: "", tools: tools)
      var arguments = ""
      for event in parser.feed(call) + parser.finish() {
        if event == .callEnded { break }
        if case .callArguments(let part) = event { arguments += part }
      }
      let read = try? JSONValue(parsing: arguments)["a"]?.stringValue
      #expect(read == text, "\(text) is read as \(read ?? "nothing")")
    }
    for text in harmlessTexts { #expect(written.contains(text), "\(text)") }
  }

  @Test(arguments: Manner.all)
  private func `a call that is cut comes as far as it came, wherever that is`(manner: Manner) throws {
    let format = try load(manner.source).format
    let (start, value, end) = try #require(withText("xé </y", in: manner.written))
    let next = [
      ", {\"g\"", "<|function_call|>", "<|call:begin|>", "<function name", ", g()", "\ng()", ">>>g",
      "<|eom|>",
    ]
    let places = next.compactMap { end.firstRange(of: $0)?.lowerBound }
    let last = try #require(places.min())
    let first = start + value + end[..<last]
    let arguments = #"{"a":"xé</y","n":1}"#
    let problems = cutProblems(first, arguments) { format.makeParser(promptTail: "", tools: tools) }
    #expect(problems == [])
    // What comes after it takes nothing of it away.
    for count in 1..<end[last...].count {
      var parser = format.makeParser(promptTail: "", tools: tools)
      var calls: [String] = []
      for event in parser.feed(first + end[last...].prefix(count)) + parser.finish(isCut: true) {
        if case .callBegan(let name) = event { calls.append(name) }
        if case .callArguments(let text) = event { calls[calls.count - 1] += text.filter { $0 != " " } }
      }
      #expect(calls.first == "f" + arguments, "\(end[last...].prefix(count))")
    }
  }

  @Test func `a template that shows no calls has none`() throws {
    let source =
      "{% for tool in tools or [] %}{{ tool.function.name }}{% endfor %}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
    let template = try load(source)
    #expect(!template.supportsTools && template.format.toolSyntax == .none)
  }

  @Test func `reasoning in messages to the model itself is told from answers and calls`() throws {
    let manner = try #require(Manner.all.last)
    let format = try load(manner.source).format
    #expect(format.supportsReasoning && format.reasoning == .addressed)
    let thought = " to=self<|message|>So <it> is.<|eom|><|start|>assistant"
    for cut in [1, 5, .max] {
      #expect(
        parsed(thought + manner.written, format, cut: cut).filter { !$0.hasPrefix("reasoning") } == calls)
      let answer = parsed(thought + " to=user<|message|>Yes.", format, cut: cut)
      #expect(answer.last == "text Yes." && answer.first?.hasPrefix("reasoning") == true)
    }
    // A message to a tool that holds no call, or that of another, is content.
    for text in ["no call", "<calls>\n<invoke name=\"g\">\n</invoke>\n</calls>"] {
      #expect(!parsed(" to=f<|message|>" + text, format).contains { $0.hasPrefix("f ") })
    }
  }

  @Test func `tools come as text where a template wants functions and a date`() throws {
    let source =
      "{{- 'Use ' + functions + ' today, ' + datetime + '.' }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% if m.tool_calls %} functools[{% for c in m.tool_calls %}{\"name\": \"{{ c.function.name }}\", \"arguments\": {{ c.function.arguments | tojson }}}{% if not loop.last %}, {% endif %}{% endfor %}]{% endif %}<|end|>{% endfor %}<|assistant|>"
    let template = try load(source)
    #expect(template.supportsTools && template.format.toolSyntax == .found)
    let user: JSONValue = ["role": "user", "content": "go"]
    #expect(
      try template.render(Conversation(messages: [user])).hasPrefix("Use [] today, 1970-01-01.<|user|>go"))
    let prompt = try template.render(Conversation(messages: [user], tools: tools))
    #expect(
      prompt.hasPrefix("Use [{") && prompt.contains(#""name":"f""#) && !prompt.contains(#""type":"function""#)
    )
    let dated = Conversation(messages: [user], templateArguments: JSONObject([("datetime", "noon")]))
    #expect(try template.render(dated).contains("today, noon."))
    let written =
      #" functools[{"name": "f", "arguments": {"a": "x", "n": 1}}, {"name": "g", "arguments": {}}]"#
    for cut in [1, 4, .max] { #expect(parsed(written, template.format, cut: cut) == calls) }
  }

  /// Templates of families whose syntax is not among the known ones.
  private static let families = [
    "Apertus-8B-Instruct", "GigaChat3.1-10B-A1.8B", "meetkai-functionary-medium-v3.2", "openbmb-MiniCPM5-1B",
    "upstage-Solar-Open-100B", "../mlx-openai-server/llama4", "fireworks-ai-llama-3-firefunction-v2",
    "../mlx-serve-fixtures/muse_chat_template",
  ]

  @Test(.enabled(if: TestData.shared != nil, "needs ../shared/data"), arguments: families)
  func `calls of families nobody described survive the way through template and parser`(name: String) throws {
    let folder = try #require(TestData.shared) + "/chat-templates/llama.cpp/"
    let source = String(decoding: try TestData.bytes(folder + name + ".jinja"), as: UTF8.self)
    let template = try ChatTemplate(
      source: source, specialTokens: [("bos_token", "<s>"), ("eos_token", "</s>")]
    ) { (0, 0) }
    #expect(template.format.toolSyntax == .found)
    let user: JSONValue = ["role": "user", "content": "go"]
    let answer: JSONValue = [
      "role": "assistant", "content": "",
      "tool_calls": [
        [
          "id": "abcdefghi", "type": "function",
          "function": ["name": "f", "arguments": #"{"a":"x"}"#],
        ]
      ],
    ]
    // What a tool may lack, these templates do not all do without.
    let bare: JSONValue = ["type": "function", "function": ["name": "barefoot"]]
    #expect(try template.render(Conversation(messages: [user], tools: [bare])).contains("barefoot"))
    let prompt = try template.render(Conversation(messages: [user], tools: tools))
    let whole = try template.render(
      Conversation(messages: [user, answer], tools: tools, addGenerationPrompt: false))
    let shared = zip(prompt.utf8, whole.utf8).prefix { $0 == $1 }.count
    var text = String(decoding: whole.utf8.dropFirst(shared), as: UTF8.self)
    // What ends a turn is no text for the parser.
    for end in ["<|eot|>", "<|calls|>"] where text.hasSuffix(end) { text.removeLast(end.count) }
    if let end = text.firstRange(of: "<|eot_id|>") { text = String(text[..<end.lowerBound]) }
    #expect(parsed(text, template.format).first == #"f {"a":"x"}"#, "\(text)")
  }
}

/// Ids 0 to 255 are bytes, then an end token.
private let plainTokenizer: Tokenizer? = {
  var vocabulary = JSONObject()
  var next: UInt32 = 256
  for byte in 0..<256 as Range<UInt32> {
    let isPrintable = (33...126).contains(byte) || (161...172).contains(byte) || (174...255).contains(byte)
    let value = isPrintable ? byte : next
    if !isPrintable { next += 1 }
    guard let scalar = Unicode.Scalar(value) else { continue }
    vocabulary[String(Character(scalar))] = .int(Int(byte))
  }
  let byteLevel: JSONValue = [
    "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false,
  ]
  let end: JSONValue = [
    "id": 256, "content": "<end>", "single_word": false, "lstrip": false, "rstrip": false,
    "normalized": false,
    "special": true,
  ]
  let file: JSONValue = [
    "version": "1.0", "added_tokens": [end], "pre_tokenizer": byteLevel, "decoder": byteLevel,
    "model": ["type": "BPE", "vocab": .object(vocabulary), "merges": []],
  ]
  return try? Tokenizer(tokenizerJSON: file.bytes)
}()
