// The demo model's chat template against what jinja2 made of it; `Fixtures/scripts/template_cases.py` wrote
// the file.

import JSON
import Jinja
import Support
import Testing

@Suite struct DemoTemplateTests {
  @Test func `the demo model's template renders as in the reference`() throws {
    let source = try TestData.bytes(TestData.fixtures + "/models/demo/chat_template.jinja")
    let template = try JinjaTemplate(source: String(decoding: source, as: UTF8.self))
    let bytes = try TestData.bytes(TestData.fixtures + "/templates/demo.jsonl")
    var cases = 0
    for line in bytes.split(separator: 0x0A) {
      let row = try JSONValue(parsing: Array(line))
      let text = try template.render(try #require(row["variables"]?.objectValue), clock: goldenClock)
      let output = try #require(row["output"]?.stringValue)
      let name = row["case"]?.stringValue ?? ""
      #expect(Array(text.utf8) == Array(output.utf8), "\(name)\n--- \(output)\n+++ \(text)")
      cases += 1
    }
    #expect(cases == 14)
  }
}
