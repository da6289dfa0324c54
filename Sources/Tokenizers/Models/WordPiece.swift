// WordPiece (BERT): greedy longest match from the left, later parts of a word marked by a prefix.

struct WordPiece: Sendable {
  let vocabulary: Vocabulary
  let unknown: Int32
  let continuingPrefix: [UInt8]
  /// Words of more characters are unknown as a whole.
  let longestWord: Int

  /// Appends the tokens of a word.
  func encode(_ bytes: [UInt8], _ word: Range<Int>, into ids: inout [Int32]) {
    let first = ids.count
    let characters = bytes[word].reduce(0) { $0 + ($1 & 0xC0 == 0x80 ? 0 : 1) }
    guard characters <= longestWord else { return ids.append(unknown) }
    var start = word.lowerBound
    while start < word.upperBound {
      guard let (id, end) = longestMatch(bytes, start..<word.upperBound, isFirst: start == word.lowerBound)
      else {
        ids.removeLast(ids.count - first)
        ids.append(unknown)
        return
      }
      ids.append(id)
      start = end
    }
  }

  private func longestMatch(_ bytes: [UInt8], _ rest: Range<Int>, isFirst: Bool) -> (id: Int32, end: Int)? {
    let text = isFirst ? Array(bytes[rest]) : continuingPrefix + bytes[rest]
    let offset = rest.lowerBound - (isFirst ? 0 : continuingPrefix.count)
    var best: (Int32, Int)?
    vocabulary.forEachPrefix(of: text, 0..<text.count) { end, id in
      if end + offset > rest.lowerBound { best = (id, end + offset) }
    }
    return best
  }
}
