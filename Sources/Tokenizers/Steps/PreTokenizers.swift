// Pre-tokenizers: cut the normalised text into the pieces that the model sees one by one.

/// A text and its pieces, in order, none empty.
struct Pieces {
  var bytes: [UInt8]
  var ranges: [Range<Int>]
  /// Whether the first piece starts where the whole input starts.
  var startInput: Bool

  /// Replaces every piece by parts of it.
  mutating func cut(_ body: (_ bytes: [UInt8], _ piece: Range<Int>, _ parts: inout [Range<Int>]) -> Void) {
    var parts: [Range<Int>] = []
    parts.reserveCapacity(ranges.count)
    for piece in ranges { body(bytes, piece, &parts) }
    if let first = parts.first?.lowerBound, first != ranges.first?.lowerBound { startInput = false }
    ranges = parts
  }

  /// Replaces the text of every piece; `body` appends the new one.
  mutating func rewrite(
    _ body: (_ bytes: [UInt8], _ piece: Range<Int>, _ isFirst: Bool, _ out: inout [UInt8]) -> Void
  ) {
    var out: [UInt8] = []
    out.reserveCapacity(bytes.count + ranges.count)
    for index in ranges.indices {
      let start = out.count
      body(bytes, ranges[index], index == 0, &out)
      ranges[index] = start..<out.count
    }
    bytes = out
    ranges.removeAll { $0.isEmpty }
  }
}

/// One step of pre-tokenization.
enum PreTokenizer: Sendable {
  /// What becomes of the matches of a pattern.
  enum Behavior: String, Sendable {
    case removed = "Removed"
    case isolated = "Isolated"
    case mergedWithPrevious = "MergedWithPrevious"
    case mergedWithNext = "MergedWithNext"
    case contiguous = "Contiguous"
  }

  enum PrependScheme: String, Sendable {
    case always, first, never
  }

  case split(TextPattern, Behavior, isInverted: Bool)
  /// A space before every piece that does not start with one.
  case prefixSpace
  /// Bytes to their spellings in the byte-level alphabet.
  case spellBytes
  case metaspace(replacement: [UInt8], PrependScheme, splits: Bool)
  case digits(individually: Bool)
  case whitespaceSplit
  /// `\w+|[^\w\s]+`; the rest, white space, is removed.
  case wordsAndSymbols
  case punctuation(Behavior)
  /// White space removed, punctuation isolated.
  case bert

  func apply(to pieces: inout Pieces) {
    switch self {
    case .split(.words(let scanner), .isolated, isInverted: false):
      pieces.cut { scanner.split($0, $1, into: &$2) }
    case .split(let pattern, let behavior, let isInverted):
      pieces.cut { bytes, piece, parts in
        var join = PartJoiner(behavior: behavior)
        pattern.forEachPart(bytes, piece) { join.add($0, isMatch: $1 != isInverted, to: &parts) }
        join.finish(&parts)
      }
    case .prefixSpace:
      pieces.rewrite { bytes, piece, _, out in
        if bytes[piece.lowerBound] != 0x20 { out.append(0x20) }
        out.append(contentsOf: bytes[piece])
      }
    case .spellBytes:
      pieces.rewrite { bytes, piece, _, out in ByteAlphabet.spell(bytes, piece, into: &out) }
    case .metaspace(let replacement, let scheme, let splits):
      Self.applyMetaspace(&pieces, replacement, scheme, splits)
    case .digits(let individually):
      Self.cutByClass(&pieces, individually ? .isolated : .contiguous) { cls, _ in cls == .number }
    case .whitespaceSplit:
      Self.cutByClass(&pieces, .removed) { cls, _ in cls == .space }
    case .wordsAndSymbols:
      Self.cutWords(&pieces)
    case .punctuation(let behavior):
      Self.cutByClass(&pieces, behavior, isMatch: Self.isPunctuation)
    case .bert:
      Self.cutByClass(&pieces, .removed) { cls, _ in cls == .space }
      Self.cutByClass(&pieces, .isolated, isMatch: Self.isPunctuation)
    }
  }

  /// P*, and all of ASCII that is neither letter, digit, space nor control.
  static func isPunctuation(_ cls: CharacterClass, _ scalar: UInt32) -> Bool {
    cls == .punctuation || scalar < 0x80 && cls == .symbol
  }

  /// Every scalar for itself is a match or not; runs of the same answer are one part, matches stay single.
  private static func cutByClass(
    _ pieces: inout Pieces, _ behavior: Behavior, isMatch: (CharacterClass, UInt32) -> Bool
  ) {
    let table = CharacterClass.table
    pieces.cut { bytes, piece, parts in
      var join = PartJoiner(behavior: behavior)
      var gapStart = piece.lowerBound
      var at = piece.lowerBound
      while at < piece.upperBound {
        let (scalar, length) = decodeScalar(bytes, at: at)
        if isMatch(CharacterClass(rawValue: table[scalar]), scalar) {
          if gapStart < at { join.add(gapStart..<at, isMatch: false, to: &parts) }
          join.add(at..<at + length, isMatch: true, to: &parts)
          gapStart = at + length
        }
        at += length
      }
      if gapStart < at { join.add(gapStart..<at, isMatch: false, to: &parts) }
      join.finish(&parts)
    }
  }

  private static func cutWords(_ pieces: inout Pieces) {
    enum Kind { case space, word, symbol }
    let table = CharacterClass.table
    pieces.cut { bytes, piece, parts in
      var start = piece.lowerBound
      var kind: Kind?
      var at = piece.lowerBound
      while at < piece.upperBound {
        let (scalar, length) = decodeScalar(bytes, at: at)
        let isSpace = table[scalar] == CharacterClass.space.rawValue
        let next: Kind = isSpace ? .space : isWordScalar(scalar) ? .word : .symbol
        if next != kind {
          if start < at, kind != .space { parts.append(start..<at) }
          start = at
          kind = next
        }
        at += length
      }
      if start < at, kind != .space { parts.append(start..<at) }
    }
  }

  private static func applyMetaspace(
    _ pieces: inout Pieces, _ replacement: [UInt8], _ scheme: PrependScheme, _ splits: Bool
  ) {
    let startInput = pieces.startInput
    pieces.rewrite { bytes, piece, isFirst, out in
      let prepends = scheme == .always || scheme == .first && isFirst && startInput
      if prepends, bytes[piece.lowerBound] != 0x20, !bytes[piece].starts(with: replacement) {
        out.append(contentsOf: replacement)
      }
      for at in piece {
        if bytes[at] == 0x20 { out.append(contentsOf: replacement) } else { out.append(bytes[at]) }
      }
    }
    if splits {
      PreTokenizer.split(.literal(replacement), .mergedWithNext, isInverted: false).apply(to: &pieces)
    }
  }
}

/// Joins matches and gaps as a split behaviour says.
struct PartJoiner {
  let behavior: PreTokenizer.Behavior
  /// The part being grown, and whether its last piece was a match.
  private var open: Range<Int>?
  private var lastWasMatch = false

  init(behavior: PreTokenizer.Behavior) { self.behavior = behavior }

  mutating func add(_ part: Range<Int>, isMatch: Bool, to parts: inout [Range<Int>]) {
    defer { lastWasMatch = isMatch }
    let joins: Bool
    switch behavior {
    case .removed:
      if !isMatch { parts.append(part) }
      return
    case .isolated: joins = false
    case .mergedWithPrevious: joins = isMatch && !lastWasMatch
    case .mergedWithNext: joins = lastWasMatch && !isMatch
    case .contiguous: joins = lastWasMatch == isMatch
    }
    if joins, let start = open?.lowerBound {
      open = start..<part.upperBound
    } else {
      finish(&parts)
      open = part
    }
  }

  /// Hands over the last part.
  mutating func finish(_ parts: inout [Range<Int>]) {
    if let open { parts.append(open) }
    open = nil
  }
}
