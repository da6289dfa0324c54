// The second embedding of Gemma 3n and Gemma 4: one vector per token and layer, joined with a projection of the first.

import Compute

/// The table, its projection, and the step's rows. Engine thread only.
final class GemmaSecondEmbedding {
  private let compute: ComputeContext
  private let sizes: DecoderSizes
  private let width, vocabulary: Int
  /// `[vocabulary, layers · width]`, larger than the rest of the model: it stays in the mapping, and only the rows
  /// of the step's tokens are read.
  private let table: WeightStack
  /// `[hidden] → [width of each layer]`: of the layers that all rows go through, and of those above.
  private let lower: Linear
  private let upper: Linear?
  private let norm: [Float]  // [width]
  private var known: [Int32] = []
  /// The step's rows of the table.
  private var looked: Rows
  private let lookedBuffer = ScratchBuffer()
  private let chosen = ScratchBuffer()
  private let lowerJoined = ScratchBuffer()
  private let upperJoined = ScratchBuffer()

  /// - Parameters:
  ///   - width: elements per layer.
  ///   - vocabulary: tokens that have a row of their own.
  ///   - lowerLayers: layers that all rows go through.
  init(
    width: Int, vocabulary: Int, lowerLayers: Int, _ sizes: DecoderSizes, _ frame: DecoderFrame
  ) throws(ModelError) {
    let (columns, border) = (sizes.layers * width, lowerLayers * width)
    let weights = frame.weights.given([
      "hidden_size_per_layer_input": width, "vocab_size_per_layer_input": vocabulary,
      "num_hidden_layers": sizes.layers,
    ])
    table = try weights.embedding("embed_tokens_per_layer", rows: vocabulary, columns: columns)
    let projection = try weights.map("per_layer_model_projection", rows: columns, columns: sizes.hidden)
    lower = try weights.linear([projection.rows(0..<border)])
    upper = border < columns ? try weights.linear([projection.rows(border..<columns)]) : nil
    norm = try weights.norm("per_layer_projection_norm", width)
    looked = lookedBuffer.rows(0, columns)
    compute = frame.compute
    (self.sizes, self.width, self.vocabulary) = (sizes, width, vocabulary)
  }

  var byteCount: Int { lower.byteCount + (upper?.byteCount ?? 0) }
  var tableBytes: Int { table.byteCount }

  /// Looks up the step's tokens.
  ///
  /// - Parameter x: the first embeddings, scaled.
  /// - Returns: `[rows, lower layers · width]`.
  func lowerRows(of tokens: [Int32], _ x: Rows) -> Rows {
    known.removeAll(keepingCapacity: true)
    // Tokens that stand for images and audio may have no row: they take that of padding.
    for token in tokens { known.append(Int(token) < vocabulary ? token : 0) }
    looked = lookedBuffer.rows(x.count, sizes.layers * width)
    compute.gather(known, of: table, into: looked)
    let sum = lowerJoined.rows(x.count, lower.rows)
    lower(x, into: sum)
    join(looked.columns(from: 0, count: lower.rows), to: sum)
    return sum
  }

  /// As `lowerRows`, which comes first, for the layers above and some of the rows.
  ///
  /// - Parameters:
  ///   - x: these rows of the first embeddings.
  ///   - choose: copies the same rows of its first argument to its second.
  func upperRows(_ x: Rows, choose: (Rows, Rows) -> Void) -> Rows? {
    guard let upper, x.count > 0 else { return nil }
    let own = chosen.rows(x.count, upper.rows)
    choose(looked.columns(from: lower.rows, count: upper.rows), own)
    let sum = upperJoined.rows(x.count, upper.rows)
    upper(x, into: sum)
    join(own, to: sum)
    return sum
  }

  /// `sum = (norm(sum / √hidden) + own · scale) / √2`; changes `own` too.
  private func join(_ own: Rows, to sum: Rows) {
    compute.scale(own, by: gemmaEmbeddingScale(width: width))
    compute.scale(sum, by: 1 / Float(sizes.hidden).squareRoot())
    compute.rmsNormHeads(sum, gain: norm, epsilon: sizes.epsilon)
    compute.add(own, to: sum)
    compute.scale(sum, by: Float(0.5).squareRoot())
  }
}

/// How a layer takes in its part of the second embedding.
struct GemmaSecondInput {
  private let gate: Linear  // [hidden] → [width]
  private let projection: Linear  // [width] → [hidden]
  private let norm: [Float]  // [hidden]
  /// The layer's part of the embedding's rows.
  private let place: Int

  /// - Parameters:
  ///   - layer: the layer, counted from the first of those that its rows are for.
  ///   - weights: the layer's tensors.
  init(layer: Int, width: Int, _ frame: DecoderFrame, _ weights: LayerLoader) throws(ModelError) {
    let hidden = frame.sizes.hidden
    place = layer
    gate = try weights.linear(["per_layer_input_gate": width], from: hidden)
    projection = try weights.linear(["per_layer_projection": hidden], from: width)
    norm = try weights.norm("post_per_layer_input_norm", hidden)
  }

  /// Bytes that a decode step reads.
  var byteCount: Int { gate.byteCount + projection.byteCount }

  /// `h = norm(projection(gelu(gate(x)) · part))`; h may be x.
  ///
  /// - Parameter second: the second embedding, `[rows, layers · width]`.
  func callAsFunction(_ x: Rows, _ second: Rows, into h: Rows, _ frame: DecoderFrame) {
    let part = second.columns(from: place * gate.rows, count: gate.rows)
    let gated = frame.gateUp(rows: x.count, gate.rows)
    gate(x, into: gated)
    frame.compute.gatedGELU(gated, part, into: gated)
    projection(gated, into: h)
    frame.compute.rmsNorm(h, gain: norm, epsilon: frame.sizes.epsilon, into: h)
  }
}
