// Expressions, grammars and schemas: reading them is a target each, and compiling them, which takes longer, is one.

import Driver
import JSON

@testable import Grammar
@testable import Tokenizers

@_cdecl("fuzz_grammar_main")
public func main(_ count: CInt, _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?) -> CInt {
  Fuzz.run(
    count, arguments,
    [
      "regex": GrammarTargets.regex, "gbnf": GrammarTargets.gbnf, "lark": GrammarTargets.lark,
      "schema": GrammarTargets.schema, "compile": GrammarTargets.compile,
    ])
}

enum GrammarTargets {
  // MARK: Reading

  static func regex(_ bytes: [UInt8]) { _ = try? RegexParser.parse(String(decoding: bytes, as: UTF8.self)) }

  static func gbnf(_ bytes: [UInt8]) { _ = try? GBNFParser.parse(String(decoding: bytes, as: UTF8.self)) }

  static func lark(_ bytes: [UInt8]) { _ = try? LarkParser.parse(String(decoding: bytes, as: UTF8.self)) }

  /// The document with its names and references; what it means is read while it is compiled.
  static func schema(_ bytes: [UInt8]) {
    guard let value = try? JSONValue(parsing: bytes), var document = try? SchemaDocument(value) else {
      return
    }
    for place in document.places.indices {
      guard let reference = document.places[place].value["$ref"]?.stringValue else { continue }
      _ = try? document.resolve(reference, at: place, keyword: "$ref")
    }
  }

  // MARK: Compiling

  private static let words: [[UInt8]] =
    (0..<256).map { [UInt8($0)] }
    + ["{\"", "\":", "\", \"", "true", "12", "\u{e9}", "\u{1f600}", "aa", "\\u00"].map { Array($0.utf8) }
    + [[]]

  private static let vocabulary = GrammarVocabulary(count: words.count, endTokens: [Int32(words.count - 1)]) {
    words[Int($0)]
  }

  /// How often compiling asks whether anybody waits before it is left: some milliseconds, so that an input is cheap.
  private static let patience = 4

  /// Compiles, then walks: at every step some allowed token is taken, which one the input decides.
  private static func grammar(_ pattern: Pattern, _ bytes: [UInt8]) {
    var questions = 0
    let compiled = try? CompiledGrammar(pattern, vocabulary: vocabulary) {
      questions += 1
      return questions > patience
    }
    guard let grammar = compiled else { return }
    var matcher = GrammarMatcher(grammar)
    for step in 0..<24 {
      let mask = matcher.allowed(remaining: 64)
      let allowed = (0..<Int32(words.count)).filter { mask.contains($0) }
      check(!allowed.isEmpty || matcher.canEnd, "a constraint leaves a way to go on or to end")
      guard let first = allowed.first else { return }
      let choice = bytes.isEmpty ? first : allowed[Int(bytes[step % bytes.count]) % allowed.count]
      check(matcher.accept(choice), "what the mask allows is accepted")
      if choice == Int32(words.count - 1) { return }
    }
  }

  /// The first byte chooses what the rest is.
  static func compile(_ bytes: [UInt8]) {
    let rest = Array(bytes.dropFirst())
    let text = String(decoding: rest, as: UTF8.self)
    switch bytes.first ?? 0 {
    case 0: grammar(.regex(text), rest)
    case 1: grammar(.gbnf(text), rest)
    case 2: grammar(.lark(text), rest)
    default: if let value = try? JSONValue(parsing: rest) { grammar(.schema(value), rest) }
    }
  }
}
