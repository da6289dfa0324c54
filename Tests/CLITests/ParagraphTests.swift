// Text and tables that fit into a terminal, whatever its width.

import Testing

@testable import CLI

@Suite struct ParagraphTests {
  @Test func `words are broken into lines under the first, and long ones stay whole`() {
    #expect(
      Paragraph.wrapped("one two three four five six seven", after: "  --flag", column: 10, width: 34)
        == "  --flag  one two three four five\n          six seven")
    #expect(
      Paragraph.wrapped("one two", after: "  --a-long-flag", column: 10, width: 40)
        == "  --a-long-flag  one two")
    #expect(
      Paragraph.wrapped("  usage one /a/path/that/is/longer/than/a/line two", column: 6, width: 20)
        == "  usage one\n      /a/path/that/is/longer/than/a/line\n      two")
    #expect(Paragraph.wrapped("", after: "head", column: 8, width: 80) == "head    ")
  }

  @Test func `where there is little room beside a head, the text begins below it`() {
    #expect(
      Paragraph.wrapped("one two three four five six seven", after: "  --flag", column: 30, width: 30)
        == "  --flag\n    one two three four five\n    six seven")
    #expect(Paragraph.wrapped("one two", after: "      ", column: 6, width: 20) == "    one two")
  }

  @Test func `a table gives up columns and breaks the last one where it does not fit`() {
    let (header, rows) = (
      ["NAME", "SIZE", "NOTE"], [["a", "1 GB", "good for all sorts of things and more"]]
    )
    #expect(
      Table.lines(header, rows) == ["NAME  SIZE  NOTE", "a     1 GB  good for all sorts of things and more"])
    #expect(
      Table.lines(header, rows, width: 40) == [
        "NAME  SIZE  NOTE", "a     1 GB  good for all sorts of things\n            and more",
      ])
    #expect(Table.lines(header, rows, width: 20, dispensable: [2, 1]) == ["NAME  SIZE", "a     1 GB"])
    #expect(Table.lines(header, rows, width: 7, dispensable: [2, 1]) == ["NAME", "a"])
  }
}
