// JSON Schema keywords: texts that are let through, and texts that are not.

import JSON
import Testing

@testable import Grammar

/// A schema with texts that it lets through and texts that it does not.
struct SchemaCase: Sendable, CustomTestStringConvertible {
  var schema: String
  var allowed: [String]
  var refused: [String]

  init(_ schema: String, _ allowed: [String], not refused: [String]) {
    self.schema = schema
    self.allowed = allowed
    self.refused = refused
  }

  var testDescription: String { schema }
}

@Suite struct SchemaTests {
  static let cases: [SchemaCase] = [
    SchemaCase(
      "true", ["1", "null", "[]", "{}", "[1, \"a\", {\"b\": null}]", "-0.5e7"],
      not: ["", "01", "nul", "[1,]"]),
    SchemaCase(
      #"{"type": "string"}"#, [#""""#, #""a\nb""#, #""é""#, #""\ud83d\ude00""#],
      not: ["\"a\nb\"", #""\ud83d""#, "a"]),
    SchemaCase(
      #"{"type": "integer"}"#, ["0", "-7", "1234567890123456789012"], not: ["1.0", "01", "1e3", "+1"]),
    SchemaCase(#"{"type": "number"}"#, ["0", "-7.25", "1e3", "2.5E-10"], not: ["1.", ".5", "1e999"]),
    SchemaCase(#"{"type": ["null", "boolean"]}"#, ["null", "true", "false"], not: ["0", "nulltrue"]),
    SchemaCase(
      #"{"enum": ["a", 1, null, [1], {"x": 2}]}"#, ["\"a\"", "1", "null", "[1]", "{\"x\": 2}"],
      not: ["\"b\"", "2", "[2]", "{}"]),
    SchemaCase(#"{"const": 1.5}"#, ["1.5"], not: ["1", "1.50", "15"]),
    SchemaCase(
      #"{"type": "integer", "minimum": -3, "maximum": 120}"#, ["-3", "-1", "0", "9", "99", "120"],
      not: ["-4", "-10", "121", "130", "1000"]),
    SchemaCase(
      #"{"exclusiveMinimum": 0, "exclusiveMaximum": 1.5, "type": "number"}"#, ["0.001", "1", "1.49999"],
      not: ["0", "1.5", "1.6", "-1", "2"]),
    SchemaCase(
      #"{"type": "integer", "multipleOf": 7}"#, ["0", "7", "-14", "700", "49"], not: ["1", "8", "-15", "701"]),
    // The divisors together have a state for each of 74,074 remainders, and more; the range leaves few of them.
    SchemaCase(
      #"{"type":"integer","multipleOf":13.5,"not":{"anyOf":[{"multipleOf":2},{"multipleOf":13},{"multipleOf":5},{"multipleOf":7},{"multipleOf":11},{"multipleOf":37}]},"exclusiveMinimum":-1000,"exclusiveMaximum":-100}"#,
      ["-513", "-837", "-621"], not: ["-135", "-189", "-999", "-27", "-1053", "513"]),
    SchemaCase(
      #"{"type": "number", "multipleOf": 0.25}"#, ["0", "1.25", "-2.5", "3.750"], not: ["0.1", "1.26"]),
    SchemaCase(
      #"{"type": "string", "minLength": 2, "maxLength": 3}"#, [#""ab""#, #""😀é\n""#, #""\u0041bc""#],
      not: [#""a""#, #""abcd""#, #""""#]),
    SchemaCase(
      #"{"type": "string", "pattern": "^a+b?$"}"#, [#""a""#, #""aab""#], not: [#""b""#, #""aabb""#, #""""#]),
    SchemaCase(
      #"{"type": "string", "pattern": "b", "maxLength": 3}"#, [#""b""#, #""abc""#, #""\"b""#],
      not: [#""a""#, #""abcd""#]),
    // So many characters are counted; others are made deterministic one by one.
    SchemaCase(
      #"{"type": "string", "pattern": "^[a\\n😀\\u2028]{2,9}$"}"#,
      [#""aa""#, #""a\n😀\na😀a\na""#, "\"a\u{2028}\""],
      not: [#""a""#, #""a\n😀\na😀a\naa""#, #""ab""#, #""aA""#]),
    SchemaCase(
      #"{"type": "string", "pattern": "^[a-c]{8,}$"}"#, [#""abcabcab""#, #""abcabcabcabc""#],
      not: [#""abcabca""#, #""abcabcabd""#, #""""#]),
    SchemaCase(
      #"{"type": "object", "patternProperties": {"^.{1,12}$": {"type": "integer"}}, "additionalProperties": false}"#,
      [#"{"a": 1, "é\t2345678901": 2}"#], not: [#"{"": 1}"#, #"{"1234567890123": 1}"#, #"{"a": "b"}"#]),
    SchemaCase(
      #"{"type": "string", "format": "date"}"#, [#""2024-02-29""#, #""0001-01-01""#],
      not: [#""2023-02-29""#, #""2024-13-01""#, #""0000-01-01""#, #""0000-02-29""#]),
    // As Python's fromisoformat, Go's RFC3339 and JavaScript's Date read it.
    SchemaCase(
      #"{"type": "string", "format": "date-time"}"#,
      [
        #""2024-02-29T23:59:59Z""#, #""0001-01-01T00:00:00.123456789+23:59""#,
        #""9999-12-31T00:00:00.5-00:30""#,
      ],
      not: [
        #""2024-02-29t23:59:59Z""#, #""2024-02-29T23:59:59z""#, #""2024-02-29 23:59:59Z""#,
        #""0000-12-31T00:00:00Z""#, #""2024-02-29T23:59:59.1234567890Z""#, #""2024-02-29T23:59:60Z""#,
        #""2024-02-29T24:00:00Z""#, #""2024-02-29T23:59:59""#,
      ]),
    SchemaCase(
      #"{"type": "string", "format": "time"}"#, [#""00:00:00.000000001Z""#, #""23:59:59+01:00""#],
      not: [#""00:00:00z""#, #""00:00:00.0000000001Z""#]),
    SchemaCase(
      #"{"type": "object", "properties": {"a": {"type": "integer"}, "b": {}}, "required": ["a"], "additionalProperties": false}"#,
      [#"{"a":1}"#, #"{"a": 1, "b": [2]}"#, #"{"b": null, "a": 1}"#, "{\n  \"a\": 1\n}"],
      not: ["{}", #"{"a": 1, "a": 2}"#, #"{"a": 1, "c": 2}"#, #"{"b": 1}"#, #"{"a": 1,}"#]),
    SchemaCase(
      #"{"type": "object", "properties": {"a": {"type": "integer"}}}"#,
      ["{}", #"{"b": "x", "a": 1, "ab": {}}"#], not: [#"{"a": "x"}"#, #"{"\u0061": "x"}"#]),
    SchemaCase(
      #"{"type": "object", "patternProperties": {"^x": {"type": "integer"}, "y$": {"maximum": 5}}, "additionalProperties": {"type": "null"}}"#,
      [#"{"x": 7}"#, #"{"xy": 5, "z": null, "y": "s"}"#], not: [#"{"xy": 6}"#, #"{"z": 1}"#, #"{"x": null}"#]),
    SchemaCase(
      #"{"type": "object", "propertyNames": {"pattern": "^[a-c]$"}, "maxProperties": 2}"#,
      ["{}", #"{"a": 1, "b": 2}"#], not: [#"{"d": 1}"#, #"{"a": 1, "b": 2, "c": 3}"#]),
    SchemaCase(#"{"type": "object", "minProperties": 1}"#, [#"{"a": 1}"#], not: ["{}"]),
    SchemaCase(
      #"{"type": "object", "dependentRequired": {"a": ["b"]}, "additionalProperties": false, "properties": {"a": {}, "b": {}}}"#,
      ["{}", #"{"b": 1}"#, #"{"a": 1, "b": 2}"#], not: [#"{"a": 1}"#]),
    SchemaCase(
      #"{"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3}"#,
      ["[1]", "[1, 2,3]", "[\n  1\n]"], not: ["[]", "[1,2,3,4]", "[\"a\"]", "[1,]"]),
    SchemaCase(
      #"{"type": "array", "prefixItems": [{"type": "string"}, {"type": "null"}], "items": false}"#,
      ["[]", "[\"a\"]", "[\"a\", null]"], not: ["[1]", "[\"a\", null, 1]"]),
    SchemaCase(
      #"{"type":"array","items":{"type":"integer"},"allOf":[{"contains":{"const":1},"maxContains":2},{"contains":{"minimum":1},"minContains":2,"maxContains":3}]}"#,
      ["[1,2]", "[1,1,5]", "[1,0,2]", "[0,0,1,0,1,0,7]"],
      not: ["[1]", "[2,2]", "[1,1,1]", "[1,2,3,4]", "[1,0]", "[]"]),
    SchemaCase(
      #"{"type":"array","items":{"enum":[1,2,3]},"allOf":[{"contains":{"const":1}},{"contains":{"const":2}}],"maxItems":2}"#,
      ["[1,2]", "[2,1]"], not: ["[1]", "[1,1]", "[1,3]", "[3,1]", "[1,2,3]"]),
    SchemaCase(
      #"{"type":"array","minItems":3,"allOf":[{"not":{"items":{"type":"string"}}},{"not":{"contains":{"const":1}}},{"contains":{"type":"null"},"maxContains":1}]}"#,
      ["[null,2,3]", #"["a",null,"b","c"]"#], not: ["[null,2]", "[null,null,3]", "[null,2,1]", "[2,3,4]"]),
    SchemaCase(
      #"{"type": "array", "contains": {"const": 5}, "maxItems": 2}"#, ["[5]", "[1, 5]", "[5, 5]"],
      not: ["[]", "[1]", "[1, 2]"]),
    SchemaCase(
      #"{"type": "array", "items": {"type": "integer"}, "contains": {"minimum": 10}, "minContains": 2, "maxContains": 3}"#,
      ["[10, 11]", "[1, 10, 2, 30, 40]"], not: ["[10]", "[10, 10, 10, 10]"]),
    SchemaCase(
      #"{"type": "array", "items": {"enum": ["a", "b", "c"]}, "uniqueItems": true}"#,
      ["[]", #"["c", "a", "b"]"#], not: [#"["a", "a"]"#, #"["a", "b", "a"]"#, #"["a", "b", "c", "#]),
    SchemaCase(
      #"{"type": "array", "items": {"type": "string"}, "uniqueItems": true}"#, [#"["a", "ab", ""]"#],
      not: [#"["a", "b", "a"]"#, #"["", ""]"#]),
    // Objects differ in a member that they must have.
    SchemaCase(
      #"{"type": "array", "items": {"type": "object", "properties": {"n": {"type": "string"}, "id": {"type": "integer"}}, "required": ["id"]}, "uniqueItems": true}"#,
      ["[]", #"[{"id": 1}, {"n": "x", "id": 12}, {"id": 2, "n": "x"}]"#],
      not: [#"[{"id": 1}, {"id": 1}]"#, #"[{"n": "x"}]"#, #"[{"id": 1}, {"n": "y", "id": 1, "m": 2}]"#]),
    SchemaCase(
      #"{"type": "array", "items": {"type": ["object", "integer"], "properties": {"k": {"enum": ["a", "b"]}}, "additionalProperties": false}, "uniqueItems": true, "minItems": 2}"#,
      [#"[{"k": "a"}, 1, {"k": "b"}]"#, "[1, 2]", #"[{"k": "b"}, {"k": "a"}]"#],
      not: [#"[{"k": "a"}]"#, #"[{"k": "a"}, 1, {"k": "a"}]"#, #"[{"k": "a"}, {"k": "b"}, {"#, "[1, 1]"]),
    SchemaCase(
      #"{"type": "array", "uniqueItems": true}"#, [#"[1, "a", null, true, "b"]"#],
      not: ["[1, 1]", #"["a", "a"]"#]),
    // Items that nothing tells apart: one is like no other.
    SchemaCase(
      #"{"type": "array", "items": {"type": "array", "items": {"type": "integer"}}, "uniqueItems": true}"#,
      ["[]", "[[1, 2]]"], not: ["[[1], [2]]", "[1]"]),
    SchemaCase(
      #"{"anyOf": [{"type": "null"}, {"type": "array", "minItems": 1, "uniqueItems": true, "allOf": [{"items": {"type": "string"}}, {"items": {"type": "integer"}}]}]}"#,
      ["null"], not: ["[]", "[1]"]),
    SchemaCase(
      #"{"type": "object", "patternProperties": {"^([a-c]|\\\")$": {"type": "integer"}}, "additionalProperties": false, "minProperties": 3}"#,
      [#"{"a": 1, "\"": 2, "c": 3}"#, #"{"c": 1, "b": 2, "\"": 3, "a": 4}"#],
      not: [#"{"a": 1, "b": 2}"#, #"{"a": 1, "b": 2, "b": 3}"#, #"{"a": 1, "b": 2, "d": 3}"#]),
    SchemaCase(
      #"{"oneOf": [{"enum": ["", "a"]}, {"type": "integer"}, {"enum": ["", "a"], "title": "again"}, {"type": "string"}]}"#,
      ["7", #""b""#], not: [#""""#, #""a""#]),
    SchemaCase(
      #"{"type": "object", "properties": {"a": {}}, "minProperties": 3, "maxProperties": 4}"#,
      [#"{"a": 1, "b": 2, "c": 3}"#, #"{"x": 1, "y": 2, "z": 3, "a": 4}"#],
      not: [#"{"a": 1, "b": 2}"#, #"{"b": 1, "b": 2, "c": 3}"#, #"{"b": 1, "c": 2, "d": 3, "e": 4, "f": 5}"#]),
    SchemaCase(
      #"{"type": "object", "minProperties": 3, "additionalProperties": {"type": "integer"}}"#,
      [#"{"a": 1, "ab": 2, "b": 3, "c": 4}"#], not: [#"{"a": 1, "b": 2}"#, #"{"a": 1, "a": 2, "b": 3}"#]),
    SchemaCase(
      #"{"type": "object", "anyOf": [{"required": ["a", "b", "c"]}, {"required": ["d"]}, {"minProperties": 3}]}"#,
      [
        #"{"x": 1, "y": 2, "z": 3}"#, #"{"d": 1}"#, #"{"a": 1, "b": 2, "c": 3}"#,
        #"{"a": 1, "x": 2, "y": 3}"#,
      ],
      not: [#"{"x": 1, "y": 2}"#, #"{"a": 1, "b": 2}"#]),
    // Expressions that ask for the same are one; others split the keys.
    SchemaCase(
      #"{"type": "object", "patternProperties": {\#((0..<12).map { "\"^k\($0)\": {\"const\": \($0 % 3)}" }.joined(separator: ", "))}, "additionalProperties": false}"#,
      [#"{"k5": 2, "k4x": 1, "k0": 0}"#], not: [#"{"k5": 1}"#, #"{"x": 0}"#, #"{"k11": 1}"#]),
    SchemaCase(
      #"{"anyOf": [{"type": "object", "properties": {"t": {"const": 1}}, "required": ["t"]}, {"type": "string"}]}"#,
      [#"{"t": 1}"#, "\"t\""], not: ["{}", #"{"t": 2}"#, "1"]),
    SchemaCase(
      #"{"oneOf": [{"type": "integer"}, {"type": "number", "minimum": 2}]}"#, ["1", "2.5"],
      not: ["2", "3", "1.5"]),
    SchemaCase(
      #"{"allOf": [{"type": "object", "properties": {"a": {"type": "integer"}}}, {"properties": {"a": {"minimum": 5}}, "required": ["a"]}]}"#,
      [#"{"a": 5}"#], not: ["{}", #"{"a": 4}"#, #"{"a": 5.5}"#]),
    SchemaCase(
      #"{"not": {"type": ["string", "object", "array", "number"]}}"#, ["null", "true"],
      not: ["1", "\"\"", "{}", "[]"]),
    SchemaCase(
      #"{"type": "object", "properties": {"k": {"enum": ["a", "b"]}, "v": {}}, "required": ["k", "v"], "if": {"properties": {"k": {"const": "a"}}}, "then": {"properties": {"v": {"type": "integer"}}}, "else": {"properties": {"v": {"type": "string"}}}}"#,
      [#"{"k": "a", "v": 1}"#, #"{"k": "b", "v": "x"}"#, #"{"v": 1, "k": "a"}"#],
      not: [#"{"k": "a", "v": "x"}"#, #"{"k": "b", "v": 1}"#]),
    SchemaCase(
      ##"{"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}, "additionalProperties": false}}}"##,
      ["{}", #"{"next": {"next": {}}}"#], not: [#"{"next": 1}"#, #"{"next": {"x": {}}}"#]),
    SchemaCase(
      #"{"type": "object", "properties": {"a": {}}, "allOf": [{"properties": {"b": {}}}], "unevaluatedProperties": false}"#,
      [#"{"a": 1, "b": 2}"#], not: [#"{"c": 1}"#]),
  ]

  /// Eight kinds of objects that a constant tells apart, and one that says nothing of it.
  static let tagged: String = {
    let kinds = (0..<8).map {
      #"{"properties":{"kind":{"enum":["k\#($0)"]},"a":{"type":"integer"},"b":{}},"required":["kind","a","b"]}"#
    }
    return #"{"type":"object","oneOf":["#
      + (kinds + [#"{"required":["kind","d","e"]}"#]).joined(separator: ",") + "]}"
  }()

  @Test func `what a constant tells apart is excluded one by one`() throws {
    let grammar = try CompiledGrammar(schema: Self.tagged)
    for text in [
      #"{"kind": "k3", "a": 1, "b": null}"#, #"{"kind": "other", "d": 1, "e": 2}"#,
      #"{"kind": "other", "a": 1, "b": 2, "d": 1, "e": 2}"#,
      #"{"kind": "k3", "a": "x", "b": 2, "d": 1, "e": 2}"#,
      #"{"d": 1, "kind": "k7", "a": 5, "e": 2}"#, #"{"kind": "k0", "d": 1, "a": 1, "b": 1}"#,
    ] { #expect(grammar.allows(text), "\(text) is not let through") }
    for text in [
      #"{"kind": "k3", "a": "x", "b": 1}"#, #"{"kind": "other", "d": 1}"#,
      #"{"kind": "other", "a": 1, "b": 2}"#,
      #"{"kind": "k3", "a": 1, "b": 2, "d": 1, "e": 2}"#, #"{"d": 1, "e": 2}"#, "{}",
    ] { #expect(!grammar.allows(text), "\(text) is let through") }
    // Two for each of the kinds, in which `d` or `e` is missing. Of the last: one with no kind, and two for each, in which
    // `a` is wrong or missing, or `b` missing. Without the constant there are 3 to the eighth.
    let objects = grammar.graph.nodes.count {
      if case .object(let plan) = $0 { plan.memberCount > 2 } else { false }
    }
    #expect(objects == 8 * 2 + 1 + 8 * 2)
  }

  @Test func `alternatives with further members have their keys in common`() throws {
    let parts = (0..<6).map {
      #"{"properties":{"s\#($0)":{"type":"string"}},"anyOf":[{"required":["r\#($0)"]},{"properties":{"d\#($0)":{"type":"string"}}}]}"#
    }
    let grammar = try CompiledGrammar(
      schema: #"{"type":"object","allOf":["# + parts.joined(separator: ",") + "]}")
    let keys = grammar.graph.nodes.reduce(into: Set<Int32>()) { keys, node in
      guard case .object(let plan) = node, !plan.properties.isEmpty else { return }
      keys.formUnion(plan.properties.map(\.key) + plan.extras.map(\.key))
    }
    // Three of each part, and all others: 64 alternatives, with as many kinds of other keys before.
    #expect(keys.count == 6 * 3 + 1)
    let wrong = (0..<6).map { #""d\#($0)": 1"# }
    let required = (0..<6).map { #""r\#($0)": 1"# }
    let all = (wrong + required).joined(separator: ", ")
    #expect(grammar.allows("{}") && grammar.allows(#"{"x": 1}"#) && grammar.allows("{\(all)}"))
    #expect(!grammar.allows("{\(wrong[2])}") && !grammar.allows(#"{"d0": "a", "s5": 1}"#))
    #expect(!grammar.allows("{\((wrong + required.dropLast()).joined(separator: ", "))}"))
  }

  @Test(arguments: cases) func `texts are let through or not as the schema says`(_ each: SchemaCase) throws {
    let grammar = try CompiledGrammar(schema: each.schema)
    for text in each.allowed { #expect(grammar.allows(text), "\(text) is not let through") }
    for text in each.refused { #expect(!grammar.allows(text), "\(text) is let through") }
  }

  @Test func `unique items that nothing tells apart are refused where there must be two`() {
    #expect {
      try CompiledGrammar(
        schema: #"{"type": "array", "items": {"type": "array"}, "uniqueItems": true, "minItems": 2}"#)
    } throws: { error in
      if case GrammarError.unsupported("uniqueItems", _, _) = error { true } else { false }
    }
  }

  /// Without the member all of the tests hold; with it one does, or none.
  @Test func `a chain of tests for the constant of a member stays short`() throws {
    let tests = (0..<60).map { number in
      #"{"if": {"properties": {"kind": {"const": "k\#(number)"}}}, "then": {"properties": {"v": {"minimum": \#(number)}}}}"#
    }
    let grammar = try CompiledGrammar(
      schema:
        #"{"type": "object", "properties": {"kind": {"type": "string"}, "v": {"type": "integer"}}, "additionalProperties": false, "allOf": [\#(tests.joined(separator: ","))]}"#
    )
    for text in [
      #"{"kind": "k7", "v": 7}"#, #"{"v": 59, "kind": "k59"}"#, #"{"v": 60}"#, #"{"kind": "x", "v": -1}"#,
      "{}",
    ] {
      #expect(grammar.allows(text), "\(text)")
    }
    for text in [#"{"kind": "k7", "v": 6}"#, #"{"v": 58}"#, #"{"v": 58, "kind": "k59"}"#] {
      #expect(!grammar.allows(text), "\(text)")
    }
  }

  /// Both branches say the same of the triggers, so that the other member alone tells them apart. When that was not seen,
  /// each way to break the triggers was an alternative: more than 2,000.
  @Test func `branches that share members exclude each other by the rest`() throws {
    func branch(_ name: String) -> String {
      let kinds = (0..<15).map {
        #"{"type": "object", "properties": {"type": {"enum": ["t\#($0)"]}, "n": {"type": "integer"}, "s": {"type": "string"}, "a": {"type": "array", "items": {"type": "string"}}}, "required": ["type"], "additionalProperties": false}"#
      }
      return
        #"{"type": "object", "properties": {"triggers": {"type": "array", "items": {"oneOf": [\#(kinds.joined(separator: ","))]}}, "\#(name)": {"type": "string"}}}"#
    }
    let grammar = try CompiledGrammar(schema: #"{"oneOf": [\#(branch("p")), \#(branch("q"))]}"#)
    for text in [#"{"p": 1, "triggers": [{"type": "t3", "n": 2}]}"#, #"{"q": null}"#] {
      #expect(grammar.allows(text), "\(text)")
    }
    for text in ["{}", #"{"p": 1, "q": 1}"#, #"{"p": 1, "triggers": [{"type": "u"}]}"#, #"{"triggers": []}"#]
    {
      #expect(!grammar.allows(text), "\(text)")
    }
  }

  @Test func `a schema beside its negation leaves nothing`() {
    let (a, b) = (SchemaLiteral(place: 3, scope: 0), SchemaLiteral(place: 5, scope: 0))
    #expect(Conjunction([a, b]).and(Conjunction([a.negated])).isNever)
    #expect(Conjunction([b, a.negated, a]).isNever)
    #expect(!Conjunction([a, b.negated]).isNever)
    #expect(!Conjunction([a]).and(Conjunction([SchemaLiteral(place: 3, scope: 1, isNegated: true)])).isNever)
  }

  @Test func `schemas that say the same are one`() throws {
    var document = try SchemaDocument(
      JSONValue(
        parsing: ##"""
          {"properties": {
            "a": {"type": "object", "title": "A", "properties": {"x": {"type": "string"}}},
            "b": {"properties": {"x": {"type": "string", "description": "X"}}, "type": "object"},
            "c": {"type": "object", "properties": {"y": {"type": "string"}}},
            "d": {"type": "object", "properties": {"x": {"type": "string", "maxLength": 3}}},
            "e": {"type": "object", "properties": {"x": {"type": "string"}}, "$anchor": "e"},
            "f": {"$id": "other", "properties": {"g": {"type": "object", "properties": {"x": {"type": "string"}}}}}}}
          """##))
    func place(_ path: String) throws -> Int {
      try document.resolve("#" + path, at: 0, keyword: "$ref").place
    }
    let first = try place("/properties/a")
    #expect(try place("/properties/b") == first)
    #expect(try place("/properties/a/properties/x") == place("/properties/c/properties/y"))
    for other in ["c", "d", "e", "f/properties/g"] {
      #expect(try place("/properties/" + other) != first, "\(other)")
    }
    #expect(try document.child(0, SchemaStep("properties", .name(ByteKey("b"))), .null) == first)
  }

  @Test
  func
    `pointers lead through lists and names, escaped ones and numbers among them, and through unknown words`()
    throws
  {
    let schema = ##"""
      {"properties": {"0": {"type": "null"}, "a/b~c": {"type": "boolean"}}, "type": "array", "minItems": 4,
      "allOf": [{"maxItems": 4}, {"prefixItems": [{"$ref": "#/properties/0"}, {"$ref": "#/properties/a~1b~0c"},
      {"$ref": "#/allOf/1/prefixItems/0"}, {"$ref": "#/x/y"}]}],
      "x": {"y": {"type": "array", "items": {"$ref": "#/x/y"}}}}
      """##
    let grammar = try CompiledGrammar(.schema(try JSONValue(parsing: Array(schema.utf8))))
    #expect(grammar.allows("[null, true, null, [[], [[]]]]"))
    for text in ["[null, null, null, []]", "[null, true, true, []]", "[null, true, null, [null]]"] {
      #expect(!grammar.allows(text), "\(text)")
    }
  }
}
