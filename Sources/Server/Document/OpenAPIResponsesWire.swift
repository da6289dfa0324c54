// The part of /openapi.json that is about Responses and Conversations.

enum OpenAPIResponsesWire {
  /// What describes a request to a provider and changes nothing here.
  private static let descriptions = #"""
    "metadata": {"$ref": "#/components/schemas/Metadata"},
    "store": {"type": "boolean"}, "user": {"type": "string"}, "safety_identifier": {"type": "string"},
    "service_tier": {"enum": ["auto", "default", "flex", "scale", "priority", "fast"]},
    "prompt_cache_key": {"type": "string"}, "prompt_cache_options": {"type": "object"},
    "prompt_cache_retention": {"type": "string"}
    """#

  /// As JSON Schema, members of an object.
  static let requests = #"""
    "ResponsesTool": {"type": "object", "required": ["type"], "properties": {"type": {"type": "string"},
      "name": {"$ref": "#/components/schemas/ToolName"}, "description": {"type": "string"},
      "parameters": {"type": "object"}, "strict": {"type": "boolean"}, "defer_loading": {"type": "boolean"},
      "execution": {"enum": ["server", "client"]}}},
    "InputItem": {"type": "object", "anyOf": [{"required": ["type"], "properties": {"type": {"type": "string"}}},
      {"required": ["role"], "properties": {"role": {"type": "string"}}}]},
    "ConversationRequest": {"type": "object", "properties": {\#(descriptions),
      "items": {"type": "array", "maxItems": 20, "items": {"$ref": "#/components/schemas/InputItem"}}}},
    "ChatCompletionUpdate": {"type": "object", "required": ["metadata"], "properties": {\#(descriptions)}},
    "ConversationUpdate": {"type": "object", "properties": {\#(descriptions)}},
    "ConversationItemsRequest": {"type": "object", "required": ["items"], "properties": {
      "items": {"type": "array", "maxItems": 20, "items": {"$ref": "#/components/schemas/InputItem"}}}}
    """#

  // MARK: Answers

  /// In the notation of `OpenAPIResponses`, members of an object.
  static let answers = #"""
    "Item": "object",
    "ItemList": {"object": "'list'", "data": ["Item"], "first_id": "string", "last_id": "string",
      "has_more": "boolean"},
    "Deleted": {"id": "string", "object": "string", "deleted": "boolean"},
    "Conversation": {"id": "string", "object": "'conversation'", "created_at": "integer", "metadata": "object"},
    "ResponseUsage": {"input_tokens": "integer", "output_tokens": "integer", "total_tokens": "integer",
      "input_tokens_details": {"cached_tokens": "integer", "cache_write_tokens": "integer"},
      "output_tokens_details": {"reasoning_tokens": "integer"}},
    "Compaction": {"id": "string", "object": "'response.compaction'", "created_at": "integer",
      "output": [{"id": "string", "type": "'compaction'", "encrypted_content": "string"}],
      "usage": "ResponseUsage"},
    "ItemStatus": "'in_progress'|'completed'|'incomplete'",
    "OutputText": {"type": "'output_text'", "text": "string", "annotations": ["any"], "logprobs": ["any"]},
    "ReasoningText": {"type": "'reasoning_text'", "text": "string"},
    "SummaryText": {"type": "'summary_text'", "text": "string"},
    "OutputMessage": {"id": "string", "type": "'message'", "role": "'assistant'", "status": "ItemStatus",
      "content": ["OutputText"]},
    "ReasoningItem": {"id": "string", "type": "'reasoning'", "status": "ItemStatus", "summary": ["SummaryText"],
      "content?": ["ReasoningText"], "encrypted_content?": "string"},
    "FunctionCall": {"id": "string", "type": "'function_call'", "status": "ItemStatus", "call_id": "string",
      "name": "string", "namespace?": "string", "arguments": "string"},
    "CustomToolCall": {"id": "string", "type": "'custom_tool_call'", "status": "ItemStatus", "call_id": "string",
      "name": "string", "namespace?": "string", "input": "string"},
    "ToolSearchCall": {"id": "string", "type": "'tool_search_call'", "status": "ItemStatus", "call_id": "string",
      "execution": "'client'", "arguments": "object"},
    "ClientToolCall": {"id": "string", "type": "'local_shell_call'|'shell_call'|'apply_patch_call'",
      "status": "ItemStatus", "call_id": "string", "action?": "object", "operation?": "object"},
    "OutputItem": "OutputMessage|ReasoningItem|FunctionCall|CustomToolCall|FileSearchCall|ToolSearchCall|ClientToolCall",
    "ResponseError": {"code": "string", "message": "string"},
    "IncompleteDetails": {"reason": "string"},
    "Response": {"id": "string", "object": "'response'", "created_at": "integer",
      "completed_at": "integer|null", "background": "boolean", "error": "ResponseError|null",
      "status": "'queued'|'in_progress'|'completed'|'incomplete'|'failed'|'cancelled'",
      "incomplete_details": "IncompleteDetails|null", "instructions": "string|null", "model": "string",
      "output": ["OutputItem"], "previous_response_id": "string|null", "conversation?": {"id": "string"},
      "service_tier": "string", "store": "boolean", "temperature": "number", "top_p": "number",
      "presence_penalty": "number", "frequency_penalty": "number", "truncation": "'auto'|'disabled'",
      "usage": "ResponseUsage|null", "reasoning": {"effort": "string|null", "summary": "string|null"},
      "top_logprobs": "integer", "max_tool_calls": "integer|null", "max_output_tokens": "integer|null",
      "prompt_cache_key": "string|null", "safety_identifier": "string|null", "user?": "string",
      "prompt_cache_retention?": "string", "metadata": "object", "parallel_tool_calls": "boolean",
      "tool_choice": "any", "tools": ["object"], "text": "object"},
    "LifecycleEvent": {"sequence_number": "integer", "response": "Response",
      "type": "'response.created'|'response.queued'|'response.in_progress'|'response.completed'|'response.incomplete'|'response.failed'"},
    "ItemEvent": {"type": "'response.output_item.added'|'response.output_item.done'",
      "sequence_number": "integer", "output_index": "integer", "item": "OutputItem"},
    "PartEvent": {"type": "'response.content_part.added'|'response.content_part.done'",
      "sequence_number": "integer", "item_id": "string", "output_index": "integer", "content_index": "integer",
      "part": "OutputText|ReasoningText"},
    "SummaryPartEvent": {"type": "'response.reasoning_summary_part.added'|'response.reasoning_summary_part.done'",
      "sequence_number": "integer", "item_id": "string", "output_index": "integer", "summary_index": "integer",
      "part": "SummaryText"},
    "OutputTextDelta": {"type": "'response.output_text.delta'", "sequence_number": "integer",
      "item_id": "string", "output_index": "integer", "content_index": "integer", "delta": "string",
      "logprobs": ["any"]},
    "OutputTextDone": {"type": "'response.output_text.done'", "sequence_number": "integer",
      "item_id": "string", "output_index": "integer", "content_index": "integer", "text": "string",
      "logprobs": ["any"]},
    "ReasoningDelta": {"sequence_number": "integer", "item_id": "string", "output_index": "integer",
      "type": "'response.reasoning_text.delta'|'response.reasoning.delta'|'response.reasoning_summary_text.delta'",
      "content_index?": "integer", "summary_index?": "integer", "delta": "string"},
    "ReasoningDone": {"sequence_number": "integer", "item_id": "string", "output_index": "integer",
      "type": "'response.reasoning_text.done'|'response.reasoning.done'|'response.reasoning_summary_text.done'",
      "content_index?": "integer", "summary_index?": "integer", "text": "string"},
    "ArgumentsDelta": {"type": "'response.function_call_arguments.delta'", "sequence_number": "integer",
      "item_id": "string", "output_index": "integer", "delta": "string"},
    "ArgumentsDone": {"type": "'response.function_call_arguments.done'", "sequence_number": "integer",
      "item_id": "string", "output_index": "integer", "name": "string", "arguments": "string"},
    "CustomInputDelta": {"type": "'response.custom_tool_call_input.delta'", "sequence_number": "integer",
      "item_id": "string", "output_index": "integer", "delta": "string"},
    "CustomInputDone": {"type": "'response.custom_tool_call_input.done'", "sequence_number": "integer",
      "item_id": "string", "output_index": "integer", "input": "string"},
    "ResponseEvent":
      "LifecycleEvent|ItemEvent|PartEvent|SummaryPartEvent|OutputTextDelta|OutputTextDone|ReasoningDelta|ReasoningDone|ArgumentsDelta|ArgumentsDone|CustomInputDelta|CustomInputDone"
    """#
}
