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
}
