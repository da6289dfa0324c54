// The table of sampling fields against every place that a client sees: each wire, /openapi.json, docs/api.md.

import HTTP
import Inference
import JSON
import Sampling
import Server
import Testing

/// A path that takes sampling fields, and where it is described.
private struct Wire: Sendable, CustomTestStringConvertible {
  let path: String
  /// Members that a request needs.
  let body: String
  /// The name of the body in /openapi.json.
  let schema: String
  /// The heading in docs/api.md.
  let heading: String

  var testDescription: String { path }

  static let all = [
    Wire(
      path: "/v1/chat/completions", body: #""messages":[{"role":"user","content":"hi"}]"#,
      schema: "ChatRequest", heading: "Chat completions"),
    Wire(
      path: "/v1/completions", body: #""prompt":"x""#, schema: "CompletionRequest", heading: "Completions"),
    Wire(path: "/v1/responses", body: #""input":"x""#, schema: "ResponsesRequest", heading: "Responses"),
    Wire(
      path: "/v1/messages", body: #""max_tokens":9,"messages":[{"role":"user","content":"hi"}]"#,
      schema: "MessagesRequest", heading: "Messages"),
  ]
}

extension SamplingField {
  /// The least value that a request may give, and the largest where it is not that of 32 bits.
  fileprivate var bounds: (low: JSONValue, high: JSONValue?) {
    func number(_ value: Double) -> JSONValue { Int(exactly: value).map { .int($0) } ?? .double(value) }
    switch row.setting {
    case .number(_, let range): return (number(range.lowerBound), number(range.upperBound))
    case .count(_, let range):
      return (.int(range.lowerBound), range.upperBound < Int(Int32.max) ? .int(range.upperBound) : nil)
    }
  }

  /// A value that is not the default, and that a Float holds exactly.
  fileprivate var example: String {
    switch row.setting {
    case .number(_, let range): range.contains(0.5) ? "0.5" : "2"
    case .count(_, let range): range.upperBound < 3 ? "1" : "3"
    }
  }
}

struct SamplingFieldTests {
  private static let schemas = try? makeApp(FakeService("x")).send("GET", "/openapi.json")
    .json["components"]?["schemas"]

  private func send(_ field: SamplingField, _ value: String, to wire: Wire, _ service: FakeService) throws
    -> Answer
  {
    try makeApp(service).send(
      "POST", wire.path, body: #"{"model":"m",\#(wire.body),"\#(field.name)":\#(value)}"#)
  }

  @Test(arguments: Wire.all, SamplingField.allCases)
  fileprivate func `a field reaches the engine over every wire`(wire: Wire, field: SamplingField) throws {
    let service = FakeService("xyz")
    let value = field.example
    let answer = try send(field, value, to: wire, service)
    #expect(answer.status == 200, "\(answer.text)")
    #expect(answer.headers["x-mlxserve-ignored"] == nil)
    let sampling = try #require(service.requests.first?.sampling)
    #expect(sampling[field] == Double(value))
    let usual = SamplingParameters(DefaultSampling.local.overrides)
    for other in SamplingField.allCases where other != field {
      #expect(sampling[other] == usual[other], "\(other)")
    }
  }

  @Test(arguments: Wire.all, SamplingField.allCases.filter { !$0.aliases.isEmpty })
  fileprivate func `another server's name of a field means the same`(wire: Wire, field: SamplingField) throws
  {
    for alias in field.aliases {
      let service = FakeService("xyz")
      let body = #"{"model":"m",\#(wire.body),"\#(alias)":\#(field.example)}"#
      let answer = try makeApp(service).send("POST", wire.path, body: body)
      #expect(answer.status == 200, "\(answer.text)")
      #expect(answer.headers["x-mlxserve-ignored"] == nil)
      #expect(service.requests.first?.sampling[field] == Double(field.example))
    }
  }

  @Test(arguments: Wire.all, SamplingField.allCases)
  fileprivate func `a wire refuses what is out of the field's range, and nothing else`(
    wire: Wire, field: SamplingField
  ) throws {
    let service = FakeService("xyz")
    let bounds = field.bounds
    for value in [bounds.low, bounds.high].compactMap({ $0 }) {
      #expect(try send(field, value.text, to: wire, service).status == 200, "\(value.text)")
    }
    for value in ["-1000000", "1e9", #""1""#] {
      let answer = try send(field, value, to: wire, service)
      #expect(answer.status == 400, "\(value)")
      #expect(answer.text.contains("'\(field.name)'"), "\(answer.text)")
    }
  }

  @Test(arguments: Wire.all, SamplingField.allCases)
  fileprivate func `a field is described for every wire`(wire: Wire, field: SamplingField) {
    let schema = Self.schemas?[wire.schema]?["properties"]?[field.name]?["anyOf"]?[0]
    #expect(schema?["minimum"] == field.bounds.low)
    #expect(schema?["maximum"] == field.bounds.high ?? .int(Int(Int32.max)))
    #expect(schema?["description"]?.stringValue?.hasSuffix(field.row.note) == true)
    let documented = DocumentedField.all(under: wire.heading).filter { $0.name == field.name }
    #expect(documented.map(\.treatment) == ["honoured"])
  }

  /// The other tables say nothing or what is particular there: the first one holds for all.
  @Test(arguments: SamplingField.allCases)
  func `the first table of docs/api.md says what the field does`(field: SamplingField) {
    let (low, high) = field.bounds
    let range = high.map { "\(low.text) to \($0.text); " } ?? ""
    let documented = DocumentedField.all(under: "Chat completions").first { $0.name == field.name }
    #expect(documented?.note == range + field.row.note)
  }
}
