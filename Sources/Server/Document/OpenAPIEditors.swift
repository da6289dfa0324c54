// The part of /openapi.json about the paths that editors know from llama-server.

import JSON
import Wire

enum OpenAPIEditors {
  private static func shared(_ limits: RequestLimits) -> String {
    #"""
    "model": {"type": "string"}, "n_predict": {"type": "integer", "minimum": -2},
      "cache_prompt": {"type": "boolean"}, "stop": {"type": "array", "items": {"type": "string"}},
      "grammar": {"type": "string"}, "json_schema": {"type": "object"}, "logit_bias": {},
      "n_probs": {"type": "integer", "minimum": 0, "maximum": \#(limits.topLogprobs)}, "return_tokens": {"type": "boolean"},
      "timings_per_token": {"type": "boolean"}, "samplers": {}, "min_keep": {},
      "n_indent": {"type": "integer", "minimum": 0, "maximum": 10000}, "t_max_predict_ms": {"type": "integer", "minimum": -1, "maximum": 2147483647},
      "response_fields": {"type": "array", "items": {"type": "string"}},
      \#(OpenAPIRequests.sampling)
    """#
  }

  /// Bodies, members of an object of schemas.
  static func requests(_ limits: RequestLimits) -> String {
    let piece = #"{"type": ["string", "integer"], "minimum": 0}"#
    let list = #"{"type": "array", "minItems": 1, "items": \#(piece)}"#
    let object = #"""
      {"type": "object", "required": ["prompt_string"], "properties": {"prompt_string": {"type": "string"}}}
      """#
    return #"""
      "LlamaCompletionRequest": {"type": "object", "required": ["prompt"], "properties": {
        "prompt": {"anyOf": [{"type": "string"}, \#(list), \#(object), {"type": "array", "minItems": 1,
          "maxItems": \#(limits.prompts), "items": {"anyOf": [{"type": "string"}, \#(list), \#(object)]}}]},
        \#(shared(limits))}},
      "LlamaInfillRequest": {"type": "object", "required": ["input_prefix", "input_suffix"], "properties": {
        "input_prefix": {"type": "string"}, "input_suffix": {"type": "string"}, "prompt": {"type": "string"},
        "input_extra": {"type": "array", "items": {"type": "object", "required": ["text"], "properties": {
          "filename": {"type": "string"}, "text": {"type": "string"}}}}, \#(shared(limits))}}
      """#
  }

  /// In the notation of `OpenAPIResponses`, members of an object. `response_fields` chooses members.
  static let answers = #"""
    "LlamaAnswer": "any",
    "LlamaError": {"error": {"code": "integer", "message": "string", "type": "string",
      "n_prompt_tokens?": "integer", "n_ctx?": "integer"}}
    """#
}
