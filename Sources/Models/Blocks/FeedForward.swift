// The MLP of a layer: one that all rows go through, or several of which each row chooses a few (`Experts`).

import Compute

/// `down(activation(up))`, of all rows or of each row's experts.
enum FeedForward {
  case dense(DenseMLP)
  case experts(Experts)

  /// Bytes that a decode step reads.
  var byteCount: Int {
    switch self {
    case .dense(let mlp): mlp.byteCount
    case .experts(let experts): experts.byteCount
    }
  }

  /// `h = mlp(h)`.
  func callAsFunction(_ h: Rows, _ frame: DecoderFrame) {
    switch self {
    case .dense(let mlp): mlp(h, into: h, frame)
    case .experts(let experts): experts(h, frame)
    }
  }
}

/// One MLP, with a gate or without.
struct DenseMLP {
  private let up: Linear  // [hidden] → [gate | up] or [up]
  private let down: Linear  // [intermediate] → [hidden]
  private let activation: Activation

  /// Modules of an MLP.
  struct Names {
    /// Nil for an MLP without a gate.
    var gate: String? = "gate_proj"
    var up = "up_proj"
    var down = "down_proj"
    /// Gate and up as one matrix, where a checkpoint has it.
    var fused = "gate_up_proj"
  }

  init(
    _ hidden: Int, _ intermediate: Int, activation: Activation = .silu, bias: Bool = false,
    names: Names = Names(), _ weights: LayerLoader
  ) throws(ModelError) {
    let inner: KeyValuePairs<String, Int> =
      if let gate = names.gate {
        weights.hasModule(names.fused)
          ? [names.fused: 2 * intermediate] : [gate: intermediate, names.up: intermediate]
      } else {
        [names.up: intermediate]
      }
    up = try weights.linear(inner, from: hidden, bias: bias)
    down = try weights.linear([names.down: hidden], from: intermediate, bias: bias)
    self.activation = activation
  }

  /// Bytes that a decode step reads.
  var byteCount: Int { up.byteCount + down.byteCount }

  /// `out = down(activation(up(h)))`; out may be h.
  func callAsFunction(_ h: Rows, into out: Rows, _ frame: DecoderFrame) {
    let inner = frame.gateUp(rows: h.count, up.rows)
    up(h, into: inner)
    down(frame.compute.activate(activation, inner), into: out)
  }
}
