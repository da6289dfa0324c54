// The MLP of a layer: one that all rows go through, or several of which each row chooses a few.

import Compute

/// `down(activation(gate) · up)`, of all rows or of each row's experts.
enum FeedForward {
  case dense(gateUp: Linear, down: Linear, GateActivation)
  case experts(Experts)

  /// One MLP: gate_proj and up_proj, or gate_up_proj, where a checkpoint has one matrix; and down_proj.
  static func dense(
    _ hidden: Int, _ intermediate: Int, activation: GateActivation = .silu, bias: Bool = false,
    _ weights: LayerLoader
  ) throws(ModelError) -> FeedForward {
    let names: KeyValuePairs =
      weights.has("gate_up_proj.weight")
      ? ["gate_up_proj": 2 * intermediate] : ["gate_proj": intermediate, "up_proj": intermediate]
    return .dense(
      gateUp: try weights.linear(names, from: hidden, bias: bias),
      down: try weights.linear(["down_proj": hidden], from: intermediate, bias: bias), activation)
  }

  /// Bytes that a decode step reads.
  var byteCount: Int {
    switch self {
    case .dense(let gateUp, let down, _): gateUp.byteCount + down.byteCount
    case .experts(let experts): experts.byteCount
    }
  }

  /// `h = mlp(h)`.
  func callAsFunction(_ h: Rows, _ frame: DecoderFrame) {
    switch self {
    case .dense(let gateUpMap, let down, let activation):
      let gateUp = frame.gateUp(rows: h.count, gateUpMap.rows)
      let gate = gateUp.columns(from: 0, count: gateUp.columns / 2)
      let up = gateUp.columns(from: gate.columns, count: gate.columns)
      gateUpMap(h, into: gateUp)
      frame.compute.gated(activation, gate, up, into: gate)
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
  ///   - single: the names of an expert's gate, up and down in checkpoints that store each by itself.
  ///   - weights: where `gate`, the router, and the experts are.
  init(
    _ sizes: Sizes, hidden: Int, weighting: ExpertWeighting,
    single: (gate: String, up: String, down: String) = ("gate_proj", "up_proj", "down_proj"),
    _ weights: LayerLoader
  ) throws(ModelError) {
    let weights = weights.given(sizes.named)
    router = try weights.linear(["gate": sizes.count], from: hidden)
    stack =
      weights.has("experts.0.\(single.down).weight")
      ? try Self.single(sizes, hidden: hidden, names: single, weights.at("experts"))
      : try Self.stacked(sizes, hidden: hidden, weights.at("switch_mlp"))
    perRow = sizes.perRow
    self.weighting = weighting
  }

  /// The maps of all experts are one tensor `[experts, outputs, inputs]`. Where transformers stores experts so, gate and
  /// up are one map, the outputs of gate first; MLX's layout has three.
  static func stacked(_ sizes: Sizes, hidden: Int, _ weights: LayerLoader) throws(ModelError) -> ExpertStack {
    let (count, width) = (sizes.count, sizes.intermediate)
    let downs = try weights.maps("down_proj", count: count, rows: hidden, columns: width)
    guard weights.has("gate_up_proj") else {
      return try weights.experts(
        gates: weights.maps("gate_proj", count: count, rows: width, columns: hidden),
        ups: weights.maps("up_proj", count: count, rows: width, columns: hidden), downs: downs)
    }
    let both = try weights.maps("gate_up_proj", count: count, rows: 2 * width, columns: hidden)
    return try weights.experts(
      gates: both.map { $0.rows(0..<width) }, ups: both.map { $0.rows(width..<2 * width) }, downs: downs)
  }

  /// The layout of checkpoints that were not converted: a module per expert.
  private static func single(
    _ sizes: Sizes, hidden: Int, names: (gate: String, up: String, down: String), _ weights: LayerLoader
  ) throws(ModelError) -> ExpertStack {
    var (gates, ups, downs): ([WeightTensors], [WeightTensors], [WeightTensors]) = ([], [], [])
    for index in 0..<sizes.count {
      let expert = weights[index]
      gates.append(try expert.map(names.gate, rows: sizes.intermediate, columns: hidden))
      ups.append(try expert.map(names.up, rows: sizes.intermediate, columns: hidden))
      downs.append(try expert.map(names.down, rows: hidden, columns: sizes.intermediate))
    }
    return try weights.experts(gates: gates, ups: ups, downs: downs)
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
