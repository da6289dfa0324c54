// Elementwise operations between linear maps.

extension ComputeContext {
  /// `out = silu(gate) · up`, silu(g) = g / (1 + e^-g); all `[rows, columns]`; out may be gate.
  package func gatedSilu(_ gate: Rows, _ up: Rows, into out: Rows) {
    precondition(
      gate.columns == up.columns && up.columns == out.columns && gate.count == up.count
        && up.count == out.count,
      "gatedSilu: shapes differ")
    // The exponential makes an element cost about four times that of a norm.
    forEachRow(gate.count, work: 4 * gate.columns) { range in
      for r in range { kernels.gatedSilu(gate.row(r), up.row(r), gate.columns, out.row(r)) }
    }
  }

  /// `x += y`, both `[rows, columns]`.
  package func add(_ y: Rows, to x: Rows) {
    precondition(x.columns == y.columns && x.count == y.count, "add: shapes differ")
    forEachRow(x.count, work: x.columns) { range in
      for r in range { kernels.add(y.row(r), x.columns, x.row(r)) }
    }
  }
}
