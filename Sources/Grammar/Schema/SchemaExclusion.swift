// oneOf: alternatives that exclude each other.

import JSON

extension SchemaNormalizer {
  // MARK: oneOf

  mutating func exactlyOne(
    _ branches: [SchemaLiteral], _ atoms: [SchemaAtom], _ literal: SchemaLiteral
  ) throws(GrammarError) -> [SchemaAtom] {
    var alternatives: [[SchemaAtom]] = []
    for branch in branches { alternatives.append(try product(atoms, try self.atoms(branch))) }
    var out: [SchemaAtom] = []
    for (index, own) in alternatives.enumerated() {
      for atom in own {
        var kept = [atom]
        for (other, theirs) in alternatives.enumerated() where other != index && !kept.isEmpty {
          var overlaps = isCut
          for theirs in theirs where !overlaps { overlaps = try !isDisjoint(atom, theirs) }
          if overlaps { kept = try product(kept, try self.atoms(branches[other].negated)) }
        }
        out += kept
      }
    }
    out = cut(out)
    if out.isEmpty, alternatives.contains(where: { !$0.isEmpty }), isRestricted {
      throw .unsupported(
        keyword: "oneOf", path: path(literal),
        reason: "its branches overlap, and what tells them apart cannot be expressed")
    }
    return out
  }

  /// Whether no value is surely in both. A schema that is being looked at already counts as overlapping.
  mutating func isDisjoint(_ a: SchemaAtom, _ b: SchemaAtom) throws(GrammarError) -> Bool {
    guard let both = try a.and(b, &budget) else { return true }
    guard case .object(let atom) = both else { return false }
    for key in atom.required {
      let value = try value(of: key, in: atom)
      if value.isNever { return true }
      guard value.literals.count > 1, !value.literals.contains(where: { inProgress.contains($0) }) else {
        continue
      }
      let isEmpty: Bool
      do {
        isEmpty = try atoms(value).isEmpty && !isCut
      } catch {
        guard error != .unwanted else { throw error }
        isEmpty = false
      }
      if isEmpty { return true }
    }
    return false
  }

  /// What the value of a member must be.
  mutating func value(of key: ByteKey, in atom: ObjectAtom) throws(GrammarError) -> Conjunction {
    var named: [[MemberGroup.Named]] = []
    for group in atom.groups {
      try budget.spend(group.properties.count)
      named.append(group.properties.filter { $0.key == key })
    }
    return try value(of: key, in: atom, named: named)
  }

  /// - Parameter named: the properties of each group that have the key.
  mutating func value(
    of key: ByteKey, in atom: ObjectAtom, named: [[MemberGroup.Named]]
  ) throws(GrammarError) -> Conjunction {
    var out = Conjunction.anything
    let text = atom.groups.contains { !$0.patterns.isEmpty } ? JSONText.quoted(key.string) : []
    for (group, named) in zip(atom.groups, named) {
      try budget.spend(1 + group.patterns.count * text.count)
      var isNamed = false
      for entry in named {
        out = out.and(entry.value)
        isNamed = true
      }
      for entry in group.patterns where try pattern(entry.key).accepts(text) {
        out = out.and(entry.value)
        isNamed = true
      }
      if !isNamed, let additional = group.additional { out = out.and(additional) }
    }
    return out
  }

  /// The strings in which an expression matches somewhere, in canonical spelling with quotes.
  mutating func pattern(_ text: ByteKey) throws(GrammarError) -> ByteDFA {
    if let known = patterns[text] { return known }
    let tree = try RegexParser.parse(text.string)
    let dfa = try budget.counted(
      ByteNFA.automaton(tree, spelling: .json, anywhere: true, budget: &budget)
        .wrapped([0x22], [0x22]))
    patterns[text] = dfa
    try spend(dfa)
    return dfa
  }

  /// All automata of a schema together are bounded.
  mutating func spend(_ dfa: ByteDFA) throws(GrammarError) {
    states += dfa.stateCount
    guard states < Self.statesLimit else {
      throw .tooLarge(reason: "the automata of the schema have more than \(Self.statesLimit) states")
    }
  }
}
