// Schemas to alternatives of one type each: unions for anyOf, products for allOf, complements for not.

import JSON

/// Negations are pushed down to the keywords. Then everything is monotone, so that an alternative that cannot be
/// expressed may be left out: the answer is constrained more, never less.
struct SchemaNormalizer {
  var document: SchemaDocument
  /// Whether something was left out.
  var isRestricted = false
  /// Whether alternatives were left out because they were too many: what is left may be disjoint where the whole is not.
  private(set) var isCut = false
  var budget: CompileBudget
  private var known: [SchemaLiteral: [SchemaAtom]] = [:]
  /// The alternatives of conjunctions, and how many they are in all.
  private var jointly: [Conjunction: [SchemaAtom]] = [:]
  private var jointCount = 0
  var inProgress: Set<SchemaLiteral> = []
  private var scopes: [[Int]] = [[]]
  var members = MemberTable()
  var patterns: [MemberKey: ByteDFA] = [:]
  /// By keyword and bound; and by the texts of an enumeration.
  var bounds: [[ByteKey]: ByteDFA] = [:]
  var enumerations: [[[UInt8]]: ByteDFA] = [:]
  private var work = 0
  var states = 0

  private static let depthLimit = 40
  private static let atomLimit = 2000
  /// Above this many alternatives of several schemas together, it is looked which of them can be.
  private static let manyAtoms = 32
  /// Of more alternatives than that, these many first ones stay.
  private static let keptAtoms = 200
  private static let workLimit = 400_000
  private static let keptJointly = 100_000
  static let statesLimit = 400_000

  init(document: SchemaDocument, budget: CompileBudget) {
    (self.document, self.budget) = (document, budget)
  }

  // MARK: Places

  func path(_ literal: SchemaLiteral) -> String {
    literal.place < 0 ? "" : document.places[literal.place].path
  }

  /// A schema below `literal`, as seen from there.
  mutating func child(_ literal: SchemaLiteral, _ step: SchemaStep, _ value: JSONValue) throws(GrammarError)
    -> SchemaLiteral
  {
    guard value.objectValue != nil || value.boolValue != nil else {
      throw .malformed(path: path(literal) + step.pointer, reason: "a schema is an object or a boolean")
    }
    return SchemaLiteral(place: try document.child(literal.place, step, value), scope: enter(literal))
  }

  /// The scope inside a schema.
  mutating func enter(_ literal: SchemaLiteral) -> Int {
    guard document.hasDynamicAnchors else { return 0 }
    let resource = document.places[literal.place].resource
    let scope = scopes[literal.scope]
    if scope.contains(resource) { return literal.scope }
    let next = scope + [resource]
    if let found = scopes.firstIndex(of: next) { return found }
    scopes.append(next)
    return scopes.count - 1
  }

  // MARK: Alternatives

  /// Those of the first of the schemas are kept, too: chains of alternatives ask for one schema more each time.
  mutating func atoms(_ conjunction: Conjunction) throws(GrammarError) -> [SchemaAtom] {
    var count = conjunction.literals.count
    while count > 0, jointly[conjunction.first(count)] == nil { count -= 1 }
    var out = jointly[conjunction.first(count)] ?? SchemaAtom.everything
    while count < conjunction.literals.count, !out.isEmpty {
      out = try product(out, try atoms(conjunction.literals[count]))
      count += 1
      jointCount += 1 + out.count
      if jointCount > Self.keptJointly { (jointly, jointCount) = ([:], 0) }
      jointly[conjunction.first(count)] = out
    }
    return out
  }

  mutating func product(_ a: [SchemaAtom], _ b: [SchemaAtom]) throws(GrammarError) -> [SchemaAtom] {
    var out: [SchemaAtom] = []
    for x in a where out.count <= Self.atomLimit {
      for y in b {
        work += 1
        guard let both = try x.and(y, &budget) else { continue }
        out.append(both)
      }
      guard work < Self.workLimit else { throw Self.tooMany }
    }
    return cut(out)
  }

  /// Why a schema is refused that would combine to too much.
  static let tooMany = GrammarError.tooLarge(
    reason: "the schema combines to more than \(atomLimit) alternatives")

  /// Not too many alternatives: the answer is constrained more.
  mutating func cut(_ atoms: [SchemaAtom]) -> [SchemaAtom] {
    guard atoms.count > Self.atomLimit else { return atoms }
    (isRestricted, isCut) = (true, true)
    return Array(atoms.prefix(Self.keptAtoms))
  }

  mutating func atoms(_ literal: SchemaLiteral) throws(GrammarError) -> [SchemaAtom] {
    if literal.place < 0 { return literal.isNegated ? SchemaAtom.everything : [] }
    if let known = known[literal] { return known }
    if let holds = document.places[literal.place].value.boolValue {
      return holds != literal.isNegated ? SchemaAtom.everything : []
    }
    let out = try read(literal, among: SchemaAtom.everything)
    known[literal] = out
    return out
  }

  /// The alternatives among some that satisfy a schema: the product with its own. But what `oneOf` excludes is found
  /// among these, for a member that they require often tells its branches apart.
  private mutating func narrowed(_ atoms: [SchemaAtom], by literal: SchemaLiteral) throws(GrammarError)
    -> [SchemaAtom]
  {
    let isTelling = atoms.contains {
      if case .object(let atom) = $0 { !atom.required.isEmpty } else { false }
    }
    guard isTelling, !literal.isNegated, literal.place >= 0,
      document.places[literal.place].value.objectValue?["oneOf"] != nil
    else { return try product(atoms, try self.atoms(literal)) }
    return try read(literal, among: atoms)
  }

  private mutating func read(_ literal: SchemaLiteral, among atoms: [SchemaAtom]) throws(GrammarError)
    -> [SchemaAtom]
  {
    let place = document.places[literal.place]
    guard case .object(let members) = place.value else {
      throw .malformed(path: place.path, reason: "a schema is an object or a boolean")
    }
    guard inProgress.insert(literal).inserted else {
      throw .unsupported(
        keyword: "$ref", path: place.path, reason: "the schema refers to itself without getting anywhere")
    }
    defer { inProgress.remove(literal) }
    guard inProgress.count < Self.depthLimit else {
      throw .tooLarge(reason: "schemas refer to each other more than \(Self.depthLimit) deep")
    }
    let keywords = try Self.keywords(members, document.resources[place.resource].draft, path: place.path)
    guard literal.isNegated else {
      var out = atoms
      for keyword in keywords where !out.isEmpty { out = try positive(keyword, members, literal, out) }
      return out
    }
    var out: [SchemaAtom] = []
    for keyword in keywords {
      for atom in try negative(keyword, members, literal.negated) { out.append(unseen(atom)) }
      out = cut(out)
      work += out.count
      guard work < Self.workLimit else { throw Self.tooMany }
    }
    return out
  }

  /// The keywords of a schema that say something, in the order in which they are applied. Keywords that nobody knows
  /// are annotations; those of another draft that would change the meaning are refused.
  private static func keywords(
    _ members: JSONObject, _ draft: SchemaDraft, path: String
  ) throws(GrammarError) -> [String] {
    if draft.isReferenceAlone, members["$ref"] != nil { return ["$ref"] }
    // Members are few, and keywords many.
    var places: [Int] = []
    for (name, _) in members.entries {
      guard let place = place[ByteKey(name)] else { continue }
      switch order[place] {
      case "extends", "disallow", "divisibleBy":
        throw .unsupported(keyword: name, path: path, reason: "it belongs to another draft")
      case "properties", "items": if !places.contains(place) { places.append(place) }
      case "if": if members["then"] != nil || members["else"] != nil { places.append(place) }
      default: if draft.has(name) { places.append(place) }
      }
    }
    places.sort()
    return places.map { order[$0] }
  }

  /// The places of keywords in their order, and of those that are read with another.
  private static let place: [ByteKey: Int] = {
    var place = Dictionary(order.enumerated().map { (ByteKey($0.element), $0.offset) }) { first, _ in first }
    for (keyword, other) in [
      ("patternProperties", "properties"), ("additionalProperties", "properties"), ("prefixItems", "items"),
    ] { place[ByteKey(keyword)] = place[ByteKey(other)] }
    return place
  }()

  private static let order = [
    "extends", "disallow", "divisibleBy", "type", "const", "enum", "minimum", "maximum", "exclusiveMinimum",
    "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern", "format", "x-quote-of",
    "properties", "required",
    "minProperties", "maxProperties",
    "propertyNames",
    "dependentRequired", "items", "contains", "minItems", "maxItems", "uniqueItems", "$ref", "$dynamicRef",
    "$recursiveRef",
    "allOf",
    "not", "oneOf", "anyOf", "if", "dependentSchemas", "dependencies", "unevaluatedProperties",
    "unevaluatedItems",
  ]

  // MARK: Keywords that hold

  mutating func positive(
    _ keyword: String, _ members: JSONObject, _ literal: SchemaLiteral, _ atoms: [SchemaAtom]
  ) throws(GrammarError) -> [SchemaAtom] {
    switch keyword {
    case "$ref", "$dynamicRef", "$recursiveRef":
      return try narrowed(atoms, by: try target(keyword, members, literal))
    case "allOf":
      var out = atoms
      for branch in try branches(keyword, members, literal) where !out.isEmpty {
        out = try narrowed(out, by: branch)
        // Chains of `if` are told apart by what they test: of 60 tests for the constant of one member, all hold (without
        // it), one, or none. Untold they are 2^60.
        if out.count > Self.manyAtoms { out = try possible(out) }
      }
      return out
    case "anyOf":
      var union: [SchemaAtom] = []
      for branch in try branches(keyword, members, literal) { union += try self.atoms(branch) }
      return try product(atoms, union)
    case "oneOf": return try exactlyOne(try branches(keyword, members, literal), atoms, literal)
    case "not":
      return try product(
        atoms, try self.atoms(try child(literal, SchemaStep("not"), members["not"] ?? true).negated))
    case "if":
      let (test, then, other) = try conditional(members, literal)
      let yes = try product(try product(atoms, try self.atoms(test)), try self.atoms(then))
      return yes + (try product(try product(atoms, try self.atoms(test.negated)), try self.atoms(other)))
    case "dependentSchemas", "dependencies":
      var out = atoms
      for (key, schema, keys) in try dependents(keyword, members, literal) {
        if let schema {
          let without = try product(
            out, Self.others(than: .object(ObjectAtom())) + [.object(without(key))])
          let with = try product(out, [.object(ObjectAtom(required: [key]))])
          out = without + (try narrowed(with, by: schema))
        } else {
          let atom = ObjectAtom(conditions: [.dependency(key: key, needs: keys)])
          out = try product(out, Self.others(than: .object(ObjectAtom())) + [.object(atom)])
        }
      }
      return out
    case "unevaluatedProperties", "unevaluatedItems":
      return try unevaluated(
        keyword, try child(literal, SchemaStep(keyword), members[keyword] ?? true), literal, atoms)
    default:
      let allowed = try assertion(keyword, members, literal)
      return try product(atoms, allowed)
    }
  }

  /// Everything but one type.
  static func others(than atom: SchemaAtom) -> [SchemaAtom] {
    SchemaAtom.everything.filter { other in
      switch (atom, other) {
      case (.simple, .simple), (.number, .number), (.string, .string), (.array, .array), (.object, .object):
        false
      default: true
      }
    }
  }

  /// An object without a member.
  mutating func without(_ key: MemberKey) -> ObjectAtom { object(with: key, .never) }

  /// An object whose member of this key has this value, if it is there.
  mutating func object(with key: MemberKey, _ value: Conjunction, required: [MemberKey] = []) -> ObjectAtom {
    let group = MemberGroup(properties: [.init(key: key, value: value)], isEvaluating: false)
    return ObjectAtom(groups: [members.group(group)], required: required)
  }

  /// The same without what `unevaluatedProperties` and `unevaluatedItems` would see.
  private mutating func unseen(_ atom: SchemaAtom) -> SchemaAtom {
    switch atom {
    case .array(var atom):
      for index in atom.groups.indices { atom.groups[index].isEvaluating = false }
      for index in atom.contains.indices { atom.contains[index].isEvaluating = false }
      return .array(atom)
    case .object(var atom):
      for index in atom.groups.indices { atom.groups[index] = members.unseen(atom.groups[index]) }
      return .object(atom)
    case .simple, .number, .string: return atom
    }
  }

  mutating func branches(
    _ keyword: String, _ members: JSONObject, _ literal: SchemaLiteral
  ) throws(GrammarError) -> [SchemaLiteral] {
    guard let list = members[keyword]?.arrayValue, !list.isEmpty else {
      throw .malformed(path: path(literal) + "/" + keyword, reason: "it is not a list of schemas")
    }
    var out: [SchemaLiteral] = []
    for (index, value) in list.enumerated() {
      out.append(try child(literal, SchemaStep(keyword, .index(index)), value))
    }
    return out
  }

  mutating func target(
    _ keyword: String, _ members: JSONObject, _ literal: SchemaLiteral
  ) throws(GrammarError) -> SchemaLiteral {
    guard let reference = members[keyword]?.stringValue else {
      throw .malformed(path: path(literal) + "/" + keyword, reason: "it is not a string")
    }
    var (place, dynamic) = try document.resolve(reference, at: literal.place, keyword: keyword)
    let scope = enter(literal)
    if keyword != "$ref", let dynamic {
      // The outermost resource on the way that has the anchor decides.
      for resource in scopes[scope] {
        if let found = document.resources[resource].dynamicAnchors[dynamic] {
          place = found
          break
        }
      }
    }
    return SchemaLiteral(place: place, scope: scope)
  }

  mutating func conditional(
    _ members: JSONObject, _ literal: SchemaLiteral
  ) throws(GrammarError) -> (test: SchemaLiteral, then: SchemaLiteral, other: SchemaLiteral) {
    (
      try child(literal, SchemaStep("if"), members["if"] ?? true),
      try child(literal, SchemaStep("then"), members["then"] ?? true),
      try child(literal, SchemaStep("else"), members["else"] ?? true)
    )
  }

  /// The entries of `dependentSchemas` or `dependencies`: a schema or a list of keys for each key.
  mutating func dependents(
    _ keyword: String, _ members: JSONObject, _ literal: SchemaLiteral
  ) throws(GrammarError) -> [(key: MemberKey, schema: SchemaLiteral?, keys: [MemberKey])] {
    guard let entries = members[keyword]?.objectValue?.entries else {
      throw .malformed(path: path(literal) + "/" + keyword, reason: "it is not an object")
    }
    var out: [(key: MemberKey, schema: SchemaLiteral?, keys: [MemberKey])] = []
    for (name, value) in entries {
      if keyword.utf8.count == 12, value.arrayValue != nil {
        out.append((self.members.key(name), nil, try keys(value, path(literal) + "/\(keyword)/\(name)")))
      } else {
        out.append(
          (
            self.members.key(name), try child(literal, SchemaStep(keyword, .name(ByteKey(name))), value),
            []
          ))
      }
    }
    return out
  }

  mutating func keys(_ value: JSONValue, _ path: String) throws(GrammarError) -> [MemberKey] {
    guard let list = value.arrayValue else {
      throw .malformed(path: path, reason: "it is not a list of strings")
    }
    var out: [MemberKey] = []
    var isListed: Set<MemberKey> = []
    for entry in list {
      guard let text = entry.stringValue else {
        throw .malformed(path: path, reason: "it is not a list of strings")
      }
      let key = members.key(text)
      if isListed.insert(key).inserted { out.append(key) }
    }
    return out
  }

  // MARK: Unevaluated

  mutating func unevaluated(
    _ keyword: String, _ rest: SchemaLiteral, _ literal: SchemaLiteral, _ atoms: [SchemaAtom]
  ) throws(GrammarError) -> [SchemaAtom] {
    let isProperties = keyword.hasSameBytes(as: "unevaluatedProperties")
    let value = document.places[rest.place].value == false ? Conjunction.never : Conjunction([rest])
    var out: [SchemaAtom] = []
    for atom in atoms {
      switch atom {
      case .object(var object) where isProperties:
        let seen = object.groups.filter { members[$0].isEvaluating }
        if !seen.contains(where: { members[$0].additional != nil }) {
          object.groups.append(members.others(than: seen, value, isEvaluating: true))
        }
        out.append(.object(object))
      case .array(var array) where !isProperties:
        let seen = array.groups.filter(\.isEvaluating)
        let length = seen.reduce(0) { max($0, $1.prefix.count) }
        if !seen.contains(where: { $0.items != nil }) {
          if array.contains.contains(where: \.isEvaluating) {
            throw .unsupported(keyword: keyword, path: path(literal), reason: "it stands with 'contains'")
          }
          let prefix = [Conjunction](repeating: .anything, count: length)
          array.groups.append(ItemGroup(prefix: prefix, items: value))
        }
        out.append(.array(array))
      default: out.append(atom)
      }
    }
    return out
  }
}
