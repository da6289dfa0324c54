// Words of many languages, and BM25 over the parts of an index.

import JSON
import Platform
import Support
import Testing

@testable import Vectors

func words(_ text: String) -> [String] {
  Array(text.utf8).withUnsafeBytes { WordSplitter.words($0) }.map { String(decoding: $0.term, as: UTF8.self) }
}

@Suite struct WordTests {
  @Test func `words are runs of letters and digits without case and accents`() {
    #expect(words("Hello, World! It's 4:30.") == ["hello", "world", "it", "s", "4", "30"])
    #expect(words("Crème BRÛLÉE naïve Ångström") == ["creme", "brulee", "naive", "angstrom"])
    #expect(words("straße ﬁne ½") == ["straße", "fine", "1⁄2"])
    #expect(words("Привет, МИР") == ["привет", "мир"])
    #expect(words("Γειά ΣΟΥ") == ["γεια", "σου"])
    #expect(words("x\u{301}yz e\u{301}te\u{301}") == ["xyz", "ete"])
    #expect(words("MATHN-4711") == ["mathn-4711", "mathn", "4711"])
    #expect(words("well-known and/or e.g. end.") == ["well", "known", "and", "or", "e", "g", "end"])
  }

  @Test func `names of code are found whole and by their parts`() {
    #expect(words("camelCaseName") == ["camelcasename", "camel", "case", "name"])
    #expect(words("HTTPServer") == ["httpserver", "http", "server"])
    #expect(words("snake_case") == ["snake_case", "snake", "case"])
    #expect(words("iPhone") == ["iphone", "phone"])
  }

  @Test func `what has a number in it is found whole and by its parts`() {
    #expect(words("invoice 2025-0065.") == ["invoice", "2025-0065", "2025", "0065"])
    #expect(words("v0.65.2, 0.65.2") == ["0.65.2", "v0", "65", "2", "0.65.2", "0", "65", "2"])
    #expect(words("2025-é") == ["2025", "e"])
    #expect(words("12/05/2025 a/v1.2") == ["12/05/2025", "12", "05", "2025", "a", "1.2", "v1", "2"])
    #expect(words("1.").count == 1 && words("a--1") == ["a", "1"])
    let parts = WordSplitter.words(in: Array("v0.65.2 parseHTTP".utf8)).map(\.isPart)
    #expect(parts == [false, true, true, true, false, true, true])
  }

  @Test func `text without spaces is pairs of characters`() {
    #expect(words("冬の旅") == ["冬の", "冬", "の旅", "の", "旅"])
    #expect(words("東京 駅") == ["東京", "東", "京", "駅"])
    #expect(words("abc漢字def") == ["abc", "漢字", "漢", "字", "def"])
    let pieces = WordSplitter.words(in: Array("漢字 駅 eki".utf8))
    #expect(pieces.map(\.isPart) == [false, true, true, false, false])
    #expect(pieces.map(\.isPiece) == [true, true, true, true, false])
    #expect(words("ミルク・ティー").contains("ルク") && !words("ミルク・ティー").contains("クティ"))
    // One character is looked for where it is all that is asked.
    #expect(WordQuery(Array("東京 駅".utf8)).entries.map(\.term) == ["東京", "駅"].map { Array($0.utf8) })
  }

  @Test(arguments: [
    ("น้ำมันเครื่อง", ["น้ำ", "มั", "น", "เค", "รื่", "อ", "ง"]), ("ครัว ไก่ ปลา", ["ค", "รั", "ว", "ไก่", "ป", "ลา"]),
    ("ນ້ຳໝາກ ແມວ", ["ນ້ຳ", "ໝາ", "ກ", "ແມ", "ວ"]), ("ខ្មែរ។ភាសា", ["ខ្មែ", "រ", "ភា", "សា"]),
    ("မြန်မာ၊ပစ္စည်း", ["မြ", "န်", "မာ", "ပ", "စ္စ", "ည်း"]), ("か\u{3099}っこう", ["か\u{3099}", "っ", "こ", "う"]),
    ("한국어", ["한", "국", "어"]), ("葛\u{E0100}城", ["葛\u{E0100}", "城"]), ("\u{E48} \u{E31}กา", ["กา"]),
  ])
  func `a character has its marks with it`(text: String, characters: [String]) {
    let bytes = Array(text.utf8)
    let found = WordSplitter.words(in: bytes).map { String(decoding: bytes[$0.range], as: UTF8.self) }
    // Pairs are two of them.
    let pairs = zip(characters, characters.dropFirst()).map { $0 + $1 }
    #expect(found.filter { characters.contains($0) } == characters)
    #expect(found.allSatisfy { characters.contains($0) || pairs.contains($0) }, "\(found)")
  }

  @Test func `vowels and tones are letters, and accents are none`() {
    #expect(Set(["กิ", "กุ", "ก่", "ก"].map { words($0) }).count == 4)
    #expect(words("कुल") != words("कल") && words("がき") != words("かき") && words("ｶﾞ") == words("ガ"))
    #expect(words("résumé") == words("resume") && words("שָׁלוֹם") == words("שלום"))
  }

  @Test func `ranges cut the words out of the text`() {
    let text = "Die Straße — naïve 東京都 fooBar"
    let bytes = Array(text.utf8)
    for word in bytes.withUnsafeBytes({ WordSplitter.words($0) }) {
      let piece = String(decoding: bytes[word.range], as: UTF8.self)
      #expect(text.contains(piece))
      #expect(words(piece).contains(String(decoding: word.term, as: UTF8.self)))
    }
  }

  @Test func `any bytes are split without harm`() {
    var random = SeededGenerator(seed: 5)
    for _ in 0..<500 {
      let bytes = (0..<40).map { _ in UInt8.random(in: 0...255, using: &random) }
      for word in bytes.withUnsafeBytes({ WordSplitter.words($0) }) {
        #expect(word.range.lowerBound >= 0 && word.range.upperBound <= bytes.count && !word.term.isEmpty)
      }
    }
  }

  @Test func `a query drops stop words unless it has nothing else`() {
    #expect(WordQuery(Array("what is the time".utf8)).entries.map(\.term) == [Array("time".utf8)])
    #expect(WordQuery(Array("to be or not to be".utf8)).entries.isEmpty)
  }

  @Test func `what stands in quotation marks is a phrase`() {
    func phrases(_ text: String) -> [[String]] {
      WordQuery(Array(text.utf8)).phrases.map { $0.map { String(decoding: $0, as: UTF8.self) } }
    }
    #expect(phrases("where is \"the blue ladder\" now") == [["the", "blue", "ladder"]])
    #expect(phrases("„rote Leiter“ “old kettle”") == [["rote", "leiter"], ["old", "kettle"]])
    #expect(phrases("no \"end of it").isEmpty && phrases("\"one\"").isEmpty)
  }

  @Test func `numbers survive as varints`() {
    for value in [0, 1, 127, 128, 300, 1 << 20, Int(UInt32.max)] {
      var bytes: [UInt8] = []
      Varint.append(value, to: &bytes)
      bytes.withUnsafeBytes { buffer in
        var at = 0
        #expect(Varint.read(buffer, &at) == value)
        #expect(at == buffer.count && Varint.read(buffer, &at) == nil)
      }
    }
  }
}

/// The book of the shared data, in 235 passages with their vectors.
struct Book {
  var passages: [(id: String, text: String)] = []
  var vectors: [[Float]] = []
  var queries: [(id: String, text: String)] = []
  var folder: String

  init?() throws {
    guard let shared = TestData.shared else { return nil }
    folder = shared + "/search/alice"
    for line in try Self.lines(folder + "/corpus.jsonl") {
      passages.append((line["id"]?.stringValue ?? "", line["text"]?.stringValue ?? ""))
    }
    for line in try Self.lines(folder + "/queries.jsonl") {
      queries.append((line["id"]?.stringValue ?? "", line["query"]?.stringValue ?? ""))
    }
    vectors = try Self.tensor("chunks_q8", in: folder + "/chunks.safetensors")
  }

  static func lines(_ path: String) throws -> [JSONValue] {
    try TestData.bytes(path).split(separator: UInt8(ascii: "\n")).map { try JSONValue(parsing: Array($0)) }
  }

  /// A matrix of float32 of a safetensors file.
  static func tensor(_ name: String, in path: String) throws -> [[Float]] {
    let bytes = try TestData.bytes(path)
    let size = bytes[..<8].reversed().reduce(0) { $0 << 8 | Int($1) }
    let header = try JSONValue(parsing: Array(bytes[8..<8 + size]))
    let entry = try #require(header[name])
    let shape = (entry["shape"]?.arrayValue ?? []).compactMap(\.intValue)
    let start = 8 + size + (entry["data_offsets"]?[0]?.intValue ?? 0)
    return bytes.withUnsafeBytes { buffer in
      (0..<shape[0]).map { row in
        (0..<shape[1]).map {
          buffer.loadUnaligned(fromByteOffset: start + 4 * (row * shape[1] + $0), as: Float.self)
        }
      }
    }
  }

  /// An index of the book, one document.
  func index(_ text: (String) -> String = { $0 }) throws -> VectorIndex {
    let index = try VectorIndex(folder: "/book", fingerprint: "f", dimensions: 384, files: SimulatedDisk())
    try index.remember(vectors.enumerated().map { (rowKey($0), $1) })
    var start = 0
    let stored = passages.enumerated().map { number, passage in
      defer { start += passage.text.utf8.count }
      return Passage(
        text: Array(text(passage.text).utf8), range: start..<start + passage.text.utf8.count,
        rows: [rowKey(number)])
    }
    try index.commit(NewDocument(key: "alice", info: [], passages: stored))
    return index
  }
}

/// What a search by words holds while it runs.
@Suite struct WordMemoryTests {
  /// An index of passages that all have one word, some of which have another, in memory and in a file.
  private func index(_ count: Int) throws -> VectorIndex {
    let index = try VectorIndex(folder: "/i", fingerprint: "f", dimensions: 4, files: SimulatedDisk())
    for start in stride(from: 0, to: count, by: 1_000) {
      let numbers = start..<min(count, start + 1_000)
      try index.remember(numbers.map { (RowKey(high: UInt64($0), low: 1), [1, 0, 0, 0]) })
      let passages = numbers.map {
        Passage(
          text: Array(($0 % 7 == 0 ? "common rare" : "common word").utf8), range: 0..<11,
          rows: [RowKey(high: UInt64($0), low: 1)])
      }
      try index.commit(NewDocument(key: "\(start)", info: [], passages: passages))
    }
    return index
  }

  @Test func `scores and postings are claimed before they are taken, and given back`() throws {
    let index = try index(20_000)
    let query = WordQuery(Array("common rare".utf8))
    for isCompacted in [false, true] {
      if isCompacted { try index.compact(all: true) }
      let free = try index.view.byWords(query, limit: 50)
      let ledger = MemoryLedger()
      let memory = MemoryLoan(ledger, for: .answers, patience: 0)
      #expect(try index.view.byWords(query, limit: 50, memory: memory).hits == free.hits)
      let peak = ledger.snapshot().lines.first { $0.kind == .answers }?.peak ?? 0
      #expect(peak >= 20_000 * (8 + 24) && peak < 20_000 * 100)
      #expect(ledger.bytes(of: .answers) == 0)
      let small = MemoryLedger(limit: peak / 2)
      #expect(throws: IndexError.self) {
        try index.view.byWords(
          query, limit: 50, memory: MemoryLoan(small, for: .answers, patience: 0))
      }
      #expect(small.bytes(of: .answers) == 0)
      // A word that few passages have takes little.
      let few = MemoryLedger(limit: peak / 2)
      let rare = try index.view.byWords(
        WordQuery(Array("rare".utf8)), limit: 3, memory: MemoryLoan(few, for: .answers, patience: 0))
      #expect(rare.hits.map(\.score) == [Float](repeating: rare.hits[0].score, count: 3))
    }
  }

  @Test func `of many equal passages those that were put in first are found`() throws {
    let index = try index(20_000)
    try index.compact(all: true)
    let hits = try index.view.byWords(WordQuery(Array("rare".utf8)), limit: 5).hits
    #expect(hits.map(\.passage) == [0, 7, 14, 21, 28])
    let all = try index.view.byWords(WordQuery(Array("rare".utf8)), limit: 20_000).hits
    #expect(all.count == 2_858 && zip(all, all.dropFirst()).allSatisfy { $0.passage < $1.passage })
  }
}

@Suite(.enabled(if: TestData.shared != nil, "needs the shared data")) struct BookTests {
  @Test func `BM25 of the index is that of a plain loop over all passages`() throws {
    let book = try #require(try Book())
    // In lowercase: the loop does not know the parts of camel case.
    let index = try book.index { $0.lowercased() }
    let slow = SlowBM25(book.passages.map(\.text))
    for isCompacted in [false, true] {
      if isCompacted { try index.compact() }
      for query in book.queries {
        let found = try index.view.byWords(WordQuery(Array(query.text.utf8)), limit: 300)
        let expected = slow.scores(query.text)
        #expect(found.hits.count == expected.count { $0 > 0 })
        for hit in found.hits { #expect(abs(Double(hit.score) - expected[hit.passage]) < 1e-4) }
        #expect(zip(found.hits, found.hits.dropFirst()).allSatisfy { $0.score >= $1.score })
      }
    }
  }

  @Test func `rows with the golden's vectors come nearest to themselves`() throws {
    let book = try #require(try Book())
    let view = try book.index().view
    for (number, vector) in book.vectors.enumerated() {
      let unit = try #require(RowCode.normalized(vector))
      let found = try #require(try view.nearest(unit, limit: 10))
      #expect(found.hits.first?.passage == number)
      // The certificate costs next to nothing.
      #expect(found.count.rescored < 60)
    }
  }
}

/// BM25 in the plainest form, for ASCII text: of words and of their stems in the language of each passage.
private struct SlowBM25 {
  private var documents: [[String: Int]] = []
  private var lengths: [Int] = []
  private var languages: Set<StemLanguage> = []

  init(_ texts: [String]) {
    for text in texts {
      let terms = Self.terms(text)
      let language = StemLanguage.of(WordSplitter.words(in: Array(text.utf8)))
      languages.insert(language)
      documents.append(
        (terms + terms.compactMap { Self.stem($0, language) }).reduce(into: [:]) { $0[$1, default: 0] += 1 })
      lengths.append(terms.count)
    }
  }

  private static func stem(_ term: String, _ language: StemLanguage) -> String? {
    language.stem(Array(term.utf8)).map { "\(language) " + String(decoding: $0, as: UTF8.self) }
  }

  private static func terms(_ text: String) -> [String] {
    text.lowercased().split { !($0.isASCII && ($0.isLetter || $0.isNumber)) }.map(String.init)
      .filter { !StopWords.english.contains(Array($0.utf8)) }
  }

  func scores(_ query: String) -> [Double] {
    let average = Double(lengths.reduce(0, +)) / Double(lengths.count)
    var scores = [Double](repeating: 0, count: documents.count)
    for term in Set(Self.terms(query)) {
      let stems = languages.compactMap { Self.stem(term, $0) }
      // A number has no stem, and counts for both.
      for (forms, share) in [([term], stems.isEmpty ? 2.0 : 1.0), (stems, 1)] {
        let with = Double(documents.count { document in forms.contains { document[$0] != nil } })
        let idf = share * log(1 + (Double(documents.count) - with + 0.5) / (with + 0.5))
        for (number, document) in documents.enumerated() {
          let count = forms.reduce(0.0) { $0 + Double(document[$1] ?? 0) }
          guard count > 0 else { continue }
          scores[number] += idf * count / (count + 1.2 * (0.25 + 0.75 * Double(lengths[number]) / average))
        }
      }
    }
    return scores
  }
}
