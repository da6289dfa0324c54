// `mlxserve read` and `mlxserve ask`: documents that are read once. What was computed of them stays on disk, so that a later
// question is answered at once.

import Compute
import Hub
import Inference
import JSON
import Pipeline
import Platform
import Search
import Wire

enum DocumentCommand {
  /// Most bytes of a file.
  private static let fileLimit = 64 << 20
  /// Seconds that may be spent on saving: a long document of a large model is gigabytes.
  private static let savingSeconds = 3_600.0

  /// `read FILE...`
  @Sendable static func read(_ flags: ParsedFlags) throws -> Int32 {
    Log.configure(level: .warning, json: false)
    guard !flags.arguments.isEmpty else { throw UsageError.missingArgument("FILE") }
    let documents = try flags.arguments.map(document)
    var flags = try withFolder(flags)
    if let served = try ServedChat(at: flags[.server], flags) {
      return try read(documents, by: served, system: flags[.system], asJSON: flags[.json])
    }
    flags = try withModel(flags)
    var settings = try ChatCommand.settings(flags)
    settings.maxTokens = 1
    let (model, engine) = try Loading.model(flags, keep)
    var isStopped = false
    defer { if !isStopped { engine.stop() } }
    for document in documents {
      var session = try ChatSession(model, settings)
      var printer = AnswerPrinter(wraps: false, isMarkdown: false)
      let timings = try session.send(document.shown) { piece in
        if case .reading = piece { printer.show(piece) }
      }
      printer.clear()
      tell(document.name ?? "-", timings, asJSON: flags[.json])
    }
    guard engine.waitForSaving() else { throw NotKept() }
    engine.stop()
    isStopped = true
    Terminal.printError(
      Terminal.dimmedError("\(Size.words(engine.savedPrefixBytes)) of documents are kept for this model"))
    return ExitCode.success
  }

  private static func read(
    _ documents: [AskedDocument], by served: ServedChat, system: String?, asJSON: Bool
  ) throws -> Int32 {
    for document in documents {
      var (served, printer) = (served, AnswerPrinter(wraps: false, isMarkdown: false))
      let begin = Instant.now
      var timings = try served.send(document.shown, system: system, most: 1) { piece in
        if case .reading = piece { printer.show(piece) }
      }
      printer.clear()
      timings.prefill = Instant.now.seconds(since: begin)
      tell(document.name ?? "-", timings, asJSON: asJSON)
    }
    return ExitCode.success
  }

  /// `ask FILE... "question"`; without a question one from a pipe, or a conversation.
  @Sendable static func ask(_ flags: ParsedFlags) throws -> Int32 {
    let names = flags.arguments.prefix { $0 == "-" || File.exists($0) }
    guard !names.isEmpty else {
      guard let word = flags.arguments.first else { throw UsageError.missingArgument("FILE") }
      throw Problem(description: "\(Terminal.safe(word)) is not a file here: mlxserve ask FILE \"question\"")
    }
    let documents = try names.map(document)
    let shown = documents.map(\.shown).joined(separator: "\n") + "\n"
    var question = TypedText()
    question.add(flags.arguments.dropFirst(names.count).joined(separator: " "), isTyped: true)
    if question.text.isEmpty, !names.contains("-"), !Terminal.inputIsTerminal {
      question = TypedText(data: try input().trimmed)
    }
    var flags = try withFolder(flags)
    if var served = try ServedChat(at: flags[.server], flags) {
      return try ask(documents, shown, question, &served, flags)
    }
    flags = try withModel(flags)
    return try ChatCommand.withChat(flags, about: shown, keep) { chat in
      if flags[.quotes], !question.text.isEmpty {
        return try quote(documents, question, &chat, asJSON: flags[.json])
      }
      guard question.text.isEmpty else { return try chat.answerOnce(question, asJSON: flags[.json]) }
      guard Terminal.inputIsTerminal else { throw UsageError.missingArgument("QUESTION") }
      return try chat.converse(goesOn: false)
    }
  }

  private static func ask(
    _ documents: [AskedDocument], _ shown: String, _ question: TypedText, _ served: inout ServedChat,
    _ flags: ParsedFlags
  ) throws -> Int32 {
    let (system, asJSON) = (flags[.system], flags[.json])
    guard !question.text.isEmpty else {
      guard Terminal.inputIsTerminal else { throw UsageError.missingArgument("QUESTION") }
      return try served.converse(about: shown, system: system)
    }
    guard flags[.quotes] else {
      return try served.answerOnce(shown + question.text, system: system, asJSON: asJSON)
    }
    _ = try served.send(shown + question.text, system: system, schema: QuotedAnswer.schema(documents)) { _ in
    }
    return try show(served.answer.content, from: documents, asJSON: asJSON)
  }

  private static func quote(
    _ documents: [AskedDocument], _ question: TypedText, _ chat: inout TerminalChat, asJSON: Bool
  ) throws -> Int32 {
    try show(chat.answer(question, by: QuotedAnswer.schema(documents)), from: documents, asJSON: asJSON)
  }

  private static func show(_ text: String, from documents: [AskedDocument], asJSON: Bool) throws -> Int32 {
    guard let answer = QuotedAnswer(text, from: documents) else {
      throw Problem(description: "the answer was cut before it was whole: --max-tokens is too small for it")
    }
    Terminal.print(asJSON ? answer.json.text : answer.lines.joined(separator: "\n"))
    return ExitCode.success
  }

  // MARK: Keeping

  /// With the folder of documents.
  private static func withFolder(_ flags: ParsedFlags) throws -> ParsedFlags {
    var flags = flags
    if flags[.prefixCacheDir] == nil {
      guard let cache = Environment.cacheFolder else {
        throw Problem(description: "HOME is not set: name a folder for documents with --prefix-cache-dir")
      }
      let folder = cache + "/mlxserve/documents"
      try File.makeFolders(folder)
      flags.set(.prefixCacheDir, to: folder)
    }
    if flags[.prefixCacheDirSize] == nil { flags.set(.prefixCacheDirSize, to: 16_384) }
    return flags
  }

  private static func withModel(_ flags: ParsedFlags) throws -> ParsedFlags {
    var flags = flags
    if flags[.model] == nil { flags.set(.model, to: try ModelLocator.chosen(flags)) }
    return flags
  }

  /// Memory for the whole of a document, and time to save it.
  private static func keep(_ configuration: inout EngineConfiguration) {
    configuration.prefixCacheBytes = configuration.prefixCacheBytes ?? configuration.ledger.limit
    configuration.savingSeconds = savingSeconds
  }

  // MARK: Documents

  /// The text of a file; `-` is standard input.
  private static func document(_ path: String) throws -> AskedDocument {
    guard path != "-" else { return AskedDocument(name: nil, text: try input()) }
    guard !File.isDirectory(path) else {
      throw Problem(
        description: "\(Terminal.safe(path)) is a folder: mlxserve search looks for answers in many files")
    }
    do {
      let bytes = try File.read(path, limit: fileLimit)
      let source = try FileReader.read(bytes, name: "file.txt").text
      let text = bytes.starts(with: "%PDF-".utf8) ? FileReader.numberingPages(source) : source
      return AskedDocument(name: File.name(of: path), text: String(decoding: text, as: UTF8.self))
    } catch {
      throw Problem(description: "\(Terminal.safe(path)): \(error)")
    }
  }

  private static func input() throws -> String {
    guard let bytes = TerminalMode.readAll(limit: ChatCommand.inputLimit),
      let text = String(validating: bytes, as: UTF8.self)
    else {
      throw UsageError.unexpectedArgument(
        "standard input, which is not text of at most \(ChatCommand.inputLimit >> 20) MB")
    }
    return text
  }

  private static func tell(_ name: String, _ timings: ChatSession.Timings?, asJSON: Bool) {
    guard let timings else { return }
    let new = timings.promptTokens - timings.cachedTokens
    guard !asJSON else {
      let object: JSONValue = [
        "file": .string(name), "tokens": .int(timings.promptTokens), "computed": .int(new),
        "seconds": .double(timings.prefill),
      ]
      return Terminal.print(object.text)
    }
    // The last block and the end of the prompt are computed always.
    let words = new <= 2 * KVCache.blockTokens ? "known" : "read in \(fixed(timings.prefill)) s"
    Terminal.print("\(Terminal.safe(name)): \(grouped(timings.promptTokens)) tokens, \(words)")
  }

  private struct Problem: Error, CustomStringConvertible {
    let description: String
  }

  private struct NotKept: Error, CustomStringConvertible {
    let description =
      "what was read is not kept: another process uses the folder (--prefix-cache-dir names another)"
  }
}

extension String {
  /// Without white space at its ends.
  fileprivate var trimmed: String {
    String(drop(while: \.isWhitespace).reversed().drop(while: \.isWhitespace).reversed())
  }
}
