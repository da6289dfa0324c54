// MD5 of bytes, for clients that name their uploads by it. It protects against accidents alone.

import Platform

/// MD5 as RFC 1321 has it.
enum MD5 {
  private static let shifts: [UInt32] = [7, 12, 17, 22, 5, 9, 14, 20, 4, 11, 16, 23, 6, 10, 15, 21]

  /// 2³² · |sin(i + 1)|, rounded down.
  private static let sines: [UInt32] = (0..<64).map { UInt32(4_294_967_296 * abs(sin(Double($0 + 1)))) }

  /// 32 hexadecimal digits.
  static func hexadecimal(_ bytes: [UInt8]) -> String {
    var state: [UInt32] = [0x6745_2301, 0xEFCD_AB89, 0x98BA_DCFE, 0x1032_5476]
    let whole = bytes.count / 64 * 64
    for start in stride(from: 0, to: whole, by: 64) { mix(bytes[start..<start + 64], into: &state) }
    var rest = Array(bytes[whole...]) + [0x80]
    while rest.count % 64 != 56 { rest.append(0) }
    let bits = UInt64(bytes.count) &* 8
    for shift in 0..<8 { rest.append(UInt8(truncatingIfNeeded: bits >> (8 * UInt64(shift)))) }
    for start in stride(from: 0, to: rest.count, by: 64) { mix(rest[start..<start + 64], into: &state) }
    return SHA256.hexadecimal(
      state.flatMap { word in (0..<4).map { UInt8(truncatingIfNeeded: word >> (8 * UInt32($0))) } })
  }

  private static func mix(_ block: ArraySlice<UInt8>, into state: inout [UInt32]) {
    let words = (0..<16).map { word -> UInt32 in
      let start = block.startIndex + 4 * word
      return block[start..<start + 4].reversed().reduce(0) { $0 << 8 | UInt32($1) }
    }
    var (a, b, c, d) = (state[0], state[1], state[2], state[3])
    for step in 0..<64 {
      let (function, word): (UInt32, Int) =
        switch step / 16 {
        case 0: ((b & c) | (~b & d), step)
        case 1: ((d & b) | (~d & c), (5 * step + 1) % 16)
        case 2: (b ^ c ^ d, (3 * step + 5) % 16)
        default: (c ^ (b | ~d), 7 * step % 16)
        }
      let sum = a &+ function &+ sines[step] &+ words[word]
      let shift = shifts[step / 16 * 4 + step % 4]
      (a, d, c, b) = (d, c, b, b &+ (sum << shift | sum >> (32 - shift)))
    }
    state = [state[0] &+ a, state[1] &+ b, state[2] &+ c, state[3] &+ d]
  }
}
