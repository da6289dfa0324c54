// Schemas made at random: what their grammars let through is valid for a validator that was written apart from them.

import JSON
import Support
import Testing

@testable import Grammar

/// Makes schemas from a seed. Not all of them can be satisfied.
struct SchemaGenerator {
  var random: SeededGenerator

  private static let names = ["a", "b", "name", "é", "x/y", "id"]
  private static let patterns = SmallValidator.patterns.keys.sorted()

  private mutating func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &random) < percent }

  private mutating func below(_ count: Int) -> Int { Int.random(in: 0..<count, using: &random) }

  private mutating func name() -> String { Self.names[below(Self.names.count)] }

  /// A schema with definitions, some of which refer to themselves.
  mutating func schema() -> JSONValue {
    guard case .object(var members) = part(depth: 0) else { return true }
    var definitions = JSONObject()
    for name in ["one", "two"] { definitions[name] = part(depth: 1) }
    definitions["list"] = [
      "type": "object",
      "properties": [
        "value": part(depth: 2), "next": ["anyOf": [["$ref": "#/$defs/list"], ["type": "null"]]],
      ],
      "required": ["value"], "additionalProperties": false,
    ]
    members["$defs"] = .object(definitions)
    return .object(members)
  }

  private mutating func part(depth: Int) -> JSONValue {
    if depth > 3 { return scalar() }
    switch below(12) {
    case 0...3: return object(depth: depth)
    case 4, 5: return array(depth: depth)
    case 6:
      return depth == 0
        ? object(depth: depth) : ["$ref": .string("#/$defs/" + ["one", "two", "list"][below(3)])]
    case 7:
      return ["anyOf": .array((0...1 + below(2)).map { _ in part(depth: depth + 1) })]
    case 8:
      // Two of one type, so that something is often left.
      let parts = chance(50) ? [object(depth: depth), object(depth: depth)] : [number(), number()]
      return ["allOf": .array(parts)]
    default: return scalar()
    }
  }

  private mutating func scalar() -> JSONValue {
    switch below(6) {
    case 0:
      let types: [JSONValue] = ["boolean", "integer", "string"]
      return ["type": .array(types.filter { _ in chance(60) } + ["null"])]
    case 1: return ["enum": .array((0...below(4)).map { _ in constant() })]
    case 2: return ["const": constant()]
    case 3: return string()
    default: return number()
    }
  }

  private mutating func constant() -> JSONValue {
    let all: [JSONValue] = [
      .null, true, 7, -1.5, "", "red", "a\"\\\n\u{1}é😀", [1, "x"], ["k": [.null, false]], 12_345_678_901_234,
    ]
    return all[below(all.count)]
  }

  private mutating func number() -> JSONValue {
    var out = JSONObject([("type", chance(60) ? "integer" : "number")])
    let low = below(400) - 200
    if chance(50) { out[chance(70) ? "minimum" : "exclusiveMinimum"] = .int(low) }
    if chance(50) {
      out[chance(70) ? "maximum" : "exclusiveMaximum"] = .double(Double(low + below(300)) + 0.5)
    }
    if chance(25) { out["multipleOf"] = [.int(3), .int(7), .double(0.5), .double(0.25)][below(4)] }
    return .object(out)
  }

  private mutating func string() -> JSONValue {
    var out = JSONObject([("type", "string")])
    if chance(40) { out["pattern"] = .string(Self.patterns[below(Self.patterns.count)]) }
    if chance(30) { out["minLength"] = .int(below(4)) }
    if chance(30) { out["maxLength"] = .int(3 + below(20)) }
    return .object(out)
  }

  private mutating func array(depth: Int) -> JSONValue {
    var out = JSONObject([("type", "array"), ("items", part(depth: depth + 1))])
    if chance(25) { out["prefixItems"] = .array([part(depth: depth + 1), part(depth: depth + 1)]) }
    if chance(40) { out["minItems"] = .int(below(4)) }
    if chance(40) { out["maxItems"] = .int(2 + below(4)) }
    if chance(15) {
      out["items"] = scalar()
      out["uniqueItems"] = true
    }
    return .object(out)
  }

  private mutating func object(depth: Int) -> JSONValue {
    var properties = JSONObject()
    for _ in 0..<below(5) { properties[name()] = part(depth: depth + 1) }
    var out = JSONObject([("type", "object"), ("properties", .object(properties))])
    let required = properties.keys.filter { _ in chance(60) } + (chance(10) ? [name()] : [])
    if !required.isEmpty { out["required"] = .array(required.map { .string($0) }) }
    switch below(5) {
    case 0, 1: out["additionalProperties"] = false
    case 2: out["additionalProperties"] = scalar()
    default: break
    }
    if chance(10) { out["minProperties"] = .int(below(2)) }
    if chance(15) { out["maxProperties"] = .int(required.count + below(3)) }
    return .object(out)
  }
}

@Suite struct RandomSchemaTests {
  @Test func `random answers to random schemas are valid`() throws {
    var generator = SchemaGenerator(random: SeededGenerator(seed: 2026))
    var random = SeededGenerator(seed: 7)
    let count = 200
    var compiled = 0
    var impossible = 0
    var refused: [String] = []
    for number in 0..<count {
      let schema = generator.schema()
      let grammar: CompiledGrammar
      do {
        grammar = try CompiledGrammar(.schema(schema))
      } catch .unsatisfiable {
        impossible += 1
        continue
      } catch {
        refused.append("\(error)")
        continue
      }
      compiled += 1
      let validator = SmallValidator(root: schema)
      let least = GrammarMatcher(grammar).tokensToEnd + 1
      for limit in [least, least + 12, least + 60] {
        let (tokens, isEnded) = MatcherTests.walk(grammar, limit: limit, &random)
        let bytes = MatcherTests.text(tokens)
        let words = "\(number), \(schema.text): \(String(decoding: bytes, as: UTF8.self))"
        guard isEnded, let value = try? JSONValue(parsing: bytes) else {
          Issue.record("\(words) is not complete")
          continue
        }
        #expect(validator.isValid(value), "\(words)")
      }
    }
    if TestData.isMeasuring {
      print("\(compiled) compiled, \(impossible) impossible, refused:\(list(refused))")
    }
    #expect(compiled * 10 >= count * 8, "\(impossible) impossible, refused:\(list(refused))")
  }
}
