// oneOf: alternatives that exclude each other.

import JSON
import Tokenizers

extension SchemaNormalizer {
  // MARK: oneOf

  mutating func exactlyOne(
    _ branches: [SchemaLiteral], _ atoms: [SchemaAtom], _ literal: SchemaLiteral
  ) throws(GrammarError) -> [SchemaAtom] {
    var alternatives: [[SchemaAtom]] = []
    for branch in branches { alternatives.append(try product(atoms, try self.atoms(branch))) }
    // What satisfies a branch that stands there twice never satisfies one alone.
    let isTwice = branches.map { branch in branches.count { $0 == branch } > 1 }
    var out: [SchemaAtom] = []
    for (index, own) in alternatives.enumerated() where !isTwice[index] {
      for atom in own {
        var kept = [atom]
        for (other, theirs) in alternatives.enumerated() where other != index && !kept.isEmpty {
          var overlaps = isCut
          for theirs in theirs where !overlaps { overlaps = try !isDisjoint(atom, theirs) }
          if overlaps { kept = try excluding(branches[other], from: kept) }
        }
        out += kept
      }
    }
    out = cut(out)
    if out.isEmpty, zip(alternatives, isTwice).contains(where: { !$0.isEmpty && !$1 }), isRestricted {
      throw .unsupported(
        keyword: "oneOf", path: path(literal),
        reason: "its branches overlap, and what tells them apart cannot be expressed")
    }
    return out
  }

  /// The alternatives that violate a schema. Where it requires a member with a constant, as those do that are told apart
  /// by one, its other violations are of objects that have it: an alternative then violates one of several such schemas
  /// at a time. Else their violations multiply (one object had more than 2,000 kinds, and has 30).
  mutating func excluding(_ schema: SchemaLiteral, from atoms: [SchemaAtom]) throws(GrammarError)
    -> [SchemaAtom]
  {
    let violations = try self.atoms(schema.negated)
    guard let tag = constantMember(violations) else { return try product(atoms, violations) }
    let right = SchemaAtom.object(object(with: tag.key, tag.value, required: [tag.key]))
    var out: [SchemaAtom] = []
    for (place, violation) in violations.enumerated() {
      var violation = violation
      if place != tag.place, case .object = violation {
        guard let narrowed = try violation.and(right, &budget), try isPossible(tag.key, in: narrowed) else {
          continue
        }
        violation = narrowed
      }
      for atom in try product(atoms, [violation]) where try isPossible(tag.key, in: atom) { out.append(atom) }
      out = cut(out)
    }
    return out
  }

  /// The first violation that says of a member only that it is missing or another value than some constants.
  private func constantMember(_ violations: [SchemaAtom])
    -> (place: Int, key: MemberKey, value: Conjunction)?
  {
    for (place, violation) in violations.enumerated() {
      guard case .object(let atom) = violation, let group = atom.groups.first else { continue }
      let content = members[group]
      guard let wrong = content.properties.first, let literal = wrong.value.literals.first,
        wrong.value.literals.count == 1, literal.isNegated, isConstant(literal),
        atom == ObjectAtom(groups: [group]),
        content == MemberGroup(properties: [wrong], isEvaluating: content.isEvaluating)
      else { continue }
      return (place, wrong.key, Conjunction([literal.negated]))
    }
    return nil
  }

  /// The alternatives in which every member that must be there, and that is to be a constant, can be. Of others it takes
  /// long to say, and seldom helps.
  mutating func possible(_ atoms: [SchemaAtom]) throws(GrammarError) -> [SchemaAtom] {
    var out: [SchemaAtom] = []
    for atom in atoms {
      var canBe = true
      if case .object(let object) = atom {
        for key in object.required where canBe {
          let value = try value(of: key, in: object)
          if value.literals.contains(where: { !$0.isNegated && isConstant($0) }) {
            canBe = try !isEmpty(value)
          }
        }
      }
      if canBe { out.append(atom) }
    }
    return out
  }

  /// Whether a member may have some value, if it must be there.
  private mutating func isPossible(_ key: MemberKey, in atom: SchemaAtom) throws(GrammarError) -> Bool {
    guard case .object(let object) = atom, object.required.contains(key) else { return true }
    return try !isImpossible(key, in: object)
  }

  /// Whether a schema is of some values, or of all others.
  private func isConstant(_ literal: SchemaLiteral) -> Bool {
    guard literal.place >= 0, let schema = document.places[literal.place].value.objectValue else {
      return false
    }
    return schema["const"] != nil || schema["enum"] != nil
  }

  /// Whether no value of a member can be.
  private mutating func isImpossible(_ key: MemberKey, in atom: ObjectAtom) throws(GrammarError) -> Bool {
    try isEmpty(value(of: key, in: atom))
  }

  /// Whether no value surely satisfies all of some schemas.
  private mutating func isEmpty(_ value: Conjunction) throws(GrammarError) -> Bool {
    if value.isNever { return true }
    guard value.literals.count > 1, !value.literals.contains(where: { inProgress.contains($0) }) else {
      return false
    }
    do {
      return try atoms(value).isEmpty && !isCut
    } catch {
      guard error != .unwanted else { throw error }
      return false
    }
  }

  /// Whether no value is surely in both. A schema that is being looked at already counts as overlapping.
  mutating func isDisjoint(_ a: SchemaAtom, _ b: SchemaAtom) throws(GrammarError) -> Bool {
    guard let both = try a.and(b, &budget) else { return true }
    guard case .object(let atom) = both else { return false }
    for key in atom.required where try isImpossible(key, in: atom) { return true }
    return false
  }

  /// What the value of a member must be.
  private mutating func value(of key: MemberKey, in atom: ObjectAtom) throws(GrammarError) -> Conjunction {
    var literals: [SchemaLiteral] = []
    literals.reserveCapacity(atom.groups.count)
    try budget.spend(atom.groups.count)
    for group in atom.groups {
      if let single = members.single(group) {
        if single.key == key { literals.append(single.value) }
        continue
      }
      try budget.spend(members.nameCount(group))
      let named = members.literals(of: key, in: group)
      if let named { literals += named }
      guard members.speaksOfOthers(group) else { continue }
      var isNamed = named != nil
      let content = members[group]
      for value in try matched(content, key) {
        literals += value.literals
        isNamed = true
      }
      if !isNamed, let additional = content.additional { literals += additional.literals }
    }
    return Conjunction(literals)
  }

  /// What the expressions of a group say of a key's value.
  private mutating func matched(_ group: MemberGroup, _ key: MemberKey) throws(GrammarError) -> [Conjunction]
  {
    guard !group.patterns.isEmpty else { return [] }
    let text = members.quoted(key)
    try budget.spend(group.patterns.count * text.count)
    var out: [Conjunction] = []
    for entry in group.patterns where try pattern(entry.key).accepts(text) { out.append(entry.value) }
    return out
  }

  /// The keys that an object speaks of, each once, with what their values must be.
  mutating func declarations(of atom: ObjectAtom) throws(GrammarError) -> [Declaration] {
    let keys = members.note(atom)
    defer { members.forget(keys) }
    var values = [[SchemaLiteral]](repeating: [], count: keys.count)
    var lastGroup = [Int](repeating: -1, count: keys.count)
    for (number, group) in atom.groups.enumerated() {
      if let single = members.single(group) {
        try budget.spend(2)
        values[members.place(single.key)].append(single.value)
        continue
      }
      let group = members[group]
      try budget.spend(1 + group.properties.count)
      for entry in group.properties {
        let place = members.place(entry.key)
        values[place] += entry.value.literals
        lastGroup[place] = number
      }
      guard group.additional != nil || !group.patterns.isEmpty else { continue }
      try budget.spend(keys.count)
      for (place, key) in keys.enumerated() {
        var isNamed = lastGroup[place] == number
        for value in try matched(group, key) {
          values[place] += value.literals
          isNamed = true
        }
        if !isNamed, let additional = group.additional { values[place] += additional.literals }
      }
    }
    var out = zip(keys, values).map { Declaration(key: $0, value: Conjunction($1), isRequired: false) }
    for key in atom.required { out[members.place(key)].isRequired = true }
    return out
  }

  /// The strings in which an expression matches somewhere, in canonical spelling with quotes.
  mutating func pattern(_ text: MemberKey) throws(GrammarError) -> ByteDFA {
    if let known = patterns[text] { return known }
    let dfa = try strings(RegexParser.parse(members.text(text)))
    patterns[text] = dfa
    try spend(dfa)
    return dfa
  }

  private mutating func strings(_ tree: RegexTree) throws(GrammarError) -> ByteDFA {
    // Characters are counted more quickly than each count is made deterministic: `^.{1,256}$` 4.1 -> 1.1 ms.
    if let (set, min, max) = tree.countedSet, Swift.max(min, max ?? 0) >= Self.mostUncounted {
      let any = try strings(.sequence([.start, .repeated(.set(set), min: 0, max: nil), .end]))
      return try budget.counted(StringLanguage.bounded(any, min: min, max: max ?? .max))
    }
    return try budget.counted(
      ByteNFA.automaton(tree, spelling: .json, anywhere: true, budget: &budget).wrapped([0x22], [0x22]))
  }

  private static let mostUncounted = 8

  /// All automata of a schema together are bounded.
  mutating func spend(_ dfa: ByteDFA) throws(GrammarError) {
    states += dfa.stateCount
    guard states < Self.statesLimit else {
      throw .tooLarge(reason: "the automata of the schema have more than \(Self.statesLimit) states")
    }
  }
}
