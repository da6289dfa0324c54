// The part of /openapi.json that is about Responses and Conversations.

import JSON
import OpenAI

enum OpenAPIResponsesWire {
  private typealias Operation = OpenAPIDocument.Operation

  static let operations: [OpenAPIDocument.Operation] = responses + conversations

  private static let page = ["after", "limit", "order", "include"]

  private static let responses = [
    Operation(
      method: "POST", pattern: "/v1/responses", id: "createResponse",
      summary: "Answers a conversation (Responses)",
      request: "ResponsesRequest", response: "Response", event: "ResponseEvent"),
    Operation(
      method: "GET", pattern: "/v1/responses", id: "connectResponses",
      summary: "Upgrade to a WebSocket that takes messages response.create", response: "Any", status: "101"),
    Operation(
      method: "POST", pattern: "/v1/responses/input_tokens", id: "countResponseTokens",
      summary: "Counts the tokens of a prompt", request: "ResponsesRequest", response: "InputTokens"),
    Operation(
      method: "POST", pattern: "/v1/responses/compact", id: "compactResponse",
      summary: "A conversation as one item", request: "ResponsesRequest", response: "Compaction"),
    Operation(
      method: "GET", pattern: "/v1/responses/:id", id: "retrieveResponse",
      summary: "A stored response, or its events again", response: "Response", event: "ResponseEvent",
      query: ["stream", "starting_after", "include"]),
    Operation(
      method: "DELETE", pattern: "/v1/responses/:id", id: "deleteResponse", summary: "Forgets a response",
      response: "Deleted"),
    Operation(
      method: "POST", pattern: "/v1/responses/:id/cancel", id: "cancelResponse",
      summary: "Ends a response in the background", response: "Response"),
    Operation(
      method: "GET", pattern: "/v1/responses/:id/input_items", id: "listInputItems",
      summary: "What a response was made from", response: "ItemList", query: page),
  ]

  private static let conversations = [
    Operation(
      method: "POST", pattern: "/v1/conversations", id: "createConversation",
      summary: "Begins a conversation",
      request: "ConversationRequest", bodyIsOptional: true, response: "Conversation"),
    Operation(
      method: "GET", pattern: "/v1/conversations/:id", id: "retrieveConversation", summary: "A conversation",
      response: "Conversation"),
    Operation(
      method: "POST", pattern: "/v1/conversations/:id", id: "updateConversation",
      summary: "Changes its metadata",
      request: "ConversationUpdate", response: "Conversation"),
    Operation(
      method: "DELETE", pattern: "/v1/conversations/:id", id: "deleteConversation",
      summary: "Forgets a conversation", response: "Deleted"),
    Operation(
      method: "GET", pattern: "/v1/conversations/:id/items", id: "listConversationItems",
      summary: "Its items",
      response: "ItemList", query: page),
    Operation(
      method: "POST", pattern: "/v1/conversations/:id/items", id: "addConversationItems",
      summary: "Adds items",
      request: "ConversationItemsRequest", response: "ItemList"),
    Operation(
      method: "GET", pattern: "/v1/conversations/:id/items/:item", id: "retrieveConversationItem",
      summary: "One item", response: "Item"),
    Operation(
      method: "DELETE", pattern: "/v1/conversations/:id/items/:item", id: "deleteConversationItem",
      summary: "Removes an item", response: "Conversation"),
  ]

  // MARK: Requests

  /// As JSON Schema, members of an object.
  static func requests(_ limits: RequestLimits, sampling: String) -> String {
    #"""
    "ResponsesTool": {"type": "object", "required": ["type"], "properties": {"type": {"type": "string"},
      "name": {"$ref": "#/components/schemas/ToolName"}, "description": {"type": "string"},
      "parameters": {"type": "object"}, "strict": {"type": "boolean"}, "defer_loading": {"type": "boolean"},
      "execution": {"enum": ["server", "client"]}}},
    "ResponsesRequest": {"type": "object", "required": ["model"], "anyOf": [
      {"required": ["input"], "properties": {"input": {"type": ["string", "array"]}, "conversation": {"type": "null"}}},
      {"required": ["conversation"], "properties": {"conversation": {"type": ["string", "object"]},
        "previous_response_id": {"type": "null"}}},
      {"required": ["previous_response_id"], "properties": {"previous_response_id": {"type": "string"},
        "conversation": {"type": "null"}}}], "properties": {
      \#(sampling),
      "model": {"type": "string", "minLength": 1},
      "input": {"anyOf": [{"type": "string"}, {"type": "array", "minItems": 1, "maxItems": \#(limits.messages),
        "items": {"type": "object"}}]},
      "instructions": {"type": "string"},
      "previous_response_id": {"type": "string"},
      "conversation": {"anyOf": [{"type": "string"}, {"type": "object", "required": ["id"],
        "properties": {"id": {"type": "string"}}}]},
      "store": {"type": "boolean"}, "background": {"type": "boolean"},
      "stream_options": {"type": "object", "properties": {"include_obfuscation": {"type": "boolean"}}},
      "truncation": {"enum": ["auto", "disabled"]},
      "include": {"type": "array", "maxItems": 100,
        "items": {"enum": [\#(ResponsesRequest.inclusions.map { "\"\($0)\"" }.joined(separator: ", "))]}},
      "max_output_tokens": {"type": "integer", "minimum": 1},
      "max_tool_calls": {"type": "integer", "minimum": 1},
      "stop": {"anyOf": [{"$ref": "#/components/schemas/StopString"},
        {"type": "array", "maxItems": \#(limits.stops), "items": {"$ref": "#/components/schemas/StopString"}}]},
      "top_logprobs": {"type": "integer", "minimum": 0, "maximum": \#(limits.topLogprobs)},
      "tools": {"type": "array", "maxItems": \#(limits.tools),
        "items": {"$ref": "#/components/schemas/ResponsesTool"}},
      "tool_choice": {"anyOf": [{"enum": ["none", "auto", "required"]}, {"type": "object",
        "required": ["type"], "properties": {"type": {"enum": ["function", "custom", "file_search", "allowed_tools"]},
          "name": {"type": "string"}, "mode": {"enum": ["auto", "required"]},
          "tools": {"type": "array", "items": {"type": "object"}}}}]},
      "parallel_tool_calls": {"type": "boolean"},
      "text": {"type": "object", "properties": {"verbosity": {"enum": ["low", "medium", "high"]},
        "format": {"type": "object", "required": ["type"], "properties": {
          "type": {"enum": ["text", "json_object", "json_schema"]}, "name": {"type": "string"},
          "description": {"type": "string"}, "schema": {"type": "object"}, "strict": {"type": "boolean"}}}}},
      "reasoning": {"type": "object", "properties": {"effort": {"type": "string"},
        "summary": {"enum": ["auto", "concise", "detailed"]},
        "generate_summary": {"enum": ["auto", "concise", "detailed"]},
        "context": {"enum": ["auto", "current_turn", "all_turns"]}, "mode": {"type": "string"}}},
      "thinking": {"anyOf": [{"type": "boolean"}, {"type": "object"}]}, \#(OpenAPIRequests.budgets),
      "chat_template_kwargs": {"type": "object"},
      "metadata": {"$ref": "#/components/schemas/Metadata"},
      "user": {"type": "string"}, "safety_identifier": {"type": "string"},
      "service_tier": {"enum": ["auto", "default", "flex", "scale", "priority", "fast"]},
      "prompt_cache_key": {"type": "string"}, "prompt_cache_options": {"type": "object"},
      "prompt_cache_retention": {"type": "string"},
      "image": {"type": "object", "additionalProperties": false, "properties": {
        "context_compression": {"enum": ["auto", "enabled", "disabled"]}}},
      "n": {"enum": [1, null]}, "logprobs": {"enum": [false, null]},
      "response_format": \#(OpenAPIRequests.refused), "reasoning_effort": \#(OpenAPIRequests.refused),
      "max_tokens": \#(OpenAPIRequests.refused), "max_completion_tokens": \#(OpenAPIRequests.refused),
      "messages": \#(OpenAPIRequests.refused),
      "prompt": \#(OpenAPIRequests.refused), "moderation": \#(OpenAPIRequests.refused),
      "access_programs": \#(OpenAPIRequests.refused),
      "context_management": {"type": "array", "items": {"type": "object", "required": ["type"], "properties": {"type": {"type": "string"}}}}}},
    "InputItem": {"type": "object", "anyOf": [{"required": ["type"], "properties": {"type": {"type": "string"}}},
      {"required": ["role"], "properties": {"role": {"type": "string"}}}]},
    "ConversationRequest": {"type": "object", "properties": {\#(OpenAPIRequests.descriptions),
      "items": {"type": "array", "maxItems": 20, "items": {"$ref": "#/components/schemas/InputItem"}}}},
    "ChatCompletionUpdate": {"type": "object", "required": ["metadata"], "properties": {\#(OpenAPIRequests.descriptions)}},
    "ConversationUpdate": {"type": "object", "properties": {\#(OpenAPIRequests.descriptions)}},
    "ConversationItemsRequest": {"type": "object", "required": ["items"], "properties": {
      "items": {"type": "array", "maxItems": 20, "items": {"$ref": "#/components/schemas/InputItem"}}}}
    """#
  }

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
