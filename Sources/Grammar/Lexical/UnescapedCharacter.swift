// Characters that JSON strings have as they are ("unescaped" in RFC 8259), which most languages treat alike, by a few kinds.

/// Kinds of unescaped characters, one bit each.
struct CharacterKinds: OptionSet, Hashable {
  let rawValue: UInt8

  static let lower = CharacterKinds(rawValue: 1)
  static let upper = CharacterKinds(rawValue: 2)
  static let digit = CharacterKinds(rawValue: 4)
  static let space = CharacterKinds(rawValue: 8)
  /// ASCII's punctuation without the quote and the backslash, which end or change a JSON string.
  static let punctuation = CharacterKinds(rawValue: 16)
  /// Beyond ASCII, without the separators of lines and paragraphs, which `.` does not match.
  static let beyond = CharacterKinds(rawValue: 32)
  /// All others: controls, quotes, pieces of characters.
  static let other = CharacterKinds(rawValue: 64)
  static let letters: CharacterKinds = [.lower, .upper]
  static let ascii: CharacterKinds = [.letters, .digit, .space, .punctuation]

  static let unescaped: CharacterKinds = [.ascii, .beyond]

  /// Sets that expressions are often made of, those with more tokens first.
  static let usual: [CharacterKinds] = [
    .unescaped, [.letters, .space, .punctuation, .beyond], .ascii, [.letters, .space, .punctuation],
    [.letters, .digit, .space], [.letters, .space], [.letters, .digit], .letters, [.lower, .digit], .lower,
    .upper,
  ]

  /// Of a byte of ASCII.
  init(ascii byte: UInt8) {
    switch byte {
    case 0x61...0x7A: self = .lower
    case 0x41...0x5A: self = .upper
    case 0x30...0x39: self = .digit
    case 0x20: self = .space
    case 0x22, 0x5C, 0..<0x20, 0x7F...: self = .other
    default: self = .punctuation
    }
  }

  init(rawValue: UInt8) { self.rawValue = rawValue }
}

/// Where a byte stands in the UTF-8 of an unescaped character.
enum UnescapedCharacter: UInt8 {
  case between, oneMore, twoMore, threeMore
  /// After a first byte that narrows the second.
  case afterE0, afterED, afterF0, afterF4
  /// Line and paragraph separators begin so.
  case afterE2, afterE280

  /// After one more byte; nil where the character is another.
  func next(_ byte: UInt8) -> UnescapedCharacter? {
    switch (self, byte) {
    case (.between, 0x00...0x7F): CharacterKinds(ascii: byte) == .other ? nil : .between
    case (.between, 0xC2...0xDF): .oneMore
    case (.between, 0xE0): .afterE0
    case (.between, 0xE2): .afterE2
    case (.between, 0xED): .afterED
    case (.between, 0xE1...0xEF): .twoMore
    case (.between, 0xF0): .afterF0
    case (.between, 0xF1...0xF3): .threeMore
    case (.between, 0xF4): .afterF4
    case (.oneMore, 0x80...0xBF), (.afterE280, 0x80...0xA7), (.afterE280, 0xAA...0xBF): .between
    case (.twoMore, 0x80...0xBF), (.afterE0, 0xA0...0xBF), (.afterED, 0x80...0x9F): .oneMore
    case (.afterE2, 0x80): .afterE280
    case (.afterE2, 0x81...0xBF): .oneMore
    case (.threeMore, 0x80...0xBF), (.afterF0, 0x90...0xBF), (.afterF4, 0x80...0x8F): .twoMore
    default: nil
    }
  }

  static let all: [UnescapedCharacter] = [
    .between, .oneMore, .twoMore, .threeMore, .afterE0, .afterED, .afterF0, .afterF4, .afterE2, .afterE280,
  ]
}
