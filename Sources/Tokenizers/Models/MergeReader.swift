// Reads the merges of a BPE model: `"a b"` or `["a", "b"]`, in the order of their ranks.

import JSON

struct MergeReader {
  private var pairs: [(left: Int32, right: Int32, merged: Int32)] = []
  /// False when the unknown token or a byte token merges with something that starts with a space symbol.
  private(set) var allJoinSpellings = true

  private let vocabulary: Vocabulary
  private let prefixLength: Int
  private let standIns: Set<Int32>

  init(_ reader: JSONReader, _ vocabulary: Vocabulary, _ options: BPE.Options) throws(TokenizerError) {
    self.vocabulary = vocabulary
    prefixLength = options.continuingPrefix.count
    let bytes = (0..<256).compactMap {
      vocabulary.id(of: BPE.fallbackSpelling(UInt8(truncatingIfNeeded: $0)))
    }
    standIns = Set(bytes + (options.unknown.map { [$0] } ?? []))
    do throws(JSONError) {
      try read(reader)
    } catch {
      throw .json(error)
    }
  }

  var table: MergeTable {
    var table = MergeTable(count: pairs.count)
    for (rank, pair) in pairs.enumerated() {
      table.insert(pair.left, pair.right, rank: UInt32(truncatingIfNeeded: rank), merged: pair.merged)
    }
    return table
  }

  private mutating func read(_ reader: JSONReader) throws(JSONError) {
    var reader = reader
    var text: [UInt8] = []
    var right: [UInt8] = []
    try reader.enterArray()
    while try reader.nextElement() {
      if reader.isAtArray() {
        try reader.enterArray()
        guard try reader.nextElement() else { throw reader.problem("expected a token") }
        try reader.readString(into: &text)
        guard try reader.nextElement() else { throw reader.problem("expected a second token") }
        try reader.readString(into: &right)
        guard try !reader.nextElement() else { throw reader.problem("a merge has two tokens") }
        let split = text.count
        text.append(contentsOf: right)
        try add(text, split, reader)
      } else {
        try reader.readString(into: &text)
        guard let space = text.firstIndex(of: 0x20) else { throw reader.problem("a merge needs a space") }
        text.remove(at: space)
        guard !text[space...].contains(0x20) else { throw reader.problem("a merge has a single space") }
        try add(text, space, reader)
      }
    }
  }

  /// - Parameter text: both spellings without anything between them; the right one starts at `split`.
  private mutating func add(_ text: [UInt8], _ split: Int, _ reader: JSONReader) throws(JSONError) {
    guard let left = vocabulary.id(of: text, 0..<split),
      let right = vocabulary.id(of: text, split..<text.count)
    else { throw reader.problem("a merge of tokens that are not in the vocabulary") }
    var merged = vocabulary.id(of: text, 0..<text.count)
    if prefixLength > 0 {
      merged = vocabulary.id(of: Array(text[..<split] + text[split...].dropFirst(prefixLength)))
    }
    guard let merged else { throw reader.problem("a merge to a token that is not in the vocabulary") }
    pairs.append((left, right, merged))
    if standIns.contains(left), text[split...].starts(with: "\u{2581}".utf8) { allJoinSpellings = false }
  }
}
