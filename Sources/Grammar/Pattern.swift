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
  /// The JSON text of a value that the schema (drafts 7 and 2020-12) allows.
  case schema(JSONValue)
  /// The JSON text of any object.
  case anyObject
  /// Text that the regular expression matches as a whole (ECMA 262).
  case regex(String)
  /// Text that a GBNF grammar derives from its rule `root`.
  case gbnf(String)
  /// Any text of ordinary tokens, also none; the strings in `excluding` do not occur in it.
  case text(excluding: [String])
}
