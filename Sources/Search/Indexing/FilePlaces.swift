// Where in its file a passage stands, as somebody looks for it who opens the file.

import Platform
package import Vectors

/// A place in a file.
package enum FilePlace: Sendable, Equatable {
  /// From 1.
  case line(Int)
  /// Of a PDF, from 1.
  case page(Int)
}

/// Finds the places of passages of a folder's files. Of a file whose text was made out of it, such as a table, only the file
/// itself knows: it is read again.
package struct FilePlaces {
  private let folder: String
  private let view: IndexView
  private let fileBytes: Int
  private var read: [String: (source: SourceText, lines: LineMap?)] = [:]

  package init(_ folder: String, view: IndexView, rules: FolderIndex.Rules = FolderIndex.Rules()) {
    (self.folder, self.view) = (folder, view)
    fileBytes = rules.fileBytes
  }

  /// The place of a byte of a passage; nil where the file has changed since it was indexed, or is gone.
  ///
  /// - Parameter name: of the file, where the index calls it otherwise.
  package mutating func place(
    of passage: StoredPassage, at offset: Int, named name: String? = nil
  ) -> FilePlace? {
    let name = name ?? passage.document.key
    if FileReader.ending(of: name) == "pdf" {
      return .page(1 + count(of: 0x0C, before: offset, of: passage))
    }
    guard FileReader.isMadeText(name) else {
      return .line(1 + count(of: UInt8(ascii: "\n"), before: offset, of: passage))
    }
    guard let file = file(name) else { return nil }
    let text = file.source.text
    guard passage.range.upperBound <= text.count, text[passage.range].elementsEqual(passage.text) else {
      return nil
    }
    let place = passage.range.lowerBound + offset
    return .line(file.lines?.line(at: place) ?? 1 + text[..<place].count { $0 == UInt8(ascii: "\n") })
  }

  private mutating func file(_ name: String) -> (source: SourceText, lines: LineMap?)? {
    if let known = read[name] { return known }
    let parts = name.split(separator: "/").map(String.init)
    guard let bytes = try? File.read(parts, below: folder, limit: fileBytes),
      let found = try? FileReader.readWithLines(bytes, name: name)
    else { return nil }
    read[name] = found
    return found
  }

  /// How often a byte is in the document before a place of a passage.
  private func count(of byte: UInt8, before offset: Int, of passage: StoredPassage) -> Int {
    guard let passages = try? view.passages(of: passage.document.key) else { return 0 }
    var (found, end) = (0, 0)
    for other in passages where other.number < passage.number {
      let known = max(0, end - other.range.lowerBound)
      found += other.text.dropFirst(known).count { $0 == byte }
      end = max(end, other.range.upperBound)
    }
    let known = max(0, end - passage.range.lowerBound)
    if offset > known { found += passage.text[known..<offset].count { $0 == byte } }
    return found
  }
}
