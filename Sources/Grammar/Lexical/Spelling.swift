// The bytes that spell sets of Unicode scalars.

import Tokenizers

/// How scalars are written.
enum Spelling {
  /// UTF-8.
  case plain
  /// Inside a JSON string, each scalar in one way only: itself, or its shortest escape.
  case json

  /// The bytes of a text.
  func bytes(of text: some Sequence<Unicode.Scalar>) -> [UInt8] {
    text.flatMap { scalar -> [UInt8] in
      if case .json = self, let escape = JSONText.escape(of: scalar.value) { return escape }
      return Array(String(scalar).utf8)
    }
  }

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
