// The largest elements of a row without sorting it: block maxima, then quickselect on what is left.

/// An element as one integer: ordered by value, among equal values by position, the earlier one larger.
struct RankedKey: Comparable {
  let bits: UInt64

  /// Any number; the two zeros are equal.
  init(value: Float, position: Int) {
    let pattern = (value + 0).bitPattern
    let ordered = pattern >> 31 == 0 ? pattern | 0x8000_0000 : ~pattern
    bits = UInt64(ordered) << 32 | UInt64(~UInt32(truncatingIfNeeded: position))
  }

  var position: Int { Int(~UInt32(truncatingIfNeeded: bits)) }

  var value: Float {
    let ordered = UInt32(truncatingIfNeeded: bits >> 32)
    return Float(bitPattern: ordered >> 31 == 1 ? ordered & 0x7FFF_FFFF : ~ordered)
  }

  static func < (a: RankedKey, b: RankedKey) -> Bool { a.bits < b.bits }
}

enum Selection {
  /// The `count` largest elements in order of position. NaN and negative infinity never count.
  ///
  /// Every block whose maximum is among the `count` largest block maxima holds an element at least as large
  /// as the smallest of them, so no element below that one can be among the `count` largest.
  static func largest(
    _ count: Int, of row: UnsafeMutableBufferPointer<Float>, blockMaxima: [Float]
  ) -> [RankedKey] {
    guard count > 0 else { return [] }
    var floor = -Float.infinity
    if count < blockMaxima.count {
      let keys = blockMaxima.enumerated().map { RankedKey(value: $0.element, position: $0.offset) }
      floor = rank(count, of: keys).value
    }
    var keys: [RankedKey] = []
    for (index, maximum) in blockMaxima.enumerated() where maximum >= floor {
      let end = min(row.count, (index + 1) * VectorMath.block)
      for position in index * VectorMath.block..<end {
        let value = row[position]
        if value >= floor && value > -.infinity { keys.append(RankedKey(value: value, position: position)) }
      }
    }
    guard keys.count > count else { return keys }
    let cut = rank(count, of: keys)
    return keys.filter { $0 >= cut }
  }

  /// The element that is number `rank` (from 1) in descending order. `keys` has at least that many.
  private static func rank(_ rank: Int, of keys: [RankedKey]) -> RankedKey {
    cut(keys) { _ in
      1
    } until: {
      Int($0) >= rank
    }
  }

  /// The smallest key of the nucleus: the largest keys whose values add up to at least `mass`.
  static func nucleus(_ keys: [RankedKey], mass: Double) -> RankedKey {
    // Even a mass of 0 keeps the most likely token.
    let mass = max(mass, .leastNonzeroMagnitude)
    return cut(keys) {
      Double($0.value)
    } until: {
      $0 >= mass
    }
  }

  /// Adds up the measures of the keys in descending order, and returns the key at which `isEnough` first holds
  /// of the sum; the smallest key when it never does. O(n) expected, by quickselect. `keys` is not empty.
  private static func cut(
    _ keys: [RankedKey], measure: (RankedKey) -> Double, until isEnough: (Double) -> Bool
  ) -> RankedKey {
    var keys = keys
    return keys.withUnsafeMutableBufferPointer { keys in
      var low = 0
      var high = keys.count
      var above = 0.0
      while high - low > 1 {
        // A scattered position: rows with sorted runs must not make the search quadratic.
        let scattered = UInt64(high - low) &* 0x9E37_79B9_7F4A_7C15 >> 32
        let pivotAt = low + Int(scattered % UInt64(high - low))
        let pivot = keys[pivotAt]
        keys.swapAt(pivotAt, high - 1)
        var split = low
        var mass = 0.0
        for index in low..<high - 1 where keys[index] > pivot {
          mass += measure(keys[index])
          keys.swapAt(split, index)
          split += 1
        }
        keys.swapAt(split, high - 1)
        if isEnough(above + mass) {
          high = split
        } else {
          above += mass + measure(pivot)
          if isEnough(above) { return pivot }
          low = split + 1
        }
      }
      return keys[min(low, keys.count - 1)]
    }
  }
}
