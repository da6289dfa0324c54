// What completing an array costs where several `contains` conflict: by an upper bound, or by the most items.

/// With lower bounds alone, an item that helps may come at any time. With an upper bound it may break another `contains`,
/// and with `maxItems` it may take the place that another needs. So each state of the array is looked at.
struct ContainsTable: Sendable {
  /// The bytes of each option at each place of the prefix, and then of those behind it.
  private let prices: [[Int32]]
  private let sizes: StateSizes
  /// The bytes from each state to one in which the array may close, a comma before each item.
  private let costs: [Int32]

  /// Nil where there are too many states.
  init?(_ plan: ArrayPlan, _ cost: [Int32]) {
    guard let sizes = StateSizes(plan) else { return nil }
    self.sizes = sizes
    prices = plan.places.map { $0.map { cost[Int($0.value)] } }
    var costs = [Int32](repeating: Cost.none, count: sizes.count)
    // An item leads to a larger number, or back to a state that it does not help.
    for number in costs.indices.reversed() {
      let state = sizes.state(number)
      guard !state.mayClose(plan) else {
        costs[number] = 0
        continue
      }
      for option in plan.options(at: state.index) {
        let rest = costs[sizes.number(number, state, adding: option.marks)]
        costs[number] = min(costs[number], Cost.sum(Cost.sum(1, cost[Int(option.value)]), rest))
      }
    }
    self.costs = costs
  }

  func cost(of state: ArrayState) -> Int32 { costs[sizes.number(state)] }

  /// Whether the options still cost what they did.
  func isOf(_ plan: ArrayPlan, _ cost: [Int32]) -> Bool {
    zip(prices, plan.places).allSatisfy { zip($0, $1).allSatisfy { $0 == cost[Int($1.value)] } }
  }

  /// How many items are tried in how many states to make a plan's table; nil where that is too many.
  static func steps(_ plan: ArrayPlan) -> Int? {
    StateSizes(plan).map { $0.count * (plan.places.map(\.count).max() ?? 0) }.flatMap {
      $0 <= stepLimit ? $0 : nil
    }
  }

  private static let stepLimit = 200_000

  /// The states of an array by number: what counts items never becomes smaller, and the number does not either.
  private struct StateSizes {
    let count: Int
    /// How many values the index has, and each count.
    private let sizes: [Int]

    init?(_ plan: ArrayPlan) {
      let last = [plan.lastIndex] + plan.contains.indices.map { plan.lastCount($0) }
      var count = 1
      for last in last {
        guard last < stepLimit, count <= stepLimit else { return nil }
        count *= last + 1
      }
      guard count <= stepLimit else { return nil }
      sizes = last.map { $0 + 1 }
      self.count = count
    }

    func number(_ state: ArrayState) -> Int {
      zip(sizes.dropFirst(), state.counts).reversed().reduce(0) { $0 * $1.0 + $1.1 } * sizes[0] + state.index
    }

    /// The number of the state after an item, without making that state.
    func number(_ number: Int, _ state: ArrayState, adding marks: UInt64) -> Int {
      var next = number + (state.index < sizes[0] - 1 ? 1 : 0)
      var stride = sizes[0]
      for (bit, count) in state.counts.enumerated() {
        if marks & 1 << UInt64(bit) != 0, count < sizes[bit + 1] - 1 { next += stride }
        stride *= sizes[bit + 1]
      }
      return next
    }

    func state(_ number: Int) -> ArrayState {
      var rest = number
      let values = sizes.map { size in
        defer { rest /= size }
        return rest % size
      }
      return ArrayState(index: values[0], counts: Array(values.dropFirst()))
    }
  }
}
