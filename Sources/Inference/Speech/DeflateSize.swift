// How many bytes zlib would make of a text, nearly: a text that compresses well repeats itself.
//
// Source: RFC 1951. Matches are found as zlib does (hash chains, one position of looking ahead); the codes' lengths are
// those of their entropy, and the table of codes is estimated. Within 5 % of zlib for texts of some hundred bytes.

import Platform

enum DeflateSize {
  private static let (shortest, longest, window) = (3, 258, 1 << 15)
  /// How many places are tried for a match.
  private static let chain = 128

  /// Bytes of the text divided by what is left of them; 0 of no text.
  static func ratio(_ text: String) -> Double {
    let bytes = Array(text.utf8)
    return bytes.isEmpty ? 0 : Double(bytes.count) / size(bytes)
  }

  /// With zlib's header and check sum.
  static func size(_ bytes: [UInt8]) -> Double {
    var (symbols, distances) = ([Int](repeating: 0, count: 286), [Int](repeating: 0, count: 30))
    symbols[256] = 1
    var extra = 0
    var places: [UInt32: [Int]] = [:]
    func key(_ at: Int) -> UInt32? {
      guard at + shortest <= bytes.count else { return nil }
      return UInt32(bytes[at]) | UInt32(bytes[at + 1]) << 8 | UInt32(bytes[at + 2]) << 16
    }
    func match(_ at: Int) -> (length: Int, distance: Int) {
      var best = (length: 0, distance: 0)
      guard let key = key(at) else { return best }
      for place in (places[key] ?? []).suffix(chain).reversed() where at - place <= window {
        var length = shortest
        while length < longest, at + length < bytes.count, bytes[place + length] == bytes[at + length] {
          length += 1
        }
        if length > best.length { best = (length, at - place) }
      }
      return best
    }
    func note(_ range: Range<Int>) {
      for at in range { if let key = key(at) { places[key, default: []].append(at) } }
    }
    var at = 0
    while at < bytes.count {
      let found = match(at)
      note(at..<at + 1)
      guard found.length >= shortest, match(at + 1).length <= found.length else {
        symbols[Int(bytes[at])] += 1
        at += 1
        continue
      }
      let (length, distance) = (code(found.length - 3, 4), code(found.distance - 1, 2))
      symbols[min(257 + length.code, 285)] += 1
      distances[min(distance.code, 29)] += 1
      extra += length.bits + distance.bits
      note(at + 1..<at + found.length)
      at += found.length
    }
    let used = (symbols + distances).count { $0 > 0 }
    let dynamic = entropy(symbols) + entropy(distances) + 14 + 45 + 5.2 * Double(used)
    let bits = 3 + Double(extra) + min(dynamic, fixed(symbols, distances))
    return 6 + (bits / 8).rounded(.up)
  }

  /// Ranges of values that share a code: the first ones alone, then `group` codes for each power of two.
  private static func code(_ value: Int, _ group: Int) -> (code: Int, bits: Int) {
    guard value >= 2 * group else { return (value, 0) }
    let bits = Int.bitWidth - 1 - value.leadingZeroBitCount - group.trailingZeroBitCount
    return (bits * group + (value >> bits), bits)
  }

  private static func entropy(_ counts: [Int]) -> Double {
    let sum = Double(counts.reduce(0, +))
    return counts.reduce(0) { bits, count in
      count == 0 ? bits : bits + Double(count) * max(1, log2(sum / Double(count)))
    }
  }

  private static func fixed(_ symbols: [Int], _ distances: [Int]) -> Double {
    var bits = 5 * distances.reduce(0, +)
    for (symbol, count) in symbols.enumerated() {
      bits += count * (symbol < 144 ? 8 : symbol < 256 ? 9 : symbol < 280 ? 7 : 8)
    }
    return Double(bits)
  }
}
