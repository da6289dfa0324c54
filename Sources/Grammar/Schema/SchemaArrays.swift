// Arrays of schemas to grammar nodes.

import JSON

extension SchemaCompiler {
  // MARK: Arrays

  /// Each of them doubles the kinds of items, at least.
  private static let containsLimit = 8
  private static let itemKindLimit = 256

  mutating func array(
    _ atom: ArrayAtom, _ path: String, _ builder: inout GraphBuilder
  ) throws(GrammarError) -> Int32? {
    let length = atom.groups.reduce(0) { max($0, $1.prefix.count) }
    try normalizer.budget.spend((length + 1) * (atom.groups.count + atom.contains.count))
    var places: [Conjunction] = []
    for index in 0...length {
      var value = Conjunction.anything
      for group in atom.groups {
        if index < group.prefix.count {
          value = value.and(group.prefix[index])
        } else if let items = group.items {
          value = value.and(items)
        }
      }
      places.append(value)
    }
    let contains = atom.contains.filter { $0.min > 0 || $0.max < Int.max }
    var most = atom.max
    for (index, value) in places.enumerated() where value.isNever { most = min(most, index) }
    guard atom.min <= most else { return nil }
    guard contains.count <= Self.containsLimit else {
      throw .tooLarge(reason: "'contains' at '\(path)': there are more than \(Self.containsLimit)")
    }
    let isUnique = atom.isUnique && most > 1
    var options: [[ArrayPlan.Option]] = []
    for (index, value) in places.enumerated() {
      guard index < most else {
        options.append([])
        continue
      }
      guard let kinds = try self.options(value, contains, isUnique, path, &builder) else {
        return try array(alone(atom, path), path, &builder)
      }
      options.append(kinds)
    }
    let plan = ArrayPlan(
      prefix: Array(options[..<length]), rest: options[length], min: atom.min, max: most,
      contains: contains.map { ($0.min, $0.max) }, isUnique: isUnique)
    guard !plan.hasConflicts || !isUnique && ContainsTable.steps(plan) != nil else {
      throw .unsupported(
        keyword: "contains", path: path,
        reason: "there are several with an upper bound, and \(isUnique ? "unique" : "too many") items")
    }
    if isUnique { guard try hasEnoughTexts(plan, path, builder) else { return nil } }
    return try builder.add(.array(plan))
  }

  /// The array with no more than one item: where items cannot be told apart, one alone is like no other.
  private mutating func alone(_ atom: ArrayAtom, _ path: String) throws(GrammarError) -> ArrayAtom {
    guard atom.min <= 1, atom.contains.allSatisfy({ $0.min <= 1 }) else {
      throw .unsupported(
        keyword: "uniqueItems", path: path,
        reason: "items that are arrays, or objects without members that are neither, cannot be told apart")
    }
    normalizer.isRestricted = true
    var alone = atom
    alone.max = min(atom.max, 1)
    return alone
  }

  /// The kinds of items at one place: for each `contains`, those that count, and those that do not. Nil where items must
  /// differ and none can be told apart.
  private mutating func options(
    _ value: Conjunction, _ contains: [ArrayAtom.Contains], _ isUnique: Bool, _ path: String,
    _ builder: inout GraphBuilder
  ) throws(GrammarError) -> [ArrayPlan.Option]? {
    var kinds: [(value: Conjunction, marks: UInt64)] = [(value, 0)]
    for (bit, entry) in contains.enumerated() {
      kinds = kinds.flatMap { kind -> [(value: Conjunction, marks: UInt64)] in
        let inside = (kind.value.and(entry.value), kind.marks | 1 << UInt64(bit))
        // Below a minimum alone, an item that counts unnoticed does no harm.
        if entry.max == Int.max { return [inside, kind] }
        let outside = entry.value.literals.map { (kind.value.and(Conjunction([$0.negated])), kind.marks) }
        return [inside] + outside
      }
      guard kinds.count <= Self.itemKindLimit else {
        throw .tooLarge(reason: "'contains' at '\(path)': more than \(Self.itemKindLimit) kinds of items")
      }
    }
    var out: [ArrayPlan.Option] = []
    for (value, marks) in kinds where !value.isNever {
      guard isUnique else {
        out.append(.init(value: try rule(value, &builder), marks: marks))
        continue
      }
      let atoms = try normalizer.atoms(value)
      let dfa = try distinct(atoms)
      if !dfa.isEmpty { out.append(.init(value: try builder.distinctLeaf(dfa), marks: marks)) }
      var isLost = false
      for atom in atoms {
        switch atom {
        case .object(let object):
          for object in try breaking(object) {
            if let node = try differing(object, path, &builder) {
              out.append(.init(value: node, marks: marks))
            } else {
              isLost = true
            }
          }
        case .array: isLost = true
        case .simple, .number, .string: break
        }
      }
      if isLost { normalizer.isRestricted = true }
      if out.isEmpty, isLost { return nil }
    }
    return out
  }

  /// An object that differs from others in one of its members, which it must have: a required one before others, and
  /// one with any number of values before those with few. Nil where there is none.
  mutating func differing(
    _ atom: ObjectAtom, _ path: String, _ builder: inout GraphBuilder
  ) throws(GrammarError) -> Int32? {
    var best: (key: MemberKey, dfa: ByteDFA, rank: (Int, UInt32))?
    for entry in try normalizer.declarations(of: atom) where !entry.value.isNever {
      // Most objects have many members of any text: the first of them is enough.
      guard (entry.isRequired ? 1 : 0, UInt32.max) > best?.rank ?? (-1, 0) else { continue }
      let atoms = try normalizer.atoms(entry.value)
      guard !atoms.isEmpty, atoms.allSatisfy({ $0.isScalar }) else { continue }
      let dfa = try distinct(atoms)
      let rank = (entry.isRequired ? 1 : 0, try builder.textCounts(of: dfa).first ?? 0)
      if rank > best?.rank ?? (-1, 0) { best = (entry.key, dfa, rank) }
    }
    guard let best, let needed = atom.and(ObjectAtom(required: [best.key])),
      let (plan, keys) = try plan(of: needed, path, &builder),
      !plan.countsExtras, let place = keys.firstIndex(of: best.key)
    else { return nil }
    return try builder.add(.object(plan.differing(in: place, by: builder.distinctLeaf(best.dfa))))
  }

  /// Scalars in one spelling each, for arrays whose items must differ.
  mutating func distinct(_ atoms: [SchemaAtom]) throws(GrammarError) -> ByteDFA {
    let (anyString, anyNumber) = (try CommonLanguages.canonicalString.get(), try NumberLanguage.all.get())
    let exact = try NumberLanguage.distinct.get()
    var automata: [ByteDFA] = []
    for atom in atoms where atom.isScalar {
      switch atom {
      case .simple(let bits):
        let words = zip([1, 2, 4] as [UInt8], ["null", "false", "true"]).filter { bits & $0.0 != 0 }
        automata.append(try ByteDFA.texts(words.map { Array($0.1.utf8) }))
      case .number(let number):
        let values = try number.values(&normalizer.budget) ?? anyNumber
        automata.append(try normalizer.budget.intersection(values, exact))
      case .string(let string): automata.append(try bounded(string.spellings(else: anyString), string))
      case .array, .object: continue
      }
    }
    return try union(automata)
  }

  /// Whether there is such an array: every place that must be filled has more texts than there are items before it.
  private func hasEnoughTexts(_ plan: ArrayPlan, _ path: String, _ builder: GraphBuilder)
    throws(GrammarError) -> Bool
  {
    func texts(_ options: [ArrayPlan.Option]) -> Int {
      options.reduce(0) { most, option in
        guard let counts = GrammarGraph.differing(option.value, builder.nodes)?.textCounts else {
          return most
        }
        return max(most, counts[0] == .max ? Int.max : Int(counts[0]))
      }
    }
    for (index, options) in plan.prefix.enumerated() where index < plan.min && texts(options) <= index {
      guard !options.isEmpty else { return false }
      throw .unsupported(keyword: "uniqueItems", path: path, reason: "place \(index) has too few values")
    }
    if plan.min > plan.prefix.count, texts(plan.rest) < plan.min {
      if plan.rest.isEmpty || plan.prefix.isEmpty && plan.rest.count == 1 { return false }
      throw .unsupported(
        keyword: "uniqueItems", path: path, reason: "there are too few values for 'minItems'")
    }
    if plan.contains.contains(where: { $0.min > 1 }) {
      throw .unsupported(keyword: "uniqueItems", path: path, reason: "it stands with 'contains'")
    }
    return true
  }
}
