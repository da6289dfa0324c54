// Schemas of everything that the server sends, in a short notation.

import JSON

/// The notation: an object stands for an object with exactly these members, of which those whose name ends in `?`
/// may be missing; an array stands for an array. Strings name types, joined by `|`: JSON's own, other schemas by their
/// capital letter, a literal in single quotes, and `any`.
enum OpenAPIResponses {
  static func schemas() throws(JSONError) -> JSONObject {
    guard let notation = try JSONValue(parsing: notation).objectValue else { return JSONObject() }
    return JSONObject(notation.entries.map { ($0.key, schema($0.value)) })
  }

  /// Of the last line.
  private static let ollamaCounts = [
    "total_duration", "load_duration", "prompt_eval_count", "prompt_eval_cached", "prompt_eval_duration",
    "eval_count",
    "eval_duration",
  ].map { "\"\($0)?\": \"integer\"" }.joined(separator: ", ")

  private static let notation = #"""
    {
      \#(OpenAPIResponsesWire.answers),
      \#(OpenAPIVectorStores.answers),
      \#(OpenAPIBatches.answers),
      \#(OpenAPIEditors.answers),
      \#(OpenAPIScores.answers),
      \#(OpenAPITranscriptions.answers),
      "Any": "any",
      "OllamaError": {"error": "string"},
      "OllamaVersion": {"version": "string", "mlxserve": "string"},
      "OllamaList": {"models": ["any"]},
      "OllamaVectors": {"model": "string", "embeddings": [["number"]], "total_duration": "integer",
        "load_duration": "integer", "prompt_eval_count": "integer"},
      "OllamaVector": {"embedding": ["number"]},
      "OllamaChat": {"model": "string", "created_at": "string", "message": {"role": "'assistant'", "content": "string",
        "thinking?": "string", "tool_calls?": ["any"]}, "done": "boolean", "done_reason?": "string", "logprobs?": ["any"],
        "prompt_progress?": "PromptProgress", "receipt?": "object", \#(ollamaCounts)},
      "OllamaCompletion": {"model": "string", "created_at": "string", "response": "string", "thinking?": "string",
        "done": "boolean", "done_reason?": "string", "logprobs?": ["any"],
        "prompt_progress?": "PromptProgress", "receipt?": "object", \#(ollamaCounts)},
      "Version": {"version": "string"},
      "TokenizerInfo": {"model": "string", "tokenizer_class": "string", "vocab_size": "integer", "model_max_length": "integer",
        "chat_template": "string|null", "bos_token": "string|null", "eos_token": "string|null",
        "pad_token": "string|null", "unk_token": "string|null"},
      "Properties": {"default_generation_settings": {"n_ctx": "integer", "params": "object"},
        "total_slots": "integer", "model_path": "string", "model_alias": "string",
        "modalities": {"vision": "boolean", "audio": "boolean"}, "chat_template": "string",
        "bos_token": "string", "eos_token": "string", "build_info": "string", "is_sleeping": "boolean"},
      "Slots": [{"id": "integer", "n_ctx": "integer", "is_processing": "boolean",
        "prompt_progress?": "PromptProgress"}],
      "PromptProgress": {"total": "integer", "cache": "integer", "processed": "integer", "time_ms": "integer",
        "remaining_ms": "integer|null"},
      "Text": "string",
      "Error": {"error": {"message": "string", "type": "string", "param": "string|null", "code": "string|null",
        "details?": "object"}},
      "Health": {"status": "'ok'"},
      "Model": {"id": "string", "object": "'model'", "created": "integer", "owned_by": "string",
        "context_length": "integer|null", "input_modalities": "Strings|null",
        "task": "string|null", "embedding": "object|null", "size_bytes": "integer|null", "aliases": ["string"], "pinned": "boolean",
        "status": "ModelStatus", "parent?": "string"},
      "ModelStatus": {"value": "'loaded'|'loading'|'unloaded'", "progress?": "number", "failed?": "boolean", "error?": "string"},
      "OpenAIModelList": {"object": "'list'", "data": ["Model"]},
      "MessagesModel": {"type": "'model'", "id": "string", "display_name": "string", "created_at": "string",
        "max_input_tokens": "integer|null", "max_tokens": "integer|null", "lifecycle": "'active'"},
      "MessagesModelList": {"data": ["MessagesModel"], "has_more": "boolean", "first_id": "string|null",
        "last_id": "string|null"},
      "ModelList": "OpenAIModelList|MessagesModelList",
      "AnyModel": "Model|MessagesModel",
      "AnyModelError": "Error|MessagesError",
      "ModelChange": {"success": "boolean", "model": "string", "status": "ModelStatus"},
      "InputTokens": {"object": "'response.input_tokens'", "input_tokens": "integer"},

      "Usage": {"prompt_tokens": "integer", "completion_tokens": "integer", "total_tokens": "integer",
        "prompt_tokens_details": {"cached_tokens": "integer", "audio_tokens?": "integer"},
        "completion_tokens_details": {"reasoning_tokens": "integer"},
        "input_tokens": "integer", "output_tokens": "integer",
        "output_tokens_details": {"reasoning_tokens": "integer"}},
      "FinishReason": "'stop'|'length'|'tool_calls'",
      "TokenLogprob": {"token": "string", "logprob": "number", "bytes": ["integer"]},
      "Logprobs": {"content": [{"token": "string", "logprob": "number", "bytes": ["integer"],
        "top_logprobs": ["TokenLogprob"]}], "refusal": "null"},
      "FunctionToolCall": {"id": "string", "type": "'function'",
        "function": {"name": "string", "arguments": "string"}},
      "CustomCall": {"id": "string", "type": "'custom'", "custom": {"name": "string", "input": "string"}},
      "ToolCall": "FunctionToolCall|CustomCall",
      "ChatCompletion": {"id": "string", "object": "'chat.completion'", "created": "integer", "model": "string",
        "system_fingerprint": "string", "service_tier": "string", "usage": "Usage",
        "prompt_logprobs?": ["object|null"], "prompt_token_ids?": ["integer"], "metadata?": "object",
        "choices": [{"index": "integer", "logprobs": "Logprobs|null", "finish_reason": "FinishReason",
          "malformed_tool_calls?": "integer", "token_ids?": ["integer"], "receipt?": "object",
          "message": {"role": "'assistant'", "content": "string|null", "refusal": "null", "annotations": ["ChatCitation"],
            "file_search_calls?": ["FileSearchCall"], "reasoning_content?": "string",
            "reasoning?": "string", "tool_calls?": ["ToolCall"]}}]},
      "ChatCompletionList": {"object": "'list'", "data": ["ChatCompletion"], "first_id": "string|null",
        "last_id": "string|null", "has_more": "boolean"},
      "ChatMessageList": {"object": "'list'", "data": ["Item"], "first_id": "string|null",
        "last_id": "string|null", "has_more": "boolean"},
      "StudioModel": {"id": "string", "object": "'model'", "type": "'llm'|'vlm'|'embeddings'",
        "publisher": "string", "arch": "string", "compatibility_type": "'mlx'", "quantization": "string",
        "state": "'loaded'|'not-loaded'", "max_context_length?": "integer", "loaded_context_length?": "integer",
        "capabilities": ["string"]},
      "StudioModelList": {"object": "'list'", "data": ["StudioModel"]},
      "ChatCitation": {"type": "'url_citation'", "url_citation": {"start_index": "integer", "end_index": "integer",
        "title": "string", "url": "string", "file_id": "string"}},
      "FileSearchCall": {"type": "'file_search_call'", "id": "string", "status": "string", "queries": ["string"],
        "results": "FoundTexts|null"},
      "FoundTexts": ["FoundText"],
      "FoundText": {"file_id": "string", "filename": "string", "score": "number", "attributes": "object",
        "text": "string", "offset?": "integer"},
      "ChatDelta": {"annotations?": ["ChatCitation"], "file_search_calls?": ["FileSearchCall"],
        "role?": "'assistant'", "content?": "string|null", "refusal?": "null",
        "reasoning_content?": "string", "reasoning?": "string",
        "tool_calls?": [{"index": "integer", "id?": "string", "type?": "'function'|'custom'",
          "function?": {"name?": "string", "arguments": "string"},
          "custom?": {"name?": "string", "input": "string"}}]},
      "ChatCompletionChunk": {"id": "string", "object": "'chat.completion.chunk'", "created": "integer",
        "model": "string", "system_fingerprint": "string", "usage?": "Usage|null", "prompt_token_ids?": ["integer"],
        "prompt_progress?": "PromptProgress",
        "choices": [{"index": "integer", "delta": "ChatDelta", "logprobs": "Logprobs|null",
          "finish_reason": "FinishReason|null", "malformed_tool_calls?": "integer", "token_ids?": ["integer"],
          "receipt?": "object"}]},
      "ReceiptVerification": {"object": "'receipt.verification'", "is_same": "boolean", "words": "string",
        "tokens": "integer", "probabilities_differ": "boolean", "mismatches": ["string"],
        "difference?": {"index": "integer", "written": "integer|null", "taken": "integer|null",
          "written_text": "string", "taken_text": "string", "written_probability": "number|null",
          "taken_probability": "number|null"}},

      "LegacyLogprobs": {"tokens": ["string"], "token_logprobs": ["number|null"],
        "top_logprobs": ["object|null"], "text_offset": ["integer"]},
      "Completion": {"id": "string", "object": "'text_completion'", "created": "integer", "model": "string",
        "system_fingerprint": "string", "usage?": "Usage|null", "prompt_progress?": "PromptProgress",
        "choices": [{"index": "integer", "text": "string", "logprobs": "LegacyLogprobs|null",
          "finish_reason": "FinishReason|null", "prompt_logprobs?": ["object|null"],
          "prompt_token_ids?": ["integer"], "token_ids?": ["integer"], "receipt?": "object"}]},

      "TextBlock": {"type": "'text'", "text": "string", "citations": "null"},
      "ThinkingBlock": {"type": "'thinking'", "thinking": "string", "signature": "string"},
      "ToolUseBlock": {"type": "'tool_use'", "id": "string", "name": "string", "input": "object",
        "caller": {"type": "'direct'"}},
      "ContentBlock": "TextBlock|ThinkingBlock|ToolUseBlock",
      "StopReason": "'end_turn'|'max_tokens'|'stop_sequence'|'tool_use'",
      "MessagesCounts": {"input_tokens": "integer", "cache_creation_input_tokens": "integer",
        "cache_read_input_tokens": "integer", "output_tokens": "integer",
        "output_tokens_details": {"thinking_tokens": "integer"}, "server_tool_use": "null"},
      "MessagesUsage": {"input_tokens": "integer", "cache_creation_input_tokens": "integer",
        "cache_read_input_tokens": "integer", "output_tokens": "integer",
        "output_tokens_details": {"thinking_tokens": "integer"}, "server_tool_use": "null",
        "cache_creation": "null", "service_tier": "string", "inference_geo": "null"},
      "Message": {"id": "string", "type": "'message'", "role": "'assistant'", "model": "string",
        "content": ["ContentBlock"], "stop_reason": "StopReason|null", "stop_sequence": "string|null",
        "stop_details": "null", "container": "null", "usage": "MessagesUsage", "logprobs?": "Logprobs",
        "receipt?": "object"},
      "Ping": {"type": "'ping'", "prompt_progress": "PromptProgress"},
      "MessageStart": {"type": "'message_start'", "message": "Message"},
      "BlockStart": {"type": "'content_block_start'", "index": "integer", "content_block": "ContentBlock"},
      "TextDelta": {"type": "'text_delta'", "text": "string"},
      "ThinkingDelta": {"type": "'thinking_delta'", "thinking": "string"},
      "SignatureDelta": {"type": "'signature_delta'", "signature": "string"},
      "InputDelta": {"type": "'input_json_delta'", "partial_json": "string"},
      "BlockDelta": {"type": "'content_block_delta'", "index": "integer",
        "delta": "TextDelta|ThinkingDelta|SignatureDelta|InputDelta", "logprobs?": "Logprobs"},
      "BlockStop": {"type": "'content_block_stop'", "index": "integer"},
      "MessageDelta": {"type": "'message_delta'", "usage": "MessagesCounts",
        "delta": {"stop_reason": "StopReason", "stop_sequence": "string|null", "stop_details": "null",
          "container": "null"}, "receipt?": "object"},
      "MessageStop": {"type": "'message_stop'"},
      "MessageEvent":
        "MessageStart|Ping|BlockStart|BlockDelta|BlockStop|MessageDelta|MessageStop|MessagesError",
      "MessagesError": {"type": "'error'", "error": {"type": "string", "message": "string", "details?": "object"},
        "request_id": "string"},
      "MessageTokens": {"input_tokens": "integer"},

      "Embeddings": {"object": "'list'", "model": "string", "truncated?": ["integer"],
        "data": [{"object": "'embedding'", "index": "integer", "embedding": "Vector|string"}],
        "usage": {"prompt_tokens": "integer", "total_tokens": "integer"}},
      "Vector": ["number"],
      "TokenPiece": {"id": "integer", "piece": "string|Bytes"},
      "Bytes": ["integer"],
      "Strings": ["string"],
      "TokenizeResponse": {"count": "integer", "max_model_len": "integer", "tokens": ["integer|TokenPiece"],
        "token_strs": "Strings|null"},
      "DetokenizeResponse": {"content": "string", "prompt": "string"},
      "TemplateResponse": {"prompt": "string"},

      "ImageAbilities": {"formats": ["string"], "pixels": "integer", "files": "boolean", "fetches": "boolean",
        "tokens": {"auto": "integer", "low": "integer", "high": "integer", "original": "integer"}},
      "SoundAbilities": {"formats": ["string"], "seconds": "integer", "bytes": "integer"},
      "Quantization": {"mode": "string", "bits": "integer", "group_size": "integer"},
      "Capabilities": {"id": "string", "object": "'model.capabilities'", "model_type": "string|null",
        "context_length": "integer", "vocabulary_size": "integer", "compute_mode": "string",
        "quantization": "Quantization|null", "endpoints": ["string"],
        "modalities": {"input": ["string"], "output": ["string"]}, "images": "ImageAbilities|null", "sounds": "SoundAbilities|null",
        "transcription": "TranscriptionAbilities|null",
        "chat": "boolean", "streaming": "boolean", "logprobs": "boolean",
        "tools": {"supported": "boolean", "syntax": "string|null", "choices": ["string"], "file_search": "boolean",
          "parallel": "boolean",
          "strict": "boolean"},
        "thinking": {"supported": "boolean", "switch": "boolean", "budget": "boolean"},
        "structured_output": {"json_object": "boolean", "json_schema": "boolean", "regex": "boolean",
          "choice": "boolean", "grammar": "boolean", "structural_tag": "boolean", "quote": "boolean",
          "additional_properties": "boolean", "missing_bytes": ["integer"]},
        "sampling": "object",
        "limits": {"choices": "integer", "messages": "integer", "content_parts": "integer", "media_parts": "integer", "tools": "integer",
          "schema_bytes": "integer", "stops": "integer", "stop_bytes": "integer", "stop_tokens": "integer",
          "answer_tokens": "integer", "logit_biases": "integer", "top_logprobs": "integer", "prompts": "integer",
          "completion_logprobs": "integer"}},
      "CapabilitiesList": {"object": "'list'", "data": ["Capabilities"],
        "server": {"pull": "boolean", "vector_stores": "boolean",
          "mcp": {"servers": ["string"], "urls": "boolean"},
          "known": [{"name": "string", "bytes": "integer", "note": "string"}]}}
    }
    """#

  private static func schema(_ notation: JSONValue) -> JSONValue {
    switch notation {
    case .string(let names):
      let alternatives = names.split(separator: "|").map { named($0) }
      if alternatives.count == 1 { return alternatives[0] }
      let words = alternatives.compactMap { $0["const"] }
      return words.count == alternatives.count
        ? ["type": "string", "enum": .array(words)] : ["anyOf": .array(alternatives)]
    case .array(let elements):
      return ["type": "array", "items": elements.first.map(schema) ?? true]
    case .object(let members):
      var required: [JSONValue] = []
      var properties = JSONObject()
      for (key, value) in members.entries {
        let isOptional = key.hasSuffix("?")
        let name = isOptional ? String(key.dropLast()) : key
        if !isOptional { required.append(.string(name)) }
        properties[name] = schema(value)
      }
      return [
        "type": "object", "required": .array(required), "properties": .object(properties),
        "additionalProperties": false,
      ]
    default: return true
    }
  }

  private static func named(_ name: Substring) -> JSONValue {
    let first = name.utf8.first ?? 0
    if first == UInt8(ascii: "'") { return ["const": .string(String(name.dropFirst().dropLast()))] }
    if (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(first) {
      return ["$ref": .string("#/components/schemas/\(name)")]
    }
    return name == "any" ? [:] : ["type": .string(String(name))]
  }
}
