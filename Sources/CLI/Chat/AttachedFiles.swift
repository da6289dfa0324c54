// Files that a message names: images and clips for models that take them, and texts, which become part of the message.

import Media
import Pipeline
import Platform

/// A message with what its paths stand for.
struct AttachedFiles {
  private(set) var text = ""
  private(set) var media: [MediaPassage] = []
  /// Folders of notes that are asked, resolved, each once.
  private(set) var notes: [String] = []
  /// What was attached, as a person is told.
  private(set) var told: [String] = []
  /// Words with an `@` that name no file.
  private var unknown: [String] = []

  static let mediaLimit = 64 << 20
  private static let textLimit = 1 << 20
  private static let imageNames = [
    ".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".heic", ".avif",
  ]

  struct Problem: Error, CustomStringConvertible {
    let description: String
  }

  /// In what was typed `@path` names a file of any kind, and `@notes:path` a folder whose notes are asked; the path of an
  /// image or a WAV file needs no mark. A path with spaces is in quotes, or has backslashes before them, as terminals write
  /// a file that is dropped on them. A word that names no file stays as it is, and so does all that was not typed.
  ///
  /// - Throws: for a file that is there and cannot be taken.
  init(_ message: TypedText, rules: MediaRules, model: String) throws {
    for part in message.parts {
      guard part.isTyped else {
        text += part.text
        continue
      }
      var rest = part.text[...]
      while let word = Self.nextWord(&rest) {
        if let folder = Self.notesFolder(word) {
          if !notes.contains(folder) { notes.append(folder) }
          continue
        }
        guard let (place, kind, tail) = Self.file(word) else {
          text += word.source
          if word.isMarked, word.source.contains(where: { $0.isLetter || $0.isNumber }) {
            unknown.append(Terminal.safe(String(Self.withoutEnd(word.source))))
          }
          continue
        }
        try attach(place, kind, rules, model)
        text += tail
      }
    }
    guard notes.isEmpty || media.isEmpty else {
      throw Problem(description: "notes are asked in words: leave the image or clip out of the question")
    }
    // A message of images alone still asks something.
    if text.allSatisfy(\.isWhitespace), !media.isEmpty { text = "Describe this." }
  }

  /// What a person is told of words that look like files and are none.
  var unknownWords: String? {
    guard let first = unknown.first else { return nil }
    guard unknown.count > 1 else { return "\(first) is not a file here, so it stays text" }
    let shown = unknown.prefix(3).joined(separator: ", ") + (unknown.count > 3 ? " and others" : "")
    return "\(shown) are not files here, so they stay text"
  }

  /// Whether a text is nothing but paths of images or clips that are there, as a terminal writes files that are dropped on it.
  static func areDropped(_ text: String) -> Bool {
    var rest = text[...]
    var hasFile = false
    while let word = nextWord(&rest) {
      if word.source.allSatisfy(\.isWhitespace), !word.source.contains(where: \.isNewline) { continue }
      guard !word.isMarked, file(word) != nil else { return false }
      hasFile = true
    }
    return hasFile
  }

  private static let notesMark = "notes:"

  /// The folder of `@notes:folder`, resolved; nil where the word is none.
  private static func notesFolder(_ word: Word) -> String? {
    guard word.isMarked, let path = word.path, path.hasPrefix(notesMark) else { return nil }
    let folder = File.resolved(expanded(String(path.dropFirst(notesMark.count))))
    return folder.flatMap { File.isDirectory($0) ? $0 : nil }
  }

  /// The file that a word names, and what of the word stands behind its name; nil when it names none.
  private static func file(_ word: Word) -> (place: String, kind: Kind, tail: String)? {
    guard let path = word.path else { return nil }
    let short = String(withoutEnd(path))
    for (name, tail) in [(path, ""), (short, String(path.dropFirst(short.count)))] {
      let place = expanded(name)
      guard !name.isEmpty, let kind = kind(of: name, isMarked: word.isMarked), File.exists(place),
        !File.isDirectory(place)
      else { continue }
      return (place, kind, tail)
    }
    return nil
  }

  /// Without what a sentence has behind a name.
  private static func withoutEnd(_ word: String) -> Substring {
    word.dropLast(word.reversed().prefix { ".,;:!?)".contains($0) }.count)
  }

  private enum Kind { case image, audio, text }

  private static func kind(of path: String, isMarked: Bool) -> Kind? {
    let lower = path.lowercased()
    if imageNames.contains(where: lower.hasSuffix) { return .image }
    if lower.hasSuffix(".wav") { return .audio }
    return isMarked ? .text : nil
  }

  private static func expanded(_ path: String) -> String {
    guard path.hasPrefix("~/"), let home = Environment.value("HOME") else { return path }
    return home + path.dropFirst()
  }

  private mutating func attach(_ path: String, _ kind: Kind, _ rules: MediaRules, _ model: String) throws {
    let name = File.name(of: path)
    do {
      switch kind {
      case .image:
        guard let images = rules.images else { throw Problem(description: "\(model) takes no images") }
        media.append(
          try images.passage(try PictureFile.decodable(try File.read(path, limit: Self.mediaLimit))))
      case .audio:
        guard let audio = rules.audio else { throw Problem(description: "\(model) takes no sound") }
        media.append(try audio.passage(try File.read(path, limit: Self.mediaLimit)))
      case .text:
        let bytes = try File.read(path, limit: Self.textLimit)
        guard let content = String(validating: bytes, as: UTF8.self) else {
          throw Problem(description: "it is not UTF-8 text")
        }
        text += "\n\n```\(name)\n\(content)\n```\n\n"
      }
    } catch {
      throw Problem(description: "\(Terminal.safe(path)): \(error)")
    }
    told.append("added \(Terminal.safe(name))")
  }

  // MARK: Words

  private struct Word {
    /// As it was typed.
    var source: String
    /// Without quotes and backslashes; nil for what is no path.
    var path: String?
    var isMarked = false
  }

  /// A word, or the white space before the next one.
  private static func nextWord(_ rest: inout Substring) -> Word? {
    guard let first = rest.first else { return nil }
    if first.isWhitespace {
      let space = rest.prefix(while: \.isWhitespace)
      rest = rest.dropFirst(space.count)
      return Word(source: String(space))
    }
    let start = rest
    var isMarked = false
    if first == "@" {
      isMarked = true
      rest = rest.dropFirst()
    }
    var path = ""
    var quote: Character?
    if let mark = rest.first, mark == "'" || mark == "\"" {
      quote = mark
      rest = rest.dropFirst()
    }
    while let character = rest.first {
      if character == quote {
        rest = rest.dropFirst()
        break
      }
      if quote == nil, character.isWhitespace { break }
      rest = rest.dropFirst()
      if character == "\\", quote == nil, let next = rest.first {
        path.append(next)
        rest = rest.dropFirst()
      } else {
        path.append(character)
      }
    }
    let source = String(start[..<rest.startIndex])
    let isPath = isMarked ? !path.isEmpty : path.contains("/") || quote != nil
    return Word(source: source, path: isPath ? path : nil, isMarked: isMarked && !path.isEmpty)
  }
}
