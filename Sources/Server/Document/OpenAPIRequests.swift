// Schemas of the bodies that the server reads: what their readers note, and the parts that they refer to.

import JSON
import Wire

enum OpenAPIRequests {
  /// Optional members may also be null: that is the same as leaving them out.
  ///
  /// - Parameter bodies: all that are read; they describe themselves.
  static func schemas(_ limits: RequestLimits, _ bodies: [DescribedBody]) throws(JSONError) -> JSONObject {
    let text =
      "{\(ollama), \(parts(limits)), \(messages(limits)), \(OpenAPIVectorStores.requests), \(OpenAPITranscriptions.requests), "
      + "\(OpenAPIResponsesWire.requests)}"
    guard var all = try JSONValue(parsing: text).objectValue else { return JSONObject() }
    for body in bodies {
      // An example that its own reader refuses leaves a schema that takes nothing.
      all[body.name] = try (try? FieldNotes(limits: limits, of: body.read))?.schema() ?? false
    }
    return JSONObject(all.entries.map { ($0.key, withNulls($0.value)) })
  }

  private static func role(_ name: String, _ members: String = "") -> String {
    #"""
    {"type": "object", "required": ["role"], "properties": {"role": {"const": "\#(name)"}, "content": {"type": "string"},
      "images": {"type": "array", "items": {"type": "string", "description": "base64"}}\#(members)}}
    """#
  }

  private static let ollama = #"""
    "OllamaMessage": {"anyOf": [\#(role("system")), \#(role("developer")), \#(role("user")),
      \#(role("assistant", #", "thinking": {"type": "string"}, "tool_calls": {"type": "array", "items": {"type": "object"}}"#)),
      \#(role("tool", #", "tool_name": {"type": "string"}, "tool_call_id": {"type": "string"}"#))]}
    """#

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

  private static func parts(_ limits: RequestLimits) -> String {
    #"""
    "ChatForm": {"type": "object", "required": ["request"], "properties": {
      "request": {"type": "string", "contentMediaType": "application/json",
        "contentSchema": {"$ref": "#/components/schemas/ChatRequest"}}},
      "additionalProperties": {"type": "string", "format": "binary"}},
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
        "format": {"type": "object"}, "structures": {"type": "array"}, "triggers": {"type": "array"}}},
      {"type": "object", "required": ["type", "source"], "properties": {"type": {"const": "quote"}, "source": {"anyOf": [
        {"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1},
        {"const": {"from": "messages"}}]}}}]},
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
    "MessagesMessage": {"anyOf": [
        {"type": "object", "required": ["role", "content"], "properties": {"role": {"const": "system"},
          "content": {"$ref": "#/components/schemas/TextBlocks"}}},
        {"type": "object", "required": ["role", "content"], "properties": {"role": {"const": "user"},
          "content": {"anyOf": [{"type": "string"}, {"type": "array", "minItems": 1,
            "items": {"$ref": "#/components/schemas/UserBlock"}}]}}},
        {"type": "object", "required": ["role", "content"], "properties": {"role": {"const": "assistant"},
          "content": {"anyOf": [{"type": "string"}, {"type": "array",
            "items": {"$ref": "#/components/schemas/AssistantBlock"}}]}}}]}
    """#
  }
}
