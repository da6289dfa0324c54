// Small templates against what jinja2 made of them; `Fixtures/scripts/jinja_cases.py` wrote the file.

import JSON
import Jinja
import Support
import Testing

@Suite struct ExpressionTests {
  /// The same variables as in the script.
  static let variables: JSONValue = [
    "s": "Grüße, \"Welt\" 's\n\t日本語 e\u{301} é 😀",
    "l": [3, 1, 2],
    "m": ["b": 1, "A": "x", "c": [1, ["k": nil]], "items": "key", "é": 1, "e\u{301}": 2],
    "f": [0.1, 1e16, 1e-5, 123456789.0, 1.5e300, 2.0, 12345678901234567.0, 0.0001, -0.0, 100.0],
    "t": true, "n": nil, "i": 7, "big": .bigInteger("1180591620717411303424"),
    "people": [
      ["name": "Bo", "age": 3, "x": ["y": 1]], ["name": "al", "age": 1], ["name": "Cy", "age": 2],
    ],
    "crlf": "a\r\nb\r\n",
  ]

  @Test func `expressions, statements and whitespace come out as in the reference`() throws {
    let bytes = try TestData.bytes(TestData.fixtures + "/templates/expressions.jsonl")
    var rendered = 0
    var refused = 0
    for line in bytes.split(separator: 0x0A) {
      let row = try JSONValue(parsing: Array(line))
      let source = try #require(row["template"]?.stringValue)
      do throws(JinjaError) {
        let text = try render(source, Self.variables)
        if let output = row["output"]?.stringValue {
          #expect(Array(text.utf8) == Array(output.utf8), "\(source)\n--- \(output)\n+++ \(text)")
          rendered += 1
        } else {
          Issue.record("\(source) gave \(text), should fail with \(row["error"]?.stringValue ?? "")")
        }
      } catch let thrown {
        refused += 1
        if row["error"] == nil { Issue.record("\(source): \(thrown)") }
      }
    }
    #expect(rendered > 100)
    #expect(refused > 40)
  }
}
