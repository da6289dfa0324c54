// A schema with its places, identifiers and anchors; references are resolved inside it.

import JSON

/// A place in the document that is a schema.
struct SchemaPlace {
  /// In the words of the latest draft.
  var value: JSONValue
  /// As it is written: references point into it.
  var source: JSONValue
  /// A JSON pointer.
  var path: String
  var resource: Int
}

/// The way from a schema to one below it.
struct SchemaStep: Hashable {
  enum Part: Hashable {
    case whole
    case index(Int)
    case name(ByteKey)
    /// Of a constant, which becomes a schema of its own. No pointer of the document has an empty part before this one.
    case constant(ByteKey)
  }

  var keyword: ByteKey
  var part: Part

  init(_ keyword: String, _ part: Part = .whole) {
    self.keyword = ByteKey(keyword)
    self.part = part
  }

  /// As a part of a JSON pointer.
  var pointer: String {
    switch part {
    case .whole: "/" + keyword.string
    case .index(let index): "/\(keyword.string)/\(index)"
    case .name(let name): "/" + keyword.string + "/" + Self.escaped(name.string)
    case .constant(let name): "/" + keyword.string + "//" + Self.escaped(name.string)
    }
  }

  private static func escaped(_ key: String) -> String {
    guard key.utf8.contains(where: { $0 == 0x7E || $0 == 0x2F }) else { return key }
    var out = String.UnicodeScalarView()
    for scalar in key.unicodeScalars {
      switch scalar {
      case "~": out.append(contentsOf: "~0".unicodeScalars)
      case "/": out.append(contentsOf: "~1".unicodeScalars)
      default: out.append(scalar)
      }
    }
    return String(out)
  }
}

/// A schema with an identifier of its own, and the root.
struct SchemaResource {
  var uri: String
  var root: Int
  var anchors: [ByteKey: Int] = [:]
  var dynamicAnchors: [ByteKey: Int] = [:]
  var draft: SchemaDraft
}

struct SchemaDocument {
  private(set) var places: [SchemaPlace] = []
  private(set) var resources: [SchemaResource] = []
  private(set) var hasDynamicAnchors = false
  private var placeBelow: [Below: Int] = [:]
  /// The first place of each schema that says the same: equal schemas are one.
  private var placeOfShape: [SchemaShape: Int] = [:]

  private struct Below: Hashable {
    var outer: Int
    var step: SchemaStep
  }

  private static let placeLimit = 50_000
  private static let depthLimit = 100

  init(_ schema: JSONValue) throws(GrammarError) {
    resources.append(
      SchemaResource(uri: "", root: 0, draft: try Self.draft(schema, path: "") ?? .latest))
    try scan(schema, "", 0, depth: 0)
  }

  /// What `$schema` says; nil when it says nothing, or names no published draft.
  private static func draft(_ schema: JSONValue, path: String) throws(GrammarError) -> SchemaDraft? {
    guard let name = schema["$schema"] else { return nil }
    guard let text = name.stringValue else {
      throw .malformed(path: path + "/$schema", reason: "it is not a string")
    }
    return SchemaDraft(metaschema: text)
  }

  /// How a member of a schema counts when schemas are compared: not at all, or by the places of its subschemas.
  private enum Role {
    /// `definitions` holds subschemas too, which count where they are referred to.
    case annotation, definitions, single, list, map
    /// `items` is one or the other, by its value.
    case singleOrList
  }

  /// The members that hold subschemas, in the order in which these get their places; then what is for readers.
  private static let roles: [ByteKey: (role: Role, rank: Int)] = {
    let words: [(Role, [String])] = [
      (.single, ["additionalProperties", "additionalItems"]), (.singleOrList, ["items"]),
      (
        .single,
        [
          "contains", "propertyNames", "if", "then", "else", "not", "unevaluatedItems",
          "unevaluatedProperties",
        ]
      ),
      (.list, ["allOf", "anyOf", "oneOf", "prefixItems"]), (.map, ["properties", "patternProperties"]),
      (.definitions, ["$defs", "definitions"]), (.map, ["dependentSchemas", "dependencies"]),
      (
        .annotation,
        [
          "title", "description", "markdownDescription", "$comment", "default", "examples", "deprecated",
          "readOnly", "writeOnly",
        ]
      ),
    ]
    var roles: [ByteKey: (Role, Int)] = [:]
    for (role, keys) in words { for key in keys { roles[ByteKey(key)] = (role, roles.count) } }
    return roles
  }()

  /// The members of a schema: those with subschemas in the order of their ranks, and what else it says, in the order of
  /// the keys.
  private static func sorted(_ members: JSONObject) -> (parents: [Parent], plain: [(String, JSONValue)]) {
    var parents: [Parent] = []
    var plain: [(key: String, value: JSONValue)] = []
    for (key, value) in members.entries {
      let (role, rank) = roles[ByteKey(key)] ?? (nil, 0)
      switch (role, value) {
      case (.annotation, _): break
      case (.single, .object), (.single, .bool), (.singleOrList, .object), (.singleOrList, .bool):
        parents.append(Parent(key: key, rank: rank, children: .one(value)))
      case (.list, .array(let list)) where !list.isEmpty,
        (.singleOrList, .array(let list)) where !list.isEmpty:
        parents.append(Parent(key: key, rank: rank, children: .list(list)))
      case (.map, .object(let children)), (.definitions, .object(let children)):
        parents.append(Parent(key: key, rank: rank, children: .named(children, counts: role == .map)))
        if role == .map {
          let others = children.entries.filter { $0.value.objectValue == nil && $0.value.boolValue == nil }
          plain.append((key, .object(JSONObject(others))))
        }
      case (.definitions, _): break
      default: plain.append((key, value))
      }
    }
    if parents.count > 1 { parents.sort { $0.rank < $1.rank } }
    if plain.count > 1 { plain.sort { $0.key < $1.key } }
    return (parents, plain)
  }

  /// A member of a schema that holds subschemas.
  private struct Parent {
    enum Children {
      case one(JSONValue)
      case list([JSONValue])
      case named(JSONObject, counts: Bool)
    }

    var key: String
    var rank: Int
    var children: Children
  }

  /// A schema with any of these has a name of its own: it is no other, even if it says the same.
  private static let names = ["$id", "$anchor", "$dynamicAnchor", "$recursiveAnchor"]

  /// Notes every schema below `value`; returns its place, or that of an equal one.
  @discardableResult
  private mutating func scan(
    _ value: JSONValue, _ path: String, _ outer: Int, depth: Int
  ) throws(GrammarError) -> Int {
    guard places.count < Self.placeLimit else {
      throw .tooLarge(reason: "the schema has more than \(Self.placeLimit) subschemas")
    }
    guard depth < Self.depthLimit else {
      throw .tooLarge(reason: "the schema is nested more than \(Self.depthLimit) deep")
    }
    let place = places.count
    places.append(SchemaPlace(value: value, source: value, path: path, resource: outer))
    guard case .object(let written) = value else {
      var shape = SchemaShape(resource: outer)
      shape.add("", value)
      return first(place, shape)
    }
    let draft = try Self.draft(value, path: path) ?? resources[outer].draft
    let members = draft.today(written)
    places[place].value = .object(members)
    let resource = identify(members, draft, place, outer)
    var shape = SchemaShape(resource: resource)
    let (parents, plain) = Self.sorted(members)
    for parent in parents {
      let key = parent.key
      switch parent.children {
      case .one(let child):
        shape.add(key, "", try scan(child, place, SchemaStep(key), resource, depth))
      case .list(let children):
        for (index, child) in children.enumerated() {
          shape.add(key, "", try scan(child, place, SchemaStep(key, .index(index)), resource, depth))
        }
      case .named(let children, let counts):
        for (name, child) in children.entries where child.objectValue != nil || child.boolValue != nil {
          let child = try scan(child, place, SchemaStep(key, .name(ByteKey(name))), resource, depth)
          if counts { shape.add(key, name, child) }
        }
      }
    }
    guard !Self.names.contains(where: { members[$0] != nil }) else { return place }
    for (key, value) in plain { shape.add(key, value) }
    return first(place, shape)
  }

  /// The same for what is one step below a place.
  private mutating func scan(
    _ value: JSONValue, _ outer: Int, _ step: SchemaStep, _ resource: Int, _ depth: Int
  ) throws(GrammarError) -> Int {
    let place = try scan(value, places[outer].path + step.pointer, resource, depth: depth + 1)
    placeBelow[Below(outer: outer, step: step)] = place
    return place
  }

  /// The first place of what is at a place.
  private mutating func first(_ place: Int, _ shape: SchemaShape) -> Int {
    if let known = placeOfShape[shape] { return known }
    placeOfShape[shape] = place
    return place
  }

  /// The resource of a schema: a new one where it has an identifier.
  private mutating func identify(
    _ members: JSONObject, _ draft: SchemaDraft, _ place: Int, _ outer: Int
  ) -> Int {
    var resource = outer
    let isIgnored = draft.isReferenceAlone && members["$ref"] != nil
    if let id = members["$id"]?.stringValue, !isIgnored {
      if draft.isReferenceAlone, id.utf8.first == 0x23 {
        resources[outer].anchors[ByteKey(String(id.dropFirst()))] = place
      } else {
        let uri = URIText.resolve(id, base: resources[outer].uri)
        if place == 0 {
          resources[0].uri = URIText.withoutFragment(uri)
        } else {
          resource = resources.count
          resources.append(SchemaResource(uri: URIText.withoutFragment(uri), root: place, draft: draft))
        }
      }
    }
    if let anchor = members["$anchor"]?.stringValue { resources[resource].anchors[ByteKey(anchor)] = place }
    if let anchor = members["$dynamicAnchor"]?.stringValue {
      resources[resource].anchors[ByteKey(anchor)] = place
      addDynamicAnchor(ByteKey(anchor), place, resource)
    }
    if draft == .draft2019, members["$recursiveAnchor"] == true, resources[resource].root == place {
      addDynamicAnchor(Self.recursive, place, resource)
    }
    places[place].resource = resource
    return resource
  }

  /// `$recursiveAnchor` is a dynamic anchor without a name, at the root of its resource.
  private static let recursive = ByteKey("")

  private mutating func addDynamicAnchor(_ anchor: ByteKey, _ place: Int, _ resource: Int) {
    resources[resource].dynamicAnchors[anchor] = place
    hasDynamicAnchors = true
  }

  /// The schema one step below a place.
  mutating func child(_ place: Int, _ step: SchemaStep, _ value: JSONValue) throws(GrammarError) -> Int {
    if let known = placeBelow[Below(outer: place, step: step)] { return known }
    return try scan(value, place, step, places[place].resource, -1)
  }

  /// The schema to which a JSON pointer leads from a place, by the steps that are known.
  private func place(_ pointer: String, from start: Int) -> Int? {
    var place = start
    var parts = Self.parts(pointer)[...]
    while let keyword = parts.popFirst() {
      if let next = placeBelow[Below(outer: place, step: SchemaStep(keyword))] {
        place = next
      } else if let name = parts.popFirst() {
        let index = Int(name).flatMap {
          placeBelow[Below(outer: place, step: SchemaStep(keyword, .index($0)))]
        }
        let next = index ?? placeBelow[Below(outer: place, step: SchemaStep(keyword, .name(ByteKey(name))))]
        guard let next else { return nil }
        place = next
      } else {
        return nil
      }
    }
    return place
  }

  /// The schema that a reference names, and whether its name is a dynamic anchor.
  mutating func resolve(
    _ reference: String, at place: Int, keyword: String
  ) throws(GrammarError) -> (place: Int, dynamic: ByteKey?) {
    let path = places[place].path
    let (head, fragment) = URIText.split(reference)
    var resource = places[place].resource
    if !head.isEmpty {
      let uri = URIText.withoutFragment(URIText.resolve(reference, base: resources[resource].uri))
      guard let found = resources.firstIndex(where: { $0.uri.hasSameBytes(as: uri) }) else {
        throw .unsupported(
          keyword: keyword, path: path,
          reason: "'\(reference)' is not in this document, and nothing is fetched")
      }
      resource = found
    }
    let name = URIText.decoded(fragment)
    let root = resources[resource].root
    if name.isEmpty {
      let isRecursive = resources[resource].dynamicAnchors[Self.recursive] != nil
      return (root, isRecursive ? Self.recursive : nil)
    }
    guard name.utf8.first == 0x2F else {
      let key = ByteKey(name)
      guard let found = resources[resource].anchors[key] else {
        throw .malformed(path: path + "/" + keyword, reason: "'\(reference)' names no schema")
      }
      return (found, resources[resource].dynamicAnchors[key] == nil ? nil : key)
    }
    if let known = self.place(name, from: root) { return (known, nil) }
    // No keyword of schemas leads there.
    let step = SchemaStep(String(name.dropFirst()))
    if let known = placeBelow[Below(outer: root, step: step)] { return (known, nil) }
    guard let value = Self.value(at: name, in: places[root].source) else {
      throw .malformed(path: path + "/" + keyword, reason: "'\(reference)' names no schema")
    }
    return (try scan(value, root, step, resource, -1), nil)
  }

  /// The parts of a JSON pointer that begins with a slash.
  private static func parts(_ pointer: String) -> [String] {
    pointer.utf8.dropFirst().split(separator: 0x2F, omittingEmptySubsequences: false).map { part in
      guard part.contains(0x7E) else { return String(Substring(part)) }
      var key: [UInt8] = []
      var isEscaped = false
      for byte in part {
        if isEscaped {
          key.append(byte == 0x30 ? 0x7E : 0x2F)
          isEscaped = false
        } else if byte == 0x7E {
          isEscaped = true
        } else {
          key.append(byte)
        }
      }
      return String(decoding: key, as: UTF8.self)
    }
  }

  private static func value(at pointer: String, in value: JSONValue) -> JSONValue? {
    var at = value
    for name in parts(pointer) {
      if let next = at[name] {
        at = next
      } else if let index = Int(name), let next = at[index] {
        at = next
      } else {
        return nil
      }
    }
    return at
  }
}

/// What a schema says, for comparing: its subschemas by their places, all else as it is written.
private struct SchemaShape: Hashable {
  private var bytes: [UInt8] = []

  init(resource: Int) { append(resource) }

  private mutating func append(_ number: Int) {
    for shift in [0, 8, 16, 24] as [Int] { bytes.append(UInt8(truncatingIfNeeded: number >> shift)) }
  }

  private mutating func append(_ text: String) {
    append(text.utf8.count)
    bytes.append(contentsOf: text.utf8)
  }

  /// A subschema: that of a keyword, the next of its list, or one with a name.
  mutating func add(_ keyword: String, _ name: String, _ place: Int) {
    bytes.append(1)
    append(keyword)
    append(name)
    append(place)
  }

  /// What holds no subschema.
  mutating func add(_ keyword: String, _ value: JSONValue) {
    append(keyword)
    if case .string(let text) = value {
      bytes.append(2)
      append(text)
    } else {
      bytes.append(3)
      bytes += value.bytes
    }
  }

  /// All bytes at once, which an array would hash one by one.
  func hash(into hasher: inout Hasher) {
    unsafe bytes.withUnsafeBytes { unsafe hasher.combine(bytes: $0) }
  }
}

/// As much of RFC 3986 as identifiers in one document need.
enum URIText {
  /// What stands before and after the first '#'.
  static func split(_ text: String) -> (head: String, fragment: String) {
    let bytes = Array(text.utf8)
    guard let mark = bytes.firstIndex(of: 0x23) else { return (text, "") }
    return (
      String(decoding: bytes[..<mark], as: UTF8.self), String(decoding: bytes[(mark + 1)...], as: UTF8.self)
    )
  }

  static func withoutFragment(_ text: String) -> String { split(text).head }

  static func decoded(_ text: String) -> String {
    let bytes = Array(text.utf8)
    var out: [UInt8] = []
    var at = 0
    while at < bytes.count {
      if bytes[at] == 0x25, at + 2 < bytes.count,
        let value = UInt8(String(decoding: bytes[at + 1...at + 2], as: UTF8.self), radix: 16)
      {
        out.append(value)
        at += 3
      } else {
        out.append(bytes[at])
        at += 1
      }
    }
    return String(decoding: out, as: UTF8.self)
  }

  /// Where the scheme ends, if there is one.
  private static func schemeEnd(_ bytes: [UInt8]) -> Int? {
    guard let colon = bytes.firstIndex(of: 0x3A), colon > 0 else { return nil }
    let isScheme = bytes[..<colon].allSatisfy { byte in
      (0x61...0x7A).contains(byte | 0x20) || (0x30...0x39).contains(byte)
        || [0x2B, 0x2D, 0x2E].contains(byte)
    }
    return isScheme ? colon : nil
  }

  static func resolve(_ text: String, base: String) -> String {
    let reference = Array(text.utf8)
    let from = Array(withoutFragment(base).utf8)
    if schemeEnd(reference) != nil || from.isEmpty { return text }
    guard let first = reference.first, first != 0x23 else {
      return String(decoding: from + reference, as: UTF8.self)
    }
    // The authority ends at the first slash after "//".
    var authority = schemeEnd(from).map { $0 + 1 } ?? 0
    if from[authority...].starts(with: [0x2F, 0x2F]) {
      authority = from[(authority + 2)...].firstIndex(of: 0x2F) ?? from.count
    }
    if reference.starts(with: [0x2F, 0x2F]) {
      return String(decoding: from[..<(schemeEnd(from).map { $0 + 1 } ?? 0)] + reference, as: UTF8.self)
    }
    var path = first == 0x2F ? [] : Array(from[authority...])
    if let slash = path.lastIndex(of: 0x2F) {
      path = Array(path[...slash])
    } else {
      path = first == 0x2F ? [] : [0x2F]
    }
    var parts: [ArraySlice<UInt8>] = []
    for part in (path + reference).split(separator: 0x2F, omittingEmptySubsequences: false).dropFirst() {
      if part.elementsEqual(".".utf8) { continue }
      if part.elementsEqual("..".utf8) { _ = parts.popLast() } else { parts.append(part) }
    }
    let joined = parts.reduce(into: [UInt8]()) { $0 += [0x2F] + $1 }
    return String(decoding: from[..<authority] + joined, as: UTF8.self)
  }
}
