// One line per event on standard error, as text or as JSON objects, or handed to the program that has this as a library.

/// The process-wide log. Message fields are written in the order given; values never span lines.
package enum Log {
  /// How much a line matters, from least to most.
  package enum Level: Int, Sendable, CaseIterable, Comparable {
    case debug, info, warning, error

    package var name: String { String(describing: self) }

    package init?(name: String) {
      guard let level = Self.allCases.first(where: { $0.name == name }) else { return nil }
      self = level
    }

    package static func < (a: Level, b: Level) -> Bool { a.rawValue < b.rawValue }
  }

  private struct Settings {
    var level = Level.info
    var isJSON = false
    var sink: Sink?
  }

  /// Takes the lines instead of standard error, on the threads that write them.
  package typealias Sink = @Sendable (_ level: Level, _ line: String) -> Void

  /// What event and values of one line may take, escapes included.
  private static let lineBytes = 1600

  private static let settings = Monitor(Settings())
  private static let output = LineWriter(descriptor: STDERR_FILENO)

  /// Sets the least level written and the form of the lines.
  package static func configure(level: Level, json: Bool) {
    settings.withLock {
      $0.level = level
      $0.isJSON = json
    }
  }

  /// From now on lines go there, and none to standard error.
  package static func redirect(to sink: @escaping Sink) { settings.withLock { $0.sink = sink } }

  /// Whether lines of this level are written: for those who would make many of them in vain.
  package static func isWritten(_ level: Level) -> Bool { level >= settings.withLock { $0.level } }

  /// A line for who looks for a fault; off unless `--log-level debug`.
  package static func debug(_ event: String, _ fields: KeyValuePairs<String, String> = [:]) {
    write(.debug, event, pairs(fields))
  }

  /// A line that tells of the usual course of things. Each of these functions writes one line, unless its level is
  /// below the configured one, and drops it rather than wait for a slow reader.
  package static func info(_ event: String, _ fields: KeyValuePairs<String, String> = [:]) {
    write(.info, event, pairs(fields))
  }

  /// `info` with fields that are not known where the call is written.
  package static func info(_ event: String, fields: [(String, String)]) {
    write(.info, event, fields)
  }

  /// A line that somebody should read: the server goes on, and something is not as it was meant.
  package static func warning(_ event: String, _ fields: KeyValuePairs<String, String> = [:]) {
    write(.warning, event, pairs(fields))
  }

  /// A line about something that failed.
  package static func error(_ event: String, _ fields: KeyValuePairs<String, String> = [:]) {
    write(.error, event, pairs(fields))
  }

  private static func pairs(_ fields: KeyValuePairs<String, String>) -> [(String, String)] {
    fields.map { ($0.key, $0.value) }
  }

  private static func write(_ level: Level, _ event: String, _ fields: [(String, String)]) {
    let (least, isJSON, sink) = settings.withLock { ($0.level, $0.isJSON, $0.sink) }
    guard level >= least else { return }
    let line = isJSON ? jsonLine(level, event, fields) : textLine(level, event, fields)
    if let sink { return sink(level, line) }
    output.write(line) { dropped in
      let fields = [("lines", String(dropped))]
      return isJSON
        ? jsonLine(.warning, "log lines dropped", fields) : textLine(.warning, "log lines dropped", fields)
    }
  }

  static func textLine(_ level: Level, _ event: String, _ fields: [(String, String)]) -> String {
    var room = lineBytes
    var line = "\(Timestamp.text(seconds: Instant.wallSeconds)) \(level.name) \(escaped(event, &room))"
    for (key, value) in fields {
      let plain =
        !value.isEmpty && value.utf8.allSatisfy { $0 > 0x20 && $0 != 0x22 && $0 != 0x5C && $0 < 0x7F }
      let text = escaped(value, &room)
      line += " \(key)=" + (plain ? text : "\"\(text)\"")
    }
    return line
  }

  static func jsonLine(_ level: Level, _ event: String, _ fields: [(String, String)]) -> String {
    var room = lineBytes
    var line =
      "{\"time\":\"\(Timestamp.text(seconds: Instant.wallSeconds))\",\"level\":\"\(level.name)\",\"event\":\"\(escaped(event, &room))\""
    for (key, value) in fields {
      let text = escaped(value, &room)
      line +=
        ",\"\(escaped(key, &room))\":" + (isNumber(value) && !textFields.contains(key) ? text : "\"\(text)\"")
    }
    return line + "}"
  }

  /// Fields that are text even where they happen to have digits alone.
  private static let textFields: Set = ["request_id", "key", "path", "method", "model", "peer", "error"]

  /// Whether JSON writes a value as it is: digits, perhaps with a sign and a point.
  static func isNumber(_ value: String) -> Bool {
    let digits = value.utf8.first == UInt8(ascii: "-") ? value.utf8.dropFirst() : value.utf8[...]
    let parts = digits.split(separator: UInt8(ascii: "."), maxSplits: 1, omittingEmptySubsequences: false)
    guard (1...15).contains(digits.count), parts.allSatisfy({ !$0.isEmpty }) else { return false }
    guard parts.allSatisfy({ $0.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) } }) else {
      return false
    }
    return parts[0].count == 1 || parts[0].first != UInt8(ascii: "0")
  }

  /// JSON string escapes for all that could forge a second line or steer a terminal. What does not fit in
  /// `room` bytes is cut and marked by `…`.
  private static func escaped(_ text: String, _ room: inout Int) -> String {
    var out = ""
    for scalar in text.unicodeScalars {
      let piece: String
      switch scalar {
      case "\"": piece = "\\\""
      case "\\": piece = "\\\\"
      case "\n": piece = "\\n"
      case "\r": piece = "\\r"
      case "\t": piece = "\\t"
      case _ where scalar.steersText:
        let hex = String(scalar.value, radix: 16)
        piece = "\\u" + String(repeating: "0", count: 4 - hex.utf8.count) + hex
      default: piece = String(scalar)
      }
      guard room >= piece.utf8.count else { return out + "…" }
      room -= piece.utf8.count
      out += piece
    }
    return out
  }
}

extension Unicode.Scalar {
  /// Whether it does something to the text around it: control characters of both sets, which terminals obey, separators of lines and
  /// paragraphs, and marks of direction, which show a name as another one.
  package var steersText: Bool {
    switch value {
    case 0..<0x20, 0x7F..<0xA0, 0x061C, 0x200E, 0x200F, 0x2028...0x202E, 0x2066...0x2069: true
    default: false
    }
  }
}
