// Where images, audio and PDF are made ready for the model: few at a time, and each once as long as it is remembered.

import Media
import Platform
import Wire

/// Images and audio.
typealias MediaDesk = Desk<MediaPassage>
/// Texts of PDFs, which another program reads; a conversation sends its files again with each turn.
typealias TextDesk = Desk<[UInt8]>

extension Desk<MediaPassage> {
  convenience init(ledger: MemoryLedger) {
    self.init(ledger: ledger, most: 64 << 20, work: "decodes too many other images and audio") {
      $0.byteCount
    }
  }
}

extension Desk<[UInt8]> {
  convenience init(ledger: MemoryLedger) {
    self.init(ledger: ledger, most: 16 << 20, work: "reads too many other files") { $0.count }
  }
}

private enum DeskLimits {
  /// Those at work at the same time. Each may hold some hundred megabytes, which it claims.
  static let places = 2
  /// How long cached prefixes have to make room for one, seconds.
  static let patience = 0.5
  /// Longest wait for a place, seconds.
  static let seconds = 30.0
}

/// Shared by all connections.
final class Desk<Input: Sendable>: Sendable {
  fileprivate struct State {
    /// Inputs that are being made.
    var busy: Set<[UInt8]> = []
    var clock: UInt64 = 0
    var bytes = 0
    var inputs: [[UInt8]: (input: Input, bytes: Int, lastUse: UInt64)] = [:]
  }

  private enum Turn: Sendable {
    case known(Input)
    /// The caller has a place, and makes the input.
    case mine
  }

  private let state = Monitor(State())
  private let ledger: MemoryLedger
  /// Most memory for inputs that are ready.
  private let most: Int
  private let work: String
  private let size: @Sendable (Input) -> Int

  /// - Parameters:
  ///   - ledger: where memory is claimed for making inputs and for those that are kept.
  ///   - most: bytes of inputs that are kept.
  ///   - work: what the server does when there is no place, for errors.
  ///   - size: bytes of an input.
  fileprivate init(
    ledger: MemoryLedger, most: Int, work: String, size: @escaping @Sendable (Input) -> Int
  ) {
    (self.ledger, self.most, self.work, self.size) = (ledger, most, work, size)
  }

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
    _ key: [UInt8], for param: String, until deadline: Instant = .now.adding(seconds: DeskLimits.seconds),
    isUnwanted: () -> Bool = { false }, make: (MemoryLoan) throws(APIError) -> Input
  ) throws(APIError) -> Input {
    if case .known(let input) = try waitForTurn(key, param, until: deadline, isUnwanted) { return input }
    defer { state.update { _ = $0.busy.remove(key) } }
    let input = try make(MemoryLoan(ledger, for: .media, patience: DeskLimits.patience))
    let bytes = size(input)
    guard bytes <= most, ledger.reserveGrowth(bytes, for: .media) else { return input }
    ledger.release(state.withLock { $0.keep(input, bytes, key, most: most) }, from: .media)
    return input
  }

  /// What is being made by another is waited for.
  private func waitForTurn(
    _ key: [UInt8], _ param: String, until deadline: Instant, _ isUnwanted: () -> Bool
  ) throws(APIError) -> Turn {
    while true {
      let turn: Turn? = state.wait(until: min(deadline, Instant.now.adding(seconds: 0.1))) { state in
        if let known = state.find(key) { return .known(known) }
        guard state.busy.count < DeskLimits.places, state.busy.insert(key).inserted else { return nil }
        return .mine
      }
      if let turn { return turn }
      if isUnwanted() { throw APIError(AnswerFailure.clientGone, param: param) }
      if Instant.now >= deadline {
        throw .overloaded("'\(param)' was not read: this server \(work) at the moment.", param: param)
      }
    }
  }
}

extension Desk.State {
  fileprivate mutating func find(_ key: [UInt8]) -> Input? {
    clock += 1
    inputs[key]?.lastUse = clock
    return inputs[key]?.input
  }

  /// - Returns: bytes of those that went, which were not used for the longest time.
  fileprivate mutating func keep(_ input: Input, _ size: Int, _ key: [UInt8], most: Int) -> Int {
    let before = bytes
    clock += 1
    bytes += size
    inputs[key] = (input, size, clock)
    while bytes > most, let oldest = inputs.min(by: { $0.value.lastUse < $1.value.lastUse }) {
      bytes -= oldest.value.bytes
      inputs[oldest.key] = nil
    }
    return before + size - bytes
  }
}
