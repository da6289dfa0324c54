// The words of a text as a search by words sees them: runs of letters and digits, without case, accents and stop words.

import Tokenizers

/// A word in a text.
package struct Word: Sendable, Equatable {
  /// Its bytes as they are looked up: compatibility forms decomposed, marks removed, lowercased.
  package var term: [UInt8]
  /// Where it stands, bytes.
  package var range: Range<Int>
  /// Whether it is so common that it is not searched for.
  package var isStopWord = false
  /// Whether it is a piece of a longer one that is there too.
  package var isPart = false
  /// Whether it is one or two characters of a text without spaces, in which nobody knows where words end.
  package var isPiece = false

  /// Whether it may be one of a phrase.
  package var isWhole: Bool { !(isStopWord || isPart || isPiece) }
}

/// Splits text into words, for an index and for a query alike.
package enum WordSplitter {
  /// Is part of the names of indexes; words themselves are written anew where a segment has those of other rules.
  package static let version = 1

  /// Words that are not searched for, sorted.
  package static var stopWords: [String] {
    StopWords.english.map { String(decoding: $0, as: UTF8.self) }.sorted()
  }

  /// Most bytes of a term; what is longer is no word of a language.
  static let longest = 64

  /// The words of UTF-8 text in an array.
  package static func words(in text: [UInt8]) -> [Word] { text.withUnsafeBytes { words($0) } }

  /// The words of UTF-8 text in order. `camelCase`, `snake_case` and what has a number in it, such as `0.65.2`, are found
  /// whole and by their parts, text without spaces between words by its pairs of characters and, as parts, by each.
  package static func words(_ text: UnsafeRawBufferPointer) -> [Word] {
    var words: [Word] = []
    words.reserveCapacity(text.count / 6)
    var at = 0
    var joined = 0
    while at < text.count {
      if asciiClass(text[at]) != .other {
        if at >= joined { joined = appendJoined(text, at, to: &words) }
        let first = words.count
        let start = at
        var isPlain = true
        while at < text.count {
          let kind = asciiClass(text[at])
          if kind == .other {
            // A letter or mark beyond ASCII goes on with the word.
            guard text[at] >= 0x80 else { break }
            let (kind, length) = kindOfScalar(text, at)
            guard kind == .letter || kind == .mark else { break }
            isPlain = false
            at += length
          } else {
            at += 1
          }
        }
        appendRun(text, start..<at, isPlain: isPlain, to: &words)
        if at <= joined { for index in first..<words.count { words[index].isPart = true } }
        continue
      }
      guard text[at] >= 0x80 else {
        at += 1
        continue
      }
      let (kind, length) = kindOfScalar(text, at)
      switch kind {
      case .other, .mark: at += length
      case .dense: at = appendDense(text, at, to: &words)
      case .letter:
        let start = at
        while at < text.count {
          if text[at] < 0x80 {
            guard asciiClass(text[at]) != .other else { break }
            at += 1
          } else {
            let (kind, length) = kindOfScalar(text, at)
            guard kind == .letter || kind == .mark else { break }
            at += length
          }
        }
        appendRun(text, start..<at, isPlain: false, to: &words)
      }
    }
    return words
  }

  // MARK: Characters

  private enum ASCIIClass { case lower, upper, digit, other }

  @inline(__always)
  private static func asciiClass(_ byte: UInt8) -> ASCIIClass {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"): .lower
    case UInt8(ascii: "A")...UInt8(ascii: "Z"): .upper
    case UInt8(ascii: "0")...UInt8(ascii: "9"): .digit
    default: .other
    }
  }

  private enum ScalarKind {
    case letter, mark
    /// Of a script that puts no spaces between words.
    case dense
    case other
  }

  /// What begins at a byte of 0x80 or more; broken UTF-8 is one byte of nothing.
  private static func kindOfScalar(_ text: UnsafeRawBufferPointer, _ at: Int) -> (
    kind: ScalarKind, length: Int
  ) {
    guard let (scalar, length) = scalar(text, at) else { return (.other, 1) }
    switch scalar.properties.generalCategory {
    case .uppercaseLetter, .lowercaseLetter, .titlecaseLetter, .modifierLetter, .otherLetter, .decimalNumber,
      .letterNumber, .otherNumber:
      return (isDense(scalar.value) ? .dense : .letter, length)
    case .nonspacingMark, .spacingMark: return (.mark, length)
    default: return (.other, length)
    }
  }

  private static func scalar(_ text: UnsafeRawBufferPointer, _ at: Int) -> (Unicode.Scalar, Int)? {
    let lead = text[at]
    let length = lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0
    guard length > 0, at + length <= text.count else { return nil }
    var value = UInt32(lead) & (0x7F >> UInt32(length))
    for next in at + 1..<at + length {
      guard text[next] & 0xC0 == 0x80 else { return nil }
      value = value << 6 | UInt32(text[next] & 0x3F)
    }
    return Unicode.Scalar(value).map { ($0, length) }
  }

  /// Kana, Han, Hangul, Thai, Lao, Khmer and Burmese.
  private static func isDense(_ value: UInt32) -> Bool {
    switch value {
    case 0x3040...0x30FF, 0x31F0...0x31FF, 0x3400...0x4DBF, 0x4E00...0x9FFF, 0xAC00...0xD7A3,
      0xF900...0xFAFF, 0xFF66...0xFF9F, 0x20000...0x323AF, 0x0E00...0x0EFF, 0x1000...0x109F, 0x1780...0x17FF:
      true
    default: false
    }
  }

  // MARK: Runs

  /// Runs with a mark between each two of them, as one word where one of the marks or characters makes it a name: those of a
  /// version or of an invoice.
  ///
  /// - Returns: where it ends; 0 where there is none.
  private static func appendJoined(_ text: UnsafeRawBufferPointer, _ start: Int, to words: inout [Word])
    -> Int
  {
    var (at, marks, isName) = (start, 0, false)
    while at < text.count, at - start <= longest {
      let byte = text[at]
      if asciiClass(byte) != .other {
        isName = isName || asciiClass(byte) == .digit
      } else if at + 1 < text.count, asciiClass(text[at + 1]) != .other,
        joins(byte, isInNumber: asciiClass(text[at - 1]) == .digit && asciiClass(text[at + 1]) == .digit)
      {
        marks += 1
        isName = isName || byte == UInt8(ascii: "_")
      } else {
        break
      }
      at += 1
    }
    // A letter beyond ASCII would be cut off.
    guard marks > 0, isName, at - start <= longest, at == text.count || text[at] < 0x80 else { return 0 }
    var first = start
    if text[start] | 0x20 == UInt8(ascii: "v"), asciiClass(text[start + 1]) == .digit { first += 1 }
    append(lowercased(text, first..<at), first..<at, to: &words)
    return at
  }

  private static func joins(_ byte: UInt8, isInNumber: Bool) -> Bool {
    switch byte {
    case UInt8(ascii: "."), UInt8(ascii: "-"), UInt8(ascii: "_"): true
    // Of a date; folders are words of their own.
    case UInt8(ascii: "/"): isInNumber
    default: false
    }
  }

  private static func lowercased(_ text: UnsafeRawBufferPointer, _ range: Range<Int>) -> [UInt8] {
    range.map { text[$0] | (asciiClass(text[$0]) == .upper ? 0x20 : 0) }
  }

  private static func appendRun(
    _ text: UnsafeRawBufferPointer, _ range: Range<Int>, isPlain: Bool, to words: inout [Word]
  ) {
    guard isPlain else {
      append(folded(text, range), range, to: &words)
      return
    }
    append(lowercased(text, range), range, to: &words)
    // aB and ABc begin a part, as do digits after letters.
    var parts: [Range<Int>] = []
    var start = range.lowerBound
    for at in range.dropFirst() {
      let (before, here) = (asciiClass(text[at - 1]), asciiClass(text[at]))
      let next = at + 1 < range.upperBound ? asciiClass(text[at + 1]) : .other
      if (before == .lower && here == .upper) || (before == .upper && here == .upper && next == .lower) {
        parts.append(start..<at)
        start = at
      }
    }
    guard !parts.isEmpty else { return }
    parts.append(start..<range.upperBound)
    for part in parts where part.count > 1 {
      append(lowercased(text, part), part, isPart: true, to: &words)
    }
  }

  private static func append(
    _ term: [UInt8], _ range: Range<Int>, isPart: Bool = false, to words: inout [Word]
  ) {
    guard !term.isEmpty, term.count <= longest else { return }
    words.append(Word(term: term, range: range, isStopWord: StopWords.contains(term), isPart: isPart))
  }

  /// Pairs of neighbouring characters, and each of them as a part; one that stands alone is a word. A character has its marks
  /// with it, and the vowels that are written beside it.
  private static func appendDense(
    _ text: UnsafeRawBufferPointer, _ start: Int, to words: inout [Word]
  ) -> Int {
    var characters: [Range<Int>] = []
    var (at, isOpen) = (start, false)
    while at < text.count, text[at] >= 0x80, let (scalar, length) = scalar(text, at) {
      let kind = kindOfScalar(text, at).kind
      guard kind == .dense || kind == .mark else { break }
      if let last = characters.last, isOpen || kind == .mark || endsCharacter(scalar.value) {
        characters[characters.count - 1] = last.lowerBound..<at + length
      } else {
        characters.append(at..<at + length)
      }
      isOpen = opensCharacter(scalar.value)
      at += length
    }
    let first = words.count
    for (number, character) in characters.enumerated() {
      if number + 1 < characters.count {
        let pair = character.lowerBound..<characters[number + 1].upperBound
        append(folded(text, pair), pair, to: &words)
      }
      append(folded(text, character), character, isPart: characters.count > 1, to: &words)
    }
    for index in first..<words.count { words[index].isPiece = true }
    return at
  }

  /// Vowels of Thai and Lao that stand before their consonant, and the signs of Khmer and Burmese that put the next one below.
  private static func opensCharacter(_ value: UInt32) -> Bool {
    switch value {
    case 0x0E40...0x0E44, 0x0EC0...0x0EC4, 0x17D2, 0x1039: true
    default: false
    }
  }

  /// Letters that no character begins with: vowels of Thai and Lao after their consonant, the sign of repetition, and the narrow
  /// sound marks of kana.
  private static func endsCharacter(_ value: UInt32) -> Bool {
    switch value {
    case 0x0E30, 0x0E32, 0x0E33, 0x0E45, 0x0E46, 0x0EB0, 0x0EB2, 0x0EB3, 0x0EC6, 0xFF9E, 0xFF9F: true
    default: false
    }
  }

  private static func folded(_ text: UnsafeRawBufferPointer, _ range: Range<Int>) -> [UInt8] {
    folded(Array(text[range]))
  }

  /// A word as it is looked up.
  package static func folded(_ bytes: [UInt8]) -> [UInt8] {
    let plain = UnicodeNormalization.tables.normalized(bytes, 0..<bytes.count, to: .nfkd) ?? bytes
    var out: [UInt8] = []
    for scalar in String(decoding: plain, as: UTF8.self).unicodeScalars {
      if scalar.isASCII {
        let byte = UInt8(truncatingIfNeeded: scalar.value)
        out.append(asciiClass(byte) == .upper ? byte | 0x20 : byte)
      } else if scalar.properties.generalCategory != .nonspacingMark || isLetter(mark: scalar.value) {
        out.append(contentsOf: scalar.properties.lowercaseMapping.utf8)
      }
    }
    return out
  }

  /// Whether a mark makes another letter, and no accent: vowels and tones from Devanagari to Khmer, and sounds of kana.
  private static func isLetter(mark: UInt32) -> Bool {
    (0x0900..<0x1AB0).contains(mark) || mark == 0x3099 || mark == 0x309A
  }
}

/// Words that say nothing of what a text is about.
enum StopWords {
  static let english: Set<[UInt8]> = Set(
    """
    a about an and are as at be because but by can do does for from had has have he her his i if in into is it its me
    more my not of on or out she so than that the their them then there they this to too up was were what when where
    which while who why with you your
    """.split(whereSeparator: { $0 == " " || $0 == "\n" }).map { Array($0.utf8) })
  private static let longest = english.lazy.map(\.count).max() ?? 0

  static func contains(_ term: [UInt8]) -> Bool { term.count <= longest && english.contains(term) }
}
