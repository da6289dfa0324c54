// The gated short convolution of LFM2: `out(C · conv(B · x))`, whose state is a few inputs.
//
// Source: arXiv:2511.23404; `Lfm2ShortConv` of transformers.

import Compute

/// A convolution between two gates, without an activation.
struct GatedConvolution: RecurrentMixer {
  private let input: Linear  // [hidden] → [B | C | x]
  private let convolution: ShortConvolution
  private let out: Linear  // [hidden] → [hidden]
  private let hidden: Int
  /// Counted over the recurrent layers.
  private let layer: Int

  /// - Parameters:
  ///   - layer: whose state, counted over the recurrent layers.
  ///   - bias: whether config.json promises biases of the convolution and both projections.
  ///   - weights: the tensors under `conv`.
  init(layer: Int, hidden: Int, taps: Int, bias: Bool, _ weights: LayerLoader) throws(ModelError) {
    input = try weights.linear(["in_proj": 3 * hidden], from: hidden, bias: bias)
    convolution = try weights.convolution(
      "conv", channels: hidden, taps: taps, bias: bias, isActivated: false)
    out = try weights.linear(["out_proj": hidden], from: hidden, bias: bias)
    (self.hidden, self.layer) = (hidden, layer)
  }

  var byteCount: Int { input.byteCount + out.byteCount }

  var stateShape: StateShape {
    StateShape(
      convolutionRows: convolution.taps - 1, convolutionChannels: hidden, heads: 0, keyDim: 0, valueDim: 0)
  }

  func callAsFunction(_ h: Rows, _ step: DecoderStep) {
    guard let states = step.cache.states else { return }
    let compute = step.frame.compute
    let all = step.frame.projections(rows: h.count, 3 * hidden)
    let b = all.columns(from: 0, count: hidden)
    let c = all.columns(from: hidden, count: hidden)
    let x = all.columns(from: 2 * hidden, count: hidden)
    input(h, into: all)
    compute.multiply(x, elementwiseBy: b)
    compute.convolve(x, by: convolution, layer: layer, of: states, at: step.layout, into: h)
    compute.multiply(c, elementwiseBy: h)
    out(c, into: h)
  }
}
