// Sets of Unicode scalars as ranges, and the bytes that spell them.

/// Sorted, disjoint ranges of scalars; surrogates are never members.
struct ScalarSet: Equatable {
  private(set) var ranges: [ClosedRange<UInt32>]

  static let all = ScalarSet([0...0xD7FF, 0xE000...0x10FFFF])

  init(_ ranges: [ClosedRange<UInt32>]) {
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

  init(_ scalars: String.UnicodeScalarView) { self.init(scalars.map { $0.value...$0.value }) }

  func union(_ other: ScalarSet) -> ScalarSet { ScalarSet(ranges + other.ranges) }

  var inverted: ScalarSet {
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
  var ignoringCase: ScalarSet {
    let isSmall = ranges.reduce(0) { $0 + $1.count } <= Self.foldedLimit
    var more: [ClosedRange<UInt32>] = []
    for range in isSmall ? ranges : ranges.map({ $0.clamped(to: 0...0x7F) }) {
      for value in range {
        guard let properties = Unicode.Scalar(value)?.properties else { continue }
        for mapped in [properties.lowercaseMapping, properties.uppercaseMapping] {
          let scalars = mapped.unicodeScalars
          if scalars.count == 1, let other = scalars.first, other.value != value {
            more.append(other.value...other.value)
          }
        }
      }
    }
    return union(ScalarSet(more))
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

/// How scalars are written.
enum Spelling {
  /// UTF-8.
  case plain
  /// Inside a JSON string, each scalar in one way only: itself, or its shortest escape.
  case json

  /// Sequences of byte ranges that together spell exactly the scalars of `set`.
  func sequences(_ set: ScalarSet) -> [[ClosedRange<UInt8>]] {
    var out: [[ClosedRange<UInt8>]] = []
    for range in set.ranges {
      switch self {
      case .plain: Self.appendUTF8(range, to: &out)
      case .json: Self.appendJSON(range, to: &out)
      }
    }
    return out
  }

  private static func appendJSON(_ range: ClosedRange<UInt32>, to out: inout [[ClosedRange<UInt8>]]) {
    var from = range.lowerBound
    while from <= range.upperBound {
      if let escape = JSONText.escape(of: from) {
        out.append(escape.map { $0...$0 })
        from += 1
        continue
      }
      // Up to the next scalar that needs an escape.
      let stop: UInt32 = from < 0x22 ? 0x21 : from < 0x5C ? 0x5B : .max
      let end = min(range.upperBound, stop)
      appendUTF8(from...end, to: &out)
      from = end + 1
    }
  }

  private static func appendUTF8(_ range: ClosedRange<UInt32>, to out: inout [[ClosedRange<UInt8>]]) {
    for (low, high, length) in [
      (UInt32(0), UInt32(0x7F), 1), (0x80, 0x7FF, 2), (0x800, 0xFFFF, 3), (0x10000, 0x10FFFF, 4),
    ] {
      let from = max(range.lowerBound, low)
      let end = min(range.upperBound, high)
      if from <= end { split(from, end, length, [], to: &out) }
    }
  }

  /// Scalars whose UTF-8 has the same length, as products of byte ranges.
  private static func split(
    _ from: UInt32, _ end: UInt32, _ length: Int, _ prefix: [ClosedRange<UInt8>],
    to out: inout [[ClosedRange<UInt8>]]
  ) {
    func byte(_ value: UInt32, _ position: Int) -> UInt8 {
      let shift = UInt32(6 * (length - 1 - position))
      if position == 0 {
        let mark: UInt32 = [0, 0, 0xC0, 0xE0, 0xF0][length]
        return UInt8(truncatingIfNeeded: mark | value >> shift)
      }
      return UInt8(truncatingIfNeeded: 0x80 | value >> shift & 0x3F)
    }
    let position = prefix.count
    if position == length - 1 {
      out.append(prefix + [byte(from, position)...byte(end, position)])
      return
    }
    let shift = UInt32(6 * (length - 1 - position))
    let size: UInt32 = 1 << shift
    var at = from
    while at <= end {
      let block = (at >> shift) << shift
      // Whole blocks together when the first one starts at its beginning.
      if at == block {
        let whole = (end + 1 - at) >> shift
        if whole > 0 {
          let last = at + whole * size - 1
          let rest = [ClosedRange<UInt8>](repeating: 0x80...0xBF, count: length - 1 - position)
          out.append(prefix + [byte(at, position)...byte(last, position)] + rest)
          at = last + 1
          continue
        }
      }
      let stop = min(end, block + size - 1)
      split(at, stop, length, prefix + [byte(at, position)...byte(at, position)], to: &out)
      at = stop + 1
    }
  }
}
