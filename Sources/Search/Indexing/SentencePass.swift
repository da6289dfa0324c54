// Reads the sentences of an index's passages once, and each of their words, and keeps beside the index what explaining a result
// wants to know of them.

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
  /// What was read of passages and of words.
  private var (notes, words) = (SideBlock(), SideBlock())
  /// Whose notes they are.
  private var maker: RowKey?

  /// Bytes of text and passages that are read at once, and passages that are looked at.
  private static let (stepBytes, stepPassages, mostLooks) = (8 << 10, 32, 1_024)
  /// Bytes of entries that become a file.
  private static let blockBytes = 8 << 20
  /// Words are kept that so many passages have: names and numbers that one has are read when it is a result. And no more than
  /// some for each passage, or a table of numbers would take many times its size.
  private static let (leastPassages, wordsOfPassage, fewWords) = (2, 4, 4_096)
  /// Entries without a passage that stay for the time being.
  private static let mostStale = 4_096

  /// Bytes that a step may take, and what is kept from step to step.
  package static let memory = 3 * blockBytes

  package init() {}

  /// Whether the index has what a maker keeps: then it is wanted for what is put in later too.
  package static func isKept(_ index: VectorIndex, _ encoder: any PassageEncoder) -> Bool {
    let maker = SideKind.sentences.maker(encoder)
    return index.view.sideCount { $0 == maker } > 0
  }

  /// Passages of which something is kept.
  package static func readPassages(_ view: IndexView) -> Int { SideKind.sentences.count(in: view) }

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
    let maker = SideKind.sentences.maker(encoder)
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
      let found = try SentenceReader(encoder: encoder).notes(passages, isUnwanted: isUnwanted)
      try readWords(of: passages, view, encoder, isUnwanted)
      for (passage, note) in zip(passages, found) { notes.append(SentenceNote.key(passage), note.bytes) }
    } catch {
      // Another time they are read; but not those that the model refuses, or nothing behind them ever would be.
      if case .encoder = error {} else { (serial, documents, next) = before }
      throw error
    }
    guard documents.isEmpty || notes.byteCount + words.byteCount >= Self.blockBytes else { return true }
    try save(index, encoder, isUnwanted)
    guard documents.isEmpty else { return true }
    try clean(index, encoder, reserve, isUnwanted)
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
        guard !view.hasSide(key, maker), !notes.has(key) else { continue }
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

  /// Reads the words of some passages, each alone, of which nothing is kept yet.
  private mutating func readWords(
    of passages: [StoredPassage], _ view: IndexView, _ encoder: any PassageEncoder, _ isUnwanted: () -> Bool
  ) throws(SearchError) {
    guard !passages.isEmpty else { return }
    let maker = SideKind.words.maker(encoder)
    // A view remembers its size.
    let size = try SearchError.index { () throws(IndexError) in try view.wordCount() }
    let kept = view.sideCount { $0 == maker } + words.count
    var room = Self.fewWords + Self.wordsOfPassage * size.passages - kept
    var unread: [(key: RowKey, spelling: [UInt8])] = []
    var seen: Set<RowKey> = []
    func add(_ spelling: [UInt8], _ term: [UInt8]?) throws(SearchError) {
      let key = WordReader.key(spelling)
      guard room > 0, seen.insert(key).inserted, !words.has(key), !view.hasSide(key, maker) else { return }
      if let term {
        let isFrequent = try SearchError.index { () throws(IndexError) in
          try view.has(term, inPassages: Self.leastPassages)
        }
        guard isFrequent else { return }
      }
      unread.append((key, spelling))
      room -= 1
    }
    for word in WordReader.common { try add(word, nil) }
    for passage in passages {
      for word in WordSplitter.words(in: passage.text) where word.isWhole {
        try add(Array(passage.text[word.range]), word.term)
      }
    }
    let vectors = try WordReader(encoder: encoder).read(unread.map(\.spelling), isUnwanted: isUnwanted)
    for (word, vector) in zip(unread, vectors) { words.append(word.key, WordReader.bytes(vector)) }
  }

  private mutating func save(
    _ index: VectorIndex, _ encoder: any PassageEncoder, _ isUnwanted: () -> Bool
  ) throws(SearchError) {
    let full = [(SideKind.words, words), (SideKind.sentences, notes)]
    (notes, words) = (SideBlock(), SideBlock())
    try SearchError.index { () throws(IndexError) in
      for (kind, block) in full { try index.addSide(block, maker: kind.maker(encoder)) }
      try index.joinSide(makers: SideKind.allCases.map { $0.maker(encoder) }, isUnwanted: isUnwanted)
    }
  }

  /// Leaves out entries of passages that are gone where these are many, and then those of words that no passage has.
  private func clean(
    _ index: VectorIndex, _ encoder: any PassageEncoder, _ reserve: (Int) -> Bool, _ isUnwanted: () -> Bool
  ) throws(SearchError) {
    let view = index.view
    let maker = SideKind.sentences.maker(encoder)
    let (kept, alive) = (view.sideCount { $0 == maker }, view.passageCount)
    let keys = alive + view.mostTerms
    guard kept - alive > Self.mostStale, kept - alive > kept / 4, reserve(64 * keys) else { return }
    var living: (passages: Set<RowKey>, words: Set<RowKey>) = ([], Set(WordReader.common.map(WordReader.key)))
    for document in view.documents {
      guard !isUnwanted() else { return }
      let passages = try SearchError.index { () throws(IndexError) in try view.passages(of: document.key) }
      for passage in passages {
        living.passages.insert(SentenceNote.key(passage))
        for word in WordSplitter.words(in: passage.text) where word.isWhole {
          living.words.insert(WordReader.key(Array(passage.text[word.range])))
        }
      }
    }
    try SearchError.index { () throws(IndexError) in
      for (kind, living) in [(SideKind.sentences, living.passages), (.words, living.words)] {
        try index.cleanSide(maker: kind.maker(encoder), isUnwanted: isUnwanted, keeps: living.contains)
      }
    }
  }
}
