// /openapi.json against the router, the reader of requests, and docs/api.md.

import HTTP
import JSON
import OpenAI
import Server
import Testing

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

  @Test(arguments: [
    ("Chat completions", "ChatRequest"), ("Completions", "CompletionRequest"),
    ("Messages", "MessagesRequest"), ("Tokens and prompts", "TokenizeRequest"),
  ])
  func `the fields of a body are those of docs/api.md`(heading: String, schema: String) throws {
    let properties = try document()["components"]?["schemas"]?[schema]?["properties"]?.objectValue
    let documented = DocumentedField.all(under: heading).map(\.name)
    #expect(!documented.isEmpty)
    #expect(Set(properties?.keys ?? []) == Set(documented))
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
      schemas?["ChatRequest"]?["properties"]?["seed"]?.text
        == #"{"anyOf":[{"type":"integer"},{"type":"null"}]}"#)
    #expect(schemas?["ChatRequest"]?["properties"]?["model"]?["type"] == "string")
    #expect(schemas?["ChatRequest"]?["required"] == ["model", "messages"])
    #expect(schemas?["TemplateRequest"]?["required"] == ["messages"])
    #expect(schemas?["MessagesCountRequest"]?["required"] == ["model", "messages"])
  }
}
