// A text in units that are never cut, each with how good a place for a cut its end is.

/// A stretch of text that stays together.
struct TextUnit: Equatable {
  /// Bytes of the text.
  var range: Range<Int>
  /// How well a passage may end after it; higher is better.
  var score: Int
  /// The level of the heading that begins here, 1 to 6; 0 for none.
  var heading = 0
  /// Whether it is within a fence.
  var isFenced = false
}

/// How good an end is.
enum BreakScore {
  static let heading = 100
  static let page = 90
  static let blankLine = 60
  static let declaration = 60
  static let item = 40
  static let sentence = 30
  static let line = 20
  static let space = 5
  static let none = 1
}

/// Cuts text into units: sentences and lines, and parts of those that are long.
enum UnitSplitter {
  /// Bytes from which on a unit is cut at a space.
  private static let longest = 160

  /// The most units that a text has: lines and sentences that end, and what is cut for its length.
  static func most(in text: [UInt8]) -> Int {
    var count = 1 + text.count / (longest / 2)
    for at in text.indices {
      switch text[at] {
      case newline, formFeed, UInt8(ascii: "."), UInt8(ascii: "!"), UInt8(ascii: "?"), UInt8(ascii: ";"):
        count += 1
      case 0xE3, 0xEF: if Sentences.isWideEnd(text, at, text.count) { count += 1 }
      default: break
      }
    }
    return count
  }

  static func units(_ text: [UInt8], kind: TextKind) -> [TextUnit] {
    var units: [TextUnit] = []
    var at = 0
    var isFenced = false
    while at < text.count {
      // A line with the blank lines after it.
      var end = at
      while end < text.count, text[end] != newline, text[end] != formFeed { end += 1 }
      let content = at..<end
      let hasPage = end < text.count && text[end] == formFeed
      if end < text.count { end += 1 }
      var blanks = 0
      while end < text.count, let next = blankLine(text, end) {
        blanks += 1
        end = next
      }
      let isFence = kind == .markdown && hasPrefix(text, content, "```")
      if isFence { isFenced.toggle() }
      let level = kind == .markdown && !isFenced && !isFence ? headingLevel(text, content) : 0
      // The end of this line is judged by what follows it.
      var score = BreakScore.line
      if hasPage { score = BreakScore.page }
      if blanks > 0 { score = BreakScore.blankLine }
      let next = end..<lineEnd(text, end)
      if kind == .markdown, headingLevel(text, next) > 0, !isFenced { score = BreakScore.heading }
      if kind == .markdown || kind == .plain, isItem(text, next) { score = max(score, BreakScore.item) }
      if kind == .code, blanks > 0, end < text.count, !isSpace(text[end]) {
        score = BreakScore.declaration + 10
      }
      if level > 0 { score = BreakScore.none }
      append(
        text, content, through: end, score: score, level: level, isFenced: isFenced || isFence, kind,
        to: &units)
      at = end
    }
    return units
  }

  private static let newline = UInt8(ascii: "\n")
  private static let formFeed: UInt8 = 0x0C

  private static func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 || byte == newline }

  private static func lineEnd(_ text: [UInt8], _ start: Int) -> Int {
    var end = start
    while end < text.count, text[end] != newline, end - start < 16 { end += 1 }
    return end
  }

  /// Where a line of white space that begins here ends.
  private static func blankLine(_ text: [UInt8], _ start: Int) -> Int? {
    var at = start
    while at < text.count, text[at] == 0x20 || text[at] == 0x09 { at += 1 }
    return at < text.count && text[at] == newline ? at + 1 : nil
  }

  private static func hasPrefix(_ text: [UInt8], _ range: Range<Int>, _ prefix: String) -> Bool {
    text[range].starts(with: prefix.utf8)
  }

  static func headingLevel(_ text: [UInt8], _ range: Range<Int>) -> Int {
    let marks = text[range].prefix { $0 == UInt8(ascii: "#") }.count
    let next = range.lowerBound + marks
    return (1...6).contains(marks) && next < range.upperBound && text[next] == 0x20 ? marks : 0
  }

  private static func isItem(_ text: [UInt8], _ range: Range<Int>) -> Bool {
    let line = text[range].drop { $0 == 0x20 || $0 == 0x09 }
    guard let first = line.first, let second = line.dropFirst().first else { return false }
    if [UInt8(ascii: "-"), UInt8(ascii: "*"), UInt8(ascii: "+"), UInt8(ascii: "|")].contains(first) {
      return second == 0x20
    }
    return first >= 0x30 && first <= 0x39
      && line.prefix(4).contains { $0 == UInt8(ascii: ".") || $0 == UInt8(ascii: ")") }
  }

  /// Adds a line as one unit or several.
  private static func append(
    _ text: [UInt8], _ content: Range<Int>, through end: Int, score: Int, level: Int, isFenced: Bool,
    _ kind: TextKind, to units: inout [TextUnit]
  ) {
    var start = content.lowerBound
    var heading = level
    func add(_ stop: Int, _ score: Int) {
      units.append(TextUnit(range: start..<stop, score: score, heading: heading, isFenced: isFenced))
      heading = 0
      start = stop
    }
    /// Cuts what is longer than a sentence should be.
    func cutLong(_ end: Int) {
      while end - start > longest {
        var stop = start + longest
        while stop > start + longest / 2, text[stop - 1] != 0x20 { stop -= 1 }
        if text[stop - 1] == 0x20 {
          add(stop, BreakScore.space)
          continue
        }
        // Without spaces: between characters, no mark is left alone at the beginning.
        stop = start + longest
        while stop < end, text[stop] & 0xC0 == 0x80 || isMark(text, stop) { stop += 1 }
        guard stop < end else { return }
        add(stop, BreakScore.none)
      }
    }
    if kind != .code, !isFenced {
      for stop in Sentences.ends(text, content) where stop < content.upperBound {
        cutLong(stop)
        add(stop, BreakScore.sentence)
      }
    }
    cutLong(content.upperBound)
    add(end, score)
  }

  /// Combining marks, joiners and variation selectors: U+0300 to U+036F, U+200D, U+FE00 to U+FE0F, and skin tones.
  private static func isMark(_ text: [UInt8], _ at: Int) -> Bool {
    guard at + 2 < text.count else { return false }
    let (a, b, c) = (text[at], text[at + 1], text[at + 2])
    if a == 0xCC || (a == 0xCD && b <= 0xAF) { return true }
    if a == 0xE2 && b == 0x80 && c == 0x8D { return true }
    // What follows a joiner belongs to it.
    if at >= 3, text[at - 3] == 0xE2, text[at - 2] == 0x80, text[at - 1] == 0x8D { return true }
    if a == 0xEF && b == 0xB8 && c <= 0x8F { return true }
    return a == 0xF0 && b == 0x9F && c == 0x8F && at + 3 < text.count && text[at + 3] >= 0xBB
  }
}

/// Where sentences end.
package enum Sentences {
  /// The ends of the sentences of a stretch of text, white space after them included; the last is the end of the stretch.
  package static func ends(_ text: [UInt8], _ range: Range<Int>) -> [Int] {
    var ends: [Int] = []
    var at = range.lowerBound
    while at < range.upperBound {
      let byte = text[at]
      var stop = at + 1
      var isEnd = false
      if byte == UInt8(ascii: ".") || byte == UInt8(ascii: "!") || byte == UInt8(ascii: "?")
        || byte == UInt8(ascii: ";")
      {
        // Quotes and brackets belong to the sentence that they end.
        while stop < range.upperBound, isClosing(text, stop, range.upperBound) {
          stop += closingLength(text, stop)
        }
        isEnd =
          stop < range.upperBound && (text[stop] == 0x20 || text[stop] == 0x0A)
          && !isAbbreviation(text, at, range.lowerBound)
      } else if byte == 0x0A {
        isEnd = true
      } else if isWideEnd(text, at, range.upperBound) {
        stop = at + 3
        isEnd = true
      }
      if isEnd {
        while stop < range.upperBound, text[stop] == 0x20 || text[stop] == 0x0A { stop += 1 }
        ends.append(stop)
      }
      at = stop
    }
    if ends.last != range.upperBound { ends.append(range.upperBound) }
    return ends
  }

  private static func isClosing(_ text: [UInt8], _ at: Int, _ end: Int) -> Bool {
    closingLength(text, at) > 0 && at < end
  }

  private static func closingLength(_ text: [UInt8], _ at: Int) -> Int {
    switch text[at] {
    case UInt8(ascii: "\""), UInt8(ascii: "'"), UInt8(ascii: ")"), UInt8(ascii: "]"), UInt8(ascii: "."),
      UInt8(ascii: "!"),
      UInt8(ascii: "?"):
      return 1
    case 0xE2:
      // ’ and ”.
      return at + 2 < text.count && text[at + 1] == 0x80 && (text[at + 2] == 0x99 || text[at + 2] == 0x9D)
        ? 3 : 0
    default: return 0
    }
  }

  /// 。 ！ ？ ；
  static func isWideEnd(_ text: [UInt8], _ at: Int, _ end: Int) -> Bool {
    guard at + 3 <= end else { return false }
    let three = (text[at], text[at + 1], text[at + 2])
    return three == (0xE3, 0x80, 0x82) || three == (0xEF, 0xBC, 0x81) || three == (0xEF, 0xBC, 0x9F)
      || three == (0xEF, 0xBC, 0x9B)
  }

  /// A dot after one letter, a number of a list, or a title ends nothing.
  private static func isAbbreviation(_ text: [UInt8], _ dot: Int, _ start: Int) -> Bool {
    guard text[dot] == UInt8(ascii: ".") else { return false }
    var first = dot
    while first > start, text[first - 1] > 0x20 { first -= 1 }
    let word = text[first..<dot]
    if word.count == 1 { return true }
    return ["Mr", "Mrs", "Ms", "Dr", "St", "vs", "e.g", "i.e", "etc", "No", "Fig", "cf"].contains {
      word.elementsEqual($0.utf8)
    }
  }
}
