// A conversation on a terminal or through pipes: lines in, answers and the effects of orders out.

import Inference
import JSON
import MCP
import Media
import Pipeline
import Platform
import Sampling

/// Used by one thread.
struct TerminalChat {
  private var model: LoadedModel
  private let engine: EngineHolder
  private var session: ChatSession
  private var preferences: ChatPreferences
  /// What the first message of a conversation begins with.
  private let document: String
  private var tools: ChatTools?
  private var notes: ChatNotes
  /// Folders of notes that messages have asked, by the places of the messages.
  private var noted: [Int: [String]] = [:]
  /// The answer that runs, for Ctrl-C.
  private let current = Monitor<Generation?>(nil)

  private static let fileLimit = 16 << 20

  init(
    _ model: LoadedModel, _ engine: EngineHolder, _ settings: ChatSession.Settings,
    _ preferences: ChatPreferences, document: String = "", tools: ChatTools? = nil, notes: ChatNotes
  ) throws {
    (self.tools, self.notes) = (tools, notes)
    (self.model, self.engine, self.preferences) = (model, engine, preferences)
    self.document = document
    session = try ChatSession(model, settings)
    try apply(preferences)
  }

  /// The value in a file.
  static func json(in path: String) throws -> JSONValue {
    try JSONValue(parsing: try File.read(path, limit: fileLimit))
  }

  private var isInteractive: Bool { Terminal.inputIsTerminal && Terminal.outputIsTerminal }

  // MARK: Conversations

  /// - Parameter goesOn: whether the last conversation of this user is taken up.
  mutating func converse(goesOn: Bool) throws -> Int32 {
    try watchSignals(endsProcess: !isInteractive)
    defer { TerminalMode.restore() }
    let editor =
      isInteractive
      ? LineEditor(
        history: LineHistory(path: LineHistory.usualPath), isDropped: AttachedFiles.areDropped,
        completions: { [engine] in ChatCompletion.completions(of: $0, models: engine.names) })
      : nil
    if isInteractive {
      Terminal.print(Terminal.dimmed("\(model.id). /help lists the commands, Ctrl-D leaves."))
    }
    if goesOn {
      guard let path = Self.lastPath, File.exists(path) else {
        throw NoConversation(description: "there is no conversation to continue")
      }
      tell([try load(path)])
    }
    // What stands in the next line before anything is typed.
    var start = TypedText()
    while true {
      let line = nextLine(editor, start)
      start = TypedText()
      switch line {
      case .end: return ExitCode.success
      case .interrupted(let hadText):
        if !hadText { Terminal.print(Terminal.dimmed("Ctrl-D or /bye leaves.")) }
      case .text(let typed):
        let text = typed.text
        guard !text.allSatisfy(\.isWhitespace) else { continue }
        if isInteractive, session.openCalls.isEmpty, let order = ChatOrder(text) {
          if order == .leave { return ExitCode.success }
          tell(obey(order, &start))
          // Also what was taken back or answered again.
          if !session.messages.isEmpty { keep() }
        } else {
          do {
            try say(
              text.hasPrefix("//")
                ? typed.dropFirst() : text.hasPrefix(Self.fence) ? block(typed, editor) : typed)
            if isInteractive { keep() }
          } catch {
            Terminal.printError("mlxserve: \(error)")
            if !isInteractive { return ExitCode.checkFailed }
          }
        }
      }
    }
  }

  private static let fence = "\"\"\""

  /// What stands between two lines of three quotes, however many lines that are.
  private func block(_ first: TypedText, _ editor: LineEditor?) -> TypedText {
    var text = String(first.text.dropFirst(Self.fence.count))
    while !text.hasSuffix(Self.fence), text.count < Self.fileLimit {
      let line = editor?.read(prompt: "... ") ?? readLine().map { .text(TypedText(data: $0)) } ?? .end
      guard case .text(let more) = line else { return TypedText(data: text) }
      text += (text.isEmpty ? "" : "\n") + more.text
    }
    return TypedText(data: String(text.dropLast(Self.fence.count)))
  }

  private func nextLine(_ editor: LineEditor?, _ start: TypedText) -> LineEditor.Line {
    let call = session.openCalls.first
    guard let editor else {
      if Terminal.outputIsTerminal { Terminal.write(call.map { "result of \($0.name)> " } ?? "> ") }
      // Nobody knows whether these words were typed.
      return readLine().map { .text(TypedText(data: $0)) } ?? .end
    }
    return editor.read(prompt: call.map { "result of \(Terminal.safe($0.name))> " } ?? ">>> ", start: start)
  }

  /// One answer: as text, or as an object with what it took.
  mutating func answerOnce(_ text: TypedText, asJSON: Bool) throws -> Int32 {
    try watchSignals(endsProcess: true)
    guard asJSON else {
      try say(text)
      return ExitCode.success
    }
    let files = try attached(text)
    guard files.notes.isEmpty else {
      Terminal.print(try askNotes(files.text, files.notes).json.text)
      return ExitCode.success
    }
    let timings = try session.send(opening + files.text, media: files.media, deliver: { _ in })
    Terminal.print(session.answer.json(model: model.id, timings).text)
    return ExitCode.success
  }

  /// The text of one answer by a schema.
  mutating func answer(_ text: TypedText, by schema: JSONValue) throws -> String {
    try watchSignals(endsProcess: true)
    var settings = session.settings
    settings.schema = schema
    try session.change(settings)
    var printer = AnswerPrinter(wraps: false, isMarkdown: false)
    defer { printer.clear() }
    _ = try session.send(opening + text.text) { if case .reading = $0 { printer.show($0) } }
    return session.answer.content
  }

  /// The first signal stops the answer that runs; with none, a conversation goes on.
  private func watchSignals(endsProcess: Bool) throws {
    try Signals.onTermination { [current, stopped = [tools?.isStopped, notes.isStopped]] _, signal in
      for stopped in stopped { stopped?.update { $0 = true } }
      let running = current.withLock { generation -> Generation? in
        defer { generation = nil }
        return generation
      }
      if signal == SIGINT, let running, !endsProcess { return running.cancel() }
      if signal == SIGINT, !endsProcess { return }
      TerminalMode.restore()
      exit(128 + signal)
    }
  }

  /// What a message is with its files; says which words are no files.
  private func attached(_ text: TypedText) throws -> AttachedFiles {
    // A tool's result is its text, whatever paths it names.
    let message = session.openCalls.isEmpty ? text : TypedText(data: text.text)
    let files = try AttachedFiles(message, rules: model.media, model: model.id)
    if let words = files.unknownWords { Terminal.printError(Terminal.dimmedError(words)) }
    return files
  }

  private mutating func say(_ text: TypedText) throws {
    let files = try attached(text)
    for note in files.told where isInteractive { Terminal.print(Terminal.dimmed(note)) }
    try answer(files.text, files.media, files.notes)
  }

  /// Asks notes. Question and answer become turns of the conversation, so that later ones can go on from them.
  private mutating func askNotes(_ text: String, _ folders: [String]) throws -> NoteAnswer {
    let question = text.split(whereSeparator: \.isWhitespace).joined(separator: " ")
    guard !question.isEmpty else { throw UsageError.missingArgument("QUESTION") }
    let answer = try Terminal.showingProgress("asking the notes") {
      try notes.answer(question, in: folders, by: model)
    }
    noted[session.messages.count] = folders
    session.add(question, answeredBy: answer.shown)
    return answer
  }

  /// The last conversation of this user; nil without a home.
  private static var lastPath: String? { LineHistory.folder.map { $0 + "/last-chat.json" } }

  /// Keeps the conversation for `--continue`. What cannot be kept is none of the user's concern.
  private func keep() {
    guard let folder = LineHistory.folder, let path = Self.lastPath else { return }
    try? File.makeFolders(folder)
    _ = try? save(path)
  }

  /// What is put before a message that begins a conversation.
  private var opening: String { session.messages.contains { $0["role"] == "user" } ? "" : document }

  /// Folders that a message which was taken back has asked.
  private var notedHere: [String] { noted[session.messages.count] ?? [] }

  /// The last message without that.
  private mutating func takeBack() -> (text: String, media: [MediaPassage])? {
    guard let (text, media) = session.takeBack() else { return nil }
    guard !opening.isEmpty, text.utf8.starts(with: document.utf8) else { return (text, media) }
    return (String(decoding: text.utf8.dropFirst(document.utf8.count), as: UTF8.self), media)
  }

  /// Answers, and makes the calls of servers' tools until the model has said all.
  private mutating func answer(_ text: String, _ media: [MediaPassage], _ folders: [String] = []) throws {
    guard folders.isEmpty else {
      let shown = try askNotes(text, folders).shown
      return Terminal.print(Terminal.safe(shown, keepsLines: true))
    }
    if session.openCalls.isEmpty { noted[session.messages.count] = nil }
    try speak(text, media)
    var left = ChatTools.most
    while let call = session.openCalls.first, tools?.has(call.name) == true {
      left -= 1
      var result = "The call was not made: there have been enough for one answer."
      let asks = isInteractive
      if left >= 0, let made = tools?.result(of: call.name, call.arguments, asks: asks) { result = made }
      if asks { Terminal.print(Terminal.dimmed(Terminal.safe(String(result.prefix(200))))) }
      if left < -1 { return }
      try speak(result, [])
    }
  }

  private mutating func speak(_ text: String, _ media: [MediaPassage]) throws {
    defer { current.withLock { $0 = nil } }
    var printer = AnswerPrinter(
      wraps: Terminal.outputIsTerminal && preferences.wraps,
      isMarkdown: Terminal.hasColours && preferences.isMarkdown && Terminal.outputIsTerminal)
    let timings = try session.send(
      opening + text, media: media,
      started: { [current] generation in current.withLock { $0 = generation } },
      deliver: { printer.show($0) })
    if let timings, Terminal.outputIsTerminal, preferences.isVerbose {
      let prefill =
        "prompt \(timings.promptTokens) tokens, \(fixed(timings.prefillTokensPerSecond)) tokens/s"
      let decode =
        "answer \(timings.generatedTokens) tokens, \(fixed(timings.decodeTokensPerSecond)) tokens/s"
      Terminal.print(Terminal.dimmed("[\(prefill); \(decode)]"))
    }
  }

  // MARK: Orders

  /// Lines, on a terminal broken between words.
  private func tell(_ lines: [String]) {
    for line in lines { Terminal.print(Self.wrapped(line, column: 2)) }
  }

  private static func wrapped(_ text: String, after head: String = "", column: Int) -> String {
    let width = Terminal.outputIsTerminal ? Terminal.outputWidth : Paragraph.usualWidth
    return Paragraph.wrapped(text, after: head, column: column, width: width)
  }

  /// What an order has done, in lines.
  ///
  /// - Parameter start: what the next line begins with.
  private mutating func obey(_ order: ChatOrder, _ start: inout TypedText) -> [String] {
    switch order {
    case .leave: return []
    case .wrong(let words): return [words]
    case .help:
      let orders = ChatOrder.table.map { ("/\($0.name) \($0.arguments)", $0.help) }
      let others = [
        ("@FILE", "add a text, an image or a clip to the message"),
        ("@notes:FOLDER", "answer the message from the notes in a folder, and show the passages"),
        ("Alt-Enter, Ctrl-J", "start another line; \(Self.fence) starts and ends several"),
        ("Tab, Ctrl-R", "complete commands, settings, models and files; find what you typed before"),
      ]
      for (head, help) in orders + others {
        Terminal.print(Self.wrapped(help, after: "  " + head, column: 24))
      }
      return []
    case .clear:
      session.clear()
      return ["A new conversation."]
    case .show: return facts
    case .tools: return tools?.lines ?? ["There are none: start the chat with --mcp-config FILE."]
    case .read(let path):
      start = TypedText(typed: "@" + path.replacing(" ", with: "\\ ") + " ")
      return []
    case .undo:
      guard let (text, _) = takeBack() else { return ["There is nothing to take back."] }
      return ["Forgotten: " + Terminal.safe(String(text.prefix(60)))]
    case .edit:
      guard let (text, media) = takeBack() else { return ["There is nothing to edit."] }
      let marks = notedHere.map { "@notes:" + $0.replacing(" ", with: "\\ ") + " " }
      start = TypedText(typed: marks.joined() + text)
      return media.isEmpty ? [] : ["Its files are not kept: name them again."]
    case .regenerate:
      guard let (text, media) = takeBack() else { return ["There is nothing to answer again."] }
      do {
        try answer(text, media, notedHere)
        return []
      } catch {
        return ["\(error)"]
      }
    case .model(let name): return Self.outcome { try change(to: name) }
    case .set(nil, _): return settingLines
    case .set(let name?, let value): return set(name, to: value)
    case .save(let path): return Self.outcome { try save(path) }
    case .load(let path): return Self.outcome { try load(path) }
    }
  }

  private var settingLines: [String] {
    preferences.lines(
      beside: model.sampling, from: model.recommended.isEmpty ? "default" : "the model's")
  }

  private var facts: [String] {
    let used = session.promptTokens.map { "\($0) of \(model.contextTokens) tokens" } ?? "unknown"
    var lines = ["model \(model.id)"]
    lines.append("type \(model.facts.modelType ?? "unknown"), computed \(model.facts.computeMode)")
    lines.append("context \(used)")
    lines.append("messages \(session.messages.count)")
    return lines.map { "  " + $0 } + settingLines
  }

  /// Goes on with another model; the one before is there until the new one is.
  private mutating func change(to name: String) throws -> String {
    guard !session.hasMedia else {
      throw NoConversation(
        description: "a conversation with images or clips cannot change its model; /clear starts a new one")
    }
    let next = try engine.load(name)
    let messages = session.messages
    do {
      session = try ChatSession(next.model, session.settings)
    } catch {
      next.engine.stop()
      throw error
    }
    engine.replace(with: next.engine)
    model = next.model
    session.resume(messages)
    try apply(preferences)
    return "The chat continues with \(model.id)."
  }

  private static func outcome(_ work: () throws -> String) -> [String] {
    do {
      return [try work()]
    } catch {
      return ["\(error)"]
    }
  }

  private mutating func set(_ name: String, to value: String) -> [String] {
    var changed = preferences
    if let problem = changed.set(name, to: value) { return [problem] }
    do {
      try apply(changed)
    } catch {
      return ["\(error)"]
    }
    return []
  }

  private mutating func apply(_ preferences: ChatPreferences) throws {
    var settings = session.settings
    var sampling = SamplingParameters(model.sampling.merging(preferences.sampling))
    sampling.seed = preferences.seed.map { UInt64($0) }
    settings.sampling = sampling
    settings.maxTokens = preferences.maxTokens
    settings.system = preferences.system
    settings.stops = preferences.stops
    settings.switchesThinkingOff = !preferences.thinks
    settings.schema = try preferences.schema.map { try Self.json(in: $0) }
    try session.change(settings)
    self.preferences = preferences
  }

  // MARK: Files

  /// Images and clips are not kept: a word stands for each.
  private func save(_ path: String) throws -> String {
    let messages = session.messages.map { message -> JSONValue in
      guard var object = message.objectValue, let parts = object["content"]?.arrayValue else {
        return message
      }
      let texts = parts.map { $0["text"]?.stringValue ?? "[\($0["type"]?.stringValue ?? "file")]" }
      object["content"] = .string(texts.joined(separator: "\n"))
      return .object(object)
    }
    let document: JSONValue = ["model": .string(model.id), "messages": .array(messages)]
    try File.replace(path, with: document.bytes + [UInt8(ascii: "\n")], mode: 0o600)
    return "Saved \(counted(messages.count, "message")) to \(Terminal.safe(path))."
  }

  private struct NoConversation: Error, CustomStringConvertible {
    let description: String
  }

  private mutating func load(_ path: String) throws -> String {
    let document = try Self.json(in: path)
    guard let messages = document["messages"]?.arrayValue ?? document.arrayValue,
      messages.allSatisfy({ $0["role"]?.stringValue != nil && $0["content"]?.arrayValue == nil })
    else {
      throw NoConversation(description: "\(Terminal.safe(path)) is not a conversation that /save has written")
    }
    session.resume(messages)
    noted = [:]
    preferences.system = session.settings.system
    return "Loaded \(counted(messages.count, "message")) from \(Terminal.safe(path))."
  }
}

/// The engine of the model that talks, and where others come from.
final class EngineHolder {
  private var engine: EngineClient
  private let open: (String) throws -> (model: LoadedModel, engine: EngineClient)
  /// Names of models that are here.
  let names: () -> [String]

  init(
    _ engine: EngineClient, names: @escaping () -> [String],
    open: @escaping (String) throws -> (model: LoadedModel, engine: EngineClient)
  ) {
    (self.engine, self.names, self.open) = (engine, names, open)
  }

  func load(_ name: String) throws -> (model: LoadedModel, engine: EngineClient) { try open(name) }

  func replace(with other: EngineClient) {
    engine.stop()
    engine = other
  }

  /// Ends it, and saves prompts first if they are to be kept.
  func stop(keeping: Bool = false) {
    if keeping { _ = engine.waitForSaving() }
    engine.stop()
  }
}

/// Pieces of an answer as they are shown: on a terminal with reasoning and calls, in a pipe without reasoning.
struct AnswerPrinter {
  private enum Kind { case nothing, reasoning, content, call }

  private var last = Kind.nothing
  private var text: AnswerText
  private var bar = ProgressBar()
  private let wraps: Bool

  init(wraps: Bool, isMarkdown: Bool) {
    text = AnswerText(AnswerText.Style(isMarkdown: isMarkdown))
    self.wraps = wraps
  }

  /// Takes away what is shown while a prompt is read.
  mutating func clear() { bar.clear() }

  mutating func show(_ piece: TokenStream.Piece) {
    // The window may have changed since the piece before.
    if wraps { text.style.columns = Terminal.outputWidth }
    if case .reading(let progress) = piece { return show(progress) }
    bar.clear()
    switch piece {
    case .reasoning(let text):
      if Terminal.outputIsTerminal { write(Terminal.dimmed(Self.safe(text)), .reasoning) }
    case .content(let words, _): write(text.feed(Self.safe(words)), .content)
    case .toolCallBegan(let name):
      if last != .nothing { Terminal.write("\n") }
      last = .nothing
      write("→ \(Self.safe(name))(", .call)
    case .toolCallArguments(let text): write(Self.safe(text), .call)
    case .toolCallEnded: write(")", .call)
    case .toolCallsFailed: write(Terminal.dimmed(" … is not a call after all:"), .call)
    case .finish: Terminal.write(text.finish() + "\n")
    case .search, .reading: break
    }
  }

  private mutating func show(_ progress: PromptProgress) {
    guard Terminal.outputIsTerminal, let words = Self.words(progress) else { return }
    let (done, all) = (progress.processed - progress.cached, progress.total - progress.cached)
    bar.show(done, of: all, words)
  }

  /// The tokens that are read while nothing can be said, and for how long; nil where that takes no time.
  static func words(_ progress: PromptProgress) -> [String]? {
    guard let left = progress.secondsLeft, left.isFinite, progress.seconds + left >= 1 else { return nil }
    let seconds = Int(min(left, 1e6).rounded(.up))
    return ["reading \(grouped(progress.total - progress.cached)) tokens", "\(seconds) s left"]
  }

  /// What a model says may hold what a terminal would obey; a pipe gets it as it is.
  private static func safe(_ text: String) -> String {
    Terminal.outputIsTerminal ? Terminal.safe(text, keepsLines: true) : text
  }

  /// Kinds stand apart: reasoning by an empty line, calls by a line break.
  private mutating func write(_ text: String, _ kind: Kind) {
    if kind != last, last != .nothing { Terminal.write(last == .reasoning ? "\n\n" : "\n") }
    last = kind
    Terminal.write(text)
  }
}

extension AnswerParts {
  /// As one object.
  func json(model: String, _ timings: ChatSession.Timings?) -> JSONValue {
    var object = JSONObject([("model", .string(model)), ("content", .string(content))])
    if !reasoning.isEmpty { object["reasoning"] = .string(reasoning) }
    if !calls.isEmpty {
      object["tool_calls"] = .array(
        calls.map { ["name": .string($0.name), "arguments": .string($0.arguments)] })
    }
    object["finish_reason"] = .string(end.rawValue)
    if let timings {
      object["usage"] = [
        "prompt_tokens": .int(timings.promptTokens), "cached_tokens": .int(timings.cachedTokens),
        "completion_tokens": .int(timings.generatedTokens),
        "prompt_tokens_per_second": .double(timings.prefillTokensPerSecond),
        "completion_tokens_per_second": .double(timings.decodeTokensPerSecond),
      ]
    }
    return .object(object)
  }
}
