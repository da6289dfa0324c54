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

  func why(_ result: SearchResult, query: Int, isUnwanted: () -> Bool) throws(SearchError) -> Why {
    var why = Why()
    let text = result.passage.text
    let scalars = ScalarOffsets(text)
    why.terms = terms(text, query, scalars)
    if query < vectors.count {
      let marks = try sentenceAndConcepts(result, query, why.terms, scalars, isUnwanted)
      why.sentence = marks.sentence
      why.concepts = marks.concepts
    }
    why.isWeak = why.terms.isEmpty && (result.parts.vector ?? 1) < noise
    why.summary = summary(why, result)
    return why
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

  private func sentenceAndConcepts(
    _ result: SearchResult, _ query: Int, _ terms: [Why.Term], _ scalars: ScalarOffsets,
    _ isUnwanted: () -> Bool
  ) throws(SearchError) -> (sentence: Why.Sentence?, concepts: [Why.Concept]) {
    let text = result.passage.text
    let ends = Sentences.ends(text, 0..<text.count).prefix(Self.sentences)
    var sentences: [Range<Int>] = []
    for end in ends {
      let range = trimmed(text, (sentences.last?.upperBound ?? 0)..<end)
      if !range.isEmpty { sentences.append(range.lowerBound..<range.upperBound) }
    }
    guard !sentences.isEmpty else { return (nil, []) }
    let pieces = try pieces(text, .passage, isUnwanted)
    var scores: [(range: Range<Int>, score: Float)] = []
    if let pieces {
      for range in sentences {
        let inside = pieces.filter { range.contains($0.range.lowerBound) }
        if let mean = Self.mean(inside) { scores.append((range, Self.cosine(mean, vectors[query]))) }
      }
    } else {
      let some = Array(sentences.prefix(12))
      let own = try encoder.encode(
        some.map { String(decoding: text[$0], as: UTF8.self) }, as: .passage, isUnwanted: isUnwanted)
      scores = zip(some, own).map { ($0, Self.cosine($1, vectors[query])) }
    }
    let best = scores.indices.sorted {
      scores[$0].score != scores[$1].score ? scores[$0].score > scores[$1].score : $0 < $1
    }
    guard let first = best.first else { return (nil, []) }
    let range = scores[first].range
    let sentence = Why.Sentence(
      text: String(decoding: text[range], as: UTF8.self), range: scalars.range(range),
      score: scores[first].score)
    guard let pieces, let asked = try self.pieces(Array(queries[query].utf8), .query, isUnwanted) else {
      return (sentence, [])
    }
    let near = best.prefix(2).map { scores[$0].range }
    let concepts = concepts(asked, pieces, near, text, query, scalars)
    return (sentence, concepts)
  }

  private func trimmed(_ text: [UInt8], _ range: Range<Int>) -> Range<Int> {
    var (start, end) = (range.lowerBound, range.upperBound)
    while start < end, text[start] <= 0x20 { start += 1 }
    while end > start, text[end - 1] <= 0x20 { end -= 1 }
    return start..<end
  }

  /// The words of a text between spaces, each with its states.
  private func pieces(_ text: [UInt8], _ role: TextRole, _ isUnwanted: () -> Bool) throws(SearchError)
    -> [Piece]?
  {
    var ranges: [Range<Int>] = []
    var start = 0
    var at = 0
    while at < text.count {
      while at < text.count, text[at] <= 0x20 { at += 1 }
      while at < text.count, text[at] > 0x20 { at += 1 }
      if at > start { ranges.append(start..<at) }
      start = at
    }
    guard !ranges.isEmpty, ranges.count <= 2_000 else { return nil }
    let states = try encoder.states(
      ranges.map { String(decoding: text[$0], as: UTF8.self) }, as: role, isUnwanted: isUnwanted)
    guard let states, states.count == ranges.count else { return nil }
    return zip(ranges, states).map { range, state in
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
    var (product, x, y): (Float, Float, Float) = (0, 0, 0)
    for index in 0..<min(a.count, b.count) {
      product += a[index] * b[index]
      x += a[index] * a[index]
      y += b[index] * b[index]
    }
    let divisor = (x * y).squareRoot()
    return divisor > 0 ? product / divisor : 0
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
    _ asked: [Piece], _ all: [Piece], _ near: [Range<Int>], _ text: [UInt8], _ query: Int,
    _ scalars: ScalarOffsets
  ) -> [Why.Concept] {
    // States share a large direction with their whole text; what is left of a phrase is its own.
    guard let common = Self.mean(all) else { return [] }
    let local = all.filter { piece in near.contains { $0.contains(piece.range.lowerBound) } }
    func own(_ pieces: ArraySlice<Piece>) -> [Float]? {
      Self.mean(pieces).map { zip($0, common).map { $0 - $1 } }
    }
    let question = Array(queries[query].utf8)
    let phrases = Self.phrases(local).compactMap { range in own(local[range]).map { (range, $0) } }
    var pairs: [(query: Range<Int>, text: Range<Int>, score: Float)] = []
    for range in Self.phrases(asked) {
      guard let mine = own(asked[range]) else { continue }
      for (other, theirs) in phrases {
        let score = Self.cosine(mine, theirs)
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
          text: String(decoding: text[range], as: UTF8.self), score: pair.score, range: scalars.range(range)))
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
