// A search by meaning and by words: two lists become one, by the places that passages have in them.

package import Platform
package import Vectors

/// Weights of the two lists.
package struct HybridWeights: Sendable, Equatable {
  package var embedding: Double
  package var text: Double

  package init(embedding: Double, text: Double) {
    self.embedding = embedding
    self.text = text
  }

  /// What was best for questions on the 60 queries of the book.
  package static let usual = HybridWeights(embedding: 0.8, text: 0.2)
  /// For names and numbers, which vectors miss.
  package static let names = HybridWeights(embedding: 0.5, text: 0.5)
}

/// What is searched for.
package struct SearchQuery: Sendable {
  /// One text, or several that are searched for separately.
  package var texts: [String]
  package var limit = 10
  /// Nil chooses by the query.
  package var weights: HybridWeights?
  /// Results whose score is below are left out.
  package var threshold: Float = 0
  /// Whether each result says why it is there.
  package var explains = false
  /// Whether signs may choose what is read of very many vectors.
  package var depth = ScanDepth.automatic

  package init(_ texts: [String]) { self.texts = texts }
}

/// What a result's place comes from.
package struct ScoreParts: Sendable, Equatable {
  /// Cosine, -1 to 1; nil when the passage was found by its words alone.
  package var vector: Float?
  /// BM25; nil when it has none of the words.
  package var lexical: Float?
  /// 0 to 1; nil without a reranker.
  package var rerank: Float?
  /// Places in the two lists, from 1.
  package var vectorRank: Int?
  package var lexicalRank: Int?
  /// 0 to 1.
  package var fused: Float = 0
}

/// A passage that answers.
package struct SearchResult: Sendable {
  package var hit: Hit
  package var passage: StoredPassage
  /// What results are ordered by, 0 to 1.
  package var score: Float
  package var parts: ScoreParts
  package var why: Why?
}

/// What a search took, seconds.
package struct SearchTimes: Sendable, Equatable {
  package var embed = 0.0
  /// Reading signs and bytes of vectors.
  package var scan = 0.0
  /// Scoring those in float32 that are left.
  package var rescore = 0.0
  package var lexical = 0.0
  package var rerank = 0.0
  package var explain = 0.0

  package init() {}
}

/// A judge of pairs of texts.
package protocol PassageReranker: Sendable {
  /// A score from 0 to 1 for each text, or for the first of them where time runs out.
  func scores(
    _ query: String, _ texts: [String], isUnwanted: () -> Bool
  ) throws(SearchError) -> [Float]
}

/// Results, with what they cost.
package struct SearchAnswer: Sendable {
  package var results: [SearchResult] = []
  package var count = ScanCount()
  package var times = SearchTimes()
  /// Results that a reranker has judged; nil without one.
  package var reranked: Int?
  package var sentences = SentenceCount()
}

/// Searches one view with one model.
package struct HybridSearch: Sendable {
  private let view: IndexView
  private let encoder: any PassageEncoder
  private let reranker: (any PassageReranker)?
  private let memory: MemoryLoan?
  private let accepts: (@Sendable (IndexedDocument) -> Bool)?

  /// Places of either list that count.
  package static let depth = 100
  /// The constant of reciprocal rank fusion; 60, the textbook's, lost eight points of nDCG.
  package static let fusionConstant = 10.0
  /// Results that a reranker judges.
  package static let reranked = 50
  /// Neighbouring passages of a document in one answer.
  private static let neighbours = 3

  /// - Parameters:
  ///   - memory: what is claimed for a search, and given back when it ends, is had on its terms; nil where nobody counts.
  ///   - accepts: which documents are searched; nil for all.
  package init(
    _ view: IndexView, encoder: any PassageEncoder, reranker: (any PassageReranker)? = nil,
    memory: MemoryLoan? = nil,
    accepts: (@Sendable (IndexedDocument) -> Bool)? = nil
  ) {
    self.view = view
    self.encoder = encoder
    self.reranker = reranker
    self.memory = memory
    self.accepts = accepts
  }

  private struct Place: Hashable {
    var part: Int
    var passage: Int
  }

  private struct Candidate {
    var hit: Hit
    var parts = ScoreParts()
    /// Index of the query that found it at its best place.
    var query = 0
    var best = 0.0
    var sum = 0.0
  }

  /// - Parameter clock: seconds of a clock that only goes forward.
  package func run(
    _ query: SearchQuery, clock: () -> Double, isUnwanted: () -> Bool = { false }
  ) throws(SearchError) -> SearchAnswer {
    var answer = SearchAnswer()
    guard view.documentCount > 0, query.limit > 0 else { return answer }
    var time = clock()
    func lap(_ phase: WritableKeyPath<SearchTimes, Double>) {
      let now = clock()
      answer.times[keyPath: phase] += now - time
      time = now
    }
    let usesVectors = query.weights.map { $0.embedding > 0 } ?? true
    let vectors = usesVectors ? try encoder.encode(query.texts, as: .query, isUnwanted: isUnwanted) : []
    lap(\.embed)
    var candidates: [Place: Candidate] = [:]
    let depth = max(Self.depth, query.limit)
    var weightsOfTerms: [[TermWeight]] = []
    let choice = accepts.map { view.choose($0) }
    let nearest = try SearchError.index { () throws(IndexError) in
      try view.nearest(vectors, limit: depth, among: choice, depth: query.depth, isCancelled: isUnwanted)
    }
    guard let nearest else { throw .cancelled }
    lap(\.scan)
    for found in nearest {
      answer.count = answer.count.adding(found.count)
      answer.times.rescore += found.count.rescoring
      answer.times.scan -= found.count.rescoring
    }
    for (number, text) in query.texts.enumerated() {
      let words = WordQuery(Array(text.utf8))
      let near = number < nearest.count ? nearest[number].hits : []
      let worded = try SearchError.index { () throws(IndexError) in
        try view.byWords(words, limit: depth, among: choice, memory: memory)
      }
      weightsOfTerms.append(worded.weights)
      lap(\.lexical)
      let weights = query.weights ?? Self.weights(for: text, worded.weights)
      add(near, worded.hits, weights, number, to: &candidates)
    }
    var found = Array(candidates.values)
    finish(&found, query)
    try sort(&found)
    var results = try choose(found, query)
    if let reranker, let text = query.texts.first {
      answer.reranked = try rerank(&results, text, reranker, isUnwanted)
      lap(\.rerank)
    }
    results.removeAll { $0.result.score < query.threshold }
    answer.results = Array(results.map(\.result).prefix(query.limit))
    if query.explains {
      let explainer = Explainer(
        view, encoder: encoder, query: query.texts, vectors: vectors, weights: weightsOfTerms)
      let found = try explainer.reasons(Array(results.prefix(query.limit)), isUnwanted: isUnwanted)
      for (index, why) in found.reasons.enumerated() { answer.results[index].why = why }
      answer.sentences = found.count
      lap(\.explain)
    }
    return answer
  }

  // MARK: Fusion

  /// Names and numbers are looked for by their letters.
  static func weights(for text: String, _ terms: [TermWeight]) -> HybridWeights {
    if text.contains("\"") { return .names }
    if terms.contains(where: { $0.term.contains { $0 >= 0x30 && $0 <= 0x39 } && $0.passages > 0 }) {
      return .names
    }
    let rare = terms.allSatisfy { $0.passages <= 3 && $0.passages > 0 }
    return !terms.isEmpty && terms.count <= 2 && rare ? .names : .usual
  }

  private func add(
    _ near: [Hit], _ worded: [Hit], _ weights: HybridWeights, _ query: Int,
    to candidates: inout [Place: Candidate]
  ) {
    let total = weights.embedding + weights.text
    guard total > 0 else { return }
    var shares: [Place: Double] = [:]
    for (rank, hit) in near.enumerated() where weights.embedding > 0 {
      let place = Place(part: hit.part, passage: hit.passage)
      shares[place, default: 0] += weights.embedding / (Self.fusionConstant + Double(rank + 1))
      var candidate = candidates[place] ?? Candidate(hit: hit)
      if hit.score > candidate.parts.vector ?? -2 {
        candidate.parts.vector = hit.score
        candidate.parts.vectorRank = rank + 1
        candidate.hit.row = hit.row
      }
      candidates[place] = candidate
    }
    for (rank, hit) in worded.enumerated() where weights.text > 0 {
      let place = Place(part: hit.part, passage: hit.passage)
      shares[place, default: 0] += weights.text / (Self.fusionConstant + Double(rank + 1))
      var candidate = candidates[place] ?? Candidate(hit: hit)
      if hit.score > candidate.parts.lexical ?? -1 {
        candidate.parts.lexical = hit.score
        candidate.parts.lexicalRank = rank + 1
      }
      candidates[place] = candidate
    }
    for (place, share) in shares {
      let normal = share * (Self.fusionConstant + 1) / total
      candidates[place]?.sum += normal
      if normal > candidates[place]?.best ?? 0 {
        candidates[place]?.best = normal
        candidates[place]?.query = query
      }
    }
  }

  /// The score that is told. Vectors alone are told as cosines.
  private func finish(_ found: inout [Candidate], _ query: SearchQuery) {
    let isVectorsAlone = query.weights.map { $0.text == 0 } ?? false
    for index in found.indices {
      let fused = Float(found[index].sum / Double(max(1, query.texts.count)))
      found[index].parts.fused = fused
      found[index].hit.score = isVectorsAlone ? max(0, found[index].parts.vector ?? 0) : fused
    }
  }

  /// By score; equal ones by cosine, then in the order of the documents.
  private func sort(_ found: inout [Candidate]) throws(SearchError) {
    var order: [(candidate: Candidate, serial: UInt64)] = []
    for candidate in found {
      let hit = candidate.hit
      let serial = try SearchError.index { () throws(IndexError) in try view.serial(of: hit) }
      order.append((candidate, serial))
    }
    order.sort { a, b in
      let (x, y) = (a.candidate, b.candidate)
      if x.hit.score != y.hit.score { return x.hit.score > y.hit.score }
      let (v, w) = (x.parts.vector ?? -2, y.parts.vector ?? -2)
      return v != w ? v > w : (a.serial, x.hit.passage) < (b.serial, y.hit.passage)
    }
    found = order.map(\.candidate)
  }

  /// The best passages, no more than three neighbours of a document while others are left.
  private func choose(
    _ found: [Candidate], _ query: SearchQuery
  ) throws(SearchError) -> [(result: SearchResult, query: Int)] {
    let wanted = reranker == nil ? query.limit : max(query.limit, Self.reranked)
    var chosen: [Int] = []
    var taken: Set<Place> = []
    var postponed: [Int] = []
    for (index, candidate) in found.enumerated() {
      guard chosen.count < wanted else { break }
      let (part, passage) = (candidate.hit.part, candidate.hit.passage)
      let document = try SearchError.index { () throws(IndexError) in try view.passages(around: candidate.hit)
      }
      func isTaken(_ neighbour: Int) -> Bool {
        document.contains(neighbour) && taken.contains(Place(part: part, passage: neighbour))
      }
      var run = 1
      while run <= Self.neighbours, isTaken(passage - run) { run += 1 }
      var above = 1
      while above <= Self.neighbours, isTaken(passage + above) { above += 1 }
      if run + above - 1 > Self.neighbours {
        postponed.append(index)
        continue
      }
      taken.insert(Place(part: part, passage: passage))
      chosen.append(index)
    }
    chosen = (chosen + postponed.prefix(max(0, wanted - chosen.count))).sorted()
    var results: [(result: SearchResult, query: Int)] = []
    for index in chosen {
      let candidate = found[index]
      let passage = try SearchError.index { () throws(IndexError) in try view.passage(candidate.hit) }
      results.append(
        (
          SearchResult(
            hit: candidate.hit, passage: passage, score: candidate.hit.score, parts: candidate.parts),
          candidate.query
        ))
    }
    return results
  }

  /// - Returns: how many were judged.
  private func rerank(
    _ results: inout [(result: SearchResult, query: Int)], _ text: String, _ reranker: any PassageReranker,
    _ isUnwanted: () -> Bool
  ) throws(SearchError) -> Int {
    let texts = results.map { String(decoding: $0.result.passage.text, as: UTF8.self) }
    let scores = try reranker.scores(text, texts, isUnwanted: isUnwanted).prefix(results.count)
    for (index, score) in scores.enumerated() {
      results[index].result.parts.rerank = score
      results[index].result.score = score
    }
    let order = scores.indices.sorted { a, b in
      scores[a] != scores[b] ? scores[a] > scores[b] : a < b
    }
    // Those that were not reached keep their order below.
    let least = scores.min() ?? 1
    for index in scores.count..<results.count {
      results[index].result.score = min(results[index].result.score, least)
    }
    let unsorted = results
    results = order.map { unsorted[$0] } + unsorted[scores.count...]
    return scores.count
  }
}
