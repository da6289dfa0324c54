// Why a passage is a result: its words, the sentence that comes nearest, phrases that mean the same, and the scores.

package import JSON
import Vectors

/// The reason for a result. Offsets are in Unicode scalars of the passage's text.
package struct Why: Sendable, Equatable {
  /// One line for a reader.
  package var summary = ""
  /// The same for a reader who is shown the sentence beside it.
  package var reason = ""
  package var sentence: Sentence?
  package var terms: [Term] = []
  package var concepts: [Concept] = []
  /// Where the name of the document says what is asked.
  package var name: Name?
  /// The share of the question's tokens that the model does not know.
  package var unread: Float = 0
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

  /// The name of a document.
  package struct Name: Sendable, Equatable {
    package var text: String
    /// Words of the query in it, as it spells them.
    package var terms: [String]
    /// Its cosine; nil where it has no vector.
    package var score: Float?
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
  private let unread: Float

  /// The share of unknown tokens from which on sentences and phrases are not looked at: they would be near by chance.
  private static let mostUnread: Float = 0.5
  /// How much nearer a name has to be than its text to be a reason without a word of the question.
  private static let nameLead: Float = 0.1

  /// Sentences in which phrases are looked for, the nearest ones.
  private static let nearest = 2

  init(
    _ view: IndexView, encoder: any PassageEncoder, query: [String], vectors: [[Float]],
    weights: [[TermWeight]], unread: Float = 0
  ) {
    self.view = view
    reader = SentenceReader(encoder: encoder)
    maker = SideKind.sentences.maker(encoder)
    queries = query.map { Array($0.utf8) }
    self.vectors = unread < Self.mostUnread ? vectors : []
    (self.weights, self.unread) = (weights, unread)
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
    why.terms = terms(subject, scalars)
    why.name = name(subject)
    why.unread = unread
    why.sentence = subject.sentences.first.map { range, score in
      Why.Sentence(text: string(subject.text, range), range: scalars.range(range), score: score)
    }
    why.concepts = concepts.map { pair in
      Why.Concept(
        query: string(queries[subject.query], pair.asked.range), text: string(subject.text, pair.found.range),
        score: pair.score, range: scalars.range(pair.found.range))
    }
    why.isWeak = why.terms.isEmpty && why.name == nil && (subject.result.parts.vector ?? 1) < noise
    (why.summary, why.reason) = summary(why, subject.result)
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
    let found = Found(passage.text)
    let first = weights[subject.query].flatMap { found.places(of: $0).all }.map(\.range.lowerBound).min() ?? 0
    return parts.firstIndex { $0.contains(first) } ?? 0
  }

  private static func cosine(_ a: [Float], _ b: [Float]) -> Float {
    let divisor = (ExactScore.dot(a, a) * ExactScore.dot(b, b)).squareRoot()
    return divisor > 0 ? ExactScore.dot(a, b) / divisor : 0
  }

  // MARK: Words

  /// Words of a text, and those of them that are one of a query's.
  private struct Found {
    let words: [Word]
    let language: StemLanguage
    private let stems: [[UInt8]?]

    init(_ text: [UInt8], like other: StemLanguage? = nil) {
      words = WordSplitter.words(in: text)
      let language = other ?? StemLanguage.of(words)
      stems = words.map { $0.isStopWord ? nil : language.term(text[$0.range]) }
      self.language = language
    }

    /// Places of a word: as it is written, and in any form.
    func places(of weight: TermWeight) -> (own: Int, all: [Word]) {
      let stem = weight.stems.first { $0.first == language.rawValue }
      var found: (own: Int, all: [Word]) = (0, [])
      for (word, other) in zip(words, stems) where !word.isStopWord {
        let isSame = word.term == weight.term
        guard isSame || other != nil && other == stem else { continue }
        found.own += isSame ? 1 : 0
        found.all.append(word)
      }
      return found
    }
  }

  private func terms(_ subject: Subject, _ scalars: ScalarOffsets) -> [Why.Term] {
    let (text, query) = (subject.text, subject.query)
    let found = Found(text)
    let name = Found(subject.result.passage.document.name, like: found.language)
    let length = found.words.count { !$0.isStopWord }
    func score(_ weight: Double, _ frequency: Int) -> Double {
      frequency == 0
        ? 0 : BM25.score(weight: weight, frequency: frequency, length: length, average: average)
    }
    var terms: [(places: [Range<Int>], score: Double)] = []
    var wholes: [Range<Int>] = []
    var isNamed = false
    for weight in weights[query] {
      // A piece tells nothing where the word itself is, be it in the name.
      if !weight.isPart { isNamed = !name.places(of: weight).all.isEmpty }
      guard !(weight.isPart && isNamed) else { continue }
      let (own, all) = found.places(of: weight)
      let places = all.map(\.range).filter { place in
        !weight.isPart
          || !wholes.contains { $0.lowerBound <= place.lowerBound && place.upperBound <= $0.upperBound }
      }
      guard !places.isEmpty else { continue }
      if !weight.isPart { wholes += places }
      terms.append((places, score(weight.weight, own) + score(weight.stemWeight, all.count)))
    }
    let total = terms.reduce(0) { $0 + $1.score }
    return joined(terms, text, query).map { term in
      let first = term.places.first ?? 0..<0
      return Why.Term(
        term: String(decoding: text[first], as: UTF8.self), weight: total > 0 ? Float(term.score / total) : 0,
        positions: term.places.map(scalars.range))
    }
  }

  /// Pairs of characters that share one become the longest pieces that the question has too, each as often as it is there.
  private func joined(
    _ terms: [(places: [Range<Int>], score: Double)], _ text: [UInt8], _ query: Int
  ) -> [(places: [Range<Int>], score: Double)] {
    let places = terms.flatMap(\.places).sorted {
      ($0.lowerBound, $0.upperBound) < ($1.lowerBound, $1.upperBound)
    }
    let asked = WordSplitter.folded(queries[query])
    var runs: [Range<Int>] = []
    // Of the last run, the first place that one with the next place may begin with.
    var first = 0
    for (number, place) in places.enumerated() {
      guard let last = runs.last, place.lowerBound < last.upperBound, text[place.lowerBound] >= 0x80 else {
        first = number
        runs.append(place)
        continue
      }
      let start = first
      while first < number,
        !asked.contains(WordSplitter.folded(Array(text[places[first].lowerBound..<place.upperBound])))
      { first += 1 }
      let run = places[first].lowerBound..<max(last.upperBound, place.upperBound)
      if first == start { runs[runs.count - 1] = run } else { runs.append(run) }
    }
    guard runs.count < places.count else { return terms }
    var found: [(places: [Range<Int>], score: Double)] = []
    var numbers: [[UInt8]: Int] = [:]
    var taken: Set<Range<Int>> = []
    for term in terms {
      for place in term.places {
        guard
          let run = runs.first(where: {
            $0.lowerBound <= place.lowerBound && place.upperBound <= $0.upperBound
          })
        else { continue }
        let share = term.score / Double(term.places.count)
        // A word in two forms is one term, as it was.
        let key = run.count > place.count ? Array(text[run]) : Array(text[term.places.first ?? place])
        if let known = numbers[key] {
          found[known].score += share
          if taken.insert(run).inserted { found[known].places.append(run) }
        } else {
          numbers[key] = found.count
          taken.insert(run)
          found.append(([run], share))
        }
      }
    }
    return found
  }

  /// The name where it has a word of the query, or is nearer to it than the text.
  private func name(_ subject: Subject) -> Why.Name? {
    let name = subject.result.passage.document.name
    guard !name.isEmpty else { return nil }
    let found = Found(name, like: Found(subject.text).language)
    var terms: [String] = []
    for weight in weights[subject.query] where !weight.isPart || terms.isEmpty {
      guard let word = found.places(of: weight).all.first else { continue }
      terms.append(String(decoding: name[word.range], as: UTF8.self))
    }
    let parts = subject.result.parts
    let isNearer = (parts.name ?? -1) > (parts.vector ?? 1) + Self.nameLead
    guard !terms.isEmpty || isNearer else { return nil }
    return Why.Name(text: String(decoding: name, as: UTF8.self), terms: terms, score: parts.name)
  }

  // MARK: Words for a reader

  /// With the sentence that is closest, if nothing else is said, and without it.
  private func summary(_ why: Why, _ result: SearchResult) -> (with: String, without: String) {
    var quoted = ""
    var reasons = why.isWeak ? ["weak match"] : []
    if let name = why.name { reasons.append("matched name: \(name.text)") }
    let terms = why.terms.sorted { $0.weight > $1.weight }.prefix(4).map(\.term)
    let concepts = why.concepts.map(\.text)
    let score = result.parts.vector ?? result.score
    if !concepts.isEmpty {
      var names: [String] = []
      for name in concepts + terms where !names.contains(where: { $0.lowercased() == name.lowercased() }) {
        names.append(name)
      }
      reasons.append("matched concepts: " + names.prefix(5).joined(separator: ", "))
    } else if !terms.isEmpty {
      reasons.append("matched words: " + terms.joined(separator: ", "))
    } else if why.name != nil {
      // Said already.
    } else if let sentence = why.sentence, !why.isWeak {
      let line = sentence.text.split(whereSeparator: \.isNewline).joined(separator: " ")
      quoted = ": \"\(line.count > 80 ? line.prefix(79) + "…" : line[...])\""
      reasons.append("closest passage")
    } else {
      let hundredths = Int((min(1, max(0, score)) * 100).rounded())
      reasons.append("similar overall (0.\(hundredths < 10 ? "0" : "")\(min(hundredths, 99)))")
    }
    let unread = why.unread >= Self.mostUnread ? "; the model cannot read the question" : ""
    let text = reasons.joined(separator: "; ")
    return (text + quoted + unread, text + unread)
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

extension Why {
  /// The reason of a result. Offsets are in Unicode scalars.
  package func json(_ parts: ScoreParts) -> JSONValue {
    func number(_ value: Float?) -> JSONValue { value.map { .double(Double($0)) } ?? nil }
    let terms = terms.map { term -> JSONValue in
      [
        "term": .string(term.term), "count": .int(term.positions.count), "weight": number(term.weight),
        "positions": .array(term.positions.map { [.int($0.lowerBound), .int($0.upperBound)] }),
      ]
    }
    let concepts = concepts.map { concept -> JSONValue in
      [
        "query": .string(concept.query), "text": .string(concept.text), "score": number(concept.score),
        "start": .int(concept.range.lowerBound), "end": .int(concept.range.upperBound),
      ]
    }
    let sentence = sentence.map { sentence -> JSONValue in
      [
        "text": .string(sentence.text), "start": .int(sentence.range.lowerBound),
        "end": .int(sentence.range.upperBound), "score": number(sentence.score),
      ]
    }
    let name = name.map { name -> JSONValue in
      [
        "text": .string(name.text), "terms": .array(name.terms.map(JSONValue.string)),
        "score": number(name.score),
      ]
    }
    return [
      "summary": .string(summary), "name": name ?? nil, "unread": .double(Double(unread)),
      "sentence": sentence ?? nil, "terms": .array(terms),
      "concepts": .array(concepts), "weak": .bool(isWeak),
      "scores": [
        "vector": number(parts.vector), "lexical": number(parts.lexical), "rerank": number(parts.rerank),
        "rank_vector": parts.vectorRank.map(JSONValue.int) ?? nil,
        "rank_lexical": parts.lexicalRank.map(JSONValue.int) ?? nil, "fused": number(parts.fused),
      ],
    ]
  }
}
