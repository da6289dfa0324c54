// Citations in what a model writes, and the events of searches in files as the SDK has them.

import JSON
import Support
import Testing

@testable import Wire

@Suite struct CitationTests {
  private func split(_ text: String, count: Int, by size: Int) -> [CitationSplitter.Piece] {
    var splitter = CitationSplitter(count: count)
    var pieces: [CitationSplitter.Piece] = []
    let bytes = Array(text.utf8)
    // Cut between characters, as tokens of text come.
    var characters = Array(text)[...]
    while !characters.isEmpty {
      pieces += splitter.add(String(characters.prefix(size)))
      characters = characters.dropFirst(size)
    }
    pieces += splitter.finish()
    var joined: [CitationSplitter.Piece] = []
    for piece in pieces {
      if case .text(let new) = piece, case .text(let old) = joined.last {
        joined[joined.count - 1] = .text(old + new)
      } else {
        joined.append(piece)
      }
    }
    #expect(!bytes.isEmpty || joined.isEmpty)
    return joined
  }

  @Test(arguments: [1, 2, 3, 100]) func `markers leave the text, whatever they are cut into`(size: Int) {
    #expect(
      split("One.[[1]] Two.[[2]][[3]]", count: 3, by: size) == [
        .text("One."), .citation(1), .text(" Two."), .citation(2), .citation(3),
      ])
    #expect(split("😀 é[[12]]", count: 12, by: size) == [.text("😀 é"), .citation(12)])
  }

  @Test(arguments: [1, 2, 7, 100]) func `what is no citation stays`(size: Int) {
    for text in [
      "[[9]]", "[[0]]", "[[x]]", "[[1]", "[1]", "[[", "a[[1", "[[12345]]", "[[[]]", "[[1]x]",
      "```\na[[1]]\n``` b",
    ] { #expect(split(text, count: 3, by: size) == [.text(text)], "\(text)") }
    #expect(split("[[[1]]]", count: 3, by: size) == [.text("["), .citation(1), .text("]")])
    #expect(split("a[[1]]", count: 0, by: size) == [.text("a[[1]]")])
  }
}

@Suite(.enabled(if: TestData.shared != nil, "needs the shared data")) struct FileSearchEventTests {
  @Test(arguments: ["plain", "results", "empty", "failed", "two-searches"])
  func `a replay has the golden's events`(name: String) throws {
    let path = (TestData.shared ?? "") + "/search/file_search/\(name).sse"
    var golden: [JSONValue] = []
    for line in try TestData.bytes(path).split(separator: UInt8(ascii: "\n"))
    where line.starts(with: "data: {".utf8) {
      golden.append(try JSONValue(parsing: Array(line.dropFirst(6))))
    }
    let body = try #require(golden.last?["response"]?.objectValue)
    var cuts = (body["output"]?.arrayValue ?? []).map { _ in ResponseEventWriter.Cuts() }
    for event in golden {
      guard let index = event["output_index"]?.intValue else { continue }
      if let delta = event["delta"]?.stringValue { cuts[index].bytes.append(delta.utf8.count) }
      if event["type"] == "response.output_text.annotation.added" {
        cuts[index].annotations.append(cuts[index].bytes.count)
      }
    }
    let events = ResponseReplay.events(of: body, cuts: cuts, reasoning: .openai)
    #expect(events.map(\.type) == golden.compactMap { $0["type"]?.stringValue })
    #expect(events.map(\.sequence) == Array(0..<golden.count))
    for (event, expected) in zip(events, golden)
    where event.type.contains("file_search") || event.type.contains("annotation") {
      for member in ["output_index", "item_id", "content_index", "annotation_index", "annotation"] {
        #expect(event.json[member] == expected[member], "\(event.type) \(member)")
      }
    }
  }
}
