// Base64 (RFC 4648): bytes in JSON strings and data URLs.

/// Base64 in both alphabets (RFC 4648, sections 4 and 5).
package enum Base64 {
  private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)

  /// The standard alphabet, padded.
  package static func encode(_ bytes: [UInt8]) -> String {
    var out: [UInt8] = []
    out.reserveCapacity((bytes.count + 2) / 3 * 4)
    var index = 0
    while index < bytes.count {
      let count = min(3, bytes.count - index)
      var bits: UInt32 = 0
      for offset in 0..<3 { bits = bits << 8 | (offset < count ? UInt32(bytes[index + offset]) : 0) }
      for place in 0..<4 {
        let sextet = Int(bits >> UInt32(18 - 6 * place) & 63)
        out.append(place > count ? UInt8(ascii: "=") : alphabet[sextet])
      }
      index += 3
    }
    return String(decoding: out, as: UTF8.self)
  }

  /// Takes the standard and the URL-safe alphabet, with or without padding; nil for anything else.
  package static func decode(_ text: String) -> [UInt8]? {
    var digits = Array(text.utf8)[...]
    let isPadded = digits.last == UInt8(ascii: "=")
    if isPadded {
      guard digits.count % 4 == 0 else { return nil }
      digits = digits.dropLast(digits.dropLast().last == UInt8(ascii: "=") ? 2 : 1)
    }
    guard digits.count % 4 != 1 else { return nil }
    var out: [UInt8] = []
    out.reserveCapacity(digits.count / 4 * 3 + 2)
    var bits: UInt32 = 0
    var count = 0
    for digit in digits {
      guard let value = value(of: digit) else { return nil }
      bits = bits << 6 | value
      count += 6
      if count >= 8 {
        count -= 8
        out.append(UInt8(truncatingIfNeeded: bits >> UInt32(count)))
        bits &= (1 << UInt32(count)) - 1
      }
    }
    return out
  }

  private static func value(of digit: UInt8) -> UInt32? {
    switch digit {
    case UInt8(ascii: "A")...UInt8(ascii: "Z"): UInt32(digit - UInt8(ascii: "A"))
    case UInt8(ascii: "a")...UInt8(ascii: "z"): UInt32(digit - UInt8(ascii: "a")) + 26
    case UInt8(ascii: "0")...UInt8(ascii: "9"): UInt32(digit - UInt8(ascii: "0")) + 52
    case UInt8(ascii: "+"), UInt8(ascii: "-"): 62
    case UInt8(ascii: "/"), UInt8(ascii: "_"): 63
    default: nil
    }
  }
}
