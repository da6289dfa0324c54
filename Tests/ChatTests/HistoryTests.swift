// Histories as clients send them, with the real templates: each gives a prompt with all of its contents, in order.

import Chat
import JSON
import Platform
import Support
import Testing

/// A message, with short words as contents.
private enum Turn {
  case system(String)
  case developer(String)
  case user(String)
  case parts([String])
  case answer(String)
  case calls([(id: String, value: String)], beside: String = "")
  case result(String, String)

  var isSystem: Bool { message["role"] == "system" || message["role"] == "developer" }

  var message: JSONValue {
    switch self {
    case .system(let text): ["role": "system", "content": .string(text)]
    case .developer(let text): ["role": "developer", "content": .string(text)]
    case .user(let text): ["role": "user", "content": .string(text)]
    case .parts(let texts):
      ["role": "user", "content": .array(texts.map { ["type": "text", "text": .string($0)] })]
    case .answer(let text): ["role": "assistant", "content": .string(text)]
    case .calls(let calls, let text):
      [
        "role": "assistant", "content": text.isEmpty ? nil : .string(text),
        "tool_calls": .array(
          calls.map { call in
            [
              "id": .string(call.id), "type": "function",
              "function": [
                "name": "get_weather", "arguments": .string(#"{"city":"\#(call.value)"}"#),
              ],
            ]
          }),
      ]
    case .result(let id, let text):
      ["role": "tool", "tool_call_id": .string(id), "content": .string(text)]
    }
  }
}

private let weather: JSONValue = [
  "type": "function",
  "function": [
    "name": "get_weather", "description": "Get the weather.",
    "parameters": [
      "type": "object", "properties": ["city": ["type": "string", "description": "City"]],
      "required": ["city"],
    ],
  ],
]

private func template(_ source: String) throws(ChatError) -> ChatTemplate {
  try ChatTemplate(
    source: source,
    specialTokens: [
      ("bos_token", "<BOS>"), ("eos_token", "<EOS>"), ("unk_token", "<UNK>"), ("pad_token", "<PAD>"),
    ],
    localTime: { (1_735_787_045, 0) })
}

private func published(_ name: String) throws -> ChatTemplate {
  try template(
    String(
      decoding: TestData.bytes((TestData.shared ?? "") + "/chat-templates/\(name)"), as: UTF8.self))
}

private func prompt(
  _ template: ChatTemplate, _ turns: [Turn], tools: [JSONValue] = [weather], opensAnswer: Bool = true
) throws -> String {
  try template.render(
    Conversation(messages: turns.map(\.message), tools: tools, addGenerationPrompt: opensAnswer))
}

@Suite(.enabled(if: TestData.shared != nil, "the shared data is not beside the package"))
struct HistoryTests {
  private struct History {
    let name: String
    let turns: [Turn]
    /// What the prompt shows, each once and in this order, or in that of templates that take one call per message.
    let orders: [[String]]

    init(_ name: String, _ turns: [Turn], _ words: String, singly: String? = nil) {
      self.name = name
      self.turns = turns
      orders = [words, singly ?? words].map { words in
        words.split(separator: " ").map {
          $0 == "-" ? HistoryTests.missing : "w\($0.count == 1 ? "0" : "")\($0)x"
        }
      }
    }
  }

  private static let histories = [
    History(
      "parallel results in another order",
      [
        .user("w01x"), .calls([("a", "w02x"), ("b", "w03x"), ("c", "w04x")]), .result("c", "w07x"),
        .result("a", "w05x"), .result("b", "w06x"), .answer("w08x"), .user("w09x"),
      ], "1 2 3 4 5 6 7 8 9",
      singly: "1 2 5 3 6 4 7 8 9"),
    History(
      "the first of two results is missing",
      [.user("w01x"), .calls([("a", "w02x"), ("b", "w03x")]), .result("b", "w04x"), .answer("w05x")],
      "1 2 3 - 4 5",
      singly: "1 2 - 3 4 5"),
    History(
      "the last of two results is missing",
      [.user("w01x"), .calls([("a", "w02x"), ("b", "w03x")]), .result("a", "w04x"), .user("w05x")],
      "1 2 3 4 - 5", singly: "1 2 4 3 - 5"),
    History(
      "a result is there twice, and says something else",
      [
        .user("w01x"), .calls([("a", "w02x"), ("b", "w03x")]), .result("a", "w04x"), .result("a", "w05x"),
        .result("b", "w06x"), .answer("w07x"),
      ], "1 2 3 4 5 6 7", singly: "1 2 4 5 3 6 7"),
    History("a call at the end", [.user("w01x"), .calls([("a", "w02x")])], "1 2 -"),
    History(
      "a result is repeated",
      [
        .user("w01x"), .calls([("a", "w02x"), ("b", "w03x")]), .result("b", "w05x"), .result("a", "w04x"),
        .result("a", "w04x"),
      ], "1 2 3 4 5", singly: "1 2 4 3 5"),
    History(
      "calls have one id",
      [
        .user("w01x"), .calls([("x", "w02x"), ("x", "w03x")]), .result("x", "w04x"), .result("x", "w05x"),
        .answer("w06x"),
      ], "1 2 3 4 5 6", singly: "1 2 4 3 5 6"),
    History(
      "calls of one turn in messages of their own",
      [
        .user("w01x"), .calls([("a", "w02x")]), .calls([("b", "w03x")]), .result("b", "w05x"),
        .result("a", "w04x"), .answer("w06x"), .user("w07x"),
      ], "1 2 3 4 5 6 7", singly: "1 2 4 3 5 6 7"),
    History(
      "system texts that are not first",
      [
        .system("w01x"), .user("w02x"), .answer("w03x"), .system("w04x"), .user("w05x"), .answer("w06x"),
        .system("w07x"),
      ], "1 2 3 4 5 6 7"),
    History(
      "a system text after the user's alone", [.user("w01x"), .system("w02x"), .user("w03x")],
      "1 2 3"),
    History(
      "developers at the beginning and later",
      [
        .developer("w01x"), .user("w02x"), .answer("w03x"), .developer("w04x"), .user("w05x"),
      ], "1 2 3 4 5"),
    History(
      "several leading texts",
      [.system("w01x"), .developer("w02x"), .system("w03x"), .user("w04x"), .answer("w05x"), .user("w06x")],
      "1 2 3 4 5 6"),
    History(
      "system texts within a turn of calls",
      [
        .system("w01x"), .user("w02x"), .calls([("a", "w03x"), ("b", "w04x")]), .system("w07x"),
        .result("b", "w06x"), .system("w08x"), .result("a", "w05x"), .answer("w09x"), .user("w10x"),
      ], "1 2 3 4 5 6 7 8 9 10", singly: "1 2 3 5 4 6 7 8 9 10"),
    History(
      "the assistant first", [.answer("w01x"), .user("w02x"), .answer("w03x"), .user("w04x")],
      "1 2 3 4"),
    History(
      "the assistant first, behind a system text", [.system("w01x"), .answer("w02x"), .user("w03x")],
      "1 2 3"),
    History(
      "a call first", [.calls([("a", "w01x")]), .result("a", "w02x"), .answer("w03x"), .user("w04x")],
      "1 2 3 4"),
    History("the assistant alone", [.answer("w01x")], "1"),
    History("a system text alone", [.system("w01x")], "1"),
    History(
      "neighbours of one role",
      [.user("w01x"), .user("w02x"), .answer("w03x"), .answer("w04x"), .user("w05x"), .user("w06x")],
      "1 2 3 4 5 6"),
    History(
      "neighbours, one of which has parts",
      [.user("w01x"), .parts(["w02x ", "w03x"]), .answer("w04x"), .parts(["w05x"]), .user("w06x")],
      "1 2 3 4 5 6"),
    History(
      "text behind a result",
      [
        .user("w01x"), .calls([("a", "w02x")]), .result("a", "w03x"), .user("w04x"), .answer("w05x"),
        .user("w06x"),
      ], "1 2 3 4 5 6"),
    History(
      "text before and between results",
      [
        .user("w01x"), .calls([("a", "w02x"), ("b", "w03x")]), .user("w06x"), .result("a", "w04x"),
        .user("w07x"), .result("b", "w05x"), .answer("w08x"),
      ], "1 2 3 4 5 6 7 8", singly: "1 2 4 3 5 6 7 8"),
    History(
      "text beside calls",
      [
        .user("w01x"), .calls([("a", "w03x"), ("b", "w04x")], beside: "w02x"), .result("b", "w06x"),
        .result("a", "w05x"), .answer("w07x"), .user("w08x"),
      ], "1 2 3 4 5 6 7 8", singly: "1 2 3 5 4 6 7 8"),
    History(
      "a call that the user interrupts",
      [
        .user("w01x"), .calls([("a", "w03x")], beside: "w02x"), .user("w04x"), .answer("w05x"), .user("w06x"),
      ],
      "1 2 3 - 4 5 6"),
    History(
      "a call that nothing answers",
      [.user("w01x"), .calls([("a", "w02x")]), .answer("w03x"), .user("w04x")], "1 2 - 3 4"),
    History(
      "two turns of calls, and text",
      [
        .system("w01x"), .user("w02x"), .calls([("a", "w03x")]), .result("a", "w04x"),
        .calls([("b", "w05x"), ("c", "w06x")]), .result("c", "w08x"), .result("b", "w07x"), .user("w09x"),
        .calls([("d", "w10x")]), .result("d", "w11x"), .user("w12x"),
      ], "1 2 3 4 5 6 7 8 9 10 11 12", singly: "1 2 3 4 5 7 6 8 9 10 11 12"),
    History(
      "a result without a call", [.user("w01x"), .answer("w02x"), .result("z", "w03x"), .user("w04x")],
      "1 2 3 4"),
    History("a result first", [.result("z", "w01x"), .user("w02x")], "1 2"),
    History(
      "a result that comes after the next answer",
      [
        .user("w01x"), .calls([("a", "w02x")]), .user("w03x"), .answer("w04x"), .result("a", "w05x"),
        .user("w06x"),
      ], "1 2 - 3 4 5 6"),
    History(
      "an empty answer", [.user("w01x"), .answer(""), .user("w02x"), .answer("w03x"), .user("w04x")],
      "1 2 3 4"),
  ]

  /// Where each template is, and what it is called.
  private static let names: [String] = [
    "embedded", "families", "llama.cpp", "minja", "mlx-openai-server", "mlx-serve-fixtures",
    "ollama-testdata",
  ].flatMap { folder in
    ((try? File.names(in: (TestData.shared ?? "") + "/chat-templates/" + folder)) ?? []).sorted()
      .filter { $0.contains(".jinja") }.map { folder + "/" + $0 }
  }

  private static let missing = "This call has no result."

  private static func problem(_ words: ArraySlice<String>, in text: String) -> String? {
    var end = text.startIndex
    for word in words {
      let places = text.ranges(of: word)
      guard let place = places.first else { return "\(word) is missing" }
      guard places.count == 1 else { return "\(word) is there \(places.count) times" }
      guard place.lowerBound >= end else { return "\(word) stands too early" }
      end = place.upperBound
    }
    return nil
  }

  @Test func `every template shows everything of every history, once and in order`() throws {
    #expect(Self.names.count == 101)
    var problems: [String] = []
    for name in Self.names {
      let template = try published(name)
      for history in Self.histories {
        for tools in [[weather], []] where tools.isEmpty || template.supportsTools {
          let place = "\(name), \(history.name)\(tools.isEmpty ? ", without tools" : "")"
          do {
            let text = try prompt(template, history.turns, tools: tools)
            // It prints the system text with the last user's, and the other words in their order.
            let moved = name.contains("Mistral-Nemo") ? history.turns.prefix { $0.isSystem }.count : 0
            let found = history.orders.map { Self.problem($0.dropFirst(moved), in: text) }
            if let problem = found[0], found[1] != nil { problems.append("\(place): \(problem)") }
          } catch {
            problems.append("\(place): \(error)")
          }
        }
      }
    }
    #expect(problems == [], "\(problems.count) of them:\n\(problems.joined(separator: "\n"))")
  }

  /// Where the prompt of a history does not begin with that of its beginning, before an answer.
  private static func breaks(_ template: ChatTemplate, _ history: History, _ tools: [JSONValue]) throws
    -> [Int]
  {
    let whole = try prompt(template, history.turns, tools: tools)
    return try history.turns.indices.dropFirst().filter { index in
      guard history.turns[index].message["role"] == "assistant" else { return false }
      let short = try prompt(template, Array(history.turns.prefix(index)), tools: tools, opensAnswer: false)
      // What ends the last message may be another thing than what follows it.
      let end = history.orders[0].compactMap { short.ranges(of: $0).last?.upperBound }.max()
      return !whole.hasPrefix(short[..<(end ?? short.startIndex)])
    }
  }

  private static let plain = History(
    "plain",
    [
      .system("w01x"), .user("w02x"), .answer("w03x"), .user("w04x"), .calls([("a", "w05x")]),
      .result("a", "w06x"), .answer("w07x"), .answer("w08x"), .user("w09x"),
    ], "1 2 3 4 5 6 7 8 9")

  /// Templates that move tools or leave out reasoning change what they have printed of any history; the others do not of
  /// these.
  @Test func `the prompt of a longer history begins with that of the shorter one`() throws {
    var problems: [String] = []
    var templates = 0
    for name in Self.names {
      let template = try published(name)
      let tools = template.supportsTools ? [weather] : []
      guard try Self.breaks(template, Self.plain, tools).isEmpty else { continue }
      templates += 1
      for history in Self.histories {
        let breaks = try Self.breaks(template, history, tools)
        if !breaks.isEmpty { problems.append("\(name), \(history.name): \(breaks)") }
      }
    }
    #expect(problems == [], "\(problems.count) of them:\n\(problems.joined(separator: "\n"))")
    #expect(templates == 89)
  }

  // MARK: What some prompts are

  private static let paris: [Turn] = [.user("Weather?"), .calls([("a", "Paris"), ("b", "Rome")])]

  @Test func `results of calls go to their calls`() throws {
    let results: [Turn] = [.result("b", "31"), .result("a", "21")]
    let text = try prompt(published("families/Qwen3.5-4B.jinja"), Self.paris + results)
    #expect(
      text.contains(
        "<tool_response>\n21\n</tool_response>\n<tool_response>\n31\n</tool_response><|im_end|>"), "\(text)")
    let single = try prompt(
      published("families/meta-llama-Llama-3.2-3B-Instruct.jinja"), Self.paris + results)
    #expect(
      single.contains(#""Paris"}}<|eot_id|><|start_header_id|>ipython<|end_header_id|>\#n\#n"21"<|eot_id|>"#),
      "\(single)")
  }

  @Test func `a later system text is the user's where the template wants it first`() throws {
    let turns: [Turn] = [
      .system("S"), .developer("D"), .user("A"), .answer("B"), .system("Be brief."), .user("C"),
    ]
    #expect(
      try prompt(published("families/Qwen3.5-4B.jinja"), turns, tools: []).hasPrefix(
        "<|im_start|>system\nS\n\nD<|im_end|>\n<|im_start|>user\nA<|im_end|>\n<|im_start|>assistant\nB<|im_end|>\n"
          + "<|im_start|>user\nBe brief.<|im_end|>\n<|im_start|>user\nC<|im_end|>\n<|im_start|>assistant\n"))
    #expect(
      try prompt(published("families/mistralai-Ministral-3-14B-Reasoning-2512.jinja"), turns, tools: [])
        == "<BOS>[SYSTEM_PROMPT]S\n\nD[/SYSTEM_PROMPT][INST]A[/INST]B<EOS>[INST]Be brief.\n\nC[/INST]")
    // Templates that take it anywhere get it as it is.
    #expect(
      try prompt(published("families/Qwen-Qwen3-0.6B.jinja"), turns, tools: []).hasPrefix(
        "<|im_start|>system\nS<|im_end|>\n<|im_start|>system\nD<|im_end|>\n<|im_start|>user\nA<|im_end|>\n"
          + "<|im_start|>assistant\nB<|im_end|>\n<|im_start|>system\nBe brief.<|im_end|>\n"))
  }

  @Test func `turns that do not alternate are printed as they come`() throws {
    let template = try published("families/mistralai-Ministral-3-14B-Reasoning-2512.jinja")
    let head = try prompt(template, [.user("")]).dropLast("[INST][/INST]".count)
    for (turns, expected): ([Turn], String) in [
      (
        [.user("A"), .calls([("a", "Paris")]), .result("a", "21"), .user("B")],
        #"[INST]A[/INST][TOOL_CALLS]get_weather[ARGS]{"city": "Paris"}<EOS>[TOOL_RESULTS]21[/TOOL_RESULTS][INST]B[/INST]"#
      ),
      (
        [.user("A"), .calls([("a", "Paris")], beside: "I look."), .user("Stop.")],
        #"[INST]A[/INST]I look.[TOOL_CALLS]get_weather[ARGS]{"city": "Paris"}<EOS>"#
          + "[TOOL_RESULTS]This call has no result.[/TOOL_RESULTS][INST]Stop.[/INST]"
      ),
      ([.answer("Hello!"), .user("A")], "Hello!<EOS>[INST]A[/INST]"),
      ([.user("A"), .answer(""), .user("B")], "[INST]A[/INST]<EOS>[INST]B[/INST]"),
      ([.user("A"), .parts(["B"]), .user("C")], "[INST]A\n\nB\n\nC[/INST]"),
    ] {
      #expect(try prompt(template, turns) == head + expected)
    }
  }

  @Test func `a system text is not lost where a template prints it with the last user's alone`() throws {
    let text = try prompt(
      published("families/mistralai-Mistral-Nemo-Instruct-2407.jinja"),
      [.system("S"), .user("A"), .calls([("a", "Paris")]), .result("a", "21")], tools: [])
    #expect(
      text == "<BOS>[INST]S\n\nA[/INST][TOOL_CALLS]"
        + #"[{"name": "get_weather", "arguments": {"city": "Paris"}, "id": "2o0ongoiv"}]<EOS>"#
        + #"[TOOL_RESULTS]{"content": 21, "call_id": "2o0ongoiv"}[/TOOL_RESULTS]"#)
  }

  /// As a sandbox renders it that lets the template change lists.
  @Test func `Kimi's calls and results are numbered`() throws {
    let turns: [Turn] = [
      .user("Weather?"), .calls([("a", "Paris"), ("b", "Rome")]), .result("b", "31"), .result("a", "21"),
      .answer("Warm."), .user("And Oslo?"), .calls([("c", "Oslo")]), .result("c", "5"),
    ]
    #expect(
      try prompt(published("llama.cpp/Kimi-K2-Thinking.jinja"), turns, tools: [])
        == "<|im_system|>system<|im_middle|>You are Kimi, an AI assistant created by Moonshot AI.<|im_end|>"
        + "<|im_user|>user<|im_middle|>Weather?<|im_end|><|im_assistant|>assistant<|im_middle|><think></think>"
        + "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>"
        + #"{"city": "Paris"}<|tool_call_end|><|tool_call_begin|>functions.get_weather:1"#
        + #"<|tool_call_argument_begin|>{"city": "Rome"}<|tool_call_end|><|tool_calls_section_end|><|im_end|>"#
        + "<|im_system|>get_weather<|im_middle|>## Return of functions.get_weather:0\n21<|im_end|>"
        + "<|im_system|>get_weather<|im_middle|>## Return of functions.get_weather:1\n31<|im_end|>"
        + "<|im_assistant|>assistant<|im_middle|><think></think>Warm.<|im_end|>"
        + "<|im_user|>user<|im_middle|>And Oslo?<|im_end|><|im_assistant|>assistant<|im_middle|><think></think>"
        + "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:2<|tool_call_argument_begin|>"
        + #"{"city": "Oslo"}<|tool_call_end|><|tool_calls_section_end|><|im_end|>"#
        + "<|im_system|>get_weather<|im_middle|>## Return of functions.get_weather:2\n5<|im_end|>"
        + "<|im_assistant|>assistant<|im_middle|>")
    // Where the template prints the ids of calls, they are those that the model itself writes.
    let source =
      "{% for m in messages %}{% for c in m.tool_calls %}<|tool_call_begin|>{{ c.id }}<|tool_call_argument_begin|>"
      + "{{ c.function.arguments | tojson }}{% endfor %}{{ m.tool_call_id if m.role == 'tool' else '' }}{{ m.content }};{% endfor %}"
    #expect(
      try prompt(template(source), turns, tools: [], opensAnswer: false)
        == #"Weather?;<|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{"city": "Paris"}"#
        + #"<|tool_call_begin|>functions.get_weather:1<|tool_call_argument_begin|>{"city": "Rome"};"#
        + "functions.get_weather:021;functions.get_weather:131;Warm.;And Oslo?;"
        + #"<|tool_call_begin|>functions.get_weather:2<|tool_call_argument_begin|>{"city": "Oslo"};"#
        + "functions.get_weather:25;")
  }

  @Test func `calls and results are text where the template knows none`() throws {
    let turns: [Turn] = [
      .user("A"), .calls([("a", "Paris"), ("b", "Rome")], beside: "I look."), .result("b", "31"),
      .result("a", "21"),
    ]
    #expect(
      try prompt(published("families/google-gemma-2-2b-it.jinja"), turns, tools: []) == """
        <BOS><start_of_turn>user
        A<end_of_turn>
        <start_of_turn>model
        I look.
        <tool_call>
        {"name":"get_weather","arguments":{"city":"Paris"}}
        </tool_call>
        <tool_call>
        {"name":"get_weather","arguments":{"city":"Rome"}}
        </tool_call><end_of_turn>
        <start_of_turn>user
        <tool_response>
        21
        </tool_response>

        <tool_response>
        31
        </tool_response><end_of_turn>
        <start_of_turn>model

        """)
  }

  @Test func `checks that have nothing to do with the order of messages stay`() throws {
    let template = try published("mlx-serve-fixtures/qwen38_27b_chat_template.jinja")
    let words = "Unexpected reasoning effort lots. Supported types are xhigh (default), medium, and low."
    #expect(throws: ChatError.refused(words)) {
      try template.render(
        Conversation(
          messages: [["role": "assistant", "content": "A"], ["role": "system", "content": "B"]],
          templateArguments: JSONObject([("reasoning_effort", "lots")])))
    }
  }
}

@Suite struct ToolResultTests {
  private static let source = """
    {%- if tools %}{{ tools[0].function.name }}: {% endif -%}
    {%- for m in messages -%}
    {{ m.role }}{% for c in m.tool_calls %}{% for k, v in c.function.arguments.items() %} {{ v }}{% endfor %}{% endfor -%}
    {{ ' of ' ~ m.name if m.role == 'tool' }} {{ m.content }};
    {%- endfor -%}
    """

  private static func call(_ city: String, id: JSONValue?, name: String = "f") -> JSONValue {
    let function: JSONValue = ["name": .string(name), "arguments": ["city": .string(city)]]
    var call = JSONObject([("function", function)])
    call["id"] = id
    return .object(call)
  }

  private static func calls(_ calls: JSONValue...) -> JSONValue {
    ["role": "assistant", "content": "", "tool_calls": .array(calls)]
  }

  private static func result(_ text: JSONValue, id: JSONValue? = nil, name: JSONValue? = nil) -> JSONValue {
    var result = JSONObject([("role", "tool"), ("content", text)])
    result["tool_call_id"] = id
    result["name"] = name
    return .object(result)
  }

  private static let two = calls(call("P", id: "a"), call("R", id: "b", name: "g"))

  @Test(arguments: [
    ([two, result("r", id: "b"), result("p", id: "a")], "assistant P R ;tool of f p;tool of g r;"),
    // An id that no call has.
    (
      [two, result("r", id: "b"), result("p", id: "x"), result("q", id: "y", name: "h")],
      "assistant P R ;tool of f This call has no result.;tool of g r;"
        + "user Result of a call (x):\n<tool_response>\np\n</tool_response>;"
        + "user Result of h (y):\n<tool_response>\nq\n</tool_response>;"
    ),
    ([two, result("p"), result("r")], "assistant P R ;tool of f p;tool of g r;"),
    ([two, result("r", name: "g"), result("p")], "assistant P R ;tool of f p;tool of g r;"),
    ([two, result("p"), result("r", id: "b")], "assistant P R ;tool of f p;tool of g r;"),
    // The calls had no ids when the client read them: what it made up says nothing.
    (
      [calls(call("P", id: nil), call("R", id: nil)), result("p", id: "x"), result("r")],
      "assistant P R ;tool of f p;tool of f r;"
    ),
    (
      [two, result("r", id: "b")],
      "assistant P R ;tool of f This call has no result.;tool of g r;"
    ),
    ([two, result("p", id: "a")], "assistant P R ;tool of f p;tool of g This call has no result.;"),
    ([calls(call("P", id: "a"))], "assistant P ;tool of f This call has no result.;"),
    (
      [calls(call("P", id: "a")), ["role": "user", "content": "u"]],
      "assistant P ;tool of f This call has no result.;user u;"
    ),
    (
      [two, result("p", id: "a"), result("q", id: "a"), result("q", id: "a"), result("r", id: "b")],
      "assistant P R ;tool of f p\n\nq;tool of g r;"
    ),
    (
      [two, result("p", id: "a"), result([["type": "text", "text": "q"]], id: "a")],
      "assistant P R ;tool of f p\n\nq;tool of g This call has no result.;"
    ),
    (
      [
        two, ["role": "user", "content": "u"], result("r", id: "b"), ["role": "system", "content": "s"],
        result("p"),
      ],
      "assistant P R ;tool of f p;tool of g r;user u;system s;"
    ),
    // More than there are calls, of an earlier turn, and of none.
    (
      [calls(call("P", id: "a")), result("p", id: "a"), result("x")],
      "assistant P ;tool of f p;user Result of a call:\n<tool_response>\nx\n</tool_response>;"
    ),
    (
      [two, result("p", id: "a"), calls(call("O", id: "c")), result("r", id: "b"), result("o", id: "c")],
      "assistant P R ;tool of f p;tool of g This call has no result.;assistant O ;tool of f o;"
        + "user Result of g (b):\n<tool_response>\nr\n</tool_response>;"
    ),
    (
      [calls(call("P", id: "a")), ["role": "assistant", "content": "A"], result("p", id: "a")],
      "assistant P ;tool of f This call has no result.;assistant A;"
        + "user Result of f (a):\n<tool_response>\np\n</tool_response>;"
    ),
    (
      [result("p", id: "a"), ["role": "assistant", "content": "A"]],
      "user Result of a call (a):\n<tool_response>\np\n</tool_response>;assistant A;"
    ),
    // Ids that come again in each turn.
    (
      [
        calls(call("P", id: "0")), result("p", id: "0"), calls(call("R", id: "0", name: "g")),
        result("r", id: "0"),
      ],
      "assistant P ;tool of f p;assistant R ;tool of g r;"
    ),
  ])
  func `results stand behind their calls, in their order`(messages: [JSONValue], expected: String) throws {
    let template = try template(Self.source)
    let text = try template.render(Conversation(messages: messages, tools: [weather]))
    #expect(text == "get_weather: " + expected)
    // In this order the server reads images of messages, too.
    let again = Conversation(messages: Conversation.arranged(messages), tools: [weather])
    #expect(try template.render(again) == text)
  }

  @Test func `calls at the end stay alone where no answer follows`() throws {
    let template = try template(Self.source)
    for (messages, expected): ([JSONValue], String) in [
      ([Self.two], "assistant P R ;"),
      ([Self.two, Self.result("p", id: "a")], "assistant P R ;tool of f p;"),
    ] {
      #expect(try template.render(Conversation(messages: messages, addGenerationPrompt: false)) == expected)
    }
  }

  @Test func `ten thousand results find their calls`() throws {
    let ids = (0..<10_000).map { JSONValue.string("call \($0)") }
    let turn: JSONValue = [
      "role": "assistant", "content": "", "tool_calls": .array(ids.map { Self.call("x", id: $0) }),
    ]
    let results = ids.reversed().map { Self.result($0, id: $0) }
    let arranged = Conversation.arranged([turn] + results)
    #expect(arranged.dropFirst().map { $0["content"] } == ids)
  }
}
