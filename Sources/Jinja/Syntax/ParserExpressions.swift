// Tokens to syntax tree: expressions, in Jinja's order of precedence.

extension Parser {
  /// Builds a node; the depth of the tree is bounded here.
  @inline(never)
  func node(
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
    var result = try parseOperators(from: .or)
    while withConditional, isName("if") { result = try parseConditional(result) }
    return result
  }

  /// `then if test else otherwise`; the current token is `if`.
  @inline(never)
  private mutating func parseConditional(_ then: Expression) throws(JinjaError) -> Expression {
    let at = position
    advance()
    let test = try parseOperators(from: .or)
    let otherwise = skip(name: "else") ? try parseExpression() : nil
    return try node(
      .conditional(test: test, then: then, otherwise: otherwise), at,
      over: [test, then] + (otherwise.map { [$0] } ?? []))
  }

  // MARK: Operators

  /// Jinja's levels of precedence, loosest first. All binary operators associate to the left.
  private enum Level: Int, Comparable {
    case or, and, not, comparison, sum, concatenation, product, power, unary

    static func < (a: Level, b: Level) -> Bool { a.rawValue < b.rawValue }

    var tighter: Level { Level(rawValue: rawValue + 1) ?? .unary }
  }

  /// Operands joined by operators that bind at least as tightly as `level` (precedence climbing: one
  /// function for all levels keeps the stack small).
  private mutating func parseOperators(from level: Level) throws(JinjaError) -> Expression {
    var left = level <= .not && isName("not") ? try parseNot() : try parseUnary()
    while let next = operatorLevel, next >= level {
      left = try parseOperator(next, left)
    }
    return left
  }

  /// The level of the binary operator at the current token.
  private var operatorLevel: Level? {
    switch current.kind {
    case .name("or"): .or
    case .name("and"): .and
    case .symbol(.plus), .symbol(.minus): .sum
    case .symbol(.tilde): .concatenation
    case .symbol(.times), .symbol(.divide), .symbol(.floorDivide), .symbol(.modulo): .product
    case .symbol(.power): .power
    default: comparisonOperator() == nil ? nil : .comparison
    }
  }

  @inline(never)
  private mutating func parseNot() throws(JinjaError) -> Expression {
    let at = position
    let operand = try parseOperand(of: .and)
    return try node(.not(operand), at, over: [operand])
  }

  /// What stands right of an operator of `level`, which is the current token.
  private mutating func parseOperand(of level: Level) throws(JinjaError) -> Expression {
    try enter()
    defer { leave() }
    advance()
    return try parseOperators(from: level.tighter)
  }

  /// One operator and what stands right of it.
  @inline(never)
  private mutating func parseOperator(_ level: Level, _ left: Expression) throws(JinjaError) -> Expression {
    if level == .comparison { return try parseComparison(left) }
    if level == .concatenation { return try parseConcatenation(left) }
    let at = position
    let symbol = symbolText
    let right = try parseOperand(of: level)
    let kind: Expression.Kind
    switch level {
    case .or: kind = .or(left, right)
    case .and: kind = .and(left, right)
    default:
      guard let operation = BinaryOperator(rawValue: symbol) else { throw unexpected("an operator") }
      kind = .binary(operation, left, right)
    }
    return try node(kind, at, over: [left, right])
  }

  private var symbolText: String {
    if case .symbol(let symbol) = current.kind { symbol.rawValue } else { "" }
  }

  @inline(never)
  private mutating func parseComparison(_ left: Expression) throws(JinjaError) -> Expression {
    let at = position
    var comparisons: [Comparison] = []
    while let comparison = comparisonOperator() {
      if comparison == .isNotIn { advance() }
      comparisons.append(Comparison(comparison: comparison, operand: try parseOperand(of: .comparison)))
    }
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

  @inline(never)
  private mutating func parseConcatenation(_ left: Expression) throws(JinjaError) -> Expression {
    let at = position
    var parts = [left]
    while isSymbol(.tilde) { parts.append(try parseOperand(of: .concatenation)) }
    return try node(.concatenation(parts), at, over: parts)
  }

  private mutating func parseUnary(withFilters: Bool = true) throws(JinjaError) -> Expression {
    var result = isSymbol(.minus) || isSymbol(.plus) ? try parseSign() : try parsePrimary()
    while let next = try parsePostfixStep(result, withFilters: false) { result = next }
    while withFilters, let next = try parsePostfixStep(result, withFilters: true) { result = next }
    return result
  }

  @inline(never)
  private mutating func parseSign() throws(JinjaError) -> Expression {
    let at = position
    let isNegative = isSymbol(.minus)
    try enter()
    defer { leave() }
    advance()
    let operand = try parseUnary(withFilters: false)
    return try node(isNegative ? .negative(operand) : .positive(operand), at, over: [operand])
  }

  // MARK: Primary expressions

  mutating func parsePrimary() throws(JinjaError) -> Expression {
    let at = position
    switch current.kind {
    case .name(let name):
      advance()
      return try node(nameOrConstant(name), at)
    case .string, .int, .double: return try node(.literal(parseLiteral()), at)
    case .symbol(.openParen): return try parseParenthesized()
    case .symbol(.openBracket): return try parseList()
    case .symbol(.openBrace): return try parseDict()
    default: throw unexpected("an expression")
    }
  }

  /// A number, or a string made of adjacent string tokens.
  @inline(never)
  private mutating func parseLiteral() -> Literal {
    var joined = ""
    while true {
      switch current.kind {
      case .int(let value) where joined.utf8.isEmpty:
        advance()
        return .int(value)
      case .double(let value) where joined.utf8.isEmpty:
        advance()
        return .double(value)
      case .string(let text):
        advance()
        joined += text
        guard case .string = current.kind else { return .string(joined) }
      default: return .string(joined)
      }
    }
  }

  @inline(never)
  private mutating func parseParenthesized() throws(JinjaError) -> Expression {
    advance()
    let inner = try parseTuple(explicit: true)
    try expect(.closeParen)
    return inner
  }

  @inline(never)
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

  @inline(never)
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

  @inline(never)
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

  /// One attribute, index or call after `base`, or with filters one filter, test or call; nil when none
  /// follows.
  mutating func parsePostfixStep(
    _ base: Expression, withFilters: Bool
  ) throws(JinjaError) -> Expression? {
    switch current.kind {
    case .symbol(.openParen): try parseCall(base)
    case .symbol(.dot) where !withFilters: try parseAttribute(base)
    case .symbol(.openBracket) where !withFilters: try parseSubscript(base)
    case .symbol(.pipe) where withFilters: try parseFilter(base)
    case .name("is") where withFilters: try parseTest(base)
    default: nil
    }
  }

  @inline(never)
  private mutating func parseAttribute(_ base: Expression) throws(JinjaError) -> Expression {
    let at = position
    advance()
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

  @inline(never)
  private mutating func parseSubscript(_ base: Expression) throws(JinjaError) -> Expression {
    let at = position
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
}
