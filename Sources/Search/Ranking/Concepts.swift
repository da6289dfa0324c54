// Phrases of a question and of a passage that mean something like each other, by what the model says of each word alone.

import Vectors

/// Finds phrases that mean the same in other words.
///
/// A word is read alone, so once for all the texts that have it: its vector is kept beside the index. A phrase is the mean of its
/// words, less what all words have in common, which is the mean of the stop words.
struct ConceptFinder {
  private let reader: WordReader
  private let view: IndexView
  private let maker: RowKey
  /// Vectors of words, by their spelling: what is their own.
  private var known: [[UInt8]: [Float]] = [:]
  /// What all words have in common.
  private var common: [Float] = []

  /// The least cosine of phrases that are shown: of those of the book nearly all above it are what a reader would call near.
  private static let nearness: Float = 0.55
  /// The least sum of it and half of the sentence's cosine. "Entangled" curls have nothing of "quantum chromodynamics": words that
  /// are read alone do not know it, their sentence does.
  private static let nearnessWithSentence: Float = 0.85
  /// Words of a phrase, and phrases that are shown.
  private static let (phraseWords, mostConcepts) = (3, 4)

  /// - Parameter view: beside which vectors of words may be kept.
  init(_ view: IndexView, encoder: any PassageEncoder) {
    self.view = view
    reader = WordReader(encoder: encoder)
    maker = SideKind.words.maker(encoder)
  }

  // MARK: Words

  /// Finds the words that are not known yet beside the index, and has the others read.
  mutating func read(_ texts: [WordRuns], isUnwanted: () -> Bool) throws(SearchError) {
    let wanted = texts.flatMap(\.spellings).filter { known[$0] == nil }
    guard !wanted.isEmpty else { return }
    let shared = common.isEmpty ? WordReader.common : []
    var found: [[UInt8]: [Float]] = [:]
    var (unread, seen): ([[UInt8]], Set<[UInt8]>) = ([], [])
    for spelling in shared + wanted where seen.insert(spelling).inserted {
      let kept = view.side(WordReader.key(spelling), maker)
        .flatMap { WordReader.vector($0, dimensions: reader.encoder.dimensions) }
      if let kept { found[spelling] = kept.vector } else { unread.append(spelling) }
    }
    for (spelling, vector) in zip(unread, try reader.read(unread, isUnwanted: isUnwanted)) {
      found[spelling] = vector.vector
    }
    if common.isEmpty { common = Self.mean(shared.compactMap { found[$0] }) }
    for (spelling, vector) in found { known[spelling] = zip(vector, common).map { $0 - $1 } }
  }

  private static func mean(_ vectors: some Collection<[Float]>) -> [Float] {
    var mean = [Float](repeating: 0, count: vectors.first?.count ?? 0)
    for vector in vectors {
      for index in 0..<min(mean.count, vector.count) { mean[index] += vector[index] }
    }
    return mean.map { $0 / Float(max(1, vectors.count)) }
  }

  // MARK: Phrases

  /// Words that follow each other.
  struct Phrase {
    let words: ArraySlice<Word>
    /// Where they are among all words of their text.
    let places: Range<Int>
    /// Of the sum of their vectors.
    let length: Float

    var range: Range<Int> {
      guard let first = words.first, let last = words.last else { return 0..<0 }
      return first.range.lowerBound..<last.range.upperBound
    }

    func hasWord(of other: Phrase) -> Bool {
      words.contains { word in other.words.contains { $0.term == word.term } }
    }
  }

  /// All phrases of a text, with the vectors of its words.
  struct Phrases {
    var vectors: [[Float]] = []
    var all: [Phrase] = []
  }

  /// The phrases of a text whose words were read.
  func phrases(_ text: WordRuns) -> Phrases {
    var phrases = Phrases()
    for run in text.runs {
      let vectors = run.map { known[text.spelling($0)] ?? [] }
      for start in run.indices {
        var squared: Float = 0
        for end in start..<min(start + Self.phraseWords, run.count) {
          // |a + b|² = |a|² + 2 a·b + |b|²
          squared += ExactScore.dot(vectors[end], vectors[end])
          for before in start..<end { squared += 2 * ExactScore.dot(vectors[before], vectors[end]) }
          guard squared > 1e-9 else { continue }
          let first = phrases.vectors.count
          phrases.all.append(
            Phrase(
              words: run[start...end], places: first + start..<first + end + 1, length: squared.squareRoot()))
        }
      }
      phrases.vectors += vectors
    }
    return phrases
  }

  /// A phrase of a question and one of a text, with the cosine of what is their own.
  typealias Pair = (asked: Phrase, found: Phrase, score: Float)

  /// The nearest pairs of phrases, the best first, each phrase of the question once. Words that are the same are told as words.
  ///
  /// - Parameter sentence: the cosine of the question and the nearest sentence.
  static func nearest(_ asked: Phrases, _ found: Phrases, sentence: Float) -> [Pair] {
    let least = max(nearness, nearnessWithSentence - sentence / 2)
    // The product of two sums is the sum of their terms' products.
    let products = asked.vectors.map { one in found.vectors.map { ExactScore.dot(one, $0) } }
    var pairs: [Pair] = []
    for one in asked.all {
      for other in found.all {
        var product: Float = 0
        for place in one.places { for otherPlace in other.places { product += products[place][otherPlace] } }
        let score = product / (one.length * other.length)
        if score >= least, !one.hasWord(of: other) { pairs.append((one, other, score)) }
      }
    }
    // Of equal nearness a phrase says more than one of its words, up to the rounding of its mean.
    func rank(_ pair: Pair) -> Float {
      pair.score + 0.005 * Float(pair.asked.words.count + pair.found.words.count)
    }
    pairs.sort { a, b in
      let (first, second) = (rank(a), rank(b))
      return first != second
        ? first > second
        : (a.asked.range.lowerBound, a.found.range.lowerBound)
          < (b.asked.range.lowerBound, b.found.range.lowerBound)
    }
    var chosen: [Pair] = []
    for pair in pairs where chosen.count < mostConcepts {
      if !chosen.contains(where: { $0.asked.range.overlaps(pair.asked.range) }) { chosen.append(pair) }
    }
    return chosen
  }
}
