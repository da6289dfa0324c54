// Lookaheads, lookbehinds and word borders: against a matcher that tries every way, and against what Node says.

import JSON
import Support
import Testing
import Tokenizers

@testable import Grammar

/// Finds where matches end by trying everything: the slow twin of the automata.
struct TryingMatcher {
  let text: [Unicode.Scalar]

  /// Where a match that begins at a place may end.
  func ends(_ tree: RegexTree, from place: Int) -> Set<Int> {
    switch tree {
    case .empty: return [place]
    case .set(let set):
      guard place < text.count, set.ranges.contains(where: { $0.contains(text[place].value) }) else {
        return []
      }
      return [place + 1]
    case .sequence(let parts):
      return parts.reduce([place]) { places, part in Set(places.flatMap { ends(part, from: $0) }) }
    case .choice(let branches): return Set(branches.flatMap { ends($0, from: place) })
    case .once(let inner): return ends(inner, from: place)
    case .repeated(let inner, let min, let max, _):
      var now: Set<Int> = [place]
      for _ in 0..<min { now = Set(now.flatMap { ends(inner, from: $0) }) }
      var all = now
      for _ in 0..<((max ?? min + text.count + 1) - min) {
        now = Set(now.flatMap { ends(inner, from: $0) })
        all.formUnion(now)
      }
      return all
    case .start: return place == 0 ? [place] : []
    case .end: return place == text.count ? [place] : []
    case .lookaround(let inner, let isAhead, let isPositive):
      let isMatch =
        isAhead
        ? !ends(inner, from: place).isEmpty
        : (0...place).contains { ends(inner, from: $0).contains(place) }
      return isMatch == isPositive ? [place] : []
    }
  }

  func matches(_ tree: RegexTree, anywhere: Bool) -> Bool {
    anywhere
      ? (0...text.count).contains { !ends(tree, from: $0).isEmpty }
      : ends(tree, from: 0).contains(text.count)
  }
}

@Suite struct LookaroundTests {
  private static let letters: [Unicode.Scalar] = ["a", "b", "-", "é"]

  /// An expression over four letters. Within a lookaround, only what can be told from its side.
  private static func tree(_ depth: Int, within isAhead: Bool?, _ random: inout SeededGenerator) -> RegexTree
  {
    func inner(_ random: inout SeededGenerator) -> RegexTree { tree(depth - 1, within: isAhead, &random) }
    switch depth == 0 ? Int.random(in: 0..<3, using: &random) : Int.random(in: 0..<14, using: &random) {
    case 0: return .set(ScalarSet([letters.randomElement(using: &random)!.value].map { $0...$0 }))
    case 1: return .set(RegexClasses.word)
    case 2: return .set(.all)
    case 3: return .choice([inner(&random), inner(&random)])
    case 4:
      let min = Int.random(in: 0...1, using: &random)
      return .repeated(inner(&random), min: min, max: [nil, min + 1].randomElement(using: &random)!)
    case 5: return isAhead == true ? .end : .start
    case 6: return isAhead == false ? .start : .end
    case 7 where isAhead == nil:
      return .wordBorder(RegexClasses.word, isPositive: Bool.random(using: &random))
    case 7, 8, 9:
      let side = isAhead ?? Bool.random(using: &random)
      return .lookaround(
        tree(depth - 1, within: side, &random), isAhead: side, isPositive: Bool.random(using: &random))
    default: return .sequence([inner(&random), inner(&random), inner(&random)])
    }
  }

  private static let texts: [[Unicode.Scalar]] = {
    var all: [[Unicode.Scalar]] = [[]]
    var last = all
    for _ in 0..<4 {
      last = last.flatMap { text in letters.map { text + [$0] } }
      all += last
    }
    return all
  }()

  @Test(arguments: 0..<8)
  func `automata accept what is found by trying everything`(_ seed: UInt64) throws {
    var random = SeededGenerator(seed: seed)
    for _ in 0..<60 {
      let tree = Self.tree(3, within: nil, &random)
      for anywhere in [true, false] {
        let dfa = try ByteNFA.automaton(tree, spelling: .plain, anywhere: anywhere)
        for text in Self.texts {
          let string = String(String.UnicodeScalarView(text))
          let expected = TryingMatcher(text: text).matches(tree, anywhere: anywhere)
          if dfa.accepts(string.utf8) != expected {
            Issue.record("\(tree), anywhere \(anywhere): '\(string)' should be \(expected)")
          }
        }
      }
    }
  }

  /// Each text as Node's `new RegExp(expression, "u").test(text)` has it.
  @Test func `published expressions match as they do elsewhere`() throws {
    for (expression, allowed, refused) in [
      (#"^((?!mode)(?!Mode).)*$"#, ["", "red", "mod"], ["mode", "the Mode", "a\n"]),
      (#"^([\da-z](?:(?!.*--)[\da-z-]*[\da-z])?)$"#, ["a", "a-b", "a1-2-3"], ["a--b", "a-", "-a", ""]),
      (
        #"^@([\da-z](?:(?!.*--)[\da-z-]*[\da-z])?)/([\da-z](?:(?!.*--)[\da-z-]*[\da-z])?)$"#,
        ["@a/b", "@a-b/c-d"], ["@a/b--c", "@a--b/c", "a/b"]
      ),
      (#"((?:[^/]*/)*)(?=\.(yaml|yml|json))"#, ["a/.yaml", ".json", "x.yml"], ["a/b", "yaml", ""]),
      (#"^(?!.*\/)^(.*[^.]+.*)$"#, ["a", "a.b", "..x"], ["", "..", "a/b"]),
      (
        #"^(https?://|/?.?-?(?!\w+://)\w).+\.ya?ml$"#,
        ["https://a.yml", "/ci/a.yaml", "a/b.yml"], ["https://a.json", ".yml", "ftp://a.yml"]
      ),
      (
        #"^https?:\/\/(www\.)?[-a-zA-Z0-9@:%._\+~#=]{1,256}\.[a-zA-Z0-9()]{1,6}\b([-a-zA-Z0-9()@:%_\+.~#?&//=]*)$"#,
        ["https://a.com", "http://www.a.b.org/x?y=1", "https://a.c)b"],
        ["https://a", "ftp://a.com", "https://a.com x"]
      ),
      (#"\bcat\b"#, ["cat", "a cat.", "écat"], ["cats", "_cat", "concat"]),
      (#"\Bcat"#, ["concat", "_cat"], ["cat", "a cat", "écat"]),
      (#"(?<=\$)\d+(?!\d|%)"#, ["$12", "a $7 b"], ["12", "$1%", "$"]),
      (#"(?<!^|,)x"#, ["ax", ",ax"], ["x", ",x", ""]),
      (#"^(?:(?!<b>).)*<b>(?:(?!</b>).)*</b>$"#, ["<b></b>", "a<b>c</b>"], ["<b></b></b>", "<b>x"]),
      (#"^(?=.*\bfoo\b)(?!.*bar).+$"#, ["foo", "a foo b"], ["food", "foo bar", ""]),
    ] as [(String, [String], [String])] {
      let dfa = try ByteNFA.automaton(RegexParser.parse(expression), spelling: .plain, anywhere: true)
      for text in allowed { #expect(dfa.accepts(text.utf8), "\(expression): \(text)") }
      for text in refused { #expect(!dfa.accepts(text.utf8), "\(expression): \(text)") }
    }
  }

  @Test func `a schema's expression looks around within its string`() throws {
    let grammar = try CompiledGrammar(
      schema: #"{"type": "string", "pattern": "^(?:(?!\"|no).)+\\b.?$", "maxLength": 12}"#)
    for text in ["nn", "a\\\\b", "é o."] { #expect(grammar.allows("\"\(text)\""), "\(text)") }
    for text in ["", "no", "say no.", "a\\\"b", "longer than 12", "a.."] {
      #expect(!grammar.allows("\"\(text)\""), "\(text)")
    }
  }

  @Test(arguments: [
    (#"a(?=b(?<=ab))"#, "a lookahead"), (#"a(?=^b|c)"#, "a lookahead"), (#"a(?=\bb)"#, "a lookahead"),
    (#"(?<=a$)b"#, "a lookbehind"), (#"(?<=a(?!c))b"#, "a lookbehind"),
  ])
  func `what looks both ways is refused by name`(_ expression: String, _ name: String) {
    #expect {
      try ByteNFA.automaton(RegexParser.parse(expression), spelling: .plain, anywhere: true)
    } throws: { error in
      if case GrammarError.unsupported(let keyword, _, _) = error { keyword == name } else { false }
    }
  }

  @Test(arguments: [
    String(repeating: "(?=a|b)", count: 3) + (0..<80).map { "(?!a{\($0)}c)." }.joined(),
    "^(?:(?!a[ab]{25}c)[abc])*$", "(?:(?=(?:a|b)*a(?:a|b){40}).)*x",
  ])
  func `what explodes is refused in time`(_ expression: String) {
    #expect {
      try ByteNFA.automaton(RegexParser.parse(expression), spelling: .plain, anywhere: true)
    } throws: { error in
      if case GrammarError.tooLarge = error { true } else { false }
    }
  }
}
