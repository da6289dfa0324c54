// A folder with its index and the model that makes its vectors, as `mlxserve search` uses them.

import Inference
import JSON
import Pipeline
import Platform
import Search
import Vectors

/// What cannot be searched, and what to do.
enum SearchFolderError: Error, CustomStringConvertible {
  case noModel
  case notAnEncoder(String)
  case noHome
  case isLocked
  case isInUse
  case notAReranker(String)
  case damaged(String)

  var description: String {
    switch self {
    case .noModel:
      "the folder is not indexed yet and needs a model that makes vectors: add --model minilm (90 MB, downloaded once, for "
        + "English) or --model e5-small (470 MB, a hundred languages)"
    case .notAnEncoder(let path):
      "\(path) generates text and makes no vectors: --model wants an embedding model"
    case .notAReranker(let path): "\(path) scores no pairs of texts: --rerank wants a reranker"
    case .isInUse: "another process uses this index: try again when it is done"
    case .damaged(let reason):
      "\(reason); --rebuild makes it again from the folder, without what was imported"
    case .isLocked: "another process is indexing this folder: import when it is done"
    case .noHome: "there is no home directory to keep the index in: give --index-dir DIR"
    }
  }
}

/// Models of searches, each loaded once.
final class SearchModels: Sendable {
  private let loaded = Monitor<[String: LoadedModel]>([:])

  func model(_ path: String, _ flags: ParsedFlags) throws -> LoadedModel {
    if let model = loaded.withLock({ $0[path] }) { return model }
    var configuration = EngineConfiguration(
      modelPath: path, threads: flags[.threads] ?? Machine.cores)
    configuration.version = Version.text
    let (model, _) = try Terminal.showingProgress("loading \(path)") { try LoadedModel.open(configuration) }
    loaded.withLock { $0[path] = model }
    return model
  }
}

/// An open index of a folder.
struct SearchedFolder {
  let folder: String
  private let encoder: ModelEncoder
  private var writable: VectorIndex?
  private var fixed: IndexView?
  private let reranker: ModelReranker?

  /// What is searched.
  var index: IndexView { writable?.view ?? fixed ?? emptyView }

  /// Opens the index, or makes it; with a bar on a terminal while it takes time.
  ///
  /// - Parameters:
  ///   - models: those that are loaded already.
  ///   - isAgain: whether what is to be told of the folder was told before.
  ///   - progress: told how far its update is.
  init(
    _ folder: String, _ flags: ParsedFlags, models: SearchModels = SearchModels(), isAgain: Bool = false,
    progress: (FolderProgress) -> Void = { _ in }
  ) throws {
    self.folder = folder
    let shelf = try IndexShelf(flags)
    let home = try shelf.makeHome(of: folder)
    let named = try flags[.model].map { try ModelLocator.folder($0, flags) }
    guard let model = named.map({ File.resolved($0) ?? $0 }) ?? shelf.model(home) else {
      throw SearchFolderError.noModel
    }
    guard let encoder = ModelEncoder(try models.model(model, flags), isBackground: false) else {
      throw SearchFolderError.notAnEncoder(model)
    }
    self.encoder = encoder
    reranker = try flags[.rerank].map { name in
      let path = try ModelLocator.folder(name, flags)
      guard let reranker = ModelReranker(try models.model(path, flags)) else {
        throw SearchFolderError.notAReranker(path)
      }
      return reranker
    }
    let place = home + "/index-" + encoder.fingerprint.prefix(16)
    if flags[.rebuild] { try IndexShelf.clear(place) }
    let opened = try Self.open(place, encoder, tells: !isAgain)
    writable = opened.writable
    fixed = opened.fixed
    guard let writable else { return }
    try shelf.remember(model: model, home)
    if let loss = writable.losses.first {
      Terminal.tell(
        "\(loss); what was in it is read again from the folder, and what was imported has to come again")
    }
    guard !flags[.noUpdate], !flags.isSet(.import) else { return }
    try update(flags, isAgain, progress)
  }

  /// Whether a folder was indexed before, so that its model need not be named.
  static func modelIsKnown(_ folder: String, _ flags: ParsedFlags) throws -> Bool {
    let shelf = try IndexShelf(flags)
    return shelf.model(try shelf.makeHome(of: folder)) != nil
  }

  /// Whether another process is making the index, and nothing is in it yet.
  var isBeginning: Bool { writable == nil && index.documentCount == 0 }

  /// What is known now, so that other processes can change the index.
  var released: SearchedFolder {
    var folder = self
    (folder.fixed, folder.writable) = (index, nil)
    return folder
  }

  /// The index, or what another process has of it so far.
  private static func open(
    _ place: String, _ encoder: ModelEncoder, tells: Bool
  ) throws -> (writable: VectorIndex?, fixed: IndexView?) {
    do throws(IndexError) {
      let index = try VectorIndex(
        folder: place, fingerprint: encoder.fingerprint, dimensions: encoder.dimensions)
      return (index, nil)
    } catch {
      guard case .system(let reason) = error, case .file(_, let path, let code) = reason, code == EWOULDBLOCK,
        path.hasSuffix("/lock")
      else { throw error }
      if tells {
        Terminal.printError("another process is indexing this folder: what it has so far is searched")
      }
      return (nil, try VectorIndex.snapshot(folder: place)?.view)
    }
  }

  private var emptyView: IndexView { IndexView(dimensions: encoder.dimensions) }

  private func update(
    _ flags: ParsedFlags, _ isAgain: Bool, _ progress: (FolderProgress) -> Void
  ) throws {
    guard let writable else { return }
    var rules = FolderIndex.Rules()
    rules.includesIgnored = flags[.allFiles]
    rules.split = .notes(room: encoder.room)
    var bar = ProgressBar()
    let begin = Instant.now
    defer { bar.clear() }
    let report = try FolderIndex(folder, index: writable, encoder: encoder, rules: rules).update(progress: {
      state in
      progress(state)
      bar.show(state.bytesDone, of: state.bytes, Self.words(state, Instant.now.seconds(since: begin)))
    })
    bar.clear()
    guard !isAgain else { return }
    if report.renewed {
      Terminal.printError(
        Terminal.dimmedError(
          "an older version made this index: its words and names are written anew, its vectors stay"))
    }
    if report.indexed + report.removed > 0, Terminal.errorIsTerminal || flags[.verbose] {
      Terminal.printError(
        Terminal.dimmedError(
          "indexed \(counted(report.indexed, "file")), \(counted(report.encoded, "vector")), \(report.removed) gone; \(writable.view.documentCount) in all"
        ))
    }
    if flags[.verbose] {
      for (path, reason) in report.skipped {
        Terminal.printError("left out: \(Terminal.safe(path)): \(Terminal.safe(reason))")
      }
      for (path, encoding) in report.guessed {
        Terminal.printError("read as \(encoding): \(Terminal.safe(path))")
      }
    } else {
      let guesses = Set(report.guessed.map(\.encoding)).sorted().joined(separator: ", ")
      let counts = [(report.skipped.count, "left out"), (report.guessed.count, "read as " + guesses)]
      let words = counts.filter { $0.0 > 0 }.map { "\($0) file\($0 == 1 ? " is" : "s are") \($1)" }
      guard !words.isEmpty else { return }
      Terminal.printError(Terminal.dimmedError(words.joined(separator: ", ") + "; --verbose lists them"))
    }
  }

  /// What a bar says: files, the time that is left, and speed.
  static func words(_ state: FolderProgress, _ seconds: Double) -> [String] {
    var words = ["\(state.filesDone) of \(state.files) files"]
    if seconds > 0.5, state.rowsDone > 0 {
      if state.bytesDone > 0, state.bytes > state.bytesDone {
        let left = seconds * Double(state.bytes - state.bytesDone) / Double(state.bytesDone)
        words.append(DownloadDisplay.clock(left) + " left")
      }
      words.append("\(Int(Double(state.rowsDone) / seconds)) passages/s")
    }
    return words + ["Ctrl-C keeps what is done"]
  }

  func search(_ query: SearchQuery, isUnwanted: () -> Bool = { false }) throws(SearchError) -> SearchAnswer {
    let zero = Instant.now
    let answer = try HybridSearch(index, encoder: encoder, reranker: reranker).run(
      query, clock: { Instant.now.seconds(since: zero) }, isUnwanted: isUnwanted)
    if let cut = answer.cut { Terminal.tell(Terminal.dimmedError(cut.words)) }
    return answer
  }

  // MARK: Export and import

  /// All passages with their vectors, a JSON object a line.
  func export(to target: String) throws {
    let descriptor = try target == "-" ? STDOUT_FILENO : Int32(SystemFiles().create(target))
    defer { if target != "-" { close(descriptor) } }
    let view = index
    for document in view.documents {
      for passage in try view.exported(document.key) {
        StandardStream.write(passage.line(document.key, encoder.fingerprint), to: descriptor)
      }
    }
  }

  /// Puts passages with their vectors in, as `export` writes them. Files of the folder that have them need no model.
  ///
  /// - Returns: how many documents came.
  func importPassages(from source: String) throws -> Int {
    guard let writable else { throw SearchFolderError.isLocked }
    let reader = PassageReader(dimensions: encoder.dimensions, fingerprint: encoder.fingerprint)
    return try reader.read(try File.read(source, limit: 1 << 34), name: source) { document, rows in
      try writable.remember(rows)
      try writable.commit(document)
    }
  }
}

extension ExportedPassage {
  /// A line of JSON; numbers have the shortest digits that read back as the same float32.
  fileprivate func line(_ key: String, _ fingerprint: String) -> String {
    func array(_ vector: [Float]) -> String {
      var writer = JSONWriter()
      writer.write(vector)
      return String(decoding: writer.bytes, as: UTF8.self)
    }
    var line =
      facts(key, fingerprint).text.dropLast() + ",\"vectors\":[\(vectors.map(array).joined(separator: ","))]"
    if let name { line += ",\"name_key\":\"\(name.key.text)\",\"name_vector\":\(array(name.vector))" }
    return line + "}\n"
  }

  private func facts(_ key: String, _ fingerprint: String) -> JSONValue {
    [
      "id": .string("\(key)#\(passage.number)"), "document": .string(key), "passage": .int(passage.number),
      "start": .int(passage.range.lowerBound), "end": .int(passage.range.upperBound),
      "heading": .string(String(decoding: passage.heading, as: UTF8.self)),
      "text": .string(String(decoding: passage.text, as: UTF8.self)),
      "keys": .array(keys.map { .string($0.text) }), "model": .string(fingerprint),
    ]
  }
}

/// Results as a person or a program reads them.
struct ResultPrinter {
  private let notes: SearchedFolder
  private let flags: ParsedFlags
  /// Told with each result, where several questions are answered.
  var query: String?

  init(_ notes: SearchedFolder, _ flags: ParsedFlags) {
    (self.notes, self.flags) = (notes, flags)
  }

  func print(_ results: [SearchResult]) {
    if flags[.files] {
      var seen: Set<String> = []
      for result in results where seen.insert(result.passage.document.key).inserted {
        Terminal.print(result.passage.document.key)
      }
      return
    }
    if !flags[.json], !results.isEmpty, results.allSatisfy(Self.isFar) {
      Terminal.tell("nothing matches well; these are the nearest passages")
    }
    var places = FilePlaces(notes.folder, view: notes.index)
    for (number, result) in results.enumerated() {
      let place = places.place(of: result.passage, at: result.sentenceOffset)
      flags[.json] ? printJSON(result, place) : printText(result, number + 1, place)
    }
  }

  /// Whether a result shares no word with the question and little of its meaning.
  private static func isFar(_ result: SearchResult) -> Bool {
    guard let why = result.why, why.terms.isEmpty, why.name == nil else { return false }
    return why.isWeak || result.score < leastScore
  }

  private static let leastScore: Float = 0.15

  private func printJSON(_ result: SearchResult, _ place: FilePlace?) {
    let number: JSONValue =
      switch place {
      case .line(let number), .page(let number): .int(number)
      case nil: .null
      }
    var object = JSONObject([
      ("path", .string(result.passage.document.key)), ("line", number),
      ("offset", .int(result.passage.range.lowerBound)), ("score", .double(Double(result.score))),
      ("text", .string(String(decoding: result.passage.text, as: UTF8.self))),
    ])
    if case .page = place { object["page"] = number }
    if let query { object["query"] = .string(query) }
    if let why = result.why { object["why"] = why.json(result.parts) }
    Terminal.print(JSONValue.object(object).text)
  }

  private func printText(_ result: SearchResult, _ number: Int, _ place: FilePlace?) {
    let why = result.why
    let ending =
      switch place {
      case .line(let number): ":\(number)"
      case .page(let number): ", page \(number)"
      case nil: ""
      }
    let head = "\(number)  \(Terminal.safe(result.passage.document.key))\(ending)"
    let (score, reason) = (fixed(Double(result.score), 2), Terminal.safe(why?.reason ?? ""))
    let width = Terminal.tableWidth ?? .max
    // On a terminal the reason has lines of its own where it does not fit.
    let isBeside = TextWidth.of(head) + 4 + score.count + TextWidth.of(reason) <= width
    Terminal.print(
      Terminal.bold(head) + "  " + Terminal.dimmed(score) + (isBeside ? "  " + Terminal.dimmed(reason) : ""))
    if !isBeside { Terminal.print(Terminal.dimmed(Self.indented(reason, width))) }
    let shown = why?.sentence?.text ?? String(decoding: result.passage.text, as: UTF8.self)
    let line = shown.split(whereSeparator: \.isNewline).joined(separator: " ")
    let cut = line.count > 240 ? String(line.prefix(239)) + "…" : line
    Terminal.print(marked(Self.indented(Terminal.safe(cut), width), why))
  }

  private static func indented(_ text: String, _ width: Int) -> String {
    Paragraph.wrapped(text, after: "  ", column: 3, width: width)
  }

  /// The words that matched stand out.
  private func marked(_ text: String, _ why: Why?) -> String {
    guard Terminal.outputIsTerminal, let why else { return text }
    var text = text
    for word in Set(why.terms.map(\.term) + why.concepts.map(\.text)).sorted(by: { $0.count > $1.count }) {
      text = Terminal.highlighting(word, in: text)
    }
    return text
  }
}
