// The prompt as the model reads it: the template's tokens, with room for images and audio.

package import Chat
package import Media

/// A rendered conversation whose images and audio have their places.
package struct ModelPrompt: Sendable {
  /// As rendered: one token's text stands for each image.
  package let text: String
  package private(set) var tokens: [Int32] = []
  /// In order of position.
  package private(set) var media: [MediaSpan] = []

  /// Replaces the token that the template wrote for each input by an opening, as many soft tokens as the input has,
  /// and a closing.
  ///
  /// - Parameter inputs: in the order of the conversation.
  /// - Returns: nil when the template did not write what the inputs need.
  package init?(_ prompt: Prompt, inputs: [MediaInput], rules: MediaRules) {
    text = prompt.text
    guard !inputs.isEmpty else {
      tokens = prompt.tokens
      return
    }
    var rest = inputs[...]
    for token in prompt.tokens {
      guard let kind = MediaKind.allCases.first(where: { rules.marks(of: $0)?.soft == token }),
        let marks = rules.marks(of: kind)
      else {
        tokens.append(token)
        continue
      }
      guard let input = rest.popFirst(), input.kind == kind else { return nil }
      tokens.append(marks.opening)
      media.append(MediaSpan(start: tokens.count, input: input))
      tokens.append(contentsOf: repeatElement(marks.soft, count: input.tokenCount))
      tokens.append(marks.closing)
    }
    guard rest.isEmpty else { return nil }
  }
}
