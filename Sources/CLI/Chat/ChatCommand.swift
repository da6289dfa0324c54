// `mlxserve chat` and `mlxserve run`: a conversation in the terminal, or one answer for a pipe.
//
// Answers stream; on a terminal reasoning is dimmed and Markdown is shown as styles, into a pipe goes the answer alone.
// A tool's call is a line of its own, and the next line that is typed is its result. Ctrl-C stops the answer, or takes
// back what is being typed; it never ends the conversation.

import Inference
import JSON
import Pipeline
import Platform
import Sampling

enum ChatCommand {
  @Sendable static func run(_ flags: ParsedFlags) throws -> Int32 {
    try withChat(flags) { try $0.converse(goesOn: flags[.continue]) }
  }

  /// `run MODEL "prompt"`: one answer; without a prompt and without a pipe, a conversation.
  @Sendable static func runOnce(_ flags: ParsedFlags) throws -> Int32 {
    var flags = flags
    // A model of the configuration leaves all words to the prompt.
    flags.takeModel(several: false)
    let words = (flags[.prompt].map { [$0] } ?? []) + flags.arguments
    // What comes through a pipe is data, whatever files it names.
    var prompt = TypedText()
    if !Terminal.inputIsTerminal {
      let input = TerminalMode.readAll(limit: inputLimit)
      guard let input, let text = String(validating: input, as: UTF8.self) else {
        throw UsageError.unexpectedArgument(
          "standard input, which is not text of at most \(inputLimit >> 20) MB")
      }
      // What a file ends with is not part of a question.
      let context = text.last == "\n" ? String(text.dropLast()) : text
      prompt.add(context, isTyped: false)
    }
    if !words.isEmpty {
      if !prompt.parts.isEmpty { prompt.add("\n\n", isTyped: false) }
      prompt.add(words.joined(separator: " "), isTyped: true)
    }
    return try withChat(flags) { [flags] chat in
      guard !prompt.parts.isEmpty else {
        guard Terminal.inputIsTerminal else { throw UsageError.missingArgument("PROMPT") }
        return try chat.converse(goesOn: false)
      }
      return try chat.answerOnce(prompt, asJSON: flags[.json])
    }
  }

  static let inputLimit = 16 << 20

  /// - Parameters:
  ///   - document: what every conversation begins with.
  ///   - change: what the command wants of the engine.
  static func withChat(
    _ flags: ParsedFlags, about document: String = "",
    _ change: @escaping (inout EngineConfiguration) -> Void = { _ in },
    _ body: (inout TerminalChat) throws -> Int32
  ) throws -> Int32 {
    Log.configure(level: .warning, json: false)
    var flags = flags
    // What is wrong with the flags is told before the model is loaded.
    var settings = try settings(flags)
    let tools = try ChatTools(flags)
    if let tools {
      settings.tools += tools.list
      settings.holdsArguments = !tools.list.isEmpty
    }
    if flags[.model] == nil { flags.set(.model, to: try ModelLocator.chosen(flags)) }
    let (model, engine) = try Loading.model(flags, change)
    let holder = EngineHolder(
      engine, names: { [flags] in ((try? flags.hubSettings()).map(ModelLocator.here) ?? []).map(\.name) },
      open: { [flags] name in
        var other = flags
        other.set(.model, to: name)
        return try Loading.model(other, change)
      })
    defer { holder.stop(keeping: !document.isEmpty) }
    var preferences = ChatPreferences()
    preferences.sampling[.temperature] = flags[.temperature]
    preferences.sampling[.topP] = flags[.topP]
    preferences.seed = flags[.seed]
    preferences.maxTokens = settings.maxTokens
    preferences.system = settings.system
    preferences.stops = settings.stops
    preferences.thinks = !settings.switchesThinkingOff
    preferences.schema = flags[.schema]
    var chat = try TerminalChat(
      model, holder, settings, preferences, document: document, tools: tools, notes: ChatNotes(flags))
    return try body(&chat)
  }

  // MARK: Flags

  /// All but the sampling, which goes by the model.
  static func settings(_ flags: ParsedFlags) throws(UsageError) -> ChatSession.Settings {
    var settings = ChatSession.Settings()
    settings.system = flags[.system]
    settings.maxTokens = flags[.maxTokens]
    settings.stops = flags.texts(.stop)
    settings.switchesThinkingOff = flags[.noThinking]
    settings.schema = try json(.schema, flags)
    if let tools = try json(.tools, flags) {
      guard let list = tools.arrayValue else {
        throw .badValue(
          flag: "tools", value: flags[.tools] ?? "", expected: "a file with a JSON array of tools")
      }
      settings.tools = list
    }
    return settings
  }

  /// The value in the file that a flag names.
  private static func json(_ flag: TextFlag, _ flags: ParsedFlags) throws(UsageError) -> JSONValue? {
    guard let path = flags[flag] else { return nil }
    do {
      return try TerminalChat.json(in: path)
    } catch {
      throw .badValue(flag: flag.name, value: path, expected: "a file with JSON: \(error)")
    }
  }
}
