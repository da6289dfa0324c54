// Split expressions beside the scanners, and beside what Hugging Face's library makes of them.

import JSON
import Support
import Testing

@testable import Tokenizers

extension SplitExpression {
  fileprivate func pieces(_ text: String) -> [String] {
    let bytes = Array(text.utf8)
    var out: [String] = []
    forEachPart(bytes, 0..<bytes.count) { part, _ in out.append(String(decoding: bytes[part], as: UTF8.self))
    }
    return out
  }
}

@Suite struct SplitExpressionTests {
  /// Expression, text, and the pieces that `tokenizers` 0.23 makes with the behaviour `isolated`.
  @Test(arguments: [
    (
      ##"[0-9][0-9][0-9]"##, "a12345678",
      ["a", "123", "456", "78"]
    ),
    (
      ##"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿ]+"##, "Ça va, µ1 ok",
      ["Ça", " va", ",", " µ", "1", " ok"]
    ),
    (
      ##"\s+$"##, "a  \nb \t",
      ["a", "  ", "\nb", " \t"]
    ),
    (
      ##"[一-龥ࠀ-一가-퟿]+"##, "abc漢字かな한글x",
      ["abc", "漢字かな한글", "x"]
    ),
    (
      ##"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##,
      "a.b (c) \n\n  d+=1",
      ["a", ".b", " (", "c", ")", " \n\n", " ", " d", "+=", "1"]
    ),
    (
      ##" ?[^(\s|[.,!?…。，、।۔،])]+"##, "Hi, you. (ok|no)  x",
      ["Hi", ",", " you", ". (", "ok", "|", "no", ") ", " x"]
    ),
    (
      ##"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##,
      "漢字kana We'LL 1234!\n",
      ["漢字", "kana", " We'LL", " ", "123", "4", "!\n"]
    ),
    (
      ##"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"##,
      "I'LL go  :)\n\nok 1234",
      ["I", "'LL", " go", " ", " :)\n\n", "ok", " ", "123", "4"]
    ),
    (
      ##"\d{1,3}(?=(?:\d{3})*\b)"##, "1234567 12",
      ["1", "234", "567", " ", "12"]
    ),
    (
      ##"(?<=[a-z])(?=[A-Z])|(?<!\d)\d+(?!\d)"##, "camelCase 12 x3y",
      ["camel", "Case ", "12", " x", "3", "y"]
    ),
    (
      ##"(?i)[k-s]+|\bå"##, "KſK\u{212A} åÅ",
      ["KſK\u{212A}", " ", "å", "Å"]
    ),
    (
      ##"a*?b|a+"##, "aab aaa",
      ["aab", " ", "aaa"]
    ),
    (
      ##"(?:ab|a)(?:bc|c)?"##, "abc abbc ac",
      ["abc", " ", "abbc", " ", "ac"]
    ),
    (
      ##"(?>a+)b|a"##, "aaab aa",
      ["aaab", " ", "a", "a"]
    ),
    (
      ##"^.|.$"##, "ab\ncd\n",
      ["a", "b", "\n", "c", "d", "\n"]
    ),
    (
      ##"a*"##, "baab",
      ["b", "aa", "b"]
    ),
    (
      ##"[[:punct:]]+|[[:^alpha:]&&[^ ]]|\h+"##, "ab1 é$,x",
      ["ab1", " é", "$,", "x"]
    ),
    (
      ##"(?>a+|s)t|[aAst]+"##, "aat aas sst st",
      ["aat", " ", "aas", " ", "sst", " ", "st"]
    ),
    (
      ##"(?:ab)++a?|\S"##, "ababa abab c",
      ["ababa", " ", "abab", " ", "c"]
    ),
    (
      ##"(?:\p{L}\p{M}*+)++|\p{N}++|\s"##, "e\u{301}a 12 b",
      ["e\u{301}a", " ", "12", " ", "b"]
    ),
    (
      ##"(?>(?:a|ab)*)b|\w"##, "aabb ab",
      ["aab", "b", " ", "ab"]
    ),
    (
      ##"(?>ab|a)c|."##, "abc ac",
      ["abc", " ", "ac"]
    ),
    (
      ##"\R+|\d"##, "1\r\n\n2\u{2028}\u{B}3",
      ["1", "\r\n\n", "2", "\u{2028}\u{B}", "3"]
    ),
    (
      ##"[\p{Thai}\p{Cyrillic}]+|\p{Greek}+|\p{Latn}+"##, "Привет ไทยgrüß Ωmega",
      ["Привет", " ", "ไทย", "grüß", " ", "Ω", "mega"]
    ),
    (
      ##"\p{Old_Italic}|\p{OldItalic}+|\p{Arabic}+|\p{Common}"##, "\u{10300}\u{10301} سلام-x",
      ["\u{10300}", "\u{10301}", " ", "سلام", "-", "x"]
    ),
    (
      ##"(?>a{2,3})a|b"##, "aaaab aaab",
      ["aaaa", "b", " aaa", "b"]
    ),
    (
      ##"(?>a{2,3}?)ab|."##, "aaab",
      ["aaab"]
    ),
  ])
  func `expressions of published tokenizers and others match as the reference does`(
    _ source: String, _ text: String, _ pieces: [String]
  ) throws {
    #expect(try SplitExpression(source).pieces(text) == pieces)
  }

  private static let shared = TestData.shared.map { $0 + "/tokenizers/pretokenizer_splits.json" }

  /// Characters of every class, and those at which the known patterns part.
  private static let alphabet = Array(
    "aAbZ sStT'\u{2019} \t\n\r  09\u{BD}\u{B2}\u{663}\u{C9}\u{DF}\u{17F}\u{212A}漢かカ한\u{301}\u{308}.,!?()/\\$+-_=<>🙂\u{200D}\u{A0}\u{3000}\u{1C4}"
      .unicodeScalars)

  @Test(.enabled(if: shared != nil, "no ../shared/data"))
  func `the scanners and the expressions of the known patterns cut alike`() throws {
    let file = try JSONValue(parsing: try TestData.bytes(Self.shared ?? "", limit: 1 << 24))
    var random = SeededGenerator(seed: 25)
    for (name, entry) in file.objectValue?.entries ?? [] {
      let source = entry["regex"]?.stringValue ?? ""
      let scanner = try #require(WordScanner(pattern: source), "\(name)")
      let expression = try SplitExpression(source)
      var texts = (entry["cases"]?.arrayValue ?? []).compactMap { $0["text"]?.stringValue }
      for _ in 0..<1500 {
        let length = Int.random(in: 1...24, using: &random)
        let scalars = (0..<length).compactMap { _ in Self.alphabet.randomElement(using: &random) }
        texts.append(String(String.UnicodeScalarView(scalars)))
      }
      for text in texts {
        let bytes = Array(text.utf8)
        var wanted: [Range<Int>] = []
        scanner.split(bytes, 0..<bytes.count, into: &wanted)
        var found: [Range<Int>] = []
        expression.forEachPart(bytes, 0..<bytes.count) { part, _ in found.append(part) }
        #expect(found == wanted, "\(name): \(text.debugDescription)")
      }
    }
  }

  @Test func `GPT-2's pattern is the same with and without its scanner`() throws {
    let expression = try SplitExpression(WordScanner.gpt2Pattern)
    for text in ["I'm 12  years\n\n old!", "  \t x", "é́ 漢字 ½", ""] {
      #expect(expression.pieces(text) == WordScanner(style: .gpt2, digits: 1).pieces(text))
    }
  }

  @Test func `a large set without regard to case gains no character that is a case of none of its own`() {
    // Too large for all of its cases to be looked up.
    let large = ScalarSet([0x4E00...0x9FFF])
    #expect(large.ignoringCase == large)
    let letters = ScalarSet([0x61...0x61, 0x4E00...0x9FFF])
    #expect(letters.ignoringCase == ScalarSet([0x41...0x41, 0x61...0x61, 0x4E00...0x9FFF]))
  }

  @Test func `a run in which every attempt fails late is read a bounded number of times`() throws {
    let text = String(repeating: " ", count: 200_000) + "x"
    #expect(try SplitExpression(#"\s+$"#).pieces(text) == [text])
    let digits = String(repeating: "1", count: 30_000)
    #expect(try SplitExpression(#"\d{1,3}(?=(?:\d{3})*\b)"#).pieces(digits).count == 10_000)
  }

  @Test func `states of many threads are forgotten before they take much memory`() throws {
    // Each state is a set of places at which an `a` was read.
    let source = "[^b]*a[^b]{900}b"
    let program = try SplitProgram(RegexParser.parse(source, as: .oniguruma))
    var automaton = SplitAutomaton(program)
    var state: UInt32 = 1
    let bytes = (0..<6_000).map { _ in
      state = state &* 1_664_525 &+ 1_013_904_223
      return state >> 31 == 0 ? UInt8(ascii: "a") : UInt8(ascii: "c")
    }
    for start in [0, 1] {
      let text = bytes[start...] + Array("b".utf8)
      let parts = automaton.parts(SplitText(Array(text), 0..<text.count, program))
      let most = SplitAutomaton.threadLimit + program.operations.count
      #expect(automaton.held <= most, "\(automaton.held)")
      // A match can only end with the text, if 901 places before its end an `a` stands.
      let isMatch = text.dropLast(901).last == UInt8(ascii: "a")
      #expect(parts.count == 1 && parts[0] == (0..<text.count, isMatch))
    }
  }

  @Test(arguments: [
    (#"(a)\1"#, "a backreference at character 5"),
    ("(?:a?)++", "gives nothing back"),
    ("(?>(?:a|ab){2})b", "gives nothing back"), (#"\X"#, "it is not a regular language"),
    (#"\p{Klingon}"#, #"\p{Klingon}"#), ("a{20000}", "repeats more than 10000 times"),
    ("(a", "a '(' without a ')'"),
    ("a)", "an unmatched ')'"), ("[a", "a '[' without a ']'"), ("*a", "nothing to repeat"),
    ("(?x:a)", "an unknown flag"), ("(?:(?:a{900}){900}){900}", "it is too large"),
    ("a" + String(repeating: "*", count: 19_000), "more than 8 repetitions"),
    ("a{0}{1000}{1000}{1000}", "it is too large"),
  ])
  func `what is not possible is refused in words`(_ source: String, _ words: String) {
    #expect {
      try SplitExpression(source)
    } throws: { error in
      (error as? RegexProblem)?.words.contains(words) ?? false
    }
  }
}
