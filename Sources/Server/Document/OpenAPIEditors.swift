// The part of /openapi.json about the paths that editors know from llama-server, and about the protocol of assistants.

enum OpenAPIEditors {
  /// In the notation of `OpenAPIResponses`, members of an object. `response_fields` chooses members.
  static let answers = #"""
    "LlamaAnswer": "any",
    "LlamaError": {"error": {"code": "integer", "message": "string", "type": "string",
      "n_prompt_tokens?": "integer", "n_ctx?": "integer"}},
    "MCPAnswer": {"jsonrpc": "'2.0'", "id": "string|integer|null", "result?": "object",
      "error?": {"code": "integer", "message": "string", "data?": "object"}},
    "ToolServer": {"object": "'mcp_server'", "label": "string", "tools": ["object"], "prompts": ["object"],
      "resources": ["object"], "error": "string|null"},
    "ToolServerText": {"object": "'mcp_text'", "text": "string"}
    """#
}
