// GBNF grammars: rules of literals, classes and repetitions, as llama.cpp reads them.

/// The right side of a rule.
indirect enum GBNFTree {
  case set(ScalarSet)
  case literal([Unicode.Scalar])
  case rule(String)
  case sequence([GBNFTree])
  case choice([GBNFTree])
  case repeated(GBNFTree, min: Int, max: Int?)
}

struct GBNFParser {
  private let scalars: [Unicode.Scalar]
  private var at = 0
  private var depth = 0

  static let lengthLimit = 200_000
  private static let depthLimit = 48

  /// Rules by name, and the order in which they stand.
  static func parse(_ text: String) throws(GrammarError) -> (rules: [String: GBNFTree], names: [String]) {
    guard text.utf8.count <= lengthLimit else {
      throw .tooLarge(reason: "the grammar has more than \(lengthLimit) bytes")
    }
    var parser = GBNFParser(scalars: Array(text.unicodeScalars))
    var rules: [String: GBNFTree] = [:]
    var names: [String] = []
    parser.skipSpace(lines: true)
    while parser.at < parser.scalars.count {
      let name = try parser.name()
      parser.skipSpace(lines: false)
      guard parser.take("::=") else { throw parser.problem("'::=' is missing") }
      parser.skipSpace(lines: true)
      guard rules[name] == nil else { throw parser.problem("the rule '\(name)' stands twice") }
      rules[name] = try parser.parseChoice(lines: false)
      names.append(name)
      if parser.at < parser.scalars.count, !parser.isAtLineEnd {
        throw parser.problem("text that is no part of a rule")
      }
      parser.skipSpace(lines: true)
    }
    return (rules, names)
  }

  private init(scalars: [Unicode.Scalar]) { self.scalars = scalars }

  private func problem(_ words: String) -> GrammarError {
    let line = scalars[..<min(at, scalars.count)].reduce(1) { $0 + ($1 == "\n" ? 1 : 0) }
    return .malformed(path: "line \(line), character \(at + 1) of the grammar", reason: words)
  }

  private var current: Unicode.Scalar? { at < scalars.count ? scalars[at] : nil }
  private var isAtLineEnd: Bool { current == "\n" || current == "\r" }

  private mutating func take(_ text: String) -> Bool {
    let wanted = Array(text.unicodeScalars)
    guard at + wanted.count <= scalars.count, scalars[at..<at + wanted.count].elementsEqual(wanted) else {
      return false
    }
    at += wanted.count
    return true
  }

  /// White space and comments.
  private mutating func skipSpace(lines: Bool) {
    while let scalar = current {
      if scalar == "#" {
        while let scalar = current, scalar != "\n", scalar != "\r" { at += 1 }
      } else if scalar == " " || scalar == "\t" || lines && (scalar == "\n" || scalar == "\r") {
        at += 1
      } else {
        return
      }
    }
  }

  private static func isName(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar {
    case "a"..."z", "A"..."Z", "0"..."9", "-", "_": true
    default: false
    }
  }

  private mutating func name() throws(GrammarError) -> String {
    var name = String.UnicodeScalarView()
    while let scalar = current, Self.isName(scalar) {
      name.append(scalar)
      at += 1
    }
    guard !name.isEmpty else { throw problem("the name of a rule is missing") }
    return String(name)
  }

  private mutating func parseChoice(lines: Bool) throws(GrammarError) -> GBNFTree {
    guard depth < Self.depthLimit else {
      throw .tooLarge(reason: "the grammar is nested more than \(Self.depthLimit) deep")
    }
    depth += 1
    defer { depth -= 1 }
    var branches = [try parseSequence(lines: lines)]
    while take("|") {
      skipSpace(lines: true)
      branches.append(try parseSequence(lines: lines))
    }
    return branches.count == 1 ? branches[0] : .choice(branches)
  }

  private mutating func parseSequence(lines: Bool) throws(GrammarError) -> GBNFTree {
    var parts: [GBNFTree] = []
    while let scalar = current, scalar != "|", scalar != ")", !isAtLineEnd {
      var part = try parseAtom(scalar)
      while let (min, max) = try quantifier() { part = .repeated(part, min: min, max: max) }
      parts.append(part)
      skipSpace(lines: lines)
    }
    return parts.count == 1 ? parts[0] : .sequence(parts)
  }

  private mutating func parseAtom(_ scalar: Unicode.Scalar) throws(GrammarError) -> GBNFTree {
    switch scalar {
    case "\"": return .literal(try literal())
    case "[": return .set(try characterClass())
    case ".":
      at += 1
      return .set(.all)
    case "(":
      at += 1
      skipSpace(lines: true)
      let inner = try parseChoice(lines: true)
      guard take(")") else { throw problem("a '(' without a ')'") }
      return inner
    default:
      guard Self.isName(scalar) else { throw problem("an unexpected '\(scalar)'") }
      return .rule(try name())
    }
  }

  private mutating func quantifier() throws(GrammarError) -> (Int, Int?)? {
    if take("*") { return (0, nil) }
    if take("+") { return (1, nil) }
    if take("?") { return (0, 1) }
    guard take("{") else { return nil }
    skipSpace(lines: false)
    let min = try number()
    skipSpace(lines: false)
    var max = min
    if take(",") {
      skipSpace(lines: false)
      max = try number()
      skipSpace(lines: false)
    } else if min == nil {
      throw problem("a number is missing")
    }
    guard take("}") else { throw problem("a '{' without a '}'") }
    if let max, max < min ?? 0 { throw problem("the numbers of the repetition are out of order") }
    return (min ?? 0, max)
  }

  private mutating func number() throws(GrammarError) -> Int? {
    var value: Int?
    while let scalar = current, ("0"..."9").contains(scalar) {
      value = (value ?? 0) * 10 + Int(scalar.value - 0x30)
      guard value ?? 0 <= 1_000_000 else {
        throw .tooLarge(reason: "the grammar repeats more than 1000000 times")
      }
      at += 1
    }
    return value
  }

  private mutating func escape() throws(GrammarError) -> Unicode.Scalar {
    guard let scalar = current else { throw problem("a '\\' at the end") }
    at += 1
    switch scalar {
    case "n": return "\n"
    case "t": return "\t"
    case "r": return "\r"
    case "x": return try hex(2)
    case "u": return try hex(4)
    case "U": return try hex(8)
    case "\\", "\"", "[", "]", "-", "^": return scalar
    default: throw problem("an unknown escape")
    }
  }

  private mutating func hex(_ digits: Int) throws(GrammarError) -> Unicode.Scalar {
    var value: UInt32 = 0
    for _ in 0..<digits {
      guard let scalar = current, scalar.isASCII, let digit = Character(scalar).hexDigitValue else {
        throw problem("a hexadecimal digit is missing")
      }
      value = value &<< 4 | UInt32(truncatingIfNeeded: digit)
      at += 1
    }
    guard let scalar = Unicode.Scalar(value) else { throw problem("no Unicode character has this number") }
    return scalar
  }

  private mutating func literal() throws(GrammarError) -> [Unicode.Scalar] {
    at += 1
    var out: [Unicode.Scalar] = []
    while let scalar = current, scalar != "\"" {
      guard !isAtLineEnd else { break }
      at += 1
      out.append(scalar == "\\" ? try escape() : scalar)
    }
    guard take("\"") else { throw problem("a literal without an end") }
    return out
  }

  private mutating func characterClass() throws(GrammarError) -> ScalarSet {
    at += 1
    let isInverted = take("^")
    var ranges: [ClosedRange<UInt32>] = []
    func member(_ parser: inout GBNFParser) throws(GrammarError) -> UInt32 {
      guard let scalar = parser.current else { throw parser.problem("a '[' without a ']'") }
      parser.at += 1
      return scalar == "\\" ? try parser.escape().value : scalar.value
    }
    while current != "]" {
      let low = try member(&self)
      guard current == "-", at + 1 < scalars.count, scalars[at + 1] != "]" else {
        ranges.append(low...low)
        continue
      }
      at += 1
      let high = try member(&self)
      guard low <= high else { throw problem("the range is out of order") }
      ranges.append(low...high)
    }
    at += 1
    let set = ScalarSet(ranges)
    return isInverted ? set.inverted : set
  }
}
