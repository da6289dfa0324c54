// Regular expressions as trees.

import Tokenizers

indirect enum RegexTree: Equatable {
  case empty
  case set(ScalarSet)
  case sequence([RegexTree])
  case choice([RegexTree])
  case repeated(RegexTree, min: Int, max: Int?)
  /// `^`.
  case start
  /// `$`.
  case end
  /// `(?=x)`, `(?!x)`, `(?<=x)` or `(?<!x)`.
  case lookaround(RegexTree, isAhead: Bool, isPositive: Bool)

  /// Any text.
  static var anything: RegexTree { .repeated(.set(.all), min: 0, max: nil) }

  /// Larger counts are refused.
  static let largestCount = 10_000

  /// Sets and copies of sets, and brackets inside each other.
  var measure: (size: Int, depth: Int) {
    switch self {
    case .empty, .start, .end: return (1, 1)
    case .set(let set): return (max(1, set.ranges.count / 8), 1)
    case .lookaround(let inner, _, _): return inner.measure
    case .sequence(let parts), .choice(let parts):
      let all = parts.map(\.measure)
      return (all.reduce(1) { $0 + $1.size }, 1 + (all.map(\.depth).max() ?? 0))
    case .repeated(let inner, let min, let max):
      let (size, depth) = inner.measure
      let (total, overflow) = size.multipliedReportingOverflow(by: Swift.max(1, max ?? min))
      return (overflow ? .max / 2 : Swift.min(total, .max / 2), depth + 1)
    }
  }

  /// Whether it means the same beside other text: it asks for no start or end.
  var isPlain: Bool {
    switch self {
    case .empty, .set: true
    case .start, .end, .lookaround: false
    case .sequence(let parts), .choice(let parts): parts.allSatisfy(\.isPlain)
    case .repeated(let inner, _, _): inner.isPlain
    }
  }

  /// Whether it asks for what stands beside it, but for conditions on the whole text.
  var looksAround: Bool {
    leadingLookaheads.rest.contains { if case .lookaround = $0 { true } else { false } }
  }

  /// Whether any part of it is one for which `isSought` holds.
  func contains(where isSought: (RegexTree) -> Bool) -> Bool {
    if isSought(self) { return true }
    switch self {
    case .empty, .set, .start, .end: return false
    case .sequence(let parts), .choice(let parts): return parts.contains { $0.contains(where: isSought) }
    case .repeated(let inner, _, _), .lookaround(let inner, _, _): return inner.contains(where: isSought)
    }
  }

  /// Lookaheads directly after a leading `^`, which are conditions on the whole text, and the expression without them.
  var leadingLookaheads: (rest: RegexTree, conditions: [(tree: RegexTree, isPositive: Bool)]) {
    guard case .sequence(let parts) = self, case .start? = parts.first else { return (self, []) }
    var conditions: [(RegexTree, Bool)] = []
    var rest = parts.dropFirst()
    while case .lookaround(let inner, isAhead: true, let isPositive)? = rest.first {
      conditions.append((inner, isPositive))
      rest = rest.dropFirst()
    }
    return (.sequence([.start] + rest), conditions)
  }

  /// `\b`, where one of the characters before and after is a letter, digit or `_` and the other is none; `\B`, where
  /// both are or none is.
  static func wordBorder(isPositive: Bool) -> RegexTree {
    let word = RegexTree.set(RegexClasses.word)
    return .choice(
      [true, false].map { isWordBefore in
        .sequence([
          .lookaround(word, isAhead: false, isPositive: isWordBefore),
          .lookaround(word, isAhead: true, isPositive: isWordBefore != isPositive),
        ])
      })
  }

  /// The set and the bounds of an expression for whole texts of a number of characters, such as `^[a-z]{1,63}$`.
  var countedSet: (set: ScalarSet, min: Int, max: Int?)? {
    guard case .sequence(let parts) = self, parts.count == 3, case .start = parts[0], case .end = parts[2],
      case .repeated(.set(let set), let min, let max) = parts[1]
    else { return nil }
    return (set, min, max)
  }

  /// The same with letters of either case.
  var ignoringCase: RegexTree {
    switch self {
    case .empty, .start, .end: self
    case .set(let set): .set(set.ignoringCase)
    case .sequence(let parts): .sequence(parts.map(\.ignoringCase))
    case .choice(let branches): .choice(branches.map(\.ignoringCase))
    case .repeated(let inner, let min, let max): .repeated(inner.ignoringCase, min: min, max: max)
    case .lookaround(let inner, let isAhead, let isPositive):
      .lookaround(inner.ignoringCase, isAhead: isAhead, isPositive: isPositive)
    }
  }
}

/// Reads ECMA 262 expressions (flags `u`, no others), with the leniency of its annex B for lone braces.
struct RegexParser {
  private let scalars: [UInt32]
  private let dotIsAll: Bool
  private var at = 0
  private var depth = 0

  private static let depthLimit = 48
  static let lengthLimit = 20_000
  /// Most ranges of one class, before equal ones are joined; a letter of any script takes about 650.
  private static let rangeLimit = 40_000

  /// - Parameter dotIsAll: whether `.` also matches line breaks.
  static func parse(_ text: String, dotIsAll: Bool = false) throws(GrammarError) -> RegexTree {
    guard text.utf8.count <= lengthLimit else {
      throw .tooLarge(reason: "a regular expression has more than \(lengthLimit) bytes")
    }
    var parser = RegexParser(scalars: text.unicodeScalars.map(\.value), dotIsAll: dotIsAll)
    let tree = try parser.parseChoice()
    guard parser.at == parser.scalars.count else { throw parser.problem("an unmatched ')'") }
    return tree
  }

  private init(scalars: [UInt32], dotIsAll: Bool) {
    self.scalars = scalars
    self.dotIsAll = dotIsAll
  }

  private func problem(_ words: String) -> GrammarError {
    .malformed(path: "character \(at + 1) of the regular expression", reason: words)
  }

  private func unsupported(_ words: String) -> GrammarError {
    .unsupported(
      keyword: words, path: "character \(at + 1) of the regular expression",
      reason: "it is not a regular language"
    )
  }

  private var current: UInt32? { at < scalars.count ? scalars[at] : nil }

  private func isAt(_ text: String) -> Bool {
    let wanted = text.unicodeScalars.map(\.value)
    return at + wanted.count <= scalars.count && scalars[at..<at + wanted.count].elementsEqual(wanted)
  }

  private mutating func take(_ text: String) -> Bool {
    guard isAt(text) else { return false }
    at += text.unicodeScalars.count
    return true
  }

  private mutating func parseChoice() throws(GrammarError) -> RegexTree {
    guard depth < Self.depthLimit else {
      throw .tooLarge(reason: "a regular expression is nested more than \(Self.depthLimit) deep")
    }
    depth += 1
    defer { depth -= 1 }
    var branches = [try parseSequence()]
    while take("|") { branches.append(try parseSequence()) }
    return branches.count == 1 ? branches[0] : .choice(branches)
  }

  private mutating func parseSequence() throws(GrammarError) -> RegexTree {
    var parts: [RegexTree] = []
    while let scalar = current, scalar != 0x7C, scalar != 0x29 {
      let part = try quantified(try parseAtom())
      if case .empty = part { continue }
      parts.append(part)
    }
    return parts.count == 1 ? parts[0] : parts.isEmpty ? .empty : .sequence(parts)
  }

  private mutating func quantified(_ atom: RegexTree) throws(GrammarError) -> RegexTree {
    guard let (min, max) = try quantifier() else { return atom }
    if case .lookaround = atom { throw problem("a lookaround has nothing to repeat") }
    // Lazy and greedy matches are the same language.
    _ = take("?")
    if try quantifier() != nil { throw problem("nothing to repeat") }
    if case .empty = atom { return atom }
    return .repeated(atom, min: min, max: max)
  }

  private mutating func quantifier() throws(GrammarError) -> (Int, Int?)? {
    if take("*") { return (0, nil) }
    if take("+") { return (1, nil) }
    if take("?") { return (0, 1) }
    let start = at
    guard take("{"), let min = try number() else {
      at = start
      return nil
    }
    var max: Int? = min
    if take(",") { max = try number() }
    guard take("}") else {
      at = start
      return nil
    }
    if let max, max < min { throw problem("the numbers of the quantifier are out of order") }
    return (min, max)
  }

  private mutating func number() throws(GrammarError) -> Int? {
    var value: Int?
    while let scalar = current, (0x30...0x39).contains(scalar) {
      let next = (value ?? 0) * 10 + Int(scalar - 0x30)
      guard next <= RegexTree.largestCount else {
        throw .tooLarge(reason: "a regular expression repeats more than \(RegexTree.largestCount) times")
      }
      value = next
      at += 1
    }
    return value
  }

  private mutating func parseAtom() throws(GrammarError) -> RegexTree {
    guard let scalar = current else { return .empty }
    switch scalar {
    case 0x5E:
      at += 1
      return .start
    case 0x24:
      at += 1
      return .end
    case 0x28: return try parseGroup()
    case 0x5B: return .set(try parseClass())
    case 0x2E:
      at += 1
      return .set(dotIsAll ? .all : RegexClasses.lineBreaks.inverted)
    case 0x5C:
      at += 1
      return try parseEscape()
    case 0x2A, 0x2B, 0x3F: throw problem("nothing to repeat")
    default:
      at += 1
      return .set(ScalarSet([scalar...scalar]))
    }
  }

  private mutating func parseGroup() throws(GrammarError) -> RegexTree {
    at += 1
    var condition: (isAhead: Bool, isPositive: Bool)?
    if take("?=") {
      condition = (true, true)
    } else if take("?!") {
      condition = (true, false)
    } else if take("?<=") {
      condition = (false, true)
    } else if take("?<!") {
      condition = (false, false)
    } else if take("?<") || take("?P<") {
      while let scalar = current, scalar != 0x3E { at += scalar == 0x29 ? scalars.count : 1 }
      guard take(">") else { throw problem("a group name without an end") }
    } else if isAt("?"), !take("?:") {
      throw unsupported("a group with flags")
    }
    let inner = try parseChoice()
    guard take(")") else { throw problem("a '(' without a ')'") }
    guard let condition else { return inner }
    return .lookaround(inner, isAhead: condition.isAhead, isPositive: condition.isPositive)
  }

  private mutating func parseEscape() throws(GrammarError) -> RegexTree {
    guard let scalar = current else { throw problem("a '\\' at the end") }
    switch scalar {
    case 0x62, 0x42:
      at += 1
      return .wordBorder(isPositive: scalar == 0x62)
    case 0x6B: throw unsupported("a backreference")
    case 0x31...0x39: throw unsupported("a backreference")
    default: return .set(try escapedSet())
    }
  }

  /// What stands after a backslash, inside a class or outside.
  private mutating func escapedSet() throws(GrammarError) -> ScalarSet {
    guard let scalar = current else { throw problem("a '\\' at the end") }
    at += 1
    switch Unicode.Scalar(scalar).map(Character.init) ?? " " {
    case "d": return RegexClasses.digits
    case "D": return RegexClasses.digits.inverted
    case "w": return RegexClasses.word
    case "W": return RegexClasses.word.inverted
    case "s": return RegexClasses.space
    case "S": return RegexClasses.space.inverted
    case "p": return try property()
    case "P": return try property().inverted
    case "t": return ScalarSet([9...9])
    case "n": return ScalarSet([10...10])
    case "v": return ScalarSet([11...11])
    case "f": return ScalarSet([12...12])
    case "r": return ScalarSet([13...13])
    case "0": return ScalarSet([0...0])
    case "c":
      guard let letter = current, (0x41...0x5A).contains(letter & ~0x20) else {
        throw problem("an unknown escape")
      }
      at += 1
      return ScalarSet([letter & 0x1F...letter & 0x1F])
    case "x": return try single(hex(2))
    case "u": return try single(unicodeEscape())
    default:
      let isWord = RegexClasses.word.ranges.contains { $0.contains(scalar) }
      guard !isWord || scalar == 0x5F else {
        at -= 1
        throw problem("an unknown escape")
      }
      return ScalarSet([scalar...scalar])
    }
  }

  private func single(_ scalar: UInt32) throws(GrammarError) -> ScalarSet {
    guard scalar <= 0x10FFFF else { throw problem("a character beyond U+10FFFF") }
    return ScalarSet([scalar...scalar])
  }

  private mutating func hex(_ digits: Int) throws(GrammarError) -> UInt32 {
    var value: UInt32 = 0
    for _ in 0..<digits {
      guard let scalar = current, let digit = Unicode.Scalar(scalar).flatMap({ Character($0).hexDigitValue }),
        scalar < 0x80
      else { throw problem("a hexadecimal digit is missing") }
      value = value << 4 | UInt32(truncatingIfNeeded: digit)
      at += 1
    }
    return value
  }

  private mutating func unicodeEscape() throws(GrammarError) -> UInt32 {
    if take("{") {
      var value: UInt32 = 0
      while let scalar = current, scalar != 0x7D {
        value = value << 4 | (try hex(1))
        guard value <= 0x10FFFF else { throw problem("a character beyond U+10FFFF") }
      }
      guard take("}") else { throw problem("a '{' without a '}'") }
      return value
    }
    let first = try hex(4)
    guard (0xD800...0xDBFF).contains(first), isAt("\\u") else { return first }
    let start = at
    at += 2
    let second = try hex(4)
    guard (0xDC00...0xDFFF).contains(second) else {
      at = start
      return first
    }
    return 0x10000 + (first - 0xD800) << 10 + (second - 0xDC00)
  }

  private mutating func property() throws(GrammarError) -> ScalarSet {
    guard take("{") else { throw problem("a property name is missing") }
    var name = ""
    while let scalar = current, scalar != 0x7D {
      Unicode.Scalar(scalar).map { name.unicodeScalars.append($0) }
      at += 1
    }
    guard take("}") else { throw problem("a '{' without a '}'") }
    guard let set = RegexClasses.property(name) else {
      throw .unsupported(
        keyword: "\\p{\(name)}", path: "character \(at + 1) of the regular expression",
        reason: "only general categories and a few binary properties are known")
    }
    return set
  }

  private mutating func parseClass() throws(GrammarError) -> ScalarSet {
    at += 1
    let isInverted = take("^")
    var ranges: [ClosedRange<UInt32>] = []
    while !isAt("]") {
      guard ranges.count < Self.rangeLimit else {
        throw .tooLarge(reason: "a class of a regular expression has more than \(Self.rangeLimit) ranges")
      }
      let first = try classAtom()
      guard isAt("-"), at + 1 < scalars.count, scalars[at + 1] != 0x5D else {
        ranges += first.ranges
        continue
      }
      at += 1
      let last = try classAtom()
      guard let low = first.only, let high = last.only else {
        // Annex B: a class such as \w at either side makes the dash a character.
        ranges += first.ranges + last.ranges + [0x2D...0x2D]
        continue
      }
      guard low <= high else { throw problem("the range is out of order") }
      ranges.append(low...high)
    }
    at += 1
    let set = ScalarSet(ranges)
    return isInverted ? set.inverted : set
  }

  private mutating func classAtom() throws(GrammarError) -> ScalarSet {
    guard let scalar = current else { throw problem("a '[' without a ']'") }
    at += 1
    guard scalar == 0x5C else { return ScalarSet([scalar...scalar]) }
    if take("b") { return ScalarSet([8...8]) }
    return try escapedSet()
  }
}

extension ScalarSet {
  /// The only member.
  var only: UInt32? {
    guard ranges.count == 1, ranges[0].count == 1 else { return nil }
    return ranges[0].lowerBound
  }
}
