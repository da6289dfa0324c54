// What an object still needs, so that what one more member changes is found without looking at all others.

/// A state of an object with the members that must still come.
struct ObjectNeeds {
  let state: ObjectState
  /// Properties that must still come.
  private(set) var count = 0
  /// Bit n: property n is one of them.
  private var words: [UInt64]
  /// Bytes of all members that must still come; more than `Cost.none` where there are not enough.
  private var total = 0
  /// Members that `minProperties` asks for beyond those: what the dearest of them takes, 0 without any.
  private var dearest = 0
  /// What the cheapest undeclared member takes.
  private var extraCost = Int(Cost.none)

  init(_ state: ObjectState, _ plan: ObjectPlan, _ cost: [Int32]) {
    self.state = state
    words = [UInt64](repeating: 0, count: state.seen.count)
    for (index, property) in plan.properties.enumerated() {
      if property.isRequired { insert(index) }
      if property.isRequired || state.contains(index) { for other in property.implied { insert(other) } }
    }
    for (place, seen) in state.seen.enumerated() { words[place] &= ~seen }
    count = words.reduce(0) { $0 + $1.nonzeroBitCount }
    if count > 0 {
      for index in plan.properties.indices where contains(index) {
        total += Self.member(plan.properties[index], cost)
      }
    }
    for extra in plan.extras {
      extraCost = min(extraCost, 1 + Int(Cost.sum(cost[Int(extra.key)], cost[Int(extra.value)])))
    }
    let missing = plan.min - state.distinct(plan) - count
    guard missing > 0 else { return }
    var others = plan.properties.indices.filter { !state.contains($0) && !contains($0) }
      .map { Self.member(plan.properties[$0], cost) }
    if plan.countsExtras {
      others = others.filter { $0 < extraCost }.sorted()
      let further = max(0, missing - others.count)
      total += others.prefix(missing).reduce(0, +) + Int(Cost.product(Int32(clamping: extraCost), further))
      dearest = further > 0 ? extraCost : others[missing - 1]
      return
    }
    if !state.hasExtra, !plan.extras.isEmpty { others.append(extraCost) }
    others.sort()
    if missing > others.count {
      total = .max / 2
    } else {
      total += others.prefix(missing).reduce(0, +)
      dearest = others[missing - 1]
    }
  }

  private mutating func insert(_ property: Int) { words[property / 64] |= 1 << UInt64(property % 64) }

  private func contains(_ property: Int) -> Bool { words[property / 64] & (1 << UInt64(property % 64)) != 0 }

  /// A comma, the key and the value.
  private static func member(_ property: ObjectPlan.Property, _ cost: [Int32]) -> Int {
    1 + Int(Cost.sum(cost[Int(property.key)], cost[Int(property.value)]))
  }

  /// Bytes of the members that must still come, a comma before each; the closing brace is not counted.
  var cost: Int32 { Int32(min(Int(Cost.none), total)) }

  /// Properties that must still come, in their order.
  func properties(_ plan: ObjectPlan) -> [Int] { plan.properties.indices.filter { contains($0) } }

  /// How many members must still come.
  func shortage(_ plan: ObjectPlan) -> Int { max(count, plan.min - state.distinct(plan)) }

  func mayClose(_ plan: ObjectPlan) -> Bool { shortage(plan) <= 0 }

  /// How many members must come after this property, and their bytes.
  func rest(after index: Int, _ plan: ObjectPlan, _ cost: [Int32]) -> (count: Int, cost: Int32) {
    let property = plan.properties[index]
    let new = property.implied.filter { !contains($0) && !state.contains($0) }
    if !new.isEmpty, plan.min - state.distinct(plan) > count {
      // These members are among those that `minProperties` wants anyhow.
      let next = ObjectNeeds(state.adding(index, plan), plan, cost)
      return (next.shortage(plan), next.cost)
    }
    let own = Self.member(property, cost)
    let isNeeded = contains(index)
    let rest = new.reduce(total - (isNeeded ? own : min(own, dearest))) {
      $0 + Self.member(plan.properties[$1], cost)
    }
    return (
      max(count + new.count - (isNeeded ? 1 : 0), plan.min - state.distinct(plan) - 1),
      Int32(min(Int(Cost.none), rest))
    )
  }

  /// The same after an undeclared member. Where they are not counted, two of them may have the same key: only the first is
  /// surely another member.
  func restAfterExtra(_ plan: ObjectPlan) -> (count: Int, cost: Int32) {
    if state.hasExtra, !plan.countsExtras { return (shortage(plan), cost) }
    let rest = Int32(min(Int(Cost.none), total - min(extraCost, dearest)))
    return (max(count, plan.min - state.distinct(plan) - 1), rest)
  }
}
