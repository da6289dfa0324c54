// Which encoding a text has that is not UTF-8 and does not say it: by where its letters stand, or which it has most of.

import Platform

/// Measured on texts of five messages of programs each, 300 for a language: of Windows-1252 99 in 100 are read (in eight
/// languages), of Cyrillic, Japanese and Korean 99, of Chinese 80, each of them right. Of Greek and Hebrew none is. Of DOS, Mac and
/// Polish up to 6 in 100 are read wrong, and most of Czech, Hungarian, Turkish and Lithuanian, in a few letters.
enum GuessedEncoding {
  /// The text as UTF-8, with what its encoding is called; nil for bytes that are no text, and where no guess is safe.
  static func read(_ bytes: [UInt8]) -> (name: String, text: [UInt8])? {
    guard bytes.allSatisfy({ $0 >= 0x20 && $0 != 0x7F || (9...13).contains($0) }) else { return nil }
    if isWestern(bytes), let text = try? TextConversion.utf8(bytes, from: "CP1252") {
      return ("Windows-1252", text)
    }
    for guess in guesses {
      guard let text = try? TextConversion.utf8(bytes, from: guess.code) else { continue }
      let (found, all) = count(guess.letters, in: text)
      if found >= guess.least, 100 * found >= guess.percent * all { return (guess.name, text) }
    }
    return nil
  }

  // MARK: By the letters it has most of

  private struct Guess {
    /// As iconv calls it, and as people do.
    let (code, name): (String, String)
    /// The most frequent ones of the language.
    let letters: Set<UInt32>
    /// The least share of them among all that are not ASCII: a third of the usual one, which no other encoding comes near.
    let percent: Int
    /// The least number of them.
    let least: Int

    init(_ code: String, _ name: String, _ letters: String, percent: Int = 6, least: Int = 3) {
      (self.code, self.name, self.percent, self.least) = (code, name, percent, least)
      self.letters = Set(letters.unicodeScalars.lazy.map(\.value))
    }
  }

  private static let guesses = [
    Guess("CP932", "Shift-JIS", "のにはをたがでてとしいる"), Guess("EUC-JP", "EUC-JP", "のにはをたがでてとしいる"),
    Guess("GB18030", "GBK", "的是不了在有我一人这"), Guess("BIG5-HKSCS", "Big5", "的是不了在有我一人這"),
    Guess("CP949", "EUC-KR", "이다는을의에가고하지"),
    Guess("CP1251", "Windows-1251", "оеаинтсрвл", percent: 50, least: 10),
    // Where KOI8-R draws boxes, KOI8-U has the other letters of Ukrainian.
    Guess("KOI8-U", "KOI8-R", "оеаинтсрвл", percent: 50, least: 10),
  ]

  private static func count(_ letters: Set<UInt32>, in text: [UInt8]) -> (found: Int, all: Int) {
    var decoder = UTF8()
    var iterator = text.makeIterator()
    var (found, all) = (0, 0)
    while case .scalarValue(let scalar) = decoder.decode(&iterator) {
      guard !scalar.isASCII else { continue }
      all += 1
      found += letters.contains(scalar.value) ? 1 : 0
    }
    return (found, all)
  }

  // MARK: By where its letters stand

  /// Whether nine of ten bytes beyond ASCII stand where letters and marks of Windows-1252 do: one or two together, capitals at the
  /// beginning of a word, marks at its end.
  private static func isWestern(_ bytes: [UInt8]) -> Bool {
    var (good, all, at) = (0, 0, 0)
    while at < bytes.count {
      let start = at
      // The space that breaks no line.
      if bytes[at] == 0xA0 { (good, all) = (good + 1, all + 1) }
      while at < bytes.count, isHigh(bytes[at]) { at += 1 }
      guard at > start else {
        at += 1
        continue
      }
      all += at - start
      let run = bytes[start..<at]
      guard run.count <= 2, run.allSatisfy({ isLetter($0) || isMark($0) }) else { continue }
      let before = start > 0 ? bytes[start - 1] : 0x20
      let after = at < bytes.count ? bytes[at] : 0x20
      let (first, last) = (bytes[start], bytes[at - 1])
      let isInWord = isPlainLetter(before) && isPlainLetter(after)
      let isUsual =
        if isCapital(first), (0x61...0x7A).contains(before) {
          false
        } else if run.count == 1 {
          isLetter(first) || !isInWord || innerMarks.contains(first)
        } else {
          // A letter of UTF-8 begins with Â or Ã; two letters of other scripts have no others beside them.
          !(first == 0xC2 || first == 0xC3) && (isMark(first) || isMark(last))
            || isLetter(last) && (isPlainLetter(before) || isPlainLetter(after))
        }
      good += isUsual ? run.count : 0
    }
    return all > 0 && 10 * good >= 9 * all
  }

  private static func isHigh(_ byte: UInt8) -> Bool { byte >= 0x80 && byte != 0xA0 }

  private static func isPlainLetter(_ byte: UInt8) -> Bool { (0x61...0x7A).contains(byte | 0x20) }

  private static func isLetter(_ byte: UInt8) -> Bool {
    byte >= 0xC0 && !isMark(byte) && byte != 0xF7 || isCapital(byte) || [0x9A, 0x9C, 0x9E].contains(byte)
  }

  private static func isCapital(_ byte: UInt8) -> Bool {
    (0xC0...0xDE).contains(byte) && !isMark(byte) || [0x8A, 0x8C, 0x8E, 0x9F].contains(byte)
  }

  private static func isMark(_ byte: UInt8) -> Bool { marks.contains(byte) || innerMarks.contains(byte) }

  /// … ‘ ’ – — ´ · and the hyphen that is not seen, which stand within words as well.
  private static let innerMarks: Set<UInt8> = [0x85, 0x91, 0x92, 0x96, 0x97, 0xAD, 0xB4, 0xB7]
  /// € ‚ „ ‰ ‹ “ ” • ™ › ¡ ¢ £ § © ª « ® ° ± ² ³ µ ¹ º » ¼ ½ ¾ ¿ ×
  private static let marks: Set<UInt8> = [
    0x80, 0x82, 0x84, 0x89, 0x8B, 0x93, 0x94, 0x95, 0x99, 0x9B, 0xA1, 0xA2, 0xA3, 0xA7, 0xA9, 0xAA, 0xAB,
    0xAE,
    0xB0, 0xB1, 0xB2, 0xB3, 0xB5, 0xB9, 0xBA, 0xBB, 0xBC, 0xBD, 0xBE, 0xBF, 0xD7,
  ]
}
