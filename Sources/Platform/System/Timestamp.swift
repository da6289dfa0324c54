// Dates as people and programs read them.

/// Moments in UTC with milliseconds: `2026-01-31T12:00:00.123Z` (RFC 3339).
package enum Timestamp {
  /// - Parameter seconds: since 1970.
  package static func text(seconds: Double) -> String {
    var whole = time_t(seconds.rounded(.down))
    var parts = tm()
    gmtime_r(&whole, &parts)
    var buffer = [CChar](repeating: 0, count: 32)
    let length = strftime(&buffer, buffer.count, "%Y-%m-%dT%H:%M:%S", &parts)
    let millis = String(Int((seconds - seconds.rounded(.down)) * 1000))
    let date = String(decoding: buffer[..<length].map { UInt8(bitPattern: $0) }, as: UTF8.self)
    return date + "." + String(repeating: "0", count: 3 - millis.utf8.count) + millis + "Z"
  }
}
