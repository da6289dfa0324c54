// What is kept of sentences makes explaining cheaper, and changes no bit of what is said.

import Platform
import Support
import Synchronization
import Testing
import Vectors

@testable import Search

@Suite struct SentenceTests {
  private let encoder = FakeEncoder(synonyms: ["snowboard": "winter", "trip": "boarding"])

  private static let words =
    ("the boiler is serviced every march and roses want water in winter while the snowboard trip needs wax goggles "
    + "a checklist tea boils for four minutes").split(separator: " ").map(String.init)

  /// Sentences of words by chance; some are there twice, some say the same in another order.
  private func text(_ number: Int, sentences: Int) -> String {
    var state = UInt64(number) &* 2_862_933_555_777_941_757 &+ 3
    func next(_ limit: Int) -> Int {
      state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      return Int((state >> 33) % UInt64(limit))
    }
    var found: [String] = []
    for _ in 0..<sentences {
      let words = (0..<3 + next(8)).map { _ in Self.words[next(Self.words.count)] }
      found.append(words.joined(separator: " ") + ".")
      if next(3) == 0 { found.append(words.reversed().joined(separator: " ") + ".") }
      if next(5) == 0 { found.append(found[next(found.count)]) }
    }
    return found.joined(separator: " ")
  }

  private func open(_ disk: SimulatedDisk, _ encoder: FakeEncoder) throws -> VectorIndex {
    try VectorIndex(folder: "/i", fingerprint: "f", dimensions: encoder.dimensions, files: disk)
  }

  private func add(
    _ key: String, _ text: String, tokens: Int = 90, _ index: VectorIndex, _ encoder: FakeEncoder
  )
    throws
  {
    _ = try DocumentIndexer(index: index, encoder: encoder).index(
      SourceText(Array(text.utf8), kind: .markdown), key: key, info: [],
      rules: SplitRules(tokens: tokens, overlap: 0))
  }

  private func fill(_ index: VectorIndex, _ encoder: FakeEncoder) throws {
    for number in 0..<30 {
      // Every third is longer than the model takes.
      try add("\(number)", text(number, sentences: number % 3 == 0 ? 30 : 4), index, encoder)
    }
  }

  private func search(
    _ index: VectorIndex, _ encoder: FakeEncoder
  ) throws -> (reasons: [Why?], count: SentenceCount) {
    var (reasons, count): ([Why?], SentenceCount) = ([], SentenceCount())
    for (question, text) in [
      ("when is the boiler serviced", 0.4), ("winter boarding checklist", 0), ("tea", 1), ("zebra", 0),
    ] {
      var query = SearchQuery([question, "roses and water"])
      query.explains = true
      query.weights = HybridWeights(embedding: 1 - text, text: text)
      let answer = try HybridSearch(index.view, encoder: encoder).run(query, clock: { 0 })
      reasons += answer.results.map(\.why)
      count = count.adding(answer.sentences)
    }
    return (reasons, count)
  }

  @discardableResult
  private func read(_ index: VectorIndex, _ encoder: FakeEncoder) throws -> SentencePass {
    var pass = SentencePass()
    while try pass.step(index, encoder) {}
    return pass
  }

  @Test func `reasons are the same to the bit, whether sentences are kept or not`() throws {
    let disk = SimulatedDisk()
    let index = try open(disk, encoder)
    try fill(index, encoder)
    let before = try search(index, encoder)
    #expect(before.reasons.count == 40 && before.reasons.allSatisfy { $0 != nil })
    #expect(before.reasons.contains { $0?.concepts.isEmpty == false })
    #expect(before.count.spared == 0 && before.count.unknown == before.count.read.signum() * 30)
    try read(index, encoder)
    let texts = encoder.encoded.load(ordering: .relaxed)
    let after = try search(index, encoder)
    #expect(after.reasons == before.reasons)
    // Questions, and three of their words that the index does not have.
    #expect(encoder.encoded.load(ordering: .relaxed) - texts < 2 * 4 + 6)
    #expect(after.count.unknown == 0 && after.count.read == 0 && after.count.spared == before.count.read)
    // Of those that were put in later nothing is kept yet.
    try fill(index, encoder)
    try add("next", "zebra in the winter. The boiler is a zebra.", index, encoder)
    #expect(try search(index, encoder).count.unknown > 0)
    try read(index, encoder)
    #expect(try search(index, encoder).count.unknown == 0)
  }

  @Test func `a vector as bytes has nearly the direction it had`() throws {
    var state: UInt64 = 7
    func random(_ count: Int) -> [Float] {
      (0..<count).map { _ in
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return Float(Int32(truncatingIfNeeded: state >> 32)) / 0x1p31
      }
    }
    for size in [1, 15, 48, 384, 1_024] {
      for _ in 0..<200 {
        let vector = random(size).map { 20 * $0 }
        let (plain, coded) = (try #require(RowCode.normalized(vector)), CodedVector(directionOf: vector))
        #expect(coded.codes.count == size && (0...1).contains(coded.scale))
        for (x, y) in zip(plain, coded.vector) { #expect(abs(x - y) <= 0.501 * coded.scale) }
      }
    }
    #expect(CodedVector(directionOf: [0, 0, 0]).vector == [0, 0, 0])
  }

  @Test func `a pass that was interrupted goes on, and a restart keeps what is in a file`() throws {
    let disk = SimulatedDisk()
    var kept = 0
    do {
      let index = try open(disk, encoder)
      try fill(index, encoder)
      var pass = SentencePass()
      #expect(try pass.step(index, encoder))
      let texts = encoder.encoded.load(ordering: .relaxed)
      #expect(throws: SearchError.cancelled) { try pass.step(index, encoder, isUnwanted: { true }) }
      #expect(encoder.encoded.load(ordering: .relaxed) == texts)
      while try pass.step(index, encoder) {}
      kept = SentencePass.readPassages(index.view)
      // Every passage once, though some were asked for twice.
      #expect(kept <= index.view.passageCount && kept > 60)
      let all = encoder.encoded.load(ordering: .relaxed)
      try #expect(!pass.step(index, encoder))
      #expect(encoder.encoded.load(ordering: .relaxed) == all)
    }
    disk.restart(losingPower: true)
    let all = encoder.encoded.load(ordering: .relaxed)
    let index = try open(disk, encoder)
    #expect(SentencePass.readPassages(index.view) == kept && SentencePass.isKept(index, encoder))
    try read(index, encoder)
    #expect(encoder.encoded.load(ordering: .relaxed) == all)
    // What another computation has made says nothing.
    let other = FakeEncoder(fingerprint: "other")
    #expect(!SentencePass.isKept(index, other))
    #expect(try search(index, other).count.spared == 0)
    try read(index, other)
    #expect(!SentencePass.isKept(index, encoder) && SentencePass.readPassages(index.view) == kept)
  }

  @Test func `passages that the model refuses keep none behind them from being read`() throws {
    let encoder = FakeEncoder(refused: "Passage 50 ")
    let index = try open(SimulatedDisk(), encoder)
    let text = (0..<200).map { "Passage \($0) has words.\n\n" }.joined()
    try add("a", text, tokens: 4, index, FakeEncoder())
    var pass = SentencePass()
    var failures = 0
    while true {
      do {
        guard try pass.step(index, encoder) else { break }
      } catch {
        failures += 1
      }
    }
    #expect(failures == 1 && SentencePass.readPassages(index.view) == 200 - 32)
  }

  @Test func `what is kept of passages that are gone goes when it is much, with the words that they had`()
    throws
  {
    let index = try open(SimulatedDisk(), encoder)
    for (key, numbers) in [("kept", 0..<3_000), ("gone", 3_000..<8_000)] {
      // A word that all have, one that two have, and one that no other has.
      let text = numbers.map { "Passage word\($0 / 2) \($0).\n\n" }.joined()
      try add(key, text, tokens: 4, index, encoder)
    }
    func words() -> Int { SideKind.words.count(in: index.view) - WordReader.common.count }
    var pass = try read(index, encoder)
    #expect(SentencePass.readPassages(index.view) == 8_000 && words() == 4_001)
    #expect(try index.remove("gone"))
    #expect(try !pass.step(index, encoder, reserve: { _ in false }))
    #expect(SentencePass.readPassages(index.view) == 8_000 && words() == 4_001)
    #expect(try !pass.step(index, encoder))
    #expect(SentencePass.readPassages(index.view) == 3_000 && words() == 1_501)
  }

  @Test func `a table of names has no more words kept than its passages are worth`() throws {
    let index = try open(SimulatedDisk(), encoder)
    let text = (0..<6_000).map { "name\($0)" }.joined(separator: " ")
    for key in ["a", "b"] { try add(key, text, index, encoder) }
    try read(index, encoder)
    #expect(SideKind.words.count(in: index.view) == 4_096 + 4 * index.view.passageCount)
  }

  @Test func `bytes that are no note are none`() throws {
    let index = try open(SimulatedDisk(), encoder)
    try fill(index, encoder)
    let passage = try #require(try index.view.passages(of: "0").first)
    let note = try #require(
      try SentenceReader(encoder: encoder).notes([passage], isUnwanted: { false }).first)
    #expect(note.parts.count > 1)
    let bytes = note.bytes
    func found(_ bytes: [UInt8]) -> SentenceNote? {
      SentenceNote(bytes, dimensions: encoder.dimensions, textBytes: passage.text.count)
    }
    #expect(found(bytes) == note)
    for count in bytes.indices { #expect(found(Array(bytes[..<count])) == nil) }
    for place in bytes.indices {
      for value: UInt8 in [0, 0x7F, 0x80, 0xFF] {
        var changed = bytes
        changed[place] = value
        // Whatever it says, it stays inside of the text.
        let parts = found(changed)?.parts ?? []
        #expect(parts.flatMap(\.sentences).allSatisfy { $0.range.upperBound <= passage.text.count })
      }
    }
  }
}
