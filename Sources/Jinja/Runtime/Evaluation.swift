// Expressions to values.
//
// `evaluate` recurses as deep as the tree. To keep its stack frame small it only dispatches on the kind of
// node: each kind has a function of its own, not inlined, which takes the node apart again. The `else` of
// those guards is never reached.

extension Interpreter {
  @inline(never)
  func evaluate(_ expression: Expression) throws(JinjaError) -> JinjaValue {
    try enterFrame()
    defer { leaveFrame() }
    switch expression.kind {
    case .literal, .name: return leaf(expression)
    case .attribute: return try attribute(expression)
    case .item: return try item(expression)
    case .filter: return try filter(expression)
    case .test: return try test(expression)
    case .not: return try negation(expression)
    case .and, .or: return try logical(expression)
    case .conditional: return try conditional(expression)
    case .binary: return try binary(expression)
    case .comparison: return try comparison(expression)
    case .concatenation: return try concatenation(expression)
    case .call: return try call(expression)
    case .list(let elements): return try nested(.list(try evaluate(elements)))
    case .tuple(let elements): return try nested(.tuple(try evaluate(elements)))
    case .dict: return try dict(expression)
    case .slice: return try slice(expression)
    case .negative: return try negative(expression)
    case .positive: return try positive(expression)
    }
  }

  @inline(never)
  private func leaf(_ expression: Expression) -> JinjaValue {
    switch expression.kind {
    case .name(let name): lookup(name)
    case .literal(.bool(let flag)): .bool(flag)
    case .literal(.int(let value)): .int(value)
    case .literal(.double(let value)): .double(value)
    case .literal(.string(let text)): .string(text)
    default: .none
    }
  }

  @inline(never)
  private func negation(_ expression: Expression) throws(JinjaError) -> JinjaValue {
    guard case .not(let operand) = expression.kind else { return .none }
    return .bool(!(try evaluate(operand).isTrue))
  }

  /// `and` and `or` give one of their operands.
  @inline(never)
  private func logical(_ expression: Expression) throws(JinjaError) -> JinjaValue {
    switch expression.kind {
    case .and(let left, let right):
      let value = try evaluate(left)
      return value.isTrue ? try evaluate(right) : value
    case .or(let left, let right):
      let value = try evaluate(left)
      return value.isTrue ? value : try evaluate(right)
    default: return .none
    }
  }

  @inline(never)
  private func conditional(_ expression: Expression) throws(JinjaError) -> JinjaValue {
    guard case .conditional(let test, let then, let otherwise) = expression.kind else { return .none }
    if try evaluate(test).isTrue { return try evaluate(then) }
    guard let otherwise else { return .undefined(.variable("the missing else of an inline if")) }
    return try evaluate(otherwise)
  }

  @inline(never)
  private func positive(_ expression: Expression) throws(JinjaError) -> JinjaValue {
    guard case .positive(let operand) = expression.kind else { return .none }
    let value = try evaluate(operand)
    position = expression.position
    guard value.number != nil else { throw failure("bad operand type for unary +: '\(value.typeName)'") }
    return value
  }

  @inline(never)
  private func evaluate(_ expressions: [Expression]) throws(JinjaError) -> [JinjaValue] {
    var values: [JinjaValue] = []
    values.reserveCapacity(expressions.count)
    for expression in expressions { values.append(try evaluate(expression)) }
    return values
  }

  /// Refuses values nested so deep that walking or releasing them could overflow the stack.
  @inline(never)
  func nested(_ value: JinjaValue) throws(JinjaError) -> JinjaValue {
    guard value.depth <= Self.maxNesting else {
      throw limitReached("a value nested more than \(Self.maxNesting) levels deep")
    }
    return value
  }

  @inline(never)
  private func dict(_ expression: Expression) throws(JinjaError) -> JinjaValue {
    guard case .dict(let items) = expression.kind else { return .none }
    let dict = JinjaDict()
    for item in items {
      let key = try evaluate(item.key)
      guard key.isHashable else { throw failure("unhashable type: '\(key.typeName)'") }
      dict.insert(key, try evaluate(item.value))
    }
    return try nested(.dict(dict))
  }

  @inline(never)
  private func concatenation(_ expression: Expression) throws(JinjaError) -> JinjaValue {
    guard case .concatenation(let parts) = expression.kind else { return .none }
    var result = ""
    for part in parts {
      let more = try text(of: try evaluate(part))
      position = expression.position
      try checkLength(result.utf8.count + more.utf8.count)
      result += more
    }
    return try string(result)
  }

  // MARK: Text

  /// `str(value)`.
  func text(of value: JinjaValue) throws(JinjaError) -> String {
    if let text = value.text { return text }
    if value.isUndefined { return "" }
    return try write { (writer) throws(PythonText.Problem) in try writer.writeString(of: value) }
  }

  /// What `body` writes, with its problems turned into errors at the current position.
  func write(
    _ body: (inout PythonText) throws(PythonText.Problem) -> Void
  ) throws(JinjaError) -> String {
    var writer = PythonText(limit: limits.outputBytes)
    do throws(PythonText.Problem) {
      try body(&writer)
    } catch {
      switch error {
      case .tooLong: throw limitReached("text longer than \(limits.outputBytes) bytes")
      case .notSerializable(let type): throw failure("Object of type \(type) is not JSON serializable")
      }
    }
    try charge(text: writer.text)
    return writer.text
  }

  // MARK: Filters, tests and calls

  @inline(never)
  private func filter(_ expression: Expression) throws(JinjaError) -> JinjaValue {
    guard case .filter(let base, let filter) = expression.kind else { return .none }
    return try apply(filter, to: try evaluate(base))
  }

  @inline(never)
  func apply(_ filter: FilterCall, to value: JinjaValue) throws(JinjaError) -> JinjaValue {
    try charge(units: Self.unitsPerStep)
    let arguments = try evaluate(filter.arguments)
    position = filter.position
    return try nested(try BuiltinTables.filters[filter.number](self, value, arguments))
  }

  @inline(never)
  private func test(_ expression: Expression) throws(JinjaError) -> JinjaValue {
    guard case .test(let base, let test) = expression.kind else { return .none }
    let value = try evaluate(base)
    let arguments = try evaluate(test.arguments)
    position = expression.position
    return .bool(try BuiltinTables.tests[test.number](self, value, arguments) != test.isNegated)
  }

  @inline(never)
  func evaluate(_ call: CallArguments) throws(JinjaError) -> Arguments {
    var arguments = Arguments()
    if call.isEmpty { return arguments }
    for expression in call.positional { arguments.positional.append(try evaluate(expression)) }
    if let spread = call.spread { arguments.positional += try iterate(try evaluate(spread)) }
    for argument in call.named { arguments.named.append((argument.name, try evaluate(argument.value))) }
    if let spread = call.namedSpread {
      guard case .dict(let dict) = try evaluate(spread) else {
        throw failure("the argument after ** is not a mapping")
      }
      for entry in dict.entries {
        guard let name = entry.key.text else { throw failure("keywords must be strings") }
        arguments.named.append((name, entry.value))
      }
    }
    return arguments
  }

  @inline(never)
  private func call(_ expression: Expression) throws(JinjaError) -> JinjaValue {
    guard case .call(let callee, let call) = expression.kind else { return .none }
    try charge(units: Self.unitsPerStep)
    // A method call makes no bound method first.
    if case .attribute(let base, let name) = callee.kind {
      let receiver = try evaluate(base)
      if changesLists, case .list(let list) = receiver, let change = Methods.changes[name] {
        let arguments = try evaluate(call)
        position = expression.position
        try charge(elements: list.items.count + 1)
        var items = list.items
        let result = try change(self, &items, arguments)
        replace(base, with: try nested(.list(items)))
        return result
      }
      if let method = Methods.method(name, of: receiver) {
        let arguments = try evaluate(call)
        position = expression.position
        return try nested(try method(self, receiver, arguments))
      }
      let function = try attribute(of: receiver, name)
      let arguments = try evaluate(call)
      position = expression.position
      return try self.call(function, arguments)
    }
    let function = try evaluate(callee)
    let arguments = try evaluate(call)
    position = expression.position
    return try self.call(function, arguments)
  }

  @inline(never)
  func call(_ value: JinjaValue, _ arguments: Arguments) throws(JinjaError) -> JinjaValue {
    switch value {
    case .function(let function):
      switch function.body {
      case .global(let body): return try nested(try body(self, arguments))
      case .method(let body, let receiver): return try nested(try body(self, receiver, arguments))
      case .macro(let macro, let definition): return try call(macro, in: definition, arguments)
      case .loop(let state): return try recurse(state, arguments.positional.first ?? .none)
      }
    case .loop(let state): return try recurse(state, arguments.positional.first ?? .none)
    case .undefined(let missing): throw failure(missing.words)
    default: throw failure("'\(value.typeName)' object is not callable")
    }
  }
}

/// Evaluated arguments of a call.
struct Arguments {
  var positional: [JinjaValue] = []
  var named: [(name: String, value: JinjaValue)] = []
}

extension Interpreter {
  /// The arguments in the order of `parameters`; nil for those not given.
  ///
  /// - Throws: `JinjaError.failed` for surplus and unknown arguments.
  func bind(_ arguments: Arguments, _ parameters: StaticString...) throws(JinjaError) -> [JinjaValue?] {
    guard arguments.positional.count <= parameters.count else {
      throw failure("takes at most \(parameters.count) arguments, got \(arguments.positional.count)")
    }
    var bound: [JinjaValue?] = arguments.positional
    bound += Array(repeating: nil, count: parameters.count - bound.count)
    for argument in arguments.named {
      guard let at = parameters.firstIndex(where: { $0.description == argument.name }) else {
        throw failure("unexpected argument '\(argument.name)'")
      }
      bound[at] = argument.value
    }
    return bound
  }

  /// An argument that must be an integer.
  func integer(_ value: JinjaValue?, _ name: StaticString, default initial: Int) throws(JinjaError) -> Int {
    guard let value else { return initial }
    guard let integer = value.integer else {
      throw failure("'\(name)' must be an integer, not \(value.typeName)")
    }
    return integer
  }

  /// An argument that must be a string.
  func string(_ value: JinjaValue?, _ name: StaticString) throws(JinjaError) -> String {
    guard let value else { throw failure("the argument '\(name)' is missing") }
    guard let text = value.text else { throw failure("'\(name)' must be a string, not \(value.typeName)") }
    return text
  }
}
