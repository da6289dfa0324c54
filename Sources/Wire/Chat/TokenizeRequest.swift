// The bodies of POST /tokenize and /detokenize, as clients of vLLM and of llama.cpp send them.

import JSON

/// What is to be taken apart into tokens, and how.
package struct TokenizeRequest: RequestBody {
  /// A text, or a conversation by way of the chat template.
  package enum Input: Sendable {
    case text(String)
    case chat(ChatRequest)
  }

  package var input: Input
  /// Whether the tokenizer adds its special tokens around a text.
  package var addsSpecialTokens: Bool
  /// Whether special tokens that a text spells become those tokens.
  package var parsesSpecialTokens: Bool
  /// Whether `tokens` holds ids and texts.
  package var wantsPieces: Bool
  /// Whether the vocabulary's spellings are wanted too.
  package var wantsStrings: Bool
  package var ignored: [String] = []
}

extension TokenizeRequest {
  package init(_ fields: inout Fields) throws(APIError) {
    let model = try fields.string("model", like: #""demo""#)
    let short = try fields.bool("add_special", "the same", like: "false")
    let addsSpecial =
      try fields.bool(
        "add_special_tokens", "true is refused with `messages`: the template writes them", like: "false")
      ?? short
    parsesSpecialTokens =
      try fields.bool("parse_special", "false takes spellings of special tokens as plain text") ?? true
    wantsPieces =
      try fields.bool(
        "with_pieces", "`tokens` are `{\"id\",\"piece\"}`; a piece that is no UTF-8 is its bytes") ?? false
    wantsStrings =
      try fields.bool("return_token_strs", "the vocabulary's spellings in `token_strs`, else null") ?? false
    let text = #""Hello!""#
    _ = fields.value("content", Shape.string, "no special tokens are added, as in llama.cpp", like: text)
    _ = fields.value("prompt", Shape.string, "special tokens are added, as in vLLM", like: text)
    _ = fields.value(
      "messages", Shape.array(of: Shape.named("ChatMessage"), 1...Int.max),
      "the prompt of a chat request; all its fields are possible, such as the next four",
      like: #"[{"role":"user","content":"hi"}]"#)
    let kind = try fields.one(of: ["content", "prompt", "messages"], #"{"type": ["string", "array"]}"#)
    fields.rule(
      #"""
      {"anyOf": [{"properties": {"messages": {"type": "null"}}},
        {"properties": {"add_special": {"enum": [false, null]}, "add_special_tokens": {"enum": [false, null]}}}]}
      """#)
    guard kind == "messages" else {
      input = .text(try fields.requiredString(kind))
      // The defaults of llama.cpp and of vLLM.
      addsSpecialTokens = addsSpecial ?? (kind == "prompt" && parsesSpecialTokens)
      guard parsesSpecialTokens || !addsSpecialTokens else {
        throw .unsupportedValue("parse_special", "it cannot be false where special tokens are added")
      }
      ignored = try Self.checkOfChat(&fields)
      return
    }
    guard addsSpecial != true else {
      throw .unsupportedValue("add_special_tokens", "the chat template writes the special tokens")
    }
    if model != nil { _ = try fields.model() }
    let request = try ChatRequest(rest: &fields)
    input = .chat(request)
    addsSpecialTokens = false
    ignored = request.ignored
  }

  /// Fields that mean something beside messages alone; their types are checked all the same.
  ///
  /// - Returns: those that are there.
  private static func checkOfChat(_ fields: inout Fields) throws(APIError) -> [String] {
    let tools = try fields.array(
      "tools", of: Shape.named("FunctionTool"), maxCount: .max,
      like: #"[{"type":"function","function":{"name":"f"}}]"#)
    for (index, tool) in (tools ?? []).enumerated() { _ = try Fields(tool, path: "tools[\(index)]") }
    _ = try fields.bool("add_generation_prompt", like: "false")
    _ = try fields.bool("continue_final_message", like: "false")
    _ = try fields.object("chat_template_kwargs", like: #"{"enable_thinking":false}"#)
    return ["tools", "add_generation_prompt", "continue_final_message", "chat_template_kwargs"].filter {
      fields.object[$0].map { !$0.isNull } ?? false
    }
  }
}

/// Tokens whose text is wanted.
package struct DetokenizeRequest: RequestBody {
  package let tokens: [Int32]
  package var ignored: [String] = []

  package init(_ fields: inout Fields) throws(APIError) {
    try fields.anyModel()
    let tokens = try fields.tokens(
      "tokens", maxCount: fields.limits.detokenizedTokens, vocabularySize: fields.vocabularySize, "",
      like: "[1,2]")
    if tokens == nil { _ = try fields.required("tokens") }
    self.tokens = tokens ?? []
  }
}
