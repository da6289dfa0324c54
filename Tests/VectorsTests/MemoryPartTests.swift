// Documents in memory become few parts, and a search finds in them what it finds where each is a part of its own.

import Support
import Testing

@testable import Vectors

@Suite struct MemoryPartTests {
  /// - Parameter memory: documents that stay in memory; with none each becomes a file of its own, and these are not joined.
  private func open(_ disk: SimulatedDisk, memory: Int = 1_024) throws -> VectorIndex {
    var limits = VectorIndex.Limits()
    limits.memoryDocuments = memory
    limits.segments = 1_000
    return try VectorIndex(folder: "/i", fingerprint: "f", dimensions: 4, limits: limits, files: disk)
  }

  private func put(_ key: String, _ text: String, _ index: VectorIndex, passages: Int = 2) throws {
    let texts = (0..<passages).map { Array("\(text) of passage \($0)".utf8) }
    let rows = texts.map { text -> (key: RowKey, vector: [Float]) in
      let key = RowKey(of: text)
      return (key, [1, 2, 3, 4].map { Float(key.high >> (8 * $0) & 0xFF) + 1 })
    }
    try index.remember(rows)
    let parts = zip(texts, rows).map { Passage(text: $0, range: 0..<$0.count, rows: [$1.key]) }
    try index.commit(NewDocument(key: key, info: Array(text.utf8), passages: parts))
  }

  /// What is done to an index, with documents that are replaced, taken out and told about.
  private func change(_ index: VectorIndex) throws {
    for number in 0..<100 {
      try put("d\(number)", "text \(number) with word\(number % 7)", index, passages: 1 + number % 3)
      if number % 5 == 4 { #expect(try index.remove("d\(number - 2)")) }
      if number % 9 == 8 { try put("d\(number - 6)", "text again word\(number % 7)", index) }
      if number % 11 == 10 {
        #expect(try index.setInfos([("d\(number)", Array("told \(number)".utf8))]) == 1)
      }
    }
  }

  private func results(_ index: VectorIndex) throws -> [String] {
    let view = index.view
    let query: [Float] = try #require(RowCode.normalized([4, 3, 2, 1]))
    let near = try #require(try view.nearest(query, limit: 60)).hits
    let worded = try view.byWords(WordQuery(Array("again text word3 word5 missing".utf8)), limit: 60)
    let hits = try (near + worded.hits).map { hit in
      let passage = try view.passage(hit)
      let (document, text) = (passage.document, String(decoding: passage.text, as: UTF8.self))
      let place = "\(document.key) \(document.serial) \(document.info) \(passage.number)"
      return "\(place) \(text) \(hit.score.bitPattern)"
    }
    return hits + ["\(worded.weights) \(try view.wordCount()) \(view.rowCount) \(view.passageCount)"]
  }

  @Test func `few parts find what many find`() throws {
    let (disk, other) = (SimulatedDisk(), SimulatedDisk())
    let many = try open(other, memory: 0)
    try change(many)
    #expect(many.view.parts.count > 80)
    let expected = try results(many)
    #expect(expected.count > 100)
    do {
      let few = try open(disk)
      try change(few)
      #expect(few.view.parts.count < 24, "there are \(few.view.parts.count) parts")
      #expect(few.view.parts.allSatisfy { $0.file == nil })
      #expect(try results(few) == expected)
    }
    // A start reads the log into few parts too.
    let again = try open(disk)
    #expect(again.view.parts.count < 24 && again.view.parts.allSatisfy { $0.file == nil })
    #expect(try results(again) == expected)
    try again.compact()
    #expect(try results(again) == expected)
  }

  @Test func `a view of before stays as it is while parts are joined`() throws {
    let index = try open(SimulatedDisk())
    for number in 0..<7 { try put("d\(number)", "text \(number)", index) }
    let before = index.view
    let hits = try #require(try before.nearest([1, 0, 0, 0], limit: 9)).hits
    let texts = try hits.map { try before.passage($0).text }
    for number in 7..<20 { try put("d\(number)", "text \(number)", index) }
    #expect(before.parts.count == 7 && index.view.parts.count < 7)
    #expect(try hits.map { try before.passage($0).text } == texts)
  }

  @Test func `documents that are all gone leave no part`() throws {
    let index = try open(SimulatedDisk())
    for round in 0..<10 {
      for number in 0..<8 { try put("d\(number)", "text \(round) \(number)", index) }
      for number in 0..<8 { #expect(try index.remove("d\(number)")) }
    }
    #expect(index.view.documentCount == 0 && index.view.parts.count < 16)
    #expect(try results(index).count == 1)
  }

  @Test func `joined documents count one by one for the move to a file`() throws {
    let index = try open(SimulatedDisk(), memory: 20)
    for number in 0..<20 { try put("d\(number)", "text \(number)", index) }
    #expect(index.view.parts.allSatisfy { $0.file == nil } && index.view.memoryDocuments == 20)
    try put("last", "text", index)
    #expect(index.view.parts.map { $0.segment.footer.documents } == [21] && index.view.memoryDocuments == 0)
    #expect(index.view.parts.allSatisfy { $0.file != nil })
  }
}
