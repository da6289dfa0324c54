// How long a step takes: a small linear model that learns from every step, so that the next one can be cut to fit.
//
//     seconds = fixed + rows · perRow + pairs · perPair
//
// `fixed` is the pass over the weights, which every step makes; `perRow` the arithmetic of a row; `perPair` the
// attention of a row to one position before it, which makes rows at depth 50,000 dearer than rows at the start.
// Docs: decisions/013.

/// What a step computes, in the units of its cost.
struct StepLoad: Equatable {
  var rows = 0
  /// Positions that attention reads, summed over the rows.
  var pairs = 0

  init() {}

  /// Consecutive rows of one sequence after `start` computed positions.
  init(rows: Int, after start: Int) {
    self.rows = rows
    pairs = rows * start + rows * (rows + 1) / 2
  }

  static func + (a: StepLoad, b: StepLoad) -> StepLoad {
    var sum = a
    sum.rows += b.rows
    sum.pairs += b.pairs
    return sum
  }

  static func - (a: StepLoad, b: StepLoad) -> StepLoad {
    var rest = a
    rest.rows -= b.rows
    rest.pairs -= b.pairs
    return rest
  }
}

/// The cost of a step, seconds.
struct StepCost: Equatable {
  var fixed = 0.0
  var perRow = 0.0
  var perPair = 0.0

  func seconds(_ load: StepLoad) -> Double {
    fixed + Double(load.rows) * perRow + Double(load.pairs) * perPair
  }

  /// The cost of `left` rows of a sequence after `start` positions, where every step takes as many of them as this one,
  /// beside the same rows of others.
  func seconds(of left: Int, after start: Int, by rows: Int, beside others: StepLoad) -> Double {
    let steps = (Double(left) / Double(max(1, rows))).rounded(.up)
    return seconds(StepLoad(rows: left, after: start)) - fixed + steps * seconds(others)
  }

  /// The most rows after `start` positions that cost no more than `seconds`, without the fixed part; at most `most`.
  func rows(within seconds: Double, after start: Int, most: Int) -> Int {
    func fits(_ rows: Int) -> Bool {
      let load = StepLoad(rows: rows, after: start)
      return Double(load.rows) * perRow + Double(load.pairs) * perPair <= seconds
    }
    var low = 0
    var high = max(0, most)
    while low < high {
      let middle = (low + high + 1) / 2
      if fits(middle) { low = middle } else { high = middle - 1 }
    }
    return low
  }
}

/// What the scheduler may spend on one step.
struct StepAllowance: Equatable {
  var cost = StepCost()
  /// The longest that a step may take while streams wait for their next token, seconds.
  var besideStreams = Double.infinity
  /// The longest that a step of prompts alone may take: it bounds how late a cancellation is seen.
  var alone = Double.infinity
  /// Most rows of prompts, however cheap they look: beside streams, and alone.
  var rowsBesideStreams = Int.max
  var rowsAlone = Int.max
}

/// Learns the cost of steps: a Kalman filter over the three coefficients.
///
/// It keeps what recent steps say nothing about (a thousand decode steps do not wear out what a prompt's row
/// costs), weighs every step by its relative error, and is moved only so far by one that takes surprisingly long.
struct StepClock {
  private(set) var cost = StepCost()
  /// The longest that a step beside streams may take, seconds.
  private let limit: Double
  /// How much of the limit is planned with: less after a step that came out too long.
  private(set) var ease = 1.0
  /// The most rows of a step.
  private var mostRows = 0
  /// The same, fading: what was not seen lately is approached in steps where streams wait.
  private var lateRows = 0.0
  private var hasSeen = false
  /// The coefficients' uncertainty.
  private var spread = [[Double]](repeating: [0, 0, 0], count: 3)

  /// Relative error of one step's time.
  private static let noise = 0.1
  /// How much the coefficients may wander from step to step.
  private static let drift = 0.02
  /// A step that is further away from what was expected, in standard deviations, counts as this far.
  private static let surprise = 3.0
  /// Rows of a prompt while nothing is known of large steps.
  private static let firstRows = 16
  private static let fading = 0.99
  /// Steps of prompts alone may take this many times the limit: fewer passes over the weights.
  private static let patience = 10.0

  init(limit: Double) { self.limit = limit }

  /// What the next step may spend.
  var allowance: StepAllowance {
    // One tenth for the noise of the clock and of neighbours.
    StepAllowance(
      cost: cost, besideStreams: limit * 0.9 * ease, alone: limit * Self.patience,
      rowsBesideStreams: max(Self.firstRows, Int(2 * lateRows)),
      rowsAlone: max(4 * Self.firstRows, 2 * mostRows))
  }

  /// Learns from a step.
  ///
  /// - Parameter besideStreams: whether streams were waiting for it.
  mutating func learn(_ load: StepLoad, seconds: Double, besideStreams: Bool) {
    guard load.rows > 0, seconds > 0, seconds.isFinite else { return }
    mostRows = min(max(mostRows, load.rows), 1 << 30)
    lateRows = max(lateRows * Self.fading, Double(min(load.rows, 1 << 30)))
    let x = [1, Double(load.rows), Double(load.pairs)]
    if hasSeen {
      correct(x, seconds)
    } else {
      begin(x, seconds)
    }
    if besideStreams {
      ease = seconds > limit ? max(ease * max(0.5, limit / seconds), 0.125) : min(1, ease * 1.03)
    }
  }

  /// Nothing is known: half of the time for the pass, half for the rows, and all of it uncertain.
  private mutating func begin(_ x: [Double], _ seconds: Double) {
    hasSeen = true
    cost = StepCost(fixed: seconds / 2, perRow: seconds / 2 / x[1], perPair: 0)
    for i in 0..<3 { spread[i][i] = Self.most(i, x, seconds) * Self.most(i, x, seconds) }
  }

  /// The most that a coefficient can be after a step: all of the time is its doing. Attention to one position is a
  /// thousandth of a row's work at most; without this bound it would take the blame for rows that are dear.
  private static func most(_ index: Int, _ x: [Double], _ seconds: Double) -> Double {
    index < 2 ? seconds / x[index] : min(seconds / x[2], seconds / x[1] * 1e-3)
  }

  private mutating func correct(_ x: [Double], _ seconds: Double) {
    var theta = [cost.fixed, cost.perRow, cost.perPair]
    for i in 0..<3 {
      // A coefficient that came out as zero must be able to come back.
      let most = max(theta[i], Self.most(i, x, seconds))
      let step = Self.drift * max(theta[i], 0.1 * most)
      spread[i][i] += step * step
      // What was not observed for long is no less certain than at first.
      if spread[i][i] > most * most {
        let shrink = most / spread[i][i].squareRoot()
        for j in 0..<3 {
          spread[i][j] *= shrink
          spread[j][i] *= shrink
        }
      }
    }
    let expected = theta[0] * x[0] + theta[1] * x[1] + theta[2] * x[2]
    let gain = spread.map { $0[0] * x[0] + $0[1] * x[1] + $0[2] * x[2] }
    let scale = max(seconds, expected) * Self.noise
    let variance = gain[0] * x[0] + gain[1] * x[1] + gain[2] * x[2] + scale * scale
    guard variance > 0, variance.isFinite else { return }
    let bound = Self.surprise * variance.squareRoot()
    let error = min(bound, max(-bound, seconds - expected))
    for i in 0..<3 {
      theta[i] = max(0, theta[i] + gain[i] * error / variance)
      for j in 0..<3 { spread[i][j] -= gain[i] * gain[j] / variance }
    }
    cost = StepCost(fixed: theta[0], perRow: theta[1], perPair: theta[2])
  }
}
