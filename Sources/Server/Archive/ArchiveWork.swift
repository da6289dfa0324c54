// The thread that indexes: one file after another, in the background of everything else; and then, where results are
// explained, it reads the sentences of what was indexed. Another reads through what there was at the start.

import JSON
import Pipeline
import Platform
import Search
import Vectors
import Wire

/// A model for as long as it is used.
struct EncoderLease: Sendable {
  let encoder: ModelEncoder
  let lease: ModelLease
}

/// Indexes what clients put into their stores, and builds indexes anew when their model is another one.
final class ArchiveWorker: Sendable {
  private let archive: Archive
  private let models: ModelFleet
  private let thread = Monitor<Thread?>(nil)
  /// Of what is read through once after a start.
  private let checking = Monitor<Thread?>(nil)

  init(_ archive: Archive, models: ModelFleet) {
    self.archive = archive
    self.models = models
  }

  /// Starts the thread with the first work.
  func start() {
    thread.withLock { thread in
      guard thread == nil else { return }
      thread = try? Thread(name: "indexing", stackBytes: 4 << 20) { self.run() }
    }
  }

  /// Goes on with what the last process left, or a search wants.
  func resume() {
    let (hasWork, isUnchecked) = archive.state.withLock {
      (!$0.queue.isEmpty || !$0.unread.isEmpty, !$0.unchecked.isEmpty || !$0.unseen.isEmpty)
    }
    if hasWork { start() }
    guard isUnchecked else { return }
    checking.withLock { thread in
      guard thread == nil else { return }
      thread = try? Thread(name: "checking", stackBytes: 4 << 20) { self.check() }
    }
  }

  func stop() {
    archive.state.update { $0.isStopped = true }
    for place in [thread, checking] { place.withLock { $0.take() }?.join() }
  }

  /// What the thread does next.
  private enum Next {
    case index(Archive.Work)
    /// Sentences of a store.
    case read(String)
    case pause, stop
  }

  /// How long nothing has to be indexed before sentences are read, seconds: files come one after another.
  private static let quiet = 0.5

  private func run() {
    var reader = StoreReader(archive: archive, models: models)
    var rest = Instant.now
    var failures = 0
    while true {
      let next = archive.state.wait { state -> Next? in
        state.atWork = nil
        if state.isStopped { return .stop }
        if !state.queue.isEmpty {
          let work = state.queue.removeFirst()
          state.atWork = work
          return .index(work)
        }
        // An index for another model goes first.
        guard let store = state.unread.first, state.rebuilding.isEmpty else { return nil }
        return Instant.now < rest ? .pause : .read(store)
      }
      switch next {
      case .index(let work):
        if index(work, failures: failures) {
          failures = 0
        } else {
          failures += 1
          archive.state.withLock { $0.queue.append(work) }
          let pause = Instant.now.adding(
            seconds: min(Self.longestPause, 0.01 * Double(1 << min(failures, 20))))
          _ = archive.state.wait(until: pause) { $0.isStopped ? true : nil }
        }
        rest = Instant.now.adding(seconds: Self.quiet)
      case .read(let store): reader.step(store)
      case .pause: _ = archive.state.wait(until: rest) { $0.isStopped || !$0.queue.isEmpty ? true : nil }
      case .stop, nil: return
      }
    }
  }

  private func isCurrent(_ work: Archive.Work) -> Bool {
    archive.state.withLock { state in
      !state.isStopped && state.stores[work.store]?.entries[work.file]?.turn == work.turn
        && state.stores[work.store]?.entries[work.file]?.status == .inProgress
    }
  }

  /// Longest pause of what cannot be done now, seconds, and how often in a row it is tried where not descriptors or memory lack:
  /// ten seconds in all, in which other files wait too.
  private static let (longestPause, mostFailures) = (10.0, 10)

  /// Most bytes a second that are read of what is there since the start: a sixth of what a processor core could.
  private static let pace = 64.0 * 1_048_576
  /// How long it rests when memory lacks, seconds.
  private static let shortRest = 10.0

  /// Reads through what the last process left, indexes first, on a thread of its own: nobody waits for it.
  private func check() {
    var unpaid = 0
    func rest(_ seconds: Double) {
      _ = archive.state.wait(until: Instant.now.adding(seconds: seconds)) { $0.isStopped ? true : nil }
    }
    func pace(_ bytes: Int) {
      unpaid += bytes
      guard unpaid >= 1 << 20 else { return }
      rest(Double(unpaid) / Self.pace)
      unpaid = 0
    }
    while !archive.state.withLock({ $0.isStopped }) {
      if let store = archive.state.withLock({ $0.unchecked.first }) {
        let isDone = inspect(store, pace)
        // What is lost is indexed again.
        if archive.state.withLock({ !$0.queue.isEmpty }) { start() }
        archive.state.update { state in
          state.unchecked.removeAll { $0 == store }
          if !isDone, state.stores[store] != nil { state.unchecked.append(store) }
        }
        if !isDone { rest(Self.shortRest) }
      } else if let id = archive.state.update({ $0.unseen.popLast() }) {
        guard let file = archive.state.withLock({ $0.files[id] }) else { continue }
        // What is damaged is told there.
        _ = try? archive.mappedContent(of: file)
        pace(file.bytes)
      } else {
        return
      }
    }
  }

  /// Looks through an index; false where there is no memory for it now. What cannot be read now is looked at when it is used.
  private func inspect(_ store: String, _ pace: (Int) -> Void) -> Bool {
    let memory = MemoryLoan(models.ledger, for: .answers, patience: Self.patience)
    defer { withExtendedLifetime(memory) {} }
    do {
      try archive.inspect(store, memory, pace: pace) {
        let model = archive.state.withLock { $0.stores[store]?.record.model }
        return try models.encoder(model ?? archive.settings.embeddingModel, isBackground: true).encoder
      }
    } catch SearchError.noMemory {
      return false
    } catch {
      Log.error("an index cannot be read", ["store": store, "error": "\(error)"])
    }
    return true
  }

  /// - Parameter failures: how often work could not be done, in a row.
  /// - Returns: false where it could not be done now, and has to be tried again.
  private func index(_ work: Archive.Work, failures: Int) -> Bool {
    guard isCurrent(work) else { return true }
    let found = archive.state.withLock { state in
      (state.stores[work.store]?.entries[work.file], state.files[work.file], state.stores[work.store]?.record)
    }
    guard var entry = found.0, let store = found.2 else { return true }
    let attempt = work.store + "." + work.file
    defer { archive.attempts.end(attempt) }
    do {
      guard let file = found.1 else { throw SearchError.invalidFile("the file was deleted") }
      guard archive.attempts.begin(attempt, isUnwanted: { !self.isCurrent(work) }) else {
        throw SearchError.invalidFile(Attempts.reason("indexed this file"))
      }
      let lease = try models.encoder(store.model ?? archive.settings.embeddingModel, isBackground: true)
      let index = try archive.index(of: work.store, lease.encoder)
      guard index.view.passageCount < archive.settings.passagesPerStore else {
        throw SearchError.invalid(
          "a vector store holds at most \(archive.settings.passagesPerStore) chunks, and this one is full")
      }
      let memory = MemoryLoan(models.ledger, for: .answers, patience: Self.patience)
      defer { withExtendedLifetime(memory) {} }
      let source = try read(file, memory) { !self.isCurrent(work) }
      let rules = SplitRules(tokens: entry.strategy.size, overlap: entry.strategy.overlap)
      let state = try DocumentIndexer(index: index, encoder: lease.encoder).index(
        source, key: file.id, info: Self.info(file), name: DocumentName(path: file.name), rules: rules,
        reserve: memory.extend,
        isUnwanted: { !self.isCurrent(work) }, progress: { _ in archive.attempts.restart(attempt) })
      entry.status = .completed
      entry.error = nil
      entry.bytes = source.text.count + state.rows * (5 * lease.encoder.dimensions)
      archive.state.withLock { state in
        state.counts.indexedFiles += 1
        state.counts.indexedChunks += index.view.document(file.id)?.passages ?? 0
      }
      archive.state.withLock { $0.counts.encodedTexts += state.encoded }
      if SentencePass.isKept(index, lease.encoder) { archive.noteUnread(work.store) }
      // Where it fails the index stays in memory, and the next change tries again.
      try? archive.settle(index, reserve: memory.extend)
      // What it has grown by is counted before the loan ends.
      models.observe()
      // Deleted while it was being committed: it must not be found.
      try? archive.settleEntry(work.file, store: work.store, index)
    } catch SearchError.cancelled {
      return true
    } catch let error where mayPass(error, of: work, failures) {
      if failures == 0 {
        Log.warning(
          "a file cannot be indexed now, and is tried again", ["file": work.file, "error": "\(error)"])
      }
      return false
    } catch {
      let failure = Self.failure(error)
      entry.status = .failed
      entry.error = failure
      archive.state.withLock { $0.counts.failures[failure.code, default: 0] += 1 }
      Log.info("a file was not indexed", ["store": work.store, "file": work.file, "code": failure.code])
    }
    tell(entry, of: work)
    return true
  }

  /// Whether the reason why work could not be done may go: a lack of descriptors or memory, a disk that fails, damage that is put
  /// aside now.
  private func mayPass(_ error: any Error, of work: Archive.Work, _ failures: Int) -> Bool {
    let cause = Archive.cause(error)
    if case .system(let error) = cause, error.isPassing { return true }
    guard failures < Self.mostFailures else { return false }
    if let cause, cause.isDamage {
      return (try? archive.openIndex(work.store).map { try archive.heal(work.store, $0) }) != nil
    }
    if case .system = cause { return true }
    return (error as? APIError)?.code == "storage_failed"
  }

  /// Writes down what became of a file, if it is still wanted.
  private func tell(_ entry: EntryRecord, of work: Archive.Work) {
    func take(_ now: inout EntryRecord) {
      guard now.status == .inProgress else { return }
      (now.status, now.error, now.bytes) = (entry.status, entry.error, entry.bytes)
    }
    do throws(APIError) {
      // The end of the server leaves it to the next process.
      guard isCurrent(work) else { return }
      try archive.changeEntry(work.file, store: work.store, turn: work.turn, take)
    } catch {
      guard error.code != Quotas.code || entry.status != .completed else {
        // Its index has no room: what was put into it goes, and the entry says so.
        var failed = entry
        (failed.status, failed.error, failed.bytes) = (.failed, ("server_error", error.message), 0)
        _ = try? archive.openIndex(work.store)?.remove(work.file)
        return tell(failed, of: work)
      }
      Log.error("what became of a file is not stored", ["file": work.file, "error": error.message])
      // Its client is told all the same; the next start tries once more.
      archive.state.update { state in
        guard let store = state.stores[work.store], let old = store.entries[work.file], old.turn == work.turn
        else { return }
        var now = old
        take(&now)
        state.stores[work.store]?.set(now, of: work.file)
        state.quotas.add(now.holding - old.holding, of: store.record.owner)
      }
    }
  }

  /// How long a file waits for the memory that it needs, seconds.
  static let patience = 5.0

  /// The text of a file. What its bytes take and what reading them takes is claimed first.
  private func read(
    _ file: FileRecord, _ memory: MemoryLoan, isUnwanted: () -> Bool
  ) throws -> SourceText {
    guard memory.extend(by: file.bytes) else { throw SearchError.noMemory(bytes: file.bytes) }
    return try FileReader.read(
      try archive.content(of: file), name: file.name, reserve: memory.extend, ledger: memory.ledger,
      isUnwanted: isUnwanted)
  }

  private static func info(_ file: FileRecord) -> [UInt8] {
    JSONValue.object(JSONObject([("filename", .string(file.name))])).bytes
  }

  private static func failure(_ error: any Error) -> (code: String, message: String) {
    switch error {
    case let error as SearchError:
      switch error {
      case .unsupportedFile: ("unsupported_file", error.description)
      case .invalidFile, .invalid: ("invalid_file", error.description)
      default: ("server_error", error.description)
      }
    case let error as APIError: ("server_error", error.message)
    default: ("server_error", "\(error)")
    }
  }
}

/// Reads sentences of stores, in steps.
private struct StoreReader {
  let archive: Archive
  let models: ModelFleet
  /// How far each store has come.
  private var passes: [String: SentencePass] = [:]
  /// What is held while there is something to read.
  private var memory: MemoryLoan?

  init(archive: Archive, models: ModelFleet) { (self.archive, self.models) = (archive, models) }

  mutating func step(_ store: String) {
    do {
      if try read(store) { return }
    } catch SearchError.cancelled {
      return
    } catch {
      // The next search that is explained asks for it again.
      Log.info("sentences of a store were not read", ["store": store, "error": "\(error)"])
    }
    let isLast = archive.state.update { state -> Bool in
      state.unread.removeAll { $0 == store }
      return state.unread.isEmpty
    }
    if isLast { memory = nil }
  }

  /// Whether there is more to do.
  private mutating func read(_ store: String) throws -> Bool {
    guard let record = archive.state.withLock({ $0.stores[store]?.record }),
      let index = try archive.openIndex(store)
    else {
      passes[store] = nil
      return false
    }
    let lease = try models.encoder(record.model ?? archive.settings.embeddingModel, isBackground: true)
    guard lease.encoder.fingerprint == index.fingerprint else { return false }
    let attempt = "sentences." + store
    guard archive.attempts.begin(attempt, isUnwanted: { archive.state.withLock { $0.isStopped } }) else {
      throw SearchError.invalid(Attempts.reason("read the sentences of this store"))
    }
    defer { archive.attempts.end(attempt) }
    if memory == nil { memory = MemoryLoan(holding: SentencePass.memory, of: models.ledger, for: .answers) }
    guard let memory else { throw SearchError.noMemory(bytes: SentencePass.memory) }
    let more = memory.another()
    defer { withExtendedLifetime(more) {} }
    return try passes[store, default: SentencePass()].step(
      index, lease.encoder, reserve: more.extend,
      isUnwanted: { [archive] in
        archive.state.withLock { $0.isStopped || !$0.queue.isEmpty || $0.stores[store] == nil }
      })
  }
}

extension ModelFleet {
  /// The model of that name, or the first that makes vectors, loaded.
  ///
  /// - Throws: 400 when it makes none, or when there is none.
  func encoder(_ name: String?, isBackground: Bool, tenant: UInt64 = 0) throws(APIError) -> EncoderLease {
    if let name {
      let lease = try lease(name)
      guard let encoder = ModelEncoder(lease.model, isBackground: isBackground, tenant: tenant) else {
        throw .unsupportedValue("embedding_model", "the model '\(APIError.shortened(name))' makes no vectors")
      }
      return EncoderLease(encoder: encoder, lease: lease)
    }
    // Those that are loaded first: they need no time.
    let all = statuses
    for status in all.filter({ $0.model?.loaded.embedder != nil })
      + all.filter({ $0.model == nil && LoadedModel.makesVectors($0.source.path) })
    {
      let lease = try lease(status.source.id)
      if let encoder = ModelEncoder(lease.model, isBackground: isBackground, tenant: tenant) {
        return EncoderLease(encoder: encoder, lease: lease)
      }
    }
    throw APIError(
      status: 400, code: "unsupported_operation",
      message:
        "This server has no embedding model, which searching files needs. Start it with --model DIR of one as well."
    )
  }
}

extension ModelFleet {
  /// The served model that an index was made with; nil where it is not served any more.
  func encoder(fingerprint: String, tenant: UInt64) -> EncoderLease? {
    for status in statuses where status.source.makes(scores: false, status.model?.loaded) {
      guard let lease = try? lease(status.source.id),
        let encoder = ModelEncoder(lease.model, isBackground: false, tenant: tenant),
        encoder.fingerprint == fingerprint
      else { continue }
      return EncoderLease(encoder: encoder, lease: lease)
    }
    return nil
  }
}

extension Archive {
  /// The index of a store for a model: it is opened, or begun. One of another model goes on answering until this one is full.
  func index(of id: String, _ encoder: ModelEncoder) throws -> VectorIndex {
    try opening.withLock { _ in try openedIndex(of: id, encoder) }
  }

  private func openedIndex(of id: String, _ encoder: ModelEncoder) throws -> VectorIndex {
    let name = "index-" + encoder.fingerprint.prefix(16)
    let store = state.withLock { $0.stores[id] }
    guard let store else { throw SearchError.cancelled }
    if store.record.index == name, let index = store.index { return index }
    if store.record.index != name, let next = store.next, next.fingerprint == encoder.fingerprint {
      return next
    }
    let index = try openFolder(name, of: id, fingerprint: encoder.fingerprint, dimensions: encoder.dimensions)
    guard store.record.index ?? name == name else {
      state.withLock { $0.stores[id]?.next = index }
      return index
    }
    if store.record.fingerprint != encoder.fingerprint { try set(name, encoder, of: id) }
    state.withLock { $0.stores[id]?.index = index }
    try reconcile(id, index)
    return index
  }

  /// Writes down which index answers.
  private func set(_ name: String, _ encoder: ModelEncoder, of id: String) throws(APIError) {
    try change(id) { record in
      record.index = name
      (record.dimensions, record.fingerprint) = (encoder.dimensions, encoder.fingerprint)
    }
  }

  /// - Parameter fingerprint: empty for whichever the folder was made with.
  private func openFolder(
    _ name: String, of id: String, fingerprint: String, dimensions: Int
  ) throws(IndexError) -> VectorIndex {
    let index = try VectorIndex(
      folder: folder + "/stores/\(id)/" + name, fingerprint: fingerprint, dimensions: dimensions,
      limits: settings.indexLimits, files: files,
      compacted: { [state] in state.withLock { $0.counts.compactions += 1 } })
    for loss in index.losses { Log.error("an index is damaged", ["store": id, "error": loss]) }
    do throws(IndexError) {
      let isNew = try index.renewWords { Array(self.name(of: $0).words.utf8) }
      if isNew { Log.info("an index was written anew: an older version had made its words", ["store": id]) }
    } catch {
      // What it has answers still, without stems and names.
      Log.error("the words of an index could not be written anew", ["store": id, "error": "\(error)"])
    }
    return index
  }

  private func name(of file: String) -> DocumentName {
    DocumentName(path: state.withLock { $0.files[file]?.name } ?? "")
  }

  /// Builds the index of another model from the texts of the old one, and lets it answer.
  func rebuild(_ id: String, _ encoder: ModelEncoder, _ ledger: MemoryLedger) throws {
    guard let store = state.withLock({ $0.stores[id] }), let old = try openIndex(id) else { return }
    guard old.fingerprint != encoder.fingerprint else { return }
    let attempt = "rebuild." + id
    guard attempts.begin(attempt, isUnwanted: { self.state.withLock { $0.isStopped } }) else {
      throw SearchError.invalid(
        Attempts.reason("built this index for another model")
          + "; a change of the vector store has it tried again")
    }
    defer { attempts.end(attempt) }
    let index = try index(of: id, encoder)
    let view = old.view
    for document in view.documents where index.view.document(document.key) == nil {
      guard state.withLock({ !$0.isStopped && $0.stores[id]?.entries[document.key] != nil }) else { continue }
      let memory = MemoryLoan(ledger, for: .answers, patience: ArchiveWorker.patience)
      defer { withExtendedLifetime(memory) {} }
      let text = Self.text(try view.passages(of: document.key))
      let strategy = store.entries[document.key]?.strategy ?? ChunkingStrategy()
      _ = try DocumentIndexer(index: index, encoder: encoder).index(
        SourceText(text, kind: .markdown), key: document.key, info: document.info,
        name: self.name(of: document.key),
        rules: SplitRules(tokens: strategy.size, overlap: strategy.overlap), reserve: memory.extend,
        isUnwanted: { self.state.withLock { $0.isStopped } }, progress: { _ in attempts.restart(attempt) })
      try settleEntry(document.key, store: id, index)
    }
    guard !state.withLock({ $0.isStopped }) else { return }
    let name = "index-" + encoder.fingerprint.prefix(16)
    let before = store.record.index
    try set(name, encoder, of: id)
    state.withLock { state in
      state.stores[id]?.index = index
      state.stores[id]?.next = nil
    }
    if let before { removeTree(folder + "/stores/\(id)/" + before, depth: 0) }
    // What the old index had lost.
    try reconcile(id, index)
  }

  /// The index that answers, opened; nil when there is none yet.
  func openIndex(_ id: String) throws -> VectorIndex? {
    if let index = state.withLock({ $0.stores[id]?.index }) { return index }
    return try opening.withLock { _ -> VectorIndex? in
      guard let store = state.withLock({ $0.stores[id] }) else { return nil }
      if let index = store.index { return index }
      guard let name = store.record.index, store.record.dimensions > 0 else { return nil }
      let index = try openFolder(
        name, of: id, fingerprint: store.record.fingerprint ?? "", dimensions: store.record.dimensions)
      state.withLock { $0.stores[id]?.index = index }
      try reconcile(id, index)
      return index
    }
  }

  /// What an index or the system says in an error.
  static func cause(_ error: any Error) -> IndexError? {
    switch error {
    case let error as IndexError: error
    case let error as PlatformError: .system(error)
    case SearchError.index(let error): error
    default: nil
    }
  }

  /// The text of a document, of passages that may overlap.
  static func text(_ passages: [StoredPassage]) -> [UInt8] {
    var text: [UInt8] = []
    for passage in passages {
      let known = max(0, text.count - passage.range.lowerBound)
      if known < passage.text.count { text += passage.text[known...] }
    }
    return text
  }
}
