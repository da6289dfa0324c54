// The part of /openapi.json that is about batches.

enum OpenAPIBatches {
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
