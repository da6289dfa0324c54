// Answers on a terminal: wrapped words, and Markdown as styles, the same however the text is cut.

import Testing

@testable import CLI

struct AnswerTextTests {
  private func shown(_ text: String, columns: Int? = 20, markdown: Bool = true, pieces: Int = .max) -> String
  {
    var answer = AnswerText(.init(columns: columns, isMarkdown: markdown))
    var out = ""
    var rest = Substring(text)
    while !rest.isEmpty {
      out += answer.feed(String(rest.prefix(pieces)))
      rest = rest.dropFirst(pieces)
    }
    return out + answer.finish()
  }

  @Test func `what a terminal would obey is replaced, and line breaks stay in an answer`() {
    let text = "a\u{1B}[2Jb\nc\u{9B}1m\td\re\u{7}"
    #expect(Terminal.safe(text) == "a\u{FFFD}[2Jb\u{FFFD}c\u{FFFD}1m\td\u{FFFD}e\u{FFFD}")
    #expect(Terminal.safe(text, keepsLines: true) == "a\u{FFFD}[2Jb\nc\u{FFFD}1m\td\u{FFFD}e\u{FFFD}")
    #expect(Terminal.safe("né 👩‍👩‍👧\n", keepsLines: true) == "né 👩‍👩‍👧\n")
    // A name that would be shown as another; marks between letters stay.
    #expect(Terminal.safe("a\u{202E}fdp.exe\u{200F}\u{2067}") == "a\u{FFFD}fdp.exe\u{200F}\u{FFFD}")
  }

  private func plain(_ text: String) -> String {
    var out = ""
    var isEscape = false
    for character in text {
      if character == "\u{1B}" { isEscape = true }
      if !isEscape { out.append(character) }
      if isEscape, character == "m" { isEscape = false }
    }
    return out
  }

  @Test func `a pipe gets the text as it is`() {
    let text = "# A *b*\n\n- `c`  d\n\n```\n x  y\n```\n| a | b |\n tail "
    #expect(shown(text, columns: nil, markdown: false) == text)
  }

  @Test func `words wrap at the border, code does not`() {
    #expect(shown("one two three four five six") == "one two three four\nfive six")
    #expect(shown("你好你好你好你好你好你好") == "你好你好你好你好你好\n你好")
    #expect(plain(shown("- one two three four five")) == "• one two three four\n  five")
    let code = "```\nlet a = 1 + 2 + 3 + 4 + 5 + 6\n```"
    #expect(plain(shown(code)) == code)
    let table = "| a | b | c | d | e | f | g |"
    #expect(shown(table) == table)
  }

  @Test func `marks become styles`() {
    #expect(shown("a **b c** d") == "a \u{1B}[1mb c\u{1B}[22m d")
    #expect(shown("*it* _it_") == "\u{1B}[3mit\u{1B}[23m \u{1B}[3mit\u{1B}[23m")
    #expect(shown("`x*y*` z") == "\u{1B}[36mx*y*\u{1B}[39m z")
    #expect(shown("## Head\nx") == "\u{1B}[1mHead\u{1B}[0m\nx")
    #expect(plain(shown("> said")) == "│ said")
    #expect(plain(shown(#"\*no\*"#)) == "*no*")
  }

  private func coloured(_ code: String, _ language: String) -> String {
    let text = shown("```\(language)\n\(code)\n```", columns: 100)
    #expect(plain(text) == "```\(language)\n\(code)\n```")
    return text.split(separator: "\n").dropFirst().dropLast().joined(separator: "\n").replacing(
      "\u{1B}[39m", with: ">"
    ).replacing("\u{1B}[", with: "<")
  }

  @Test func `code has colours`() {
    #expect(coloured("def f(x):  # one's", "python") == "<35mdef> f(x):  <90m# one's>")
    #expect(
      coloured(#"print("a # b\"c", 'd', 12.5)"#, "py") == #"print(<32m"a # b\"c">, <32m'd'>, <33m12>.<33m5>)"#
    )
    #expect(coloured("let x = 1 // no\ny", "swift") == "<35mlet> x = <33m1> <90m// no>\ny")
    #expect(coloured("/* a\nb */ if", "c") == "<90m/* a\nb */> <35mif>")
    #expect(coloured("fn f<'a>(x: &'a str) -> 'b' {}", "rust") == "<35mfn> f<'a>(x: &'a str) -> 'b' {}")
    #expect(coloured("SELECT a -- b\nfrom t", "sql") == "<35mSELECT> a <90m-- b>\n<35mfrom> t")
    #expect(coloured("echo $# a#b http://x # c", "sh") == "echo $# a#b http://x <90m# c>")
    #expect(coloured(#"{"a": true, "b": 1}"#, "json") == #"{<32m"a">: <35mtrue>, <32m"b">: <33m1>}"#)
    #expect(coloured("+in\n-out\n - same", "diff") == "<32m+in>\n<31m-out>\n - same")
    #expect(coloured(#"f"{a}" if"#, "py") == #"f<32m"{a}"> <35mif>"#)
    let long = "x = \"\"\"a\n \"b\" if\n\"\"\" if"
    #expect(coloured(long, "py") == "x = <32m\"\"\"a\n \"b\" if\n\"\"\"> <35mif>")
    // A string that has no end ends with its line; what names no known language is plain.
    #expect(coloured("x = \"open\nfor", "python") == "x = <32m\"open>\n<35mfor>")
    for language in ["", "text", "brainf"] { #expect(coloured("if \"x\" # y", language) == "if \"x\" # y") }
    #expect(shown("```py\n\"open").hasSuffix("\"open\u{1B}[39m"))
    // Nothing that the code has left open colours what comes after it.
    #expect(
      shown("```c\n/* open\n```\nx")
        == "\u{1B}[2m```c\u{1B}[22m\n\u{1B}[90m/* open\n\u{1B}[39m\u{1B}[2m```\u{1B}[22m\nx")
    #expect(shown("```py\nif x\n```", markdown: false) == "```py\nif x\n```")
  }

  @Test func `an answer goes on at the width that the window has now`() {
    var answer = AnswerText(.init(columns: 20))
    let first = answer.feed("one two three four five ")
    answer.style.columns = 9
    #expect(
      first + answer.feed("six seven eight ") + answer.finish()
        == "one two three four\nfive six\nseven\neight")
  }

  @Test func `code in a list ends where its fence does`() {
    let text = "- a\n  ```sh\n  x **y\n  ```\n- **b**"
    #expect(shown(text).hasSuffix("• \u{1B}[1mb\u{1B}[22m"))
    #expect(shown("**你好** x") == "\u{1B}[1m你好\u{1B}[22m x")
  }

  @Test(arguments: [
    "__init__", "2**10", "snake_case_name", "a*b*c", "f(**kwargs)", "x ** y", "* * *", "5 * 3",
  ])
  func `what looks like a mark and is none stays`(text: String) {
    let kept = plain(shown("see " + text))
    #expect(kept == "see " + text || kept == "see " + text.replacing("*", with: ""), "\(kept)")
    if !text.contains("*b*") && !text.contains("kwargs") { #expect(kept == "see " + text) }
  }

  @Test func `styles do not leak past their paragraph or the answer`() {
    #expect(shown("**open\n\nnext") == "\u{1B}[1mopen\n\u{1B}[0m\nnext")
    #expect(shown("**open") == "\u{1B}[1mopen\u{1B}[0m")
  }

  @Test func `how the text is cut makes no difference`() {
    let text =
      "# T\n\nSome **bold words** and `code` here, 你好 and more.\n\n1. one\n2. two\n\n```swift\nlet x = \"a b\" // c\n/* d e */\n```\nend."
    let whole = shown(text)
    for pieces in [1, 2, 3, 7] { #expect(shown(text, pieces: pieces) == whole, "\(pieces)") }
  }
}
