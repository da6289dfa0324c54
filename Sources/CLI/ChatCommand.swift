// `mlxserve chat`: a conversation in the terminal.
//
// Answers stream; reasoning is dimmed. A tool's call is a line of its own, and the next line that is typed is its
// result. Ctrl-C stops the answer, a second one (or one at the prompt) leaves.

import Inference
import JSON
import Pipeline
import Platform
import Sampling

enum ChatCommand {
  @Sendable static func run(_ flags: ParsedFlags) throws -> Int32 {
    Log.configure(level: .warning, json: false)
    // What is wrong with the flags is told before the model is loaded.
    var settings = try settings(flags)
    let (model, engine) = try Loading.model(flags)
    defer { engine.stop() }
    settings.sampling = sampling(flags, model)
    var session = try ChatSession(model, settings)
    let current = Monitor<Generation?>(nil)
    try stopOnSignals(current)
    if Terminal.outputIsTerminal {
      Terminal.print(Terminal.dimmed("\(model.id). Ctrl-C stops an answer, Ctrl-D leaves."))
    }
    while let line = prompt(session.openCalls.first) {
      guard !line.isEmpty else { continue }
      do {
        try answer(line, &session, current)
      } catch {
        Terminal.printError("mlxserve: \(error)")
        if !Terminal.outputIsTerminal { return 1 }
      }
    }
    return 0
  }

  /// The next line of the user; nil at the end of input.
  ///
  /// - Parameter call: the one that the line is the result of.
  private static func prompt(_ call: ChatSession.Call?) -> String? {
    if Terminal.outputIsTerminal { Terminal.write(call.map { "result of \($0.name)> " } ?? "> ") }
    return readLine()
  }

  /// The first signal stops what answers now; with nothing to stop, the wish is to leave.
  private static func stopOnSignals(_ current: Monitor<Generation?>) throws {
    try Signals.onTermination { _, signal in
      let running = current.withLock { generation -> Generation? in
        defer { generation = nil }
        return generation
      }
      guard let running, signal == SIGINT else {
        if Terminal.outputIsTerminal { Terminal.write("\n") }
        exit(signal == SIGINT ? 0 : 128 + signal)
      }
      running.cancel()
    }
  }

  private static func answer(
    _ line: String, _ session: inout ChatSession, _ current: Monitor<Generation?>
  ) throws(PipelineError) {
    defer { current.withLock { $0 = nil } }
    var printer = AnswerPrinter()
    let timings = try session.send(
      line, started: { generation in current.withLock { $0 = generation } }, deliver: { printer.show($0) })
    if let timings, Terminal.outputIsTerminal {
      let prefill = "prompt \(timings.promptTokens) tokens, \(fixed(timings.prefillTokensPerSecond)) tokens/s"
      let decode =
        "answer \(timings.generatedTokens) tokens, \(fixed(timings.decodeTokensPerSecond)) tokens/s"
      Terminal.print(Terminal.dimmed("[\(prefill); \(decode)]"))
    }
  }

  // MARK: Flags

  /// All but the sampling, which goes by the model.
  static func settings(_ flags: ParsedFlags) throws(UsageError) -> ChatSession.Settings {
    var settings = ChatSession.Settings()
    settings.system = flags.text("system")
    settings.maxTokens = flags.integer("max-tokens")
    settings.stops = flags.texts("stop")
    settings.switchesThinkingOff = flags.isSet("no-thinking")
    settings.schema = try json("schema", flags)
    if let tools = try json("tools", flags) {
      guard let list = tools.arrayValue else {
        throw .badValue(
          flag: "tools", value: flags.text("tools") ?? "", expected: "a file with a JSON array of tools")
      }
      settings.tools = list
    }
    return settings
  }

  private static func sampling(_ flags: ParsedFlags, _ model: LoadedModel) -> SamplingParameters {
    var said = model.sampling
    said[.temperature] = flags.decimal("temperature") ?? said[.temperature]
    said[.topP] = flags.decimal("top-p") ?? said[.topP]
    var sampling = SamplingParameters(said)
    sampling.seed = flags.integer("seed").map { UInt64($0) }
    return sampling
  }

  private static let fileLimit = 1 << 20

  /// The value in the file that a flag names.
  private static func json(_ flag: String, _ flags: ParsedFlags) throws(UsageError) -> JSONValue? {
    guard let path = flags.text(flag) else { return nil }
    do {
      return try JSONValue(parsing: try File.read(path, limit: fileLimit))
    } catch {
      throw .badValue(flag: flag, value: path, expected: "a file with JSON: \(error)")
    }
  }
}

/// Pieces of an answer on the terminal.
private struct AnswerPrinter {
  private enum Kind { case nothing, reasoning, content, call }

  private var last = Kind.nothing

  mutating func show(_ piece: TokenStream.Piece) {
    switch piece {
    case .reasoning(let text): write(Terminal.dimmed(text), .reasoning)
    case .content(let text, _): write(text, .content)
    case .toolCallBegan(let name):
      if last != .nothing { Terminal.write("\n") }
      last = .nothing
      write("→ \(name)(", .call)
    case .toolCallArguments(let text): write(text, .call)
    case .toolCallEnded: write(")", .call)
    case .toolCallsFailed: write(Terminal.dimmed(" … is no call after all:"), .call)
    case .finish: Terminal.write("\n")
    }
  }

  /// Kinds stand apart: reasoning by an empty line, calls by a line break.
  private mutating func write(_ text: String, _ kind: Kind) {
    if kind != last, last != .nothing { Terminal.write(last == .reasoning ? "\n\n" : "\n") }
    last = kind
    Terminal.write(text)
  }
}
