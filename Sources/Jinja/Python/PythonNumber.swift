// Numbers as Python writes and reads them.

enum PythonNumber {
  /// `repr(float)`: the shortest digits that read back the same, an exponent below 1e-4 and from 1e16.
  static func text(of value: Double) -> String {
    if value.isNaN { return "nan" }
    if value.isInfinite { return value < 0 ? "-inf" : "inf" }
    let sign = value.sign == .minus ? "-" : ""
    // Swift prints the same shortest digits and only places point and exponent differently.
    let bytes = Array(value.magnitude.description.utf8)
    let mark = bytes.firstIndex(of: UInt8(ascii: "e")) ?? bytes.count
    let exponent = Int(String(decoding: bytes[mark...].dropFirst(), as: UTF8.self)) ?? 0
    var digits = bytes[..<mark].filter { $0 != UInt8(ascii: ".") }
    var point = (bytes[..<mark].firstIndex(of: UInt8(ascii: ".")) ?? mark) + exponent
    while digits.count > 1, digits.last == UInt8(ascii: "0") { digits.removeLast() }
    while digits.count > 1, digits.first == UInt8(ascii: "0") {
      digits.removeFirst()
      point -= 1
    }
    if digits == [UInt8(ascii: "0")] { return sign + "0.0" }
    return sign + place(digits, point: point)
  }

  /// `digits` with the decimal point after the first `point` of them.
  private static func place(_ digits: [UInt8], point: Int) -> String {
    func text(_ part: some Sequence<UInt8>) -> String { String(decoding: Array(part), as: UTF8.self) }
    let exponent = point - 1
    if exponent < -4 || exponent >= 16 {
      let mantissa = digits.count == 1 ? text(digits) : text(digits[..<1]) + "." + text(digits[1...])
      let size = String(abs(exponent))
      return mantissa + (exponent < 0 ? "e-" : "e+") + (size.utf8.count < 2 ? "0" : "") + size
    }
    if point <= 0 { return "0." + String(repeating: "0", count: -point) + text(digits) }
    if point >= digits.count {
      return text(digits) + String(repeating: "0", count: point - digits.count) + ".0"
    }
    return text(digits[..<point]) + "." + text(digits[point...])
  }

  /// 10 to a power from -15 to 15.
  static func power(_ exponent: Int) -> Double {
    var scale = 1.0
    for _ in 0..<min(abs(exponent), 15) { scale *= 10 }
    return exponent < 0 ? 1 / scale : scale
  }

  /// `number` · 10^`places`, from 0 to 15 of them, as the nearest integer; the even one of two.
  ///
  /// A product that is a half has been rounded to one: what it has lost decides.
  static func scaled(_ number: Double, places: Int) -> Double {
    let scale = power(places)
    let product = number * scale
    let lost = (-product).addingProduct(number, scale)
    guard product - product.rounded(.down) == 0.5, lost != 0 else { return product.rounded(.toNearestOrEven) }
    return product.rounded(lost > 0 ? .up : .down)
  }

  /// `round(number, places)`, from -15 to 15 of them.
  static func round(_ number: Double, places: Int) -> Double {
    guard places < 0 else {
      // From 2^52 on there is nothing behind the point, and a product may have no room.
      let product = scaled(number, places: places)
      return product.magnitude < 0x1p52 ? product / power(places) : number
    }
    let scale = power(-places)
    let quotient = number / scale
    guard quotient.magnitude < 0x1p52 else { return number }
    let half = quotient.rounded(.down) + 0.5
    // A quotient that is a half has been rounded to one.
    guard quotient == half, half * scale != number else { return quotient.rounded(.toNearestOrEven) * scale }
    return quotient.rounded(half * scale < number ? .up : .down) * scale
  }

  /// `round(number, places)` of an integer; nil beyond 64 bits.
  static func round(_ number: Int, places: Int) -> Int? {
    guard places < 0 else { return number }
    let scale = Int(power(-places))
    let rest = (number % scale + scale) % scale
    // The lower neighbour is even or odd by its multiple of the scale.
    let isOdd = (number / scale - (number < 0 && rest > 0 ? 1 : 0)) % 2 != 0
    let goesUp = rest > scale / 2 || rest == scale / 2 && isOdd
    let (sum, overflows) = number.addingReportingOverflow(goesUp ? scale - rest : -rest)
    return overflows ? nil : sum
  }

  /// As `json.dumps` writes it.
  static func jsonText(of value: Double) -> String {
    if value.isNaN { return "NaN" }
    if value.isInfinite { return value < 0 ? "-Infinity" : "Infinity" }
    return text(of: value)
  }

  /// `int(text)`: blanks around, a sign, digits with single `_` between them.
  static func integer(from text: String, radix: Int = 10) -> Int? {
    guard let bytes = unsigned(text) else { return nil }
    var value = 0
    for byte in bytes.digits {
      guard let digit = Hexadecimal.value(of: byte), Int(digit) < radix else { return nil }
      let (product, a) = value.multipliedReportingOverflow(by: radix)
      let (sum, b) = product.addingReportingOverflow(bytes.isNegative ? -Int(digit) : Int(digit))
      if a || b { return nil }
      value = sum
    }
    return value
  }

  /// `float(text)`.
  static func double(from text: String) -> Double? {
    guard let parts = unsigned(text) else { return nil }
    let word = String(decoding: parts.digits, as: UTF8.self)
    let value: Double?
    switch word.lowercased() {
    case "inf", "infinity": value = .infinity
    case "nan": value = .nan
    default:
      // Swift accepts more than Python (hexadecimal): only these characters pass.
      let isPlain = parts.digits.allSatisfy {
        ($0 >= 0x30 && $0 <= 0x39) || $0 == UInt8(ascii: ".") || $0 | 0x20 == UInt8(ascii: "e")
          || $0 == UInt8(ascii: "+") || $0 == UInt8(ascii: "-")
      }
      value = isPlain ? Double(word) : nil
    }
    return value.map { parts.isNegative ? -$0 : $0 }
  }

  private static func unsigned(_ text: String) -> (isNegative: Bool, digits: [UInt8])? {
    var bytes = Array(TextOperations.strip(text).utf8)
    var isNegative = false
    if let first = bytes.first, first == UInt8(ascii: "-") || first == UInt8(ascii: "+") {
      isNegative = first == UInt8(ascii: "-")
      bytes.removeFirst()
    }
    guard !bytes.isEmpty, bytes.first != UInt8(ascii: "_"), bytes.last != UInt8(ascii: "_") else {
      return nil
    }
    for (a, b) in zip(bytes, bytes.dropFirst()) where a == b && a == UInt8(ascii: "_") { return nil }
    return (isNegative, bytes.filter { $0 != UInt8(ascii: "_") })
  }
}
