// The second embedding of Gemma 3n and Gemma 4: one vector per token and layer, joined with a projection of the first.

import Checkpoint
import Compute

final class GemmaSecondEmbedding {
  private let compute: ComputeContext
  private let sizes: DecoderSizes
  private let width, vocabulary: Int
  /// `[vocabulary, layers · width]`, larger than the rest of the model: it stays in the mapping, and only the rows
  /// of the step's tokens are read.
  private let table: WeightMatrix
  private let projection: Linear  // [hidden] → [layers · width]
  private let norm: [Float]  // [width]
  private var known: [Int32] = []
  private let looked = ScratchBuffer()
  private let joined = ScratchBuffer()

  /// - Parameters:
  ///   - width: elements per layer.
  ///   - vocabulary: tokens that have a row of their own.
  init(width: Int, vocabulary: Int, _ sizes: DecoderSizes, _ frame: DecoderFrame) throws(ModelError) {
    let columns = sizes.layers * width
    let tensors = try loading { () throws(CheckpointError) in
      try frame.weights.embedding("embed_tokens_per_layer", rows: vocabulary, columns: columns)
    }
    table = try computing { () throws(ComputeError) in try WeightMatrix(tensors) }
    projection = try Linear(
      ["per_layer_model_projection": columns], columns: sizes.hidden, at: frame.weights,
      compute: frame.compute)
    norm = try DecoderFrame.vector("per_layer_projection_norm.weight", count: width, at: frame.weights)
    compute = frame.compute
    self.sizes = sizes
    self.width = width
    self.vocabulary = vocabulary
  }

  var byteCount: Int { projection.byteCount }

  /// - Parameter x: the first embeddings, scaled.
  /// - Returns: `[rows, layers · width]`.
  func rows(of tokens: [Int32], _ x: Rows) -> Rows {
    known.removeAll(keepingCapacity: true)
    // Tokens that stand for images and sounds may have no row: they take that of padding.
    for token in tokens { known.append(Int(token) < vocabulary ? token : 0) }
    let own = looked.rows(x.count, sizes.layers * width)
    compute.gather(known, of: table, into: own)
    compute.scale(own, by: gemmaEmbeddingScale(width: width))
    let sum = joined.rows(x.count, sizes.layers * width)
    projection(x, into: sum)
    compute.scale(sum, by: 1 / Float(sizes.hidden).squareRoot())
    compute.rmsNormHeads(sum, gain: norm, epsilon: sizes.epsilon)
    compute.add(own, to: sum)
    compute.scale(sum, by: Float(0.5).squareRoot())
    return sum
  }
}
