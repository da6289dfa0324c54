// Passages ranked by the words that they share with a query: BM25 over all parts of a view.

package import Platform

/// A query as words.
package struct WordQuery: Sendable, Equatable {
  /// A word that is looked for.
  struct Entry: Sendable, Equatable {
    var term: [UInt8]
    /// As the query has it.
    var spelling: [UInt8]
    /// The entry that it is a piece of.
    var whole: Int?
  }

  /// Words without stop words, each once, in the order of the query, a whole before its pieces.
  let entries: [Entry]
  /// Terms of what stands in quotation marks, two or more.
  let phrases: [[[UInt8]]]

  package var hasPhrases: Bool { !phrases.isEmpty }

  package init(_ text: [UInt8]) {
    var entries: [Entry] = []
    var numbers: [[UInt8]: Int] = [:]
    var whole: (entry: Int, end: Int)?
    for word in WordSplitter.words(in: text) where !word.isStopWord {
      // One character is looked for where it is all that is asked.
      if word.isPart, word.isPiece { continue }
      let isPart = word.isPart && word.range.upperBound <= whole?.end ?? 0
      if let known = numbers[word.term] {
        if !isPart { entries[known].whole = nil }
      } else {
        numbers[word.term] = entries.count
        entries.append(
          Entry(term: word.term, spelling: Array(text[word.range]), whole: isPart ? whole?.entry : nil))
      }
      if !isPart, let entry = numbers[word.term] { whole = (entry, word.range.upperBound) }
    }
    self.entries = entries
    phrases = Self.quoted(text).map { part in Self.sequence(part) }.filter { $0.count > 1 }
  }

  /// The terms of a text in their order, of names the whole alone.
  static func sequence(_ text: [UInt8]) -> [[UInt8]] {
    WordSplitter.words(in: text).filter { !$0.isPart }.map(\.term)
  }

  /// What stands between quotation marks.
  private static func quoted(_ text: [UInt8]) -> [[UInt8]] {
    let marks: Set<Unicode.Scalar> = ["\"", "\u{201C}", "\u{201D}", "\u{201E}", "\u{AB}", "\u{BB}"]
    let parts = String(decoding: text, as: UTF8.self).unicodeScalars
      .split(omittingEmptySubsequences: false) { marks.contains($0) }
    // What comes before the first mark, and between one that ends and one that begins, is in none.
    return parts.indices.filter { $0 % 2 == 1 && $0 + 1 < parts.count }.map { Array(String(parts[$0]).utf8) }
  }
}

/// What a word of a query is worth in a view.
package struct TermWeight: Sendable, Equatable {
  package let term: [UInt8]
  /// Terms of its stem, one for each language of the view in which it has one.
  package let stems: [[UInt8]]
  /// Passages that have the word itself.
  package let passages: Int
  /// ln(1 + (N - n + ½) / (n + ½)) of the word itself; twice that where it has no stem.
  package let weight: Double
  /// The same of its stem.
  package let stemWeight: Double
  /// Whether it is a piece of one that is there too.
  package let isPart: Bool
}

/// Passages that have words of a query.
package struct WordMatches: Sendable {
  /// Best first.
  package var hits: [Hit] = []
  /// Scores of passages that were asked for, 0 for those without any of the words.
  package var also: [Double] = []
  package var weights: [TermWeight] = []
  /// The score of a passage of usual length that has each word once, and of long questions three rare words.
  package var full = 0.0
}

/// How BM25 counts; Robertson and Zaragoza, "The Probabilistic Relevance Framework", 2009.
package enum BM25 {
  package static let k1 = 1.2
  package static let b = 0.75

  /// The share of a term in a passage's score.
  package static func score(weight: Double, frequency: Int, length: Int, average: Double) -> Double {
    let count = Double(frequency)
    let size = average > 0 ? Double(length) / average : 1
    return weight * count / (count + k1 * (1 - b + b * size))
  }
}

extension IndexView {
  /// What a piece of a word counts where the word itself is found.
  private static let pieceShare = 0.25
  /// No question asks for more than so many words that one passage alone has: of a long one nobody says everything.
  private static let fullWords = 3.0
  /// Passages that are read for a phrase.
  private static let mostRead = 2_000

  /// Passages by their words, best first, with the weights of the words; passages without any of them are not found.
  ///
  /// A word counts as it is written and by its stem, half each.
  ///
  /// - Parameters:
  ///   - also: passages whose scores are wanted too.
  ///   - choice: which documents are searched; nil for all. The weights are those of the whole view.
  ///   - memory: of which it claims what it takes, until it returns; nil where nobody counts it.
  package func byWords(
    _ query: WordQuery, limit: Int, also: [Hit] = [], among choice: DocumentChoice? = nil,
    memory: MemoryLoan? = nil
  ) throws(IndexError) -> WordMatches {
    let size = try wordCount()
    var matches = WordMatches(also: also.map { _ in 0 })
    guard !query.entries.isEmpty, size.passages > 0 else { return matches }
    let searched = parts.map { part in
      part.segment.documents.indices.map { !part.removed.contains($0) }
    }
    // A number for each passage of the parts that have any of the terms.
    let forScores = memory?.another()
    defer { withExtendedLifetime(forScores) {} }
    var board = ScoreBoard(
      scores: [[Double]](repeating: [], count: parts.count), searched: searched,
      accepted: choice?.accepted ?? searched, passages: Double(size.passages),
      average: Double(size.words) / Double(size.passages), memory: memory, forScores: forScores)
    // All terms of a part before the next part: they share the first steps of their search.
    let terms = try languages().reduce(into: query.entries.map { [$0.term] }) { terms, language in
      for (index, entry) in query.entries.enumerated() {
        if let stem = language.term(entry.spelling[...]) { terms[index].append(stem) }
      }
    }
    let forLists = memory?.another()
    defer { withExtendedLifetime(forLists) {} }
    let count = terms.reduce(0) { $0 + $1.count }
    try claim(count * parts.count, MemoryLayout<SegmentTerms.List?>.stride, of: forLists)
    var lists: [[[SegmentTerms.List?]]] = []
    for part in parts {
      let table = try part.segment.termTable()
      var found: [[SegmentTerms.List?]] = []
      for terms in terms {
        var own: [SegmentTerms.List?] = []
        for term in terms { own.append(try table.list(of: term)) }
        found.append(own)
      }
      lists.append(found)
    }
    let wholes = Set(query.entries.compactMap(\.whole))
    var asked = 0.0
    for (index, entry) in query.entries.enumerated() {
      let hasStem = terms[index].count > 1
      var share = hasStem ? 1.0 : 2.0
      if let whole = entry.whole, matches.weights[whole].passages > 0 { share *= Self.pieceShare }
      // A whole that is nowhere: its pieces are looked for instead.
      let drops = wholes.contains(index)
      let own = try add(lists.map { [$0[index][0]] }, share, dropsUnknown: drops, to: &board)
      var stem = (weight: 0.0, passages: 0)
      if hasStem {
        stem = try add(lists.map { Array($0[index].dropFirst()) }, share, dropsUnknown: drops, to: &board)
      }
      asked += own.weight + stem.weight
      matches.weights.append(
        TermWeight(
          term: entry.term, stems: Array(terms[index].dropFirst()), passages: own.passages,
          weight: own.weight, stemWeight: stem.weight, isPart: entry.whole != nil))
    }
    for phrase in query.phrases { asked += try addPhrase(phrase, to: &board) }
    let rare = log(1 + (board.passages - 0.5) / 1.5)
    matches.full = min(asked, 2 * Self.fullWords * rare) / (1 + BM25.k1)
    matches.also = also.map { hit in
      let scores = board.scores[hit.part]
      return hit.passage < scores.count ? scores[hit.passage] : 0
    }
    matches.hits = try best(board.scores, limit)
    return matches
  }

  /// What terms add to passages.
  private struct ScoreBoard {
    var scores: [[Double]]
    let searched: [[Bool]]
    let accepted: [[Bool]]
    let passages: Double
    let average: Double
    let memory: MemoryLoan?
    let forScores: MemoryLoan?

    func weight(_ found: Int) -> Double {
      log(1 + (passages - Double(found) + 0.5) / (Double(found) + 0.5))
    }
  }

  /// The languages of which any part has stems.
  private func languages() throws(IndexError) -> [StemLanguage] {
    if let languages = known.withLock({ $0.languages }) { return languages }
    var languages: [StemLanguage] = []
    for language in StemLanguage.allCases where try has(language.mark, inPassages: 1) {
      languages.append(language)
    }
    let found = languages
    known.withLock { $0.languages = found }
    return found
  }

  /// Adds what the passages of some lists get; no passage is in two of a part's.
  ///
  /// - Parameters:
  ///   - lists: of each part.
  ///   - share: of the weight.
  ///   - dropsUnknown: whether a word that no passage has is worth nothing.
  private func add(
    _ lists: [[SegmentTerms.List?]], _ share: Double, dropsUnknown: Bool, to board: inout ScoreBoard
  ) throws(IndexError) -> (weight: Double, passages: Int) {
    var found: [(part: Int, postings: [LivePosting])] = []
    var total = 0
    let forPostings = board.memory?.another()
    defer { withExtendedLifetime(forPostings) {} }
    for (number, lists) in lists.enumerated() {
      for case let list? in lists {
        try claim(list.mostPostings, MemoryLayout<LivePosting>.stride, of: forPostings)
        let live = try livePostings(list, number, board.searched[number])
        total += live.count
        if !live.isEmpty { found.append((number, live)) }
      }
    }
    if dropsUnknown, total == 0 { return (0, 0) }
    let weight = share * board.weight(total)
    for (part, postings) in found {
      let lengths = try parts[part].segment.values(.lengths, as: UInt32.self)
      try prepare(part, &board)
      for posting in postings where board.accepted[part][posting.document] {
        board.scores[part][posting.passage] += BM25.score(
          weight: weight, frequency: posting.frequency, length: Int(lengths[posting.passage]),
          average: board.average)
      }
    }
    return (weight, total)
  }

  private func prepare(_ part: Int, _ board: inout ScoreBoard) throws(IndexError) {
    guard board.scores[part].isEmpty else { return }
    let passages = parts[part].segment.footer.passages
    try claim(passages, MemoryLayout<Double>.stride, of: board.forScores)
    board.scores[part] = [Double](repeating: 0, count: passages)
  }

  /// Adds what passages get that have words one after another: as much as for one word that so many have.
  ///
  /// - Returns: the weight; 0 where none is known to have them.
  private func addPhrase(_ phrase: [[UInt8]], to board: inout ScoreBoard) throws(IndexError) -> Double {
    var found: [(part: Int, passage: Int)] = []
    var left = Self.mostRead
    for (number, part) in parts.enumerated() {
      let table = try part.segment.termTable()
      var candidates: Set<Int>?
      for term in phrase where !StopWords.contains(term) {
        guard let list = try table.list(of: term) else {
          candidates = []
          break
        }
        let live = try livePostings(list, number, board.accepted[number]).map(\.passage)
        candidates = candidates.map { $0.intersection(live) } ?? Set(live)
      }
      for passage in (candidates ?? []).sorted().prefix(left) {
        left -= 1
        let text = try part.segment.text(try part.segment.record(passage).record).text
        let terms = WordQuery.sequence(text)
        let places = terms.indices.dropLast(min(terms.count, phrase.count - 1))
        if places.contains(where: { terms[$0...].starts(with: phrase) }) { found.append((number, passage)) }
      }
    }
    guard !found.isEmpty else { return 0 }
    let weight = 2 * board.weight(found.count)
    for place in found {
      try prepare(place.part, &board)
      board.scores[place.part][place.passage] += weight / (1 + BM25.k1)
    }
    return weight
  }

  private typealias LivePosting = (passage: Int, frequency: Int, document: Int)

  private func claim(_ count: Int, _ bytes: Int, of loan: MemoryLoan?) throws(IndexError) {
    guard let loan, count > 0 else { return }
    let (sum, overflow) = count.multipliedReportingOverflow(by: bytes)
    guard !overflow, loan.extend(by: sum) else { throw .noMemory(bytes: overflow ? .max : sum) }
  }

  /// The passages of the highest scores above zero, in order.
  private func best(_ scores: [[Double]], _ limit: Int) throws(IndexError) -> [Hit] {
    var bounds = BoundedHeap(limit)
    var hits: [Hit] = []
    let most = max(4_096, 2 * min(limit, .max / 2))
    func dropBehind() throws(IndexError) {
      let floor = bounds.floor
      hits.removeAll { $0.score < floor }
      guard hits.count > most / 2 else { return }
      // Many are equal: those that were put in first stay.
      try sort(&hits)
      hits = Array(hits.prefix(limit))
    }
    for part in parts.indices {
      for (passage, score) in scores[part].enumerated() where score > 0 && Float(score) >= bounds.floor {
        bounds.insert(Float(score))
        hits.append(Hit(part: part, passage: passage, score: Float(score)))
        if hits.count > most { try dropBehind() }
      }
    }
    try dropBehind()
    try sort(&hits)
    return Array(hits.prefix(limit))
  }

  private func livePostings(
    _ list: SegmentTerms.List, _ part: Int, _ live: [Bool]
  ) throws(IndexError) -> [LivePosting] {
    var list = list
    var found: [LivePosting] = []
    let documents = parts[part].segment.documents
    // Passages without a document: nobody wrote such a segment.
    guard !documents.isEmpty else { return [] }
    var document = 0
    while let posting = try list.next() {
      // Both are in order, so the document is found by walking on; far ones by halving.
      if posting.passage >= documents[document].passages.upperBound {
        var (low, high) = (document + 1, documents.count)
        while low < high {
          let middle = (low + high) / 2
          if documents[middle].passages.upperBound <= posting.passage {
            low = middle + 1
          } else {
            high = middle
          }
        }
        guard low < documents.count else { break }
        document = low
      }
      if live[document] { found.append((posting.passage, posting.frequency, document)) }
    }
    return found
  }

  /// Whether a term is in so many passages, those that are gone among them.
  package func has(_ term: [UInt8], inPassages least: Int) throws(IndexError) -> Bool {
    var count = 0
    for part in parts {
      guard var list = try part.segment.termTable().list(of: term) else { continue }
      while count < least, try list.next() != nil { count += 1 }
      if count >= least { return true }
    }
    return false
  }

  /// Passages of the view, and the words in them.
  package func wordCount() throws(IndexError) -> (passages: Int, words: Int) {
    if let size = known.withLock({ $0.size }) { return size }
    let size = try countWords()
    known.withLock { $0.size = size }
    return size
  }

  private func countWords() throws(IndexError) -> (passages: Int, words: Int) {
    var (passages, words) = (0, 0)
    for part in parts {
      passages += part.segment.footer.passages
      words += try part.segment.words()
      guard !part.removed.isEmpty else { continue }
      let lengths = try part.segment.values(.lengths, as: UInt32.self)
      for number in part.removed where part.segment.documents.indices.contains(number) {
        let range = part.segment.documents[number].passages
        passages -= range.count
        for passage in range { words -= Int(lengths[passage]) }
      }
    }
    return (passages, words)
  }
}
