// Where a passage is in its file: lines of the file, and not those of the text that is made of it.

import JSON
import Platform
import Support
import Testing
import Vectors

@testable import Search

@Suite struct PlaceTests {
  /// The line of the file for the place of a word in what becomes of it.
  private func line(of word: String, in file: String, _ name: String) throws -> Int? {
    let (source, lines) = try FileReader.readWithLines(Array(file.utf8), name: name)
    guard let range = source.text.firstRange(of: Array(word.utf8)) else { return nil }
    let place = range.lowerBound
    return lines?.line(at: place) ?? 1 + source.text[..<place].count { $0 == UInt8(ascii: "\n") }
  }

  @Test func `values are at the lines at which the file has them`() throws {
    let table = "name,note\n\nAnna,\"one\ntwo \"\"2\"\"\nthree\"\nBob,last\n"
    for (word, expected) in [("Anna", 3), ("one", 3), ("two", 4), ("three", 5), ("Bob", 6), ("last", 6)] {
      #expect(try line(of: word, in: table, "x.csv") == expected, "\(word)")
    }
    #expect(try line(of: "four", in: "a\tb\r\n1\ttwo\r\n3\tfour\r\n", "x.tsv") == 3)
    let json = "{\n  \"a\": \"first\",\n  \"b\": {\n    \"c\": [\n      1,\n      \"second\"\n    ]\n  }\n}\n"
    #expect(try line(of: "first", in: json, "x.json") == 2)
    #expect(try line(of: "second", in: json, "x.json") == 6)
    #expect(try line(of: "third", in: "[{\"a\":\"one\\nline\"},\n\n{\"b\":\"third\"}]", "x.json") == 3)
    let lines = "{\"a\":1,\"b\":\"x\\ny\"}\n\nno json\n{\"c\":\"last\"}"
    for (word, expected) in [("y", 1), ("no json", 3), ("last", 4)] {
      #expect(try line(of: word, in: lines, "x.jsonl") == expected, "\(word)")
    }
    let notebook =
      "{\"cells\": [\n{\"source\": [\"# T\\n\",\n \"body\"]},\n{\"source\":\"end\"}],\n\"nbformat\": 4}"
    #expect(try line(of: "body", in: notebook, "x.json") == 3)
    #expect(try line(of: "end", in: notebook, "x.json") == 4)
    let page =
      "<html>\n<!--\n-->\n<p>one\ntwo &amp;\nthree</p>\n\n<ul><li>\n\nfour</ul><pre>\nfive\n six</pre>"
    for (word, expected) in [("one", 4), ("two", 5), ("three", 6), ("four", 10), ("five", 11), ("six", 12)] {
      #expect(try line(of: word, in: page, "x.html") == expected, "\(word)")
    }
    // What is no JSON, and what is no made text, has the lines of its text.
    #expect(try line(of: "two", in: "{broken\ntwo", "x.json") == 2)
    #expect(try line(of: "two", in: "one\r\ntwo", "x.md") == 2)
  }

  @Test(arguments: ["csv", "tsv", "json", "jsonl", "html"])
  func `every word of a file by chance is at its line`(kind: String) throws {
    var random = SeededGenerator(seed: 3)
    for _ in 0..<40 {
      var words: [String] = []
      func word() -> String {
        words.append("w\(words.count)x")
        return words[words.count - 1]
      }
      func spaces() -> String {
        String(
          (0..<Int.random(in: 0...2, using: &random)).map { _ in Bool.random(using: &random) ? " " : "\n" })
      }
      func cell(_ separator: String) -> String {
        switch Int.random(in: 0..<4, using: &random) {
        case 0: "\"\(word())\n\n\(word()) \"\"\n\(word())\(separator)\""
        case 1: ""
        default: word()
        }
      }
      func value(_ depth: Int) -> String {
        switch Int.random(in: 0..<(depth > 3 ? 2 : 5), using: &random) {
        case 0: "\"\(word()) \\n \(word())\""
        case 1: "null"
        case 2: "[" + (0..<3).map { _ in spaces() + value(depth + 1) }.joined(separator: ",") + "]"
        default:
          "{"
            + (0..<2).map { "\(spaces())\"k\($0)\"\(spaces()):\(spaces())" + value(depth + 1) }.joined(
              separator: ",") + spaces()
            + "}"
        }
      }
      let count = Int.random(in: 1...12, using: &random)
      let file: String =
        switch kind {
        case "csv", "tsv":
          "a,b,c\n".replacing(",", with: kind == "csv" ? "," : "\t")
            + (0..<count).map { _ in
              let separator = kind == "csv" ? "," : "\t"
              return (0..<3).map { _ in cell(separator) }.joined(separator: separator) + spaces() + "\n"
            }.joined()
        case "json": "[" + (0..<count).map { _ in value(0) }.joined(separator: ",\n") + "]"
        case "jsonl": (0..<count).map { _ in value(0).filter { $0 != "\n" } + "\n" + spaces() }.joined()
        default:
          (0..<count * 3).map { _ in
            let tags = [
              "<p>", "<li>", "<h2>", "<br>", "<b>", "</p>", "<pre>", "</pre>", "<!-- \n -->", "<td>", "&amp;",
              "<i\n>",
            ]
            return (tags.randomElement(using: &random) ?? "") + spaces() + word() + " " + spaces()
          }.joined()
        }
      for word in words {
        let place = try #require(file.firstRange(of: word))
        let expected = 1 + file[..<place.lowerBound].count { $0 == "\n" }
        #expect(try line(of: word, in: file, "x." + kind) == expected, "\(word) in \(file)")
      }
    }
  }

  @Test func `places are those of the file as it is now, or none`() throws {
    let folder = "/tmp/mlxserve-places-\(getpid())"
    defer { try? File.removeAll(folder) }
    try File.makeFolders(folder)
    func write(_ name: String, _ text: String) throws {
      try File.replace(folder + "/" + name, with: Array(text.utf8))
    }
    try write("table.csv", "a,b\n1,2\n\n\n3,tarts\n")
    try write("note.md", "# T\n\n\nthe tarts\n")
    let encoder = FakeEncoder()
    let index = try VectorIndex(
      folder: "/i", fingerprint: "f", dimensions: encoder.dimensions, files: SimulatedDisk())
    _ = try FolderIndex(folder, index: index, encoder: encoder).update()
    let pages = SourceText(Array("first page\u{0C}second page\n\u{0C}third tarts\n\u{0C}".utf8), kind: .plain)
    _ = try DocumentIndexer(index: index, encoder: encoder).index(
      pages, key: "a.pdf", info: [], rules: SplitRules(tokens: 2, overlap: 1))
    func places() throws -> [String: FilePlace?] {
      var places = FilePlaces(folder, view: index.view)
      var found: [String: FilePlace?] = [:]
      for document in index.view.documents {
        for passage in try index.view.passages(of: document.key) {
          guard let at = passage.text.firstRange(of: Array("tarts".utf8)) else { continue }
          found.updateValue(places.place(of: passage, at: at.lowerBound), forKey: document.key)
        }
      }
      return found
    }
    #expect(try places() == ["table.csv": .line(5), "note.md": .line(4), "a.pdf": .page(3)])
    // The same rows at other lines are found; other rows are not taken for them.
    try write("table.csv", "a,b\n\n1,2\n\n\n3,tarts\n")
    #expect(try places()["table.csv"] == .line(6))
    try write("table.csv", "a,b\n1,22\n3,tarts\n")
    #expect(try places()["table.csv"] == .some(nil))
    unlink(folder + "/table.csv")
    #expect(try places()["table.csv"] == .some(nil))
  }
}
