// The tokens of many blocks in one piece of memory.

import Compute

/// Places for as many tokens as a block has, given out and taken back.
struct TokenSlots {
  /// Where tokens lie.
  struct Place {
    fileprivate let start: Int
    let count: Int
  }

  private var tokens: [Int32] = []
  /// Starts of places that were taken back.
  private var free: [Int] = []

  /// Keeps tokens, no more than a block has.
  mutating func take(_ new: ArraySlice<Int32>) -> Place {
    let new = new.prefix(KVCache.blockTokens)
    let start = free.popLast() ?? tokens.count
    if start == tokens.count { tokens += repeatElement(0, count: KVCache.blockTokens) }
    for (offset, token) in new.enumerated() { tokens[start + offset] = token }
    return Place(start: start, count: new.count)
  }

  mutating func release(_ place: Place) { free.append(place.start) }

  subscript(place: Place) -> ArraySlice<Int32> { tokens[place.start..<place.start + place.count] }
}
