// What an index holds at one moment: every search works on such a view, whatever is put in or taken out meanwhile.

package import Compute
import Platform

/// One segment of a view, without the documents that are gone.
struct IndexPart: Sendable {
  let segment: Segment
  /// The file; nil for documents that are in the log.
  let file: String?
  /// Numbers of documents that are gone.
  var removed: Set<Int> = []
  /// Information that replaces what the segment has.
  var infos: [Int: [UInt8]] = [:]

  /// Numbers of the documents that are there.
  var live: [Int] { segment.documents.indices.filter { !removed.contains($0) } }

  func info(_ number: Int) -> [UInt8] { infos[number] ?? segment.documents[number].info }
}

/// A document of a view.
package struct IndexedDocument: Sendable, Equatable {
  package let key: String
  package let info: [UInt8]
  /// Words that all its passages have beside their own, UTF-8.
  package let name: [UInt8]
  /// Whether its name has a vector.
  package let hasNameRow: Bool
  /// Counts documents in the order in which they were put in.
  package let serial: UInt64
  package let passages: Int
  package let rows: Int
}

/// A passage that was found.
package struct Hit: Sendable, Equatable {
  /// Where it is in its view.
  package var part: Int
  package var passage: Int
  package var score: Float
  /// The row that came nearest; nil when it was found by its words.
  package var row: Int?
}

/// A passage with its document.
package struct StoredPassage: Sendable, Equatable {
  package let document: IndexedDocument
  /// Its number in the document.
  package let number: Int
  /// UTF-8.
  package let text: [UInt8]
  package let heading: [UInt8]
  /// Where the text stands in the document's text, bytes.
  package let range: Range<Int>
  /// Its rows in the part, without that of its document's name.
  package let rows: Range<Int>
}

/// The documents of a view that are searched.
package struct DocumentChoice: Sendable {
  /// For each document of each part.
  let accepted: [[Bool]]
}

/// All documents of an index at one moment; a value that keeps what it needs.
package struct IndexView: Sendable {
  /// Components of a vector.
  package let dimensions: Int
  var parts: [IndexPart] = [] { didSet { known = Monitor(Known()) } }
  /// What every search wants to know of these parts, once it was asked for: copies of the view share it.
  private(set) var known = Monitor(Known())
  /// Documents by their names.
  var places: [String: Place] = [:]
  /// Files beside the index.
  var side: [SideFile] = []

  struct Place: Sendable, Equatable {
    var part: Int
    var number: Int
  }

  struct Known: Sendable {
    var noise: Float?
    var size: (passages: Int, words: Int)?
    var languages: [StemLanguage]?
  }

  /// A view of nothing.
  package init(dimensions: Int) { self.dimensions = dimensions }

  // MARK: Documents

  /// How many documents there are.
  package var documentCount: Int { places.count }

  /// How many passages there are.
  package var passageCount: Int { sum { $0.passages.count } }

  /// How many vectors there are.
  package var rowCount: Int { sum { $0.rows.count } }

  /// Documents in memory, in no file yet, with those of them that are gone.
  var memoryDocuments: Int { parts.reduce(0) { $0 + ($1.file == nil ? $1.segment.footer.documents : 0) } }

  /// Bytes in memory, of documents that are in no file yet.
  package var memoryBytes: Int { parts.reduce(0) { $0 + ($1.file == nil ? $1.segment.byteCount : 0) } }

  /// Bytes in mapped files.
  package var fileBytes: Int { parts.reduce(0) { $0 + ($1.file == nil ? 0 : $1.segment.byteCount) } }

  /// Most terms that there are: one that several parts have counts for each.
  package var mostTerms: Int { parts.reduce(0) { $0 + $1.segment.footer.terms } }

  private func sum(_ count: (SegmentDocument) -> Int) -> Int {
    places.values.reduce(0) { $0 + count(parts[$1.part].segment.documents[$1.number]) }
  }

  /// The document of a name.
  package func document(_ key: String) -> IndexedDocument? { places[key].map(document) }

  /// All documents, in the order in which they were put in.
  package var documents: [IndexedDocument] {
    places.values.map(document).sorted { $0.serial < $1.serial }
  }

  func document(_ place: Place) -> IndexedDocument {
    let part = parts[place.part]
    let document = part.segment.documents[place.number]
    return IndexedDocument(
      key: document.key, info: part.info(place.number), name: document.name,
      hasNameRow: document.hasNameRow, serial: document.serial,
      passages: document.passages.count, rows: document.rows.count)
  }

  /// The passages of a document in order.
  package func passages(of key: String) throws(IndexError) -> [StoredPassage] {
    try passages(of: key, from: 0, count: .max)
  }

  /// Some passages of a document from a number on; fewer at its end.
  package func passages(of key: String, from first: Int, count: Int) throws(IndexError) -> [StoredPassage] {
    guard let place = places[key] else { return [] }
    let all = parts[place.part].segment.documents[place.number].passages
    var found: [StoredPassage] = []
    for passage in all.dropFirst(first).prefix(count) {
      found.append(try self.passage(Hit(part: place.part, passage: passage, score: 0)))
    }
    return found
  }

  /// What a search found.
  package func passage(_ hit: Hit) throws(IndexError) -> StoredPassage {
    let segment = parts[hit.part].segment
    let record = try segment.record(hit.passage).record
    let rows = try segment.ownRows(hit.passage).rows
    let (text, heading) = try segment.text(record)
    let number = Int(record.document)
    return StoredPassage(
      document: document(Place(part: hit.part, number: number)),
      number: hit.passage - segment.documents[number].passages.lowerBound, text: text, heading: heading,
      range: Int(record.start)..<max(Int(record.start), Int(record.end)), rows: rows)
  }

  /// The cosine of a passage's nearest row, and that of its document's name, which may have none.
  package func cosines(_ hit: Hit, with query: [Float]) throws(IndexError) -> (
    text: Float, name: Float?, row: Int?
  ) {
    let segment = parts[hit.part].segment
    let (rows, name) = try segment.ownRows(hit.passage)
    var best: (score: Float, row: Int?) = (-1, nil)
    func cosine(_ row: Int) throws(IndexError) -> Float {
      try segment.vector(row).baseAddress.map { ExactScore.dot(query, $0) } ?? -1
    }
    for row in rows {
      let score = try cosine(row)
      if best.row == nil || score > best.score { best = (score, row) }
    }
    var nameScore: Float?
    if let name { nameScore = try cosine(name) }
    return (best.score, nameScore, best.row)
  }

  /// A vector of a part.
  package func vector(part: Int, row: Int) throws(IndexError) -> [Float] {
    Array(try parts[part].segment.vector(row))
  }

  // MARK: Searching

  /// The documents that are searched, found once for all that a search does.
  package func choose(_ accepts: (IndexedDocument) -> Bool) -> DocumentChoice {
    DocumentChoice(
      accepted: parts.indices.map { part in
        parts[part].segment.documents.indices.map { number in
          !parts[part].removed.contains(number) && accepts(document(Place(part: part, number: number)))
        }
      })
  }

  /// The passages nearest to a vector, best first; equal ones in the order in which their documents were put in.
  ///
  /// - Parameters:
  ///   - query: of length 1.
  ///   - choice: which documents are searched; nil for all.
  ///   - depth: whether signs may choose the rows that are read.
  ///   - isCancelled: asked after every few thousand rows.
  /// - Returns: nil when cancelled.
  package func nearest(
    _ query: [Float], limit: Int, among choice: DocumentChoice? = nil, depth: ScanDepth = .automatic,
    kernels: ScanKernels = .best, isCancelled: () -> Bool = { false }
  ) throws(IndexError) -> (hits: [Hit], count: ScanCount)? {
    try nearest(
      [query], limit: limit, among: choice, depth: depth, kernels: kernels, isCancelled: isCancelled)?.first
  }

  /// The same for several vectors: each row is read once for all of them.
  package func nearest(
    _ queries: [[Float]], limit: Int, among choice: DocumentChoice? = nil, depth: ScanDepth = .automatic,
    kernels: ScanKernels = .best, isCancelled: () -> Bool = { false }
  ) throws(IndexError) -> [(hits: [Hit], count: ScanCount)]? {
    guard queries.allSatisfy({ $0.count == dimensions && $0.allSatisfy(\.isFinite) }) else {
      throw .badVector
    }
    guard !queries.isEmpty else { return [] }
    let ranges = parts.indices.map { rowRanges(of: $0, choice) }
    let components = ranges.joined().reduce(0) { $0 + $1.count } * dimensions
    var search = RowSearch(queries: queries, limit: max(1, limit), kernels: kernels)
    var found: [(hits: [Hit], count: ScanCount)] = []
    if depth == .signs || depth == .automatic && components > ScanDepth.many {
      for query in queries {
        search.queries = [query]
        guard let one = try scanSigns(search, ranges, isCancelled) else { return nil }
        found.append(one)
      }
    } else {
      guard let all = try scan(search, ranges, isSparse: false, isCancelled) else { return nil }
      found = all
    }
    for index in found.indices {
      try sort(&found[index].hits)
      found[index].hits = Array(found[index].hits.prefix(limit))
    }
    return found
  }

  /// What is searched for, and with what.
  private struct RowSearch {
    var queries: [[Float]]
    var limit: Int
    var kernels: ScanKernels
  }

  /// For each query the best passages of some rows of every part, in no order; nil when cancelled.
  ///
  /// - Parameter isSparse: whether so few rows are read that only their own blocks are checked.
  private func scan(
    _ search: RowSearch, _ ranges: [[Range<Int>]], isSparse: Bool, _ isCancelled: () -> Bool
  ) throws(IndexError) -> [(hits: [Hit], count: ScanCount)]? {
    var rows: [ScanRows] = []
    var numbers: [Int] = []
    for number in parts.indices where !ranges[number].isEmpty {
      let segment = parts[number].segment
      guard let found = try segment.scanRows(ranges[number], isSparse: isSparse) else { continue }
      rows.append(found)
      numbers.append(number)
    }
    var scans = search.queries.map { CertifiedScan($0, limit: search.limit, kernels: search.kernels) }
    guard let found = try CertifiedScan.run(&scans, rows, isCancelled: isCancelled) else { return nil }
    return zip(found, scans).map { passages, scan in
      let hits = passages.map { passage in
        Hit(part: numbers[passage.part], passage: passage.passage, score: passage.score, row: passage.row)
      }
      return (hits, scan.count)
    }
  }

  /// As `scan` of those rows alone that signs do not rule out; parts without signs are read whole.
  private func scanSigns(
    _ search: RowSearch, _ ranges: [[Range<Int>]], _ isCancelled: () -> Bool
  ) throws(IndexError) -> (hits: [Hit], count: ScanCount)? {
    var (found, numbers): ([SignPart], [Int]) = ([], [])
    for number in parts.indices where !ranges[number].isEmpty {
      guard let part = try parts[number].segment.signPart(ranges[number]) else { continue }
      found.append(part)
      numbers.append(number)
    }
    func withRest(_ chosen: [[Range<Int>]]) -> [[Range<Int>]] {
      var all = ranges
      for (number, rows) in zip(numbers, chosen) { all[number] = rows }
      return all
    }
    var signs = SignScan(search.queries.first ?? [], found, kernels: search.kernels)
    guard let best = signs.best(search.limit, isCancelled: isCancelled),
      var answer = try scan(search, withRest(best.ranges), isSparse: true, isCancelled)?.first
    else { return nil }
    let scores = answer.hits.map(\.score).sorted(by: >)
    let last = scores.count < search.limit ? -Float.infinity : scores[search.limit - 1]
    if best.bound > last {
      // Rows that were left out may be as near as the last of these.
      guard let all = signs.all(from: last, isCancelled: isCancelled),
        let second = try scan(search, all.map(withRest) ?? ranges, isSparse: all != nil, isCancelled)?.first
      else { return nil }
      answer = (second.hits, second.count.adding(answer.count))
    }
    answer.count.signs = signs.count
    return answer
  }

  /// Rows of the documents that are searched, neighbours joined.
  private func rowRanges(of part: Int, _ choice: DocumentChoice?) -> [Range<Int>] {
    var ranges: [Range<Int>] = []
    for number in parts[part].live where choice?.accepted[part][number] ?? true {
      let rows = parts[part].segment.documents[number].rows
      if let last = ranges.last, last.upperBound == rows.lowerBound {
        ranges[ranges.count - 1] = last.lowerBound..<rows.upperBound
      } else if !rows.isEmpty {
        ranges.append(rows)
      }
    }
    return ranges
  }

  /// By score; equal ones by document and place. A score that is no number comes last.
  func sort(_ hits: inout [Hit]) throws(IndexError) {
    var keys: [(score: Float, serial: UInt64, passage: Int, index: Int)] = []
    for (index, hit) in hits.enumerated() {
      keys.append(
        (hit.score.isNaN ? -.infinity : hit.score, try serial(of: hit), hit.passage, index))
    }
    keys.sort { a, b in
      a.score != b.score ? a.score > b.score : (a.serial, a.passage) < (b.serial, b.passage)
    }
    let unsorted = hits
    hits = keys.map { unsorted[$0.index] }
  }
}

extension IndexView {
  /// The serial number of a hit's document.
  package func serial(of hit: Hit) throws(IndexError) -> UInt64 { try document(of: hit).serial }

  /// The passages of a hit's document, as its part counts them.
  package func passages(around hit: Hit) throws(IndexError) -> Range<Int> {
    try document(of: hit).passages
  }

  private func document(of hit: Hit) throws(IndexError) -> SegmentDocument {
    let segment = parts[hit.part].segment
    return segment.documents[Int(try segment.record(hit.passage).record.document)]
  }

  /// The cosine that 95 of 100 pairs of rows stay below: what is not nearer than that is near by chance. -1 for a view of
  /// few rows.
  package func noiseFloor() throws(IndexError) -> Float {
    if let noise = known.withLock({ $0.noise }) { return noise }
    let noise = try measuredNoise()
    known.withLock { $0.noise = noise }
    return noise
  }

  private func measuredNoise() throws(IndexError) -> Float {
    let sizes = parts.map(\.segment.footer.rows)
    let total = sizes.reduce(0, +)
    guard total >= 20 else { return -1 }
    // A large file tells it for all, and once: nobody changes it.
    if let part = sizes.indices.max(by: { sizes[$0] < sizes[$1] }), sizes[part] >= Segment.telling {
      return try parts[part].segment.noiseFloor()
    }
    func row(_ number: Int) throws(IndexError) -> [Float] {
      var rest = number
      for (part, size) in sizes.enumerated() {
        if rest < size { return try vector(part: part, row: rest) }
        rest -= size
      }
      return []
    }
    // The same pairs every time, spread over all rows.
    var scores: [Float] = []
    var state: UInt64 = 1
    for _ in 0..<500 {
      var pair: [Int] = []
      for _ in 0..<2 {
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        pair.append(Int((state >> 33) % UInt64(total)))
      }
      guard pair[0] != pair[1] else { continue }
      let (a, b) = (try row(pair[0]), try row(pair[1]))
      scores.append(ExactScore.dot(a, b))
    }
    return Segment.noiseFloor(of: &scores)
  }
}

/// A passage with its vectors, as another engine takes it.
package struct ExportedPassage: Sendable {
  package let passage: StoredPassage
  /// At least one; a passage that is longer than the model takes has several.
  package let vectors: [[Float]]
  /// What the vectors were made of, one for each.
  package let keys: [RowKey]
  /// Of its document's name, where that has one; the first passage tells it.
  package let name: (key: RowKey, vector: [Float])?
}

extension IndexView {
  /// The passages of a document with their vectors.
  package func exported(_ key: String) throws(IndexError) -> [ExportedPassage] {
    guard let place = places[key] else { return [] }
    var found: [ExportedPassage] = []
    let keys = try parts[place.part].segment.rowKeys()
    let part = parts[place.part]
    let document = part.segment.documents[place.number]
    let nameRow =
      document.passages.isEmpty ? nil : try part.segment.ownRows(document.passages.lowerBound).name
    for passage in try passages(of: key) {
      var vectors: [[Float]] = []
      for row in passage.rows { vectors.append(try vector(part: place.part, row: row)) }
      guard passage.rows.allSatisfy(keys.indices.contains) else { throw .missingRow }
      var name: (key: RowKey, vector: [Float])?
      if passage.number == 0, let nameRow, keys.indices.contains(nameRow) {
        name = (keys[nameRow], try vector(part: place.part, row: nameRow))
      }
      found.append(
        ExportedPassage(passage: passage, vectors: vectors, keys: passage.rows.map { keys[$0] }, name: name))
    }
    return found
  }
}
