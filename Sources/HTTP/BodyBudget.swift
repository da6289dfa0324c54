// The memory that the request bodies of all connections share.

import Platform

final class BodyBudget: Sendable {
  private let left: Monitor<Int>

  /// Where the process's memory is accounted for.
  private let ledger: MemoryLedger?

  init(bytes: Int, ledger: MemoryLedger? = nil) {
    left = Monitor(bytes)
    self.ledger = ledger
  }

  /// Takes `bytes` out of the budget; false, and nothing taken, when they are not there.
  func reserve(_ bytes: Int) -> Bool {
    if let ledger, !ledger.reserve(bytes, for: .requestBodies) { return false }
    let isTaken = left.withLock { left in
      guard bytes <= left else { return false }
      left -= bytes
      return true
    }
    if !isTaken { ledger?.release(bytes, from: .requestBodies) }
    return isTaken
  }

  func release(_ bytes: Int) {
    left.withLock { $0 += bytes }
    ledger?.release(bytes, from: .requestBodies)
  }
}
