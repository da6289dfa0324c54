// One layer of a decoder: attention and an MLP, each added to the residual stream, with norms before or after.
//
//   x += after(attention(before(x)))     x += after(mlp(before(x)))          norms where a family has them
//   x += attention(before(x)) + mlp(before(x))                               side by side (Cohere)

import Compute

/// What mixes positions by a state that each of them changes: `h = mix(h)`.
protocol RecurrentMixer {
  /// Bytes that a decode step reads of the weights.
  var byteCount: Int { get }
  /// What the layer keeps of a sequence.
  var stateShape: StateShape { get }
  /// Takes the states of the step's sequences along.
  func callAsFunction(_ h: Rows, _ step: DecoderStep)
}

extension DecoderFrame {
  /// Modules of a layer that normalises what goes into each branch: Llama's, where a family has no names of its own.
  struct PreNormNames {
    var attentionNorm = "input_layernorm"
    var attention = "self_attn"
    var mlpNorm = "post_attention_layernorm"
  }

  /// Layers that normalise what goes into each branch: `x += attention(norm(x))`, then the MLP.
  ///
  /// - Parameters:
  ///   - windows: of each layer; nil for full attention everywhere.
  ///   - rotates: whether a layer has positions; nil where all have.
  ///   - mlp: binds the MLP of a layer from the layer's tensors.
  func preNormLayers(
    _ attention: SelfAttention.Options, names: PreNormNames = PreNormNames(), windows: [Int?]? = nil,
    rotates: [Bool]? = nil,
    mlp: (_ index: Int, _ weights: LayerLoader) throws(ModelError) -> FeedForward
  ) throws(ModelError) -> [DecoderLayer] {
    try layers { index, weights throws(ModelError) in
      DecoderLayer(
        attentionNorms: try .before(names.attentionNorm, sizes, weights),
        attention: try .heads(
          sizes.attention(window: windows?[index]), layer: index, rope: rotates?[index] ?? true ? rope : nil,
          attention, self, weights.at(names.attention)),
        mlpNorms: try .before(names.mlpNorm, sizes, weights),
        mlp: try mlp(index, weights))
    }
  }
}

/// A layer as `Decoder` runs it.
struct DecoderLayer {
  /// What mixes the positions.
  enum Mixer {
    case heads(SelfAttention)
    case latent(LatentAttention)
    case recurrent(any RecurrentMixer)
    /// Both read the layer's input, and their results are added.
    case beside(SelfAttention, any RecurrentMixer)

    static func heads(
      _ shape: AttentionShape, layer: Int, rope: RoPE?, _ options: SelfAttention.Options,
      _ frame: DecoderFrame, _ weights: LayerLoader
    ) throws(ModelError) -> Mixer {
      .heads(try SelfAttention(shape, layer: layer, rope: rope, options, frame, weights))
    }

    var byteCount: Int {
      switch self {
      case .heads(let attention): attention.byteCount
      case .latent(let attention): attention.byteCount
      case .recurrent(let mixer): mixer.byteCount
      case .beside(let attention, let mixer): attention.byteCount + mixer.byteCount
      }
    }

    var cacheShapes: [LayerCache] {
      switch self {
      case .heads(let attention): [attention.cacheShape].compactMap { $0 }
      case .latent(let attention): [attention.cacheShape].compactMap { $0 }
      case .recurrent(let mixer): [.recurrent(mixer.stateShape)]
      case .beside(let attention, let mixer):
        [attention.cacheShape, .recurrent(mixer.stateShape)].compactMap { $0 }
      }
    }

    func callAsFunction(_ h: inout Rows, beside x: inout Rows, _ step: DecoderStep) {
      switch self {
      case .heads(let attention): attention(&h, beside: &x, step)
      case .latent(let attention): attention(&h, beside: &x, step)
      case .recurrent(let mixer): mixer(h, step)
      case .beside(let attention, let mixer):
        let second = step.frame.second(rows: h.count)
        for row in 0..<h.count { h.copyRow(row, to: second, at: row) }
        mixer(second, step)
        attention(h, step)
        step.frame.compute.add(second, to: h)
      }
    }
  }

  /// Norms of what goes into a branch, and of what it adds.
  struct Norms {
    var before: Norm?
    var after: Norm?

    /// One norm before a branch.
    static func before(
      _ name: String, kind: Norm.Kind = .rms, _ sizes: DecoderSizes, _ weights: LayerLoader
    ) throws(ModelError) -> Norms {
      Norms(before: try Norm(name, sizes.hidden, kind: kind, epsilon: sizes.epsilon, weights))
    }

    /// One RMS norm after a branch.
    static func after(
      _ name: String, _ sizes: DecoderSizes, _ weights: LayerLoader
    ) throws(ModelError) -> Norms {
      Norms(after: try Norm(name, sizes.hidden, epsilon: sizes.epsilon, weights))
    }

    /// RMS norms on both sides of a branch.
    static func around(
      _ first: String, _ last: String, _ sizes: DecoderSizes, _ weights: LayerLoader
    ) throws(ModelError) -> Norms {
      Norms(
        before: try Norm(first, sizes.hidden, epsilon: sizes.epsilon, weights),
        after: try Norm(last, sizes.hidden, epsilon: sizes.epsilon, weights))
    }
  }

  var attentionNorms = Norms()
  /// Nil in layers that are an MLP alone.
  var attention: Mixer?
  var mlpNorms = Norms()
  /// Nil in layers that are a mixer alone.
  var mlp: FeedForward?
  /// The factor of what a branch adds.
  var residualScale: Float = 1
  /// The MLP reads what attention reads, instead of the sum after it.
  var isParallel = false

  /// Bytes that a decode step reads.
  var byteCount: Int { (attention?.byteCount ?? 0) + (mlp?.byteCount ?? 0) }

  /// `x = layer(x)`; the last layer shortens x to the rows whose logits are requested.
  ///
  /// - Parameter h: a buffer as large as x.
  func callAsFunction(_ x: inout Rows, _ h: inout Rows, _ step: DecoderStep, isLast: Bool) {
    let frame = step.frame
    if let attention {
      normed(x, attentionNorms.before, into: h, frame.compute)
      attention(&h, beside: &x, step)
    }
    // Attention that writes the cache's last layer has done so itself.
    if isLast, x.count != step.batch.logitRowCount { (x, h) = frame.keepChosen(step.batch, x, h) }
    if isParallel, let mlp {
      // x is still what attention read: its norm is computed once more, of the rows that are left.
      let branch = frame.second(rows: x.count)
      normed(x, attentionNorms.before, into: branch, frame.compute)
      mlp(branch, frame)
      add(h, attentionNorms.after, to: x, frame.compute)
      add(branch, mlpNorms.after, to: x, frame.compute)
      return
    }
    if attention != nil { add(h, attentionNorms.after, to: x, frame.compute) }
    guard let mlp else { return }
    normed(x, mlpNorms.before, into: h, frame.compute)
    mlp(h, frame)
    add(h, mlpNorms.after, to: x, frame.compute)
  }

  private func normed(_ x: Rows, _ norm: Norm?, into h: Rows, _ compute: ComputeContext) {
    if let norm {
      norm(x, into: h, compute)
    } else {
      for row in 0..<x.count { x.copyRow(row, to: h, at: row) }
    }
  }

  private func add(_ h: Rows, _ norm: Norm?, to x: Rows, _ compute: ComputeContext) {
    if let norm { norm(h, into: h, compute) }
    if residualScale != 1 { compute.scale(h, by: residualScale) }
    compute.add(h, to: x)
  }
}
