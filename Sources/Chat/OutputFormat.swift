// Which markers a model's output carries, derived from the template it was trained with.

package import JSON

/// How reasoning and tool calls are written in the text of a model.
package struct OutputFormat: Sendable, Equatable {
  /// The way tool calls are written.
  package enum ToolSyntax: String, Sendable, Equatable {
    /// The template knows no tools, or their calls are written in a way not known here.
    case none
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
    /// `[TOOL_CALLS]` and an array, or name and arguments: Mistral.
    case mistral
  }

  /// The markers around reasoning.
  package enum Reasoning: String, Sendable, CaseIterable {
    /// `<think>...</think>`, also assumed where a template names no markers.
    case think
    /// `<|channel>thought ... <channel|>`: Gemma 4.
    case channel
    /// `[THINK]...[/THINK]`: Mistral.
    case brackets
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

  /// Whether calls of tools can be told from content.
  package var supportsTools: Bool { toolSyntax != .none }

  /// Derives the format from the text of a chat template.
  package init(templateSource source: String) {
    func has(_ part: String) -> Bool { Bytes.contains(source, part) }
    if has("<|tool_call>"), has("<tool_call|>") {
      toolSyntax = .gemma
    } else if has("<tool_call>"), has("<function=") {
      toolSyntax = .xml
    } else if has("[TOOL_CALLS]") {
      toolSyntax = .mistral
    } else if has("<|tool_call|>") || has("<|tool|>") {
      toolSyntax = .phi
    } else if has("<tool_call>") {
      toolSyntax = .qwen
    } else if has("<|python_tag|>") || (has("ipython") && has("\"parameters\"")) {
      toolSyntax = .llama
    } else {
      toolSyntax = .none
    }
    if has("<|channel>") {
      reasoning = .channel
    } else if has("[THINK]") {
      reasoning = .brackets
    } else {
      reasoning = .think
    }
    // Phi-4-mini-reasoning writes `<think>` as ordinary text and is known by nothing but its system text.
    supportsReasoning =
      has("<|channel>") || has("[THINK]") || has("<think>") || has("</think>")
      || has("Your name is Phi, an AI math expert")
    supportsThinkingSwitch = has("enable_thinking")
    supportsEffort = has("reasoning_effort")
    mistralCall = has("[CALL_ID]") ? .identified : has("[ARGS]") ? .named : .array
  }

  /// A parser for one reply.
  ///
  /// - Parameters:
  ///   - promptTail: the rendered prompt, or its end: it says whether the reply starts inside reasoning.
  ///   - tools: the tools of the request; nil when it has none, then all text outside reasoning is content.
  package func makeParser(promptTail: String, tools: [JSONValue]?) -> OutputParser {
    let schemas = tools.map { ToolSchemas($0) }
    return OutputParser(
      reasoning: ReasoningSplitter(
        reasoningMarkers, startsInside: startsInsideReasoning(promptTail: promptTail)),
      calls: schemas.flatMap { schemas in
        syntax(for: schemas).map { ToolCallSplitter($0, tools: schemas) }
      })
  }

  func syntax(for tools: ToolSchemas) -> (any CallSyntax)? {
    switch toolSyntax {
    case .none: nil
    case .qwen: QwenCalls()
    case .xml: XMLCalls(tools: tools)
    case .llama: LlamaCalls(tools: tools)
    case .phi: PhiCalls()
    case .gemma: GemmaCalls()
    case .mistral: MistralCalls(form: mistralCall)
    }
  }
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

  func contains(_ name: String) -> Bool { parameters[ByteKey(name)] != nil }

  /// The schema of one parameter of one tool.
  func schema(of parameter: String, in tool: String) -> JSONValue? {
    parameters[ByteKey(tool)]?["properties"]?[parameter]
  }
}
