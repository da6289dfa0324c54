// The split patterns of the model families, as hand-written scanners.
//
// Each pattern is an ordered alternation that matches everywhere, so the text falls into pieces without gaps.
// A scanner tries the alternatives in order and reads every scalar a bounded number of times. Other patterns
// run as expressions (`SplitExpression`), which give the same pieces and take longer.

/// One of the known split patterns.
struct WordScanner: Sendable, Equatable {
  enum Style: Sendable, Equatable {
    /// Byte-level without a pattern of its own: an optional space, then one class.
    case gpt2
    /// A contraction, or letters with one leading character that is not a letter.
    case words
    /// As `words`, with marks counted among the letters.
    case wordsWithMarks
    /// Upper-case then lower-case runs; a contraction stays with its word.
    case cases
    /// As `cases`, without contractions.
    case casesWithoutContractions
  }

  let style: Style
  /// Longest piece of digits.
  let digits: Int

  /// The scanner of a pattern, recognised by its exact text.
  init?(pattern: String) {
    switch pattern {
    case Self.gpt2Pattern: self.init(style: .gpt2, digits: 1)
    case Self.contractions + #"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"# + Self.plainTail:
      self.init(style: .words, digits: 3)
    case Self.contractions + #"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"# + Self.plainTail:
      self.init(style: .words, digits: 1)
    case Self.contractions + #"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"# + Self.markTail:
      self.init(style: .wordsWithMarks, digits: 1)
    case Self.casePattern("(?i:'s|'t|'re|'ve|'m|'ll|'d)?") + #"\p{N}{1,3}"# + Self.slashTail:
      self.init(style: .cases, digits: 3)
    case Self.casePattern("") + #"\p{N}"# + Self.slashTail:
      self.init(style: .casesWithoutContractions, digits: 1)
    default: return nil
    }
  }

  init(style: Style, digits: Int) {
    (self.style, self.digits) = (style, digits)
  }

  static let gpt2Pattern =
    #"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"#
  private static let contractions = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|"
  private static let spaceTail = #"|\s*[\r\n]+|\s+(?!\S)|\s+"#
  private static let plainTail = #"| ?[^\s\p{L}\p{N}]+[\r\n]*"# + spaceTail
  private static let markTail = #"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"# + spaceTail
  private static let slashTail = #"| ?[^\s\p{L}\p{N}]+[\r\n/]*"# + spaceTail

  private static func casePattern(_ contraction: String) -> String {
    let prefix = #"[^\r\n\p{L}\p{N}]?"#
    let upper = #"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"#
    let lower = #"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"#
    return prefix + upper + "*" + lower + "+" + contraction + "|"
      + prefix + upper + "+" + lower + "*" + contraction + "|"
  }

  /// Appends the pieces of `bytes[range]`, which is a whole text to the pattern.
  func split(_ bytes: [UInt8], _ range: Range<Int>, into pieces: inout [Range<Int>]) {
    let text = ScannedText(bytes: bytes, end: range.upperBound)
    var at = range.lowerBound
    while at < range.upperBound {
      let end =
        switch style {
        case .gpt2: gpt2End(text, at)
        case .words, .wordsWithMarks: wordsEnd(text, at)
        case .cases, .casesWithoutContractions: casesEnd(text, at)
        }
      pieces.append(at..<end)
      at = end
    }
  }

  private func gpt2End(_ text: ScannedText, _ start: Int) -> Int {
    if let end = text.contractionEnd(start, ignoresCase: false) { return end }
    var at = start
    if text.bytes[start] == 0x20, start + 1 < text.end, text.next(start + 1).cls != .space { at += 1 }
    let first = text.next(at)
    if first.cls == .space { return text.spaceEnd(start, stopsAtLineBreaks: false) }
    if !first.cls.isDisjoint(with: .letter) { return text.run(of: .letter, from: at) }
    if first.cls == .number { return text.run(of: .number, from: at) }
    return text.run(excluding: [.letter, .number, .space], from: at)
  }

  private func wordsEnd(_ text: ScannedText, _ start: Int) -> Int {
    let letters: CharacterClass = style == .words ? .letter : [.letter, .mark]
    if let end = text.contractionEnd(start, ignoresCase: true) { return end }
    let first = text.next(start)
    // The leading character may be a mark even where marks count as letters; letters are tried with it first.
    if first.cls.isDisjoint(with: [.letter, .number]), !text.isLineBreak(start) {
      let end = text.run(of: letters, from: start + first.length)
      if end > start + first.length { return end }
    }
    if text.isIn(first.cls, letters) { return text.run(of: letters, from: start) }
    return commonEnd(text, start, first.cls, word: letters)
  }

  private func casesEnd(_ text: ScannedText, _ start: Int) -> Int {
    let first = text.next(start)
    let mayLead = first.cls.isDisjoint(with: [.letter, .number]) && !text.isLineBreak(start)
    let afterLead = start + first.length
    var end: Int?
    if mayLead { end = text.lowerEndingWord(afterLead) }
    if end == nil { end = text.lowerEndingWord(start) }
    if end == nil, mayLead { end = text.upperStartingWord(afterLead) }
    if end == nil { end = text.upperStartingWord(start) }
    if let end {
      guard style == .cases else { return end }
      return text.contractionEnd(end, ignoresCase: true) ?? end
    }
    return commonEnd(text, start, first.cls, word: .letter)
  }

  /// Numbers, punctuation and white space, which all patterns but GPT-2's treat alike.
  private func commonEnd(_ text: ScannedText, _ start: Int, _ cls: CharacterClass, word: CharacterClass)
    -> Int
  {
    if cls == .number { return text.run(of: .number, from: start, atMost: digits) }
    let other = word.union([.number, .space])
    let from = text.bytes[start] == 0x20 ? start + 1 : start
    let end = text.run(excluding: other, from: from)
    if end > from {
      return text.lineBreaks(from: end, andSlashes: style == .cases || style == .casesWithoutContractions)
    }
    return text.spaceEnd(start, stopsAtLineBreaks: true)
  }
}

/// A text under a scanner: positions are byte offsets, always at the start of a scalar.
struct ScannedText {
  let bytes: [UInt8]
  let end: Int
  private let table = CharacterClass.table

  init(bytes: [UInt8], end: Int) {
    (self.bytes, self.end) = (bytes, end)
  }

  /// Class and byte length of the scalar at `at`.
  @inline(__always)
  func next(_ at: Int) -> (cls: CharacterClass, length: Int) {
    let (scalar, length) = decodeScalar(bytes, at: at)
    return (CharacterClass(rawValue: table[scalar]), length)
  }

  @inline(__always)
  func isIn(_ cls: CharacterClass, _ set: CharacterClass) -> Bool { !cls.isDisjoint(with: set) }

  func isLineBreak(_ at: Int) -> Bool { bytes[at] == 0x0A || bytes[at] == 0x0D }

  /// End of the run of `set` from `from`; `from` itself when there is none.
  @inline(__always)
  func run(of set: CharacterClass, from: Int, atMost limit: Int = .max) -> Int {
    var at = from
    var count = 0
    while at < end, count < limit {
      let (cls, length) = next(at)
      guard isIn(cls, set) else { break }
      at += length
      count += 1
    }
    return at
  }

  @inline(__always)
  func run(excluding set: CharacterClass, from: Int) -> Int {
    var at = from
    while at < end {
      let (cls, length) = next(at)
      guard !isIn(cls, set) else { break }
      at += length
    }
    return at
  }

  func lineBreaks(from: Int, andSlashes: Bool) -> Int {
    var at = from
    while at < end, isLineBreak(at) || andSlashes && bytes[at] == UInt8(ascii: "/") { at += 1 }
    return at
  }

  /// End of `'s 't 'm 'd 're 've 'll` at `at`.
  func contractionEnd(_ at: Int, ignoresCase: Bool) -> Int? {
    guard at + 1 < end, bytes[at] == UInt8(ascii: "'") else { return nil }
    let fold: UInt8 = ignoresCase ? 0x20 : 0
    let first = bytes[at + 1] | fold
    switch first {
    case UInt8(ascii: "s"), UInt8(ascii: "t"), UInt8(ascii: "m"), UInt8(ascii: "d"): return at + 2
    default: break
    }
    guard at + 2 < end else { return nil }
    // U+017F, the long s, is an s to a matcher that ignores case.
    if ignoresCase, bytes[at + 1] == 0xC5, bytes[at + 2] == 0xBF { return at + 3 }
    switch (first, bytes[at + 2] | fold) {
    case (UInt8(ascii: "r"), UInt8(ascii: "e")), (UInt8(ascii: "v"), UInt8(ascii: "e")),
      (UInt8(ascii: "l"), UInt8(ascii: "l")):
      return at + 3
    default: return nil
    }
  }

  /// `\s*[\r\n]+|\s+(?!\S)|\s+` at white space.
  func spaceEnd(_ start: Int, stopsAtLineBreaks: Bool) -> Int {
    var at = start
    var last = start
    var lineBreakEnd = start
    while at < end {
      let (cls, length) = next(at)
      guard cls == .space else { break }
      last = at
      if isLineBreak(at) { lineBreakEnd = at + 1 }
      at += length
    }
    if stopsAtLineBreaks, lineBreakEnd > start { return lineBreakEnd }
    // The last one belongs to the word that follows.
    return at == end || last == start ? at : last
  }

  /// `[upper]*[lower]+`, both with caseless letters and marks.
  func lowerEndingWord(_ start: Int) -> Int? {
    var at = start
    var afterShared: Int?
    while at < end {
      let (cls, length) = next(at)
      guard isIn(cls, [.upper, .caseless, .mark]) else { break }
      at += length
      if cls != .upper { afterShared = at }
    }
    if at < end, next(at).cls == .lower { return run(of: [.lower, .caseless, .mark], from: at) }
    return afterShared
  }

  /// `[upper]+[lower]*`, both with caseless letters and marks.
  func upperStartingWord(_ start: Int) -> Int? {
    let at = run(of: [.upper, .caseless, .mark], from: start)
    return at > start ? run(of: [.lower, .caseless, .mark], from: at) : nil
  }
}
