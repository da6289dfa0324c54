// Which markers a model's output carries, derived from the template it was trained with.

package import JSON

/// How reasoning and tool calls are written in the text of a model.
package struct OutputFormat: Sendable, Equatable {
  /// The way tool calls are written.
  package enum ToolSyntax: String, Sendable, Equatable {
    /// The template knows no tools, or nothing regular is found in how it writes calls.
    case none
    /// A way that was found out by rendering calls with the template.
    case found
    /// `<tool_call>{"name", "arguments"}</tool_call>`: Qwen, Hermes, SmolLM3.
    case qwen
    /// `<tool_call><function=name><parameter=key>...`: Qwen3-Coder, Qwen3.5.
    case xml
    /// `{"name", "parameters"}` as the whole reply: Llama 3.
    case llama
    /// `<|tool_call|>[{"name", "arguments"}]<|/tool_call|>` or `functools[...]`: Phi-4-mini.
    case phi
    /// `<|tool_call>call:name{...}<tool_call|>`: Gemma 4.
    case gemma
    /// `<|tool_call_start|>[name(key="value")]<|tool_call_end|>`: LFM2.
    case python
    /// `[TOOL_CALLS]` and an array, or name and arguments: Mistral.
    case mistral
    /// Messages to tools in a channel: gpt-oss.
    case harmony
    /// `<tool_call>name<arg_key>..</arg_key><arg_value>..</arg_value></tool_call>`: GLM-4.5 and later.
    case glm
    /// `<minimax:tool_call><invoke name="f"><parameter name="k">..`: MiniMax-M2.
    case minimax
    /// `<｜DSML｜function_calls>` with `invoke` elements: DeepSeek V3.2 and V4.
    case dsml
    /// `<|tool_calls_section_begin|>` and calls between tokens: Kimi K2.
    case kimi
    /// `<｜tool▁calls▁begin｜>` and calls between tokens: DeepSeek V3 to V3.1.
    case deepseek
    /// `<|START_ACTION|>[{"tool_name", "parameters"}]<|END_ACTION|>`: Command-R7B.
    case command
    /// `<seed:tool_call><function=name>...`: Seed-OSS.
    case seed
  }

  /// The markers around reasoning.
  package enum Reasoning: String, Sendable, CaseIterable {
    /// `<think>...</think>`, also assumed where a template names no markers.
    case think
    /// `<|channel>thought ... <channel|>`: Gemma 4.
    case channel
    /// `[THINK]...[/THINK]`: Mistral.
    case brackets
    /// A message in a channel of its own: gpt-oss.
    case harmony
    /// `<seed:think>...</seed:think>`: Seed-OSS.
    case seed
    /// `<|START_THINKING|>...<|END_THINKING|>`: Command-R7B.
    case command
    /// A message of the model to itself: Muse.
    case addressed

    /// Whether answers are messages with headers, which `HarmonyParser` reads.
    var isMessage: Bool { self == .harmony || self == .addressed }
  }

  package let toolSyntax: ToolSyntax
  package let reasoning: Reasoning
  /// Whether the model was trained to reason: its template names the markers, or is known to belong to such a model.
  package let supportsReasoning: Bool
  /// Whether the template reads `enable_thinking`.
  package let supportsThinkingSwitch: Bool
  /// Whether the template reads `reasoning_effort`.
  package let supportsEffort: Bool
  /// How a Mistral model writes a call after its marker.
  let mistralCall: MistralCalls.Form
  /// Whether a GLM template writes line breaks within a call.
  let glmBreaksLines: Bool
  /// Which of DeepSeek's ways of writing calls a template has.
  let dsml: InvokeCalls.Dialect
  let deepSeekCall: SectionCalls.Dialect
  /// The words of `found`.
  let found: FoundCalls?

  /// Whether calls of tools can be told from content.
  package var supportsTools: Bool { toolSyntax != .none }

  /// By what a template's way of writing calls is known: the first whose marks it has all. A mark that is part of
  /// another's marks, or that templates of other models mention, comes after it.
  private static let syntaxes: [(marks: [String], syntax: ToolSyntax)] = [
    (harmonyMarks, .harmony), (["<|tool_call>", "<tool_call|>"], .gemma), (["<|tool_call_start|>"], .python),
    (["<|tool_list_start|>"], .python), (["｜DSML｜"], .dsml), (["<arg_key>"], .glm),
    (["<seed:tool_call>"], .seed), (["<minimax:tool_call>"], .minimax),
    (["<|tool_calls_section_begin|>"], .kimi), (["<｜tool▁calls▁begin｜>"], .deepseek),
    (["<|START_ACTION|>"], .command), (["<tool_call>", "<function="], .xml), (["[TOOL_CALLS]"], .mistral),
    (["<|tool_call|>"], .phi), (["<|tool|>"], .phi), (["<tool_call>"], .qwen), (["<|python_tag|>"], .llama),
    (["ipython", "\"parameters\""], .llama),
  ]
  private static let harmonyMarks = ["<|channel|>", "<|message|>", "<|start|>assistant"]

  /// The same for reasoning.
  private static let reasonings: [(marks: [String], reasoning: Reasoning)] = [
    (harmonyMarks, .harmony), (["<|channel>"], .channel), (["[THINK]"], .brackets), (["<seed:think>"], .seed),
    (["<|START_THINKING|>"], .command), (["<|message|>", "<|start|>assistant", "to=self"], .addressed),
  ]

  /// Derives the format from the text of a chat template.
  package init(templateSource source: String) { self.init(templateSource: source, find: { nil }) }

  /// - Parameter find: how calls are written, asked where the text of the template does not say.
  init(templateSource source: String, find: () -> FoundCalls?) {
    func has(_ part: String) -> Bool { Bytes.contains(source, part) }
    let syntax = Self.syntaxes.first { $0.marks.allSatisfy(has) }?.syntax ?? .none
    found = syntax == .none ? find() : nil
    toolSyntax = found == nil ? syntax : .found
    reasoning = Self.reasonings.first { $0.marks.allSatisfy(has) }?.reasoning ?? .think
    // Phi-4-mini-reasoning writes `<think>` as ordinary text and is known by nothing but its system text.
    supportsReasoning =
      reasoning != .think || has("<think>") || has("</think>") || has("Your name is Phi, an AI math expert")
    supportsThinkingSwitch = has("enable_thinking")
    supportsEffort = has("reasoning_effort")
    mistralCall = has("[CALL_ID]") ? .identified : has("[ARGS]") ? .named : .array
    glmBreaksLines = has("\n<arg_key>")
    dsml = has("'tool_calls>") || has("｜DSML｜tool_calls>") ? .deepSeek4 : .deepSeek
    // V3 writes the kind of tool before its name, and arguments in a block of code.
    deepSeekCall = has("```json") ? .deepSeek : .deepSeek31
  }

  /// A parser for one reply.
  ///
  /// - Parameters:
  ///   - promptTail: the rendered prompt, or its end: it says whether the reply starts inside reasoning.
  ///   - tools: the tools of the request; nil when it has none, then all text outside reasoning is content.
  package func makeParser(promptTail: String, tools: [JSONValue]?) -> OutputParser {
    let schemas = tools.map { ToolSchemas($0) }
    if reasoning.isMessage {
      return OutputParser(
        harmony: HarmonyParser(promptTail: promptTail, tools: schemas, format: self))
    }
    return OutputParser(
      reasoning: ReasoningSplitter(
        reasoningMarkers, startsInside: startsInsideReasoning(promptTail: promptTail)),
      calls: schemas.flatMap { schemas in
        syntax(for: schemas).map { ToolCallSplitter($0, tools: schemas) }
      }, lead: found?.lead ?? "")
  }

  /// What ends a message of an answer that has several.
  var messageEnds: [String] {
    reasoning == .harmony ? ["<|end|>", "<|return|>", "<|call|>"] : ["<|eom|>", "<|eot|>"]
  }

  func syntax(for tools: ToolSchemas) -> (any CallSyntax)? {
    switch toolSyntax {
    case .none: nil
    case .found: found?.syntax(for: tools)
    case .qwen: QwenCalls()
    case .xml: XMLCalls(tools: tools)
    case .llama: LlamaCalls(tools: tools)
    case .phi: PhiCalls()
    case .gemma: GemmaCalls()
    case .python: PythonCalls()
    case .mistral: MistralCalls(form: mistralCall)
    case .harmony: HarmonyCalls()
    case .glm: GLMCalls(tools: tools, breaksLines: glmBreaksLines)
    case .minimax: InvokeCalls(tools: tools, dialect: .miniMax)
    case .dsml: InvokeCalls(tools: tools, dialect: dsml)
    case .kimi: SectionCalls(dialect: .kimi)
    case .deepseek: SectionCalls(dialect: deepSeekCall)
    case .command: CommandCalls()
    case .seed: XMLCalls(tools: tools, isSeed: true)
    }
  }
}

extension JSONValue {
  /// The JSON text of a string without its last quote.
  var openText: String { Bytes.text(text.utf8.dropLast()) }
}

/// Names and parameter types of a request's tools.
struct ToolSchemas: Sendable {
  private let parameters: [ByteKey: JSONValue]

  init(_ tools: [JSONValue]) {
    var parameters: [ByteKey: JSONValue] = [:]
    for tool in tools {
      let function = tool["function"] ?? tool
      guard let name = function["name"]?.stringValue else { continue }
      parameters[ByteKey(name)] = function["parameters"] ?? .null
    }
    self.parameters = parameters
  }

  var names: [String] { parameters.keys.map(\.string) }

  func contains(_ name: String) -> Bool { parameters[ByteKey(name)] != nil }

  /// What came of a value as the beginning of its JSON text.
  func beginning(of text: String, as parameter: String, in tool: String) -> String {
    let schema = parameters[ByteKey(tool)]
    let kinds = ValueKinds(schema?["properties"]?[parameter], root: schema)
    return kinds.contains(.string) ? JSONValue.string(text).openText : text
  }

  /// The value of raw text by what the parameter's schema allows: JSON of another kind than strings where it is that, else
  /// a string. Text that does not fit stays text.
  func value(of text: String, as parameter: String, in tool: String) -> JSONValue {
    let schema = parameters[ByteKey(tool)]
    let kinds = ValueKinds(schema?["properties"]?[parameter], root: schema)
    if kinds == .string { return .string(text) }
    if let value = try? JSONValue(parsing: text) {
      let kind = ValueKinds(of: value)
      // A quoted string keeps its quotes: these formats have none of their own.
      return kind == .string || kinds.contains(.string) && !kinds.contains(kind) ? .string(text) : value
    }
    switch text {
    case _ where kinds.contains(.string): return .string(text)
    case "True" where kinds.contains(.boolean): return true
    case "False" where kinds.contains(.boolean): return false
    case "None" where kinds.contains(.null): return .null
    default: return .string(text)
    }
  }
}
