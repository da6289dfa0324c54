// Where an object or an array stands: which members it has, and what it still needs.

/// The members that an object has so far.
struct ObjectState {
  /// All members; counted only where there is an upper bound, or where further members count.
  var count: Int
  var hasExtra: Bool
  /// Bit n: property n is there.
  var seen: [UInt64]
  /// The texts of the items of an array so far, where this object must differ from others, or the keys of further members,
  /// where these must: an interned list.
  var texts: Int32

  init(_ plan: ObjectPlan, texts: Int32 = 0) {
    self.texts = texts
    count = 0
    hasExtra = false
    seen = [UInt64](repeating: 0, count: (plan.properties.count + 63) / 64)
  }

  init(words: [UInt64]) {
    let first = words.first ?? 0
    count = Int(first & 0xFFFF_FFFF) >> 1
    hasExtra = first & 1 != 0
    texts = Int32(truncatingIfNeeded: first >> 32)
    seen = Array(words.dropFirst())
  }

  var words: [UInt64] {
    let counted = UInt64(UInt32(clamping: count << 1 | (hasExtra ? 1 : 0)))
    return [counted | UInt64(UInt32(bitPattern: texts)) << 32] + seen
  }

  func contains(_ property: Int) -> Bool { seen[property / 64] & (1 << UInt64(property % 64)) != 0 }

  func adding(_ property: Int, _ plan: ObjectPlan) -> ObjectState {
    var next = self
    next.count += counting(plan)
    next.seen[property / 64] |= 1 << UInt64(property % 64)
    return next
  }

  func addingExtra(_ plan: ObjectPlan) -> ObjectState {
    var next = self
    next.count += counting(plan)
    next.hasExtra = true
    return next
  }

  /// What one more member adds to the count: nothing where it makes no difference any more.
  private func counting(_ plan: ObjectPlan) -> Int {
    plan.max < Int.max || plan.countsExtras && count < plan.min ? 1 : 0
  }

  /// Members with different keys, as far as that is certain: two further keys may be equal.
  func distinct(_ plan: ObjectPlan) -> Int {
    plan.countsExtras ? count : seen.reduce(hasExtra ? 1 : 0) { $0 + $1.nonzeroBitCount }
  }
}

/// The items that an array has so far.
struct ArrayState {
  /// Clamped to what can still matter.
  var index: Int
  /// Items that count for each `contains`; clamped likewise.
  var counts: [Int]
  /// The texts so far, where they must differ: an interned list.
  var seen: Int32 = 0

  init(_ plan: ArrayPlan) {
    index = 0
    counts = [Int](repeating: 0, count: plan.contains.count)
  }

  init(index: Int, counts: [Int]) {
    (self.index, self.counts) = (index, counts)
  }

  init(words: [UInt64]) {
    index = Int(truncatingIfNeeded: (words.first ?? 0) & 0xFFFF_FFFF)
    seen = Int32(truncatingIfNeeded: (words.first ?? 0) >> 32)
    counts = words.dropFirst().map { Int(truncatingIfNeeded: $0) }
  }

  var words: [UInt64] {
    [UInt64(truncatingIfNeeded: index) | UInt64(UInt32(bitPattern: seen)) << 32]
      + counts.map { UInt64(truncatingIfNeeded: $0) }
  }

  /// - Parameter times: more than once only after the prefix.
  func adding(_ option: ArrayPlan.Option, _ plan: ArrayPlan, times: Int = 1) -> ArrayState {
    var next = self
    next.index = min(index + times, plan.lastIndex)
    for bit in plan.contains.indices where option.marks & (1 << UInt64(bit)) != 0 {
      next.counts[bit] = min(counts[bit] + times, plan.lastCount(bit))
    }
    return next
  }

  func mayClose(_ plan: ArrayPlan) -> Bool {
    index >= plan.min && zip(counts, plan.contains).allSatisfy { $0 >= $1.min && $0 <= $1.max }
  }

  /// Whether the array can be completed from here. Where several `contains` conflict only `cost` knows for sure.
  func isCompletable(_ plan: ArrayPlan) -> Bool {
    for (bit, bounds) in plan.contains.enumerated() {
      guard counts[bit] <= bounds.max else { return false }
      let missing = bounds.min - counts[bit]
      guard missing > 0 else { continue }
      let mask = UInt64(1) << UInt64(bit)
      var places = plan.places(from: index, bit)
      if plan.rest.contains(where: { $0.marks & mask != 0 }) {
        places = plan.max == Int.max ? missing : places + plan.max - Swift.max(index, plan.prefix.count)
      }
      guard places >= missing else { return false }
    }
    return true
  }

  /// Bytes of the items that must still come, a comma before each; the closing bracket is not counted.
  func cost(_ plan: ArrayPlan, _ cost: [Int32]) -> Int32 {
    if let table = plan.table(cost) { return table.cost(of: self) }
    var state = self
    var total: Int32 = 0
    while !state.mayClose(plan) {
      let options = plan.options(at: state.index)
      // Behind the prefix without `contains`, all items are alike.
      if plan.contains.isEmpty, state.index >= plan.prefix.count {
        let item = options.reduce(Cost.none) { min($0, cost[Int($1.value)]) }
        return Cost.sum(total, Cost.product(Cost.sum(1, item), plan.min - state.index))
      }
      var best: (cost: Int32, useful: Int, option: ArrayPlan.Option)?
      for option in options where cost[Int(option.value)] < Cost.none {
        guard state.adding(option, plan).isCompletable(plan) else { continue }
        let useful = state.missing(plan, option.marks).count
        let price = cost[Int(option.value)]
        if let best, (best.useful, -best.cost) >= (useful, -price) { continue }
        best = (price, useful, option)
      }
      guard let best, total < Cost.none else { return Cost.none }
      let count = state.repetitions(of: best.option, plan)
      guard count > 0 else { return Cost.none }
      total = Cost.sum(total, Cost.product(Cost.sum(1, best.cost), count))
      state = state.adding(best.option, plan, times: count)
    }
    return total
  }

  /// How many items each `contains` that these marks count for still asks for.
  private func missing(_ plan: ArrayPlan, _ marks: UInt64) -> [Int] {
    plan.contains.indices.filter { marks & (1 << UInt64($0)) != 0 }.map { plan.contains[$0].min - counts[$0] }
      .filter { $0 > 0 }
  }

  /// How many items of a kind come one after the other until another kind may be better, or none is needed.
  private func repetitions(of option: ArrayPlan.Option, _ plan: ArrayPlan) -> Int {
    guard index >= plan.prefix.count else { return 1 }
    // Items that help no `contains` only where places must be filled.
    var count = missing(plan, option.marks).min() ?? (plan.min - index)
    for (bit, bounds) in plan.contains.enumerated()
    where option.marks & (1 << UInt64(bit)) != 0 && bounds.max < Int.max {
      count = min(count, bounds.max - counts[bit])
    }
    return plan.max == Int.max ? count : min(count, plan.max - index)
  }
}

/// What of an object runs above its frame.
enum ObjectPhase {
  case open, firstSpace, comma, space
  /// The closing brace, where the array must hear of the texts.
  case close
  /// Of a property, or, counted on, of an extra.
  case key(Int)
  case value(Int)

  init(_ number: Int32) {
    switch number {
    case -1: self = .close
    case 0: self = .open
    case 1: self = .firstSpace
    case 2: self = .comma
    case 3: self = .space
    default: self = number % 2 == 0 ? .key(Int(number) / 2 - 2) : .value(Int(number) / 2 - 2)
    }
  }

  var number: Int32 {
    switch self {
    case .close: -1
    case .open: 0
    case .firstSpace: 1
    case .comma: 2
    case .space: 3
    case .key(let index): Int32(truncatingIfNeeded: 4 + index * 2)
    case .value(let index): Int32(truncatingIfNeeded: 5 + index * 2)
    }
  }
}

/// What of an array runs above its frame.
enum ArrayPhase {
  case open, firstSpace, comma, space
  case item(Int)

  init(_ number: Int32) {
    switch number {
    case 0: self = .open
    case 1: self = .firstSpace
    case 2: self = .comma
    case 3: self = .space
    default: self = .item(Int(number) - 4)
    }
  }

  var number: Int32 {
    switch self {
    case .open: 0
    case .firstSpace: 1
    case .comma: 2
    case .space: 3
    case .item(let index): Int32(truncatingIfNeeded: 4 + index)
    }
  }
}
