// A mixture of experts: a router, the MLPs it chooses among, and one beside them that all rows go through.

import Compute

/// `h = Σ weight · expert(h) + shared(h)`.
struct Experts {
  private let router: Linear  // [hidden] → [experts]
  private let stack: ExpertStack
  private let adapted: AdaptedExperts?
  private let rule: ExpertRule
  private let shared: SharedExpert?
  private let weighsInput: Bool
  /// Around experts of a smaller width (Nemotron 3 Super): [hidden] → [latent] and back.
  private let narrowing, widening: Linear?

  /// How many experts a layer has, and how many each row chooses.
  struct Sizes {
    let count: Int
    let perRow: Int
    /// The width between the maps of an expert.
    let intermediate: Int
    /// The sizes that shapes of tensors follow from, by their keys in config.json.
    let named: KeyValuePairs<String, Int>

    /// Sizes that a family reads itself.
    init(count: Int, perRow: Int, intermediate: Int) throws(ModelError) {
      guard perRow <= count else {
        throw .invalidValue(
          key: "num_experts", found: "\(count)", expected: "at least the \(perRow) that a token chooses")
      }
      (self.count, self.perRow, self.intermediate) = (count, perRow, intermediate)
      named = ["num_experts": count]
    }

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

  /// Modules of the router and the experts.
  struct Names {
    var router = "gate"
    /// The tensor that only the choice adds to the scores, under the layer's MLP; read when there is one.
    var selectionBias: String?
    /// The experts as one tensor per map, as MLX calls them; original checkpoints have `experts`.
    var stack = "switch_mlp"
    /// An expert's maps, of stacks and of checkpoints with a module per expert. No gate: two matrices per expert.
    var stacked = DenseMLP.Names()
    var single = DenseMLP.Names()
  }

  /// What a layer has beyond a router and gated experts.
  struct Options {
    var activation = Activation.silu
    /// The weight multiplies what goes into an expert, not what comes out.
    var weighsInput = false
    /// Whether config.json promises biases of the router and the experts.
    var bias = false
    var names = Names()
  }

  /// - Parameters:
  ///   - latent: the width of what goes into the experts and comes out, between two maps; nil for the hidden size.
  ///   - rule: without the selection bias, which is read from the checkpoint.
  ///   - shared: what all rows go through beside the experts.
  ///   - weights: where the router and the experts are.
  init(
    _ sizes: Sizes, hidden: Int, latent: Int? = nil, rule: ExpertRule, _ options: Options = Options(),
    shared: SharedExpert? = nil, _ weights: LayerLoader
  ) throws(ModelError) {
    let (weights, names) = (weights.given(sizes.named), options.names)
    router = try weights.linear([names.router: sizes.count], from: hidden, bias: options.bias)
    let isStacked = !weights.hasModule("experts.0.\(names.single.down)")
    let down = "experts.\(names.stacked.down)"
    stack =
      isStacked
      ? try Self.stacked(
        sizes, hidden: latent ?? hidden, activation: options.activation, names: names.stacked,
        weights.at(weights.has(down) || weights.hasModule(down) ? "experts" : names.stack))
      : try Self.single(
        sizes, hidden: latent ?? hidden, activation: options.activation, names: names.single,
        weights.at("experts"))
    // As mlx-lm calls them, whatever the checkpoint does.
    adapted = weights.shelf?.makeExperts(
      stack, at: weights.prefix + "." + names.stack, names: names.stacked)
    narrowing = try latent.map { width throws(ModelError) in
      try weights.linear(["fc1_latent_proj": width], from: hidden)
    }
    widening = try latent.map { width throws(ModelError) in
      try weights.linear(["fc2_latent_proj": hidden], from: width)
    }
    var rule = rule
    if let bias = names.selectionBias, let stored = weights.shape(of: bias) {
      // ERNIE has a row of them.
      rule.selectionBias = try weights.floats(
        bias, shape: stored.count == 2 ? [1, sizes.count] : [sizes.count])
    }
    (self.rule, self.shared) = (rule, shared)
    weighsInput = options.weighsInput
  }

  /// The maps of all experts are one tensor `[experts, outputs, inputs]`. Where transformers stores experts so, gate and
  /// up are one map, the outputs of gate first; MLX's layout has three.
  static func stacked(
    _ sizes: Sizes, hidden: Int, activation: Activation = .silu, names: DenseMLP.Names = DenseMLP.Names(),
    _ weights: LayerLoader
  ) throws(ModelError) -> ExpertStack {
    let (count, width) = (sizes.count, sizes.intermediate)
    func maps(_ name: String, _ rows: Int, _ columns: Int) throws(ModelError) -> [WeightTensors] {
      try weights.maps(name, count: count, rows: rows, columns: columns)
    }
    if weights.has(names.fused + "_blocks") {
      // OpenAI's: the outputs of gate and up in turns.
      return try weights.experts(
        pairs: weights.blockMaps(names.fused, count: count, rows: 2 * width, columns: hidden),
        downs: weights.blockMaps(names.down, count: count, rows: hidden, columns: width), activation)
    }
    let downs = try maps(names.down, hidden, width)
    guard let gate = names.gate else {
      return try weights.experts(
        gates: [], ups: try maps(names.up, width, hidden), downs: downs, activation)
    }
    guard weights.has(names.fused) || weights.has(names.fused + ".weight") else {
      return try weights.experts(
        gates: try maps(gate, width, hidden), ups: try maps(names.up, width, hidden), downs: downs,
        activation)
    }
    let both = try maps(names.fused, 2 * width, hidden)
    return try weights.experts(
      gates: both.map { $0.rows(0..<width) }, ups: both.map { $0.rows(width..<2 * width) }, downs: downs,
      activation)
  }

  /// The layout of checkpoints that were not converted: a module per expert.
  private static func single(
    _ sizes: Sizes, hidden: Int, activation: Activation, names: DenseMLP.Names, _ weights: LayerLoader
  ) throws(ModelError) -> ExpertStack {
    var (gates, ups, downs): ([WeightTensors], [WeightTensors], [WeightTensors]) = ([], [], [])
    for index in 0..<sizes.count {
      let expert = weights[index]
      if let gate = names.gate {
        gates.append(try expert.map(gate, rows: sizes.intermediate, columns: hidden))
      }
      ups.append(try expert.map(names.up, rows: sizes.intermediate, columns: hidden))
      downs.append(try expert.map(names.down, rows: hidden, columns: sizes.intermediate))
    }
    return try weights.experts(gates: gates, ups: ups, downs: downs, activation)
  }

  /// Bytes that a decode step reads: the router and the chosen experts.
  var byteCount: Int {
    let latent = (narrowing?.byteCount ?? 0) + (widening?.byteCount ?? 0)
    return router.byteCount + latent + rule.perRow * stack.bytesPerExpert + (shared?.byteCount ?? 0)
  }

  func callAsFunction(_ h: Rows, _ frame: DecoderFrame) {
    let (scores, routing) = (frame.routerScores(stack.count, rows: h.count), frame.routing)
    router.exactly(h, into: scores)
    routing.choose(scores, by: rule)
    let beside = shared.map { $0(h, frame) }
    var inner = h
    if let narrowing {
      inner = frame.latents(rows: h.count, narrowing.rows)
      narrowing(h, into: inner)
    }
    frame.compute.multiply(
      inner, by: stack, routing: routing, weighsInput: weighsInput,
      adapted: adapted?.additions(among: h.count), into: inner)
    widening?(inner, into: h)
    if let beside { frame.compute.add(beside, to: h) }
  }
}

/// An MLP that all rows go through beside their experts, as it is or by `sigmoid(gate(h))`.
struct SharedExpert {
  private let mlp: DenseMLP
  private let gate: Linear?  // [hidden] → [1]

  init(_ mlp: DenseMLP, gate: Linear? = nil) {
    (self.mlp, self.gate) = (mlp, gate)
  }

  var byteCount: Int { mlp.byteCount + (gate?.byteCount ?? 0) }

  fileprivate func callAsFunction(_ h: Rows, _ frame: DecoderFrame) -> Rows {
    let out = frame.second(rows: h.count)
    mlp(h, into: out, frame)
    if let gate {
      let factors = frame.sharedGates(rows: h.count)
      gate.exactly(h, into: factors)
      frame.compute.scaleRows(out, bySigmoidOf: factors)
    }
    return out
  }
}
