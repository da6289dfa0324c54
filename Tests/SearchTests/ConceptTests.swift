// Which words make a phrase, and which phrases are told.

import Synchronization
import Testing
import Vectors

@testable import Search

@Suite struct ConceptTests {
  private func runs(_ text: String) -> [String] {
    let bytes = Array(text.utf8)
    return WordRuns(bytes, in: [0..<bytes.count]).runs.map { run in
      run.map { String(decoding: bytes[$0.range], as: UTF8.self) }.joined(separator: "|")
    }
  }

  @Test func `words follow each other until a stop word or a mark`() {
    #expect(runs("the winter boarding checklist") == ["winter|boarding|checklist"])
    #expect(runs("eat bats, cats and mice. Dogs") == ["eat|bats", "cats", "mice", "Dogs"])
    #expect(runs("a well-known\nthing") == ["well|known|thing"])
    #expect(runs("“Alice” (asleep)") == ["Alice", "asleep"])
    #expect(runs("") == [] && runs("to be, or not to be") == [])
  }

  @Test func `what apostrophes leave is no word`() {
    #expect(runs("Alice's sister") == ["Alice|sister"])
    #expect(runs("Alice’s sister") == ["Alice|sister"])
    #expect(runs("they don't care, we'll see") == ["care", "we|see"])
    #expect(runs("said 'no' twice") == ["said", "no", "twice"])
    #expect(runs("'it was") == [] && runs("don'") == ["don"] && runs("don't") == [])
  }

  @Test func `parts of a word are none of a phrase, nor are pieces of a text without spaces`() {
    #expect(runs("call parseHeader now") == ["call|parseHeader|now"])
    #expect(runs("猫坐垫") == [] && runs("the cat 猫坐垫 sat") == ["cat", "sat"])
  }

  @Test func `of a long text the first words are looked at`() {
    let words = (0..<500).map { "word\($0)" }
    #expect(runs(words.joined(separator: " ")) == [words.prefix(100).joined(separator: "|")])
    #expect(runs(words.joined(separator: ". ")) == Array(words.prefix(100)))
  }

  private func pairs(
    _ question: String, _ text: String, _ encoder: FakeEncoder, sentence: Float = 0.5
  ) throws -> [String] {
    var finder = ConceptFinder(IndexView(dimensions: encoder.dimensions), encoder: encoder)
    let texts = [question, text].map { Array($0.utf8) }
    let words = texts.map { WordRuns($0, in: [0..<$0.count]) }
    try finder.read(words, isUnwanted: { false })
    let phrases = words.map(finder.phrases)
    return ConceptFinder.nearest(phrases[0], phrases[1], sentence: sentence).map { pair in
      zip(texts, [pair.asked.range, pair.found.range])
        .map { String(decoding: $0[$1], as: UTF8.self) }.joined(separator: " ~ ")
    }
  }

  @Test func `a phrase is told once, and words that are the same are not`() throws {
    let encoder = FakeEncoder(synonyms: [
      "snowboard": "winter", "trip": "boarding", "puppy": "dog", "hound": "dog", "one": "1", "two": "2",
      "three": "3",
      "four": "4",
      "five": "5",
    ])
    #expect(
      try pairs("winter boarding checklist", "the snowboard trip, a checklist", encoder)
        == ["winter boarding ~ snowboard trip"])
    #expect(try pairs("a dog", "puppy, hound", encoder) == ["dog ~ puppy"])
    #expect(try pairs("a dog", "the dog dog", encoder) == [])
    // Nothing is told of a sentence that is far from the question.
    #expect(try pairs("a dog", "puppy, hound", encoder, sentence: -0.4) == [])
    #expect(try pairs("dog", "", encoder) == [] && pairs("", "dog", encoder) == [])
    #expect(try pairs("1, 2, 3, 4, 5", "five, four, three, two, one", encoder).count == 4)
  }

  @Test func `a word is read once`() throws {
    let encoder = FakeEncoder()
    var finder = ConceptFinder(IndexView(dimensions: encoder.dimensions), encoder: encoder)
    let text = Array("tea and tea and coffee".utf8)
    let words = WordRuns(text, in: [0..<text.count])
    for _ in 0..<2 { try finder.read([words, words], isUnwanted: { false }) }
    #expect(encoder.encoded.load(ordering: .relaxed) == 2 + WordSplitter.stopWords.count)
    #expect(throws: SearchError.cancelled) {
      var other = ConceptFinder(IndexView(dimensions: encoder.dimensions), encoder: encoder)
      try other.read([words], isUnwanted: { true })
    }
  }
}
