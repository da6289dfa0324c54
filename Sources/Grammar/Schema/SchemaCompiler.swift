// JSON Schemas to grammar nodes.

import JSON

/// Alternatives to nodes. Schemas below members and items become nodes of their own, once each, so that recursive
/// schemas end.
struct SchemaCompiler {
  private let members: UndeclaredMembers
  var normalizer: SchemaNormalizer
  var memo = SchemaMemo()
  private var pending: [(Conjunction, Int32)] = []

  private static let ruleLimit = 20_000
  /// Each is a stack wherever a member may begin.
  private static let propertyLimit = 5000
  /// Most bytes of texts that are joined in one automaton. It has at most a state for each, a quarter of what it may have.
  private static let joinedBytes = 10_000
  /// Choices of the members that break a rule.
  private static let choiceLimit = 32
  /// Members that the members of an object need, directly and indirectly.
  private static let impliedLimit = 20_000

  /// The node of a schema.
  ///
  /// - Parameter members: which members objects have whose schemas do not say.
  static func node(
    _ schema: JSONValue, members: UndeclaredMembers = .allowed, into builder: inout GraphBuilder,
    budget: inout CompileBudget
  ) throws(GrammarError) -> Int32 {
    var compiler = try SchemaCompiler(schema, members: members, budget: budget.forSchema)
    let node = try compiler.compile(into: &builder)
    try budget.spend(budget.steps - compiler.normalizer.budget.steps)
    return node
  }

  /// The texts of the strings that a schema allows, without quotes and escapes.
  static func text(_ schema: JSONValue, budget: inout CompileBudget) throws(GrammarError) -> ByteDFA {
    var compiler = try SchemaCompiler(schema, members: .allowed, budget: budget.forSchema)
    let any = try CommonLanguages.canonicalString.get()
    var automata: [ByteDFA] = []
    let root = Conjunction([SchemaLiteral(place: 0, scope: 0)])
    for case .string(let atom) in try compiler.normalizer.atoms(root) {
      automata.append(
        try compiler.lowering(atom) { max throws(GrammarError) in
          try StringLanguage.unquoted(atom.spellings(else: any), min: atom.min, max: max)
        })
    }
    let dfa = try compiler.union(automata)
    try budget.spend(budget.steps - compiler.normalizer.budget.steps)
    return dfa
  }

  private init(_ schema: JSONValue, members: UndeclaredMembers, budget: CompileBudget) throws(GrammarError) {
    self.members = members
    normalizer = SchemaNormalizer(document: try SchemaDocument(schema), budget: budget)
  }

  private mutating func compile(into builder: inout GraphBuilder) throws(GrammarError) -> Int32 {
    let root = try rule(Conjunction([SchemaLiteral(place: 0, scope: 0)]), &builder)
    var at = 0
    while at < pending.count {
      let (conjunction, node) = pending[at]
      at += 1
      builder.fill(node, .choice(try alternatives(conjunction, &builder)))
    }
    return root
  }

  mutating func rule(_ conjunction: Conjunction, _ builder: inout GraphBuilder) throws(GrammarError)
    -> Int32
  {
    if let known = memo.nodes[.rule(conjunction)] { return known }
    guard pending.count < Self.ruleLimit else {
      throw .tooLarge(reason: "the schema combines to more than \(Self.ruleLimit) rules")
    }
    let node = try builder.reserve()
    pending.append((conjunction, node))
    return memo.keep(node, .rule(conjunction))
  }

  func place(_ conjunction: Conjunction) -> String {
    conjunction.literals.first.map { normalizer.path($0) } ?? ""
  }

  mutating func alternatives(
    _ conjunction: Conjunction, _ builder: inout GraphBuilder
  ) throws(GrammarError) -> [Int32] {
    let atoms = try normalizer.atoms(conjunction)
    let path = place(conjunction)
    var out = try scalars(atoms, &builder)
    var seen: Set<ObjectAtom> = []
    var objects: [ObjectAtom] = []
    var arrays: Set<ArrayAtom> = []
    for atom in atoms {
      switch atom {
      case .object(let object):
        for object in try breaking(object) where seen.insert(object).inserted { objects.append(object) }
      case .array(let array):
        if arrays.insert(array).inserted, let node = try self.array(array, path, &builder) {
          out.append(node)
        }
      case .simple, .number, .string: break
      }
    }
    for object in try aligned(objects) {
      if let node = try self.object(object, path, &builder) { out.append(node) }
    }
    return out
  }

  /// Most keys of all alternatives together that are declared for the others' sake.
  private static let alignedLimit = 4096

  /// Alternatives with further members declare each other's keys, each with its own values. Then all of them have the same
  /// further members, and one automaton of other keys is followed instead of one for each alternative. Alternatives whose
  /// further members are counted stay as they are.
  private mutating func aligned(_ objects: [ObjectAtom]) throws(GrammarError) -> [ObjectAtom] {
    guard objects.count > 1 else { return objects }
    var listed: [MemberKey] = []
    var known: Set<MemberKey> = []
    var isOpen: [Bool] = []
    for object in objects {
      let own = normalizer.members.note(object)
      normalizer.members.forget(own)
      try normalizer.budget.spend(own.count)
      isOpen.append(allowsOthers(object) && object.min <= own.count + 1)
      if isOpen.last == true { listed += own.filter { known.insert($0).inserted } }
    }
    let count = isOpen.count { $0 }
    guard count > 1, listed.count * count <= Self.alignedLimit else { return objects }
    let group = normalizer.members.group(
      MemberGroup(properties: listed.map { .init(key: $0, value: .anything) }, isEvaluating: false))
    return zip(objects, isOpen).map { object, isOpen in
      guard isOpen else { return object }
      var object = object
      object.groups.insert(group, at: 0)
      return object
    }
  }

  /// Whether there may be members that the object does not declare, however many it declares.
  private func allowsOthers(_ atom: ObjectAtom) -> Bool {
    !isClosed(atom, declared: .max)
      && !atom.groups.contains { normalizer.members[$0].additional?.isNever ?? false }
  }

  // MARK: Scalars

  mutating func scalars(_ atoms: [SchemaAtom], _ builder: inout GraphBuilder) throws(GrammarError)
    -> [Int32]
  {
    var kinds: ScalarKinds = []
    var automata: [ByteDFA] = []
    var out: [Int32] = []
    for atom in atoms {
      switch atom {
      case .simple(let bits): kinds.formUnion(ScalarKinds(rawValue: bits))
      case .number(let number):
        if let dfa = try number.values(&normalizer.budget) {
          let integers = try NumberLanguage.integers.get()
          if number.isInteger, dfa === integers {
            kinds.insert(.integer)
          } else {
            automata.append(try self.number(dfa, number))
          }
        } else {
          kinds.insert(.number)
        }
      case .string(let string):
        if let sources = string.sources {
          out.append(try quote(of: sources, string, &builder))
        } else if string.dfa == nil, string.min == 0, string.max == Int.max {
          kinds.insert(.string)
        } else if string.dfa == nil, let node = try boundedString(string, &builder) {
          out.append(node)
        } else {
          let any = try CommonLanguages.canonicalString.get()
          let dfa = string.dfa ?? any
          if let nodes = try countedString(dfa, string, &builder) {
            out += nodes
          } else {
            automata.append(try bounded(dfa, string))
          }
        }
      case .array, .object: break
      }
    }
    if !kinds.isEmpty { automata.append(try normalizer.budget.counted(CommonLanguages.scalars(kinds))) }
    out += try leaves(automata, &builder)
    return out
  }

  private mutating func quote(
    of sources: [String], _ atom: StringAtom, _ builder: inout GraphBuilder
  ) throws(GrammarError) -> Int32 {
    let quotes = try builder.literal([0x22])
    let text = try builder.quote(of: sources, .json, min: atom.min, max: atom.max)
    return try builder.add(.sequence([quotes, text, quotes]))
  }

  mutating func union(_ a: ByteDFA, _ b: ByteDFA) throws(GrammarError) -> ByteDFA {
    let key = SchemaMemo.AutomatonKey.union(.init(a, b))
    if let known = memo.automata[key] { return known }
    return memo.keep(try normalizer.budget.counted(a.union(b, watch: normalizer.budget.watch)), key)
  }

  /// The texts of all, joined two by two: one after the other, what was joined would be gone through for each. What is
  /// without end comes last, for there every state goes on by nearly every byte.
  mutating func union(_ automata: [ByteDFA]) throws(GrammarError) -> ByteDFA {
    let automata = try joiningTexts(automata)
    guard automata.count > 2 else { return try joined(automata) }
    var (finite, others) = ([ByteDFA](), [ByteDFA]())
    for dfa in automata { if dfa.isFinite { finite.append(dfa) } else { others.append(dfa) } }
    guard !finite.isEmpty, !others.isEmpty else { return try joined(automata) }
    return try union(joined(finite), joined(others))
  }

  private mutating func joined(_ automata: [ByteDFA]) throws(GrammarError) -> ByteDFA {
    var automata = automata
    while automata.count > 1 {
      var joined: [ByteDFA] = []
      for place in stride(from: 0, to: automata.count, by: 2) {
        let isPair = place + 1 < automata.count
        joined.append(isPair ? try union(automata[place], automata[place + 1]) : automata[place])
      }
      automata = joined
    }
    if let whole = automata.first { return whole }
    return try ByteDFA.texts([])
  }

  /// The same texts in fewer automata: languages of one text are joined.
  private mutating func joiningTexts(_ automata: [ByteDFA]) throws(GrammarError) -> [ByteDFA] {
    let texts = automata.compactMap(\.onlyText)
    guard texts.count > 1 else { return automata }
    var out: [ByteDFA] = []
    var some: [[UInt8]] = []
    var size = 0
    for text in texts {
      if size + text.count > Self.joinedBytes, !some.isEmpty {
        out.append(try normalizer.enumeration(some))
        (some, size) = ([], 0)
      }
      some.append(text)
      size += text.count
    }
    return out + [try normalizer.enumeration(some)] + automata.filter { $0.onlyText == nil }
  }

  /// One leaf for small automata together.
  mutating func leaves(_ automata: [ByteDFA], _ builder: inout GraphBuilder) throws(GrammarError) -> [Int32] {
    var joined: ByteDFA?
    var out: [Int32] = []
    for dfa in try joiningTexts(automata) where !dfa.isEmpty {
      if dfa.stateCount > 400 {
        out.append(try builder.leaf(dfa))
      } else if let other = joined, other.stateCount <= 400 {
        joined = try union(other, dfa)
      } else {
        if let joined { out.append(try builder.leaf(joined)) }
        joined = dfa
      }
    }
    if let joined { out.append(try builder.leaf(joined)) }
    return out
  }

  private mutating func number(_ dfa: ByteDFA, _ atom: NumberAtom) throws(GrammarError) -> ByteDFA {
    let key = SchemaMemo.AutomatonKey.number(dfa, isInteger: atom.isInteger, isConstant: atom.isConstant)
    if let known = memo.automata[key] { return known }
    let spelling =
      try atom.isInteger
      ? NumberLanguage.plainIntegers.get()
      : atom.isConstant ? NumberLanguage.tidy.get() : NumberLanguage.exact.get()
    return memo.keep(
      try normalizer.budget.counted(dfa.intersection(spelling, watch: normalizer.budget.watch)), key)
  }

  /// Any string with bounds on its characters; nil where strings that cannot be written change its automaton.
  mutating func boundedString(_ atom: StringAtom, _ builder: inout GraphBuilder) throws(GrammarError)
    -> Int32?
  {
    let key = SchemaMemo.NodeKey.anyString(min: atom.min, max: atom.max)
    if let known = memo.nodes[key] { return known }
    let any = try CommonLanguages.freeString.get()
    guard try builder.writable(any) === any else { return nil }
    let bounds = CharacterBounds(min: atom.min, max: atom.max, counts: try CharacterCounts.free.get())
    return memo.keep(try builder.leaf(any, bounds), key)
  }

  /// An expression whose characters are counted beside its automaton; nil where the two may well be one automaton, and
  /// where they must be.
  private mutating func countedString(
    _ dfa: ByteDFA, _ atom: StringAtom, _ builder: inout GraphBuilder
  ) throws(GrammarError) -> [Int32]? {
    let count = atom.max == Int.max ? atom.min : atom.max
    guard count > 0, dfa.stateCount > Self.countedStates / count else { return nil }
    let key = SchemaMemo.AutomatonKey.bounded(dfa, min: atom.min, max: atom.max)
    if let known = memo.countedLeaves[key] { return known }
    guard let (beside, counts) = try countedAutomaton(dfa, builder) else { return nil }
    let bounds = CharacterBounds(min: atom.min, max: atom.max, counts: counts)
    let nodes = bounds.allow(0, after: 0) ? [try builder.leaf(beside, bounds)] : []
    memo.countedLeaves[key] = nodes
    return nodes
  }

  private mutating func countedAutomaton(
    _ dfa: ByteDFA, _ builder: GraphBuilder
  ) throws(GrammarError) -> (dfa: ByteDFA, counts: CharacterCounts)? {
    if let known = memo.counted[dfa] { return known }
    try normalizer.budget.spend(dfa.next.count)
    let made = try StringLanguage.counted(dfa, builder)
    memo.counted[dfa] = .some(made)
    return made
  }

  /// Most states with the count in them. With more, compiling takes longer, and masks as long (o36016, allany16: 151 and
  /// 346 ms up to 40,000 states, 140 and 142 up to these).
  private static let countedStates = 500

  /// An automaton with bounds on its characters. Where the product is too large, the upper bound is lowered.
  mutating func bounded(_ dfa: ByteDFA, _ atom: StringAtom) throws(GrammarError) -> ByteDFA {
    if atom.min == 0, atom.max == Int.max { return dfa }
    let key = SchemaMemo.AutomatonKey.bounded(dfa, min: atom.min, max: atom.max)
    if let known = memo.automata[key] { return known }
    let made = try lowering(atom) { max throws(GrammarError) in
      try StringLanguage.bounded(dfa, min: atom.min, max: max)
    }
    return memo.keep(made, key)
  }

  /// What is made for the upper bound of an atom, or for a lower one where that is too large.
  private mutating func lowering(
    _ atom: StringAtom, _ make: (_ max: Int) throws(GrammarError) -> ByteDFA
  ) throws(GrammarError) -> ByteDFA {
    var max = atom.max
    while true {
      let made: ByteDFA
      do {
        made = try make(max)
      } catch {
        let lower = max == Int.max ? 0 : max / 4
        guard lower >= atom.min, lower >= 32 else { throw error }
        try normalizer.budget.spend(ByteDFA.stateLimit * (atom.dfa?.classCount ?? 16))
        max = lower
        normalizer.isRestricted = true
        continue
      }
      try normalizer.spend(made)
      return try normalizer.budget.counted(made)
    }
  }

  // MARK: Objects

  /// The objects in which declared members break what must be broken: one for each choice of members.
  ///
  /// Choices beyond the limit are left out, as are members that are not declared: the answer is constrained more.
  mutating func breaking(_ atom: ObjectAtom) throws(GrammarError) -> [ObjectAtom] {
    let last = atom.conditions.lastIndex { if case .breach = $0 { true } else { false } }
    guard let last, case .breach(let breach) = atom.conditions[last] else { return [atom] }
    var open = atom
    open.conditions.remove(at: last)
    var out: [ObjectAtom] = []
    for entry in try normalizer.declarations(of: atom) {
      let key = entry.key
      try normalizer.budget.spend(1 + atom.groups.count)
      for wrong in try breakers(breach, key) {
        guard let next = open.and(normalizer.object(with: key, wrong, required: [key])) else { continue }
        out += try breaking(next)
        guard out.count < Self.choiceLimit else { return out }
      }
    }
    return out
  }

  /// Values with which a member of this key breaks the rule; none where the rule does not speak of the key.
  private mutating func breakers(_ breach: MemberBreach, _ key: MemberKey) throws(GrammarError)
    -> [Conjunction]
  {
    let text = normalizer.members.quoted(key)
    let broken: Conjunction
    switch breach {
    case .pattern(let entry):
      guard try normalizer.pattern(entry.key).accepts(text) else { return [] }
      broken = entry.value
    case .additional(let group):
      let group = normalizer.members[group]
      guard let additional = group.additional, !group.properties.contains(where: { $0.key == key }) else {
        return []
      }
      for entry in group.patterns where try normalizer.pattern(entry.key).accepts(text) { return [] }
      broken = additional
    case .name(let allowed): return try names(allowed).accepts(text) ? [] : [.anything]
    }
    return broken.isNever ? [.anything] : broken.literals.map { Conjunction([$0.negated]) }
  }

  /// Keys that no property names and that are declared to be counted.
  private static let declaredExtras = 256

  mutating func object(
    _ atom: ObjectAtom, _ path: String, _ builder: inout GraphBuilder
  ) throws(GrammarError) -> Int32? {
    if let known = memo.objects[atom] { return known }
    let node = try plan(of: atom, path, &builder).map { made throws(GrammarError) in
      try builder.add(.object(made.plan))
    }
    memo.objects[atom] = .some(node)
    return node
  }

  /// The members of an object, and the keys of its properties in their order; nil where there is no such object.
  mutating func plan(
    of atom: ObjectAtom, _ path: String, _ builder: inout GraphBuilder
  ) throws(GrammarError) -> (plan: ObjectPlan, keys: [MemberKey])? {
    let declared = try normalizer.declarations(of: atom)
    let keys = declared.map(\.key)
    guard keys.count <= Self.propertyLimit else {
      throw .tooLarge(reason: "the object at '\(path)' has more than \(Self.propertyLimit) properties")
    }
    var names: ByteDFA?
    for name in atom.names where name != .anything {
      let these = try self.names(name)
      names = try normalizer.budget.counted(
        names?.intersection(these, watch: normalizer.budget.watch) ?? these)
    }
    var members = declared
    if names != nil || !builder.missing.isEmpty || declared.contains(where: \.value.isNever) {
      members.removeAll { entry in
        let key = normalizer.members.quoted(entry.key)
        // A required one stays, so that the object is known to need it.
        return entry.value.isNever || !(names?.accepts(key) ?? true)
          || !entry.isRequired && key.contains(where: builder.missing.contains)
      }
    }
    try removeImpossible(atom, &members)
    let needed = declared.count(where: \.isRequired)
    guard members.count(where: \.isRequired) == needed else { return nil }
    let listed = members.map(\.key)
    let implied = try implied(listed, atom)
    var properties: [ObjectPlan.Property] = []
    properties.reserveCapacity(members.count)
    for (member, implied) in zip(members, implied) {
      properties.append(
        .init(
          key: try keyLeaf(member.key, &builder), value: try rule(member.value, &builder),
          isRequired: member.isRequired, implied: implied))
    }
    let open = open(atom, declared: properties.count)
    let countsExtras = open != nil && atom.min > properties.count + 1
    let extras = try open.map { open throws(GrammarError) in
      try self.extras(open, keys, names, isCounting: countsExtras, &builder)
    }
    let plan = ObjectPlan(
      properties: properties, extras: (extras ?? []).filter { !builder.isUnwritable($0.key) }, min: atom.min,
      max: atom.max, countsExtras: countsExtras)
    if plan.min > plan.properties.count + min(1, plan.extras.count) {
      guard !plan.extras.isEmpty else { return nil }
      guard plan.countsExtras, plan.extras.allSatisfy({ builder.hasManyTexts($0.key) }) else {
        guard let whole = try declaringExtras(of: plan, atom, builder) else {
          throw .unsupported(
            keyword: "minProperties", path: path,
            reason: "members beyond the declared ones, which have a bounded number of keys, cannot be counted"
          )
        }
        return try self.plan(of: whole, path, &builder)
      }
    }
    return (plan, listed)
  }

  /// The object with its few further keys declared, such as those of `^[a-f]$`: members that are listed can be counted.
  private mutating func declaringExtras(
    of plan: ObjectPlan, _ atom: ObjectAtom, _ builder: GraphBuilder
  ) throws(GrammarError) -> ObjectAtom? {
    var properties: [MemberGroup.Named] = []
    for entry in plan.extras where !builder.hasManyTexts(entry.key) {
      guard case .leaf(let leaf) = builder.nodes[Int(entry.key)],
        let texts = leaf.dfa.texts(atMost: Self.declaredExtras - properties.count)
      else { return nil }
      for text in texts {
        // The key in quotes, before a colon and a space.
        guard let key = (try? JSONValue(parsing: Array(text.dropLast(2))))?.stringValue else { return nil }
        properties.append(.init(key: normalizer.members.key(key), value: .anything))
      }
    }
    var whole = atom
    whole.groups.append(normalizer.members.group(MemberGroup(properties: properties, isEvaluating: false)))
    return properties.isEmpty ? nil : whole
  }

  /// The object as further members see it; nil where it has declared ones only.
  private mutating func open(_ atom: ObjectAtom, declared count: Int) -> ObjectAtom? {
    guard isClosed(atom, declared: count) else { return atom }
    guard atom.groups.contains(where: { !normalizer.members[$0].patterns.isEmpty }) else { return nil }
    var closed = atom
    closed.groups.append(normalizer.members.others(than: atom.groups, .never, isEvaluating: false))
    return closed
  }

  /// Whether the object has declared members only, because its schema does not say otherwise.
  private func isClosed(_ atom: ObjectAtom, declared count: Int) -> Bool {
    guard members == .refused, atom.min <= count else { return false }
    return atom.groups.contains { normalizer.members[$0].isDeclaring }
      && !atom.groups.contains { normalizer.members[$0].additional != nil }
  }

  /// Keys that need a key that cannot be there cannot be there either.
  private mutating func removeImpossible(_ atom: ObjectAtom, _ members: inout [Declaration])
    throws(GrammarError)
  {
    let dependencies = atom.dependencies
    guard !dependencies.isEmpty else { return }
    var possible = Set(members.map(\.key))
    var isChanged = true
    while isChanged {
      isChanged = false
      try normalizer.budget.spend(dependencies.count)
      for (key, needs) in dependencies where possible.contains(key) && !possible.isSuperset(of: needs) {
        possible.remove(key)
        isChanged = true
      }
    }
    members.removeAll { !possible.contains($0.key) }
  }

  /// For each of the listed keys, those that must be there with it, directly and indirectly.
  mutating func implied(_ listed: [MemberKey], _ atom: ObjectAtom) throws(GrammarError) -> [[Int]] {
    var implied = [[Int]](repeating: [], count: listed.count)
    let dependencies = atom.dependencies
    guard !dependencies.isEmpty else { return implied }
    let index = Dictionary(listed.enumerated().map { ($0.element, $0.offset) }) { first, _ in first }
    var direct = implied
    for entry in dependencies {
      if let key = index[entry.key] { direct[key] += entry.needs.compactMap { index[$0] } }
    }
    var count = 0
    for key in listed.indices where !direct[key].isEmpty {
      var isKnown = Set([key])
      var queue = [key]
      while let next = queue.popLast() {
        try normalizer.budget.spend(direct[next].count)
        for need in direct[next] where isKnown.insert(need).inserted {
          implied[key].append(need)
          queue.append(need)
        }
      }
      count += implied[key].count
      guard count <= Self.impliedLimit else {
        throw .tooLarge(reason: "the members of an object ask for more than \(Self.impliedLimit) others")
      }
    }
    return implied
  }
}
