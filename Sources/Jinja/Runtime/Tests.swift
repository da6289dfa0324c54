// The tests after `is`.

typealias TestFunction = @Sendable (Interpreter, JinjaValue, Arguments) throws(JinjaError) -> Bool

enum Tests {
  static let table: [String: TestFunction] = [
    "boolean": { (_, v, _) in if case .bool = v { true } else { false } },
    "callable": { (_, v, _) in
      switch v {
      // Python asks the type: that of undefined values can be called, and then fails.
      case .function, .loop, .undefined: true
      default: false
      }
    },
    "defined": { (_, v, _) in !v.isUndefined },
    "undefined": { (_, v, _) in v.isUndefined },
    "none": { (_, v, _) in v.isNone },
    "true": { (_, v, _) in if case .bool(true) = v { true } else { false } },
    "false": { (_, v, _) in if case .bool(false) = v { true } else { false } },
    "string": { (_, v, _) in v.text != nil },
    "mapping": { (_, v, _) in if case .dict = v { true } else { false } },
    "integer": { (_, v, _) in isInteger(v) },
    "float": { (_, v, _) in if case .double = v { true } else { false } },
    "number": { (_, v, _) in v.number != nil },
    "iterable": { (_, v, _) in isIterable(v) },
    "sequence": { (_, v, _) in isSequence(v) },
    "escaped": { (_, v, _) in if case .markup = v { true } else { false } },
    "lower": { (i, v, _) throws(JinjaError) in
      Methods.isCased(try i.text(of: v)) { !$0.properties.isUppercase }
    },
    "upper": { (i, v, _) throws(JinjaError) in
      Methods.isCased(try i.text(of: v)) { !$0.properties.isLowercase }
    },
    "even": { (i, v, _) throws(JinjaError) in try whole(i, v) % 2 == 0 },
    "odd": { (i, v, _) throws(JinjaError) in try whole(i, v) % 2 != 0 },
    "divisibleby": { (i, v, a) throws(JinjaError) in
      let divisor = try i.integer(try i.bind(a, "num")[0], "num", default: 0)
      guard divisor != 0 else { throw i.failure("integer modulo by zero") }
      // The smallest integer has no quotient by -1; it is divisible.
      if divisor == -1 { return true }
      return try whole(i, v) % divisor == 0
    },
    "sameas": { (i, v, a) throws(JinjaError) in
      let other = try i.bind(a, "other")[0] ?? .none
      guard v.typeName == other.typeName else { return false }
      return try i.isEqual(v, other)
    },
    "in": comparing(.isIn),
    "eq": comparing(.equal), "equalto": comparing(.equal), "==": comparing(.equal),
    "ne": comparing(.notEqual), "!=": comparing(.notEqual),
    "lt": comparing(.less), "lessthan": comparing(.less), "<": comparing(.less),
    "le": comparing(.lessOrEqual), "<=": comparing(.lessOrEqual),
    "gt": comparing(.greater), "greaterthan": comparing(.greater), ">": comparing(.greater),
    "ge": comparing(.greaterOrEqual), ">=": comparing(.greaterOrEqual),
    "filter": { (_, v, _) in v.text.map { Filters.table[$0] != nil } ?? false },
    "test": { (_, v, _) in v.text.map { table[$0] != nil } ?? false },
  ]

  private static func comparing(_ comparison: ComparisonOperator) -> TestFunction {
    { (i, v, a) throws(JinjaError) in
      guard let other = try i.bind(a, "other")[0] else { throw i.failure("the test needs an argument") }
      return try i.holds(comparison, v, other)
    }
  }

  private static func isInteger(_ value: JinjaValue) -> Bool {
    switch value {
    case .int, .bigInteger: true
    default: false
    }
  }

  static func isIterable(_ value: JinjaValue) -> Bool {
    switch value {
    case .undefined, .string, .markup, .list, .tuple, .dict, .view, .generator, .loop: true
    default: false
    }
  }

  private static func isSequence(_ value: JinjaValue) -> Bool {
    switch value {
    case .undefined, .string, .markup, .list, .tuple, .dict: true
    case .view(let view): view.isRange
    default: false
    }
  }

  private static func whole(_ i: Interpreter, _ value: JinjaValue) throws(JinjaError) -> Int {
    guard let integer = value.integer else {
      throw i.failure("the test needs an integer, not \(value.typeName)")
    }
    return integer
  }
}
