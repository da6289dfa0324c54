// Searches in stores: with a place among those that run, within their time, over one store or several.

import HTTP
import JSON
import Pipeline
import Platform
import Search
import Vectors
import Wire

/// A passage of a store, as routes tell of it.
struct FoundPassage: Sendable {
  var result: SearchResult
  var store: String
  var file: String
  var name: String
  var attributes: JSONObject
  /// How many passages the file has.
  var passages: Int
}

/// What a search found.
struct FoundPassages: Sendable {
  var passages: [FoundPassage] = []
  var times = SearchTimes()
  var count = ScanCount()
  var sentences = SentenceCount()
  /// Whether an index was searched by words alone, because its model is gone and another is not there yet.
  var isDegraded = false
  /// Results that a reranker has judged; nil without one.
  var reranked: Int?
  /// The question, where the model reads its beginning alone.
  var cut: CutQuestion?
}

/// Which reranker puts results in order.
enum RerankerChoice: Sendable {
  case none
  /// One that is loaded, if there is one.
  case loaded
  /// One that is served, if there is one: it is loaded for it.
  case served

  init(ranker: String) {
    self =
      switch ranker {
      case "none": .none
      case "auto": .loaded
      default: .served
      }
  }
}

/// How a client wants its results.
struct SearchWishes: Sendable {
  var filter: AttributeFilter?
  var reranker = RerankerChoice.loaded
  /// The client, as a number that says nothing else.
  var tenant: UInt64 = 0
  /// A search with the name of one that runs ends that one; nil ends none.
  var session: String?
}

extension Archive {
  /// Searches stores that the client sees.
  ///
  /// - Throws: 404 and 400 for stores that cannot be searched, 429 when too many searches wait.
  func search(
    _ stores: [Store], _ query: SearchQuery, _ wishes: SearchWishes, models: ModelFleet,
    isUnwanted: @escaping () -> Bool
  ) throws(APIError) -> FoundPassages {
    let session = wishes.session.map { ByteKey("\(wishes.tenant)/\($0)") }
    let turn = state.update { state -> Int in
      state.turns += 1
      if let session { state.sessions[session] = state.turns }
      return state.turns
    }
    func isSuperseded() -> Bool {
      session.map { session in state.withLock { $0.sessions[session] != turn } } ?? false
    }
    defer {
      if let session {
        state.withLock { if $0.sessions[session] == turn { $0.sessions[session] = nil } }
      }
    }
    do throws(APIError) {
      return try placedSearch(stores, query, wishes, models: models) { isUnwanted() || isSuperseded() }
    } catch {
      guard isSuperseded(), !isUnwanted() else { throw error }
      throw APIError(
        status: 409, code: "search_superseded", message: "A newer search of the same session has begun.")
    }
  }

  private func placedSearch(
    _ stores: [Store], _ query: SearchQuery, _ wishes: SearchWishes, models: ModelFleet,
    isUnwanted: @escaping () -> Bool
  ) throws(APIError) -> FoundPassages {
    try takePlace(isUnwanted)
    defer { state.update { $0.searching -= 1 } }
    let deadline = Instant.now.adding(seconds: settings.searchSeconds)
    let start = Instant.now
    var found = FoundPassages()
    do {
      let reranker = try models.reranker(
        wishes.reranker, until: start.adding(seconds: 0.6 * settings.searchSeconds), tenant: wishes.tenant)
      for store in stores {
        func search() throws {
          try self.search(store, query, wishes, models, reranker, &found) {
            isUnwanted() || Instant.now > deadline
          }
        }
        do { try search() } catch  where Self.cause(error)?.isDamage == true {
          // It goes on with what is whole, while the rest is made again.
          guard let index = try openIndex(store.record.id) else { throw error }
          try heal(store.record.id, index)
          try search()
        }
      }
    } catch SearchError.cancelled {
      throw isUnwanted()
        ? APIError(AnswerFailure.clientGone, param: "query")
        : APIError(
          status: 408, code: "search_timeout", message: "The search took longer than its time.", retryAfter: 1
        )
    } catch let error as SearchError {
      throw APIError(searching: error)
    } catch let error as APIError {
      throw error
    } catch let error as IndexError {
      throw APIError(indexing: error)
    } catch {
      throw APIError(status: 500, type: "server_error", code: "index_error", message: "\(error)")
    }
    if stores.count > 1 {
      let order = found.passages.indices.sorted { a, b in
        let (x, y) = (found.passages[a].result.score, found.passages[b].result.score)
        return x != y ? x > y : a < b
      }
      let unsorted = found.passages
      found.passages = order.prefix(query.limit).map { unsorted[$0] }
    }
    let result = found
    let seconds = Instant.now.seconds(since: start)
    state.withLock { state in
      state.counts.searches += 1
      state.counts.degraded += result.isDegraded ? 1 : 0
      state.counts.results[result.isDegraded ? 1 : 0] += result.passages.count
      state.counts.rows += result.count.rows
      state.counts.rescored += result.count.rescored
      state.counts.sentences = state.counts.sentences.adding(result.sentences)
      state.counts.candidates.observe(Double(result.count.rescored))
      for (phase, time) in result.times.phases + [("all", seconds)] where phase == "all" || time > 0 {
        state.counts.seconds[phase, default: Histogram(bounds: Histogram.searchSeconds)].observe(time)
      }
    }
    if let cut = found.cut { Log.info(cut.words) }
    Log.debug("searched", ["phases": found.timing, "results": "\(found.passages.count)"])
    return found
  }

  /// Waits for a place among those that search.
  private func takePlace(_ isUnwanted: () -> Bool) throws(APIError) {
    let (most, waiting) = (settings.searches, settings.waiting)
    let isWaiting = state.withLock { state -> Bool? in
      if state.searching < most {
        state.searching += 1
        return false
      }
      guard state.waiting < waiting else {
        state.counts.refused += 1
        return nil
      }
      state.waiting += 1
      return true
    }
    guard let isWaiting else {
      throw APIError(
        status: 429, type: "rate_limit_error", code: "rate_limit_exceeded",
        message: "\(most) searches run and \(waiting) wait; try again.", retryAfter: 1)
    }
    guard isWaiting else { return }
    while true {
      let isMine = state.wait(until: Instant.now.adding(seconds: 0.05)) { state -> Bool? in
        guard state.searching < most else { return nil }
        state.searching += 1
        state.waiting -= 1
        return true
      }
      if isMine != nil { return }
      if isUnwanted() {
        state.withLock { $0.waiting -= 1 }
        throw APIError(AnswerFailure.clientGone, param: "query")
      }
    }
  }

  private func search(
    _ store: Store, _ query: SearchQuery, _ wishes: SearchWishes, _ models: ModelFleet,
    _ reranker: ModelReranker?, _ found: inout FoundPassages, _ isUnwanted: @escaping () -> Bool
  ) throws {
    let time = now()
    guard !store.record.isExpired(now: time) else {
      throw APIError(
        status: 400, code: "vector_store_expired",
        message:
          "The vector store '\(store.record.id)' has expired. Its files are still there: make another store of them."
      )
    }
    // Not more than once in a minute: it is written to disk.
    if time - store.record.lastActive > 60 { try change(store.record.id) { $0.lastActive = time } }
    guard let index = try openIndex(store.record.id) else {
      // Nothing was put into it yet; or it was deleted meanwhile, and what was in it is not to be passed over in silence.
      _ = try openStore(store.record.id)
      return
    }
    var lease = try models.encoder(
      store.record.model ?? settings.embeddingModel, isBackground: false, tenant: wishes.tenant)
    var query = query
    if lease.encoder.fingerprint != index.fingerprint {
      startRebuild(store.record.id, lease, models.ledger)
      // Vectors of two models are never compared. Until the new index is there, the old model answers if it is served
      // still; else words have to do.
      if let old = models.encoder(fingerprint: index.fingerprint, tenant: wishes.tenant) {
        lease = old
      } else {
        query.weights = HybridWeights(embedding: 0, text: 1)
        found.isDegraded = true
      }
    }
    let view = index.view
    let entries = store.entries
    let filter = wishes.filter
    let memory = MemoryLoan(models.ledger, for: .answers, patience: BodyBudget.patience)
    let search = HybridSearch(view, encoder: lease.encoder, reranker: reranker, memory: memory) { document in
      guard let entry = entries[document.key], entry.status == .completed || entry.status == .inProgress
      else {
        return false
      }
      return filter?.accepts(entry.attributes) ?? true
    }
    let answer = try search.run(
      query, clock: { Instant.now.seconds(since: Instant(nanoseconds: 0)) }, isUnwanted: isUnwanted)
    found.times.add(answer.times)
    found.cut = answer.cut ?? found.cut
    if let reranked = answer.reranked { found.reranked = (found.reranked ?? 0) + reranked }
    found.count = found.count.adding(answer.count)
    found.sentences = found.sentences.adding(answer.sentences)
    if answer.sentences.unknown > 0 { noteUnread(store.record.id) }
    for result in answer.results {
      let key = result.passage.document.key
      let name =
        state.withLock { $0.files[key]?.name }
        ?? (try? JSONValue(parsing: result.passage.document.info))?["filename"]?.stringValue
      found.passages.append(
        FoundPassage(
          result: result, store: store.record.id, file: key, name: name ?? key,
          attributes: entries[key]?.attributes ?? JSONObject(), passages: result.passage.document.passages))
    }
  }

  /// Builds the index of the new model, once at a time, while the old one answers.
  private func startRebuild(_ id: String, _ lease: EncoderLease, _ ledger: MemoryLedger) {
    let isFirst = state.withLock { state in state.rebuilding.insert(id).inserted }
    guard isFirst else { return }
    let thread = try? Thread(name: "rebuilding", stackBytes: 4 << 20) { [self] in
      do {
        if let encoder = ModelEncoder(lease.lease.model, isBackground: true) {
          try rebuild(id, encoder, ledger)
        }
      } catch {
        Log.error("an index could not be built for another model", ["store": id, "error": "\(error)"])
      }
      state.update { _ = $0.rebuilding.remove(id) }
    }
    thread?.detach()
  }
}

extension SearchTimes {
  /// Of all phases, in their order.
  var phases: [(name: String, seconds: Double)] {
    [
      ("embed", embed), ("scan", scan), ("rescore", rescore), ("lexical", lexical), ("rerank", rerank),
      ("explain", explain),
    ]
  }

  mutating func add(_ other: SearchTimes) {
    embed += other.embed
    scan += other.scan
    rescore += other.rescore
    lexical += other.lexical
    rerank += other.rerank
    explain += other.explain
  }
}

extension APIError {
  init(searching error: SearchError) {
    switch error {
    case .index(let error): self.init(indexing: error)
    case .encoder(let what): self = .invalidValue("query", what)
    default: self.init(status: 500, type: "server_error", code: "search_error", message: "\(error)")
    }
  }
}
