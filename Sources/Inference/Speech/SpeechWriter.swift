// One window's text: token by token, and again with more chance where it is unlikely or repeats itself.
//
// Source: arXiv:2212.04356, 4.5, and its decoding with fallback.

import Compute
import Decoding
import Models
import Platform
import Tokenizers

/// Why a transcription ended before its time.
enum SpeechStop: Error {
  case unwanted
  case failed(InferenceError)
}

/// What a window was written as.
struct WrittenWindow {
  /// Timestamps among them; the end is not.
  var tokens: [Int32] = []
  var logprobs: [Float] = []
  var averageLogprob = 0.0
  var compressionRatio = 0.0
  var noSpeechProbability = 0.0
  var temperature: Float = 0
}

/// Engine thread only.
final class SpeechWriter {
  let model: Whisper
  let vocabulary: SpeechVocabulary
  private let rules: SpeechRules
  /// Draws so far, for chance that does not repeat itself.
  private var draws: UInt64 = 0

  /// Text that compresses better repeats itself; text below this mean log-probability is a guess; silence is likely above.
  static let (mostCompression, leastLogprob, mostSilence) = (2.4, -1.0, 0.6)
  private static let temperatures: [Float] = [0, 0.2, 0.4, 0.6, 0.8, 1]

  init(_ model: Whisper, _ vocabulary: SpeechVocabulary) {
    (self.model, self.vocabulary) = (model, vocabulary)
    rules = SpeechRules(vocabulary: vocabulary)
  }

  /// Most tokens of a window, and of what is given of the text before it.
  var mostTokens: Int { model.sizes.textPositions / 2 }
  var mostPrompt: Int { mostTokens - 1 }

  /// The code of the language of the window that has been heard.
  func language(_ work: SpeechTurns) throws(SpeechStop) -> String {
    guard vocabulary.isMultilingual else { return "en" }
    model.keep(0)
    let logits = try work { model.write([vocabulary.start], logits: 0..<1).values(ofRow: 0) }
    return vocabulary.languages.max { logits[Int($0.token)] < logits[Int($1.token)] }?.code ?? "en"
  }

  /// Writes the window that has been heard.
  ///
  /// - Parameters:
  ///   - before: tokens of the text before it; its end counts.
  ///   - temperature: 0 for as many attempts as it takes.
  func write(
    before: [Int32], opening: [Int32], temperature: Float, seed: UInt64, _ work: SpeechTurns
  ) throws(SpeechStop) -> WrittenWindow {
    let kept = before.suffix(mostPrompt)
    let prefix = (kept.isEmpty ? [] : [vocabulary.previous] + kept) + opening
    let start = prefix.count - opening.count
    model.keep(0)
    let (first, silence) = try work { () -> ([Float], [Float]) in
      let logits = model.write(prefix, logits: start..<prefix.count)
      return (logits.values(ofRow: opening.count - 1), logits.values(ofRow: 0))
    }
    let noSpeech = Double(exp(silence[Int(vocabulary.noSpeech)] - logSumExp(silence)))
    var window = WrittenWindow()
    for temperature in temperature > 0 ? [temperature] : Self.temperatures {
      model.keep(prefix.count)
      window = try attempt(first, temperature, seed, work)
      window.noSpeechProbability = noSpeech
      let isGuess = window.averageLogprob < Self.leastLogprob
      if noSpeech > Self.mostSilence, isGuess { break }
      if window.compressionRatio <= Self.mostCompression, !isGuess { break }
    }
    return window
  }

  private func attempt(
    _ first: [Float], _ temperature: Float, _ seed: UInt64, _ work: SpeechTurns
  ) throws(SpeechStop) -> WrittenWindow {
    var window = WrittenWindow()
    window.temperature = temperature
    var (logits, sum, pieces) = (first, 0.0, [Int32]())
    let most = min(mostTokens, model.sizes.textPositions - model.length)
    while true {
      rules.apply(to: &logits, written: window.tokens)
      let total = logSumExp(logits)
      guard total.isFinite else {
        throw .failed(.unusableLogits(tokens: window.tokens.count))
      }
      let token = choose(logits, total, temperature, seed)
      sum += Double(logits[token] - total)
      guard Int32(token) != vocabulary.end else { break }
      window.tokens.append(Int32(token))
      window.logprobs.append(logits[token] - total)
      if vocabulary.isText(Int32(token)) {
        pieces.append(Int32(token))
        if let count = Repetition.beginning(of: pieces) {
          window = cut(window, toPieces: count)
          window.compressionRatio = .infinity
          break
        }
      }
      guard window.tokens.count < most else { break }
      logits = try work { model.write([Int32(token)], logits: 0..<1).values(ofRow: 0) }
    }
    window.averageLogprob = sum / Double(pieces.isEmpty ? 1 : window.tokens.count + 1)
    window.compressionRatio = max(
      window.compressionRatio, DeflateSize.ratio(vocabulary.text(window.tokens)))
    return window
  }

  private func choose(_ logits: [Float], _ total: Float, _ temperature: Float, _ seed: UInt64) -> Int {
    var best = 0
    for index in logits.indices where logits[index] > logits[best] { best = index }
    guard temperature > 0 else { return best }
    let largest = logits[best]
    let weights = logits.map { exp(($0 - largest) / temperature) }
    draws += 1
    var left = Float(Random.uniform(seed: seed, step: draws)) * weights.reduce(0, +)
    for (index, weight) in weights.enumerated() where weight > 0 {
      left -= weight
      if left < 0 { return index }
    }
    return best
  }

  /// Leaves the first pieces of text, and the timestamp behind them.
  private func cut(_ window: WrittenWindow, toPieces count: Int) -> WrittenWindow {
    var (left, end) = (count, 0)
    while end < window.tokens.count, left > 0 {
      if vocabulary.isText(window.tokens[end]) { left -= 1 }
      end += 1
    }
    if end < window.tokens.count, vocabulary.isTimestamp(window.tokens[end]) { end += 1 }
    var window = window
    window.tokens.removeSubrange(end...)
    window.logprobs.removeSubrange(end...)
    return window
  }
}

/// Text that has begun to go round in circles.
enum Repetition {
  /// The longest round, and how often and how long it goes before it counts.
  private static let (longest, times, length) = (32, 5, 30)

  /// How many tokens there were when the first round was done, where the last ones are the same round again and again.
  static func beginning(of tokens: [Int32]) -> Int? {
    for period in 1...longest {
      let needed = max(times * period, length)
      guard tokens.count >= needed else { return nil }
      let tail = tokens.suffix(needed)
      if zip(tail, tail.dropFirst(period)).allSatisfy({ $0 == $1 }) {
        return tokens.count - needed + period
      }
    }
    return nil
  }
}

/// Turns of the shared kernels for one piece of work after the other, as long as it is wanted.
struct SpeechTurns {
  private let turn: (() -> Void) -> Void
  private let isUnwanted: () -> Bool

  init(isUnwanted: @escaping () -> Bool, turn: @escaping (() -> Void) -> Void) {
    (self.isUnwanted, self.turn) = (isUnwanted, turn)
  }

  func callAsFunction<Result>(_ body: () -> Result) throws(SpeechStop) -> Result {
    if isUnwanted() { throw .unwanted }
    var result: Result?
    turn { result = body() }
    guard let result else { throw .unwanted }
    return result
  }
}
