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

/// What explaining results took.
package struct SentenceCount: Sendable, Equatable {
  /// Sentences that the model has read.
  package var read = 0
  /// Sentences that were ruled out by what is kept of them.
  package var spared = 0
  /// Passages of which nothing is kept.
  package var unknown = 0

  package init() {}

  /// What two searches did together.
  package func adding(_ other: SentenceCount) -> SentenceCount {
    var sum = self
    sum.read += other.read
    sum.spared += other.spared
    sum.unknown += other.unknown
    return sum
  }
}

/// Explains results of one search.
///
/// What is kept of a passage's sentences only says which of them cannot be the nearest; those that can are read, and so the
/// answer has the same bits with it and without.
struct Explainer {
  private let view: IndexView
  private let reader: SentenceReader
  private let maker: RowKey
  private let queries: [String]
  private let vectors: [[Float]]
  /// Of length 1.
  private let directions: [[Float]]
  private let weights: [[TermWeight]]
  private let average: Double
  private let noise: Float

  /// Phrases nearer than this are shown.
  private static let nearness: Float = 0.5
  /// Sentences in which phrases are looked for, the nearest ones.
  private static let nearest = 2

  init(
    _ view: IndexView, encoder: any PassageEncoder, query: [String], vectors: [[Float]],
    weights: [[TermWeight]]
  ) {
    self.view = view
    reader = SentenceReader(encoder: encoder)
    maker = SentenceNote.maker(encoder)
    queries = query
    self.vectors = vectors
    directions = vectors.map { RowCode.normalized($0) ?? $0 }
    self.weights = weights
    let size = (try? view.wordCount()) ?? (passages: 0, words: 0)
    average = size.passages > 0 ? Double(size.words) / Double(size.passages) : 0
    noise = vectors.isEmpty ? -1 : (try? view.noiseFloor()) ?? -1
  }

  /// Why each passage is there, in their order; each with the index of the query that found it.
  func reasons(
    _ results: [(result: SearchResult, query: Int)], isUnwanted: () -> Bool
  ) throws(SearchError) -> (reasons: [Why], count: SentenceCount) {
    var found: (reasons: [Why], count: SentenceCount) = ([], SentenceCount())
    // The words of each query with their states, as soon as they are known.
    var asked: [Int: [Piece]] = [:]
    var at = 0
    while at < results.count {
      let group = results[at..<min(at + Self.group, results.count)].map { result, query in
        subject(result, query, &found.count)
      }
      at += group.count
      try explain(group, &asked, &found.reasons, isUnwanted)
    }
    return found
  }

  /// Passages whose states are in memory together.
  private static let group = 10

  /// A passage that is explained.
  private struct Subject {
    let result: SearchResult
    let query: Int
    let scalars: ScalarOffsets
    /// Sentences that are read.
    var sentences: [Range<Int>] = []
    /// What is kept of its words.
    var kept: SentenceNote.Part?
    var text: [UInt8] { result.passage.text }
  }

  /// A sentence that was read.
  private struct ReadSentence {
    var range: Range<Int>
    var reading: SentenceReader.Reading
    /// The cosine of its vector and the query's.
    var score: Float
  }

  private func subject(_ result: SearchResult, _ query: Int, _ count: inout SentenceCount) -> Subject {
    var subject = Subject(result: result, query: query, scalars: ScalarOffsets(result.passage.text))
    guard query < vectors.count else { return subject }
    let passage = result.passage
    let note = view.side(SentenceNote.key(passage), maker).flatMap {
      SentenceNote($0, dimensions: vectors[query].count, textBytes: passage.text.count)
    }
    if let note, !note.parts.isEmpty {
      let part = note.parts[number(of: note.parts.map(\.range), subject)]
      subject.sentences = mayBeNearest(part.sentences, directions[query])
      subject.kept = part
      count.spared += part.sentences.count - subject.sentences.count
    } else {
      let parts = reader.parts(passage)
      subject.sentences = reader.sentences(passage.text, in: parts[number(of: parts, subject)])
      count.unknown += 1
    }
    count.read += subject.sentences.count
    return subject
  }

  /// The part of a passage that came nearest. Where it was found by its words, the one that has the first of them.
  private func number(of parts: [Range<Int>], _ subject: Subject) -> Int {
    guard parts.count > 1 else { return 0 }
    let passage = subject.result.passage
    if let row = subject.result.hit.row, passage.rows.contains(row) {
      // A text of another kind may have been cut a little otherwise.
      return min(row - passage.rows.lowerBound, parts.count - 1)
    }
    let wanted = Set(weights[subject.query].map(\.term))
    let first = WordSplitter.words(in: passage.text).first { wanted.contains($0.term) }?.range.lowerBound ?? 0
    return parts.firstIndex { $0.contains(first) } ?? 0
  }

  /// Those that nothing rules out: as many are surely nearer than any other as are wanted.
  private func mayBeNearest(_ sentences: [SentenceNote.Sentence], _ query: [Float]) -> [Range<Int>] {
    let wanted = reader.encoder.givesStates ? Self.nearest : 1
    let cosines = sentences.map { $0.vector.cosine(query) }
    let lowest = cosines.map(\.lowerBound).sorted(by: >)
    guard lowest.count > wanted else { return sentences.map(\.range) }
    return zip(sentences, cosines).filter { $1.upperBound >= lowest[wanted - 1] }.map(\.0.range)
  }

  /// All sentences and queries are read together.
  private func explain(
    _ group: [Subject], _ asked: inout [Int: [Piece]], _ reasons: inout [Why], _ isUnwanted: () -> Bool
  ) throws(SearchError) {
    var places = group.flatMap { subject in
      subject.sentences.map { SentenceReader.Place(text: subject.text, range: $0) }
    }
    let open = Set(group.map(\.query)).filter { asked[$0] == nil && $0 < vectors.count }.sorted()
    let questions = reader.encoder.givesStates ? open : []
    for query in questions {
      let text = Array(queries[query].utf8)
      places.append(SentenceReader.Place(text: text, range: 0..<text.count, role: .query))
    }
    let readings = try reader.read(places, isUnwanted: isUnwanted)
    guard readings.count == places.count else {
      throw .encoder("the model gave another number of vectors")
    }
    for (query, reading) in zip(questions, readings.suffix(questions.count)) {
      asked[query] = reading?.pieces(Array(queries[query].utf8)) ?? []
    }
    var rest = readings[...]
    for subject in group {
      let own = rest.prefix(subject.sentences.count)
      rest = rest.dropFirst(subject.sentences.count)
      var why = Why()
      why.terms = terms(subject.text, subject.query, subject.scalars)
      let near = ordered(zip(subject.sentences, own), subject.query)
      if let first = near.first {
        why.sentence = Why.Sentence(
          text: String(decoding: subject.text[first.range], as: UTF8.self),
          range: subject.scalars.range(first.range), score: first.score)
        let common = subject.kept.map(\.common) ?? SentenceReader.common(own)
        if let asked = asked[subject.query], let common {
          let local = near.prefix(Self.nearest).sorted { $0.range.lowerBound < $1.range.lowerBound }
            .flatMap { $0.reading.pieces(subject.text) }
          why.concepts = concepts(asked, local, common.vector, subject)
        }
      }
      why.isWeak = why.terms.isEmpty && (subject.result.parts.vector ?? 1) < noise
      why.summary = summary(why, subject.result)
      reasons.append(why)
    }
  }

  /// The nearest first; those without a vector are left out.
  private func ordered(
    _ sentences: some Sequence<(Range<Int>, SentenceReader.Reading?)>, _ query: Int
  ) -> [ReadSentence] {
    let read = sentences.compactMap { range, reading in
      reading.map {
        ReadSentence(range: range, reading: $0, score: Self.cosine($0.vector, vectors[query]))
      }
    }
    return read.indices.sorted {
      read[$0].score != read[$1].score ? read[$0].score > read[$1].score : $0 < $1
    }.map { read[$0] }
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

  /// - Parameters:
  ///   - local: the words of the nearest sentences.
  ///   - common: states share a large direction with their whole text; what is left of a phrase is its own.
  private func concepts(
    _ asked: [Piece], _ local: [Piece], _ common: [Float], _ subject: Subject
  ) -> [Why.Concept] {
    let text = subject.text
    func own(_ pieces: ArraySlice<Piece>) -> [Float]? {
      Piece.mean(pieces).map { Self.unit(zip($0, common).map { $0 - $1 }) }
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
