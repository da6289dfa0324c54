// Texts are cut at good places, lose no byte, and fit the model.

import Support
import Testing

@testable import Search

@Suite struct SplitterTests {
  private let count: @Sendable (String) -> Int = { $0.split(whereSeparator: \.isWhitespace).count }

  private func split(_ text: String, _ rules: SplitRules, window: Int = 1_000, kind: TextKind = .markdown)
    -> [String]
  {
    let source = SourceText(Array(text.utf8), kind: kind)
    return Splitter(rules, windowTokens: window, count: count).passages(source)
      .map { String(decoding: source.text[$0.range], as: UTF8.self) }
  }

  @Test func `passages without overlap are the text`() {
    var random = SeededGenerator(seed: 2)
    let pieces = [
      "word ", "longer words here. ", "\n", "\n\n", "# Heading\n", "- item\n", "```\ncode\n```\n", "漢字かな。",
      "é ", "x\u{0C}",
    ]
    for kind in TextKind.allCases {
      for _ in 0..<100 {
        let text = (0..<80).map { _ in pieces.randomElement(using: &random) ?? "" }.joined()
        for tokens in [1, 5, 17, 100] {
          #expect(split(text, SplitRules(tokens: tokens, overlap: 0), kind: kind).joined() == text)
        }
      }
    }
  }

  @Test func `passages keep to their size`() {
    let text = (0..<300).map { "word\($0)" }.joined(separator: " ") + "."
    let parts = split(text, SplitRules(tokens: 40, overlap: 10))
    #expect(parts.count > 7)
    #expect(parts.allSatisfy { count($0) <= 40 })
  }

  @Test func `headings, paragraphs and fences are where cuts are made`() {
    let section = String(repeating: "some words of text here\n", count: 4)
    let text = "# One\n\n\(section)\n# Two\n\n\(section)"
    let parts = split(text, SplitRules(tokens: 25, overlap: 0))
    #expect(parts.count == 2 && parts[1].hasPrefix("# Two"))
    let fenced =
      "intro words here now\n\n```\n\(String(repeating: "a b c\n", count: 6))```\n\nafter the code come words\n"
    let cut = split(fenced, SplitRules(tokens: 24, overlap: 0))
    #expect(
      cut.contains { $0.contains("```\na b c") && $0.hasSuffix("```\n\n") || $0.components("```") == 2 })
    let code = "func a() {\n  x y z\n}\n\nfunc b() {\n  x y z\n}\n"
    #expect(
      split(code, SplitRules(tokens: 9, overlap: 0), kind: .code) == [
        "func a() {\n  x y z\n}\n\n", "func b() {\n  x y z\n}\n",
      ])
  }

  @Test func `a passage knows the headings above it`() {
    let text =
      "# Top\n\nintro text\n\n## Inner\n\none two three four\n\nfive six seven eight\n\n# Next\n\nlast words here\n"
    let source = SourceText(Array(text.utf8), kind: .markdown)
    let passages = Splitter(SplitRules(tokens: 6, overlap: 0), windowTokens: 100, count: count).passages(
      source)
    let found = passages.map { (String(decoding: source.text[$0.range], as: UTF8.self), $0.heading) }
    #expect(found.contains { $0.0.hasPrefix("five") && $0.1 == "Top > Inner" })
    #expect(found.contains { $0.0.contains("# Next") && $0.1 == "" }, "\(found)")
    #expect(passages.first { $0.heading == "Top > Inner" }?.windows.first?.hasPrefix("Top > Inner\n") == true)
  }

  @Test func `a passage longer than the model takes has several windows`() {
    let text = (0..<100).map { "w\($0)" }.joined(separator: " ")
    let source = SourceText(Array(text.utf8), kind: .plain)
    let passages = Splitter(SplitRules(tokens: 800, overlap: 400), windowTokens: 30, count: count).passages(
      source)
    #expect(passages.count == 1)
    #expect(passages[0].windows.count >= 4 && passages[0].windows.allSatisfy { count($0) <= 30 })
    #expect(
      passages[0].windows.last?.contains("w99") == true && passages[0].windows.first?.contains("w0 ") == true)
  }

  @Test func `sentences end where they end`() {
    func sentences(_ text: String) -> [String] {
      let bytes = Array(text.utf8)
      var start = 0
      return Sentences.ends(bytes, 0..<bytes.count).map { end in
        defer { start = end }
        return String(decoding: bytes[start..<end], as: UTF8.self)
      }
    }
    #expect(sentences("One. Two! \"Three?\" Four") == ["One. ", "Two! ", "\"Three?\" ", "Four"])
    #expect(
      sentences("Mr. Smith paid 3.50. Then e.g. left.") == ["Mr. Smith paid 3.50. ", "Then e.g. left."])
    #expect(sentences("今日は。明日！") == ["今日は。", "明日！"])
    #expect(sentences("line\nline") == ["line\n", "line"])
    #expect(sentences("") == [""] || sentences("").isEmpty)
  }
}

extension String {
  fileprivate func components(_ separator: String) -> Int {
    var count = 0
    var rest = self[...]
    while let range = rest.firstRange(of: separator) {
      count += 1
      rest = rest[range.upperBound...]
    }
    return count
  }
}
