// The prompt as the model reads it: the template's tokens, with room for images and audio.

package import Chat
package import Media
package import Tokenizers

/// A rendered conversation whose images and audio have their places.
package struct ModelPrompt: Sendable {
  /// As rendered: one token's text stands for each image.
  package let text: String
  package private(set) var tokens: [Int32] = []
  /// In order of position.
  package private(set) var media: [MediaSpan] = []

  /// Replaces the token that the template wrote for each passage by its marks and as many soft tokens as its inputs
  /// have.
  ///
  /// - Parameters:
  ///   - passages: in the order of the conversation.
  ///   - tokenizer: for texts of passages.
  /// - Returns: nil when the template did not write what the passages need.
  package init?(_ prompt: Prompt, passages: [MediaPassage], rules: MediaRules, tokenizer: Tokenizer) {
    text = prompt.text
    guard !passages.isEmpty else {
      tokens = prompt.tokens
      return
    }
    var rest = passages[...]
    for token in prompt.tokens {
      guard let kind = MediaKind.allCases.first(where: { rules.placeholder(of: $0) == token }) else {
        tokens.append(token)
        continue
      }
      guard let passage = rest.popFirst(), passage.kind == kind else { return nil }
      append(passage, tokenizer)
    }
    guard rest.isEmpty else { return nil }
  }

  private mutating func append(_ passage: MediaPassage, _ tokenizer: Tokenizer) {
    for part in passage.parts {
      switch part {
      case .token(let token): tokens.append(token)
      case .text(let text): tokens += tokenizer.encode(text, addSpecialTokens: false)
      case .soft(let input):
        media.append(MediaSpan(start: tokens.count, input: input))
        tokens.append(contentsOf: repeatElement(passage.soft, count: input.tokenCount))
      }
    }
  }
}
