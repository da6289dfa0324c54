// Prompts from messages with the real templates of the families.

import Chat
import JSON
import Platform
import Support
import Testing

private let weather: JSONValue = [
  "type": "function",
  "function": [
    "name": "get_weather", "description": "Get the weather.",
    "parameters": [
      "type": "object", "properties": ["city": ["type": "string"], "days": ["type": "integer"]],
      "required": ["city"],
    ],
  ],
]

private func call(_ name: String, _ arguments: String, id: String = "call_0123456789") -> JSONValue {
  [
    "id": .string(id), "type": "function",
    "function": ["name": .string(name), "arguments": .string(arguments)],
  ]
}

private func family(_ name: String) throws -> ChatTemplate {
  let folders = ["families", "llama.cpp"].map { (TestData.shared ?? "") + "/chat-templates/\($0)/" }
  let path = try #require(folders.map { $0 + name + ".jinja" }.first { File.exists($0) }, "\(name)")
  return try template(String(decoding: try TestData.bytes(path), as: UTF8.self))
}

private func template(_ source: String) throws(ChatError) -> ChatTemplate {
  try ChatTemplate(
    source: source, specialTokens: [("bos_token", "<BOS>"), ("eos_token", "<EOS>")],
    localTime: { (1_735_787_045, 0) })
}

@Suite(.enabled(if: TestData.shared != nil, "the shared data is not beside the package"))
struct FamilyTemplateTests {
  static let withTools: [(String, OutputFormat.ToolSyntax)] = [
    ("Qwen-Qwen3-0.6B", .qwen), ("Qwen-Qwen2.5-7B-Instruct", .qwen), ("trl-qwen3", .qwen),
    ("trl-qwen2_5", .qwen),
    ("Qwen-QwQ-32B", .qwen), ("trl-qwen3_instruct_2507", .qwen),
    ("meta-llama-Llama-3.1-8B-Instruct", .llama), ("meta-llama-Llama-3.2-3B-Instruct", .llama),
    ("meta-llama-Llama-3.3-70B-Instruct", .llama), ("trl-llama3_1", .llama), ("trl-llama3_2", .llama),
    ("microsoft-Phi-4-mini-instruct", .phi), ("llama-cpp-microsoft-Phi-4-mini-instruct", .phi),
    ("google-gemma-4-E2B-it", .gemma), ("google-gemma-4-31B-it", .gemma),
    ("google-gemma-4-31B-it-interleaved", .gemma), ("mistralai-Mistral-Nemo-Instruct-2407", .mistral),
    ("Mistral-Small-3.2-24B-Instruct-2506", .mistral), ("mistralai-Ministral-3-14B-Reasoning-2512", .mistral),
    ("Qwen3-Coder", .xml), ("Qwen3.5-4B", .xml), ("trl-qwen3_6", .xml),
    ("LFM2-8B-A1B", .python), ("LFM2.5-8B-A1B", .python),
    ("NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", .xml),
    ("../llama.cpp/GLM-4.6", .glm), ("../llama.cpp/GLM-4.7-Flash", .glm),
    ("../llama.cpp/deepseek-ai-DeepSeek-V4", .dsml),
    ("../llama.cpp/CohereForAI-c4ai-command-r7b-12-2024-tool_use", .command),
  ]

  @Test(arguments: withTools)
  func `a call survives the way through the template and the parser`(
    name: String, syntax: OutputFormat.ToolSyntax
  ) throws {
    let template = try family(name)
    #expect(template.supportsTools)
    #expect(template.format.toolSyntax == syntax)
    let arguments = "{\"city\":\"Paris \\\"é\\\" {x}\",\"days\":3}"
    let user: JSONValue = ["role": "user", "content": "Weather?"]
    let answer: JSONValue = [
      "role": "assistant", "content": nil, "tool_calls": [call("get_weather", arguments)],
    ]
    let prompt = try template.render(Conversation(messages: [user], tools: [weather]))
    #expect(prompt.contains("get_weather"))
    let full = try template.render(
      Conversation(messages: [user, answer], tools: [weather], addGenerationPrompt: false))
    // What the model would have written: everything after the prompt that both have.
    var shared = zip(prompt.utf8, full.utf8).prefix { $0 == $1 }.count
    // Prompts that begin reasoning share the first bytes of its marker with the call's.
    while let last = full.utf8.prefix(shared).last, !"\n>]".utf8.contains(last) { shared -= 1 }
    var text = String(decoding: full.utf8.dropFirst(shared), as: UTF8.self)
    let ends = [
      "<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<turn|>", "<|tool_response>", "<EOS>",
      "<|observation|>", "<|END_OF_TURN_TOKEN|>", "<｜end▁of▁sentence｜>",
    ]
    for end in ends {
      if let range = text.firstRange(of: end) { text = String(text[..<range.lowerBound]) }
    }
    // GLM's prompt opens reasoning, which the template closes at once in turns that have none.
    if syntax == .glm, text.hasPrefix("</think>") { text = String(text.dropFirst("</think>".count)) }
    // A template may put empty reasoning before the call.
    var parser = template.format.makeParser(promptTail: String(prompt.prefix(shared)), tools: [weather])
    let events = parser.feed(text) + parser.finish()
    guard case .callBegan(let called) = events.first, events.count == 3,
      case .callArguments(let parsed) = events[1],
      events[2] == .callEnded
    else {
      Issue.record("\(text.debugDescription) gave \(events)")
      return
    }
    #expect(called == "get_weather")
    #expect(try JSONValue(parsing: parsed) == JSONValue(parsing: arguments))
  }

  @Test(arguments: withTools)
  func `a whole tool conversation renders, with several calls, parts and null content`(
    name: String, syntax: OutputFormat.ToolSyntax
  ) throws {
    let template = try family(name)
    let messages: [JSONValue] = [
      ["role": "developer", "content": "Be brief."],
      [
        "role": "user",
        "content": [["type": "text", "text": "Weather "], ["type": "text", "text": "there?"]],
      ],
      [
        "role": "assistant", "content": nil,
        "tool_calls": [
          call("get_weather", "{\"city\": \"Paris\"}", id: "call_a"),
          call("get_weather", "{\"city\": \"Rome\"}", id: "call_b"),
        ],
      ],
      ["role": "tool", "tool_call_id": "call_a", "content": "21 degrees"],
      ["role": "tool", "tool_call_id": "call_b", "content": [["type": "text", "text": "31 degrees"]]],
      ["role": "assistant", "content": "Warm.", "tool_calls": []],
      ["role": "user", "content": "Thanks"],
    ]
    let prompt = try template.render(Conversation(messages: messages, tools: [weather]))
    for part in [
      "Be brief.", "Weather there?", "Paris", "Rome", "21 degrees", "31 degrees", "Warm.", "Thanks",
    ] {
      #expect(prompt.contains(part), "\(part) is missing in \(prompt)")
    }
    #expect(!prompt.contains("None"))
  }

  @Test(arguments: [
    "chat-templates/families/google-gemma-4-31B-it-interleaved.jinja",
    "tokenizers/gemma-4/chat_template.jinja",
  ])
  func `results stand in the turn of their calls where a template knows them only there`(path: String) throws
  {
    let source = String(
      decoding: try TestData.bytes((TestData.shared ?? "") + "/" + path), as: UTF8.self)
    let template = try template(source)
    let messages: [JSONValue] = [
      ["role": "user", "content": "Weather?"],
      [
        "role": "assistant", "content": "I look it up.",
        "tool_calls": [
          call("get_weather", "{\"city\":\"Paris\"}", id: "a"),
          call("get_weather", "{\"city\":\"Rome\"}", id: "b"),
        ],
      ],
      ["role": "tool", "tool_call_id": "a", "content": "21 degrees"],
      ["role": "tool", "tool_call_id": "b", "content": "31 degrees"],
      ["role": "assistant", "content": "Warm."],
      ["role": "user", "content": "Thanks"],
    ]
    let prompt = try template.render(Conversation(messages: messages, tools: [weather]))
    let turn = [
      "<|turn>model\nI look it up.<turn|>\n<|turn>model\n",
      "<|tool_call>call:get_weather{city:<|\"|>Paris<|\"|>}<tool_call|>",
      "<|tool_call>call:get_weather{city:<|\"|>Rome<|\"|>}<tool_call|>",
      "<|tool_response>response:get_weather{value:<|\"|>21 degrees<|\"|>}<tool_response|>",
      "<|tool_response>response:get_weather{value:<|\"|>31 degrees<|\"|>}<tool_response|>",
      "Warm.<turn|>\n<|turn>user\nThanks<turn|>\n",
    ].joined()
    #expect(prompt.contains(turn), "\(prompt)")
    // The answer continues the turn of the calls.
    let open = try template.render(Conversation(messages: Array(messages.prefix(4)), tools: [weather]))
    #expect(open.contains("31 degrees<|\"|>}<tool_response|>") && !open.contains("<|turn>tool"), "\(open)")
  }

  @Test func `reasoning of earlier turns is not in the prompt`() throws {
    for name in [
      "Qwen-Qwen3-0.6B", "trl-qwen3", "google-gemma-4-E2B-it", "microsoft-Phi-4-mini-reasoning", "Qwen3.5-4B",
      "Qwen-QwQ-32B",
      "HuggingFaceTB-SmolLM2-Instruct",
    ] {
      let template = try family(name)
      let messages: [JSONValue] = [
        ["role": "user", "content": "A?"],
        ["role": "assistant", "content": "<think>\nsecret\n</think>\n\nB.", "reasoning_content": "hidden"],
        ["role": "user", "content": "C?"],
      ]
      guard name != "google-gemma-4-E2B-it" else {
        let gemma: JSONValue = ["role": "assistant", "content": "B.", "reasoning_content": "hidden"]
        let prompt = try template.render(Conversation(messages: [messages[0], gemma, messages[2]]))
        #expect(!prompt.contains("hidden") && prompt.contains("B."))
        continue
      }
      let prompt = try template.render(Conversation(messages: messages))
      #expect(
        !prompt.contains("secret") && !prompt.contains("hidden") && prompt.contains("B."),
        "\(name): \(prompt)")
    }
  }

  @Test func `the thinking switch reaches the template, and the prompt says where the reply starts`() throws {
    let template = try family("Qwen-Qwen3-0.6B")
    #expect(template.format.supportsThinkingSwitch && template.format.supportsReasoning)
    let messages: [JSONValue] = [["role": "user", "content": "Hi"]]
    let off = try template.render(
      Conversation(messages: messages, templateArguments: JSONObject([("enable_thinking", false)])))
    #expect(off == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n")
    #expect(!template.format.startsInsideReasoning(promptTail: off))
    let always = try family("Qwen-QwQ-32B.older")
    let prompt = try always.render(Conversation(messages: messages))
    #expect(always.format.startsInsideReasoning(promptTail: prompt))
    #expect(try family("Qwen-Qwen2.5-7B-Instruct").format.supportsThinkingSwitch == false)
  }

  @Test func `Phi-4-mini gets its tools on the system message`() throws {
    let template = try family("microsoft-Phi-4-mini-instruct")
    let messages: [JSONValue] = [
      ["role": "user", "content": "Weather?"],
      ["role": "assistant", "content": nil, "tool_calls": [call("get_weather", "{\"city\": \"Paris\"}")]],
      ["role": "tool", "tool_call_id": "call_0123456789", "content": "21"],
    ]
    #expect(
      try template.render(Conversation(messages: messages, tools: [weather])) == """
        <|system|>You are a helpful assistant with some tools.<|tool|>[{"name":"get_weather","description":"Get the \
        weather.","parameters":{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"}},\
        "required":["city"]}}]<|/tool|><|end|><|user|>Weather?<|end|><|assistant|><|tool_call|>[{"name":"get_weather",\
        "arguments":{"city":"Paris"}}]<|/tool_call|><|end|><|tool_response|>21<|end|><|assistant|>
        """)
  }

  @Test func `templates without a system role or with strict turns get merged messages`() throws {
    let template = try family("google-gemma-2-2b-it")
    #expect(!template.supportsTools)
    let messages: [JSONValue] = [
      ["role": "system", "content": "Be brief."], ["role": "user", "content": "A"],
      ["role": "user", "content": "B"],
    ]
    #expect(
      try template.render(Conversation(messages: messages))
        == "<BOS><start_of_turn>user\nBe brief.\n\nA\n\nB<end_of_turn>\n<start_of_turn>model\n")
  }

  @Test func `the last message can be continued`() throws {
    for name in [
      "Qwen-Qwen3-0.6B", "meta-llama-Llama-3.2-3B-Instruct", "microsoft-Phi-3.5-mini-instruct",
      "google-gemma-4-E2B-it",
    ] {
      let messages: [JSONValue] = [
        ["role": "user", "content": "Count"], ["role": "assistant", "content": "One, two,"],
      ]
      let prompt = try family(name).render(Conversation(messages: messages, continueFinalMessage: true))
      #expect(prompt.hasSuffix("One, two,"), "\(name): \(prompt)")
    }
  }
}

@Suite struct ChatTemplateTests {
  @Test func `a template that knows results only beside their calls gets them there`() throws {
    let template = try template(
      """
      {%- if tools %}{{ tools[0].function.name }};{% endif -%}
      {%- for m in messages -%}
      {{ m.role }}:
      {%- for c in m.tool_calls %} call {{ c.function.name }} {{ c.function.arguments | tojson }}{% endfor -%}
      {%- for r in m.tool_responses %} <tool_response>{{ r.name }} = {{ r.response }}{% endfor %} {{ m.content }};
      {%- endfor -%}
      """)
    let messages: [JSONValue] = [
      ["role": "user", "content": "Weather?"],
      ["role": "assistant", "tool_calls": [call("get_weather", "{}", id: "a")]],
      ["role": "tool", "tool_call_id": "a", "content": "21"],
      ["role": "assistant", "content": "Warm."],
    ]
    let prompt = try template.render(Conversation(messages: messages, tools: [weather]))
    #expect(
      prompt
        == "get_weather;user: Weather?;assistant: call get_weather {} <tool_response>get_weather = 21 Warm.;")
  }

  static let strictTurns = """
    {%- for m in messages -%}
    {%- if m.role != ('user', 'assistant')[loop.index0 % 2] %}{{ raise_exception('turns') }}{% endif -%}
    {{ PRINTED }};
    {%- endfor -%}
    """

  private func strictTurns(printing words: String) throws -> ChatTemplate {
    try template(Self.strictTurns.replacing("PRINTED", with: words))
  }

  @Test func `neighbours of one role are one message where turns alternate, unless one has parts or calls`()
    throws
  {
    let messages: [JSONValue] = [
      ["role": "user", "content": "A", "name": "n"], ["role": "user", "content": "B"],
      ["role": "user", "content": ""], ["role": "assistant", "content": "C"],
      ["role": "assistant", "content": "D"], ["role": "user", "content": "E"],
    ]
    let template = try strictTurns(printing: "m.content ~ (m.name or '')")
    #expect(try template.render(Conversation(messages: messages)) == "A\n\nB\n\nn;C\n\nD;E;")
    // The template shows no calls: there they are text, which joins the text before.
    let calling: JSONValue = ["role": "assistant", "content": "C", "tool_calls": [call("f", "{}")]]
    let called = "C\n\nC\n<tool_call>\n{\"name\":\"f\",\"arguments\":{}}\n</tool_call>;"
    #expect(
      try template.render(
        Conversation(messages: [messages[0], messages[3], calling], addGenerationPrompt: false)) == "An;"
        + called)
    // Its check of the turns does nothing where it stands in the way of an answer.
    #expect(
      try template.render(Conversation(messages: [calling], addGenerationPrompt: false))
        == called.dropFirst(3))
  }

  @Test func `ten thousand neighbours are joined once`() throws {
    let message: JSONValue = ["role": "user", "content": .string(String(repeating: "x", count: 800))]
    let prompt = try strictTurns(printing: "m.content | length").render(
      Conversation(messages: Array(repeating: message, count: 10_000)))
    #expect(prompt == "8019998;")
  }

  @Test(arguments: [
    ("", "<think>", "</think>", "[THINK]x[/THINK]"),
    ("[THINK]", "[THINK]", "[/THINK]", "<think>x</think>"),
    ("<|channel>", "<|channel>thought\n", "<channel|>", "<think>x</think>"),
  ])
  func `reasoning that clients send back in the text is not in the prompt, whatever their marks`(
    word: String, open: String, close: String, other: String
  ) throws {
    let template = try template(
      "{#- \(word) -#}{%- for m in messages %}{{ m.role }}: {{ m.content }};{% endfor %}")
    let reasoning = "\n\(open)secret\(close)"
    let messages: [JSONValue] = [
      ["role": "user", "content": .string("\(reasoning)A")],
      ["role": "assistant", "content": .string("\(reasoning)\n\nB.\(reasoning)")],
      ["role": "assistant", "content": .string("\(other)C.")],
      ["role": "user", "content": "D"],
      // Of the turn that goes on: only what is said twice is left out.
      ["role": "assistant", "content": .string("\(reasoning)E."), "reasoning_content": "secret"],
      ["role": "assistant", "content": .string("\(reasoning)F.")],
    ]
    #expect(
      try template.render(Conversation(messages: messages))
        == "user: \(reasoning)A;assistant: B.\(reasoning);assistant: \(other)C.;user: D;assistant: E.;"
        + "assistant: \(reasoning)F.;")
  }

  static let chatML = """
    {%- for message in messages %}{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
    {%- endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}
    """

  @Test func `arguments cannot replace the standard variables`() throws {
    let template = try template(Self.chatML + "{{ eos_token }}{{ extra }}")
    let members: [(String, JSONValue)] = [
      ("messages", []), ("add_generation_prompt", false), ("eos_token", "FORGED"), ("extra", 1),
    ]
    let arguments = JSONObject(members)
    #expect(
      try template.render(
        Conversation(messages: [["role": "user", "content": "Hi"]], templateArguments: arguments))
        == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<EOS>1")
  }

  @Test func `a template that only takes text refuses other parts by type`() throws {
    let template = try template(Self.chatML)
    let parts: JSONValue = [
      ["type": "text", "text": "What?"], ["type": "image_url", "image_url": ["url": "data:"]],
    ]
    #expect(throws: ChatError.unsupportedPart(type: "image_url")) {
      try template.render(Conversation(messages: [["role": "user", "content": parts]]))
    }
  }

  @Test func `a refusal carries the template's words, other failures the place`() throws {
    let refusing = try template("{{ raise_exception('no ' ~ messages[0].role) }}")
    #expect(throws: ChatError.refused("no user")) {
      try refusing.render(Conversation(messages: [["role": "user", "content": "x"]]))
    }
    let failing = try template("{{ messages[0].x.y }}")
    do throws(ChatError) {
      _ = try failing.render(Conversation(messages: [["role": "user", "content": "x"]]))
      Issue.record("no error")
    } catch {
      #expect("\(error)" == "chat template failed at line 1, column 17: 'dict object' has no attribute 'x'")
    }
  }

  @Test func `a template that cannot be loaded is named with line and column`() {
    do throws(ChatError) {
      _ = try template("\n{{ x|nope }}")
      Issue.record("no error")
    } catch {
      #expect("\(error)".hasPrefix("chat template, line 2, column 6: unknown filter 'nope'"))
    }
  }

  @Test func `a call whose arguments broke off is shown as it was`() throws {
    let source =
      "{% for m in messages %}{% for c in m.tool_calls or [] %}{{ c.function.arguments | tojson }}"
      + "{% endfor %}{% endfor %}{{ tools }}"
    let messages: [JSONValue] = [
      ["role": "user", "content": "x"],
      [
        "role": "assistant",
        "tool_calls": [call("f", "{\"city\": \"Par"), call("f", "[1]"), call("f", "{}")],
      ],
    ]
    let prompt = try template(source).render(Conversation(messages: messages, tools: [weather]))
    #expect(
      prompt.hasPrefix(#"{"malformed_json": "{\"city\": \"Par"}{"malformed_json": "[1]"}{}"#), "\(prompt)")
  }

  @Test func `messages and calls of the wrong shape are named by their index`() throws {
    let template = try template(Self.chatML)
    let user: JSONValue = ["role": "user", "content": "x"]
    for (message, problem): (JSONValue, String) in [
      ("x", "not an object"), (["content": "x"], "'role' is missing"),
      (["role": "assistant", "tool_calls": [["id": "a"]]], "a tool call without a function name"),
    ] {
      #expect(throws: ChatError.malformedMessage(index: 1, problem: problem)) {
        try template.render(Conversation(messages: [user, message]))
      }
    }
  }

  @Test func `text of the user is never read as template`() throws {
    let text = "{{ 7*7 }}{% for %}{# x"
    let prompt = try template(Self.chatML).render(
      Conversation(messages: [["role": "user", "content": .string(text)]]))
    #expect(prompt.contains(text))
  }

  @Test func `continuing needs an assistant message with text`() throws {
    let template = try template(Self.chatML)
    for message: JSONValue in [["role": "user", "content": "x"], ["role": "assistant", "content": " "]] {
      #expect(throws: ChatError.self) {
        try template.render(Conversation(messages: [message], continueFinalMessage: true))
      }
    }
  }

  @Test func `a message is continued where its text stands last`() throws {
    let twice = try template(
      "{% for m in messages %}[{{ m.content }}]{% endfor %}{{ messages[0].content | upper }}")
    func continued(_ user: String, _ answer: String) throws -> String {
      let messages: [JSONValue] = [
        ["role": "user", "content": .string(user)], ["role": "assistant", "content": .string(answer)],
      ]
      return try twice.render(Conversation(messages: messages, continueFinalMessage: true))
    }
    #expect(try continued("aab", "aab") == "[aab][aab")
    #expect(try continued("aa", "aaa") == "[aa][aaa")
    #expect(try continued("abab", "ab") == "[abab][ab")
    #expect(try continued("x", " \u{E9}\u{E9} ") == "[x][ \u{E9}\u{E9}")
    #expect(try continued("X", "X") == "[X][X]X")
    #expect(throws: ChatError.cannotContinue("the chat template changes its text")) {
      try template("{{ messages[1].content | replace('ab', 'ba') }}").render(
        Conversation(
          messages: [["role": "user", "content": "ab"], ["role": "assistant", "content": "aab"]],
          continueFinalMessage: true))
    }
  }

  @Test func `the demo model's template renders tools and calls, and its format is known`() throws {
    let path = TestData.fixtures + "/models/demo/chat_template.jinja"
    let template = try template(String(decoding: try TestData.bytes(path), as: UTF8.self))
    #expect(template.supportsTools && template.format.toolSyntax == .qwen)
    let user: JSONValue = ["role": "user", "content": "Hi"]
    let prompt = try template.render(Conversation(messages: [user]))
    #expect(
      prompt.contains("<|im_start|>user\nHi<|im_end|>\n") && prompt.hasSuffix("<|im_start|>assistant\n"))
    let answer: JSONValue = [
      "role": "assistant", "content": "", "tool_calls": [call("get_weather", "{\"city\":\"Rome\"}")],
    ]
    let full = try template.render(
      Conversation(messages: [user, answer], tools: [weather], addGenerationPrompt: false))
    let start = try #require(full.ranges(of: "<tool_call>").last?.lowerBound)
    var parser = template.format.makeParser(promptTail: prompt, tools: [weather])
    let events = parser.feed(String(full[start...])) + parser.finish()
    #expect(
      Array(events.prefix(3)) == [
        .callBegan(name: "get_weather"), .callArguments("{\"city\": \"Rome\"}"), .callEnded,
      ])
  }
}

/// Shaped like the template of gpt-oss where messages are printed.
private let harmonySource = """
  {{- "<|start|>system<|message|>Reasoning: " + (reasoning_effort | default("medium")) + "<|end|>" }}
  {%- set loop_messages = messages %}
  {%- if messages[0].role in ["developer", "system"] %}
  {{- "<|start|>developer<|message|># Instructions\\n\\n" + messages[0].content + "<|end|>" }}
  {%- set loop_messages = messages[1:] %}
  {%- endif %}
  {%- if tools %}{% for tool in tools %}{{ "type " + tool.function.name }}{% endfor %}{% endif %}
  {%- set last = namespace(name=none) %}
  {%- for message in loop_messages %}
  {%- if message.role == "assistant" and "tool_calls" in message %}
  {%- if message.content and message.thinking %}{{ raise_exception("both") }}{% endif %}
  {%- if message.content or message.thinking %}
  {{- "<|start|>assistant<|channel|>analysis<|message|>" + (message.content or message.thinking) + "<|end|>" }}
  {%- endif %}
  {%- set call = message.tool_calls[0].function %}
  {{- "<|start|>assistant to=functions." + call.name + "<|channel|>commentary json<|message|>" }}
  {{- call.arguments | tojson + "<|call|>" }}
  {%- set last.name = call.name %}
  {%- elif message.role == "assistant" %}
  {{- "<|start|>assistant<|channel|>final<|message|>" + message.content }}
  {{- "<|return|>" if loop.last and not add_generation_prompt else "<|end|>" }}
  {%- elif message.role == "tool" %}
  {%- if last.name is none %}{{ raise_exception("no call") }}{% endif %}
  {{- "<|start|>functions." + last.name + " to=assistant<|channel|>commentary<|message|>" }}
  {{- message.content | tojson + "<|end|>" }}
  {%- elif message.role == "user" %}{{- "<|start|>user<|message|>" + message.content + "<|end|>" }}
  {%- endif %}
  {%- endfor %}
  {%- if add_generation_prompt %}<|start|>assistant{% endif %}
  """

@Suite struct HarmonyTemplateTests {
  @Test func `calls are split, reasoning stands with them alone, and later system texts are the user's`()
    throws
  {
    let template = try template(harmonySource)
    #expect(template.format.toolSyntax == .harmony && template.supportsTools)
    let text = try template.render(
      Conversation(
        messages: [
          ["role": "system", "content": "A"], ["role": "user", "content": "u"],
          ["role": "assistant", "content": "earlier", "reasoning_content": "dropped"],
          ["role": "developer", "content": "B"], ["role": "user", "content": "v"],
          [
            "role": "assistant", "content": "", "reasoning_content": "why",
            "tool_calls": [
              call("get_weather", "{\"city\": \"Paris\"}", id: "a"),
              call("get_weather", "{\"city\": \"Rome\"}", id: "b"),
            ],
          ],
          ["role": "tool", "tool_call_id": "b", "content": "rain"],
          ["role": "tool", "tool_call_id": "a", "content": "sun"],
        ], tools: [weather]))
    let wanted =
      "<|start|>system<|message|>Reasoning: medium<|end|><|start|>developer<|message|># Instructions\n\nA<|end|>"
      + "type get_weather<|start|>user<|message|>u<|end|>"
      + "<|start|>assistant<|channel|>final<|message|>earlier<|end|><|start|>user<|message|>B<|end|><|start|>user<|message|>v<|end|>"
      + "<|start|>assistant<|channel|>analysis<|message|>why<|end|>"
      + "<|start|>assistant to=functions.get_weather<|channel|>commentary json<|message|>{\"city\": \"Paris\"}<|call|>"
      + "<|start|>functions.get_weather to=assistant<|channel|>commentary<|message|>\"sun\"<|end|>"
      + "<|start|>assistant to=functions.get_weather<|channel|>commentary json<|message|>{\"city\": \"Rome\"}<|call|>"
      + "<|start|>functions.get_weather to=assistant<|channel|>commentary<|message|>\"rain\"<|end|><|start|>assistant"
    #expect(text == wanted)
  }

  @Test func `reasoning and a word before a call do not meet in one message`() throws {
    let text = try template(harmonySource).render(
      Conversation(
        messages: [
          ["role": "user", "content": "u"],
          [
            "role": "assistant", "content": "I look.", "reasoning_content": "why",
            "tool_calls": [call("get_weather", "{}")],
          ],
        ], tools: [weather], addGenerationPrompt: false))
    #expect(text.contains("analysis<|message|>why\n\nI look.<|end|>"))
  }
}
