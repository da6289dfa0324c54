// Lark grammars as LLGuidance and OpenAI's custom tools read them.

import JSON
import Tokenizers

/// Reads one grammar. What Lark's lexer decides by priority and longest match is left open: an answer derives from the
/// rules with any division into terminals.
struct LarkParser {
  private var text: GrammarText
  private var depth = 0
  private var out = RuleSet(root: "start")
  /// What `%ignore` names; it may stand before the first terminal and after each.
  private var ignored: [RuleTree] = []
  /// Whether the right side that is read is that of a terminal: `%ignore` does not reach into it.
  private var isTerminal = false

  /// The rule of what `%ignore` names; no rule of a grammar has this name.
  private static let gap = "%ignore"

  static func parse(_ text: String) throws(GrammarError) -> RuleSet {
    var parser = LarkParser(text: try GrammarText(text, escapes: escapes))
    parser.skipSpace(lines: true)
    while !parser.text.isAtEnd {
      try parser.parseStatement()
      parser.skipSpace(lines: false)
      guard parser.text.isAtEnd || parser.text.isAtLineEnd else {
        throw parser.text.problem("text that is not part of a rule")
      }
      parser.skipSpace(lines: true)
    }
    try parser.finish()
    return parser.out
  }

  private init(text: GrammarText) { self.text = text }

  private mutating func finish() throws(GrammarError) {
    guard out.rules["start"] != nil else {
      throw .malformed(path: "the grammar", reason: "there is no rule 'start'")
    }
    define(Self.gap, .repeated(.choice(ignored), min: 0, max: ignored.isEmpty ? 0 : nil))
    define("%start", .sequence([.rule(Self.gap), .rule("start")]))
    out.root = "%start"
  }

  private mutating func define(_ name: String, _ tree: RuleTree) {
    if out.rules.updateValue(tree, forKey: name) == nil { out.names.append(name) }
  }

  // MARK: Statements

  /// White space and comments.
  private mutating func skipSpace(lines: Bool) {
    while let scalar = text.current {
      if scalar == "#" || text.isAt("//") {
        while text.current != nil, !text.isAtLineEnd { text.at += 1 }
      } else if scalar == " " || scalar == "\t" || lines && text.isAtLineEnd {
        text.at += 1
      } else {
        return
      }
    }
  }

  private static func isName(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar {
    case "a"..."z", "A"..."Z", "0"..."9", "_": true
    // LLGuidance allows it, Lark does not.
    case "-": true
    default: false
    }
  }

  private mutating func name() throws(GrammarError) -> String {
    let name = text.take { Self.isName($0) && $0 != "-" }
    guard !name.isEmpty else { throw text.problem("the name of a rule or terminal is missing") }
    return name
  }

  /// Terminals have names of upper-case letters.
  private static func isTerminalName(_ name: String) -> Bool {
    name.utf8.first { $0 != 0x5F }.map { (0x41...0x5A).contains($0) } ?? false
  }

  private mutating func parseStatement() throws(GrammarError) {
    guard !text.take("%") else { return try parseDirective() }
    // These shape Lark's tree, which an answer does not have.
    while text.take("?") || text.take("!") {}
    let name = try name()
    if text.isAt("{") { throw text.unsupported("a template", "write its rules out") }
    try parseAttributes()
    if text.take(".") {
      _ = text.take("-")
      guard try text.number() != nil else { throw text.problem("the priority is not a number") }
    }
    skipSpace(lines: false)
    guard text.take(":") else { throw text.problem("':' is missing") }
    guard out.rules[name] == nil else { throw text.problem("the rule '\(name)' stands twice") }
    isTerminal = Self.isTerminalName(name)
    skipSpace(lines: false)
    // An empty first line before a list of alternatives is layout.
    let start = text.at
    skipSpace(lines: true)
    if text.at == start || !text.take("|") { text.at = start }
    define(name, try parseChoice(isOpen: false))
  }

  /// `[capture]` and `[capture="name"]` say what a program wants to keep of the answer. The others would change it.
  private mutating func parseAttributes() throws(GrammarError) {
    guard text.take("[") else { return }
    repeat {
      skipSpace(lines: true)
      let name = try name()
      switch name {
      case "capture": break
      case "max_tokens":
        throw text.unsupported("the attribute 'max_tokens'", "count characters, as in /.{0,80}/")
      case "stop", "suffix", "lazy":
        throw text.unsupported("the attribute '\(name)'", "leave its text out of the rule, as in /[^\\n]*/")
      default: throw text.unsupported("the attribute '\(name)' of a rule", "only 'capture' is known")
      }
      skipSpace(lines: true)
      guard text.take("=") else { continue }
      skipSpace(lines: true)
      if text.take("\"") {
        while let scalar = text.current, scalar != "\"", !text.isAtLineEnd { text.at += 1 }
        guard text.take("\"") else { throw text.problem("a string without an end") }
      } else {
        _ = try self.name()
      }
      skipSpace(lines: true)
    } while text.take(",")
    guard text.take("]") else { throw text.problem("a '[' without a ']'") }
  }

  private mutating func parseDirective() throws(GrammarError) {
    let directive = text.take(while: Self.isName)
    skipSpace(lines: false)
    switch directive {
    case "import": try parseImport()
    case "ignore":
      isTerminal = true
      ignored.append(try parseChoice(isOpen: false))
    case "llguidance":
      // Options of its lexer.
      while text.current != nil, !text.isAtLineEnd { text.at += 1 }
    default:
      throw text.unsupported("%\(directive)", "only %import, %ignore and, inside rules, %json are known")
    }
  }

  /// `%import common.NAME`, `%import common.NAME -> NEW` and `%import common (A, B)`.
  private mutating func parseImport() throws(GrammarError) {
    guard text.take("common") else {
      throw text.unsupported("%import", "only 'common' can be imported, nothing is read from files")
    }
    skipSpace(lines: false)
    if text.take("(") {
      repeat {
        skipSpace(lines: true)
        let name = try name()
        try add(common: name, as: name)
        skipSpace(lines: true)
      } while text.take(",")
      guard text.take(")") else { throw text.problem("a '(' without a ')'") }
      return
    }
    guard text.take(".") else { throw text.problem("'.' is missing") }
    let known = try name()
    skipSpace(lines: false)
    var alias = known
    if text.take("->") {
      skipSpace(lines: false)
      alias = try name()
    }
    try add(common: known, as: alias)
  }

  private mutating func add(common name: String, as alias: String) throws(GrammarError) {
    guard let expression = LarkTerminals.expression(name) else {
      throw text.problem("'common' has no terminal '\(name)'")
    }
    define(alias, .expression(try RegexParser.parse(expression)))
  }

  // MARK: Right sides

  /// - Parameter isOpen: whether brackets are open, inside which lines do not end.
  private mutating func parseChoice(isOpen: Bool) throws(GrammarError) -> RuleTree {
    guard depth < GrammarText.depthLimit else { throw GrammarText.tooDeep() }
    depth += 1
    defer { depth -= 1 }
    var branches = [try parseBoth(isOpen: isOpen)]
    while isNext("|", isOpen: isOpen) { branches.append(try parseBoth(isOpen: isOpen)) }
    return branches.count == 1 ? branches[0] : .choice(branches)
  }

  /// Terminals of which a text must be all.
  private mutating func parseBoth(isOpen: Bool) throws(GrammarError) -> RuleTree {
    var parts = [try parseSequence(isOpen: isOpen)]
    while isNext("&", isOpen: isOpen) {
      try checkTerminal("&")
      parts.append(try parseSequence(isOpen: isOpen))
    }
    return parts.count == 1 ? parts[0] : .both(parts)
  }

  private func checkTerminal(_ sign: String) throws(GrammarError) {
    guard isTerminal else {
      throw text.unsupported(
        "\(sign) in a rule", "it stands in terminals, whose names are of upper-case letters")
    }
  }

  /// Takes a sign between alternatives, which may stand on a line of its own, and the space after it.
  private mutating func isNext(_ sign: String, isOpen: Bool) -> Bool {
    let start = text.at
    skipSpace(lines: true)
    guard text.take(sign) else {
      if !isOpen { text.at = start }
      return false
    }
    skipSpace(lines: true)
    return true
  }

  private mutating func parseSequence(isOpen: Bool) throws(GrammarError) -> RuleTree {
    var parts: [RuleTree] = []
    skipSpace(lines: isOpen)
    while let scalar = text.current, !"|&)]".unicodeScalars.contains(scalar), !text.isAtLineEnd {
      if text.take("->") {
        skipSpace(lines: isOpen)
        _ = try name()
      } else {
        parts.append(try quantified(try parseAtom(scalar)))
      }
      skipSpace(lines: isOpen)
    }
    return parts.count == 1 ? parts[0] : .sequence(parts)
  }

  private mutating func quantified(_ atom: RuleTree) throws(GrammarError) -> RuleTree {
    var tree = atom
    while true {
      if text.take("*") {
        tree = .repeated(tree, min: 0, max: nil)
      } else if text.take("+") {
        tree = .repeated(tree, min: 1, max: nil)
      } else if text.take("?") {
        tree = .repeated(tree, min: 0, max: 1)
      } else if text.take("{") {
        let (min, max) = try text.bounds()
        tree = .repeated(tree, min: min, max: max)
      } else {
        // Without a number, the sign says what the next terminal is not.
        let start = text.at
        skipSpace(lines: false)
        guard text.take("~"), let counted = try counted(tree) else {
          text.at = start
          return tree
        }
        tree = counted
      }
    }
  }

  /// `~ n` and `~ n..m`, after the `~`; nil without a number.
  private mutating func counted(_ tree: RuleTree) throws(GrammarError) -> RuleTree? {
    skipSpace(lines: false)
    guard let min = try text.number() else { return nil }
    guard text.take("..") else { return .repeated(tree, min: min, max: min) }
    guard let max = try text.number() else { throw text.problem("a number is missing") }
    guard min <= max else { throw text.problem("the numbers of the repetition are out of order") }
    return .repeated(tree, min: min, max: max)
  }

  private mutating func parseAtom(_ scalar: Unicode.Scalar) throws(GrammarError) -> RuleTree {
    switch scalar {
    case "(", "[":
      text.at += 1
      let inner = try parseChoice(isOpen: true)
      guard text.take(scalar == "(" ? ")" : "]") else { throw text.problem("a '\(scalar)' without its end") }
      return scalar == "(" ? inner : .repeated(inner, min: 0, max: 1)
    case "\"": return spaced(try parseText())
    case "/": return spaced(.expression(try parseExpression()))
    case "<": return spaced(try parseToken())
    case "%": return spaced(try parseEmbedded())
    case "~":
      try checkTerminal("~")
      text.at += 1
      skipSpace(lines: false)
      guard depth < GrammarText.depthLimit else { throw GrammarText.tooDeep() }
      depth += 1
      defer { depth -= 1 }
      guard let next = text.current else { throw text.problem("nothing stands after '~'") }
      return .other(than: try parseAtom(next))
    case "@": throw text.unsupported("@", "a grammar names no other grammars")
    default:
      guard Self.isName(scalar) else { throw text.problem("an unexpected '\(scalar)'") }
      let name = try name()
      if text.isAt("{"), !isCount { throw text.unsupported("a template", "write its rules out") }
      return Self.isTerminalName(name) ? spaced(.rule(name)) : .rule(name)
    }
  }

  /// Whether the brace here opens numbers and not the names of a template.
  private var isCount: Bool {
    guard text.at + 1 < text.scalars.count else { return false }
    let next = text.scalars[text.at + 1]
    return ("0"..."9").contains(next) || next == "," || next == " "
  }

  /// A terminal of a rule, with what is ignored after it.
  private func spaced(_ tree: RuleTree) -> RuleTree {
    isTerminal ? tree : .sequence([tree, .rule(Self.gap)])
  }

  // MARK: Terminals

  private mutating func parseText() throws(GrammarError) -> RuleTree {
    let literal = try text.quoted()
    if text.isAt("..\"") {
      text.at += 2
      let last = try text.quoted()
      guard literal.count == 1, last.count == 1, literal[0] <= last[0] else {
        throw text.problem("a range is from one character to a later one")
      }
      return .set(ScalarSet([literal[0].value...last[0].value]))
    }
    guard text.take("i") else { return .literal(literal) }
    return .sequence(literal.map { .set(ScalarSet($0.value).ignoringCase) })
  }

  /// What may stand after a backslash, but for numbers.
  private static let escapes: [Unicode.Scalar: Unicode.Scalar] = [
    "n": "\n", "t": "\t", "r": "\r", "f": "\u{0C}", "v": "\u{0B}", "b": "\u{08}", "0": "\0", "\\": "\\",
    "\"": "\"", "'": "'", "/": "/",
  ]

  private mutating func parseExpression() throws(GrammarError) -> RegexTree {
    text.at += 1
    var source = String.UnicodeScalarView()
    while let scalar = text.current, scalar != "/", !text.isAtLineEnd {
      source.append(scalar)
      text.at += 1
      guard scalar == "\\", let next = text.current else { continue }
      source.append(next)
      text.at += 1
    }
    guard text.take("/") else { throw text.problem("a regular expression without an end") }
    let flags = text.take { ("a"..."z").contains($0) }
    if let flag = flags.unicodeScalars.first(where: { !"isu".unicodeScalars.contains($0) }) {
      throw text.unsupported("the flag '\(flag)'", "only i, s and u are known")
    }
    let tree = try RegexParser.parse(
      String(source), dotIsAll: flags.unicodeScalars.contains("s"))
    guard !tree.looksAround else {
      throw text.unsupported("a lookaround", "what stands beside a terminal is not known where it is read")
    }
    return flags.unicodeScalars.contains("i") ? tree.ignoringCase : tree
  }

  /// `<[7]>`, `<[7,9-11]>`: the tokens with these numbers; `<|name|>`: the special token of this spelling.
  private mutating func parseToken() throws(GrammarError) -> RuleTree {
    guard text.take("<[") else {
      let name = text.take { $0 != ">" && !$0.properties.isWhitespace }
      guard text.take(">") else { throw text.problem("'>' is missing") }
      return .special(name + ">")
    }
    if text.isAt("*") || text.isAt("^") {
      throw text.unsupported("most tokens", "only tokens that are listed by their numbers are known")
    }
    var tokens: [RuleTree] = []
    repeat {
      guard let first = try text.number() else { throw text.problem("the number of a token is missing") }
      let last = text.take("-") ? try text.number() : first
      guard let last, first <= last else { throw text.problem("the numbers of tokens are out of order") }
      guard tokens.count + last - first < Self.tokenLimit else {
        throw .tooLarge(reason: "a rule of the grammar lists more than \(Self.tokenLimit) tokens")
      }
      tokens += (first...last).map { .token(Int32(clamping: $0)) }
    } while text.take(",")
    guard text.take("]>") else { throw text.problem("']>' is missing") }
    return tokens.count == 1 ? tokens[0] : .choice(tokens)
  }

  private static let tokenLimit = 1000

  /// `%json {…}` and `%regex {…}`.
  private mutating func parseEmbedded() throws(GrammarError) -> RuleTree {
    text.at += 1
    let kind = text.take(while: Self.isName)
    switch kind {
    case "json": return .schema(try parseJSON("the schema of %json"))
    case "regex": return try pieces(of: try parseJSON("what stands after %regex"))
    default: throw text.unsupported("%\(kind)", "only %json and %regex stand inside rules")
    }
  }

  /// One piece of a text or several that follow each other in it, or none: `{"substring_words": "…"}`, whose pieces are
  /// words, white space and other characters, `{"substring_chars": "…"}` and `{"substring_chunks": ["…"]}`.
  private mutating func pieces(of options: JSONValue) throws(GrammarError) -> RuleTree {
    guard let (name, value) = options.objectValue?.entries.first, options.objectValue?.count == 1 else {
      throw text.problem("%regex has other than one of substring_words, substring_chars and substring_chunks")
    }
    var pieces: [[Unicode.Scalar]] = []
    switch (name, value) {
    case ("substring_chars", .string(let whole)): pieces = whole.unicodeScalars.map { [$0] }
    case ("substring_words", .string(let whole)):
      var last: Int?
      for scalar in whole.unicodeScalars {
        let properties = scalar.properties
        let kind = properties.isWhitespace ? 0 : properties.isAlphabetic || Self.isName(scalar) ? 1 : nil
        if let kind, kind == last { pieces[pieces.count - 1].append(scalar) } else { pieces.append([scalar]) }
        last = kind
      }
    case ("substring_chunks", .array(let chunks)):
      for chunk in chunks {
        guard let chunk = chunk.stringValue else { throw text.problem("a piece of %regex is not a string") }
        pieces.append(Array(chunk.unicodeScalars))
      }
    default: throw text.unsupported("%regex with '\(name)'", "or with a value that is none of its kind")
    }
    guard pieces.count <= Self.pieceLimit else {
      throw .tooLarge(reason: "%regex has a text of more than \(Self.pieceLimit) pieces")
    }
    // From each piece on: itself, and then perhaps the rest from the next one on. The last part of a sequence takes no
    // frame of a stack, and a choice takes none; a repetition would take one for each piece.
    let number = out.names.count
    for (index, piece) in pieces.enumerated().reversed() {
      let more: [RuleTree] =
        index + 1 < pieces.count ? [.choice([.empty, .rule("%piece\(number).\(index + 1)")])] : []
      define("%piece\(number).\(index)", .sequence([.literal(piece)] + more))
    }
    return .choice([.empty] + pieces.indices.map { .rule("%piece\(number).\($0)") })
  }

  private static let pieceLimit = 1000

  private mutating func parseJSON(_ what: String) throws(GrammarError) -> JSONValue {
    skipSpace(lines: false)
    let start = text.at
    guard text.current == "{" else { throw text.problem("\(what) is not an object") }
    var open = 0
    var isInString = false
    while let scalar = text.current {
      text.at += 1
      if isInString {
        if scalar == "\\" { text.at += 1 } else if scalar == "\"" { isInString = false }
      } else {
        switch scalar {
        case "\"": isInString = true
        case "{", "[": open += 1
        case "}", "]": open -= 1
        default: break
        }
      }
      if open == 0 { break }
    }
    let source = String(String.UnicodeScalarView(text.scalars[start..<min(text.at, text.scalars.count)]))
    guard let value = try? JSONValue(parsing: source) else { throw text.problem("\(what) is not JSON") }
    return value
  }
}

/// Lark's common terminals.
enum LarkTerminals {
  private static let integer = "[0-9]+"
  private static let decimal = #"(?:[0-9]+\.[0-9]*|\.[0-9]+)"#
  private static let exponent = "[eE][+-]?[0-9]+"
  private static let float = "(?:\(integer)\(exponent)|\(decimal)(?:\(exponent))?)"

  /// The terminal as an expression.
  static func expression(_ name: String) -> String? {
    switch name {
    case "DIGIT": "[0-9]"
    case "HEXDIGIT": "[0-9a-fA-F]"
    case "INT": integer
    case "SIGNED_INT": "[+-]?" + integer
    case "DECIMAL": decimal
    case "FLOAT": float
    case "SIGNED_FLOAT": "[+-]?" + float
    case "NUMBER": "(?:\(float)|\(integer))"
    case "SIGNED_NUMBER": "[+-]?(?:\(float)|\(integer))"
    case "ESCAPED_STRING": #""(?:[^"\\\n]|\\[^\n])*""#
    case "LCASE_LETTER": "[a-z]"
    case "UCASE_LETTER": "[A-Z]"
    case "LETTER": "[a-zA-Z]"
    case "WORD": "[a-zA-Z]+"
    case "CNAME": "[a-zA-Z_][a-zA-Z_0-9]*"
    case "WS_INLINE": #"[ \t]+"#
    case "WS": #"[ \t\f\r\n]+"#
    case "CR": #"\r"#
    case "LF": #"\n"#
    case "NEWLINE": #"(?:\r?\n)+"#
    case "SH_COMMENT": #"#[^\n]*"#
    case "CPP_COMMENT": #"\/\/[^\n]*"#
    case "C_COMMENT": #"\/\*(?:[^*]|\*+[^*\/])*\*+\/"#
    case "SQL_COMMENT": #"--[^\n]*"#
    default: nil
    }
  }
}
