// Schemas of the bodies that the server reads. Every field of the tables in docs/api.md is here; a test compares them.

import JSON
import Sampling
import Wire

enum OpenAPIRequests {
  /// Optional members may also be null: that is the same as leaving them out.
  ///
  /// - Parameter bodies: all that are read; most describe themselves.
  static func schemas(_ limits: RequestLimits, _ bodies: [DescribedBody]) throws(JSONError) -> JSONObject {
    let text =
      "{\(ollama), \(parts(limits)), \(chat(limits)), \(completion(limits)), \(messages(limits)), "
      + "\(tokens(limits)), "
      + "\(OpenAPIVectorStores.requests(limits)), \(OpenAPIBatches.requests), \(OpenAPIEditors.requests(limits)), "
      + "\(OpenAPIResponsesWire.requests(limits, sampling: "\(sampling), \(ids(limits))"))}"
    guard var all = try JSONValue(parsing: text).objectValue else { return JSONObject() }
    for body in bodies {
      // An example that its own reader refuses leaves a schema that takes nothing.
      guard let read = body.read else { continue }
      all[body.name] = try (try? FieldNotes(limits: limits, of: read))?.schema() ?? false
    }
    var schemas = JSONObject(all.entries.map { ($0.key, withNulls($0.value)) })
    for name in [
      "ChatRequest", "CompletionRequest", "MessagesRequest", "ResponsesRequest", "LlamaCompletionRequest",
      "LlamaInfillRequest",
    ] {
      schemas[name] = schemas[name].map(refusingForeignWords)
    }
    schemas["TemplateRequest"] = requiring(["messages"], of: schemas["ChatRequest"])
    schemas["MessagesCountRequest"] = requiring(["model", "messages"], of: schemas["MessagesRequest"])
    return schemas
  }

  /// Fields that are taken beside another one alone.
  private static let logprobsFirst = #"""
    {"anyOf": [{"properties": {"top_logprobs": {"enum": [0, null]}}},
      {"required": ["logprobs"], "properties": {"logprobs": {"const": true}}}]}
    """#

  private static let streamFirst = #"""
    {"anyOf": [{"properties": {"stream_options": {"type": "null"}, "stream": {"enum": [false, null]}}},
      {"properties": {"prompt_logprobs": {"type": "null"}, "stream": {"const": true}}, "required": ["stream"]}]}
    """#

  private static let keepAlive = #"""
    {"anyOf": [{"type": "number"}, {"type": "string", "pattern": "^[+-]?(0|([0-9]{1,9}(\\.[0-9]{1,9})?(ns|us|µs|ms|s|m|h)){1,3})$"}]}
    """#

  private static func role(_ name: String, _ members: String = "") -> String {
    #"""
    {"type": "object", "required": ["role"], "properties": {"role": {"const": "\#(name)"}, "content": {"type": "string"},
      "images": {"type": "array", "items": {"type": "string", "description": "base64"}}\#(members)}}
    """#
  }

  private static let ollamaMessages = #"""
    {"type": "array", "items": {"anyOf": [\#(role("system")), \#(role("developer")), \#(role("user")),
      \#(role("assistant", #", "thinking": {"type": "string"}, "tool_calls": {"type": "array", "items": {"type": "object"}}"#)),
      \#(role("tool", #", "tool_name": {"type": "string"}, "tool_call_id": {"type": "string"}"#))]}}
    """#

  /// Members of both bodies of Ollama's wire.
  private static let ollamaShared = #"""
    "model": {"type": "string", "minLength": 1}, "stream": {"type": "boolean"},
    "think": {"anyOf": [{"type": "boolean"}, {"enum": ["low", "medium", "high", "max"]}]},
    "format": {"anyOf": [{"type": "object"}, {"enum": ["", "json"]}]}, "keep_alive": \#(keepAlive),
    "options": {"type": "object"}, "truncate": {"type": "boolean"}, "shift": {"type": "boolean"},
    "logprobs": {"type": "boolean"}, "top_logprobs": {"type": "integer", "minimum": 0, "maximum": 20}
    """#

  private static let ollama = #"""
    "OllamaModelRequest": {"type": "object", "properties": {"model": {"type": "string"}, "name": {"type": "string"}},
      "anyOf": [{"required": ["model"], "properties": {"model": {"type": "string", "minLength": 1}}},
        {"required": ["name"], "properties": {"name": {"type": "string", "minLength": 1}, "model": {"type": "null"}}}]},
    "OllamaChatRequest": {"type": "object", "required": ["model"], "properties": {\#(ollamaShared),
      "messages": \#(ollamaMessages), "tools": {"type": "array", "items": {"type": "object", "required": ["function"],
        "properties": {"type": {"type": "string"}, "function": {"type": "object", "required": ["name"], "properties": {
          "name": {"type": "string", "pattern": "^[a-zA-Z0-9_.-]{1,128}$"}, "description": {"type": "string"},
          "parameters": {"type": "object"}, "strict": {"type": "boolean"}}}}}},
      "_debug_render_only": {"type": "boolean"}}},
    "OllamaGenerateRequest": {"type": "object", "required": ["model"], "properties": {\#(ollamaShared),
      "prompt": {"type": "string"}, "system": {"type": "string"}, "images": {"type": "array", "items": {"type": "string"}},
      "raw": {"type": "boolean"}, "suffix": {"type": "string"}},
      "anyOf": [{"properties": {"raw": {"enum": [false, null]}}}, {"properties": {"system": {"enum": ["", null]}}}]},
    "OllamaEmbedRequest": {"type": "object", "required": ["model"], "properties": {
      "model": {"type": "string", "minLength": 1},
      "input": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
      "truncate": {"type": "boolean"}, "dimensions": {"type": "integer", "minimum": 0}, "options": {"type": "object"},
      "keep_alive": \#(keepAlive)}},
    "OllamaEmbedOneRequest": {"type": "object", "required": ["model"], "properties": {
      "model": {"type": "string", "minLength": 1},
      "prompt": {"type": "string"}, "options": {"type": "object"}, "keep_alive": \#(keepAlive)}}
    """#

  /// The body without the words of other servers that would change the answer.
  private static func refusingForeignWords(_ schema: JSONValue) -> JSONValue {
    guard var object = schema.objectValue else { return schema }
    let known = Set(object["properties"]?.objectValue?.keys ?? [])
    let words: JSONValue = ["properties": .object(ForeignFields.schemas(without: known))]
    object["allOf"] = .array((object["allOf"]?.arrayValue ?? []) + [words])
    return .object(object)
  }

  private static func requiring(_ names: [JSONValue], of schema: JSONValue?) -> JSONValue? {
    guard var object = schema?.objectValue, var properties = object["properties"]?.objectValue else {
      return nil
    }
    for case .string(let name) in object["required"]?.arrayValue ?? [] where !names.contains(.string(name)) {
      properties[name] = properties[name].map(nullable)
    }
    object["required"] = .array(names)
    object["properties"] = .object(properties)
    return .object(object)
  }

  private static func nullable(_ schema: JSONValue) -> JSONValue { ["anyOf": [schema, ["type": "null"]]] }

  /// The schema with null allowed for all members that are not required, at any depth.
  private static func withNulls(_ schema: JSONValue) -> JSONValue {
    switch schema {
    case .array(let array): return .array(array.map(withNulls))
    case .object(let object):
      let required = object["required"]?.arrayValue ?? []
      var out = JSONObject()
      for (key, value) in object.entries {
        guard key == "properties", let properties = value.objectValue else {
          out[key] = withNulls(value)
          continue
        }
        out[key] = .object(
          JSONObject(
            properties.entries.map { name, schema in
              (name, required.contains(.string(name)) ? withNulls(schema) : nullable(withNulls(schema)))
            }))
      }
      return .object(out)
    default: return schema
    }
  }

  // MARK: What several bodies share

  static let sampling = #"""
    \#(SamplingField.allCases.flatMap { field in
      ([field.name] + field.aliases).map { "\"\($0)\": \(schema(of: field).text)" }
    }.joined(separator: ", ")),
    "seed": {"type": "integer"},
    "min_tokens": {"type": "integer", "minimum": 0}, "additional_properties": {"type": "boolean"},
    "ignore_eos": {"type": "boolean"},
    "stream": {"type": "boolean"}
    """#

  /// Members of chat and Responses.
  static let budgets = ThinkingOptions.budgets.map {
    #""\#($0.name)": {"type": "integer", "minimum": \#($0.least)}"#
  }
  .joined(separator: ", ")

  private static func schema(of field: SamplingField) -> JSONValue {
    func bound(_ value: Double) -> JSONValue { Int(exactly: value).map { .int($0) } ?? .double(value) }
    let note = JSONValue.string(field.row.note)
    switch field.row.setting {
    case .number(_, let range):
      return [
        "type": "number", "minimum": bound(range.lowerBound), "maximum": bound(range.upperBound),
        "description": note,
      ]
    case .count(_, let range):
      return [
        "type": "integer", "minimum": .int(range.lowerBound), "maximum": .int(range.upperBound),
        "description": note,
      ]
    }
  }

  private static func ids(_ limits: RequestLimits) -> String {
    #"""
    "logit_bias": {"type": "object", "maxProperties": \#(limits.logitBiases),
      "additionalProperties": {"type": "number", "minimum": -100, "maximum": 100}},
    "stop_token_ids": {"type": "array", "maxItems": \#(limits.stopTokens),
      "items": {"type": "integer", "minimum": 0}},
    "allowed_token_ids": {"type": "array", "minItems": 1, "items": {"type": "integer", "minimum": 0}},
    "bad_words": \#(words(limits)), "dry_sequence_breakers": \#(words(limits)),
    "include_stop_str_in_output": {"type": "boolean"}, "no_stop_trim": {"type": "boolean"},
    "truncate_prompt_tokens": {"anyOf": [{"const": -1}, {"type": "integer", "minimum": 1}]},
    "n_predict": {"type": "integer", "minimum": -2}, "max_new_tokens": {"type": "integer", "minimum": -2}
    """#
  }

  private static func words(_ limits: RequestLimits) -> String {
    #"""
    {"type": "array", "maxItems": \#(limits.badWords),
      "items": {"type": "string", "minLength": 1, "maxLength": \#(limits.badWordBytes)}}
    """#
  }

  private static func openAI(_ limits: RequestLimits, minimumTokens: Int) -> String {
    let tokens = #"{"type": "integer", "minimum": \#(minimumTokens)}"#
    return #"""
      \#(sampling), \#(ids(limits)),
      "model": {"type": "string", "minLength": 1},
      "max_completion_tokens": \#(tokens), "max_tokens": \#(tokens), "max_output_tokens": \#(tokens),
      "n": {"type": "integer", "minimum": 1, "maximum": \#(limits.choices)},
      "n_cmpl": {"type": "integer", "minimum": 1, "maximum": \#(limits.choices)},
      "prompt_logprobs": {"type": "integer", "minimum": 0, "maximum": \#(limits.topLogprobs)},
      "return_token_ids": {"type": "boolean"}, "echo": {"type": "boolean"},
      "stop": {"anyOf": [{"$ref": "#/components/schemas/StopString"},
        {"type": "array", "maxItems": \#(limits.stops), "items": {"$ref": "#/components/schemas/StopString"}}]},
      "stream_options": {"type": "object", "description": "with stream only",
        "properties": {"include_usage": {"type": "boolean"}, "include_obfuscation": {"type": "boolean"}}},
      "response_format": {"$ref": "#/components/schemas/ResponseFormat"},
      \#(constraints),
      \#(descriptions)
      """#
  }

  /// Words that constrain an answer, on every wire but Ollama's.
  private static let constraints = #"""
    "guided_json": {"$ref": "#/components/schemas/SchemaOrText"},
    "json_schema": {"$ref": "#/components/schemas/SchemaOrText"},
    "guided_regex": {"type": "string"},
    "guided_choice": {"type": "array", "minItems": 1, "maxItems": 1000, "items": {"type": "string"}},
    "guided_grammar": {"type": "string"}, "grammar": {"type": "string"}, "ebnf": {"type": "string"},
    "regex": {"type": "string"}, "structural_tag": {"type": ["object", "string"]},
    "structured_outputs": {"type": "object", "properties": {
      "json": {"$ref": "#/components/schemas/SchemaOrText"}, "regex": {"type": "string"},
      "choice": {"type": "array", "items": {"type": "string"}}, "grammar": {"type": "string"},
      "json_object": {"type": "boolean"}, "structural_tag": {"type": ["object", "string"]}}},
    "guided_decoding_backend": {"type": "string"}, "guided_whitespace_pattern": \#(refused),
    "grammar_lazy": \#(refused), "grammar_triggers": \#(refused)
    """#

  /// What describes a request to a provider and changes nothing here.
  static let descriptions = #"""
    "metadata": {"$ref": "#/components/schemas/Metadata"},
    "store": {"type": "boolean"}, "user": {"type": "string"}, "safety_identifier": {"type": "string"},
    "service_tier": {"enum": ["auto", "default", "flex", "scale", "priority", "fast"]},
    "prompt_cache_key": {"type": "string"}, "prompt_cache_options": {"type": "object"},
    "prompt_cache_retention": {"type": "string"}
    """#

  static let refused = #"{"type": "null", "description": "refused"}"#

  private static func parts(_ limits: RequestLimits) -> String {
    #"""
    "StopString": {"type": "string", "minLength": 1, "maxLength": \#(limits.stopBytes)},
    "Metadata": {"type": "object", "maxProperties": 16,
      "propertyNames": {"maxLength": 64}, "additionalProperties": {"type": "string", "maxLength": 512}},
    "SchemaOrText": {"anyOf": [{"type": "object"}, {"type": "string"}]},
    "ToolName": {"type": "string", "pattern": "^[a-zA-Z0-9_-]{1,128}$"},
    "FunctionTool": {"type": "object", "required": ["type", "function"], "properties": {
      "type": {"const": "function"},
      "function": {"type": "object", "required": ["name"], "properties": {
        "name": {"$ref": "#/components/schemas/ToolName"}, "description": {"type": "string"},
        "parameters": {"type": "object"}, "strict": {"type": "boolean"}}}}},
    "FunctionChoice": {"type": "object", "required": ["type", "function"], "properties": {
      "type": {"const": "function"},
      "function": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}}},
    "ToolChoice": {"anyOf": [{"enum": ["none", "auto", "required"]},
      {"$ref": "#/components/schemas/FunctionChoice"},
      {"type": "object", "required": ["type", "allowed_tools"], "properties": {
        "type": {"const": "allowed_tools"},
        "allowed_tools": {"type": "object", "properties": {"mode": {"enum": ["auto", "required"]},
          "tools": {"type": "array", "items": {"anyOf": [{"$ref": "#/components/schemas/FunctionChoice"},
            {"$ref": "#/components/schemas/FileSearchChoice"}]}}}}}},
      {"$ref": "#/components/schemas/FileSearchChoice"}]},
    "FileSearchChoice": {"type": "object", "required": ["type"], "properties": {"type": {"const": "file_search"}}},
    "ResponseFormat": {"description": "/v1/capabilities says which types are possible", "anyOf": [
      {"type": "object", "required": ["type"], "properties": {"type": {"enum": ["text", "json_object"]}}},
      {"type": "object", "required": ["type", "json_schema"], "properties": {"type": {"const": "json_schema"},
        "json_schema": {"type": "object", "required": ["schema"], "properties": {"name": {"type": "string"},
          "description": {"type": "string"}, "schema": {"type": "object"}, "strict": {"type": "boolean"}}}}},
      {"type": "object", "required": ["type"], "properties": {"type": {"const": "structural_tag"},
        "format": {"type": "object"}, "structures": {"type": "array"}, "triggers": {"type": "array"}}}]},
    "TextPart": {"type": "object", "required": ["type", "text"],
      "properties": {"type": {"const": "text"}, "text": {"type": "string"}}},
    "RefusalPart": {"type": "object", "required": ["type", "refusal"],
      "properties": {"type": {"const": "refusal"}, "refusal": {"type": "string"}}},
    "TextContent": {"anyOf": [{"type": "string"}, {"type": "array", "minItems": 1,
      "maxItems": \#(limits.contentParts), "items": {"$ref": "#/components/schemas/TextPart"}}]},
    "MediaContent": {"anyOf": [{"type": "string"}, {"type": "array", "minItems": 1,
      "maxItems": \#(limits.contentParts), "items": {"anyOf": [{"$ref": "#/components/schemas/TextPart"},
        {"$ref": "#/components/schemas/ImagePart"}, {"$ref": "#/components/schemas/AudioPart"},
        {"$ref": "#/components/schemas/FilePart"}]}}]},
    "ToolContent": {"anyOf": [{"$ref": "#/components/schemas/MediaContent"}, {"type": "array",
      "maxItems": \#(limits.contentParts), "items": {"anyOf": [{"$ref": "#/components/schemas/TextPart"},
        {"$ref": "#/components/schemas/ImagePart"}, {"$ref": "#/components/schemas/AudioPart"},
        {"$ref": "#/components/schemas/FilePart"}, {"$ref": "#/components/schemas/OtherBlock"}]}}]},
    "OtherBlock": {"type": "object", "required": ["type"], "description": "read as its text, or as JSON",
      "properties": {"type": {"type": "string", "not": {"enum": \#(knownBlocks)}}}},
    "FilePart": {"type": "object", "required": ["type", "file"], "properties": {"type": {"const": "file"},
      "file": {"type": "object", "required": ["file_data"], "properties": {
        "filename": {"type": "string"}, "file_data": {"type": "string", "description": "base64 of text"}}}}},
    "CustomTool": {"type": "object", "required": ["type", "custom"], "properties": {"type": {"const": "custom"},
      "custom": {"type": "object", "required": ["name"], "properties": {
        "name": {"$ref": "#/components/schemas/ToolName"}, "description": {"type": "string"},
        "format": {"type": "object"}}}}},
    "HostedTool": {"type": "object", "required": ["type"], "description": "left out, and named in the header",
      "properties": {"type": {"type": "string", "not": {"enum": ["function", "custom", "file_search"]}}}},
    "FileSearchTool": {"type": "object", "required": ["type", "vector_store_ids"],
      "description": "searched by the server when the model calls it; once in a request", "properties": {
        "type": {"const": "file_search"},
        "vector_store_ids": {"type": "array", "minItems": 1, "maxItems": 8, "items": {"type": "string"}},
        "max_num_results": {"type": "integer", "minimum": 1, "maximum": 50},
        "filters": {"$ref": "#/components/schemas/AttributeFilter"},
        "ranking_options": {"$ref": "#/components/schemas/RankingOptions"}}},
    "ChatTool": {"anyOf": [{"$ref": "#/components/schemas/FunctionTool"},
      {"$ref": "#/components/schemas/CustomTool"}, {"$ref": "#/components/schemas/FileSearchTool"},
      {"$ref": "#/components/schemas/HostedTool"}]},
    "ImagePart": {"type": "object", "required": ["type", "image_url"], "properties": {
      "type": {"const": "image_url"}, "image_url": {"anyOf": [{"type": "string"},
        {"type": "object", "required": ["url"], "properties": {
          "url": {"type": "string", "description": "data:...;base64, attachment:NAME, or file:///..."},
          "detail": {"enum": ["auto", "low", "high", "original"]}}}]}}},
    "AudioPart": {"type": "object", "required": ["type", "input_audio"], "properties": {
      "type": {"const": "input_audio"}, "input_audio": {"type": "object", "required": ["data", "format"],
        "properties": {"data": {"type": "string", "description": "base64 of a WAV file, or attachment:NAME"},
          "format": {"const": "wav"}}}}},
    "ChatMessage": {"anyOf": [
      {"type": "object", "required": ["role", "content"], "properties": {"name": {"type": "string"},
        "role": {"enum": ["system", "developer"]},
        "content": {"$ref": "#/components/schemas/TextContent"}}},
      {"type": "object", "required": ["role", "content"], "properties": {"name": {"type": "string"},
        "role": {"const": "user"}, "content": {"$ref": "#/components/schemas/MediaContent"}}},
      {"type": "object", "required": ["role", "content", "tool_call_id"], "properties": {
        "role": {"const": "tool"}, "tool_call_id": {"type": "string"},
        "content": {"$ref": "#/components/schemas/ToolContent"}}},
      {"type": "object", "required": ["role"], "properties": {"role": {"const": "assistant"},
        "name": {"type": "string"}, "refusal": {"type": "string"}, "reasoning_content": {"type": "string"},
        "reasoning": {"type": "string"}, "thinking": {}, "reasoning_details": {},
        "content": {"anyOf": [{"type": "string"}, {"type": "array", "minItems": 1, "items": {"anyOf": [
          {"$ref": "#/components/schemas/TextPart"}, {"$ref": "#/components/schemas/RefusalPart"}]}}]},
        "tool_calls": {"type": "array", "items": {"type": "object", "required": ["id"],
          "properties": {"id": {"type": "string"}, "type": {"enum": ["function", "custom"]},
            "custom": {"type": "object"},
            "function": {"type": "object", "required": ["name", "arguments"], "properties": {
              "name": {"type": "string"}, "arguments": {"type": "string"}}}}}}}}]}
    """#
  }

  private static let knownBlocks = JSONValue.array(
    (Transcript.foreignMedia + ["text", "search_result"]).map(JSONValue.string)
  ).text

  // MARK: The bodies

  private static func chat(_ limits: RequestLimits) -> String {
    #"""
    "ChatForm": {"type": "object", "required": ["request"], "properties": {
      "request": {"type": "string", "contentMediaType": "application/json",
        "contentSchema": {"$ref": "#/components/schemas/ChatRequest"}}},
      "additionalProperties": {"type": "string", "format": "binary"}},
    "ChatRequest": {"type": "object", "required": ["model", "messages"], "allOf": [\#(logprobsFirst), \#(streamFirst)], "properties": {
      \#(openAI(limits, minimumTokens: 1)),
      "messages": {"type": "array", "minItems": 1, "maxItems": \#(limits.messages),
        "items": {"$ref": "#/components/schemas/ChatMessage"}},
      "logprobs": {"type": "boolean"},
      "top_logprobs": {"type": "integer", "minimum": 0, "maximum": \#(limits.topLogprobs)},
      "tools": {"type": "array", "maxItems": \#(limits.tools),
        "items": {"$ref": "#/components/schemas/ChatTool"}},
      "tool_choice": {"$ref": "#/components/schemas/ToolChoice"},
      "parallel_tool_calls": {"type": "boolean"},
      "reasoning_effort": {"enum": ["none", "minimal", "low", "medium", "high", "xhigh", "max"]},
      "thinking": {"anyOf": [{"type": "boolean"}, {"type": "object", "properties": {
        "type": {"enum": ["enabled", "disabled", "adaptive"]},
        "budget_tokens": {"type": "integer", "minimum": 0}}}]},
      \#(budgets),
      "reasoning": {"type": "object", "properties": {
        "effort": {"enum": ["none", "minimal", "low", "medium", "high", "xhigh", "max"]},
        "max_tokens": {"type": "integer", "minimum": 0}, "enabled": {"type": "boolean"},
        "exclude": {"type": "boolean"}, "summary": {"type": "string"}}},
      "chat_template_kwargs": {"type": "object"},
      "include_reasoning": {"type": "boolean"},
      "add_generation_prompt": {"type": "boolean"},
      "continue_final_message": {"type": "boolean"},
      "modalities": {"type": "array", "items": {"const": "text"}},
      "audio": {"type": "object"},
      "prediction": {"type": "object"},
      "verbosity": {"enum": ["low", "medium", "high"]},
      "functions": \#(refused), "function_call": \#(refused), "moderation": \#(refused),
      "web_search_options": \#(refused), "chat_template": \#(refused)}}
    """#
  }

  private static func completion(_ limits: RequestLimits) -> String {
    let tokens = #"{"type": "array", "minItems": 1, "items": {"type": "integer", "minimum": 0}}"#
    return #"""
      "CompletionRequest": {"type": "object", "required": ["model", "prompt"], "allOf": [\#(streamFirst)], "properties": {
        \#(openAI(limits, minimumTokens: 0)),
        "prompt": {"anyOf": [{"type": "string"}, \#(tokens),
          {"type": "array", "minItems": 1, "maxItems": \#(limits.prompts), "items": {"type": "string"}},
          {"type": "array", "minItems": 1, "maxItems": \#(limits.prompts), "items": \#(tokens)}]},
        "best_of": {"type": "integer", "minimum": 1, "description": "the value of n"},
        "add_special_tokens": {"type": "boolean"},
        "logprobs": {"type": "integer", "minimum": 0, "maximum": \#(limits.completionLogprobs)},
        "suffix": {"type": "string"}, "tools": \#(refused), "top_logprobs": \#(refused),
        "prompt_embeds": \#(refused)}}
      """#
  }

  private static func messages(_ limits: RequestLimits) -> String {
    #"""
    "TextBlocks": {"anyOf": [{"type": "string"},
      {"type": "array", "maxItems": \#(limits.contentParts), "items": {"$ref": "#/components/schemas/TextPart"}}]},
    "ImageBlock": {"type": "object", "required": ["type", "source"], "properties": {"type": {"const": "image"},
      "source": {"anyOf": [
        {"type": "object", "required": ["type", "media_type", "data"], "properties": {
          "type": {"const": "base64"}, "media_type": {"type": "string"}, "data": {"type": "string"}}},
        {"type": "object", "required": ["type", "url"], "properties": {
          "type": {"const": "url"}, "url": {"type": "string"}}}]}}},
    "DocumentBlock": {"type": "object", "required": ["type", "source"], "properties": {
      "type": {"const": "document"}, "title": {"type": "string"}, "context": {"type": "string"},
      "source": {"type": "object", "required": ["type"], "properties": {
        "type": {"enum": ["text", "content", "base64"]}}}}},
    "SearchResultBlock": {"type": "object", "required": ["type", "title", "source", "content"], "properties": {
      "type": {"const": "search_result"}, "title": {"type": "string"}, "source": {"type": "string"},
      "content": {"$ref": "#/components/schemas/TextBlocks"}}},
    "MediaBlocks": {"anyOf": [{"type": "string"}, {"type": "array", "maxItems": \#(limits.contentParts),
      "items": {"anyOf": [{"$ref": "#/components/schemas/TextPart"},
        {"$ref": "#/components/schemas/ImageBlock"}, {"$ref": "#/components/schemas/DocumentBlock"},
        {"$ref": "#/components/schemas/SearchResultBlock"}, {"$ref": "#/components/schemas/OtherBlock"}]}}]},
    "UserBlock": {"anyOf": [{"$ref": "#/components/schemas/TextPart"},
      {"$ref": "#/components/schemas/ImageBlock"}, {"$ref": "#/components/schemas/DocumentBlock"},
      {"$ref": "#/components/schemas/SearchResultBlock"}, {"$ref": "#/components/schemas/CompactionBlock"},
      {"type": "object", "required": ["type", "tool_use_id"], "properties": {"type": {"const": "tool_result"},
        "tool_use_id": {"type": "string"}, "is_error": {"type": "boolean"},
        "content": {"$ref": "#/components/schemas/MediaBlocks"}}}]},
    "CompactionBlock": {"type": "object", "required": ["type"], "properties": {
      "type": {"const": "compaction"}, "content": {"type": ["string", "null"]}}},
    "AssistantBlock": {"anyOf": [{"$ref": "#/components/schemas/TextPart"},
      {"$ref": "#/components/schemas/CompactionBlock"},
      {"type": "object", "required": ["type", "thinking"], "properties": {"type": {"const": "thinking"},
        "thinking": {"type": "string"}, "signature": {"type": "string"}}},
      {"type": "object", "required": ["type"], "properties": {"type": {"const": "redacted_thinking"}}},
      {"type": "object", "required": ["type", "id", "name", "input"], "properties": {
        "type": {"const": "tool_use"}, "id": {"type": "string"}, "name": {"type": "string"},
        "input": {"type": "object"}}}]},
    "MessagesTool": {"anyOf": [
      {"type": "object", "required": ["name", "input_schema"], "properties": {
        "type": {"const": "custom"}, "name": {"$ref": "#/components/schemas/ToolName"},
        "description": {"type": "string"}, "input_schema": {"type": "object"}, "strict": {"type": "boolean"},
        "defer_loading": {"type": "boolean"}}},
      {"type": "object", "required": ["type"],
        "description": "a tool that the client runs; others are left out, and named in the header",
        "properties": {"type": {"type": "string", "not": {"const": "custom"}}}}]},
    "MessagesRequest": {"type": "object", "required": ["model", "messages", "max_tokens"], "allOf": [\#(logprobsFirst)], "properties": {
      \#(sampling), \#(ids(limits)), \#(constraints),
      "stop": \#(refused), "response_format": \#(refused), "reasoning_effort": \#(refused), "n": {"const": 1},
      "model": {"type": "string", "minLength": 1},
      "max_tokens": {"type": "integer", "minimum": 1},
      "logprobs": {"type": "boolean"},
      "top_logprobs": {"type": "integer", "minimum": 0, "maximum": \#(limits.topLogprobs)},
      "system": {"$ref": "#/components/schemas/TextBlocks"},
      "messages": {"type": "array", "minItems": 1, "maxItems": \#(limits.messages), "items": {"anyOf": [
        {"type": "object", "required": ["role", "content"], "properties": {"role": {"const": "system"},
          "content": {"$ref": "#/components/schemas/TextBlocks"}}},
        {"type": "object", "required": ["role", "content"], "properties": {"role": {"const": "user"},
          "content": {"anyOf": [{"type": "string"}, {"type": "array", "minItems": 1,
            "items": {"$ref": "#/components/schemas/UserBlock"}}]}}},
        {"type": "object", "required": ["role", "content"], "properties": {"role": {"const": "assistant"},
          "content": {"anyOf": [{"type": "string"}, {"type": "array",
            "items": {"$ref": "#/components/schemas/AssistantBlock"}}]}}}]}},
      "stop_sequences": {"type": "array", "maxItems": \#(limits.stops),
        "items": {"$ref": "#/components/schemas/StopString"}},
      "tools": {"type": "array", "maxItems": \#(limits.tools),
        "items": {"$ref": "#/components/schemas/MessagesTool"}},
      "tool_choice": {"type": "object", "required": ["type"], "properties": {
        "type": {"enum": ["auto", "any", "tool", "none"]}, "name": {"type": "string"},
        "disable_parallel_tool_use": {"type": "boolean"}}},
      "thinking": {"type": "object", "required": ["type"], "properties": {
        "type": {"enum": ["enabled", "disabled", "adaptive"]},
        "budget_tokens": {"type": "integer", "minimum": 1}, "display": {"enum": ["summarized", "omitted"]}}},
      "output_config": {"type": "object", "properties": {
        "effort": {"enum": ["low", "medium", "high", "xhigh", "max"]},
        "format": {"type": "object", "required": ["type", "schema"],
          "properties": {"type": {"const": "json_schema"}, "schema": {"type": "object"}}}}},
      "metadata": {"type": "object", "properties": {"user_id": {"type": "string"}}},
      "cache_control": {"type": "object"},
      "service_tier": {"enum": ["auto", "standard_only"]},
      "speed": {"enum": ["standard", "fast"]},
      "inference_geo": {"type": "string"},
      "context_management": {"type": "object", "properties": {
        "edits": {"type": "array", "items": {"type": "object", "required": ["type"], "properties": {"type": {"type": "string"}}}}}},
      "container": \#(refused), "thread": \#(refused), "mcp_servers": \#(refused),
      "compaction": {"type": "object"}}}
    """#
  }

  private static func tokens(_ limits: RequestLimits) -> String {
    #"""
    "TokenizeRequest": {"type": "object", "anyOf": [
      {"required": ["content"], "properties": {"content": {"type": "string"}, "prompt": {"type": "null"},
        "messages": {"type": "null"}}},
      {"required": ["prompt"], "properties": {"prompt": {"type": "string"}, "content": {"type": "null"},
        "messages": {"type": "null"}}},
      {"required": ["messages"], "properties": {"messages": {"type": "array"}, "content": {"type": "null"},
        "prompt": {"type": "null"}, "add_special": {"enum": [false, null]},
        "add_special_tokens": {"enum": [false, null]}}}],
      "properties": {
        "model": {"type": "string"}, "content": {"type": "string"}, "prompt": {"type": "string"},
        "messages": {"type": "array", "minItems": 1, "items": {"$ref": "#/components/schemas/ChatMessage"}},
        "tools": {"type": "array", "items": {"$ref": "#/components/schemas/FunctionTool"}},
        "add_generation_prompt": {"type": "boolean"}, "continue_final_message": {"type": "boolean"},
        "chat_template_kwargs": {"type": "object"},
        "add_special": {"type": "boolean"}, "add_special_tokens": {"type": "boolean"},
        "parse_special": {"type": "boolean"}, "with_pieces": {"type": "boolean"},
        "return_token_strs": {"type": "boolean"}}},
    "ModelRequest": {"type": "object", "required": ["model"], "properties": {"model": {"type": "string"}}},
    "DetokenizeRequest": {"type": "object", "required": ["tokens"], "properties": {
      "model": {"type": "string"},
      "tokens": {"type": "array", "maxItems": \#(limits.detokenizedTokens),
        "items": {"type": "integer", "minimum": 0}}}}
    """#
  }
}
