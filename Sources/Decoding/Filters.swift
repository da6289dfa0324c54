// Filters on a whole row beside top_k, top_p and min_p: by deviation, by typical surprise, without top choices; and the
// temperature that follows the entropy.

import Sampling

/// A row of weights (probabilities up to a common factor), the sums of its blocks, and the logits it was made from. In a
/// block whose sum is 0 nothing is left, whatever its elements say.
struct WeightedRow {
  let row: UnsafeMutableBufferPointer<Float>
  /// Of each block.
  var sums: [Double]
  /// The logits and the largest of them; the log of an element's weight is `(logit − largest) · scale`. Nil where no
  /// filter asks for logarithms.
  let logits: [Float]?
  let largest: Float
  let scale: Float

  /// Replaces a row of logits by their weights.
  init(
    exponentiating row: UnsafeMutableBufferPointer<Float>, largest: Float, scale: Float, keepsLogits: Bool
  ) {
    logits = keepsLogits ? Array(row) : nil
    (self.row, self.largest, self.scale) = (row, largest, scale)
    sums = VectorMath.exponentiate(row, maximum: largest, scale: scale)
  }

  var total: Double { sums.reduce(0, +) }

  /// Positions with a weight, in order.
  var positions: [Int] {
    sums.indices.filter { sums[$0] > 0 }.flatMap { block in
      VectorMath.positions(ofBlock: block, of: row.count).filter { row[$0] > 0 }
    }
  }

  /// The natural logarithm of the weight at a position.
  private func logWeight(_ position: Int) -> Double {
    guard let logits else { return VectorMath.logarithm(max(Double(row[position]), .leastNormalMagnitude)) }
    return (Double(logits[position]) - Double(largest)) * Double(scale)
  }

  /// Of the distribution that is left, nats.
  private func entropy(_ positions: [Int], total: Double) -> Double {
    let mean = positions.reduce(0.0) { $0 + Double(row[$1]) * logWeight($1) } / total
    return VectorMath.logarithm(total) - mean
  }

  /// Leaves positions out. Each block whose elements were changed is added up anew, and no other: sums are told apart by
  /// their last bits.
  private mutating func drop(_ positions: some Sequence<Int>) {
    var blocks: Set<Int> = []
    for position in positions {
      row[position] = 0
      blocks.insert(position / VectorMath.block)
    }
    for block in blocks { refreshSum(ofBlock: block) }
  }

  private mutating func refreshSum(ofBlock block: Int) {
    sums[block] = VectorMath.positions(ofBlock: block, of: row.count).reduce(0.0) { $0 + Double(row[$1]) }
  }

  /// Adds all blocks up anew that have something left.
  private mutating func refreshSums() {
    for block in sums.indices where sums[block] > 0 { refreshSum(ofBlock: block) }
  }

  // MARK: Filters

  /// top_p, and min_p of what it leaves.
  mutating func cut(topP: Float, minP: Float) {
    let read = UnsafeBufferPointer(row)
    let maxima = VectorMath.blockMaxima(read)
    let total = total
    // 1e-38 instead of 0: tokens that the temperature has made impossible stay out.
    let least = minP > 0 ? min(minP, 1) * (maxima.max() ?? 1) : 0
    var cut = RankedKey(value: max(least, 1e-38), position: RankedKey.last)
    if topP < 1 {
      let topP = Double(max(topP, 0))
      // All tokens below this weight together weigh less than (1 - top_p) · total, so top_p drops them all;
      // a thousandth less, for the rounding of `total`.
      let negligible = Float((1 - topP) * total / Double(row.count) * 0.999)
      cut = max(cut, Selection.nucleus(of: read, mass: topP * total, floor: negligible, blockMaxima: maxima))
    }
    sums = VectorMath.drop(row, below: cut.value, lastEqual: cut.position, blockMaxima: maxima)
  }

  /// Keeps the tokens whose surprise is nearest to the expected one, until they have more than the fraction `mass`.
  mutating func keepTypical(mass: Float) {
    let positions = positions
    guard positions.count > 1 else { return }
    let total = total
    let expected = entropy(positions, total: total)
    let logTotal = VectorMath.logarithm(total)
    let keys = positions.map { position in
      RankedKey(value: -Float(abs(logTotal - logWeight(position) - expected)), position: position)
    }
    let wanted = Double(mass) * total
    let cut = Selection.cut(keys, measure: { Double(row[$0.position]) }, until: { $0 > wanted })
    for key in keys where key < cut { row[key.position] = 0 }
    refreshSums()
  }

  /// Leaves out the tokens that have at least the fraction `threshold`, but for the least likely of them.
  mutating func excludeTopChoices(threshold: Float) {
    let bound = Double(threshold) * total
    let choices = positions.filter { Double(row[$0]) >= bound }
    let least = choices.min {
      RankedKey(value: row[$0], position: $0) < RankedKey(value: row[$1], position: $1)
    }
    drop(choices.lazy.filter { $0 != least })
  }

  /// The temperature that the entropy chooses; nil where only one position is left.
  func dynamicTemperature(
    _ positions: [Int], _ temperature: Float, _ range: Float, _ exponent: Float
  ) -> Double? {
    guard positions.count > 1 else { return nil }
    let share = entropy(positions, total: total) / VectorMath.logarithm(Double(positions.count))
    let low = max(0, Double(temperature) - Double(range))
    let high = Double(temperature) + Double(range)
    return low + (high - low) * VectorMath.power(min(max(share, 0), 1), Double(exponent))
  }

  /// Gives what is left a temperature between `temperature − range` and `temperature + range`: the lower end where it is
  /// sure, the upper where all is equally likely.
  mutating func followEntropy(temperature: Float, range: Float, exponent: Float) {
    let positions = positions
    guard let dynamic = dynamicTemperature(positions, temperature, range, exponent) else { return }
    let best = positions.map(logWeight).max() ?? 0
    guard dynamic >= 1e-5 else {
      let first = positions.first { logWeight($0) == best }
      for position in positions where position != first { row[position] = 0 }
      refreshSums()
      return
    }
    for position in positions {
      let weight = VectorMath.exponential((logWeight(position) - best) / dynamic)
      row[position] = Float(weight)
    }
    refreshSums()
  }
}

enum SigmaFilter {
  /// Makes logits impossible that are more than `deviations` standard deviations below the largest.
  ///
  /// - Returns: the largest of each block.
  static func apply(_ row: UnsafeMutableBufferPointer<Float>, deviations: Float, largest: Float) -> [Float] {
    var sum = 0.0
    var count = 0.0
    for logit in row where logit > -.infinity {
      sum += Double(logit)
      count += 1
    }
    let mean = sum / max(count, 1)
    var squares = 0.0
    for logit in row where logit > -.infinity {
      squares += (Double(logit) - mean) * (Double(logit) - mean)
    }
    let deviation = (squares / max(count, 1)).squareRoot()
    let bound = Double(largest) - Double(deviations) * deviation
    for position in row.indices where !(Double(row[position]) >= bound) { row[position] = -.infinity }
    return VectorMath.blockMaxima(UnsafeBufferPointer(row))
  }
}
