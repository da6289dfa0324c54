// Which tokens may come next in a window: no noise marks, and timestamps in pairs that do not run backwards.
//
// Source: the filters of Whisper's decoding. The rule "not before the last timestamp" compares times, as OpenAI's does.

import Platform

/// Pure functions on the logits of one position.
struct SpeechRules {
  let vocabulary: SpeechVocabulary

  /// The latest timestamp that a window may begin with: 1 s.
  private static let latestBeginning: Int32 = 50

  /// Makes impossible what may not come.
  ///
  /// - Parameter written: tokens of the window so far.
  func apply(to logits: inout [Float], written: [Int32]) {
    let v = vocabulary
    for token in v.suppressed + (written.isEmpty ? v.blank : []) { Self.forbid(token..<token + 1, &logits) }
    // Languages, other marks, and what is beyond the last timestamp.
    Self.forbid(v.end + 1..<v.timestamps, &logits)
    Self.forbid(v.upperBound..<Int32(clamping: max(logits.count, Int(v.upperBound))), &logits)
    for tokens in untimely(written) { Self.forbid(tokens, &logits) }
    if prefersTime(logits) { Self.forbid(0..<v.timestamps, &logits) }
  }

  private static func forbid(_ tokens: Range<Int32>, _ logits: inout [Float]) {
    for token in tokens.clamped(to: 0..<Int32(clamping: logits.count)) { logits[Int(token)] = -.infinity }
  }

  /// Timestamps that cannot come now, or text where none can.
  private func untimely(_ written: [Int32]) -> [Range<Int32>] {
    let v = vocabulary
    guard let last = written.last else {
      return [0..<v.timestamps, v.timestamps + Self.latestBeginning + 1..<v.upperBound]
    }
    var forbidden: [Range<Int32>] = []
    let isPaired = written.dropLast().last.map(v.isTimestamp) ?? true
    if v.isTimestamp(last) {
      // After a pair, or the first, comes text; after one that closes a piece of text its pair or the end.
      forbidden.append(isPaired ? v.timestamps..<v.upperBound : 0..<v.end)
    }
    if let latest = written.last(where: v.isTimestamp) {
      let mayRepeat = v.isTimestamp(last) && !isPaired
      forbidden.append(v.timestamps..<(mayRepeat ? latest : latest + 1))
    }
    return forbidden
  }

  /// Whether all timestamps together are more likely than any piece of text.
  private func prefersTime(_ logits: [Float]) -> Bool {
    let (first, end) = (Int(vocabulary.timestamps), min(Int(vocabulary.upperBound), logits.count))
    guard first < end else { return false }
    return logSumExp(logits[first..<end]) > logits[..<first].max() ?? -.infinity
  }
}

/// The logarithm of the sum of the exponentials.
func logSumExp(_ logits: some Collection<Float>) -> Float {
  let largest = logits.max() ?? 0
  guard largest > -.infinity else { return -.infinity }
  var sum: Float = 0
  for logit in logits { sum += exp(logit - largest) }
  return largest + log(sum)
}
