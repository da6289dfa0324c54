// Which language a text is in, and the term under which an index has the stem of a word.

import Tokenizers

/// The languages whose words have stems.
package enum StemLanguage: UInt8, CaseIterable, Sendable {
  case english = 1
  case german, french, spanish, italian, portuguese, dutch

  /// Words that are frequent in one language and rare in most of the others, as terms have them.
  private static let frequent: [[UInt8]: [StemLanguage]] = {
    let words: [StemLanguage: String] = [
      .english: "the and of to is that for with was are this not have from it you be as on at by",
      .german: "der die und das ist nicht ein eine mit den von zu auf dem im sich auch fur wir ich des",
      .french: "le la les des et est un une que dans pour qui pas sur au du nous je il ce",
      .spanish: "el la los las de que y en un una es por con para no se del su como",
      .italian: "il la di che e un una per non con del della sono le gli i si",
      .portuguese: "o a os as de que e um uma nao para com do da em no na se",
      .dutch: "de het een en van is dat niet op te zijn met voor ik in aan er",
    ]
    return words.reduce(into: [:]) { found, entry in
      for word in entry.value.split(separator: " ") { found[Array(word.utf8), default: []].append(entry.key) }
    }
  }()

  /// The language whose frequent words a text has most of; English for a text without any.
  package static func of(_ words: [Word]) -> StemLanguage {
    var counts = [Int](repeating: 0, count: allCases.count + 1)
    for word in words where word.term.count <= 5 {
      for language in frequent[word.term] ?? [] { counts[Int(language.rawValue)] += 1 }
    }
    return allCases.reduce(.english) { counts[Int($1.rawValue)] > counts[Int($0.rawValue)] ? $1 : $0 }
  }

  /// A term that no word is: one passage that has it says that a part has stems of the language.
  var mark: [UInt8] { [rawValue] }

  /// The term of a word's stem; nil for what has none, such as numbers and words of other scripts.
  package func term(_ spelling: ArraySlice<UInt8>) -> [UInt8]? {
    guard spelling.count <= WordSplitter.longest else { return nil }
    let isPlain = spelling.allSatisfy { $0 < 0x80 }
    let word =
      isPlain
      ? spelling.map { (0x41...0x5A).contains($0) ? $0 | 0x20 : $0 }
      : Self.composed(Array(spelling))
    guard let stem = stem(word) else { return nil }
    return [rawValue] + (isPlain ? stem : WordSplitter.folded(stem))
  }

  /// In lowercase, accents and letters as one.
  private static func composed(_ spelling: [UInt8]) -> [UInt8] {
    let lower = Array(String(decoding: spelling, as: UTF8.self).lowercased().utf8)
    return UnicodeNormalization.tables.normalized(lower, 0..<lower.count, to: .nfc) ?? lower
  }

  /// The stem of a word in lowercase, after Snowball's algorithm; nil where its letters are not those of the language.
  package func stem(_ word: [UInt8]) -> [UInt8]? {
    var letters: [UInt8] = []
    letters.reserveCapacity(word.count)
    for scalar in String(decoding: word, as: UTF8.self).unicodeScalars {
      switch scalar.value {
      case 0x61...0x7A, 0xDF...0xF6, 0xF8...0xFF: letters.append(UInt8(truncatingIfNeeded: scalar.value))
      default: return nil
      }
    }
    var stem = Stem(letters)
    switch self {
    case .english: Self.stemEnglish(&stem)
    case .german: Self.stemGerman(&stem)
    case .french: Self.stemFrench(&stem)
    case .spanish: Self.stemSpanish(&stem)
    case .italian: Self.stemItalian(&stem)
    case .portuguese: Self.stemPortuguese(&stem)
    case .dutch: Self.stemDutch(&stem)
    }
    guard stem.letters.contains(where: { $0 >= 0x80 }) else { return stem.letters }
    return Array(String(String.UnicodeScalarView(stem.letters.map { Unicode.Scalar($0) })).utf8)
  }
}
