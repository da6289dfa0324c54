// Numbers as text: ranges, multiples and constants as automata over decimal digits.

/// A finite decimal number: a sign, digits before the point without leading zeros ("0" alone), and digits after it
/// without trailing zeros.
struct Decimal: Hashable {
  var isNegative = false
  var whole: [UInt8]
  var fraction: [UInt8]

  /// Longer numbers are refused.
  static let digitLimit = 400

  /// - Parameter text: a JSON number.
  init?(_ text: String) {
    var rest = Array(text.utf8)[...]
    if rest.first == 0x2D {
      isNegative = true
      rest.removeFirst()
    }
    var digits: [UInt8] = []
    var point: Int?
    var exponent = 0
    while let byte = rest.popFirst() {
      switch byte {
      case 0x30...0x39: digits.append(byte - 0x30)
      case 0x2E: point = digits.count
      case 0x65, 0x45:
        guard let value = Int(String(decoding: rest, as: UTF8.self)) else { return nil }
        exponent = value
        rest = []
      default: return nil
      }
    }
    guard !digits.isEmpty, digits.count <= Self.digitLimit, abs(exponent) <= Self.digitLimit else {
      return nil
    }
    let place = (point ?? digits.count) + exponent
    if place <= 0 { digits = [UInt8](repeating: 0, count: 1 - place) + digits }
    let split = max(place, 1)
    if split > digits.count { digits += [UInt8](repeating: 0, count: split - digits.count) }
    whole = Array(digits[..<split])
    fraction = Array(digits[split...])
    while whole.count > 1, whole.first == 0 { whole.removeFirst() }
    while fraction.last == 0 { fraction.removeLast() }
    if isZero { isNegative = false }
  }

  var isZero: Bool { fraction.isEmpty && whole.allSatisfy { $0 == 0 } }

  var text: [UInt8] {
    (isNegative ? [0x2D] : []) + whole.map { $0 + 0x30 }
      + (fraction.isEmpty ? [] : [0x2E] + fraction.map { $0 + 0x30 })
  }
}

enum NumberLanguage {
  enum Relation {
    case less, atMost, atLeast, greater
  }

  private static let classOf = ByteDFA.classes { byte in
    (0x30...0x39).contains(byte) || byte == 0x2D || byte == 0x2E ? UInt32(byte) : 0
  }

  /// The shape of a number: sign, digits, point, digits; no leading zeros, no exponent, no negative zero.
  private struct Shape: ExploredState {
    var isNegative = false
    /// 0 before the first digit, 1 after a leading zero, 2 in other digits, 3 after the point, 4 in the fraction.
    var phase: UInt8 = 0
    var isZero = true

    /// In five bits.
    var bits: UInt64 { UInt64(phase) << 2 | (isNegative ? 2 : 0) | (isZero ? 1 : 0) }
    var hash: UInt64 { HashTable.mix(bits) }

    var isComplete: Bool { (phase == 1 || phase == 2 || phase == 4) && !(isNegative && isZero) }

    func step(_ byte: UInt8) -> Shape? {
      var next = self
      switch (byte, phase) {
      case (0x2D, 0) where !isNegative: next.isNegative = true
      case (0x2E, 1), (0x2E, 2): next.phase = 3
      case (0x30...0x39, 0): next.phase = byte == 0x30 ? 1 : 2
      case (0x30...0x39, 2): break
      case (0x30...0x39, 3), (0x30...0x39, 4): next.phase = 4
      default: return nil
      }
      if byte > 0x30, byte <= 0x39 { next.isZero = false }
      return next
    }
  }

  /// Two small counts beside the bits of a shape.
  private static func packed(_ a: Int, _ b: Int) -> UInt64 {
    UInt64(truncatingIfNeeded: a) << 8 | UInt64(truncatingIfNeeded: b) << 32
  }

  /// All decimal numbers; each value in all its spellings without exponent.
  static let all = Result { () throws(GrammarError) in
    try ByteDFA.explore(start: Shape(), classOf: classOf, accepts: { $0.isComplete }, step: { $0.step($1) })
      .minimized()
  }

  /// Those with nothing but zeros after the point.
  static let integers = Result { () throws(GrammarError) in
    try ByteDFA.explore(
      start: Shape(), classOf: classOf, accepts: { $0.isComplete },
      step: { shape, byte in shape.phase >= 3 && byte != 0x30 ? nil : shape.step(byte) }
    ).minimized()
  }

  /// Integers without a point.
  static let plainIntegers = Result { () throws(GrammarError) in try JSONText.regex("-?[1-9][0-9]*|0") }

  /// Integers of any length, and others of up to 15 digits: readers that keep numbers in double precision would take
  /// longer ones for their neighbours, perhaps across a bound.
  static let exact = Result { () throws(GrammarError) in
    struct State: ExploredState {
      var shape = Shape()
      var digits = 0

      var hash: UInt64 { HashTable.mix(shape.bits | NumberLanguage.packed(digits, 0)) }
    }
    return try ByteDFA.explore(
      start: State(), classOf: classOf, accepts: { $0.shape.isComplete },
      step: { state, byte in
        guard let shape = state.shape.step(byte) else { return nil }
        var next = State(shape: shape, digits: state.digits)
        if (0x30...0x39).contains(byte) { next.digits = min(state.digits + 1, 16) }
        return shape.phase >= 3 && next.digits > (shape.phase == 3 ? 14 : 15) ? nil : next
      }
    ).minimized()
  }

  /// No superfluous zeros: one spelling for each value.
  static let canonical = Result { () throws(GrammarError) in
    try JSONText.regex(#"-?(?:0|[1-9][0-9]*)(?:\.[0-9]*[1-9])?"#)
  }

  /// One spelling for each value that readers tell from its neighbours: equal items are equal texts.
  static let distinct = Result { () throws(GrammarError) in try canonical.get().intersection(exact.get()) }

  /// As `canonical`, or with `.0`.
  static let tidy = Result { () throws(GrammarError) in
    try JSONText.regex(#"-?(?:0|[1-9][0-9]*)(?:\.0|\.[0-9]*[1-9])?"#)
  }

  static func compared(_ relation: Relation, _ bound: Decimal) throws(GrammarError) -> ByteDFA {
    struct State: ExploredState {
      var shape = Shape()
      /// Digits so far, up to one more than the bound has.
      var digits = 0
      var fraction = 0
      /// Of the digits so far with those of the bound, place by place.
      var order = 0

      var hash: UInt64 {
        HashTable.mix(shape.bits | NumberLanguage.packed(digits, fraction) | UInt64(order + 1) << 5)
      }
    }
    let (whole, fraction) = (bound.whole, bound.fraction)
    /// The order of the magnitudes.
    func magnitude(_ state: State) -> Int {
      if state.digits != whole.count { return state.digits < whole.count ? -1 : 1 }
      return state.order == 0 && state.fraction < fraction.count ? -1 : state.order
    }
    func order(_ state: State) -> Int {
      if state.shape.isNegative != bound.isNegative { return state.shape.isNegative ? -1 : 1 }
      return bound.isNegative ? -magnitude(state) : magnitude(state)
    }
    return try ByteDFA.explore(
      start: State(), classOf: classOf,
      accepts: { state in
        guard state.shape.isComplete else { return false }
        switch relation {
        case .less: return order(state) < 0
        case .atMost: return order(state) <= 0
        case .atLeast: return order(state) >= 0
        case .greater: return order(state) > 0
        }
      },
      step: { state, byte in
        guard let shape = state.shape.step(byte) else { return nil }
        var next = state
        next.shape = shape
        guard (0x30...0x39).contains(byte) else { return next }
        let digit = byte - 0x30
        let wanted: UInt8
        if shape.phase <= 2 {
          wanted = state.digits < whole.count ? whole[state.digits] : 0
          next.digits = min(state.digits + 1, whole.count + 1)
        } else {
          wanted = state.fraction < fraction.count ? fraction[state.fraction] : 0
          next.fraction = min(state.fraction + 1, fraction.count)
        }
        if state.order == 0, digit != wanted { next.order = digit < wanted ? -1 : 1 }
        if next.digits > whole.count { next.order = 1 }
        return next
      }
    ).minimized()
  }

  /// Larger divisors, as integers after moving the point, are refused.
  static let largestDivisor = 4000

  /// Nil when the divisor is too large.
  static func multiples(of divisor: Decimal) throws(GrammarError) -> ByteDFA? {
    var value = 0
    for digit in divisor.whole + divisor.fraction {
      value = value * 10 + Int(digit)
      guard value <= largestDivisor else { return nil }
    }
    let places = divisor.fraction.count
    guard value > 0, places <= 20 else { return nil }
    struct State: ExploredState {
      var shape = Shape()
      var remainder = 0
      var fraction = 0

      var hash: UInt64 { HashTable.mix(shape.bits | NumberLanguage.packed(remainder, fraction)) }
    }
    return try ByteDFA.explore(
      start: State(), classOf: classOf,
      accepts: { state in
        guard state.shape.isComplete else { return false }
        var remainder = state.remainder
        for _ in state.fraction..<places { remainder = remainder * 10 % value }
        return remainder == 0
      },
      step: { state, byte in
        guard let shape = state.shape.step(byte) else { return nil }
        var next = state
        next.shape = shape
        guard (0x30...0x39).contains(byte) else { return next }
        if shape.phase >= 3 {
          if state.fraction == places { return byte == 0x30 ? next : nil }
          next.fraction += 1
        }
        next.remainder = (state.remainder * 10 + Int(byte - 0x30)) % value
        return next
      }
    ).minimized()
  }

  /// These values, each in all its spellings.
  static func values(_ values: [Decimal]) throws(GrammarError) -> ByteDFA {
    let texts = try ByteDFA.texts(values.map(\.text))
    struct State: ExploredState {
      var at: Int32 = 0
      var hasPoint = false
      /// A value is complete and only zeros follow: 1 after the point, 2 after a zero.
      var zeros: UInt8 = 0

      var hash: UInt64 {
        HashTable.mix(UInt64(UInt32(bitPattern: at)) << 8 | UInt64(zeros) << 1 | (hasPoint ? 1 : 0))
      }
    }
    return try ByteDFA.explore(
      start: State(), classOf: classOf,
      accepts: { $0.zeros == 2 || $0.at >= 0 && texts.accepting[Int($0.at)] },
      step: { state, byte in
        var next = State(at: -1, hasPoint: state.hasPoint || byte == 0x2E)
        let isComplete = state.at >= 0 && texts.accepting[Int(state.at)]
        if state.at >= 0 { next.at = texts.step(state.at, byte) }
        if state.zeros > 0 || isComplete && state.hasPoint {
          next.zeros = byte == 0x30 ? 2 : 0
        } else if isComplete, byte == 0x2E {
          next.zeros = 1
        }
        return next.at < 0 && next.zeros == 0 ? nil : next
      }
    ).minimized()
  }
}
