// Why a passage is a result: its words, the sentence that comes nearest, phrases that mean the same, and the scores.

import Vectors

/// The reason for a result. Offsets are in Unicode scalars of the passage's text.
package struct Why: Sendable, Equatable {
  /// One line for a reader.
  package var summary = ""
  package var sentence: Sentence?
  package var terms: [Term] = []
  package var concepts: [Concept] = []
  /// Whether two passages taken by chance are often as near to each other.
  package var isWeak = false

  /// The sentence nearest to the query.
  package struct Sentence: Sendable, Equatable {
    package var text: String
    package var range: Range<Int>
    /// Cosine.
    package var score: Float
  }

  /// A word of the query in the passage.
  package struct Term: Sendable, Equatable {
    /// As the passage spells it first.
    package var term: String
    /// Its share of the score by words, 0 to 1.
    package var weight: Float
    package var positions: [Range<Int>]
  }

  /// A phrase of the query and one of the passage that means something like it.
  package struct Concept: Sendable, Equatable {
    package var query: String
    package var text: String
    /// Cosine of what is particular of the two.
    package var score: Float
    package var range: Range<Int>
  }
}

/// Explains results of one search.
struct Explainer {
  private let view: IndexView
  private let encoder: any PassageEncoder
  private let queries: [String]
  private let vectors: [[Float]]
  private let weights: [[TermWeight]]
  private let average: Double
  private let noise: Float

  /// Sentences of a passage that are looked at.
  private static let sentences = 40
  /// Most words of a sentence.
  private static let mostWords = 2_000
  /// Phrases nearer than this are shown.
  private static let nearness: Float = 0.5

  init(
    _ view: IndexView, encoder: any PassageEncoder, query: [String], vectors: [[Float]],
    weights: [[TermWeight]]
  ) {
    self.view = view
    self.encoder = encoder
    queries = query
    self.vectors = vectors
    self.weights = weights
    let size = (try? view.wordCount()) ?? (passages: 0, words: 0)
    average = size.passages > 0 ? Double(size.words) / Double(size.passages) : 0
    noise = vectors.isEmpty ? -1 : (try? view.noiseFloor()) ?? -1
  }

  /// Why each passage is there, in their order; each with the index of the query that found it.
  func reasons(
    _ results: [(result: SearchResult, query: Int)], isUnwanted: () -> Bool
  ) throws(SearchError) -> [Why] {
    var reasons: [Why] = []
    // The words of each query with their states, as soon as they are known.
    var asked: [Int: [Piece]] = [:]
    var at = 0
    while at < results.count {
      let group = results[at..<min(at + Self.group, results.count)].map {
        Subject($0.result, query: $0.query)
      }
      at += group.count
      try explain(group, &asked, &reasons, isUnwanted)
    }
    return reasons
  }

  /// Passages whose states are in memory together.
  private static let group = 10

  /// A passage that is explained.
  private struct Subject {
    let result: SearchResult
    let query: Int
    let scalars: ScalarOffsets
    var text: [UInt8] { result.passage.text }

    init(_ result: SearchResult, query: Int) {
      self.result = result
      self.query = query
      scalars = ScalarOffsets(result.passage.text)
    }
  }

  /// A sentence with the states of its words, read alone: in its passage its neighbours would colour it.
  ///
  /// Nothing cheaper finds it: of 300 results for the book's questions it was the first by the words that match in 49 %, by states
  /// in the passage in 64 %, by vectors of single tokens in 56 to 70 %. To miss 2 % of them, half of the tokens have to be
  /// read all the same.
  private struct ReadSentence {
    var range: Range<Int>
    var words: [Range<Int>]
    var mean: [Float]?
    var pieces: [Piece] = []
    /// The cosine of its vector and the query's.
    var score: Float = -1
  }

  /// The states of all sentences and queries are asked for together.
  private func explain(
    _ group: [Subject], _ asked: inout [Int: [Piece]], _ reasons: inout [Why], _ isUnwanted: () -> Bool
  ) throws(SearchError) {
    var read = group.map { $0.query < vectors.count ? sentences($0) : [] }
    let queries = Set(group.map(\.query)).filter { asked[$0] == nil && $0 < vectors.count }.sorted()
    let questions = queries.map { Array(self.queries[$0].utf8) }
    var texts: [PiecedText] = []
    for (subject, sentences) in zip(group, read) {
      texts += sentences.map { PiecedText(Self.strings(subject.text, $0.words), as: .passage) }
    }
    texts += questions.map { PiecedText(Self.strings($0, Self.words($0, in: 0..<$0.count)), as: .query) }
    let states = texts.isEmpty ? nil : try encoder.states(texts, isUnwanted: isUnwanted)
    if var states, states.count == texts.count {
      states.reverse()
      for (number, subject) in group.enumerated() {
        for index in read[number].indices {
          guard let own = states.popLast(), own.whole.tokens > 0 else { continue }
          read[number][index].mean = own.whole.sum
          read[number][index].pieces = Self.pieces(subject.text, read[number][index].words, own.pieces)
        }
      }
      for (query, question) in zip(queries, questions) {
        guard let own = states.popLast() else { continue }
        asked[query] = Self.pieces(question, Self.words(question, in: 0..<question.count), own.pieces)
      }
    }
    for (subject, sentences) in zip(group, read) {
      var why = Why()
      why.terms = terms(subject.text, subject.query, subject.scalars)
      let near = try ordered(sentences, subject, isUnwanted)
      if let first = near.first {
        why.sentence = Why.Sentence(
          text: String(decoding: subject.text[first.range], as: UTF8.self),
          range: subject.scalars.range(first.range), score: first.score)
        if let asked = asked[subject.query] {
          why.concepts = concepts(
            asked, sentences.flatMap(\.pieces), near.prefix(2).map(\.range), subject)
        }
      }
      why.isWeak = why.terms.isEmpty && (subject.result.parts.vector ?? 1) < noise
      why.summary = summary(why, subject.result)
      reasons.append(why)
    }
  }

  // MARK: Words

  private func terms(_ text: [UInt8], _ query: Int, _ scalars: ScalarOffsets) -> [Why.Term] {
    let words = WordSplitter.words(in: text)
    let length = words.count { !$0.isStopWord }
    var found: [(term: Why.Term, score: Double)] = []
    let ranges = words.reduce(into: [[UInt8]: [Range<Int>]]()) { $0[$1.term, default: []].append($1.range) }
    for weight in weights[query] {
      guard let places = ranges[weight.term], let first = places.first else { continue }
      let score = BM25.score(weight: weight.weight, frequency: places.count, length: length, average: average)
      let spelling = String(decoding: text[first], as: UTF8.self)
      found.append((Why.Term(term: spelling, weight: 0, positions: places.map(scalars.range)), score))
    }
    let total = found.reduce(0) { $0 + $1.score }
    return found.map { entry in
      var term = entry.term
      term.weight = total > 0 ? Float(entry.score / total) : 0
      return term
    }
  }

  // MARK: Meaning

  /// A word of a text with the sum of its tokens' states.
  private struct Piece {
    var range: Range<Int>
    var sum: [Float]
    var tokens: Int
    var isStopWord: Bool
    /// Without case and marks, to compare with.
    var term: [UInt8]
  }

  /// The part of a passage that came nearest: one that is longer than the model takes has a vector for each of several. Where
  /// it was found by its words, the part that has the first of them.
  private func window(_ subject: Subject) -> Range<Int> {
    let passage = subject.result.passage
    let whole = 0..<passage.text.count
    guard passage.rows.count > 1 else { return whole }
    let rules = SplitRules(tokens: encoder.room, overlap: 0)
    let windows = Splitter(rules, windowTokens: encoder.room) { [encoder] in encoder.tokenCount($0) }
      .windows(of: passage.text, heading: String(decoding: passage.heading, as: UTF8.self))
    if let row = subject.result.hit.row, passage.rows.contains(row) {
      // A text of another kind may have been cut a little otherwise.
      return windows.isEmpty ? whole : windows[min(row - passage.rows.lowerBound, windows.count - 1)]
    }
    let wanted = Set(weights[subject.query].map(\.term))
    let first = WordSplitter.words(in: passage.text).first { wanted.contains($0.term) }?.range.lowerBound ?? 0
    return windows.first { $0.contains(first) } ?? whole
  }

  /// The sentences of the part of a passage that came nearest.
  private func sentences(_ subject: Subject) -> [ReadSentence] {
    let text = subject.text
    let part = window(subject)
    var sentences: [ReadSentence] = []
    var start = part.lowerBound
    for end in Sentences.ends(text, part).prefix(Self.sentences) {
      let range = trimmed(text, start..<end)
      start = end
      let words = Self.words(text, in: range)
      if !words.isEmpty, words.count <= Self.mostWords {
        sentences.append(ReadSentence(range: range, words: words))
      }
    }
    return sentences
  }

  /// The nearest first; those without a vector are left out.
  private func ordered(
    _ sentences: [ReadSentence], _ subject: Subject, _ isUnwanted: () -> Bool
  ) throws(SearchError) -> [ReadSentence] {
    var scored: [ReadSentence] = []
    if sentences.contains(where: { $0.mean != nil }) {
      for var sentence in sentences {
        guard let mean = sentence.mean else { continue }
        sentence.score = Self.cosine(mean, vectors[subject.query])
        scored.append(sentence)
      }
    } else if !sentences.isEmpty {
      // The model's vectors are no means of states.
      scored = Array(sentences.prefix(12))
      let own = try encoder.encode(
        scored.map { String(decoding: subject.text[$0.range], as: UTF8.self) }, as: .passage,
        isUnwanted: isUnwanted)
      for (index, vector) in own.prefix(scored.count).enumerated() {
        scored[index].score = Self.cosine(vector, vectors[subject.query])
      }
    }
    return scored.indices.sorted {
      scored[$0].score != scored[$1].score ? scored[$0].score > scored[$1].score : $0 < $1
    }.map { scored[$0] }
  }

  private func trimmed(_ text: [UInt8], _ range: Range<Int>) -> Range<Int> {
    var (start, end) = (range.lowerBound, range.upperBound)
    while start < end, text[start] <= 0x20 { start += 1 }
    while end > start, text[end - 1] <= 0x20 { end -= 1 }
    return start..<end
  }

  /// The words of a part of a text, each with the spaces in front of it.
  private static func words(_ text: [UInt8], in part: Range<Int>) -> [Range<Int>] {
    var ranges: [Range<Int>] = []
    var start = part.lowerBound
    var at = start
    while at < part.upperBound {
      while at < part.upperBound, text[at] <= 0x20 { at += 1 }
      while at < part.upperBound, text[at] > 0x20 { at += 1 }
      if at > start { ranges.append(start..<at) }
      start = at
    }
    return ranges
  }

  private static func strings(_ text: [UInt8], _ words: [Range<Int>]) -> [String] {
    words.map { String(decoding: text[$0], as: UTF8.self) }
  }

  private static func pieces(_ text: [UInt8], _ words: [Range<Int>], _ states: [StateSum]) -> [Piece] {
    zip(words, states).map { range, state in
      var inner = range
      while inner.lowerBound < inner.upperBound, text[inner.lowerBound] <= 0x20 {
        inner = inner.lowerBound + 1..<inner.upperBound
      }
      let words = WordSplitter.words(in: Array(text[inner]))
      return Piece(
        range: inner, sum: state.sum, tokens: state.tokens, isStopWord: words.allSatisfy(\.isStopWord),
        term: words.first?.term ?? [])
    }
  }

  private static func mean(_ pieces: some Collection<Piece>) -> [Float]? {
    let tokens = pieces.reduce(0) { $0 + $1.tokens }
    guard tokens > 0, let size = pieces.first?.sum.count else { return nil }
    var mean = [Float](repeating: 0, count: size)
    for piece in pieces { for index in 0..<min(size, piece.sum.count) { mean[index] += piece.sum[index] } }
    return mean.map { $0 / Float(tokens) }
  }

  private static func cosine(_ a: [Float], _ b: [Float]) -> Float {
    let divisor = (ExactScore.dot(a, a) * ExactScore.dot(b, b)).squareRoot()
    return divisor > 0 ? ExactScore.dot(a, b) / divisor : 0
  }

  /// Of length 1; zeros stay zeros.
  private static func unit(_ x: [Float]) -> [Float] {
    let length = ExactScore.dot(x, x).squareRoot()
    return length > 0 ? x.map { $0 / length } : x
  }

  /// One to three words that follow each other, none of them a stop word.
  private static func phrases(_ pieces: [Piece]) -> [Range<Int>] {
    var found: [Range<Int>] = []
    for start in pieces.indices {
      for end in start..<min(start + 3, pieces.count) {
        guard !pieces[end].isStopWord else { break }
        found.append(start..<end + 1)
      }
    }
    return found
  }

  private func concepts(
    _ asked: [Piece], _ all: [Piece], _ near: [Range<Int>], _ subject: Subject
  ) -> [Why.Concept] {
    let text = subject.text
    // States share a large direction with their whole text; what is left of a phrase is its own.
    guard let common = Self.mean(all) else { return [] }
    let local = all.filter { piece in near.contains { $0.contains(piece.range.lowerBound) } }
    func own(_ pieces: ArraySlice<Piece>) -> [Float]? {
      Self.mean(pieces).map { Self.unit(zip($0, common).map { $0 - $1 }) }
    }
    let question = Array(queries[subject.query].utf8)
    let phrases = Self.phrases(local).compactMap { range in own(local[range]).map { (range, $0) } }
    var pairs: [(query: Range<Int>, text: Range<Int>, score: Float)] = []
    for range in Self.phrases(asked) {
      guard let mine = own(asked[range]) else { continue }
      for (other, theirs) in phrases {
        let score = ExactScore.dot(mine, theirs)
        if score >= Self.nearness { pairs.append((range, other, score)) }
      }
    }
    // Of equal nearness a phrase says more than one of its words, up to the rounding of its mean.
    func rank(_ pair: (query: Range<Int>, text: Range<Int>, score: Float)) -> Float {
      pair.score + 0.005 * Float(pair.query.count + pair.text.count)
    }
    pairs.sort { a, b in
      let (first, second) = (rank(a), rank(b))
      return first != second
        ? first > second
        : (a.query.lowerBound, a.text.lowerBound) < (b.query.lowerBound, b.text.lowerBound)
    }
    var concepts: [Why.Concept] = []
    var used: [Range<Int>] = []
    for pair in pairs where !used.contains(where: { $0.overlaps(pair.query) }) {
      // Words that are the same are told as words.
      guard !asked[pair.query].map(\.term).elementsEqual(local[pair.text].map(\.term)) else { continue }
      used.append(pair.query)
      let range = trimmedPhrase(text, local[pair.text])
      concepts.append(
        Why.Concept(
          query: String(decoding: question[trimmedPhrase(question, asked[pair.query])], as: UTF8.self),
          text: String(decoding: text[range], as: UTF8.self), score: pair.score,
          range: subject.scalars.range(range)))
      if concepts.count == 4 { break }
    }
    return concepts
  }

  /// From the first letter to the last of some words.
  private func trimmedPhrase(_ text: [UInt8], _ pieces: ArraySlice<Piece>) -> Range<Int> {
    guard let first = pieces.first, let last = pieces.last else { return 0..<0 }
    var (start, end) = (first.range.lowerBound, last.range.upperBound)
    func isLetter(_ byte: UInt8) -> Bool {
      byte >= 0x80 || (byte | 0x20 >= 0x61 && byte | 0x20 <= 0x7A) || (byte >= 0x30 && byte <= 0x39)
    }
    while start < end, !isLetter(text[start]) { start += 1 }
    while end > start, !isLetter(text[end - 1]) { end -= 1 }
    return start..<max(start, end)
  }

  // MARK: Words for a reader

  private func summary(_ why: Why, _ result: SearchResult) -> String {
    let terms = why.terms.sorted { $0.weight > $1.weight }.prefix(4).map(\.term)
    let concepts = why.concepts.map(\.text)
    let weak = why.isWeak ? "weak match; " : ""
    if !concepts.isEmpty {
      var names: [String] = []
      for name in concepts + terms where !names.contains(where: { $0.lowercased() == name.lowercased() }) {
        names.append(name)
      }
      return weak + "matched concepts: " + names.prefix(5).joined(separator: ", ")
    }
    if !terms.isEmpty { return weak + "matched words: " + terms.joined(separator: ", ") }
    let score = result.parts.vector ?? result.score
    if let sentence = why.sentence, !why.isWeak {
      let line = sentence.text.split(whereSeparator: \.isNewline).joined(separator: " ")
      return "closest passage: \"\(line.count > 80 ? line.prefix(79) + "…" : line[...])\""
    }
    let hundredths = Int((min(1, max(0, score)) * 100).rounded())
    return weak + "similar overall (0.\(hundredths < 10 ? "0" : "")\(min(hundredths, 99)))"
  }
}

/// Bytes of a text to Unicode scalars.
struct ScalarOffsets {
  /// Scalars before each byte, and before the end.
  private let before: [Int32]

  init(_ text: [UInt8]) {
    var count: Int32 = 0
    var before: [Int32] = []
    before.reserveCapacity(text.count + 1)
    for byte in text {
      before.append(count)
      if byte & 0xC0 != 0x80 { count += 1 }
    }
    before.append(count)
    self.before = before
  }

  func range(_ bytes: Range<Int>) -> Range<Int> {
    Int(before[bytes.lowerBound])..<Int(before[bytes.upperBound])
  }
}
