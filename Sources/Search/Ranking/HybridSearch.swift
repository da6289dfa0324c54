// A search by meaning and by words: two lists become one, by how near passages are and how much they say of what is asked.

package import Platform
package import Vectors

/// Weights of the two lists.
package struct HybridWeights: Sendable, Equatable {
  package var embedding: Double
  package var text: Double

  package init(embedding: Double, text: Double) {
    (self.embedding, self.text) = (embedding, text)
  }

  /// What was best for questions, on Cranfield, CISI, MED and a book alike (docs/benchmarks/search.md).
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
  /// Cosine, -1 to 1; nil where vectors count for nothing.
  package var vector: Float?
  /// The cosine of its document's name; nil for a name without a vector.
  package var name: Float?
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

  /// Bytes of the passage before its best sentence; 0 without one.
  package var sentenceOffset: Int {
    guard let sentence = why?.sentence else { return 0 }
    return String(decoding: passage.text, as: UTF8.self).unicodeScalars.prefix(sentence.range.lowerBound)
      .reduce(0) { $0 + UTF8.width($1) }
  }
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

/// A question that is longer than the model reads: its beginning counts for the meaning, and all its words.
package struct CutQuestion: Sendable, Equatable {
  package var tokens: Int
  /// How many the model reads.
  package var read: Int

  package var words: String {
    "the question has \(tokens) tokens: the model reads the first \(read) of them, and all its words count"
  }
}

/// Results, with what they cost.
package struct SearchAnswer: Sendable {
  package var results: [SearchResult] = []
  package var count = ScanCount()
  package var times = SearchTimes()
  /// Results that a reranker has judged; nil without one.
  package var reranked: Int?
  package var sentences = SentenceCount()
  /// The share of a question's tokens that the model does not know, of the worst question.
  package var unread: Float = 0
  /// The longest question that was cut.
  package var cut: CutQuestion?
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
  /// What the other questions of a query say of what one has found.
  private static let othersShare = 0.2
  /// A name that is nearer than its text draws a passage so much of the way.
  private static let nameShare: Float = 0.5
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
    (self.view, self.encoder, self.reranker) = (view, encoder, reranker)
    (self.memory, self.accepts) = (memory, accepts)
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
    /// Its cosine, and its name's.
    var meaning: Float = 0
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
    if usesVectors, let tokens = query.texts.map(encoder.tokenCount).max(), tokens > encoder.room {
      answer.cut = CutQuestion(tokens: tokens, read: encoder.room)
    }
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
    let chance = vectors.isEmpty ? 0 : try ChanceCosine.of(encoder, isUnwanted: isUnwanted)
    for (number, text) in query.texts.enumerated() {
      let words = WordQuery(Array(text.utf8))
      let unread = usesVectors ? encoder.unknownShare(of: text) : 0
      answer.unread = max(answer.unread, unread)
      let near = number < nearest.count && unread < 1 ? nearest[number].hits : []
      let worded = try SearchError.index { () throws(IndexError) in
        try view.byWords(words, limit: depth, also: near, among: choice, memory: memory)
      }
      weightsOfTerms.append(worded.weights)
      var weights = query.weights ?? Self.weights(for: words, worded.weights)
      if query.weights == nil {
        // What the model cannot read says nothing of what is meant.
        weights.text += weights.embedding * Double(unread)
        weights.embedding *= Double(1 - unread)
      }
      try add(
        near, worded, weights, number, number < vectors.count ? vectors[number] : [], chance: chance,
        to: &candidates)
      lap(\.lexical)
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
        view, encoder: encoder, query: query.texts, vectors: vectors, weights: weightsOfTerms,
        unread: answer.unread)
      let found = try explainer.reasons(Array(results.prefix(query.limit)), isUnwanted: isUnwanted)
      for (index, why) in found.reasons.enumerated() { answer.results[index].why = why }
      answer.sentences = found.count
      lap(\.explain)
    }
    return answer
  }

  // MARK: Fusion

  /// Names and numbers are looked for by their letters.
  static func weights(for query: WordQuery, _ terms: [TermWeight]) -> HybridWeights {
    if query.hasPhrases { return .names }
    let terms = terms.filter { !$0.isPart }
    if terms.contains(where: { $0.term.contains { $0 >= 0x30 && $0 <= 0x39 } && $0.passages > 0 }) {
      return .names
    }
    let rare = terms.allSatisfy { $0.passages <= 3 && $0.passages > 0 }
    return !terms.isEmpty && terms.count <= 2 && rare ? .names : .usual
  }

  /// Adds the candidates of a query, each with what it has in both ways: how much nearer it is than by chance, and the part of
  /// all that is asked which it says.
  ///
  /// Scores themselves are added, since places say nothing of how far the first is ahead: the only passage that has a number
  /// was the first by words and lay behind many by chance. On the judged sets their sum won 0.02 to 0.04 of nDCG@10.
  private func add(
    _ near: [Hit], _ worded: WordMatches, _ weights: HybridWeights, _ query: Int, _ vector: [Float],
    chance: Float,
    to candidates: inout [Place: Candidate]
  ) throws(SearchError) {
    let total = weights.embedding + weights.text
    guard total > 0 else { return }
    var own: [Place: Candidate] = [:]
    for (rank, hit) in near.enumerated() where weights.embedding > 0 {
      let place = Place(part: hit.part, passage: hit.passage)
      var candidate = Candidate(hit: hit)
      candidate.parts.vectorRank = rank + 1
      if rank < worded.also.count, worded.also[rank] > 0 {
        candidate.parts.lexical = Float(worded.also[rank])
      }
      own[place] = candidate
    }
    for (rank, hit) in worded.hits.enumerated() where weights.text > 0 {
      let place = Place(part: hit.part, passage: hit.passage)
      var candidate = own[place] ?? Candidate(hit: hit)
      candidate.parts.lexical = hit.score
      candidate.parts.lexicalRank = rank + 1
      own[place] = candidate
    }
    for (place, candidate) in own {
      var candidate = candidate
      var score = 0.0
      if weights.embedding > 0, !vector.isEmpty {
        let found = try SearchError.index { () throws(IndexError) in
          try view.cosines(candidate.hit, with: vector)
        }
        candidate.parts.vector = found.text
        candidate.parts.name = found.name
        if candidate.parts.vectorRank != nil { candidate.hit.row = found.row }
        let meaning = found.text + Self.nameShare * max(0, (found.name ?? -1) - found.text)
        candidate.meaning = meaning
        score += weights.embedding * Double((meaning - chance) / (1 - chance))
      }
      if weights.text > 0, worded.full > 0 {
        score += weights.text * Double(candidate.parts.lexical ?? 0) / worded.full
      } else {
        candidate.parts.lexical = nil
      }
      candidate.query = query
      candidate.best = score / total
      candidate.sum = score / total + (candidates[place]?.sum ?? 0)
      if let other = candidates[place], other.best >= candidate.best {
        candidates[place]?.sum = candidate.sum
      } else {
        candidates[place] = candidate
      }
    }
  }

  /// The score that is told, 0 to 1. Vectors alone are told as cosines.
  private func finish(_ found: inout [Candidate], _ query: SearchQuery) {
    let isVectorsAlone = query.weights.map { $0.text == 0 } ?? false
    for index in found.indices {
      let mean = found[index].sum / Double(max(1, query.texts.count))
      // Several questions are searched for separately: what answers one is not behind what nearly answers all.
      found[index].sum = found[index].best + Self.othersShare * (mean - found[index].best)
      let fused = Float(min(1, max(0, found[index].sum)))
      found[index].parts.fused = fused
      found[index].hit.score = isVectorsAlone ? min(1, max(0, found[index].meaning)) : fused
    }
  }

  /// By score, also beyond what is told of it; equal ones by cosine, then in the order of the documents.
  private func sort(_ found: inout [Candidate]) throws(SearchError) {
    var order: [(candidate: Candidate, serial: UInt64)] = []
    for candidate in found {
      let hit = candidate.hit
      let serial = try SearchError.index { () throws(IndexError) in try view.serial(of: hit) }
      order.append((candidate, serial))
    }
    order.sort { a, b in
      let (x, y) = (a.candidate, b.candidate)
      if x.sum != y.sum { return x.sum > y.sum }
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
