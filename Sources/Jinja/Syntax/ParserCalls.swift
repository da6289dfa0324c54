// Tokens to syntax tree: calls, filters, tests and their arguments.

extension Parser {
  @inline(never)
  mutating func parseCall(_ callee: Expression) throws(JinjaError) -> Expression {
    let at = position
    if case .name(let id) = callee.kind { recordCall(id, callee.position) }
    let arguments = try parseArguments()
    return try node(.call(callee, arguments), at, over: [callee] + arguments.expressions)
  }

  @inline(never)
  private mutating func parseArguments() throws(JinjaError) -> CallArguments {
    try expect(.openParen)
    var arguments = CallArguments()
    while !isSymbol(.closeParen) {
      if !arguments.isEmpty {
        try expect(.comma)
        if isSymbol(.closeParen) { break }
      }
      if skip(.times) {
        guard arguments.spread == nil else { throw failure("only one '*' argument is supported") }
        arguments.spread = try parseExpression()
      } else if skip(.power) {
        guard arguments.namedSpread == nil else { throw failure("only one '**' argument is supported") }
        arguments.namedSpread = try parseExpression()
      } else if case .name(let name) = current.kind, index + 1 < tokens.count,
        tokens[index + 1].kind == .symbol(.assign)
      {
        advance()
        advance()
        arguments.named.append(NamedArgument(name: name, value: try parseExpression()))
      } else {
        guard arguments.named.isEmpty else { throw failure("a positional argument follows a named one") }
        arguments.positional.append(try parseExpression())
      }
    }
    advance()
    return arguments
  }

  // MARK: Filters and tests

  @inline(never)
  mutating func parseFilter(_ base: Expression) throws(JinjaError) -> Expression {
    advance()
    let filter = try parseFilterCall()
    return try node(
      .filter(base, filter), filter.position, over: [base] + filter.arguments.expressions)
  }

  mutating func parseFilterChain() throws(JinjaError) -> [FilterCall] {
    var filters: [FilterCall] = []
    while skip(.pipe) {
      filters.append(try parseFilterCall())
      guard filters.count <= maxDepth else { throw failure("more than \(maxDepth) filters in a row") }
    }
    return filters
  }

  @inline(never)
  mutating func parseFilterCall() throws(JinjaError) -> FilterCall {
    let at = position
    let name = try dottedName("a filter name")
    guard let number = builtins.filters[name] else {
      throw .syntax(at: at, problem: "unknown filter '\(name)'")
    }
    let argumentsAt = position
    let arguments = isSymbol(.openParen) ? try parseArguments() : CallArguments()
    try checkIndirect(name, arguments, argumentsAt)
    return FilterCall(name: name, number: number, arguments: arguments, position: at)
  }

  /// `map('name')`, `select('name')` and the like: the names must exist too.
  private func checkIndirect(
    _ filter: String, _ arguments: CallArguments, _ at: JinjaPosition
  ) throws(JinjaError) {
    func literal(_ index: Int) -> String? {
      guard index < arguments.positional.count,
        case .literal(.string(let name)) = arguments.positional[index].kind
      else { return nil }
      return name
    }
    switch filter {
    case "map":
      if let name = literal(0), builtins.filters[name] == nil {
        throw .syntax(at: at, problem: "unknown filter '\(name)'")
      }
    case "select", "reject", "selectattr", "rejectattr":
      if let name = literal(filter.utf8.count > 6 ? 1 : 0), builtins.tests[name] == nil {
        throw .syntax(at: at, problem: "unknown test '\(name)'")
      }
    default: break
    }
  }

  private mutating func dottedName(_ wanted: String) throws(JinjaError) -> String {
    var name = try expectName(wanted)
    while skip(.dot) { name += "." + (try expectName(wanted)) }
    return name
  }

  @inline(never)
  mutating func parseTest(_ base: Expression) throws(JinjaError) -> Expression {
    advance()
    let isNegated = skip(name: "not")
    let at = position
    let name = try dottedName("a test name")
    guard let number = builtins.tests[name] else {
      throw .syntax(at: at, problem: "unknown test '\(name)'")
    }
    var arguments = CallArguments()
    if isSymbol(.openParen) {
      arguments = try parseArguments()
    } else if startsTestArgument {
      guard !isName("is") else { throw failure("tests cannot be chained with 'is'") }
      arguments.positional = [try parseTestArgument()]
    }
    let test = TestCall(name: name, number: number, arguments: arguments, isNegated: isNegated)
    return try node(.test(base, test), at, over: [base] + arguments.expressions)
  }

  private mutating func parseTestArgument() throws(JinjaError) -> Expression {
    var argument = try parsePrimary()
    while let next = try parsePostfixStep(argument, withFilters: false) { argument = next }
    return argument
  }

  /// A test takes one argument without parentheses; the words that continue an expression are none.
  private var startsTestArgument: Bool {
    switch current.kind {
    case .name(let name): !["else", "or", "and", "if", "not", "in", "recursive"].contains(name)
    case .string, .int, .double, .symbol(.openParen), .symbol(.openBracket), .symbol(.openBrace): true
    default: false
    }
  }
}

extension CallArguments {
  /// All expressions in it.
  var expressions: [Expression] {
    positional + named.map(\.value) + (spread.map { [$0] } ?? []) + (namedSpread.map { [$0] } ?? [])
  }
}
