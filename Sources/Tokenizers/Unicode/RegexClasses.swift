// The named sets of regular expressions: classes such as `\d` and properties such as `\p{L}`.

import Synchronization

/// The named sets of regular expressions.
package enum RegexClasses {
  package static let digits = ScalarSet([0x30...0x39])
  package static let word = ScalarSet([0x30...0x39, 0x41...0x5A, 0x5F...0x5F, 0x61...0x7A])
  package static let space = ScalarSet([
    9...13, 0x20...0x20, 0xA0...0xA0, 0x1680...0x1680, 0x2000...0x200A, 0x2028...0x2029, 0x202F...0x202F,
    0x205F...0x205F, 0x3000...0x3000, 0xFEFF...0xFEFF,
  ])

  /// What `.` does not match.
  package static let lineBreaks = ScalarSet([0x0A...0x0A, 0x0D...0x0D, 0x2028...0x2029])

  /// The scalars that have a property; nil for properties that are not known.
  package static func property(_ text: String) -> ScalarSet? {
    var name = text
    for prefix in ["General_Category=", "gc="] where name.hasPrefix(prefix) {
      name = String(name.dropFirst(prefix.count))
    }
    switch name {
    case "Any": return .all
    case "ASCII": return ScalarSet([0...0x7F])
    case "Alphabetic", "Alpha": return alphabetic
    case "White_Space", "space": return whiteSpace
    case "Uppercase", "Upper": return uppercase
    case "Lowercase", "Lower": return lowercase
    case "Emoji": return emoji
    case "ID_Start", "IDS": return idStart
    case "ID_Continue", "IDC": return idContinue
    default: break
    }
    guard let categories = categories(name) else { return nil }
    if let known = ofCategories.withLock({ $0[categories] }) { return known }
    // Outside the lock: two threads may both make the same.
    let made = ScalarSet(categories.flatMap { byCategory[$0] ?? [] })
    ofCategories.withLock { $0[categories] = made }
    return made
  }

  /// There are as many as categories and groups of them.
  private static let ofCategories = Mutex<[Set<Unicode.GeneralCategory>: ScalarSet]>([:])

  // Each needs a look at all scalars, once per process.
  private static let alphabetic = ScalarSet.matching { $0.isAlphabetic }
  private static let whiteSpace = ScalarSet.matching { $0.isWhitespace }
  private static let uppercase = ScalarSet.matching { $0.isUppercase }
  private static let lowercase = ScalarSet.matching { $0.isLowercase }
  private static let emoji = ScalarSet.matching { $0.isEmoji }
  private static let idStart = ScalarSet.matching { $0.isIDStart }
  private static let idContinue = ScalarSet.matching { $0.isIDContinue }

  static let byCategory: [Unicode.GeneralCategory: [ClosedRange<UInt32>]] = {
    var found: [Unicode.GeneralCategory: [ClosedRange<UInt32>]] = [:]
    for block in blocks {
      var run = (category: category(block.range.lowerBound), from: block.range.lowerBound)
      func close(before end: UInt32) { found[run.category, default: []].append(run.from...end - 1) }
      if !block.isUniform {
        for value in block.range {
          let category = category(value)
          guard category != run.category else { continue }
          close(before: value)
          run = (category, value)
        }
      }
      close(before: block.range.upperBound + 1)
    }
    return found
  }()

  /// All scalars, in blocks; all scalars of a uniform one have one category: ideographs and syllables, private use, and
  /// what is not assigned. They are three quarters of all, and a look at one takes 40 ns.
  private static let blocks: [(range: ClosedRange<UInt32>, isUniform: Bool)] = [
    (0...0x33FF, false), (0x3400...0x4DBF, true), (0x4DC0...0x4DFF, false), (0x4E00...0x9FFF, true),
    (0xA000...0xABFF, false), (0xAC00...0xD7A3, true), (0xD7A4...0xD7FF, false), (0xE000...0xF8FF, true),
    (0xF900...0x1_6FFF, false), (0x1_7000...0x1_87F7, true), (0x1_87F8...0x1_FFFF, false),
    (0x2_0000...0x2_A6DF, true), (0x2_A6E0...0x2_B81F, false), (0x2_B820...0x2_CEA1, true),
    (0x2_CEA2...0x2_CEAF, false), (0x2_CEB0...0x2_EBE0, true), (0x2_EBE1...0x2_FFFF, false),
    (0x3_0000...0x3_134A, true), (0x3_134B...0x3_3FFF, false), (0x3_4000...0xD_FFFF, true),
    (0xE_0000...0xE_0FFF, false), (0xE_1000...0xE_FFFF, true), (0xF_0000...0xF_FFFD, true),
    (0xF_FFFE...0xF_FFFF, true), (0x10_0000...0x10_FFFD, true), (0x10_FFFE...0x10_FFFF, true),
  ]

  private static func category(_ value: UInt32) -> Unicode.GeneralCategory {
    Unicode.Scalar(value)?.properties.generalCategory ?? .surrogate
  }

  private static func categories(_ name: String) -> Set<Unicode.GeneralCategory>? {
    switch name {
    case "L", "Letter": [.uppercaseLetter, .lowercaseLetter, .titlecaseLetter, .modifierLetter, .otherLetter]
    case "LC", "Cased_Letter": [.uppercaseLetter, .lowercaseLetter, .titlecaseLetter]
    case "Lu", "Uppercase_Letter": [.uppercaseLetter]
    case "Ll", "Lowercase_Letter": [.lowercaseLetter]
    case "Lt", "Titlecase_Letter": [.titlecaseLetter]
    case "Lm", "Modifier_Letter": [.modifierLetter]
    case "Lo", "Other_Letter": [.otherLetter]
    case "M", "Mark": [.nonspacingMark, .spacingMark, .enclosingMark]
    case "Mn", "Nonspacing_Mark": [.nonspacingMark]
    case "Mc", "Spacing_Mark": [.spacingMark]
    case "Me", "Enclosing_Mark": [.enclosingMark]
    case "N", "Number": [.decimalNumber, .letterNumber, .otherNumber]
    case "Nd", "Decimal_Number", "digit": [.decimalNumber]
    case "Nl", "Letter_Number": [.letterNumber]
    case "No", "Other_Number": [.otherNumber]
    case "P", "Punctuation", "punct":
      [
        .connectorPunctuation, .dashPunctuation, .openPunctuation, .closePunctuation, .initialPunctuation,
        .finalPunctuation, .otherPunctuation,
      ]
    case "Pc", "Connector_Punctuation": [.connectorPunctuation]
    case "Pd", "Dash_Punctuation": [.dashPunctuation]
    case "Ps", "Open_Punctuation": [.openPunctuation]
    case "Pe", "Close_Punctuation": [.closePunctuation]
    case "Pi", "Initial_Punctuation": [.initialPunctuation]
    case "Pf", "Final_Punctuation": [.finalPunctuation]
    case "Po", "Other_Punctuation": [.otherPunctuation]
    case "S", "Symbol": [.mathSymbol, .currencySymbol, .modifierSymbol, .otherSymbol]
    case "Sm", "Math_Symbol": [.mathSymbol]
    case "Sc", "Currency_Symbol": [.currencySymbol]
    case "Sk", "Modifier_Symbol": [.modifierSymbol]
    case "So", "Other_Symbol": [.otherSymbol]
    case "Z", "Separator": [.spaceSeparator, .lineSeparator, .paragraphSeparator]
    case "Zs", "Space_Separator": [.spaceSeparator]
    case "Zl", "Line_Separator": [.lineSeparator]
    case "Zp", "Paragraph_Separator": [.paragraphSeparator]
    case "C", "Other": [.control, .format, .surrogate, .privateUse, .unassigned]
    case "Cc", "Control", "cntrl": [.control]
    case "Cf", "Format": [.format]
    case "Co", "Private_Use": [.privateUse]
    case "Cn", "Unassigned": [.unassigned]
    default: nil
    }
  }
}
