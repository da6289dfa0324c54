// Arithmetic on rows beside linear maps and norms: factors per row or column, several streams per row.

extension ComputeContext {
  /// `x[r] = factors[r] · x[r]`.
  package func scaleRows(_ x: Rows, by factors: [Float]) {
    precondition(factors.count == x.count, "scale: shapes differ")
    forEachRow(x.count, work: x.columns) { range in
      for r in range { kernels.scale(factors[r], x.columns, x.row(r)) }
    }
  }

  /// `x[r][c] = factors[c] · x[r][c]`.
  package func scaleColumns(_ x: Rows, by factors: [Float]) {
    precondition(factors.count == x.columns, "scale: shapes differ")
    forEachRow(x.count, work: x.columns) { range in
      for r in range {
        let row = x.row(r)
        for c in 0..<x.columns { row[c] *= factors[c] }
      }
    }
  }

  /// Keeps what exceeds a row's mean by more than `deviations` standard deviations, and of that the excess:
  /// `x = max(0, x - mean - deviations · deviation)`.
  package func keepOutliers(_ x: Rows, beyond deviations: Float) {
    forEachRow(x.count, work: 4 * x.columns) { range in
      for r in range {
        let row = x.row(r)
        let count = Double(x.columns)
        var sum = 0.0
        for c in 0..<x.columns { sum += Double(row[c]) }
        let mean = sum / count
        var squares = 0.0
        for c in 0..<x.columns { squares += (Double(row[c]) - mean) * (Double(row[c]) - mean) }
        let cut = Float(mean + Double(deviations) * (squares / count).squareRoot())
        for c in 0..<x.columns { row[c] = max(0, row[c] - cut) }
      }
    }
  }

  /// Gives each row of x the root mean square of the same row of `other`; that of x counts as at least √floor.
  package func matchMagnitude(_ x: Rows, to other: Rows, floor: Float) {
    precondition(x.count == other.count && x.columns == other.columns, "magnitude: shapes differ")
    forEachRow(x.count, work: 4 * x.columns) { range in
      for r in range {
        let (wanted, own) = (meanSquare(other, row: r), meanSquare(x, row: r))
        kernels.scale(Float((wanted / max(own, Double(floor))).squareRoot()), x.columns, x.row(r))
      }
    }
  }

  private func meanSquare(_ x: Rows, row: Int) -> Double {
    let values = x.row(row)
    var sum = 0.0
    for c in 0..<x.columns { sum += Double(values[c]) * Double(values[c]) }
    return sum / Double(x.columns)
  }
}

// MARK: - Streams

extension ComputeContext {
  /// Mixes n streams, each `[rows, columns]`, by coefficients of the row, `[rows, n · n]`:
  /// `out[j] = streams[j] + Σ c[j·n + k] · streams[k]`.
  package func mix(_ streams: [Rows], by coefficients: Rows, into out: [Rows]) {
    let n = streams.count
    guard let first = streams.first else { return }
    precondition(
      out.count == n && coefficients.columns == n * n && coefficients.count == first.count,
      "streams: shapes differ")
    forEachRow(first.count, work: n * n * first.columns) { range in
      for r in range {
        let c = coefficients.row(r)
        for j in 0..<n {
          streams[j].copyRow(r, to: out[j], at: r)
          for k in 0..<n { addScaled(streams[k].row(r), by: c[j * n + k], first.columns, to: out[j].row(r)) }
        }
      }
    }
  }

  /// Moves n streams by what was found for the first, weighted by factors of the row, `[rows, n]`:
  /// `streams[j] += (1 + factor[j]) · (found - streams[0])`.
  package func correct(_ streams: [Rows], toward found: Rows, by factors: Rows) {
    precondition(factors.columns == streams.count && factors.count == found.count, "streams: shapes differ")
    forEachRow(found.count, work: (streams.count + 1) * found.columns) { range in
      for r in range {
        let (target, main) = (found.row(r), streams[0].row(r))
        for (j, stream) in streams.enumerated().reversed() {
          let (factor, row) = (1 + factors.row(r)[j], stream.row(r))
          // The first stream comes last: the others need it as it was.
          for c in 0..<found.columns { row[c] += factor * (target[c] - main[c]) }
        }
      }
    }
  }

  private func addScaled(
    _ x: UnsafeMutablePointer<Float>, by factor: Float, _ count: Int, to y: UnsafeMutablePointer<Float>
  ) {
    for c in 0..<count { y[c] += factor * x[c] }
  }
}
