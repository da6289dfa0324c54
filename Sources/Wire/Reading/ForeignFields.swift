// Fields of other servers that would change an answer and that this one cannot honour: refused by name, not ignored.

import JSON

/// Words of llama-server, vLLM, SGLang and others, with the values that ask for nothing.
package enum ForeignFields {
  private struct Refusal {
    let reason: String
    /// Values with which the answer is what it is without the field.
    let neutral: [JSONValue]

    init(_ reason: String, unless neutral: JSONValue...) {
      self.reason = reason
      self.neutral = neutral
    }
  }

  private static let refusals: [String: Refusal] = sampling.merging(text) { first, _ in first }
    .merging(state) { first, _ in first }

  /// All of them.
  static var names: [String] { refusals.keys.sorted() }

  /// All of them as members of a JSON Schema, with the values that are taken.
  ///
  /// - Parameter known: fields that the body's reader knows, whatever they mean elsewhere.
  private static func schemas(without known: Set<String>) -> JSONObject {
    JSONObject(
      refusals.sorted { $0.key < $1.key }.filter { !known.contains($0.key) }.map { name, refusal in
        (name, ["enum": .array(refusal.neutral + [.null])])
      })
  }

  private static let sampling: [String: Refusal] = [
    "samplers": Refusal("the order of the samplers is fixed (docs/api.md has it)"),
    "sampler_seq": Refusal("the order of the samplers is fixed (docs/api.md has it)"),
    "min_keep": Refusal("a filter keeps one token at least", unless: 0, 1),
    "tfs_z": Refusal("this server has no tail-free sampling", unless: 1, 1.0),
    "top_a": Refusal("this server has no top-a sampling", unless: 0, 0.0),
    "adaptive_target": Refusal("this server has no adaptive sampling", unless: -1, -1.0),
    "adaptive_decay": Refusal("this server has no adaptive sampling"),
    "smoothing_factor": Refusal("this server has no smoothing", unless: 0, 0.0),
    "epsilon_cutoff": Refusal("use 'min_p'", unless: 0, 0.0),
    "eta_cutoff": Refusal("use 'min_p'", unless: 0, 0.0),
    "guidance_scale": Refusal("this server has no guidance by a second prompt", unless: 1, 1.0),
    "negative_prompt": Refusal("this server has no guidance by a second prompt", unless: ""),
    "no_repeat_ngram_size": Refusal("use 'dry_multiplier'", unless: 0),
    "encoder_repetition_penalty": Refusal("use 'repetition_penalty'", unless: 1, 1.0),
    "penalty_prompt": Refusal("the repetition penalty looks at the whole prompt"),
    "penalize_nl": Refusal("use 'logit_bias' for the tokens of a line break", unless: false),
    "use_beam_search": Refusal("this server samples one answer at a time", unless: false),
    "num_beams": Refusal("this server samples one answer at a time", unless: 1),
    "best_of": Refusal("ask for 'n' answers and choose among them", unless: 1),
    "length_penalty": Refusal("this server has no beam search", unless: 1, 1.0),
    "early_stopping": Refusal("this server has no beam search", unless: false),
    "do_sample": Refusal("use 'temperature': 0", unless: true),
    "logits_processors": Refusal("requests cannot bring code", unless: []),
    "logits_processor_pattern": Refusal("requests cannot bring code"),
    "custom_logit_processor": Refusal("requests cannot bring code"),
    "custom_params": Refusal("requests cannot bring code", unless: [:]),
    "vllm_xargs": Refusal("they are for extensions of another server", unless: [:]),
    "repetition_detection": Refusal("use 'dry_multiplier'"),
  ]

  private static let text: [String: Refusal] = [
    "n_probs": Refusal("use 'logprobs' and 'top_logprobs'", unless: 0),
    "post_sampling_probs": Refusal("log probabilities are the model's own", unless: false),
    "n_indent": Refusal("use 'guided_regex'", unless: 0),
    "t_max_predict_ms": Refusal("a time limit makes answers differ; use 'max_tokens'", unless: 0, -1),
    "response_fields": Refusal("answers have all their members", unless: []),
    "stop_regex": Refusal("use 'stop'", unless: []),
    "skip_special_tokens": Refusal("special tokens have no text", unless: true),
    "spaces_between_special_tokens": Refusal("special tokens have no text", unless: true, false),
    "return_tokens_as_token_ids": Refusal("use 'return_token_ids'", unless: false),
    "return_hidden_states": Refusal("this server does not tell them", unless: false),
    "return_routed_experts": Refusal("this server does not tell them", unless: false),
    "return_prompt_hidden_states": Refusal("this server does not tell them", unless: false),
    "reasoning_format": Refusal("use --reasoning-field", unless: "auto", "deepseek"),
    "separate_reasoning": Refusal("reasoning is never part of the content", unless: true),
    "stream_reasoning": Refusal("reasoning is streamed; hide it with 'include_reasoning'", unless: true),
    "parse_tool_calls": Refusal("calls of tools are always told from text", unless: true),
    "thinking_forced_open": Refusal("the template says where reasoning begins", unless: false),
    "chat_format": Refusal("the template says it"),
    "add_special_tokens": Refusal("the chat template writes the special tokens", unless: false),
    "echo": Refusal("this API answers without the prompt", unless: false),
    "prompt_logprobs": Refusal("ask on /v1/chat/completions or /v1/completions", unless: 0),
    "return_token_ids": Refusal("ask on /v1/chat/completions or /v1/completions", unless: false),
    "documents": Refusal("put them into the messages", unless: []),
    "mm_processor_kwargs": Refusal("images are prepared as the model's files say", unless: [:]),
    "media_io_kwargs": Refusal("images are prepared as the model's files say", unless: [:]),
    "image_data": Refusal("put images into the messages", unless: []),
    "prompt_embeds": Refusal("prompts are text or token ids"),
    "input_ids": Refusal("use /v1/completions with token ids"),
    "enable_response_messages": Refusal("this server does not tell them", unless: false),
    "search_parameters": Refusal("this server does not search the web"),
    "plugins": Refusal("this server has none", unless: []),
    "transforms": Refusal("messages are never changed in silence", unless: []),
  ]

  /// What names something that is kept between requests.
  private static let state: [String: Refusal] = {
    var words: [String: Refusal] = [:]
    for name in [
      "session_params", "session_id", "thread_id", "conversation_id", "chat_id", "assistant_id",
      "parent_message_id", "context_id", "state_id", "previous_response_id", "conversation",
      "previous_message_id", "kv_transfer_params", "input_cache_id", "memory_id",
    ] {
      words[name] = Refusal("nothing is kept between requests here; send the whole conversation")
    }
    for name in ["lora", "lora_path", "lora_request", "adapters", "adapter"] {
      words[name] = Refusal("the name of the model chooses an adapter: MODEL:NAME", unless: [])
    }
    words["models"] = Refusal("a request names one 'model'", unless: [])
    words["route"] = Refusal("a request names one 'model'")
    return words
  }()

  /// Refuses what asks for something, and takes what asks for nothing.
  ///
  /// - Parameter fields: after all readers of the wire.
  /// - Throws: `unsupported_parameter` for a word of another server that asks for something.
  static func check(_ fields: inout Fields) throws(APIError) {
    let noted = fields.noted
    fields.rule(JSONValue.object(JSONObject([("properties", .object(schemas(without: noted)))])).text)
    for name in fields.unread {
      guard let refusal = refusals[name] else { continue }
      guard let value = fields.object[name], !refusal.neutral.contains(value) else {
        fields.know(name)
        continue
      }
      throw .unsupportedParameter(fields.name(of: name), refusal.reason)
    }
  }
}
