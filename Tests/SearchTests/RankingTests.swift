// What comes first: names of files, numbers among their like, words that one note has, and questions that the model cannot read.

import Platform
import Support
import Synchronization
import Testing

@testable import Search
@testable import Vectors

private struct Notes {
  let encoder: FakeEncoder
  let index: VectorIndex

  init(_ encoder: FakeEncoder = FakeEncoder(fingerprint: "ranking")) throws {
    self.encoder = encoder
    index = try VectorIndex(
      folder: "/i", fingerprint: "f", dimensions: encoder.dimensions, files: SimulatedDisk())
  }

  @discardableResult
  func add(_ path: String, _ text: String) throws -> IndexingProgress {
    try DocumentIndexer(index: index, encoder: encoder).index(
      SourceText(Array(text.utf8), kind: .markdown), key: path, info: [], name: DocumentName(path: path),
      rules: SplitRules(tokens: 24, overlap: 0))
  }

  func search(_ text: String, _ change: (inout SearchQuery) -> Void = { _ in }) throws -> [SearchResult] {
    var query = SearchQuery([text])
    query.explains = true
    change(&query)
    return try HybridSearch(index.view, encoder: encoder).run(query, clock: { 0 }).results
  }

  func first(_ text: String) throws -> String? { try search(text).first?.passage.document.key }
}

@Suite struct RankingTests {
  @Test(arguments: [
    ("home/Anniversary gift ideas.md", "home/Anniversary gift ideas", "home Anniversary gift ideas"),
    ("a/b/c/d/packing_list-2025.txt", "a/b/c/d/packing_list-2025", "b c d packing list 2025"),
    ("v0.12.5.md", "v0.12.5", nil), ("0001.txt", "0001", nil), ("IMG_2043.txt", "IMG_2043", "IMG 2043"),
    (".md", ".md", nil), ("Makefile", "Makefile", "Makefile"), ("日記.md", "日記", "日記"),
    ("notes.backup", "notes.backup", "notes.backup"), ("", "", nil),
  ])
  func `a name is words without its ending, and a text where it has a word`(
    _ path: String, _ words: String, _ meaning: String?
  ) {
    let name = DocumentName(path: path)
    #expect(name.words == words && name.meaning == meaning)
  }

  @Test func `notes are found by their names, and say so`() throws {
    let notes = try Notes(FakeEncoder(synonyms: ["present": "gift"], fingerprint: "names"))
    try notes.add(
      "home/Anniversary gift ideas.md", "A scarf, a teapot, two tickets.\n\nAsk Clara about the size.")
    try notes.add("home/Grandma's spaetzle.md", "Flour, eggs, salt and water. Rest for half an hour.")
    for number in 0..<20 {
      try notes.add("releases/v0.12.\(number).md", "Faster search and fewer errors, change \(number * 3).")
    }
    #expect(try notes.first("spaetzle") == "home/Grandma's spaetzle.md")
    #expect(try notes.first("0.12.5") == "releases/v0.12.5.md")
    #expect(try notes.first("v0.12.15") == "releases/v0.12.15.md")
    // By its meaning alone: no word is the same.
    let result = try #require(try notes.search("present").first)
    #expect(result.passage.document.key == "home/Anniversary gift ideas.md")
    #expect(result.why?.name?.text == "home/Anniversary gift ideas" && result.why?.name?.terms == [])
    #expect(result.why?.summary.hasPrefix("matched name: home/Anniversary gift ideas") == true)
    let named = try #require(try notes.search("grandma").first?.why)
    #expect(named.name?.terms == ["Grandma"] && named.terms.isEmpty && !named.isWeak)
    // The vector of a name is no part of its text.
    let passages = try notes.index.view.passages(of: "home/Anniversary gift ideas.md")
    #expect(
      passages.allSatisfy { $0.rows.count == 1 }
        && passages.reduce(0) { $0 + $1.rows.count } == passages.count)
  }

  @Test func `another name costs one vector, and survives files and logs`() throws {
    let disk = SimulatedDisk()
    let encoder = FakeEncoder(fingerprint: "other names")
    func open() throws -> VectorIndex {
      try VectorIndex(folder: "/i", fingerprint: "f", dimensions: encoder.dimensions, files: disk)
    }
    func add(_ path: String, to index: VectorIndex) throws -> IndexingProgress {
      try DocumentIndexer(index: index, encoder: encoder).index(
        SourceText(Array("Goggles and wax.".utf8), kind: .plain), key: path, info: [],
        name: DocumentName(path: path), rules: SplitRules(tokens: 24, overlap: 0))
    }
    do {
      let index = try open()
      #expect(try add("winter trip.md", to: index) == IndexingProgress(rows: 2, done: 2, encoded: 1))
      #expect(try add("summer trip.md", to: index) == IndexingProgress(rows: 2, done: 2, encoded: 0))
    }
    disk.restart(losingPower: false)
    for isCompacted in [false, true] {
      let index = try open()
      if isCompacted { try index.compact(all: true) }
      let document = try #require(index.view.document("winter trip.md"))
      #expect(document.name == Array("winter trip".utf8) && document.hasNameRow && document.rows == 2)
      #expect(try index.view.passages(of: "winter trip.md").first?.rows.count == 1)
      disk.restart(losingPower: false)
    }
  }

  @Test func `of a hundred notes with a number the one is first that has it`() throws {
    let notes = try Notes()
    for number in 0..<100 {
      try notes.add(
        "bills/\(number).md",
        "Invoice 2025-\(1_000 + number) of Weber Heating for the boiler, paid by transfer.")
      try notes.add(
        "log/\(number).md", "Version 0.\(number).2 after 0.\(number / 2).1: fixes of the search page.")
    }
    for number in stride(from: 0, to: 100, by: 7) {
      #expect(try notes.first("invoice 2025-\(1_000 + number)") == "bills/\(number).md")
      #expect(try notes.first("0.\(number).2") == "log/\(number).md")
    }
    let why = try #require(try notes.search("invoice 2025-1065").first?.why)
    #expect(why.terms.map(\.term) == ["Invoice", "2025-1065"])
  }

  @Test func `quotation marks ask for words one after another`() throws {
    let notes = try Notes()
    for number in 0..<20 {
      try notes.add("\(number)", "The ladder was blue, and the beacon for an avalanche was red \(number).")
    }
    try notes.add("one", "An avalanche beacon hung from the blue ladder.")
    #expect(try notes.first("\"avalanche beacon\"") == "one")
    #expect(try notes.first("\"the blue ladder\"") == "one")
  }

  @Test func `a piece of a word is no reason beside the word`() throws {
    let notes = try Notes()
    try notes.add("a", "Export from OneNote as a file.")
    try notes.add("b", "One note says one thing.")
    let results = try notes.search("OneNote")
    #expect(
      results.first?.passage.document.key == "a" && results.first?.why?.terms.map(\.term) == ["OneNote"])
    try notes.add("v0.12.5.md", "Build 5 of 12 fixes the clock.")
    let why = try notes.search("v0.12.5").first?.why
    #expect(why?.name?.terms == ["0.12.5"] && why?.terms == [] && why?.summary == "matched name: v0.12.5")
    // Where nobody writes it as one word its pieces are looked for.
    #expect(try notes.first("NoteThing") == "b")
  }

  @Test func `a question that is longer than the model reads is cut, and it is told`() throws {
    let notes = try Notes(FakeEncoder(room: 8, fingerprint: "long"))
    try notes.add("a", "Copper wires.")
    func answer(_ text: String, _ weights: HybridWeights? = nil) throws -> CutQuestion? {
      var query = SearchQuery([text, "wires"])
      query.weights = weights
      return try HybridSearch(notes.index.view, encoder: notes.encoder).run(query, clock: { 0 }).cut
    }
    let long = "where are the copper wires that I bought last"
    #expect(try answer(long) == CutQuestion(tokens: 9, read: 8))
    #expect(try answer("where are the copper wires that I bought") == nil)
    #expect(try answer(long, HybridWeights(embedding: 0, text: 1)) == nil)
  }

  @Test func `what the model cannot read is found by its words`() throws {
    let notes = try Notes(FakeEncoder(fingerprint: "unread", readsOnly: "abcdefghijklmnopqrstuvwxyz"))
    try notes.add("weather", "明日の天気予報は雨です。傘を持って行く。")
    try notes.add("food", "天ぷらを食べた。気に入った。")
    for number in 0..<20 { try notes.add("n\(number)", "Something else about number \(number).") }
    var query = SearchQuery(["天気予報"])
    query.explains = true
    let answer = try HybridSearch(notes.index.view, encoder: notes.encoder).run(query, clock: { 0 })
    let first = try #require(answer.results.first)
    #expect(answer.unread == 1 && first.passage.document.key == "weather")
    // Whole words, not their pairs.
    #expect(first.why?.terms.map(\.term) == ["天気予報"] && first.why?.terms.first?.positions == [3..<7])
    #expect(first.why?.terms.first?.weight == 1 && first.why?.sentence == nil)
    #expect(first.why?.summary == "matched words: 天気予報; the model cannot read the question")
    #expect(answer.results.allSatisfy { $0.parts.lexical != nil })
    // Half of the words are read: half of the weight stays.
    query.texts = ["rain 天気予報"]
    #expect(try HybridSearch(notes.index.view, encoder: notes.encoder).run(query, clock: { 0 }).unread == 0.5)
  }

  @Test(arguments: [
    // Thai: motor oil, and a kitchen that shares single syllables with the question.
    (
      "เปลี่ยนน้ำมันเครื่องเมื่อไหร่", "รถเข้าศูนย์ เปลี่ยนน้ำมันเครื่องแล้ว นัดครั้งหน้าเดือนมีนา", "ครัวของเรามีตู้เย็นกับเตาอบ",
      ["เปลี่ยนน้ำมันเครื่อง"]
    ),
    ("น้ำ", "ดื่มน้ำเปล่าทุกวัน", "ข้าวหมูแดง", ["น้ำ"]),
    ("ລາຄາເຂົ້າໜຽວ", "ຕະຫຼາດ: ເຂົ້າໜຽວກິໂລລະ", "ຮ້ານຕັດຜົມ", ["ເຂົ້າໜຽວ"]),
    ("តម្លៃសំបុត្រយន្តហោះ", "ទិញសំបុត្រយន្តហោះទៅភ្នំពេញ", "បញ្ជីទំនិញ", ["សំបុត្រយន្តហោះ"]),
    ("လေယာဉ်လက်မှတ်ဈေး", "လေယာဉ်လက်မှတ်ဝယ်ပြီးပြီ", "ဈေးဝယ်စာရင်း", ["လေယာဉ်လက်မှတ်"]),
    ("汽车保险什么时候到期", "汽车保险三月到期，要续保", "医生约在周五", ["汽车保险", "到期"]),
    ("茶", "下午喝茶，配点心", "明天开会", ["茶"]),
    // Pieces of the question that meet in the note, and not in the question.
    ("東京へ。京都から", "東京都の税金", "大阪の天気", ["東京", "京都"]),
    ("自転車の鍵はどこ", "自転車の鍵は玄関の引き出し", "電車の時刻表", ["自転車の鍵は"]),
    ("\u{304B}\u{3099}くせい証", "が\u{304F}せい証の番号", "図書館", ["が\u{304F}せい証"]),
  ])
  func `reasons of scripts without spaces are the longest pieces that question and passage have`(
    question: String, note: String, other: String, terms: [String]
  ) throws {
    let notes = try Notes(FakeEncoder(fingerprint: "unread", readsOnly: "abcdefghijklmnopqrstuvwxyz"))
    try notes.add("note", note)
    try notes.add("other", other)
    let first = try #require(try notes.search(question).first)
    #expect(first.passage.document.key == "note")
    let found = (first.why?.terms ?? []).map(\.term)
    #expect(found == terms, "\(found)")
    let scalars = Array(note.unicodeScalars)
    for term in first.why?.terms ?? [] {
      for place in term.positions {
        #expect(String(String.UnicodeScalarView(scalars[place])) == term.term)
        // No mark is cut from its letter.
        let next = place.upperBound < scalars.count ? scalars[place.upperBound] : " "
        for scalar in [scalars[place.lowerBound], next] {
          #expect(!scalar.properties.isGraphemeExtend, "\(term.term)")
        }
      }
    }
  }

  @Test func `the index of an older version gets words and names, and keeps its vectors`() throws {
    let disk = SimulatedDisk()
    let encoder = FakeEncoder(fingerprint: "older")
    func open() throws -> VectorIndex {
      try VectorIndex(folder: "/i", fingerprint: "f", dimensions: encoder.dimensions, files: disk)
    }
    do {
      let index = try open()
      _ = try DocumentIndexer(index: index, encoder: encoder).index(
        SourceText(Array("Three experiments with copper.".utf8), kind: .plain), key: "lab/wires.md", info: [],
        rules: SplitRules(tokens: 24, overlap: 0))
      try index.compact(all: true)
    }
    let path = try #require(disk.files.first { $0.hasSuffix(".segment") })
    let bytes = try #require(disk.content(path))
    var (footer, start) = try bytes.withUnsafeBytes { try #require(SegmentFooter.find(in: $0)) }
    footer.version = 2
    disk.restart(losingPower: false)
    disk.put(path, Array(bytes[..<start]) + footer.encoded)
    let index = try open()
    let count = encoder.encoded.load(ordering: .relaxed)
    #expect(index.view.document("lab/wires.md")?.name == [])
    #expect(try index.renewWords { Array(DocumentName(path: $0).words.utf8) })
    #expect(index.view.document("lab/wires.md")?.name == Array("lab/wires".utf8))
    for text in ["experiment", "wire"] {
      #expect(try index.view.byWords(WordQuery(Array(text.utf8)), limit: 3).hits.count == 1)
    }
    #expect(try !index.renewWords { _ in [] } && encoder.encoded.load(ordering: .relaxed) == count)
  }
}
