// Lark grammars, and rules that begin with themselves.

import Support
import Testing

@testable import Grammar

@Suite struct LarkTests {
  @Test func `rules, terminals, imports and ignored space`() throws {
    let grammar = try CompiledGrammar(
      .lark(
        #"""
        // a small calculator
        start: expr ";" -> line
        ?expr: term (("+" | "-") term)*   # sums
        term.2: factor
          | term "*" factor
        !factor: NUMBER | CNAME | "(" expr ")" | call
        call: NAME "(" [expr ("," expr)*] ")"
        NAME: /[a-z]+/ "_"~1..2
        %import common.NUMBER
        %import common (CNAME, WS_INLINE)
        %ignore WS_INLINE
        """#))
    for text in ["1;", "1 + 2*x ;", " (1.5e3 - y_1) * z;", "f_( 1, g__() );", "1*2*3;"] {
      #expect(grammar.allows(text), "\(text)")
    }
    for text in ["1", "1 +;", "f_(,);", "()", "1 2;"] { #expect(!grammar.allows(text), "\(text)") }
  }

  @Test func `letters of either case, ranges, counts and flags`() throws {
    for (source, allowed, refused) in [
      ("start: \"select\"i", ["select", "SeLeCT"], ["selec"]),
      ("start: \"a\"..\"c\"", ["a", "c"], ["d", "ab"]),
      ("start: \"x\"{2,3} \"y\"~2", ["xxyy", "xxxyy"], ["xyy", "xxy"]),
      ("start: /a.b/s /é+/i", ["a\nbÉé"], ["ab", "a\nb"]),
      ("start: A\nA: \"\\u0041\" | \"\\n\"", ["A", "\n"], ["a"]),
      ("start:\n  | \"a\"\n  | \"b\"", ["a", "b"], [""]),
      ("start: \"v=\" %json {\"type\": \"integer\"}", ["v=12"], ["v=x"]),
    ] {
      let grammar = try CompiledGrammar(.lark(source))
      for text in allowed { #expect(grammar.allows(text), "\(source) \(text)") }
      for text in refused { #expect(!grammar.allows(text), "\(source) \(text)") }
    }
  }

  @Test func `a token by its number`() throws {
    let grammar = try CompiledGrammar(.lark("start: \"a\" <[\(SmallVocabulary.mark)]>"))
    var matcher = GrammarMatcher(grammar)
    let isTaken = matcher.accept(0x61) && matcher.accept(SmallVocabulary.mark)
    #expect(isTaken && matcher.canEnd)
  }

  @Test func `a text of a grammar within a JSON string has its escapes`() throws {
    let source = "start: \"*** Begin\\n\" line+ \"\\t\\\"end\\\"\"\nline: (\"+\" | \"-\") /[^\\n]*/ \"\\n\""
    let grammar = try CompiledGrammar(
      .sequence([.literal("{\"input\": "), .quoted(.lark(source)), .literal("}")]))
    for text in [#"*** Begin\n+a\n\t\"end\""#, #"*** Begin\n-\n+é\\ \"x\n\t\"end\""#] {
      #expect(grammar.allows(#"{"input": ""# + text + #""}"#), "\(text)")
    }
    for text in [
      "*** Begin\n+a\n\t\"end\"", #"*** Begin\n\t\"end\""#, #"*** Begin\n+a\n\tend"#,
      #"*** Begin\u000a+a\n\t\"end\""#,
    ] { #expect(!grammar.allows(#"{"input": ""# + text + #""}"#), "\(text)") }
    let rules = try CompiledGrammar(.quoted(.lark("start: \"(\" start \")\" | \"\\n\"")))
    #expect(rules.allows(#""((\n))""#) && !rules.allows(#""((\n)""#) && !rules.allows("\"\n\""))
    let expression = try CompiledGrammar(.quoted(.regex(#"["\\a]{2}"#)))
    #expect(expression.allows(#""\"\\""#) && expression.allows(#""a\"""#) && !expression.allows(#""a""#))
    #expect(throws: GrammarError.self) { try CompiledGrammar(.quoted(.lark("start: %json {}"))) }
    #expect(throws: GrammarError.self) { try CompiledGrammar(.quoted(.anyObject)) }
  }

  @Test(arguments: [
    ("start: x{\"a\"}", "a template"), ("x{a}: a", "a template"),
    ("start[max_tokens=3]: \"a\"", "attributes of a rule"),
    ("start: \"a\"\n%declare X", "%declare"), ("start: <|end|>", "a special token by name"),
    ("%import python.NAME\nstart: NAME", "%import"), ("start: /a/x", "the flag 'x'"),
    ("start: @other", "@"),
  ])
  func `what is not possible is refused by its name`(_ source: String, _ name: String) {
    #expect {
      try CompiledGrammar(.lark(source))
    } throws: { error in
      if case GrammarError.unsupported(let keyword, _, _) = error { keyword == name } else { false }
    }
  }

  @Test(arguments: [
    ("x: \"a\"", "there is no rule 'start'"), ("start: y", "there is no rule 'y'"),
    ("start: \"a", "a literal without an end"), ("start \"a\"", "':' is missing"),
    ("start: (\"a\"", "a '(' without its end"),
    ("start: \"b\"..\"a\"", "a range is from one character to a later one"),
    ("%import common.NOTHING\nstart: NOTHING", "'common' has no terminal 'NOTHING'"),
    ("start: \"a\"\nstart: \"b\"", "the rule 'start' stands twice"),
  ])
  func `errors say what is wrong`(_ source: String, _ words: String) {
    #expect {
      try CompiledGrammar(.lark(source))
    } throws: { error in
      if case GrammarError.malformed(_, let reason) = error { reason == words } else { false }
    }
  }

  @Test func `the notation is told by the mark after a rule's name`() {
    #expect(Pattern.grammar("root ::= \"a\"") == .gbnf("root ::= \"a\""))
    #expect(Pattern.grammar("start: \"a\"") == .lark("start: \"a\""))
  }

  @Test func `long chains of rules are looked at once`() throws {
    var rules = (0..<5000).map { "r\($0) ::= r\($0 + 1)" }
    rules += ["r5000 ::= \"a\"", "root ::= r0"]
    #expect(throws: GrammarError.self) {
      try CompiledGrammar(
        .gbnf((rules.dropLast(2) + ["r5000 ::= r0", "root ::= r0"]).joined(separator: "\n")))
    }
    // Within the frames of a stack.
    let short = rules.suffix(40).dropLast() + ["root ::= r4970"]
    #expect(try CompiledGrammar(.gbnf(short.joined(separator: "\n"))).allows("a"))
  }

  @Test func `rules that begin with themselves, directly and through others`() throws {
    for (source, allowed, refused) in [
      ("root ::= root \"+\" [0-9] | [0-9]", ["1", "1+2", "1+2+3"], ["", "1+", "+1"]),
      (
        "root ::= a \".\"\na ::= b \"x\" | \"p\"\nb ::= a \"y\" | \"q\"", ["p.", "qx.", "pyx.", "qxyx."],
        ["px.", "q."]
      ),
      ("root ::= (root \"a\" | \"b\") (\"c\")?", ["b", "bc", "ba", "bcac"], ["a", "bcc"]),
      ("root ::= root root \"!\" | \"b\"", ["b", "bb!", "bbb!!", "bb!b!"], ["bb", "b!"]),
      ("root ::= root | \"b\"", ["b"], ["", "bb"]),
    ] {
      let grammar = try CompiledGrammar(.gbnf(source))
      for text in allowed { #expect(grammar.allows(text), "\(source) \(text)") }
      for text in refused { #expect(!grammar.allows(text), "\(source) \(text)") }
    }
  }
}
