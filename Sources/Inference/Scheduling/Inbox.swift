// The command queue between everyone and the engine's thread: waiting requests and the wish to end.

import Platform

/// A request in the queue.
struct Job: Sendable {
  let request: GenerationRequest
  let mailbox: Mailbox<GenerationEvent>
  let seed: UInt64
  let arrived: Instant
}

/// Lives in a `Monitor`; pure state.
struct Inbox {
  /// Waiting requests.
  private var queue = FairQueue<Job>()
  /// Waiting requests that give way to all others, in the order of their arrival.
  private var later: [Job] = []
  /// Sequences that the engine can start at once, as it said when it last looked. They do not wait.
  private var room: Int
  private var pace = CompletionPace()
  /// As the engine last said.
  private var engine = EngineStatistics()
  private var refused = 0
  /// No new requests; those waiting are still served.
  var isDraining = false
  /// The engine ends now.
  var isStopped = false
  /// Bytes that others ask the engine to give back.
  private(set) var reclaim = 0
  /// How often that has been answered, and what was given in all.
  private(set) var answers = 0
  private(set) var given = 0

  init(room: Int) { self.room = room }

  struct Delivery {
    var jobs: [Job]
    var isStopped: Bool
    var reclaimed = 0
  }

  mutating func askToReclaim(_ bytes: Int) { reclaim = max(reclaim, bytes) }

  mutating func answerReclaim(_ bytes: Int) {
    answers += 1
    given += bytes
  }

  /// What the engine has done since it last told.
  struct Report {
    /// Tokens computed for each tenant, prompts not included: they count when they are taken.
    var served: [UInt64: Int] = [:]
    /// The tenants of requests that ended.
    var ended: [UInt64] = []
  }

  /// Queues a request. When the queue is full, a tenant that has less than its share of it takes the place of the
  /// newest request of the tenant that has the most.
  ///
  /// - Returns: the request that lost its place, to be told so.
  mutating func add(_ job: Job, limit: Int) throws(InferenceError) -> Job? {
    guard !isDraining, !isStopped else { throw .draining }
    guard !job.request.givesWay else {
      guard later.count < limit else { throw refusal(limit: limit, at: job.arrived) }
      later.append(job)
      return nil
    }
    let most = limit + room
    if queue.count >= most { queue.removeAll { $0.mailbox.isClosed } }
    var loser: Job?
    if queue.count >= most {
      refused += 1
      loser = queue.pushOut(for: job.request.tenant)
      if loser == nil { throw refusal(limit: limit, at: job.arrived) }
    }
    queue.append(job, tenant: job.request.tenant, overtakes: job.request.comesFirst)
    return loser
  }

  /// The words for a request that finds no place.
  mutating func refusal(limit: Int, at now: Instant) -> InferenceError {
    .queueFull(
      limit: limit, running: engine.running + min(room, queue.count), waiting: max(0, queue.count - room),
      retryAfter: pace.retryAfter(at: now))
  }

  /// Engine thread: what happened, and how it stands.
  mutating func note(_ report: Report, _ statistics: EngineStatistics, at now: Instant) {
    for (tenant, tokens) in report.served { queue.charge(tokens, to: tenant) }
    for tenant in report.ended { queue.end(tenant) }
    pace.note(ended: report.ended.count, isIdle: statistics.running == 0, at: now)
    engine = statistics
  }

  /// How it stands now. Requests that give way do not count as waiting.
  var statistics: EngineStatistics {
    var statistics = engine
    statistics.waiting = queue.count { !$0.mailbox.isClosed }
    statistics.refused = refused
    return statistics
  }

  /// What the engine can start now.
  ///
  /// - Parameters:
  ///   - room: how many sequences fit.
  ///   - laterRoom: how many that give way may start if nothing else is taken.
  ///   - freeTokens: how many tokens of KV cache are free; a prompt that finds no room waits, and everything
  ///     after it, so that long prompts are not overtaken for ever.
  ///   - weight: how many of them a sequence of some length takes.
  ///   - cached: how many leading tokens of a prompt are computed: where not all waiting find room, those come first whose
  ///     prefix may be gone when their turn comes.
  ///   - mayWait: whether nil (nothing to do) may be returned; the caller then sleeps.
  mutating func take(
    room: Int, laterRoom: Int = 0, freeTokens: () -> Int, weight: (Int) -> Int = { $0 },
    cached: (GenerationRequest) -> Int = { _ in 0 }, mayWait: Bool
  ) -> Delivery? {
    queue.removeAll { $0.mailbox.isClosed }
    later.removeAll { $0.mailbox.isClosed }
    var taken: [Job] = []
    let isQuiet = queue.isEmpty
    var left = (isQuiet ? later.isEmpty || laterRoom == 0 : room == 0) ? 0 : freeTokens()
    func takes(_ job: Job) -> Bool {
      let needed = weight(job.request.promptTokens.count + 1)
      guard needed <= left || (mayWait && taken.isEmpty) else { return false }
      left -= needed
      return true
    }
    while isQuiet, taken.count < laterRoom, let next = later.first, takes(next) {
      taken.append(later.removeFirst())
    }
    while !isQuiet, taken.count < room {
      if queue.count > room - taken.count { queue.bringForward { cached($0.request) } }
      guard let next = queue.next, takes(next) else { break }
      guard let job = queue.takeNext(cost: { $0.request.promptTokens.count }) else { break }
      taken.append(job)
    }
    self.room = isQuiet ? room : room - taken.count
    engine.running += taken.count
    engine.admitted += taken.count
    if !taken.isEmpty { pace.noteAdmission() }
    if taken.isEmpty && !isStopped && mayWait && reclaim == 0 { return nil }
    defer { reclaim = 0 }
    return Delivery(jobs: taken, isStopped: isStopped, reclaimed: reclaim)
  }

  /// Everything that waits, for an engine that ends.
  mutating func takeAll() -> [Job] {
    defer { later = [] }
    return queue.takeAll() + later
  }
}

/// How often a running request ends, which is how often a place in the queue becomes free.
struct CompletionPace {
  /// Seconds between two ends, smoothed.
  private(set) var interval: Double?
  /// The last end, or the begin of work.
  private var last: Instant?
  /// Requests turned away since a place last became free.
  private var turnedAway = 0

  private static let longest = 60

  mutating func note(ended: Int, isIdle: Bool, at now: Instant) {
    if ended > 0, let last {
      let each = now.seconds(since: last) / Double(ended)
      interval = interval.map { $0 + 0.2 * (each - $0) } ?? each
    }
    if ended > 0 || last == nil { last = now }
    if isIdle { last = nil }
  }

  mutating func noteAdmission() { turnedAway = 0 }

  /// Whole seconds after which a place is likely to be free: a later one for each that is turned away, so that they
  /// do not all come back at once.
  mutating func retryAfter(at now: Instant) -> Int {
    turnedAway += 1
    // When nothing has ended for longer than usual, things have become slower.
    let waited = last.map { now.seconds(since: $0) } ?? 0
    let seconds = max(interval ?? 0, waited) * Double(turnedAway)
    return min(Self.longest, max(1, Int((min(seconds, Double(Self.longest)) - 1e-6).rounded(.up))))
  }
}
