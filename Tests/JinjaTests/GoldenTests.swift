// Real chat templates against what the reference interpreter rendered.

import JSON
import Jinja
import Platform
import Support
import Testing

@Suite(.enabled(if: TestData.shared != nil, "the shared data is not beside the package"))
struct GoldenTests {
  static var folder: String { (TestData.shared ?? "") + "/chat-templates" }

  struct Outcome {
    var rendered = 0
    var refused = 0
    var problems: [String] = []
  }

  /// Variables of one case, as the reference was given them.
  static func variables(_ input: JSONValue, tokens: [(String, JSONValue?)]) -> JSONObject {
    var variables = input.objectValue ?? JSONObject()
    if variables["add_generation_prompt"] == nil { variables["add_generation_prompt"] = true }
    for case (let name, let value?) in tokens { variables[name] = value }
    return variables
  }

  static func check(
    _ name: String, _ template: JinjaTemplate, _ variables: JSONObject, output: String?, error: String?,
    clock: @escaping @Sendable () -> CalendarTime = goldenClock, _ outcome: inout Outcome
  ) {
    do throws(JinjaError) {
      let text = try template.render(variables, clock: clock)
      guard let output else {
        outcome.problems.append("\(name): should fail with \(error ?? "")")
        return
      }
      if text.utf8.elementsEqual(output.utf8) {
        outcome.rendered += 1
      } else {
        outcome.problems.append(
          "\(name): differs\n--- \(output.debugDescription)\n+++ \(text.debugDescription)")
      }
    } catch let thrown {
      guard let error else {
        outcome.problems.append("\(name): \(thrown)")
        return
      }
      // The template's own words must arrive; Python's errors have words of their own here.
      let mark = "TemplateError: "
      if error.hasPrefix(mark), thrown.description != error.dropFirst(mark.count) {
        outcome.problems.append("\(name): '\(thrown)' instead of '\(error)'")
      }
      outcome.refused += 1
    }
  }

  @Test func `every published template renders as the reference does`() throws {
    let inputs = try JSONValue(parsing: TestData.bytes(Self.folder + "/goldens-inputs.json"))
    let tokens = ["bos_token", "eos_token", "unk_token", "pad_token"].map { ($0, inputs[$0]) }
    var outcome = Outcome()
    var templates: [String: JinjaTemplate] = [:]
    for line in try TestData.bytes(Self.folder + "/goldens.jsonl").split(separator: 0x0A) {
      let row = try JSONValue(parsing: Array(line))
      let path = try #require(row["template"]?.stringValue)
      let name = try #require(row["case"]?.stringValue)
      let input = try #require(inputs["cases"]?[name])
      if templates[path] == nil {
        let source = String(decoding: try TestData.bytes(Self.folder + "/" + path), as: UTF8.self)
        templates[path] = try JinjaTemplate(source: source)
      }
      let template = try #require(templates[path])
      var variables = Self.variables(input, tokens: tokens)
      // These goldens were rendered with "no tools" given as none.
      if variables["tools"] == nil { variables["tools"] = .null }
      Self.check(
        "\(path) \(name)", template, variables, output: row["output"]?.stringValue,
        error: row["error"]?.stringValue, &outcome)
    }
    #expect(outcome.problems == [], "\(outcome.problems.count) of the renderings differ")
    #expect(templates.count == 59)
    #expect(outcome.rendered == 463)
    #expect(outcome.refused == 68)
  }

  @Test func `the required families render as the reference does`() throws {
    let goldens = try JSONValue(parsing: TestData.bytes(Self.folder + "/families-goldens.json"))
    let inputs = try #require(goldens["cases"])
    var outcome = Outcome()
    var count = 0
    for (family, golden) in try #require(goldens["templates"]?.objectValue).entries {
      let source = try TestData.bytes(Self.folder + "/families/\(family).jinja")
      let template = try JinjaTemplate(source: String(decoding: source, as: UTF8.self))
      count += 1
      let tokens = ["bos_token", "eos_token"].map { ($0, golden[$0]) }
      for (name, expected) in try #require(golden["render"]?.objectValue).entries {
        let variables = Self.variables(try #require(inputs[name]), tokens: tokens)
        Self.check(
          "\(family) \(name)", template, variables, output: expected.stringValue,
          error: expected["error"]?.stringValue, clock: { CalendarTime(secondsSince1970: 1_795_219_200) },
          &outcome)
      }
    }
    #expect(outcome.problems == [], "\(outcome.problems.count) of the renderings differ")
    #expect(count == 42)
    #expect(outcome.rendered == 575)
    #expect(outcome.refused == 55)
  }

  @Test func `every template in the shared data loads`() throws {
    var loaded = 0
    for folder in [
      "embedded", "families", "llama.cpp", "minja", "mlx-openai-server", "mlx-serve-fixtures",
      "ollama-testdata",
    ] {
      for name in try File.names(in: Self.folder + "/" + folder) where name.contains(".jinja") {
        let source = try TestData.bytes(Self.folder + "/" + folder + "/" + name)
        _ = try JinjaTemplate(source: String(decoding: source, as: UTF8.self))
        loaded += 1
      }
    }
    #expect(loaded == 101)
  }
}
