// Text broken into lines between words, with a hanging indent.

enum Paragraph {
  /// Lines of text that is shown in no terminal.
  static let usualWidth = 100
  /// Text beside a head has at least this much room, or begins below it.
  private static let leastRoom = 24
  private static let shallow = 4

  /// `head  text`, the text from a column on. Words longer than a line stay whole.
  static func wrapped(_ text: String, after head: String = "", column: Int, width: Int) -> String {
    let isBeside = head.isEmpty || width - column >= leastRoom
    let indent = String(repeating: " ", count: isBeside ? column : shallow)
    var lines: [String] = []
    var line = head.isEmpty ? "" : head + gap(after: head, to: column)
    if !isBeside {
      // Spaces at its end could take a line of the terminal for themselves.
      if let last = head.lastIndex(where: { $0 != " " }) { lines.append(String(head[...last])) }
      line = indent
    }
    var isFirst = true
    for word in text.split(separator: " ", omittingEmptySubsequences: false) {
      if !isFirst, line.count + 1 + word.count > width {
        lines.append(line)
        line = indent
        isFirst = true
      }
      line += (isFirst ? "" : " ") + word
      isFirst = false
    }
    return (lines + [line]).joined(separator: "\n")
  }

  private static func gap(after head: String, to column: Int) -> String {
    String(repeating: " ", count: head.count < column ? column - head.count : head.hasSuffix(" ") ? 0 : 2)
  }
}
