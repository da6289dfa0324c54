// Documents go in, questions find them, and results say why.

import Platform
import Support
import Synchronization
import Testing
import Vectors

@testable import Search

private struct Notes {
  let encoder: FakeEncoder
  let index: VectorIndex

  init(_ encoder: FakeEncoder = FakeEncoder(), disk: SimulatedDisk = SimulatedDisk()) throws {
    self.encoder = encoder
    index = try VectorIndex(folder: "/i", fingerprint: "f", dimensions: encoder.dimensions, files: disk)
  }

  @discardableResult
  func add(_ key: String, _ text: String, tokens: Int = 24) throws -> IndexingProgress {
    try DocumentIndexer(index: index, encoder: encoder).index(
      SourceText(Array(text.utf8), kind: .markdown), key: key, info: [],
      rules: SplitRules(tokens: tokens, overlap: 0))
  }

  func search(_ text: String, _ change: (inout SearchQuery) -> Void = { _ in }) throws -> [SearchResult] {
    var query = SearchQuery([text])
    change(&query)
    return try HybridSearch(index.view, encoder: encoder).run(query, clock: { 0 }).results
  }
}

@Suite struct SearchTests {
  private func filled() throws -> Notes {
    let notes = try Notes(FakeEncoder(synonyms: ["snowboard": "winter", "trip": "boarding"]))
    try notes.add("alps", "Plan of the snowboard trip. Things to pack: goggles, wax, and a checklist.")
    try notes.add("garden", "Tomatoes want water every day. The roses were cut in March.")
    try notes.add("code", "The error MATHN-4711 is raised by parseHeader when a file ends early.")
    try notes.add("tea", "A pot of tea needs four minutes and water just off the boil.")
    return notes
  }

  @Test func `a question finds its note and says why`() throws {
    let notes = try filled()
    let results = try notes.search("winter boarding checklist") { $0.explains = true }
    let first = try #require(results.first)
    #expect(first.passage.document.key == "alps")
    let why = try #require(first.why)
    #expect(why.terms.map(\.term) == ["checklist"])
    #expect(why.terms.first?.weight == 1)
    let concept = try #require(why.concepts.first)
    #expect(concept.query == "winter boarding" && concept.text == "snowboard trip" && concept.score > 0.55)
    #expect(why.summary == "matched concepts: snowboard trip, checklist")
    // Offsets cut the exact words.
    let scalars = Array(String(decoding: first.passage.text, as: UTF8.self).unicodeScalars)
    func cut(_ range: Range<Int>) -> String {
      String(String.UnicodeScalarView(scalars[range]))
    }
    #expect(cut(concept.range) == "snowboard trip")
    #expect(why.terms.flatMap(\.positions).map(cut) == ["checklist"])
    let sentence = try #require(why.sentence)
    #expect(cut(sentence.range) == sentence.text && !sentence.text.isEmpty)
    #expect(results.allSatisfy { $0.score >= 0 && $0.score <= 1 })
    // The same, every time.
    let again = try notes.search("winter boarding checklist") { $0.explains = true }
    #expect(again.map(\.why) == results.map(\.why) && again.map(\.score) == results.map(\.score))
  }

  @Test func `nothing is invented where nothing fits`() throws {
    let notes = try filled()
    for number in 0..<20 { try notes.add("n\(number)", "note number \(number) about things \(number * 7)") }
    let why = try #require(try notes.search("quantum chromodynamics") { $0.explains = true }.first?.why)
    #expect(why.terms.isEmpty && why.concepts.isEmpty)
    #expect(why.summary.contains("similar overall") || why.summary.contains("closest passage"))
  }

  @Test func `of a long passage the part that came nearest is explained`() throws {
    let notes = try Notes()
    let filler = (0..<60).map { "Filler \($0) says nothing of note." }
    try notes.add(
      "long", (filler + ["The boiler is serviced every March."] + filler).joined(separator: " "),
      tokens: 2_000)
    for weights in [HybridWeights(embedding: 1, text: 0), HybridWeights(embedding: 0, text: 1)] {
      let results = try notes.search("boiler serviced March") {
        $0.explains = true
        $0.weights = weights
      }
      let result = try #require(results.first)
      #expect(result.passage.rows.count > 5)
      guard weights.embedding > 0 else { continue }
      let why = try #require(result.why)
      #expect(why.sentence?.text == "The boiler is serviced every March.")
    }
  }

  @Test func `names are found by their letters`() throws {
    let notes = try filled()
    for number in 0..<30 {
      try notes.add("n\(number)", "The error MATHN-\(1000 + number) says nothing of a file.")
    }
    #expect(try notes.search("MATHN-4711").first?.passage.document.key == "code")
    #expect(try notes.search("parse header").first?.passage.document.key == "code")
  }

  @Test func `weights choose the list`() throws {
    let notes = try filled()
    let near = try notes.search("water for tea") { $0.weights = HybridWeights(embedding: 1, text: 0) }
    #expect(near.allSatisfy { $0.parts.lexical == nil && $0.score == max(0, $0.parts.vector ?? -1) })
    let worded = try notes.search("water for tea") { $0.weights = HybridWeights(embedding: 0, text: 1) }
    #expect(Set(worded.map(\.passage.document.key)) == ["garden", "tea"])
    #expect(worded.allSatisfy { $0.parts.vector == nil } && worded.first?.score == 1)
    let strict = try notes.search("water for tea") { $0.threshold = 0.99 }
    #expect(strict.count < 3)
    #expect(try notes.search("water", { $0.limit = 1 }).count == 1)
  }

  @Test func `several questions are joined`() throws {
    let notes = try filled()
    let query = SearchQuery(["roses", "wax goggles"])
    let results = try HybridSearch(notes.index.view, encoder: notes.encoder).run(query, clock: { 0 }).results
    #expect(Set(results.prefix(2).map(\.passage.document.key)) == ["alps", "garden"])
  }

  @Test func `a filter chooses documents before the search`() throws {
    let notes = try filled()
    for number in 0..<50 { try notes.add("water\(number)", "Water, water, every day water \(number).") }
    let search = HybridSearch(
      notes.index.view, encoder: notes.encoder, accepts: { $0.key == "tea" || $0.key == "code" })
    let results = try search.run(SearchQuery(["water every day"]), clock: { 0 }).results
    #expect(results.map(\.passage.document.key) == ["tea", "code"])
  }

  @Test func `no more than three neighbours while others are left`() throws {
    let notes = try Notes()
    try notes.add("long", (0..<12).map { "apples and pears number \($0).\n\n" }.joined(), tokens: 5)
    for number in 0..<6 { try notes.add("s\(number)", "some other fruit such as \(number) apples") }
    let results = try notes.search("apples and pears") { $0.limit = 6 }
    let numbers = results.filter { $0.passage.document.key == "long" }.map(\.passage.number).sorted()
    for first in numbers { #expect(!(1...3).allSatisfy { numbers.contains(first + $0) }) }
    #expect(results.count == 6)
    let all = try notes.search("apples and pears") { $0.limit = 18 }
    #expect(all.count == 18)
  }

  @Test func `passages of other documents are no neighbours, in memory or in a file`() throws {
    let notes = try Notes()
    for number in 0..<30 { try notes.add("\(number)", "apples and pears") }
    for isInFile in [false, true] {
      if isInFile { try notes.index.compact(all: true) }
      let results = try notes.search("apples and pears") { $0.limit = 20 }
      #expect(results.map(\.passage.document.key) == (0..<20).map(String.init))
    }
  }

  @Test func `what is indexed already is not computed again`() throws {
    let notes = try Notes()
    let text = (0..<40).map { "Paragraph \($0) has its own words.\n\n" }.joined()
    let first = try notes.add("a", text)
    #expect(first.encoded == first.rows && notes.encoder.encoded.load(ordering: .relaxed) == first.rows)
    #expect(try notes.add("b", text).encoded == 0)
    #expect(try notes.add("a", text).encoded == 0)
    let more = try notes.add("a", text + "One more paragraph at the end.\n")
    #expect(more.encoded > 0 && more.encoded <= 2)
  }

  @Test func `an interrupted document goes on where it was`() throws {
    let disk = SimulatedDisk()
    let text = (0..<200).map { "Paragraph \($0) has its own words.\n\n" }.joined()
    var encoded = 0
    do {
      let notes = try Notes(disk: disk)
      #expect(throws: SearchError.cancelled) {
        _ = try DocumentIndexer(index: notes.index, encoder: notes.encoder).index(
          SourceText(Array(text.utf8), kind: .markdown), key: "a", info: [],
          rules: SplitRules(tokens: 6, overlap: 0),
          isUnwanted: { notes.encoder.encoded.load(ordering: .relaxed) >= 64 })
      }
      encoded = notes.encoder.encoded.load(ordering: .relaxed)
      #expect(notes.index.view.documentCount == 0)
    }
    disk.restart(losingPower: false)
    let notes = try Notes(disk: disk)
    let state = try notes.add("a", text, tokens: 6)
    #expect(state.rows == state.encoded + encoded && encoded == 64)
  }
}

@Suite struct FolderIndexTests {
  private let folder = "/tmp/mlxserve-folder-test-\(getpid())-\(UInt32.random(in: 0...UInt32.max))"

  private func write(_ name: String, _ text: String) throws {
    let files = SystemFiles()
    var path = folder
    for part in name.split(separator: "/").dropLast() {
      path += "/" + part
      if !File.isDirectory(path) { try files.makeFolder(path) }
    }
    let parts = name.split(separator: "/")
    try files.writeDurably(Array(text.utf8), folder: path, name: String(parts[parts.count - 1]))
  }

  @Test func `an index follows its folder`() throws {
    try SystemFiles().makeFolder(folder)
    defer {
      try? File.removeAll(folder)
    }
    for number in 0..<20 {
      try write("notes/n\(number).md", "# Note \(number)\n\nWords of note number \(number).\n")
    }
    try write(".hidden.md", "no")
    try write("skip.log", "no")
    try write(".gitignore", "*.log\n")
    try write("picture.png", "no")
    symlink("notes", folder + "/link")
    mkfifo(folder + "/pipe.txt", 0o600)
    let encoder = FakeEncoder()
    let disk = SimulatedDisk()
    let index = try VectorIndex(folder: "/i", fingerprint: "f", dimensions: encoder.dimensions, files: disk)
    let follower = FolderIndex(folder, index: index, encoder: encoder)
    var report = try follower.update()
    #expect(report.indexed == 20 && index.view.documentCount == 20)
    #expect(Set(report.skipped.map(\.path)) == ["link", "pipe.txt", "picture.png"])
    report = try follower.update()
    #expect(report.unchanged == 20 && report.indexed == 0 && report.encoded == 0)
    try write("notes/n3.md", "# Note 3\n\nOther words entirely.\n")
    rename(folder + "/notes/n5.md", folder + "/notes/renamed.md")
    unlink(folder + "/notes/n7.md")
    utimes(folder + "/notes/n9.md", nil)
    report = try follower.update()
    #expect((report.indexed, report.renamed, report.removed, report.encoded) == (1, 1, 2, 1))
    #expect(index.view.document("notes/renamed.md") != nil && index.view.document("notes/n5.md") == nil)
    #expect(index.view.document("notes/n7.md") == nil && index.view.documentCount == 19)
    // Cancelled between files, it goes on the next time.
    for number in 30..<40 { try write("notes/n\(number).md", "New note \(number).\n") }
    #expect(throws: SearchError.cancelled) {
      _ = try follower.update(isUnwanted: { index.view.documentCount >= 24 })
    }
    #expect(try follower.update().encoded == 5)
    // Files that are only touched are written down together: many take as many calls of the disk as one.
    let calls = try (1...2).map { round -> Int in
      let before = disk.calls
      for number in round == 1 ? 30..<31 : 30..<40 { utimes(folder + "/notes/n\(number).md", nil) }
      let report = try follower.update()
      #expect(report.unchanged == 29 && report.encoded == 0)
      return disk.calls - before
    }
    #expect(calls[0] > 0 && calls[0] == calls[1])
    let before = disk.calls
    #expect(try follower.update().unchanged == 29)
    #expect(disk.calls == before)
  }
}
