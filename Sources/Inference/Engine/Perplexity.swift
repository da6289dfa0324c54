// How well a model predicts a text, and how far the fast compute mode is from the exact one.
//
// The text is cut into windows that do not overlap; each begins anew, with the tokenizer's opening tokens (BOS)
// if it has any. Two modes read the same mapped weights and run over the same windows, side by side.

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
  /// Σ -ln p(token), nats: of the configuration's mode, or of the exact one where two are compared.
  package var negativeLogLikelihood = 0.0
  /// The fast mode beside the exact one.
  package var comparison: Comparison?

  /// Sums over the same tokens, predicted by the fast mode and by the exact one.
  package struct Comparison: Sendable, Equatable {
    /// Σ -ln p(token) of the fast mode, nats.
    package var negativeLogLikelihood = 0.0
    /// Σ KL(exact ‖ fast), nats.
    package var divergence = 0.0
    /// The largest KL(exact ‖ fast) of one token, nats.
    package var largestDivergence = 0.0
    /// Tokens for which both modes hold the same continuation for the likeliest.
    package var sameLikeliest = 0
  }

  /// Nats per token; 0 before the first one.
  package func mean(_ sum: Double) -> Double { tokens > 0 ? sum / Double(tokens) : 0 }
  package var perplexity: Double { exp(mean(negativeLogLikelihood)) }
}

/// Loaded models and their buffers. Used on the thread that made it: not Sendable.
package final class PerplexityEvaluator {
  private let runs: [WindowRun]
  /// The model's own limit, tokens.
  package let contextLength: Int
  /// As `EngineClient.computeName`; both modes where two are compared.
  package let computeName: String
  private let vocabularySize: Int

  /// Loads the configuration's model, in the exact and the fast mode if they are to be compared.
  ///
  /// - Throws: `modelLoading` with the loader's words; `noFastMode` where both modes would be the same.
  package convenience init(_ configuration: EngineConfiguration, comparing: Bool) throws(InferenceError) {
    var models: [any CausalModel] = []
    var formats: [KVFormat] = []
    var names: [String] = []
    do {
      let folder = try ModelFolder(path: configuration.modelPath)
      for mode in comparing ? [.exact, .fast] : [configuration.computeMode] {
        let compute = try configuration.makeContext(mode: mode)
        let level = compute.isa?.rawValue ?? "reference"
        guard !comparing || compute.mode == mode else { throw InferenceError.noFastMode(compute: level) }
        models.append(try ModelFamily.load(folder, compute: compute))
        // As the engine stores them; what a fast run is compared with stays float32.
        let isReference = comparing && mode == .exact
        formats.append(isReference ? .f32 : configuration.kvFormat(beside: compute.mode))
        names.append(compute.mode == .fast ? level + " fast" : level)
      }
    } catch let error as InferenceError {
      throw error
    } catch {
      throw .modelLoading(String(describing: error))
    }
    self.init(models: models, formats: formats, computeName: names.joined(separator: " and "))
  }

  /// - Parameters:
  ///   - models: one, or the exact one and the one to compare with it, of one vocabulary.
  ///   - formats: how each stores its keys and values.
  init(models: [any CausalModel], formats: [KVFormat], computeName: String) {
    runs = zip(models, formats).map { WindowRun($0, format: $1) }
    contextLength = models.map(\.contextLength).min() ?? 0
    vocabularySize = models.map(\.vocabularySize).min() ?? 0
    self.computeName = computeName
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
    if runs.count > 1 { result.comparison = .init() }
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
    guard predictions.count > 1, var comparison = result.comparison else { return }
    let divergence = first.divergence(from: predictions[1])
    comparison.negativeLogLikelihood += likelihoods[1]
    comparison.divergence += divergence
    comparison.largestDivergence = max(comparison.largestDivergence, divergence)
    comparison.sameLikeliest += first.likeliest == predictions[1].likeliest ? 1 : 0
    result.comparison = comparison
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
