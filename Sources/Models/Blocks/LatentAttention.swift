// Multi-head latent attention in its absorbed form (arXiv:2405.04434 §2.1): all heads share one latent vector per position.
//
//   [c | kp] = kv_a_proj_with_mqa(h)      c = norm(c), kp = rope(kp): what is cached, rank + rope numbers per position
//   [qn | qp] of each head = q_b_proj(norm(q_a_proj(h))), or q_proj(h);   qp = rope(qp)
//   K[h] = Wk[h] c,  V[h] = Wv[h] c,  score = qn·K[h] + qp·kp             the heads' own keys and values, never made:
//   score = (Wk[h]ᵀ qn)·c + qp·kp,    out[h] = Wv[h] Σ p c                one key of rank + rope, whose first part is the value

import Compute

/// What config.json says of latent attention.
struct LatentSizes {
  let heads: Int
  /// The width between the two projections of queries; nil for one projection.
  let queryRank: Int?
  /// Elements of the latent vector.
  let rank: Int
  /// Elements of a head's query without and with position.
  let nope, rope: Int
  let value: Int
  /// Of the norms between projections.
  let epsilon: Float
  /// The factor of scores.
  var scale: Float

  /// - Parameter epsilon: what the family takes for the inner norms.
  init(_ config: ConfigFields, sizes: DecoderSizes, epsilon: Float) throws(ModelError) {
    heads = sizes.heads
    queryRank = config.has("q_lora_rank") ? try config.int("q_lora_rank", in: 1...1 << 16) : nil
    rank = try config.int("kv_lora_rank", in: 1...1 << 14)
    nope = try config.int("qk_nope_head_dim", in: 1...1 << 12)
    rope = try config.int("qk_rope_head_dim", in: 2...1 << 12)
    value = try config.int("v_head_dim", in: 1...1 << 12)
    self.epsilon = epsilon
    scale = 1 / Float(nope + rope).squareRoot()
  }

  /// The sizes that shapes of tensors follow from, by their keys in config.json.
  var named: KeyValuePairs<String, Int> {
    [
      "q_lora_rank": queryRank ?? 0, "kv_lora_rank": rank, "qk_nope_head_dim": nope, "qk_rope_head_dim": rope,
      "v_head_dim": value,
    ]
  }

  /// One head of keys, whose first elements are the values.
  var shape: AttentionShape {
    var shape = AttentionShape(heads: heads, kvHeads: 1, headDim: rank + rope, scale: scale)
    shape.latentValues = rank
    return shape
  }
}

/// The attention of one layer.
struct LatentAttention {
  private let sizes: LatentSizes
  /// Nil in layers without positions.
  private let rope: RoPE?
  private let input: Linear  // [hidden] → [q_a | c | kp] or [q | c | kp]
  private let queryNorm, latentNorm: [Float]  // [queryRank], empty without; [rank]
  private let queries: Linear?  // [queryRank] → [heads · (nope + rope)]
  private let keyMaps: [WeightStack]  // per head [nope] → [rank]: Wkᵀ
  private let valueMaps: [WeightStack]  // per head [rank] → [value]
  private let o: Linear  // [heads · value] → [hidden]
  private let cacheLayer: Int
  private let isLast: Bool

  /// - Parameter weights: the tensors under `self_attn`.
  init(
    _ sizes: LatentSizes, layer: Int, rope: RoPE?, bias: Bool, _ frame: DecoderFrame, _ weights: LayerLoader
  ) throws(ModelError) {
    let (weights, hidden) = (weights.given(sizes.named), frame.sizes.hidden)
    let (width, latent) = (sizes.heads * (sizes.nope + sizes.rope), sizes.rank + sizes.rope)
    if let rank = sizes.queryRank {
      input = try weights.linear(
        ["q_a_proj": rank, "kv_a_proj_with_mqa": latent], from: hidden, bias: bias)
      queryNorm = try weights.norm("q_a_layernorm", rank)
      queries = try weights.linear(["q_b_proj": width], from: rank)
    } else {
      input = try weights.linear(["q_proj": width, "kv_a_proj_with_mqa": latent], from: hidden)
      queryNorm = []
      queries = nil
    }
    latentNorm = try weights.norm("kv_a_layernorm", sizes.rank)
    (keyMaps, valueMaps) = try Self.headMaps(sizes, weights)
    o = try weights.linear(["o_proj": hidden], from: sizes.heads * sizes.value, bias: bias)
    (self.sizes, self.rope) = (sizes, rope)
    cacheLayer = layer
    isLast = layer == frame.sizes.layers - 1
  }

  /// MLX's converter cuts `kv_b_proj` into the two stacks that the absorbed form wants. Others hold it whole: then the
  /// values' rows serve as they are, and the keys' are turned over in float32, so that nothing is lost.
  private static func headMaps(
    _ sizes: LatentSizes, _ weights: LayerLoader
  ) throws(ModelError) -> (keys: [WeightStack], values: [WeightStack]) {
    if weights.has("embed_q.weight") {
      return (
        try weights.heads(
          weights.maps("embed_q", count: sizes.heads, rows: sizes.rank, columns: sizes.nope)),
        try weights.heads(
          weights.maps("unembed_out", count: sizes.heads, rows: sizes.value, columns: sizes.rank))
      )
    }
    let perHead = sizes.nope + sizes.value
    let both = try weights.map("kv_b_proj", rows: sizes.heads * perHead, columns: sizes.rank)
    let scratch = ScratchBuffer()
    var (keys, values): ([WeightTensors], [WeightTensors]) = ([], [])
    for head in 0..<sizes.heads {
      let first = head * perHead
      values.append(both.rows(first + sizes.nope..<first + perHead))
      let stored = try weights.heads([both.rows(first..<first + sizes.nope)])
      let rows = scratch.rows(sizes.nope, sizes.rank)
      weights.compute.gather((0..<Int32(sizes.nope)).map { $0 }, of: stored[0], into: rows)
      var turned = [Float](repeating: 0, count: sizes.rank * sizes.nope)
      for n in 0..<sizes.nope {
        for (r, value) in rows.values(ofRow: n).enumerated() { turned[r * sizes.nope + n] = value }
      }
      keys.append(
        WeightTensors(
          dense: TensorView(
            name: weights.prefix + ".kv_b_proj[\(head)]", shape: [sizes.rank, sizes.nope], floats: turned)))
    }
    return (try weights.heads(keys), try weights.heads(values))
  }

  /// Bytes that a decode step reads.
  var byteCount: Int {
    let maps = (keyMaps + valueMaps).reduce(0) { $0 + $1.byteCount }
    return input.byteCount + (queries?.byteCount ?? 0) + maps + o.byteCount
  }

  var cacheShape: LayerCache? { .keysValues(sizes.shape.cacheShape) }

  /// As `SelfAttention`'s.
  func callAsFunction(_ h: inout Rows, beside x: inout Rows, _ step: DecoderStep) {
    let (frame, compute) = (step.frame, step.frame.compute)
    var attended = attend(h, step)
    if isLast { (x, attended, h) = frame.keepChosen(step.batch, x, attended, h) }
    let values = frame.latents(rows: attended.count, sizes.heads * sizes.value)
    compute.multiplyHeads(attended, by: valueMaps, into: values)
    o(values, into: h)
  }

  /// The heads' sums of latent vectors, `[rows, heads · rank]`.
  private func attend(_ h: Rows, _ step: DecoderStep) -> Rows {
    let (frame, compute) = (step.frame, step.frame.compute)
    let latent = sizes.rank + sizes.rope
    let projected = frame.projections(rows: h.count, input.rows)
    input(h, into: projected)
    var q = projected.columns(from: 0, count: input.rows - latent)
    let kv = projected.columns(from: q.columns, count: latent)
    if let queries {
      compute.rmsNorm(q, gain: queryNorm, epsilon: sizes.epsilon, into: q)
      let wide = frame.latents(rows: h.count, queries.rows)
      queries(q, into: wide)
      q = wide
    }
    let c = kv.columns(from: 0, count: sizes.rank)
    compute.rmsNorm(c, gain: latentNorm, epsilon: sizes.epsilon, into: c)
    let absorbed = frame.gateUp(rows: h.count, sizes.heads * latent)
    compute.multiplyHeads(q, by: keyMaps, into: absorbed)
    compute.copyHeads(
      sizes.heads, count: sizes.rope, of: q, from: sizes.nope, to: absorbed, at: sizes.rank)
    if let rope {
      compute.rotate(absorbed, headDim: latent, from: sizes.rank, by: rope)
      compute.rotate(kv.columns(from: sizes.rank, count: sizes.rope), headDim: sizes.rope, by: rope)
    }
    let out = frame.attended(rows: h.count, sizes.heads * sizes.rank)
    compute.attend(
      absorbed, adding: (kv, nil), shape: sizes.shape, layer: cacheLayer, of: step.cache, at: step.layout,
      into: out)
    return out
  }
}
