// Which tokens a piece of content is made of, for log probabilities.
//
// The parser drops markers and white space and holds text back, so a piece of content is found again in the text of
// the tokens that have not been accounted for yet.

import Decoding

struct TokenLedger: Sendable {
  /// Tokens that became text together: several when a character is split among tokens.
  private struct Group: Sendable {
    var tokens: [SampledToken]
    /// Bytes of its text not accounted for yet.
    var bytes: Int
  }

  private var text: [UInt8] = []
  private var groups: [Group] = []
  /// Tokens whose text has not come yet.
  private var waiting: [SampledToken] = []

  /// - Parameter text: what the detokenizer released when it took `token`.
  mutating func append(_ token: SampledToken, text: String) {
    waiting.append(token)
    appendTail(text)
  }

  /// Text that came without a new token.
  mutating func appendTail(_ text: String) {
    guard !text.utf8.isEmpty else { return }
    groups.append(Group(tokens: waiting, bytes: text.utf8.count))
    waiting = []
    self.text += text.utf8
  }

  /// The tokens whose text begins in `content` or goes on into it; text before it is dropped with its tokens.
  mutating func take(_ content: String) -> [SampledToken] {
    let wanted = Array(content.utf8)
    guard let start = firstOccurrence(of: wanted) else {
      // The parser rewrote the text: everything so far belongs to it.
      defer { skipAll() }
      return groups.flatMap(\.tokens)
    }
    drop(start)
    var taken: [SampledToken] = []
    var left = wanted.count
    while left > 0, !groups.isEmpty {
      taken += groups[0].tokens
      groups[0].tokens = []
      let step = min(left, groups[0].bytes)
      groups[0].bytes -= step
      left -= step
      if groups[0].bytes == 0 { groups.removeFirst() }
    }
    text.removeFirst(wanted.count)
    return taken
  }

  /// Forgets everything up to the end of `other`, which is not content.
  mutating func skip(through other: String) {
    let wanted = Array(other.utf8)
    guard let start = firstOccurrence(of: wanted) else { return skipAll() }
    drop(start + wanted.count)
  }

  mutating func skipAll() {
    text = []
    groups = []
  }

  /// A group that is dropped in part keeps its tokens for the rest.
  private mutating func drop(_ count: Int) {
    var left = count
    while left > 0, !groups.isEmpty {
      let step = min(left, groups[0].bytes)
      groups[0].bytes -= step
      left -= step
      if groups[0].bytes == 0 { groups.removeFirst() }
    }
    text.removeFirst(min(count, text.count))
  }

  private func firstOccurrence(of wanted: [UInt8]) -> Int? {
    guard wanted.count <= text.count else { return nil }
    for start in 0...(text.count - wanted.count)
    where text[start..<start + wanted.count].elementsEqual(wanted) { return start }
    return nil
  }
}
