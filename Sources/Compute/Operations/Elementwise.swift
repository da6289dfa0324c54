// Elementwise operations between linear maps.

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

  /// Applies an activation in place.
  ///
  /// - Parameter x: `[gate | up]`, or up alone, as the activation takes it.
  /// - Returns: the results: the first half of x's columns, or all of them.
  package func activate(_ activation: Activation, _ x: Rows) -> Rows {
    let gate = x.columns(from: 0, count: activation.isGated ? x.columns / 2 : x.columns)
    let up = activation.isGated ? x.columns(from: gate.columns, count: gate.columns) : gate
    switch activation {
    case .silu: gatedSilu(gate, up, into: gate)
    case .gelu: gatedGELU(gate, up, into: gate)
    case .clippedSilu(let limit): gatedClippedSilu(gate, up, limit: limit)
    case .squaredReLU: apply(gate) { $0 > 0 ? $0 * $0 : 0 }
    case .geluAlone: gatedAlone(gate, by: kernels.gatedGELU)
    case .xIELU(let xIELU): apply(gate) { xIELU($0) }
    }
    return gate
  }

  /// `gate = g · sigmoid(1.702 g) · (u + 1)`, overwriting up.
  private func gatedClippedSilu(_ gate: Rows, _ up: Rows, limit: Float) {
    forEachRow(gate.count, work: 4 * gate.columns) { range in
      for r in range {
        let (g, u) = (gate.row(r), up.row(r))
        for c in 0..<gate.columns {
          let clipped = min(g[c], limit)
          u[c] = clipped * (min(max(u[c], -limit), limit) + 1)
          g[c] = 1.702 * clipped
        }
        kernels.gatedSigmoid(g, u, gate.columns, g)
      }
    }
  }

  private func apply(_ x: Rows, _ function: (Float) -> Float) {
    forEachRow(x.count, work: 4 * x.columns) { range in
      for r in range {
        let row = x.row(r)
        for c in 0..<x.columns { row[c] = function(row[c]) }
      }
    }
  }

  /// `x = f(x)` by a kernel of `f(gate) · up`.
  private func gatedAlone(_ x: Rows, by kernel: KernelTable.GatedActivation) {
    let piece = 256
    forEachRow(x.count, work: 4 * x.columns) { range in
      withUnsafeTemporaryAllocation(of: Float.self, capacity: piece) { ones in
        ones.initialize(repeating: 1)
        guard let up = ones.baseAddress else { return }
        for r in range {
          for start in stride(from: 0, to: x.columns, by: piece) {
            kernel(x.row(r) + start, up, min(piece, x.columns - start), x.row(r) + start)
          }
        }
      }
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

  /// `x = 1 / (1 + e^-x)`: few elements, of gates that decide how long a state lasts.
  package func sigmoid(_ x: Rows) {
    apply(x) { Float(1 / (1 + exponential(-Double($0)))) }
  }

  /// `x = log(1 + e^(x + bias))`, bias `[columns]`: steps of time, few elements.
  package func softplus(_ x: Rows, adding bias: [Float]) {
    precondition(bias.count == x.columns, "softplus: shapes differ")
    forEachRow(x.count, work: 16 * x.columns) { range in
      for r in range {
        let row = x.row(r)
        for c in 0..<x.columns {
          let sum = Double(row[c] + bias[c])
          row[c] = Float(max(sum, 0) + logarithm1p(exponential(-abs(sum))))
        }
      }
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
