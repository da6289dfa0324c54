// A line editor for the terminal: keys in, a text out, with a history of earlier ones.

import JSON
import Platform

/// Texts that were typed earlier, the newest last; kept in a file that only its owner can read.
struct LineHistory {
  private static let limit = 1_000
  private static let fileLimit = 8 << 20
  private(set) var texts: [TypedText] = []
  private let path: String?

  /// - Parameter path: nil keeps nothing.
  init(path: String?) {
    self.path = path
    guard let path, let bytes = try? File.read(path, limit: Self.fileLimit) else { return }
    texts = bytes.split(separator: UInt8(ascii: "\n")).suffix(Self.limit).compactMap {
      (try? JSONValue(parsing: Array($0))).flatMap { TypedText($0) }
    }
  }

  /// Where the history and the last conversation of this user are; nil without a home.
  static var folder: String? {
    let state =
      Environment.value("XDG_STATE_HOME").flatMap { $0.hasPrefix("/") ? $0 : nil }
      ?? Environment.value("HOME").map { $0 + "/.local/state" }
    return state.map { $0 + "/mlxserve" }
  }

  static var usualPath: String? { folder.map { $0 + "/history" } }

  /// A history that cannot be written is none of the user's concern.
  mutating func add(_ text: TypedText) {
    guard !text.parts.isEmpty, texts.last != text else { return }
    texts.append(text)
    if texts.count > Self.limit { texts.removeFirst(texts.count - Self.limit) }
    guard let path else { return }
    let lines = texts.map { $0.json.text + "\n" }.joined()
    try? File.makeFolders(path.split(separator: "/").dropLast().reduce("") { $0 + "/" + $1 })
    try? File.replace(path, with: Array(lines.utf8), mode: 0o600)
  }
}

/// Reads texts from a terminal. Used by one thread.
final class LineEditor {
  enum Line: Equatable {
    case text(TypedText)
    /// Ctrl-C; whether there was a text, which is gone.
    case interrupted(hadText: Bool)
    case end
  }

  private var decoder = KeyDecoder()
  /// Keys that came with those of the line before.
  private var waiting: [Key] = []
  private var history: LineHistory
  private let isDropped: (String) -> Bool
  private let completions: (String) -> TabCompletions
  private var drawn = EditedText.Picture(rows: [], row: 0, column: 0)
  /// Of the terminal, when that was drawn.
  private var columns = 80

  /// What the last word before the cursor may become.
  struct TabCompletions {
    /// The word's characters so far, which the candidates begin with.
    var word: String
    var candidates: [String]
  }

  /// - Parameters:
  ///   - isDropped: whether a paste is what a terminal writes for a file that is dropped on it; that is as good as typed.
  ///   - completions: for what stands before the cursor.
  init(
    history: LineHistory, isDropped: @escaping (String) -> Bool = { _ in false },
    completions: @escaping (String) -> TabCompletions = { TabCompletions(word: $0, candidates: []) }
  ) {
    (self.history, self.isDropped, self.completions) = (history, isDropped, completions)
  }

  /// The next text, of one or several lines.
  ///
  /// - Parameter start: what stands there already.
  func read(prompt: String, start: TypedText = TypedText()) -> Line {
    guard TerminalMode.takeKeys() else { return readLine().map { .text(TypedText(data: $0)) } ?? .end }
    StandardStream.write("\u{1B}[?2004h", to: STDOUT_FILENO)
    defer {
      StandardStream.write("\u{1B}[?2004l", to: STDOUT_FILENO)
      TerminalMode.keepKeys()
    }
    drawn = EditedText.Picture(rows: [], row: 0, column: 0)
    var text = EditedText(start)
    // The text under edit is the last of them.
    var versions = history.texts + [TypedText()]
    var place = versions.count - 1
    // What Ctrl-R looks for, as long as nothing else is typed.
    var sought: String?
    draw(text, prompt)
    while true {
      guard let key = nextKey(whenResized: { draw(text, prompt) }) else {
        return finish(text, prompt, .end)
      }
      if key != .search { sought = nil }
      switch key {
      case .complete: complete(&text)
      case .search:
        let words = sought ?? text.text
        sought = words
        guard let other = versions[..<place].lastIndex(where: { $0.text.contains(words) || words.isEmpty })
        else {
          continue
        }
        versions[place] = text.typed
        place = other
        text = EditedText(versions[place])
      case .enter:
        history.add(text.typed)
        return finish(text, prompt, .text(text.typed))
      case .interrupt:
        return finish(text, prompt, .interrupted(hadText: !text.text.isEmpty), mark: "^C")
      case .endOfInput where text.text.isEmpty: return finish(text, prompt, .end)
      case .endOfInput: _ = text.apply(.delete)
      case .suspend:
        StandardStream.write("\u{1B}[?2004l\r\n", to: STDOUT_FILENO)
        TerminalMode.suspend()
        TerminalMode.takeKeys()
        StandardStream.write("\u{1B}[?2004h", to: STDOUT_FILENO)
        drawn = EditedText.Picture(rows: [], row: 0, column: 0)
      case .redraw:
        StandardStream.write("\u{1B}[H\u{1B}[2J", to: STDOUT_FILENO)
        drawn = EditedText.Picture(rows: [], row: 0, column: 0)
      case .paste(let file) where isDropped(file): _ = text.apply(.text(file))
      default:
        if !text.apply(key), key == .up || key == .down {
          let other = place + (key == .up ? -1 : 1)
          guard versions.indices.contains(other) else { continue }
          versions[place] = text.typed
          place = other
          text = EditedText(versions[place])
        }
      }
      draw(text, prompt)
    }
  }

  /// Adds what all candidates have in common; where that is nothing, lists them below.
  private func complete(_ text: inout EditedText) {
    let found = completions(String(text.characters[..<text.cursor]))
    guard let first = found.candidates.first else { return }
    let common = found.candidates.dropFirst().reduce(first) { common, next in
      String(zip(common, next).prefix { $0 == $1 }.map(\.0))
    }
    let isWhole = found.candidates.count == 1 && !common.hasSuffix("/")
    let more = String(common.dropFirst(found.word.count)) + (isWhole ? " " : "")
    if !more.isEmpty { _ = text.apply(.text(more)) }
    guard found.candidates.count > 1, more.isEmpty else { return }
    let list = found.candidates.map { Terminal.safe($0) }.joined(separator: "  ")
    StandardStream.write(
      "\r\n" + Paragraph.wrapped(list, column: 0, width: Terminal.outputWidth).replacing("\n", with: "\r\n")
        + "\r\n",
      to: STDOUT_FILENO)
    drawn = EditedText.Picture(rows: [], row: 0, column: 0)
  }

  private func nextKey(whenResized draw: () -> Void) -> Key? {
    while waiting.isEmpty {
      if Terminal.outputWidth != columns { draw() }
      guard let bytes = TerminalMode.take(seconds: decoder.isWaiting ? 0.05 : nil) else {
        decoder.expire()
        continue
      }
      guard !bytes.isEmpty else { return nil }
      waiting = decoder.feed(bytes)
    }
    return waiting.removeFirst()
  }

  /// Leaves the text as it stands, and the cursor on the line below.
  private func finish(_ text: EditedText, _ prompt: String, _ line: Line, mark: String = "") -> Line {
    var whole = text
    while whole.apply(.right), whole.cursor < whole.characters.count {}
    draw(whole, prompt)
    StandardStream.write(mark + "\r\n", to: STDOUT_FILENO)
    return line
  }

  /// Draws over what was drawn before.
  private func draw(_ text: EditedText, _ prompt: String) {
    columns = Terminal.outputWidth
    let picture = text.picture(prompt: prompt, columns: columns)
    // Rows that are too long for a window that was made narrower have become several.
    let above = drawn.rowsAbove(columns: columns)
    var out = above > 0 ? "\u{1B}[\(above)A" : ""
    out += "\r\u{1B}[J" + picture.rows.joined(separator: "\r\n")
    let below = picture.rows.count - 1 - picture.row
    if below > 0 { out += "\u{1B}[\(below)A" }
    out += "\r" + (picture.column > 0 ? "\u{1B}[\(picture.column)C" : "")
    StandardStream.write(out, to: STDOUT_FILENO)
    drawn = picture
  }
}
