// JSON written in parts: the same text, in pieces of a bounded size, made only as far as somebody takes it.

import JSON
import Testing

@Suite struct JSONPartsTests {
  private struct Enough: Error {}

  private let parts = JSONParts.object([
    ("id", .value("a\"b")),
    (
      "choices",
      .list(count: 100) {
        .object([("index", .value(.int($0))), ("empty", .list(count: 0) { _ in .value(nil) })])
      }
    ),
    ("last", .value([1, 2.5, nil, true])),
  ])

  @Test(arguments: [1, 10, 100, 1_000, 100_000])
  func `the text is that of the whole value, whatever the size of its parts`(size: Int) throws {
    var text: [UInt8] = []
    var largest = 0
    parts.write(partBytes: size) { (part) throws(Never) in
      text += part
      largest = max(largest, part.count)
    }
    #expect(text == parts.json.bytes)
    #expect(try JSONValue(parsing: text) == parts.json)
    #expect(parts.json["choices"]?.arrayValue?.count == 100 && parts.json["last"]?.arrayValue?.count == 4)
    // One element, with a comma and what opens the list, is all that comes beyond.
    #expect(largest < size + 60)
  }

  @Test func `nothing more is made when nobody takes it`() {
    var made = 0
    let list = JSONParts.list(count: 1_000_000) { index in
      made += 1
      return .value(.int(index))
    }
    var taken = 0
    #expect(throws: Enough.self) {
      try list.write(partBytes: 100) { (_) throws(Enough) in
        taken += 1
        if taken == 3 { throw Enough() }
      }
    }
    #expect(made < 200)
  }
}
