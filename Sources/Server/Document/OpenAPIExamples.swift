// The part of /openapi.json that is examples: a body for every schema of a request.

import JSON

enum OpenAPIExamples {
  /// Bodies that a server with a model `demo` takes; ids and the names of other models are made up.
  static let bodies = answers.merging(stored) { first, _ in first }.merging(others) { first, _ in first }

  private static let messages: JSONValue = [["role": "user", "content": "Hello!"]]

  private static let answers: [String: JSONValue] = [
    "ChatRequest": ["model": "demo", "messages": messages],
    "CompletionRequest": ["model": "demo", "prompt": "Once upon a time", "max_tokens": 16],
    "ResponsesRequest": ["model": "demo", "input": "Hello!"],
    "MessagesRequest": ["model": "demo", "max_tokens": 64, "messages": messages],
    "MessagesCountRequest": ["model": "demo", "messages": messages],
    "TokenizeRequest": ["content": "Hello!"],
    "DetokenizeRequest": ["tokens": [1, 2]],
    "TemplateRequest": ["messages": messages],
    "LlamaCompletionRequest": ["prompt": "Once upon a time", "n_predict": 16],
    "LlamaInfillRequest": ["input_prefix": "def add(a, b):\n    ", "input_suffix": "\n", "n_predict": 16],
  ]

  private static let stored: [String: JSONValue] = [
    "BatchRequest": [
      "input_file_id": "file-1", "endpoint": "/v1/chat/completions", "completion_window": "24h",
    ],
    "MessageBatchRequest": [
      "requests": [
        ["custom_id": "1", "params": ["model": "demo", "max_tokens": 64, "messages": messages]]
      ]
    ],
    "ConversationRequest": ["metadata": ["topic": "greetings"]],
    "ChatCompletionUpdate": ["metadata": ["topic": "farewells"]],
    "ConversationUpdate": ["metadata": ["topic": "farewells"]],
    "ConversationItemsRequest": ["items": [["type": "message", "role": "user", "content": "Hello!"]]],
    "UploadRequest": [
      "bytes": 6, "filename": "notes.txt", "mime_type": "text/plain", "purpose": "user_data",
    ],
    "UploadCompletion": ["part_ids": ["part_1"]],
    "VectorStoreRequest": ["name": "Notes"],
    "VectorStoreFileRequest": ["file_id": "file-1", "attributes": ["year": 2025]],
    "AttributesRequest": ["attributes": ["year": 2025]],
    "VectorStoreFileBatchRequest": ["file_ids": ["file-1", "file-2"]],
    "VectorStoreSearchRequest": [
      "query": "What is said of rivers?", "filters": ["type": "gte", "key": "year", "value": 2024],
    ],
  ]

  private static let others: [String: JSONValue] = [
    "OllamaChatRequest": ["model": "demo", "messages": messages, "stream": false],
    "OllamaGenerateRequest": ["model": "demo", "prompt": "Hello!", "stream": false],
    "OllamaModelRequest": ["model": "demo"],
    "OllamaEmbedRequest": ["model": "minilm", "input": "Hello!"],
    "OllamaEmbedOneRequest": ["model": "minilm", "prompt": "Hello!"],
    "ModelRequest": ["model": "demo"],
  ]
}
