// The attention of a decoder's layer: projections, norms of heads, rotation, cache, and the way back.

import Compute

/// `o(attend(rope(norm(q)), rope(norm(k)), norm(v)))` with [q | k | v] = qkv(h); norms and rotation where a layer has them.
struct SelfAttention {
  private let shape: AttentionShape
  private let keys: Keys
  private let qkv: Linear  // [hidden] → [q | k | v], [q | k] or [q], as `keys` says
  private let o: Linear  // [heads · headDim] → [hidden]
  private let qNorm, kNorm, vNorm: [Float]?  // [headDim], shared by the heads
  /// Nil in layers without positions.
  private let rope: RoPE?
  /// The layer of the cache that is written or, with shared keys, read.
  private let cacheLayer: Int
  private let isLast: Bool

  /// What a layer attends to.
  enum Keys {
    case own
    /// The projected keys are also the values.
    case alsoValues
    /// Another layer's, as they stand in the cache.
    case shared
  }

  /// What a layer has beyond projections.
  struct Options {
    var keys = Keys.own
    /// q_norm and k_norm over each head, before the rotation.
    var normsHeads = false
    /// A norm of the values too, which has no weights.
    var normsValues = false
    /// Whether config.json promises a bias of q, k and v, and one of o.
    var bias = false
    var outputBias = false
  }

  /// Binds q_proj, k_proj and v_proj, or qkv_proj, where a checkpoint has one matrix; and o_proj.
  ///
  /// - Parameters:
  ///   - layer: whose keys and values in the cache, counted over the layers that cache them.
  ///   - rope: prepared for the layout of every step; nil in layers without positions.
  ///   - weights: the tensors under `self_attn`.
  init(
    _ shape: AttentionShape, layer: Int, rope: RoPE?, _ options: Options, _ frame: DecoderFrame,
    _ weights: LayerLoader
  ) throws(ModelError) {
    let (hidden, queries) = (frame.sizes.hidden, shape.heads * shape.headDim)
    self.shape = shape
    keys = options.keys
    qNorm = options.normsHeads ? try weights.norm("q_norm", shape.headDim) : nil
    kNorm = options.normsHeads && keys != .shared ? try weights.norm("k_norm", shape.headDim) : nil
    vNorm = options.normsValues ? [Float](repeating: 1, count: shape.headDim) : nil
    qkv = try weights.linear(
      Self.projections(shape, keys, isFused: weights.has("qkv_proj.weight")), from: hidden, bias: options.bias
    )
    o = try weights.linear(["o_proj": hidden], from: queries, bias: options.outputBias)
    self.rope = rope
    cacheLayer = layer
    isLast = layer == frame.sizes.layers - 1
  }

  /// Checkpoints may hold k_proj and v_proj of layers that share another's; nothing reads them.
  private static func projections(
    _ shape: AttentionShape, _ keys: Keys, isFused: Bool
  ) -> KeyValuePairs<String, Int> {
    let (queries, width) = (shape.heads * shape.headDim, shape.kvHeads * shape.headDim)
    return switch keys {
    case .own where isFused: ["qkv_proj": queries + 2 * width]
    case .own: ["q_proj": queries, "k_proj": width, "v_proj": width]
    case .alsoValues: ["q_proj": queries, "k_proj": width]
    case .shared: ["q_proj": queries]
    }
  }

  /// Bytes that a decode step reads.
  var byteCount: Int { qkv.byteCount + o.byteCount }

  /// What the layer keeps of a sequence; nil where it reads another's.
  var cacheShape: LayerCache? {
    guard keys != .shared else { return nil }
    return .keysValues(KVLayerShape(kvHeads: shape.kvHeads, headDim: shape.headDim, window: shape.window))
  }

  /// `h = attention(h)`, writing keys and values. The last layer shortens h, and x beside it, to the rows whose logits are
  /// requested: after its keys and values no other row is read.
  func callAsFunction(_ h: inout Rows, beside x: inout Rows, _ step: DecoderStep) {
    var attended = attend(h, step)
    if isLast { (x, attended, h) = step.frame.keepChosen(step.batch, x, attended, h) }
    o(attended, into: h)
  }

  /// `h = attention(h)` of all rows, writing keys and values unless they are another layer's.
  func callAsFunction(_ h: Rows, _ step: DecoderStep) { o(attend(h, step), into: h) }

  /// The heads' results side by side, `[rows, heads · headDim]`.
  private func attend(_ h: Rows, _ step: DecoderStep) -> Rows {
    let (compute, epsilon) = (step.frame.compute, step.frame.sizes.epsilon)
    let (queries, width) = (shape.heads * shape.headDim, shape.kvHeads * shape.headDim)
    let all = step.frame.projections(rows: h.count, queries + 2 * width)
    let q = all.columns(from: 0, count: queries)
    let k = all.columns(from: queries, count: width)
    let v = all.columns(from: queries + width, count: width)
    qkv(h, into: all.columns(from: 0, count: qkv.rows))
    if keys == .alsoValues {
      for row in 0..<h.count { k.copyRow(row, to: v, at: row) }
    }
    if let qNorm { compute.rmsNormHeads(q, gain: qNorm, epsilon: epsilon) }
    if let rope { compute.rotate(q, headDim: shape.headDim, by: rope) }
    if !step.queryFactors.isEmpty { compute.scaleRows(q, by: step.queryFactors) }
    if keys != .shared {
      if let kNorm { compute.rmsNormHeads(k, gain: kNorm, epsilon: epsilon) }
      if let rope { compute.rotate(k, headDim: shape.headDim, by: rope) }
      if let vNorm { compute.rmsNormHeads(v, gain: vNorm, epsilon: epsilon) }
    }
    let out = step.frame.attended(rows: h.count, queries)
    compute.attend(
      q, adding: keys == .shared ? nil : (k, v), shape: shape, layer: cacheLayer, of: step.cache,
      at: step.layout, into: out)
    return out
  }
}
