// Where a text may be cut without cutting a word or a number in two.

enum WordBorders {
  /// Longer words, such as keys and encoded files, may be cut behind so many bytes.
  static let longestWord = 40

  /// Whether a quote may begin or end at a place between two characters: not between two letters or digits, and not at the
  /// point or comma within a number. Characters above U+07FF, such as those of Chinese, each stand for themselves.
  ///
  /// - Parameter text: UTF-8, with `SuffixTree.end` between its parts and at its end.
  static func isBorder(_ text: [UInt8], _ place: Int) -> Bool {
    guard place > 0, place < text.count else { return true }
    let (before, after) = (text[place - 1], text[place])
    if isDigit(before), isMark(after) { return place + 1 >= text.count || !isDigit(text[place + 1]) }
    if isMark(before), isDigit(after) { return place < 2 || !isDigit(text[place - 2]) }
    guard isLetter(after), endsWithLetter(text, place) else { return true }
    guard place >= longestWord else { return false }
    return text[place - longestWord..<place].allSatisfy { isLetter($0) || $0 & 0xC0 == 0x80 }
  }

  private static func isDigit(_ byte: UInt8) -> Bool { byte &- 0x30 < 10 }

  private static func isMark(_ byte: UInt8) -> Bool { byte == 0x2E || byte == 0x2C }

  /// Whether a byte begins a letter or a digit.
  private static func isLetter(_ byte: UInt8) -> Bool {
    isDigit(byte) || (byte | 0x20) &- 0x61 < 26 || 0xC3..<0xE0 ~= byte
  }

  private static func endsWithLetter(_ text: [UInt8], _ place: Int) -> Bool {
    guard text[place - 1] & 0xC0 == 0x80 else { return isLetter(text[place - 1]) }
    return place >= 2 && 0xC3..<0xE0 ~= text[place - 2]
  }
}
