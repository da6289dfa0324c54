// Added and special tokens: found in the text before anything else, leftmost and longest first.

/// One entry of `added_tokens`.
struct AddedToken: Sendable {
  var id: Int32
  var content: [UInt8]
  /// Matches only between non-word characters.
  var isSingleWord = false
  /// Also takes the white space before (after) it.
  var stripsLeft = false
  var stripsRight = false
  /// Is searched in the normalised text instead of the raw text.
  var isNormalized = false
  /// Is left out when special tokens are skipped in decoding.
  var isSpecial = false

  /// Longer contents are refused: the search may step back by this many bytes.
  static let longestContent = 1024
}

/// Finds some added tokens by their contents.
struct AddedTokenSearch: Sendable {
  private var tokens: [AddedToken] = []
  /// The value of a pattern is the token's index.
  private var patterns = ByteTrie()

  var isEmpty: Bool { tokens.isEmpty }

  /// - Parameter patterns: what to search for each token; of equal ones the first counts.
  init(_ patterns: [(token: AddedToken, pattern: [UInt8])]) {
    for (token, pattern) in patterns
    where self.patterns.insert(pattern[...], value: Int32(truncatingIfNeeded: tokens.count)) {
      tokens.append(token)
    }
  }

  /// Whether the content of one stands at `start`.
  func matches(in bytes: [UInt8], at start: Int) -> Bool {
    patterns.longestMatch(in: bytes, from: start) != nil
  }

  enum Part {
    case text(Range<Int>)
    case token(Int32)
  }

  /// Cuts `bytes[range]` into added tokens and the text between them, in order; no text is empty.
  func split(_ bytes: [UInt8], _ range: Range<Int>, _ body: (Part) -> Void) {
    guard !isEmpty else {
      if !range.isEmpty { body(.text(range)) }
      return
    }
    var textStart = range.lowerBound
    var at = range.lowerBound
    while at < range.upperBound {
      guard let (index, end) = patterns.longestMatch(in: bytes, from: at, to: range.upperBound) else {
        at += 1
        continue
      }
      let token = tokens[Int(index)]
      var start = at
      // The search goes on after the match even when the token is refused or takes white space, too.
      at = end
      if token.isSingleWord, touchesWord(bytes, range, start, end) { continue }
      if token.stripsLeft { start = Self.spaceStart(bytes, min(textStart, start), before: start) }
      // A match inside space that the token before has taken ends where that space ends.
      let stop = token.stripsRight ? Self.spaceEnd(bytes, from: max(end, textStart), range.upperBound) : end
      if textStart < start { body(.text(textStart..<start)) }
      body(.token(token.id))
      textStart = stop
    }
    if textStart < range.upperBound { body(.text(textStart..<range.upperBound)) }
  }

  private func touchesWord(_ bytes: [UInt8], _ range: Range<Int>, _ start: Int, _ end: Int) -> Bool {
    if start > range.lowerBound {
      let before = bytes.scalarStart(before: start, from: range.lowerBound)
      if isWordScalar(decodeScalar(bytes, at: before).value) { return true }
    }
    return end < range.upperBound && isWordScalar(decodeScalar(bytes, at: end).value)
  }

  private static func spaceStart(_ bytes: [UInt8], _ low: Int, before end: Int) -> Int {
    var start = end
    while start > low {
      let before = bytes.scalarStart(before: start, from: low)
      guard CharacterClass.of(decodeScalar(bytes, at: before).value) == .space else { break }
      start = before
    }
    return start
  }

  private static func spaceEnd(_ bytes: [UInt8], from start: Int, _ high: Int) -> Int {
    var end = start
    while end < high {
      let (scalar, length) = decodeScalar(bytes, at: end)
      guard CharacterClass.of(scalar) == .space else { break }
      end += length
    }
    return end
  }
}

/// `\w`: alphabetic, marks, decimal digits, connector punctuation, join controls.
func isWordScalar(_ value: UInt32) -> Bool {
  guard let scalar = Unicode.Scalar(value) else { return false }
  let properties = scalar.properties
  switch properties.generalCategory {
  case .decimalNumber, .connectorPunctuation, .nonspacingMark, .spacingMark, .enclosingMark: return true
  default: return properties.isAlphabetic || value == 0x200C || value == 0x200D
  }
}
