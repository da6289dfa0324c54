// From a conversation to the tokens of its prompt.
//
// Two rules. The template writes BOS and all other special tokens itself, so the tokenizer adds none. And only
// the template may write them: where a message spells a special token (`<|im_end|>`), the spelling is
// broken up before tokenisation, so that text from outside cannot close a turn or forge a role. To know which
// text came from outside, a noncharacter is put inside such spellings before rendering; the prompt is cut
// there, the pieces are tokenised one by one.

import JSON
package import Tokenizers

/// A rendered conversation.
package struct Prompt: Sendable, Equatable {
  package let text: String
  package let tokens: [Int32]
}

/// Makes prompts for one tokenizer.
package struct PromptEncoder: Sendable {
  private let tokenizer: Tokenizer
  /// Spellings of the special tokens by their first byte.
  private var spellings: [UInt8: [[UInt8]]] = [:]

  /// O(vocabulary): make one and keep it.
  package init(tokenizer: Tokenizer) {
    self.tokenizer = tokenizer
    for id in 0..<Int32(clamping: tokenizer.vocabularySize) where tokenizer.isSpecial(id) {
      guard let spelling = tokenizer.token(of: id).map({ Array($0.utf8) }), let first = spelling.first,
        spelling.count > 1
      else { continue }
      spellings[first, default: []].append(spelling)
    }
  }

  /// The prompt of a conversation.
  ///
  /// - Throws: what `ChatTemplate.render` throws.
  package func prompt(
    of conversation: Conversation, template: ChatTemplate
  ) throws(ChatError) -> Prompt {
    guard let mark = markNeeded(by: conversation) else {
      let text = try template.render(conversation)
      return Prompt(text: text, tokens: tokenizer.encode(text, addSpecialTokens: false))
    }
    var marked = conversation
    marked.messages = conversation.messages.map { message in
      Self.mapTexts(of: message) { Self.text(self.broken(Array($0.utf8), mark)) }
    }
    let rendered = Array(try template.render(marked).utf8)
    var text: [UInt8] = []
    var tokens: [Int32] = []
    var start = 0
    while start <= rendered.count {
      let end = Bytes.find(mark, in: rendered[...], from: start) ?? rendered.count
      text += rendered[start..<end]
      tokens += tokenizer.encode(Self.text(rendered[start..<end]), addSpecialTokens: false)
      start = end + mark.count
    }
    return Prompt(text: Self.text(text), tokens: tokens)
  }

  /// The tokens of a text that may spell special tokens and has none.
  package func tokens(ofForeign text: String) -> [Int32] {
    let bytes = Array(text.utf8)
    var tokens: [Int32] = []
    var start = 0
    var isPending = false
    for at in bytes.indices {
      if isPending, bytes[at] & 0xC0 != 0x80 {
        tokens += tokenizer.encode(Self.text(bytes[start..<at]), addSpecialTokens: false)
        start = at
        isPending = false
      }
      isPending = isPending || startsSpecialToken(bytes[at...])
    }
    return tokens + tokenizer.encode(Self.text(bytes[start...]), addSpecialTokens: false)
  }

  // MARK: Special tokens in messages

  /// A noncharacter that the conversation does not contain, when a message spells a special token.
  private func markNeeded(by conversation: Conversation) -> [UInt8]? {
    var isNeeded = false
    for message in conversation.messages where !isNeeded {
      _ = Self.mapTexts(of: message) { text in
        isNeeded = isNeeded || holdsSpecialToken(Array(text.utf8))
        return text
      }
    }
    guard isNeeded else { return nil }
    let everything = JSONValue.array(conversation.messages + conversation.tools).bytes
    // U+FDD0 to U+FDEF are set aside for uses like this one.
    for last: UInt8 in 0x90...0xAF {
      let mark: [UInt8] = [0xEF, 0xB7, last]
      if Bytes.find(mark, in: everything[...]) == nil { return mark }
    }
    return nil
  }

  private func holdsSpecialToken(_ bytes: [UInt8]) -> Bool {
    bytes.indices.contains { startsSpecialToken(bytes[$0...]) }
  }

  private func startsSpecialToken(_ rest: ArraySlice<UInt8>) -> Bool {
    guard let first = rest.first, let candidates = spellings[first] else { return false }
    return candidates.contains { rest.starts(with: $0) }
  }

  /// `bytes` with the mark behind the first character of every special token's spelling.
  private func broken(_ bytes: [UInt8], _ mark: [UInt8]) -> [UInt8] {
    var out: [UInt8] = []
    out.reserveCapacity(bytes.count)
    var isPending = false
    for at in bytes.indices {
      if isPending, bytes[at] & 0xC0 != 0x80 {
        out += mark
        isPending = false
      }
      isPending = isPending || startsSpecialToken(bytes[at...])
      out.append(bytes[at])
    }
    return out
  }

  /// A message with `body` applied to its texts. The assistant's own messages stay: templates look for the
  /// markers in them.
  private static func mapTexts(of message: JSONValue, _ body: (String) -> String) -> JSONValue {
    guard var object = message.objectValue, object["role"]?.stringValue != "assistant" else { return message }
    switch object["content"] {
    case .string(let text): object["content"] = .string(body(text))
    case .array(let parts):
      object["content"] = .array(
        parts.map { part in
          guard var fields = part.objectValue, let text = fields["text"]?.stringValue else { return part }
          fields["text"] = .string(body(text))
          return .object(fields)
        })
    default: return message
    }
    return .object(object)
  }

  private static func text(_ bytes: some Sequence<UInt8>) -> String { Bytes.text(bytes) }
}
