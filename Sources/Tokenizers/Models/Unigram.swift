// Unigram (SentencePiece): the segmentation with the largest sum of scores, by dynamic programming.

struct Unigram: Sendable {
  let vocabulary: Vocabulary
  /// Score of each id.
  private let scores: [Double]
  let unknown: Int32?
  private let unknownScore: Double
  /// Unknown characters become the tokens `<0x00>` ... `<0xFF>` of their UTF-8.
  private let fallbackIDs: [Int32]?

  /// Longer tokens are refused: the search at every position reads this far.
  static let longestToken = 512

  init(vocabulary: Vocabulary, scores: [Double], unknown: Int32?, fallsBackToBytes: Bool) {
    (self.vocabulary, self.scores, self.unknown) = (vocabulary, scores, unknown)
    // The reference's penalty below the worst token.
    unknownScore = (scores.min() ?? 0) - 10
    let fallback = (0..<256).compactMap {
      vocabulary.id(of: BPE.fallbackSpelling(UInt8(truncatingIfNeeded: $0)))
    }
    fallbackIDs = fallsBackToBytes && fallback.count == 256 ? fallback : nil
  }

  /// The best path that ends at a position.
  private struct Node {
    var score = 0.0
    /// Where its last token starts; -1 while nothing ends here.
    var start: Int32 = -1
    var id: Int32 = -1
  }

  /// Appends the tokens of a piece.
  func encode(_ bytes: [UInt8], _ piece: Range<Int>, into ids: inout [Int32]) {
    let nodes = bestPaths(bytes, piece)
    // Backwards along the best path.
    var ends: [Int32] = []
    var end = Int32(truncatingIfNeeded: piece.count)
    while end > 0 {
      ends.append(end)
      end = nodes[Int(end)].start
    }
    // Neighbouring unknown characters are one token.
    var unknownStart: Int32?
    for end in ends.reversed() {
      let node = nodes[Int(end)]
      guard node.id >= 0 else {
        if unknownStart == nil { unknownStart = node.start }
        continue
      }
      if let start = unknownStart { appendUnknown(bytes, piece, start, node.start, to: &ids) }
      unknownStart = nil
      ids.append(node.id)
    }
    if let start = unknownStart { appendUnknown(bytes, piece, start, ends.first ?? 0, to: &ids) }
  }

  private func bestPaths(_ bytes: [UInt8], _ piece: Range<Int>) -> [Node] {
    var nodes = [Node](repeating: Node(), count: piece.count + 1)
    var at = 0
    while at < piece.count {
      let base = nodes[at].score
      let character = decodeScalar(bytes, at: piece.lowerBound + at).length
      var hasSingle = false
      vocabulary.forEachPrefix(of: bytes, piece.lowerBound + at..<piece.upperBound) { end, id in
        let target = end - piece.lowerBound
        let score = base + scores[Int(id)]
        if nodes[target].start < 0 || score > nodes[target].score {
          nodes[target] = Node(
            score: score, start: Int32(truncatingIfNeeded: at), id: id == unknown ? -1 : id)
        }
        if target - at == character { hasSingle = true }
      }
      if !hasSingle {
        let score = base + unknownScore
        if nodes[at + character].start < 0 || score > nodes[at + character].score {
          nodes[at + character] = Node(score: score, start: Int32(truncatingIfNeeded: at), id: -1)
        }
      }
      at += character
    }
    return nodes
  }

  private func appendUnknown(
    _ bytes: [UInt8], _ piece: Range<Int>, _ start: Int32, _ end: Int32, to ids: inout [Int32]
  ) {
    let range = piece.lowerBound + Int(start)..<piece.lowerBound + Int(end)
    // Fused unknown characters may spell a token that no single path gave.
    if let id = vocabulary.id(of: bytes, range) {
      ids.append(id)
    } else if let fallbackIDs {
      for byte in bytes[range] { ids.append(fallbackIDs[Int(byte)]) }
    } else if let unknown {
      ids.append(unknown)
    }
  }
}
