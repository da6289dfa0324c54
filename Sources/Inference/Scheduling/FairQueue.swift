// A queue with several lines: between lines the one goes that was served least, and within a line the one that came first,
// but for those that a user waits for between two keys, and those whose beginning is computed already: they overtake the
// others some times in a row.
//
// Each tenant has a count of the tokens that were computed for it. The tenant with the least count goes next. One
// that was away starts where the least of the others stands: nobody saves up a right to keep others waiting.
// (Virtual token counters: arXiv:2401.00588; start-time fair queueing: Goyal, Vin, Cheng 1996.)

/// Pure. With a single tenant it is a plain queue.
struct FairQueue<Element> {
  private struct Line {
    var waiting: [Element] = []
    /// Those that overtake `waiting`.
    var ahead: [Element] = []
    /// How many have overtaken the first of `waiting`.
    var overtaken = 0
    /// Tokens computed for the tenant, on the scale that all share.
    var served = 0
    /// Its elements that were taken and have not ended.
    var running = 0

    var count: Int { waiting.count + ahead.count }
    var isEmpty: Bool { waiting.isEmpty && ahead.isEmpty }
    var isActive: Bool { running > 0 || !isEmpty }
    /// Whether the next is one of `ahead`.
    var overtakes: Bool { !ahead.isEmpty && (waiting.isEmpty || overtaken < FairQueue.overtakings) }
    var next: Element? { overtakes ? ahead.first : waiting.first }

    /// Takes `next`, where there is one.
    mutating func takeNext() -> Element {
      guard overtakes else {
        overtaken = 0
        return waiting.removeFirst()
      }
      overtaken = waiting.isEmpty ? 0 : overtaken + 1
      return ahead.removeFirst()
    }
  }

  private var lines: [UInt64: Line] = [:]
  private(set) var count = 0
  /// Where the line stood that was served last: a newcomer to an empty house starts there.
  private var level = 0

  /// Tenants that are remembered while they are away.
  private static var remembered: Int { 1024 }
  /// How many overtake one that waits: then it goes.
  private static var overtakings: Int { 8 }

  init() {}

  var isEmpty: Bool { count == 0 }

  /// - Parameter overtakes: whether it goes before those of its tenant that do not.
  mutating func append(_ element: Element, tenant: UInt64, overtakes: Bool = false) {
    if lines.count >= Self.remembered { lines = lines.filter { $0.value.isActive } }
    var line = lines[tenant] ?? Line()
    if !line.isActive {
      line.served = max(line.served, lines.values.lazy.filter(\.isActive).map(\.served).min() ?? level)
    }
    if overtakes { line.ahead.append(element) } else { line.waiting.append(element) }
    lines[tenant] = line
    count += 1
  }

  /// The tenant whose turn it is.
  private var nextTenant: UInt64? {
    lines.lazy.filter { !$0.value.isEmpty }
      .min { ($0.value.served, $0.key) < ($1.value.served, $1.key) }?.key
  }

  /// The element whose turn it is.
  var next: Element? { nextTenant.flatMap { lines[$0]?.next } }

  /// Elements that are looked at, and by how much one must be worth more than the first to overtake it.
  private static var lookedAt: Int { 16 }
  private static var leastGain: Int { 64 }

  /// Lets the one of the first few of the next line that is worth the most overtake those before it, unless the first has
  /// been overtaken often enough.
  mutating func bringForward(_ worth: (Element) -> Int) {
    guard let tenant = nextTenant, var line = lines[tenant], line.ahead.isEmpty, line.waiting.count > 1,
      line.overtaken < Self.overtakings
    else { return }
    let worths = line.waiting.prefix(Self.lookedAt).map(worth)
    guard let most = worths.max(), most >= worths[0] + Self.leastGain, let index = worths.firstIndex(of: most)
    else { return }
    line.ahead.append(line.waiting.remove(at: index))
    lines[tenant] = line
  }

  /// Takes `next`; it counts as running until `end`.
  ///
  /// - Parameter cost: tokens that its start costs.
  mutating func takeNext(cost: (Element) -> Int) -> Element? {
    guard let tenant = nextTenant, var line = lines[tenant] else { return nil }
    let element = line.takeNext()
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

  /// Makes room for one more of `tenant` in a full queue: the last of the longest line goes, if that line stays at least
  /// as long as this one becomes. Nil when the tenant itself has its share, or more.
  mutating func pushOut(for tenant: UInt64) -> Element? {
    let own = lines[tenant]?.count ?? 0
    guard
      let longest = lines.max(by: { ($0.value.count, $0.key) < ($1.value.count, $1.key) })?
        .key,
      longest != tenant, var line = lines[longest], line.count >= own + 2,
      let last = line.waiting.popLast() ?? line.ahead.popLast()
    else { return nil }
    lines[longest] = line
    count -= 1
    return last
  }

  mutating func removeAll(where isGone: (Element) -> Bool) {
    guard count > 0 else { return }
    for tenant in lines.keys {
      guard var line = lines[tenant], !line.isEmpty else { continue }
      line.waiting.removeAll(where: isGone)
      line.ahead.removeAll(where: isGone)
      lines[tenant] = line
    }
    count = lines.values.reduce(0) { $0 + $1.count }
  }

  /// How many waiting elements are as wanted.
  func count(where isWanted: (Element) -> Bool) -> Int {
    lines.values.reduce(0) { $0 + $1.waiting.count(where: isWanted) + $1.ahead.count(where: isWanted) }
  }

  /// Empties the queue.
  mutating func takeAll() -> [Element] {
    let all = lines.sorted { $0.key < $1.key }.flatMap { $0.value.ahead + $0.value.waiting }
    lines = [:]
    count = 0
    return all
  }
}
