// Tools and the choice among them.

import JSON
import Testing
import Wire

private let weather =
  #"{"type":"function","function":{"name":"get_weather","parameters":{"type":"object","properties":"#
  + #"{"location":{"type":"string"}},"required":["location"]}}}"#
private let time = #"{"type":"function","function":{"name":"get_time","description":"Now","strict":false}}"#

private func function(_ body: String) -> String { #""tools":[{"type":"function","function":\#(body)}]"# }

struct ToolTests {
  @Test func `tools are passed to the template as objects without nulls`() throws {
    let request = try chat(chatBody(#""tools":[\#(time)],"parallel_tool_calls":false"#))
    #expect(request.tools.map(\.name) == ["get_time"])
    #expect(
      request.tools.map(\.json)
        == [["type": "function", "function": ["name": "get_time", "description": "Now"]]])
    #expect(request.tools.map(\.isStrict) == [false])
    #expect(request.tools.map(\.parametersField) == ["tools[0].function.parameters"])
    #expect(!request.allowsParallelCalls)
  }

  @Test func `tools that a provider runs are left out and named`() throws {
    let request = try chat(
      chatBody(#""tools":[{"type":"web_search"},\#(time),{"type":"custom","custom":{"name":"raw"}}]"#))
    #expect(request.tools.map(\.name) == ["get_time", "raw"])
    #expect(request.dropped == ["tools[0].type=web_search"])
    #expect(Tool.input(of: #"{"input":"a\nb"}"#) == "a\nb")
    #expect(Tool.input(of: #"{"input":"a"#) == #"{"input":"a"#)
  }

  @Test(arguments: [
    ("\"tools\":\"x\"", "invalid_type tools"),
    ("\"tools\":[1]", "invalid_type tools[0]"),
    ("\"tools\":[{}]", "missing_required_parameter tools[0].type"),
    ("\"tools\":[{\"type\":\"custom\"}]", "missing_required_parameter tools[0].custom"),
    (
      #""tools":[{"type":"custom","custom":{"name":"a","format":{"type":"grammar","grammar":{"syntax":"yacc"}}}}]"#,
      "invalid_value tools[0].custom.format.grammar.syntax"
    ),
    ("\"tools\":[{\"type\":\"function\"}]", "missing_required_parameter tools[0].function"),
    (function("{}"), "missing_required_parameter tools[0].function.name"),
    (function(#"{"name":""}"#), "invalid_value tools[0].function.name"),
    (function(#"{"name":"a b"}"#), "invalid_value tools[0].function.name"),
    (function(#"{"name":"\#(String(repeating: "a", count: 129))"}"#), "invalid_value tools[0].function.name"),
    (function(#"{"name":"a\u0000"}"#), "invalid_value tools[0].function.name"),
    (function(#"{"name":"a","strict":true,"parameters":"x"}"#), "invalid_type tools[0].function.parameters"),
    (
      function(#"{"name":"a","strict":true,"parameters":{"type":"objekt"}}"#),
      "invalid_value tools[0].function.parameters"
    ),
    (
      function(#"{"name":"a","strict":true,"parameters":{"properties":{"p":{"pattern":"("}}}}"#),
      "invalid_value tools[0].function.parameters"
    ),
    (function(#"{"name":"a","strict":1}"#), "invalid_type tools[0].function.strict"),
    ("\"tools\":[\(time),\(time)]", "invalid_value tools[1].function.name"),
    ("\"tool_choice\":\"required\"", "invalid_value tool_choice"),
    ("\"tool_choice\":\"maybe\"", "invalid_value tool_choice"),
    ("\"tool_choice\":7", "invalid_type tool_choice"),
    (
      "\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"a\"}}",
      "invalid_value tool_choice.function.name"
    ),
    (
      "\"tools\":[\(weather)],\"tool_choice\":{\"type\":\"allowed_tools\",\"allowed_tools\":{\"mode\":\"required\",\"tools\":[]}}",
      "invalid_value tool_choice.allowed_tools.tools"
    ),
    (
      "\"tools\":[\(weather)],\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"gone\"}}",
      "invalid_value tool_choice.function.name"
    ),
    ("\"tool_choice\":{\"type\":\"custom\"}", "missing_required_parameter tool_choice.custom"),
    ("\"parallel_tool_calls\":1", "invalid_type parallel_tool_calls"),
  ])
  func `a bad tool names its place`(extra: String, expected: String) {
    #expect(chatRefusal(extra) == expected)
  }

  @Test func `none withholds tools only if that is asked for, allowed_tools all but the named`() throws {
    let both = "\"tools\":[\(weather),\(time)]"
    #expect(try chat(chatBody(both)).tools.map(\.name) == ["get_weather", "get_time"])
    let none = try chat(chatBody(both + ",\"tool_choice\":\"none\""))
    #expect(none.tools.map(\.name) == ["get_weather", "get_time"] && none.toolChoice == .none)
    #expect(try chat(chatBody(both + #","tool_choice":"none","hide_tools":true"#)).tools.isEmpty)
    #expect(try chat(chatBody(both + #","hide_tools":true"#)).tools.count == 2)
    #expect(chatRefusal(both + #","hide_tools":1"#) == "invalid_type hide_tools")
    let allowed =
      #""tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","#
      + #""tools":[{"type":"function","function":{"name":"get_time"}}]}}"#
    #expect(try chat(chatBody("\(both),\(allowed)")).tools.map(\.name) == ["get_time"])
    #expect(try chat(chatBody("\(both),\(allowed)")).toolChoice == .auto)
  }

  @Test func `tools that a template does not show are left out unless a call is forced`() throws {
    var limits = RequestLimits()
    limits.showsTools = false
    let tools = "\"tools\":[\(weather),\(time)]"
    for choice in ["null", "\"auto\"", "\"none\""] {
      let request = try chat(chatBody("\(tools),\"tool_choice\":\(choice)"), limits: limits)
      #expect(request.tools.isEmpty && request.toolChoice == .none && request.dropped == ["tools"])
    }
    let forced = try chat(chatBody(tools + #","tool_choice":"required""#), limits: limits)
    #expect(forced.tools.count == 2 && forced.toolChoice == .required && forced.dropped.isEmpty)
    #expect(try chat(chatBody(""), limits: limits).dropped.isEmpty)
  }

  @Test(
    arguments: [
      ("null", .auto), ("\"auto\"", .auto), ("\"none\"", .none), ("\"required\"", .required),
      (#"{"type":"function","function":{"name":"get_time"}}"#, .named("get_time")),
      (
        #"{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"get_time"}}]}}"#,
        .required
      ),
      (#"{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[]}}"#, .none),
    ] as [(String, ToolChoice)])
  func `every form of the choice is read`(json: String, expected: ToolChoice) throws {
    let request = try chat(chatBody("\"tools\":[\(weather),\(time)],\"tool_choice\":\(json)"))
    #expect(request.toolChoice == expected)
    #expect(request.tools.isEmpty == json.hasSuffix("[]}}"))
  }

  @Test func `strict tools and the places of their schemas are kept`() throws {
    let strict = #"{"type":"function","function":{"name":"s","strict":true,"parameters":{"type":"object"}}}"#
    let tools = try chat(chatBody("\"tools\":[\(weather),\(strict)]")).tools
    #expect(tools.map(\.isStrict) == [false, true])
    #expect(tools[1].parametersField == "tools[1].function.parameters")
    #expect(tools[1].parameters == ["type": "object"])
  }

  @Test(
    arguments: [
      (#""x""#, nil, "invalid_type"), ("[]", nil, "invalid_type"), ("7", nil, "invalid_type"),
      (#"{"type":"any"}"#, ["type": "any"], "invalid_value"),
      (#"{"type":"object","properties":null,"required":null}"#, ["type": "object"], "invalid_type"),
      (#"{"properties":{"p":{"pattern":"("}}}"#, ["properties": ["p": ["pattern": "("]]], "invalid_value"),
      (#"{"properties":{"p":null}}"#, ["properties": ["p": nil]], "invalid_type"),
    ] as [(String, JSONValue?, String)])
  func `parameters that are no schema are taken where the model is free, and named where calls obey them`(
    parameters: String, told: JSONValue?, code: String
  ) throws {
    let odd = #"{"type":"function","function":{"name":"odd","parameters":\#(parameters)}}"#
    let tools = try chat(chatBody("\"tools\":[\(time),\(odd)]")).tools
    #expect(tools.map(\.name) == ["get_time", "odd"])
    #expect(tools[1].parameters == told)
    let both = "\"tools\":[\(time),\(odd)]"
    let named = #""tool_choice":{"type":"function","function":{"name":"NAME"}}"#
    #expect(try chat(chatBody("\(both),\(named.replacing("NAME", with: "get_time"))")).tools.count == 2)
    let refusal = "\(code) tools[1].function.parameters"
    #expect(chatRefusal("\(both),\"tool_choice\":\"required\"") == refusal)
    #expect(chatRefusal("\(both),\(named.replacing("NAME", with: "odd"))") == refusal)
    #expect(chatRefusal(both.replacing(#""name":"odd","#, with: #""name":"odd","strict":true,"#)) == refusal)
    let allowed =
      #""tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"get_time"}}]}}"#
    #expect(try chat(chatBody("\(both),\(allowed)")).tools.map(\.name) == ["get_time"])
  }

  @Test(arguments: ["\"tools\":null,\"tool_choice\":null", "\"tools\":[]", "\"tool_choice\":\"auto\""])
  func `no tools are no error`(extra: String) throws {
    #expect(try chat(chatBody(extra)).tools.isEmpty)
  }

  @Test func `the number of tools is capped`() {
    let many = (0...RequestLimits().tools).map { #"{"type":"function","function":{"name":"f\#($0)"}}"# }
      .joined(separator: ",")
    #expect(chatRefusal("\"tools\":[\(many)]") == "array_above_max_length tools")
  }
}
