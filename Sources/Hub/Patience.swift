// When a request is sent again, and after how long: the numbers of the hub's own client.

import Fetch
import Platform

/// The tries of one thing that is wanted from the hub.
struct Patience {
  /// Tries in a row that may bring nothing.
  private static let most = 5
  private static let pauses = [1.0, 2, 4, 8]
  /// Beyond it nobody wants to wait for a rate limit.
  static let longestWait = 600.0
  /// Fewer bytes than these do not count as progress: a server that gives one byte at a time would be asked for ever.
  static let progressBytes = 64 << 10

  private var failures = 0

  /// Statuses that pass.
  static func isPassing(_ status: Int) -> Bool { [408, 429, 500, 502, 503, 504].contains(status) }

  /// Something came: what failed before is forgotten.
  mutating func reset() { failures = 0 }

  /// The pause before the next try, seconds; nil when there is none.
  mutating func pause(after head: Curl.Head? = nil) -> Double? {
    failures += 1
    guard failures < Self.most else { return nil }
    let usual = Self.pauses[min(failures, Self.pauses.count) - 1]
    guard let head, head.status == 429 || head.status == 503 else { return usual }
    let asked = Self.resetSeconds(head["ratelimit"]) ?? head["retry-after"].flatMap { Double($0) } ?? usual
    guard asked.isFinite, asked <= Self.longestWait else { return nil }
    return max(0, asked)
  }

  /// `"api";r=0;t=55`: nothing remains, and more is there in 55 seconds.
  static func resetSeconds(_ field: String?) -> Double? {
    var remaining: Int?
    var seconds: Double?
    for part in field?.split(separator: ";") ?? [] {
      let pair = part.drop { $0 == " " }.split(separator: "=")
      guard pair.count == 2 else { continue }
      if pair[0] == "r" { remaining = Int(pair[1]) }
      if pair[0] == "t" { seconds = Double(pair[1]) }
    }
    guard remaining == 0, let seconds else { return nil }
    return seconds + 1
  }
}
