// Bytes of the ledger that one task holds until it ends.

/// Memory that is taken piece by piece, and given back with the last reference. Used by one thread.
package final class MemoryLoan {
  private let ledger: MemoryLedger
  private let kind: MemoryKind
  private let patience: Double
  private var bytes = 0

  /// - Parameter patience: longest wait for others to give back what is not left, seconds.
  package init(_ ledger: MemoryLedger, for kind: MemoryKind, patience: Double) {
    self.ledger = ledger
    self.kind = kind
    self.patience = patience
  }

  deinit { ledger.release(bytes, from: kind) }

  /// Takes more; false, and nothing taken, when it is not to be had.
  package func extend(by more: Int) -> Bool {
    guard ledger.reserve(more, for: kind, waiting: patience) else { return false }
    bytes += more
    return true
  }
}
