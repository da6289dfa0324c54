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
  /// The special tokens.
  private var special = Spellings()
  /// Those that stand for images and sounds: nothing but the template may write them, not even an earlier answer, a
  /// tool's description or a variable of the template.
  private var media = Spellings()

  /// Texts by their first byte.
  private struct Spellings {
    private var byFirst: [UInt8: [[UInt8]]] = [:]

    mutating func add(_ spelling: [UInt8]) {
      if let first = spelling.first, spelling.count > 1 { byFirst[first, default: []].append(spelling) }
    }

    var isEmpty: Bool { byFirst.isEmpty }

    func start(_ rest: ArraySlice<UInt8>) -> Bool {
      guard let first = rest.first, let candidates = byFirst[first] else { return false }
      return candidates.contains { rest.starts(with: $0) }
    }

    func occur(in text: String) -> Bool {
      let bytes = Array(text.utf8)
      return bytes.indices.contains { start(bytes[$0...]) }
    }
  }

  /// O(vocabulary): make one and keep it.
  ///
  /// - Parameter mediaTokens: ids that stand for images and sounds.
  package init(tokenizer: Tokenizer, mediaTokens: [Int32] = []) {
    self.tokenizer = tokenizer
    for id in 0..<Int32(clamping: tokenizer.vocabularySize) where tokenizer.isSpecial(id) {
      if let spelling = tokenizer.token(of: id) { special.add(Array(spelling.utf8)) }
    }
    for id in mediaTokens {
      if let spelling = tokenizer.token(of: id) { media.add(Array(spelling.utf8)) }
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
      Self.mapTexts(of: message) { self.broken($0, mark, special) }
    }
    if !media.isEmpty {
      func guarded(_ value: JSONValue) -> JSONValue { Self.mapAll(value) { self.broken($0, mark, media) } }
      marked.messages = marked.messages.map(guarded)
      marked.tools = marked.tools.map(guarded)
      marked.templateArguments = guarded(.object(marked.templateArguments)).objectValue ?? JSONObject()
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
      isPending = isPending || special.start(bytes[at...])
    }
    return tokens + tokenizer.encode(Self.text(bytes[start...]), addSpecialTokens: false)
  }

  // MARK: Special tokens in messages

  /// Noncharacters that the conversation does not contain, when something in it spells a special token.
  private func markNeeded(by conversation: Conversation) -> [UInt8]? {
    var isNeeded = false
    for message in conversation.messages where !isNeeded {
      _ = Self.mapTexts(of: message) { text in
        isNeeded = isNeeded || special.occur(in: text)
        return text
      }
    }
    let everything = JSONValue.array(
      conversation.messages + conversation.tools + [.object(conversation.templateArguments)])
    if !media.isEmpty, !isNeeded {
      _ = Self.mapAll(everything) { text in
        isNeeded = isNeeded || media.occur(in: text)
        return text
      }
    }
    guard isNeeded else { return nil }
    let bytes = everything.bytes
    // U+FDD0 to U+FDEF are set aside for uses like this one.
    func sequence(_ last: [UInt8]) -> [UInt8] { last.flatMap { [0xEF, 0xB7, $0] as [UInt8] } }
    for last: UInt8 in 0x90...0xAF {
      let mark = sequence([last])
      if Bytes.find(mark, in: bytes[...]) == nil { return mark }
    }
    // A conversation that holds all of them cannot hold what nobody can foresee.
    while true {
      let mark = sequence((0..<16).map { _ in UInt8.random(in: 0x90...0xAF) })
      if Bytes.find(mark, in: bytes[...]) == nil { return mark }
    }
  }

  /// `text` with the mark behind the first character of every spelling.
  private func broken(_ text: String, _ mark: [UInt8], _ spellings: Spellings) -> String {
    let bytes = Array(text.utf8)
    var out: [UInt8] = []
    out.reserveCapacity(bytes.count)
    var isPending = false
    for at in bytes.indices {
      if isPending, bytes[at] & 0xC0 != 0x80 {
        out += mark
        isPending = false
      }
      isPending = isPending || spellings.start(bytes[at...])
      out.append(bytes[at])
    }
    return Self.text(out)
  }

  /// A value with `body` applied to all its strings, the names of members among them.
  private static func mapAll(_ value: JSONValue, _ body: (String) -> String) -> JSONValue {
    switch value {
    case .string(let text): .string(body(text))
    case .array(let values): .array(values.map { mapAll($0, body) })
    case .object(let object):
      .object(JSONObject(object.entries.map { (body($0.key), mapAll($0.value, body)) }))
    default: value
    }
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
