// Where tokens stand in front of models that know the rows and columns of an image: time, height and width.
//
// A text goes on by one in all three. An image stands at one time, and its soft tokens at their rows and columns from
// there; the text after it begins behind the longer of its sides (Qwen2-VL, arXiv:2409.12191).

/// Of the tokens of one sequence.
package struct TokenPlaces: Sendable, Equatable {
  private var places: [SIMD3<Int32>] = []
  /// What is added to the index of a token after the prompt: all of its coordinates. At most 0.
  package private(set) var shift: Int32 = 0

  /// - Parameters:
  ///   - media: in order of position, within the prompt.
  ///   - count: tokens of the prompt.
  /// - Returns: nil where no image has rows and columns: each place is the index.
  package init?(_ media: [MediaSpan], count: Int) {
    guard media.contains(where: { $0.input.columns != nil }) else { return nil }
    var next: Int32 = 0
    func text(to end: Int) {
      while places.count < end {
        places.append(SIMD3(repeating: next))
        next += 1
      }
    }
    for span in media {
      guard let columns = span.input.columns else { continue }
      text(to: span.start)
      for index in 0..<span.input.tokenCount {
        places.append(next &+ SIMD3(0, Int32(clamping: index / columns), Int32(clamping: index % columns)))
      }
      next += Int32(clamping: max(columns, span.input.tokenCount / columns))
    }
    text(to: count)
    shift = next - Int32(clamping: count)
  }

  /// Those of the positions `range`, which may go beyond the prompt.
  package subscript(range: Range<Int>) -> [SIMD3<Int32>] {
    range.map { $0 < places.count ? places[$0] : SIMD3(repeating: Int32(clamping: $0) + shift) }
  }
}
