// The mixer of Mamba 2: a state per head that forgets at a rate of its own and takes in what each token brings.
//
// Source: arXiv:2405.21060; `NemotronHMamba2Mixer` and `GraniteMoeHybridMambaLayer` of transformers, in whose names the
// tensors are. Steps of time are not limited unless `time_step_limit` says so: `time_step_min` and `time_step_max` are of
// the initialisation.

import Compute
import Platform

/// `out(norm(recur(silu(conv(x, B, C)), dt) + D x) · silu(z))`, the norm after the gate or before it.
struct Mamba2: RecurrentMixer {
  private let sizes: Sizes
  private let zxBC: Linear  // [hidden] → [z | x | B | C]
  private let dt: Linear  // [hidden] → [heads]
  private let convolution: ShortConvolution
  private let rates: [Float]  // [heads]: -e^A_log
  private let stepBias: [Float]  // [heads]: dt_bias
  private let skip: [Float]  // [heads]: D
  private let norm: [Float]?  // [heads · headDim]
  private let out: Linear  // [heads · headDim] → [hidden]
  /// Factors of the columns z, x, B, C and dt of the input projection; nil for none.
  private let factors: (zxBC: [Float], dt: [Float])?
  /// Counted over the recurrent layers.
  private let layer: Int

  /// Sizes as config.json states them, and what follows.
  struct Sizes {
    var heads: Int
    var headDim: Int
    /// Groups of heads that share B and C.
    var groups: Int
    /// Elements of B and of C.
    var stateDim: Int
    var taps: Int
    var convolutionBias: Bool
    /// Whether config.json promises biases of both projections.
    var bias: Bool
    /// Bounds of the steps of time; nil for none.
    var stepLimit: ClosedRange<Float>?
    /// A norm over each group; nil for none.
    var norm: NormPlace? = .afterGate
    /// By their keys in config.json, for errors about shapes.
    var named: KeyValuePairs<String, Int>

    enum NormPlace {
      case afterGate, beforeGate
    }

    var values: Int { heads * headDim }
    var keys: Int { groups * stateDim }
    /// Of the convolution: x, B and C.
    var channels: Int { values + 2 * keys }
    var shape: RecurrenceShape {
      RecurrenceShape(heads: heads, keyHeads: groups, keyDim: stateDim, valueDim: headDim)
    }

    /// The keys of config.json by which a family names its sizes.
    struct Keys {
      var heads = "mamba_n_heads"
      var headDim = "mamba_d_head"
      var groups = "mamba_n_groups"
      var stateDim = "mamba_d_state"
      var taps = "mamba_d_conv"
      var convolutionBias = "mamba_conv_bias"
      var bias = "mamba_proj_bias"
    }

    init(_ config: ConfigFields, _ keys: Keys = Keys()) throws(ModelError) {
      heads = try config.int(keys.heads, in: 1...4096)
      headDim = try config.int(keys.headDim, in: 1...4096)
      groups = try config.int(keys.groups, in: 1...heads, default: 1)
      guard heads % groups == 0 else {
        throw .invalidValue(
          key: keys.groups, found: "\(groups)", expected: "a divisor of \(keys.heads) = \(heads)")
      }
      stateDim = try config.int(keys.stateDim, in: 1...4096)
      taps = try config.int(keys.taps, in: 2...16, default: 4)
      convolutionBias = try config.bool(keys.convolutionBias, default: true)
      bias = try config.bool(keys.bias, default: false)
      if let activation = try config.string("mamba_hidden_act"), activation != "silu" {
        throw .unsupportedSetting(key: "mamba_hidden_act", value: activation, supported: "silu")
      }
      if config.has("time_step_limit") {
        let limits = try config.doubles("time_step_limit", count: 2, in: 0...Double.infinity)
        guard limits[0] <= limits[1] else {
          throw .invalidValue(key: "time_step_limit", found: "\(limits)", expected: "two numbers in order")
        }
        stepLimit = Float(limits[0])...Float(limits[1])
      }
      named = [
        keys.heads: heads, keys.headDim: headDim, keys.groups: groups, keys.stateDim: stateDim,
        keys.taps: taps,
      ]
    }
  }

  /// - Parameters:
  ///   - layer: whose state, counted over the recurrent layers.
  ///   - hidden: inputs and outputs.
  ///   - multipliers: of the columns z, x, B, C and dt of the input projection; nil for none.
  ///   - weights: the tensors of the mixer.
  init(
    _ sizes: Sizes, layer: Int, hidden: Int, multipliers: [Float]? = nil, _ weights: LayerLoader
  ) throws(ModelError) {
    let weights = weights.given(sizes.named)
    let (heads, width) = (sizes.heads, sizes.values + sizes.channels)
    (self.sizes, self.layer) = (sizes, layer)
    let all = try weights.map("in_proj", rows: width + heads, columns: hidden)
    if sizes.bias, all.bias == nil {
      throw .missingTensor(
        name: "...in_proj.bias", because: "config.json says that this projection has a bias")
    }
    zxBC = try weights.linear([all.rows(0..<width)])
    dt = try weights.linear([all.rows(width..<width + heads)])
    convolution = try weights.convolution(
      "conv1d", channels: sizes.channels, taps: sizes.taps, bias: sizes.convolutionBias, isActivated: true)
    rates = try weights.vector("A_log", heads).map { -Float(exp(Double($0))) }
    stepBias = try weights.vector("dt_bias", heads)
    skip = try weights.vector("D", heads)
    norm = sizes.norm == nil ? nil : try weights.vector("norm.weight", sizes.values)
    out = try weights.linear(["out_proj": hidden], from: sizes.values, bias: sizes.bias)
    factors = multipliers.map { multipliers in
      let widths = [sizes.values, sizes.values, sizes.keys, sizes.keys]
      return (
        zip(multipliers, widths).flatMap { [Float](repeating: $0, count: $1) },
        [Float](repeating: multipliers.last ?? 1, count: heads)
      )
    }
  }

  var byteCount: Int { zxBC.byteCount + dt.byteCount + out.byteCount }

  var stateShape: StateShape {
    sizes.shape.state(convolutionRows: sizes.taps - 1, convolutionChannels: sizes.channels)
  }

  func callAsFunction(_ h: Rows, _ step: DecoderStep) {
    guard let states = step.cache.states else { return }
    let (compute, frame, heads, values) = (step.frame.compute, step.frame, sizes.heads, sizes.values)
    let width = values + sizes.channels
    let all = frame.projections(rows: h.count, width + 2 * heads)
    let (inner, steps) = (all.columns(from: 0, count: width), all.columns(from: width, count: heads))
    let z = inner.columns(from: 0, count: values)
    zxBC(h, into: inner)
    // A rounded step of time is in every later state.
    dt.exactly(h, into: steps)
    if let factors {
      compute.scaleColumns(inner, by: factors.zxBC)
      compute.scaleColumns(steps, by: factors.dt)
    }

    let mixed = frame.gateUp(rows: h.count, sizes.channels)
    compute.convolve(
      inner.columns(from: values, count: sizes.channels), by: convolution, layer: layer, of: states,
      at: step.layout, into: mixed)
    let x = mixed.columns(from: 0, count: values)
    let b = mixed.columns(from: values, count: sizes.keys)
    let c = mixed.columns(from: values + sizes.keys, count: sizes.keys)

    compute.softplus(steps, adding: stepBias)
    if let limit = sizes.stepLimit { compute.clamp(steps, to: limit, into: steps) }
    let decays = all.columns(from: width + heads, count: heads)
    for row in 0..<h.count { steps.copyRow(row, to: decays, at: row) }
    compute.scaleColumns(decays, by: rates)

    // y = recur(dt x) + D x
    let y = frame.attended(rows: h.count, values)
    compute.scaleHeads(x, by: steps, into: y)
    compute.recur(
      RecurrenceInput(queries: c, keys: b, values: y, decays: decays), shape: sizes.shape, layer: layer,
      of: states, at: step.layout, into: y)
    compute.addHeads(x, scaledBy: skip, to: y)

    if sizes.norm == .beforeGate { normalise(y, frame) }
    compute.gatedSilu(z, y, into: y)
    if sizes.norm == .afterGate { normalise(y, frame) }
    out(y, into: h)
  }

  /// Over each group of heads, with a gain of its own for each element.
  private func normalise(_ y: Rows, _ frame: DecoderFrame) {
    guard let norm else { return }
    frame.compute.rmsNormGroups(
      y, size: sizes.values / sizes.groups, gain: norm, epsilon: frame.sizes.epsilon)
  }
}
