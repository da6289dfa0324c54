// Counts of values by size, in the buckets that Prometheus wants.

struct Histogram: Sendable, Equatable {
  /// Upper bounds, each part of its bucket, ascending. One more bucket takes what is above them all.
  let bounds: [Double]
  /// Not added up: each value is in one bucket.
  private(set) var counts: [Int]
  private(set) var sum = 0.0

  init(bounds: [Double]) {
    self.bounds = bounds
    counts = [Int](repeating: 0, count: bounds.count + 1)
  }

  var count: Int { counts.reduce(0, +) }

  mutating func observe(_ value: Double) {
    // Few bounds, and the low ones are the common ones: a search from below is the quickest.
    var index = 0
    while index < bounds.count, value > bounds[index] { index += 1 }
    counts[index] += 1
    sum += value
  }

  /// Takes over what another one with the same bounds has counted.
  mutating func add(_ other: Histogram) {
    for index in counts.indices where index < other.counts.count { counts[index] += other.counts[index] }
    sum += other.sum
  }
}

extension Histogram {
  // The bounds are vLLM's, so that its dashboards, and sums over servers of both kinds, fit.

  static let firstToken = [
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160,
    640, 2560,
  ]
  static let betweenTokens = [
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80,
  ]
  static let requestSeconds = [
    0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680,
  ]
  // These are of searches, which no other server has.

  static let searchSeconds = [
    0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2.5, 5,
  ]
  static let searchCandidates: [Double] = [10, 20, 50, 100, 200, 500, 1_000, 10_000, 100_000, 1_000_000]

  static let tokens = (0..<7).flatMap { power in
    let ten = (0..<power).reduce(1.0) { product, _ in product * 10 }
    return [ten, 2 * ten, 5 * ten]
  }
}
