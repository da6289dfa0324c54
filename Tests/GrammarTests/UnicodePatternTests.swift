// Unicode properties in expressions: what they match, and that many of them are refused instead of compiled for long.

import JSON
import Testing
import Tokenizers

@testable import Grammar

@Suite struct UnicodePatternTests {
  @Test func `properties match the characters that Unicode says`() throws {
    for (expression, allowed, refused) in [
      (#"\p{L}+"#, ["é", "Жa", "漢", "aé日"], ["", " ", "é ", "1", "_"]),
      (#"[\p{L}\p{Nd}_-]{1,30}"#, ["é1", "Ж_", "٣", "x-y"], ["", "é 1", "½"]),
      (#"\P{L}+"#, ["1 ", "½"], ["é", "1Ж"]),
      (#"\p{Lu}\p{Ll}*"#, ["Жж", "É"], ["ж", "ÉÉ"]),
      (#"[^\p{L}]"#, ["1", "😀"], ["é", "\u{10400}"]),
      (#"\p{Alphabetic}\p{White_Space}?"#, ["é", "Ж "], [" ", "1"]),
      (#"\p{gc=Nd}"#, ["7", "٣"], ["a", "½"]),
    ] as [(String, [String], [String])] {
      let grammar = try CompiledGrammar(.regex(expression))
      for text in allowed { #expect(grammar.allows(text), "\(expression): \(text)") }
      for text in refused { #expect(!grammar.allows(text), "\(expression): \(text)") }
    }
  }

  @Test func `a schema with names of any script compiles`() throws {
    let grammar = try CompiledGrammar(
      schema:
        #"{"type": "object", "properties": {"name": {"type": "string", "pattern": "^\\p{L}[\\p{L}\\p{M}' -]*$", "maxLength": 40}, "code": {"type": "string", "pattern": "\\p{Nd}"}}, "required": ["name", "code"]}"#
    )
    #expect(grammar.allows(#"{"name": "Жанна d'Arc", "code": "a7"}"#))
    #expect(!grammar.allows(#"{"name": " Жанна", "code": "a7"}"#))
    #expect(!grammar.allows(#"{"name": "Жанна", "code": "a"}"#))
  }

  @Test func `the properties are those of every scalar`() throws {
    let letters = try #require(RegexClasses.property("L"))
    var members = Set<UInt32>()
    for range in letters.ranges { members.formUnion(range) }
    for value in UInt32(0)...0x2FFFF {
      guard let scalar = Unicode.Scalar(value) else { continue }
      let isLetter =
        switch scalar.properties.generalCategory {
        case .uppercaseLetter, .lowercaseLetter, .titlecaseLetter, .modifierLetter, .otherLetter: true
        default: false
        }
      if members.contains(value) != isLetter { Issue.record("U+\(String(value, radix: 16))") }
    }
  }

  private static let tooLarge: [String] = [
    String(repeating: #"\p{L}?"#, count: 600), String(repeating: #"(\p{L}|\p{N})*"#, count: 400),
    #"(\p{L}+\p{Ll}+)+\p{Lu}(\p{L}|\p{N}){200}"#, "[" + String(repeating: #"\p{L}"#, count: 3900) + "]",
    (0..<900).map { #"[\p{L}\u{\#(String(0x2190 + $0, radix: 16))}]"# }.joined(),
  ]

  @Test(arguments: tooLarge)
  func `many properties together are too large`(_ expression: String) {
    #expect { try CompiledGrammar(.regex(expression)) } throws: { error in
      if case GrammarError.tooLarge = error { true } else { false }
    }
  }

  @Test func `many expressions of one schema share their bound`() throws {
    var members = JSONObject()
    for index in 0..<400 {
      members["m\(index)"] = [
        "type": "string",
        "pattern": .string("^[\\p{L}\\u{\(String(0x2190 + index, radix: 16))}]+[\\p{Lu}\\p{N}]{1,8}$"),
      ]
    }
    let schema: JSONValue = ["type": "object", "properties": .object(members)]
    #expect { try CompiledGrammar(.schema(schema)) } throws: { error in
      if case GrammarError.tooLarge = error { true } else { false }
    }
  }
}
