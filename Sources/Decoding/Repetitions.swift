// "Don't repeat yourself" (DRY): lowers tokens that would go on with a sequence that the text has had before.

import Sampling

/// Where the end of the text stands elsewhere in it, the token that followed there is penalised: by
/// `multiplier · base ^ (length − allowed length)`, for the longest such sequence.
struct Repetitions: Sendable {
  private let multiplier: Float
  private let base: Float
  private let allowedLength: Int
  private let window: Int
  private let breakers: SequenceBreakers

  /// Nil when it is off.
  init?(_ parameters: SamplingParameters) {
    guard parameters.dryMultiplier > 0, parameters.dryPenaltyLastN != 0 else { return nil }
    multiplier = parameters.dryMultiplier
    base = max(parameters.dryBase, 1)
    allowedLength = max(0, parameters.dryAllowedLength)
    window = parameters.dryPenaltyLastN < 0 ? .max : parameters.dryPenaltyLastN
    breakers = parameters.dryBreakers
  }

  /// O(window). Ids that the row does not have are passed over. False when there is nothing to change.
  ///
  /// - Parameter text: prompt and answer.
  func apply(to row: UnsafeMutableBufferPointer<Float>, after text: [Int32]) -> Bool {
    let tokens = text.suffix(window)
    let most = breakers.lengthAfterLast(in: tokens)
    guard tokens.count > allowedLength, most >= allowedLength else { return false }
    var longest: [Int32: Int] = [:]
    let backward = Array(tokens.reversed())
    for (position, length) in Self.matches(backward).enumerated() where position > 0 {
      let length = min(length, most)
      guard length >= allowedLength, length > 0 || allowedLength == 0 else { continue }
      let next = backward[position - 1]
      longest[next] = max(longest[next] ?? 0, length)
    }
    for (token, length) in longest where row.indices.contains(Int(token)) {
      row[Int(token)] -= penalty(of: length)
    }
    return !longest.isEmpty
  }

  private func penalty(of length: Int) -> Float {
    // What a Float can hold.
    let most = base > 1.000_001 ? 88 / VectorMath.logarithm(Double(base)) : .infinity
    let surplus = min(Double(length - allowedLength), most)
    let power = base > 1 ? VectorMath.power(Double(base), surplus) : 1
    return min(Float(Double(multiplier) * power), .greatestFiniteMagnitude)
  }

  /// For each position, how long the sequence from there agrees with the beginning (the Z function).
  static func matches(_ tokens: [Int32]) -> [Int] {
    var lengths = [Int](repeating: 0, count: tokens.count)
    // The match that reaches furthest: what is inside of it is known from the beginning.
    var start = 0
    var end = 0
    for position in tokens.indices.dropFirst() {
      var length = position < end ? min(end - position, lengths[position - start]) : 0
      while position + length < tokens.count, tokens[length] == tokens[position + length] { length += 1 }
      lengths[position] = length
      if position + length > end { (start, end) = (position, position + length) }
    }
    return lengths
  }
}
