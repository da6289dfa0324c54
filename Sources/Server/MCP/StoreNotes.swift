// The vector stores of a client as notes for assistants.

import HTTP
import JSON
import MCP
import Pipeline
import Platform
import Search
import Vectors
import Wire

/// For one request.
struct StoreNotes: NoteSource {
  let server: ServerContext
  let worker: ArchiveWorker?
  let client: ClientIdentity
  let peer: Endpoint
  let memory: MemoryLoan?

  /// Passages that an answer may rest on, and about what their texts may have together, in bytes.
  private static let (mostPassages, mostBytes) = (8, 24_000)
  /// A note as it is listed, in bytes.
  private static let listedBytes = 1_500

  /// What the archive does for the request, with its errors as a model reads them.
  private func asking<Result>(
    _ work: MCPWork, _ body: () throws(APIError) -> Result
  ) throws(NoteError) -> Result {
    do throws(APIError) {
      return try body()
    } catch {
      throw work.isUnwanted() ? .cancelled : .failed(error.message)
    }
  }

  private func stores() throws(APIError) -> [(store: Archive.Store, name: String)] {
    let now = server.settings.now()
    let stores = try server.archive().stores(of: client).filter { !$0.record.isExpired(now: now) }
    var counts: [ByteKey: Int] = [:]
    for store in stores { counts[ByteKey(store.record.name), default: 0] += 1 }
    return stores.map { store in
      let name = store.record.name
      return (store, name.isEmpty || counts[ByteKey(name)] != 1 ? store.record.id : name)
    }
  }

  func folders(_ work: MCPWork) throws(NoteError) -> [String] {
    try asking(work) { () throws(APIError) in try stores().map(\.name) }
  }

  private func note(_ store: String, _ file: String, _ title: String, _ folder: String, _ bytes: Int) -> Note
  {
    let name = store + "/" + file
    return Note(name: name, title: title, uri: "mlxserve://" + name, folder: folder, bytes: bytes)
  }

  func notes(_ work: MCPWork) throws(NoteError) -> [Note] {
    try asking(work) { () throws(APIError) in
      let archive = try server.archive()
      var notes: [Note] = []
      for (store, folder) in try stores() {
        let entries = store.entries.values.filter { $0.status == .completed }
        try claim(entries.count * Self.listedBytes, of: memory)
        for entry in entries.sorted(by: { ($0.created, $0.file) < ($1.created, $1.file) }) {
          // Its store knows a file longer than the archive does.
          let file = try? archive.file(entry.file, client)
          notes.append(
            note(store.record.id, entry.file, file?.name ?? entry.file, folder, file?.bytes ?? entry.bytes))
        }
      }
      return notes
    }
  }

  func text(of note: Note, _ work: MCPWork) throws(NoteError) -> String {
    let parts = note.name.split(separator: "/").map(String.init)
    guard parts.count == 2 else { throw .failed("there is no such note") }
    return try asking(work) { () throws(APIError) in
      // Passages, which may overlap, the text, and the answer with it.
      try claim(10 * note.bytes, of: memory)
      do {
        let index = try server.archive().openIndex(parts[0])
        return String(decoding: Archive.text(try index?.view.passages(of: parts[1]) ?? []), as: UTF8.self)
      } catch let error as IndexError {
        throw APIError(indexing: error)
      } catch {
        throw APIError(status: 500, type: "server_error", code: "index_error", message: "\(error)")
      }
    }
  }

  // MARK: Search and answers

  private func found(
    _ question: String, in folder: String?, limit: Int, _ work: MCPWork
  ) throws(NoteError) -> [(passage: FoundPassage, folder: String)] {
    try asking(work) { () throws(APIError) in
      let stores = try stores().filter { folder == nil || $0.name == folder }
      guard !stores.isEmpty else { return [] }
      var query = SearchQuery([question])
      query.limit = limit
      query.explains = true
      let found = try server.archive().search(
        stores.map(\.store), query, SearchWishes(tenant: client.number), models: server.models,
        isUnwanted: work.isUnwanted)
      worker?.resume()
      try claim(found.passages.reduce(0) { $0 + 8 * $1.result.passage.text.count }, of: memory)
      let names = Dictionary(stores.map { ($0.store.record.id, $0.name) }) { first, _ in first }
      let best = found.passages.sorted { $0.result.score > $1.result.score }.prefix(limit)
      return best.map { ($0, names[$0.store] ?? $0.store) }
    }
  }

  private func note(_ passage: FoundPassage, _ folder: String) -> Note {
    note(passage.store, passage.file, passage.name, folder, 0)
  }

  /// Nil where the lines of the text are not those of the file.
  private func place(of passage: FoundPassage, at offset: Int) -> NotePlace? {
    guard let archive = try? server.archive(), let index = try? archive.openIndex(passage.store) else {
      return nil
    }
    var places = FilePlaces("", view: index.view)
    switch places.place(of: passage.result.passage, at: offset, named: passage.name) {
    case .line(let number): return .line(number)
    case .page(let number): return .page(number)
    case nil: return nil
    }
  }

  func search(
    _ question: String, in folder: String?, limit: Int, _ work: MCPWork
  ) throws(NoteError) -> [NotePassage] {
    try found(question, in: folder, limit: limit, work).map { passage, folder in
      let result = passage.result
      return NotePassage(
        note: note(passage, folder), text: passage.text,
        place: place(of: passage, at: result.sentenceOffset), score: Double(result.score),
        sentence: result.why?.sentence?.text, why: result.why?.reason ?? "")
    }
  }

  /// Whether there is a model that generates.
  var answers: Bool { model != nil }

  /// The first that generates: one that is loaded, or else one that can be.
  private var model: ModelFleet.Status? {
    let all = server.models.statuses
    return all.first { $0.model.map { $0.loaded.generates } ?? false }
      ?? all.first { $0.model == nil && LoadedModel.generates($0.source.path) }
  }

  func answer(_ question: String, in folder: String?, _ work: MCPWork) throws(NoteError) -> NoteAnswer {
    let found = try found(question, in: folder, limit: Self.mostPassages, work)
    guard let model, !found.isEmpty else {
      return NoteAnswer(text: "The notes say nothing about this.", quotes: [])
    }
    // A token has two bytes or more of most texts, and half of the context is for the rest.
    var room = min(Self.mostBytes, model.model?.loaded.contextTokens ?? .max)
    let documents = found.enumerated().prefix { index, found in
      room -= found.passage.result.passage.text.count
      return room >= 0 || index == 0
    }.map { AskedDocument(name: $0.element.passage.name, text: $0.element.passage.text) }
    let schema: JSONValue = ["name": "quoted", "strict": true, "schema": QuotedAnswer.schema(documents)]
    let body: JSONValue = [
      "model": .string(model.source.id), "stream": true, "return_progress": true,
      "messages": [["role": "user", "content": .string(QuotedAnswer.prompt(question, about: documents))]],
      "response_format": ["type": "json_schema", "json_schema": schema],
      "chat_template_kwargs": ["enable_thinking": false],
    ]
    guard let answer = QuotedAnswer(try generate(body, work), from: documents) else {
      throw .failed("the answer was cut before it was whole")
    }
    return NoteAnswer(
      text: answer.answer,
      quotes: answer.quotes.map { quote in
        let (passage, folder) = found[quote.index]
        return NoteAnswer.Quote(
          note: note(passage, folder), text: quote.text, place: place(of: passage, at: quote.offset))
      })
  }

  /// The text of a chat completion: the request goes where that of any client goes, under the same bounds.
  private func generate(_ body: JSONValue, _ work: MCPWork) throws(NoteError) -> String {
    let context = ConnectionContext(
      peer: peer, requestID: ConnectionContext.freshRequestID(), isClientGone: work.isUnwanted)
    (context.client, context.memory) = (client, memory)
    var reader = ChatChunkReader(work)
    try asking(work) { () throws(APIError) in
      let request: Request
      do throws(HTTPError) {
        request = try Request(
          "POST", "/v1/chat/completions", headers: ["content-type": "application/json"], body: body.bytes)
      } catch {
        throw APIError(error)
      }
      let response = try ChatRoute(server: server).respond(to: request, context)
      guard case .stream(let write) = response.body else { return }
      // What ends it early is seen by its text.
      try? write(BodyWriter(gone: work.isUnwanted) { (bytes, _) throws(SocketError) in reader.add(bytes) })
    }
    if work.isUnwanted() { throw .cancelled }
    if let error = reader.error { throw .failed(error) }
    return reader.text
  }
}

/// Reads the events of a streamed chat completion as they come.
private struct ChatChunkReader {
  private let work: MCPWork
  private var rest: [UInt8] = []
  private var count = 0.0
  private(set) var text = ""
  private(set) var error: String?

  init(_ work: MCPWork) { self.work = work }

  mutating func add(_ bytes: [UInt8]) {
    rest += bytes
    while let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
      let line = Array(rest[..<end])
      rest.removeFirst(end + 1)
      guard line.starts(with: "data: {".utf8), let event = try? JSONValue(parsing: Array(line.dropFirst(6)))
      else { continue }
      count += 1
      error = event["error"]?["message"]?.stringValue ?? error
      let delta = event["choices"]?[0]?["delta"]?["content"]?.stringValue
      text += delta ?? ""
      if let progress = event["prompt_progress"], let done = progress["processed"]?.intValue {
        work.tell(MCPProgress(count, "reading: \(done) of \(progress["total"]?.intValue ?? done) tokens"))
      } else if delta != nil {
        work.tell(MCPProgress(count, "answering"))
      }
    }
  }
}
