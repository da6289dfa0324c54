// Portable kernels over single rows: norm, rotation, activations, scaling and capping.

import KernelTypes

extension Portable {
  static func rmsNorm(
    _ x: UnsafePointer<Float>, _ gain: UnsafePointer<Float>, _ epsilon: Float, _ columns: Int,
    into out: UnsafeMutablePointer<Float>
  ) {
    // Four sums: one would wait for its own last addition.
    var (t0, t1, t2, t3) = (Lanes.zero, Lanes.zero, Lanes.zero, Lanes.zero)
    @inline(__always)
    func square(_ v: Lanes) -> Lanes { v * v }
    var c = 0
    while c + 4 * lanes <= columns {
      t0 += square(load(x, c))
      t1 += square(load(x, c + lanes))
      t2 += square(load(x, c + 2 * lanes))
      t3 += square(load(x, c + 3 * lanes))
      c += 4 * lanes
    }
    while c < columns {
      t0 += square(c + lanes <= columns ? load(x, c) : loadTail(x, c, columns - c))
      c += lanes
    }
    let total = (t0 + t1) + (t2 + t3)
    let factor = 1 / (sum(total) / Float(columns) + epsilon).squareRoot()
    c = 0
    while c + lanes <= columns {
      // Swift 6.2 takes only one product of lanes and a number in an expression.
      let scaled: Lanes = load(x, c) * factor
      store(scaled * load(gain, c), out, c)
      c += lanes
    }
    while c < columns {
      out[c] = x[c] * factor * gain[c]
      c += 1
    }
  }

  static func rotate(
    _ x: UnsafeMutablePointer<Float>, _ cosines: UnsafePointer<Float>, _ sines: UnsafePointer<Float>,
    _ half: Int
  ) {
    var i = 0
    while i + lanes <= half {
      let (a, b) = (load(x, i), load(x, i + half))
      let (c, s) = (load(cosines, i), load(sines, i))
      store(a * c - b * s, x, i)
      store(b * c + a * s, x, i + half)
      i += lanes
    }
    while i < half {
      let (a, b) = (x[i], x[i + half])
      x[i] = a * cosines[i] - b * sines[i]
      x[i + half] = b * cosines[i] + a * sines[i]
      i += 1
    }
  }

  static func gatedSilu(
    _ gate: UnsafePointer<Float>, _ up: UnsafePointer<Float>, _ count: Int,
    into out: UnsafeMutablePointer<Float>
  ) {
    gated(gate, up, count, out, by: silu)
  }

  static func gatedGELU(
    _ gate: UnsafePointer<Float>, _ up: UnsafePointer<Float>, _ count: Int,
    into out: UnsafeMutablePointer<Float>
  ) {
    gated(gate, up, count, out, by: gelu)
  }

  @inline(__always)
  private static func gated(
    _ gate: UnsafePointer<Float>, _ up: UnsafePointer<Float>, _ count: Int,
    _ out: UnsafeMutablePointer<Float>, by activation: (Lanes) -> Lanes
  ) {
    var i = 0
    while i + lanes <= count {
      store(activation(load(gate, i)) * load(up, i), out, i)
      i += lanes
    }
    if i < count {
      let rest = activation(loadTail(gate, i, count - i)) * loadTail(up, i, count - i)
      for lane in 0..<count - i { out[i + lane] = rest[lane] }
    }
  }

  @inline(__always)
  private static func silu(_ x: Lanes) -> Lanes { x / (exponential(-x) + 1) }

  /// x · (1 + tanh(y)) / 2 = x / (1 + e^-2y) with y = √(2/π) · (x + 0.044715 x³).
  @inline(__always)
  private static func gelu(_ x: Lanes) -> Lanes {
    let square: Lanes = x * x
    let bend: Lanes = square * 0.071_354_816_3
    let twice: Lanes = x * (bend + 1.595_769_12)
    return x / (exponential(-twice) + 1)
  }

  static func erfGELU(_ count: Int, _ x: UnsafeMutablePointer<Float>) {
    var i = 0
    while i + lanes <= count {
      store(erfGELU(load(x, i)), x, i)
      i += lanes
    }
    if i < count {
      let rest = erfGELU(loadTail(x, i, count - i))
      for lane in 0..<count - i { x[i + lane] = rest[lane] }
    }
  }

  /// x · Φ(x), with Φ(-a) = e^(-a²/2) · Q(1 / (1 + 0.23 a)) for a >= 0 and Φ(a) = 1 - Φ(-a). Q is a polynomial of degree 8
  /// fitted to the scaled complementary error function: relative error 5e-8.
  @inline(__always)
  private static func erfGELU(_ x: Lanes) -> Lanes {
    let a = x.replacing(with: -x, where: x .< 0)
    let t = 1 / (a * GELUFit.slope + 1)
    var q = Lanes(repeating: GELUFit.c8)
    q = q * t + GELUFit.c7
    q = q * t + GELUFit.c6
    q = q * t + GELUFit.c5
    q = q * t + GELUFit.c4
    q = q * t + GELUFit.c3
    q = q * t + GELUFit.c2
    q = q * t + GELUFit.c1
    q = q * t + GELUFit.c0
    let below = x * (q * exponential(a * a * -0.5))
    return below.replacing(with: x - below, where: x .>= 0)
  }

  static func scale(_ factor: Float, _ count: Int, _ x: UnsafeMutablePointer<Float>) {
    var i = 0
    while i + lanes <= count {
      store(load(x, i) * factor, x, i)
      i += lanes
    }
    while i < count {
      x[i] *= factor
      i += 1
    }
  }

  static func softcap(_ cap: Float, _ count: Int, _ x: UnsafeMutablePointer<Float>) {
    var i = 0
    while i + lanes <= count {
      store(capped(load(x, i), cap), x, i)
      i += lanes
    }
    if i < count {
      let rest = capped(loadTail(x, i, count - i), cap)
      for lane in 0..<count - i { x[i + lane] = rest[lane] }
    }
  }

  /// tanh(y) = (1 - e^-2y) / (1 + e^-2y) for y >= 0, and odd.
  @inline(__always)
  private static func capped(_ x: Lanes, _ cap: Float) -> Lanes {
    let magnitude = x.replacing(with: -x, where: x .< 0)
    let e = exponential(magnitude * (-2 / cap))
    let tangent: Lanes = (1 - e) / (e + 1)
    let result: Lanes = tangent * cap
    return result.replacing(with: -result, where: x .< 0)
  }
}
