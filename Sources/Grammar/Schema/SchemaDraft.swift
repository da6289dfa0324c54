// The drafts of JSON Schema: which one a schema names, and the words of old drafts in today's.

package import JSON

/// A published draft, in the order of publication.
enum SchemaDraft: Int, Comparable {
  case draft3 = 3
  case draft4, draft6, draft7, draft2019, draft2020

  /// What holds without `$schema`, and where it names no draft that is known.
  static let latest = draft2020

  static func < (a: SchemaDraft, b: SchemaDraft) -> Bool { a.rawValue < b.rawValue }

  /// The draft whose metaschema an address names; nil for other addresses. Schemas in the wild spell them with `http` or
  /// `https`, with an empty fragment or none, and with the name of one of the draft's other metaschemas.
  init?(metaschema address: String) {
    let parts = address.utf8.split(separator: 0x2F, omittingEmptySubsequences: false).map {
      String(Substring($0))
    }
    for (outer, name) in zip(parts, parts.dropFirst()) {
      switch (outer, name) {
      case (_, "draft-03"): self = .draft3
      case (_, "draft-04"), (_, "draft-05"): self = .draft4
      case (_, "draft-06"): self = .draft6
      case (_, "draft-07"): self = .draft7
      case ("draft", "2019-09"): self = .draft2019
      case ("draft", "2020-12"): self = .draft2020
      // The address without a number meant the newest draft of its day; those who write it use the words of this one.
      case ("json-schema.org", let name) where name.hasPrefix("schema"): self = .draft7
      default: continue
      }
      return
    }
    return nil
  }

  /// Whether nothing beside `$ref` counts.
  var isReferenceAlone: Bool { self <= .draft7 }

  /// Whether the draft has a keyword that came late, or went again.
  func has(_ keyword: String) -> Bool {
    switch keyword {
    case "unevaluatedItems", "unevaluatedProperties", "dependentSchemas", "dependentRequired":
      self >= .draft2019
    case "$dynamicRef", "prefixItems": self >= .draft2020
    case "$recursiveRef": self == .draft2019
    default: true
    }
  }

  // MARK: Today's words

  /// A schema object in the words of the latest draft; `$ref` and what other drafts leave alone stay as they are.
  ///
  /// Boolean `exclusiveMinimum` and `exclusiveMaximum` are read in every draft: they have no other meaning.
  func today(_ members: JSONObject) -> JSONObject {
    var out = members
    for (flag, bound) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
      guard let isExclusive = out[flag]?.boolValue else { continue }
      out[flag] = isExclusive ? out[bound] : nil
    }
    guard self <= .draft4 else { return out }
    if let id = out["id"], id.stringValue != nil, out["$id"] == nil {
      out["id"] = nil
      out["$id"] = id
    }
    return self == .draft3 ? Self.fromDraft3(out) : out
  }

  private static func fromDraft3(_ members: JSONObject) -> JSONObject {
    var out = members
    if let step = out["divisibleBy"] {
      out["divisibleBy"] = nil
      out["multipleOf"] = step
    }
    if let base = out["extends"] {
      out["extends"] = nil
      out["allOf"] = base.arrayValue == nil ? .array([base]) : base
    }
    if let types = out["disallow"] {
      out["disallow"] = nil
      out["not"] = .object(oneOfTypes(types))
    }
    if let types = out["type"] {
      out["type"] = nil
      for (key, value) in oneOfTypes(types).entries { out[key] = value }
    }
    if let properties = out["properties"]?.objectValue {
      let required = properties.entries.filter { $0.value["required"] == true }
      if !required.isEmpty { out["required"] = .array(required.map { .string($0.key) }) }
    }
    // In a property it speaks of its parent, which has read it.
    if out["required"]?.boolValue != nil { out["required"] = nil }
    if let entries = out["dependencies"]?.objectValue?.entries {
      out["dependencies"] = .object(
        JSONObject(entries.map { ($0.key, $0.value.stringValue == nil ? $0.value : .array([$0.value])) }))
    }
    return out
  }

  /// Draft 3's list of types, of which some may be schemas and one may be `any`.
  private static func oneOfTypes(_ types: JSONValue) -> JSONObject {
    let all = types.arrayValue ?? [types]
    if all.contains(where: { $0.stringValue == "any" }) { return JSONObject([]) }
    let names = all.filter { $0.stringValue != nil }
    let schemas = all.filter { $0.objectValue != nil }
    if schemas.isEmpty { return JSONObject([("type", types)]) }
    let named: [JSONValue] = names.isEmpty ? [] : [.object(JSONObject([("type", .array(names))]))]
    return JSONObject([("anyOf", .array(named + schemas))])
  }
}

/// What somebody may want to know of a schema that is enforced.
package enum SchemaNotes {
  /// What `$schema` says where that names no draft that is known: the schema is read as one of the newest.
  package static func unknownDraft(of schema: JSONValue) -> String? {
    guard let address = schema["$schema"]?.stringValue, SchemaDraft(metaschema: address) == nil else {
      return nil
    }
    return address
  }
}
