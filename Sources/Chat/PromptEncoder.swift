// From a conversation to the tokens of its prompt.
//
// Two rules. The template writes BOS and all other special tokens itself, so the tokenizer adds none. And only
// the template may write them: where text from outside spells a special token (`<|im_end|>`), alone or together with
// what stands beside it in the prompt, the spelling is broken up before tokenisation, so that such text cannot close a
// turn or forge a role. To know which text came from outside, the conversation is rendered a second time with marks at
// the places where a spelling could begin. They show where the prompt must be cut; the pieces are tokenised one by one.
// Nearly all conversations need none of this and are rendered once.

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
  /// Those of special tokens, and of tokens that stand for images and audio.
  private var special = Spellings()
  /// Those that stand for images and audio: not even a trusted answer may write them.
  private var media = Spellings()

  /// O(vocabulary): make one and keep it.
  ///
  /// - Parameter mediaTokens: ids that stand for images and audio.
  package init(tokenizer: Tokenizer, mediaTokens: [Int32] = []) {
    self.tokenizer = tokenizer
    for id in 0..<Int32(clamping: tokenizer.vocabularySize) where tokenizer.isSpecial(id) {
      if let spelling = tokenizer.token(of: id) { special.add(Array(spelling.utf8)) }
    }
    for id in mediaTokens {
      guard let spelling = tokenizer.token(of: id) else { continue }
      special.add(Array(spelling.utf8))
      media.add(Array(spelling.utf8))
    }
  }

  /// The prompt of a conversation.
  ///
  /// - Throws: what `ChatTemplate.render` throws.
  package func prompt(
    of conversation: Conversation, template: ChatTemplate
  ) throws(ChatError) -> Prompt {
    let prepared = try template.prepared(conversation)
    // Rendered first: the limits of a template hold for what is done with the text later, too.
    let text = try template.render(prepared: prepared)
    guard let mark = markNeeded(by: prepared) else { return prompt(Array(text.utf8), cuts: []) }
    let marked = prepared.mapTexts { text, author in
      let bytes = Array(text.utf8)
      let offsets = places(in: bytes, by: author)
      return offsets.isEmpty ? text : Self.marked(bytes, at: offsets, mark)
    }
    let (bytes, marks) = Self.unmarked(Array(try template.render(prepared: marked).utf8), mark)
    let cuts = special.cuts(in: bytes, marks: marks)
    let plain = Array(text.utf8)
    // Marks may change what a template decides. That counts only where special tokens were forged.
    if cuts.isEmpty, special.sequence(in: bytes) == special.sequence(in: plain) {
      return prompt(plain, cuts: [])
    }
    return prompt(bytes, cuts: cuts)
  }

  /// The tokens of a text that may spell special tokens and has none.
  package func tokens(ofForeign text: String) -> [Int32] {
    let bytes = Array(text.utf8)
    let marks = special.marks(in: bytes, isKeyword: false)
    return prompt(bytes, cuts: special.cuts(in: bytes, marks: marks)).tokens
  }

  /// A text whose pieces between cuts are tokenised one by one.
  private func prompt(_ text: [UInt8], cuts: [Int]) -> Prompt {
    var tokens: [Int32] = []
    var start = 0
    for end in cuts + [text.count] {
      tokens += tokenizer.encode(Bytes.text(text[start..<end]), addSpecialTokens: false)
      start = end
    }
    return Prompt(text: Bytes.text(text), tokens: tokens)
  }

  // MARK: Marks

  private func places(in text: [UInt8], by author: Conversation.Author) -> [Int] {
    switch author {
    case .anyone: special.marks(in: text, isKeyword: false)
    case .keyword: special.marks(in: text, isKeyword: true)
    case .model: media.marks(in: text, isKeyword: false)
    }
  }

  /// A mark that the conversation does not contain, when something in it needs one.
  private func markNeeded(by conversation: Conversation) -> [UInt8]? {
    var isNeeded = false
    _ = conversation.mapTexts { text, author in
      isNeeded = isNeeded || !places(in: Array(text.utf8), by: author).isEmpty
      return text
    }
    guard isNeeded else { return nil }
    let bytes = JSONValue.array(
      conversation.messages + conversation.tools + [.object(conversation.templateArguments)]
    ).bytes
    // U+A4D0 to U+A4EF, Lisu letters: rare, without case, and printed by templates as they are, even in lists, where
    // Python spells noncharacters out.
    func sequence(_ last: [UInt8]) -> [UInt8] { last.flatMap { [0xEA, 0x93, $0] as [UInt8] } }
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

  /// `text` with `mark` at the given offsets.
  private static func marked(_ text: [UInt8], at offsets: [Int], _ mark: [UInt8]) -> String {
    var bytes: [UInt8] = []
    var start = 0
    for offset in offsets {
      bytes += text[start..<offset]
      bytes += mark
      start = offset
    }
    return Bytes.text(bytes + text[start...])
  }

  /// `text` without marks, and the offsets at which they stood.
  private static func unmarked(_ text: [UInt8], _ mark: [UInt8]) -> (text: [UInt8], marks: [Int]) {
    var bytes: [UInt8] = []
    var marks: [Int] = []
    var start = 0
    while let at = Bytes.find(mark, in: text[...], from: start) {
      bytes += text[start..<at]
      marks.append(bytes.count)
      start = at + mark.count
    }
    return (bytes + text[start...], marks)
  }
}
