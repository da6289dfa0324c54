// The text that is being typed, its cursor, and how both look on a terminal of some width.

/// A text of one or more lines under edit.
struct EditedText: Equatable {
  private(set) var characters: [Character] = []
  /// Whether each of them was typed, and not pasted.
  private var isTyped: [Bool] = []
  /// Characters before the cursor.
  private(set) var cursor = 0
  /// What was deleted last in one go.
  private var killed = TypedText()

  init(_ text: TypedText = TypedText()) {
    for part in text.parts { insert(part.text, isTyped: part.isTyped) }
  }

  var text: String { String(characters) }

  /// The text, with what of it was typed.
  var typed: TypedText { TypedText(characters, isTyped: isTyped) }

  /// Applies a key.
  ///
  /// - Returns: false for a key that edits nothing.
  mutating func apply(_ key: Key) -> Bool {
    switch key {
    case .text(let text): insert(text, isTyped: true)
    case .paste(let text): insert(text, isTyped: false)
    case .newLine: insert("\n", isTyped: true)
    case .backspace: delete(from: max(0, cursor - 1), to: cursor)
    case .delete: delete(from: cursor, to: min(characters.count, cursor + 1))
    case .left: cursor = max(0, cursor - 1)
    case .right: cursor = min(characters.count, cursor + 1)
    case .wordLeft: cursor = wordStart
    case .wordRight: cursor = wordEnd
    case .home: cursor = lineStart
    case .end: cursor = lineEnd
    case .deleteWord: kill(from: wordStart, to: cursor)
    case .deleteToStart: kill(from: lineStart, to: cursor)
    case .deleteToEnd: kill(from: cursor, to: lineEnd)
    case .yank: for part in killed.parts { insert(part.text, isTyped: part.isTyped) }
    case .up where hasLineAbove: moveLine(by: -1)
    case .down where hasLineBelow: moveLine(by: 1)
    default: return false
    }
    return true
  }

  /// What is typed may combine with what stands before it.
  private mutating func insert(_ text: String, isTyped isNewTyped: Bool) {
    let before = Array(String(characters[..<cursor]) + text)
    let (rest, restTyped) = (String(characters[cursor...]), isTyped[cursor...])
    characters = Array(String(before) + rest)
    isTyped =
      isTyped[..<cursor] + Array(repeating: isNewTyped, count: max(0, before.count - cursor)) + restTyped
    // Where the new combines with what follows, there are fewer.
    isTyped = Array(isTyped.prefix(characters.count))
    cursor = min(characters.count, before.count)
  }

  private mutating func delete(from start: Int, to end: Int) {
    characters.removeSubrange(start..<end)
    isTyped.removeSubrange(start..<end)
    cursor = start
  }

  private mutating func kill(from start: Int, to end: Int) {
    if start < end {
      killed = TypedText(Array(characters[start..<end]), isTyped: Array(isTyped[start..<end]))
    }
    delete(from: start, to: end)
  }

  // MARK: Places

  private static func isWord(_ character: Character) -> Bool { character.isLetter || character.isNumber }

  private var wordStart: Int {
    var place = cursor
    while place > 0, !Self.isWord(characters[place - 1]) { place -= 1 }
    while place > 0, Self.isWord(characters[place - 1]) { place -= 1 }
    return place
  }

  private var wordEnd: Int {
    var place = cursor
    while place < characters.count, !Self.isWord(characters[place]) { place += 1 }
    while place < characters.count, Self.isWord(characters[place]) { place += 1 }
    return place
  }

  private var lineStart: Int { characters[..<cursor].lastIndex(of: "\n").map { $0 + 1 } ?? 0 }
  private var lineEnd: Int { characters[cursor...].firstIndex(of: "\n") ?? characters.count }
  private var hasLineAbove: Bool { lineStart > 0 }
  private var hasLineBelow: Bool { lineEnd < characters.count }

  private mutating func moveLine(by lines: Int) {
    let column = cursor - lineStart
    cursor = lines < 0 ? lineStart - 1 : lineEnd + 1
    cursor = min(lineStart + column, lineEnd)
  }

  // MARK: On the screen

  /// Rows of a terminal, and where on them the cursor is.
  struct Picture: Equatable {
    var rows: [String]
    var row: Int
    var column: Int

    /// Rows above the cursor once the terminal has this many columns: it breaks what is longer.
    func rowsAbove(columns: Int) -> Int {
      rows.prefix(row).reduce(column / max(1, columns)) { count, row in
        count + max(1, (TextWidth.of(row) + columns - 1) / max(1, columns))
      }
    }
  }

  /// - Parameters:
  ///   - prompt: before the first line; as wide as it is, other lines are indented.
  ///   - columns: of the terminal.
  func picture(prompt: String, columns: Int) -> Picture {
    let columns = max(4, columns)
    let indent = min(TextWidth.of(prompt), columns / 2)
    var picture = Picture(rows: [prompt], row: 0, column: TextWidth.of(prompt))
    var column = picture.column
    func newRow(_ start: String) {
      picture.rows.append(start)
      column = TextWidth.of(start)
    }
    for index in 0...characters.count {
      if column > indent, !isBreak(index), index == 0 || isBreak(index - 1) {
        // A word that the row below has room for is not broken.
        let width = wordWidth(index, limit: columns)
        if column + width > columns, width <= columns { newRow("") }
      }
      if index == cursor {
        // A cursor after the last column is at the start of the next row.
        if column >= columns { newRow("") }
        picture.row = picture.rows.count - 1
        picture.column = column
      }
      guard index < characters.count else { break }
      let character = characters[index]
      if character == "\n" || character == "\r\n" {
        newRow(String(repeating: " ", count: indent))
        continue
      }
      let shown = Self.shown(character)
      let width = TextWidth.of(shown)
      // The space between two rows is on neither.
      if character == " ", column == columns { continue }
      if column + width > columns { newRow("") }
      picture.rows[picture.rows.count - 1] += shown
      column += width
    }
    return picture
  }

  /// Whether a row may end behind or before this character.
  private func isBreak(_ index: Int) -> Bool {
    guard characters.indices.contains(index) else { return true }
    return characters[index].isWhitespace || TextWidth.of(characters[index]) > 1
  }

  /// Columns of the word that begins here; more than `limit` is not counted.
  private func wordWidth(_ start: Int, limit: Int) -> Int {
    var (index, width) = (start, 0)
    while !isBreak(index), width <= limit {
      width += TextWidth.of(characters[index])
      index += 1
    }
    return width
  }

  /// What a terminal would obey is shown instead.
  private static func shown(_ character: Character) -> String {
    if character == "\t" { return "    " }
    guard let scalar = character.unicodeScalars.first,
      scalar.value < 0x20 || (0x7F...0x9F).contains(scalar.value)
    else { return String(character) }
    return "\u{FFFD}"
  }
}
