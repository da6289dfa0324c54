// Portable kernels over single rows: norm, rotation, activation.

extension Portable {
  static func rmsNorm(
    x: UnsafePointer<Float>, gain: UnsafePointer<Float>, epsilon: Float, columns: Int,
    out: UnsafeMutablePointer<Float>
  ) {
    var total = Lanes.zero
    var c = 0
    while c + lanes <= columns {
      let v = load(x, c)
      total += v * v
      c += lanes
    }
    if c < columns {
      let v = loadTail(x, c, columns - c)
      total += v * v
    }
    let factor = 1 / (sum(total) / Float(columns) + epsilon).squareRoot()
    c = 0
    while c + lanes <= columns {
      store(load(x, c) * factor * load(gain, c), out, c)
      c += lanes
    }
    while c < columns {
      out[c] = x[c] * factor * gain[c]
      c += 1
    }
  }

  static func rotate(
    x: UnsafeMutablePointer<Float>, cosines: UnsafePointer<Float>, sines: UnsafePointer<Float>, half: Int
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
    gate: UnsafePointer<Float>, up: UnsafePointer<Float>, count: Int, out: UnsafeMutablePointer<Float>
  ) {
    var i = 0
    while i + lanes <= count {
      store(silu(load(gate, i)) * load(up, i), out, i)
      i += lanes
    }
    if i < count {
      let rest = silu(loadTail(gate, i, count - i)) * loadTail(up, i, count - i)
      for lane in 0..<count - i { out[i + lane] = rest[lane] }
    }
  }

  @inline(__always)
  private static func silu(_ x: Lanes) -> Lanes { x / (exponential(-x) + 1) }
}
