// A model of sorts: a text is the sum of its words' directions, so that texts with common words are near.

import Platform
import Synchronization
import Vectors

@testable import Search

final class FakeEncoder: PassageEncoder {
  let dimensions = 48
  let fingerprint: String
  var computation: String { fingerprint }
  /// Texts with this word are refused.
  private let refused: String?
  let room: Int
  /// Texts that were encoded as passages.
  let encoded = Atomic<Int>(0)
  /// Letters of the words that it knows; nil for all.
  private let letters: Set<Character>?
  /// Words that mean the same.
  private let synonyms: [String: String]

  init(
    room: Int = 40, synonyms: [String: String] = [:], fingerprint: String = "fake",
    refused: String? = nil, readsOnly letters: String? = nil
  ) {
    self.letters = letters.map { Set($0) }
    self.room = room
    self.refused = refused
    self.synonyms = synonyms
    self.fingerprint = fingerprint
  }

  func tokenCount(_ text: String) -> Int { text.split(whereSeparator: \.isWhitespace).count }

  func unknownShare(of text: String) -> Float {
    let words = text.split(whereSeparator: \.isWhitespace)
    let unknown = words.count { word in letters.map { !$0.isSuperset(of: word) } ?? false }
    return Float(unknown) / Float(max(1, words.count))
  }

  private func direction(_ word: Substring) -> [Float] {
    let plain = word.lowercased().filter { $0.isLetter || $0.isNumber }
    let digest = SHA256.digest(Array((synonyms[plain] ?? plain).utf8))
    return (0..<dimensions).map { Float(Int8(bitPattern: digest[$0 % 32] &+ UInt8($0 / 32 * 7))) / 128 }
  }

  private func sum(_ text: String) -> [Float] {
    text.split(whereSeparator: \.isWhitespace).reduce([Float](repeating: 0, count: dimensions)) {
      zip($0, direction($1)).map { $0 + $1 }
    }
  }

  func encode(_ texts: [String], as role: TextRole, isUnwanted: () -> Bool) throws(SearchError) -> [[Float]] {
    guard !isUnwanted() else { throw .cancelled }
    if let refused, texts.contains(where: { $0.contains(refused) }) { throw .encoder("a text is refused") }
    if role == .passage { encoded.add(texts.count, ordering: .relaxed) }
    var vectors: [[Float]] = []
    for text in texts {
      guard tokenCount(text) <= room + 20, let vector = RowCode.normalized(sum(text)) else {
        throw .encoder("the text has no words, or too many")
      }
      vectors.append(vector)
    }
    return vectors
  }
}

extension Splitter {
  /// All passages of a text.
  func passages(_ source: SourceText) -> [TextPassage] {
    var found: [TextPassage] = []
    try? forEachPassage(of: source) { found.append($0) }
    return found
  }
}
