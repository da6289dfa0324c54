// Schemas that give `properties` and say nothing of other members.

import JSON
import Testing

@testable import Grammar

@Suite struct DeclaredMembersTests {
  /// What the schema lets through: as JSON Schema has it, and with declared members only.
  private func verdicts(_ schema: String, _ text: String) throws -> [Bool] {
    let pattern = Pattern.schema(try JSONValue(parsing: schema))
    return [try CompiledGrammar(pattern).allows(text), try CompiledGrammar(.declared(pattern)).allows(text)]
  }

  @Test(arguments: [
    (#"{"properties":{"a":{}}}"#, #"{"b": 1}"#, false),
    (#"{"properties":{"a":{}}}"#, #"{"a": 1}"#, true),
    (#"{"properties":{}}"#, #"{"b": 1}"#, false),
    (#"{"type":"object"}"#, #"{"b": 1}"#, true),
    (#"{"properties":{"a":{}},"additionalProperties":true}"#, #"{"b": 1}"#, true),
    (#"{"properties":{"a":{}},"additionalProperties":{"type":"integer"}}"#, #"{"b": 1}"#, true),
    (#"{"properties":{"a":{}},"unevaluatedProperties":true}"#, #"{"b": 1}"#, true),
    (#"{"properties":{"a":{}},"required":["b"]}"#, #"{"b": 1}"#, true),
    (#"{"properties":{"a":{}},"patternProperties":{"^x":{"type":"integer"}}}"#, #"{"x1": 1}"#, true),
    (#"{"properties":{"a":{}},"patternProperties":{"^x":{"type":"integer"}}}"#, #"{"y": 1}"#, false),
    (#"{"properties":{"a":{}},"minProperties":2}"#, #"{"a": 1, "b": 1}"#, true),
    (
      #"{"anyOf":[{"properties":{"a":{}},"minProperties":2},{"properties":{"b":{},"c":{}},"minProperties":3}]}"#,
      #"{"a": 1, "x": 1}"#, true
    ),
    (#"{"allOf":[{"properties":{"a":{}}},{"properties":{"b":{}}}]}"#, #"{"a": 1, "b": 1}"#, true),
    (#"{"allOf":[{"properties":{"a":{}}},{"properties":{"b":{}}}]}"#, #"{"c": 1}"#, false),
    (
      #"{"not":{"properties":{"a":{"type":"string"}},"required":["a"]},"required":["a"]}"#,
      #"{"a": 1, "b": 1}"#, true
    ),
    (#"{"properties":{"o":{"properties":{"a":{}}}}}"#, #"{"o": {"b": 1}}"#, false),
  ])
  func `objects have declared members only, unless the schema opens them`(
    _ schema: String, _ text: String, _ isAllowed: Bool
  ) throws {
    #expect(try verdicts(schema, text) == [true, isAllowed])
  }
}
