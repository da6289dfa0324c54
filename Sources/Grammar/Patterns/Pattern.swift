// What a constrained answer may look like, as a tree: literal text, special tokens, JSON Schemas, expressions.

package import JSON

/// The language of a constrained answer. Text is compared as UTF-8 bytes.
package indirect enum Pattern: Sendable, Equatable {
  /// Exactly this text.
  case literal(String)
  /// Exactly this token, whatever its text: markers such as `<tool_call>` that only the model's own vocabulary has.
  case token(Int32)
  /// One after the other; an empty sequence is the empty text.
  case sequence([Pattern])
  /// One of them; an empty choice is impossible.
  case choice([Pattern])
  /// From `min` to `max` times; nil has no upper bound.
  case repeated(Pattern, min: Int, max: Int?)
  /// The JSON text of a value that the schema (drafts 3 to 2020-12) allows.
  case schema(JSONValue)
  /// The same with a narrower reading of the schemas inside: where `properties` is given and nothing is said of other
  /// members, objects have no others.
  case declared(Pattern)
  /// The JSON text of any object.
  case anyObject
  /// Text that the regular expression matches as a whole (ECMA 262).
  case regex(String)
  /// Text that a GBNF grammar derives from its rule `root`.
  case gbnf(String)
  /// Text that a Lark grammar derives from its rule `start`.
  case lark(String)
  /// A JSON string whose text the inner pattern derives, each character spelled in its shortest way.
  case quoted(Pattern)
  /// Any text of ordinary tokens, also none; the strings in `excluding` do not occur in it.
  case text(excluding: [String])
  /// Text that stands in one of these, whole characters and at least one.
  case quote(of: [String])
  /// The text of a string that the schema allows, without quotes and escapes. One that the regular expression `unlike`
  /// matches as a whole is left out.
  case string(JSONValue, unlike: String?)
  /// The same without texts in which one of these strings occurs. Of JSON they have to be such as only its strings can hold;
  /// where a grammar puts texts together, those that end like the beginning of one are left out, too.
  case without([String], Pattern)
}

extension Pattern {
  /// A grammar in GBNF or in Lark's notation, told apart by the mark after the names of rules.
  package static func grammar(_ text: String) -> Pattern {
    text.utf8.firstRange(of: "::=".utf8) == nil ? .lark(text) : .gbnf(text)
  }

  /// About how much memory it takes.
  var byteCount: Int {
    switch self {
    case .literal(let text), .regex(let text), .gbnf(let text), .lark(let text): 64 + text.utf8.count
    case .token, .anyObject: 64
    case .sequence(let parts), .choice(let parts): parts.reduce(64) { $0 + $1.byteCount }
    case .repeated(let inner, _, _), .declared(let inner), .quoted(let inner): 64 + inner.byteCount
    case .schema(let schema): 64 + Self.byteCount(schema)
    case .text(let texts), .quote(let texts): Self.byteCount(texts)
    case .string(let schema, let unlike): 64 + Self.byteCount(schema) + (unlike?.utf8.count ?? 0)
    case .without(let excluded, let inner): Self.byteCount(excluded) + inner.byteCount
    }
  }

  private static func byteCount(_ texts: [String]) -> Int { texts.reduce(64) { $0 + 32 + $1.utf8.count } }

  private static func byteCount(_ value: JSONValue) -> Int {
    switch value {
    case .null, .bool, .int, .double: 32
    case .bigInteger(let text), .string(let text): 32 + text.utf8.count
    case .array(let items): items.reduce(64) { $0 + byteCount($1) }
    case .object(let members):
      members.entries.reduce(64) { $0 + 64 + $1.key.utf8.count + byteCount($1.value) }
    }
  }

  /// Equal to the byte: Swift's `==` also equates texts that Unicode calls equivalent.
  func isSame(as other: Pattern) -> Bool {
    switch (self, other) {
    case (.literal(let a), .literal(let b)), (.regex(let a), .regex(let b)), (.gbnf(let a), .gbnf(let b)),
      (.lark(let a), .lark(let b)):
      a.hasSameBytes(as: b)
    case (.token(let a), .token(let b)): a == b
    case (.sequence(let a), .sequence(let b)), (.choice(let a), .choice(let b)):
      a.count == b.count && zip(a, b).allSatisfy { $0.isSame(as: $1) }
    case (.repeated(let a, let low, let high), .repeated(let b, let otherLow, let otherHigh)):
      low == otherLow && high == otherHigh && a.isSame(as: b)
    case (.declared(let a), .declared(let b)), (.quoted(let a), .quoted(let b)): a.isSame(as: b)
    case (.schema(let a), .schema(let b)): a == b
    case (.anyObject, .anyObject): true
    case (.text(let a), .text(let b)), (.quote(let a), .quote(let b)): Self.areSame(a, b)
    case (.string(let a, let unlike), .string(let b, let other)):
      a == b && Self.areSame([unlike].compactMap { $0 }, [other].compactMap { $0 })
    case (.without(let a, let inner), .without(let b, let other)):
      Self.areSame(a, b) && inner.isSame(as: other)
    default: false
    }
  }

  private static func areSame(_ a: [String], _ b: [String]) -> Bool {
    a.count == b.count && zip(a, b).allSatisfy { $0.hasSameBytes(as: $1) }
  }
}
