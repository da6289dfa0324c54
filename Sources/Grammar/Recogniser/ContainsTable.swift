// How arrays end whose `contains` get in each other's way: by bounds above, or by the most items.

/// How many items at least lead from each state of an array to one in which it may close. With a lower bound alone, each
/// item that helps can come at any time; with others an item that helps one bound may break another.
struct ContainsTable: Sendable {
  /// Whether an item of each option exists, at the first places and behind them.
  let possible: [[Bool]]
  private let counter: StateCounter
  /// `Int32.max` where nothing leads there.
  private let items: [Int32]

  /// Nil where there are too many states.
  init?(_ plan: ArrayPlan, possible: [[Bool]]) {
    guard let counter = StateCounter(plan) else { return nil }
    self.possible = possible
    self.counter = counter
    var items = [Int32](repeating: Int32.max, count: counter.count)
    var queue: [Int] = []
    var (from, to) = ([Int32](), [Int32]())
    for number in 0..<counter.count {
      let state = counter.state(number)
      if state.mayClose(plan) {
        items[number] = 0
        queue.append(number)
      }
      for (place, option) in plan.options(at: state.index).enumerated()
      where possible[min(state.index, plan.prefix.count)][place] {
        from.append(Int32(truncatingIfNeeded: number))
        to.append(Int32(truncatingIfNeeded: counter.number(state.adding(option, plan))))
      }
    }
    let before = ReverseEdges(from: from, to: to, rowCount: counter.count)
    var head = 0
    while head < queue.count {
      let number = queue[head]
      head += 1
      for source in before.sources(of: number) where items[Int(source)] == Int32.max {
        items[Int(source)] = items[number] + 1
        queue.append(Int(source))
      }
    }
    self.items = items
  }

  func items(from state: ArrayState) -> Int32 { items[counter.number(state)] }

  /// Whether a plan's states are few enough.
  static func fits(_ plan: ArrayPlan) -> Bool { StateCounter(plan) != nil }

  /// The states of an array by number.
  private struct StateCounter {
    let count: Int
    /// How many values the index has, and each count.
    private let sizes: [Int]

    private static let limit = 20_000

    init?(_ plan: ArrayPlan) {
      let caps = [plan.lastIndex] + plan.contains.indices.map { plan.lastCount($0) }
      guard caps.allSatisfy({ $0 < Self.limit }) else { return nil }
      sizes = caps.map { $0 + 1 }
      var count = 1
      for size in sizes {
        count *= size
        guard count <= Self.limit else { return nil }
      }
      self.count = count
    }

    func number(_ state: ArrayState) -> Int {
      zip(sizes.dropFirst(), state.counts).reversed().reduce(0) { $0 * $1.0 + $1.1 } * sizes[0] + state.index
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
