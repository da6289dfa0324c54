// The bodies of POST /tokenize and /detokenize, as clients of vLLM and of llama.cpp send them.

package import JSON

/// What is to be taken apart into tokens, and how.
package struct TokenizeRequest: Sendable {
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
  /// Top-level fields that nobody knows.
  package var ignored: [String]
}

extension TokenizeRequest {
  /// - Throws: the first problem found, with the path of its field. `model` may be missing.
  package init(_ body: JSONValue, limits: RequestLimits, vocabularySize: Int) throws(APIError) {
    var fields = try Fields(body)
    let model = try fields.string("model")
    let short = try fields.bool("add_special")
    let addsSpecial = try fields.bool("add_special_tokens") ?? short
    parsesSpecialTokens = try fields.bool("parse_special") ?? true
    wantsPieces = try fields.bool("with_pieces") ?? false
    wantsStrings = try fields.bool("return_token_strs") ?? false
    let given = ["content", "prompt", "messages"].filter { fields.value($0) != nil }
    guard let kind = given.first else { throw .missing("content") }
    guard given.count == 1 else {
      throw .invalidValue(given[1], "it cannot be given together with '\(kind)'")
    }
    guard kind == "messages" else {
      input = .text(try fields.requiredString(kind))
      // The defaults of llama.cpp and of vLLM.
      addsSpecialTokens = addsSpecial ?? (kind == "prompt" && parsesSpecialTokens)
      guard parsesSpecialTokens || !addsSpecialTokens else {
        throw .unsupportedValue("parse_special", "it cannot be false where special tokens are added")
      }
      ignored = try Self.checkOfChat(&fields) + fields.unread
      return
    }
    guard addsSpecial != true else {
      throw .unsupportedValue("add_special_tokens", "the chat template writes the special tokens")
    }
    if model != nil { _ = try fields.model() }
    let request = try ChatRequest(&fields, limits: limits, vocabularySize: vocabularySize)
    input = .chat(request)
    addsSpecialTokens = false
    ignored = request.ignored
  }

  /// Fields that mean something beside messages alone; their types are checked all the same.
  ///
  /// - Returns: those that are there.
  private static func checkOfChat(_ fields: inout Fields) throws(APIError) -> [String] {
    for (index, tool) in (try fields.array("tools", maxCount: .max) ?? []).enumerated() {
      _ = try Fields(tool, path: "tools[\(index)]")
    }
    _ = try fields.bool("add_generation_prompt")
    _ = try fields.bool("continue_final_message")
    _ = try fields.object("chat_template_kwargs")
    return ["tools", "add_generation_prompt", "continue_final_message", "chat_template_kwargs"].filter {
      fields.object[$0].map { !$0.isNull } ?? false
    }
  }
}

/// Tokens whose text is wanted.
package struct DetokenizeRequest: Sendable {
  package var tokens: [Int32]
  /// Top-level fields that nobody knows.
  package var ignored: [String]

  /// - Parameter vocabularySize: token ids must be below it.
  package init(_ body: JSONValue, limits: RequestLimits, vocabularySize: Int) throws(APIError) {
    var fields = try Fields(body)
    _ = try fields.string("model")
    guard let values = try fields.array("tokens", maxCount: limits.detokenizedTokens) else {
      throw .missing("tokens")
    }
    tokens = []
    tokens.reserveCapacity(values.count)
    for (index, value) in values.enumerated() {
      tokens.append(try TokenID.read(value, vocabularySize: vocabularySize, name: "tokens[\(index)]"))
    }
    ignored = fields.unread
  }
}
