// The official JSON-Schema test suite: no invalid instance gets through; valid ones do, or the schema is refused.

import JSON
import Support
import Testing

@testable import Grammar

/// A file of the suite.
struct SuiteFile: Sendable, CustomTestStringConvertible {
  var draft: String
  var name: String

  var testDescription: String { draft + "/" + name }
}

@Suite struct OfficialSuiteTests {
  static let folder = TestData.shared.map { $0 + "/jsonschema/JSON-Schema-Test-Suite/tests/" }

  private static let names = [
    "additionalItems", "additionalProperties", "allOf", "anchor", "anyOf", "boolean_schema", "const",
    "contains",
    "content", "default", "definitions", "defs", "dependencies", "dependentRequired", "dependentSchemas",
    "dynamicRef",
    "enum", "exclusiveMaximum", "exclusiveMinimum", "format", "if-then-else", "infinite-loop-detection",
    "items",
    "maxContains", "maxItems", "maxLength", "maxProperties", "maximum", "minContains", "minItems",
    "minLength",
    "minProperties", "minimum", "multipleOf", "not", "oneOf", "pattern", "patternProperties", "prefixItems",
    "properties", "propertyNames", "recursiveRef", "ref", "refRemote", "required", "type", "unevaluatedItems",
    "unevaluatedProperties", "uniqueItems", "vocabulary",
    "optional/anchor", "optional/bignum", "optional/dependencies-compatibility", "optional/dynamicRef",
    "optional/ecmascript-regex", "optional/float-overflow", "optional/id", "optional/no-schema",
    "optional/non-bmp-regex", "optional/refOfUnknownKeyword", "optional/unknownKeyword",
    "optional/format/date", "optional/format/date-time", "optional/format/duration", "optional/format/email",
    "optional/format/hostname", "optional/format/idn-email", "optional/format/idn-hostname",
    "optional/format/ipv4",
    "optional/format/ipv6", "optional/format/iri", "optional/format/iri-reference",
    "optional/format/json-pointer",
    "optional/format/regex", "optional/format/relative-json-pointer", "optional/format/time",
    "optional/format/unknown", "optional/format/uri", "optional/format/uri-reference",
    "optional/format/uri-template", "optional/format/uuid",
  ]

  static let files: [SuiteFile] = ["draft7", "draft2019-09", "draft2020-12"].flatMap { draft in
    names.compactMap { name in
      guard let folder, (try? TestData.bytes(folder + draft + "/" + name + ".json", limit: 1 << 22)) != nil
      else {
        return nil
      }
      return SuiteFile(draft: draft, name: name)
    }
  }

  /// What becomes of a file: `=` everything is as it should be; `-` a valid instance that is not let through;
  /// `!` a schema that is refused.
  static func verdicts(_ file: SuiteFile) throws -> (lines: [String], leaks: [String]) {
    let path = (folder ?? "") + file.draft + "/" + file.name + ".json"
    let groups = try JSONValue(parsing: try TestData.bytes(path, limit: 1 << 22)).arrayValue ?? []
    var lines: [String] = []
    var leaks: [String] = []
    for group in groups {
      let title = group["description"]?.stringValue ?? ""
      var schema = group["schema"] ?? .null
      if file.draft == "draft7", case .object(var members) = schema, members["$schema"] == nil {
        members["$schema"] = "http://json-schema.org/draft-07/schema#"
        schema = .object(members)
      }
      let grammar: CompiledGrammar
      do {
        grammar = try CompiledGrammar(.schema(schema))
      } catch .unsatisfiable {
        for test in group["tests"]?.arrayValue ?? [] where test["valid"]?.boolValue == true {
          lines.append("- \(title): \(test["description"]?.stringValue ?? "")")
        }
        continue
      } catch {
        let keyword: String
        switch error {
        case .unsupported(let name, _, _): keyword = name
        case .tooLarge: keyword = "too large"
        case .unwanted: keyword = "unwanted"
        case .malformed: keyword = "malformed"
        case .unsatisfiable: keyword = ""
        }
        lines.append("! \(title): \(keyword)")
        continue
      }
      for test in group["tests"]?.arrayValue ?? [] {
        let text = Instance.text(test["data"] ?? .null, schema: schema)
        let isValid = test["valid"]?.boolValue ?? false
        let isAllowed = grammar.allows(text)
        if isAllowed && !isValid {
          leaks.append("\(title): \(test["description"]?.stringValue ?? "") \(text)")
        }
        if !isAllowed && isValid { lines.append("- \(title): \(test["description"]?.stringValue ?? "")") }
      }
    }
    return (lines, leaks)
  }

  @Test(.enabled(if: folder != nil, "no ../shared/data"), arguments: files)
  func `no invalid instance gets through and the exceptions are known`(_ file: SuiteFile) throws {
    let (lines, leaks) = try Self.verdicts(file)
    #expect(leaks.isEmpty, "\(list(leaks))")
    let known = SuiteExceptions.all[file.testDescription] ?? []
    #expect(lines == known, "\(file.testDescription)\(list(lines))")
  }
}

/// Instances as text in the spelling that grammars write.
enum Instance {
  /// Integral numbers without a point, strings in their shortest spelling, no white space but after commas and colons.
  static func text(_ value: JSONValue, schema: JSONValue) -> String {
    switch value {
    case .null: "null"
    case .bool(let flag): flag ? "true" : "false"
    case .int, .double, .bigInteger: number(value)
    case .string(let text): String(decoding: JSONText.quoted(text), as: UTF8.self)
    case .array(let items):
      "[" + items.map { Instance.text($0, schema: schema) }.joined(separator: ", ") + "]"
    case .object(let members):
      "{"
        + members.entries.map {
          "\(Instance.text(.string($0.key), schema: schema)): \(Instance.text($0.value, schema: schema))"
        }
        .joined(separator: ", ") + "}"
    }
  }

  private static func number(_ value: JSONValue) -> String {
    let text = value.doubleValue.map(\.description) ?? ""
    switch value {
    case .int(let number): return String(number)
    case .bigInteger(let digits): return digits
    default: return Decimal(text).map { String(decoding: $0.text, as: UTF8.self) } ?? text
    }
  }
}
