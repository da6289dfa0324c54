// What surrounds the layers of every decoder: embedding in front, final norm and output head behind, and the
// buffers and row bookkeeping of a step. The layers themselves are each family's own.

import Checkpoint
import Compute

/// Embedding, head and step buffers of one model. Engine thread only.
final class DecoderFrame {
  let compute: ComputeContext
  let sizes: DecoderSizes
  let rope: RoPE
  let layout = StepLayout()
  /// Where the decoder's tensors are: `model`.
  let weights: WeightMap
  /// Where the layers' tensors are: `model.layers`.
  let layerWeights: WeightMap
  private let embedding: WeightMatrix
  private let finalNorm: [Float]
  private let head: Linear
  /// The step's tokens, row by row.
  private(set) var tokens: [Int32] = []

  private let residual = ScratchBuffer()
  private let normed = ScratchBuffer()
  private let projected = ScratchBuffer()
  private let attended = ScratchBuffer()
  private let gated = ScratchBuffer()
  private let scores = ScratchBuffer()
  /// Which experts the rows of the current layer go to, where it has any.
  let routing = ExpertRouting()

  /// - Parameter normOffset: what the final norm's gain adds to its stored weight.
  init(
    _ sizes: DecoderSizes, rope: RoPE, weights: WeightMap, compute: ComputeContext, normOffset: Float = 0
  ) throws(ModelError) {
    compute.beginDecoder()
    let weights = weights.given(sizes.named)
    let prefixes = ["language_model.model.", "model.language_model.", "model.", ""]
    guard let prefix = prefixes.first(where: { weights.has($0 + "embed_tokens.weight") }) else {
      throw .missingTensor(
        name: "model.embed_tokens.weight", because: "every decoder starts with an embedding of its tokens")
    }
    let tensors = try loading { () throws(CheckpointError) in
      try weights.embedding(prefix + "embed_tokens", rows: sizes.vocabulary, columns: sizes.hidden)
    }
    let embedding = try computing { () throws(ComputeError) in try WeightMatrix(tensors) }
    let headName = ["lm_head", "language_model.lm_head"].first { weights.has($0 + ".weight") }
    if let headName, !sizes.tied {
      head = try Linear([headName: sizes.vocabulary], columns: sizes.hidden, at: weights, compute: compute)
    } else {
      head = Linear(tied: embedding, compute: compute)
    }
    self.embedding = embedding
    self.weights = weights.at(String(prefix.dropLast()))
    finalNorm = try Self.vector("norm.weight", count: sizes.hidden, at: self.weights, offset: normOffset)
    layerWeights = self.weights.at("layers")
    self.sizes = sizes
    self.rope = rope
    self.compute = compute
  }

  /// A 1-D tensor as float32, `offset` added to every element.
  static func vector(
    _ name: String, count: Int, at map: WeightMap, offset: Float = 0
  ) throws(ModelError) -> [Float] {
    let tensor = try loading { () throws(CheckpointError) in try map.vector(name, count: count) }
    let values = try computing { () throws(ComputeError) in try floats(tensor) }
    return offset == 0 ? values : values.map { offset + $0 }
  }

  /// Bytes of the head; the embedding's one row per token is not worth counting.
  var headBytes: Int { head.byteCount }

  /// Lays out the step's rows, computes their angles and looks up their embeddings.
  ///
  /// - Returns: the residual stream, `[rows, hidden]`.
  func begin(_ batch: Batch, cache: KVCache) -> Rows {
    compute.beginStep()
    layout.reset()
    tokens.removeAll(keepingCapacity: true)
    for span in batch.spans {
      layout.append(
        count: span.tokens.count, start: span.start, table: span.blocks, blockCount: cache.blockCount,
        ropeVariant: span.ropeVariant, groups: span.groups)
      tokens.append(contentsOf: span.tokens)
    }
    rope.prepare(layout)
    let x = residual.rows(layout.rows, sizes.hidden)
    compute.gather(tokens, of: embedding, into: x)
    return x
  }

  /// Buffers of the step's rows: overwritten by every layer.
  var hidden: Rows { normed.rows(layout.rows, sizes.hidden) }
  /// `[rows, q | k | v]`.
  var queriesKeysValues: Rows { projected.rows(layout.rows, sizes.queryWidth + 2 * sizes.keyWidth) }
  var attention: Rows { attended.rows(layout.rows, sizes.queryWidth) }
  /// `[rows, gate | up]`.
  func gateUp(rows: Int) -> Rows { gated.rows(rows, 2 * sizes.intermediate) }
  /// `[rows, experts]`.
  func routerScores(_ experts: Int, rows: Int) -> Rows { scores.rows(rows, experts) }

  /// Puts the soft tokens of the batch into the residual stream.
  ///
  /// - Parameter visit: called with every row that was replaced.
  func place(_ batch: Batch, into x: Rows, visit: (Int) -> Void) {
    for (index, span) in batch.spans.enumerated() {
      for soft in span.soft {
        for offset in 0..<soft.values.count / sizes.hidden {
          let row = layout.firstRow(ofSpan: index) + soft.row + offset
          let start = soft.values.startIndex + offset * sizes.hidden
          x.set(row, to: soft.values[start..<start + sizes.hidden])
          visit(row)
        }
      }
    }
  }

  /// Moves the rows of x and y whose logits are requested to the front, where the last layer goes on with them alone: behind its
  /// keys and values no other row is read. The third buffer is shortened likewise.
  func keepChosen(_ batch: Batch, _ x: Rows, _ y: Rows, _ buffer: Rows) -> (x: Rows, y: Rows, buffer: Rows) {
    let count = batch.logitRowCount
    let kept = (x.rows(from: 0, count: count), y.rows(from: 0, count: count))
    if count < x.count {
      // In ascending order, so that no row is overwritten before it has moved.
      select(batch, from: x, to: kept.0)
      select(batch, from: y, to: kept.1)
    }
    return (kept.0, kept.1, buffer.rows(from: 0, count: count))
  }

  /// Copies the rows of the step whose logits are requested, span by span.
  func select(_ batch: Batch, from rows: Rows, to chosen: Rows) {
    var next = 0
    for (index, span) in batch.spans.enumerated() {
      for row in span.logitRows {
        rows.copyRow(layout.firstRow(ofSpan: index) + row, to: chosen, at: next)
        next += 1
      }
    }
  }

  /// Final norm (in place) and output head of the rows whose logits are requested.
  ///
  /// - Returns: the logits.
  @discardableResult
  func project(_ chosen: Rows, into logits: inout Logits) -> Rows {
    let out = logits.resize(rows: chosen.count, columns: sizes.vocabulary)
    compute.rmsNorm(chosen, gain: finalNorm, epsilon: sizes.epsilon, into: chosen)
    head(chosen, into: out)
    return out
  }
}
