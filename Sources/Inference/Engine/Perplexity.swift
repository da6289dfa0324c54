// How well models predict a text, and how far others are from the first one: other files, or the fast compute mode.
//
// The text is cut into windows that do not overlap; each begins anew, with the tokenizer's opening tokens (BOS)
// if it has any. All models run over the same windows, side by side; two modes read the same mapped weights.

import Checkpoint
import Compute
import Decoding
import Models
import Platform

/// What an evaluation has added up; logarithms are natural.
package struct PerplexityResult: Sendable, Equatable {
  /// Tokens predicted.
  package var tokens = 0
  package var windows = 0
  /// Σ -ln p(token), nats, of the first model.
  package var negativeLogLikelihood = 0.0
  /// The others beside the first.
  package var comparisons: [Comparison] = []
  /// The only other one.
  package var comparison: Comparison? {
    get { comparisons.first }
    set { comparisons = newValue.map { [$0] } ?? [] }
  }

  /// Sums over the same tokens, predicted by another model and by the first.
  package struct Comparison: Sendable, Equatable {
    /// Σ -ln p(token) of the other, nats.
    package var negativeLogLikelihood = 0.0
    /// Σ KL(first ‖ other), nats.
    package var divergence = 0.0
    /// The largest KL(first ‖ other) of one token, nats.
    package var largestDivergence = 0.0
    /// Tokens for which both hold the same continuation for the likeliest.
    package var sameLikeliest = 0

    package init() {}
  }

  package init() {}

  /// Nats per token; 0 before the first one.
  package func mean(_ sum: Double) -> Double { tokens > 0 ? sum / Double(tokens) : 0 }
  package var perplexity: Double { exp(mean(negativeLogLikelihood)) }
}

/// Models and their buffers. Used on the thread that made it: not Sendable.
package final class PerplexityEvaluator {
  private let runs: [WindowRun]
  /// The model's own limit, tokens.
  package let contextLength: Int
  /// As `EngineClient.computeName`, of each model.
  package let computeNames: [String]
  private let modes: [ComputeMode]
  private let vocabularySize: Int

  /// Loads the configuration's model, in the exact mode and its own if they are to be compared: the fast one where that is exact.
  ///
  /// - Throws: `modelLoading` with the loader's words; `noFastMode` where both modes would be the same.
  package convenience init(_ configuration: EngineConfiguration, comparing: Bool) throws(InferenceError) {
    var all = [configuration]
    if comparing {
      all.append(configuration)
      // What a fast run is compared with stays float32.
      (all[0].computeMode, all[0].kvFormat) = (.exact, .f32)
      if configuration.computeMode == .exact { all[1].computeMode = .fast }
    }
    try self.init(all)
    if comparing, modes[0] == modes[1] { throw .noFastMode(compute: computeNames[1]) }
  }

  /// Loads the model of each configuration; the first is what the others are compared with.
  ///
  /// - Throws: `modelLoading` with the loader's words; `vocabulariesDiffer`.
  package convenience init(_ configurations: [EngineConfiguration]) throws(InferenceError) {
    var models: [any CausalModel] = []
    var formats: [KVFormat] = []
    var names: [String] = []
    var modes: [ComputeMode] = []
    do {
      for configuration in configurations {
        let compute = try configuration.makeContext()
        models.append(try ModelFamily.load(try ModelFolder(path: configuration.modelPath), compute: compute))
        // As the engine stores them.
        formats.append(configuration.kvFormat(beside: compute.mode))
        names.append(compute.name)
        modes.append(compute.mode)
      }
    } catch {
      throw .modelLoading(String(describing: error))
    }
    let sizes = models.map(\.vocabularySize)
    if let index = sizes.firstIndex(where: { $0 != sizes[0] }) {
      throw .vocabulariesDiffer(
        first: configurations[0].modelPath, other: configurations[index].modelPath, sizes: sizes[0],
        sizes[index])
    }
    self.init(models: models, formats: formats, computeNames: names, modes: modes)
  }

  /// - Parameters:
  ///   - models: one, or the first and those to compare with it, of one vocabulary.
  ///   - formats: how each stores its keys and values.
  init(
    models: [any CausalModel], formats: [KVFormat], computeNames: [String], modes: [ComputeMode] = []
  ) {
    runs = zip(models, formats).map { WindowRun($0, format: $1) }
    contextLength = models.map(\.contextLength).min() ?? 0
    vocabularySize = models.map(\.vocabularySize).min() ?? 0
    (self.computeNames, self.modes) = (computeNames, modes)
  }

  /// Runs the text through the model or models.
  ///
  /// - Parameters:
  ///   - tokens: the text, without opening tokens.
  ///   - opening: what each window begins with. Without any, a window's first token is not predicted.
  ///   - window: tokens of a window, opening included.
  ///   - limit: most tokens to predict.
  ///   - progress: called with what there is so far, and with the number of tokens to predict in all.
  /// - Throws: `textTooShort`, `badWindow`, `tokenOutOfRange`, `brokenLogits`; `modelLoading` without memory.
  package func evaluate(
    _ tokens: [Int32], opening: [Int32], window: Int, limit: Int = .max,
    progress: (PerplexityResult, _ total: Int) -> Void = { _, _ in }
  ) throws(InferenceError) -> PerplexityResult {
    guard tokens.count >= 2 else { throw .textTooShort(tokens: tokens.count) }
    let least = max(2, opening.count + 1)
    guard (least...max(least, contextLength)).contains(window) else {
      throw .badWindow(tokens: window, least: least, most: contextLength)
    }
    for token in opening + tokens where token < 0 || Int(token) >= vocabularySize {
      throw .tokenOutOfRange(token: token, vocabularySize: vocabularySize)
    }
    let windows = TextWindows(
      textCount: tokens.count, openingCount: opening.count, window: window, limit: limit)
    for run in runs { try run.reserve(window: window) }
    var result = PerplexityResult()
    result.comparisons = runs.dropFirst().map { _ in .init() }
    for range in windows.ranges {
      try evaluate(opening + tokens[range], firstPredicted: max(1, opening.count), into: &result) {
        progress($0, windows.predicted)
      }
      result.windows += 1
    }
    return result
  }

  /// Rows of logits that are kept at a time: at most 32 MiB of them, but enough to read weights rarely.
  private var chunkRows: Int { min(256, max(16, (32 << 20) / (4 * max(1, vocabularySize)))) }

  private func evaluate(
    _ window: [Int32], firstPredicted: Int, into result: inout PerplexityResult,
    progress: (PerplexityResult) -> Void
  ) throws(InferenceError) {
    // The last token is predicted, but predicts nothing.
    for start in stride(from: 0, to: window.count - 1, by: chunkRows) {
      let end = min(window.count - 1, start + chunkRows)
      for run in runs { run.compute(window, start..<end) }
      for position in max(start, firstPredicted - 1)..<max(end, firstPredicted - 1) {
        try add(row: position - start, next: window[position + 1], to: &result)
      }
      progress(result)
    }
  }

  private func add(row: Int, next: Int32, to result: inout PerplexityResult) throws(InferenceError) {
    let predictions = runs.map { $0.prediction(row) }
    let likelihoods = predictions.map { $0.negativeLogLikelihood(of: next) }
    guard let first = predictions.first, likelihoods.allSatisfy(\.isFinite) else {
      throw .brokenLogits(position: result.tokens)
    }
    result.tokens += 1
    result.negativeLogLikelihood += likelihoods[0]
    for (index, other) in predictions.dropFirst().enumerated() {
      let divergence = first.divergence(from: other)
      result.comparisons[index].negativeLogLikelihood += likelihoods[index + 1]
      result.comparisons[index].divergence += divergence
      result.comparisons[index].largestDivergence = max(
        result.comparisons[index].largestDivergence, divergence)
      result.comparisons[index].sameLikeliest += first.likeliest == other.likeliest ? 1 : 0
    }
  }

  /// How likely each model holds an ending of a text.
  ///
  /// - Parameters:
  ///   - start: what stands before the ending, opening tokens included; at least one token.
  ///   - ending: what is predicted.
  /// - Returns: Σ ln p(token) of each model, nats.
  /// - Throws: as `evaluate`.
  package func logLikelihoods(of ending: [Int32], after start: [Int32]) throws(InferenceError) -> [Double] {
    let window = start + ending
    guard !start.isEmpty, !ending.isEmpty else { throw .textTooShort(tokens: window.count) }
    guard window.count <= contextLength else {
      throw .badWindow(tokens: window.count, least: 2, most: contextLength)
    }
    for token in window where token < 0 || Int(token) >= vocabularySize {
      throw .tokenOutOfRange(token: token, vocabularySize: vocabularySize)
    }
    for run in runs { try run.reserve(window: window.count) }
    var result = PerplexityResult()
    result.comparisons = runs.dropFirst().map { _ in .init() }
    try evaluate(window, firstPredicted: start.count, into: &result) { _ in }
    return [-result.negativeLogLikelihood] + result.comparisons.map { -$0.negativeLogLikelihood }
  }
}

/// How a text is cut. Pure.
struct TextWindows: Equatable {
  /// Of the text's tokens, without the opening.
  private(set) var ranges: [Range<Int>] = []
  /// Tokens that the windows predict together.
  private(set) var predicted = 0

  init(textCount: Int, openingCount: Int, window: Int, limit: Int) {
    // Without an opening nothing comes before a window's first token.
    let unpredicted = openingCount > 0 ? 0 : 1
    var start = 0
    while predicted < limit, textCount - start > unpredicted {
      let count = min(window - openingCount, textCount - start)
      let kept = unpredicted + min(count - unpredicted, limit - predicted)
      ranges.append(start..<start + kept)
      predicted += kept - unpredicted
      start += count
    }
  }
}

/// One model with the KV cache of one window.
private final class WindowRun {
  private let model: any CausalModel
  private var cache: KVCache?
  /// Where the state of recurrent layers is, if there are any.
  private var slot: Int32?
  private var batch = Batch(spans: [])
  private var logits = Logits()
  private var ropeVariant = 0

  private let format: KVFormat

  init(_ model: any CausalModel, format: KVFormat) {
    (self.model, self.format) = (model, format)
  }

  func reserve(window: Int) throws(InferenceError) {
    let blocks = KVCache.blocks(forTokens: window)
    ropeVariant = model.ropeVariant(forTokens: window)
    guard cache?.blockCount != blocks else { return }
    do {
      let shape = model.cacheShape
      let states = shape.recurrent.isEmpty ? nil : try StateCache(shape: shape.recurrent, slotCount: 1)
      slot = states?.take()
      cache = try KVCache(shape: shape.keysValues, blockCount: blocks, format: format, states: states)
    } catch {
      throw .modelLoading(String(describing: error))
    }
  }

  /// Logits of all rows of the range; the rows before it have been computed.
  func compute(_ window: [Int32], _ range: Range<Int>) {
    guard let cache else { return }
    if range.lowerBound == 0, let slot { cache.states?.clear(slot) }
    let span = Batch.Span(
      tokens: Array(window[range]), start: range.lowerBound, blocks: Array(0..<Int32(cache.blockCount)),
      slot: slot, ropeVariant: ropeVariant, logits: .all)
    batch.spans = [span]
    model.forward(batch, cache: cache, logits: &logits)
  }

  func prediction(_ index: Int) -> Prediction {
    Prediction(logits: logits.values(ofRow: index))
  }
}
