// The command queue between everyone and the engine's thread: waiting requests and the wish to end.

import Platform

/// Lives in a `Monitor`; pure state.
struct Inbox {
  /// Waiting requests, oldest first.
  private(set) var jobs: [Job] = []
  /// Sequences that the engine can start at once, as it said when it last looked. They do not wait.
  private var room: Int
  /// No new requests; those waiting are still served.
  var isDraining = false
  /// The engine ends now.
  var isStopped = false
  /// As the engine's thread told it last; `waiting` is counted when someone asks.
  var state = EngineState()

  init(room: Int) { self.room = room }

  struct Delivery {
    var jobs: [Job]
    var isStopped: Bool
  }

  mutating func add(_ job: Job, limit: Int) throws(InferenceError) {
    guard !isDraining, !isStopped else { throw .draining }
    let most = limit + room
    if jobs.count >= most { jobs.removeAll { $0.mailbox.isClosed } }
    guard jobs.count < most else { throw .queueFull(limit: limit) }
    jobs.append(job)
  }

  /// What the engine can start now.
  ///
  /// - Parameters:
  ///   - room: how many sequences fit.
  ///   - freeTokens: how many tokens of KV cache are free; a prompt that finds no room waits, and everything
  ///     behind it, so that long prompts are not overtaken for ever.
  ///   - mayWait: whether nil (nothing to do) may be returned; the caller then sleeps.
  mutating func take(room: Int, freeTokens: () -> Int, mayWait: Bool) -> Delivery? {
    jobs.removeAll { $0.mailbox.isClosed }
    var taken: [Job] = []
    var left = jobs.isEmpty ? 0 : freeTokens()
    while taken.count < room, let next = jobs.first {
      let needed = next.request.promptTokens.count + 1
      guard needed <= left || (mayWait && taken.isEmpty) else { break }
      left -= needed
      taken.append(jobs.removeFirst())
    }
    self.room = room - taken.count
    if taken.isEmpty && !isStopped && mayWait { return nil }
    return Delivery(jobs: taken, isStopped: isStopped)
  }

  /// Everything that waits, for an engine that ends.
  mutating func takeAll() -> [Job] {
    defer { jobs = [] }
    return jobs
  }
}
