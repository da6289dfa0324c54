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

/// The bytes that spell the scalars of a set, as a deterministic automaton whose states all differ: a tree of the bytes,
/// in which branches that go on alike are one.
struct SpelledSet {
  /// The edges of each state in the order of their bytes; the first state is the start.
  private(set) var edges: [[ByteNFA.Edge]]
  /// What was looked at to find them.
  private(set) var steps = 0

  /// The state in which a scalar is complete. It has no edges.
  static let end: Int32 = 1

  /// - Parameter sequences: ranges of bytes. Two that are alike up to a place are there equal or have no byte in common.
  init(_ sequences: [[ClosedRange<UInt8>]]) {
    var tree: [[ByteNFA.Edge]] = [[], []]
    for sequence in sequences {
      var at = 0
      for (place, range) in sequence.enumerated() {
        steps += 1
        // Nearly always the last branch, for sequences come in order, up to those that are escapes.
        if let known = tree[at].last(where: { $0.low == range.lowerBound }) {
          at = Int(known.to)
          continue
        }
        let isLast = place == sequence.count - 1
        let next = isLast ? Self.end : Int32(truncatingIfNeeded: tree.count)
        tree[at].append(ByteNFA.Edge(low: range.lowerBound, high: range.upperBound, to: next))
        if !isLast { tree.append([]) }
        at = Int(next)
      }
    }
    edges = [[], []]
    var number: [[ByteNFA.Edge]: Int32] = [:]
    var numbers = [Int32](repeating: Self.end, count: tree.count)
    // What follows a state was added after it.
    for state in tree.indices.reversed() where state != Self.end {
      var joined: [ByteNFA.Edge] = []
      for edge in tree[state].sorted(by: { $0.low < $1.low }) {
        let target = numbers[Int(edge.to)]
        if let last = joined.last, last.to == target, last.high + 1 == edge.low {
          joined[joined.count - 1].high = edge.high
        } else {
          joined.append(ByteNFA.Edge(low: edge.low, high: edge.high, to: target))
        }
      }
      steps += joined.count
      if state == 0 {
        edges[0] = joined
      } else if let known = number[joined] {
        numbers[state] = known
      } else {
        numbers[state] = Int32(truncatingIfNeeded: edges.count)
        number[joined] = numbers[state]
        edges.append(joined)
      }
    }
  }
}
