// What encoders of texts share: the buffers of a step, and attention in which the tokens of a text see each other.
//
// Texts lie one after the other, without padding. Keys and values of a step are stored as a decoder's are, in blocks that
// begin anew with every text: that makes a text's bits its own, and the kernels the same.

import Compute

/// Buffers and layout of one encoder's steps. Engine thread only.
final class EncoderFrame {
  let compute: ComputeContext
  let hidden: Int
  let layout = StepLayout(keepsKeys: false)
  /// What layers attend with; each layer names one.
  private let shapes: [AttentionShape]
  private let isCausal: Bool
  private var cache: KVCache?

  private let residual = ScratchBuffer()
  private let second = ScratchBuffer()
  private let projected = ScratchBuffer()
  private let attendedHeads = ScratchBuffer()
  private let wide = ScratchBuffer()

  /// - Parameters:
  ///   - shapes: those that layers have; their order is what `attend` counts.
  ///   - isCausal: whether tokens see only themselves and those before them.
  init(hidden: Int, shapes: [AttentionShape], isCausal: Bool = false, _ compute: ComputeContext) {
    (self.hidden, self.shapes, self.isCausal) = (hidden, shapes, isCausal)
    self.compute = compute
  }

  /// Bytes of buffers for one token where a feed-forward layer is `intermediate` wide, keys and values included.
  func workBytes(intermediate: Int) -> Int {
    let widths = shapes.map { ($0.heads + 2 * $0.kvHeads) * $0.headDim + $0.heads * $0.headDim }
    let keys = shapes.reduce(0) { $0 + 2 * $1.kvHeads * $1.headDim }
    return 4 * (2 * hidden + (widths.max() ?? 0) + intermediate + keys)
  }

  /// Lays out a step.
  ///
  /// - Throws: when there is no memory for keys and values.
  func begin(_ texts: [EncoderText]) throws(ModelError) {
    layout.reset()
    let needed = texts.reduce(0) { $0 + KVCache.blocks(forTokens: $1.tokens.count) }
    if cache.map({ $0.blockCount < needed }) ?? true {
      cache = nil
      cache = try computing(
        try KVCache(
          shape: shapes.map { KVLayerShape(kvHeads: $0.kvHeads, headDim: $0.headDim) },
          blockCount: max(needed, 32), format: compute.mode == .exact ? .f32 : .q16))
    }
    var block: Int32 = 0
    for text in texts {
      let count = text.tokens.count
      let blocks = Int32(clamping: KVCache.blocks(forTokens: count))
      layout.append(
        count: count, start: 0, table: Array(block..<block + blocks), blockCount: needed, ropeVariant: 0,
        groups: isCausal ? [] : [0..<count])
      block += blocks
    }
  }

  /// The residual stream, `[rows, hidden]`.
  var stream: Rows { residual.rows(layout.rows, hidden) }
  /// A second one of its size.
  var branch: Rows { second.rows(layout.rows, hidden) }
  /// The inner rows of a feed-forward layer.
  func inner(_ columns: Int) -> Rows { wide.rows(layout.rows, columns) }
  /// Queries, keys and values side by side.
  func projections(_ columns: Int) -> Rows { projected.rows(layout.rows, columns) }

  /// Attention over each text: `[q | k | v]`, normalised and rotated, to the heads' results side by side.
  ///
  /// - Parameter index: of the layer's shape.
  func attend(_ all: Rows, shape index: Int = 0) -> Rows {
    let shape = shapes[index]
    let (queries, width) = (shape.heads * shape.headDim, shape.kvHeads * shape.headDim)
    let out = attendedHeads.rows(layout.rows, queries)
    guard let cache else { return out }
    compute.attend(
      all.columns(from: 0, count: queries),
      adding: (
        all.columns(from: queries, count: width), all.columns(from: queries + width, count: width)
      ), shape: shape, layer: index, of: cache, at: layout, into: out)
    return out
  }
}

/// Finds the part of a checkpoint that holds an encoder: heads that were trained on it put its name before all tensors.
func encoderPart(
  _ checkpoint: LayerLoader, prefixes: [String], having name: String
) throws(ModelError) -> LayerLoader {
  for prefix in prefixes + [""] where checkpoint.has(prefix.isEmpty ? name : prefix + "." + name) {
    return prefix.isEmpty ? checkpoint : checkpoint.at(prefix)
  }
  throw .missingTensor(name: name, because: "every encoder starts with an embedding of its tokens")
}
