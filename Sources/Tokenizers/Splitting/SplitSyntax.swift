// The regular expressions of tokenizer.json as trees, in the notation of Oniguruma and of Rust's crates.

/// What an expression matches, in order of preference.
indirect enum SplitTree {
  case empty
  case set(ScalarSet)
  case sequence([SplitTree])
  /// The first that leads to a match is taken.
  case choice([SplitTree])
  case repeated(SplitTree, min: Int, max: Int?, isLazy: Bool)
  /// A tree that matches in one way at most, although its form does not show it.
  case once(SplitTree)
  /// Whether the tree matches directly after this place, or before it: lookahead and lookbehind.
  case look(SplitTree, isBehind: Bool, isNegative: Bool)
  /// The start or the end of the text.
  case edge(isStart: Bool)
}

/// Why an expression cannot be used.
struct SplitProblem: Error {
  let words: String
}

/// Reads one expression.
struct SplitParser {
  private let scalars: [UInt32]
  private var at = 0
  private var depth = 0
  private var ignoresCase = false
  private var dotIsAll = false

  private static let depthLimit = 64
  private static let lengthLimit = 20_000
  private static let countLimit = 1000
  private static let quantifierLimit = 8

  static func parse(_ text: String) throws(SplitProblem) -> SplitTree {
    guard text.utf8.count <= lengthLimit else {
      throw SplitProblem(words: "it has more than \(lengthLimit) bytes")
    }
    var parser = SplitParser(scalars: text.unicodeScalars.map(\.value))
    let tree = try parser.parseChoice()
    guard parser.at == parser.scalars.count else { throw parser.problem("an unmatched ')'") }
    return tree
  }

  private init(scalars: [UInt32]) { self.scalars = scalars }

  private func problem(_ words: String) -> SplitProblem {
    SplitProblem(words: "\(words) at character \(at + 1)")
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

  // MARK: Trees

  private mutating func parseChoice() throws(SplitProblem) -> SplitTree {
    guard depth < Self.depthLimit else {
      throw problem("more than \(Self.depthLimit) brackets inside each other")
    }
    depth += 1
    let flags = (ignoresCase, dotIsAll)
    defer {
      depth -= 1
      (ignoresCase, dotIsAll) = flags
    }
    var branches = [try parseSequence()]
    while take("|") { branches.append(try parseSequence()) }
    return branches.count == 1 ? branches[0] : .choice(branches)
  }

  private mutating func parseSequence() throws(SplitProblem) -> SplitTree {
    var parts: [SplitTree] = []
    while let scalar = current, scalar != 0x7C, scalar != 0x29 {
      var part = try parseAtom(scalar)
      var count = 0
      while let next = try quantified(part) {
        // Each is a level of the tree.
        guard count < Self.quantifierLimit else {
          throw problem("more than \(Self.quantifierLimit) repetitions of one thing")
        }
        part = next
        count += 1
      }
      parts.append(part)
    }
    return parts.count == 1 ? parts[0] : .sequence(parts)
  }

  /// The tree with the quantifier that follows; nil where there is none.
  private mutating func quantified(_ tree: SplitTree) throws(SplitProblem) -> SplitTree? {
    let isCounted = isAt("{")
    guard let (min, max) = try quantifier() else { return nil }
    if take("?") { return .repeated(tree, min: min, max: max, isLazy: true) }
    let greedy = SplitTree.repeated(tree, min: min, max: max, isLazy: false)
    // After a count in braces a plus is a quantifier of its own.
    guard !isCounted, take("+") else { return greedy }
    return try atomic(greedy)
  }

  private mutating func quantifier() throws(SplitProblem) -> (Int, Int?)? {
    if take("*") { return (0, nil) }
    if take("+") { return (1, nil) }
    if take("?") { return (0, 1) }
    let start = at
    guard take("{") else { return nil }
    let min = try number()
    var max = min
    if take(",") { max = try number() }
    guard min != nil || max != nil, take("}") else {
      at = start
      return nil
    }
    if let min, let max, max < min { throw problem("numbers out of order") }
    return (min ?? 0, max)
  }

  private mutating func number() throws(SplitProblem) -> Int? {
    var value: Int?
    while let scalar = current, (0x30...0x39).contains(scalar) {
      let next = (value ?? 0) * 10 + Int(scalar - 0x30)
      guard next <= Self.countLimit else { throw problem("a count above \(Self.countLimit)") }
      value = next
      at += 1
    }
    return value
  }

  private static var lineBreak: SplitTree { .set(ScalarSet([0x0A...0x0A])) }

  private static func look(_ tree: SplitTree, behind: Bool = false, not isNegative: Bool = false) -> SplitTree
  {
    .look(tree, isBehind: behind, isNegative: isNegative)
  }

  private mutating func parseAtom(_ scalar: UInt32) throws(SplitProblem) -> SplitTree {
    switch scalar {
    case 0x28: return try parseGroup()
    case 0x5B: return .set(try parseClass())
    case 0x5C:
      at += 1
      return try parseEscape()
    case 0x2A, 0x2B, 0x3F: throw problem("nothing to repeat")
    default: at += 1
    }
    switch scalar {
    case 0x2E: return .set(dotIsAll ? .all : ScalarSet([0x0A...0x0A]).inverted)
    case 0x5E:
      let inside = Self.look(.edge(isStart: false), not: true)
      return .choice([
        .edge(isStart: true), .sequence([Self.look(Self.lineBreak, behind: true), inside]),
      ])
    case 0x24: return .choice([.edge(isStart: false), Self.look(Self.lineBreak)])
    default: return .set(folded(ScalarSet([scalar...scalar])))
    }
  }

  private func folded(_ set: ScalarSet) -> ScalarSet { ignoresCase ? set.ignoringCase : set }

  private mutating func parseGroup() throws(SplitProblem) -> SplitTree {
    at += 1
    if take("?#") {
      while let scalar = current, scalar != 0x29 { at += 1 }
      return try closed(.empty)
    }
    if take("?>") {
      return try closed(try atomic(try parseChoice()))
    }
    for (mark, isBehind, isNegative) in [
      ("?=", false, false), ("?!", false, true), ("?<=", true, false), ("?<!", true, true),
    ] as [(StaticString, Bool, Bool)] where take(mark) {
      return try closed(.look(try parseChoice(), isBehind: isBehind, isNegative: isNegative))
    }
    if take("?<") || take("?P<") {
      while let scalar = current, scalar != 0x3E { at += scalar == 0x29 ? scalars.count : 1 }
      guard take(">") else { throw problem("a name without an end") }
    } else if take("?") {
      let before = (ignoresCase, dotIsAll)
      try parseFlags()
      // Without a colon, flags hold to the end of the group around them, which restores them.
      if take(")") { return .empty }
      guard take(":") else { throw problem("an unknown group") }
      defer { (ignoresCase, dotIsAll) = before }
      return try closed(try parseChoice())
    }
    return try closed(try parseChoice())
  }

  private mutating func closed(_ tree: SplitTree) throws(SplitProblem) -> SplitTree {
    guard take(")") else { throw problem("a '(' without a ')'") }
    return tree
  }

  private mutating func parseFlags() throws(SplitProblem) {
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

  private func atomic(_ tree: SplitTree) throws(SplitProblem) -> SplitTree {
    guard let once = tree.atomic else {
      throw problem("a repetition that gives nothing back, of what matches in several ways or may be empty,")
    }
    return once
  }

  // MARK: Escapes

  private mutating func parseEscape() throws(SplitProblem) -> SplitTree {
    guard let scalar = current else { throw problem("a '\\'") }
    switch Unicode.Scalar(scalar) {
    case "b", "B":
      at += 1
      let word = SplitTree.set(SplitClasses.looseWord)
      let isEdge = scalar == 0x62
      return .choice(
        [true, false].map { before in
          .sequence([
            Self.look(word, behind: true, not: !before), Self.look(word, not: before == isEdge),
          ])
        })
    case "w", "W":
      at += 1
      return .set(scalar == 0x77 ? SplitClasses.looseWord : SplitClasses.looseWord.inverted)
    case "A", "G":
      at += 1
      return .edge(isStart: true)
    case "z":
      at += 1
      return .edge(isStart: false)
    case "Z":
      at += 1
      return .choice([.edge(isStart: false), Self.look(.sequence([Self.lineBreak, .edge(isStart: false)]))])
    case "R":
      at += 1
      let pair = SplitTree.sequence([.set(ScalarSet([0x0D...0x0D])), Self.lineBreak])
      let one = SplitTree.set(ScalarSet([0x0A...0x0D, 0x85...0x85, 0x2028...0x2029]))
      return try atomic(.choice([pair, one]))
    case "k", "g", "K", "X", "1", "2", "3", "4", "5", "6", "7", "8", "9":
      throw problem("what is no regular language")
    default: return .set(folded(try escapedSet()))
    }
  }

  /// What stands after a backslash, inside a class or outside.
  private mutating func escapedSet() throws(SplitProblem) -> ScalarSet {
    guard let scalar = current else { throw problem("a '\\'") }
    at += 1
    switch Unicode.Scalar(scalar) {
    case "d": return SplitClasses.digit
    case "D": return SplitClasses.digit.inverted
    case "s": return SplitClasses.space
    case "S": return SplitClasses.space.inverted
    case "w": return SplitClasses.word
    case "W": return SplitClasses.word.inverted
    case "h": return SplitClasses.hexDigit
    case "H": return SplitClasses.hexDigit.inverted
    case "p": return try property()
    case "P": return try property().inverted
    case "n": return ScalarSet([10...10])
    case "t": return ScalarSet([9...9])
    case "r": return ScalarSet([13...13])
    case "f": return ScalarSet([12...12])
    case "v": return ScalarSet([11...11])
    case "a": return ScalarSet([7...7])
    case "e": return ScalarSet([27...27])
    case "0": return ScalarSet([0...0])
    case "x", "u":
      let value = take("{") ? try hex(upTo: 8) : try hex(upTo: scalar == 0x78 ? 2 : 4)
      if current == 0x7D { at += 1 }
      guard value <= 0x10FFFF else { throw problem("a character beyond U+10FFFF") }
      return ScalarSet([value...value])
    default:
      guard !RegexClasses.word.contains(scalar) || scalar == 0x5F else { throw problem("an unknown escape") }
      return ScalarSet([scalar...scalar])
    }
  }

  private mutating func hex(upTo most: Int) throws(SplitProblem) -> UInt32 {
    var value: UInt32 = 0
    var count = 0
    while count < most, let scalar = current, scalar < 0x80,
      let digit = Unicode.Scalar(scalar).flatMap({ Character($0).hexDigitValue })
    {
      value = value &<< 4 | UInt32(truncatingIfNeeded: digit)
      count += 1
      at += 1
    }
    guard count > 0 else { throw problem("no hexadecimal digit") }
    return value
  }

  /// `{L}`, `{^L}`, or one letter.
  private mutating func property() throws(SplitProblem) -> ScalarSet {
    var name = String.UnicodeScalarView()
    if take("{") {
      while let scalar = current, scalar != 0x7D {
        Unicode.Scalar(scalar).map { name.append($0) }
        at += 1
      }
      guard take("}") else { throw problem("a '{' without a '}'") }
    } else if let scalar = current.flatMap({ Unicode.Scalar($0) }) {
      name.append(scalar)
      at += 1
    }
    let isInverted = name.first == "^"
    if isInverted { name.removeFirst() }
    guard let set = SplitClasses.property(String(name)) else {
      throw problem("the property '\(String(name))'")
    }
    return isInverted ? set.inverted : set
  }

  // MARK: Classes

  private mutating func parseClass() throws(SplitProblem) -> ScalarSet {
    guard depth < Self.depthLimit else {
      throw problem("more than \(Self.depthLimit) brackets inside each other")
    }
    depth += 1
    defer { depth -= 1 }
    at += 1
    let isInverted = take("^")
    var whole: ScalarSet?
    var ranges: [ClosedRange<UInt32>] = []
    var isFirst = true
    while isFirst || current != 0x5D {
      guard let scalar = current else { throw problem("a '[' without a ']'") }
      if take("&&") {
        let part = ScalarSet(ranges)
        whole = whole?.intersection(part) ?? part
        ranges = []
      } else if scalar == 0x5B {
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
  private mutating func classPart() throws(SplitProblem) -> [ClosedRange<UInt32>] {
    let first = try classAtom()
    guard current == 0x2D, at + 1 < scalars.count, scalars[at + 1] != 0x5D, scalars[at + 1] != 0x5B,
      first.ranges.count == 1, let low = first.ranges.first?.lowerBound, first.ranges.first?.upperBound == low
    else { return first.ranges }
    at += 1
    let last = try classAtom()
    guard last.ranges.count == 1, let high = last.ranges.first?.lowerBound,
      last.ranges.first?.upperBound == high
    else { return first.ranges + [0x2D...0x2D] + last.ranges }
    guard low <= high else { throw problem("a range out of order") }
    return [low...high]
  }

  private mutating func classAtom() throws(SplitProblem) -> ScalarSet {
    guard let scalar = current else { throw problem("a '[' without a ']'") }
    at += 1
    guard scalar == 0x5C else { return ScalarSet([scalar...scalar]) }
    if take("b") { return ScalarSet([8...8]) }
    return try escapedSet()
  }

  /// `[:alpha:]` and `[:^alpha:]`; nil where it is none.
  private mutating func posix() throws(SplitProblem) -> [ClosedRange<UInt32>]? {
    guard isAt("[:") else { return nil }
    let start = at
    at += 2
    let isInverted = take("^")
    var name = String.UnicodeScalarView()
    while let scalar = current.flatMap({ Unicode.Scalar($0) }), ("a"..."z").contains(scalar) {
      name.append(scalar)
      at += 1
    }
    guard take(":]") else {
      at = start
      return nil
    }
    guard let set = SplitClasses.posix(String(name)) else { throw problem("the class '\(String(name))'") }
    return (isInverted ? set.inverted : set).ranges
  }
}
