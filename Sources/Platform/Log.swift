// One line per event on standard error, as text or as JSON objects.

/// The process-wide log. Message fields are written in the order given; values never span lines.
package enum Log {
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
  }

  private static let settings = Monitor(Settings())

  /// Sets the least level written and the form of the lines.
  package static func configure(level: Level, json: Bool) {
    settings.withLock { $0 = Settings(level: level, isJSON: json) }
  }

  package static func debug(_ event: String, _ fields: KeyValuePairs<String, String> = [:]) {
    write(.debug, event, fields)
  }

  package static func info(_ event: String, _ fields: KeyValuePairs<String, String> = [:]) {
    write(.info, event, fields)
  }

  package static func warning(_ event: String, _ fields: KeyValuePairs<String, String> = [:]) {
    write(.warning, event, fields)
  }

  package static func error(_ event: String, _ fields: KeyValuePairs<String, String> = [:]) {
    write(.error, event, fields)
  }

  private static func write(_ level: Level, _ event: String, _ fields: KeyValuePairs<String, String>) {
    let (least, isJSON) = settings.withLock { ($0.level, $0.isJSON) }
    guard level >= least else { return }
    let line = isJSON ? jsonLine(level, event, fields) : textLine(level, event, fields)
    // One write call per line keeps lines of different threads whole.
    StandardStream.write(line + "\n", to: STDERR_FILENO)
  }

  static func textLine(_ level: Level, _ event: String, _ fields: KeyValuePairs<String, String>) -> String {
    var line = "\(timestamp()) \(level.name) \(escaped(event))"
    for (key, value) in fields {
      let plain = !value.isEmpty && value.utf8.allSatisfy { $0 > 0x20 && $0 != 0x22 && $0 != 0x5C && $0 < 0x7F }
      line += " \(key)=" + (plain ? value : "\"\(escaped(value))\"")
    }
    return line
  }

  static func jsonLine(_ level: Level, _ event: String, _ fields: KeyValuePairs<String, String>) -> String {
    var line = "{\"time\":\"\(timestamp())\",\"level\":\"\(level.name)\",\"event\":\"\(escaped(event))\""
    for (key, value) in fields { line += ",\"\(escaped(key))\":\"\(escaped(value))\"" }
    return line + "}"
  }

  /// JSON string escapes; control characters cannot forge a second log line.
  private static func escaped(_ text: String) -> String {
    var out = ""
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\"": out += "\\\""
      case "\\": out += "\\\\"
      case "\n": out += "\\n"
      case "\r": out += "\\r"
      case "\t": out += "\\t"
      case _ where scalar.value < 0x20 || scalar.value == 0x7F:
        let hex = String(scalar.value, radix: 16)
        out += "\\u" + String(repeating: "0", count: 4 - hex.count) + hex
      default: out.unicodeScalars.append(scalar)
      }
    }
    return out
  }

  /// UTC with milliseconds: `2026-01-31T12:00:00.123Z`.
  private static func timestamp() -> String {
    let now = Instant.wallSeconds
    var seconds = time_t(now)
    var parts = tm()
    gmtime_r(&seconds, &parts)
    var buffer = [CChar](repeating: 0, count: 32)
    let length = strftime(&buffer, buffer.count, "%Y-%m-%dT%H:%M:%S", &parts)
    let millis = String(Int((now - now.rounded(.down)) * 1000))
    let date = String(decoding: buffer[..<length].map { UInt8(bitPattern: $0) }, as: UTF8.self)
    return date + "." + String(repeating: "0", count: 3 - millis.count) + millis + "Z"
  }
}

/// Unbuffered writes to the standard streams.
package enum StandardStream {
  /// Writes all of `text`, retrying interrupted and partial writes; false when the stream is gone.
  @discardableResult
  package static func write(_ text: String, to descriptor: Int32) -> Bool {
    var rest = Array(text.utf8)[...]
    while !rest.isEmpty {
      let count = rest.withUnsafeBytes { Platform.write(descriptor, $0) }
      if count < 0 && errno == EINTR { continue }
      guard count > 0 else { return false }
      rest = rest.dropFirst(count)
    }
    return true
  }
}

private func write(_ descriptor: Int32, _ bytes: UnsafeRawBufferPointer) -> Int {
  #if canImport(Darwin)
    Darwin.write(descriptor, bytes.baseAddress, bytes.count)
  #elseif canImport(Glibc)
    Glibc.write(descriptor, bytes.baseAddress, bytes.count)
  #else
    Musl.write(descriptor, bytes.baseAddress, bytes.count)
  #endif
}
