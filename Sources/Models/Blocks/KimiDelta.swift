// Kimi Delta Attention: the gated delta rule with a decay for each element of a key, from a projection of low rank.
//
// Source: arXiv:2510.26692; names as MLX stores them, or those of the original checkpoints for the convolutions.

import Compute
import Platform

/// `o(norm(recur(silu(conv(q, k, v)))) · sigmoid(g_b(g_a(h))))`.
struct KimiDelta: RecurrentMixer {
  private let shape: RecurrenceShape
  private let qkv: Linear  // [hidden] → [q | k | v]
  private let low: Linear  // [hidden] → [f_a | g_a | b]
  private let decay, gate: Linear  // [headDim] → [heads · headDim]
  private let convolution: ShortConvolution
  private let rates: [Float]  // [heads · headDim]: -e^A_log of each head
  private let stepBias: [Float]  // [heads · headDim]: dt_bias
  private let norm: [Float]  // [headDim], shared by the heads
  private let out: Linear  // [heads · headDim] → [hidden]
  /// Counted over the recurrent layers.
  private let layer: Int

  /// - Parameters:
  ///   - layer: whose state, counted over the recurrent layers.
  ///   - hidden: inputs and outputs.
  ///   - weights: the tensors under `self_attn`.
  init(heads: Int, headDim: Int, taps: Int, layer: Int, hidden: Int, _ weights: LayerLoader)
    throws(ModelError)
  {
    let width = heads * headDim
    shape = RecurrenceShape(
      heads: heads, keyHeads: heads, keyDim: headDim, valueDim: headDim, decaysChannels: true)
    self.layer = layer
    qkv = try weights.linear(["q_proj": width, "k_proj": width, "v_proj": width], from: hidden)
    low = try weights.linear(["f_a_proj": headDim, "g_a_proj": headDim, "b_proj": heads], from: hidden)
    decay = try weights.linear(["f_b_proj": width], from: headDim)
    gate = try weights.linear(["g_b_proj": width], from: headDim)
    var parts: [Float] = []
    for name in ["q_conv", "k_conv", "v_conv"] {
      let module = weights.has(name + ".conv.weight") ? name + ".conv" : name + "1d"
      parts += try weights.taps(of: module, channels: width, taps: taps)
    }
    convolution = ShortConvolution(weights: parts, taps: taps, isActivated: true)
    // Stored with dimensions of 1 around the heads.
    let logarithms = try weights.floats("A_log", shape: weights.shape(of: "A_log") ?? [heads])
    guard logarithms.count == heads else {
      throw .invalidValue(
        key: "linear_attn_config.num_heads", found: "\(heads)",
        expected: "as many as A_log has: \(logarithms.count)")
    }
    rates = logarithms.flatMap { [Float](repeating: -Float(exp(Double($0))), count: headDim) }
    stepBias = try weights.vector("dt_bias", width)
    norm = try weights.vector("o_norm.weight", headDim)
    out = try weights.linear(["o_proj": hidden], from: width)
  }

  var byteCount: Int {
    qkv.byteCount + low.byteCount + decay.byteCount + gate.byteCount + out.byteCount
  }

  var stateShape: StateShape {
    shape.state(convolutionRows: convolution.taps - 1, convolutionChannels: convolution.channels)
  }

  func callAsFunction(_ h: Rows, _ step: DecoderStep) {
    guard let states = step.cache.states else { return }
    let (compute, frame, width, size) = (
      step.frame.compute, step.frame, shape.heads * shape.valueDim, shape.valueDim
    )
    let all = frame.projections(rows: h.count, 5 * width + 2 * size + shape.heads)
    let inputs = all.columns(from: 0, count: 3 * width)
    let lows = all.columns(from: 3 * width, count: 2 * size + shape.heads)
    let decays = all.columns(from: 3 * width + lows.columns, count: width)
    let gates = all.columns(from: 4 * width + lows.columns, count: width)
    let strengths = lows.columns(from: 2 * size, count: shape.heads)
    qkv(h, into: inputs)
    // A rounded decay is raised to the power of the positions that follow.
    low.exactly(h, into: lows)
    decay.exactly(lows.columns(from: 0, count: size), into: decays)
    gate(lows.columns(from: size, count: size), into: gates)

    let mixed = frame.gateUp(rows: h.count, 3 * width)
    compute.convolve(inputs, by: convolution, layer: layer, of: states, at: step.layout, into: mixed)
    let q = mixed.columns(from: 0, count: width)
    let k = mixed.columns(from: width, count: width)
    let v = mixed.columns(from: 2 * width, count: width)
    compute.normaliseForDelta(q, k, headDim: size)
    compute.sigmoid(strengths)
    compute.softplus(decays, adding: stepBias)
    compute.scaleColumns(decays, by: rates)
    compute.recur(
      RecurrenceInput(queries: q, keys: k, values: v, decays: decays, corrections: strengths), shape: shape,
      layer: layer, of: states, at: step.layout, into: v)

    compute.rmsNormHeads(v, gain: norm, epsilon: frame.sizes.epsilon)
    compute.gatedSigmoid(gates, v, into: v)
    out(v, into: h)
  }
}
