// States that the prefix cache keeps: copies of running ones, few enough that sequences always find slots.

import Compute

/// Engine thread only.
struct PrefixStates {
  private let cache: StateCache
  /// Most states.
  let limit: Int
  private var count = 0

  init(_ cache: StateCache, limit: Int) {
    (self.cache, self.limit) = (cache, limit)
  }

  var isFull: Bool { count >= limit }

  /// A slot with a copy of another; nil when there are too many.
  mutating func copy(_ slot: Int32) -> Int32? {
    guard !isFull, let copy = cache.fork(slot) else { return nil }
    count += 1
    return copy
  }

  mutating func release(_ slot: Int32) {
    cache.release(slot)
    count -= 1
  }
}
