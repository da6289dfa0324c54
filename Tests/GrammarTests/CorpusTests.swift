// Schemas as APIs, configuration files and SDKs have them: they compile, and what is let through is valid.

import JSON
import Support
import Testing

@testable import Grammar

@Suite struct CorpusTests {
  static func schemas() throws -> [(name: String, schema: JSONValue)] {
    let bytes = try TestData.bytes(TestData.fixtures + "/schemas/corpus.jsonl")
    return try bytes.split(separator: 0x0A).map { line in
      let entry = try JSONValue(parsing: Array(line))
      return (entry["name"]?.stringValue ?? "", entry["schema"] ?? .null)
    }
  }

  @Test func `at least 95 of 100 schemas compile, and random answers to all of them are valid`() throws {
    let schemas = try Self.schemas()
    #expect(schemas.count >= 200)
    var random = SeededGenerator(seed: 21)
    var refused: [String] = []
    for (index, (name, schema)) in schemas.enumerated() {
      let grammar: CompiledGrammar
      do {
        grammar = try CompiledGrammar(.schema(schema))
      } catch {
        refused.append("\(name): \(error)")
        continue
      }
      let validator = SmallValidator(root: schema)
      for limit in [60, 400] {
        let enough = max(limit, GrammarMatcher(grammar).tokensToEnd + 1)
        let (tokens, isEnded) = MatcherTests.walk(grammar, limit: enough, &random)
        let bytes = MatcherTests.text(tokens)
        let text = String(decoding: bytes, as: UTF8.self)
        guard isEnded, let value = try? JSONValue(parsing: bytes) else {
          Issue.record("\(name): \(text) is not complete")
          continue
        }
        #expect(validator.isValid(value), "\(name): \(text)")
        if TestData.isMeasuring { print("SAMPLE \(index) \(value.text)") }
      }
    }
    #expect(refused.isEmpty, "\(list(refused))")
  }
}
