// Schemas in normal form: alternatives of one JSON type each.

import JSON

/// A schema that holds, or does not. `scope` names the resources that were entered on the way.
struct SchemaLiteral: Hashable {
  var place: Int
  var scope: Int
  var isNegated = false

  var negated: SchemaLiteral { SchemaLiteral(place: place, scope: scope, isNegated: !isNegated) }

  /// Place, scope and sign in one number, which two literals of many scopes may share.
  var number: Int { place &* 2 &+ (isNegated ? 1 : 0) &+ scope &<< 40 }

  /// One number for the hasher: millions of literals are hashed.
  func hash(into hasher: inout Hasher) { hasher.combine(number) }
}

extension SchemaLiteral: Comparable {
  static func < (a: SchemaLiteral, b: SchemaLiteral) -> Bool {
    if a.place != b.place { return a.place < b.place }
    if a.scope != b.scope { return a.scope < b.scope }
    return !a.isNegated && b.isNegated
  }
}

/// Schemas that all hold; none of them: anything. A schema and its negation never do.
struct Conjunction: Hashable {
  private(set) var literals: [SchemaLiteral]

  static let anything = Conjunction([])
  /// The literal of place -1 never holds.
  static let never = Conjunction([SchemaLiteral(place: -1, scope: 0)])

  /// Up to this many are put in order one by one: the library's sort has memory of its own.
  private static let few = 32

  init(_ literals: [SchemaLiteral]) {
    self.literals = literals
    guard literals.count > 1, !isOrdered else { return }
    var sorted = literals
    if sorted.count <= Self.few {
      for place in sorted.indices.dropFirst() {
        let literal = sorted[place]
        var at = place
        while at > 0, literal < sorted[at - 1] {
          sorted[at] = sorted[at - 1]
          at -= 1
        }
        sorted[at] = literal
      }
    } else {
      sorted.sort()
    }
    self.literals = []
    self.literals.reserveCapacity(sorted.count)
    for literal in sorted where literal != self.literals.last {
      if self.literals.last?.negated == literal {
        self = .never
        return
      }
      self.literals.append(literal)
    }
  }

  /// Whether they are in order, each of another schema.
  private var isOrdered: Bool {
    for at in literals.indices.dropFirst() {
      let (a, b) = (literals[at - 1], literals[at])
      guard a.place < b.place || a.place == b.place && a.scope < b.scope else { return false }
    }
    return true
  }

  /// One number for the hasher: alternatives come to lists of hundreds, which are looked up again and again.
  func hash(into hasher: inout Hasher) {
    var state: UInt64 = 0
    for literal in literals { state = HashTable.mix(state ^ UInt64(truncatingIfNeeded: literal.number)) }
    hasher.combine(state)
  }

  func and(_ other: Conjunction) -> Conjunction {
    if literals.isEmpty { return other }
    if other.literals.isEmpty || literals == other.literals { return self }
    // Both are in order.
    var out = Conjunction.anything
    out.literals.reserveCapacity(literals.count + other.literals.count)
    var (mine, theirs) = (0, 0)
    while mine < literals.count, theirs < other.literals.count {
      let (a, b) = (literals[mine], other.literals[theirs])
      if a.place == b.place, a.scope == b.scope, a.isNegated != b.isNegated { return .never }
      out.literals.append(b < a ? b : a)
      if !(b < a) { mine += 1 }
      if !(a < b) { theirs += 1 }
    }
    out.literals += literals[mine...]
    out.literals += other.literals[theirs...]
    return out
  }

  /// The first of them alone.
  func first(_ count: Int) -> Conjunction {
    var out = Conjunction.anything
    out.literals = Array(literals[..<count])
    return out
  }

  var isNever: Bool { literals.contains { $0.place < 0 && !$0.isNegated } }
}

/// What one schema object says about members.
struct MemberGroup: Hashable {
  struct Named: Hashable {
    /// A key, or an expression for keys.
    var key: MemberKey
    var value: Conjunction
  }

  var properties: [Named] = []
  /// The key is the expression.
  var patterns: [Named] = []
  /// Of members that are neither; nil says nothing, not even that they are evaluated.
  var additional: Conjunction?
  /// Whether `unevaluatedProperties` sees it.
  var isEvaluating = true
  /// Whether it comes from a schema that holds and has `properties`.
  var isDeclaring = false
}

/// Which members objects have where `properties` is given and nothing is said of others.
enum UndeclaredMembers {
  /// Any, as JSON Schema has it.
  case allowed
  /// None, as those who write such schemas mean it.
  case refused
}

/// A rule over the members of an object that some member breaks.
enum MemberBreach: Hashable {
  /// The key matches an expression, and the value is none of its values.
  case pattern(MemberGroup.Named)
  /// The member is none of the group's, and the value is not what the group has for others.
  case additional(MemberTable.Group)
  /// The key is not what `propertyNames` allows.
  case name(Conjunction)
}

/// A condition on the members of an object beside its groups.
enum MemberCondition: Hashable {
  /// On all keys.
  case name(Conjunction)
  /// A member asks for others.
  case dependency(key: MemberKey, needs: [MemberKey])
  /// Broken by a member; which one is chosen when the object is compiled and its members are known.
  case breach(MemberBreach)
}

struct ObjectAtom: Hashable {
  var groups: [MemberTable.Group] = []
  var required: [MemberKey] = []
  var min = 0
  var max = Int.max
  var conditions: [MemberCondition] = []

  /// Parts that are compared with those of another.
  var size: Int { 1 + groups.count + conditions.count + required.count / 64 }

  var names: [Conjunction] {
    conditions.compactMap { if case .name(let allowed) = $0 { allowed } else { nil } }
  }

  var dependencies: [(key: MemberKey, needs: [MemberKey])] {
    conditions.compactMap { if case .dependency(let key, let needs) = $0 { (key, needs) } else { nil } }
  }

  /// Most comparisons of keys without a set.
  private static let comparedKeys = 256

  /// One number for the lists, which are nearly all there is: tens of thousands of objects are hashed, most of them several
  /// times.
  func hash(into hasher: inout Hasher) {
    var state = UInt64(truncatingIfNeeded: groups.count)
    for group in groups { state = HashTable.mix(state ^ UInt64(truncatingIfNeeded: group.number)) }
    for key in required { state = HashTable.mix(state ^ UInt64(truncatingIfNeeded: key.number)) }
    hasher.combine(state)
    if min > 0 || max < Int.max { hasher.combine([min, max]) }
    if !conditions.isEmpty { hasher.combine(conditions) }
  }

  func and(_ other: ObjectAtom) -> ObjectAtom? {
    var out = self
    out.groups = Self.joined(groups, other.groups)
    if required.isEmpty {
      out.required = other.required
    } else if required.count * other.required.count <= Self.comparedKeys {
      out.required += other.required.filter { !required.contains($0) }
    } else {
      let known = Set(required)
      out.required += other.required.filter { !known.contains($0) }
    }
    out.min = Swift.max(min, other.min)
    out.max = Swift.min(max, other.max)
    out.conditions = Self.joined(conditions, other.conditions)
    return out.min <= out.max && out.required.count <= out.max ? out : nil
  }

  /// Each once; most have one of the lists alone.
  private static func joined<Part: Equatable>(_ a: [Part], _ b: [Part]) -> [Part] {
    if a.isEmpty || b.isEmpty { return a.isEmpty ? b : a }
    return a + b.filter { !a.contains($0) }
  }
}

/// A key that an object speaks of.
struct Declaration {
  let key: MemberKey
  var value: Conjunction
  var isRequired: Bool
}

/// What one schema object says about items.
struct ItemGroup: Hashable {
  var prefix: [Conjunction] = []
  /// Of items after the prefix; nil says nothing.
  var items: Conjunction?
  var isEvaluating = true
}

struct ArrayAtom: Hashable {
  struct Contains: Hashable {
    var value: Conjunction
    var min: Int
    var max: Int
    var isEvaluating = true
  }

  var groups: [ItemGroup] = []
  var min = 0
  var max = Int.max
  var contains: [Contains] = []
  var isUnique = false

  /// Parts that are compared with those of another.
  var size: Int { 1 + groups.count + contains.count }

  func and(_ other: ArrayAtom) -> ArrayAtom? {
    var out = self
    for group in other.groups where !out.groups.contains(group) { out.groups.append(group) }
    for entry in other.contains where !out.contains.contains(entry) { out.contains.append(entry) }
    out.min = Swift.max(min, other.min)
    out.max = Swift.min(max, other.max)
    out.isUnique = isUnique || other.isUnique
    return out.min <= out.max ? out : nil
  }
}

struct StringAtom {
  /// Canonical spellings with quotes; nil: all strings.
  var dfa: ByteDFA?
  /// The texts in which the string stands; nil: anywhere.
  var sources: [String]?
  var min = 0
  var max = Int.max

  func and(_ other: StringAtom, _ budget: inout CompileBudget) throws(GrammarError) -> StringAtom? {
    var out = StringAtom(
      dfa: dfa ?? other.dfa, sources: sources ?? other.sources, min: Swift.max(min, other.min),
      max: Swift.min(max, other.max))
    guard out.sources == nil || out.dfa == nil,
      sources == nil || other.sources == nil || sources == other.sources
    else {
      throw .unsupported(
        keyword: Self.quoteKeyword, path: "",
        reason: "of the other keywords for strings, only minLength and maxLength can stand beside it")
    }
    if let mine = dfa, let theirs = other.dfa {
      out.dfa = try budget.intersection(mine, theirs)
    }
    return out.min > out.max || out.dfa?.isEmpty ?? false ? nil : out
  }

  /// The automaton of its spellings, whatever the bounds are.
  ///
  /// - Throws: for a quote, which has none.
  func spellings(else any: ByteDFA) throws(GrammarError) -> ByteDFA {
    guard sources == nil else {
      throw .unsupported(
        keyword: Self.quoteKeyword, path: "",
        reason: "here strings have to be told apart, or stand without quotes")
    }
    return dfa ?? any
  }

  static let quoteKeyword = "x-quote-of"
}

struct NumberAtom {
  /// All spellings without exponent of the values; nil: all numbers.
  var dfa: ByteDFA?
  /// Further such sets of values, which may be many states together with `dfa`: what 13 and 37 divide has one for each
  /// remainder of 481. In a range they may be few again.
  private var apart: [ByteDFA] = []
  /// Written without a point.
  var isInteger = false
  /// From `enum` or `const`: written without superfluous zeros.
  var isConstant = false

  /// Most pairs of states that are made before all of the sets are known.
  private static let togetherLimit = 20_000

  init(dfa: ByteDFA? = nil, isInteger: Bool = false, isConstant: Bool = false) {
    (self.dfa, self.isInteger, self.isConstant) = (dfa, isInteger, isConstant)
  }

  func and(_ other: NumberAtom, _ budget: inout CompileBudget) throws(GrammarError) -> NumberAtom? {
    var out = self
    out.isInteger = isInteger || other.isInteger
    out.isConstant = isConstant || other.isConstant
    out.apart += other.apart
    if let mine = dfa, let theirs = other.dfa {
      if mine.stateCount * theirs.stateCount <= Self.togetherLimit {
        out.dfa = try budget.intersection(mine, theirs)
      } else {
        out.apart.append(theirs)
      }
    } else {
      out.dfa = dfa ?? other.dfa
    }
    return out.dfa?.isEmpty ?? false ? nil : out
  }

  /// The values in all of the sets, the smallest first; nil: all numbers.
  func values(_ budget: inout CompileBudget) throws(GrammarError) -> ByteDFA? {
    guard let dfa else { return nil }
    let sorted = (apart + [dfa]).sorted { $0.stateCount < $1.stateCount }
    var whole = sorted[0]
    for part in sorted.dropFirst() { whole = try budget.intersection(whole, part) }
    return whole
  }
}

/// One alternative.
enum SchemaAtom {
  /// Bit 0: null, bit 1: false, bit 2: true.
  case simple(UInt8)
  case number(NumberAtom)
  case string(StringAtom)
  case array(ArrayAtom)
  case object(ObjectAtom)

  static let everything: [SchemaAtom] = [
    .simple(7), .number(NumberAtom()), .string(StringAtom()), .array(ArrayAtom()), .object(ObjectAtom()),
  ]

  func and(_ other: SchemaAtom, _ budget: inout CompileBudget) throws(GrammarError) -> SchemaAtom? {
    switch (self, other) {
    case (.simple(let a), .simple(let b)): return a & b == 0 ? nil : .simple(a & b)
    case (.number(let a), .number(let b)): return try a.and(b, &budget).map { .number($0) }
    case (.string(let a), .string(let b)): return try a.and(b, &budget).map { .string($0) }
    case (.array(let a), .array(let b)):
      try budget.spend(a.size * b.size)
      return a.and(b).map { .array($0) }
    case (.object(let a), .object(let b)):
      try budget.spend(a.size * b.size)
      return a.and(b).map { .object($0) }
    default: return nil
    }
  }

  /// Whether it has no parts.
  var isScalar: Bool {
    switch self {
    case .simple, .number, .string: true
    case .array, .object: false
    }
  }
}
