// Sets of Unicode scalars as ranges.

/// Sorted, disjoint ranges of scalars; surrogates are never members.
package struct ScalarSet: Equatable, Sendable {
  package private(set) var ranges: [ClosedRange<UInt32>]

  package static let all = ScalarSet([0...0xD7FF, 0xE000...0x10FFFF])

  package init(_ ranges: [ClosedRange<UInt32>]) {
    var merged: [ClosedRange<UInt32>] = []
    for range in ranges.sorted(by: { $0.lowerBound < $1.lowerBound }) {
      if let last = merged.last, range.lowerBound <= last.upperBound &+ 1 {
        merged[merged.count - 1] = last.lowerBound...max(last.upperBound, range.upperBound)
      } else {
        merged.append(range)
      }
    }
    // Merging may have bridged the surrogates.
    self.ranges = merged.flatMap { range -> [ClosedRange<UInt32>] in
      var parts: [ClosedRange<UInt32>] = []
      if range.lowerBound < 0xD800 { parts.append(range.lowerBound...min(range.upperBound, 0xD7FF)) }
      if range.upperBound > 0xDFFF { parts.append(max(range.lowerBound, 0xE000)...range.upperBound) }
      return parts
    }
  }

  package init(_ scalar: UInt32) { self.init([scalar...scalar]) }

  /// The scalars that are in one of them.
  package func union(_ other: ScalarSet) -> ScalarSet { ScalarSet(ranges + other.ranges) }

  /// The scalars that are in both.
  package func intersection(_ other: ScalarSet) -> ScalarSet {
    inverted.union(other.inverted).inverted
  }

  package var inverted: ScalarSet {
    var out: [ClosedRange<UInt32>] = []
    var from: UInt32 = 0
    for range in ranges {
      if range.lowerBound > from { out.append(from...range.lowerBound - 1) }
      from = range.upperBound + 1
    }
    if from <= 0x10FFFF { out.append(from...0x10FFFF) }
    return ScalarSet(out)
  }

  /// With the other case of every letter; of large sets, of ASCII's letters only.
  package var ignoringCase: ScalarSet {
    let isSmall = ranges.reduce(0) { $0 + $1.count } <= Self.foldedLimit
    var more: [ClosedRange<UInt32>] = []
    for range in ranges {
      for value in range {
        guard isSmall || value <= 0x7F else { break }
        for other in Self.cases(of: value) { more.append(other...other) }
      }
    }
    let all = union(ScalarSet(more))
    let odd = Self.oddLetters.filter { $0.cases.contains(where: all.contains) }
    return all.union(ScalarSet(odd.map { $0.letter...$0.letter }))
  }

  /// The upper and the lower case of a scalar that has one scalar each.
  private static func cases(of value: UInt32) -> [UInt32] {
    if value <= 0x7F {
      let isLetter = (0x41...0x5A).contains(value & ~0x20)
      return isLetter ? [value, value ^ 0x20] : []
    }
    func only(_ text: String?) -> Unicode.Scalar? {
      guard let scalars = text?.unicodeScalars, scalars.count == 1 else { return nil }
      return scalars.first
    }
    guard let properties = Unicode.Scalar(value)?.properties else { return [] }
    let upper = only(properties.uppercaseMapping)
    let lower = [only(properties.lowercaseMapping), only(upper?.properties.lowercaseMapping)]
    return (lower + [upper]).compactMap { $0?.value }
  }

  /// Letters that are a case of another letter, which has a nearer one: the long s, the signs of Kelvin and Ohm.
  private static let oddLetters: [(letter: UInt32, cases: [UInt32])] =
    ([0xB5, 0x17F, 0x345, 0x3C2, 0x3D0, 0x3D1, 0x3D5, 0x3D6, 0x3F0, 0x3F1, 0x3F5] + Array(0x1C80...0x1C88)
    + [0x1E9B, 0x1E9E, 0x1FBE, 0x2126, 0x212A, 0x212B]).map { ($0, cases(of: $0)) }

  /// Whether a scalar is in the set. O(log ranges).
  package func contains(_ value: UInt32) -> Bool {
    var (low, high) = (0, ranges.count)
    while low < high {
      let middle = (low + high) / 2
      if ranges[middle].upperBound < value { low = middle + 1 } else { high = middle }
    }
    return low < ranges.count && ranges[low].lowerBound <= value
  }

  private static let foldedLimit = 3000

  /// The scalars that have a property, found by testing each; O(all scalars).
  static func matching(_ test: (Unicode.Scalar.Properties) -> Bool) -> ScalarSet {
    var ranges: [ClosedRange<UInt32>] = []
    for value in UInt32(0)...0x10FFFF {
      guard let scalar = Unicode.Scalar(value), test(scalar.properties) else { continue }
      if let last = ranges.last, last.upperBound + 1 == value {
        ranges[ranges.count - 1] = last.lowerBound...value
      } else {
        ranges.append(value...value)
      }
    }
    return ScalarSet(ranges)
  }
}
