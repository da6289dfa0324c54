// A queue with several lines: first come, first served within a line, and between lines the one that was served least.
//
// Each tenant has a count of the tokens that were computed for it. The tenant with the least count goes next. One
// that was away starts where the least of the others stands: nobody saves up a right to keep others waiting.
// (Virtual token counters: arXiv:2401.00588; start-time fair queueing: Goyal, Vin, Cheng 1996.)

/// Pure. With a single tenant it is a plain queue.
struct FairQueue<Element> {
  private struct Line {
    var waiting: [Element] = []
    /// Tokens computed for the tenant, on the scale that all share.
    var served = 0
    /// Its elements that were taken and have not ended.
    var running = 0

    var isActive: Bool { running > 0 || !waiting.isEmpty }
  }

  private var lines: [UInt64: Line] = [:]
  private(set) var count = 0
  /// Where the line stood that was served last: a newcomer to an empty house starts there.
  private var level = 0

  /// Tenants that are remembered while they are away.
  private static var remembered: Int { 1024 }

  init() {}

  var isEmpty: Bool { count == 0 }

  mutating func append(_ element: Element, tenant: UInt64) {
    if lines.count >= Self.remembered { lines = lines.filter { $0.value.isActive } }
    var line = lines[tenant] ?? Line()
    if !line.isActive {
      line.served = max(line.served, lines.values.lazy.filter(\.isActive).map(\.served).min() ?? level)
    }
    line.waiting.append(element)
    lines[tenant] = line
    count += 1
  }

  /// The tenant whose turn it is.
  private var nextTenant: UInt64? {
    lines.lazy.filter { !$0.value.waiting.isEmpty }
      .min { ($0.value.served, $0.key) < ($1.value.served, $1.key) }?.key
  }

  /// The element whose turn it is.
  var next: Element? { nextTenant.flatMap { lines[$0]?.waiting.first } }

  /// Takes `next`; it counts as running until `end`.
  ///
  /// - Parameter cost: tokens that its start costs.
  mutating func takeNext(cost: (Element) -> Int) -> Element? {
    guard let tenant = nextTenant, var line = lines[tenant] else { return nil }
    let element = line.waiting.removeFirst()
    level = max(level, line.served)
    line.served += cost(element)
    line.running += 1
    lines[tenant] = line
    count -= 1
    return element
  }

  /// Counts tokens that were computed for a tenant since.
  mutating func charge(_ tokens: Int, to tenant: UInt64) { lines[tenant]?.served += tokens }

  /// One of the tenant's taken elements has ended.
  mutating func end(_ tenant: UInt64) {
    guard var line = lines[tenant] else { return }
    line.running = max(0, line.running - 1)
    level = max(level, line.served)
    lines[tenant] = line
  }

  /// Makes room for one more of `tenant` in a full queue: the newest of the longest line goes, if that line stays at
  /// least as long as this one becomes. Nil when the tenant itself has its share, or more.
  mutating func pushOut(for tenant: UInt64) -> Element? {
    let own = lines[tenant]?.waiting.count ?? 0
    guard
      let longest = lines.max(by: { ($0.value.waiting.count, $0.key) < ($1.value.waiting.count, $1.key) })?
        .key,
      longest != tenant, var line = lines[longest], line.waiting.count >= own + 2
    else { return nil }
    let newest = line.waiting.removeLast()
    lines[longest] = line
    count -= 1
    return newest
  }

  mutating func removeAll(where isGone: (Element) -> Bool) {
    guard count > 0 else { return }
    for tenant in lines.keys {
      guard var line = lines[tenant], !line.waiting.isEmpty else { continue }
      line.waiting.removeAll(where: isGone)
      lines[tenant] = line
    }
    count = lines.values.reduce(0) { $0 + $1.waiting.count }
  }

  /// How many waiting elements are as wanted.
  func count(where isWanted: (Element) -> Bool) -> Int {
    lines.values.reduce(0) { $0 + $1.waiting.count(where: isWanted) }
  }

  /// Empties the queue.
  mutating func takeAll() -> [Element] {
    let all = lines.sorted { $0.key < $1.key }.flatMap(\.value.waiting)
    lines = [:]
    count = 0
    return all
  }
}
