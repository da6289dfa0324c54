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
    /// Cosine, of its vector as bytes.
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
  /// Sentences whose vectors are kept.
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
/// Sentences are compared by vectors that are rounded to bytes, whether they are kept beside the index or have just been read:
/// so the answer has the same bits.
struct Explainer {
  private let view: IndexView
  private let reader: SentenceReader
  private let maker: RowKey
  private let queries: [[UInt8]]
  /// Of the queries.
  private let vectors: [[Float]]
  private let weights: [[TermWeight]]
  private let average: Double
  private let noise: Float

  /// Sentences in which phrases are looked for, the nearest ones.
  private static let nearest = 2

  init(
    _ view: IndexView, encoder: any PassageEncoder, query: [String], vectors: [[Float]],
    weights: [[TermWeight]]
  ) {
    self.view = view
    reader = SentenceReader(encoder: encoder)
    maker = SideKind.sentences.maker(encoder)
    queries = query.map { Array($0.utf8) }
    self.vectors = vectors
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
    var concepts = ConceptFinder(view, encoder: reader.encoder)
    var at = 0
    while at < results.count {
      let group = results[at..<min(at + Self.group, results.count)]
      at += group.count
      found.reasons += try explain(group, &concepts, &found.count, isUnwanted)
    }
    return found
  }

  /// Passages that are read together.
  private static let group = 10

  /// A passage that is explained.
  private struct Subject {
    let result: SearchResult
    let query: Int
    /// With how near they are, the nearest first.
    var sentences: [(range: Range<Int>, score: Float)] = []
    /// Words of the nearest sentences.
    var words = WordRuns([], in: [])
    var text: [UInt8] { result.passage.text }
  }

  private func explain(
    _ group: ArraySlice<(result: SearchResult, query: Int)>, _ concepts: inout ConceptFinder,
    _ count: inout SentenceCount, _ isUnwanted: () -> Bool
  ) throws(SearchError) -> [Why] {
    var subjects = group.map { Subject(result: $0.result, query: $0.query) }
    for (index, sentences) in try sentences(subjects, &count, isUnwanted).enumerated() {
      let query = vectors[subjects[index].query]
      let near = sentences.map { (range: $0.range, score: Self.cosine($0.vector.vector, query)) }
      subjects[index].sentences = near.indices.sorted {
        near[$0].score != near[$1].score ? near[$0].score > near[$1].score : $0 < $1
      }.map { near[$0] }
      let nearest = subjects[index].sentences.prefix(Self.nearest).map(\.range)
      subjects[index].words = WordRuns(
        subjects[index].text, in: nearest.sorted { $0.lowerBound < $1.lowerBound })
    }
    let asked = queries.map { WordRuns($0, in: [0..<$0.count]) }
    let questions = Set(subjects.lazy.filter { !$0.words.runs.isEmpty }.map(\.query)).sorted()
    try concepts.read(questions.map { asked[$0] } + subjects.map(\.words), isUnwanted: isUnwanted)
    let phrases = asked.map(concepts.phrases)
    return subjects.map { subject in
      let found = concepts.phrases(subject.words)
      let pairs = ConceptFinder.nearest(
        phrases[subject.query], found, sentence: subject.sentences.first?.score ?? 0)
      return why(subject, pairs)
    }
  }

  private func why(_ subject: Subject, _ concepts: [ConceptFinder.Pair]) -> Why {
    var why = Why()
    let scalars = ScalarOffsets(subject.text)
    func string(_ text: [UInt8], _ range: Range<Int>) -> String {
      String(decoding: text[range], as: UTF8.self)
    }
    why.terms = terms(subject.text, subject.query, scalars)
    why.sentence = subject.sentences.first.map { range, score in
      Why.Sentence(text: string(subject.text, range), range: scalars.range(range), score: score)
    }
    why.concepts = concepts.map { pair in
      Why.Concept(
        query: string(queries[subject.query], pair.asked.range), text: string(subject.text, pair.found.range),
        score: pair.score, range: scalars.range(pair.found.range))
    }
    why.isWeak = why.terms.isEmpty && (subject.result.parts.vector ?? 1) < noise
    why.summary = summary(why, subject.result)
    return why
  }

  // MARK: Sentences

  /// The sentences of each passage with their vectors: as they are kept, and of the others read together. Nothing where
  /// questions have no vectors.
  private func sentences(
    _ subjects: [Subject], _ count: inout SentenceCount, _ isUnwanted: () -> Bool
  ) throws(SearchError) -> [[SentenceNote.Sentence]] {
    guard !vectors.isEmpty else { return [] }
    var found = [[SentenceNote.Sentence]](repeating: [], count: subjects.count)
    var unread: [(subject: Int, ranges: [Range<Int>])] = []
    for (index, subject) in subjects.enumerated() {
      let passage = subject.result.passage
      let note = view.side(SentenceNote.key(passage), maker).flatMap {
        SentenceNote($0, dimensions: vectors[subject.query].count, textBytes: passage.text.count)
      }
      if let note, !note.parts.isEmpty {
        found[index] = note.parts[number(of: note.parts.map(\.range), subject)].sentences
        count.spared += found[index].count
      } else {
        let parts = reader.parts(passage)
        unread.append((index, reader.sentences(passage.text, in: parts[number(of: parts, subject)])))
        count.unknown += 1
      }
    }
    let places = unread.flatMap { one in one.ranges.map { (subjects[one.subject].text, $0) } }
    var read = try reader.read(places, isUnwanted: isUnwanted)[...]
    count.read += read.count
    for one in unread {
      found[one.subject] = Array(read.prefix(one.ranges.count))
      read = read.dropFirst(one.ranges.count)
    }
    return found
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

  private static func cosine(_ a: [Float], _ b: [Float]) -> Float {
    let divisor = (ExactScore.dot(a, a) * ExactScore.dot(b, b)).squareRoot()
    return divisor > 0 ? ExactScore.dot(a, b) / divisor : 0
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
