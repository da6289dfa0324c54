// The keywords that speak of one type: what they allow, and what violates them.

import JSON

extension SchemaNormalizer {
  /// The alternatives that satisfy a keyword.
  mutating func assertion(
    _ keyword: String, _ members: JSONObject, _ literal: SchemaLiteral
  ) throws(GrammarError) -> [SchemaAtom] {
    let value = members[keyword] ?? .null
    switch keyword {
    case "type": return try types(value, literal, isNegated: false)
    case "const": return try constants([value], keyword, literal, isNegated: false)
    case "enum": return try constants(try list(value, keyword, literal), keyword, literal, isNegated: false)
    case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf":
      let dfa = try numbers(keyword, value, literal)
      return Self.others(than: .number(NumberAtom())) + [.number(NumberAtom(dfa: dfa))]
    case StringAtom.quoteKeyword: return [.string(StringAtom(sources: try sources(value, literal)))]
    case "minLength", "maxLength", "pattern", "format":
      guard let atom = try strings(keyword, value, literal) else { return SchemaAtom.everything }
      return Self.others(than: .string(StringAtom())) + [.string(atom)]
    case "items", "contains", "minItems", "maxItems", "uniqueItems":
      let atom = try arrays(keyword, members, literal)
      return Self.others(than: .array(ArrayAtom())) + (atom.max < atom.min ? [] : [.array(atom)])
    default:
      let atom = try objects(keyword, members, literal)
      return Self.others(than: .object(ObjectAtom())) + [.object(atom)]
    }
  }

  /// The alternatives that violate a keyword.
  mutating func violation(
    _ keyword: String, _ members: JSONObject, _ literal: SchemaLiteral
  ) throws(GrammarError) -> [SchemaAtom] {
    let value = members[keyword] ?? .null
    switch keyword {
    case "type": return try types(value, literal, isNegated: true)
    case "const": return try constants([value], keyword, literal, isNegated: true)
    case "enum": return try constants(try list(value, keyword, literal), keyword, literal, isNegated: true)
    case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf":
      let dfa = try budget.counted(
        NumberLanguage.all.get().subtracting(numbers(keyword, value, literal), watch: budget.watch))
      return dfa.isEmpty ? [] : [.number(NumberAtom(dfa: dfa))]
    case "minLength":
      let length = try count(value, keyword, literal)
      return length == 0 ? [] : [.string(StringAtom(max: length - 1))]
    case "maxLength": return [.string(StringAtom(min: try count(value, keyword, literal) + 1))]
    case "pattern", "format":
      guard let dfa = try strings(keyword, value, literal)?.dfa else { return [] }
      let rest = try budget.counted(
        CommonLanguages.canonicalString.get().subtracting(dfa, watch: budget.watch))
      return rest.isEmpty ? [] : [.string(StringAtom(dfa: rest))]
    case StringAtom.quoteKeyword:
      // What does not stand in a text is left out: the answer is constrained more.
      isRestricted = true
      return []
    case "items", "contains", "minItems", "maxItems", "uniqueItems":
      return try arrayViolation(keyword, members, literal)
    default: return try objectViolation(keyword, members, literal)
    }
  }

  func malformed(_ keyword: String, _ literal: SchemaLiteral, _ words: String) -> GrammarError {
    .malformed(path: path(literal) + "/" + keyword, reason: words)
  }

  func list(_ value: JSONValue, _ keyword: String, _ literal: SchemaLiteral) throws(GrammarError)
    -> [JSONValue]
  {
    guard let list = value.arrayValue else { throw malformed(keyword, literal, "it is not a list") }
    return list
  }

  func count(_ value: JSONValue, _ keyword: String, _ literal: SchemaLiteral) throws(GrammarError)
    -> Int
  {
    if case .bigInteger(let digits) = value, digits.utf8.first != 0x2D { return 1 << 40 }
    guard let count = value.intValue, count >= 0 else {
      throw malformed(keyword, literal, "it is not a count")
    }
    return min(count, 1 << 40)
  }

  // MARK: Types and constants

  func types(_ value: JSONValue, _ literal: SchemaLiteral, isNegated: Bool) throws(GrammarError)
    -> [SchemaAtom]
  {
    let names = value.arrayValue ?? [value]
    var simple: UInt8 = 0
    var has: Set<String> = []
    for name in names {
      guard let text = name.stringValue else {
        throw malformed("type", literal, "it is not the name of a type")
      }
      switch text {
      case "null": simple |= 1
      case "boolean": simple |= 6
      case "integer", "number", "string", "array", "object": has.insert(text)
      default: throw malformed("type", literal, "'\(text)' is not the name of a type")
      }
    }
    if isNegated { simple = 7 & ~simple }
    var out: [SchemaAtom] = simple == 0 ? [] : [.simple(simple)]
    switch (has.contains("number"), has.contains("integer"), isNegated) {
    case (true, _, false), (false, false, true): out.append(.number(NumberAtom()))
    case (false, true, false):
      out.append(.number(NumberAtom(dfa: try NumberLanguage.integers.get(), isInteger: true)))
    case (false, true, true):
      let dfa = try NumberLanguage.all.get().subtracting(NumberLanguage.integers.get())
      out.append(.number(NumberAtom(dfa: dfa)))
    case (true, _, true), (false, false, false): break
    }
    if has.contains("string") != isNegated { out.append(.string(StringAtom())) }
    if has.contains("array") != isNegated { out.append(.array(ArrayAtom())) }
    if has.contains("object") != isNegated { out.append(.object(ObjectAtom())) }
    return out
  }

  mutating func constants(
    _ values: [JSONValue], _ keyword: String, _ literal: SchemaLiteral, isNegated: Bool
  ) throws(GrammarError) -> [SchemaAtom] {
    var simple: UInt8 = 0
    var numbers: [Decimal] = []
    var strings: [[UInt8]] = []
    var out: [SchemaAtom] = []
    var composites: [[SchemaAtom]] = []
    for (index, value) in values.enumerated() {
      switch value {
      case .null: simple |= 1
      case .bool(let flag): simple |= flag ? 4 : 2
      case .int, .double, .bigInteger: numbers.append(try decimal(value, "enum", literal))
      case .string(let text): strings.append(JSONText.quoted(text))
      case .array, .object:
        composites.append(try composite(value, "\(keyword)/\(index)", literal, isNegated: isNegated))
      }
    }
    guard isNegated else {
      if simple != 0 { out.append(.simple(simple)) }
      if !numbers.isEmpty {
        let dfa = try budget.counted(NumberLanguage.values(numbers))
        out.append(.number(NumberAtom(dfa: dfa, isConstant: true)))
      }
      if !strings.isEmpty {
        out.append(.string(StringAtom(dfa: try enumeration(strings))))
      }
      return out + composites.flatMap { $0 }
    }
    if simple != 7 { out.append(.simple(7 & ~simple)) }
    if numbers.isEmpty {
      out.append(.number(NumberAtom()))
    } else {
      let dfa = try budget.counted(
        NumberLanguage.all.get().subtracting(
          budget.counted(NumberLanguage.values(numbers)), watch: budget.watch))
      out.append(.number(NumberAtom(dfa: dfa)))
    }
    if strings.isEmpty {
      out.append(.string(StringAtom()))
    } else {
      let dfa = try budget.counted(
        CommonLanguages.canonicalString.get().subtracting(
          budget.counted(ByteDFA.texts(strings)), watch: budget.watch))
      out.append(.string(StringAtom(dfa: dfa)))
    }
    var rest: [SchemaAtom] = [.array(ArrayAtom()), .object(ObjectAtom())]
    for pieces in composites { rest = try product(rest, pieces) }
    return out + rest
  }

  /// A constant array or object as constants inside; negated: all arrays and objects but it.
  mutating func composite(
    _ value: JSONValue, _ keyword: String, _ literal: SchemaLiteral, isNegated: Bool
  ) throws(GrammarError) -> [SchemaAtom] {
    func constant(_ normalizer: inout SchemaNormalizer, _ part: String, _ value: JSONValue)
      throws(GrammarError) -> SchemaLiteral
    {
      let step = SchemaStep(keyword, .constant(ByteKey(part)))
      return try normalizer.child(literal, step, .object(JSONObject([("const", value)])))
    }
    if case .array(let items) = value {
      var parts: [SchemaLiteral] = []
      for (index, item) in items.enumerated() { parts.append(try constant(&self, "\(index)", item)) }
      guard isNegated else {
        let group = ItemGroup(prefix: parts.map { Conjunction([$0]) }, items: .never, isEvaluating: false)
        return [.array(ArrayAtom(groups: [group], min: items.count, max: items.count))]
      }
      var out: [SchemaAtom] = [.object(ObjectAtom()), .array(ArrayAtom(min: items.count + 1))]
      if !items.isEmpty { out.append(.array(ArrayAtom(max: items.count - 1))) }
      for (index, part) in parts.enumerated() {
        let before = [Conjunction](repeating: .anything, count: index)
        let group = ItemGroup(prefix: before + [Conjunction([part.negated])], isEvaluating: false)
        out.append(.array(ArrayAtom(groups: [group], min: index + 1)))
      }
      return out
    }
    let entries = value.objectValue?.entries ?? []
    var group = MemberGroup(additional: .never, isEvaluating: false)
    for (name, value) in entries {
      let part = try constant(&self, name, value)
      group.properties.append(.init(key: members.key(name), value: Conjunction([part])))
    }
    let keys = group.properties.map(\.key)
    guard isNegated else {
      return [.object(ObjectAtom(groups: [members.group(group)], required: keys, min: keys.count))]
    }
    var out: [SchemaAtom] = [.array(ArrayAtom())]
    for entry in group.properties {
      out.append(.object(without(entry.key)))
      let wrong = Conjunction(entry.value.literals.map(\.negated))
      out.append(.object(object(with: entry.key, wrong, required: [entry.key])))
    }
    out.append(.object(ObjectAtom(min: keys.count + 1)))
    return out
  }

  // MARK: Numbers and strings

  func decimal(_ value: JSONValue, _ keyword: String, _ literal: SchemaLiteral) throws(GrammarError)
    -> Decimal
  {
    let text: String
    switch value {
    case .int(let number): text = String(number)
    case .double(let number): text = number.description
    case .bigInteger(let digits): text = digits
    case .null, .bool, .string, .array, .object: throw malformed(keyword, literal, "it is not a number")
    }
    guard let decimal = Decimal(text) else {
      throw .unsupported(
        keyword: keyword, path: path(literal), reason: "the number has more than \(Decimal.digitLimit) digits"
      )
    }
    return decimal
  }

  /// The numbers that a keyword allows; made once for each bound.
  mutating func numbers(_ keyword: String, _ value: JSONValue, _ literal: SchemaLiteral) throws(GrammarError)
    -> ByteDFA
  {
    let number = try decimal(value, keyword, literal)
    let key = [ByteKey(keyword), ByteKey(String(decoding: number.text, as: UTF8.self))]
    if let known = bounds[key] { return known }
    let dfa = try budget.counted(Self.numbers(keyword, number, path(literal)))
    bounds[key] = dfa
    return dfa
  }

  /// Exactly these texts; made once.
  mutating func enumeration(_ texts: [[UInt8]]) throws(GrammarError) -> ByteDFA {
    if let known = enumerations[texts] { return known }
    let dfa = try budget.counted(ByteDFA.texts(texts))
    enumerations[texts] = dfa
    return dfa
  }

  private static func numbers(_ keyword: String, _ number: Decimal, _ path: String) throws(GrammarError)
    -> ByteDFA
  {
    switch keyword {
    case "minimum": return try NumberLanguage.compared(.atLeast, number)
    case "maximum": return try NumberLanguage.compared(.atMost, number)
    case "exclusiveMinimum": return try NumberLanguage.compared(.greater, number)
    case "exclusiveMaximum": return try NumberLanguage.compared(.less, number)
    default:
      guard !number.isNegative, !number.isZero else {
        throw .malformed(path: path + "/" + keyword, reason: "it is not above zero")
      }
      guard let dfa = try NumberLanguage.multiples(of: number) else {
        throw .unsupported(
          keyword: keyword, path: path,
          reason:
            "the divisor has more than 20 decimal places, or is above \(NumberLanguage.largestDivisor) without the point"
        )
      }
      return dfa
    }
  }

  /// Nil when nothing is required.
  mutating func strings(
    _ keyword: String, _ value: JSONValue, _ literal: SchemaLiteral
  ) throws(GrammarError) -> StringAtom? {
    switch keyword {
    case "minLength": return StringAtom(min: try count(value, keyword, literal))
    case "maxLength": return StringAtom(max: try count(value, keyword, literal))
    default: break
    }
    guard let text = value.stringValue else { throw malformed(keyword, literal, "it is not a string") }
    if keyword.hasSameBytes(as: "format") {
      guard let dfa = try Formats.automaton(text) else { return nil }
      return StringAtom(dfa: dfa)
    }
    do {
      return StringAtom(dfa: try pattern(members.key(text)))
    } catch .malformed(let place, let reason) {
      throw .malformed(path: path(literal) + "/pattern", reason: "\(place): \(reason)")
    } catch .unsupported(let what, let place, let reason) {
      throw .unsupported(keyword: "pattern", path: path(literal), reason: "\(what), \(place): \(reason)")
    }
  }

  /// The texts that may be quoted.
  private mutating func sources(_ value: JSONValue, _ literal: SchemaLiteral) throws(GrammarError) -> [String]
  {
    var texts: [String] = []
    for entry in value.arrayValue ?? [value] {
      guard let text = entry.stringValue else {
        throw malformed(StringAtom.quoteKeyword, literal, "it is neither a text nor a list of texts")
      }
      texts.append(text)
      try budget.spend(text.utf8.count)
    }
    return texts
  }
}
