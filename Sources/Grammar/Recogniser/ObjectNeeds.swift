// What an object still needs, so that what one more member changes is found without looking at all others.

/// A state of an object with the members that must still come.
final class ObjectNeeds: Sendable {
  let state: ObjectState
  /// Properties that must still come.
  let count: Int
  /// Bit n: property n is one of them.
  private let words: [UInt64]
  /// Bytes of all members that must still come; more than `Cost.none` where there are not enough.
  private let total: Int
  /// Members that `minProperties` asks for beyond those: what the longest of them takes, 0 without any.
  private let longestMember: Int
  /// What the cheapest undeclared member takes.
  private let extraCost: Int

  init(_ state: ObjectState, _ plan: ObjectPlan, _ cost: [Int32]) {
    self.state = state
    let words = Self.needed(state, plan)
    self.words = words
    count = words.reduce(0) { $0 + $1.nonzeroBitCount }
    var total = 0
    if count > 0 {
      for (index, property) in plan.properties.enumerated() where Self.contains(words, index) {
        total += Self.member(property, cost)
      }
    }
    let extraCost = plan.extras.reduce(Int(Cost.none)) {
      min($0, 1 + Int(Cost.sum(cost[Int($1.key)], cost[Int($1.value)])))
    }
    self.extraCost = extraCost
    let missing = plan.min - state.distinct(plan) - count
    guard missing > 0 else {
      (self.total, longestMember) = (total, 0)
      return
    }
    var others = plan.properties.indices.filter { !state.contains($0) && !Self.contains(words, $0) }
      .map { Self.member(plan.properties[$0], cost) }
    if plan.countsExtras {
      others = others.filter { $0 < extraCost }.sorted()
      let further = max(0, missing - others.count)
      total += others.prefix(missing).reduce(0, +) + Int(Cost.product(Int32(clamping: extraCost), further))
      (self.total, longestMember) = (total, further > 0 ? extraCost : others[missing - 1])
      return
    }
    if !state.hasExtra, !plan.extras.isEmpty { others.append(extraCost) }
    others.sort()
    guard missing <= others.count else {
      (self.total, longestMember) = (.max / 2, 0)
      return
    }
    (self.total, longestMember) = (total + others.prefix(missing).reduce(0, +), others[missing - 1])
  }

  /// The properties that are required or asked for by others, and not there.
  private static func needed(_ state: ObjectState, _ plan: ObjectPlan) -> [UInt64] {
    var words = [UInt64](repeating: 0, count: state.seen.count)
    func insert(_ property: Int) { words[property / 64] |= 1 << UInt64(property % 64) }
    for (index, property) in plan.properties.enumerated() {
      if property.isRequired { insert(index) }
      if !property.implied.isEmpty, property.isRequired || state.contains(index) {
        for other in property.implied { insert(other) }
      }
    }
    for (place, seen) in state.seen.enumerated() { words[place] &= ~seen }
    return words
  }

  private static func contains(_ words: [UInt64], _ property: Int) -> Bool {
    words[property / 64] & (1 << UInt64(property % 64)) != 0
  }

  private func contains(_ property: Int) -> Bool { Self.contains(words, property) }

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
    let rest = new.reduce(total - (isNeeded ? own : min(own, longestMember))) {
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
    let rest = Int32(min(Int(Cost.none), total - min(extraCost, longestMember)))
    return (max(count, plan.min - state.distinct(plan) - 1), rest)
  }
}
