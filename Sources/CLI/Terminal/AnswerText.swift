// The text of an answer on a terminal while it comes: words wrapped, and the marks of Markdown as styles.

/// Takes text in pieces and gives back what to write. A word is written when it has ended.
struct AnswerText {
  /// How it is shown.
  struct Style: Equatable {
    /// Of the terminal; nil does not wrap.
    var columns: Int?
    /// Whether marks become styles.
    var isMarkdown = true
  }

  private enum Emphasis { case bold, italic, code, heading, quote }

  /// May change between two pieces, as a window does.
  var style: Style
  private var word = ""
  private var column = 0
  /// What each further row of this line begins with.
  private var indent = ""
  /// The line as it came so far, without its unfinished word.
  private var lineStart = ""
  private var isAtLineStart = true
  /// Of the code between two fences; nil outside of them.
  private var code: CodeColours?
  private var isFenced: Bool { code != nil }
  /// Lines that are shown as they are: code and tables.
  private var isRaw = false
  private var emphases: [Emphasis] = []
  private var spaces = ""
  /// Whether the next space is a part of a mark.
  private var dropsSpace = false
  /// The character before an unfinished word that no space parts from it.
  private var previous: Character?

  init(_ style: Style) { self.style = style }

  /// What is to be written now.
  mutating func feed(_ text: String) -> String {
    // As it is, to the last space.
    guard style.columns != nil || style.isMarkdown else { return text }
    var out = ""
    for character in text {
      switch character {
      case "\n", "\r\n": out += endLine()
      case " ", "\t": out += isRaw || isFenced && !isAtLineStart ? raw(character) : endWord(character)
      default: out += isRaw && !isFenced ? raw(character) : add(character)
      }
    }
    return out
  }

  /// What is left, when the answer has ended.
  mutating func finish() -> String {
    let out = flushWord()
    return out + (code?.end() ?? "") + close()
  }

  // MARK: Lines

  private mutating func add(_ character: Character) -> String {
    word.append(character)
    // Texts without spaces are broken anywhere.
    if !isFenced, TextWidth.of(character) == 2 { return flushWord() }
    return ""
  }

  private mutating func raw(_ character: Character) -> String {
    let before = flushWord() + spaces
    spaces = ""
    isAtLineStart = false
    column += TextWidth.of(character)
    return before + shown(String(character))
  }

  /// As it is, but for the colours of code.
  private mutating func shown(_ text: String) -> String {
    // A line that is a fence is none of the code.
    guard style.isMarkdown, !isRaw, let coloured = code?.feed(text) else { return text }
    return coloured
  }

  private mutating func endWord(_ space: Character) -> String {
    if isAtLineStart, word.isEmpty {
      // Depth of a list, or of code.
      lineStart.append(space)
      return ""
    }
    let out = flushWord()
    if !dropsSpace { spaces.append(space) }
    (dropsSpace, previous) = (false, nil)
    return out
  }

  private mutating func endLine() -> String {
    var out = flushWord()
    out += code?.endLine() ?? ""
    if isAtLineStart, lineStart.isEmpty { out += close() }
    if emphases.contains(.heading) || emphases.contains(.quote) { out += close() }
    (column, indent, lineStart, spaces, isAtLineStart, isRaw) = (0, "", "", "", true, false)
    (dropsSpace, previous) = (false, nil)
    return out + "\n"
  }

  /// Ends all styles.
  private mutating func close() -> String {
    defer { emphases = [] }
    return emphases.isEmpty ? "" : "\u{1B}[0m"
  }

  private mutating func flushWord() -> String {
    guard !word.isEmpty else { return "" }
    defer { word = "" }
    if isAtLineStart { return beginLine() }
    return place(word)
  }

  /// The first word says what kind of line it is.
  private mutating func beginLine() -> String {
    isAtLineStart = false
    if word.hasPrefix("```") || word.hasPrefix("~~~") {
      // What the code has left open, a comment or a string, ends with it.
      let ending = code?.end() ?? ""
      code = isFenced ? nil : CodeColours(word.drop { $0 == "`" || $0 == "~" })
      isRaw = true
      column = TextWidth.of(lineStart + word)
      return ending + close() + styled(lineStart + word, "2")
    }
    guard style.isMarkdown, !isFenced else {
      column = TextWidth.of(lineStart)
      return shown(lineStart) + place(word)
    }
    column = TextWidth.of(lineStart)
    let head = lineStart
    switch word {
    case "-", "*", "+":
      indent = lineStart + "  "
      column += 1
      return head + "•"
    case "#", "##", "###", "####", "#####", "######":
      dropsSpace = true
      return head + open(.heading, "1")
    case "---", "***", "___":
      return head + String(repeating: "─", count: min(style.columns ?? 40, 40))
    case ">":
      indent = lineStart + "│ "
      column += 1
      return head + "│" + open(.quote, "2")
    default: break
    }
    if word.hasPrefix("|") {
      isRaw = true
      column += TextWidth.of(word)
      return head + word
    }
    let isNumber = word.count <= 4 && word.hasSuffix(".") && word.dropLast().allSatisfy(\.isNumber)
    indent = lineStart + (isNumber ? String(repeating: " ", count: word.count + 1) : "")
    return head + place(word)
  }

  /// A word after those before it, on this row or the next.
  private mutating func place(_ word: String) -> String {
    let (text, width) =
      style.isMarkdown && !isFenced ? inline(word) : (shown(word), TextWidth.of(word))
    var out = ""
    if let columns = style.columns, !isFenced, column > 0, column + spaces.count + width > columns,
      column > indent.count
    {
      out = "\n" + indent
      column = TextWidth.of(indent)
    } else {
      out = spaces
      column += spaces.count
    }
    spaces = ""
    column += width
    return out + text
  }

  // MARK: Styles

  private func styled(_ text: String, _ code: String) -> String {
    style.isMarkdown ? "\u{1B}[\(code)m\(text)\u{1B}[22m" : text
  }

  private mutating func open(_ emphasis: Emphasis, _ code: String) -> String {
    emphases.append(emphasis)
    return "\u{1B}[\(code)m"
  }

  private mutating func toggle(_ emphasis: Emphasis, on: String, off: String) -> String {
    if let index = emphases.firstIndex(of: emphasis) {
      emphases.remove(at: index)
      return "\u{1B}[\(off)m"
    }
    return open(emphasis, on)
  }

  /// A word with its marks as styles, and its columns.
  private mutating func inline(_ word: String) -> (text: String, width: Int) {
    let characters = Array(word)
    var (out, width, index) = ("", 0, 0)
    let before = previous
    previous = characters.last
    func isText(_ place: Int) -> Bool {
      let character = characters.indices.contains(place) ? characters[place] : place < 0 ? before : nil
      return character.map { $0.isLetter || $0.isNumber } ?? false
    }
    /// Whether marks from `start` to `end` may open, or close, what is between.
    func isBorder(_ start: Int, _ end: Int, isOpen: Bool) -> Bool {
      isOpen ? (start > 0 || before != nil) && !isText(end) : !isText(start - 1) && end < characters.count
    }
    while index < characters.count {
      let character = characters[index]
      let isCode = emphases.contains(.code)
      if character == "`" {
        out += toggle(.code, on: "36", off: "39")
        index += 1
      } else if !isCode, character == "\\", index + 1 < characters.count, characters[index + 1].isPunctuation
      {
        out.append(characters[index + 1])
        width += 1
        index += 2
      } else if !isCode, character == "*", index + 1 < characters.count, characters[index + 1] == "*",
        isBorder(index, index + 2, isOpen: emphases.contains(.bold))
      {
        out += toggle(.bold, on: "1", off: "22")
        index += 2
      } else if !isCode, character == "*" || character == "_",
        !(index + 1 < characters.count && characters[index + 1] == character),
        !(index > 0 && characters[index - 1] == character),
        isBorder(index, index + 1, isOpen: emphases.contains(.italic))
      {
        out += toggle(.italic, on: "3", off: "23")
        index += 1
      } else {
        out.append(character)
        width += TextWidth.of(character)
        index += 1
      }
    }
    return (out, width)
  }
}
