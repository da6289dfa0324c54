// What stands in a prompt for an image or an audio clip: marks and texts, and inputs of an encoder between them.

/// An image or an audio clip, ready for a prompt. One whose model sees it in tiles has an input for each.
package struct MediaPassage: Sendable {
  /// What follows each other in the prompt.
  package enum Part: Sendable {
    case token(Int32)
    /// Tokenized by itself, because tokens that nothing merges with stand before and after it.
    case text(String)
    /// As many soft tokens as the input has.
    case soft(MediaInput)
  }

  package let kind: MediaKind
  /// What every position of soft tokens holds.
  package let soft: Int32
  package let parts: [Part]

  package init(kind: MediaKind, soft: Int32, parts: [Part]) {
    (self.kind, self.soft, self.parts) = (kind, soft, parts)
  }

  /// One input between two marks.
  package init(_ input: MediaInput, between marks: MediaMarks) {
    self.init(
      kind: input.kind, soft: marks.soft, parts: [.token(marks.opening), .soft(input), .token(marks.closing)])
  }

  /// What encoders read, in the order of the prompt.
  package var inputs: [MediaInput] {
    parts.compactMap { part in
      if case .soft(let input) = part { input } else { nil }
    }
  }

  /// Memory that the inputs take.
  package var byteCount: Int { inputs.reduce(0) { $0 + $1.byteCount } }
}
