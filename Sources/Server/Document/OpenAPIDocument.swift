// GET /openapi.json: the API as an OpenAPI 3.1 document, built from one table of operations.

import HTTP
import JSON
import OpenAI

struct OpenAPIDocument {
  /// One method of one path. Tests compare the table with the router's routes.
  struct Operation {
    var method: String
    /// As the router has it: `/v1/models/:id`.
    var pattern: String
    var id: String
    var summary: String
    /// Names of schemas; nil where there is no body, or no stream.
    var request: String?
    /// The same for a body of multipart/form-data.
    var form: String?
    /// Whether a request without a body is taken.
    var bodyIsOptional = false
    var response: String
    var event: String?
    var error = "Error"
    /// Names of parameters of the query.
    var query: [String] = []
    /// Most things of one page.
    var longestPage = 100
    /// 101 for an upgrade, which has no body.
    var status = "200"
    var contentType = "application/json"
    /// Further types of the answer, whose schema is the same.
    var otherTypes: [String] = []
    /// Statuses of errors that stand for more than this server's usual ones.
    var failures: [String] = []
    /// Whether 202 is possible too, with the same body.
    var accepted = false
  }

  static let operations =
    answers + OpenAPIBatches.operations + OpenAPIResponsesWire.operations + OpenAPIVectorStores.operations
    + OpenAPIEditors.operations + vectors + OpenAPIScores.operations + around

  private static let answers = [
    Operation(
      method: "POST", pattern: "/v1/chat/completions", id: "createChatCompletion",
      summary: "Answers a conversation", request: "ChatRequest", form: "ChatForm", response: "ChatCompletion",
      event: "ChatCompletionChunk"),
    Operation(
      method: "GET", pattern: "/v1/chat/completions", id: "listChatCompletions",
      summary: "Completions that were stored; also filtered by metadata[KEY]", response: "ChatCompletionList",
      query: ["after", "before", "limit", "order", "model"]),
    Operation(
      method: "GET", pattern: "/v1/chat/completions/:id", id: "retrieveChatCompletion",
      summary: "A stored completion", response: "ChatCompletion"),
    Operation(
      method: "POST", pattern: "/v1/chat/completions/:id", id: "updateChatCompletion",
      summary: "Changes the metadata of a stored completion", request: "ChatCompletionUpdate",
      response: "ChatCompletion"),
    Operation(
      method: "DELETE", pattern: "/v1/chat/completions/:id", id: "deleteChatCompletion",
      summary: "Forgets a stored completion", response: "Deleted"),
    Operation(
      method: "GET", pattern: "/v1/chat/completions/:id/messages", id: "listChatMessages",
      summary: "The messages that a stored completion was asked with", response: "ChatMessageList",
      query: ["after", "before", "limit", "order"]),
    Operation(
      method: "POST", pattern: "/v1/completions", id: "createCompletion", summary: "Goes on with a text",
      request: "CompletionRequest", response: "Completion", event: "Completion"),
    Operation(
      method: "POST", pattern: "/v1/messages", id: "createMessage",
      summary: "Answers a conversation (Anthropic)", request: "MessagesRequest", response: "Message",
      event: "MessageEvent", error: "MessagesError"),
    Operation(
      method: "POST", pattern: "/v1/messages/count_tokens", id: "countMessageTokens",
      summary: "Counts the tokens of a conversation (Anthropic)", request: "MessagesCountRequest",
      response: "MessageTokens", error: "MessagesError"),
  ]

  private static let vectors = [
    Operation(
      method: "POST", pattern: "/v1/embeddings", id: "createEmbedding", summary: "Vectors of texts",
      request: "EmbeddingsRequest", response: "Embeddings"),
    Operation(
      method: "POST", pattern: "/embeddings", id: "createEmbeddingShort",
      summary: "The same, at llama.cpp's path", request: "EmbeddingsRequest", response: "Embeddings"),
  ]

  private static let around = [
    Operation(
      method: "GET", pattern: "/health", id: "health", summary: "Whether requests are taken",
      response: "Health"),
    Operation(
      method: "GET", pattern: "/ready", id: "ready", summary: "Whether requests are taken", response: "Health"
    ),
    Operation(
      method: "GET", pattern: "/readyz", id: "readyz", summary: "The same", response: "Health"),
    Operation(
      method: "GET", pattern: "/livez", id: "livez", summary: "Whether the process answers",
      response: "Health"),
    Operation(
      method: "POST", pattern: "/api/chat", id: "ollamaChat",
      summary: "Ollama's chat: lines of JSON, or one object",
      request: "OllamaChatRequest", response: "OllamaChat", error: "OllamaError",
      contentType: "application/x-ndjson", otherTypes: ["application/json"]),
    Operation(
      method: "POST", pattern: "/api/generate", id: "ollamaGenerate",
      summary: "Ollama's completion of one prompt",
      request: "OllamaGenerateRequest", response: "OllamaCompletion", error: "OllamaError",
      contentType: "application/x-ndjson", otherTypes: ["application/json"]),
    Operation(
      method: "GET", pattern: "/api/version", id: "ollamaVersion", summary: "The version of Ollama's API",
      response: "OllamaVersion",
      error: "OllamaError"),
    Operation(
      method: "GET", pattern: "/api/tags", id: "ollamaTags", summary: "The models, as Ollama lists them",
      response: "OllamaList",
      error: "OllamaError"),
    Operation(
      method: "GET", pattern: "/api/ps", id: "ollamaRunning",
      summary: "The loaded models, as Ollama lists them", response: "OllamaList",
      error: "OllamaError"),
    Operation(
      method: "GET", pattern: "/api/v0/models", id: "studioModels",
      summary: "The models, as LM Studio lists them",
      response: "StudioModelList"),
    Operation(
      method: "GET", pattern: "/api/v0/models/:id", id: "studioModel",
      summary: "One model, as LM Studio tells it",
      response: "StudioModel"),
    Operation(
      method: "GET", pattern: "/api/v0/models/:owner/:name", id: "studioModelOfOwner",
      summary: "One model whose id has a slash", response: "StudioModel"),
    Operation(
      method: "POST", pattern: "/api/show", id: "ollamaShow", summary: "One model, as Ollama describes it",
      request: "OllamaModelRequest", response: "Any", error: "OllamaError"),
    Operation(
      method: "POST", pattern: "/api/pull", id: "ollamaPull",
      summary: "Fetches a model from the hub; progress as lines", request: "OllamaModelRequest",
      response: "Any",
      error: "OllamaError", contentType: "application/x-ndjson", otherTypes: ["application/json"]),
    Operation(
      method: "DELETE", pattern: "/api/delete", id: "ollamaDelete",
      summary: "Removes a model from the cache",
      request: "OllamaModelRequest", response: "Any", error: "OllamaError"),
    Operation(
      method: "POST", pattern: "/api/embed", id: "ollamaEmbed", summary: "Vectors of texts (Ollama)",
      request: "OllamaEmbedRequest", response: "OllamaVectors", error: "OllamaError"),
    Operation(
      method: "POST", pattern: "/api/embeddings", id: "ollamaEmbedOne",
      summary: "The vector of a text (Ollama)",
      request: "OllamaEmbedOneRequest", response: "OllamaVector", error: "OllamaError"),
    Operation(
      method: "POST", pattern: "/api/create", id: "ollamaCreate", summary: "Refused",
      request: "OllamaModelRequest", response: "Any", error: "OllamaError"),
    Operation(
      method: "POST", pattern: "/api/copy", id: "ollamaCopy", summary: "Refused",
      request: "OllamaModelRequest", response: "Any", error: "OllamaError"),
    Operation(
      method: "POST", pattern: "/api/push", id: "ollamaPush", summary: "Refused",
      request: "OllamaModelRequest", response: "Any", error: "OllamaError"),
    Operation(
      method: "GET", pattern: "/metrics", id: "metrics", summary: "Counters in Prometheus' text format",
      response: "Text", contentType: "text/plain"),
    Operation(
      method: "GET", pattern: "/openapi.json", id: "openapi", summary: "This document", response: "Any"),
    Operation(
      method: "GET", pattern: "/v1/models", id: "listModels", summary: "The served models",
      response: "ModelList", error: "AnyModelError"),
    Operation(
      method: "GET", pattern: "/models", id: "listModelsShort", summary: "The same, at llama.cpp's path",
      response: "ModelList", error: "AnyModelError"),
    Operation(
      method: "GET", pattern: "/models/sse", id: "modelEvents",
      summary: "What happens to the models, as llama.cpp's router tells it", response: "Any",
      contentType: "text/event-stream"),
    Operation(
      method: "GET", pattern: "/v1/models/:id", id: "retrieveModel", summary: "One model",
      response: "AnyModel", error: "AnyModelError"),
    Operation(
      method: "GET", pattern: "/v1/models/:owner/:name", id: "retrieveModelOfOwner",
      summary: "One model whose id has a slash", response: "AnyModel", error: "AnyModelError"),
    Operation(
      method: "POST", pattern: "/models/load", id: "loadModel", summary: "Begins to load a model",
      request: "ModelRequest", response: "ModelChange", accepted: true),
    Operation(
      method: "POST", pattern: "/models/unload", id: "unloadModel", summary: "Unloads a model",
      request: "ModelRequest", response: "ModelChange", accepted: true),
    Operation(
      method: "POST", pattern: "/models/pull", id: "pullModel",
      summary: "Fetches a model from the hub; progress as events", request: "ModelRequest", response: "Any",
      contentType: "text/event-stream"),
    Operation(
      method: "GET", pattern: "/v1/capabilities", id: "capabilities",
      summary: "What is supported with each model", response: "CapabilitiesList"),
    Operation(
      method: "POST", pattern: "/v1/chat/completions/input_tokens", id: "countChatTokens",
      summary: "Counts the tokens of a conversation", request: "ChatRequest", response: "InputTokens"),
    Operation(
      method: "POST", pattern: "/tokenize", id: "tokenize", summary: "Text or a conversation to tokens",
      request: "TokenizeRequest", response: "TokenizeResponse", error: "ErrorOfTwoWires",
      query: ["model"], failures: OpenAPIScores.failures),
    Operation(
      method: "GET", pattern: "/tokenizer_info", id: "tokenizerInfo",
      summary: "Special tokens and chat template", response: "TokenizerInfo", query: ["model"]),
    Operation(
      method: "GET", pattern: "/version", id: "version", summary: "The version of the server",
      response: "Version"),
    Operation(
      method: "GET", pattern: "/props", id: "properties",
      summary: "The model and its defaults, as llama.cpp has them",
      response: "Properties", query: ["model"]),
    Operation(
      method: "GET", pattern: "/slots", id: "slots",
      summary: "Places for requests that are computed together",
      response: "Slots", query: ["model", "fail_on_no_slot"]),
    Operation(
      method: "POST", pattern: "/detokenize", id: "detokenize", summary: "Tokens to text",
      request: "DetokenizeRequest", response: "DetokenizeResponse", query: ["model"]),
    Operation(
      method: "POST", pattern: "/apply-template", id: "applyTemplate",
      summary: "A conversation to the text of its prompt", request: "TemplateRequest",
      response: "TemplateResponse"),
  ]

  let version: String
  let limits: RequestLimits

  func json() throws(JSONError) -> JSONValue {
    var paths = JSONObject()
    for operation in Self.operations {
      let path = Self.template(operation.pattern)
      var item = paths[path]?.objectValue ?? JSONObject()
      item[operation.method.lowercased()] = Self.describe(operation)
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
            try OpenAPIRequests.schemas(limits).entries.map { ($0.key, $0.value) }
              + OpenAPIResponses.schemas().entries.map { ($0.key, $0.value) })),
      ],
    ]
  }

  // MARK: Operations

  /// `/v1/models/{id}` for `/v1/models/:id`.
  static func template(_ pattern: String) -> String {
    pattern.split(separator: "/", omittingEmptySubsequences: false).map { segment in
      segment.hasPrefix(":") ? "{\(segment.dropFirst())}" : String(segment)
    }.joined(separator: "/")
  }

  private static func describe(_ operation: Operation) -> JSONValue {
    var out = JSONObject([("operationId", .string(operation.id)), ("summary", .string(operation.summary))])
    let names = operation.pattern.split(separator: "/").filter { $0.hasPrefix(":") }
    let parameters =
      names.map { parameter(String($0.dropFirst()), in: "path", ["type": "string"]) }
      + operation.query.map { name in
        let page: JSONValue = ["type": "integer", "minimum": 1, "maximum": .int(operation.longestPage)]
        return parameter(name, in: "query", name == "limit" ? page : queries[name] ?? ["type": "string"])
      }
    if !parameters.isEmpty { out["parameters"] = .array(parameters) }
    var bodies = JSONObject()
    if let request = operation.request {
      var content = body(request).objectValue ?? JSONObject()
      if let example = OpenAPIExamples.bodies[request] { content["example"] = example }
      bodies["application/json"] = .object(content)
    }
    if let form = operation.form { bodies["multipart/form-data"] = body(form) }
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
        ([operation.contentType] + operation.otherTypes).map { ($0, body(operation.response)) })
      if let event = operation.event { content["text/event-stream"] = body(event) }
      answer["content"] = .object(content)
    }
    let error: JSONValue = [
      "description": "An error", "content": ["application/json": body(operation.error)],
    ]
    var responses = [(operation.status, JSONValue.object(answer))]
    if operation.accepted { responses.append(("202", .object(answer))) }
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

  private static func body(_ schema: String) -> JSONValue {
    ["schema": ["$ref": .string("#/components/schemas/" + schema)]]
  }
}
