// Dates as people and programs read them.

/// Moments in UTC with milliseconds: `2026-01-31T12:00:00.123Z` (RFC 3339).
package enum Timestamp {
  /// The last second of the year 9999: years have four digits.
  private static let end = 253_402_300_799.0

  /// - Parameter seconds: since 1970; what a file says of its age may be anything, and is brought into range.
  package static func text(seconds: Double) -> String {
    let seconds = seconds.isNaN ? 0 : min(max(0, seconds), end)
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
