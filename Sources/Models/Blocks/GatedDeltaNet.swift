// The gated delta net of Qwen3.5 and Qwen3-Next: linear attention whose state is corrected, not only added to.
//
// Source: arXiv:2412.06464; `Qwen3NextGatedDeltaNet` of transformers.

import Compute
import Platform

/// `out(norm(recur(silu(conv(q, k, v)))) · silu(z))`, with a decay and a correction of each head.
struct GatedDeltaNet: RecurrentMixer {
  private let sizes: Sizes
  private let qkvz: Linear  // [hidden] → [q | k | v | z]
  private let ba: Linear  // [hidden] → [b | a]
  private let convolution: ShortConvolution
  private let rates: [Float]  // [heads]: -e^A_log
  private let stepBias: [Float]  // [heads]: dt_bias
  private let norm: [Float]  // [valueDim], shared by the heads
  private let out: Linear  // [heads · valueDim] → [hidden]
  /// Counted over the recurrent layers.
  private let layer: Int

  /// Sizes as config.json states them, and what follows.
  struct Sizes {
    let shape: RecurrenceShape
    let taps: Int
    /// Elements of the keys, and of the values.
    var keys: Int { shape.keyHeads * shape.keyDim }
    var values: Int { shape.heads * shape.valueDim }
    /// Of the convolution: queries, keys and values.
    var channels: Int { 2 * keys + values }

    init(_ config: ConfigFields) throws(ModelError) {
      let heads = try config.int("linear_num_value_heads", in: 1...1024)
      let keyHeads = try config.int("linear_num_key_heads", in: 1...heads)
      guard heads % keyHeads == 0 else {
        throw .invalidValue(
          key: "linear_num_key_heads", found: "\(keyHeads)",
          expected: "a divisor of linear_num_value_heads = \(heads)")
      }
      shape = RecurrenceShape(
        heads: heads, keyHeads: keyHeads, keyDim: try config.int("linear_key_head_dim", in: 1...1024),
        valueDim: try config.int("linear_value_head_dim", in: 1...1024),
        // Of GGUF alone, whose converter puts the heads of values in this order.
        alternatesKeys: try config.bool("linear_value_heads_tiled", default: false))
      taps = try config.int("linear_conv_kernel_dim", in: 2...16)
    }

    /// The sizes that shapes of tensors follow from, by their keys in config.json.
    var named: KeyValuePairs<String, Int> {
      [
        "linear_num_value_heads": shape.heads, "linear_num_key_heads": shape.keyHeads,
        "linear_key_head_dim": shape.keyDim, "linear_value_head_dim": shape.valueDim,
        "linear_conv_kernel_dim": taps,
      ]
    }
  }

  /// - Parameters:
  ///   - layer: whose state, counted over the recurrent layers.
  ///   - hidden: inputs and outputs.
  ///   - weights: the tensors under `linear_attn`.
  init(_ sizes: Sizes, layer: Int, hidden: Int, _ weights: LayerLoader) throws(ModelError) {
    let weights = weights.given(sizes.named)
    let (heads, values) = (sizes.shape.heads, sizes.values)
    (self.sizes, self.layer) = (sizes, layer)
    qkvz =
      weights.has("in_proj_qkvz.weight")
      ? try Self.queriesKeysValues(sizes, from: hidden, weights)
      : try weights.linear(["in_proj_qkv": sizes.channels, "in_proj_z": values], from: hidden)
    ba =
      weights.has("in_proj_ba.weight")
      ? try Self.gates(sizes, from: hidden, weights)
      : try weights.linear(["in_proj_b": heads, "in_proj_a": heads], from: hidden)
    convolution = try weights.convolution(
      "conv1d", channels: sizes.channels, taps: sizes.taps, isActivated: true)
    rates = try weights.vector("A_log", heads).map { -Float(exp(Double($0))) }
    stepBias = try weights.vector("dt_bias", heads)
    norm = try weights.vector("norm.weight", sizes.shape.valueDim)
    out = try weights.linear(["out_proj": hidden], from: values)
  }

  /// Qwen3-Next has one matrix with the rows q, k, v and z of each head of keys, and one with b and a. They are bound so
  /// that all queries come first, then all keys, and so on.
  private static func queriesKeysValues(
    _ sizes: Sizes, from hidden: Int, _ weights: LayerLoader
  ) throws(ModelError) -> Linear {
    let values = sizes.values / sizes.shape.keyHeads
    return try bind(
      "in_proj_qkvz", [sizes.shape.keyDim, sizes.shape.keyDim, values, values], sizes, from: hidden, weights)
  }

  private static func gates(
    _ sizes: Sizes, from hidden: Int, _ weights: LayerLoader
  ) throws(ModelError) -> Linear {
    let shared = sizes.shape.heads / sizes.shape.keyHeads
    return try bind("in_proj_ba", [shared, shared], sizes, from: hidden, weights)
  }

  /// - Parameter widths: rows of the parts of one head of keys.
  private static func bind(
    _ name: String, _ widths: [Int], _ sizes: Sizes, from hidden: Int, _ weights: LayerLoader
  ) throws(ModelError) -> Linear {
    let (heads, width) = (sizes.shape.keyHeads, widths.reduce(0, +))
    let all = try weights.map(name, rows: heads * width, columns: hidden)
    var (parts, start): ([WeightTensors], Int) = ([], 0)
    for part in widths {
      for head in 0..<heads {
        parts.append(all.rows(head * width + start..<head * width + start + part))
      }
      start += part
    }
    return try weights.linear(parts)
  }

  /// Bytes that a decode step reads of the weights.
  var byteCount: Int { qkvz.byteCount + ba.byteCount + out.byteCount }

  var stateShape: StateShape {
    sizes.shape.state(convolutionRows: sizes.taps - 1, convolutionChannels: sizes.channels)
  }

  /// `h = mix(h)`, taking the states of the step's sequences along.
  func callAsFunction(_ h: Rows, _ step: DecoderStep) {
    guard let states = step.cache.states else { return }
    let (compute, frame, shape) = (step.frame.compute, step.frame, sizes.shape)
    let all = frame.projections(rows: h.count, sizes.channels + sizes.values + 2 * shape.heads)
    let z = all.columns(from: sizes.channels, count: sizes.values)
    let gates = all.columns(from: sizes.channels + sizes.values, count: 2 * shape.heads)
    qkvz(h, into: all.columns(from: 0, count: qkvz.rows))
    // A rounded decay is raised to the power of the positions that follow.
    ba.exactly(h, into: gates)

    let mixed = frame.gateUp(rows: h.count, sizes.channels)
    compute.convolve(
      all.columns(from: 0, count: sizes.channels), by: convolution, layer: layer, of: states, at: step.layout,
      into: mixed)
    let q = mixed.columns(from: 0, count: sizes.keys)
    let k = mixed.columns(from: sizes.keys, count: sizes.keys)
    let v = mixed.columns(from: 2 * sizes.keys, count: sizes.values)
    compute.normaliseForDelta(q, k, headDim: shape.keyDim)

    let strengths = gates.columns(from: 0, count: shape.heads)
    let decays = gates.columns(from: shape.heads, count: shape.heads)
    compute.sigmoid(strengths)
    compute.softplus(decays, adding: stepBias)
    compute.scaleColumns(decays, by: rates)
    compute.recur(
      RecurrenceInput(queries: q, keys: k, values: v, decays: decays, corrections: strengths), shape: shape,
      layer: layer, of: states, at: step.layout, into: v)

    compute.rmsNormHeads(v, gain: norm, epsilon: frame.sizes.epsilon)
    compute.gatedSilu(z, v, into: v)
    out(v, into: h)
  }
}

extension ComputeContext {
  /// Heads of length 1, queries divided by √headDim: x / √(Σx² + 1e-6), by a norm of the mean square.
  func normaliseForDelta(_ q: Rows, _ k: Rows, headDim: Int) {
    let size = Float(headDim)
    let epsilon = 1e-6 / size
    let ones = [Float](repeating: 1 / size.squareRoot(), count: headDim)
    rmsNormHeads(k, gain: ones, epsilon: epsilon)
    rmsNormHeads(q, gain: ones.map { $0 / size.squareRoot() }, epsilon: epsilon)
  }
}
