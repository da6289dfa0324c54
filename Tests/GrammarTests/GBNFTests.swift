// GBNF grammars and regular expressions.

import Support
import Testing

@testable import Grammar

@Suite struct GBNFTests {
  @Test func `rules, groups, classes and repetitions`() throws {
    let grammar = try CompiledGrammar(
      .gbnf(
        #"""
        # a list of calls
        root  ::= call ("," ws call){0,2} "."
        call  ::= name "(" (arg ("," ws arg)*)? ")"   # arguments
        name  ::= [a-z_] [a-z0-9_]*
        arg   ::= number |
                  call | "\"" [^"\n]* "\""
        number ::= "-"? [0-9]+
        ws    ::= " "?
        """#))
    #expect(grammar.allows("f().") && grammar.allows(#"f(1, g(-2,"x y"), h()),k()."#))
    #expect(!grammar.allows("f()") && !grammar.allows("f(,).") && !grammar.allows("f(),f(),f(),f()."))
  }

  @Test func `recursion on the left after what may be empty is refused and does not hang`() {
    #expect(throws: GrammarError.self) {
      try CompiledGrammar(.gbnf("root ::= x root | \"b\"\nx ::= \"\" | \"y\""))
    }
  }

  @Test func `balanced brackets of any depth`() throws {
    let grammar = try CompiledGrammar(.gbnf(#"root ::= "(" root* ")""#))
    #expect(
      grammar.allows("()") && grammar.allows("(()(()))") && !grammar.allows("(()") && !grammar.allows("())"))
  }

  @Test(arguments: [
    ("", "there is no rule 'root'"), ("root ::= x", "there is no rule 'x'"),
    ("root ::= \"a", "a literal without an end"),
    ("root = \"a\"", "'::=' is missing"), ("root ::= [b-a]", "the range is out of order"),
    ("root ::= (\"a\"", "a '(' without a ')'"),
    ("root ::= \"a\"\nroot ::= \"b\"", "the rule 'root' stands twice"),
  ])
  func `errors say what is wrong`(_ text: String, _ words: String) {
    #expect {
      try CompiledGrammar(.gbnf(text))
    } throws: { error in
      if case GrammarError.malformed(_, let reason) = error { reason == words } else { false }
    }
  }

  @Test func `regular expressions of all kinds`() throws {
    for (expression, allowed, refused) in [
      ("a|bc", ["a", "bc"], ["b", "abc"]),
      ("(?:ab){2,3}", ["abab", "ababab"], ["ab", "abababab"]),
      (#"\d{3}-\w+"#, ["123-a_9"], ["12-a", "123-", "123-é"]),
      (#"[^a-c\d]"#, ["x", "é", "😀"], ["a", "5", "xx"]),
      (#"\u{1F600}|\x41\u00e9"#, ["😀", "Aé"], ["A"]),
      (#"\p{Lu}\p{Ll}*"#, ["Äh", "X"], ["äh", "XX"]),
      ("(?=.*\\d)x*", [], []),
      ("^(?=.*\\d)(?!.*x)[a-z0-9x]+$", ["a1", "9"], ["a", "a1x"]),
      ("a.c", ["abc", "a\tc", "aéc"], ["a\nc", "ac"]),
      ("(?<year>\\d+)??x", ["12x", "x"], ["12"]),
    ] as [(String, [String], [String])] {
      if allowed.isEmpty {
        #expect(throws: GrammarError.self) { try CompiledGrammar(.regex(expression)) }
        continue
      }
      let grammar = try CompiledGrammar(.regex(expression))
      for text in allowed { #expect(grammar.allows(text), "\(expression): \(text)") }
      for text in refused { #expect(!grammar.allows(text), "\(expression): \(text)") }
    }
  }

  @Test(arguments: [
    #"(a)\1"#, "(?<=a)b", "(?=a)*b", "(?i)a", "a**", "(a", "a)", "[z-a]", #"\u{110000}"#, "a{3,2}", "[a",
  ])
  func `what is no regular expression, or not regular, is refused`(_ expression: String) {
    #expect(throws: GrammarError.self) { try CompiledGrammar(.regex(expression)) }
  }

  @Test(arguments: [
    "(a{1,9999}){1,9999}", "((((((a?){40}){40}){40}){40}){40}){40}", "(x+x+)+y(a|b|ab)*[ab]{60}c.*[ab].{60}",
    String(repeating: "(", count: 10_000), String(repeating: "a?", count: 9_000),
  ])
  func `an expression that would explode is refused in time`(_ expression: String) {
    #expect(throws: GrammarError.self) { try CompiledGrammar(.regex(expression)) }
  }

  @Test func `broken texts never crash a parser`() {
    var random = SeededGenerator(seed: 5)
    let seeds = [
      #"root ::= call ("," ws call){0,2} "." # x"#
        + "\ncall ::= [a-z^\\x41-\\u00e9]+ | (\"\\n\" .)?\nws ::= \" \"?",
      #"^(?=.*\d)(a|[^b-d\w]{2,3}|\u{1F600}|\x41|\p{L}|[^\p{Nd}_])+?$"#,
      ##"{"type":["object","null"],"properties":{"a":{"$ref":"#/$defs/b"}},"$defs":{"b":{"oneOf":[{"minimum":2},{"pattern":"^a*"}]}},"required":["a"],"not":{"enum":[1,{"a":[]}]}}"##,
    ]
    for round in 0..<300 {
      let bytes = mutated(Array(seeds[round % 3].utf8), using: &random)
      let text = String(decoding: bytes, as: UTF8.self)
      switch round % 3 {
      case 0: _ = try? CompiledGrammar(.gbnf(text))
      case 1: _ = try? CompiledGrammar(.regex(text))
      default: _ = try? CompiledGrammar(schema: text)
      }
    }
  }
}
