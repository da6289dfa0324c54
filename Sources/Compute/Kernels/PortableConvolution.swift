// Portable kernels of encoders of audio: layer norm, gates, convolution over time, attention to the rows just before.

import KernelTypes

extension Portable {
  static func layerNorm(
    _ x: UnsafePointer<Float>, _ gain: UnsafePointer<Float>, _ epsilon: Float, _ columns: Int,
    into out: UnsafeMutablePointer<Float>
  ) {
    var total = Lanes.zero
    var c = 0
    while c + lanes <= columns {
      total += load(x, c)
      c += lanes
    }
    if c < columns { total += loadTail(x, c, columns - c) }
    let mean = sum(total) / Float(columns)

    var squares = Lanes.zero
    c = 0
    while c + lanes <= columns {
      let v = load(x, c) - mean
      squares += v * v
      c += lanes
    }
    var rest: Float = 0
    while c < columns {
      rest += (x[c] - mean) * (x[c] - mean)
      c += 1
    }
    let factor = 1 / ((sum(squares) + rest) / Float(columns) + epsilon).squareRoot()
    c = 0
    while c + lanes <= columns {
      // Swift 6.2 takes only one product of lanes and a number in an expression.
      let centred: Lanes = load(x, c) - mean
      let scaled: Lanes = centred * factor
      store(scaled * load(gain, c), out, c)
      c += lanes
    }
    while c < columns {
      out[c] = (x[c] - mean) * factor * gain[c]
      c += 1
    }
  }

  static func gatedSigmoid(
    _ gate: UnsafePointer<Float>, _ up: UnsafePointer<Float>, _ count: Int,
    into out: UnsafeMutablePointer<Float>
  ) {
    var i = 0
    while i + lanes <= count {
      store(load(up, i) / (exponential(-load(gate, i)) + 1), out, i)
      i += lanes
    }
    if i < count {
      let rest = loadTail(up, i, count - i) / (exponential(-loadTail(gate, i, count - i)) + 1)
      for lane in 0..<count - i { out[i + lane] = rest[lane] }
    }
  }

  static func convolve(
    _ x: Activations, _ weights: UnsafePointer<Float>, _ columns: Int,
    into out: UnsafeMutablePointer<Float>
  ) {
    var c = 0
    while c + lanes <= columns {
      var total = Lanes.zero
      for tap in 0..<x.count {
        total += load(weights, tap * columns + c) * load(x.base, tap * x.stride + c)
      }
      store(total, out, c)
      c += lanes
    }
    while c < columns {
      var total: Float = 0
      for tap in 0..<x.count { total += weights[tap * columns + c] * x.base[tap * x.stride + c] }
      out[c] = total
      c += 1
    }
  }

  static func attendLocally(_ head: LocalHead, into out: UnsafeMutablePointer<Float>) {
    let (values, stride, size, count) = (head.values, head.stride, head.size, head.relative.count)
    withUnsafeTemporaryAllocation(of: Float.self, capacity: LocalAttention.distances) { buffer in
      guard let scores = buffer.baseAddress else { return }
      scores.initialize(repeating: -.infinity, count: LocalAttention.distances)
      for d in 0..<count {
        let relative = head.relative.base + d * head.relative.stride
        scores[d] = score(head.query, head.keys - d * stride, relative, size)
      }
      softcap(head.cap, count, scores)
      let total = exponentials(scores)

      var c = 0
      while c + lanes <= size {
        var t = Lanes.zero
        for d in 0..<count { t += load(values - d * stride, c) * scores[d] }
        store(t / total, out, c)
        c += lanes
      }
      while c < size {
        var t: Float = 0
        for d in 0..<count { t += values[c - d * stride] * scores[d] }
        out[c] = t / total
        c += 1
      }
    }
  }

  /// `query · (key + relative)`.
  @inline(__always)
  private static func score(
    _ query: UnsafePointer<Float>, _ key: UnsafePointer<Float>, _ relative: UnsafePointer<Float>, _ size: Int
  ) -> Float {
    var total = Lanes.zero
    var c = 0
    while c + lanes <= size {
      total += load(query, c) * (load(key, c) + load(relative, c))
      c += lanes
    }
    if c < size {
      let rest = size - c
      total += loadTail(query, c, rest) * (loadTail(key, c, rest) + loadTail(relative, c, rest))
    }
    return sum(total)
  }

  /// Turns 32 scores into weights relative to the largest, and returns their sum. The first is finite.
  @inline(__always)
  private static func exponentials(_ scores: UnsafeMutablePointer<Float>) -> Float {
    let (s0, s1, s2, s3) = (load(scores, 0), load(scores, 8), load(scores, 16), load(scores, 24))
    let top = maximum(maximum(s0, s1), maximum(s2, s3)).max()
    let (e0, e1, e2, e3) = (
      exponential(s0 - top), exponential(s1 - top), exponential(s2 - top), exponential(s3 - top)
    )
    store(e0, scores, 0)
    store(e1, scores, 8)
    store(e2, scores, 16)
    store(e3, scores, 24)
    return sum((e0 + e1) + (e2 + e3))
  }
}
