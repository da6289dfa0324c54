// Answers that end with a line: too little indentation, or a line's end after some time.

import Pipeline
import Platform
import Testing

struct LineRulesTests {
  /// The text that comes of pieces, one a second, and how many of them were taken.
  private func run(_ pieces: [String], _ rules: LineRules) -> (text: String, taken: Int) {
    var rules = rules
    var text = ""
    for (second, piece) in pieces.enumerated() {
      let (more, isOver) = rules.feed(piece, at: Instant(nanoseconds: Int64(second) * 1_000_000_000))
      text += more
      if isOver { return (text, second + 1) }
    }
    return (text + rules.finish(), pieces.count)
  }

  @Test func `a line that is indented too little ends the answer before it`() {
    let rules = LineRules(indentation: 4)
    #expect(run(["a\n", "    b\n", "  c", "d"], rules) == ("a\n    b\n", 3))
    #expect(run(["a\n  ", "  b\n\n", "\t\t\t\tc\nd"], rules) == ("a\n    b\n\n\t\t\t\tc\n", 3))
    // Nothing is held back for ever.
    #expect(run(["a\n", "  "], rules) == ("a\n  ", 2))
    #expect(run(["a\nb"], LineRules()) == ("a\nb", 1))
  }

  @Test func `after its time an answer ends with its line`() {
    let rules = LineRules(seconds: 2.5)
    #expect(run(["a\n", "b\n", "c", "d", "e\nf", "g"], rules) == ("a\nb\ncde\n", 5))
    #expect(run(["a", "b", "c", "d", "e"], rules) == ("abcde", 5))
  }
}
