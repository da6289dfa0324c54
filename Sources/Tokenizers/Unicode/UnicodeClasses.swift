// Character classes of the split patterns: letters by kind, marks, numbers, white space, punctuation.

/// One byte per scalar, in pages of 256; pages of a single value are shared.
struct ScalarTable: Sendable {
  private var pageOf: [UInt16]
  private var pages: [UInt8]

  private static let pageSize = 256

  /// - Parameter runs: values with their lengths, over the scalars from 0.
  init(runs: some Sequence<(value: UInt8, length: Int)>) {
    pageOf = []
    pages = []
    var uniform: [UInt8: UInt16] = [:]
    var page: [UInt8] = []
    for (value, length) in runs {
      var left = length
      while left > 0 {
        if page.isEmpty, left >= Self.pageSize, let known = uniform[value] {
          pageOf.append(known)
          left -= Self.pageSize
          continue
        }
        let taken = min(left, Self.pageSize - page.count)
        page.append(contentsOf: repeatElement(value, count: taken))
        left -= taken
        guard page.count == Self.pageSize else { continue }
        let number = UInt16(truncatingIfNeeded: pages.count / Self.pageSize)
        if taken == Self.pageSize { uniform[value] = number }
        pageOf.append(number)
        pages.append(contentsOf: page)
        page.removeAll(keepingCapacity: true)
      }
    }
  }

  @inline(__always)
  subscript(scalar: UInt32) -> UInt8 {
    pages[Int(pageOf[Int(scalar >> 8)]) << 8 | Int(scalar & 0xFF)]
  }
}

/// The class of a scalar as a set of bits, so that a pattern's character class is one mask.
struct CharacterClass: OptionSet, Sendable {
  let rawValue: UInt8

  /// Lu and Lt.
  static let upper = CharacterClass(rawValue: 1)
  /// Ll.
  static let lower = CharacterClass(rawValue: 2)
  /// Lm and Lo.
  static let caseless = CharacterClass(rawValue: 4)
  /// Mn, Mc, Me.
  static let mark = CharacterClass(rawValue: 8)
  /// Nd, Nl, No.
  static let number = CharacterClass(rawValue: 16)
  /// White_Space.
  static let space = CharacterClass(rawValue: 32)
  /// P*, as far as the reference knows them.
  static let punctuation = CharacterClass(rawValue: 64)
  /// S*; together with `mark` it says Mn, as far as the reference knows them.
  static let symbol = CharacterClass(rawValue: 128)

  static let letter: CharacterClass = [.upper, .lower, .caseless]
  static let nonspacingMark: CharacterClass = [.mark, .symbol]
  /// What cleaning for BERT drops: controls, formats, private use.
  static let control: CharacterClass = [.symbol, .punctuation]

  /// Expanded once, on first use: about 70 KiB.
  static let table = ScalarTable(runs: expandedRuns())

  static func of(_ scalar: UInt32) -> CharacterClass { CharacterClass(rawValue: table[scalar]) }

  private static func expandedRuns() -> [(value: UInt8, length: Int)] {
    UnicodeData.classes.words.map { word in
      let length = word.dropFirst().reduce(0) { $0 * 10 + Int($1 &- 0x30) }
      return (of(letter: word.first ?? 0).rawValue, max(1, length))
    }
  }

  private static func of(letter: UInt8) -> CharacterClass {
    switch letter {
    case UInt8(ascii: "u"): .upper
    case UInt8(ascii: "l"): .lower
    case UInt8(ascii: "o"): .caseless
    case UInt8(ascii: "m"): .mark
    case UInt8(ascii: "n"): .nonspacingMark
    case UInt8(ascii: "d"): .number
    case UInt8(ascii: "s"): .space
    case UInt8(ascii: "p"): .punctuation
    case UInt8(ascii: "y"): .symbol
    case UInt8(ascii: "c"): .control
    default: []
    }
  }
}

extension StaticString {
  /// The bytes between spaces and line breaks.
  var words: [ArraySlice<UInt8>] {
    withUTF8Buffer { unsafe Array($0) }.split { $0 == 0x20 || $0 == 0x0A }
  }
}

/// A scalar of valid UTF-8 and the number of its bytes.
@inline(__always)
func decodeScalar(_ bytes: [UInt8], at index: Int) -> (value: UInt32, length: Int) {
  let first = UInt32(bytes[index])
  if first < 0x80 { return (first, 1) }
  if first < 0xE0 { return ((first & 0x1F) << 6 | UInt32(bytes[index + 1] & 0x3F), 2) }
  let second = UInt32(bytes[index + 1] & 0x3F)
  let third = UInt32(bytes[index + 2] & 0x3F)
  if first < 0xF0 { return ((first & 0x0F) << 12 | second << 6 | third, 3) }
  return ((first & 0x07) << 18 | second << 12 | third << 6 | UInt32(bytes[index + 3] & 0x3F), 4)
}

extension [UInt8] {
  /// Appends a scalar as UTF-8.
  mutating func append(scalar: UInt32) {
    switch scalar {
    case 0..<0x80: append(UInt8(truncatingIfNeeded: scalar))
    case 0..<0x800:
      append(UInt8(truncatingIfNeeded: 0xC0 | scalar >> 6))
      append(UInt8(truncatingIfNeeded: 0x80 | scalar & 0x3F))
    case 0..<0x10000:
      append(UInt8(truncatingIfNeeded: 0xE0 | scalar >> 12))
      append(UInt8(truncatingIfNeeded: 0x80 | scalar >> 6 & 0x3F))
      append(UInt8(truncatingIfNeeded: 0x80 | scalar & 0x3F))
    default:
      append(UInt8(truncatingIfNeeded: 0xF0 | scalar >> 18))
      append(UInt8(truncatingIfNeeded: 0x80 | scalar >> 12 & 0x3F))
      append(UInt8(truncatingIfNeeded: 0x80 | scalar >> 6 & 0x3F))
      append(UInt8(truncatingIfNeeded: 0x80 | scalar & 0x3F))
    }
  }

  /// Where the scalar that ends at `end` starts.
  func scalarStart(before end: Int, from low: Int) -> Int {
    var at = end - 1
    while at > low, self[at] & 0xC0 == 0x80 { at -= 1 }
    return at
  }
}
