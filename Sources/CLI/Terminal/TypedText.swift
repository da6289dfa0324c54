// A text, and which parts of it a person typed: what was pasted or came through a pipe is data.

import JSON

/// Typed and other parts in turns; words belong whole to one.
struct TypedText: Equatable {
  struct Part: Equatable {
    var text: String
    var isTyped: Bool
  }

  private(set) var parts: [Part] = []

  init() {}

  init(typed text: String) { add(text, isTyped: true) }

  init(data text: String) { add(text, isTyped: false) }

  /// A word is typed when its first character was, so that a path can be pasted behind an `@`.
  ///
  /// - Parameter isTyped: for each character.
  init(_ characters: [Character], isTyped: [Bool]) {
    var (run, isRunTyped, isInWord) = ("", true, false)
    for (index, character) in characters.enumerated() {
      // White space behind a backslash is within a word.
      let isSpace = character.isWhitespace && (index == 0 || characters[index - 1] != "\\")
      if !isSpace, !isInWord, index < isTyped.count, isTyped[index] != isRunTyped {
        add(run, isTyped: isRunTyped)
        run = ""
        isRunTyped = isTyped[index]
      }
      run.append(character)
      isInWord = !isSpace
    }
    add(run, isTyped: isRunTyped)
  }

  var text: String { parts.map(\.text).joined() }

  mutating func add(_ text: String, isTyped: Bool) {
    guard !text.isEmpty else { return }
    if parts.last?.isTyped == isTyped {
      parts[parts.count - 1].text += text
    } else {
      parts.append(Part(text: text, isTyped: isTyped))
    }
  }

  /// Without the first character.
  func dropFirst() -> TypedText {
    var rest = self
    if !rest.parts.isEmpty { rest.parts[0].text.removeFirst() }
    return rest
  }

  // MARK: In a file

  /// A string where all was typed; else an array, of which every second string is data.
  var json: JSONValue {
    if parts.allSatisfy(\.isTyped) { return .string(text) }
    let texts = (parts.first?.isTyped == false ? [""] : []) + parts.map(\.text)
    return .array(texts.map(JSONValue.string))
  }

  /// Nil for what `json` does not write.
  init?(_ json: JSONValue) {
    guard let values = json.arrayValue ?? json.stringValue.map({ [.string($0)] }) else { return nil }
    for (index, value) in values.enumerated() {
      guard let text = value.stringValue else { return nil }
      add(text, isTyped: index % 2 == 0)
    }
  }
}
