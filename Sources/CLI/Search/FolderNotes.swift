// Folders as notes for assistants: their indexes follow them while a process lives, and a model answers from what is found.

import Inference
import JSON
import MCP
import Pipeline
import Platform
import Search
import Tokenizers
import Vectors
import Wire

/// Shared by threads. The indexes are held only while they are updated, so that several such processes can use them.
final class FolderNotes: NoteSource {
  private struct Place {
    let path: String
    let name: String
    /// Before paths of its notes, where there are several folders.
    let prefix: String
  }

  private struct State {
    var folders: [SearchedFolder] = []
    var isUpdating = false
    /// When an update ended last.
    var updated: Instant?
    var progress: FolderProgress?
    var failure: String?
  }

  /// A model that answers, once somebody asks.
  private enum Answerer {
    case none, loading
    case ready(LoadedModel, EngineClient)
  }

  private let places: [Place]
  private let flags: ParsedFlags
  private let models = SearchModels()
  private let state = Monitor(State())
  private let answerer = Monitor(Answerer.none)

  /// How old what is known of the folders may be, and how long a request waits for their first indexing.
  private static let (freshSeconds, patience) = (3.0, 45.0)
  /// Passages that an answer may rest on.
  private static let mostPassages = 8
  private static let fileLimit = FolderIndex.Rules().fileBytes

  /// - Parameter folders: resolved paths.
  init(_ folders: [String], _ flags: ParsedFlags) {
    self.flags = flags
    var taken: Set<String> = []
    places = folders.map { path in
      let own = File.name(of: path)
      let name = ([own] + (2...99).map { "\(own)-\($0)" }).first { taken.insert($0).inserted } ?? path
      return Place(path: path, name: name, prefix: folders.count > 1 ? name + "/" : "")
    }
  }

  var answers: Bool { flags.isSet(.answerModel) }

  /// Ends the model that answers.
  func stop() {
    guard case .ready(_, let engine) = answerer.withLock({ $0 }) else { return }
    engine.stop()
  }

  // MARK: Following the folders

  /// Updates what is known of the folders, in the background.
  func update() {
    let isOurs = state.withLock { state in
      guard !state.isUpdating else { return false }
      state.isUpdating = true
      return true
    }
    guard isOurs else { return }
    let thread = try? Thread(name: "notes", stackBytes: 4 << 20) { [self] in
      do {
        let isAgain = state.withLock { !$0.folders.isEmpty }
        let folders = try places.map { place in
          let folder = try SearchedFolder(place.path, flags, models: models, isAgain: isAgain) { progress in
            state.update { $0.progress = progress }
          }
          // No notes at all would be a wrong answer.
          guard !folder.isBeginning else { throw SearchFolderError.isInUse }
          return folder.released
        }
        state.update { ($0.folders, $0.failure) = (folders, nil) }
      } catch {
        Terminal.tell(Terminal.safe("\(error)"))
        state.update { $0.failure = "\(error)" }
      }
      state.update { ($0.isUpdating, $0.updated) = (false, Instant.now) }
    }
    guard let thread else { return state.update { $0.isUpdating = false } }
    thread.detach()
  }

  /// The folders as they are, or as they were a moment ago.
  private func current(_ work: MCPWork) throws(NoteError) -> [(place: Place, folder: SearchedFolder)] {
    let start = Instant.now
    let isFresh = state.withLock { state in
      state.updated.map { start.seconds(since: $0) < Self.freshSeconds && state.failure == nil } ?? false
    }
    if !isFresh { update() }
    while true {
      let now = Instant.now
      let found = state.wait(until: now.adding(seconds: 0.25)) { state -> State? in
        state.isUpdating ? nil : state
      }
      if let found {
        guard found.failure == nil || !found.folders.isEmpty else { throw .failed(found.failure ?? "") }
        return Array(zip(places, found.folders)).map { (place: $0, folder: $1) }
      }
      if work.isUnwanted() { throw .cancelled }
      let (folders, progress) = state.withLock { ($0.folders, $0.progress) }
      let waited = now.seconds(since: start)
      // What was known before answers where much has changed.
      if !folders.isEmpty, waited > 2 { return Array(zip(places, folders)).map { (place: $0, folder: $1) } }
      let words = progress.map { "indexing: \($0.filesDone) of \($0.files) files" } ?? "opening the index"
      work.tell(MCPProgress(waited, words))
      guard waited < Self.patience else { throw .failed("\(words). Ask again in a minute.") }
    }
  }

  // MARK: Notes

  func folders(_: MCPWork) -> [String] { places.map(\.name) }

  private func note(_ document: IndexedDocument, _ place: Place) -> Note {
    let name = place.prefix + document.key
    return Note(
      name: name, title: name, uri: Self.uri(place.path + "/" + document.key), folder: place.name,
      bytes: (try? JSONValue(parsing: document.info))?["bytes"]?.intValue ?? 0)
  }

  /// `file:///…` with everything but letters, digits and a few signs as escapes (RFC 3986).
  static func uri(_ path: String) -> String {
    "file://"
      + path.utf8.map { byte in
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x2F, 0x5F, 0x7E:
          String(UnicodeScalar(byte))
        default: "%" + (byte < 16 ? "0" : "") + String(byte, radix: 16, uppercase: true)
        }
      }.joined()
  }

  func notes(_ work: MCPWork) throws(NoteError) -> [Note] {
    try current(work).flatMap { place, folder in
      folder.index.documents.map { note($0, place) }.sorted { $0.name < $1.name }
    }
  }

  func text(of note: Note, _ work: MCPWork) throws(NoteError) -> String {
    guard let place = places.first(where: { $0.name == note.folder }) else {
      throw .failed("there is no such note")
    }
    // Only what is in the index, without links: nothing else of the machine can be read.
    let parts = note.name.utf8.dropFirst(place.prefix.utf8.count).split(separator: UInt8(ascii: "/"))
      .map { String(decoding: $0, as: UTF8.self) }
    do {
      let bytes = try File.read(parts, below: place.path, limit: Self.fileLimit)
      let source = try FileReader.read(bytes, name: parts.last ?? "", isUnwanted: work.isUnwanted).text
      let text = bytes.starts(with: "%PDF-".utf8) ? FileReader.numberingPages(source) : source
      return String(decoding: text, as: UTF8.self)
    } catch {
      throw .failed("the note cannot be read: \(error)")
    }
  }

  // MARK: Writing

  var writes: Bool { flags[.allowWrite] }

  private static let endings = [".md", ".markdown", ".txt"]

  /// Text begins on a line of its own, and ends one.
  func write(_ text: String, to name: String, appends: Bool, _: MCPWork) throws(NoteError) -> Note {
    guard let place = places.first(where: { name.utf8.starts(with: $0.prefix.utf8) }) else {
      throw .failed(
        "the path begins with the name of a folder: \(places.map(\.name).joined(separator: ", "))")
    }
    let key = String(decoding: name.utf8.dropFirst(place.prefix.utf8.count), as: UTF8.self)
    let parts = key.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
      .map { String(decoding: $0, as: UTF8.self) }
    let isPlain = parts.allSatisfy { part in
      part.utf8.first != UInt8(ascii: ".") && (1...200).contains(part.utf8.count)
        && part.utf8.allSatisfy { $0 > 0x1F && $0 != 0x7F }
    }
    guard isPlain, parts.count <= 10, Self.endings.contains(where: key.lowercased().hasSuffix) else {
      throw .failed(
        "a note's path has at most ten parts, none hidden, and ends in .md or .txt: '\(key.prefix(100))'")
    }
    let path = place.path + "/" + key
    let isThere = File.status(path, followingLinks: false) != nil
    guard appends || !isThere else {
      throw .failed("there is a note '\(name)': say append to add to it, or take another name")
    }
    do {
      // Through no link, and whole: a reader finds the note as it was, or with all that was added.
      try File.makeFolders(parts.dropLast(), below: place.path)
      var bytes = isThere ? try File.read(parts, below: place.path, limit: Self.fileLimit) + [10] : []
      bytes += Array(text.utf8) + (text.hasSuffix("\n") ? [] : [10])
      try File.replace(path, with: bytes, mode: isThere && !File.isOpenToOthers(path) ? 0o600 : 0o666)
    } catch {
      throw .failed("the note cannot be written: \(error)")
    }
    update()
    return Note(
      name: name, title: name, uri: Self.uri(path), folder: place.name, bytes: File.status(path)?.bytes ?? 0)
  }

  // MARK: Search and answers

  /// A passage, and where it came from.
  private struct Found {
    let result: SearchResult
    let place: Place
    let folder: SearchedFolder

    func place(at offset: Int, _ places: inout [String: FilePlaces]) -> NotePlace? {
      let known = places[folder.folder, default: FilePlaces(folder.folder, view: folder.index)]
      places[folder.folder] = known
      switch places[folder.folder]?.place(of: result.passage, at: offset) {
      case .line(let number): return .line(number)
      case .page(let number): return .page(number)
      case nil: return nil
      }
    }
  }

  private func found(
    _ question: String, in name: String?, limit: Int, _ work: MCPWork
  ) throws(NoteError) -> [Found] {
    var query = SearchQuery([question])
    query.limit = limit
    query.explains = true
    var found: [Found] = []
    for (place, folder) in try current(work) where name == nil || place.name == name {
      do throws(SearchError) {
        found += try folder.search(query, isUnwanted: work.isUnwanted).results.map {
          Found(result: $0, place: place, folder: folder)
        }
      } catch {
        throw error == .cancelled ? .cancelled : .failed("\(error)")
      }
    }
    return Array(found.sorted { $0.result.score > $1.result.score }.prefix(limit))
  }

  func search(
    _ question: String, in folder: String?, limit: Int, _ work: MCPWork
  ) throws(NoteError) -> [NotePassage] {
    var places: [String: FilePlaces] = [:]
    return try found(question, in: folder, limit: limit, work).map { found in
      let result = found.result
      return NotePassage(
        note: note(result.passage.document, found.place),
        text: String(decoding: result.passage.text, as: UTF8.self),
        place: found.place(at: result.sentenceOffset, &places), score: Double(result.score),
        sentence: result.why?.sentence?.text, why: result.why?.reason ?? "")
    }
  }

  func answer(_ question: String, in folder: String?, _ work: MCPWork) throws(NoteError) -> NoteAnswer {
    try answer(question, in: folder, work) { try answering(work) }
  }

  /// - Parameter model: which model answers; asked for after the search.
  func answer(
    _ question: String, in folder: String? = nil, _ work: MCPWork, by model: () throws -> LoadedModel
  ) throws(NoteError) -> NoteAnswer {
    let found = try found(question, in: folder, limit: Self.mostPassages, work)
    guard !found.isEmpty else { return NoteAnswer(text: "The notes say nothing about this.", quotes: []) }
    do {
      let model = try model()
      // The rest of the context is for the frame, the question and the answer.
      var room = model.contextTokens / 2 - model.tokenizer.encode(question, addSpecialTokens: false).count
      let documents = found.map { found in
        AskedDocument(
          name: note(found.result.passage.document, found.place).name,
          text: String(decoding: found.result.passage.text, as: UTF8.self))
      }.prefix { document in
        room -= model.tokenizer.encode(document.shown, addSpecialTokens: false).count
        return room >= 0
      }
      guard !documents.isEmpty else { throw NoteError.failed("the passages are too long for this model") }
      let text = try generate(question, Array(documents), model, work)
      guard let answer = QuotedAnswer(text, from: Array(documents)) else {
        throw NoteError.failed("the answer was cut before it was whole")
      }
      var places: [String: FilePlaces] = [:]
      return NoteAnswer(
        text: answer.answer,
        quotes: answer.quotes.map { quote in
          let source = found[quote.index]
          return NoteAnswer.Quote(
            note: note(source.result.passage.document, source.place), text: quote.text,
            place: source.place(at: quote.offset, &places))
        })
    } catch let error as NoteError {
      throw error
    } catch {
      throw .failed("\(error)")
    }
  }

  private func generate(
    _ question: String, _ documents: [AskedDocument], _ model: LoadedModel, _ work: MCPWork
  ) throws -> String {
    var settings = ChatSession.Settings()
    settings.schema = QuotedAnswer.schema(documents)
    settings.switchesThinkingOff = true
    var session = try ChatSession(model, settings)
    var (text, tokens, isCancelled, running) = ("", 0.0, false, Generation?.none)
    func take(_ piece: TokenStream.Piece) {
      if !isCancelled, work.isUnwanted() {
        isCancelled = true
        running?.cancel()
      }
      tokens += 1
      switch piece {
      case .reading(let progress):
        work.tell(MCPProgress(tokens, "reading: \(progress.processed) of \(progress.total) tokens"))
      case .content(let more, _):
        text += more
        work.tell(MCPProgress(tokens, "answering"))
      default: break
      }
    }
    _ = try session.send(
      QuotedAnswer.prompt(question, about: documents), started: { running = $0 }, deliver: take)
    if isCancelled { throw NoteError.cancelled }
    return text
  }

  /// The model that answers, loaded with the first question.
  private func answering(_ work: MCPWork) throws -> LoadedModel {
    enum Turn {
      case use(LoadedModel)
      case load
    }
    while true {
      let turn = answerer.wait(until: Instant.now.adding(seconds: 0.25)) { answerer -> Turn? in
        switch answerer {
        case .none:
          answerer = .loading
          return .load
        case .loading: return nil
        case .ready(let model, _): return .use(model)
        }
      }
      switch turn {
      case .use(let model): return model
      case .load:
        do {
          work.tell(MCPProgress(0, "loading the model"))
          var flags = flags
          flags.set(.model, to: flags[.answerModel] ?? "")
          let (model, engine) = try Loading.model(flags)
          answerer.update { $0 = .ready(model, engine) }
          return model
        } catch {
          answerer.update { $0 = .none }
          throw error
        }
      case nil: if work.isUnwanted() { throw NoteError.cancelled }
      }
    }
  }
}
