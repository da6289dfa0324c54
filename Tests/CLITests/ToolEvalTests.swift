// What `eval --tools` counts as the right calls.

import JSON
import Support
import Testing

@testable import CLI

@Suite struct ToolEvalTests {
  private static let entry = #"""
    {"category": "two", "question": "?", "tools": [{"name": "f", "parameters": {}}, {"type": "function", "function": {"name": "g"}}],
     "calls": [{"name": "f", "arguments": {"city": ["Oslo", "Oslo, Norway"], "days": [3, null]}}, {"name": "g"}]}
    """#

  private static func entry(_ text: String = entry) throws -> ToolCase? {
    ToolCase(try JSONValue(parsing: text))
  }

  @Test(arguments: [
    (#"{"city":"Oslo","days":3}"#, true), (#"{"city":"oslo.","days":3.0}"#, true),
    (#"{"city":"Oslo, Norway"}"#, true),
    (#"{"city":"Oslo","days":null}"#, true), (#"{"city":"Bergen"}"#, false), (#"{"days":3}"#, false),
    (#"{"city":"Oslo","days":4}"#, false), (#"{"city":"Oslo","more":1}"#, false), ("{", false), ("[]", false),
  ])
  func `an argument has one of the right values, and no other argument is there`(
    _ arguments: String, _ isRight: Bool
  ) throws {
    let entry = try #require(try Self.entry())
    let calls = [(name: "g", arguments: ""), (name: "f", arguments: arguments)]
    #expect(entry.hasTools(calls))
    #expect(entry.hasArguments(calls) == isRight)
    #expect(!entry.hasArguments([calls[1]]) && !entry.hasTools([calls[1]]))
    #expect(!entry.hasArguments(calls + [calls[0]]) && !entry.hasTools(calls + [calls[0]]))
  }

  @Test func `a case without calls is right where none is made`() throws {
    let entry = try #require(try Self.entry(#"{"question":"Hi","tools":[{"name":"f"}],"calls":[]}"#))
    #expect(entry.category == "all" && entry.hasTools([]) && entry.hasArguments([]))
    #expect(
      !entry.hasTools([(name: "f", arguments: "{}")]) && !entry.hasArguments([(name: "f", arguments: "{}")]))
  }

  @Test(arguments: [
    #"{"tools":[{"name":"f"}],"calls":[]}"#, #"{"question":"?","tools":[],"calls":[]}"#,
    #"{"question":"?","tools":[{"name":"f"}]}"#,
    #"{"question":"?","tools":[{"name":"f"}],"calls":[{"name":"g"}]}"#,
    #"{"question":"?","tools":[{"name":"f"}],"calls":[{"name":"f","arguments":{"a":1}}]}"#,
    #"{"question":"?","tools":[{}],"calls":[]}"#,
  ])
  func `a case that cannot be judged is none`(_ text: String) throws { #expect(try Self.entry(text) == nil) }

  @Test func `the cases of the documentation can be judged, and their right calls are right`() throws {
    let path = TestData.root + "/docs/examples/eval/tools.jsonl"
    let cases = try EvalFile.toolCases(path)
    #expect(cases.count > 50 && Set(cases.map(\.category)).count == 6)
    var scores = ToolScores()
    for entry in cases {
      let calls = entry.calls.map { call in
        let arguments = call.arguments.filter { $0.values.first != .null }
        let values = JSONObject(arguments.map { ($0.name, $0.values[0]) })
        return (name: call.name, arguments: JSONValue.object(values).text)
      }
      scores.add(entry, calls)
    }
    #expect(scores.tools.right == cases.count && scores.arguments.right == cases.count)
  }
}
