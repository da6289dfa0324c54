// Old and new drafts of JSON Schema: each word means what its draft says.

import JSON
import Testing

@testable import Grammar

@Suite struct DraftTests {
  private static let draft3 = #""$schema": "http://json-schema.org/draft-03/schema#""#
  private static let draft4 = #""$schema": "http://json-schema.org/draft-04/schema#""#
  private static let draft7 = #""$schema": "http://json-schema.org/draft-07/schema#""#
  private static let draft2019 = #""$schema": "https://json-schema.org/draft/2019-09/schema""#

  static let cases: [SchemaCase] = [
    // Draft 4: a bound is exclusive by a boolean beside it; schemas have an `id`.
    SchemaCase(
      #"{\#(draft4), "type": "integer", "minimum": 1, "exclusiveMinimum": true, "maximum": 4}"#, ["2", "4"],
      not: ["1", "5"]),
    SchemaCase(
      #"{\#(draft4), "type": "integer", "maximum": 4, "exclusiveMaximum": true}"#, ["3"], not: ["4"]),
    SchemaCase(
      #"{\#(draft4), "type": "integer", "minimum": 1, "exclusiveMinimum": false}"#, ["1"], not: ["0"]),
    SchemaCase(
      #"{"type": "integer", "minimum": 1, "exclusiveMinimum": true}"#, ["2"], not: ["1"]),
    SchemaCase(
      #"{\#(draft4), "id": "http://a.example/root", "properties": {"a": {"$ref": "leaf"}}, "required": ["a"],"#
        + #" "additionalProperties": false, "definitions": {"b": {"id": "leaf", "type": "null"}}}"#,
      [#"{"a": null}"#], not: [#"{"a": 1}"#]),
    SchemaCase(
      ##"{\##(draft4), "items": {"$ref": "#here"}, "type": "array","##
        + ##" "definitions": {"b": {"id": "#here", "type": "null"}}}"##,
      ["[]", "[null]"], not: ["[1]"]),
    SchemaCase(
      #"{\#(draft4), "type": "array", "items": [{"type": "null"}], "additionalItems": false}"#,
      ["[]", "[null]"], not: ["[1]", "[null, null]"]),
    // Draft 3.
    SchemaCase(#"{\#(draft3), "type": "integer", "divisibleBy": 5}"#, ["10"], not: ["11"]),
    SchemaCase(
      #"{\#(draft3), "type": "object", "additionalProperties": false,"#
        + #" "properties": {"a": {"type": "null", "required": true}, "b": {"type": "null", "required": false}}}"#,
      [#"{"a": null}"#, #"{"a": null, "b": null}"#], not: ["{}", #"{"b": null}"#]),
    SchemaCase(
      #"{\#(draft3), "disallow": ["string", "object"]}"#, ["1", "null", "[]"], not: [#""a""#, "{}"]),
    SchemaCase(
      #"{\#(draft3), "type": ["null", {"type": "integer", "minimum": 3}]}"#, ["null", "3"],
      not: ["2", "true"]),
    SchemaCase(#"{\#(draft3), "type": "any", "extends": {"maximum": 3}}"#, ["3", "null"], not: ["4"]),
    SchemaCase(
      #"{\#(draft3), "type": "object", "additionalProperties": false, "dependencies": {"a": "b"},"#
        + #" "properties": {"a": {"type": "null"}, "b": {"type": "null"}}}"#,
      ["{}", #"{"b": null}"#, #"{"a": null, "b": null}"#], not: [#"{"a": null}"#]),
    // 2019-09: items as a list, references with neighbours, recursion through the outermost resource.
    SchemaCase(
      #"{\#(draft2019), "type": "array", "items": [{"type": "null"}], "additionalItems": false, "prefixItems": [false]}"#,
      ["[]", "[null]"], not: ["[1]", "[null, 1]"]),
    SchemaCase(
      ##"{\##(draft2019), "$ref": "#/$defs/a", "maximum": 5, "$defs": {"a": {"type": "integer"}}}"##, ["5"],
      not: ["6", "null"]),
    SchemaCase(
      #"{\#(draft2019), "$id": "http://a.example/closed", "$recursiveAnchor": true, "$ref": "tree","#
        + #" "unevaluatedProperties": false, "$defs": {"tree": {"$id": "tree", "$recursiveAnchor": true,"#
        + ##" "type": "object", "properties": {"next": {"$recursiveRef": "#"}}}}}"##,
      ["{}", #"{"next": {"next": {}}}"#], not: [#"{"nxt": {}}"#, #"{"next": {"nxt": {}}}"#]),
    // In draft 7 nothing beside a reference counts.
    SchemaCase(
      ##"{\##(draft7), "$ref": "#/definitions/a", "maximum": 5, "definitions": {"a": {"type": "integer"}}}"##,
      ["6"],
      not: ["null"]),
    // A metaschema that nobody knows: read as the latest draft.
    SchemaCase(
      #"{"$schema": "http://a.example/own", "type": "array", "prefixItems": [{"type": "null"}], "items": false}"#,
      ["[]", "[null]"], not: ["[1]", "[null, 1]"]),
  ]

  @Test(arguments: cases) func `each draft's words mean what the draft says`(_ each: SchemaCase) throws {
    let grammar = try CompiledGrammar(.schema(try JSONValue(parsing: Array(each.schema.utf8))))
    for text in each.allowed { #expect(grammar.allows(text), "\(text)") }
    for text in each.refused { #expect(!grammar.allows(text), "\(text)") }
  }

  @Test(arguments: [
    ("http://json-schema.org/draft-04/schema", SchemaDraft.draft4),
    ("https://json-schema.org/draft-06/schema#", .draft6),
    ("http://json-schema.org/draft-07/hyper-schema#", .draft7),
    ("http://json-schema.org/schema#", .draft7),
    ("https://json-schema.org/draft/2020-12/schema", .draft2020),
  ]) func `the draft is found in the metaschema's address`(address: String, draft: SchemaDraft) {
    #expect(SchemaDraft(metaschema: address) == draft)
  }

  @Test func `an address that names no draft has none`() {
    #expect(SchemaDraft(metaschema: "http://a.example/schema") == nil)
    #expect(SchemaDraft(metaschema: "") == nil)
  }

  // MARK: What must be broken

  static let breaches: [SchemaCase] = [
    // Exactly one of two closed objects whose members are all optional.
    SchemaCase(
      #"{"oneOf": [{"type": "object", "additionalProperties": false, "properties": {"a": {"type": "null"}}},"#
        + #" {"type": "object", "additionalProperties": false, "properties": {"b": {"type": "null"}}}]}"#,
      [#"{"a": null}"#, #"{"b": null}"#], not: ["{}", #"{"a": null, "b": null}"#]),
    SchemaCase(
      #"{"enum": [{"foo": "a"}, {"foo": 1}, {"bar": 1}], "not": {"patternProperties": {"^f": {"type": "integer"}}}}"#,
      [#"{"foo": "a"}"#], not: [#"{"foo": 1}"#, #"{"bar": 1}"#]),
    SchemaCase(
      #"{"enum": [{"foo": 1, "x": 2}, {"foo": 1}], "not": {"additionalProperties": {"type": "boolean"}, "properties": {"foo": {}}}}"#,
      [#"{"foo": 1, "x": 2}"#], not: [#"{"foo": 1}"#]),
    SchemaCase(
      #"{"enum": [{"foo": 1}, {"x": 2}], "not": {"propertyNames": {"maxLength": 1}}}"#, [#"{"foo": 1}"#],
      not: [#"{"x": 2}"#]),
  ]

  @Test(arguments: breaches) func `declared members break what must be broken`(_ each: SchemaCase) throws {
    let grammar = try CompiledGrammar(.schema(try JSONValue(parsing: Array(each.schema.utf8))))
    for text in each.allowed { #expect(grammar.allows(text), "\(text)") }
    for text in each.refused { #expect(!grammar.allows(text), "\(text)") }
  }

  @Test func `many choices of members that break rules are cut, not refused`() throws {
    let names = (0..<40).map { "\"p\($0)\": {\"type\": \"null\"}" }.joined(separator: ", ")
    let closed = #"{"type": "object", "additionalProperties": false, "properties": {\#(names)}}"#
    let rules = (0..<4).map { #"{"not": {"patternProperties": {"p|\#($0)": {"type": "string"}}}}"# }
    let schema = #"{"allOf": [\#(([closed] + rules).joined(separator: ", "))]}"#
    let grammar = try CompiledGrammar(.schema(try JSONValue(parsing: Array(schema.utf8))))
    #expect(grammar.allows(#"{"p0": null}"#))
    #expect(!grammar.allows("{}"))
  }
}
