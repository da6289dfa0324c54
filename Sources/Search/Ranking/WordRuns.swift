// Words of a text that may be phrases: those that follow each other, without stop words and marks in between.

import Vectors

/// The words of some parts of a text, in runs.
struct WordRuns {
  let text: [UInt8]
  private(set) var runs: [[Word]] = []

  /// Words of a text that are looked at.
  private static let mostWords = 100

  init(_ text: [UInt8], in parts: [Range<Int>]) {
    self.text = text
    var left = Self.mostWords
    for part in parts {
      var run: [Word] = []
      var end = part.lowerBound
      let words = WordSplitter.words(in: Array(text[part])).map { word in
        var word = word
        word.range = word.range.lowerBound + part.lowerBound..<word.range.upperBound + part.lowerBound
        return word
      }
      for (index, word) in words.enumerated() where left > 0 {
        // A part of the word before it, as of camelCase.
        guard word.range.upperBound > end else { continue }
        let gap = text[min(end, word.range.lowerBound)..<word.range.lowerBound]
        end = word.range.upperBound
        // What is left of "it's" and "we'll".
        if index > 0, Self.isApostrophe(gap), word.term.count <= 2 { continue }
        let isOut =
          word.isStopWord || word.isPiece || Self.isNegated(text, word, words.dropFirst(index + 1).first)
        if isOut || !(gap.allSatisfy(Self.joins) || Self.isApostrophe(gap)) {
          if !run.isEmpty { runs.append(run) }
          run = []
        }
        guard !isOut else { continue }
        run.append(word)
        left -= 1
      }
      if !run.isEmpty { runs.append(run) }
    }
  }

  /// All words as the text has them.
  var spellings: [[UInt8]] { runs.joined().map(spelling) }

  /// A word as the text has it.
  func spelling(_ word: Word) -> [UInt8] { Array(text[word.range]) }

  /// Whether words on both sides of a byte may be one phrase.
  private static func joins(_ byte: UInt8) -> Bool {
    byte <= 0x20 || byte == UInt8(ascii: "-") || byte == UInt8(ascii: "_")
  }

  /// Whether a word is the first half of one like "don't".
  private static func isNegated(_ text: [UInt8], _ word: Word, _ next: Word?) -> Bool {
    guard let next, next.term == [UInt8(ascii: "t")], word.range.upperBound <= next.range.lowerBound else {
      return false
    }
    return isApostrophe(text[word.range.upperBound..<next.range.lowerBound])
  }

  /// ' or ’.
  private static func isApostrophe(_ gap: ArraySlice<UInt8>) -> Bool {
    gap.elementsEqual([UInt8(ascii: "'")]) || gap.elementsEqual([0xE2, 0x80, 0x99])
  }
}
