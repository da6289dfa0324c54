// The part of /openapi.json that is about batches.

import JSON
import OpenAI

enum OpenAPIBatches {
  private typealias Operation = OpenAPIDocument.Operation

  static let operations: [OpenAPIDocument.Operation] = openAI + messages

  private static let openAI = [
    Operation(
      method: "POST", pattern: "/v1/batches", id: "createBatch",
      summary: "Answers the requests of a file when nothing else is to be done",
      request: "BatchRequest", response: "Batch"),
    Operation(
      method: "GET", pattern: "/v1/batches", id: "listBatches", summary: "The client's batches",
      response: "BatchList", query: ["after", "before", "limit", "order"]),
    Operation(
      method: "GET", pattern: "/v1/batches/:id", id: "retrieveBatch", summary: "How far a batch is",
      response: "Batch"),
    Operation(
      method: "DELETE", pattern: "/v1/batches/:id", id: "deleteBatch",
      summary: "Forgets a batch that is over", response: "Deleted"),
    Operation(
      method: "POST", pattern: "/v1/batches/:id/cancel", id: "cancelBatch", summary: "Ends a batch",
      response: "Batch"),
  ]

  private static let messages = [
    Operation(
      method: "POST", pattern: "/v1/messages/batches", id: "createMessageBatch",
      summary: "Answers conversations when nothing else is to be done (Anthropic)",
      request: "MessageBatchRequest", response: "MessageBatch", error: "MessagesError"),
    Operation(
      method: "GET", pattern: "/v1/messages/batches", id: "listMessageBatches",
      summary: "The client's batches (Anthropic)", response: "MessageBatchList", error: "MessagesError",
      query: ["after_id", "before_id", "limit"], longestPage: 1_000),
    Operation(
      method: "GET", pattern: "/v1/messages/batches/:id", id: "retrieveMessageBatch",
      summary: "How far a batch is (Anthropic)", response: "MessageBatch", error: "MessagesError"),
    Operation(
      method: "DELETE", pattern: "/v1/messages/batches/:id", id: "deleteMessageBatch",
      summary: "Forgets a batch that has ended (Anthropic)", response: "DeletedMessageBatch",
      error: "MessagesError"),
    Operation(
      method: "POST", pattern: "/v1/messages/batches/:id/cancel", id: "cancelMessageBatch",
      summary: "Ends a batch (Anthropic)", response: "MessageBatch", error: "MessagesError"),
    Operation(
      method: "GET", pattern: "/v1/messages/batches/:id/results", id: "readMessageBatch",
      summary: "The answers of a batch, one a line (Anthropic)", response: "Text", error: "MessagesError",
      contentType: "application/x-jsonl"),
  ]

  /// Bodies, members of an object of schemas.
  static let requests = #"""
    "BatchRequest": {"type": "object", "required": ["input_file_id", "endpoint", "completion_window"], "properties": {
      "input_file_id": {"type": "string"}, "completion_window": {"const": "24h"},
      "endpoint": {"enum": ["/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses"]},
      "metadata": {"$ref": "#/components/schemas/Metadata", "propertyNames": {"minLength": 1}},
      "output_expires_after": {"type": "object", "required": ["anchor", "seconds"], "properties": {
        "anchor": {"const": "created_at"}, "seconds": {"type": "integer", "minimum": 3600, "maximum": 2592000}}}}},
    "MessageBatchRequest": {"type": "object", "required": ["requests"], "properties": {
      "requests": {"type": "array", "minItems": 1, "maxItems": 100000, "items": {
        "type": "object", "required": ["custom_id", "params"], "properties": {
          "custom_id": {"type": "string", "minLength": 1, "maxLength": 512}, "params": {"type": "object"}}}}}}
    """#

  /// In the notation of `OpenAPIResponses`, members of an object.
  static let answers = #"""
    "BatchFault": {"code": "string|null", "message": "string", "param": "string|null", "line": "integer"},
    "BatchFaults": {"object": "'list'", "data": ["BatchFault"]},
    "BatchCounts": {"total": "integer", "completed": "integer", "failed": "integer"},
    "Batch": {"id": "string", "object": "'batch'", "endpoint": "string", "model": "string|null",
      "errors": "BatchFaults|null", "input_file_id": "string", "completion_window": "'24h'",
      "status": "'failed'|'in_progress'|'finalizing'|'completed'|'expired'|'cancelling'|'cancelled'",
      "output_file_id": "string|null", "error_file_id": "string|null", "created_at": "integer",
      "in_progress_at": "integer|null", "expires_at": "integer", "finalizing_at": "integer|null",
      "completed_at": "integer|null", "failed_at": "integer|null", "expired_at": "integer|null",
      "cancelling_at": "integer|null", "cancelled_at": "integer|null", "request_counts": "BatchCounts",
      "usage": "object", "metadata": "object|null"},
    "BatchList": {"object": "'list'", "data": ["Batch"], "first_id": "string|null", "last_id": "string|null",
      "has_more": "boolean"},
    "MessageBatchCounts": {"processing": "integer", "succeeded": "integer", "errored": "integer",
      "canceled": "integer", "expired": "integer"},
    "MessageBatch": {"id": "string", "type": "'message_batch'",
      "processing_status": "'in_progress'|'canceling'|'ended'", "request_counts": "MessageBatchCounts",
      "created_at": "string", "expires_at": "string", "ended_at": "string|null",
      "cancel_initiated_at": "string|null", "archived_at": "string|null", "results_url": "string|null"},
    "MessageBatchList": {"data": ["MessageBatch"], "has_more": "boolean", "first_id": "string|null",
      "last_id": "string|null"},
    "DeletedMessageBatch": {"id": "string", "type": "'message_batch_deleted'"}
    """#
}
