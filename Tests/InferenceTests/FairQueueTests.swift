// Whose turn it is: first come, first served for one tenant; equal service for several.

import Support
import Testing

@testable import Inference

@Suite struct FairQueueTests {
  private var queue = FairQueue<String>()

  private mutating func take(_ count: Int, cost: Int = 10) -> [String] {
    (0..<count).compactMap { _ in queue.takeNext { _ in cost } }
  }

  @Test mutating func `one tenant's requests are served in the order of arrival`() {
    for index in 0..<50 { queue.append("\(index)", tenant: 0) }
    #expect(queue.next == "0")
    #expect(take(60) == (0..<50).map { "\($0)" })
    #expect(queue.isEmpty)
    #expect(queue.next == nil)
  }

  @Test mutating func `one that overtakes goes before its tenant's others, at most eight in a row`() {
    for index in 0..<2 { queue.append("chat\(index)", tenant: 1) }
    for index in 0..<10 { queue.append("line\(index)", tenant: 1, overtakes: true) }
    queue.append("b0", tenant: 2)
    #expect(queue.next == "line0")
    #expect(take(3) == ["line0", "b0", "line1"])
    #expect(take(8) == ["line2", "line3", "line4", "line5", "line6", "line7", "chat0", "line8"])
    #expect(take(3) == ["line9", "chat1"])
    #expect(queue.isEmpty)
  }

  /// Takes elements after the one that is worth the most has been brought forward each time.
  private mutating func takeBest(_ count: Int, worth: (String) -> Int) -> [String] {
    (0..<count).compactMap { _ in
      queue.bringForward(worth)
      return queue.takeNext { _ in 10 }
    }
  }

  @Test mutating func `what is worth more overtakes, at most eight in a row`() {
    for index in 0..<12 { queue.append(index % 3 == 1 ? "warm\(index)" : "cold\(index)", tenant: 1) }
    #expect(
      takeBest(5) { $0.hasPrefix("warm") ? 64 : 0 } == ["warm1", "warm4", "warm7", "warm10", "cold0"])
    // What is worth little more waits for its turn.
    #expect(takeBest(2) { $0 == "cold6" ? 63 : 0 } == ["cold2", "cold3"])
    for index in 20..<40 { queue.append("warm\(index)", tenant: 1) }
    #expect(takeBest(10) { $0.hasPrefix("warm") ? 64 : 0 }.firstIndex(of: "cold5") == 8)
  }

  @Test mutating func `of those that are worth the same the first goes first, and each tenant has its turn`()
  {
    for name in ["a0", "a1", "a2"] { queue.append(name, tenant: 1) }
    for name in ["b0", "b1"] { queue.append(name, tenant: 2) }
    #expect(takeBest(5) { $0 == "a2" || $0 == "b1" ? 200 : 100 } == ["a2", "b1", "a0", "b0", "a1"])
  }

  @Test mutating func `those that overtake leave, are pushed out last, and are counted as the others are`() {
    queue.append("line0", tenant: 1, overtakes: true)
    queue.append("chat0", tenant: 1)
    queue.append("line1", tenant: 1, overtakes: true)
    #expect(queue.count == 3)
    #expect(queue.count { $0.hasPrefix("line") } == 2)
    #expect(queue.pushOut(for: 2) == "chat0")
    #expect(queue.pushOut(for: 2) == "line1")
    #expect(queue.pushOut(for: 2) == nil)
    queue.append("line2", tenant: 1, overtakes: true)
    queue.removeAll { $0 == "line0" }
    #expect(queue.takeAll() == ["line2"])
    #expect(queue.isEmpty)
  }

  @Test mutating func `two tenants take turns, however many requests one has sent before`() {
    for index in 0..<4 { queue.append("a\(index)", tenant: 1) }
    for index in 0..<2 { queue.append("b\(index)", tenant: 2) }
    #expect(take(6) == ["a0", "b0", "a1", "b1", "a2", "a3"])
  }

  @Test mutating func `turns are counted in tokens, generated ones included`() {
    for index in 0..<3 {
      queue.append("a\(index)", tenant: 1)
      queue.append("b\(index)", tenant: 2)
    }
    #expect(take(2) == ["a0", "b0"])
    queue.charge(25, to: 1)
    #expect(take(4) == ["b1", "b2", "a1", "a2"])
  }

  @Test mutating func `who was away has saved nothing up`() {
    queue.append("a0", tenant: 1)
    _ = take(1, cost: 1000)
    queue.append("b0", tenant: 2)
    queue.append("b1", tenant: 2)
    queue.append("a1", tenant: 1)
    // Tenant 2 starts where 1 stands.
    #expect(take(3) == ["a1", "b0", "b1"])
  }

  @Test mutating func `after a time without work all start alike`() {
    queue.append("a0", tenant: 1)
    queue.append("b0", tenant: 2)
    _ = take(2)
    queue.charge(5000, to: 2)
    queue.end(1)
    queue.end(2)
    queue.append("b1", tenant: 2)
    queue.append("a1", tenant: 1)
    queue.append("b2", tenant: 2)
    #expect(take(3) == ["a1", "b1", "b2"])
  }

  @Test mutating func `in a full queue the longest line makes room for a shorter one`() {
    for index in 0..<4 { queue.append("a\(index)", tenant: 1) }
    #expect(queue.pushOut(for: 1) == nil)
    #expect(queue.pushOut(for: 2) == "a3")
    queue.append("b0", tenant: 2)
    #expect(queue.pushOut(for: 2) == "a2")
    queue.append("b1", tenant: 2)
    #expect(queue.pushOut(for: 2) == nil)
    #expect(queue.count == 4)
  }

  @Test mutating func `those who have gone leave the queue`() {
    for index in 0..<4 { queue.append("a\(index)", tenant: UInt64(index % 2)) }
    #expect(queue.count { $0 == "a1" } == 1)
    queue.removeAll { $0 == "a1" || $0 == "a2" }
    #expect(queue.count == 2)
    #expect(queue.takeAll() == ["a0", "a3"])
    #expect(queue.isEmpty)
  }

  @Test func `random tenants get service in proportion, and no one waits behind another's backlog`() {
    var random = SeededGenerator(seed: 3)
    for _ in 0..<50 {
      var queue = FairQueue<Int>()
      let tenants = UInt64.random(in: 2...6, using: &random)
      var served: [UInt64: Int] = [:]
      // Everyone always has something waiting; sizes differ wildly.
      func refill(_ queue: inout FairQueue<Int>, _ tenant: UInt64) {
        queue.append(Int(tenant) * 1000 + Int.random(in: 1...500, using: &random), tenant: tenant)
      }
      for tenant in 1...tenants {
        for _ in 0..<Int.random(in: 2...20, using: &random) { refill(&queue, tenant) }
      }
      for _ in 0..<400 {
        guard let taken = queue.takeNext(cost: { $0 % 1000 }) else { break }
        let tenant = UInt64(taken / 1000)
        let generated = Int.random(in: 0...300, using: &random)
        queue.charge(generated, to: tenant)
        queue.end(tenant)
        served[tenant, default: 0] += taken % 1000 + generated
        refill(&queue, tenant)
      }
      let least = served.values.min() ?? 0
      let most = served.values.max() ?? .max
      // At most one request of the largest size apart.
      #expect(served.count == Int(tenants))
      #expect(most - least <= 800)
    }
  }
}
