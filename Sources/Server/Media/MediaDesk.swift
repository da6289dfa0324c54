// Where images and audio are made ready for the model: few at a time, and each once as long as it is remembered.

import Media
import OpenAI
import Platform

/// Shared by all connections.
final class MediaDesk: Sendable {
  fileprivate struct State {
    /// Inputs that are being made.
    var busy: Set<[UInt8]> = []
    var clock: UInt64 = 0
    var bytes = 0
    var inputs: [[UInt8]: (input: MediaInput, lastUse: UInt64)] = [:]
  }

  private enum Turn: Sendable {
    case known(MediaInput)
    /// The caller has a place, and makes the input.
    case mine
  }

  private let state = Monitor(State())
  private let ledger: MemoryLedger

  /// - Parameter ledger: where memory is claimed for decoders and inputs.
  init(ledger: MemoryLedger) { self.ledger = ledger }

  /// Decoders at work at the same time. Each may hold some hundred megabytes, which it claims.
  private static let places = 2
  /// How long cached prefixes have to make room for a decoder, seconds.
  private static let patience = 0.5
  /// Most memory for inputs that are ready.
  private static let byteLimit = 64 << 20
  /// Longest wait for a place, seconds.
  private static let seconds = 30.0

  /// The input that was made under `key`, or a new one. Blocks until there is a place to make it.
  ///
  /// - Parameters:
  ///   - key: a digest of everything that decides about the input.
  ///   - param: the field that it is for, for errors.
  ///   - deadline: of the wait for a place.
  ///   - isUnwanted: whether nobody waits for the answer any more; asked many times a second, must not block.
  ///   - make: makes the input; what it borrows is given back when it ends.
  /// - Throws: what `make` throws; 503 when no place became free in time.
  func input(
    _ key: [UInt8], for param: String, until deadline: Instant = .now.adding(seconds: MediaDesk.seconds),
    isUnwanted: () -> Bool = { false }, make: (MemoryLoan) throws(APIError) -> MediaInput
  ) throws(APIError) -> MediaInput {
    if case .known(let input) = try waitForTurn(key, param, until: deadline, isUnwanted) { return input }
    defer { state.update { _ = $0.busy.remove(key) } }
    let input = try make(MemoryLoan(ledger, for: .media, patience: Self.patience))
    let (before, after) = state.withLock { state in
      let before = state.bytes
      state.keep(input, key, limit: Self.byteLimit)
      return (before, state.bytes)
    }
    if after > before {
      ledger.add(after - before, to: .media)
    } else {
      ledger.release(before - after, from: .media)
    }
    return input
  }

  /// What is being made by another is waited for.
  private func waitForTurn(
    _ key: [UInt8], _ param: String, until deadline: Instant, _ isUnwanted: () -> Bool
  ) throws(APIError) -> Turn {
    while true {
      let turn: Turn? = state.wait(until: min(deadline, Instant.now.adding(seconds: 0.1))) { state in
        if let known = state.find(key) { return .known(known) }
        guard state.busy.count < Self.places, state.busy.insert(key).inserted else { return nil }
        return .mine
      }
      if let turn { return turn }
      if isUnwanted() { throw APIError(AnswerFailure.clientGone, param: param) }
      if Instant.now >= deadline {
        throw .overloaded(
          "'\(param)' was not read: this server decodes too many other images and audio at the moment.",
          param: param)
      }
    }
  }
}

extension MediaDesk.State {
  fileprivate mutating func find(_ key: [UInt8]) -> MediaInput? {
    clock += 1
    inputs[key]?.lastUse = clock
    return inputs[key]?.input
  }

  fileprivate mutating func keep(_ input: MediaInput, _ key: [UInt8], limit: Int) {
    guard input.byteCount <= limit, inputs[key] == nil else { return }
    clock += 1
    bytes += input.byteCount
    inputs[key] = (input, clock)
    while bytes > limit, let oldest = inputs.min(by: { $0.value.lastUse < $1.value.lastUse }) {
      bytes -= oldest.value.input.byteCount
      inputs[oldest.key] = nil
    }
  }
}
