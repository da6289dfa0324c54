// Arithmetic and comparison with Python's rules.

extension Interpreter {
  @inline(never)
  func binary(_ expression: Expression) throws(JinjaError) -> JinjaValue {
    guard case .binary(let operation, let left, let right) = expression.kind else { return .none }
    let a = try evaluate(left)
    let b = try evaluate(right)
    position = expression.position
    return try compute(operation, a, b)
  }

  @inline(never)
  private func compute(
    _ operation: BinaryOperator, _ a: JinjaValue, _ b: JinjaValue
  ) throws(JinjaError) -> JinjaValue {
    if operation == .add, let sum = try addSequences(a, b) { return sum }
    if operation == .multiply, let product = try multiplySequence(a, b) { return product }
    if operation == .modulo, let format = a.text {
      return try string(try Formatting.percent(format, b, self))
    }
    if let x = a.integer, let y = b.integer { return try integerArithmetic(operation, x, y) }
    if let x = a.number, let y = b.number { return try floatArithmetic(operation, x, y) }
    for case .undefined(let missing) in [a, b] { throw failure(missing.words) }
    if operation == .add, a.text != nil {
      throw failure("can only concatenate str (not \"\(b.typeName)\") to str")
    }
    throw failure(
      "unsupported operand type(s) for \(operation.rawValue): '\(a.typeName)' and '\(b.typeName)'")
  }

  private func addSequences(_ a: JinjaValue, _ b: JinjaValue) throws(JinjaError) -> JinjaValue? {
    switch (a, b) {
    case (.string(let x), .string(let y)):
      try checkLength(x.utf8.count + y.utf8.count)
      return try string(x + y)
    case (.markup(let x), .string(let y)): return .markup(try joined(x, TextOperations.escapedHTML(y)))
    case (.string(let x), .markup(let y)): return .markup(try joined(TextOperations.escapedHTML(x), y))
    case (.markup(let x), .markup(let y)): return .markup(try joined(x, y))
    case (.list(let x), .list(let y)):
      try charge(elements: x.items.count + y.items.count)
      return .list(x.items + y.items)
    case (.tuple(let x), .tuple(let y)):
      try charge(elements: x.items.count + y.items.count)
      return .tuple(x.items + y.items)
    default: return nil
    }
  }

  private func joined(_ x: String, _ y: String) throws(JinjaError) -> String {
    try checkLength(x.utf8.count + y.utf8.count)
    try charge(units: (x.utf8.count + y.utf8.count) / 16)
    return x + y
  }

  private func multiplySequence(_ a: JinjaValue, _ b: JinjaValue) throws(JinjaError) -> JinjaValue? {
    if a.integer != nil, b.integer == nil { return try multiplySequence(b, a) }
    guard let count = b.integer.map({ max(0, $0) }) else { return nil }
    switch a {
    case .string(let text), .markup(let text):
      let (bytes, overflow) = text.utf8.count.multipliedReportingOverflow(by: count)
      try checkLength(overflow ? .max : bytes)
      // What is empty would be appended to nothing as often as the template says.
      return try string(bytes == 0 ? "" : String(repeating: text, count: count))
    case .list(let list): return .list(try repeated(list.items, count))
    case .tuple(let list): return .tuple(try repeated(list.items, count))
    default: return nil
    }
  }

  private func repeated(_ items: [JinjaValue], _ count: Int) throws(JinjaError) -> [JinjaValue] {
    let (total, overflow) = items.count.multipliedReportingOverflow(by: count)
    try charge(elements: overflow ? .max : total)
    return total == 0 ? [] : Array(repeatElement(items, count: count).joined())
  }

  private func integerArithmetic(
    _ operation: BinaryOperator, _ x: Int, _ y: Int
  ) throws(JinjaError) -> JinjaValue {
    let result: (partialValue: Int, overflow: Bool)
    switch operation {
    case .add: result = x.addingReportingOverflow(y)
    case .subtract: result = x.subtractingReportingOverflow(y)
    case .multiply: result = x.multipliedReportingOverflow(by: y)
    case .divide: return try floatArithmetic(.divide, Double(x), Double(y))
    case .floorDivide, .modulo:
      guard y != 0 else { throw failure("integer division or modulo by zero") }
      let quotient = x.dividedReportingOverflow(by: y)
      // Swift truncates, Python floors.
      let remainder = x.remainderReportingOverflow(dividingBy: y).partialValue
      let isBelow = remainder != 0 && (remainder < 0) != (y < 0)
      if operation == .modulo {
        result = (isBelow ? remainder + y : remainder, false)
      } else {
        result = (isBelow ? quotient.partialValue - 1 : quotient.partialValue, quotient.overflow)
      }
    case .power:
      if y < 0 { return try floatArithmetic(.power, Double(x), Double(y)) }
      result = Self.power(x, y)
    }
    guard !result.overflow else { throw limitReached("an integer beyond 64 bits") }
    return .int(result.partialValue)
  }

  private static func power(_ base: Int, _ exponent: Int) -> (partialValue: Int, overflow: Bool) {
    var result = 1
    var factor = base
    var rest = exponent
    while rest > 0 {
      if rest & 1 == 1 {
        let (product, overflow) = result.multipliedReportingOverflow(by: factor)
        if overflow { return (0, true) }
        result = product
      }
      rest >>= 1
      if rest > 0 {
        let (square, overflow) = factor.multipliedReportingOverflow(by: factor)
        if overflow { return (0, true) }
        factor = square
      }
    }
    return (result, false)
  }

  private func floatArithmetic(
    _ operation: BinaryOperator, _ x: Double, _ y: Double
  ) throws(JinjaError) -> JinjaValue {
    switch operation {
    case .add: return .double(x + y)
    case .subtract: return .double(x - y)
    case .multiply: return .double(x * y)
    case .divide, .floorDivide, .modulo:
      guard y != 0 else { throw failure("division by zero") }
      if operation == .divide { return .double(x / y) }
      let remainder = x.truncatingRemainder(dividingBy: y)
      let isBelow = remainder != 0 && (remainder < 0) != (y < 0)
      // A remainder of zero has the divisor's sign, as in Python.
      let modulo = isBelow ? remainder + y : remainder == 0 ? Double(signOf: y, magnitudeOf: 0) : remainder
      if operation == .modulo { return .double(modulo) }
      // Near a whole number, but for rounding; a half stays below, as in Python.
      let quotient = (x - remainder) / y - (isBelow ? 1 : 0)
      guard quotient != 0 else { return .double(Double(signOf: x / y, magnitudeOf: 0)) }
      let floor = quotient.rounded(.down)
      return .double(quotient - floor > 0.5 ? floor + 1 : floor)
    case .power:
      // Without libm only whole exponents are computed.
      guard let whole = Int(exactly: y), whole.magnitude <= 1024 else {
        throw failure("** is supported for whole exponents up to 1024")
      }
      var result = 1.0
      for _ in 0..<abs(whole) { result *= x }
      guard whole >= 0 || result != 0 else { throw failure("division by zero") }
      return .double(whole < 0 ? 1 / result : result)
    }
  }

  @inline(never)
  func negative(_ expression: Expression) throws(JinjaError) -> JinjaValue {
    guard case .negative(let operand) = expression.kind else { return .none }
    let value = try evaluate(operand)
    position = expression.position
    if let integer = value.integer {
      let (result, overflow) = Int(0).subtractingReportingOverflow(integer)
      guard !overflow else { throw limitReached("an integer beyond 64 bits") }
      return .int(result)
    }
    if case .double(let double) = value { return .double(-double) }
    throw failure("bad operand type for unary -: '\(value.typeName)'")
  }

  // MARK: Comparison

  @inline(never)
  func comparison(_ expression: Expression) throws(JinjaError) -> JinjaValue {
    guard case .comparison(let left, let comparisons) = expression.kind else { return .none }
    var a = try evaluate(left)
    for comparison in comparisons {
      let b = try evaluate(comparison.operand)
      position = expression.position
      guard try holds(comparison.comparison, a, b) else { return .bool(false) }
      a = b
    }
    return .bool(true)
  }

  func holds(_ comparison: ComparisonOperator, _ a: JinjaValue, _ b: JinjaValue) throws(JinjaError) -> Bool {
    switch comparison {
    case .equal: try isEqual(a, b)
    case .notEqual: !(try isEqual(a, b))
    case .less: try isLess(a, b)
    case .greater: try isLess(b, a)
    case .lessOrEqual: try isLessOrEqual(a, b)
    case .greaterOrEqual: try isLessOrEqual(b, a)
    case .isIn: try contains(b, a)
    case .isNotIn: !(try contains(b, a))
    }
  }

  func isEqual(_ a: JinjaValue, _ b: JinjaValue) throws(JinjaError) -> Bool {
    try charge(units: 1)
    if let x = a.text, let y = b.text { return x.utf8.elementsEqual(y.utf8) }
    if let x = a.integer, let y = b.integer { return x == y }
    switch (a, b) {
    case (.undefined, .undefined), (.none, .none): return true
    case (.list(let x), .list(let y)), (.tuple(let x), .tuple(let y)): return try areEqual(x.items, y.items)
    case (.view(let x), .view(let y)): return try areEqual(x.items, y.items)
    case (.dict(let x), .dict(let y)):
      guard x.entries.count == y.entries.count else { return false }
      for entry in x.entries {
        guard let place = y.place(of: entry.key), try isEqual(entry.value, y.entries[place].value) else {
          return false
        }
      }
      return true
    case (.namespace(let x), .namespace(let y)): return x === y
    case (.generator(let x), .generator(let y)): return x === y
    case (.loop(let x), .loop(let y)): return x === y
    case (.function(let x), .function(let y)): return x === y
    default: return a.isSameKey(as: b)
    }
  }

  private func areEqual(_ x: [JinjaValue], _ y: [JinjaValue]) throws(JinjaError) -> Bool {
    guard x.count == y.count else { return false }
    for (a, b) in zip(x, y) where !(try isEqual(a, b)) { return false }
    return true
  }

  func isLess(_ a: JinjaValue, _ b: JinjaValue) throws(JinjaError) -> Bool {
    try charge(units: 1)
    // Code point order is the order of UTF-8 bytes.
    if let x = a.text, let y = b.text { return x.utf8.lexicographicallyPrecedes(y.utf8) }
    if let x = a.integer, let y = b.integer { return x < y }
    if let x = a.number, let y = b.number { return x < y }
    switch (a, b) {
    case (.list(let x), .list(let y)), (.tuple(let x), .tuple(let y)):
      for (left, right) in zip(x.items, y.items) where !(try isEqual(left, right)) {
        return try isLess(left, right)
      }
      return x.items.count < y.items.count
    case (.undefined(let missing), _), (_, .undefined(let missing)): throw failure(missing.words)
    default: throw failure("cannot order '\(a.typeName)' and '\(b.typeName)'")
    }
  }

  private func isLessOrEqual(_ a: JinjaValue, _ b: JinjaValue) throws(JinjaError) -> Bool {
    // Not "b < a is false": that differs for NaN.
    if try isLess(a, b) { return true }
    return try isEqual(a, b)
  }

  /// `member in container`.
  func contains(_ container: JinjaValue, _ member: JinjaValue) throws(JinjaError) -> Bool {
    switch container {
    case .string(let text), .markup(let text):
      guard let part = member.text else {
        throw failure("'in <string>' requires string as left operand, not \(member.typeName)")
      }
      try charge(text: text)
      return TextOperations.find(part, in: text) != nil
    case .dict(let dict):
      guard member.isHashable else { throw failure("unhashable type: '\(member.typeName)'") }
      return dict.place(of: member) != nil
    default:
      for item in try iterate(container) where try isEqual(item, member) { return true }
      return false
    }
  }
}
