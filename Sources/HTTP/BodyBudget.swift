// The memory that the request bodies of all connections share.

import Platform

final class BodyBudget: Sendable {
  private let left: Monitor<Int>

  init(bytes: Int) { left = Monitor(bytes) }

  /// Takes `bytes` out of the budget; false, and nothing taken, when they are not there.
  func reserve(_ bytes: Int) -> Bool {
    left.withLock { left in
      guard bytes <= left else { return false }
      left -= bytes
      return true
    }
  }

  func release(_ bytes: Int) { left.withLock { $0 += bytes } }
}
