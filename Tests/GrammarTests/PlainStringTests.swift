// The strings of a schema without quotes, and patterns without some texts.

import JSON
import Testing

@testable import Grammar

@Suite struct PlainStringTests {
  @Test(
    arguments: [
      (["type": "string"], nil, ["", "a\"b\\\n", "é日😀"], []),
      (["type": "string", "minLength": 2, "maxLength": 3], nil, ["ab", "\"\n", "é日😀"], ["a", "abcd", "日"]),
      (
        ["type": "string", "pattern": "^\"\\\\[\\n\\t]$"], nil, ["\"\\\n", "\"\\\t"], ["\\\"\\\\\\n", "\"\\"]
      ),
      (["enum": ["a\"b", "\u{1}", 1, nil]], nil, ["a\"b", "\u{1}"], ["1", "null", "a\\\"b", "\\u0001"]),
      (["anyOf": [["type": "integer"], ["const": "x"]]], nil, ["x"], ["1", "\"x\""]),
      (true, "null|[0-9]+", ["", "nul", "null ", "1a"], ["null", "12"]),
      (["not": ["pattern": "b"]], "a", ["", "aa", "c"], ["a", "b", "abc"]),
    ] as [(JSONValue, String?, [String], [String])])
  func `a string is written as it is`(schema: JSONValue, unlike: String?, good: [String], bad: [String])
    throws
  {
    let grammar = try CompiledGrammar(.sequence([.string(schema, unlike: unlike), .literal("<")]))
    for text in good { #expect(grammar.allows(text + "<"), "\(text)") }
    for text in bad { #expect(!grammar.allows(text + "<"), "\(text)") }
  }

  @Test func `a bound that makes too large an automaton is lowered, as in JSON`() throws {
    let grammar = try CompiledGrammar(.string(["type": "string", "maxLength": 1_000_000], unlike: nil))
    #expect(grammar.allows(String(repeating: "é", count: 900)))
    #expect(throws: GrammarError.self) {
      try CompiledGrammar(.string(["type": "string", "minLength": 1_000_000], unlike: nil))
    }
    #expect(throws: GrammarError.self) { try CompiledGrammar(.string(["type": "integer"], unlike: nil)) }
  }

  @Test func `strings in JSON do without texts`() throws {
    let schema: JSONValue = [
      "type": "object",
      "properties": ["</p>": [:], "a": ["type": "array", "items": ["type": "string", "maxLength": 9]]],
      "additionalProperties": ["enum": ["x</p>", "y", 7]],
    ]
    let grammar = try CompiledGrammar(
      .sequence([.without(["</p>", "<q>"], .schema(schema)), .literal("</p>")]))
    for text in [#"{"a": ["<p>", "</p"]}"#, #"{"b":"y","<":7}"#, #"{"</\u0070>": 7}"#, "{}"] {
      #expect(grammar.allows(text + "</p>") == !text.contains("u0070"), "\(text)")
    }
    for text in [
      #"{"a": ["</p>"]}"#, #"{"a": ["x<q>"]}"#, #"{"b":"x</p>"}"#, #"{"</p>": 7}"#, #"{"z</p>": 7}"#,
    ] {
      #expect(!grammar.allows(text + "</p>"), "\(text)")
    }
    // Outside, they may stand again.
    let both = try CompiledGrammar(
      .sequence([.without(["a"], .regex("[ab]*")), .literal("a"), .regex("[ab]*")]))
    #expect(both.allows("bba") && both.allows("bbaab") && !both.allows("bb"))
    #expect(
      throws: GrammarError.unsatisfiable(
        path: "", reason: "\"x</p>\" cannot be written where it has to stand: it would be read as an end")
    ) { try CompiledGrammar(.without(["</p>"], .literal("x</p>"))) }
  }

  @Test func `items that differ and keys that are counted do without them, too`() throws {
    let items: JSONValue = [
      "type": "array", "uniqueItems": true, "items": ["enum": ["a", "b", "<c"]], "minItems": 2,
    ]
    let grammar = try CompiledGrammar(.without(["<"], .schema(items)))
    #expect(grammar.allows(#"["b","a"]"#) && !grammar.allows(#"["b","<c"]"#))
    var three = items.objectValue
    three?["minItems"] = 3
    let pattern = Pattern.without(["<"], .schema(.object(try #require(three))))
    #expect(throws: GrammarError.self) { try CompiledGrammar(pattern) }
    let long: JSONValue = ["type": "string", "pattern": "^[a-c<]*$", "minLength": 200, "maxLength": 300]
    let counted = try CompiledGrammar(.without(["<<"], .schema(long)))
    let text = String(repeating: "<a", count: 100)
    #expect(counted.allows("\"\(text)\"") && !counted.allows("\"\(text)<<\"") && !counted.allows("\"abc\""))
  }

  @Test func `rules that put a text together do without its beginnings`() throws {
    let rules = "start: \"(\" start \")\" | SIGN start | \"x\"\nSIGN: \"<\" | \"/\" | \">\""
    let grammar = try CompiledGrammar(.without(["</>"], .lark(rules)))
    #expect(grammar.allows("/>x") && grammar.allows("(/x)"))
    #expect(!grammar.allows("</>x") && !grammar.allows("(<x)"))
    #expect(try CompiledGrammar(.without(["</>"], .quoted(.lark(rules)))).allows("\"(/x)\""))
  }
}
