// The named classes of split expressions: those of the scanners by the same table, the others by the standard library's.

enum SplitClasses {
  static let space = of { $0 == .space }
  static let letter = of { !$0.isDisjoint(with: .letter) }
  static let mark = of { $0.contains(.mark) }
  static let number = of { $0 == .number }
  private static let punctuation = of { $0 == .punctuation }
  /// The table counts the replacement character among what cleaning drops.
  private static let symbol = of { $0 == .symbol }.union(ScalarSet(0xFFFD))
  private static let alphabetic = RegexClasses.property("Alphabetic") ?? letter
  private static let lower = of { $0.contains(.lower) }
  static let digit = RegexClasses.property("Nd") ?? ScalarSet([])
  /// Inside brackets.
  static let word = alphabetic.union(mark).union(digit).union(RegexClasses.property("Pc") ?? ScalarSet([]))
  /// Outside, where Oniguruma counts the raised digits and fractions of Latin-1 too.
  static let looseWord = word.union(ScalarSet([0xB2...0xB3, 0xB9...0xB9, 0xBC...0xBE]))
  static let hexDigit = ScalarSet([0x30...0x39, 0x41...0x46, 0x61...0x66])

  private static func of(_ isMember: (CharacterClass) -> Bool) -> ScalarSet {
    var ranges: [ClosedRange<UInt32>] = []
    var start: UInt32?
    let table = CharacterClass.table
    for value in UInt32(0)...0x10FFFF {
      let isIn = isMember(CharacterClass(rawValue: table[value]))
      if isIn, start == nil { start = value }
      if !isIn, let first = start {
        ranges.append(first...value - 1)
        start = nil
      }
    }
    if let start { ranges.append(start...0x10FFFF) }
    return ScalarSet(ranges)
  }

  static func property(_ name: String) -> ScalarSet? {
    switch name {
    case "L", "Letter": letter
    case "Alpha", "alpha": alphabetic
    case "M", "Mark": mark
    case "N", "Number": number
    case "P", "Punctuation", "punct": punctuation
    case "S", "Symbol": symbol
    case "Ll", "Lowercase_Letter": lower
    case "Space", "space", "White_Space": space
    case "Word", "word", "w": word
    case "Alnum", "alnum": alphabetic.union(digit)
    default: RegexClasses.property(name) ?? script(name)
    }
  }

  /// The scalars of a script; nil for names that are none.
  private static func script(_ text: String) -> ScalarSet? {
    var name = text.lowercased().filter { $0 != "_" && $0 != " " && $0 != "-" }[...]
    for prefix in ["script=", "sc="] where name.hasPrefix(prefix) { name = name.dropFirst(prefix.count) }
    var ranges: [ClosedRange<UInt32>]?
    var next: UInt32 = 0
    for word in UnicodeData.scripts.words {
      // Names hold letters that are no hexadecimal digits, or are longer than any number.
      if let (gap, length) = gapAndLength(word) {
        let start = next &+ gap
        next = start &+ length
        ranges?.append(start...next &- 1)
      } else {
        if ranges != nil { break }
        next = 0
        if word.split(separator: UInt8(ascii: "=")).contains(where: { $0.elementsEqual(name.utf8) }) {
          ranges = []
        }
      }
    }
    return ranges.map(ScalarSet.init)
  }

  /// `1f+3` and `1f`; nil for the names of a script.
  private static func gapAndLength(_ word: ArraySlice<UInt8>) -> (gap: UInt32, length: UInt32)? {
    let parts = word.split(separator: UInt8(ascii: "+")).map {
      UInt32(String(decoding: $0, as: UTF8.self), radix: 16)
    }
    guard let first = parts.first, let gap = first else { return nil }
    guard parts.count > 1 else { return (gap, 1) }
    return parts[1].map { (gap, $0) }
  }

  static func posix(_ name: String) -> ScalarSet? {
    switch name {
    case "alpha": alphabetic
    case "digit": digit
    case "alnum": alphabetic.union(digit)
    case "upper": RegexClasses.property("Uppercase")
    case "lower": RegexClasses.property("Lowercase")
    case "space": space
    case "blank": ScalarSet([9...9, 0x20...0x20])
    case "punct": punctuation.union(symbol)
    case "cntrl": RegexClasses.property("Cc")
    case "xdigit": hexDigit
    case "word": word
    case "ascii": ScalarSet([0...0x7F])
    case "graph": space.union(RegexClasses.property("C") ?? space).inverted
    case "print": (RegexClasses.property("Cc") ?? space).inverted
    default: nil
    }
  }
}
