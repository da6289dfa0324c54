// A pattern as JSON: an object of one member, called by the case, and for some what belongs to it.

package import JSON

extension Pattern {
  /// `init(json:)` reads it again.
  package var json: JSONValue {
    switch self {
    case .literal(let text): ["literal": .string(text)]
    case .token(let id): ["token": .int(Int(id))]
    case .sequence(let parts): ["sequence": .array(parts.map(\.json))]
    case .choice(let parts): ["choice": .array(parts.map(\.json))]
    case .repeated(let inner, let min, let max):
      ["repeated": inner.json, "min": .int(min), "max": max.map(JSONValue.int) ?? nil]
    case .schema(let schema): ["schema": schema]
    case .declared(let inner): ["declared": inner.json]
    case .anyObject: ["any_object": true]
    case .regex(let text): ["regex": .string(text)]
    case .gbnf(let text): ["gbnf": .string(text)]
    case .lark(let text): ["lark": .string(text)]
    case .quoted(let inner): ["quoted": inner.json]
    case .text(let excluded): ["text": .array(excluded.map(JSONValue.string))]
    case .quote(let sources): ["quote": .array(sources.map(JSONValue.string))]
    case .string(let schema, let unlike): ["string": schema, "unlike": unlike.map(JSONValue.string) ?? nil]
    case .without(let excluded, let inner):
      ["without": .array(excluded.map(JSONValue.string)), "in": inner.json]
    }
  }

  /// Nil for what `json` does not write.
  package init?(json: JSONValue) {
    guard let (name, value) = json.objectValue?.entries.first else { return nil }
    func inner(_ value: JSONValue?) -> Pattern? { value.flatMap { Pattern(json: $0) } }
    func parts() -> [Pattern]? {
      guard let parts = value.arrayValue?.map({ Pattern(json: $0) }), !parts.contains(nil) else { return nil }
      return parts.compactMap { $0 }
    }
    func texts() -> [String]? {
      guard let texts = value.arrayValue?.map(\.stringValue), !texts.contains(nil) else { return nil }
      return texts.compactMap { $0 }
    }
    let read: Pattern? =
      switch name {
      case "literal": value.stringValue.map(Pattern.literal)
      case "token": value.intValue.flatMap { Int32(exactly: $0) }.flatMap { $0 < 0 ? nil : .token($0) }
      case "sequence": parts().map(Pattern.sequence)
      case "choice": parts().map(Pattern.choice)
      case "repeated":
        inner(value).flatMap { pattern in
          guard let min = json["min"]?.intValue, min >= 0 else { return nil }
          let max = json["max"]?.intValue
          return max.map { $0 < min } ?? false ? nil : .repeated(pattern, min: min, max: max)
        }
      case "schema": .schema(value)
      case "declared": inner(value).map(Pattern.declared)
      case "any_object": .anyObject
      case "regex": value.stringValue.map(Pattern.regex)
      case "gbnf": value.stringValue.map(Pattern.gbnf)
      case "lark": value.stringValue.map(Pattern.lark)
      case "quoted": inner(value).map(Pattern.quoted)
      case "text": texts().map { .text(excluding: $0) }
      case "quote": texts().map { .quote(of: $0) }
      case "string": .string(value, unlike: json["unlike"]?.stringValue)
      case "without": texts().flatMap { texts in inner(json["in"]).map { .without(texts, $0) } }
      default: nil
      }
    guard let read else { return nil }
    self = read
  }
}
