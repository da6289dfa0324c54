// What encoders of images and audio need beside the operations on text: rows from outside, clamped linear maps,
// rotation by two coordinates, pooling over a plane.

extension Rows {
  /// Writes one row.
  ///
  /// - Precondition: `values` has as many elements as a row.
  package func set(_ index: Int, to values: ArraySlice<Float>) {
    precondition(index >= 0 && index < count && values.count == columns, "set: shapes differ")
    values.withUnsafeBufferPointer { source in
      if let base = source.baseAddress { row(index).update(from: base, count: columns) }
    }
  }

  /// Adds to one row.
  ///
  /// - Precondition: `values` has as many elements as a row.
  package func add(_ values: ArraySlice<Float>, to index: Int) {
    precondition(index >= 0 && index < count && values.count == columns, "add: shapes differ")
    let target = row(index)
    for (column, value) in values.enumerated() { target[column] += value }
  }
}

extension ComputeContext {
  /// `out = min(max(x, lower), upper)`, both `[rows, columns]`; out may be x.
  package func clamp(_ x: Rows, to bounds: ClosedRange<Float>, into out: Rows) {
    precondition(x.columns == out.columns && x.count == out.count, "clamp: shapes differ")
    let (lower, upper) = (bounds.lowerBound, bounds.upperBound)
    forEachRow(x.count, work: x.columns) { range in
      for r in range {
        let (source, target) = (x.row(r), out.row(r))
        for column in 0..<x.columns {
          let value = source[column]
          target[column] = value < lower ? lower : value > upper ? upper : value
        }
      }
    }
  }

  /// Rotates the first half of every head of x by one coordinate and the second half by another, in place.
  ///
  /// Both must have been prepared for the rows of x.
  package func rotate(_ x: Rows, headDim: Int, by first: RoPE, _ second: RoPE) {
    let half = first.half
    precondition(
      second.half == half && 4 * half == headDim && x.columns % headDim == 0, "rotate: shapes differ")
    forEachRow(x.count, work: x.columns) { range in
      for r in range {
        let (a, b) = (first.angles(ofRow: r), second.angles(ofRow: r))
        for head in 0..<x.columns / headDim {
          let start = x.row(r) + head * headDim
          kernels.rotate(start, a, a + half, half)
          kernels.rotate(start + 2 * half, b, b + half, half)
        }
      }
    }
  }

  /// The mean of every `side · side` block of a plane of rows: x `[width · height, columns]` with x fastest, out
  /// `[width / side · height / side, columns]`.
  package func pool(_ x: Rows, width: Int, side: Int, into out: Rows) {
    let columns = width / side
    precondition(
      side > 0 && columns > 0 && width % side == 0 && x.count == out.count * side * side
        && out.count % columns == 0 && x.columns == out.columns, "pool: shapes differ")
    let share = 1 / Float(side * side)
    forEachRow(out.count, work: side * side * x.columns) { range in
      for r in range {
        let target = out.row(r)
        target.update(repeating: 0, count: x.columns)
        for dy in 0..<side {
          let first = (r / columns * side + dy) * width + r % columns * side
          for dx in 0..<side { kernels.add(x.row(first + dx), x.columns, target) }
        }
        kernels.scale(share, x.columns, target)
      }
    }
  }

  /// `x = (x - offset) · factor` per row, offset and factor `[columns]`.
  package func standardize(_ x: Rows, offset: [Float], factor: [Float]) {
    precondition(offset.count == x.columns && factor.count == x.columns, "standardize: shapes differ")
    forEachRow(x.count, work: x.columns) { range in
      for r in range {
        let row = x.row(r)
        for column in 0..<x.columns { row[column] = (row[column] - offset[column]) * factor[column] }
      }
    }
  }
}
