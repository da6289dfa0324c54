// Lines of passages that are imported: documents of neighbouring lines, and where a bad line is.

import Testing
import Vectors

@testable import CLI

struct PassageReaderTests {
  private let reader = PassageReader(dimensions: 2, fingerprint: "f")

  private func line(_ document: String, _ vector: String = "[1,0]") -> String {
    #"{"document":"\#(document)","text":"some text","vectors":[\#(vector)]}"#
  }

  @Test func `neighbouring lines of one document become one`() throws {
    var found: [(key: String, passages: Int, rows: Int)] = []
    let text = [line("a"), line("a"), line("b")].joined(separator: "\n")
    let count = try reader.read(Array(text.utf8), name: "x") { document, rows in
      found.append((document.key, document.passages.count, rows.count))
    }
    #expect(count == 2)
    #expect(found.map(\.key) == ["a", "b"])
    #expect(found.map(\.passages) == [2, 1] && found.map(\.rows) == [2, 1])
  }

  @Test func `the number of a bad line counts empty lines too`() {
    let text = line("a") + "\n\n\n" + line("b", "[1]") + "\n"
    #expect {
      try reader.read(Array(text.utf8), name: "x") { _, _ in }
    } throws: { error in
      let error = error as? PassageLineError
      return error?.line == 4 && error?.problem == "'vectors' has no vectors of 2 numbers"
    }
  }
}
