// The split patterns, one rule at a time.

import Testing

@testable import Tokenizers

private let qwen = WordScanner(style: .words, digits: 1)
private let llama = WordScanner(style: .words, digits: 3)
private let o200k = WordScanner(style: .cases, digits: 3)
private let gpt2 = WordScanner(style: .gpt2, digits: 1)

@Test func `a word takes one leading space or symbol`() {
  #expect(qwen.pieces("Hello world") == ["Hello", " world"])
  #expect(qwen.pieces("(a) _b") == ["(a", ")", " _", "b"])
  #expect(gpt2.pieces("(a) b") == ["(", "a", ")", " b"])
}

@Test func `contractions are cut off, whatever their case`() {
  #expect(qwen.pieces("I'LL can't") == ["I", "'LL", " can", "'t"])
  #expect(qwen.pieces("it'\u{17F}") == ["it", "'\u{17F}"])
  #expect(gpt2.pieces("I'LL can't") == ["I", "'", "LL", " can", "'t"])
}

@Test func `a contraction stays with its word in the case-aware pattern`() {
  #expect(o200k.pieces("can't I'LL") == ["can't", " I'LL"])
  #expect(WordScanner(style: .casesWithoutContractions, digits: 1).pieces("can't") == ["can", "'t"])
}

@Test func `words break where lower case turns to upper case`() {
  #expect(o200k.pieces("HTTPServer camelCase iPhone") == ["HTTPServer", " camel", "Case", " i", "Phone"])
  // Caseless letters end an upper-case run that no lower-case letter follows.
  #expect(o200k.pieces("A\u{AA}BC") == ["A\u{AA}", "BC"])
}

@Test func `digits come singly or in threes`() {
  #expect(qwen.pieces("x12345") == ["x", "1", "2", "3", "4", "5"])
  #expect(llama.pieces("x12345") == ["x", "123", "45"])
  #expect(gpt2.pieces("x 12345") == ["x", " 12345"])
}

@Test func `punctuation takes the line breaks after it`() {
  #expect(qwen.pieces("a ;)\n\nb") == ["a", " ;)\n\n", "b"])
  #expect(o200k.pieces("a;/\n/b") == ["a", ";/\n/", "b"])
}

@Test func `the last space of a run goes to the next word`() {
  #expect(qwen.pieces("a   b") == ["a", "  ", " b"])
  #expect(qwen.pieces("a   ") == ["a", "   "])
  #expect(qwen.pieces("a  \n  b") == ["a", "  \n", " ", " b"])
  #expect(gpt2.pieces("a  \n  b") == ["a", "  \n ", " b"])
}

@Test func `marks are letters only to the pattern that says so`() {
  let marks = WordScanner(style: .wordsWithMarks, digits: 1)
  #expect(marks.pieces("a\u{301}b") == ["a\u{301}b"])
  #expect(qwen.pieces("a\u{301}b").map { Array($0.unicodeScalars) } == [["a"], ["\u{301}", "b"]])
}

@Test func `an unknown pattern is not recognised`() {
  #expect(WordScanner(pattern: #"\p{L}+|\d+"#) == nil)
  #expect(WordScanner(pattern: WordScanner.gpt2Pattern) == gpt2)
}
