// Files that are indexed.

import Driver

@testable import Search
@testable import Vectors

@_cdecl("fuzz_notes_main")
public func main(_ count: CInt, _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?) -> CInt {
  Fuzz.run(count, arguments, ["notes": NoteTargets.notes])
}

enum NoteTargets {
  private static let names = ["a.md", "a.html", "a.json", "a.csv", "a.swift", "a.jsonl"]

  /// The first byte chooses the kind of file, or what is kept of a passage's sentences.
  static func notes(_ bytes: [UInt8]) {
    if bytes.first == 255 { return kept(Array(bytes.dropFirst())) }
    let name = names[Int(bytes.first ?? 0) % names.count]
    guard let source = try? FileReader.read(Array(bytes.dropFirst()), name: name) else { return }
    check(source.text.count <= FileReader.limit, "a text keeps its bound")
    let splitter = Splitter(SplitRules(tokens: 16, overlap: 4), windowTokens: 12) { text in
      text.utf8.count / 4
    }
    var covered = 0
    // Nothing is refused: nothing is claimed.
    try? splitter.forEachPassage(of: source) { passage in
      check(passage.range.lowerBound <= covered, "passages leave nothing out")
      check(!passage.windows.isEmpty, "a passage has a text for the model")
      covered = max(covered, passage.range.upperBound)
    }
    check(covered == source.text.count, "passages reach the end")
    for word in WordSplitter.words(in: source.text) {
      check(word.range.upperBound <= source.text.count, "a word lies in its text")
    }
    _ = Sentences.ends(source.text, 0..<source.text.count)
    for word in WordRuns(source.text, in: [0..<source.text.count]).runs.joined() {
      check(word.range.upperBound <= source.text.count, "a word of a phrase lies in its text")
    }
  }

  private static func kept(_ bytes: [UInt8]) {
    if let word = WordReader.vector(bytes, dimensions: 4) {
      check(WordReader.bytes(word) == bytes, "a word is written as it was")
      check(word.vector.allSatisfy { abs($0) <= 128 }, "a component is finite")
    }
    let textBytes = 100
    guard let note = SentenceNote(bytes, dimensions: 4, textBytes: textBytes) else { return }
    check(
      SentenceNote(note.bytes, dimensions: 4, textBytes: textBytes)?.bytes == note.bytes,
      "what was read is written as it was")
    for part in note.parts {
      check(part.range.upperBound <= textBytes, "a part lies in its text")
      for sentence in part.sentences {
        check(sentence.range.upperBound <= textBytes, "a sentence lies in its text")
        check(sentence.vector.vector.allSatisfy { abs($0) <= 128 }, "a component is finite")
      }
    }
  }
}
