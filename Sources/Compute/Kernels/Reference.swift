// Scalar twins of all kernels, written to be read: the oracle of the tests, and what `useReference` runs.
//
// Sums run in float64, so the result is the exact value rounded once and a fast kernel's error is its own.

enum Reference {
  static func unpack(
    packed: UnsafeRawPointer, scales: UnsafeRawPointer, biases: UnsafeRawPointer, scaleFormat: Int,
    bits: Int, groupSize: Int, count: Int, out: UnsafeMutablePointer<Float>
  ) {
    for i in 0..<count {
      let scale = element(scales, scaleFormat, i / groupSize)
      let bias = element(biases, scaleFormat, i / groupSize)
      out[i] = Float(Double(scale) * Double(quantum(packed, bits, i)) + Double(bias))
    }
  }

  static func unpackFloating(
    packed: UnsafeRawPointer, scales: UnsafeRawPointer, mode: Int, count: Int,
    out: UnsafeMutablePointer<Float>
  ) {
    let bits = mode == FloatingMode.mxfp8 ? 8 : 4
    let groupSize = mode == FloatingMode.nvfp4 ? 16 : 32
    for i in 0..<count {
      let byte = Int(scales.load(fromByteOffset: i / groupSize, as: UInt8.self))
      let scale = mode == FloatingMode.nvfp4 ? e4m3(byte) : powerOfTwo(byte)
      let q = quantum(packed, bits, i)
      out[i] = scale * (bits == 4 ? e2m1(q) : e4m3(q))
    }
  }

  /// Sign, two exponent bits, one mantissa bit.
  static func e2m1(_ code: Int) -> Float {
    let magnitudes: [Float] = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
    return code & 8 == 0 ? magnitudes[code & 7] : -magnitudes[code & 7]
  }

  /// Sign, four exponent bits with bias 7, three mantissa bits; the two NaN codes read as ±480, as in MLX.
  static func e4m3(_ code: Int) -> Float {
    let (exponent, mantissa) = (code >> 3 & 15, Float(code & 7))
    let magnitude =
      exponent == 0
      ? mantissa * 0x1p-9 : (1 + mantissa / 8) * Float(sign: .plus, exponent: exponent - 7, significand: 1)
    return code & 0x80 == 0 ? magnitude : -magnitude
  }

  /// E8M0: 2^(code - 127), the smallest of which is subnormal.
  static func powerOfTwo(_ code: Int) -> Float {
    code == 0 ? 0x1p-127 : Float(bitPattern: UInt32(code) << 23)
  }

  /// Element i of a row's little-endian bit stream: bits `i · bits ..< (i + 1) · bits`, lowest first.
  static func quantum(_ packed: UnsafeRawPointer, _ bits: Int, _ index: Int) -> Int {
    let (byte, shift) = (index * bits / 8, index * bits % 8)
    var value = Int(packed.load(fromByteOffset: byte, as: UInt8.self)) >> shift
    if shift + bits > 8 { value |= Int(packed.load(fromByteOffset: byte + 1, as: UInt8.self)) << (8 - shift) }
    return value & (1 << bits - 1)
  }

  /// Element i of an unaligned array of the given format.
  static func element(_ base: UnsafeRawPointer, _ format: Int, _ index: Int) -> Float {
    switch format {
    case FloatFormat.f16: float(f16: base.loadUnaligned(fromByteOffset: 2 * index, as: UInt16.self))
    case FloatFormat.bf16: float(bf16: base.loadUnaligned(fromByteOffset: 2 * index, as: UInt16.self))
    default: base.loadUnaligned(fromByteOffset: 4 * index, as: Float.self)
    }
  }

  static func widen(source: UnsafeRawPointer, format: Int, count: Int, out: UnsafeMutablePointer<Float>) {
    for i in 0..<count { out[i] = element(source, format, i) }
  }

  static func multiply(
    weights: UnsafeRawPointer, rowBytes: Int, weightRows: Int, x: UnsafePointer<Float>, xStride: Int,
    xRows: Int, columns: Int, y: UnsafeMutablePointer<Float>, yStride: Int
  ) {
    for r in 0..<xRows {
      for o in 0..<weightRows {
        var sum = 0.0
        for c in 0..<columns {
          sum += Double(element(weights + o * rowBytes, FloatFormat.f32, c)) * Double(x[r * xStride + c])
        }
        y[r * yStride + o] = Float(sum)
      }
    }
  }

  static func scores(
    queries: UnsafePointer<Float>, queryStride: Int, queryRows: Int, keys: UnsafePointer<Float>,
    headDim: Int, out: UnsafeMutablePointer<Float>
  ) {
    for r in 0..<queryRows {
      for j in 0..<KVCache.blockTokens {
        var sum = 0.0
        for d in 0..<headDim {
          sum += Double(queries[r * queryStride + d]) * Double(keys[d * KVCache.blockTokens + j])
        }
        out[r * KVCache.blockTokens + j] = Float(sum)
      }
    }
  }

  static func softmaxBlock(
    scores: UnsafeMutablePointer<Float>, from: Int, to: Int, state: UnsafeMutablePointer<Float>
  ) -> Float {
    var maximum = state[0]
    for j in from..<to { maximum = max(maximum, scores[j]) }
    let factor = Float(exponential(Double(state[0]) - Double(maximum)))
    var sum = Double(state[1]) * Double(factor)
    for j in from..<to {
      scores[j] = Float(exponential(Double(scores[j]) - Double(maximum)))
      sum += Double(scores[j])
    }
    state[0] = maximum
    state[1] = Float(sum)
    return factor
  }

  static func accumulate(
    weights: UnsafePointer<Float>, rows: Int, from: Int, to: Int, values: UnsafePointer<Float>, headDim: Int,
    factors: UnsafePointer<Float>, out: UnsafeMutablePointer<Float>
  ) {
    for r in 0..<rows {
      for d in 0..<headDim {
        var sum = Double(factors[r]) * Double(out[r * headDim + d])
        for j in from..<to { sum += Double(weights[32 * r + j]) * Double(values[j * headDim + d]) }
        out[r * headDim + d] = Float(sum)
      }
    }
  }

  static func rmsNorm(
    x: UnsafePointer<Float>, gain: UnsafePointer<Float>, epsilon: Float, columns: Int,
    out: UnsafeMutablePointer<Float>
  ) {
    var squares = 0.0
    for c in 0..<columns { squares += Double(x[c]) * Double(x[c]) }
    let factor = 1 / (squares / Double(columns) + Double(epsilon)).squareRoot()
    for c in 0..<columns { out[c] = Float(Double(x[c]) * factor * Double(gain[c])) }
  }

  static func rotate(
    x: UnsafeMutablePointer<Float>, cosines: UnsafePointer<Float>, sines: UnsafePointer<Float>, half: Int
  ) {
    for i in 0..<half {
      let a = Double(x[i])
      let b = Double(x[i + half])
      x[i] = Float(a * Double(cosines[i]) - b * Double(sines[i]))
      x[i + half] = Float(b * Double(cosines[i]) + a * Double(sines[i]))
    }
  }

  static func gatedSilu(
    gate: UnsafePointer<Float>, up: UnsafePointer<Float>, count: Int, out: UnsafeMutablePointer<Float>
  ) {
    for i in 0..<count {
      let g = Double(gate[i])
      out[i] = Float(g / (1 + exponential(-g)) * Double(up[i]))
    }
  }

  static func gatedGELU(
    gate: UnsafePointer<Float>, up: UnsafePointer<Float>, count: Int, out: UnsafeMutablePointer<Float>
  ) {
    for i in 0..<count {
      let g = Double(gate[i])
      let inner = (2 / Double.pi).squareRoot() * (g + 0.044715 * g * g * g)
      // (1 + tanh(y)) / 2 = 1 / (1 + e^-2y)
      out[i] = Float(g / (1 + exponential(-2 * inner)) * Double(up[i]))
    }
  }

  static func add(y: UnsafePointer<Float>, count: Int, x: UnsafeMutablePointer<Float>) {
    for i in 0..<count { x[i] += y[i] }
  }

  static func scale(factor: Float, count: Int, x: UnsafeMutablePointer<Float>) {
    for i in 0..<count { x[i] *= factor }
  }

  static func softcap(cap: Float, count: Int, x: UnsafeMutablePointer<Float>) {
    for i in 0..<count {
      // tanh(y) = 2 / (1 + e^-2y) - 1
      x[i] = Float(Double(cap) * (2 / (1 + exponential(-2 * Double(x[i]) / Double(cap))) - 1))
    }
  }
}
