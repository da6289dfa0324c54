// The named classes of split expressions: those of the scanners by the same table, the others by the standard library's.

enum SplitClasses {
  static let space = of { $0 == .space }
  static let letter = of { !$0.isDisjoint(with: .letter) }
  static let mark = of { $0.contains(.mark) }
  static let number = of { $0 == .number }
  private static let punctuation = of { $0 == .punctuation }
  /// The table counts the replacement character among what cleaning drops.
  private static let symbol = of { $0 == .symbol }.union(ScalarSet([0xFFFD...0xFFFD]))
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
    case "Han", "Script=Han", "sc=Han": han
    case "Hiragana":
      ScalarSet([0x3041...0x3096, 0x309D...0x309F, 0x1B001...0x1B11F, 0x1B150...0x1B152, 0x1F200...0x1F200])
    case "Katakana":
      ScalarSet([
        0x30A1...0x30FA, 0x30FD...0x30FF, 0x31F0...0x31FF, 0x32D0...0x32FE, 0x3300...0x3357, 0xFF66...0xFF6F,
        0xFF71...0xFF9D, 0x1B000...0x1B000, 0x1B120...0x1B122, 0x1B164...0x1B167,
      ])
    case "Hangul":
      ScalarSet([
        0x1100...0x11FF, 0x302E...0x302F, 0x3131...0x318E, 0x3200...0x321E, 0x3260...0x327E, 0xA960...0xA97C,
        0xAC00...0xD7A3, 0xD7B0...0xD7C6, 0xD7CB...0xD7FB, 0xFFA0...0xFFBE, 0xFFC2...0xFFC7, 0xFFCA...0xFFCF,
        0xFFD2...0xFFD7, 0xFFDA...0xFFDC,
      ])
    default: RegexClasses.property(name)
    }
  }

  private static let han = ScalarSet([
    0x2E80...0x2E99, 0x2E9B...0x2EF3, 0x2F00...0x2FD5, 0x3005...0x3005, 0x3007...0x3007, 0x3021...0x3029,
    0x3038...0x303B, 0x3400...0x4DBF, 0x4E00...0x9FFF, 0xF900...0xFA6D, 0xFA70...0xFAD9, 0x16FE2...0x16FE3,
    0x16FF0...0x16FF1, 0x20000...0x2A6DF, 0x2A700...0x2B739, 0x2B740...0x2B81D, 0x2B820...0x2CEA1,
    0x2CEB0...0x2EBE0, 0x2EBF0...0x2EE5D, 0x2F800...0x2FA1D, 0x30000...0x3134A, 0x31350...0x323AF,
  ])

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
