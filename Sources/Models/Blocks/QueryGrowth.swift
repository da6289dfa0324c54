// Queries that grow with their position, so that attention stays as sharp over long contexts as over short ones.

import Platform

/// `1 + beta · ln(1 + ⌊(position + offset) / original⌋)`: Ministral 3, and Llama 4 with an offset of 1.
struct QueryGrowth {
  let beta: Double
  let original: Double
  var offset = 0

  func factor(at position: Int) -> Float {
    Float(1 + beta * log(1 + (Double(position + offset) / original).rounded(.down)))
  }

  /// The factors of a step's rows.
  func factors(_ batch: Batch) -> [Float] {
    batch.spans.flatMap { span in span.tokens.indices.map { factor(at: span.start + $0) } }
  }
}
