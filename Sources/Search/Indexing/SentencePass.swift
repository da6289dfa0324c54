// Reads the sentences of an index's passages once, and keeps beside the index what explaining a result wants to know of them.

package import Vectors

/// A pass over the documents of an index, step by step. What was done of it survives an end at any moment, up to some seconds of
/// reading.
package struct SentencePass: Sendable {
  /// Of the index that had the last step.
  private weak var index: VectorIndex?
  /// Documents up to this one were looked at.
  private var serial: UInt64 = 0
  /// Those that come next, the last one first, and how far the next one is done.
  private var documents: [IndexedDocument] = []
  private var next = 0
  private var block = SideBlock()
  /// Whose entries they are.
  private var maker: RowKey?

  /// Bytes of text and passages that are read at once, and passages that are looked at.
  private static let (stepBytes, stepPassages, mostLooks) = (8 << 10, 32, 1_024)
  /// Bytes of entries that become a file.
  private static let blockBytes = 8 << 20
  /// Entries without a passage that stay for the time being.
  private static let mostStale = 4_096

  /// Bytes that a step may take, and what is kept from step to step.
  package static let memory = 3 * blockBytes

  package init() {}

  /// Whether the index has what a maker keeps: then it is wanted for what is put in later too.
  package static func isKept(_ index: VectorIndex, _ encoder: any PassageEncoder) -> Bool {
    index.view.sideCount(SentenceNote.maker(encoder)) > 0
  }

  /// Reads some passages.
  ///
  /// - Parameters:
  ///   - reserve: told the bytes that are needed beyond `memory`; false where they are not to be had.
  ///   - isUnwanted: asked while the model works.
  /// - Returns: whether there is more to do.
  /// - Throws: what kept these passages from being read; the next step goes on.
  package mutating func step(
    _ index: VectorIndex, _ encoder: any PassageEncoder, reserve: (Int) -> Bool = { _ in true },
    isUnwanted: () -> Bool = { false }
  ) throws(SearchError) -> Bool {
    let maker = SentenceNote.maker(encoder)
    if self.maker != maker || self.index !== index {
      self = SentencePass()
      (self.maker, self.index) = (maker, index)
    }
    let view = index.view
    if documents.isEmpty {
      documents = view.documents.filter { $0.serial > serial }.reversed()
      next = 0
    }
    let before = (serial, documents, next)
    do throws(SearchError) {
      let passages = try gather(view, maker)
      let notes = try SentenceReader(encoder: encoder).notes(passages, isUnwanted: isUnwanted)
      for (passage, note) in zip(passages, notes) { block.append(SentenceNote.key(passage), note.bytes) }
    } catch {
      // Another time they are read; but not those that the model refuses, or nothing behind them ever would be.
      if case .encoder = error {} else { (serial, documents, next) = before }
      throw error
    }
    guard documents.isEmpty || block.byteCount >= Self.blockBytes else { return true }
    try save(index, maker, isUnwanted)
    guard documents.isEmpty else { return true }
    try clean(index, maker, reserve, isUnwanted)
    return false
  }

  /// The passages of the next step, of which nothing is kept yet.
  private mutating func gather(_ view: IndexView, _ maker: RowKey) throws(SearchError) -> [StoredPassage] {
    var (found, bytes, looks): ([StoredPassage], Int, Int) = ([], 0, 0)
    while let document = documents.last, looks < Self.mostLooks {
      let some = try SearchError.index { () throws(IndexError) in
        try view.passages(of: document.key, from: next, count: Self.stepPassages)
      }
      for passage in some {
        guard found.count < Self.stepPassages, bytes < Self.stepBytes else { return found }
        next += 1
        looks += 1
        let key = SentenceNote.key(passage)
        guard !view.hasSide(key, maker), !block.has(key) else { continue }
        found.append(passage)
        bytes += passage.text.count
      }
      guard some.isEmpty else { continue }
      serial = max(serial, document.serial)
      documents.removeLast()
      next = 0
    }
    return found
  }

  private mutating func save(
    _ index: VectorIndex, _ maker: RowKey, _ isUnwanted: () -> Bool
  ) throws(SearchError) {
    let full = block
    block = SideBlock()
    try SearchError.index { () throws(IndexError) in
      try index.addSide(full, maker: maker)
      try index.joinSide(maker: maker, isUnwanted: isUnwanted)
    }
  }

  /// Leaves out entries of passages that are gone where these are many.
  private func clean(
    _ index: VectorIndex, _ maker: RowKey, _ reserve: (Int) -> Bool, _ isUnwanted: () -> Bool
  ) throws(SearchError) {
    let view = index.view
    let (kept, alive) = (view.sideCount(maker), view.passageCount)
    guard kept - alive > Self.mostStale, kept - alive > kept / 4, reserve(64 * alive) else { return }
    var living: Set<RowKey> = []
    for document in view.documents {
      guard !isUnwanted() else { return }
      let passages = try SearchError.index { () throws(IndexError) in try view.passages(of: document.key) }
      for passage in passages { living.insert(SentenceNote.key(passage)) }
    }
    try SearchError.index { () throws(IndexError) in
      try index.cleanSide(maker: maker, isUnwanted: isUnwanted, keeps: living.contains)
    }
  }
}
