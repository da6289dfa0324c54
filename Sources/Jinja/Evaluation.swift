// Expressions to values.
//
// `evaluate` recurses as deep as the tree; everything it does not need on its own stack frame is in
// functions that are not inlined, so that a level costs little stack.

extension Interpreter {
  func evaluate(_ expression: Expression) throws(JinjaError) -> JinjaValue {
    try enterFrame()
    defer { leaveFrame() }
    switch expression.kind {
    case .literal(let literal): return value(of: literal)
    case .name(let name): return lookup(name)
    case .attribute(let base, let name): return try attribute(base, name, expression.position)
    case .item(let base, let key): return try item(base, key, expression.position)
    case .filter(let base, let filter): return try apply(filter, to: try evaluate(base))
    case .test(let base, let test): return try apply(test, base, expression.position)
    case .not(let operand): return .bool(!(try evaluate(operand).isTrue))
    case .and(let left, let right):
      let value = try evaluate(left)
      return value.isTrue ? try evaluate(right) : value
    case .or(let left, let right):
      let value = try evaluate(left)
      return value.isTrue ? value : try evaluate(right)
    case .conditional(let test, let then, let otherwise):
      if try evaluate(test).isTrue { return try evaluate(then) }
      guard let otherwise else { return .undefined(.variable("the missing else of an inline if")) }
      return try evaluate(otherwise)
    case .binary(let operation, let left, let right):
      return try binary(operation, left, right, expression.position)
    case .comparison(let left, let comparisons): return try compare(left, comparisons, expression.position)
    case .concatenation(let parts): return try concatenate(parts, expression.position)
    case .call(let callee, let arguments): return try call(callee, arguments, expression.position)
    case .list(let elements): return try nested(.list(try evaluate(elements)))
    case .tuple(let elements): return try nested(.tuple(try evaluate(elements)))
    case .dict(let items): return try dict(items)
    case .slice(let base, let bounds): return try slice(base, bounds, expression.position)
    case .negative(let operand): return try negate(try evaluate(operand), expression.position)
    case .positive(let operand):
      let value = try evaluate(operand)
      guard value.number != nil else { throw failure("bad operand type for unary +: '\(value.typeName)'") }
      return value
    }
  }

  private func value(of literal: Literal) -> JinjaValue {
    switch literal {
    case .none: .none
    case .bool(let flag): .bool(flag)
    case .int(let value): .int(value)
    case .double(let value): .double(value)
    case .string(let text): .string(text)
    }
  }

  @inline(never)
  private func evaluate(_ expressions: [Expression]) throws(JinjaError) -> [JinjaValue] {
    var values: [JinjaValue] = []
    values.reserveCapacity(expressions.count)
    for expression in expressions { values.append(try evaluate(expression)) }
    return values
  }

  /// Refuses values nested so deep that walking or releasing them could overflow the stack.
  func nested(_ value: JinjaValue) throws(JinjaError) -> JinjaValue {
    guard value.depth <= Self.maxNesting else {
      throw limitReached("a value nested more than \(Self.maxNesting) levels deep")
    }
    return value
  }

  @inline(never)
  private func dict(_ items: [DictItem]) throws(JinjaError) -> JinjaValue {
    let dict = JinjaDict()
    for item in items {
      let key = try evaluate(item.key)
      guard key.isHashable else { throw failure("unhashable type: '\(key.typeName)'") }
      dict.insert(key, try evaluate(item.value))
    }
    return try nested(.dict(dict))
  }

  @inline(never)
  private func concatenate(_ parts: [Expression], _ at: JinjaPosition) throws(JinjaError) -> JinjaValue {
    var result = ""
    for part in parts {
      let more = try text(of: try evaluate(part))
      position = at
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
  func apply(_ filter: FilterCall, to value: JinjaValue) throws(JinjaError) -> JinjaValue {
    try charge(units: Self.unitsPerStep)
    let arguments = try evaluate(filter.arguments)
    position = filter.position
    return try nested(try filter.function(self, value, arguments))
  }

  @inline(never)
  private func apply(_ test: TestCall, _ base: Expression, _ at: JinjaPosition) throws(JinjaError) -> JinjaValue {
    let value = try evaluate(base)
    let arguments = try evaluate(test.arguments)
    position = at
    return .bool(try test.function(self, value, arguments) != test.isNegated)
  }

  @inline(never)
  func evaluate(_ call: CallArguments) throws(JinjaError) -> Arguments {
    var arguments = Arguments()
    if call.isEmpty { return arguments }
    for expression in call.positional { arguments.positional.append(try evaluate(expression)) }
    if let spread = call.spread { arguments.positional += try iterate(try evaluate(spread)) }
    for argument in call.named { arguments.named.append((argument.name, try evaluate(argument.value))) }
    if let spread = call.namedSpread {
      guard case .dict(let dict) = try evaluate(spread) else { throw failure("the argument after ** is no mapping") }
      for entry in dict.entries {
        guard let name = entry.key.text else { throw failure("keywords must be strings") }
        arguments.named.append((name, entry.value))
      }
    }
    return arguments
  }

  @inline(never)
  private func call(
    _ callee: Expression, _ call: CallArguments, _ at: JinjaPosition
  ) throws(JinjaError) -> JinjaValue {
    try charge(units: Self.unitsPerStep)
    // A method call makes no bound method first.
    if case .attribute(let base, let name) = callee.kind {
      let receiver = try evaluate(base)
      if let method = Methods.method(name, of: receiver) {
        let arguments = try evaluate(call)
        position = at
        return try nested(try method(self, receiver, arguments))
      }
      let function = try attribute(of: receiver, name, at)
      let arguments = try evaluate(call)
      position = at
      return try self.call(function, arguments)
    }
    let function = try evaluate(callee)
    let arguments = try evaluate(call)
    position = at
    return try self.call(function, arguments)
  }

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
    guard let integer = value.integer else { throw failure("'\(name)' must be an integer, not \(value.typeName)") }
    return integer
  }

  /// An argument that must be a string.
  func string(_ value: JinjaValue?, _ name: StaticString) throws(JinjaError) -> String {
    guard let value else { throw failure("the argument '\(name)' is missing") }
    guard let text = value.text else { throw failure("'\(name)' must be a string, not \(value.typeName)") }
    return text
  }
}
