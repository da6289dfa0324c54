// Floats rounded to MLX's quantized formats, bit for bit as `mx.quantize` of MLX 0.32 does on a CPU.
//
// Affine: the end of a group's range that is farther from 0 is hit exactly, and so is 0. Numbers are rounded with the scale
// and the bias as they are computed, and the two are stored in the weights' own type. Products are never fused with sums:
// that would change bits.

/// Rounds the groups of one row after the other.
package struct Quantizer: Sendable {
  package let quantization: Quantization
  /// The type of scales and biases, and of numbers on their way in the floating modes.
  let dtype: DType
  /// Mean squares of what each column is multiplied with: scales and biases are then searched for the least squared error
  /// of products. Empty for MLX's own scales and biases.
  let importance: [Float]

  /// - Parameter dtype: F32, F16 or BF16.
  package init(_ quantization: Quantization, dtype: DType, importance: [Float] = []) {
    (self.quantization, self.dtype, self.importance) = (quantization, dtype, importance)
  }

  /// Rounds a row whose length is a multiple of the group size and of 32.
  ///
  /// - Parameters:
  ///   - quanta: room for a byte per column.
  ///   - biases: written in affine mode alone.
  /// - Returns: the sum of the numbers' squares, and of those of what rounding changed.
  func round(
    _ row: UnsafePointer<Float>, _ columns: Int, _ quanta: UnsafeMutablePointer<UInt8>,
    packed: UnsafeMutableRawPointer, scales: UnsafeMutableRawPointer, biases: UnsafeMutableRawPointer
  ) -> SIMD2<Double> {
    let size = quantization.groupSize
    var sums = SIMD2<Double>()
    for group in 0..<columns / size {
      let (values, codes) = (row + group * size, quanta + group * size)
      switch quantization.mode {
      case .affine:
        var line = Self.affine(values, size, quantization.bits)
        if !importance.isEmpty { line = searched(values, line, at: group * size) }
        Self.codes(values, size, line, Float(1 << quantization.bits - 1), into: codes)
        line = stored(line)
        dtype.store(line.scale, scales, group)
        dtype.store(line.bias, biases, group)
        sums += Self.misses(values, codes, size, line)
      case .nvfp4:
        let scale = Self.e4m3(dtype.rounded(Self.magnitude(values, size) / 6))
        scales.storeBytes(of: scale, toByteOffset: group, as: UInt8.self)
        sums += roundElements(values, codes, Reference.e4m3(Int(scale)))
      default:
        let largest: Float = quantization.bits == 4 ? 6 : 448
        let power = Self.exponent(dtype.rounded(Self.magnitude(values, size) / largest)) + 127
        scales.storeBytes(of: UInt8(power), toByteOffset: group, as: UInt8.self)
        sums += roundElements(values, codes, Reference.powerOfTwo(power))
      }
    }
    packStream(quanta, columns, quantization.bits, packed)
    return sums
  }

  /// Whether all numbers are finite; else the place of the first that is not.
  static func firstBroken(_ row: UnsafePointer<Float>, _ columns: Int) -> Int? {
    var sum = SIMD8<Float>()
    let raw = UnsafeRawPointer(row)
    for i in stride(from: 0, to: columns / 8 * 8, by: 8) {
      sum += raw.loadUnaligned(fromByteOffset: 4 * i, as: SIMD8<Float>.self) * 0
    }
    let rest = (columns / 8 * 8..<columns).allSatisfy { row[$0].isFinite }
    return sum.sum() == 0 && rest ? nil : (0..<columns).first { !row[$0].isFinite }
  }

  // MARK: Affine

  struct Line { var scale, bias: Float }

  private static func load(_ values: UnsafePointer<Float>, _ at: Int) -> SIMD8<Float> {
    UnsafeRawPointer(values + at).loadUnaligned(as: SIMD8<Float>.self)
  }

  private static func range(_ values: UnsafePointer<Float>, _ size: Int) -> (low: Float, high: Float) {
    var (low, high) = (load(values, 0), load(values, 0))
    for i in stride(from: 8, to: size, by: 8) {
      let next = load(values, i)
      low.replace(with: next, where: next .< low)
      high.replace(with: next, where: next .> high)
    }
    return (low.min(), high.max())
  }

  /// MLX's scale and bias of a group.
  static func affine(_ values: UnsafePointer<Float>, _ size: Int, _ bits: Int) -> Line {
    let (low, high) = range(values, size)
    var scale = max((high - low) / Float(1 << bits - 1), 1e-7)
    let isHigh = !(abs(low) > abs(high))
    if isHigh { scale = -scale }
    let edge = isHigh ? high : low
    let steps = (edge / scale).rounded(.toNearestOrEven)
    return steps == 0 ? Line(scale: scale, bias: 0) : Line(scale: edge / steps, bias: edge)
  }

  /// Adding it to a number from 0 to 255 leaves the nearest integer, ties to even, in the lowest byte.
  private static let shift: Float = 0x1p23

  private static func steps(_ values: SIMD8<Float>, _ line: Line, _ most: Float) -> SIMD8<Float> {
    let steps = (values - line.bias) / line.scale
    return steps.clamped(lowerBound: SIMD8(repeating: 0), upperBound: SIMD8(repeating: most)) + shift
  }

  private static func codes(
    _ values: UnsafePointer<Float>, _ size: Int, _ line: Line, _ most: Float,
    into codes: UnsafeMutablePointer<UInt8>
  ) {
    for i in stride(from: 0, to: size, by: 8) {
      let shifted = unsafeBitCast(steps(load(values, i), line, most), to: SIMD8<UInt32>.self)
      UnsafeMutableRawPointer(codes + i).storeBytes(
        of: SIMD8<UInt8>(truncatingIfNeeded: shifted), as: SIMD8<UInt8>.self)
    }
  }

  private static func misses(
    _ values: UnsafePointer<Float>, _ codes: UnsafePointer<UInt8>, _ size: Int, _ line: Line
  ) -> SIMD2<Double> {
    var (squares, misses) = (SIMD8<Float>(), SIMD8<Float>())
    for i in stride(from: 0, to: size, by: 8) {
      let q = SIMD8<Float>(UnsafeRawPointer(codes + i).loadUnaligned(as: SIMD8<UInt8>.self))
      let value = load(values, i)
      let miss = q * line.scale + line.bias - value
      squares += value * value
      misses += miss * miss
    }
    let sums = SIMD2(Double(squares.sum()), Double(misses.sum()))
    guard !sums.x.isFinite || !sums.y.isFinite else { return sums }
    // Squares of large numbers have no room in a float32.
    return (0..<size).reduce(into: SIMD2()) { sums, i in
      let miss = Double(codes[i]) * Double(line.scale) + Double(line.bias) - Double(values[i])
      sums += SIMD2(Double(values[i]) * Double(values[i]), miss * miss)
    }
  }

  // MARK: Floating

  private static let fourBits = (0..<16).map(Reference.e2m1)
  private static let eightBits = (0..<256).map(Reference.e4m3)

  /// The elements of a group that is multiplied with a factor; with 0 all are 0.
  private func roundElements(
    _ values: UnsafePointer<Float>, _ codes: UnsafeMutablePointer<UInt8>, _ factor: Float
  ) -> SIMD2<Double> {
    let table = quantization.bits == 4 ? Self.fourBits : Self.eightBits
    var sums = SIMD2<Double>()
    for i in 0..<quantization.groupSize {
      let value = factor == 0 ? 0 : dtype.rounded(values[i] / factor)
      codes[i] = quantization.bits == 4 ? e2m1(value) : Self.e4m3(value)
      let miss = Double(factor) * Double(table[Int(codes[i])]) - Double(values[i])
      sums += SIMD2(Double(values[i]) * Double(values[i]), miss * miss)
    }
    return sums
  }

  private static func magnitude(_ values: UnsafePointer<Float>, _ size: Int) -> Float {
    let (low, high) = range(values, size)
    return max(abs(low), abs(high))
  }

  /// Of the least power of two that a ratio is not above; 0 for 0.
  private static func exponent(_ ratio: Float) -> Int {
    guard ratio > 0 else { return 0 }
    return min(127, max(-127, Int(ratio.exponent) + (ratio.significand > 1 ? 1 : 0)))
  }

  /// The nearest element, of two the one nearer to 0; there is no negative 0.
  private func e2m1(_ value: Float) -> UInt8 {
    let size = abs(value)
    if size > 8 { return farE2M1(value) }
    // Sums of comparisons have no branches, which would be guessed wrong half of the time.
    var code: UInt8 = size > 0.25 ? 1 : 0
    code += size > 0.75 ? 1 : 0
    code += size > 1.25 ? 1 : 0
    code += size > 1.75 ? 1 : 0
    code += size > 2.5 ? 1 : 0
    code += size > 3.5 ? 1 : 0
    code += size > 5 ? 1 : 0
    return value < 0 && code > 0 ? code | 8 : code
  }

  /// The same far above the largest element, where distances in the type of the weights are MLX's answer: of equal ones the
  /// first. Only nvfp4 comes here, for weights above 2,688.
  private func farE2M1(_ value: Float) -> UInt8 {
    let distances = Self.fourBits.map { dtype.rounded(abs(dtype.rounded(value - $0))) }
    return UInt8(distances.indices.min { distances[$0] < distances[$1] } ?? 0)
  }

  /// The nearest element, ties to even; above the largest it is the largest.
  static func e4m3(_ value: Float) -> UInt8 {
    let sign = UInt8(truncatingIfNeeded: value.bitPattern >> 24) & 0x80
    let magnitude = value.bitPattern & 0x7FFF_FFFF
    if magnitude >= Float(464).bitPattern { return sign | 0x7E }
    // Below 2⁻⁶: a sum with 2¹⁴ has the last place that subnormals have.
    if magnitude < Float(0x1p-6).bitPattern {
      let sum = (Float(bitPattern: magnitude) + 0x1p14).bitPattern
      return sign | UInt8(truncatingIfNeeded: sum &- Float(0x1p14).bitPattern)
    }
    let rounded = magnitude &- 120 << 23 &+ 0x7FFFF &+ (magnitude >> 20 & 1)
    return sign | UInt8(truncatingIfNeeded: rounded >> 20)
  }

  // MARK: Search

  /// How many scales are tried, each a twentieth of the range's less than the one before.
  private static let scales = 6

  /// A line with the least weighted squared error of those that were tried, MLX's own among them: smaller scales from both ends
  /// of the range, and for each the least squares through the codes that it gives.
  private func searched(_ values: UnsafePointer<Float>, _ own: Line, at column: Int) -> Line {
    let (size, most) = (quantization.groupSize, Float(1 << quantization.bits - 1))
    return importance.withUnsafeBufferPointer { all in
      guard let base = all.baseAddress else { return own }
      let weights = base + column
      var best = (line: stored(own), error: Float.infinity)
      func consider(_ line: Line) -> Line {
        // What is stored is what products see: codes are chosen for it.
        let line = stored(line)
        guard line.scale != 0, line.scale.isFinite, line.bias.isFinite else { return own }
        let (error, better) = Self.fit(values, weights, size, line, most)
        if error < best.error { best = (line, error) }
        return better
      }
      _ = consider(own)
      let (low, high) = Self.range(values, size)
      for step in 0..<Self.scales {
        let scale = (high - low) / most * (1 - Float(step) / 20)
        guard scale > 1e-7 else { break }
        _ = consider(consider(Line(scale: scale, bias: low)))
        if step > 0 { _ = consider(consider(Line(scale: -scale, bias: high))) }
      }
      _ = consider(consider(best.line))
      return best.line
    }
  }

  private func stored(_ line: Line) -> Line {
    Line(scale: dtype.rounded(line.scale), bias: dtype.rounded(line.bias))
  }

  /// The weighted squared error of a line, and the line of the least one for the same codes.
  private static func fit(
    _ values: UnsafePointer<Float>, _ weights: UnsafePointer<Float>, _ size: Int, _ line: Line, _ most: Float
  ) -> (error: Float, better: Line) {
    var (error, w, wq, wqq) = (SIMD8<Float>(), SIMD8<Float>(), SIMD8<Float>(), SIMD8<Float>())
    var (wx, wqx) = (SIMD8<Float>(), SIMD8<Float>())
    let inverse = 1 / line.scale
    let (none, all) = (SIMD8<Float>(repeating: 0), SIMD8<Float>(repeating: most))
    for i in stride(from: 0, to: size, by: 8) {
      let (x, weight) = (load(values, i), load(weights, i))
      let q = ((x - line.bias) * inverse).clamped(lowerBound: none, upperBound: all) + shift - shift
      let miss = q * line.scale + line.bias - x
      error += weight * miss * miss
      w += weight
      wq += weight * q
      wqq += weight * q * q
      wx += weight * x
      wqx += weight * q * x
    }
    let (a, b, c, d, e) = (wqq.sum(), wq.sum(), w.sum(), wqx.sum(), wx.sum())
    let determinant = a * c - b * b
    guard determinant > 1e-12 * a * c else { return (error.sum(), line) }
    return (error.sum(), Line(scale: (d * c - b * e) / determinant, bias: (a * e - b * d) / determinant))
  }
}

extension DType {
  /// The nearest number of the type, ties to even; float32 as it is.
  func rounded(_ value: Float) -> Float {
    switch self {
    case .f16: float(f16: halfBits(value))
    case .bf16: float(bf16: Self.brainBits(value))
    default: value
    }
  }

  /// The nearest bfloat16 of a finite number.
  private static func brainBits(_ value: Float) -> UInt16 {
    let bits = value.bitPattern
    guard value.isFinite else { return UInt16(truncatingIfNeeded: bits >> 16) | (value.isNaN ? 0x40 : 0) }
    return UInt16(truncatingIfNeeded: (bits &+ 0x7FFF &+ (bits >> 16 & 1)) >> 16)
  }

  /// Stores element `index` of an array of the type, which is a float.
  func store(_ value: Float, _ base: UnsafeMutableRawPointer, _ index: Int) {
    switch self {
    case .f16: base.storeBytes(of: halfBits(value), toByteOffset: 2 * index, as: UInt16.self)
    case .bf16: base.storeBytes(of: Self.brainBits(value), toByteOffset: 2 * index, as: UInt16.self)
    default: base.storeBytes(of: value, toByteOffset: 4 * index, as: Float.self)
    }
  }
}
