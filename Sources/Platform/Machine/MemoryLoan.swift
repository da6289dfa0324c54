// Bytes of the ledger that one task holds until it ends.

/// Memory that is taken piece by piece, and given back with the last reference.
package final class MemoryLoan: Sendable {
  package let ledger: MemoryLedger
  private let kind: MemoryKind
  private let patience: Double
  private let bytes = Monitor(0)

  /// - Parameter patience: longest wait for others to give back what is not left, seconds.
  package init(_ ledger: MemoryLedger, for kind: MemoryKind, patience: Double) {
    (self.ledger, self.kind, self.patience) = (ledger, kind, patience)
  }

  /// Holds bytes from the start; nil, and nobody is asked for them, where they are not left.
  package convenience init?(holding bytes: Int, of ledger: MemoryLedger, for kind: MemoryKind) {
    guard ledger.reserve(bytes, for: kind) else { return nil }
    self.init(ledger, for: kind, patience: 0)
    self.bytes.withLock { $0 = max(0, bytes) }
  }

  deinit {
    let bytes = bytes.withLock { $0 }
    if bytes >= ledger.trimmedLoan { Machine.trimHeap() }
    ledger.release(bytes, from: kind)
  }

  /// The ledger's limit, bytes.
  package var limit: Int { ledger.limit }

  /// Another loan on the same terms, of nothing yet.
  package func another() -> MemoryLoan { MemoryLoan(ledger, for: kind, patience: patience) }

  /// Gives back all but so many bytes.
  package func shrink(to count: Int) {
    let more = bytes.withLock { held in
      defer { held = min(held, max(0, count)) }
      return held - min(held, max(0, count))
    }
    ledger.release(more, from: kind)
  }

  /// Takes more; false, and nothing taken, when it is not to be had.
  package func extend(by more: Int) -> Bool {
    guard ledger.reserve(more, for: kind, waiting: patience) else { return false }
    bytes.withLock { $0 += max(0, more) }
    return true
  }
}
