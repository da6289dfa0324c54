// The memory that the request bodies of all connections share.

import Platform

/// Bytes that bodies may take, and the account of what is made of them.
package final class BodyBudget: Sendable {
  private let left: Monitor<Int>

  /// Where the process's memory is accounted for.
  private let ledger: MemoryLedger?

  init(bytes: Int, ledger: MemoryLedger? = nil) {
    left = Monitor(bytes)
    self.ledger = ledger
  }

  /// About how many times a body is held until it is answered: as it came, as values, and in the text of its prompt.
  package static let copies = 4
  /// How long cached prefixes have to make room, seconds.
  package static let patience = 0.5

  /// Takes `bytes` out of the budget; false, and nothing taken, when they are not there. May wait for what others
  /// give back.
  func reserve(_ bytes: Int) -> Bool {
    let isTaken = left.withLock { left in
      guard bytes <= left else { return false }
      left -= bytes
      return true
    }
    guard isTaken else { return false }
    // Last: it may push cached prefixes out, which a body that is refused anyway must not.
    guard account(for: bytes) else {
      left.withLock { $0 += bytes }
      return false
    }
    return true
  }

  private func account(for bytes: Int) -> Bool {
    guard let ledger else { return true }
    let (held, overflow) = bytes.multipliedReportingOverflow(by: Self.copies)
    guard !overflow else { return false }
    return ledger.reserve(held, for: .requestBodies, waiting: Self.patience)
  }

  func release(_ bytes: Int) {
    left.withLock { $0 += bytes }
    ledger?.release(Self.copies * bytes, from: .requestBodies)
  }
}
