// Replies taken apart: reasoning, content and calls, however the text is cut into pieces.

import Chat
import JSON
import Support
import Testing

private let think = "{{ '<think>' }}"
private let qwen = think + "<tool_call>"
private let llama = "<|python_tag|>"
private let phi = "<|tool_call|>"
private let gemma = "<|tool_call><tool_call|><|channel>"
private let mistral = "[TOOL_CALLS][THINK]"
private let harmony = "<|start|>assistant<|channel|>analysis<|message|>"
private let xml = think + "<tool_call><function="

extension OutputFormat {
  /// A parser for tools of which only the names are known.
  fileprivate func makeParser(promptTail: String, toolNames: [String]?) -> OutputParser {
    makeParser(
      promptTail: promptTail,
      tools: toolNames?.map { ["type": "function", "function": ["name": .string($0)]] })
  }
}

/// What a reply says in the end.
private enum Part: Equatable {
  case content(String)
  case reasoning(String)
  case toolCall(name: String, arguments: String)
}

/// Fragments put together; a failed call is content. Fails when the order of fragments is broken.
private func joined(_ events: [OutputEvent], sourceLocation: SourceLocation = #_sourceLocation) -> [Part] {
  var result: [Part] = []
  var isOpen = false
  func add(_ text: String) {
    if case .content(let before) = result.last {
      result[result.count - 1] = .content(before + text)
    } else {
      result.append(.content(text))
    }
  }
  for event in events {
    switch (result.last, event) {
    case (_, .content(let text)):
      #expect(!isOpen, sourceLocation: sourceLocation)
      add(text)
    case (.reasoning(let a), .reasoning(let b)): result[result.count - 1] = .reasoning(a + b)
    case (_, .reasoning(let text)): result.append(.reasoning(text))
    case (_, .callBegan(let name)):
      #expect(!isOpen, sourceLocation: sourceLocation)
      isOpen = true
      result.append(.toolCall(name: name, arguments: ""))
    case (.toolCall(let name, let before), .callArguments(let text)):
      #expect(isOpen, sourceLocation: sourceLocation)
      result[result.count - 1] = .toolCall(name: name, arguments: before + text)
    case (_, .callArguments): Issue.record("arguments without a call", sourceLocation: sourceLocation)
    case (_, .callEnded):
      #expect(isOpen, sourceLocation: sourceLocation)
      isOpen = false
    case (_, .callFailed(let retracted, let text)):
      isOpen = false
      result.removeLast(retracted)
      add(text)
    }
  }
  #expect(!isOpen, sourceLocation: sourceLocation)
  return result
}

/// The events of `text`; fails unless every split in two, and each character alone, give the same.
private func parse(
  _ text: String, _ template: String, tools: [String]? = nil, prompt: String = "",
  sourceLocation: SourceLocation = #_sourceLocation
) -> [Part] {
  let format = OutputFormat(templateSource: template)
  func events(_ pieces: [String]) -> [Part] {
    var parser = format.makeParser(promptTail: prompt, toolNames: tools)
    return joined(pieces.flatMap { parser.feed($0) } + parser.finish(), sourceLocation: sourceLocation)
  }
  let whole = events([text])
  let scalars = Array(text.unicodeScalars)
  func part(_ range: Range<Int>) -> String { String(String.UnicodeScalarView(scalars[range])) }
  #expect(events(scalars.indices.map { part($0..<$0 + 1) }) == whole, sourceLocation: sourceLocation)
  for cut in 0...scalars.count {
    let pieces = [part(0..<cut), part(cut..<scalars.count)]
    #expect(events(pieces) == whole, "cut at \(cut)", sourceLocation: sourceLocation)
  }
  return whole
}

@Suite struct OutputParserTests {
  // MARK: Reasoning

  @Test func `reasoning is separated and the whitespace around it dropped`() {
    #expect(
      parse("<think>\nLet me see.\n\nYes.\n</think>\n\nHello\n\n there ", qwen)
        == [.reasoning("Let me see.\n\nYes."), .content("Hello\n\n there ")])
    #expect(parse("\n<think>a</think>b", qwen) == [.reasoning("a"), .content("b")])
    #expect(parse("<think>\n\n</think>\n\nHi", qwen) == [.content("Hi")])
    #expect(parse("<think></think>", qwen) == [])
  }

  @Test func `a reply can start inside reasoning`() {
    #expect(parse("\nhm </think>\n\nHi", qwen, prompt: "...<think>\n") == [.reasoning("hm"), .content("Hi")])
    #expect(parse("Hi</think>", qwen, prompt: "<think>\n\n</think>\n\n") == [.content("Hi</think>")])
    #expect(parse("hm[/THINK]Hi", mistral, prompt: "[THINK]") == [.reasoning("hm"), .content("Hi")])
    #expect(
      parse("hm<channel|>Hi", gemma, prompt: "<|channel>thought\n") == [.reasoning("hm"), .content("Hi")])
  }

  @Test func `reasoning that never closes is all there is`() {
    #expect(parse("<think>\nand so </thin", qwen, tools: ["f"]) == [.reasoning("and so </thin")])
    #expect(
      parse("<think>a<tool_call>{\"name\":\"f\"}</tool_call>", qwen, tools: ["f"])
        == [.reasoning("a<tool_call>{\"name\":\"f\"}</tool_call>")])
  }

  @Test func `the marker counts at the beginning only, except Gemma's`() {
    #expect(parse("Write <think>x</think>!", qwen) == [.content("Write <think>x</think>!")])
    #expect(parse("<thin", qwen) == [.content("<thin")])
    #expect(parse("  ", qwen) == [.content("  ")])
    #expect(
      parse("<think>a</think><think>b</think>", qwen) == [.reasoning("a"), .content("<think>b</think>")])
    #expect(
      parse("<|channel>thought\na<channel|>b <|channel>thought\nc<channel|> d", gemma)
        == [.reasoning("a"), .content("b"), .reasoning("c"), .content("d")])
    #expect(parse("<|channel>thoughts<channel|>b", gemma) == [.reasoning("thoughts"), .content("b")])
  }

  @Test func `markers are found without a template that names them`() {
    #expect(parse("<think>a</think>b", "{{ messages }}") == [.reasoning("a"), .content("b")])
  }

  @Test func `models that think are known by their templates`() {
    for source in [qwen, gemma, mistral, "Your name is Phi, an AI math expert developed by Microsoft."] {
      #expect(OutputFormat(templateSource: source).supportsReasoning)
    }
    #expect(!OutputFormat(templateSource: llama).supportsReasoning)
    #expect(OutputFormat(templateSource: "{{ reasoning_effort }}").supportsEffort)
  }

  // MARK: Calls

  @Test func `a Qwen call keeps the model's own argument text`() {
    #expect(
      parse(
        "Sure.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1.0, \"b\" : [1e2]}}\n</tool_call>",
        qwen, tools: ["f"])
        == [.content("Sure."), .toolCall(name: "f", arguments: "{\"a\": 1.0, \"b\" : [1e2]}")])
  }

  @Test func `several calls and text between them`() {
    let one = "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>"
    #expect(
      parse("<think>x</think>\n\n\(one)\n\(one)\n then \(one)\n", qwen, tools: ["f"]) == [
        .reasoning("x"), .toolCall(name: "f", arguments: "{}"), .toolCall(name: "f", arguments: "{}"),
        .content("then"), .toolCall(name: "f", arguments: "{}"),
      ])
  }

  @Test func `without tools in the request everything is content`() {
    let text = " <tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call> "
    #expect(parse(text, qwen) == [.content(text)])
    #expect(
      parse("{\"name\": \"f\", \"parameters\": {}}", llama) == [
        .content("{\"name\": \"f\", \"parameters\": {}}")
      ])
  }

  @Test func `a malformed call is content exactly as it was written`() {
    for body in [
      "{\"name\": \"f\", \"arguments\": {}", "", "no json", "{\"arguments\": {}}",
      "{\"name\": 5, \"arguments\": {}}",
      "{\"name\": \"f\", \"arguments\": [1]}", "[]", "{\"name\": \"\", \"arguments\": {}}",
      "{\"name\": \"f\"} x",
    ] {
      let text = "a \n <tool_call>\(body)</tool_call> b"
      #expect(parse(text, qwen, tools: ["f"]) == [.content(text)])
    }
  }

  @Test func `an unfinished call is content exactly as it was written`() {
    for text in [
      "<tool_call>\n{\"name\": \"f\", \"argu", "x <tool_call>", "<tool_ca",
      "<tool_call>{\"name\": \"f\", \"arguments\": {}",
      "\n\n<tool_call>\n{\"a",
    ] {
      #expect(parse(text, qwen, tools: ["f"]) == [.content(text)])
    }
  }

  @Test func `a call without its end marker counts when it is complete`() {
    let call = "{\"name\": \"f\", \"arguments\": {}}"
    #expect(parse("<tool_call>\(call)", qwen, tools: ["f"]) == [.toolCall(name: "f", arguments: "{}")])
    #expect(
      parse("<tool_call>\(call)<tool_call>\(call)</tool_call>", qwen, tools: ["f"])
        == [.toolCall(name: "f", arguments: "{}"), .toolCall(name: "f", arguments: "{}")])
  }

  @Test func `markers inside of argument strings are text`() {
    #expect(
      parse(
        "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"</tool_call>\\\"<tool_call>\"}}</tool_call>",
        qwen, tools: ["f"])
        == [.toolCall(name: "f", arguments: "{\"a\": \"</tool_call>\\\"<tool_call>\"}")])
  }

  @Test func `arguments may be a string that holds an object, or be missing`() {
    #expect(
      parse("<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1}\"}</tool_call>", qwen, tools: ["f"])
        == [.toolCall(name: "f", arguments: "{\"a\": 1}")])
    #expect(
      parse("<tool_call>{\"name\": \"f\"}</tool_call>", qwen, tools: ["f"]) == [
        .toolCall(name: "f", arguments: "{}")
      ])
    #expect(
      parse(
        "<tool_call>{\"type\": \"function\", \"function\": {\"name\": \"f\", \"arguments\": {}}}</tool_call>",
        qwen, tools: ["f"])
        == [.toolCall(name: "f", arguments: "{}")])
  }

  @Test func `a Llama reply that is an object with a tool's name is a call`() {
    let call = "{\"name\": \"f\", \"parameters\": {\"a\": \"}\"}}"
    #expect(parse(call, llama, tools: ["f"]) == [.toolCall(name: "f", arguments: "{\"a\": \"}\"}")])
    #expect(
      parse("<|python_tag|>\(call)", llama, tools: ["f"]) == [
        .toolCall(name: "f", arguments: "{\"a\": \"}\"}")
      ])
    #expect(
      parse("\n\(call); \(call)\n", llama, tools: ["f"])
        == [
          .toolCall(name: "f", arguments: "{\"a\": \"}\"}"),
          .toolCall(name: "f", arguments: "{\"a\": \"}\"}"),
        ])
  }

  @Test func `other JSON from a Llama is content, at once where that can be told`() {
    for text in [
      "{\"city\": \"Paris\"}", "{\"name\": \"g\", \"parameters\": {}}",
      "{\"name\": \"f\", \"parameters\": {}} and more",
      "{", "Call {\"name\": \"f\", \"parameters\": {}}", "<|python_tag|>print(1)", "{}",
    ] {
      #expect(parse(text, llama, tools: ["f"]) == [.content(text)])
    }
    var parser = OutputFormat(templateSource: llama).makeParser(promptTail: "", toolNames: ["f"])
    #expect(parser.feed("{\"city") == [.content("{\"city")])
  }

  @Test func `Phi's array, single object and functools forms are calls`() {
    let two = "[{\"name\": \"f\", \"arguments\": {\"a\": 1}}, {\"name\": \"g\", \"arguments\": {}}]"
    let expected: [Part] = [
      .toolCall(name: "f", arguments: "{\"a\": 1}"), .toolCall(name: "g", arguments: "{}"),
    ]
    #expect(parse("<|tool_call|>\(two)<|/tool_call|>", phi, tools: ["f", "g"]) == expected)
    #expect(parse("functools\(two)", phi, tools: ["f", "g"]) == expected)
    #expect(
      parse("<|tool_call|>{\"name\": \"f\", \"arguments\": {}}<|/tool_call|>", phi, tools: ["f"])
        == [.toolCall(name: "f", arguments: "{}")])
    #expect(parse("functools[1]", phi, tools: ["f"]) == [.content("functools[1]")])
    #expect(parse("import functools[0]", phi, tools: ["f"]) == [.content("import functools[0]")])
  }

  @Test func `Gemma's own grammar becomes JSON`() {
    #expect(
      parse(
        "Ok<|tool_call>call:get{city:<|\"|>New {York}, \"NY\"<|\"|>,n:3,f:-1.5,on:true,x:null,list:[<|\"|>a<|\"|>,{k:[]}],o:{}}<tool_call|>"
          + "<|tool_call>call:g{}<tool_call|>", gemma, tools: ["get", "g"]) == [
          .content("Ok"),
          .toolCall(
            name: "get",
            arguments:
              "{\"city\":\"New {York}, \\\"NY\\\"\",\"n\":3,\"f\":-1.5,\"on\":true,\"x\":null,\"list\":[\"a\",{\"k\":[]}],\"o\":{}}"
          ),
          .toolCall(name: "g", arguments: "{}"),
        ])
    #expect(
      parse("<|tool_call>call:f{a:<|\"|><tool_call|><|\"|>,\"b\":\"x\"}<tool_call|>", gemma, tools: ["f"])
        == [.toolCall(name: "f", arguments: "{\"a\":\"<tool_call|>\",\"b\":\"x\"}")])
    for text in [
      "<|tool_call>call:f{a:<tool_call|>", "<|tool_call>f{}<tool_call|>", "<|tool_call>call:f{a:1",
    ] {
      #expect(parse(text, gemma, tools: ["f"]) == [.content(text)])
    }
  }

  @Test func `Mistral's three forms are calls`() {
    let first: [Part] = [.toolCall(name: "f", arguments: "{\"a\": 1}")]
    #expect(
      parse(
        "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"a\": 1}, \"id\": \"abc123xyz\"}]", mistral,
        tools: ["f"]) == first)
    #expect(parse("[TOOL_CALLS]f[CALL_ID]abc123xyz[ARGS]{\"a\": 1}", mistral, tools: ["f"]) == first)
    #expect(
      parse("Hm.[TOOL_CALLS]f[ARGS]{\"a\": 1}[TOOL_CALLS]g[ARGS]{}", mistral, tools: ["f", "g"])
        == [.content("Hm.")] + first + [.toolCall(name: "g", arguments: "{}")])
    #expect(
      parse("[TOOL_CALLS]f[ARGS]{\"a\": ", mistral, tools: ["f"]) == [.content("[TOOL_CALLS]f[ARGS]{\"a\": ")]
    )
  }

  @Test func `XML calls take the types of their schemas`() {
    let tool: JSONValue = [
      "type": "function",
      "function": [
        "name": "f",
        "parameters": [
          "type": "object",
          "properties": [
            "s": ["type": "string"], "n": ["type": "integer"], "o": ["type": "object"],
            "b": ["type": "boolean"],
          ],
        ],
      ],
    ]
    let text =
      "<think>x</think>\n\n<tool_call>\n<function=f>\n<parameter=s>\n12\nlines <b>\n</parameter>\n<parameter=n>\n12\n</parameter>\n"
      + "<parameter=o>\n{\"k\": [1]}\n</parameter>\n<parameter=b>\nTrue\n</parameter>\n</function>\n</tool_call>"
    var parser = OutputFormat(templateSource: xml).makeParser(promptTail: "", tools: [tool])
    #expect(
      joined(parser.feed(text) + parser.finish()) == [
        .reasoning("x"),
        .toolCall(name: "f", arguments: "{\"s\":\"12\\nlines <b>\",\"n\":12,\"o\":{\"k\":[1]},\"b\":true}"),
      ])
    #expect(
      parse("<tool_call><function=g></function></tool_call>", xml, tools: ["g"]) == [
        .toolCall(name: "g", arguments: "{}")
      ])
    let broken = "<tool_call>\n<function=g>\n<parameter=a>\n1\n</tool_call>"
    #expect(parse(broken, xml, tools: ["g"]) == [.content(broken)])
  }

  @Test func `Python calls are read as literals`() {
    let lfm = "<|tool_call_start|><think>"
    func calls(_ text: String) -> [Part] {
      parse("<|tool_call_start|>\(text)<|tool_call_end|>", lfm, tools: ["f", "g"])
    }
    #expect(
      calls(#"[f(a='it\'s, (b)', n=-2.5e3, l=[1, "x", (True, None)], d={'k': {"m": False}}), g()]"#) == [
        .toolCall(
          name: "f",
          arguments: #"{"a":"it's, (b)","n":-2500.0,"l":[1,"x",[true,null]],"d":{"k":{"m":false}}}"#),
        .toolCall(name: "g", arguments: "{}"),
      ])
    #expect(
      calls(#"[f(a="caf\u00e9 \xe9 \ud83d\ude00\n" 'b', n=1_000,)]"#) == [
        .toolCall(name: "f", arguments: #"{"a":"café é 😀\nb","n":1000}"#)
      ])
    #expect(calls("f(a=true)") == [.toolCall(name: "f", arguments: #"{"a":true}"#)])
    for broken in ["[]", "[f(a=x)]", "[f(1)]", "[f(a=1]", "[f(a=1) g()]", "[f(a='x)]", "[f(a=1)] and"] {
      let text = "<|tool_call_start|>\(broken)<|tool_call_end|>"
      #expect(parse(text, lfm, tools: ["f"]) == [.content(text)], "\(broken)")
    }
  }

  // MARK: Streaming

  private func streamed(_ text: String, _ template: String, tools: [String] = ["f", "g"]) -> [OutputEvent] {
    var parser = OutputFormat(templateSource: template).makeParser(promptTail: "", toolNames: tools)
    return text.unicodeScalars.flatMap { parser.feed(String($0)) } + parser.finish()
  }

  @Test(arguments: [
    (qwen, #"<tool_call>\#n{"name": "f", "arguments": {"a": {"b": "}"}}}\#n</tool_call>"#),
    (llama, #"{"type": "function", "name": "f", "parameters": {"a": {"b": "}"}}}"#),
    (phi, #"<|tool_call|>[{"name": "f", "arguments": {"a": {"b": "}"}}}]<|/tool_call|>"#),
    (mistral, #"[TOOL_CALLS] [{"name": "f", "arguments": {"a": {"b": "}"}}}]"#),
    (mistral + "[ARGS]", #"[TOOL_CALLS]f[ARGS]{"a": {"b": "}"}}"#),
    (mistral + "[CALL_ID]", #"[TOOL_CALLS]f[CALL_ID]abc123xyz[ARGS]{"a": {"b": "}"}}"#),
  ])
  func `arguments come as they are written`(template: String, text: String) {
    let events = streamed(text, template)
    #expect(events.first == .callBegan(name: "f"))
    #expect(Array(events.dropFirst().prefix(3)) == ["{", "\"", "a"].map { OutputEvent.callArguments($0) })
    #expect(events.last == .callEnded)
    #expect(joined(events) == [.toolCall(name: "f", arguments: #"{"a": {"b": "}"}}"#)])
  }

  @Test func `the calls of one array come one after the other`() {
    let events = streamed(
      #"<|tool_call|>[{"name": "f", "arguments": {}}, {"name": "g", "arguments": {"x": 1}}]<|/tool_call|>"#,
      phi)
    #expect(events.filter { $0 == .callEnded }.count == 2)
    #expect(
      joined(events) == [
        .toolCall(name: "f", arguments: "{}"), .toolCall(name: "g", arguments: #"{"x": 1}"#),
      ])
  }

  @Test func `a call that breaks off after its arguments began is taken back`() {
    for text in [
      #"<tool_call>{"name": "f", "arguments": {"a": 1"#,
      #"<tool_call>{"name": "f", "arguments": {"a": oops}}</tool_call>"#,
      #"<tool_call>{"name": "f", "arguments": {}} and</tool_call>"#,
      #"<tool_call>{"name": "f", "arguments": {}, "name": "g"}</tool_call>"#,
    ] {
      let events = streamed(text, qwen)
      #expect(events.first == .callBegan(name: "f"))
      #expect(events.last == .callFailed(retracted: 1, text: text))
    }
  }

  @Test func `a call of an unknown tool is content`() {
    let text = #"<tool_call>{"name": "h", "arguments": {}}</tool_call>"#
    #expect(streamed("a " + text, qwen) == [.content("a"), .callFailed(retracted: 0, text: " " + text)])
    #expect(
      parse(#"<|tool_call|>[{"name": "f", "arguments": {}}, {"name": "h"}]<|/tool_call|>"#, phi, tools: ["f"])
        == [.content(#"<|tool_call|>[{"name": "f", "arguments": {}}, {"name": "h"}]<|/tool_call|>"#)])
    #expect(
      parse("<|tool_call>call:h{}<tool_call|>", gemma, tools: ["f"]) == [
        .content("<|tool_call>call:h{}<tool_call|>")
      ])
    #expect(
      parse("<tool_call><function=h></function></tool_call>", xml, tools: ["f"]) == [
        .content("<tool_call><function=h></function></tool_call>")
      ])
  }

  @Test func `arguments before the name come whole`() {
    #expect(
      streamed(#"<tool_call>{"arguments": {"a": 1}, "name": "f"}</tool_call>"#, qwen) == [
        .callBegan(name: "f"), .callArguments(#"{"a": 1}"#), .callEnded,
      ])
  }

  // MARK: Hostile output

  @Test func `no text is lost and time stays linear on marker storms`() {
    for (template, piece) in [
      (qwen, "<tool_call>"), (qwen, "{\"{\"{\""), (phi, "<|tool_call|>["), (gemma, "<|tool_call>"),
      (gemma, "<|\"|>"),
      (mistral, "[TOOL_CALLS]"), (llama, "{\"name\":"), (qwen, "</tool_call>"), (qwen, " \n"),
    ] {
      let text = String(repeating: piece, count: 20_000)
      var parser = OutputFormat(templateSource: template).makeParser(promptTail: "", toolNames: ["f"])
      let events = joined(parser.feed(text) + parser.finish())
      #expect(events == [.content(text)], "\(piece)")
    }
  }

  private static let call = #"<tool_call>{"name": "f", "arguments": {}}</tool_call>"#

  @Test(arguments: [
    (qwen, "", "", true), (qwen, "x", "x", true), (qwen, "<think>", "", false),
    (qwen, "<think>x</think>", "", false),
    (qwen, "<tool_call>", "<tool_call>", true), (qwen, call, "", false), (phi, "x", "x", true),
    (gemma, "x", "x", true), (gemma, "<|channel>thought\n", "", false),
    (mistral, "[TOOL_CALLS]", "[TOOL_CALLS]", true),
    (llama, "", "", true), (llama, "{", "{", true), (xml, "x", "x", true),
  ])
  func `white space without end is looked at once`(
    template: String, beginning: String, content: String, isContent: Bool
  ) {
    var parser = OutputFormat(templateSource: template).makeParser(promptTail: "", toolNames: ["f"])
    let space = String(repeating: " \n", count: 128)
    var events = parser.feed(beginning)
    for _ in 0..<5_000 { events += parser.feed(space) }
    let parts = joined(events + parser.finish())
    let text = content + (isContent ? String(repeating: " \n", count: 128 * 5_000) : "")
    #expect(
      parts.filter { if case .content = $0 { true } else { false } } == (text.isEmpty ? [] : [.content(text)])
    )
  }

  @Test func `an object whose first key is far away is a call or content like others`() {
    let space = String(repeating: " ", count: 300)
    let call = "{" + space + #""name": "f", "parameters": {}}"#
    #expect(parse(call, llama, tools: ["f"]) == [.toolCall(name: "f", arguments: "{}")])
    let other = "{" + space + #""answer": 42} and so on"#
    #expect(parse(other, llama, tools: ["f"]) == [.content(other)])
  }

  @Test func `an array in the place of a call is none`() {
    let text = #"<tool_call>[["name", "f"]]</tool_call>"#
    #expect(parse(text, qwen, tools: ["f"]) == [.content(text)])
  }

  // MARK: Harmony

  @Test func `gpt-oss's channels are reasoning, content and calls`() {
    #expect(
      parse(
        "<|channel|>analysis<|message|>The user wants x.<|end|><|start|>assistant<|channel|>final<|message|>Paris.",
        harmony) == [.reasoning("The user wants x."), .content("Paris.")])
    let call = "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\": \"<|x\"}"
    let wanted = Part.toolCall(name: "f", arguments: "{\"a\": \"<|x\"}")
    #expect(
      parse(
        "<|channel|>analysis<|message|>hm<|end|><|start|>assistant" + call + "<|call|>", harmony, tools: ["f"]
      )
        == [.reasoning("hm"), wanted])
    // The end token never reaches the text, and the recipient may stand in the role.
    #expect(parse(call + " \n", harmony, tools: ["f"]) == [wanted])
    #expect(
      parse(" to=functions.f<|channel|>commentary json<|message|>{}", harmony, tools: ["f"])
        == [.toolCall(name: "f", arguments: "{}")])
    #expect(
      parse(
        "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant" + call, harmony, tools: ["f"])
        == [.content("I look."), wanted])
    // Analysis for a tool is a call too.
    #expect(
      parse("<|channel|>analysis to=functions.f code<|message|>{}", harmony, tools: ["f"])
        == [.toolCall(name: "f", arguments: "{}")])
  }

  @Test func `what is no call for gpt-oss is text without markers`() {
    let call = "<|channel|>commentary to=functions.f <|constrain|>json<|message|>"
    #expect(parse(call + "{\"a\": ", harmony, tools: ["f"]) == [.content("{\"a\": ")])
    #expect(parse(call + "[1]<|call|>", harmony, tools: ["f"]) == [.content("[1]")])
    #expect(parse(call + "{}", harmony, tools: ["g"]) == [.content("{}")])
    #expect(parse(call + "{}", harmony) == [.content("{}")])
    #expect(parse(call, harmony, tools: ["f"]) == [.toolCall(name: "f", arguments: "{}")])
    #expect(parse("<|channel|>analysis", harmony) == [])
    #expect(parse("Hello, today", harmony) == [.content("Hello, today")])
    #expect(parse("today", harmony) == [.content("today")])
    #expect(
      parse("<|channel|>final<|message|>a<|end|>\n<|start|>assistant<|chan", harmony) == [.content("a")])
    #expect(
      parse("<|channel|>final<|message|>a<|channel|>analysis<|message|>b<|return|>", harmony)
        == [.content("a"), .reasoning("b")])
    #expect(
      parse("<|channel|>commentary<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b", harmony)
        == [.content("a\n\nb")])
  }

  @Test func `whether a reply of gpt-oss begins with a header does not depend on how it is cut`() {
    // No marker at the start: all of it is content, also where a message follows.
    let broken = "<|channl|ea>nalysis<|message|>a<|end|>"
    #expect(parse(broken, harmony) == [.content(broken)])
    // A header has at most 1,024 bytes, its end among them.
    let channel = "<|channel|>final"
    let room = 1024 - channel.utf8.count - "<|message|>".utf8.count
    let longest = channel + String(repeating: " ", count: room) + "<|message|>a"
    #expect(parse(longest, harmony) == [.content("a")])
    let longer = channel + String(repeating: " ", count: room + 1) + "<|message|>a"
    #expect(parse(longer, harmony) == [.content(longer)])
    // The message after a later one that is longer is content.
    let later = "<|channel|>analysis" + String(repeating: "\u{e9}", count: 600) + "<|message|>a"
    #expect(
      parse("<|channel|>analysis<|message|>b<|end|><|start|>assistant" + later, harmony)
        == [.reasoning("b"), .content("a")])
  }

  @Test func `a reply of gpt-oss may go on with a message that has begun`() {
    #expect(
      parse(" Paris.", harmony, prompt: "<|start|>assistant<|channel|>final<|message|>It is")
        == [.content(" Paris.")])
    #expect(
      parse(
        "hm<|end|><|start|>assistant<|channel|>final<|message|>b", harmony,
        prompt: "<|start|>user<|message|>x<|end|><|start|>assistant<|channel|>analysis<|message|>")
        == [.reasoning("hm"), .content("b")])
    #expect(
      parse(
        "<|channel|>final<|message|>b", harmony, prompt: "<|start|>user<|message|>x<|end|><|start|>assistant")
        == [.content("b")])
  }

  // MARK: Other tags

  @Test func `values of other tags take the types of their schemas`() {
    let tool: JSONValue = [
      "type": "function",
      "function": [
        "name": "f",
        "parameters": [
          "type": "object",
          "properties": [
            "s": ["type": "string"], "n": ["type": "integer"], "b": ["type": "boolean"],
            "u": ["anyOf": [["type": "string"], ["type": "null"]]], "e": ["enum": ["1", "2"]],
          ],
        ],
      ],
    ]
    func calls(_ text: String, _ source: String) -> [String] {
      var parser = OutputFormat(templateSource: source).makeParser(promptTail: "", tools: [tool])
      return (parser.feed(text) + parser.finish()).compactMap {
        if case .callArguments(let text) = $0 { text } else { nil }
      }
    }
    let glm =
      "<tool_call>f<arg_key>s</arg_key><arg_value>007</arg_value><arg_key>n</arg_key><arg_value> 7 </arg_value>"
      + "<arg_key>b</arg_key><arg_value>True</arg_value><arg_key>u</arg_key><arg_value>null</arg_value>"
      + "<arg_key>e</arg_key><arg_value>1</arg_value></tool_call>"
    #expect(calls(glm, "<arg_key>") == [#"{"s":"007","n":7,"b":true,"u":null,"e":"1"}"#])
    // Without its last tags.
    #expect(
      calls("<tool_call>f<arg_key>n</arg_key><arg_value>7", "<arg_key>") == [#"{"n":7}"#])
    let invoke = "<minimax:tool_call><invoke name=\"f\"><parameter name=\"s\">true</parameter></invoke>"
    #expect(calls(invoke + "</minimax:tool_call>", "<minimax:tool_call>") == [#"{"s":"true"}"#])
    let dsml = "<｜DSML｜tool_calls><｜DSML｜invoke name=\"f\"><｜DSML｜parameter name=\"x\" string=\"true\">7"
    #expect(
      calls(dsml + "</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜tool_calls>", "｜DSML｜tool_calls>")
        == [#"{"x":"7"}"#])
  }

  @Test func `malformed calls of other tags stay text`() {
    for (text, source) in [
      ("<tool_call>two words<arg_key>a</arg_key></tool_call>", "<arg_key>"),
      ("<|tool_calls_section_begin|>f<|tool_calls_section_end|>", "<|tool_calls_section_begin|>"),
      ("<minimax:tool_call><invoke>f</invoke></minimax:tool_call>", "<minimax:tool_call>"),
      ("<|START_ACTION|>f<|END_ACTION|>", "<|START_ACTION|>"),
      ("<｜tool▁calls▁begin｜>f<｜tool▁calls▁end｜>", "<｜tool▁calls▁begin｜>"),
    ] {
      #expect(parse(text, source, tools: ["f"]) == [.content(text)])
    }
  }

  @Test func `whether a call is streamed does not depend on how it is cut`() {
    let (before, after) = ("{\"name\":", "\"f\",\"parameters\":")
    // The arguments begin within 256 bytes, or at the end.
    let room = 255 - before.utf8.count - after.utf8.count
    for (space, isStreamed) in [(room, true), (room + 1, false), (400, false)] {
      let call = Array((before + String(repeating: " ", count: space) + after + "{\"a\":1").unicodeScalars)
      for length in [1, 2, 7, 250, call.count] {
        var parser = OutputFormat(templateSource: llama).makeParser(promptTail: "", toolNames: ["f"])
        var events: [OutputEvent] = []
        for start in stride(from: 0, to: call.count, by: length) {
          let piece = call[start..<min(start + length, call.count)]
          events += parser.feed(String(String.UnicodeScalarView(piece)))
        }
        #expect(events.contains(.callBegan(name: "f")) == isStreamed, "\(space) spaces, pieces of \(length)")
      }
    }
  }

  @Test func `where a call's arguments begin does not depend on how it is cut`() {
    let source = mistral + "[CALL_ID]"
    for (text, arguments) in [
      // The marker behind the first brace is part of the arguments, or of nothing.
      (#"[TOOL_CALLS]f{"a":"[ARGS]"}"#, #"{"a":"[ARGS]"}"#),
      (#"[TOOL_CALLS]f[CALL_ID][{"a":1}]1[ARGS]{}"#, nil),
      (#"[TOOL_CALLS]f[CALL_ID]abc{"a":1}"#, #"{"a":1}"#), (#"[TOOL_CALLS]two words[ARGS]{}"#, nil),
    ] {
      let expected: [Part] = arguments.map { [.toolCall(name: "f", arguments: $0)] } ?? [.content(text)]
      #expect(parse(text, source, tools: ["f", "two words"]) == expected)
      for length in [1, 3, 20] {
        var parser = OutputFormat(templateSource: source).makeParser(
          promptTail: "", toolNames: ["f", "two words"])
        var events: [OutputEvent] = []
        let scalars = Array(text.unicodeScalars)
        for start in stride(from: 0, to: scalars.count, by: length) {
          let piece = scalars[start..<min(start + length, scalars.count)]
          events += parser.feed(String(String.UnicodeScalarView(piece)))
        }
        events += parser.finish()
        let isTaken = events.contains { if case .callFailed = $0 { true } else { false } }
        let isContent = !events.contains { if case .callBegan = $0 { true } else { false } }
        #expect((isTaken || isContent) == (arguments == nil), "\(text) in pieces of \(length)")
      }
    }
  }

  @Test func `random replies give the same events however they are cut`() {
    var random = SeededGenerator(seed: 7)
    let parts = [
      "<tool_call>", "</tool_call>", "<think>", "</think>", "{\"name\": \"f\", \"arguments\": {}}", "\"",
      "\\", "\n", " ", "é",
      "<|tool_call>", "<tool_call|>", "call:f{a:<|\"|>x<|\"|>}", "<|channel>", "<channel|>", "thought\n",
      "[TOOL_CALLS]",
      "f[ARGS]{}", "{", "}", "<|tool_call|>", "<|/tool_call|>", "functools[", "]", "<function=f>",
      "</function>", "text", "<", "[",
    ]
    for _ in 0..<3000 {
      let template = [qwen, llama, phi, gemma, mistral, xml].randomElement(using: &random) ?? qwen
      let text = (0..<Int.random(in: 1...12, using: &random)).map { _ in
        parts.randomElement(using: &random) ?? ""
      }.joined()
      let format = OutputFormat(templateSource: template)
      var whole = format.makeParser(promptTail: "", toolNames: ["f"])
      let expected = joined(whole.feed(text) + whole.finish())
      var cut = format.makeParser(promptTail: "", toolNames: ["f"])
      var events: [OutputEvent] = []
      var rest = Array(text.unicodeScalars)[...]
      while !rest.isEmpty {
        let count = min(rest.count, Int.random(in: 1...5, using: &random))
        events += cut.feed(String(String.UnicodeScalarView(rest.prefix(count))))
        rest = rest.dropFirst(count)
      }
      #expect(joined(events + cut.finish()) == expected, "\(text.debugDescription)")
    }
  }
}
