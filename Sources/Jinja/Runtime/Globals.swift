// The global functions of chat templates.

typealias GlobalFunction = @Sendable (Interpreter, Arguments) throws(JinjaError) -> JinjaValue

enum Globals {
  static let table: [String: GlobalFunction] = [
    "raise_exception": { (i, a) throws(JinjaError) in
      if i.passed.contains(i.position) { return .string("") }
      throw .raised(at: i.position, message: try i.text(of: a.positional.first ?? .none))
    },
    "namespace": namespace,
    "range": range,
    "dict": dict,
    "strftime_now": { (i, a) throws(JinjaError) in
      let format = try i.string(try i.bind(a, "format")[0], "format")
      return try i.string(i.clock().formatted(format))
    },
  ]

  private static let namespace: GlobalFunction = { (i, a) throws(JinjaError) in
    let namespace = try i.makeNamespace()
    if let initial = a.positional.first {
      guard case .dict(let dict) = initial else { throw i.failure("namespace() takes a mapping or keywords") }
      for entry in dict.entries {
        try i.charge(units: namespace.attributes.count / 8)
        if let name = entry.key.text { namespace.set(name, entry.value) }
      }
    }
    for argument in a.named { namespace.set(argument.name, argument.value) }
    return .namespace(namespace)
  }

  private static let range: GlobalFunction = { (i, a) throws(JinjaError) in
    var numbers: [Int] = []
    for value in a.positional { numbers.append(try i.integer(value, "range", default: 0)) }
    guard (1...3).contains(numbers.count), a.named.isEmpty else {
      throw i.failure("range() takes 1 to 3 integers")
    }
    let start = numbers.count == 1 ? 0 : numbers[0]
    let stop = numbers.count == 1 ? numbers[0] : numbers[1]
    let step = numbers.count == 3 ? numbers[2] : 1
    guard step != 0 else { throw i.failure("range() step must not be zero") }
    let (distance, overflow) =
      step > 0 ? stop.subtractingReportingOverflow(start) : start.subtractingReportingOverflow(stop)
    var items: [JinjaValue] = []
    if start != stop, overflow || distance > 0 {
      let stride = step.magnitude
      let count = overflow ? UInt.max : (UInt(distance) - 1) / stride + 1
      guard count <= UInt(i.limits.range) else {
        throw i.limitReached("range() of more than \(i.limits.range) elements")
      }
      items.reserveCapacity(Int(count))
      for index in 0..<Int(count) { items.append(.int(start + index * step)) }
    }
    try i.charge(units: items.count)
    let name = step == 1 ? "range(\(start), \(stop))" : "range(\(start), \(stop), \(step))"
    return .view(JinjaView(name: name, items: items, isRange: true))
  }

  private static let dict: GlobalFunction = { (i, a) throws(JinjaError) in
    let dict = JinjaDict()
    switch a.positional.first {
    case nil: break
    case .dict(let other):
      try i.charge(units: other.entries.count)
      for entry in other.entries { dict.insert(entry.key, entry.value) }
    case let pairs?:
      for pair in try i.iterate(pairs) {
        let items = try i.iterate(pair)
        guard items.count == 2, items[0].isHashable else {
          throw i.failure("dict() takes pairs of key and value")
        }
        // Keys that are not strings are searched linearly.
        try i.charge(units: 1 + dict.entries.count / 8)
        dict.insert(items[0], items[1])
      }
    }
    for argument in a.named { dict.insert(.string(argument.name), argument.value) }
    return .dict(dict)
  }
}
