// What surrounds the layers of every decoder: the embedding before them, final norm and output head after them, and
// the buffers and rows of a step. The layers themselves are each family's own.

import Compute

/// One step on its way through the layers.
struct DecoderStep {
  let frame: DecoderFrame
  let batch: Batch
  let cache: KVCache
  /// The residual stream before the first layer, `[rows, hidden]`.
  let embeddings: Rows
  /// The rows that the layers compute.
  var layout: StepLayout
  /// Factors of the rows' queries, one per row, or none.
  var queryFactors: [Float] = []
}

/// Embedding, head and step buffers of one model. Engine thread only.
final class DecoderFrame {
  let compute: ComputeContext
  let sizes: DecoderSizes
  /// Of all layers, or of those that see everything, where others have a table of their own.
  let rope: RoPE
  private let scaling: RoPEScaling
  private let layerName: String
  let layout = StepLayout()
  private let chosenLayout = StepLayout()
  /// The decoder's tensors: under `model`.
  let weights: LayerLoader
  private let embedding: WeightStack
  private let finalNorm: Norm
  private let head: Linear
  /// What adapters add to looked up rows of the embedding.
  private let adaptedTable: AdaptedMaps?
  /// Whether the head is the embedding.
  let isTied: Bool
  /// The step's tokens, row by row.
  private(set) var tokens: [Int32] = []

  private let residual = ScratchBuffer()
  private let normed = ScratchBuffer()
  private let projected = ScratchBuffer()
  private let attendedHeads = ScratchBuffer()
  private let gated = ScratchBuffer()
  private let scores = ScratchBuffer()
  private let secondBranch = ScratchBuffer()
  private let sharedFactors = ScratchBuffer()
  private let latents = ScratchBuffer()
  /// Which experts the rows of the current layer go to, where it has any.
  let routing = ExpertRouting()

  /// Modules around the layers, and where these are.
  struct Names {
    var embedding = "embed_tokens"
    var finalNorm = "norm"
    var head = "lm_head"
    var layers = "layers"
  }

  /// - Parameters:
  ///   - norm: the kind of the final norm.
  ///   - checkpoint: all tensors of the checkpoint.
  init(
    _ sizes: DecoderSizes, rope scaling: RoPEScaling, names: Names = Names(), norm: Norm.Kind = .rms,
    _ checkpoint: LayerLoader
  ) throws(ModelError) {
    let checkpoint = checkpoint.given(sizes.named)
    let prefixes = [
      "language_model.model.", "language_model.", "model.language_model.", "model.text_model.", "model.",
      "backbone.", "transformer.", "",
    ]
    let name = names.embedding + ".weight"
    guard let prefix = prefixes.first(where: { checkpoint.has($0 + name) }) else {
      throw .missingTensor(
        name: "model." + name, because: "every decoder starts with an embedding of its tokens")
    }
    weights = checkpoint.at(String(prefix.dropLast()))
    embedding = try weights.embedding(names.embedding, rows: sizes.vocabulary, columns: sizes.hidden)
    let headName = [names.head, "language_model." + names.head].first { checkpoint.hasModule($0) }
    isTied = headName == nil || sizes.tied
    if let headName, !sizes.tied {
      head = try checkpoint.linear([headName: sizes.vocabulary], from: sizes.hidden)
      adaptedTable = checkpoint.shelf?.makeTable(embedding, named: prefix + names.embedding, head: nil)
    } else {
      let adapted = checkpoint.shelf?.makeHead(embedding, named: names.head)
      head = checkpoint.linear(embedding, adapted: adapted)
      adaptedTable = checkpoint.shelf?.makeTable(embedding, named: prefix + names.embedding, head: adapted)
    }
    finalNorm = try Norm(names.finalNorm, sizes.hidden, kind: norm, epsilon: sizes.epsilon, weights)
    (self.sizes, self.scaling, layerName) = (sizes, scaling, names.layers)
    rope = scaling.rope
    compute = checkpoint.compute
  }

  /// Loads every layer from its tensors: `model.layers.0`, `model.layers.1`, ...
  func layers<Layer>(
    _ load: (_ index: Int, _ weights: LayerLoader) throws(ModelError) -> Layer
  ) throws(ModelError) -> [Layer] {
    var layers: [Layer] = []
    for index in 0..<sizes.layers { layers.append(try load(index, weights.at(layerName)[index])) }
    return layers
  }

  /// Bytes of the head; the embedding's one row per token is not worth counting.
  var headBytes: Int { head.byteCount }

  /// Which of RoPE's tables a sequence of `tokens` tokens uses.
  func ropeVariant(forTokens tokens: Int) -> Int { scaling.variant(forTokens: tokens) }

  /// Lays out the step's rows, computes their angles and looks up their embeddings.
  func begin(_ batch: Batch, cache: KVCache) -> DecoderStep {
    layout.reset()
    tokens.removeAll(keepingCapacity: true)
    for span in batch.spans {
      layout.append(
        count: span.tokens.count, start: span.start, table: span.blocks, blockCount: cache.blockCount,
        ropeVariant: span.ropeVariant, slot: span.slot, groups: span.groups, places: span.places)
      tokens.append(contentsOf: span.tokens)
    }
    rope.prepare(layout)
    weights.shelf?.rows.lay(batch)
    let x = residual.rows(layout.rows, sizes.hidden)
    compute.gather(tokens, of: embedding, into: x)
    adaptedTable?.addTable(tokens, to: x, compute)
    return DecoderStep(frame: self, batch: batch, cache: cache, embeddings: x, layout: layout)
  }

  /// Buffers of the step's rows: overwritten by every layer.
  var hidden: Rows { normed.rows(layout.rows, sizes.hidden) }
  /// Queries, keys and values side by side.
  func projections(rows: Int, _ columns: Int) -> Rows { projected.rows(rows, columns) }
  func attended(rows: Int, _ columns: Int) -> Rows { attendedHeads.rows(rows, columns) }
  /// `[rows, gate | up]`.
  func gateUp(rows: Int, _ columns: Int) -> Rows { gated.rows(rows, columns) }
  /// What is computed beside `hidden`, and one factor per row.
  func second(rows: Int) -> Rows { secondBranch.rows(rows, sizes.hidden) }
  func sharedGates(rows: Int) -> Rows { sharedFactors.rows(rows, 1) }
  /// What stands between two projections of queries, or between the cache and the heads.
  func latents(rows: Int, _ columns: Int) -> Rows { latents.rows(rows, columns) }
  /// `[rows, experts]`.
  func routerScores(_ experts: Int, rows: Int) -> Rows { scores.rows(rows, experts) }

  /// Puts the soft tokens of the batch into the residual stream.
  ///
  /// - Parameter visit: called with every row that was replaced.
  func place(_ batch: Batch, into x: Rows, visit: (Int) -> Void) {
    forEachSoft(batch, part: 0) { row, values in
      x.set(row, to: values)
      visit(row)
    }
  }

  /// Adds what the soft tokens of the batch have for the stream after a layer.
  func deepen(_ batch: Batch, _ x: Rows, after layer: Int) {
    forEachSoft(batch, part: layer + 1) { row, values in x.add(values, to: row) }
  }

  /// Calls `body` with the rows of soft tokens that have such a part.
  private func forEachSoft(_ batch: Batch, part: Int, _ body: (_ row: Int, ArraySlice<Float>) -> Void) {
    for (index, span) in batch.spans.enumerated() {
      for soft in span.soft {
        let width = soft.width ?? sizes.hidden
        guard (part + 1) * sizes.hidden <= width else { continue }
        for offset in 0..<soft.values.count / width {
          let start = soft.values.startIndex + offset * width + part * sizes.hidden
          body(
            layout.firstRow(ofSpan: index) + soft.row + offset, soft.values[start..<start + sizes.hidden])
        }
      }
    }
  }

  /// As with a third buffer: moves the rows of x and y whose logits are requested to the front, and shortens both.
  func keepChosen(_ batch: Batch, _ x: Rows, _ y: Rows) -> (x: Rows, y: Rows) {
    let kept = keepChosen(batch, x, y, y)
    return (kept.x, kept.y)
  }

  /// Moves the rows of x and y whose logits are requested to the front, and shortens all three buffers to them.
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

  /// Lays out the rows whose logits are requested as a step of their own. Angles are not computed.
  func layOutChosen(_ batch: Batch, cache: KVCache) -> StepLayout {
    chosenLayout.reset()
    for span in batch.spans where !span.logitRows.isEmpty {
      chosenLayout.append(
        count: span.logitRows.count, start: span.start + span.logitRows.lowerBound, table: span.blocks,
        blockCount: cache.blockCount, ropeVariant: span.ropeVariant)
    }
    return chosenLayout
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

  /// Rows of the output head: a token's logit is the product of its row and a normed state.
  func headRows(_ tokens: [Int32]) -> [[Float]] {
    head.vectors(tokens, by: residual.rows(tokens.count, sizes.hidden))
  }

  /// Bytes of the embedding's table.
  var embeddingBytes: Int { embedding.byteCount }

  /// Of the widest buffers: the residual stream and its branches, projections, the inner rows of an MLP.
  var bufferBytesPerToken: Int {
    4 * (3 * sizes.hidden + 2 * sizes.queryWidth + 2 * sizes.keyWidth + 2 * sizes.intermediate)
  }

  /// Final norm, in place.
  func normalize(_ x: Rows) { finalNorm(x, into: x, compute) }

  /// Final norm (in place) and output head of the rows whose logits are requested.
  ///
  /// - Returns: the logits.
  @discardableResult
  func project(_ chosen: Rows, into logits: inout Logits) -> Rows {
    let out = logits.resize(rows: chosen.count, columns: sizes.vocabulary)
    finalNorm(chosen, into: chosen, compute)
    head(chosen, into: out)
    return out
  }
}
