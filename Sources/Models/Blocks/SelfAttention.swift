// The attention of a decoder's layer: projections, norms of heads, rotation, cache, and the way back.

import Compute

/// `o(attend(rope(norm(q)), rope(norm(k)), norm(v)))` with [q | k | v] = qkv(h); norms and rotation where a layer has them.
struct SelfAttention {
  private let shape: AttentionShape
  private let options: Options
  /// [hidden] → [q | k | v], [q | k] or [q], as `options.keys` says, then gates.
  private let qkv: Linear
  private let o: Linear  // [heads · headDim] → [hidden]
  private let qNorm, kNorm, vNorm: [Float]?  // [headDim], or as wide as `HeadNorms` says
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

  /// Norms of queries and keys.
  enum HeadNorms {
    case none
    /// RMS of each head; the gain is shared by the heads.
    case heads
    /// RMS of all heads of a row together.
    case projection
    /// RMS of each head without a gain.
    case plain
    /// Layer norm of each head with a gain of its own, `[heads, headDim]`.
    case layer
  }

  /// Where the gate of what the heads find comes from.
  enum Gate: Equatable {
    case none
    /// q_proj has a gate beside each head's query.
    case besideQueries
    /// A matrix of its own, by its name.
    case module(String)
  }

  /// Modules under `self_attn`.
  struct Names {
    var q = "q_proj"
    var k = "k_proj"
    var v = "v_proj"
    /// The three as one matrix, where a checkpoint has it.
    var fused = "qkv_proj"
    var o = "o_proj"
    var qNorm = "q_norm"
    var kNorm = "k_norm"
  }

  /// What a layer has beyond projections.
  struct Options {
    var keys = Keys.own
    var norms = HeadNorms.none
    /// Queries and keys are normalised after the rotation, not before.
    var rotatesFirst = false
    /// A norm of the values too, which has no weights.
    var normsValues = false
    /// Whether config.json promises a bias of q, k and v, and one of o.
    var bias = false
    var outputBias = false
    /// A score per head of queries that belongs to no key: the tensor `sinks`.
    var hasSinks = false
    /// Whether the step's factors of queries apply.
    var growsQueries = true
    /// Queries, keys and values from float32 activations in the fast mode too: for scores that nothing makes smaller.
    var projectsExactly = false
    /// The fused matrix has the rows of each head of keys together: its queries, its key, its value.
    var groupsRows = false
    /// What the heads find is multiplied with the sigmoid of a gate as wide.
    var gate = Gate.none
    /// What keys and values are multiplied with.
    var keyFactor: Float = 1
    var valueFactor: Float = 1
    var names = Names()
  }

  /// Binds the projections and norms.
  ///
  /// - Parameters:
  ///   - layer: whose keys and values in the cache, counted over the layers that cache them.
  ///   - rope: prepared for the layout of every step; nil in layers without positions.
  ///   - weights: the tensors under `self_attn`.
  init(
    _ shape: AttentionShape, layer: Int, rope: RoPE?, _ options: Options, _ frame: DecoderFrame,
    _ weights: LayerLoader
  ) throws(ModelError) {
    let (hidden, queries, names) = (frame.sizes.hidden, shape.heads * shape.headDim, options.names)
    var shape = shape
    if options.hasSinks { shape.sinks = try weights.vector("sinks", shape.heads) }
    (self.shape, self.options) = (shape, options)
    qNorm = try Self.gain(options.norms, names.qNorm, heads: shape.heads, shape.headDim, weights)
    kNorm =
      options.keys == .shared
      ? nil : try Self.gain(options.norms, names.kNorm, heads: shape.kvHeads, shape.headDim, weights)
    vNorm = options.normsValues ? [Float](repeating: 1, count: shape.headDim) : nil
    qkv =
      if options.gate == .besideQueries {
        try Self.gatedProjections(shape, names, from: hidden, weights)
      } else if options.groupsRows {
        try Self.groupedProjections(shape, names, from: hidden, weights)
      } else {
        try weights.linear(
          Self.projections(shape, options, isFused: weights.hasModule(names.fused)), from: hidden,
          bias: options.bias)
      }
    o = try weights.linear([names.o: hidden], from: queries, bias: options.outputBias)
    self.rope = rope
    cacheLayer = layer
    isLast = layer == frame.sizes.layers - 1
  }

  private static func gain(
    _ norms: HeadNorms, _ name: String, heads: Int, _ size: Int, _ weights: LayerLoader
  ) throws(ModelError) -> [Float]? {
    switch norms {
    case .none: nil
    case .heads: try weights.norm(name, size)
    case .projection: try weights.norm(name, heads * size)
    case .plain: [Float](repeating: 1, count: size)
    case .layer: try weights.floats(name + ".weight", shape: [heads, size])
    }
  }

  /// Checkpoints may hold k_proj and v_proj of layers that share another's; nothing reads them.
  private static func projections(
    _ shape: AttentionShape, _ options: Options, isFused: Bool
  ) -> KeyValuePairs<String, Int> {
    let (queries, width) = (shape.heads * shape.headDim, shape.kvHeads * shape.headDim)
    let names = options.names
    return switch options.keys {
    case .own where isFused: [names.fused: queries + 2 * width]
    case .own:
      if case .module(let gate) = options.gate {
        [names.q: queries, names.k: width, names.v: width, gate: queries]
      } else {
        [names.q: queries, names.k: width, names.v: width]
      }
    case .alsoValues: [names.q: queries, names.k: width]
    case .shared: [names.q: queries]
    }
  }

  /// q_proj has the rows of each head's query, then those of its gate; they are bound so that all queries come first.
  private static func gatedProjections(
    _ shape: AttentionShape, _ names: Names, from hidden: Int, _ weights: LayerLoader
  ) throws(ModelError) -> Linear {
    let (size, width) = (shape.headDim, shape.kvHeads * shape.headDim)
    let both = try weights.map(names.q, rows: 2 * shape.heads * size, columns: hidden)
    let starts = (0..<shape.heads).map { 2 * $0 * size }
    return try weights.linear(
      starts.map { both.rows($0..<$0 + size) } + [
        weights.map(names.k, rows: width, columns: hidden),
        weights.map(names.v, rows: width, columns: hidden),
      ] + starts.map { both.rows($0 + size..<$0 + 2 * size) })
  }

  /// InternLM2's order of rows; they are bound so that all queries come first, then all keys.
  private static func groupedProjections(
    _ shape: AttentionShape, _ names: Names, from hidden: Int, _ weights: LayerLoader
  ) throws(ModelError) -> Linear {
    let (size, queries) = (shape.headDim, shape.heads / shape.kvHeads)
    let all = try weights.map(
      names.fused, rows: (shape.heads + 2 * shape.kvHeads) * size, columns: hidden)
    let parts = [0..<queries, queries..<queries + 1, queries + 1..<queries + 2]
    return try weights.linear(
      parts.flatMap { part in
        (0..<shape.kvHeads).map { group in
          let first = group * (queries + 2) * size
          return all.rows(first + part.lowerBound * size..<first + part.upperBound * size)
        }
      })
  }

  /// Bytes that a decode step reads.
  var byteCount: Int { qkv.byteCount + o.byteCount }

  /// What the layer keeps of a sequence; nil where it reads another's.
  var cacheShape: LayerCache? { options.keys == .shared ? nil : .keysValues(shape.cacheShape) }

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
    let gates = options.gate == .none ? 0 : queries
    let all = step.frame.projections(rows: h.count, queries + 2 * width + gates)
    let q = all.columns(from: 0, count: queries)
    let k = all.columns(from: queries, count: width)
    let v = all.columns(from: queries + width, count: width)
    let projected = all.columns(from: 0, count: qkv.rows)
    if options.projectsExactly { qkv.exactly(h, into: projected) } else { qkv(h, into: projected) }
    if options.keys == .alsoValues {
      for row in 0..<h.count { k.copyRow(row, to: v, at: row) }
    }
    place(q, gain: qNorm, compute, epsilon)
    if options.growsQueries, !step.queryFactors.isEmpty { compute.scaleRows(q, by: step.queryFactors) }
    if options.keys != .shared {
      if options.keyFactor != 1 { compute.scale(k, by: options.keyFactor) }
      if options.valueFactor != 1 { compute.scale(v, by: options.valueFactor) }
      place(k, gain: kNorm, compute, epsilon)
      if let vNorm { compute.rmsNormHeads(v, gain: vNorm, epsilon: epsilon) }
    }
    let out = step.frame.attended(rows: h.count, queries)
    compute.attend(
      q, adding: options.keys == .shared ? nil : (k, v), shape: shape, layer: cacheLayer, of: step.cache,
      at: step.layout, into: out)
    if gates > 0 {
      compute.gatedSigmoid(all.columns(from: queries + 2 * width, count: gates), out, into: out)
    }
    return out
  }

  /// Normalises and rotates queries or keys, in the order that the family has.
  private func place(_ x: Rows, gain: [Float]?, _ compute: ComputeContext, _ epsilon: Float) {
    if let rope, options.rotatesFirst { compute.rotate(x, headDim: shape.headDim, by: rope) }
    if let gain {
      if options.norms == .layer {
        compute.layerNormHeads(x, size: shape.headDim, gain: gain, epsilon: epsilon)
      } else {
        compute.rmsNormHeads(x, gain: gain, epsilon: epsilon)
      }
    }
    if let rope, !options.rotatesFirst { compute.rotate(x, headDim: shape.headDim, by: rope) }
  }
}
