// Changes to single logits that do not depend on the text so far: biases, and no end before the least length.

import Sampling

/// What is added to logits of a row before penalties. Negative infinity bans a token.
struct LogitBias: Sendable {
  private let biases: [(id: Int, bias: Float)]
  /// Banned while the answer is shorter than `minTokens`.
  private let stopTokens: [Int]
  private let minTokens: Int

  init(_ parameters: SamplingParameters, stopTokens: Set<Int32>) {
    biases = parameters.logitBias.map { (Int($0.key), $0.value) }
    minTokens = parameters.minTokens
    self.stopTokens = minTokens > 0 ? stopTokens.map(Int.init) : []
  }

  /// Ids that the row does not have are passed over. False when there is nothing to change.
  func apply(to row: UnsafeMutableBufferPointer<Float>, step: Int) -> Bool {
    for (id, bias) in biases where row.indices.contains(id) { row[id] += bias }
    guard step < minTokens else { return !biases.isEmpty }
    for id in stopTokens where row.indices.contains(id) { row[id] = -.infinity }
    return !(biases.isEmpty && stopTokens.isEmpty)
  }
}
