// The name of a file and of its folders as words, and as a text that a model can read.

/// What a document's name says of it.
package struct DocumentName: Sendable, Equatable {
  /// Its words: folders and name, without the ending that says what kind of file it is.
  package let words: String
  /// What a model reads of it; nil for a name without a word, such as that of a picture or a number.
  package let meaning: String?

  /// Folders that are read, the last ones.
  private static let folders = 3
  /// Characters that are read, so that a name fits every model.
  private static let longest = 200
  /// Letters of the shortest word that makes a name worth reading.
  private static let shortest = 3

  package init(path: String) {
    var parts = path.split(separator: "/").map(String.init)
    if let name = parts.last {
      let ending = FileReader.ending(of: name)
      if !ending.isEmpty, FileReader.reads(name), name.utf8.count > ending.utf8.count + 1 {
        parts[parts.count - 1] = String(name.dropLast(ending.count + 1))
      }
    }
    words = parts.joined(separator: "/")
    let spoken = parts.suffix(Self.folders + 1).joined(separator: "/")
      .split { "/_-".contains($0) || $0.isWhitespace }.joined(separator: " ")
    let isSpoken = spoken.split(separator: " ").contains { word in
      word.count { $0.isLetter } >= Self.shortest && !word.contains { $0.isNumber }
        || word.unicodeScalars.contains { $0.value >= 0x2E80 }
    }
    meaning = isSpoken ? String(spoken.prefix(Self.longest)) : nil
  }
}
