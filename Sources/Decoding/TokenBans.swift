// Tokens that an answer may not hold: all but a given set, and those that would complete a banned sequence.

import Grammar
import Sampling

struct TokenBans: Sendable {
  private let allowed: TokenMask?
  private let sequences: [[Int32]]

  init(_ parameters: SamplingParameters) {
    sequences = parameters.bannedSequences.filter { !$0.isEmpty }
    allowed = parameters.allowedTokens.map { tokens in
      var mask = TokenMask(count: Int(max(-1, tokens.max() ?? -1)) + 1)
      for token in tokens { mask.insert(token) }
      return mask
    }
  }

  /// Whether it asks for the tokens of the answer.
  var looksBack: Bool { sequences.contains { $0.count > 1 } }

  /// Ids that the row does not have are passed over. False when there is nothing to change.
  func apply(to row: UnsafeMutableBufferPointer<Float>, after answer: ArraySlice<Int32>) -> Bool {
    allowed?.banOthers(in: row)
    for sequence in sequences {
      guard let last = sequence.last, row.indices.contains(Int(last)) else { continue }
      let before = sequence.dropLast()
      if answer.suffix(before.count).elementsEqual(before) { row[Int(last)] = -.infinity }
    }
    return allowed != nil || !sequences.isEmpty
  }
}
