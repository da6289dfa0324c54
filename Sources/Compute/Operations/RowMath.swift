// Arithmetic on rows beside linear maps and norms: factors per row or column, several streams per row.

extension ComputeContext {
  /// `x[r] = factors[r] · x[r]`.
  package func scaleRows(_ x: Rows, by factors: [Float]) {
    precondition(factors.count == x.count, "scale: shapes differ")
    forEachRow(x.count, work: x.columns) { range in
      for r in range { kernels.scale(factors[r], x.columns, x.row(r)) }
    }
  }

  /// `x[r] = x[r] / (1 + e^-gates[r])`, gates `[rows, 1]`.
  package func scaleRows(_ x: Rows, bySigmoidOf gates: Rows) {
    precondition(gates.count == x.count && gates.columns == 1, "scale: shapes differ")
    forEachRow(x.count, work: x.columns) { range in
      for r in range {
        kernels.scale(Float(1 / (1 + exponential(-Double(gates.row(r)[0])))), x.columns, x.row(r))
      }
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

  /// `x[r][c] = x[r][c] · y[r][c]`.
  package func multiply(_ x: Rows, elementwiseBy y: Rows) {
    precondition(y.count == x.count && y.columns == x.columns, "multiply: shapes differ")
    forEachRow(x.count, work: x.columns) { range in
      for r in range { Self.multiply(x.row(r), by: y.row(r), x.columns) }
    }
  }

  /// `x = x · y`, element by element.
  static func multiply(_ x: UnsafeMutablePointer<Float>, by y: UnsafePointer<Float>, _ count: Int) {
    var c = 0
    while c + Portable.lanes <= count {
      Portable.store(Portable.load(x, c) * Portable.load(y, c), x, c)
      c += Portable.lanes
    }
    while c < count {
      x[c] *= y[c]
      c += 1
    }
  }

  /// `out[r][head] = factors[r][head] · x[r][head]`, factors `[rows, heads]` of heads of equal size.
  package func scaleHeads(_ x: Rows, by factors: Rows, into out: Rows) {
    let size = x.columns / max(1, factors.columns)
    precondition(
      size * factors.columns == x.columns && factors.count == x.count && out.count == x.count
        && out.columns == x.columns, "scale: shapes differ")
    forEachRow(x.count, work: x.columns) { range in
      for r in range {
        x.copyRow(r, to: out, at: r)
        for head in 0..<factors.columns {
          kernels.scale(factors.row(r)[head], size, out.row(r) + head * size)
        }
      }
    }
  }

  /// `out[r][head] += factors[head] · x[r][head]`, factors of heads of equal size.
  package func addHeads(_ x: Rows, scaledBy factors: [Float], to out: Rows) {
    let size = x.columns / max(1, factors.count)
    precondition(
      size * factors.count == x.columns && out.count == x.count && out.columns == x.columns,
      "add: shapes differ")
    forEachRow(x.count, work: x.columns) { range in
      for r in range {
        for head in factors.indices {
          addScaled(x.row(r) + head * size, by: factors[head], size, to: out.row(r) + head * size)
        }
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

// MARK: - Heads

extension ComputeContext {
  /// Copies `count` elements of every head of x, from `offset` on, to `target` of the same head of y.
  package func copyHeads(
    _ heads: Int, count: Int, of x: Rows, from offset: Int, to y: Rows, at target: Int
  ) {
    let (xHead, yHead) = (x.columns / max(1, heads), y.columns / max(1, heads))
    precondition(
      heads > 0 && xHead * heads == x.columns && yHead * heads == y.columns && x.count == y.count
        && offset >= 0 && target >= 0 && offset + count <= xHead && target + count <= yHead,
      "heads: shapes differ")
    forEachRow(x.count, work: heads * count) { range in
      for r in range {
        for head in 0..<heads {
          (y.row(r) + head * yHead + target).update(from: x.row(r) + head * xHead + offset, count: count)
        }
      }
    }
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
