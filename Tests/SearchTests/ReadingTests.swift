// Files of every kind become text, or say why not.

import Platform
import Support
import Testing

@testable import Search

@Suite struct ReadingTests {
  private func read(_ text: String, _ name: String) throws -> String {
    String(decoding: try FileReader.read(Array(text.utf8), name: name).text, as: UTF8.self)
  }

  private func refusal(_ bytes: [UInt8], _ name: String) -> SearchError? {
    do throws(SearchError) { _ = try FileReader.read(bytes, name: name) } catch { return error }
    return nil
  }

  @Test func `text and Markdown stay as they are, with line ends of one byte`() throws {
    #expect(try read("a\r\nb\rc\n", "x.txt") == "a\nb\nc\n")
    #expect(try read("# Title\n\ntext", "x.md") == "# Title\n\ntext")
    #expect(try FileReader.read(Array("# a".utf8), name: "X.MD").kind == .markdown)
    #expect(try FileReader.read(Array("let a = 1".utf8), name: "x.swift").kind == .code)
    #expect(try read("\u{FEFF}bom", "x.txt") == "bom")
    let wide: [UInt8] = [0xFF, 0xFE, 0x68, 0, 0xE9, 0]
    #expect(try FileReader.read(wide, name: "x.txt").text == Array("hé".utf8))
  }

  @Test func `names in front of values make no text without end`() throws {
    let name = String(repeating: "n", count: 100_000)
    let numbers = "[" + String(repeating: "1,", count: 2_000) + "1]"
    let object = "{\"\(name)\":\(numbers)}"
    let rows = String(repeating: "1\n", count: 2_000)
    for (text, file) in [
      (object, "x.json"), ("[\(object)]", "x.json"), (object, "x.jsonl"), (name + "\n" + rows, "x.csv"),
    ] {
      guard case .invalidFile(let words) = refusal(Array(text.utf8), file) else {
        Issue.record("\(file) is read")
        continue
      }
      #expect(words.contains("64 MiB"))
    }
  }

  @Test func `a page becomes its text`() throws {
    let page = """
      <!DOCTYPE html><html><head><title>The &amp; title</title><style>p { color: red }</style></head>
      <body><h1>Top</h1><p>One <b>bold</b>
      word.</p><script>if (a < b) { document.write("</p>") }</script><ul><li>first<li>second</ul>
      <table><tr><td>a</td><td>b</td></tr></table><!-- no <p> here --><pre>  kept
        so</pre>&eacute;&#233;&#xE9;&hellip; a &b c<br>end</body></html>
      """
    #expect(
      try read(page, "x.html")
        == """
        The & title

        # Top

        One bold word.

        - first
        - second

        a\tb

          kept
          so

        ééé… a &b c
        end

        """)
  }

  @Test func `broken pages end`() {
    for page in [
      "<p", "<a href='", "<!-- ", "<script>x", "&#xFFFFFFFF;", "&#0;a", "<<<>>>", "<p>a</", "&amp",
      String(repeating: "<a<a", count: 20_000), "<script>" + String(repeating: "</a", count: 50_000),
    ] { _ = try? read(page + " text", "x.html") }
  }

  @Test func `JSON and tables become records`() throws {
    #expect(
      try read(#"[{"a":1,"b":{"c":["x","y"]}},{"a":null,"d":true}]"#, "x.json")
        == "a: 1\nb.c: x\nb.c: y\n\nd: true\n\n")
    #expect(try read("{\"a\":1}\nnot json\n\n{\"b\":\"t\"}", "x.jsonl") == "a: 1\n\nnot json\n\nb: t\n\n")
    #expect(try read("{broken", "x.json") == "{broken")
    func nested(_ depth: Int) -> String {
      String(repeating: "[", count: depth) + "1,\"a\"" + String(repeating: "]", count: depth)
    }
    #expect(try read(nested(128), "x.json") == "1\na\n\n")
    #expect(try read(nested(130), "x.json") == nested(130))
    #expect(try read("{\"a\":1}\n" + nested(130), "x.jsonl") == "a: 1\n\n" + nested(130) + "\n\n")
    #expect(
      try read("name,note\nA,\"said \"\"hi\"\",\nthen\"\nB,\n", "x.csv")
        == "name: A\nnote: said \"hi\",\nthen\n\nname: B\n\n")
    #expect(try read("a\tb\n1\t2\n", "x.tsv") == "a: 1\nb: 2\n\n")
    let notebook = ##"{"nbformat":4,"cells":[{"source":["# T\n","x"]},{"source":"y"}]}"##
    #expect(try read(notebook, "x.json") == "# T\nx\n\ny\n\n")
  }

  @Test func `what is no text is refused with the reason`() throws {
    #expect(refusal([], "x.txt") == .invalidFile("the file is empty"))
    #expect(refusal(Array(" \n".utf8), "x.txt") == .invalidFile("the file holds only white space"))
    #expect(refusal([0x61, 0, 0x62], "x.txt") == .unsupportedFile("the file is binary, not text"))
    #expect("\(try #require(refusal([0x61, 0xC3, 0x28], "x.txt")))".contains("UTF-8"))
    #expect("\(try #require(refusal([0x61], "x.docx")))".contains(".docx"))
    let isThere = ChildProcess.find("pdftotext") != nil
    let words = "\(try #require(refusal(Array("%PDF-1.4 nothing".utf8), "x.pdf")))"
    #expect(words.contains(isThere ? "pdftotext cannot read the file" : "not installed"))
    #expect(FileReader.reads("a.md") && FileReader.reads("Makefile") && !FileReader.reads("a.png"))
  }

  @Test
  func `a small PDF that wants much memory is refused with the reason, and one that is claimed for is read`()
    throws
  {
    guard ChildProcess.find("pdftotext") != nil else { return }
    func pdf(_ objects: [String], size: Int, xref: String? = nil) -> [UInt8] {
      var text = "%PDF-1.4\n"
      var places: [String] = []
      for (index, object) in objects.enumerated() {
        let place = String(text.utf8.count)
        places.append(String(repeating: "0", count: 10 - place.utf8.count) + place + " 00000 n \n")
        text += "\(index + 1) 0 obj\(object)endobj\n"
      }
      let start = text.utf8.count
      text += xref ?? "xref\n0 \(objects.count + 1)\n0000000000 65535 f \n" + places.joined()
      return Array((text + "trailer<</Root 1 0 R/Size \(size)>>\nstartxref\n\(start)\n%%EOF\n").utf8)
    }
    #if os(Linux)
      // It takes 1.1 GiB where nothing bounds it.
      let bomb = pdf(
        ["<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Count 0/Kids[]>>"], size: 30_000_000,
        xref: "xref\n29999999 1\n0000000000 65535 f \n")
      #expect(bomb.count < 232)
      let reason = "\(try #require(refusal(bomb, "x.pdf")))"
      #expect(reason.contains("it may take 32 MiB of memory and 5 seconds"))
    #endif
    let words = "BT /F1 12 Tf 50 700 Td (a grey parrot) Tj ET"
    let small = pdf(
      [
        "<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Count 1/Kids[3 0 R]>>",
        "<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
        "<</Length \(words.utf8.count)>>stream\n\(words)\nendstream ",
        "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
      ], size: 6)
    let ledger = MemoryLedger(limit: 64 << 20)
    let text = try FileReader.read(small, name: "x.pdf", ledger: ledger).text
    #expect(String(decoding: text, as: UTF8.self).contains("a grey parrot"))
    #expect(
      ledger.snapshot().total == 0
        && ledger.snapshot().lines.contains { $0.peak == (32 << 20) + 8 * small.count })
    #expect(throws: SearchError.noMemory(bytes: (32 << 20) + 8 * small.count)) {
      try FileReader.read(small, name: "x.pdf", ledger: MemoryLedger(limit: 16 << 20))
    }
  }

  @Test func `any bytes are read or refused`() {
    var random = SeededGenerator(seed: 4)
    let alphabet = Array("<>&;/\"',\n\t{}[]:#-`abc \\".utf8) + [0xC3, 0xA9, 0xE2, 0x80]
    for name in ["x.html", "x.csv", "x.json", "x.jsonl", "x.md", "x.txt"] {
      for _ in 0..<300 {
        let bytes = (0..<60).map { _ in alphabet.randomElement(using: &random) ?? 0 }
        guard let source = try? FileReader.read(bytes, name: name) else { continue }
        let splitter = Splitter(SplitRules(tokens: 5, overlap: 2), windowTokens: 8) {
          $0.split(separator: " ").count + 1
        }
        #expect(splitter.passages(source).reduce(0) { max($0, $1.range.upperBound) } == source.text.count)
      }
    }
  }
}
