// Convolutions over planes and over time, and what stands between them in encoders of audio.
//
// A convolution over a plane is a matrix product with the neighbourhoods of its outputs (`unfold`), made for a few
// lines at a time: all of them would be nine times the plane.

import KernelTypes

/// Lines of a plane whose pixels have several channels.
package struct Plane {
  fileprivate let base: UnsafeMutablePointer<Float>
  fileprivate let lineStride, pixelStride: Int
  package let width, channels: Int
  /// The lines that are in memory, of `height`; what is outside `0 ..< height` counts as zeros.
  package let lines: Range<Int>
  package let height: Int

  /// One row per line, its pixels side by side.
  package init(lines rows: Rows, channels: Int) {
    precondition(channels > 0 && rows.columns % channels == 0, "plane: shapes differ")
    base = rows.base
    (lineStride, pixelStride) = (rows.stride, channels)
    (width, height) = (rows.columns / channels, rows.count)
    lines = 0..<rows.count
    self.channels = channels
  }

  /// One row per pixel, line by line.
  package init(pixels: Rows, width: Int, first: Int, height: Int) {
    precondition(width > 0 && pixels.count % width == 0 && first >= 0, "plane: shapes differ")
    lines = first..<first + pixels.count / width
    precondition(lines.upperBound <= height, "plane: shapes differ")
    base = pixels.base
    (lineStride, pixelStride) = (width * pixels.stride, pixels.stride)
    (self.width, self.height, channels) = (width, height, pixels.columns)
  }
}

extension ComputeContext {
  /// The 3 · 3 pixels around every second pixel of every second line, zeros outside the plane: what a convolution of
  /// stride 2 and padding 1 multiplies. Line l and column c of the output are centred on `(2l, 2c)`.
  ///
  /// - Parameters:
  ///   - outputs: lines of the output; the plane must hold what they need.
  ///   - out: `[outputs · ⌈width / 2⌉, 9 · channels]`: neighbours line by line, their channels side by side.
  package func unfold(_ plane: Plane, outputs: Range<Int>, into out: Rows) {
    let (columns, channels) = ((plane.width + 1) / 2, plane.channels)
    precondition(out.count == outputs.count * columns && out.columns == 9 * channels, "unfold: shapes differ")
    guard !outputs.isEmpty else { return }
    let needed = max(0, 2 * outputs.lowerBound - 1)..<min(plane.height, 2 * outputs.upperBound)
    precondition(
      plane.lines.lowerBound <= needed.lowerBound && plane.lines.upperBound >= needed.upperBound,
      "unfold: the plane does not hold the lines")
    forEachRow(out.count, work: out.columns) { range in
      for r in range {
        let (line, column) = (2 * (outputs.lowerBound + r / columns) - 1, 2 * (r % columns) - 1)
        for place in 0..<9 {
          let (y, x) = (line + place / 3, column + place % 3)
          let target = out.row(r) + place * channels
          if y >= 0, y < plane.height, x >= 0, x < plane.width {
            let source = plane.base + (y - plane.lines.lowerBound) * plane.lineStride + x * plane.pixelStride
            target.update(from: source, count: channels)
          } else {
            target.update(repeating: 0, count: channels)
          }
        }
      }
    }
  }

  /// Joins every few rows of x to one of out: `[n · k, columns]` → `[n, k · columns]`.
  package func join(_ x: Rows, into out: Rows) {
    precondition(
      x.count * x.columns == out.count * out.columns && out.columns % x.columns == 0, "join: shapes differ")
    let share = out.columns / x.columns
    for r in 0..<x.count {
      (out.row(r / share) + r % share * x.columns).update(from: x.row(r), count: x.columns)
    }
  }

  /// `out = (x - mean) / sqrt(variance + epsilon) · gain` per row; out may be x.
  package func layerNorm(_ x: Rows, gain: [Float], epsilon: Float, into out: Rows) {
    precondition(
      gain.count == x.columns && out.columns == x.columns && out.count == x.count, "norm: shapes differ")
    gain.withUnsafeBufferPointer { gain in
      guard let gain = gain.baseAddress else { return }
      forEachRow(x.count, work: 2 * x.columns) { range in
        for r in range { kernels.layerNorm(x.row(r), gain, epsilon, x.columns, out.row(r)) }
      }
    }
  }

  /// Every column by itself over time: `out[t] = Σ weights[j] · x[t - taps + 1 + j]`, zeros before the first row.
  ///
  /// - Parameter weights: `[taps, columns]`.
  package func convolve(_ x: Rows, taps: Int, weights: [Float], into out: Rows) {
    precondition(
      taps > 0 && weights.count == taps * x.columns && out.columns == x.columns && out.count == x.count
        && out.base != x.base, "convolve: shapes differ")
    weights.withUnsafeBufferPointer { weights in
      guard let weights = weights.baseAddress else { return }
      forEachRow(x.count, work: taps * x.columns) { range in
        for r in range {
          let count = min(taps, r + 1)
          let before = Activations(base: x.row(r + 1 - count), stride: x.stride, count: count)
          kernels.convolve(before, weights + (taps - count) * x.columns, x.columns, out.row(r))
        }
      }
    }
  }

  /// Attention of every row to itself and the rows just before it, with a score for the distance:
  ///
  ///     out[t] = Σ softmax_d( cap · tanh( q[t] · (k[t - d] + relative[d]) / cap ) ) v[t - d],   0 <= d < distances
  ///
  /// - Parameters:
  ///   - q, k, v: `[rows, heads · size]`, q scaled; of equal stride.
  ///   - relative: `[distances, heads · size]`.
  package func attendLocally(
    _ q: Rows, _ k: Rows, _ v: Rows, relative: Rows, heads: Int, cap: Float, into out: Rows
  ) {
    let size = q.columns / max(1, heads)
    precondition(
      heads > 0 && q.columns == heads * size && k.columns == q.columns && v.columns == q.columns
        && out.columns == q.columns && relative.columns == q.columns && k.count == q.count
        && v.count == q.count
        && out.count == q.count && k.stride == v.stride && relative.count > 0
        && relative.count <= Self.mostDistances, "attend: shapes differ")
    forEachRow(q.count, work: 3 * relative.count * q.columns) { range in
      for r in range {
        for head in 0..<heads {
          let start = head * size
          let seen = Activations(
            base: relative.base + start, stride: relative.stride, count: min(relative.count, r + 1))
          let local = LocalHead(
            query: q.row(r) + start, keys: k.row(r) + start, values: v.row(r) + start, stride: k.stride,
            relative: seen, size: size, cap: cap)
          kernels.attendLocally(local, out.row(r) + start)
        }
      }
    }
  }

  /// The most distances that `attendLocally` takes.
  package static var mostDistances: Int { LocalAttention.distances }
}
