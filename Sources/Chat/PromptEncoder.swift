// From a conversation to the tokens of its prompt.
//
// Two rules. The template writes BOS and all other special tokens itself, so the tokenizer adds none. And only
// the template may write them: where text from outside spells a special token (`<|im_end|>`), alone or together with
// what stands beside it in the prompt, the spelling is broken up before tokenisation, so that such text cannot close a
// turn or forge a role. To know which text came from outside, the conversation is rendered a second time with marks at
// the places where a spelling could begin. They show where the prompt must be cut; the pieces are tokenised one by one.
// Nearly all conversations need none of this and are rendered once.
//
// What the model has written itself keeps the tokens that it was written with, where they are known: a tokenizer would
// often cut the same text otherwise, and what was computed with it could not be used again.

import JSON
package import Tokenizers

/// A rendered conversation.
package struct Prompt: Sendable, Equatable {
  package let text: String
  package let tokens: [Int32]
}

/// Tokens with which the model has written what stands in a prompt from `start` on, a byte of its text.
package struct WrittenTokens: Sendable {
  let start: Int
  let tokens: [Int32]

  package init(start: Int, tokens: [Int32]) { (self.start, self.tokens) = (start, tokens) }
}

/// Makes prompts for one tokenizer.
package struct PromptEncoder: Sendable {
  private let tokenizer: Tokenizer
  /// Those of special tokens, and of tokens that stand for images and audio.
  private var special = Spellings()
  /// Those that stand for images and audio: not even a trusted answer may write them.
  private var media = Spellings()
  private let margin: Margin?

  /// What stands around a token that the template writes, in the text: it is tokenized with its neighbours.
  package struct Margin: Sendable {
    let token: Int32
    let text: String

    package init(token: Int32, text: String) { (self.token, self.text) = (token, text) }
  }

  /// O(vocabulary): make one and keep it.
  ///
  /// - Parameters:
  ///   - mediaTokens: ids that stand for images and audio.
  ///   - margin: of one of them.
  package init(tokenizer: Tokenizer, mediaTokens: [Int32] = [], margin: Margin? = nil) {
    self.tokenizer = tokenizer
    self.margin = margin?.text.isEmpty == false ? margin : nil
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
  /// - Parameter written: what is known of a rendered text, by rising starts. It is used as far as it spells the text.
  /// - Throws: what `ChatTemplate.render` throws.
  package func prompt(
    of conversation: Conversation, template: ChatTemplate, written: ([UInt8]) -> [WrittenTokens] = { _ in [] }
  ) throws(ChatError) -> Prompt {
    let prepared = try template.prepared(conversation)
    // Rendered first: the limits of a template hold for what is done with the text later, too.
    let text = try template.render(prepared: prepared)
    guard let mark = markNeeded(by: prepared) else { return prompt(Array(text.utf8), cuts: [], written) }
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
      return prompt(plain, cuts: [], written)
    }
    return prompt(bytes, cuts: cuts, written)
  }

  /// The tokens of a text that may spell special tokens and has none.
  package func tokens(ofForeign text: String) -> [Int32] {
    let bytes = Array(text.utf8)
    let marks = special.marks(in: bytes, isKeyword: false)
    return prompt(bytes, cuts: special.cuts(in: bytes, marks: marks)) { _ in [] }.tokens
  }

  /// A text whose pieces between cuts are tokenised one by one, but for what the model has written.
  private func prompt(_ text: [UInt8], cuts: [Int], _ written: ([UInt8]) -> [WrittenTokens]) -> Prompt {
    let (text, cuts) = withMargins(text, cuts)
    var tokens: [Int32] = []
    var start = 0
    func encode(to end: Int) {
      for end in cuts.filter({ start < $0 && $0 < end }) + [end] {
        tokens += tokenizer.encode(Bytes.text(text[start..<end]), addSpecialTokens: false)
        start = end
      }
    }
    for part in written(text) where start <= part.start {
      guard let (own, end) = agreeing(part, text), !cuts.contains(where: { part.start < $0 && $0 < end })
      else { continue }
      encode(to: part.start)
      tokens += own
      start = end
    }
    encode(to: text.count)
    return Prompt(text: Bytes.text(text), tokens: tokens)
  }

  /// The text with margins around every token that has one and that the template wrote: no cut goes through it.
  private func withMargins(_ text: [UInt8], _ cuts: [Int]) -> (text: [UInt8], cuts: [Int]) {
    guard let margin, let spelling = tokenizer.token(of: margin.token).map({ Array($0.utf8) }) else {
      return (text, cuts)
    }
    let around = Array(margin.text.utf8)
    var (bytes, start): ([UInt8], Int) = ([], 0)
    var moved: [Int] = []
    func copy(to end: Int) {
      moved += cuts.filter { start <= $0 && $0 < end }.map { $0 - start + bytes.count }
      bytes += text[start..<end]
      start = end
    }
    while let at = Bytes.find(spelling, in: text[...], from: start) {
      let end = at + spelling.count
      guard !cuts.contains(where: { at < $0 && $0 < end }) else {
        copy(to: end)
        continue
      }
      copy(to: at)
      bytes += around
      copy(to: end)
      bytes += around
    }
    copy(to: text.count)
    return (bytes, moved + cuts.filter { $0 >= text.count }.map { $0 - text.count + bytes.count })
  }

  // MARK: What the model has written

  /// Those of the tokens that spell the text, up to a place at which it can be cut, and that place. Nil where there are
  /// none, or where the tokenizer finds other special tokens in the text.
  private func agreeing(_ part: WrittenTokens, _ text: [UInt8]) -> (tokens: ArraySlice<Int32>, end: Int)? {
    var (at, count, end) = (part.start, 0, part.start)
    guard at <= text.count else { return nil }
    for (index, token) in part.tokens.enumerated() {
      let spelling = tokenizer.bytes(of: token)
      guard !spelling.isEmpty, text[at...].starts(with: spelling) else { break }
      at += spelling.count
      if tokenizer.isBorder(text, at: at) { (count, end) = (index + 1, at) }
    }
    guard count > 0 else { return nil }
    let usual = tokenizer.encode(Bytes.text(text[part.start..<end]), addSpecialTokens: false)
    let own = part.tokens.prefix(count)
    return own.filter(tokenizer.isAdded) == usual.filter(tokenizer.isAdded) ? (own, end) : nil
  }

  /// Whether the tokenizer would cut an answer, behind its prompt, as the model has written it.
  package func isUsual(_ answer: [Int32], after prompt: [Int32]) -> Bool {
    // Nothing before an added token changes what follows it.
    let tokens = prompt[(prompt.lastIndex(where: tokenizer.isAdded) ?? 0)...] + answer
    let text = Bytes.text(tokens.flatMap(tokenizer.bytes))
    return tokens.elementsEqual(tokenizer.encode(text, addSpecialTokens: false))
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
