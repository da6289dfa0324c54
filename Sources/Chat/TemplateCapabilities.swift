// What a chat template understands, found out by rendering small conversations with it.
//
// Looking at what comes out is more reliable than searching the source: templates reach the same end in very
// different ways, and this is the end that matters.

import JSON
import Jinja

/// Renders probe conversations.
struct TemplateProbe: Sendable {
  let template: JinjaTemplate
  let tokens: [(String, String)]
  let clock: @Sendable () -> CalendarTime

  /// How tools are handed over.
  var way = TemplateCapabilities.Tools.variable

  /// The prompt, or nil when the template fails on it.
  func render(
    _ messages: [JSONValue], tools: [JSONValue] = [], addGenerationPrompt: Bool = false
  ) -> String? {
    try? text(messages, tools: tools, addGenerationPrompt: addGenerationPrompt)
  }

  /// - Parameter passed: places of `raise_exception` that do nothing.
  func text(
    _ messages: [JSONValue], tools: [JSONValue] = [], addGenerationPrompt: Bool = false,
    passing passed: Set<JinjaPosition> = []
  ) throws(JinjaError) -> String {
    var variables = JSONObject(tokens.map { ($0, .string($1)) })
    variables["messages"] = .array(messages)
    way.set(tools, in: &variables, now: clock)
    variables["documents"] = .null
    variables["add_generation_prompt"] = .bool(addGenerationPrompt)
    return try template.renderWithOrWithoutTools(variables, passing: passed, clock: clock)
  }

  func with(_ way: TemplateCapabilities.Tools) -> TemplateProbe {
    var probe = self
    probe.way = way
    return probe
  }

  /// Whether the prompt contains all of `words`, and no trace of a Python value that was printed by accident.
  func shows(_ words: [String], _ messages: [JSONValue], tools: [JSONValue] = []) -> Bool {
    guard let text = render(messages, tools: tools) else { return false }
    return words.allSatisfy { Bytes.contains(text, $0) }
  }
}

struct TemplateCapabilities: Sendable, Equatable {
  /// How the template takes tools.
  enum Tools: Sendable, Equatable {
    case none
    /// The variable `tools`, a list.
    case variable
    /// The variable `xml_tools`, a list (SmolLM3).
    case xmlVariable
    /// A string `tools` on the system message (Phi-4-mini).
    case systemMessage
    /// JSON text in the variable `functions`, beside `datetime`: both must be there without tools, too (Firefunction 2).
    case functionsText

    /// Whether tools are in variables of the template.
    var isVariable: Bool { self != .none && self != .systemMessage }

    /// Sets the variables in which the template looks for tools.
    func set(_ tools: [JSONValue], in variables: inout JSONObject, now: () -> CalendarTime) {
      variables["tools"] = tools.isEmpty ? .null : .array(tools)
      switch self {
      case .xmlVariable where !tools.isEmpty: variables["xml_tools"] = .array(tools)
      case .functionsText:
        variables["functions"] = .string(JSONValue.array(tools.map { $0["function"] ?? $0 }).text)
        // Of the day: a prompt that changes each second is never found in the cache.
        if variables["datetime"] == nil { variables["datetime"] = .string(now().formatted("%Y-%m-%d")) }
      default: break
      }
    }
  }

  enum CallIDs: Sendable, Equatable {
    /// Nine letters or digits (Mistral).
    case short
    /// `functions.NAME:N`, all calls of the conversation counted from 0: what the model itself writes (Kimi).
    case numbered
  }

  /// What stands for "no text" beside tool calls.
  enum EmptyContent: Sendable, Equatable {
    case text
    case null
    case absent
  }

  var tools = Tools.none
  /// Content may be a list of parts. If not, the texts are joined.
  var takesParts = false
  /// Content must be a list of parts.
  var needsParts = false
  var takesSystemRole = true
  var takesDeveloperRole = false
  /// Roles of system texts that may stand anywhere. Where a later one is refused, left out or moved to the front, it
  /// becomes the user's, so that the prompt before it stays what it was.
  var rolesAnywhere: Set<String> = ["system", "developer"]
  /// Several system texts may stand at the beginning. If not, they are joined.
  var takesSeveralSystemTexts = true
  /// A conversation may be a system text alone. If not, it is the user's.
  var takesSystemAlone = true
  /// The system text is shown when the last message is another's than the user's. If not, it is put in front of the last
  /// user's, where such templates print it otherwise (Mistral Nemo).
  var takesSystemBehindUser = true
  /// Neighbours of the user, or of the assistant, are refused or not shown: their texts are joined.
  var joinsUsers = false
  var joinsAnswers = false
  /// With tools the first message must be the user's.
  var needsUserFirst = false
  /// Places where the template refuses an order of messages that it would print as it should: there the check does
  /// nothing. Others stay.
  var passedChecks: Set<JinjaPosition> = []
  /// Calls are shown, and results behind calls. If not, they are texts.
  var takesCalls = true
  var takesResults = true
  /// Text of a message with calls is shown, before the calls. If not, it is a message of its own.
  var takesTextBesideCalls = true
  /// Arguments of calls must be JSON text, not objects.
  var needsArgumentText = false
  /// Only one call per message is taken.
  var needsSingleCalls = false
  /// The template prints contents alone: calls are written into them (LFM2).
  var writesCallsAsText = false
  /// Results of calls stand in the message with the calls, as `tool_responses` (the first templates of Gemma 4).
  var foldsResults = false
  var emptyContent = EmptyContent.text
  /// What the identifiers of calls must be; nil where any will do.
  var callIDs: CallIDs?
  /// The template removes the reasoning of earlier turns itself.
  var stripsReasoning = false

  init(source: String, probe: TemplateProbe) {
    takesDeveloperRole = ["\"developer\"", "'developer'"].contains { Bytes.contains(source, $0) }
    callIDs =
      Bytes.contains(source, "!= 9")
      ? .short : Bytes.contains(source, "<|tool_call_argument_begin|>") ? .numbered : nil
    stripsReasoning = OutputFormat.Reasoning.allCases.contains {
      !$0.isMessage && Bytes.contains(source, $0.markers.close)
    }
    var probe = probe
    let user: JSONValue = ["role": "user", "content": "probe-user"]
    if probe.render([user]) == nil {
      probe.way = .functionsText
      if probe.render([user]) == nil { probe.way = .variable }
    }
    probeRoles(probe)
    probeTools(probe, source)
    probeHistories(probe)
  }

  /// Whether results are to stand in the message with the calls: where a message of their own is not shown, or is shown
  /// without the mark that the folded form has.
  private static func foldsResults(separate: String?, folded: String?) -> Bool {
    func shows(_ text: String?, _ word: String) -> Bool { text.map { Bytes.contains($0, word) } ?? false }
    guard shows(folded, "probe-result") else { return false }
    guard shows(separate, "probe-result") else { return true }
    return shows(folded, "tool_response>") && !shows(separate, "tool_response>")
  }

  private mutating func probeRoles(_ probe: TemplateProbe) {
    let user: JSONValue = ["role": "user", "content": "probe-user"]
    let parts: JSONValue = ["role": "user", "content": [["type": "text", "text": "probe-part"]]]
    let takesText = probe.shows(["probe-user"], [user])
    // A list that is printed as it is shows the type of its parts.
    let withParts = probe.render([parts])
    takesParts =
      withParts.map {
        Bytes.contains($0, "probe-part") && !Bytes.contains($0, "'type'") && !Bytes.contains($0, "\"type\"")
      } ?? false
    needsParts = takesParts && !takesText
    takesSystemRole = probe.shows(
      ["probe-system", "probe-user"], [["role": "system", "content": "probe-system"], user])
  }

  static let probeTool: JSONValue = [
    "type": "function",
    "function": [
      "name": "probe_tool", "description": "probe-description",
      "parameters": [
        "type": "object", "properties": ["probe_key": ["type": "string", "description": "d"]],
      ],
    ],
  ]

  private mutating func probeTools(_ probe: TemplateProbe, _ source: String) {
    let tool = Self.probeTool
    let user: JSONValue = ["role": "user", "content": "probe-user"]
    var probe = probe
    if probe.shows(["probe_tool"], [user], tools: [tool]) {
      tools = probe.way
    } else if probe.with(.xmlVariable).shows(["probe_tool"], [user], tools: [tool]) {
      tools = .xmlVariable
    } else if Bytes.contains(source, "<|tool|>"), Bytes.contains(source, "message['tools']") {
      tools = .systemMessage
    }
    guard tools.isVariable else { return }
    probe = probe.with(tools)

    func call(_ id: String, _ arguments: JSONValue) -> JSONValue {
      ["id": .string(id), "type": "function", "function": ["name": "probe_tool", "arguments": arguments]]
    }
    func message(_ content: JSONValue?, _ calls: [JSONValue]) -> JSONValue {
      var message = JSONObject([("role", "assistant"), ("tool_calls", .array(calls))])
      message["content"] = content
      return .object(message)
    }
    func shows(_ content: JSONValue?, _ calls: [JSONValue], _ words: [String] = ["probe-value"]) -> Bool {
      guard let text = probe.render([user, message(content, calls)], tools: [tool]) else { return false }
      return words.allSatisfy { Bytes.contains(text, $0) } && !Bytes.contains(text, "None")
    }
    let object: JSONValue = ["probe_key": "probe-value"]
    let variants: [(EmptyContent, JSONValue?)] = [(.text, ""), (.null, .null), (.absent, nil)]
    let asText = JSONValue.string(object.text)
    for arguments in [object, asText] {
      guard let (kind, content) = variants.first(where: { shows($0.1, [call("probe1234", arguments)]) })
      else { continue }
      emptyContent = kind
      needsArgumentText = arguments == asText
      let other: JSONValue = ["probe_key": "probe-other"]
      let second = arguments == asText ? .string(other.text) : other
      needsSingleCalls = !shows(
        content, [call("probe1234", arguments), call("probe1235", second)], ["probe-value", "probe-other"])
      if Bytes.contains(source, "tool_responses") {
        let result: JSONValue = [
          "role": "tool", "tool_call_id": "probe1234", "name": "probe_tool", "content": "probe-result",
        ]
        let called = message(content, [call("probe1234", arguments)])
        foldsResults = Self.foldsResults(
          separate: probe.render([user, called, result], tools: [tool]),
          folded: probe.render(
            [
              user,
              .object(
                JSONObject(
                  (called.objectValue?.entries.map { ($0.key, $0.value) } ?? []) + [
                    (
                      "tool_responses",
                      [["name": "probe_tool", "response": "probe-result"]]
                    )
                  ])),
            ], tools: [tool]))
      }
      return
    }
    writesCallsAsText = Bytes.contains(source, "<|tool_list_start|>")
  }
}
