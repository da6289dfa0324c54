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
  private var placeOfPath: [ByteKey: Int] = [:]
  /// The first place of each schema that says the same: equal schemas are one.
  private var placeOfShape: [[UInt8]: Int] = [:]

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

  private static let single = [
    "additionalProperties", "additionalItems", "items", "contains", "propertyNames", "if", "then", "else",
    "not",
    "unevaluatedItems", "unevaluatedProperties",
  ]
  private static let lists = ["allOf", "anyOf", "oneOf", "prefixItems", "items"]
  private static let maps = [
    "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies",
  ]

  /// How a member of a schema counts when schemas are compared: not at all, or by the places of its subschemas.
  private enum Role {
    case annotation, single, list, map
  }

  private static let roles: [String: Role] = {
    var roles: [String: Role] = [:]
    for key in maps { roles[key] = .map }
    for key in lists { roles[key] = .list }
    for key in single { roles[key] = .single }
    for key in [
      "title", "description", "markdownDescription", "$comment", "default", "examples", "deprecated",
      "readOnly", "writeOnly", "$defs", "definitions",
    ] { roles[key] = .annotation }
    return roles
  }()

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
    placeOfPath[ByteKey(path)] = place
    guard case .object(let written) = value else {
      var shape = SchemaShape(resource: outer)
      shape.add("", value)
      return first(place, shape, path)
    }
    let draft = try Self.draft(value, path: path) ?? resources[outer].draft
    let members = draft.today(written)
    places[place].value = .object(members)
    let resource = identify(members, draft, place, outer)
    var shape = SchemaShape(resource: resource)
    for key in Self.single {
      guard let child = members[key], child.objectValue != nil || child.boolValue != nil else { continue }
      shape.add(key, "", try scan(child, "\(path)/\(key)", resource, depth: depth + 1))
    }
    for key in Self.lists {
      guard let children = members[key]?.arrayValue else { continue }
      for (index, child) in children.enumerated() {
        shape.add(key, "", try scan(child, "\(path)/\(key)/\(index)", resource, depth: depth + 1))
      }
    }
    for key in Self.maps {
      guard let children = members[key]?.objectValue else { continue }
      for (name, child) in children.entries where child.objectValue != nil || child.boolValue != nil {
        let place = try scan(child, "\(path)/\(key)/\(Self.escaped(name))", resource, depth: depth + 1)
        if Self.roles[key] != .annotation { shape.add(key, name, place) }
      }
    }
    guard !Self.names.contains(where: { members[$0] != nil }) else { return place }
    for (key, value) in Self.plainMembers(members) { shape.add(key, value) }
    return first(place, shape, path)
  }

  /// What a schema says beside its subschemas and beside what is for readers, in the order of the keys.
  private static func plainMembers(_ members: JSONObject) -> [(key: String, value: JSONValue)] {
    var plain: [(key: String, value: JSONValue)] = []
    for (key, value) in members.entries {
      switch (roles[key], value) {
      case (.annotation, _), (.single, .object), (.single, .bool): continue
      case (.single, .array(let list)) where key == "items" && !list.isEmpty: continue
      case (.list, .array(let list)) where !list.isEmpty: continue
      case (.map, .object(let children)):
        let others = children.entries.filter { $0.value.objectValue == nil && $0.value.boolValue == nil }
        plain.append((key, .object(JSONObject(others))))
      default: plain.append((key, value))
      }
    }
    if plain.count > 1 { plain.sort { $0.key < $1.key } }
    return plain
  }

  /// The first place of what is at a place.
  private mutating func first(_ place: Int, _ shape: SchemaShape, _ path: String) -> Int {
    let first = placeOfShape[shape.bytes] ?? place
    placeOfShape[shape.bytes] = first
    placeOfPath[ByteKey(path)] = first
    return first
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

  /// A key as a part of a JSON pointer.
  static func escaped(_ key: String) -> String {
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

  /// The schema at `suffix` below a place.
  mutating func child(_ place: Int, _ suffix: String, _ value: JSONValue) throws(GrammarError) -> Int {
    let path = places[place].path + suffix
    if let known = placeOfPath[ByteKey(path)] { return known }
    return try scan(value, path, places[place].resource, depth: 0)
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
      guard let found = resources.firstIndex(where: { $0.uri.utf8.elementsEqual(uri.utf8) }) else {
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
    let full = places[root].path + name
    if let known = placeOfPath[ByteKey(full)] { return (known, nil) }
    guard let value = Self.value(at: name, in: places[root].source) else {
      throw .malformed(path: path + "/" + keyword, reason: "'\(reference)' names no schema")
    }
    return (try scan(value, full, resource, depth: 0), nil)
  }

  private static func value(at pointer: String, in value: JSONValue) -> JSONValue? {
    var at = value
    for part in pointer.utf8.dropFirst().split(separator: 0x2F, omittingEmptySubsequences: false) {
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
      let name = String(decoding: key, as: UTF8.self)
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
private struct SchemaShape {
  private(set) var bytes: [UInt8] = []

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
