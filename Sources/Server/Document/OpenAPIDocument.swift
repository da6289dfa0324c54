// GET /openapi.json: the API as an OpenAPI 3.1 document, built from one table of operations.

import HTTP
import JSON
import Wire

struct OpenAPIDocument {
  let version: String
  let limits: RequestLimits
  /// Of all routes.
  let operations: [Operation]

  func json() throws(JSONError) -> JSONValue {
    var paths = JSONObject()
    for operation in operations {
      let path = operation.template
      var item = paths[path]?.objectValue ?? JSONObject()
      item[operation.method.lowercased()] = describe(operation)
      paths[path] = .object(item)
    }
    return [
      "openapi": "3.1.0",
      "info": [
        "title": "mlxserve", "version": .string(version),
        "description":
          "Fields that are not described are accepted and named in the header x-mlxserve-ignored.",
        "license": ["name": "MIT", "identifier": "MIT"],
      ],
      "servers": [["url": "/"]], "paths": .object(paths),
      // A server without keys asks for none.
      "security": [[:], ["bearer": []], ["apiKey": []]],
      "components": [
        "securitySchemes": [
          "bearer": ["type": "http", "scheme": "bearer"],
          "apiKey": ["type": "apiKey", "in": "header", "name": "x-api-key"],
        ],
        "schemas": .object(
          JSONObject(
            try OpenAPIRequests.schemas(limits, bodies).entries.map { ($0.key, $0.value) }
              + OpenAPIResponses.schemas().entries.map { ($0.key, $0.value) })),
      ],
    ]
  }

  /// All bodies that are read, each once.
  private var bodies: [DescribedBody] {
    var names: Set<String> = []
    return operations.flatMap(\.bodies).filter { names.insert($0.name).inserted }
  }

  // MARK: Operations

  private func describe(_ operation: Operation) -> JSONValue {
    var out = JSONObject([
      ("operationId", .string(operation.id ?? "")), ("summary", .string(operation.summary)),
    ])
    let names = operation.pattern.split(separator: "/").filter { $0.hasPrefix(":") }
    let parameters =
      names.map { Self.parameter(String($0.dropFirst()), in: "path", ["type": "string"]) }
      + operation.query.map { name in
        let page: JSONValue = ["type": "integer", "minimum": 1, "maximum": .int(operation.longestPage)]
        return Self.parameter(
          name, in: "query", name == "limit" ? page : Self.queries[name] ?? ["type": "string"])
      }
    if !parameters.isEmpty { out["parameters"] = .array(parameters) }
    var bodies = JSONObject()
    if let body = operation.bodies.first {
      let schemas = operation.bodies.map { Self.schema($0.name) }
      let schema: JSONValue = schemas.count == 1 ? schemas[0] : ["anyOf": .array(schemas)]
      bodies["application/json"] = ["schema": schema, "example": example(of: body)]
    }
    if let form = operation.form { bodies["multipart/form-data"] = Self.body(form) }
    if bodies.count > 0 {
      out["requestBody"] = ["required": .bool(!operation.bodyIsOptional), "content": .object(bodies)]
    }
    var answer = JSONObject([
      (
        "description",
        operation.status == "101"
          ? "The connection changes"
          : operation.event == nil ? "The answer" : "The answer, or its events one by one"
      )
    ])
    if operation.status != "101" {
      var content = JSONObject(
        ([operation.contentType] + operation.otherTypes).map { ($0, Self.body(operation.response)) })
      if let event = operation.event { content["text/event-stream"] = Self.body(event) }
      answer["content"] = .object(content)
    }
    let error: JSONValue = [
      "description": "An error", "content": ["application/json": Self.body(operation.error ?? "Error")],
    ]
    var responses = [(operation.status, JSONValue.object(answer))]
    if operation.isAccepted { responses.append(("202", .object(answer))) }
    responses += operation.failures.map { ($0, error) }
    out["responses"] = .object(JSONObject(responses + [("default", error)]))
    return .object(out)
  }

  private static let inclusions: [String] = ResponsesRequest.inclusions

  private static let queries: [String: JSONValue] = [
    "stream": ["type": "boolean"], "starting_after": ["type": "integer", "minimum": 0],
    "include": ["type": "array", "items": ["enum": .array(inclusions.map(JSONValue.string))]],
    "filter": ["enum": ["in_progress", "completed", "failed", "cancelled"]],
    "order": ["enum": ["asc", "desc"]],
  ]

  private static func parameter(_ name: String, in place: String, _ schema: JSONValue) -> JSONValue {
    [
      "name": .string(name), "in": .string(place), "required": .bool(place == "path"), "schema": schema,
    ]
  }

  /// A body that a server with a model `demo` takes; ids and the names of other models are made up.
  private func example(of body: DescribedBody) -> JSONValue {
    if let example = body.example { return example }
    let notes = try? FieldNotes(limits: limits, of: body.read)
    return notes.map { .object($0.example) } ?? .null
  }

  private static func schema(_ name: String) -> JSONValue {
    ["$ref": .string("#/components/schemas/" + name)]
  }

  private static func body(_ name: String) -> JSONValue { ["schema": schema(name)] }
}
