// Files that a message names: images and clips for models that take them, and texts, which become part of the message.

import Media
import Pipeline
import Platform

/// A message with what its paths stand for.
struct AttachedFiles {
  private(set) var text = ""
  private(set) var media: [MediaInput] = []
  /// What was attached, as a person is told.
  private(set) var notes: [String] = []

  private static let mediaLimit = 64 << 20
  private static let textLimit = 1 << 20
  private static let imageNames = [".png", ".jpg", ".jpeg"]

  struct Problem: Error, CustomStringConvertible {
    let description: String
  }

  /// The result of a tool, which names no files.
  init(result: String) { text = result }

  /// `@path` names a file of any kind; the path of an image or a WAV file needs no mark. A path with spaces is in
  /// quotes, or has backslashes before them, as terminals write a file that is dropped on them.
  ///
  /// - Throws: for a file that is named with `@` and cannot be taken.
  init(_ message: String, rules: MediaRules, model: String) throws {
    var rest = message[...]
    while let word = Self.nextWord(&rest) {
      guard let path = word.path, let kind = Self.kind(of: path, isMarked: word.isMarked) else {
        text += word.source
        continue
      }
      let place = Self.expanded(path)
      guard word.isMarked || File.exists(place) else {
        text += word.source
        continue
      }
      try attach(place, kind, rules, model)
    }
    // A message of images alone still asks something.
    if text.allSatisfy(\.isWhitespace), !media.isEmpty { text = "Describe this." }
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
    let name = path.split(separator: "/").last.map(String.init) ?? path
    do {
      switch kind {
      case .image:
        guard let images = rules.images else { throw Problem(description: "\(model) takes no images") }
        media.append(try images.input(try File.read(path, limit: Self.mediaLimit)))
      case .audio:
        guard let audio = rules.audio else { throw Problem(description: "\(model) takes no sound") }
        media.append(try audio.input(try File.read(path, limit: Self.mediaLimit)))
      case .text:
        let bytes = try File.read(path, limit: Self.textLimit)
        guard let content = String(validating: bytes, as: UTF8.self) else {
          throw Problem(description: "it is no text in UTF-8")
        }
        text += "\n\n```\(name)\n\(content)\n```\n\n"
      }
    } catch {
      throw Problem(description: "\(Terminal.safe(path)): \(error)")
    }
    notes.append("added \(Terminal.safe(name))")
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
