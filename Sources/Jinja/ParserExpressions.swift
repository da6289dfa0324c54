// Tokens to syntax tree: expressions, in Jinja's order of precedence.

extension Parser {
  /// Builds a node; the depth of the tree is bounded here.
  private func node(
    _ kind: Expression.Kind, _ position: JinjaPosition, over children: [Expression] = []
  ) throws(JinjaError) -> Expression {
    let depth = 1 + (children.map(\.depth).max() ?? 0)
    guard Int(depth) <= maxDepth else {
      throw .syntax(at: position, problem: "the expression is nested more than \(maxDepth) levels deep")
    }
    return Expression(position: position, depth: depth, kind: kind)
  }

  mutating func parseExpression(withConditional: Bool = true) throws(JinjaError) -> Expression {
    try enter()
    defer { leave() }
    return withConditional ? try parseConditional() : try parseOr()
  }

  private mutating func parseConditional() throws(JinjaError) -> Expression {
    var result = try parseOr()
    while isName("if") {
      let at = position
      advance()
      let test = try parseOr()
      let otherwise = skip(name: "else") ? try parseExpression() : nil
      result = try node(
        .conditional(test: test, then: result, otherwise: otherwise), at,
        over: [test, result] + (otherwise.map { [$0] } ?? []))
    }
    return result
  }

  private mutating func parseOr() throws(JinjaError) -> Expression {
    var left = try parseAnd()
    while isName("or") {
      let at = position
      advance()
      let right = try parseAnd()
      left = try node(.or(left, right), at, over: [left, right])
    }
    return left
  }

  private mutating func parseAnd() throws(JinjaError) -> Expression {
    var left = try parseNot()
    while isName("and") {
      let at = position
      advance()
      let right = try parseNot()
      left = try node(.and(left, right), at, over: [left, right])
    }
    return left
  }

  private mutating func parseNot() throws(JinjaError) -> Expression {
    guard isName("not") else { return try parseComparison() }
    let at = position
    try enter()
    defer { leave() }
    advance()
    let operand = try parseNot()
    return try node(.not(operand), at, over: [operand])
  }

  private mutating func parseComparison() throws(JinjaError) -> Expression {
    let at = position
    let left = try parseSum()
    var comparisons: [Comparison] = []
    while let comparison = comparisonOperator() {
      advance()
      if comparison == .isNotIn { advance() }
      comparisons.append(Comparison(comparison: comparison, operand: try parseSum()))
    }
    if comparisons.isEmpty { return left }
    return try node(.comparison(left, comparisons), at, over: [left] + comparisons.map(\.operand))
  }

  private func comparisonOperator() -> ComparisonOperator? {
    switch current.kind {
    case .symbol(let symbol): return ComparisonOperator(rawValue: symbol.rawValue)
    case .name("in"): return .isIn
    case .name("not"):
      return index + 1 < tokens.count && tokens[index + 1].kind == .name("in") ? .isNotIn : nil
    default: return nil
    }
  }

  private mutating func parseSum() throws(JinjaError) -> Expression {
    var left = try parseConcatenation()
    while isSymbol(.plus) || isSymbol(.minus) {
      let at = position
      let operation: BinaryOperator = isSymbol(.plus) ? .add : .subtract
      advance()
      let right = try parseConcatenation()
      left = try node(.binary(operation, left, right), at, over: [left, right])
    }
    return left
  }

  private mutating func parseConcatenation() throws(JinjaError) -> Expression {
    let at = position
    var parts = [try parseProduct()]
    while skip(.tilde) { parts.append(try parseProduct()) }
    return parts.count == 1 ? parts[0] : try node(.concatenation(parts), at, over: parts)
  }

  private mutating func parseProduct() throws(JinjaError) -> Expression {
    var left = try parsePower()
    while case .symbol(let symbol) = current.kind, let operation = BinaryOperator(rawValue: symbol.rawValue),
      operation != .add, operation != .subtract, operation != .power
    {
      let at = position
      advance()
      let right = try parsePower()
      left = try node(.binary(operation, left, right), at, over: [left, right])
    }
    return left
  }

  private mutating func parsePower() throws(JinjaError) -> Expression {
    var left = try parseUnary()
    while isSymbol(.power) {
      let at = position
      advance()
      let right = try parseUnary()
      left = try node(.binary(.power, left, right), at, over: [left, right])
    }
    return left
  }

  private mutating func parseUnary(withFilters: Bool = true) throws(JinjaError) -> Expression {
    let at = position
    var result: Expression
    if isSymbol(.minus) || isSymbol(.plus) {
      let isNegative = isSymbol(.minus)
      try enter()
      defer { leave() }
      advance()
      let operand = try parseUnary(withFilters: false)
      result = try node(isNegative ? .negative(operand) : .positive(operand), at, over: [operand])
    } else {
      result = try parsePrimary()
    }
    result = try parsePostfix(result)
    return withFilters ? try parseFiltersAndTests(result) : result
  }

  // MARK: Primary expressions

  private mutating func parsePrimary() throws(JinjaError) -> Expression {
    let at = position
    switch current.kind {
    case .name(let name):
      advance()
      return try node(nameOrConstant(name), at)
    case .string(var text):
      advance()
      while case .string(let more) = current.kind {
        text += more
        advance()
      }
      return try node(.literal(.string(text)), at)
    case .int(let value):
      advance()
      return try node(.literal(.int(value)), at)
    case .double(let value):
      advance()
      return try node(.literal(.double(value)), at)
    case .symbol(.openParen):
      advance()
      let inner = try parseTuple(explicit: true)
      try expect(.closeParen)
      return inner
    case .symbol(.openBracket): return try parseList()
    case .symbol(.openBrace): return try parseDict()
    default: throw unexpected("an expression")
    }
  }

  private mutating func nameOrConstant(_ name: String) -> Expression.Kind {
    switch name {
    case "true", "True": .literal(.bool(true))
    case "false", "False": .literal(.bool(false))
    case "none", "None": .literal(.none)
    default: .name(id(of: name))
    }
  }

  /// One expression, or a tuple of several separated by commas.
  ///
  /// - Parameter explicit: inside parentheses, where nothing at all is the empty tuple.
  mutating func parseTuple(
    withConditional: Bool = true, explicit: Bool = false
  ) throws(JinjaError) -> Expression {
    let at = position
    var elements: [Expression] = []
    var isTuple = false
    while true {
      if !elements.isEmpty { try expect(.comma) }
      if endsTuple {
        break
      }
      elements.append(try parseExpression(withConditional: withConditional))
      guard isSymbol(.comma) else { break }
      isTuple = true
    }
    if !isTuple {
      if let only = elements.first { return only }
      guard explicit else { throw unexpected("an expression") }
    }
    return try node(.tuple(elements), at, over: elements)
  }

  private var endsTuple: Bool {
    switch current.kind {
    case .outputEnd, .blockEnd, .symbol(.closeParen), .end, .name("recursive"): true
    default: false
    }
  }

  private mutating func parseList() throws(JinjaError) -> Expression {
    let at = position
    advance()
    var elements: [Expression] = []
    while !isSymbol(.closeBracket) {
      if !elements.isEmpty { try expect(.comma) }
      if isSymbol(.closeBracket) { break }
      elements.append(try parseExpression())
    }
    advance()
    return try node(.list(elements), at, over: elements)
  }

  private mutating func parseDict() throws(JinjaError) -> Expression {
    let at = position
    advance()
    var items: [DictItem] = []
    while !isSymbol(.closeBrace) {
      if !items.isEmpty { try expect(.comma) }
      if isSymbol(.closeBrace) { break }
      let key = try parseExpression()
      try expect(.colon)
      items.append(DictItem(key: key, value: try parseExpression()))
    }
    advance()
    return try node(.dict(items), at, over: items.flatMap { [$0.key, $0.value] })
  }

  // MARK: Postfix

  private mutating func parsePostfix(_ base: Expression) throws(JinjaError) -> Expression {
    var result = base
    while true {
      if isSymbol(.dot) || isSymbol(.openBracket) {
        result = try parseSubscript(result)
      } else if isSymbol(.openParen) {
        result = try parseCall(result)
      } else {
        return result
      }
    }
  }

  private mutating func parseSubscript(_ base: Expression) throws(JinjaError) -> Expression {
    let at = position
    if skip(.dot) {
      switch current.kind {
      case .name(let name):
        advance()
        return try node(.attribute(base, name), at, over: [base])
      case .int(let value):
        advance()
        let index = try node(.literal(.int(value)), at)
        return try node(.item(base, index), at, over: [base, index])
      default: throw unexpected("an attribute name")
      }
    }
    advance()
    var bounds: [Expression?] = []
    var isSlice = false
    while !isSymbol(.closeBracket) {
      if skip(.colon) {
        if !isSlice, bounds.isEmpty { bounds.append(nil) }
        isSlice = true
        guard bounds.count < 3 else { throw unexpected("']'") }
        let isAbsent = isSymbol(.colon) || isSymbol(.closeBracket)
        bounds.append(isAbsent ? nil : try parseExpression())
      } else if bounds.isEmpty {
        bounds.append(try parseTuple())
      } else {
        throw unexpected("']'")
      }
    }
    advance()
    guard isSlice else {
      guard case .some(.some(let key)) = bounds.first else { throw unexpected("an index") }
      return try node(.item(base, key), at, over: [base, key])
    }
    let slice = SliceBounds(
      start: bounds[0], stop: bounds.count > 1 ? bounds[1] : nil, step: bounds.count > 2 ? bounds[2] : nil)
    return try node(.slice(base, slice), at, over: [base] + bounds.compactMap { $0 })
  }

  private mutating func parseCall(_ callee: Expression) throws(JinjaError) -> Expression {
    let at = position
    if case .name(let id) = callee.kind { recordCall(id, callee.position) }
    let arguments = try parseArguments()
    return try node(.call(callee, arguments), at, over: [callee] + arguments.expressions)
  }

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

  private mutating func parseFiltersAndTests(_ base: Expression) throws(JinjaError) -> Expression {
    var result = base
    while true {
      if isSymbol(.pipe) {
        advance()
        let filter = try parseFilterCall()
        result = try node(
          .filter(result, filter), filter.position, over: [result] + filter.arguments.expressions)
      } else if isName("is") {
        result = try parseTest(result)
      } else if isSymbol(.openParen) {
        result = try parseCall(result)
      } else {
        return result
      }
    }
  }

  mutating func parseFilterChain() throws(JinjaError) -> [FilterCall] {
    var filters: [FilterCall] = []
    while skip(.pipe) {
      filters.append(try parseFilterCall())
      guard filters.count <= maxDepth else { throw failure("more than \(maxDepth) filters in a row") }
    }
    return filters
  }

  mutating func parseFilterCall() throws(JinjaError) -> FilterCall {
    let at = position
    let name = try dottedName("a filter name")
    guard let function = Filters.table[name] else {
      throw .syntax(at: at, problem: "unknown filter '\(name)'")
    }
    let argumentsAt = position
    let arguments = isSymbol(.openParen) ? try parseArguments() : CallArguments()
    try checkIndirect(name, arguments, argumentsAt)
    return FilterCall(name: name, function: function, arguments: arguments, position: at)
  }

  /// `map('name')`, `select('name')` and the like: the names must exist too.
  private func checkIndirect(
    _ filter: String, _ arguments: CallArguments, _ at: JinjaPosition
  ) throws(JinjaError) {
    func literal(_ index: Int) -> String? {
      guard index < arguments.positional.count, case .literal(.string(let name)) = arguments.positional[index].kind
      else { return nil }
      return name
    }
    switch filter {
    case "map":
      if let name = literal(0), Filters.table[name] == nil {
        throw .syntax(at: at, problem: "unknown filter '\(name)'")
      }
    case "select", "reject", "selectattr", "rejectattr":
      if let name = literal(filter.utf8.count > 6 ? 1 : 0), Tests.table[name] == nil {
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

  private mutating func parseTest(_ base: Expression) throws(JinjaError) -> Expression {
    advance()
    let isNegated = skip(name: "not")
    let at = position
    let name = try dottedName("a test name")
    guard let function = Tests.table[name] else { throw .syntax(at: at, problem: "unknown test '\(name)'") }
    var arguments = CallArguments()
    if isSymbol(.openParen) {
      arguments = try parseArguments()
    } else if startsTestArgument {
      guard !isName("is") else { throw failure("tests cannot be chained with 'is'") }
      let argument = try parsePrimary()
      arguments.positional = [try parsePostfix(argument)]
    }
    let test = TestCall(name: name, function: function, arguments: arguments, isNegated: isNegated)
    return try node(.test(base, test), at, over: [base] + arguments.expressions)
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
