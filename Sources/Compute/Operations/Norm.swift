// Root-mean-square normalisation of rows, and of the heads within rows.

extension ComputeContext {
  /// `out = x / sqrt(mean(x²) + epsilon) · gain` per row; x and out `[rows, columns]`, gain `[columns]`.
  package func rmsNorm(_ x: Rows, gain: [Float], epsilon: Float, into out: Rows) {
    precondition(
      gain.count == x.columns && out.columns == x.columns && out.count == x.count, "norm: shapes differ")
    gain.withUnsafeBufferPointer { gain in
      guard let gain = gain.baseAddress else { return }
      forEachRow(x.count, work: x.columns) { range in
        for r in range { kernels.rmsNorm(x.row(r), gain, epsilon, x.columns, out.row(r)) }
      }
    }
  }

  /// Normalises each head of `gain.count` elements of x, in place.
  package func rmsNormHeads(_ x: Rows, gain: [Float], epsilon: Float) {
    let size = gain.count
    precondition(size > 0 && x.columns % size == 0, "norm: shapes differ")
    gain.withUnsafeBufferPointer { gain in
      guard let gain = gain.baseAddress else { return }
      forEachRow(x.count, work: x.columns) { range in
        for r in range {
          for head in 0..<x.columns / size {
            let start = x.row(r) + head * size
            kernels.rmsNorm(start, gain, epsilon, size, start)
          }
        }
      }
    }
  }

  /// `x = x / sqrt(mean(x²) + epsilon) · gain` of every group of `size` elements, in place, with a gain for each element of a
  /// row: `[columns]`.
  package func rmsNormGroups(_ x: Rows, size: Int, gain: [Float], epsilon: Float) {
    precondition(size > 0 && x.columns % size == 0 && gain.count == x.columns, "norm: shapes differ")
    gain.withUnsafeBufferPointer { gain in
      guard let gain = gain.baseAddress else { return }
      forEachRow(x.count, work: x.columns) { range in
        for r in range {
          for start in stride(from: 0, to: x.columns, by: size) {
            kernels.rmsNorm(x.row(r) + start, gain + start, epsilon, size, x.row(r) + start)
          }
        }
      }
    }
  }

  /// `x = (x - mean) / sqrt(variance + epsilon) · gain` of every head of `size` elements, in place, with a gain per head:
  /// `[columns]`.
  package func layerNormHeads(_ x: Rows, size: Int, gain: [Float], epsilon: Float) {
    precondition(size > 0 && x.columns % size == 0 && gain.count == x.columns, "norm: shapes differ")
    gain.withUnsafeBufferPointer { gain in
      guard let gain = gain.baseAddress else { return }
      forEachRow(x.count, work: 2 * x.columns) { range in
        for r in range {
          for start in stride(from: 0, to: x.columns, by: size) {
            kernels.layerNorm(x.row(r) + start, gain + start, epsilon, size, x.row(r) + start)
          }
        }
      }
    }
  }

  /// `x[r] += offset` for every row.
  package func addToRows(_ offset: [Float], _ x: Rows) {
    precondition(offset.count == x.columns, "add: shapes differ")
    offset.withUnsafeBufferPointer { offset in
      guard let offset = offset.baseAddress else { return }
      for r in 0..<x.count { kernels.add(offset, x.columns, x.row(r)) }
    }
  }
}
