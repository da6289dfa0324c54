// Places for those who read files of requests, of which only a few are taken at a time, and the texts of the last PDFs.

import OpenAI
import Platform

/// PDF is read by another program: few of them run at a time, and who finds no place waits. A conversation sends its files
/// again each turn, so their texts are kept for a while.
final class FileReaders: Sendable {
  private struct State {
    var busy = 0
    /// By digests of the PDFs' bytes, the last used one last.
    var texts: [(key: [UInt8], text: [UInt8])] = []
  }

  private static let places = 2
  /// Longest wait for a place, seconds.
  private static let seconds = 30.0

  /// Most bytes of texts.
  static let most = 16 << 20

  private let state = Monitor(State())
  private let ledger: MemoryLedger

  /// - Parameter ledger: where memory for texts is claimed.
  init(ledger: MemoryLedger) { self.ledger = ledger }

  /// Waits for a place.
  ///
  /// - Throws: 503 when none became free in time, 499 when nobody waits any more.
  func enter(_ field: String, isUnwanted: () -> Bool) throws(APIError) {
    let deadline = Instant.now.adding(seconds: Self.seconds)
    while true {
      let isMine: Bool? = state.wait(until: min(deadline, Instant.now.adding(seconds: 0.1))) { state in
        guard state.busy < Self.places else { return nil }
        state.busy += 1
        return true
      }
      if isMine != nil { return }
      if isUnwanted() { throw APIError(AnswerFailure.clientGone, param: field) }
      if Instant.now >= deadline {
        throw .overloaded("'\(field)' was not read: this server reads too many other files.", param: field)
      }
    }
  }

  func leave() { state.update { $0.busy -= 1 } }

  // MARK: Texts

  /// The text of a PDF that was read before.
  func text(of key: [UInt8]) -> [UInt8]? {
    state.withLock { state in
      guard let index = state.texts.firstIndex(where: { $0.key == key }) else { return nil }
      let found = state.texts.remove(at: index)
      state.texts.append(found)
      return found.text
    }
  }

  /// Keeps a text if there is memory for it. Those that were not used for the longest time go.
  func keep(_ text: [UInt8], of key: [UInt8]) {
    guard text.count <= Self.most, ledger.reserveGrowth(text.count, for: .media) else { return }
    let gone = state.withLock { state -> Int in
      guard !state.texts.contains(where: { $0.key == key }) else { return text.count }
      state.texts.append((key, text))
      let bytes = state.texts.reduce(0) { $0 + $1.text.count }
      var gone = 0
      while bytes - gone > Self.most { gone += state.texts.removeFirst().text.count }
      return gone
    }
    ledger.release(gone, from: .media)
  }
}
