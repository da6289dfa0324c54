// /openapi.json against the router, the reader of requests, and docs/api.md.

import HTTP
import JSON
import Server
import Testing
import Wire

/// Whether values follow the document's schemas, as far as the schemas of answers go.
private struct SchemaCheck {
  let document: JSONValue

  /// Where a value does not follow a schema; nil when it does.
  func problem(_ value: JSONValue, _ schema: JSONValue?, at path: String = "$") -> String? {
    guard let schema else { return "\(path): no schema" }
    if let name = schema["$ref"]?.stringValue?.split(separator: "/").last.map(String.init) {
      return problem(value, document["components"]?["schemas"]?[name], at: path)
    }
    if let branches = schema["anyOf"]?.arrayValue {
      return branches.contains { problem(value, $0, at: path) == nil } ? nil : "\(path): \(value.text)"
    }
    let words = schema["enum"]?.arrayValue ?? schema["const"].map { [$0] }
    if let words { return words.contains(value) ? nil : "\(path): \(value.text)" }
    if let type = schema["type"]?.stringValue, type != kind(value),
      type != "number" || kind(value) != "integer"
    {
      return "\(path): \(kind(value)) in the place of \(type)"
    }
    if let items = schema["items"], let values = value.arrayValue {
      return values.lazy.compactMap { problem($0, items, at: path + "[]") }.first
    }
    guard let properties = schema["properties"]?.objectValue, let object = value.objectValue else {
      return nil
    }
    for name in schema["required"]?.arrayValue?.compactMap(\.stringValue) ?? [] where object[name] == nil {
      return "\(path): '\(name)' is missing"
    }
    for (key, member) in object.entries {
      guard properties[key] != nil || schema["additionalProperties"] != false else {
        return "\(path): '\(key)' is not in the schema"
      }
      if let found = problem(member, properties[key], at: "\(path).\(key)") { return found }
    }
    return nil
  }

  private func kind(_ value: JSONValue) -> String {
    switch value {
    case .null: "null"
    case .bool: "boolean"
    case .int, .bigInteger: "integer"
    case .double: "number"
    case .string: "string"
    case .array: "array"
    case .object: "object"
    }
  }
}

struct OpenAPITests {
  private let app = makeApp(FakeService("x"))

  private func document() throws -> JSONValue { try app.send("GET", "/openapi.json").json }

  /// Every `$ref` in a value.
  private func references(in value: JSONValue) -> [String] {
    switch value {
    case .object(let object):
      object.entries.flatMap { key, value in
        key == "$ref" ? [value.stringValue].compactMap { $0 } : references(in: value)
      }
    case .array(let array): array.flatMap(references)
    default: []
    }
  }

  @Test func `every route is described, and nothing else`() throws {
    let routes = app.routes.map { route in
      let path = route.pattern.split(separator: "/", omittingEmptySubsequences: false).map {
        $0.hasPrefix(":") ? "{\($0.dropFirst())}" : String($0)
      }
      return "\(route.method.lowercased()) \(path.joined(separator: "/"))"
    }
    let paths = try #require(try document()["paths"]?.objectValue)
    let described = paths.entries.flatMap { path, item in
      (item.objectValue?.keys ?? []).map { "\($0) \(path)" }
    }
    #expect(Set(routes) == Set(described))
    #expect(routes.count == described.count)
  }

  /// Whether examples follow their schemas is tried with a whole validator, from outside.
  @Test func `every body of JSON has an example`() throws {
    var count = 0
    for (path, item) in try #require(try document()["paths"]?.objectValue).entries {
      for (method, operation) in item.objectValue?.entries ?? [] {
        guard let content = operation["requestBody"]?["content"]?["application/json"] else { continue }
        #expect(content["example"] != nil, "\(method) \(path)")
        count += 1
      }
    }
    #expect(count > 50)
  }

  @Test func `every operation has a name of its own, and parameters for its path`() throws {
    let paths = try #require(try document()["paths"]?.objectValue)
    let operations = paths.entries.flatMap { path, item in
      (item.objectValue?.entries ?? []).map { (path, $0.value) }
    }
    let names = operations.compactMap { $0.1["operationId"]?.stringValue }
    #expect(Set(names).count == operations.count)
    let model = paths["/v1/models/{id}"]?["get"]?["parameters"]?[0]
    #expect(
      model == ["name": "id", "in": "path", "required": true, "schema": ["type": "string"]])
  }

  @Test func `every reference leads somewhere`() throws {
    let document = try document()
    let found = references(in: document)
    #expect(found.count > 50)
    for reference in found {
      let name = reference.split(separator: "/").last.map(String.init) ?? ""
      #expect(reference == "#/components/schemas/\(name)")
      #expect(document["components"]?["schemas"]?[name] != nil, "\(reference)")
    }
  }

  /// A schema that takes nothing stands for an example that its own reader refuses.
  @Test func `every body can be read from its examples`() throws {
    for (name, schema) in try #require(try document()["components"]?["schemas"]?.objectValue).entries {
      #expect(schema != false, "\(name)")
    }
  }

  @Test func `a body is described by its reader`() throws {
    let schemas = try document()["components"]?["schemas"]
    #expect(
      schemas?["TEIEmbedRequest"]?["properties"]?["normalize"]?.text
        == #"{"anyOf":[{"type":"boolean","description":"false leaves vectors as the model makes them"},{"type":"null"}]}"#
    )
    #expect(schemas?["TEISimilarityRequest"]?["required"] == ["inputs"])
    #expect(
      schemas?["TEISimilarityRequest"]?["properties"]?["inputs"]?["required"] == [
        "source_sentence", "sentences",
      ])
    #expect(schemas?["ScoreRequest"]?["required"] == nil)
  }

  @Test func `bounds are those of the reader`() throws {
    let limits = RequestLimits()
    let chat = try document()["components"]?["schemas"]?["ChatRequest"]?["properties"]
    #expect(chat?["n"]?["anyOf"]?[0]?["maximum"] == .int(limits.choices))
    #expect(chat?["top_logprobs"]?["anyOf"]?[0]?["maximum"] == .int(limits.topLogprobs))
    #expect(chat?["tools"]?["anyOf"]?[0]?["maxItems"] == .int(limits.tools))
  }

  @Test func `optional members may be null, required ones may not`() throws {
    let schemas = try document()["components"]?["schemas"]
    #expect(
      schemas?["DetokenizeRequest"]?["properties"]?["model"]?.text
        == #"{"anyOf":[{"type":"string","description":"may be left out"},{"type":"null"}]}"#)
    #expect(schemas?["ChatRequest"]?["properties"]?["model"]?["type"] == "string")
    #expect(schemas?["ChatRequest"]?["required"] == ["model", "messages"])
    #expect(schemas?["TemplateRequest"]?["required"] == ["messages"])
    #expect(schemas?["MessagesCountRequest"]?["required"] == ["model", "messages"])
  }

  @Test func `models are told as the document says, whatever has become of them`() throws {
    let fleet = try Garage().fleet(["broken", "good", "other"])
    defer { fleet.stop() }
    try? fleet.use("broken")
    try fleet.use("good")
    let app = App(fleet)
    let list = try app.send("GET", "/v1/models").json
    let check = SchemaCheck(document: try document())
    #expect(check.problem(list, ["$ref": "#/components/schemas/ModelList"]) == nil)
    let models = list["data"]?.arrayValue ?? []
    #expect(models.map { $0["status"]?["value"] } == ["unloaded", "loaded", "unloaded"])
    #expect(models.map { $0["status"]?["failed"] } == [true, nil, nil])
    #expect(models.first?["status"]?["error"]?.stringValue == "config.json: it is empty")
    #expect(models.map { $0["input_modalities"] } == [.null, ["text"], .null])
    // The check itself finds what is wrong.
    let one: JSONValue = ["$ref": "#/components/schemas/ModelStatus"]
    #expect(check.problem(["value": "loaded", "x": 1], one) == "$: 'x' is not in the schema")
    #expect(check.problem(["failed": true], one) == "$: 'value' is missing")
    #expect(
      check.problem(["value": "loaded", "failed": 1], one) == "$.failed: integer in the place of boolean")
  }
}
