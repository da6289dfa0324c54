// Chooses the next token from logits.
//
//     logits → bias, bans → penalties → DRY → guide → temperature → top_n_sigma → top_k → typical_p → top_p → min_p
//            → XTC → draw; a dynamic temperature comes last, Mirostat comes in the place of all filters
//                 log probabilities are those of the logits on the left, before any change
//
// This is the order of transformers and of the OpenAI API's description (mlx-lm filters before it applies the
// temperature). The work is a few passes over the row: nothing is sorted, and with top_k or top_p only the few
// candidates that can survive are looked at more closely.

package import Sampling

/// The sampler of one sequence. Its state is the text so far, where penalties and bans ask for it, and Mirostat's
/// estimate: the draw of a step depends on the seed, the step's number, the text and the logits alone.
package struct Sampler: Sendable {
  let parameters: SamplingParameters
  let seed: UInt64
  private let bias: LogitBias
  private let bans: TokenBans
  let repetitions: Repetitions?
  private(set) var penalties: Penalties
  private var mirostat: Mirostat?
  /// Prompt and answer, where something asks for them.
  private(set) var text: [Int32]?
  private let promptCount: Int
  /// What to answer with when the logits are unusable: ending the text does the least harm.
  private let lastResort: Int32

  /// - Parameters:
  ///   - seed: used whether or not `parameters.seed` is set.
  ///   - promptTokens: count for the repetition penalty.
  ///   - stopTokens: banned while the answer is shorter than `parameters.minTokens`.
  package init(
    _ parameters: SamplingParameters, seed: UInt64, promptTokens: [Int32], stopTokens: Set<Int32>
  ) {
    (self.parameters, self.seed) = (parameters, seed)
    bias = LogitBias(parameters, stopTokens: stopTokens)
    bans = TokenBans(parameters)
    repetitions = Repetitions(parameters)
    penalties = Penalties(parameters, promptTokens: promptTokens)
    mirostat = Mirostat(parameters)
    text = repetitions != nil || bans.looksBack ? promptTokens : nil
    promptCount = promptTokens.count
    lastResort = stopTokens.min() ?? 0
  }

  /// Chooses a token and records it. O(vocabulary).
  ///
  /// - Parameters:
  ///   - logits: the row for the position; its contents are lost. NaN counts as negative infinity.
  ///   - step: tokens generated before this one.
  ///   - wantTop: how many of the most likely tokens to report; nil reports no log probabilities at all.
  ///   - allowance: what a guide leaves to choose from. Where bans and biases leave none of it, the guide wins.
  package mutating func sample(
    _ logits: LogitRow, step: Int, wantTop: Int?, allowance: Guide.Allowance = .any
  ) -> SampledToken {
    let unmodified = wantTop.map { _ in logits.copy }
    let chosen = position(in: logits, step: step, allowance)
    let id = chosen.flatMap { Int32(exactly: $0) } ?? lastResort
    penalties.record(id)
    text?.append(id)
    guard let wantTop, let unmodified else { return SampledToken(id: id, isArbitrary: chosen == nil) }
    let described = Logprobs.describe(token: id, logits: unmodified, top: wantTop)
    return SampledToken(
      id: id, logprob: described.logprob, top: described.top, isArbitrary: chosen == nil)
  }

  /// The chosen position of the row; nil when none has a usable logit.
  private mutating func position(in logits: LogitRow, step: Int, _ allowance: Guide.Allowance) -> Int? {
    let row = logits.values
    if case .only(let token) = allowance, row.indices.contains(Int(token)) { return Int(token) }
    var changes = [
      bias.apply(to: row, step: step), bans.apply(to: row, after: (text ?? []).dropFirst(promptCount)),
    ]
    if !hasOwnOrder {
      changes += [penalties.apply(to: row), repetitions?.apply(to: row, after: text ?? []) ?? false]
    }
    func newMaxima() -> [Float] { VectorMath.blockMaxima(UnsafeBufferPointer(row)) }
    guard case .among(let mask) = allowance else {
      return choose(row, changes.contains(true) ? newMaxima() : logits.blockMaxima, step: step)
    }
    mask.banOthers(in: row)
    return choose(row, newMaxima(), step: step) ?? mask.first.flatMap { $0 < row.count ? $0 : nil }
  }

  /// Whether the request orders the samplers.
  private var hasOwnOrder: Bool { parameters.order != nil && mirostat == nil }

  /// The same where nothing is left to change.
  ///
  /// - Parameter maxima: of the blocks; infinity where one has a NaN or an infinity.
  private mutating func choose(
    _ row: UnsafeMutableBufferPointer<Float>, _ maxima: [Float], step: Int
  ) -> Int? {
    let read = UnsafeBufferPointer(row)
    var maxima = maxima
    if maxima.contains(.infinity) {
      // Differences of infinities are NaN; one step down everything is as it should be.
      for position in row.indices where row[position] == .infinity {
        row[position] = .greatestFiniteMagnitude
      }
      maxima = VectorMath.blockMaxima(read)
    }
    guard let maximum = maxima.max(), maximum > -.infinity else { return nil }
    if hasOwnOrder { return drawInOrder(row, step: step) }
    if parameters.isGreedy || parameters.topK == 1 {
      return Self.firstPosition(of: maximum, in: read, blockMaxima: maxima)
    }
    let uniform = Random.uniform(seed: seed, step: UInt64(clamping: step))
    if mirostat != nil {
      return mirostat?.draw(row, maxima: maxima, temperature: parameters.temperature, uniform: uniform)
    }
    if parameters.topNSigma > 0 {
      maxima = SigmaFilter.apply(row, deviations: parameters.topNSigma, largest: maximum)
    }
    guard parameters.topK > 0 && parameters.topK < row.count else {
      return draw(row, maximum: maximum, uniform: uniform, step: step)
    }
    let best = Selection.largest(parameters.topK, of: read, blockMaxima: maxima)
    var values = best.map(\.value)
    let index = values.withUnsafeMutableBufferPointer {
      draw($0, maximum: maximum, uniform: uniform, step: step)
    }
    return index.map { best[$0].position }
  }

  private static func firstPosition(
    of value: Float, in row: UnsafeBufferPointer<Float>, blockMaxima: [Float]
  ) -> Int? {
    guard let block = blockMaxima.firstIndex(of: value) else { return nil }
    return row[(block * VectorMath.block)...].firstIndex(of: value)
  }

  /// Whether this step leaves the top choices out.
  func excludesTopChoices(step: Int) -> Bool {
    guard parameters.xtcProbability > 0 && parameters.xtcThreshold <= 0.5 else { return false }
    let chance = Random.uniform(seed: seed, step: UInt64(clamping: step), stream: 1)
    return chance < Double(parameters.xtcProbability)
  }

  /// Applies the temperature and what filters weights, and draws a position.
  private func draw(
    _ row: UnsafeMutableBufferPointer<Float>, maximum: Float, uniform: Double, step: Int
  ) -> Int? {
    let read = UnsafeBufferPointer(row)
    let isDynamic = parameters.dynatempRange > 0
    // From here on the row holds weights: probabilities up to a common factor, the largest is 1.
    var weights = WeightedRow(
      exponentiating: row, largest: maximum, scale: isDynamic ? 1 : 1 / parameters.temperature,
      keepsLogits: isDynamic || parameters.typicalP < 1)
    if parameters.typicalP < 1 { weights.keepTypical(mass: parameters.typicalP) }
    if parameters.topP < 1 || parameters.minP > 0 {
      weights.cut(topP: parameters.topP, minP: parameters.minP)
    }
    if excludesTopChoices(step: step) { weights.excludeTopChoices(threshold: parameters.xtcThreshold) }
    if isDynamic {
      weights.followEntropy(
        temperature: parameters.temperature, range: parameters.dynatempRange,
        exponent: parameters.dynatempExponent)
    }
    return Self.position(in: read, at: uniform, blockSums: weights.sums)
  }

  /// The position at which the running sum of the weights first exceeds the fraction `uniform` of their sum.
  static func position(
    in row: UnsafeBufferPointer<Float>, at uniform: Double, blockSums: [Double]
  ) -> Int? {
    var remaining = uniform * blockSums.reduce(0, +)
    // The last block counts even if rounding leaves something to go.
    guard let lastBlock = blockSums.lastIndex(where: { $0 > 0 }) else { return nil }
    var block = 0
    while block < lastBlock && remaining >= blockSums[block] {
      remaining -= blockSums[block]
      block += 1
    }
    var last: Int?
    for position in VectorMath.positions(ofBlock: block, of: row.count) where row[position] > 0 {
      last = position
      remaining -= Double(row[position])
      if remaining < 0 { break }
    }
    return last
  }
}
