// Filling in the middle: the marks that a vocabulary has for it, and the prompts that are made with them.
//
// A model that was trained for it goes on between a text before and a text after. Families spell the marks in their
// own ways and put the two texts in one of two orders. The marks are found in the vocabulary, not by the model's name.

import Chat
package import Tokenizers

/// Makes prompts for filling in the middle with one vocabulary.
package struct FillInMiddle: Sendable {
  /// Another text that the model may look at, such as a piece of an open file.
  package struct Extra: Sendable, Equatable {
    package var name: String
    package var text: String

    package init(name: String, text: String) {
      (self.name, self.text) = (name, text)
    }
  }

  /// A prompt, and whether it holds less than was given.
  package struct Result: Sendable, Equatable {
    package var tokens: [Int32]
    package var isTruncated: Bool
  }

  /// How one family spells its marks; the first spelling that the vocabulary has counts.
  private struct Family {
    let prefix: String
    let suffix: String
    /// Nil where the answer follows the text before.
    let middle: String?
    /// Before the name of a repository, and before that of a file.
    var repository: [String] = []
    var file: [String] = []
    /// Others that end an answer.
    var ends: [String] = []
    /// A part of a model's name without which the marks mean nothing: they are in the vocabularies of models, too, that
    /// have never learned them.
    var trainedName: String?
  }

  private static let families: [Family] = [
    Family(
      prefix: "<|fim_prefix|>", suffix: "<|fim_suffix|>", middle: "<|fim_middle|>",
      repository: ["<|repo_name|>"], file: ["<|file_sep|>", "<|file_separator|>"],
      ends: ["<|fim_pad|>", "<|im_end|>", "<|endoftext|>"], trainedName: "code"),
    Family(
      prefix: "<fim_prefix>", suffix: "<fim_suffix>", middle: "<fim_middle>",
      repository: ["<repo_name>", "<reponame>"], file: ["<file_sep>", "<filename>"], ends: ["<fim_pad>"]),
    Family(
      prefix: "<fim-prefix>", suffix: "<fim-suffix>", middle: "<fim-middle>", ends: ["<fim-pad>"]),
    Family(
      prefix: "<｜fim▁begin｜>", suffix: "<｜fim▁hole｜>", middle: "<｜fim▁end｜>",
      ends: ["<｜end▁of▁sentence｜>"]),
    Family(prefix: "▁<PRE>", suffix: "▁<SUF>", middle: "▁<MID>", ends: ["▁<EOT>"]),
    Family(prefix: "<PRE>", suffix: "<SUF>", middle: "<MID>", ends: ["<EOT>"]),
    Family(prefix: "<|code_prefix|>", suffix: "<|code_suffix|>", middle: "<|code_middle|>"),
    Family(prefix: "[PREFIX]", suffix: "[SUFFIX]", middle: nil, trainedName: "codestral"),
  ]

  private let prefix: Int32
  private let suffix: Int32
  private let middle: Int32?
  private let repository: Int32?
  private let file: Int32?
  /// What the tokenizer puts before every text.
  private let opening: [Int32]
  /// Tokens that end an answer, beside those of the model.
  package let ends: Set<Int32>
  private let trainedName: String?
  private let encoder: PromptEncoder

  /// - Parameter names: how the tokenizer's settings spell the marks, where they are those of no family.
  /// - Returns: nil where the vocabulary has no such marks.
  package init?(_ tokenizer: Tokenizer, names: (prefix: String, suffix: String, middle: String)? = nil) {
    func mark(_ name: String) -> Int32? {
      tokenizer.id(of: name).flatMap { tokenizer.isAdded($0) ? $0 : nil }
    }
    let told = names.map { [Family(prefix: $0.prefix, suffix: $0.suffix, middle: $0.middle)] } ?? []
    let found = (Self.families + told).first { family in
      mark(family.prefix) != nil && mark(family.suffix) != nil
        && family.middle.map { mark($0) != nil } ?? true
    }
    guard let found, let prefix = mark(found.prefix), let suffix = mark(found.suffix) else { return nil }
    (self.prefix, self.suffix) = (prefix, suffix)
    middle = found.middle.flatMap(mark)
    repository = found.repository.lazy.compactMap(mark).first
    file = found.file.lazy.compactMap(mark).first
    opening = tokenizer.textFrame.before
    trainedName = found.trainedName
    let marks = [prefix, suffix] + [middle, repository, file].compactMap { $0 }
    ends = Set(marks + found.ends.compactMap(mark))
    encoder = PromptEncoder(tokenizer: tokenizer, mediaTokens: Array(ends))
  }

  /// Whether a model of this name is likely to have learned what the marks mean.
  package func isTrained(name: String) -> Bool {
    trainedName.map { name.lowercased().contains($0) } ?? true
  }

  // MARK: Prompts

  /// The prompt that the model goes on with: other texts, then what stands before and after the place to fill.
  ///
  /// Texts are texts, whatever marks they spell. What does not fit loses the beginning of the text before, the end of
  /// the text after, and the first of the extras. What is cut, is cut in large steps: prompts of a user who types
  /// begin alike, so that most of each has been computed before.
  ///
  /// - Parameter room: most tokens of the prompt.
  package func prompt(prefix: String, suffix: String, extras: [Extra] = [], room: Int) -> Result {
    let before = encoder.tokens(ofForeign: prefix)
    let after = encoder.tokens(ofForeign: suffix)
    let marks = opening.count + (middle == nil ? 2 : 3)
    let room = max(0, room - marks)
    let step = max(1, room / 8)
    let afterCount = min(after.count, max(room / 4, room - before.count))
    let gone = Self.rounded(max(0, before.count + afterCount - room), to: step)
    let own = before.dropFirst(gone)
    let (others, isWhole) = context(
      extras, room: room - min(room, Self.rounded(own.count + afterCount, to: step)))
    var tokens = others + opening
    if middle == nil {
      tokens += [self.suffix] + after.prefix(afterCount) + [self.prefix] + own
    } else {
      tokens += [self.prefix] + own + [self.suffix] + after.prefix(afterCount)
    }
    if let middle { tokens.append(middle) }
    return Result(tokens: tokens, isTruncated: gone > 0 || afterCount < after.count || !isWhole)
  }

  private static func rounded(_ count: Int, to step: Int) -> Int { (count + step - 1) / step * step }

  /// The other texts, the last of which is the nearest, as far as there is room.
  private func context(_ extras: [Extra], room: Int) -> (tokens: [Int32], isWhole: Bool) {
    guard !extras.isEmpty else { return ([], true) }
    func named(_ mark: Int32, _ name: String) -> [Int32] { [mark] + encoder.tokens(ofForeign: name + "\n") }
    let head = repository.map { named($0, "myproject") } ?? []
    let tail = file.map { named($0, "filename") } ?? []
    var parts: [[Int32]] = []
    var left = room - head.count - tail.count
    for extra in extras.reversed() {
      let title = file.map { named($0, extra.name) } ?? encoder.tokens(ofForeign: "\n\n--- snippet ---\n\n")
      let part = title + encoder.tokens(ofForeign: extra.text)
      guard part.count <= left else { return (joined(head, parts, tail), false) }
      left -= part.count
      parts.append(part)
    }
    return (joined(head, parts, tail), true)
  }

  private func joined(_ head: [Int32], _ parts: [[Int32]], _ tail: [Int32]) -> [Int32] {
    parts.isEmpty ? [] : head + parts.reversed().flatMap { $0 } + tail
  }
}
