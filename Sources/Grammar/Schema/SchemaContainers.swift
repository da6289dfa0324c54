// The keywords of arrays and objects: what they allow, and what violates them.

import JSON

extension SchemaNormalizer {
  // MARK: Arrays

  mutating func arrays(
    _ keyword: String, _ members: JSONObject, _ literal: SchemaLiteral
  ) throws(GrammarError) -> ArrayAtom {
    let value = members[keyword] ?? .null
    switch keyword {
    case "minItems": return ArrayAtom(min: try count(value, keyword, literal))
    case "maxItems": return ArrayAtom(max: try count(value, keyword, literal))
    case "uniqueItems":
      guard let isUnique = value.boolValue else { throw malformed(keyword, literal, "it is not a boolean") }
      return ArrayAtom(isUnique: isUnique)
    case "contains":
      let (part, min, max) = try contains(members, literal)
      // More than `max` is no array at all where `min` is larger.
      guard min <= max else { return ArrayAtom(min: 1, max: 0) }
      return ArrayAtom(contains: [
        .init(value: Conjunction([part]), min: min, max: max, isEvaluating: draft(literal) >= .draft2020)
      ])
    default: return ArrayAtom(groups: [try itemGroup(members, literal)])
    }
  }

  func draft(_ literal: SchemaLiteral) -> SchemaDraft {
    document.resources[document.places[literal.place].resource].draft
  }

  mutating func contains(
    _ members: JSONObject, _ literal: SchemaLiteral
  ) throws(GrammarError) -> (part: SchemaLiteral, min: Int, max: Int) {
    let part = try child(literal, SchemaStep("contains"), members["contains"] ?? true)
    var min = 1
    var max = Int.max
    if draft(literal) >= .draft2019 {
      if let value = members["minContains"] { min = try count(value, "minContains", literal) }
      if let value = members["maxContains"] { max = try count(value, "maxContains", literal) }
    }
    return (part, min, max)
  }

  mutating func itemGroup(_ members: JSONObject, _ literal: SchemaLiteral) throws(GrammarError)
    -> ItemGroup
  {
    var group = ItemGroup()
    var prefix: [JSONValue] = []
    var rest: (SchemaStep, JSONValue)?
    var keyword = "prefixItems"
    if let list = members["items"]?.arrayValue {
      // Up to 2019-09.
      prefix = list
      keyword = "items"
      rest = members["additionalItems"].map { (SchemaStep("additionalItems"), $0) }
    } else {
      if draft(literal).has(keyword), let list = members[keyword] {
        prefix = try self.list(list, keyword, literal)
      }
      rest = members["items"].map { (SchemaStep("items"), $0) }
    }
    for (index, value) in prefix.enumerated() {
      group.prefix.append(try part(literal, SchemaStep(keyword, .index(index)), value))
    }
    if let (step, value) = rest { group.items = try part(literal, step, value) }
    return group
  }

  /// The schema one step below another; booleans by their meaning.
  mutating func part(
    _ outer: SchemaLiteral, _ step: SchemaStep, _ value: JSONValue
  ) throws(GrammarError) -> Conjunction {
    // In two lines: in one, this value would be copied, since it is read before `child` changes it.
    let literal = try child(outer, step, value)
    return conjunction(literal)
  }

  /// Booleans by their meaning.
  private func conjunction(_ literal: SchemaLiteral) -> Conjunction {
    switch document.places[literal.place].value {
    case .bool(let holds): holds != literal.isNegated ? .anything : .never
    default: Conjunction([literal])
    }
  }

  mutating func arrayViolation(
    _ keyword: String, _ members: JSONObject, _ literal: SchemaLiteral
  ) throws(GrammarError) -> [SchemaAtom] {
    let value = members[keyword] ?? .null
    switch keyword {
    case "minItems":
      let least = try count(value, keyword, literal)
      return least == 0 ? [] : [.array(ArrayAtom(max: least - 1))]
    case "maxItems": return [.array(ArrayAtom(min: try count(value, keyword, literal) + 1))]
    case "uniqueItems":
      // Equal items are never written on purpose.
      if value.boolValue ?? false { isRestricted = true }
      return []
    case "contains":
      let (part, min, max) = try contains(members, literal)
      var out: [SchemaAtom] = []
      if min == 1 {
        out.append(
          .array(ArrayAtom(groups: [ItemGroup(items: conjunction(part.negated), isEvaluating: false)])))
      } else if min > 1 {
        out.append(.array(ArrayAtom(contains: [.init(value: Conjunction([part]), min: 0, max: min - 1)])))
      }
      if max < Int.max {
        out.append(
          .array(ArrayAtom(contains: [.init(value: Conjunction([part]), min: max + 1, max: Int.max)])))
      }
      return out
    default:
      let group = try itemGroup(members, literal)
      var out: [SchemaAtom] = []
      for (index, part) in group.prefix.enumerated() {
        for wrong in part.literals where !part.isNever {
          let before = [Conjunction](repeating: .anything, count: index)
          let group = ItemGroup(prefix: before + [Conjunction([wrong.negated])])
          out.append(.array(ArrayAtom(groups: [group], min: index + 1)))
        }
        if part.isNever { out.append(.array(ArrayAtom(min: index + 1))) }
      }
      guard let items = group.items else { return out }
      if items.isNever {
        out.append(.array(ArrayAtom(min: group.prefix.count + 1)))
      } else if group.prefix.isEmpty {
        for wrong in items.literals {
          let contains = ArrayAtom.Contains(value: Conjunction([wrong.negated]), min: 1, max: Int.max)
          out.append(.array(ArrayAtom(contains: [contains])))
        }
      } else if items != .anything {
        // A violation after the first items is never written.
        isRestricted = true
      }
      return out
    }
  }

  // MARK: Objects

  mutating func objects(
    _ keyword: String, _ members: JSONObject, _ literal: SchemaLiteral
  ) throws(GrammarError) -> ObjectAtom {
    let value = members[keyword] ?? .null
    switch keyword {
    case "required": return ObjectAtom(required: try keys(value, path(literal) + "/required"))
    case "minProperties": return ObjectAtom(min: try count(value, keyword, literal))
    case "maxProperties": return ObjectAtom(max: try count(value, keyword, literal))
    case "propertyNames":
      return ObjectAtom(conditions: [.name(try part(literal, SchemaStep("propertyNames"), value))])
    case "dependentRequired":
      guard let entries = value.objectValue?.entries else {
        throw malformed(keyword, literal, "it is not an object")
      }
      var atom = ObjectAtom()
      for (name, list) in entries {
        let needs = try keys(list, path(literal) + "/dependentRequired/\(name)")
        atom.conditions.append(.dependency(key: self.members.key(name), needs: needs))
      }
      return atom
    default: return ObjectAtom(groups: [self.members.group(try memberGroup(members, literal))])
    }
  }

  mutating func memberGroup(_ members: JSONObject, _ literal: SchemaLiteral) throws(GrammarError)
    -> MemberGroup
  {
    var group = MemberGroup()
    group.isDeclaring = members["properties"] != nil
    for keyword in ["properties", "patternProperties"] {
      guard let value = members[keyword] else { continue }
      guard let entries = value.objectValue?.entries else {
        throw malformed(keyword, literal, "it is not an object")
      }
      for (name, value) in entries {
        let part = try part(literal, SchemaStep(keyword, .name(ByteKey(name))), value)
        let entry = MemberGroup.Named(key: self.members.key(name), value: part)
        if keyword.utf8.count == 10 {
          group.properties.append(entry)
        } else {
          do {
            _ = try pattern(entry.key)
          } catch .malformed(let place, let reason) {
            throw .malformed(path: path(literal) + "/patternProperties", reason: "\(place): \(reason)")
          } catch .unsupported(let what, let place, let reason) {
            throw .unsupported(keyword: keyword, path: path(literal), reason: "\(what), \(place): \(reason)")
          }
          group.patterns.append(entry)
        }
      }
    }
    if let rest = members["additionalProperties"] {
      group.additional = try part(literal, SchemaStep("additionalProperties"), rest)
    }
    return group
  }

  mutating func objectViolation(
    _ keyword: String, _ members: JSONObject, _ literal: SchemaLiteral
  ) throws(GrammarError) -> [SchemaAtom] {
    let atom = try objects(keyword, members, literal)
    switch keyword {
    case "required":
      // The violation of `properties` says of declared members that they are missing or wrong.
      let declared = Set((members["properties"]?.objectValue?.entries ?? []).map { self.members.key($0.key) })
      return atom.required.filter { !declared.contains($0) }.map { .object(without($0)) }
    case "minProperties": return atom.min == 0 ? [] : [.object(ObjectAtom(max: atom.min - 1))]
    case "maxProperties": return [.object(ObjectAtom(min: atom.max + 1))]
    case "dependentRequired":
      var out: [SchemaAtom] = []
      for entry in atom.dependencies {
        for key in entry.needs {
          if let wrong = ObjectAtom(required: [entry.key]).and(without(key)) {
            out.append(.object(wrong))
          }
        }
      }
      return out
    case "propertyNames":
      isRestricted = true
      return atom.names.map { .object(ObjectAtom(conditions: [.breach(.name($0))])) }
    default: break
    }
    guard let listed = atom.groups.first else { return [] }
    let group = self.members[listed]
    let needed: Set<MemberKey> =
      members["required"] == nil ? [] : Set(try objects("required", members, literal).required)
    var out: [SchemaAtom] = []
    for entry in group.properties {
      var wrongs =
        entry.value.isNever ? [Conjunction.anything] : entry.value.literals.map { Conjunction([$0.negated]) }
      // A required member is missing or wrong in one alternative: two of each would multiply with those of others.
      let isNeeded = needed.contains(entry.key)
      if isNeeded, wrongs.isEmpty { wrongs = [.never] }
      for wrong in wrongs {
        out.append(.object(object(with: entry.key, wrong, required: isNeeded ? [] : [entry.key])))
      }
    }
    // Declared members may break these; others never do.
    for entry in group.patterns where entry.value != .anything {
      isRestricted = true
      out.append(.object(ObjectAtom(conditions: [.breach(.pattern(entry))])))
    }
    if let additional = group.additional, additional != .anything {
      isRestricted = true
      out.append(.object(ObjectAtom(conditions: [.breach(.additional(listed))])))
    }
    return out
  }
}
