// A hash table of numbers.

/// Open addressing from hashes to numbers.
struct HashTable {
  private var slots = [Int32](repeating: -1, count: 256)
  private var count = 0

  /// Spreads a number over all bits.
  @inline(__always)
  static func mix(_ value: UInt64) -> UInt64 {
    var mixed = value &* 0x9E37_79B9_7F4A_7C15
    mixed = (mixed ^ mixed >> 32) &* 0xBF58_476D_1CE4_E5B9
    return mixed ^ mixed >> 29
  }

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

/// A dictionary of numbers that is emptied at once.
struct NumberTable {
  private var keys = [UInt64](repeating: 0, count: 64)
  private var values = [Int32](repeating: 0, count: 64)
  /// A slot is taken where its stamp is the present one.
  private var stamps = [UInt32](repeating: 0, count: 64)
  private var stamp: UInt32 = 1
  private(set) var count = 0

  /// Two numbers as a key.
  @inline(__always)
  static func key(_ a: Int32, _ b: Int32) -> UInt64 {
    UInt64(UInt32(bitPattern: a)) << 32 | UInt64(UInt32(bitPattern: b))
  }

  /// The slot of a key, or the free one where it belongs.
  @inline(__always)
  private func slot(_ key: UInt64) -> Int {
    var at = Int(truncatingIfNeeded: HashTable.mix(key)) & (keys.count - 1)
    while stamps[at] == stamp, keys[at] != key { at = (at + 1) & (keys.count - 1) }
    return at
  }

  subscript(key: UInt64) -> Int32? {
    let at = slot(key)
    return stamps[at] == stamp ? values[at] : nil
  }

  /// Sets the value of a key. False where it had one.
  @discardableResult
  mutating func set(_ key: UInt64, _ value: Int32) -> Bool {
    let at = slot(key)
    values[at] = value
    guard stamps[at] != stamp else { return false }
    keys[at] = key
    stamps[at] = stamp
    count += 1
    if count * 2 > keys.count { grow() }
    return true
  }

  private mutating func grow() {
    let old = (keys, values, stamps)
    keys = [UInt64](repeating: 0, count: old.0.count * 2)
    values = [Int32](repeating: 0, count: keys.count)
    stamps = [UInt32](repeating: 0, count: keys.count)
    for index in old.0.indices where old.2[index] == stamp {
      let at = slot(old.0[index])
      keys[at] = old.0[index]
      values[at] = old.1[index]
      stamps[at] = stamp
    }
  }

  mutating func removeAll() {
    count = 0
    guard stamp < .max else {
      self = NumberTable()
      return
    }
    stamp += 1
  }
}
