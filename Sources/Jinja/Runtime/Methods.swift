// Methods of strings, dictionaries and lists. Those that change a list stand apart: the reference sandbox has none.

/// A method or filter: the interpreter, the receiver or left operand, the arguments.
typealias MethodFunction = @Sendable (Interpreter, JinjaValue, Arguments) throws(JinjaError) -> JinjaValue

enum Methods {
  /// The method `name` of a value, if its type has it.
  static func method(_ name: String, of value: JinjaValue) -> MethodFunction? {
    switch value {
    case .string: strings[name]
    case .markup: strings[name].map { marked($0, escapesArguments: escaping.contains(name)) }
    case .dict: dicts[name]
    case .list, .tuple: lists[name]
    case .loop: loops[name]
    default: nil
    }
  }

  // MARK: Strings

  /// Methods that put their arguments into the text.
  private static let escaping: Set<String> = ["join", "replace", "format"]

  /// The method as markupsafe has it: what it makes of marked text is marked too.
  private static func marked(_ method: @escaping MethodFunction, escapesArguments: Bool) -> MethodFunction {
    { (i, v, a) throws(JinjaError) in
      var arguments = a
      if escapesArguments {
        for index in arguments.positional.indices { try arguments.positional[index].escapeTexts(i) }
      }
      return try method(i, v, arguments).marked
    }
  }

  private static let strings: [String: MethodFunction] = [
    "capitalize": mapping { TextOperations.capitalize($0) },
    "casefold": mapping { $0.lowercased() },
    "lower": mapping { $0.lowercased() },
    "title": mapping { TextOperations.titlecased($0) },
    "upper": mapping { $0.uppercased() },
    "strip": { (i, v, a) throws(JinjaError) in try strip(i, v, a, start: true, end: true) },
    "lstrip": { (i, v, a) throws(JinjaError) in try strip(i, v, a, start: true, end: false) },
    "rstrip": { (i, v, a) throws(JinjaError) in try strip(i, v, a, start: false, end: true) },
    "split": { (i, v, a) throws(JinjaError) in try split(i, v, a, fromEnd: false) },
    "rsplit": { (i, v, a) throws(JinjaError) in try split(i, v, a, fromEnd: true) },
    "splitlines": splitLines,
    "partition": { (i, v, a) throws(JinjaError) in try partition(i, v, a, fromEnd: false) },
    "rpartition": { (i, v, a) throws(JinjaError) in try partition(i, v, a, fromEnd: true) },
    "startswith": { (i, v, a) throws(JinjaError) in try affix(i, v, a, TextOperations.hasPrefix) },
    "endswith": { (i, v, a) throws(JinjaError) in try affix(i, v, a, TextOperations.hasSuffix) },
    "removeprefix": { (i, v, a) throws(JinjaError) in try removeAffix(i, v, a, atStart: true) },
    "removesuffix": { (i, v, a) throws(JinjaError) in try removeAffix(i, v, a, atStart: false) },
    "find": { (i, v, a) throws(JinjaError) in try find(i, v, a, TextOperations.find) },
    "rfind": { (i, v, a) throws(JinjaError) in try find(i, v, a, TextOperations.findLast) },
    "count": countText,
    "replace": replace,
    "join": join,
    "format": { (i, v, a) throws(JinjaError) in try i.string(try Formatting.format(v.text ?? "", a, i)) },
    "isdigit": testing { $0.properties.numericType == .decimal || $0.properties.numericType == .digit },
    "isdecimal": testing { $0.properties.numericType == .decimal },
    "isnumeric": testing { $0.properties.numericType != nil },
    "isalpha": testing { isLetter($0) },
    "isalnum": testing { isLetter($0) || $0.properties.numericType != nil },
    "isspace": testing { $0.properties.isWhitespace || (0x1C...0x1F).contains($0.value) },
    "islower": { (_, v, _) in .bool(isCased(v.text ?? "") { !$0.properties.isUppercase }) },
    "isupper": { (_, v, _) in .bool(isCased(v.text ?? "") { !$0.properties.isLowercase }) },
  ]

  private static func mapping(_ body: @escaping @Sendable (String) -> String) -> MethodFunction {
    { (i, v, _) throws(JinjaError) in try i.string(body(v.text ?? "")) }
  }

  /// True when there are scalars and all satisfy `body`.
  private static func testing(_ body: @escaping @Sendable (Unicode.Scalar) -> Bool) -> MethodFunction {
    { (i, v, _) throws(JinjaError) in
      let text = v.text ?? ""
      try i.charge(units: text.utf8.count)
      return .bool(!text.utf8.isEmpty && text.unicodeScalars.allSatisfy(body))
    }
  }

  private static func isLetter(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.properties.generalCategory {
    case .uppercaseLetter, .lowercaseLetter, .titlecaseLetter, .modifierLetter, .otherLetter: true
    default: false
    }
  }

  static func isCased(_ text: String, _ body: (Unicode.Scalar) -> Bool) -> Bool {
    let cased = text.unicodeScalars.filter(\.properties.isCased)
    return !cased.isEmpty && cased.allSatisfy(body)
  }

  private static func strip(
    _ i: Interpreter, _ value: JinjaValue, _ arguments: Arguments, start: Bool, end: Bool
  ) throws(JinjaError) -> JinjaValue {
    let given = try i.bind(arguments, "chars")[0]
    let characters = given.map(\.isNone) ?? true ? nil : try i.string(given, "chars")
    return try i.string(TextOperations.strip(value.text ?? "", characters, start: start, end: end))
  }

  private static func split(
    _ i: Interpreter, _ value: JinjaValue, _ arguments: Arguments, fromEnd: Bool
  ) throws(JinjaError) -> JinjaValue {
    let bound = try i.bind(arguments, "sep", "maxsplit")
    let limit = try i.integer(bound[1], "maxsplit", default: -1)
    let text = value.text ?? ""
    let parts: [String]
    if let separator = bound[0], !separator.isNone {
      let word = try i.string(separator, "sep")
      guard !word.utf8.isEmpty else { throw i.failure("empty separator") }
      parts = TextOperations.split(text, by: word, limit: limit, fromEnd: fromEnd)
    } else {
      parts = TextOperations.splitWords(text, limit: limit, fromEnd: fromEnd)
    }
    try i.charge(units: text.utf8.count / 16 + parts.count)
    return .list(parts.map(JinjaValue.string))
  }

  private static let splitLines: MethodFunction = { (i, v, a) throws(JinjaError) in
    let keepEnds = try i.bind(a, "keepends")[0]?.isTrue ?? false
    let lines = TextOperations.lines(v.text ?? "", keepEnds: keepEnds)
    try i.charge(units: (v.text ?? "").utf8.count / 4)
    return .list(lines.map(JinjaValue.string))
  }

  private static func partition(
    _ i: Interpreter, _ value: JinjaValue, _ arguments: Arguments, fromEnd: Bool
  ) throws(JinjaError) -> JinjaValue {
    let separator = try i.string(try i.bind(arguments, "sep")[0], "sep")
    guard !separator.utf8.isEmpty else { throw i.failure("empty separator") }
    let text = value.text ?? ""
    try i.charge(text: text)
    let parts = TextOperations.split(text, by: separator, limit: 1, fromEnd: fromEnd)
    let three =
      parts.count == 2 ? [parts[0], separator, parts[1]] : fromEnd ? ["", "", text] : [text, "", ""]
    return .tuple(three.map(JinjaValue.string))
  }

  private static func affix(
    _ i: Interpreter, _ value: JinjaValue, _ arguments: Arguments, _ test: (String, String) -> Bool
  ) throws(JinjaError) -> JinjaValue {
    let affix = try i.bind(arguments, "affix")[0] ?? .none
    let text = value.text ?? ""
    if case .tuple(let options) = affix {
      for option in options.items where test(text, try i.string(option, "affix")) { return .bool(true) }
      return .bool(false)
    }
    return .bool(test(text, try i.string(affix, "affix")))
  }

  private static func removeAffix(
    _ i: Interpreter, _ value: JinjaValue, _ arguments: Arguments, atStart: Bool
  ) throws(JinjaError) -> JinjaValue {
    let affix = try i.string(try i.bind(arguments, "affix")[0], "affix")
    let text = value.text ?? ""
    let has = atStart ? TextOperations.hasPrefix(text, affix) : TextOperations.hasSuffix(text, affix)
    guard has else { return value }
    let count = affix.utf8.count
    return try i.string(
      TextOperations.text(atStart ? Array(text.utf8.dropFirst(count)) : Array(text.utf8.dropLast(count))))
  }

  private static func find(
    _ i: Interpreter, _ value: JinjaValue, _ arguments: Arguments, _ search: (String, String) -> Int?
  ) throws(JinjaError) -> JinjaValue {
    let text = value.text ?? ""
    try i.charge(text: text)
    guard let offset = search(try i.string(try i.bind(arguments, "sub")[0], "sub"), text) else {
      return .int(-1)
    }
    return .int(text.utf8.prefix(offset).count { $0 & 0xC0 != 0x80 })
  }

  private static let countText: MethodFunction = { (i, v, a) throws(JinjaError) in
    let text = v.text ?? ""
    try i.charge(text: text)
    let part = try i.string(try i.bind(a, "sub")[0], "sub")
    if part.utf8.isEmpty { return .int(TextOperations.scalarCount(text) + 1) }
    return .int(TextOperations.occurrences(of: Array(part.utf8), in: Array(text.utf8)).count)
  }

  private static let replace: MethodFunction = { (i, v, a) throws(JinjaError) in
    let bound = try i.bind(a, "old", "new", "count")
    let limit = try i.integer(bound[2], "count", default: -1)
    let text = TextOperations.replace(
      v.text ?? "", try i.string(bound[0], "old"), with: try i.string(bound[1], "new"), limit: limit,
      maxBytes: i.limits.outputBytes)
    guard let text else { throw i.limitReached("text longer than \(i.limits.outputBytes) bytes") }
    try i.charge(text: v.text ?? "")
    return try i.string(text)
  }

  private static let join: MethodFunction = { (i, v, a) throws(JinjaError) in
    var parts: [String] = []
    for item in try i.iterate(try i.bind(a, "iterable")[0] ?? .none) {
      guard let text = item.text else {
        throw i.failure("sequence item: expected str, \(item.typeName) found")
      }
      parts.append(text)
    }
    return try i.join(parts, by: v.text ?? "")
  }

  // MARK: Dictionaries

  private static let dicts: [String: MethodFunction] = [
    "get": { (i, v, a) throws(JinjaError) in
      guard case .dict(let dict) = v else { return .none }
      let bound = try i.bind(a, "key", "default")
      guard let key = bound[0] else { throw i.failure("get() needs a key") }
      guard key.isHashable else { throw i.failure("unhashable type: '\(key.typeName)'") }
      return dict.place(of: key).map { dict.entries[$0].value } ?? bound[1] ?? .none
    },
    "keys": { (i, v, _) throws(JinjaError) in
      guard case .dict(let dict) = v else { return .none }
      try i.charge(units: dict.entries.count)
      return .view(JinjaView(name: "dict_keys", items: dict.entries.map(\.key)))
    },
    "values": { (i, v, _) throws(JinjaError) in
      guard case .dict(let dict) = v else { return .none }
      try i.charge(units: dict.entries.count)
      return .view(JinjaView(name: "dict_values", items: dict.entries.map(\.value)))
    },
    "items": { (i, v, _) throws(JinjaError) in
      guard case .dict(let dict) = v else { return .none }
      return .view(JinjaView(name: "dict_items", items: try i.pairs(of: dict)))
    },
    "copy": { (_, v, _) in v },
  ]

  // MARK: Lists and loops

  /// Methods that change a list, each by making another one.
  static let changes:
    [String: @Sendable (Interpreter, inout [JinjaValue], Arguments) throws(JinjaError) -> JinjaValue] = [
      "append": { (i, items, a) throws(JinjaError) in
        items.append(try i.bind(a, "object")[0] ?? .none)
        return .none
      },
      "extend": { (i, items, a) throws(JinjaError) in
        let more = try i.iterate(try i.bind(a, "iterable")[0] ?? .none)
        try i.charge(elements: items.count + more.count)
        items += more
        return .none
      },
      "insert": { (i, items, a) throws(JinjaError) in
        let arguments = try i.bind(a, "index", "object")
        let at = try i.integer(arguments[0], "index", default: 0)
        items.insert(
          arguments[1] ?? .none,
          at: at < 0 ? max(0, items.count + max(at, -items.count)) : min(at, items.count))
        return .none
      },
      "pop": { (i, items, a) throws(JinjaError) in
        let at = try i.integer(try i.bind(a, "index")[0], "index", default: -1)
        let index = at < 0 && at >= -items.count ? at + items.count : at
        guard items.indices.contains(index) else { throw i.failure("pop index out of range") }
        return items.remove(at: index)
      },
    ]

  private static let lists: [String: MethodFunction] = [
    "count": { (i, v, a) throws(JinjaError) in
      let wanted = try i.bind(a, "value")[0] ?? .none
      var count = 0
      for item in try i.iterate(v) where try i.isEqual(item, wanted) { count += 1 }
      return .int(count)
    },
    "index": { (i, v, a) throws(JinjaError) in
      let wanted = try i.bind(a, "value")[0] ?? .none
      for (at, item) in try i.iterate(v).enumerated() where try i.isEqual(item, wanted) { return .int(at) }
      throw i.failure("the value is not in the list")
    },
    "copy": { (_, v, _) in v },
  ]

  private static let loops: [String: MethodFunction] = [
    "cycle": { (i, v, a) throws(JinjaError) in
      guard case .loop(let state) = v, !a.positional.isEmpty else { throw i.failure("cycle() needs values") }
      return a.positional[state.index % a.positional.count]
    },
    "changed": { (i, v, a) throws(JinjaError) in
      guard case .loop(let state) = v else { return .none }
      let value = JinjaValue.tuple(a.positional)
      if let last = state.lastChanged, try i.isEqual(last, value) { return .bool(false) }
      state.lastChanged = value
      return .bool(true)
    },
  ]
}

extension Interpreter {
  /// Key-value tuples.
  func pairs(of dict: JinjaDict) throws(JinjaError) -> [JinjaValue] {
    try charge(units: dict.entries.count * 4)
    return dict.entries.map { .tuple([$0.key, $0.value]) }
  }

  func join(_ parts: [String], by separator: String) throws(JinjaError) -> JinjaValue {
    let (gaps, overflow) = separator.utf8.count.multipliedReportingOverflow(by: max(0, parts.count - 1))
    try checkLength(overflow ? .max : gaps)
    try checkLength(parts.reduce(gaps) { $0 + $1.utf8.count })
    return try string(parts.joined(separator: separator))
  }
}
