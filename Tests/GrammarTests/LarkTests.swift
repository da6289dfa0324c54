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
      (
        "start[capture]: x B\nx[ capture = \"a, b]\" ,\n capture=c]: \"a\"\nB[capture=n].2: \"b\"", ["ab"],
        ["a", "b"]
      ),
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

  @Test func `tokens by their spelling and by ranges of numbers`() throws {
    let grammar = try CompiledGrammar(.lark("start: <|mark|> <[97,99-100]>"))
    for (id, isRight) in [(97, true), (98, false), (99, true), (100, true), (101, false)] as [(Int32, Bool)] {
      var matcher = GrammarMatcher(grammar)
      let isTaken = matcher.accept(SmallVocabulary.mark) && matcher.accept(id)
      #expect(isTaken == isRight, "\(id)")
    }
    #expect(!grammar.allows("<|mark|>a"))
    #expect(
      throws: GrammarError.unsatisfiable(path: "", reason: "the vocabulary has no special token '<|x|>'")
    ) {
      try CompiledGrammar(.lark("start: <|x|>"))
    }
  }

  @Test func `a part may be as long as the text, and a terminal is looked at once however often it is named`()
    throws
  {
    let pieces = (0..<800).map { "\($0)," }
    let list = pieces.map { "\"\($0)\"" }.joined(separator: ", ")
    let whole = try CompiledGrammar(.lark("start: %regex {\"substring_chunks\": [\(list)]}"))
    #expect(whole.allows(pieces.joined()) && whole.allows("") && whole.allows("7,8,"))
    #expect(!whole.allows("7,9,") && !whole.allows(pieces.joined() + "0,"))
    // Each names the next twice.
    let names = (0..<20).map { "A\($0): A\($0 + 1) & A\($0 + 1)" }
    let chain = try CompiledGrammar(
      .lark("start: A0\n" + names.joined(separator: "\n") + "\nA20: \"a\" & /./"))
    #expect(chain.allows("a") && !chain.allows("b"))
  }

  /// What LLGuidance 1.9.1 says of the same.
  @Test(
    arguments: [
      ("A: /[a-z]+/ & ~\"stop\"", ["go", "stopx", "st"], ["stop", ""]),
      ("A: \"a\" \"b\" & /[ab]+/", ["ab"], ["a", "b"]),
      ("A: \"a\" | \"b\"\n  & /[b-z]/", ["a", "b"], ["c"]),
      ("A: ~\"a\" \"b\"", ["cb", "b", "xxb", "aab"], ["ab"]),
      ("A: ~\"a\"+", ["aa", "", "b"], ["a"]),
      ("A: ~(\"a\"+)", ["", "b"], ["a", "aa"]),
      ("A: \"x\" ~ 2", ["xx"], ["x"]),
      ("A: \"x\" ~\"y\"", ["xx", "x", "xyy"], ["xy"]),
      ("A: B & C\nB: /a+/\nC: /.{2}/", ["aa"], ["a", "aaa"]),
      ("A: /(?:.|\\n)*/ & ~/(?:.|\\n)*end(?:.|\\n)*/", ["foo", "en d"], ["end", "xendx"]),
      ("A: ~(B | \"x\")\nB: \"b\" & /./", ["bb", ""], ["b", "x"]),
      (
        "A: %regex {\"substring_words\": \"the quick, brown  fox\"}",
        ["the ", "the", " quick", "quick,", ", brown", "brown  fox", "  ", ""], ["th", "quick fox", "x"]
      ),
      ("A: %regex {\"substring_chars\": \"aé b\"}", ["é", "aé", "é b"], ["ab"]),
      ("A: \"x\" %regex {\"substring_chunks\": [\"ab\", \"cd\"]} \"y\"", ["xaby", "xabcdy", "xy"], ["xbcy"]),
    ] as [(String, [String], [String])])
  func `terminals of what others have, have not, or have a part of`(
    _ terminal: String, _ allowed: [String], _ refused: [String]
  ) throws {
    let grammar = try CompiledGrammar(.lark("start: A\n\(terminal)"))
    for text in allowed { #expect(grammar.allows(text), "\(text)") }
    for text in refused { #expect(!grammar.allows(text), "\(text)") }
    // What is ignored does not reach into them.
    let spaced = try CompiledGrammar(.lark("start: A \".\"\n%ignore \"_\"\n\(terminal)"))
    for text in allowed { #expect(spaced.allows("_\(text)_.__"), "\(text)") }
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
    ("start[max_tokens=3]: \"a\"", "the attribute 'max_tokens'"),
    ("start[capture, stop=\"x\"]: \"a\"", "the attribute 'stop'"),
    ("start: A\nA[lazy]: \"a\"", "the attribute 'lazy'"),
    ("start[capture=\"a\",temperature=0.5]: \"a\"", "the attribute 'temperature' of a rule"),
    ("start: \"a\"\n%declare X", "%declare"), ("start: <[^7]>", "most tokens"),
    ("start: \"a\" & \"b\"", "& in a rule"), ("start: ~\"a\"", "~ in a rule"),
    ("start: A\nA: ~B\nB: \"a\" A", "& and ~"), ("start: A\nA: %regex {\"other\": 1}", "%regex with 'other'"),
    ("%import python.NAME\nstart: NAME", "%import"), ("start: /a/x", "the flag 'x'"),
    ("start: @other", "@"), ("start: /a(?!b)/ \"c\"", "a lookaround"), (#"start: /a\b/"#, "a lookaround"),
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
    ("start[capture: \"a\"", "a '[' without a ']'"), ("start[capture=\"a: \"", "a '[' without a ']'"),
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
