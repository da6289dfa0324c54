// The merges of a BPE model: (left id, right id) to rank and merged id.

/// A flat hash table; one cache line answers a lookup.
struct MergeTable: Sendable {
  private struct Slot: Sendable {
    var pair: UInt64
    var rank: UInt32
    var merged: Int32
  }

  /// No pair of ids has this key: ids are below 2^24.
  private static let free = UInt64.max
  /// The rank of pairs that do not merge.
  static let none = UInt32.max

  private var slots: [Slot]
  private let shift: UInt64
  /// Number of ranks.
  let count: Int

  init(count: Int) {
    self.count = count
    var bits: UInt64 = 4
    while 1 << bits < count + count / 2 + 1 { bits += 1 }
    shift = 64 - bits
    slots = Array(repeating: Slot(pair: Self.free, rank: Self.none, merged: -1), count: 1 << Int(bits))
  }

  @inline(__always)
  private func key(_ left: Int32, _ right: Int32) -> UInt64 {
    UInt64(UInt32(bitPattern: left)) << 32 | UInt64(UInt32(bitPattern: right))
  }

  @inline(__always)
  private func home(_ pair: UInt64) -> Int {
    Int(truncatingIfNeeded: ((pair ^ pair >> 31) &* 0x9E37_79B9_7F4A_7C15) >> shift)
  }

  /// Of a pair that occurs twice the last entry counts, as in the reference.
  mutating func insert(_ left: Int32, _ right: Int32, rank: UInt32, merged: Int32) {
    let pair = key(left, right)
    var slot = home(pair)
    while slots[slot].pair != Self.free, slots[slot].pair != pair { slot = (slot + 1) & (slots.count - 1) }
    slots[slot] = Slot(pair: pair, rank: rank, merged: merged)
  }

  /// The rank of the pair (`none` when it does not merge) and what it becomes.
  @inline(__always)
  func lookup(_ left: Int32, _ right: Int32) -> (rank: UInt32, merged: Int32) {
    let pair = key(left, right)
    let mask = slots.count - 1
    var slot = home(pair)
    while true {
      let found = slots[slot]
      if found.pair == pair { return (found.rank, found.merged) }
      if found.pair == Self.free { return (Self.none, -1) }
      slot = (slot + 1) & mask
    }
  }
}
