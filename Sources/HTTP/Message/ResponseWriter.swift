// The bytes of a response: head, chunks, and the date (RFC 9112 sections 4 and 7.1).

import Platform

enum ResponseWriter {
  /// How the client finds the end of the body.
  enum Framing: Equatable {
    case length(Int)
    case chunked
    case untilClose
    /// No body and no length: 204, 304.
    case none
  }

  /// Fields that describe the framing and are written here alone.
  private static let own = ["content-length", "transfer-encoding", "connection", "date", "x-request-id"]

  static let continueHead = Array("HTTP/1.1 100 Continue\r\n\r\n".utf8)

  /// - Parameter connection: the value of the connection field; nil for none.
  static func head(
    _ response: Response, framing: Framing, connection: String?, requestID: String,
    date: String = httpDate(Instant.wallSeconds)
  ) -> [UInt8] {
    var out: [UInt8] = []
    out.reserveCapacity(512)
    out += "HTTP/1.1 \(response.status) \(Response.reason(response.status))\r\n".utf8
    for field in response.headers.fields where !own.contains(where: field.isNamed) {
      add(field.name, field.value, to: &out)
    }
    switch framing {
    case .length(let count): add("content-length", String(count).utf8, to: &out)
    case .chunked: add("transfer-encoding", "chunked".utf8, to: &out)
    case .untilClose, .none: break
    }
    if let connection { add("connection", connection.utf8, to: &out) }
    add("date", date.utf8, to: &out)
    add("x-request-id", requestID.utf8, to: &out)
    out += "\r\n".utf8
    return out
  }

  /// One chunk; with `isLast` the end mark after it. No bytes and not last: nothing, as an empty chunk
  /// would end the body.
  static func chunk(_ bytes: [UInt8], isLast: Bool) -> [UInt8] {
    var out: [UInt8] = []
    out.reserveCapacity(bytes.count + 24)
    if !bytes.isEmpty {
      out += String(bytes.count, radix: 16).utf8
      out += "\r\n".utf8
      out += bytes
      out += "\r\n".utf8
    }
    if isLast { out += "0\r\n\r\n".utf8 }
    return out
  }

  /// `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110 section 5.6.7), whatever the locale.
  static func httpDate(_ seconds: Double) -> String {
    var time = time_t(seconds)
    var parts = tm()
    gmtime_r(&time, &parts)
    let days = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
    func two(_ value: Int32) -> String { value < 10 ? "0\(value)" : "\(value)" }
    let date = "\(two(parts.tm_mday)) \(months[Int(parts.tm_mon) % 12]) \(parts.tm_year + 1900)"
    let clock = "\(two(parts.tm_hour)):\(two(parts.tm_min)):\(two(parts.tm_sec))"
    return "\(days[Int(parts.tm_wday) % 7]), \(date) \(clock) GMT"
  }

  private static func add(_ name: String, _ value: some Sequence<UInt8>, to out: inout [UInt8]) {
    out += name.utf8
    out += ": ".utf8
    out += value
    out += "\r\n".utf8
  }
}
