// The largest elements of a row without sorting it: block maxima, a histogram, and quickselect on what is left.

/// An element as one integer: ordered by value, among equal values by position, the earlier one larger.
struct RankedKey: Comparable {
  let bits: UInt64

  /// A position after all others.
  static let last = Int(UInt32.max)

  /// Any number; the two zeros are equal.
  init(value: Float, position: Int) {
    let pattern = (value + 0).bitPattern
    let ordered = pattern >> 31 == 0 ? pattern | 0x8000_0000 : ~pattern
    bits = UInt64(ordered) << 32 | UInt64(~UInt32(truncatingIfNeeded: position))
  }

  /// Groups of neighbouring keys, by sign, exponent and three bits of the fraction.
  static let rangeCount = 4096
  var range: Int { Int(bits >> 52) }

  var position: Int { Int(~UInt32(truncatingIfNeeded: bits)) }

  var value: Float {
    let ordered = UInt32(truncatingIfNeeded: bits >> 32)
    return Float(bitPattern: ordered >> 31 == 1 ? ordered & 0x7FFF_FFFF : ~ordered)
  }

  static func < (a: RankedKey, b: RankedKey) -> Bool { a.bits < b.bits }
}

enum Selection {
  /// The `count` largest elements in order of position. NaN and negative infinity never count.
  static func largest(
    _ count: Int, of row: UnsafeBufferPointer<Float>, blockMaxima: [Float]
  ) -> [RankedKey] {
    guard count > 0 else { return [] }
    var floor = -Float.greatestFiniteMagnitude
    if count < blockMaxima.count {
      // As many blocks as elements are wanted have a maximum from here up: nothing below is among the largest.
      let maxima = blockMaxima.enumerated().map { RankedKey(value: $0.element, position: $0.offset) }
      floor = max(floor, cut(maxima, above: 0, measure: { _ in 1 }, until: { Int($0) >= count }).value)
    }
    let cut = cut(
      of: row, floor: floor, blockMaxima: blockMaxima,
      measure: { $0.isNaN ? 0 : 1 }, until: { Int($0) >= count })
    return elements(of: row, blockMaxima: blockMaxima, floor: cut.value) { $0 >= cut }
  }

  /// The smallest key of the nucleus: the most likely tokens whose weights add up to at least `mass`.
  ///
  /// - Parameter floor: weights below it are known not to belong to the nucleus.
  static func nucleus(
    of weights: UnsafeBufferPointer<Float>, mass: Double, floor: Float, blockMaxima: [Float]
  ) -> RankedKey {
    // Even a mass of 0 keeps the most likely token.
    let mass = max(mass, .leastNonzeroMagnitude)
    return cut(
      of: weights, floor: floor, blockMaxima: blockMaxima, measure: { Double($0) }, until: { $0 >= mass })
  }

  /// Adds up the measures of the elements from `floor` up in descending order, and returns the key at which
  /// `isEnough` first holds of the sum; when it never does, a key that no element from `floor` up is below.
  ///
  /// A first pass adds up each range of an eighth of an octave: tens of thousands of elements may belong to
  /// the result, but only those in the range where it ends need to be told apart. That pass also counts elements
  /// below `floor`; they come last and change nothing.
  private static func cut(
    of row: UnsafeBufferPointer<Float>, floor: Float, blockMaxima: [Float],
    measure: (Float) -> Double, until isEnough: (Double) -> Bool
  ) -> RankedKey {
    var sums = [Double](repeating: 0, count: RankedKey.rangeCount)
    for (block, maximum) in blockMaxima.enumerated() where maximum >= floor {
      for position in VectorMath.positions(ofBlock: block, of: row.count) {
        let value = row[position]
        sums[RankedKey(value: value, position: position).range] += measure(value)
      }
    }
    var above = 0.0
    var range = RankedKey.rangeCount - 1
    while range > 0 && !isEnough(above + sums[range]) {
      above += sums[range]
      range -= 1
    }
    let keys = elements(of: row, blockMaxima: blockMaxima, floor: floor) { $0.range == range }
    guard !keys.isEmpty else { return RankedKey(value: floor, position: RankedKey.last) }
    return cut(keys, above: above, measure: { measure($0.value) }, until: isEnough)
  }

  /// The elements from `floor` up that `isWanted`, in order of position.
  private static func elements(
    of row: UnsafeBufferPointer<Float>, blockMaxima: [Float], floor: Float,
    where isWanted: (RankedKey) -> Bool
  ) -> [RankedKey] {
    var keys: [RankedKey] = []
    for (block, maximum) in blockMaxima.enumerated() where maximum >= floor {
      for position in VectorMath.positions(ofBlock: block, of: row.count) {
        let key = RankedKey(value: row[position], position: position)
        // This order: the first test rarely succeeds and is predicted well. The second one excludes NaN too.
        if isWanted(key) && row[position] >= floor { keys.append(key) }
      }
    }
    return keys
  }

  /// The same for keys in any order, of which there is at least one, on top of a sum of `above`; the smallest
  /// key when it is never enough. O(n) expected, by quickselect.
  static func cut(
    _ keys: [RankedKey], above: Double = 0, measure: (RankedKey) -> Double, until isEnough: (Double) -> Bool
  ) -> RankedKey {
    var keys = keys
    return keys.withUnsafeMutableBufferPointer { keys in
      var low = 0
      var high = keys.count
      var above = above
      while high - low > 1 {
        // A scattered position: rows with sorted runs must not make the search quadratic.
        let scattered = (UInt64(high - low) &* 0x9E37_79B9_7F4A_7C15) >> 32
        let pivotAt = low + Int(scattered % UInt64(high - low))
        let pivot = keys[pivotAt]
        keys.swapAt(pivotAt, high - 1)
        var split = low
        var mass = 0.0
        // Without branches: on shuffled keys a mispredicted branch costs more than the useless swaps.
        for index in low..<high - 1 {
          let key = keys[index]
          let isAbove = key > pivot
          keys[index] = keys[split]
          keys[split] = key
          mass += isAbove ? measure(key) : 0
          split += isAbove ? 1 : 0
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
