// Filters on sequences and mappings.

extension Filters {
  static let length: FilterFunction = { (i, v, _) throws(JinjaError) in .int(try i.length(of: v)) }

  static let first: FilterFunction = { (i, v, _) throws(JinjaError) in
    if case .generator(let generator) = v {
      return generator.takeFirst() ?? .undefined(.element("0", of: "sequence"))
    }
    if let text = v.text {
      return TextOperations.scalar(of: text, at: 0).map { .string(String($0)) }
        ?? .undefined(.element("0", of: "str object"))
    }
    return try i.iterate(v).first ?? .undefined(.element("0", of: "sequence"))
  }

  static let last: FilterFunction = { (i, v, _) throws(JinjaError) in
    if case .generator = v { throw i.failure("'generator' object is not reversible") }
    if let text = v.text {
      return TextOperations.scalar(of: text, at: -1).map { .string(String($0)) }
        ?? .undefined(.element("-1", of: "str object"))
    }
    return try i.iterate(v).last ?? .undefined(.element("-1", of: "sequence"))
  }

  static let items: FilterFunction = { (i, v, _) throws(JinjaError) in
    switch v {
    case .undefined: return .generator(JinjaGenerator([]))
    case .dict(let dict): return .generator(JinjaGenerator(try i.pairs(of: dict)))
    default: throw i.failure("Can only get item pairs from a mapping.")
    }
  }

  static let join: FilterFunction = { (i, v, a) throws(JinjaError) in
    let bound = try i.bind(a, "d", "attribute")
    let separator = try i.text(of: bound[0] ?? .string(""))
    var parts: [String] = []
    for item in try i.iterate(v) {
      parts.append(try i.text(of: try project(i, item, bound[1])))
    }
    try i.charge(units: parts.count)
    return try i.join(parts, by: separator)
  }

  static let reverse: FilterFunction = { (i, v, _) throws(JinjaError) in
    if let text = v.text {
      try i.charge(text: text)
      var scalars = String.UnicodeScalarView()
      scalars.append(contentsOf: text.unicodeScalars.reversed())
      return try i.string(String(scalars))
    }
    let items = try i.iterate(v)
    try i.charge(units: items.count)
    return .generator(JinjaGenerator(items.reversed()))
  }

  // MARK: Attributes and keys

  /// The value an `attribute` argument names: a dotted path whose digits are indices. `initial` replaces what
  /// is missing on the way.
  static func project(
    _ i: Interpreter, _ value: JinjaValue, _ attribute: JinjaValue?, default initial: JinjaValue? = nil
  ) throws(JinjaError) -> JinjaValue {
    guard let attribute, !attribute.isNone else { return value }
    if attribute.integer != nil {
      let result = try i.item(of: value, attribute)
      return result.isUndefined ? initial ?? result : result
    }
    var result = value
    for part in TextOperations.split(try i.string(attribute, "attribute"), by: ".", limit: 16) {
      let key: JinjaValue = PythonNumber.integer(from: part).map { .int($0) } ?? .string(part)
      result = try i.item(of: result, key)
      if result.isUndefined, let initial { result = initial }
    }
    return result
  }

  /// A sorting key: strings without case, unless the filter is told otherwise.
  static func sortKey(_ value: JinjaValue, _ caseSensitive: Bool) -> JinjaValue {
    guard !caseSensitive, let text = value.text else { return value }
    return .string(text.lowercased())
  }

  // MARK: map, select, reject

  static let map: FilterFunction = { (i, v, a) throws(JinjaError) in
    // The reference looks at the sequence only when it is true: none has no items here.
    guard v.isTrue else { return .generator(JinjaGenerator([])) }
    var out: [JinjaValue] = []
    let attribute = a.named.first { $0.name == "attribute" }?.value
    if a.positional.isEmpty, let attribute {
      let initial = a.named.first { $0.name == "default" }?.value
      for item in try i.iterate(v) {
        try i.charge(units: Interpreter.unitsPerStep)
        out.append(try project(i, item, attribute, default: initial))
      }
    } else {
      let name = try i.string(a.positional.first, "filter")
      guard let filter = table[name] else { throw i.failure("No filter named '\(name)' found.") }
      let rest = Arguments(positional: Array(a.positional.dropFirst()), named: a.named)
      for item in try i.iterate(v) {
        try i.charge(units: Interpreter.unitsPerStep)
        out.append(try filter(i, item, rest))
      }
    }
    return .generator(JinjaGenerator(out))
  }

  static func select(
    _ i: Interpreter, _ value: JinjaValue, _ arguments: Arguments, keeps: Bool, byAttribute: Bool
  ) throws(JinjaError) -> JinjaValue {
    guard value.isTrue else { return .generator(JinjaGenerator([])) }
    var rest = arguments.positional[...]
    var attribute: JinjaValue?
    if byAttribute {
      guard let first = rest.popFirst() else { throw i.failure("the attribute's name is missing") }
      attribute = first
    }
    var test: TestFunction?
    if let name = rest.popFirst() {
      let word = try i.string(name, "test")
      guard let found = Tests.table[word] else { throw i.failure("No test named '\(word)' found.") }
      test = found
    }
    let testArguments = Arguments(positional: Array(rest), named: arguments.named)
    var out: [JinjaValue] = []
    for item in try i.iterate(value) {
      try i.charge(units: Interpreter.unitsPerStep)
      let subject = try project(i, item, attribute)
      let holds =
        try test.map { (test) throws(JinjaError) in try test(i, subject, testArguments) } ?? subject.isTrue
      if holds == keeps { out.append(item) }
    }
    return .generator(JinjaGenerator(out))
  }

  // MARK: Sorting

  /// A stable merge sort; comparisons can fail, so the standard library's does not serve.
  static func sorted(
    _ i: Interpreter, _ pairs: [(key: JinjaValue, value: JinjaValue)], isReversed: Bool
  ) throws(JinjaError) -> [JinjaValue] {
    var source = pairs
    var width = 1
    while width < source.count {
      var merged: [(key: JinjaValue, value: JinjaValue)] = []
      merged.reserveCapacity(source.count)
      for start in stride(from: 0, to: source.count, by: 2 * width) {
        var left = start
        let middle = min(start + width, source.count)
        var right = middle
        let end = min(start + 2 * width, source.count)
        while left < middle, right < end {
          // The right element goes first only when it is strictly before the left: that is stability.
          let takesRight =
            isReversed
            ? try i.isLess(source[left].key, source[right].key)
            : try i.isLess(source[right].key, source[left].key)
          merged.append(takesRight ? source[right] : source[left])
          if takesRight { right += 1 } else { left += 1 }
        }
        merged += source[left..<middle]
        merged += source[right..<end]
      }
      source = merged
      width *= 2
    }
    return source.map(\.value)
  }

  static let sort: FilterFunction = { (i, v, a) throws(JinjaError) in
    let bound = try i.bind(a, "reverse", "case_sensitive", "attribute")
    let caseSensitive = bound[1]?.isTrue ?? false
    var pairs: [(key: JinjaValue, value: JinjaValue)] = []
    for item in try i.iterate(v) { pairs.append((try sortKeys(i, item, bound[2], caseSensitive), item)) }
    try i.charge(units: pairs.count)
    return .list(try sorted(i, pairs, isReversed: bound[0]?.isTrue ?? false))
  }

  /// Several attributes are separated by commas and compared in order.
  private static func sortKeys(
    _ i: Interpreter, _ item: JinjaValue, _ attribute: JinjaValue?, _ caseSensitive: Bool
  ) throws(JinjaError) -> JinjaValue {
    guard let names = attribute?.text, names.utf8.contains(UInt8(ascii: ",")) else {
      // A list too, as in jinja2: two that are undefined are equal in lists, and not compared further.
      return .list([sortKey(try project(i, item, attribute), caseSensitive)])
    }
    var keys: [JinjaValue] = []
    for name in TextOperations.split(names, by: ",", limit: 16) {
      keys.append(sortKey(try project(i, item, .string(TextOperations.strip(name))), caseSensitive))
    }
    return .list(keys)
  }

  static let dictSort: FilterFunction = { (i, v, a) throws(JinjaError) in
    let bound = try i.bind(a, "case_sensitive", "by", "reverse")
    guard case .dict(let dict) = v else {
      if case .undefined(let missing) = v { throw i.failure(missing.words) }
      throw i.failure("'\(v.typeName)' object has no attribute 'items'")
    }
    let caseSensitive = bound[0]?.isTrue ?? false
    let by = bound[1]?.text ?? "key"
    guard by == "key" || by == "value" else { throw i.failure("dictsort works by \"key\" or \"value\"") }
    let pairs = zip(dict.entries, try i.pairs(of: dict)).map {
      (key: sortKey(by == "key" ? $0.key : $0.value, caseSensitive), value: $1)
    }
    return .list(try sorted(i, pairs, isReversed: bound[2]?.isTrue ?? false))
  }

  static let groupBy: FilterFunction = { (i, v, a) throws(JinjaError) in
    let bound = try i.bind(a, "attribute", "default", "case_sensitive")
    let caseSensitive = bound[2]?.isTrue ?? false
    var pairs: [(key: JinjaValue, value: JinjaValue)] = []
    for item in try i.iterate(v) {
      let key = try project(i, item, bound[0], default: bound[1])
      pairs.append((sortKey(key, caseSensitive), .tuple([key, item])))
    }
    var groups: [(sortKey: JinjaValue, key: JinjaValue, items: [JinjaValue])] = []
    for case .tuple(let pair) in try sorted(i, pairs, isReversed: false) {
      let key = sortKey(pair.items[0], caseSensitive)
      if let lastKey = groups.last?.sortKey, try i.isEqual(lastKey, key) {
        groups[groups.count - 1].items.append(pair.items[1])
      } else {
        groups.append((key, pair.items[0], [pair.items[1]]))
      }
    }
    return .list(groups.map { .tuple([$0.key, .list($0.items)]) })
  }

  static let unique: FilterFunction = { (i, v, a) throws(JinjaError) in
    let bound = try i.bind(a, "case_sensitive", "attribute")
    let caseSensitive = bound[0]?.isTrue ?? false
    var seen: [JinjaValue] = []
    var out: [JinjaValue] = []
    for item in try i.iterate(v) {
      let key = sortKey(try project(i, item, bound[1]), caseSensitive)
      guard key.isHashable else { throw i.failure("unhashable type: '\(key.typeName)'") }
      var isNew = true
      for old in seen where try i.isEqual(old, key) {
        isNew = false
        break
      }
      if isNew {
        seen.append(key)
        out.append(item)
      }
    }
    return .generator(JinjaGenerator(out))
  }

  static func extreme(
    _ i: Interpreter, _ value: JinjaValue, _ arguments: Arguments, isMaximum: Bool
  ) throws(JinjaError) -> JinjaValue {
    let bound = try i.bind(arguments, "case_sensitive", "attribute")
    let caseSensitive = bound[0]?.isTrue ?? false
    var best: (key: JinjaValue, value: JinjaValue)?
    for item in try i.iterate(value) {
      let key = sortKey(try project(i, item, bound[1]), caseSensitive)
      if let current = best {
        let isBetter = isMaximum ? try i.isLess(current.key, key) : try i.isLess(key, current.key)
        if isBetter { best = (key, item) }
      } else {
        best = (key, item)
      }
    }
    return best?.value ?? .undefined(.element("0", of: "an empty sequence"))
  }

  // MARK: Numbers and groups

  static let sum: FilterFunction = { (i, v, a) throws(JinjaError) in
    let bound = try i.bind(a, "attribute", "start")
    var whole = 0
    var real = 0.0
    var isReal = false
    let terms = [bound[1] ?? .int(0)] + (try i.iterate(v))
    for (at, item) in terms.enumerated() {
      let term = at == 0 ? item : try project(i, item, bound[0])
      if let integer = term.integer {
        let (next, overflow) = whole.addingReportingOverflow(integer)
        guard !overflow else { throw i.limitReached("an integer beyond 64 bits") }
        whole = next
      } else if case .double(let double) = term {
        isReal = true
        real += double
      } else {
        throw i.failure("cannot add '\(term.typeName)' to a sum")
      }
    }
    return isReal ? .double(real + Double(whole)) : .int(whole)
  }

  static let batch: FilterFunction = { (i, v, a) throws(JinjaError) in
    let bound = try i.bind(a, "linecount", "fill_with")
    let size = try i.integer(bound[0], "linecount", default: 0)
    guard size > 0, size <= i.limits.range else {
      throw i.failure("linecount must be from 1 to \(i.limits.range)")
    }
    let items = try i.iterate(v)
    try i.charge(units: items.count + size)
    var rows: [JinjaValue] = []
    for start in stride(from: 0, to: items.count, by: size) {
      var row = Array(items[start..<min(start + size, items.count)])
      if let fill = bound[1], !fill.isNone { row += Array(repeating: fill, count: size - row.count) }
      rows.append(.list(row))
    }
    return .generator(JinjaGenerator(rows))
  }

  static let slice: FilterFunction = { (i, v, a) throws(JinjaError) in
    let bound = try i.bind(a, "slices", "fill_with")
    let count = try i.integer(bound[0], "slices", default: 0)
    guard count > 0, count <= i.limits.range else {
      throw i.failure("slices must be from 1 to \(i.limits.range)")
    }
    let items = try i.iterate(v)
    try i.charge(units: items.count + count)
    let (size, longer) = items.count.quotientAndRemainder(dividingBy: count)
    var columns: [JinjaValue] = []
    var start = 0
    for column in 0..<count {
      let end = start + size + (column < longer ? 1 : 0)
      var part = Array(items[start..<end])
      if let fill = bound[1], !fill.isNone, longer > 0, column >= longer { part.append(fill) }
      columns.append(.list(part))
      start = end
    }
    return .generator(JinjaGenerator(columns))
  }
}
