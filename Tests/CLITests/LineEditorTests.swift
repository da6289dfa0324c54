// Keys from bytes, and the text under edit: characters of every width, several lines, and pictures of them.

import Platform
import Testing

@testable import CLI

struct LineEditorTests {
  private func keys(_ text: String) -> [Key] {
    var decoder = KeyDecoder()
    return decoder.feed(Array(text.utf8))
  }

  @Test func `keys come from their bytes, whole or in pieces`() {
    #expect(keys("aé你") == [.text("aé你")])
    #expect(keys("\u{1B}[A\u{1B}[B\u{1B}OC\u{1B}[D") == [.up, .down, .right, .left])
    #expect(
      keys("\u{1B}[1;5C\u{1B}b\u{1B}f\u{1B}[3~\u{1B}[H\u{1B}[4~") == [
        .wordRight, .wordLeft, .wordRight, .delete, .home, .end,
      ])
    #expect(
      keys("\r\n\u{1B}\r\u{7F}\u{3}\u{4}") == [
        .enter, .newLine, .newLine, .backspace, .interrupt, .endOfInput,
      ])
    var decoder = KeyDecoder()
    let pieces: [([UInt8], [Key], Bool)] = [
      ([0xE4, 0xBD], [], true), ([0xA0, 0x1B], [.text("你")], true), (Array("[A".utf8), [.up], false),
      ([0x1B], [], true),
    ]
    for (bytes, expected, isWaiting) in pieces {
      let keys = decoder.feed(bytes)
      #expect(keys == expected)
      #expect(decoder.isWaiting == isWaiting)
    }
    decoder.expire()
    let after = decoder.feed(Array("x".utf8))
    #expect(after == [.text("x")])
    // What is no UTF-8 does not stop what follows.
    let strange = decoder.feed([0xFF, 0x61])
    #expect(strange.count == 1)
  }

  @Test func `a paste is one key, however many lines it has and wherever it is cut`() {
    let bytes = Array("\u{1B}[200~one\r\ntwo\rthree\u{1B}[201~x".utf8)
    for cut in 0...bytes.count {
      var decoder = KeyDecoder()
      let keys = decoder.feed(Array(bytes[..<cut])) + decoder.feed(Array(bytes[cut...]))
      #expect(keys == [.paste("one\ntwo\nthree"), .text("x")], "\(cut)")
    }
    var decoder = KeyDecoder()
    #expect(bytes.flatMap { decoder.feed([$0]) } == [.paste("one\ntwo\nthree"), .text("x")])
  }

  private func edited(_ keys: [Key], _ text: String = "") -> EditedText {
    var edited = EditedText(text)
    for key in keys { _ = edited.apply(key) }
    return edited
  }

  @Test func `keys edit characters, not bytes`() {
    #expect(edited([.backspace], "né").text == "n")
    #expect(edited([.backspace], "a👨‍👩‍👧").text == "a")
    #expect(edited([.left, .text("b"), .text("c")], "ad").text == "abcd")
    #expect(edited([.home, .delete, .end, .text("!")], "xab").text == "ab!")
    #expect(edited([.deleteWord], "one two  ").text == "one ")
    #expect(edited([.deleteWord, .yank, .yank], "one two").text == "one twotwo")
    #expect(edited([.wordLeft, .deleteToStart], "one two").text == "two")
    #expect(edited([.wordLeft, .wordLeft, .wordRight, .deleteToEnd], "one two").text == "one")
    // What combines with the character before is one with it.
    let combined = edited([.text("e"), .text("\u{301}")])
    #expect(combined.characters.count == 1 && combined.cursor == 1)
    #expect(edited([.left, .left, .left, .backspace, .delete], "a").text == "")
  }

  @Test func `what was pasted is told from what was typed, word by word`() {
    typealias Part = TypedText.Part
    func parts(_ keys: [Key]) -> [Part] { edited(keys).typed.parts }
    #expect(parts([.text("see @a b")]) == [Part(text: "see @a b", isTyped: true)])
    #expect(
      parts([.text("sum up "), .paste("one\n@two"), .newLine, .text("@three")]) == [
        Part(text: "sum up ", isTyped: true), Part(text: "one\n@two\n", isTyped: false),
        Part(text: "@three", isTyped: true),
      ])
    // A word is what its first character is.
    #expect(
      parts([.text("@"), .paste("/a\\ b/c.txt @d")]) == [
        Part(text: "@/a\\ b/c.txt ", isTyped: true), Part(text: "@d", isTyped: false),
      ])
    #expect(parts([.paste("a@"), .text("b c")]).map(\.text) == ["a@b ", "c"])
    #expect(parts([.paste("@x "), .text("y"), .home, .text("z")]).map(\.isTyped) == [true])
    // It stays so wherever the text goes.
    let moved = parts([.paste("@x @y"), .deleteToStart, .text("a "), .yank])
    #expect(moved == [Part(text: "a ", isTyped: true), Part(text: "@x @y", isTyped: false)])
    #expect(parts([.paste("@x"), .text("\u{301} y")]).map(\.text) == ["@x\u{301} ", "y"])
    #expect(parts([.text("👨‍👩‍👧 "), .paste("🇩"), .text("🇪 @é")]).map(\.text) == ["👨‍👩‍👧 ", "🇩🇪 ", "@é"])
  }

  @Test func `the history keeps what was pasted`() throws {
    let path = "/tmp/mlxserve-history-\(getpid())"
    defer { try? File.removeAll(path) }
    var mixed = TypedText(data: "@pasted ")
    mixed.add("@typed", isTyped: true)
    var history = LineHistory(path: path)
    for text in [TypedText(typed: "one"), mixed, mixed, TypedText(data: "two\nlines")] { history.add(text) }
    let read = LineHistory(path: path).texts
    #expect(read == [TypedText(typed: "one"), mixed, TypedText(data: "two\nlines")])
    #expect(
      try File.read(path, limit: 1_000)
        == Array("\"one\"\n[\"\",\"@pasted \",\"@typed\"]\n[\"\",\"two\\nlines\"]\n".utf8))
  }

  @Test func `up and down move in the text before they leave it`() {
    var text = EditedText("first\nsecond")
    let isMoved = [.up, .text("X"), .up, .down, .down].map { (key: Key) in text.apply(key) }
    #expect(isMoved == [true, true, false, true, false])
    #expect(text.text == "firstX\nsecond")
  }

  @Test func `a picture has the columns of the terminal, whatever the characters`() {
    let wide = EditedText("你好ab").picture(prompt: "> ", columns: 6)
    #expect(wide.rows == ["> 你好", "ab"] && wide.row == 1 && wide.column == 2)
    // A wide character does not straddle the border.
    #expect(EditedText("abc你").picture(prompt: "> ", columns: 6).rows == ["> abc", "你"])
    let full = EditedText("abcd").picture(prompt: "> ", columns: 6)
    #expect(full.rows == ["> abcd", ""] && full.row == 1 && full.column == 0)
    let lines = EditedText("a\nb").picture(prompt: ">>> ", columns: 40)
    #expect(lines.rows == [">>> a", "    b"] && lines.row == 1 && lines.column == 5)
    #expect(EditedText("a\u{1B}[2Jb").picture(prompt: "", columns: 40).rows == ["a\u{FFFD}[2Jb"])
  }

  @Test func `a picture breaks between words`() {
    func rows(_ text: String, columns: Int = 12) -> [String] {
      EditedText(text).picture(prompt: ">>> ", columns: columns).rows
    }
    #expect(rows("one two three") == [">>> one two ", "three"])
    // The space at the border is on neither row.
    #expect(rows("one four three") == [">>> one four", "three"])
    // What no row has room for is broken where it must be.
    #expect(rows("a bbbbbbbbbbbbbbbb") == [">>> a bbbbbb", "bbbbbbbbbb"])
    #expect(rows("bbbbbbbbb ccc") == [">>> bbbbbbbb", "b ccc"])
    #expect(rows("ab 你好吗 cd") == [">>> ab 你好", "吗 cd"])
    var text = EditedText("one four three")
    for _ in 0..<5 { _ = text.apply(.left) }
    let picture = text.picture(prompt: ">>> ", columns: 12)
    #expect((picture.row, picture.column) == (1, 0))
  }

  @Test func `rows that a narrower window breaks are counted`() {
    let picture = EditedText("one two three four five").picture(prompt: ">>> ", columns: 16)
    #expect(picture.rows == [">>> one two ", "three four five"] && picture.row == 1)
    #expect(picture.rowsAbove(columns: 16) == 1 && picture.rowsAbove(columns: 40) == 1)
    #expect(picture.rowsAbove(columns: 6) == 2 + 2)
  }

  @Test(arguments: [
    ("a", 1), ("é", 1), ("e\u{301}", 1), ("你", 2), ("한", 2), ("👍🏽", 2), ("🇩🇪", 2), ("❤️", 2), ("\u{200B}", 0),
  ])
  func `characters have their columns`(text: String, columns: Int) {
    #expect(TextWidth.of(text) == columns)
  }
}

extension EditedText {
  fileprivate init(_ text: String) { self.init(TypedText(typed: text)) }
}
