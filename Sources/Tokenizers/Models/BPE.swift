// Byte-pair encoding: start from single characters, merge the adjacent pair of the lowest rank, repeat.

/// A BPE model. Pieces come as bytes; a byte-level model maps them to its alphabet on the fly.
struct BPE: Sendable {
  struct Options: Sendable {
    var unknown: Int32?
    /// Unknown characters become the tokens `<0x00>` ... `<0xFF>` of their UTF-8.
    var fallsBackToBytes = false
    /// Consecutive unknown characters become one unknown token.
    var fusesUnknown = false
    /// A piece that is a token is that token, whatever its merges say.
    var ignoresMerges = false
    var continuingPrefix: [UInt8] = []
    var endSuffix: [UInt8] = []
    /// Pieces are raw bytes of which each stands for one character of the byte-level alphabet.
    var isByteLevel = false
  }

  let vocabulary: Vocabulary
  let merges: MergeTable
  let options: Options
  /// Tokens `<0xXX>`, or nil where the vocabulary lacks one.
  private let fallbackIDs: [Int32?]
  /// Token of each byte of the byte-level alphabet, or of each scalar below U+10000; -1 where there is none.
  private let characterIDs: [Int32]
  private let spaceCut: SpaceCut?

  /// - Parameter mayCutAtSpaces: false when a token that stands for other text than its spelling (unknown, a
  ///   byte) merges with a space, so that spellings do not tell where merges cross.
  init(vocabulary: Vocabulary, merges: MergeTable, options: Options, mayCutAtSpaces: Bool) {
    (self.vocabulary, self.merges, self.options) = (vocabulary, merges, options)
    fallbackIDs = (0..<256).map { vocabulary.id(of: Self.fallbackSpelling(UInt8(truncatingIfNeeded: $0))) }
    characterIDs = options.isByteLevel ? Self.byteIDs(vocabulary) : Self.scalarIDs(vocabulary)
    let isPlain = options.continuingPrefix.isEmpty && options.endSuffix.isEmpty
    let isCuttable = mayCutAtSpaces && isPlain && !options.isByteLevel && !options.ignoresMerges
    spaceCut = isCuttable ? SpaceCut(vocabulary) : nil
  }

  private static func byteIDs(_ vocabulary: Vocabulary) -> [Int32] {
    ByteAlphabet.spellings.map { vocabulary.id(of: $0) ?? -1 }
  }

  private static func scalarIDs(_ vocabulary: Vocabulary) -> [Int32] {
    var ids = [Int32](repeating: -1, count: 1 << 16)
    for id in 0..<Int32(truncatingIfNeeded: vocabulary.idLimit) {
      guard let spelling = vocabulary.spelling(of: id), spelling.count < 4, !spelling.isEmpty else {
        continue
      }
      let (scalar, length) = decodeScalar(Array(spelling), at: 0)
      if length == spelling.count { ids[Int(scalar)] = id }
    }
    return ids
  }

  /// `<0x0A>` for 10.
  static func fallbackSpelling(_ byte: UInt8) -> String {
    let digits = String(byte, radix: 16, uppercase: true)
    return "<0x" + (digits.utf8.count < 2 ? "0" : "") + digits + ">"
  }

  /// Appends the tokens of a piece.
  func encode(
    _ bytes: [UInt8], _ piece: Range<Int>, _ workspace: inout MergeWorkspace, into ids: inout [Int32]
  ) {
    if options.ignoresMerges, let id = wholePiece(bytes, piece) {
      ids.append(id)
      return
    }
    guard let spaceCut else {
      encodePart(bytes, piece, &workspace, into: &ids)
      return
    }
    var start = piece.lowerBound
    while start < piece.upperBound {
      let end = spaceCut.end(bytes, start, piece.upperBound)
      encodePart(bytes, start..<end, &workspace, into: &ids)
      start = end
    }
  }

  private func wholePiece(_ bytes: [UInt8], _ piece: Range<Int>) -> Int32? {
    guard options.isByteLevel else { return vocabulary.id(of: bytes, piece) }
    guard piece.count <= vocabulary.longest else { return nil }
    var spelling: [UInt8] = []
    spelling.reserveCapacity(2 * piece.count)
    ByteAlphabet.spell(bytes, piece, into: &spelling)
    return vocabulary.id(of: spelling)
  }

  private func encodePart(
    _ bytes: [UInt8], _ part: Range<Int>, _ workspace: inout MergeWorkspace, into ids: inout [Int32]
  ) {
    workspace.ids.removeAll(keepingCapacity: true)
    appendSymbols(bytes, part, to: &workspace.ids)
    workspace.merge(with: merges)
    ids.append(contentsOf: workspace.ids)
  }

  /// The characters of a part as tokens, unknown ones treated as the options say.
  private func appendSymbols(_ bytes: [UInt8], _ part: Range<Int>, to symbols: inout [Int32]) {
    var pendingUnknown = false
    let isPlain = options.continuingPrefix.isEmpty && options.endSuffix.isEmpty
    var at = part.lowerBound
    while at < part.upperBound {
      let (scalar, length) = options.isByteLevel ? (UInt32(bytes[at]), 1) : decodeScalar(bytes, at: at)
      var id: Int32 = -1
      if !isPlain {
        id = vocabulary.id(of: affixed(bytes, at..<at + length, in: part)) ?? -1
      } else if scalar < 1 << 16 {
        id = characterIDs[Int(scalar)]
      } else {
        id = vocabulary.id(of: bytes, at..<at + length) ?? -1
      }
      if id >= 0 {
        if pendingUnknown, let unknown = options.unknown { symbols.append(unknown) }
        pendingUnknown = false
        symbols.append(id)
      } else {
        appendUnknown(spelling(bytes, at..<at + length), &pendingUnknown, to: &symbols)
      }
      at += length
    }
    if pendingUnknown, let unknown = options.unknown { symbols.append(unknown) }
  }

  private func spelling(_ bytes: [UInt8], _ range: Range<Int>) -> [UInt8] {
    options.isByteLevel ? ByteAlphabet.spellings[Int(bytes[range.lowerBound])] : Array(bytes[range])
  }

  private func affixed(_ bytes: [UInt8], _ range: Range<Int>, in part: Range<Int>) -> [UInt8] {
    (range.lowerBound > part.lowerBound ? options.continuingPrefix : []) + spelling(bytes, range)
      + (range.upperBound == part.upperBound ? options.endSuffix : [])
  }

  /// A pending unknown token is written only when the next known character or unfused unknown comes: the
  /// order of the reference, which byte fallback does not interrupt.
  private func appendUnknown(_ spelling: [UInt8], _ pending: inout Bool, to symbols: inout [Int32]) {
    if options.fallsBackToBytes {
      let fallback = spelling.compactMap { fallbackIDs[Int($0)] }
      if fallback.count == spelling.count {
        symbols.append(contentsOf: fallback)
        return
      }
    }
    guard let unknown = options.unknown else { return }
    if pending, !options.fusesUnknown { symbols.append(unknown) }
    pending = true
  }
}

/// Where a text may be cut before a space symbol without changing its tokens.
///
/// SentencePiece models see whole texts as one piece. No merge crosses a place where no token has the same two
/// characters side by side; in these vocabularies nearly every word start is such a place.
struct SpaceCut: Sendable {
  /// Last bytes of the characters that stand before the symbol inside some token.
  private var precedes = [Bool](repeating: false, count: 256)

  /// U+2581, the space of SentencePiece.
  private static let symbol: (UInt8, UInt8, UInt8) = (0xE2, 0x96, 0x81)

  init(_ vocabulary: Vocabulary) {
    for id in 0..<Int32(truncatingIfNeeded: vocabulary.idLimit) {
      guard let spelling = vocabulary.spelling(of: id) else { continue }
      var at = spelling.startIndex + 1
      while at + 2 < spelling.endIndex {
        if Self.isSymbol(spelling, at) { precedes[Int(spelling[at - 1])] = true }
        at += 1
      }
    }
    // The symbol itself always counts: runs of it are tokens.
    precedes[Int(Self.symbol.2)] = true
  }

  @inline(__always)
  private static func isSymbol(_ bytes: ArraySlice<UInt8>, _ at: Int) -> Bool {
    bytes[at] == symbol.0 && bytes[at + 1] == symbol.1 && bytes[at + 2] == symbol.2
  }

  /// End of the part that starts at `start`.
  func end(_ bytes: [UInt8], _ start: Int, _ limit: Int) -> Int {
    var at = start + 1
    while at + 2 < limit {
      if bytes[at] == Self.symbol.0, bytes[at + 1] == Self.symbol.1, bytes[at + 2] == Self.symbol.2,
        !precedes[Int(bytes[at - 1])]
      {
        return at
      }
      at += 1
    }
    return limit
  }
}
