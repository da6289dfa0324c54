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

  /// As a sandbox renders them that lets lists be changed. The reference does not.
  @Test(arguments: [
    ("{% set l = [1] %}{% for x in [2, 3] %}{% set _ = l.append(x) %}{% endfor %}{{ l }}", "[1, 2, 3]"),
    (
      "{% set n = namespace(l=[]) %}{% macro add(x) %}{% set _ = n.l.append(x) %}{% endmacro %}{{ add(1) }}{{ add('b') }}{{ n.l }}",
      "[1, 'b']"
    ),
    ("{% set l = [1, 2, 3, 4] %}{{ l.pop() }} {{ l.pop(0) }} {{ l.pop(-1) }} {{ l }}", "4 1 3 [2]"),
    (
      "{% set l = [2] %}{% set _ = l.insert(0, 1) %}{% set _ = l.insert(9, 3) %}{% set _ = l.insert(-1, 'x') %}{{ l }}",
      "[1, 2, 'x', 3]"
    ),
    ("{% set l = [1] %}{{ l.extend('ab') }}{{ l }} {{ [1].append(2) }}", "None[1, 'a', 'b'] None"),
    ("{% set l = [1] %}{{ l.append(l) }}{{ l }}", "None[1, [1]]"),
  ]) func `lists change where that is allowed`(source: String, expected: String) throws {
    let template = try JinjaTemplate(source: source)
    #expect(try template.render(JSONObject(), changingLists: true, clock: goldenClock) == expected)
    #expect(throws: JinjaError.self) { try template.render(JSONObject(), clock: goldenClock) }
  }

  @Test func `lists that are changed keep to the limits`() throws {
    for (source, variables) in [
      ("{{ [].pop() }}", JSONObject()), ("{{ [1].pop(-2) }}", JSONObject()),
      ("{% set l = [] %}{% for x in range(1000) %}{% set _ = l.append(l) %}{% endfor %}", JSONObject()),
      (
        "{% set l = [1, 2] %}{% for x in range(1000) %}{% set _ = l.extend(l) %}{% endfor %}", JSONObject()
      ),
    ] {
      let template = try JinjaTemplate(source: source)
      #expect(throws: JinjaError.self) {
        try template.render(variables, changingLists: true, clock: goldenClock)
      }
    }
  }

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
