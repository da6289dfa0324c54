// Passages ranked by the words that they share with a query: BM25 over all parts of a view.

package import Platform

/// A query as words.
package struct WordQuery: Sendable, Equatable {
  /// Terms without stop words, each once, in the order of the query.
  package let terms: [[UInt8]]

  /// A query of stop words alone keeps them: nothing else is left to find.
  package init(_ text: [UInt8]) {
    let words = text.withUnsafeBytes { WordSplitter.words($0) }
    var seen: Set<[UInt8]> = []
    terms = words.filter { !$0.isStopWord && seen.insert($0.term).inserted }.map(\.term)
  }
}

/// What a term is worth in a view.
package struct TermWeight: Sendable, Equatable {
  package let term: [UInt8]
  /// Passages that have it.
  package let passages: Int
  /// ln(1 + (N - n + ½) / (n + ½)).
  package let weight: Double
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
  /// Passages by their words, best first, with the weights of the terms; passages without any of them are not found.
  ///
  /// - Parameters:
  ///   - choice: which documents are searched; nil for all. The weights are those of the whole view.
  ///   - memory: of which it claims what it takes, until it returns; nil where nobody counts it.
  package func byWords(
    _ query: WordQuery, limit: Int, among choice: DocumentChoice? = nil, memory: MemoryLoan? = nil
  ) throws(IndexError) -> (hits: [Hit], weights: [TermWeight]) {
    let size = try wordCount()
    guard !query.terms.isEmpty, size.passages > 0 else { return ([], []) }
    let average = Double(size.words) / Double(size.passages)
    let searched = parts.map { part in
      part.segment.documents.indices.map { !part.removed.contains($0) }
    }
    let accepted = choice?.accepted ?? searched
    // A number for each passage of the parts that have any of the terms.
    var scores = [[Double]](repeating: [], count: parts.count)
    let forScores = memory?.another()
    defer { withExtendedLifetime(forScores) {} }
    // All terms of a part before the next part: they share the first steps of their search.
    let forLists = memory?.another()
    defer { withExtendedLifetime(forLists) {} }
    try claim(query.terms.count * parts.count, MemoryLayout<SegmentTerms.List?>.stride, of: forLists)
    var lists: [[SegmentTerms.List?]] = []
    for part in parts {
      let table = try part.segment.termTable()
      var found: [SegmentTerms.List?] = []
      for term in query.terms { found.append(try table.list(of: term)) }
      lists.append(found)
    }
    var weights: [TermWeight] = []
    for (index, term) in query.terms.enumerated() {
      var found: [(part: Int, postings: [LivePosting])] = []
      var total = 0
      let forPostings = memory?.another()
      defer { withExtendedLifetime(forPostings) {} }
      for number in parts.indices {
        guard let list = lists[number][index] else { continue }
        try claim(list.mostPostings, MemoryLayout<LivePosting>.stride, of: forPostings)
        let live = try livePostings(list, number, searched[number])
        total += live.count
        if !live.isEmpty { found.append((number, live)) }
      }
      let (all, with) = (Double(size.passages), Double(total))
      let weight = log(1 + (all - with + 0.5) / (with + 0.5))
      weights.append(TermWeight(term: term, passages: total, weight: weight))
      for (part, postings) in found {
        let segment = parts[part].segment
        let lengths = try segment.values(.lengths, as: UInt32.self)
        if scores[part].isEmpty {
          try claim(segment.footer.passages, MemoryLayout<Double>.stride, of: forScores)
          scores[part] = [Double](repeating: 0, count: segment.footer.passages)
        }
        for posting in postings where accepted[part][posting.document] {
          scores[part][posting.passage] += BM25.score(
            weight: weight, frequency: posting.frequency, length: Int(lengths[posting.passage]),
            average: average)
        }
      }
    }
    return (try best(scores, limit), weights)
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
