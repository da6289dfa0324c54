// Elementwise operations between linear maps.

/// What the gate of an MLP goes through.
package enum GateActivation: Sendable {
  case silu, gelu
}

extension ComputeContext {
  /// `out = silu(gate) · up`, silu(g) = g / (1 + e^-g); all `[rows, columns]`; out may be gate.
  package func gatedSilu(_ gate: Rows, _ up: Rows, into out: Rows) {
    gated(gate, up, into: out, by: kernels.gatedSilu)
  }

  /// `out = gelu(gate) · up` with gelu's tanh form, g · (1 + tanh(√(2/π)(g + 0.044715 g³))) / 2; all
  /// `[rows, columns]`; out may be gate.
  package func gatedGELU(_ gate: Rows, _ up: Rows, into out: Rows) {
    gated(gate, up, into: out, by: kernels.gatedGELU)
  }

  /// `out = up / (1 + e^-gate)`; all `[rows, columns]`; out may be gate, and up too, for silu.
  package func gatedSigmoid(_ gate: Rows, _ up: Rows, into out: Rows) {
    gated(gate, up, into: out, by: kernels.gatedSigmoid)
  }

  /// `out = activation(gate) · up`; out may be gate.
  package func gated(_ activation: GateActivation, _ gate: Rows, _ up: Rows, into out: Rows) {
    switch activation {
    case .silu: gatedSilu(gate, up, into: out)
    case .gelu: gatedGELU(gate, up, into: out)
    }
  }

  private func gated(
    _ gate: Rows, _ up: Rows, into out: Rows, by kernel: KernelTable.GatedActivation
  ) {
    precondition(
      gate.columns == up.columns && up.columns == out.columns && gate.count == up.count
        && up.count == out.count,
      "gated activation: shapes differ")
    // The exponential makes an element cost about four times that of a norm.
    forEachRow(gate.count, work: 4 * gate.columns) { range in
      for r in range { kernel(gate.row(r), up.row(r), gate.columns, out.row(r)) }
    }
  }

  /// `x += y`, both `[rows, columns]`.
  package func add(_ y: Rows, to x: Rows) {
    precondition(x.columns == y.columns && x.count == y.count, "add: shapes differ")
    forEachRow(x.count, work: x.columns) { range in
      for r in range { kernels.add(y.row(r), x.columns, x.row(r)) }
    }
  }

  /// `x = factor · x`.
  package func scale(_ x: Rows, by factor: Float) {
    forEachRow(x.count, work: x.columns) { range in
      for r in range { kernels.scale(factor, x.columns, x.row(r)) }
    }
  }

  /// `x = cap · tanh(x / cap)`: what is far below the cap stays, nothing exceeds it.
  package func softcap(_ x: Rows, at cap: Float) {
    forEachRow(x.count, work: 4 * x.columns) { range in
      for r in range { kernels.softcap(cap, x.columns, x.row(r)) }
    }
  }
}
