// The text of a regular expression as a tree, in one of two notations.

/// Reads one expression.
package struct RegexParser {
  /// Whose rules the text follows.
  package enum Notation {
    /// ECMA 262 with the flag `u`, and the leniency of its annex B for lone braces. Trees tell which texts match, so lazy
    /// and greedy repetitions are the same.
    case ecma(dotIsAll: Bool)
    /// That of tokenizer.json: Oniguruma's and that of Rust's crates. Trees tell which match is preferred.
    case oniguruma
  }

  private let scalars: [UInt32]
  private let isECMA: Bool
  private var at = 0
  private var depth = 0
  private var ignoresCase = false
  private var dotIsAll: Bool

  private static let depthLimit = 48
  private static let lengthLimit = 20_000
  /// Larger counts are refused.
  private static let countLimit = 10_000
  /// Most repetitions of one thing: each is a level of the tree.
  private static let quantifierLimit = 8
  /// Most ranges of one class, before equal ones are joined; a letter of any script takes about 650.
  private static let rangeLimit = 40_000

  /// The tree of an expression of at most `lengthLimit` bytes.
  package static func parse(_ text: String, as notation: Notation) throws(RegexProblem) -> RegexTree {
    guard text.utf8.count <= lengthLimit else {
      throw .tooLarge("a regular expression has more than \(lengthLimit) bytes")
    }
    var parser = RegexParser(text, notation)
    let tree = try parser.parseChoice()
    guard parser.at == parser.scalars.count else { throw parser.problem("an unmatched ')'") }
    return tree
  }

  private init(_ text: String, _ notation: Notation) {
    scalars = text.unicodeScalars.map(\.value)
    switch notation {
    case .ecma(let dotIsAll): (isECMA, self.dotIsAll) = (true, dotIsAll)
    case .oniguruma: (isECMA, dotIsAll) = (false, false)
    }
  }

  private func problem(_ words: String) -> RegexProblem { .malformed(words, at: at) }

  private func unsupported(_ what: String, _ reason: String = "it is not a regular language") -> RegexProblem
  {
    .unsupported(what, at: at, reason: reason)
  }

  private var current: UInt32? { at < scalars.count ? scalars[at] : nil }

  private func isAt(_ text: StaticString) -> Bool {
    let wanted = "\(text)".unicodeScalars.map(\.value)
    return at + wanted.count <= scalars.count && scalars[at..<at + wanted.count].elementsEqual(wanted)
  }

  private mutating func take(_ text: StaticString) -> Bool {
    guard isAt(text) else { return false }
    at += "\(text)".unicodeScalars.count
    return true
  }

  /// The characters before `end`, and `end` itself.
  private mutating func name(before end: Unicode.Scalar) throws(RegexProblem) -> String {
    var name = String.UnicodeScalarView()
    while let scalar = current, scalar != end.value {
      Unicode.Scalar(scalar).map { name.append($0) }
      at += 1
    }
    guard current != nil else { throw problem("'\(end)' is missing") }
    at += 1
    return String(name)
  }

  // MARK: Trees

  private mutating func enter() throws(RegexProblem) {
    guard depth < Self.depthLimit else {
      throw .tooLarge("a regular expression is nested more than \(Self.depthLimit) deep")
    }
    depth += 1
  }

  private mutating func parseChoice() throws(RegexProblem) -> RegexTree {
    try enter()
    let flags = (ignoresCase, dotIsAll)
    defer {
      depth -= 1
      (ignoresCase, dotIsAll) = flags
    }
    var branches = [try parseSequence()]
    while take("|") { branches.append(try parseSequence()) }
    return branches.count == 1 ? branches[0] : .choice(branches)
  }

  private mutating func parseSequence() throws(RegexProblem) -> RegexTree {
    var parts: [RegexTree] = []
    while let scalar = current, scalar != 0x7C, scalar != 0x29 {
      let part = try quantified(try parseAtom(scalar))
      if case .empty = part { continue }
      parts.append(part)
    }
    return parts.count == 1 ? parts[0] : parts.isEmpty ? .empty : .sequence(parts)
  }

  /// The atom with the quantifiers that follow.
  private mutating func quantified(_ atom: RegexTree) throws(RegexProblem) -> RegexTree {
    var tree = atom
    var count = 0
    while true {
      let isCounted = isAt("{")
      guard let (min, max) = try quantifier() else { return tree }
      if isECMA, count > 0 { throw problem("nothing to repeat") }
      if isECMA, case .lookaround = atom { throw problem("a lookaround has nothing to repeat") }
      guard count < Self.quantifierLimit else {
        throw problem("more than \(Self.quantifierLimit) repetitions of one thing")
      }
      count += 1
      let isLazy = take("?")
      if case .empty = tree { continue }
      tree = .repeated(tree, min: min, max: max, isLazy: isLazy && !isECMA)
      // After a count in braces a plus is a quantifier of its own.
      if !isECMA, !isLazy, !isCounted, take("+") { tree = try atomic(tree) }
    }
  }

  private mutating func quantifier() throws(RegexProblem) -> (Int, Int?)? {
    if take("*") { return (0, nil) }
    if take("+") { return (1, nil) }
    if take("?") { return (0, 1) }
    let start = at
    guard take("{") else { return nil }
    let min = try number()
    var max = min
    if take(",") { max = try number() }
    guard min != nil || max != nil && !isECMA, take("}") else {
      at = start
      return nil
    }
    if let min, let max, max < min { throw problem("the numbers of the quantifier are out of order") }
    return (min ?? 0, max)
  }

  private mutating func number() throws(RegexProblem) -> Int? {
    var value: Int?
    while let scalar = current, (0x30...0x39).contains(scalar) {
      let next = (value ?? 0) * 10 + Int(scalar - 0x30)
      guard next <= Self.countLimit else {
        throw .tooLarge("a regular expression repeats more than \(Self.countLimit) times")
      }
      value = next
      at += 1
    }
    return value
  }

  private static let lineBreak = ScalarSet(0x0A)

  private static func look(_ tree: RegexTree, isAhead: Bool = true, isPositive: Bool = true) -> RegexTree {
    .lookaround(tree, isAhead: isAhead, isPositive: isPositive)
  }

  private mutating func parseAtom(_ scalar: UInt32) throws(RegexProblem) -> RegexTree {
    switch scalar {
    case 0x28: return try parseGroup()
    case 0x5B: return .set(try parseClass())
    case 0x2A, 0x2B, 0x3F: throw problem("nothing to repeat")
    default: at += 1
    }
    switch scalar {
    case 0x5C: return try parseEscape()
    case 0x2E:
      return .set(dotIsAll ? .all : (isECMA ? RegexClasses.lineBreaks : Self.lineBreak).inverted)
    case 0x5E where isECMA: return .start
    case 0x5E:
      let afterBreak = Self.look(.set(Self.lineBreak), isAhead: false)
      return .choice([.start, .sequence([afterBreak, Self.look(.end, isPositive: false)])])
    case 0x24 where isECMA: return .end
    case 0x24: return .choice([.end, Self.look(.set(Self.lineBreak))])
    default: return .set(folded(ScalarSet(scalar)))
    }
  }

  private func folded(_ set: ScalarSet) -> ScalarSet { ignoresCase ? set.ignoringCase : set }

  private mutating func parseGroup() throws(RegexProblem) -> RegexTree {
    at += 1
    for (mark, isAhead, isPositive) in [
      ("?=", true, true), ("?!", true, false), ("?<=", false, true), ("?<!", false, false),
    ] as [(StaticString, Bool, Bool)] where take(mark) {
      return Self.look(try restOfGroup(), isAhead: isAhead, isPositive: isPositive)
    }
    if take("?<") || take("?P<") {
      while let scalar = current, scalar != 0x3E { at += scalar == 0x29 ? scalars.count : 1 }
      guard take(">") else { throw problem("a group name without an end") }
      return try restOfGroup()
    }
    if !isECMA, take("?#") {
      _ = try name(before: ")")
      return .empty
    }
    if !isECMA, take("?>") { return try atomic(try restOfGroup()) }
    guard take("?") else { return try restOfGroup() }
    if isECMA, !isAt(":") { throw unsupported("a group with flags") }
    let before = (ignoresCase, dotIsAll)
    try parseFlags()
    // Without a colon, flags hold to the end of the group around them, which restores them.
    if take(")") { return .empty }
    guard take(":") else { throw problem("an unknown group") }
    defer { (ignoresCase, dotIsAll) = before }
    return try restOfGroup()
  }

  private mutating func restOfGroup() throws(RegexProblem) -> RegexTree {
    let inner = try parseChoice()
    guard take(")") else { throw problem("a '(' without a ')'") }
    return inner
  }

  private mutating func parseFlags() throws(RegexProblem) {
    var isOn = true
    while let scalar = current, scalar != 0x3A, scalar != 0x29 {
      at += 1
      switch Unicode.Scalar(scalar) {
      case "-": isOn = false
      case "i": ignoresCase = isOn
      case "s": dotIsAll = isOn
      case "u", "U": break
      default: throw problem("an unknown flag")
      }
    }
  }

  private func atomic(_ tree: RegexTree) throws(RegexProblem) -> RegexTree {
    guard let once = tree.atomic else {
      throw problem("a repetition that gives nothing back, of what matches in several ways or may be empty,")
    }
    return once
  }

  // MARK: Escapes

  private mutating func parseEscape() throws(RegexProblem) -> RegexTree {
    guard let letter = current.flatMap(Unicode.Scalar.init) else { throw problem("a '\\' at the end") }
    switch letter {
    case "b", "B":
      at += 1
      return .wordBorder(isECMA ? RegexClasses.word : SplitClasses.looseWord, isPositive: letter == "b")
    case "k", "1", "2", "3", "4", "5", "6", "7", "8", "9": throw unsupported("a backreference")
    default: return isECMA ? .set(try escapedSet()) : try parseOniguruma(letter)
    }
  }

  /// The escapes that ECMA 262 does not have.
  private mutating func parseOniguruma(_ letter: Unicode.Scalar) throws(RegexProblem) -> RegexTree {
    at += 1
    switch letter {
    case "w": return .set(SplitClasses.looseWord)
    case "W": return .set(SplitClasses.looseWord.inverted)
    case "A", "G": return .start
    case "z": return .end
    case "Z": return .choice([.end, Self.look(.sequence([.set(Self.lineBreak), .end]))])
    case "R":
      let pair = RegexTree.sequence([.set(ScalarSet(0x0D)), .set(Self.lineBreak)])
      return try atomic(.choice([pair, .set(ScalarSet([0x0A...0x0D, 0x85...0x85, 0x2028...0x2029]))]))
    case "g", "K", "X": throw unsupported("'\\\(letter)'")
    default:
      at -= 1
      return .set(folded(try escapedSet()))
    }
  }

  /// Letters that stand for one character after a backslash, and those that do so in Oniguruma alone.
  private static let controls: [Unicode.Scalar: UInt32] = [
    "0": 0, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13,
  ]
  private static let moreControls: [Unicode.Scalar: UInt32] = ["a": 7, "e": 27]

  /// What stands after a backslash, inside a class or outside.
  private mutating func escapedSet() throws(RegexProblem) -> ScalarSet {
    guard let letter = current.flatMap(Unicode.Scalar.init) else { throw problem("a '\\' at the end") }
    at += 1
    if let control = Self.controls[letter] ?? (isECMA ? nil : Self.moreControls[letter]) {
      return ScalarSet(control)
    }
    let set: ScalarSet
    switch letter {
    case "d", "D": set = isECMA ? RegexClasses.digits : SplitClasses.digit
    case "s", "S": set = isECMA ? RegexClasses.space : SplitClasses.space
    case "w", "W": set = isECMA ? RegexClasses.word : SplitClasses.word
    case "h" where !isECMA, "H" where !isECMA: set = SplitClasses.hexDigit
    case "p", "P": set = try property()
    case "x", "u": return ScalarSet(try codePoint(after: letter))
    case "c" where isECMA:
      guard let control = current, (0x41...0x5A).contains(control & ~0x20) else {
        throw problem("an unknown escape")
      }
      at += 1
      return ScalarSet(control & 0x1F)
    default:
      guard letter == "_" || !(isECMA ? RegexClasses.word : SplitClasses.word).contains(letter.value) else {
        at -= 1
        throw problem("an unknown escape")
      }
      return ScalarSet(letter.value)
    }
    return ("A"..."Z").contains(letter) ? set.inverted : set
  }

  /// What follows `\x` or `\u`: two or four digits, in Oniguruma at most so many, or any number in braces, which `\x` has in
  /// Oniguruma alone.
  private mutating func codePoint(after letter: Unicode.Scalar) throws(RegexProblem) -> UInt32 {
    let digits = letter == "x" ? 2 : 4
    if !isECMA || letter == "u", take("{") {
      let value = try hexadecimal(1...Int.max)
      guard take("}") else { throw problem("a '{' without a '}'") }
      return value
    }
    let first = try hexadecimal(isECMA ? digits...digits : 1...digits)
    guard (0xD800...0xDBFF).contains(first), isAt("\\u") else { return first }
    let start = at
    at += 2
    let second = try hexadecimal(4...4)
    guard (0xDC00...0xDFFF).contains(second) else {
      at = start
      return first
    }
    return 0x10000 + (first - 0xD800) << 10 + (second - 0xDC00)
  }

  private mutating func hexadecimal(_ count: ClosedRange<Int>) throws(RegexProblem) -> UInt32 {
    var value: UInt32 = 0
    let start = at
    while at - start < count.upperBound, let scalar = current, scalar < 0x80,
      let digit = Unicode.Scalar(scalar).flatMap({ Character($0).hexDigitValue })
    {
      value = value << 4 | UInt32(truncatingIfNeeded: digit)
      guard value <= 0x10FFFF else { throw problem("a character beyond U+10FFFF") }
      at += 1
    }
    guard at - start >= count.lowerBound else { throw problem("a hexadecimal digit is missing") }
    return value
  }

  /// `{L}`; in Oniguruma `{^L}` and one letter too.
  private mutating func property() throws(RegexProblem) -> ScalarSet {
    var text = ""
    if take("{") {
      text = try name(before: "}")
    } else if !isECMA, let scalar = current.flatMap(Unicode.Scalar.init) {
      text.unicodeScalars.append(scalar)
      at += 1
    } else {
      throw problem("a property name is missing")
    }
    let isInverted = !isECMA && text.first == "^"
    if isInverted { text.removeFirst() }
    guard let set = isECMA ? RegexClasses.property(text) : SplitClasses.property(text) else {
      throw unsupported(
        "\\p{\(text)}",
        "only general categories\(isECMA ? "" : ", scripts") and a few binary properties are known")
    }
    return isInverted ? set.inverted : set
  }

  // MARK: Classes

  private mutating func parseClass() throws(RegexProblem) -> ScalarSet {
    try enter()
    defer { depth -= 1 }
    at += 1
    let isInverted = take("^")
    var whole: ScalarSet?
    var ranges: [ClosedRange<UInt32>] = []
    // In Oniguruma a ']' directly after the '[' is a character.
    var isFirst = !isECMA
    while isFirst || current != 0x5D {
      guard ranges.count < Self.rangeLimit else {
        throw .tooLarge("a class of a regular expression has more than \(Self.rangeLimit) ranges")
      }
      if !isECMA, take("&&") {
        let part = ScalarSet(ranges)
        whole = whole?.intersection(part) ?? part
        ranges = []
      } else if !isECMA, isAt("[") {
        if let named = try posix() { ranges += named } else { ranges += try parseClass().ranges }
      } else {
        ranges += try classPart()
      }
      isFirst = false
    }
    at += 1
    let part = folded(ScalarSet(ranges))
    let set = whole.map { folded($0).intersection(part) } ?? part
    return isInverted ? set.inverted : set
  }

  /// A character, a range, or an escape.
  private mutating func classPart() throws(RegexProblem) -> [ClosedRange<UInt32>] {
    let first = try classAtom()
    guard isAt("-"), at + 1 < scalars.count, scalars[at + 1] != 0x5D, isECMA || scalars[at + 1] != 0x5B,
      isECMA || first.only != nil
    else { return first.ranges }
    at += 1
    let last = try classAtom()
    guard let low = first.only, let high = last.only else {
      // Annex B: a class such as \w at either side makes the dash a character.
      return first.ranges + last.ranges + [0x2D...0x2D]
    }
    guard low <= high else { throw problem("the range is out of order") }
    return [low...high]
  }

  private mutating func classAtom() throws(RegexProblem) -> ScalarSet {
    guard let scalar = current else { throw problem("a '[' without a ']'") }
    at += 1
    guard scalar == 0x5C else { return ScalarSet(scalar) }
    return take("b") ? ScalarSet(8) : try escapedSet()
  }

  /// `[:alpha:]` and `[:^alpha:]`; nil where it is none.
  private mutating func posix() throws(RegexProblem) -> [ClosedRange<UInt32>]? {
    guard isAt("[:") else { return nil }
    let start = at
    at += 2
    let isInverted = take("^")
    var name = ""
    while let scalar = current.flatMap(Unicode.Scalar.init), ("a"..."z").contains(scalar) {
      name.unicodeScalars.append(scalar)
      at += 1
    }
    guard take(":]") else {
      at = start
      return nil
    }
    guard let set = SplitClasses.posix(name) else { throw problem("the class '\(name)'") }
    return (isInverted ? set.inverted : set).ranges
  }
}

extension ScalarSet {
  /// The only member.
  fileprivate var only: UInt32? {
    guard ranges.count == 1, ranges[0].count == 1 else { return nil }
    return ranges[0].lowerBound
  }
}
