// Scalar twins of all kernels, written to be read: the oracle of the tests, and what `useReference` runs.
//
// Sums run in float64, so the result is the exact value rounded once and a fast kernel's error is its own.

import KernelTypes

enum Reference {
  static func unpack(_ weights: QuantizedRows, into y: Output) {
    for r in 0..<weights.count {
      let row = weights.rows(r..<r + 1)
      for i in 0..<row.columns {
        let scale = element(row.groups.scales, row.groups.format, i / row.groups.size)
        let bias = element(row.groups.biases, row.groups.format, i / row.groups.size)
        let q = quantum(row.packed, row.bits, i)
        y.base[r * y.stride + i] = Float(Double(scale) * Double(q) + Double(bias))
      }
    }
  }

  static func unpackFloating(_ weights: FloatingRows, into y: Output) {
    for r in 0..<weights.count {
      let row = weights.rows(r..<r + 1)
      for i in 0..<row.columns {
        let q = quantum(row.packed, row.mode.bits, i)
        let element =
          row.mode == .table ? element(row.table, .f32, q) : row.mode.bits == 4 ? e2m1(q) : e4m3(q)
        y.base[r * y.stride + i] = scale(row, i / row.mode.groupSize) * element
      }
    }
  }

  /// The scale of a group of the first row.
  static func scale(_ weights: FloatingRows, _ group: Int) -> Float {
    if weights.mode.hasFloatScales { return element(weights.scales, .f32, group >> weights.scaleShift) }
    let code = Int(weights.scales.load(fromByteOffset: group, as: UInt8.self))
    return weights.mode == .nvfp4 ? e4m3(code) : powerOfTwo(code)
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
  static func element(_ base: UnsafeRawPointer, _ format: FloatFormat, _ index: Int) -> Float {
    switch format {
    case .f32: base.loadUnaligned(fromByteOffset: 4 * index, as: Float.self)
    case .f16: float(f16: base.loadUnaligned(fromByteOffset: 2 * index, as: UInt16.self))
    case .bf16: float(bf16: base.loadUnaligned(fromByteOffset: 2 * index, as: UInt16.self))
    }
  }

  static func widen(
    _ source: UnsafeRawPointer, _ format: FloatFormat, _ count: Int, into out: UnsafeMutablePointer<Float>
  ) {
    for i in 0..<count { out[i] = element(source, format, i) }
  }

  static func multiply(_ weights: FloatRows, _ x: Activations, into y: Output) {
    for r in 0..<x.count {
      for o in 0..<weights.count {
        let row = weights.base + o * weights.rowBytes
        var sum = 0.0
        for c in 0..<weights.columns {
          sum += Double(element(row, weights.format, c)) * Double(x.base[r * x.stride + c])
        }
        y.base[r * y.stride + o] = Float(sum)
      }
    }
  }

  static func scores(_ queries: Activations, _ keys: FloatBlock, into out: UnsafeMutablePointer<Float>) {
    for r in 0..<queries.count {
      for j in 0..<blockTokens {
        var sum = 0.0
        for d in 0..<keys.headDim {
          sum += Double(queries.base[r * queries.stride + d]) * Double(keys.base[d * blockTokens + j])
        }
        out[r * blockTokens + j] = Float(sum)
      }
    }
  }

  static func softmaxBlock(
    _ scores: UnsafeMutablePointer<Float>, _ seen: Range<Int>, _ state: UnsafeMutablePointer<Float>
  ) -> Float {
    var maximum = state[0]
    for j in seen { maximum = max(maximum, scores[j]) }
    let factor = Float(exponential(Double(state[0]) - Double(maximum)))
    var sum = Double(state[1]) * Double(factor)
    for j in seen {
      scores[j] = Float(exponential(Double(scores[j]) - Double(maximum)))
      sum += Double(scores[j])
    }
    state[0] = maximum
    state[1] = Float(sum)
    return factor
  }

  static func accumulate(_ rows: AttentionRows, _ values: FloatBlock) {
    let headDim = values.headDim
    for r in 0..<rows.count {
      for d in 0..<headDim {
        var sum = Double(rows.factors[r]) * Double(rows.sums[r * headDim + d])
        for j in rows.seen {
          sum += Double(rows.scores[blockTokens * r + j]) * Double(values.base[j * headDim + d])
        }
        rows.sums[r * headDim + d] = Float(sum)
      }
    }
  }

  static func attendShortly(_ text: ShortText, into out: Output) {
    let headDim = text.headDim
    for i in 0..<text.group * text.rows {
      let (head, r) = (i / text.rows, i % text.rows)
      let query = text.queries + r * text.stride + head * headDim
      let scores = (0..<text.tokens).map { j in
        (0..<headDim).reduce(0.0) { $0 + Double(query[$1]) * Double(text.keys[j * text.stride + $1]) }
          * Double(text.scale)
      }
      let maximum = scores.max() ?? 0
      let weights = scores.map { exponential($0 - maximum) }
      let total = weights.reduce(0, +)
      for d in 0..<headDim {
        let sum = weights.indices.reduce(0.0) {
          $0 + weights[$1] * Double(text.values[$1 * text.stride + d])
        }
        out.base[r * out.stride + head * headDim + d] = Float(sum / total)
      }
    }
  }

  static func rmsNorm(
    _ x: UnsafePointer<Float>, _ gain: UnsafePointer<Float>, _ epsilon: Float, _ columns: Int,
    into out: UnsafeMutablePointer<Float>
  ) {
    var squares = 0.0
    for c in 0..<columns { squares += Double(x[c]) * Double(x[c]) }
    let factor = 1 / (squares / Double(columns) + Double(epsilon)).squareRoot()
    for c in 0..<columns { out[c] = Float(Double(x[c]) * factor * Double(gain[c])) }
  }

  static func rotate(
    _ x: UnsafeMutablePointer<Float>, _ cosines: UnsafePointer<Float>, _ sines: UnsafePointer<Float>,
    _ half: Int
  ) {
    for i in 0..<half {
      let a = Double(x[i])
      let b = Double(x[i + half])
      x[i] = Float(a * Double(cosines[i]) - b * Double(sines[i]))
      x[i + half] = Float(b * Double(cosines[i]) + a * Double(sines[i]))
    }
  }

  static func gatedSilu(
    _ gate: UnsafePointer<Float>, _ up: UnsafePointer<Float>, _ count: Int,
    into out: UnsafeMutablePointer<Float>
  ) {
    for i in 0..<count {
      let g = Double(gate[i])
      out[i] = Float(g / (1 + exponential(-g)) * Double(up[i]))
    }
  }

  static func gatedGELU(
    _ gate: UnsafePointer<Float>, _ up: UnsafePointer<Float>, _ count: Int,
    into out: UnsafeMutablePointer<Float>
  ) {
    for i in 0..<count {
      let g = Double(gate[i])
      let inner = (2 / Double.pi).squareRoot() * (g + 0.044715 * g * g * g)
      // (1 + tanh(y)) / 2 = 1 / (1 + e^-2y)
      out[i] = Float(g / (1 + exponential(-2 * inner)) * Double(up[i]))
    }
  }

  static func erfGELU(_ count: Int, _ x: UnsafeMutablePointer<Float>) {
    for i in 0..<count {
      let value = Double(x[i])
      x[i] = Float(value * complementaryError(-value / 2.0.squareRoot()) / 2)
    }
  }

  static func add(_ y: UnsafePointer<Float>, _ count: Int, to x: UnsafeMutablePointer<Float>) {
    for i in 0..<count { x[i] += y[i] }
  }

  static func scale(_ factor: Float, _ count: Int, _ x: UnsafeMutablePointer<Float>) {
    for i in 0..<count { x[i] *= factor }
  }

  static func softcap(_ cap: Float, _ count: Int, _ x: UnsafeMutablePointer<Float>) {
    for i in 0..<count {
      // tanh(y) = 2 / (1 + e^-2y) - 1
      x[i] = Float(Double(cap) * (2 / (1 + exponential(-2 * Double(x[i]) / Double(cap))) - 1))
    }
  }
}
