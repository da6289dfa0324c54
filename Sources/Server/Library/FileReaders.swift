// Places for those who read files of requests, of which only a few are taken at a time.

import OpenAI
import Platform

/// PDF is read by another program: few of them run at a time, and who finds no place waits.
final class FileReaders: Sendable {
  private static let places = 2
  /// Longest wait for a place, seconds.
  private static let seconds = 30.0

  private let busy = Monitor(0)

  /// Waits for a place.
  ///
  /// - Throws: 503 when none became free in time, 499 when nobody waits any more.
  func enter(_ field: String, isUnwanted: () -> Bool) throws(APIError) {
    let deadline = Instant.now.adding(seconds: Self.seconds)
    while true {
      let isMine: Bool? = busy.wait(until: min(deadline, Instant.now.adding(seconds: 0.1))) { busy in
        guard busy < Self.places else { return nil }
        busy += 1
        return true
      }
      if isMine != nil { return }
      if isUnwanted() { throw APIError(AnswerFailure.clientGone, param: field) }
      if Instant.now >= deadline {
        throw .overloaded("'\(field)' was not read: this server reads too many other files.", param: field)
      }
    }
  }

  func leave() { busy.update { $0 -= 1 } }
}
