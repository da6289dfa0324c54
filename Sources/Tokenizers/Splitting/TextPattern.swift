// What `Split` and `Replace` search for: a literal, a run of one class, or a whole split pattern.

/// A pattern of tokenizer.json: `{"String": …}` or `{"Regex": …}`.
enum TextPattern: Sendable {
  case literal([UInt8])
  /// At least `least` and at most `most` scalars of a class, as many as possible.
  case run(CharacterClass, least: Int, most: Int)
  /// At least `least` of one ASCII character.
  case repeated(UInt8, least: Int)
  case words(WordScanner)
  /// Any other regular expression.
  case expression(SplitExpression)

  /// The pattern of a regular expression; the known ones have scanners.
  init(regex: String) throws(RegexProblem) {
    if let scanner = WordScanner(pattern: regex) {
      self = .words(scanner)
      return
    }
    switch regex {
    case #"\s+"#: self = .run(.space, least: 1, most: .max)
    case #"\s"#: self = .run(.space, least: 1, most: 1)
    case #"\s{2,}"#: self = .run(.space, least: 2, most: .max)
    case #"\p{N}{1,3}"#: self = .run(.number, least: 1, most: 3)
    case #"\p{N}"#: self = .run(.number, least: 1, most: 1)
    case #"\p{N}+"#: self = .run(.number, least: 1, most: .max)
    case " {2,}": self = .repeated(0x20, least: 2)
    case " +": self = .repeated(0x20, least: 1)
    default:
      let isLiteral = !regex.isEmpty && !regex.utf8.contains(where: Self.isSpecial)
      self = isLiteral ? .literal(Array(regex.utf8)) : .expression(try SplitExpression(regex))
    }
  }

  private static func isSpecial(_ byte: UInt8) -> Bool {
    #"\^$.|?*+()[]{}"#.utf8.contains(byte)
  }

  /// Calls `body` for every match and every gap between matches, in order; none is empty.
  func forEachPart(_ bytes: [UInt8], _ range: Range<Int>, _ body: (Range<Int>, _ isMatch: Bool) -> Void) {
    if case .words(let scanner) = self {
      var pieces: [Range<Int>] = []
      scanner.split(bytes, range, into: &pieces)
      for piece in pieces { body(piece, true) }
      return
    }
    if case .expression(let expression) = self { return expression.forEachPart(bytes, range, body) }
    var gapStart = range.lowerBound
    var at = range.lowerBound
    while at < range.upperBound {
      let (end, isMatch) = step(bytes, at, range.upperBound)
      if isMatch {
        if gapStart < at { body(gapStart..<at, false) }
        body(at..<end, true)
        gapStart = end
      }
      at = end
    }
    if gapStart < range.upperBound { body(gapStart..<range.upperBound, false) }
  }

  /// The match at `at`, or the distance to the next place where one may begin.
  private func step(_ bytes: [UInt8], _ at: Int, _ end: Int) -> (end: Int, isMatch: Bool) {
    switch self {
    case .literal(let pattern):
      guard let first = pattern.first else { return (end, false) }
      guard bytes[at] == first else {
        var stop = at + 1
        while stop < end, bytes[stop] != first { stop += 1 }
        return (stop, false)
      }
      guard pattern.count > 1 else { return (at + 1, true) }
      let isMatch = end - at >= pattern.count && bytes[at..<at + pattern.count].elementsEqual(pattern)
      return (isMatch ? at + pattern.count : at + 1, isMatch)
    case .run(let set, let least, let most):
      let text = ScannedText(bytes: bytes, end: end)
      var stop = at
      var count = 0
      while stop < end, count < most {
        let (cls, length) = text.next(stop)
        guard text.isIn(cls, set) else { break }
        stop += length
        count += 1
      }
      if count >= least { return (stop, true) }
      return (max(stop, at + decodeScalar(bytes, at: at).length), false)
    case .repeated(let byte, let least):
      var stop = at
      while stop < end, bytes[stop] == byte { stop += 1 }
      if stop - at >= least { return (stop, true) }
      return (max(stop, at + 1), false)
    case .words, .expression: return (end, true)
    }
  }
}
