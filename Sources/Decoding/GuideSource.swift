// What a guide is made from, as JSON, so that it can be made again.

package import Grammar
package import JSON
package import Tokenizers

extension Guide {
  /// The pattern of the answer, the reasoning before it, and the text that it goes on with; each where there is one.
  package var source: JSONObject {
    var source = JSONObject()
    source["pattern"] = grammar?.pattern.json
    source["reasoning"] = reasoning?.source
    if !continued.isEmpty { source["continued"] = .array(continued.map { .int(Int($0)) }) }
    return source
  }

  /// The guide of a source; nil where it names neither a pattern nor reasoning, so that any text will do.
  ///
  /// - Throws: `malformed` for what `source` does not say, and what the pattern is refused with.
  package static func make(
    of source: JSONObject, tokenizer: Tokenizer, grammars: GrammarCache
  ) throws(GrammarError) -> Guide? {
    var grammar: CompiledGrammar?
    if let json = source["pattern"] {
      guard let pattern = Pattern(json: json) else {
        throw .malformed(path: "pattern", reason: "it is no pattern")
      }
      grammar = try grammars.grammar(for: pattern)
    }
    var reasoning: Reasoning?
    if let json = source["reasoning"] {
      guard let read = Reasoning(json, tokenizer) else {
        throw .malformed(path: "reasoning", reason: "it is no reasoning")
      }
      reasoning = read
    }
    guard grammar != nil || reasoning != nil else { return nil }
    var guide = Guide(reasoning: reasoning, grammar: grammar)
    let continued = source["continued"]?.arrayValue?.compactMap { $0.intValue.flatMap { Int32(exactly: $0) } }
    guard guide.accept(prefix: continued ?? []) else {
      throw .malformed(path: "continued", reason: "the text to continue does not begin an allowed answer")
    }
    return guide
  }
}

extension Guide.Reasoning {
  fileprivate var source: JSONValue {
    [
      "open": .string(texts.open), "close": .string(texts.close), "lead": .string(texts.lead),
      "separator": .string(texts.separator), "budget": budget.map(JSONValue.int) ?? nil,
      "inside": .bool(startsInside),
    ]
  }

  fileprivate init?(_ source: JSONValue, _ tokenizer: Tokenizer) {
    guard let open = source["open"]?.stringValue, let close = source["close"]?.stringValue,
      let lead = source["lead"]?.stringValue, let separator = source["separator"]?.stringValue,
      let inside = source["inside"]?.boolValue, !open.utf8.isEmpty, !close.utf8.isEmpty
    else { return nil }
    self.init(
      tokenizer: tokenizer, open: open, close: close, lead: lead, separator: separator,
      budget: source["budget"]?.intValue, startsInside: inside)
  }
}
