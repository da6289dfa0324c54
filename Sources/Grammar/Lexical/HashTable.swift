// A hash table of numbers.

/// Open addressing from hashes to numbers.
struct HashTable {
  private var slots = [Int32](repeating: -1, count: 256)
  private var count = 0

  func find(_ hash: UInt64, where isEqual: (Int32) -> Bool) -> Int32? {
    var at = Int(truncatingIfNeeded: hash) & (slots.count - 1)
    while slots[at] >= 0 {
      if isEqual(slots[at]) { return slots[at] }
      at = (at + 1) & (slots.count - 1)
    }
    return nil
  }

  /// - Parameter hashes: of all numbers, for growing.
  mutating func insert(_ hash: UInt64, _ number: Int32, hashes: [UInt64]) {
    count += 1
    if count * 2 > slots.count {
      slots = [Int32](repeating: -1, count: slots.count * 2)
      for (number, hash) in hashes.enumerated() { place(hash, Int32(truncatingIfNeeded: number)) }
    } else {
      place(hash, number)
    }
  }

  private mutating func place(_ hash: UInt64, _ number: Int32) {
    var at = Int(truncatingIfNeeded: hash) & (slots.count - 1)
    while slots[at] >= 0 { at = (at + 1) & (slots.count - 1) }
    slots[at] = number
  }
}
