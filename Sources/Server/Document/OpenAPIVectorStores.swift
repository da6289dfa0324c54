// The part of /openapi.json that is about files and vector stores.

enum OpenAPIVectorStores {
  /// Bodies, members of an object of schemas.
  static let requests = #"""
    "Attributes": {"type": "object", "maxProperties": 16, "propertyNames": {"minLength": 1, "maxLength": 64},
      "additionalProperties": {"type": ["string", "number", "boolean"], "maxLength": 512}},
    "FileForm": {"type": "object", "required": ["file", "purpose"], "description": "with the header anthropic-version the purpose may be left out",
      "properties": {"file": {"type": "string", "format": "binary"},
        "purpose": {"enum": ["assistants", "batch", "user_data", "vision"]}, "expires_in_seconds": {"type": "integer"},
        "read_by": {"type": "string", "description": "the model that reads it whole, so that questions about it begin at once"}}},
    "PartForm": {"type": "object", "required": ["data"], "properties": {
      "data": {"type": "string", "format": "binary"}}},
    "ChunkingStrategy": {"anyOf": [
      {"type": "object", "required": ["type"], "properties": {"type": {"const": "auto"}}},
      {"type": "object", "required": ["type", "static"], "properties": {"type": {"const": "static"},
        "static": {"type": "object", "required": ["max_chunk_size_tokens", "chunk_overlap_tokens"], "properties": {
          "max_chunk_size_tokens": {"type": "integer", "minimum": 100, "maximum": 4096},
          "chunk_overlap_tokens": {"type": "integer", "minimum": 0, "maximum": 2048,
            "description": "at most half of max_chunk_size_tokens"}}}}}]},
    "AttributeFilter": {"anyOf": [
      {"type": "object", "required": ["type", "key", "value"], "properties": {
        "type": {"enum": ["eq", "ne", "gt", "gte", "lt", "lte"]}, "key": {"type": "string"},
        "value": {"type": ["string", "number", "boolean"]}}},
      {"type": "object", "required": ["type", "key", "value"], "properties": {"type": {"enum": ["in", "nin"]},
        "key": {"type": "string"},
        "value": {"type": "array", "maxItems": 1000, "items": {"type": ["string", "number", "boolean"]}}}},
      {"type": "object", "required": ["type", "filters"], "properties": {"type": {"enum": ["and", "or"]},
        "filters": {"type": "array", "minItems": 1, "maxItems": 63,
          "items": {"$ref": "#/components/schemas/AttributeFilter"}}}}]},
    "RankingOptions": {"type": "object", "properties": {
      "ranker": {"enum": ["none", "auto", "default-2024-11-15"]},
      "score_threshold": {"type": "number", "minimum": 0, "maximum": 1},
      "hybrid_search": {"type": "object", "properties": {
        "embedding_weight": {"type": "number", "minimum": 0}, "text_weight": {"type": "number", "minimum": 0}}}}}
    """#

  /// In the notation of `OpenAPIResponses`, members of an object.
  static let answers = #"""
    "File": {"id": "string", "object": "'file'", "bytes": "integer", "created_at": "integer", "filename": "string",
      "purpose": "string", "status": "string", "expires_at?": "integer"},
    "Upload": {"id": "string", "object": "'upload'", "bytes": "integer", "created_at": "integer",
      "filename": "string", "purpose": "string", "status": "'pending'|'completed'|'cancelled'",
      "expires_at": "integer", "file": "File|null"},
    "UploadPart": {"id": "string", "object": "'upload.part'", "created_at": "integer", "upload_id": "string"},
    "MessagesFile": {"id": "string", "type": "'file'", "filename": "string", "mime_type": "string",
      "size_bytes": "integer", "created_at": "string", "downloadable": "boolean", "expires_at": "string|null"},
    "AnyFile": "File|MessagesFile",
    "MessagesFileList": {"data": ["MessagesFile"], "has_more": "boolean", "first_id": "string|null",
      "last_id": "string|null", "next_page": "string|null"},
    "AnyFileList": "FileList|MessagesFileList",
    "DeletedFile": {"id": "string", "type": "'file_deleted'"},
    "AnyDeletedFile": "Deleted|DeletedFile",
    "FileList": {"object": "'list'", "data": ["File"], "first_id": "string|null", "last_id": "string|null",
      "has_more": "boolean"},
    "FileCounts": {"in_progress": "integer", "completed": "integer", "failed": "integer", "cancelled": "integer",
      "total": "integer"},
    "VectorStore": {"id": "string", "object": "'vector_store'", "created_at": "integer", "name": "string",
      "description?": "string", "usage_bytes": "integer", "file_counts": "FileCounts",
      "status": "'in_progress'|'completed'|'expired'", "last_active_at": "integer", "metadata": "object",
      "expires_after?": "object", "expires_at?": "integer"},
    "VectorStoreList": {"object": "'list'", "data": ["VectorStore"], "first_id": "string|null",
      "last_id": "string|null", "has_more": "boolean"},
    "FileError": {"code": "string", "message": "string"},
    "VectorStoreFile": {"id": "string", "object": "'vector_store.file'", "created_at": "integer",
      "vector_store_id": "string", "status": "'in_progress'|'completed'|'failed'|'cancelled'",
      "usage_bytes": "integer", "last_error": "FileError|null", "attributes": "object",
      "chunking_strategy": "object"},
    "VectorStoreFileList": {"object": "'list'", "data": ["VectorStoreFile"], "first_id": "string|null",
      "last_id": "string|null", "has_more": "boolean"},
    "VectorStoreFileContent": {"object": "'vector_store.file_content.page'",
      "data": [{"type": "'text'", "text": "string"}], "has_more": "boolean", "next_page": "string|null"},
    "VectorStoreFileBatch": {"id": "string", "object": "'vector_store.files_batch'", "created_at": "integer",
      "vector_store_id": "string", "status": "'in_progress'|'completed'|'failed'|'cancelled'",
      "file_counts": "FileCounts"},
    "VectorStoreSearchPage": {"object": "'vector_store.search_results.page'", "search_query": ["string"],
      "data": ["VectorStoreResult"], "has_more": "boolean", "next_page": "string|null", "degraded?": "string",
      "reranked?": "integer",
      "query_cut?": {"tokens": "integer", "read": "integer"}},
    "VectorStoreResult": {"file_id": "string", "filename": "string", "score": "number", "attributes": "object",
      "content": [{"type": "'text'", "text": "string"}], "offset": "integer", "why?": "object"}
    """#
}
