// The keys of objects as nodes: declared ones, and those beyond them by the expressions that they match.

/// Keys that match the same expressions.
private struct KeyKind {
  let dfa: ByteDFA
  /// One of those that ask for the same value stands for all.
  let matches: Set<MemberKey>
}

extension SchemaCompiler {
  /// Expressions split the keys of an object into at most this many kinds: those that match none, one, or several.
  private static let kindLimit = 256

  mutating func keyLeaf(_ key: MemberKey, _ builder: inout GraphBuilder) throws(GrammarError) -> Int32 {
    if let known = memo.nodes[.key(key)] { return known }
    let text = normalizer.members.quoted(key) + [0x3A]
    return memo.keep(try builder.leaf(ByteDFA.texts([text, text + [0x20]])), .key(key))
  }

  /// The strings that a schema allows as keys.
  mutating func names(_ conjunction: Conjunction) throws(GrammarError) -> ByteDFA {
    let any = try CommonLanguages.canonicalString.get()
    var automata: [ByteDFA] = []
    for case .string(let atom) in try normalizer.atoms(conjunction) {
      automata.append(try bounded(atom.spellings(else: any), atom))
    }
    return try union(automata)
  }

  /// Members beyond the listed ones: kinds of keys, each with its value.
  ///
  /// - Parameter isCounting: whether keys must differ, and so have one spelling.
  mutating func extras(
    _ atom: ObjectAtom, _ keys: [MemberKey], _ names: ByteDFA?, isCounting: Bool,
    _ builder: inout GraphBuilder
  ) throws(GrammarError) -> [(key: Int32, value: Int32)] {
    let expressions = expressions(atom)
    if keys.isEmpty, expressions.isEmpty, names == nil, !isCounting {
      let value = value(of: [], atom)
      return value.isNever
        ? [] : [(try builder.leaf(CommonLanguages.freeKey.get()), try rule(value, &builder))]
    }
    if expressions.isEmpty {
      let value = value(of: [], atom)
      if value.isNever { return [] }
      if names == nil, !isCounting, let key = try otherKeyLeaf(keys, &builder) {
        return [(key, try rule(value, &builder))]
      }
    }
    let texts = keys.map { normalizer.members.quoted($0) }
    var kinds = [KeyKind(dfa: try others(than: texts, names), matches: [])]
    for (index, alike) in expressions.enumerated() {
      var alternatives: [ByteDFA] = []
      for expression in alike { alternatives.append(try normalizer.pattern(expression)) }
      let dfa = try union(alternatives)
      // All that an expression matches is a string, and so in the only kind where it matches none of the keys.
      let isInside = index == 0 && names == nil && !texts.contains { dfa.accepts($0) }
      kinds = try split(
        kinds, by: dfa, alike, isInside: isInside, isLast: index == expressions.count - 1, atom)
    }
    var out: [(key: Int32, value: Int32)] = []
    for (value, dfa) in try joined(kinds, atom) {
      let key: Int32
      if isCounting {
        key = try builder.distinctLeaf(normalizer.budget.counted(dfa.wrapped([], [0x3A, 0x20])))
      } else {
        key = try builder.leaf(keyed(dfa))
      }
      out.append((key, try rule(value, &builder)))
    }
    return out
  }

  /// All keys but these texts.
  ///
  /// - Parameter names: the keys that may be; nil where all may.
  private mutating func others(than texts: [[UInt8]], _ names: ByteDFA?) throws(GrammarError) -> ByteDFA {
    let any = try CommonLanguages.canonicalString.get()
    if names == nil, let quick = try any.without(beginnings: texts) {
      return try normalizer.budget.counted(quick)
    }
    guard !texts.isEmpty else { return names ?? any }
    let listed = try normalizer.budget.counted(ByteDFA.texts(texts))
    return try normalizer.budget.counted(
      (names ?? any).subtracting(listed, watch: normalizer.budget.watch))
  }

  /// Each kind in two: the keys that an expression matches, and those that it does not.
  ///
  /// - Parameters:
  ///   - alike: expressions that ask for the same value, of which `dfa` has the strings.
  ///   - isInside: whether all of these are in the only kind.
  ///   - isLast: whether no expression follows.
  private mutating func split(
    _ kinds: [KeyKind], by dfa: ByteDFA, _ alike: [MemberKey], isInside: Bool, isLast: Bool,
    _ atom: ObjectAtom
  ) throws(GrammarError) -> [KeyKind] {
    guard kinds.count <= Self.kindLimit else {
      throw .tooLarge(reason: "expressions split an object's keys into more than \(Self.kindLimit) kinds")
    }
    var out: [KeyKind] = []
    for kind in kinds {
      let inside =
        isInside
        ? dfa : try normalizer.budget.counted(kind.dfa.intersection(dfa, watch: normalizer.budget.watch))
      try normalizer.spend(inside)
      if !inside.isEmpty { out.append(KeyKind(dfa: inside, matches: kind.matches.union(alike.prefix(1)))) }
      // Keys that no expression matches need no automaton where they may not be there.
      if isLast, value(of: kind.matches, atom).isNever { continue }
      let outside = try normalizer.budget.counted(kind.dfa.subtracting(dfa, watch: normalizer.budget.watch))
      try normalizer.spend(outside)
      if !outside.isEmpty { out.append(KeyKind(dfa: outside, matches: kind.matches)) }
    }
    return out
  }

  /// Kinds with the same value as one.
  private mutating func joined(
    _ kinds: [KeyKind], _ atom: ObjectAtom
  ) throws(GrammarError) -> [(value: Conjunction, dfa: ByteDFA)] {
    var joined: [(value: Conjunction, dfa: ByteDFA)] = []
    for kind in kinds where !kind.dfa.isEmpty {
      let value = value(of: kind.matches, atom)
      if value.isNever { continue }
      if let at = joined.firstIndex(where: { $0.value == value }) {
        joined[at].dfa = try normalizer.budget.counted(
          joined[at].dfa.union(kind.dfa, watch: normalizer.budget.watch))
      } else {
        joined.append((value, kind.dfa))
      }
    }
    return joined
  }

  /// The strings of an automaton as keys.
  private mutating func keyed(_ dfa: ByteDFA) throws(GrammarError) -> ByteDFA {
    if let known = memo.automata[.keyed(dfa)] { return known }
    return memo.keep(try normalizer.budget.counted(dfa.keyed()), .keyed(dfa))
  }

  /// All keys but these, in their one spelling; nil where they must be subtracted.
  private mutating func otherKeyLeaf(_ keys: [MemberKey], _ builder: inout GraphBuilder) throws(GrammarError)
    -> Int32?
  {
    if let known = memo.nodes[.otherKeys(keys)] { return known }
    let texts = keys.map { normalizer.members.quoted($0) }
    guard let dfa = try CommonLanguages.key.get().without(beginnings: texts) else { return nil }
    return memo.keep(try builder.leaf(normalizer.budget.counted(dfa)), .otherKeys(keys))
  }

  /// The expressions for keys, those together that ask for the same value.
  private func expressions(_ atom: ObjectAtom) -> [[MemberKey]] {
    var order: [MemberKey] = []
    var asked: [MemberKey: [Int: Conjunction]] = [:]
    for (index, group) in atom.groups.enumerated() {
      for entry in normalizer.members[group].patterns {
        if asked[entry.key] == nil { order.append(entry.key) }
        asked[entry.key, default: [:]][index] = entry.value
      }
    }
    var places: [[Int: Conjunction]: Int] = [:]
    var out: [[MemberKey]] = []
    for key in order {
      guard let values = asked[key] else { continue }
      if let place = places[values] {
        out[place].append(key)
      } else {
        places[values] = out.count
        out.append([key])
      }
    }
    return out
  }

  /// The value of unlisted members whose keys match these expressions.
  func value(of matches: Set<MemberKey>, _ atom: ObjectAtom) -> Conjunction {
    var out = Conjunction.anything
    for group in atom.groups {
      let group = normalizer.members[group]
      let own = group.patterns.filter { matches.contains($0.key) }
      for entry in own { out = out.and(entry.value) }
      if own.isEmpty, let additional = group.additional { out = out.and(additional) }
    }
    return out
  }
}
