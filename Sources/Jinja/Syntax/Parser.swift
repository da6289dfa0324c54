// Tokens to syntax tree: statements. `ParserExpressions.swift` and `ParserCalls.swift` hold
// the expressions.
//
// A recursive descent parser after Jinja's grammar. Its recursion and the depth of the tree it builds are
// bounded by `maxDepth`, because the tree is later walked, and released, recursively.

struct Parser {
  let tokens: [Token]
  let lines: LineMap
  let builtins: Builtins
  let maxDepth: Int
  var index = 0
  var depth = 0

  private var names: [String] = []
  private var symbols: [String: NameID] = [:]
  /// Names that the template itself can bind; calls of others are checked at the end of parsing.
  private var bound: Set<String> = ["loop", "caller", "varargs", "kwargs"]
  private var calledNames: [(name: String, position: JinjaPosition)] = []
  /// Names mentioned in the macro body being parsed.
  private var mentioned: Set<String> = []
  private var loopDepth = 0
  /// Where the tag stands that was read last: the one that opened a block, when its body is parsed.
  private var lastTag = JinjaPosition(line: 1, column: 1)

  init(tokens: [Token], lines: LineMap, builtins: Builtins, maxDepth: Int) {
    (self.tokens, self.lines, self.builtins) = (tokens, lines, builtins)
    self.maxDepth = maxDepth
  }

  mutating func parseProgram() throws(JinjaError) -> Program {
    let implicit = ImplicitNames(
      loop: id(of: "loop"), caller: id(of: "caller"), varargs: id(of: "varargs"), kwargs: id(of: "kwargs"))
    let body = try parseBody(until: [])
    for call in calledNames where !bound.contains(call.name) && !builtins.functions.contains(call.name) {
      throw .syntax(at: call.position, problem: "unknown function '\(call.name)'")
    }
    return Program(body: body, names: names, symbols: symbols, implicit: implicit)
  }

  // MARK: Tokens

  var current: Token { tokens[index] }
  var position: JinjaPosition {
    @inline(never) get { lines.position(of: current.offset) }
  }

  @inline(never)
  mutating func advance() {
    if index + 1 < tokens.count { index += 1 }
  }

  @inline(never)
  func failure(_ problem: String) -> JinjaError { .syntax(at: position, problem: problem) }

  @inline(never)
  func unexpected(_ wanted: String) -> JinjaError {
    failure("expected \(wanted), found \(current.kind.words)")
  }

  @inline(never)
  func isSymbol(_ symbol: Symbol) -> Bool { current.kind == .symbol(symbol) }

  @inline(never)
  mutating func skip(_ symbol: Symbol) -> Bool {
    guard isSymbol(symbol) else { return false }
    advance()
    return true
  }

  @inline(never)
  mutating func expect(_ symbol: Symbol) throws(JinjaError) {
    guard skip(symbol) else { throw unexpected("'\(symbol.rawValue)'") }
  }

  @inline(never)
  func isName(_ name: String) -> Bool { current.kind == .name(name) }

  @inline(never)
  mutating func skip(name: String) -> Bool {
    guard isName(name) else { return false }
    advance()
    return true
  }

  @inline(never)
  mutating func expectName(_ wanted: String) throws(JinjaError) -> String {
    guard case .name(let name) = current.kind else { throw unexpected(wanted) }
    advance()
    return name
  }

  @inline(never)
  mutating func id(of name: String) -> NameID {
    mentioned.insert(name)
    if let id = symbols[name] { return id }
    symbols[name] = names.count
    names.append(name)
    return names.count - 1
  }

  @inline(never)
  mutating func recordCall(_ id: NameID, _ position: JinjaPosition) {
    calledNames.append((names[id], position))
  }

  private mutating func bind(_ name: String) -> NameID {
    bound.insert(name)
    return id(of: name)
  }

  @inline(never)
  mutating func enter() throws(JinjaError) {
    guard depth < maxDepth else { throw failure("nested more than \(maxDepth) levels deep") }
    depth += 1
  }

  mutating func leave() { depth -= 1 }

  // MARK: Statements

  /// Statements up to a tag named in `stops`; that tag's name is the current token then. With no stops, up
  /// to the end of the template.
  private mutating func parseBody(until stops: Set<String>) throws(JinjaError) -> [Statement] {
    try enter()
    defer { leave() }
    var body: [Statement] = []
    let opened = lastTag
    while true {
      switch current.kind {
      case .end:
        if stops.isEmpty { return body }
        throw .syntax(
          at: opened, problem: "the block is not closed: expected " + stops.sorted().joined(separator: " or ")
        )
      case .text(let text):
        advance()
        body.append(.text(text))
      case .outputBegin:
        advance()
        body.append(.output(try parseTuple()))
        guard current.kind == .outputEnd else { throw unexpected("'}}'") }
        advance()
      case .blockBegin:
        advance()
        guard case .name(let tag) = current.kind else { throw unexpected("a tag name") }
        lastTag = position
        if stops.contains(tag) { return body }
        if let statement = try parseTag(tag) { body.append(statement) }
      default: throw unexpected("template text or a tag")
      }
    }
  }

  /// The body of a block and its closing tag `end`.
  private mutating func parseBlock(end: String) throws(JinjaError) -> [Statement] {
    let body = try parseBody(until: [end])
    advance()
    try expectBlockEnd()
    return body
  }

  @inline(never)
  private mutating func expectBlockEnd() throws(JinjaError) {
    guard current.kind == .blockEnd else { throw unexpected("'%}'") }
    advance()
  }

  @inline(never)
  private mutating func parseTag(_ tag: String) throws(JinjaError) -> Statement? {
    let tagPosition = position
    switch tag {
    case "if": return try parseIf()
    case "for": return try parseFor()
    case "set": return try parseSet()
    case "macro": return try parseMacro()
    case "call": return try parseCallBlock()
    case "filter": return try parseFilterBlock()
    case "with": return try parseWith()
    case "generation":
      advance()
      try expectBlockEnd()
      // Training masks it; for a prompt it is a block with variables of its own.
      return .with([], try parseBlock(end: "endgeneration"))
    case "break", "continue":
      guard loopDepth > 0 else { throw failure("'\(tag)' outside of a loop") }
      advance()
      try expectBlockEnd()
      return tag == "break" ? .breakLoop : .continueLoop
    default:
      throw .syntax(at: tagPosition, problem: "unknown or misplaced tag '\(tag)'")
    }
  }

  @inline(never)
  private mutating func parseIf() throws(JinjaError) -> Statement {
    var branches: [ConditionalBranch] = []
    var otherwise: [Statement] = []
    while true {
      advance()
      let test = try parseTuple(withConditional: false)
      try expectBlockEnd()
      branches.append(
        ConditionalBranch(test: test, body: try parseBody(until: ["elif", "else", "endif"])))
      if isName("elif") { continue }
      if skip(name: "else") {
        try expectBlockEnd()
        otherwise = try parseBody(until: ["endif"])
      }
      advance()
      try expectBlockEnd()
      return .conditional(branches, otherwise: otherwise)
    }
  }

  @inline(never)
  private mutating func parseFor() throws(JinjaError) -> Statement {
    let start = position
    advance()
    let target = try parseTarget(allowsAttribute: false)
    guard skip(name: "in") else { throw unexpected("'in'") }
    let sequence = try parseTuple(withConditional: false)
    var filter: Expression?
    if skip(name: "if") { filter = try parseExpression() }
    let isRecursive = skip(name: "recursive")
    try expectBlockEnd()
    loopDepth += 1
    let body = try parseBody(until: ["else", "endfor"])
    loopDepth -= 1
    var otherwise: [Statement] = []
    if skip(name: "else") {
      try expectBlockEnd()
      otherwise = try parseBody(until: ["endfor"])
    }
    advance()
    try expectBlockEnd()
    return .loop(
      Loop(
        target: target, sequence: sequence, filter: filter, body: body, otherwise: otherwise,
        isRecursive: isRecursive, position: start))
  }

  @inline(never)
  private mutating func parseSet() throws(JinjaError) -> Statement {
    advance()
    let target = try parseTarget(allowsAttribute: true)
    if skip(.assign) {
      let value = try parseTuple()
      try expectBlockEnd()
      return .assign(target, value)
    }
    let filters = try parseFilterChain()
    try expectBlockEnd()
    return .capture(target, filters, try parseBlock(end: "endset"))
  }

  /// `name`, `name.attribute` or a tuple of targets.
  private mutating func parseTarget(allowsAttribute: Bool) throws(JinjaError) -> Target {
    let start = position
    var targets: [Target] = []
    var isTuple = false
    while true {
      if isSymbol(.openParen) {
        try enter()
        advance()
        targets.append(try parseTarget(allowsAttribute: false))
        try expect(.closeParen)
        leave()
      } else {
        let name = try expectName("a variable name")
        if allowsAttribute, skip(.dot) {
          targets.append(.attribute(id(of: name), try expectName("an attribute name"), start))
        } else {
          targets.append(.name(bind(name)))
        }
      }
      guard skip(.comma) else { break }
      isTuple = true
      if isName("in") || isSymbol(.assign) || isSymbol(.closeParen) { break }
    }
    if !isTuple, let only = targets.first { return only }
    return .tuple(targets, start)
  }

  @inline(never)
  private mutating func parseMacro() throws(JinjaError) -> Statement {
    advance()
    let name = try expectName("the macro's name")
    let macroID = bind(name)
    return .macro(try parseMacroRest(name: name, id: macroID, end: "endmacro"))
  }

  /// The parameter list, unless absent, and the body.
  private mutating func parseMacroRest(name: String, id: NameID, end: String) throws(JinjaError) -> Macro {
    let parameters = try parseParameters()
    try expectBlockEnd()
    return try parseMacroBody(name: name, id: id, parameters: parameters, end: end)
  }

  private mutating func parseMacroBody(
    name: String, id: NameID, parameters: [Macro.Parameter], end: String
  ) throws(JinjaError) -> Macro {
    let outer = mentioned
    let outerLoops = loopDepth
    mentioned = []
    loopDepth = 0
    let body = try parseBlock(end: end)
    let inner = mentioned
    mentioned = outer.union(inner)
    loopDepth = outerLoops
    return Macro(
      name: name, id: id, parameters: parameters, body: body, takesVarargs: inner.contains("varargs"),
      takesKwargs: inner.contains("kwargs"))
  }

  private mutating func parseParameters() throws(JinjaError) -> [Macro.Parameter] {
    var parameters: [Macro.Parameter] = []
    try expect(.openParen)
    while !isSymbol(.closeParen) {
      if !parameters.isEmpty { try expect(.comma) }
      let name = try expectName("a parameter name")
      let parameterID = bind(name)
      let initial = skip(.assign) ? try parseExpression() : nil
      if initial == nil, parameters.last?.initial != nil {
        throw failure("a parameter without a default follows one with a default")
      }
      parameters.append(Macro.Parameter(name: name, id: parameterID, initial: initial))
    }
    advance()
    return parameters
  }

  @inline(never)
  private mutating func parseCallBlock() throws(JinjaError) -> Statement {
    let start = position
    advance()
    let parameters = isSymbol(.openParen) ? try parseParameters() : []
    let call = try parseExpression()
    guard case .call(let callee, let arguments) = call.kind else {
      throw .syntax(at: start, problem: "'call' needs a call of a macro")
    }
    try expectBlockEnd()
    let caller = try parseMacroBody(
      name: "caller", id: id(of: "caller"), parameters: parameters, end: "endcall")
    return .callBlock(CallBlock(caller: caller, callee: callee, arguments: arguments, position: start))
  }

  @inline(never)
  private mutating func parseFilterBlock() throws(JinjaError) -> Statement {
    advance()
    let filters = [try parseFilterCall()] + (try parseFilterChain())
    try expectBlockEnd()
    return .filterBlock(filters, try parseBlock(end: "endfilter"))
  }

  @inline(never)
  private mutating func parseWith() throws(JinjaError) -> Statement {
    advance()
    var assignments: [(Target, Expression)] = []
    while current.kind != .blockEnd {
      if !assignments.isEmpty { try expect(.comma) }
      let name = try expectName("a variable name")
      let target = Target.name(bind(name))
      try expect(.assign)
      assignments.append((target, try parseExpression()))
    }
    advance()
    return .with(assignments, try parseBlock(end: "endwith"))
  }
}
