// The part of /openapi.json that is about batches.

import JSON
import Wire

enum OpenAPIBatches {
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
