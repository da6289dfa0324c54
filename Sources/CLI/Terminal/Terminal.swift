// Standard streams as a person sees them: plain text to pipes, dimmed text and progress to terminals.

import Platform

enum Terminal {
  static let outputIsTerminal = isatty(STDOUT_FILENO) == 1
  static let inputIsTerminal = isatty(STDIN_FILENO) == 1
  static let errorIsTerminal = isatty(STDERR_FILENO) == 1

  /// Whether lines on standard error can be drawn again in their place.
  static let errorIsInteractive = errorIsTerminal && Environment.value("TERM") != "dumb"
  /// Whether text may have colours, as people have agreed to say it (NO_COLOR, CLICOLOR_FORCE).
  static let hasColours: Bool = {
    if !(Environment.value("NO_COLOR") ?? "").isEmpty { return false }
    if !["", "0"].contains(Environment.value("CLICOLOR_FORCE") ?? "") { return true }
    return outputIsTerminal && Environment.value("TERM") != "dumb"
  }()

  /// Columns of the terminal that standard error is; 80 where nobody says.
  static var width: Int { StandardStream.columns(of: STDERR_FILENO) ?? 80 }

  /// Columns that lines of text on standard output have: those of the terminal, where they are not too long to read.
  static var textWidth: Int {
    min(Paragraph.usualWidth, StandardStream.columns(of: STDOUT_FILENO) ?? Paragraph.usualWidth)
  }

  /// Columns of the terminal that standard output is, for tables; nil where it is none.
  static var tableWidth: Int? { StandardStream.columns(of: STDOUT_FILENO) }

  /// Columns of the terminal that standard output is; 80 where nobody says.
  static var outputWidth: Int { StandardStream.columns(of: STDOUT_FILENO) ?? 80 }

  /// A word of a list's first column, with room after it.
  static func column(_ word: String) -> String {
    word + String(repeating: " ", count: max(1, 22 - word.count))
  }

  static func print(_ line: String) { StandardStream.write(line + "\n", to: STDOUT_FILENO) }

  static func printError(_ line: String) { StandardStream.write(line + "\n", to: STDERR_FILENO) }

  /// A sentence on standard error: one line in a pipe, broken between words on a terminal.
  static func tell(_ sentence: String) {
    guard errorIsTerminal else { return printError(sentence) }
    let lines = sentence.split(separator: "\n", omittingEmptySubsequences: false)
    printError(lines.map { Paragraph.wrapped(String($0), column: 2, width: width) }.joined(separator: "\n"))
  }

  /// Writes without a newline.
  static func write(_ text: String) { StandardStream.write(text, to: STDOUT_FILENO) }

  /// The text in a weaker colour where standard output has colours.
  static func dimmed(_ text: String) -> String { hasColours ? "\u{1B}[2m\(text)\u{1B}[0m" : text }

  /// The same for standard error.
  static func dimmedError(_ text: String) -> String { errorIsTerminal ? "\u{1B}[2m\(text)\u{1B}[0m" : text }

  /// The text in bold where standard output is a terminal.
  static func bold(_ text: String) -> String { outputIsTerminal ? "\u{1B}[1m\(text)\u{1B}[0m" : text }

  /// Text of a file or a model without what a terminal would obey, and without what turns text around: marks between letters, which
  /// some languages need, stay.
  ///
  /// - Parameter keepsLines: whether line breaks stay.
  static func safe(_ text: String, keepsLines: Bool = false) -> String {
    func isObeyed(_ scalar: Unicode.Scalar) -> Bool {
      scalar.steersText && !kept.contains(scalar) && !(keepsLines && scalar == "\n")
    }
    guard text.unicodeScalars.contains(where: isObeyed) else { return text }
    return String(String.UnicodeScalarView(text.unicodeScalars.map { isObeyed($0) ? "\u{FFFD}" : $0 }))
  }

  private static let kept: [Unicode.Scalar] = ["\t", "\u{61C}", "\u{200E}", "\u{200F}"]

  /// The text with every occurrence of a word in another colour.
  static func highlighting(_ word: String, in text: String) -> String {
    guard !word.isEmpty else { return text }
    var out = ""
    var rest = text[...]
    while let range = rest.firstRange(of: word) {
      out += rest[..<range.lowerBound]
      out += "\u{1B}[33m"
      out += rest[range]
      out += "\u{1B}[39m"
      rest = rest[range.upperBound...]
    }
    return out + rest
  }

  /// Runs `work`, and while it takes longer than a second shows its name and the seconds on a terminal.
  static func showingProgress<Result>(_ name: String, _ work: () throws -> Result) throws -> Result {
    guard errorIsInteractive else { return try work() }
    let isDone = Monitor(false)
    let start = Instant.now
    let ticker = try Thread(name: "progress", stackBytes: 256 << 10) {
      var next = start.adding(seconds: 1)
      while isDone.wait(until: next, { $0 ? true : nil }) == nil {
        let line = waiting(name, seconds: Int(next.seconds(since: start)), columns: width)
        StandardStream.write("\r\(line)\u{1B}[K", to: STDERR_FILENO)
        next = next.adding(seconds: 0.5)
      }
    }
    defer {
      isDone.update { $0 = true }
      ticker.join()
      if Instant.now.seconds(since: start) > 1 { StandardStream.write("\r\u{1B}[K", to: STDERR_FILENO) }
    }
    return try work()
  }
}

extension Terminal {
  /// `loading models/demo ... 3 s`, in fewer than `columns`: the end of a name tells more than its beginning.
  static func waiting(_ name: String, seconds: Int, columns: Int) -> String {
    let tail = " ... \(seconds) s"
    var room = columns - 1 - tail.utf8.count
    guard TextWidth.of(name) > room else { return name + tail }
    var shown: [Character] = []
    room -= 1
    for character in name.reversed() {
      room -= TextWidth.of(character)
      guard room >= 0 else { break }
      shown.append(character)
    }
    return "…" + String(shown.reversed()) + tail
  }
}

/// `1 file`, `2 files`: for nouns whose plural has an s.
func counted(_ count: Int, _ noun: String) -> String { "\(count) \(noun)\(count == 1 ? "" : "s")" }

/// `14,200`: a count with commas between groups of three digits.
func grouped(_ count: Int) -> String {
  var text = String(count.magnitude)
  for place in stride(from: text.count - 3, to: 0, by: -3) {
    text.insert(",", at: text.index(text.startIndex, offsetBy: place))
  }
  return count < 0 ? "-" + text : text
}

/// A number with a given number of digits after the point, for tables; as Swift writes it, with any digits, where it is no number or
/// has too many digits before the point.
func fixed(_ value: Double, _ digits: Int = 1) -> String {
  var scale = 1.0
  for _ in 0..<digits { scale *= 10 }
  // Beyond 2^53 not every integer is a Double: the digits shown would not be the value's.
  let product = (abs(value) * scale).rounded()
  guard product < 0x1p53 else { return "\(value)" }
  let scaled = Int(product)
  let sign = value < 0 && scaled > 0 ? "-" : ""
  guard digits > 0 else { return sign + String(scaled) }
  let text = String(scaled)
  let padded = String(repeating: "0", count: max(0, digits + 1 - text.count)) + text
  return sign + padded.dropLast(digits) + "." + padded.suffix(digits)
}
