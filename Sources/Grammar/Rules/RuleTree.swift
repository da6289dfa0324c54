// The rules of a grammar as trees, whatever notation they were written in.

import JSON
import Tokenizers

/// The right side of a rule.
indirect enum RuleTree {
  case set(ScalarSet)
  case literal([Unicode.Scalar])
  case rule(String)
  case sequence([RuleTree])
  case choice([RuleTree])
  case repeated(RuleTree, min: Int, max: Int?)
  /// What a regular expression matches as a whole.
  case expression(RegexTree)
  /// The JSON text of what a schema allows.
  case schema(JSONValue)
  /// Exactly this token.
  case token(Int32)
  /// Exactly the special token of this spelling.
  case special(String)
  /// The texts that all have, of terminals.
  case both([RuleTree])
  /// The texts that a terminal does not have.
  case other(than: RuleTree)

  static var empty: RuleTree { .sequence([]) }

  /// The trees that it consists of, itself counted.
  var size: Int {
    switch self {
    case .set, .literal, .rule, .expression, .schema, .token, .special: 1
    case .sequence(let parts), .choice(let parts), .both(let parts): parts.reduce(1) { $0 + $1.size }
    case .repeated(let inner, _, _), .other(let inner): 1 + inner.size
    }
  }
}

/// The rules of one grammar.
struct RuleSet {
  var rules: [String: RuleTree] = [:]
  /// In the order in which they stand.
  var names: [String] = []
  /// The rule that an answer derives from.
  var root: String
}

/// The text of a grammar while it is read.
struct GrammarText {
  let scalars: [Unicode.Scalar]
  /// What stands for what after a backslash, but for numbers.
  private let escapes: [Unicode.Scalar: Unicode.Scalar]
  var at = 0

  static let lengthLimit = 200_000
  /// Most rounds of a repetition that is written as a number.
  static let countLimit = 1_000_000
  /// Most brackets inside each other.
  static let depthLimit = 48

  init(_ text: String, escapes: [Unicode.Scalar: Unicode.Scalar]) throws(GrammarError) {
    guard text.utf8.count <= Self.lengthLimit else {
      throw .tooLarge(reason: "the grammar has more than \(Self.lengthLimit) bytes")
    }
    scalars = Array(text.unicodeScalars)
    self.escapes = escapes
  }

  func problem(_ words: String) -> GrammarError { .malformed(path: place, reason: words) }

  func unsupported(_ what: String, _ reason: String) -> GrammarError {
    .unsupported(keyword: what, path: place, reason: reason)
  }

  private var place: String {
    let line = scalars[..<min(at, scalars.count)].reduce(1) { $0 + ($1 == "\n" ? 1 : 0) }
    return "line \(line), character \(at + 1) of the grammar"
  }

  static func tooDeep() -> GrammarError {
    .tooLarge(reason: "the grammar is nested more than \(depthLimit) deep")
  }

  var current: Unicode.Scalar? { at < scalars.count ? scalars[at] : nil }
  var isAtEnd: Bool { at >= scalars.count }
  var isAtLineEnd: Bool { current == "\n" || current == "\r" }

  func isAt(_ text: String) -> Bool {
    var place = at
    for scalar in text.unicodeScalars {
      guard place < scalars.count, scalars[place] == scalar else { return false }
      place += 1
    }
    return true
  }

  mutating func take(_ text: String) -> Bool {
    guard isAt(text) else { return false }
    at += text.unicodeScalars.count
    return true
  }

  /// The scalars from here on for which `isPart` holds.
  mutating func take(while isPart: (Unicode.Scalar) -> Bool) -> String {
    var taken = String.UnicodeScalarView()
    while let scalar = current, isPart(scalar) {
      taken.append(scalar)
      at += 1
    }
    return String(taken)
  }

  /// What stands after a backslash.
  mutating func escape() throws(GrammarError) -> Unicode.Scalar {
    guard let scalar = current else { throw problem("a '\\' at the end") }
    at += 1
    switch scalar {
    case "x": return try hex(2)
    case "u": return try hex(4)
    case "U": return try hex(8)
    default:
      guard let escaped = escapes[scalar] else { throw problem("an unknown escape") }
      return escaped
    }
  }

  /// A literal in double quotes, within a line.
  mutating func quoted() throws(GrammarError) -> [Unicode.Scalar] {
    at += 1
    var out: [Unicode.Scalar] = []
    while let scalar = current, scalar != "\"", !isAtLineEnd {
      at += 1
      out.append(scalar == "\\" ? try escape() : scalar)
    }
    guard take("\"") else { throw problem("a literal without an end") }
    return out
  }

  /// A number of rounds; nil where there is no digit.
  mutating func number() throws(GrammarError) -> Int? {
    var value: Int?
    while let scalar = current, ("0"..."9").contains(scalar) {
      let next = (value ?? 0) * 10 + Int(scalar.value - 0x30)
      guard next <= Self.countLimit else {
        throw .tooLarge(reason: "the grammar repeats more than \(Self.countLimit) times")
      }
      value = next
      at += 1
    }
    return value
  }

  /// What stands between the braces of `{m}`, `{m,}`, `{,n}` and `{m,n}`, the first of which is taken already.
  mutating func bounds() throws(GrammarError) -> (min: Int, max: Int?) {
    skipBlanks()
    let min = try number()
    skipBlanks()
    var max = min
    if take(",") {
      skipBlanks()
      max = try number()
      skipBlanks()
    } else if min == nil {
      throw problem("a number is missing")
    }
    guard take("}") else { throw problem("a '{' without a '}'") }
    if let max, max < min ?? 0 { throw problem("the numbers of the repetition are out of order") }
    return (min ?? 0, max)
  }

  mutating func skipBlanks() { while current == " " || current == "\t" { at += 1 } }

  /// A scalar by its number, in this many hexadecimal digits.
  mutating func hex(_ digits: Int) throws(GrammarError) -> Unicode.Scalar {
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
}
