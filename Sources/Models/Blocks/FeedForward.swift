// The MLP of a layer: one that all rows go through, or several of which each row chooses a few.

import Checkpoint
import Compute

/// `down(silu(gate) · up)`, of all rows or of each row's experts.
enum FeedForward {
  case dense(gateUp: Linear, down: Linear)
  case experts(Experts)

  /// One MLP under `mlp`: gate_proj, up_proj, down_proj.
  static func dense(
    _ sizes: DecoderSizes, bias: Bool = false, at mlp: WeightMap, compute: ComputeContext
  ) throws(ModelError) -> FeedForward {
    .dense(
      gateUp: try Linear(
        ["gate_proj": sizes.intermediate, "up_proj": sizes.intermediate], columns: sizes.hidden, bias: bias,
        at: mlp, compute: compute),
      down: try Linear(
        ["down_proj": sizes.hidden], columns: sizes.intermediate, bias: bias, at: mlp, compute: compute))
  }

  /// Bytes that a decode step reads.
  var byteCount: Int {
    switch self {
    case .dense(let gateUp, let down): gateUp.byteCount + down.byteCount
    case .experts(let experts): experts.byteCount
    }
  }

  /// `h = mlp(h)`.
  func callAsFunction(_ h: Rows, _ frame: DecoderFrame) {
    switch self {
    case .dense(let gateUpMap, let down):
      let gateUp = frame.gateUp(rows: h.count)
      let gate = gateUp.columns(from: 0, count: gateUp.columns / 2)
      gateUpMap(h, into: gateUp)
      frame.compute.gatedSilu(gate, gateUp.columns(from: gate.columns, count: gate.columns), into: gate)
      down(gate, into: h)
    case .experts(let experts):
      experts(h, frame)
    }
  }
}

/// A router and the experts it chooses among.
struct Experts {
  private let router: Linear  // [hidden] → [experts]
  private let stack: ExpertStack
  private let perRow: Int
  private let weighting: ExpertWeighting

  /// How many experts a layer has, and how many each row chooses.
  struct Sizes {
    let count: Int
    let perRow: Int
    /// The width between the maps of an expert.
    let intermediate: Int
    /// The sizes that shapes of tensors follow from, by their keys in config.json.
    let named: KeyValuePairs<String, Int>

    /// - Parameters: the keys of config.json for the three sizes.
    init(
      _ config: ConfigFields, count countKey: String, perRow perRowKey: String,
      intermediate intermediateKey: String
    ) throws(ModelError) {
      count = try config.int(countKey, in: 1...4096)
      perRow = try config.int(perRowKey, in: 1...count)
      intermediate = try config.int(intermediateKey, in: 1...1 << 20)
      named = [countKey: count, intermediateKey: intermediate]
    }
  }

  /// - Parameters:
  ///   - map: where `gate`, the router, and the experts are.
  ///   - single: the names of an expert's gate, up and down in checkpoints that store each by itself.
  init(
    _ sizes: Sizes, hidden: Int, weighting: ExpertWeighting, at map: WeightMap,
    single: (gate: String, up: String, down: String) = ("gate_proj", "up_proj", "down_proj"),
    compute: ComputeContext
  ) throws(ModelError) {
    let map = map.given(sizes.named)
    router = try Linear(["gate": sizes.count], columns: hidden, at: map, compute: compute)
    stack =
      map.has("experts.0.\(single.down).weight")
      ? try Self.single(sizes, hidden: hidden, at: map.at("experts"), names: single, compute: compute)
      : try Self.stacked(sizes, hidden: hidden, at: map.at("switch_mlp"), compute: compute)
    perRow = sizes.perRow
    self.weighting = weighting
  }

  /// The maps of all experts are one tensor `[experts, outputs, inputs]`. Where transformers stores experts so, gate and
  /// up are one map, the outputs of gate first; MLX's layout has three.
  static func stacked(
    _ sizes: Sizes, hidden: Int, at map: WeightMap, compute: ComputeContext
  ) throws(ModelError) -> ExpertStack {
    func maps(_ name: String, _ rows: Int, _ columns: Int) throws(ModelError) -> [WeightTensors] {
      try loading { () throws(CheckpointError) in
        try map.linearStack(name, count: sizes.count, rows: rows, columns: columns)
      }
    }
    let downs = try maps("down_proj", hidden, sizes.intermediate)
    let (gates, ups): ([WeightTensors], [WeightTensors])
    if map.has("gate_up_proj") {
      let both = try maps("gate_up_proj", 2 * sizes.intermediate, hidden)
      gates = both.map { $0.rows(0..<sizes.intermediate) }
      ups = both.map { $0.rows(sizes.intermediate..<2 * sizes.intermediate) }
    } else {
      gates = try maps("gate_proj", sizes.intermediate, hidden)
      ups = try maps("up_proj", sizes.intermediate, hidden)
    }
    return try computing { () throws(ComputeError) in
      try ExpertStack(gates: gates, ups: ups, downs: downs, compute: compute)
    }
  }

  /// The layout of checkpoints that were not converted: a module per expert.
  private static func single(
    _ sizes: Sizes, hidden: Int, at map: WeightMap, names: (gate: String, up: String, down: String),
    compute: ComputeContext
  ) throws(ModelError) -> ExpertStack {
    var (gates, ups, downs): ([WeightTensors], [WeightTensors], [WeightTensors]) = ([], [], [])
    for index in 0..<sizes.count {
      try loading { () throws(CheckpointError) in
        gates.append(try map[index].linear(names.gate, rows: sizes.intermediate, columns: hidden))
        ups.append(try map[index].linear(names.up, rows: sizes.intermediate, columns: hidden))
        downs.append(try map[index].linear(names.down, rows: hidden, columns: sizes.intermediate))
      }
    }
    return try computing { () throws(ComputeError) in
      try ExpertStack(gates: gates, ups: ups, downs: downs, compute: compute)
    }
  }

  /// Bytes that a decode step reads: the router and the chosen experts.
  var byteCount: Int { router.byteCount + perRow * stack.bytesPerExpert }

  /// `h = Σ weight · expert(h)`.
  func callAsFunction(_ h: Rows, _ frame: DecoderFrame) {
    let (scores, routing) = (frame.routerScores(stack.count, rows: h.count), frame.routing)
    router.exactly(h, into: scores)
    routing.choose(scores, perRow: perRow, weighting: weighting)
    frame.compute.multiply(h, by: stack, routing: routing, activation: .silu, into: h)
  }
}
