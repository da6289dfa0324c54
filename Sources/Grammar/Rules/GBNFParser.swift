// GBNF grammars: rules of literals, classes and repetitions, as llama.cpp reads them.

import Tokenizers

/// Reads one grammar.
struct GBNFParser {
  private var text: GrammarText
  private var depth = 0

  static func parse(_ text: String) throws(GrammarError) -> RuleSet {
    var parser = GBNFParser(text: try GrammarText(text, escapes: escapes))
    var out = RuleSet(root: "root")
    parser.skipSpace(lines: true)
    while !parser.text.isAtEnd {
      let name = try parser.name()
      parser.skipSpace(lines: false)
      guard parser.text.take("::=") else { throw parser.text.problem("'::=' is missing") }
      parser.skipSpace(lines: true)
      guard out.rules[name] == nil else { throw parser.text.problem("the rule '\(name)' stands twice") }
      out.rules[name] = try parser.parseChoice(lines: false)
      out.names.append(name)
      if !parser.text.isAtEnd, !parser.text.isAtLineEnd {
        throw parser.text.problem("text that is not part of a rule")
      }
      parser.skipSpace(lines: true)
    }
    return out
  }

  private init(text: GrammarText) { self.text = text }

  /// White space and comments.
  private mutating func skipSpace(lines: Bool) {
    while let scalar = text.current {
      if scalar == "#" {
        while let scalar = text.current, scalar != "\n", scalar != "\r" { text.at += 1 }
      } else if scalar == " " || scalar == "\t" || lines && (scalar == "\n" || scalar == "\r") {
        text.at += 1
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
    let name = text.take(while: Self.isName)
    guard !name.isEmpty else { throw text.problem("the name of a rule is missing") }
    return name
  }

  private mutating func parseChoice(lines: Bool) throws(GrammarError) -> RuleTree {
    guard depth < GrammarText.depthLimit else { throw GrammarText.tooDeep() }
    depth += 1
    defer { depth -= 1 }
    var branches = [try parseSequence(lines: lines)]
    while text.take("|") {
      skipSpace(lines: true)
      branches.append(try parseSequence(lines: lines))
    }
    return branches.count == 1 ? branches[0] : .choice(branches)
  }

  private mutating func parseSequence(lines: Bool) throws(GrammarError) -> RuleTree {
    var parts: [RuleTree] = []
    while let scalar = text.current, scalar != "|", scalar != ")", !text.isAtLineEnd {
      var part = try parseAtom(scalar)
      while let (min, max) = try quantifier() { part = .repeated(part, min: min, max: max) }
      parts.append(part)
      skipSpace(lines: lines)
    }
    return parts.count == 1 ? parts[0] : .sequence(parts)
  }

  private mutating func parseAtom(_ scalar: Unicode.Scalar) throws(GrammarError) -> RuleTree {
    switch scalar {
    case "\"": return .literal(try text.quoted())
    case "[": return .set(try characterClass())
    case ".":
      text.at += 1
      return .set(.all)
    case "(":
      text.at += 1
      skipSpace(lines: true)
      let inner = try parseChoice(lines: true)
      guard text.take(")") else { throw text.problem("a '(' without a ')'") }
      return inner
    default:
      guard Self.isName(scalar) else { throw text.problem("an unexpected '\(scalar)'") }
      return .rule(try name())
    }
  }

  private mutating func quantifier() throws(GrammarError) -> (Int, Int?)? {
    if text.take("*") { return (0, nil) }
    if text.take("+") { return (1, nil) }
    if text.take("?") { return (0, 1) }
    return text.take("{") ? try text.bounds() : nil
  }

  /// What may stand after a backslash, but for numbers.
  private static let escapes: [Unicode.Scalar: Unicode.Scalar] = [
    "n": "\n", "t": "\t", "r": "\r", "\\": "\\", "\"": "\"", "[": "[", "]": "]", "-": "-", "^": "^",
  ]

  private mutating func characterClass() throws(GrammarError) -> ScalarSet {
    text.at += 1
    let isInverted = text.take("^")
    var ranges: [ClosedRange<UInt32>] = []
    func member(_ parser: inout GBNFParser) throws(GrammarError) -> UInt32 {
      guard let scalar = parser.text.current else { throw parser.text.problem("a '[' without a ']'") }
      parser.text.at += 1
      return scalar == "\\" ? try parser.text.escape().value : scalar.value
    }
    while text.current != "]" {
      let low = try member(&self)
      guard text.current == "-", text.at + 1 < text.scalars.count, text.scalars[text.at + 1] != "]" else {
        ranges.append(low...low)
        continue
      }
      text.at += 1
      let high = try member(&self)
      guard low <= high else { throw text.problem("the range is out of order") }
      ranges.append(low...high)
    }
    text.at += 1
    let set = ScalarSet(ranges)
    return isInverted ? set.inverted : set
  }
}
