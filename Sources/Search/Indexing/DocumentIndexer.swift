// A text becomes a document of an index: it is cut, what the index does not know yet is given to the model, and it is
// committed. What was done of it survives an end at any moment.

package import Vectors

/// How far a document has come.
package struct IndexingProgress: Sendable, Equatable {
  /// Vectors that the document needs.
  package var rows = 0
  /// Of those, how many are there.
  package var done = 0
  /// Texts of passages that the model was given.
  package var encoded = 0
}

/// Puts texts into an index.
package struct DocumentIndexer: Sendable {
  private let index: VectorIndex
  private let encoder: any PassageEncoder

  /// Texts that are given to the model at once.
  package static let batch = 32

  /// What the lists of passages, and of rows that have no vector yet, take as they grow.
  private static let (bytesPerPassage, bytesPerRow) = (256, 200)

  private static func take(_ bytes: Int, _ reserve: (Int) -> Bool) throws(SearchError) {
    guard reserve(bytes) else { throw .noMemory(bytes: bytes) }
  }

  package init(index: VectorIndex, encoder: any PassageEncoder) {
    (self.index, self.encoder) = (index, encoder)
  }

  /// Indexes a text under a key, in place of what had it.
  ///
  /// - Parameters:
  ///   - name: whose words are those of all its passages, and whose meaning draws them.
  ///   - reserve: told the bytes that are needed next; false where they are not to be had.
  ///   - isUnwanted: asked before each batch, and while the model works.
  ///   - progress: called after each batch.
  package func index(
    _ source: SourceText, key: String, info: [UInt8], name: DocumentName = DocumentName(path: ""),
    rules: SplitRules,
    reserve: (Int) -> Bool = { _ in true }, isUnwanted: () -> Bool = { false },
    progress: (IndexingProgress) -> Void = { _ in }
  ) throws(SearchError) -> IndexingProgress {
    let encoder = encoder
    let splitter = Splitter(rules, windowTokens: encoder.room) { encoder.tokenCount($0) }
    var state = IndexingProgress()
    var passages: [Passage] = []
    var missing: [(key: RowKey, text: String)] = []
    var seen: Set<RowKey> = []
    var bytes = 0
    try splitter.forEachPassage(of: source, reserve: reserve) { passage throws(SearchError) in
      let (own, rows) = (passage.range.count + passage.heading.utf8.count, passage.windows.count)
      try Self.take(own + Self.bytesPerPassage + Self.bytesPerRow * rows, reserve)
      bytes += own
      let keys = passage.windows.map { RowKey(of: Array($0.utf8)) }
      for (key, text) in zip(keys, passage.windows) where seen.insert(key).inserted && !index.hasRow(key) {
        missing.append((key, text))
      }
      passages.append(
        Passage(
          text: Array(source.text[passage.range]), heading: Array(passage.heading.utf8), range: passage.range,
          rows: keys))
      state.rows += keys.count
    }
    guard !passages.isEmpty else { throw .invalidFile("the file has no text") }
    let nameKey = name.meaning.map { RowKey(of: Array("\u{0}name\u{0}\($0)".utf8)) }
    if let meaning = name.meaning, let key = nameKey, let first = passages.indices.first {
      if seen.insert(key).inserted, !index.hasRow(key) { missing.append((key, meaning)) }
      passages[first].rows.append(key)
      state.rows += 1
    }
    state.done = state.rows - missing.count
    // Its vectors as they come, in the log, and as a part of the index, which grows by doubling; its text likewise.
    try Self.take(24 * state.rows * encoder.dimensions + 6 * bytes, reserve)
    // Texts of like length share a step of the model well.
    missing.sort { $0.text.utf8.count > $1.text.utf8.count }
    var at = 0
    while at < missing.count {
      guard !isUnwanted() else { throw .cancelled }
      let part = missing[at..<min(at + Self.batch, missing.count)]
      let vectors = try encoder.passages(part.map(\.text), isUnwanted: isUnwanted)
      try SearchError.index { () throws(IndexError) in
        try index.remember(zip(part, vectors).map { (key: $0.key, vector: $1) })
      }
      state.done += part.count
      state.encoded += part.count { $0.key != nameKey }
      progress(state)
      at += part.count
    }
    guard !isUnwanted() else { throw .cancelled }
    try SearchError.index { () throws(IndexError) in
      try index.commit(
        NewDocument(
          key: key, info: info, name: Array(name.words.utf8), passages: passages,
          hasNameRow: name.meaning != nil), reserve: reserve)
    }
    return state
  }
}
