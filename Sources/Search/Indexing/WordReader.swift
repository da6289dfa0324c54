// Words that the model reads alone: their vectors, and what is kept of them beside an index.

import Vectors

/// What is kept beside an index, each in files of its own.
enum SideKind: UInt64, CaseIterable {
  case sentences = 1
  case words = 2

  /// Counts the forms of what is kept, and the rules by which sentences and words are found.
  private static let version = 3

  /// Names the kind, and everything that the entries of an encoder depend on.
  func maker(_ encoder: any PassageEncoder) -> RowKey {
    let own = RowKey(of: Array("\(Self.version)\u{0}\(encoder.computation)\u{0}\(encoder.room)".utf8))
    return RowKey(high: own.high, low: rawValue)
  }

  /// Entries of the kind, whoever made them.
  func count(in view: IndexView) -> Int { view.sideCount { $0.low == rawValue } }
}

/// Reads words, each once for all the texts that have it. Vectors are rounded to bytes, whether they are kept or have just been
/// read: so they have the same bits.
struct WordReader {
  let encoder: any PassageEncoder

  /// Words that all texts have in common.
  static let common = WordSplitter.stopWords.map { Array($0.utf8) }

  /// Names a word by its spelling.
  static func key(_ spelling: [UInt8]) -> RowKey { RowKey(of: spelling) }

  func read(_ spellings: [[UInt8]], isUnwanted: () -> Bool) throws(SearchError) -> [CodedVector] {
    try encoder.passages(spellings.map { String(decoding: $0, as: UTF8.self) }, isUnwanted: isUnwanted)
      .map { CodedVector(directionOf: $0) }
  }

  /// What is kept of a word.
  static func bytes(_ vector: CodedVector) -> [UInt8] {
    var writer = ByteWriter()
    vector.write(to: &writer)
    return writer.bytes
  }

  /// Nil for bytes that are no vector of that size.
  static func vector(_ bytes: [UInt8], dimensions: Int) -> CodedVector? {
    ByteReader.reading(bytes) { reader in
      let vector = CodedVector(&reader, dimensions: dimensions)
      return reader.left == 0 ? vector : nil
    }
  }
}
