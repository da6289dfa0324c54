// Signatures with Ed25519 (RFC 8032). What is done with a secret does not depend on its bits: the same steps for each, and
// choices by masks.

/// A key that signs.
package struct Ed25519: Sendable {
  package let publicKey: [UInt8]
  private let secret: [UInt8]
  private let prefix: [UInt8]

  /// - Parameter seed: the private key of RFC 8032, 32 bytes; nil for another number of them.
  package init?(seed: [UInt8]) {
    guard seed.count == 32 else { return nil }
    let hash = SHA512.digest(seed)
    var secret = Array(hash[..<32])
    secret[0] &= 248
    secret[31] = secret[31] & 127 | 64
    (self.secret, prefix) = (secret, Array(hash[32...]))
    publicKey = Point.base.times(secret).encoded
  }

  /// 64 bytes.
  package func signature(of message: [UInt8]) -> [UInt8] {
    let nonce = Scalar.reduced(SHA512.digest(prefix + message))
    let point = Point.base.times(nonce.bytes).encoded
    let challenge = SHA512.digest(point + publicKey + message)
    let answer = Scalar.reduced(challenge).bytes
    return point + Scalar.sum(nonce, of: Scalar.reduced(secret), times: answer).bytes
  }

  /// Whether a signature of a message was made with the key's secret.
  package static func isValid(_ signature: [UInt8], of message: [UInt8], key: [UInt8]) -> Bool {
    guard signature.count == 64, let signer = Point(key) else { return false }
    let (point, answer) = (Array(signature[..<32]), Array(signature[32...]))
    // Another number for the same scalar would be a second signature.
    guard Scalar.reduced(answer).bytes == answer else { return false }
    let challenge = Scalar.reduced(SHA512.digest(point + key + message)).bytes
    return (Point.base.times(answer) + signer.negative.times(challenge)).encoded == point
  }
}

/// A number below the order of the base point, 2^252 + 27742317777372353535851937790883648493, in words of 64 bits.
private struct Scalar {
  var words: SIMD4<UInt64>

  private static let order = SIMD4<UInt64>(0x5812_631a_5cf5_d3ed, 0x14de_f9de_a2f7_9cd6, 0, 1 << 60)

  /// The remainder of a number of any length, its lowest byte first.
  static func reduced(_ bytes: [UInt8]) -> Scalar {
    sum(Scalar(words: .zero), of: Scalar(words: [1, 0, 0, 0]), times: bytes)
  }

  /// `first + scalar · factor`, where the factor's lowest byte is first.
  static func sum(_ first: Scalar, of scalar: Scalar, times factor: [UInt8]) -> Scalar {
    var result = Scalar(words: .zero)
    for byte in factor.reversed() {
      for bit in (0..<8).reversed() {
        result = result + result
        let mask = 0 &- UInt64(byte >> UInt8(bit) & 1)
        result = result + Scalar(words: scalar.words & SIMD4(repeating: mask))
      }
    }
    return result + first
  }

  static func + (a: Scalar, b: Scalar) -> Scalar {
    var (sum, rest) = (SIMD4<UInt64>.zero, SIMD4<UInt64>.zero)
    var (carry, borrow) = (UInt64(0), UInt64(0))
    for index in 0..<4 {
      let (half, first) = a.words[index].addingReportingOverflow(b.words[index])
      let (whole, second) = half.addingReportingOverflow(carry)
      (sum[index], carry) = (whole, (first ? 1 : 0) | (second ? 1 : 0))
      let (less, third) = whole.subtractingReportingOverflow(order[index])
      let (least, fourth) = less.subtractingReportingOverflow(borrow)
      (rest[index], borrow) = (least, (third ? 1 : 0) | (fourth ? 1 : 0))
    }
    let mask = SIMD4<UInt64>(repeating: 0 &- borrow)
    return Scalar(words: sum & mask | rest & ~mask)
  }

  var bytes: [UInt8] {
    (0..<32).map { UInt8(truncatingIfNeeded: words[$0 / 8] >> UInt64(8 * ($0 % 8))) }
  }
}

/// A number modulo 2^255 - 19 in sixteen limbs of sixteen bits, which may be larger or negative between two carries.
private struct Field {
  var limbs: SIMD16<Int64>

  static let zero = Field(limbs: .zero)
  static let one = Field(1)
  /// 2^255 - 19.
  private static let modulus: SIMD16<Int64> = {
    var limbs = SIMD16<Int64>(repeating: 0xFFFF)
    (limbs[0], limbs[15]) = (0xFFED, 0x7FFF)
    return limbs
  }()

  init(limbs: SIMD16<Int64>) { self.limbs = limbs }

  init(_ number: Int64) {
    limbs = .zero
    limbs[0] = number
    carry()
  }

  /// The number of 32 bytes without the highest bit.
  init(_ bytes: [UInt8]) {
    limbs = .zero
    for index in 0..<16 { limbs[index] = Int64(bytes[2 * index]) | Int64(bytes[2 * index + 1]) << 8 }
    limbs[15] &= 0x7FFF
  }

  private mutating func carry() {
    for index in 0..<16 {
      let over = limbs[index] >> 16
      limbs[index] -= over << 16
      // 2^256 is 38.
      if index < 15 { limbs[index + 1] += over } else { limbs[0] += 38 * over }
    }
  }

  static func + (a: Field, b: Field) -> Field { Field(limbs: a.limbs &+ b.limbs) }
  static func - (a: Field, b: Field) -> Field { Field(limbs: a.limbs &- b.limbs) }

  static func * (a: Field, b: Field) -> Field {
    var (low, high) = (SIMD16<Int64>.zero, SIMD16<Int64>.zero)
    for i in 0..<16 {
      for j in 0..<16 {
        let product = a.limbs[i] &* b.limbs[j]
        if i + j < 16 { low[i + j] &+= product } else { high[i + j - 16] &+= product }
      }
    }
    var result = Field(limbs: low &+ high &* 38)
    result.carry()
    result.carry()
    return result
  }

  /// The power whose exponent has the bits below `bits`, all of them but those of `zeros`.
  func power(bits: Int, zeros: Set<Int>) -> Field {
    var result = self
    for bit in (0..<bits - 1).reversed() {
      result = result * result
      if !zeros.contains(bit) { result = result * self }
    }
    return result
  }

  /// The power of 2^255 - 21.
  var inverse: Field { power(bits: 255, zeros: [2, 4]) }

  /// Its only bytes, the lowest first.
  var encoded: [UInt8] {
    var number = self
    for _ in 0..<3 { number.carry() }
    for _ in 0..<2 {
      var (less, borrow) = (SIMD16<Int64>.zero, Int64(0))
      for index in 0..<16 {
        let difference = number.limbs[index] - Self.modulus[index] - borrow
        borrow = difference >> 16 & 1
        less[index] = difference & 0xFFFF
      }
      let mask = SIMD16<Int64>(repeating: -borrow)
      number.limbs = number.limbs & mask | less & ~mask
    }
    return (0..<32).map { UInt8(truncatingIfNeeded: number.limbs[$0 / 2] >> Int64(8 * ($0 % 2))) }
  }

  static func == (a: Field, b: Field) -> Bool { a.encoded == b.encoded }
  var isOdd: Bool { encoded[0] & 1 == 1 }

  /// Exchanges both where the mask is all ones.
  static func swap(_ a: inout Field, _ b: inout Field, _ mask: Int64) {
    let both = (a.limbs ^ b.limbs) & SIMD16(repeating: mask)
    (a.limbs, b.limbs) = (a.limbs ^ both, b.limbs ^ both)
  }
}

/// A point of -x² + y² = 1 + d x² y² as (x z, y z, z, x y z).
private struct Point {
  var x, y, z, t: Field

  private static let d = Field(-121_665) * Field(121_666).inverse
  private static let rootOfMinusOne = Field(2).power(bits: 253, zeros: [2])
  private static let neutral = Point(x: .zero, y: .one, z: .one, t: .zero)
  /// The one with y = 4/5 and an even x.
  static let base = Point([0x58] + [UInt8](repeating: 0x66, count: 31)) ?? neutral

  init(x: Field, y: Field, z: Field, t: Field) { (self.x, self.y, self.z, self.t) = (x, y, z, t) }

  /// Nil for bytes that are no point, or not its only ones.
  init?(_ bytes: [UInt8]) {
    guard bytes.count == 32 else { return nil }
    let isOdd = bytes[31] >> 7 == 1
    y = Field(bytes)
    guard y.encoded == Array(bytes[..<31]) + [bytes[31] & 127] else { return nil }
    let square = y * y
    let (u, v) = (square - .one, Self.d * square + .one)
    let cube = v * v * v
    x = u * cube * (u * cube * cube * v).power(bits: 252, zeros: [1])
    if !(v * x * x == u) { x = x * Self.rootOfMinusOne }
    guard v * x * x == u, !(isOdd && x == .zero) else { return nil }
    if x.isOdd != isOdd { x = .zero - x }
    z = .one
    t = x * y
  }

  var negative: Point { Point(x: .zero - x, y: y, z: z, t: .zero - t) }

  /// Holds for all pairs of points, equal ones too (Hisil et al., 2008).
  static func + (p: Point, q: Point) -> Point {
    let a = (p.y - p.x) * (q.y - q.x)
    let b = (p.y + p.x) * (q.y + q.x)
    let c = p.t * q.t * (d + d)
    let e = p.z * (q.z + q.z)
    return Point(x: (b - a) * (e - c), y: (e + c) * (b + a), z: (e - c) * (e + c), t: (b - a) * (b + a))
  }

  /// The multiple by a number of 32 bytes, its lowest first.
  func times(_ factor: [UInt8]) -> Point {
    var (result, next) = (Self.neutral, self)
    for bit in (0..<256).reversed() {
      let mask = 0 &- Int64(factor[bit / 8] >> UInt8(bit % 8) & 1)
      Self.swap(&result, &next, mask)
      next = next + result
      result = result + result
      Self.swap(&result, &next, mask)
    }
    return result
  }

  private static func swap(_ p: inout Point, _ q: inout Point, _ mask: Int64) {
    Field.swap(&p.x, &q.x, mask)
    Field.swap(&p.y, &q.y, mask)
    Field.swap(&p.z, &q.z, mask)
    Field.swap(&p.t, &q.t, mask)
  }

  var encoded: [UInt8] {
    let inverse = z.inverse
    var bytes = (y * inverse).encoded
    if (x * inverse).isOdd { bytes[31] |= 128 }
    return bytes
  }
}
