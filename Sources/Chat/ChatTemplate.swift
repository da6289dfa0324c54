// A model's chat template: messages in, prompt text out.

package import JSON
package import Jinja

/// A loaded template, with what probing it has shown it to understand. Immutable; threads may share it.
package final class ChatTemplate: Sendable {
  /// Which markers the output of the model carries.
  package let format: OutputFormat
  private let template: Variant
  private let toolTemplate: Variant?
  /// The Jinja text; for requests with tools another one may be used.
  package let source: String
  /// Names and texts, such as `("bos_token", "<s>")`.
  package let specialTokens: [(String, String)]
  private let clock: @Sendable () -> CalendarTime

  /// A template and how messages must be prepared for it.
  private struct Variant {
    let template: JinjaTemplate
    let capabilities: TemplateCapabilities
    let probe: TemplateProbe

    /// How the template writes calls.
    var calls: FoundCalls? {
      guard capabilities.tools.isVariable else { return nil }
      return CallProbe(probe: probe, capabilities: capabilities).find()
    }
  }

  /// Loads and probes a template.
  ///
  /// - Parameters:
  ///   - source: the Jinja text.
  ///   - toolSource: a second template for requests with tools, which a few models have.
  ///   - specialTokens: names and texts, such as `("bos_token", "<s>")`; templates print them.
  ///   - limits: bounds of each rendering.
  ///   - localTime: seconds since 1970 and the local offset from UTC in seconds, for templates that print a
  ///     date.
  /// - Throws: `ChatError.badTemplate`.
  package init(
    source: String, toolSource: String? = nil, specialTokens: [(String, String)],
    limits: JinjaLimits = JinjaLimits(),
    localTime: @escaping @Sendable () -> (secondsSince1970: Int, utcOffset: Int)
  ) throws(ChatError) {
    let clock: @Sendable () -> CalendarTime = {
      let now = localTime()
      return CalendarTime(secondsSince1970: now.secondsSince1970, utcOffset: now.utcOffset)
    }
    func load(_ source: String) throws(ChatError) -> Variant {
      do throws(JinjaError) {
        let template = try JinjaTemplate(source: source, limits: limits)
        let probe = TemplateProbe(template: template, tokens: specialTokens, clock: clock)
        return Variant(
          template: template, capabilities: TemplateCapabilities(source: source, probe: probe), probe: probe)
      } catch {
        throw .badTemplate(error)
      }
    }
    template = try load(source)
    toolTemplate = try toolSource.map { (source) throws(ChatError) in try load(source) }
    let called = toolTemplate ?? template
    format = OutputFormat(templateSource: toolSource ?? source) { called.calls }
    (self.source, self.specialTokens, self.clock) = (source, specialTokens, clock)
  }

  /// Whether requests with tools can be served: the template shows tools, and their calls can be parsed.
  package var supportsTools: Bool {
    (toolTemplate ?? template).capabilities.tools != .none && format.supportsTools
  }

  /// The prompt of a conversation.
  ///
  /// - Throws: `ChatError.refused` when the template raises, `.renderingFailed` when it fails or reaches a
  ///   limit, `.unsupportedPart`, `.malformedMessage` and `.cannotContinue` for what never reaches it.
  package func render(_ conversation: Conversation) throws(ChatError) -> String {
    try render(prepared: try prepared(conversation))
  }

  /// The conversation in the form that the template takes, to be rendered as it is or with marks in its texts.
  func prepared(_ conversation: Conversation) throws(ChatError) -> Conversation {
    try preparation(of: conversation).prepare(conversation)
  }

  private func variant(for conversation: Conversation) -> Variant {
    conversation.tools.isEmpty ? template : toolTemplate ?? template
  }

  private func preparation(of conversation: Conversation) -> MessagePreparation {
    MessagePreparation(
      capabilities: variant(for: conversation).capabilities, reasoning: format.reasoningMarkers,
      isHarmony: format.toolSyntax == .harmony)
  }

  func render(prepared conversation: Conversation) throws(ChatError) -> String {
    let variant = variant(for: conversation)
    let prepared = preparation(of: conversation).join(conversation)
    var variables = conversation.templateArguments
    for name in Self.reserved { variables[name] = nil }
    for (name, text) in specialTokens { variables[name] = .string(text) }
    variables["messages"] = .array(prepared.messages)
    variables["add_generation_prompt"] =
      .bool(conversation.addGenerationPrompt && !conversation.continueFinalMessage)
    variant.capabilities.tools.set(prepared.tools, in: &variables, now: clock)
    variables["documents"] = .null

    var text = try render(variant, variables)
    if conversation.continueFinalMessage { text = try Self.reopened(text, last: prepared.messages.last) }
    return text
  }

  /// What the template writes after the text of an answer that ends a conversation, white space before it left out:
  /// the marker that ends a turn, if it has one. Nil when it cannot show an answer.
  package func textBehindAnswer() -> String? {
    let answer = "probe-answer"
    let messages: [JSONValue] = [
      ["role": "user", "content": "probe-user"], ["role": "assistant", "content": .string(answer)],
    ]
    guard let text = try? render(Conversation(messages: messages, addGenerationPrompt: false)) else {
      return nil
    }
    let bytes = Array(text.utf8)
    let count = answer.utf8.count
    guard
      let start = (0...max(0, bytes.count - count)).last(where: { bytes[$0...].starts(with: answer.utf8) })
    else { return nil }
    return Bytes.text(bytes[(start + count)...].drop { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "\n") })
  }

  /// Names that template arguments cannot replace.
  private static let reserved = [
    "messages", "tools", "documents", "add_generation_prompt", "bos_token", "eos_token", "unk_token",
    "pad_token",
  ]

  private func render(_ variant: Variant, _ variables: JSONObject) throws(ChatError) -> String {
    do throws(JinjaError) {
      return try variant.template.renderWithOrWithoutTools(
        variables, passing: variant.capabilities.passedChecks, clock: clock)
    } catch {
      if case .raised(_, let message) = error { throw .refused(message) }
      throw .renderingFailed(error)
    }
  }

  /// The text of a message that is to be continued, as it stands at the end of the prompt.
  package static func continuedText(of message: JSONValue?) -> String {
    var text = ""
    switch message?["content"] {
    case .string(let content)?: text = content
    case .array(let parts)?: text = parts.compactMap { $0["text"]?.stringValue }.joined()
    default: break
    }
    return Bytes.text(Bytes.trimmed(Array(text.utf8)))
  }

  /// The prompt cut right after the text of its last message.
  private static func reopened(_ prompt: String, last: JSONValue?) throws(ChatError) -> String {
    guard last?["role"]?.stringValue == "assistant" else {
      throw .cannotContinue("it is not the assistant's")
    }
    let content = continuedText(of: last)
    guard !content.utf8.isEmpty else { throw .cannotContinue("it has no text") }
    // The last occurrence is the message itself: only markers follow it.
    guard let start = TextOperations.findLast(content, in: prompt) else {
      throw .cannotContinue("the chat template changes its text")
    }
    return Bytes.text(prompt.utf8.prefix(start + content.utf8.count))
  }
}

extension JinjaTemplate {
  /// Renders; templates disagree on how "no tools" is said, so a failure with `none` is tried again with the
  /// variable left out. Some fail on a tool that lacks what is optional: then it is tried again with empty descriptions.
  func renderWithOrWithoutTools(
    _ variables: JSONObject, passing passed: Set<JinjaPosition>,
    clock: @escaping @Sendable () -> CalendarTime
  ) throws(JinjaError) -> String {
    do throws(JinjaError) {
      return try render(variables, passing: passed, changingLists: true, clock: clock)
    } catch {
      guard case .failed = error else { throw error }
      var other = variables
      if variables["tools"]?.isNull ?? false {
        other["tools"] = nil
      } else {
        let names = ["tools", "xml_tools"]
        for name in names { other[name] = variables[name].map(Self.described) }
        guard names.contains(where: { other[$0] != variables[$0] }) else { throw error }
      }
      return try render(other, passing: passed, changingLists: true, clock: clock)
    }
  }

  /// Tools that all have a description and parameters.
  private static func described(_ tools: JSONValue) -> JSONValue {
    .array(
      (tools.arrayValue ?? []).map { tool in
        guard var outer = tool.objectValue, var function = tool["function"]?.objectValue else { return tool }
        if function["description"]?.isNull ?? true { function["description"] = "" }
        if function["parameters"]?.isNull ?? true {
          function["parameters"] = ["type": "object", "properties": [:]]
        }
        outer["function"] = .object(function)
        return .object(outer)
      })
  }
}
