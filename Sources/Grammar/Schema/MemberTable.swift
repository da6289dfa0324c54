// Keys and groups of members by number: compiling compares and hashes them millions of times.

import JSON

/// A key of objects, or an expression for keys, by its number in a `MemberTable`.
struct MemberKey: Hashable {
  let number: Int32
}

/// The keys and the groups of members of one schema, each once.
struct MemberTable {
  /// A `MemberGroup` by its number.
  struct Group: Hashable {
    let number: Int32
  }

  private var texts: [String] = []
  private var quoted: [[UInt8]] = []
  private var keys: [ByteKey: MemberKey] = [:]
  private var contents: [MemberGroup] = []
  /// The keys of the properties of each group: without the values, no references are counted on the way through them.
  private var named: [[MemberKey]] = []
  /// The property of each group that has one, with one schema, and says no more: chains of alternatives have hundreds.
  private var singles: [(key: MemberKey, value: SchemaLiteral)?] = []
  /// Whether each group says something of members that its properties do not name.
  private var isOpen: [Bool] = []
  private var groups: [MemberGroup: Group] = [:]
  private var unseen: [Group: Group] = [:]
  /// The place of each key among those that are being looked at; -1 for others, and for all in between.
  private var places: [Int32] = []

  mutating func key(_ text: String) -> MemberKey {
    if let known = keys[ByteKey(text)] { return known }
    let key = MemberKey(number: Int32(truncatingIfNeeded: texts.count))
    texts.append(text)
    quoted.append(JSONText.quoted(text))
    places.append(-1)
    keys[ByteKey(text)] = key
    return key
  }

  func text(_ key: MemberKey) -> String { texts[Int(key.number)] }

  /// The key as JSON has it, with its quotes.
  func quoted(_ key: MemberKey) -> [UInt8] { quoted[Int(key.number)] }

  mutating func group(_ content: MemberGroup) -> Group {
    if let known = groups[content] { return known }
    let group = Group(number: Int32(truncatingIfNeeded: contents.count))
    contents.append(content)
    named.append(content.properties.map(\.key))
    singles.append(Self.single(content))
    isOpen.append(content.additional != nil || !content.patterns.isEmpty)
    groups[content] = group
    return group
  }

  private static func single(_ content: MemberGroup) -> (key: MemberKey, value: SchemaLiteral)? {
    guard content.properties.count == 1, content.patterns.isEmpty, content.additional == nil else {
      return nil
    }
    let literals = content.properties[0].value.literals
    return literals.count == 1 ? (content.properties[0].key, literals[0]) : nil
  }

  subscript(_ group: Group) -> MemberGroup { contents[Int(group.number)] }

  /// How many properties a group has.
  func nameCount(_ group: Group) -> Int { named[Int(group.number)].count }

  /// What a group says of a member that its properties name; nil for others.
  func literals(of key: MemberKey, in group: Group) -> [SchemaLiteral]? {
    named[Int(group.number)].firstIndex(of: key).map {
      contents[Int(group.number)].properties[$0].value.literals
    }
  }

  /// The property and its schema, if the group says no more.
  func single(_ group: Group) -> (key: MemberKey, value: SchemaLiteral)? { singles[Int(group.number)] }

  /// Whether a group says something of members that its properties do not name.
  func speaksOfOthers(_ group: Group) -> Bool { isOpen[Int(group.number)] }

  /// The same group without what `unevaluatedProperties` would see.
  mutating func unseen(_ group: Group) -> Group {
    if let known = unseen[group] { return known }
    var content = self[group]
    content.isEvaluating = false
    content.isDeclaring = false
    let made = self.group(content)
    unseen[group] = made
    return made
  }

  /// What the members must be that some groups do not speak of, by name or by an expression.
  mutating func others(than groups: [Group], _ value: Conjunction, isEvaluating: Bool) -> Group {
    func anything(_ entry: MemberGroup.Named) -> MemberGroup.Named { .init(key: entry.key, value: .anything) }
    let contents = groups.map { self[$0] }
    return group(
      MemberGroup(
        properties: contents.flatMap(\.properties).map(anything),
        patterns: contents.flatMap(\.patterns).map(anything), additional: value, isEvaluating: isEvaluating))
  }

  // MARK: Places

  /// The keys that an object speaks of, each once: those of its groups, required ones, those of dependencies. Until
  /// `forget`, `place` tells where in the list a key is. With a dictionary for each object, compiling large schemas took
  /// 14 % longer.
  mutating func note(_ atom: ObjectAtom) -> [MemberKey] {
    var noted: [MemberKey] = []
    for group in atom.groups {
      for key in named[Int(group.number)] { note(key, &noted) }
    }
    for key in atom.required { note(key, &noted) }
    for (key, needs) in atom.dependencies {
      note(key, &noted)
      for key in needs { note(key, &noted) }
    }
    return noted
  }

  private mutating func note(_ key: MemberKey, _ noted: inout [MemberKey]) {
    guard places[Int(key.number)] < 0 else { return }
    places[Int(key.number)] = Int32(truncatingIfNeeded: noted.count)
    noted.append(key)
  }

  func place(_ key: MemberKey) -> Int { Int(places[Int(key.number)]) }

  mutating func forget(_ noted: [MemberKey]) {
    for key in noted { places[Int(key.number)] = -1 }
  }
}
