// Responses that are made in the background: one thread each, and a bounded number of them.

import HTTP
import JSON
import Platform
import Wire

/// One of them, shared by its thread and those who watch it.
final class ResponseJob: Sendable {
  private struct State {
    var events: [ResponseEvent] = []
    /// How far the prompt is read, while it is: the last event that says so, and how many have.
    var reading: (event: ResponseEvent?, count: Int) = (nil, 0)
    var body: JSONObject
    var isCancelled = false
    var isDone = false
  }

  let id: String
  /// The key that it was asked for with; 0 without one.
  let key: UInt64
  private let state: Monitor<State>

  init(id: String, key: UInt64, body: JSONObject) {
    (self.id, self.key) = (id, key)
    state = Monitor(State(body: ResponseObject.begun(body, status: "queued")))
  }

  /// The response as it is now.
  var body: JSONObject { state.withLock { $0.body } }

  var isCancelled: Bool { state.withLock { $0.isCancelled } }

  /// Asks the job to end soon.
  func cancel() { state.update { $0.isCancelled = true } }

  /// Waits for the end; false when it has not come in time.
  func waitUntilDone(seconds: Double) -> Bool {
    let isDone: Bool? = state.wait(until: Instant.now.adding(seconds: seconds)) { $0.isDone ? true : nil }
    return isDone ?? false
  }

  /// Events from a sequence number on, waiting for the first of them, or the last one that says how far the prompt is
  /// read; none when there are no more, or none came in time.
  ///
  /// - Parameter readings: how many of those that say so there were when the watcher last asked.
  func events(from sequence: Int, after readings: inout Int, seconds: Double) -> (
    events: [ResponseEvent], isDone: Bool
  ) {
    let found: ([ResponseEvent], Bool)? = state.wait(until: Instant.now.adding(seconds: seconds)) { state in
      // Sequence numbers are positions.
      if sequence < state.events.count {
        return (Array(state.events[max(0, sequence)...]), state.isDone)
      }
      if let event = state.reading.event, state.reading.count > readings {
        readings = state.reading.count
        return ([event], false)
      }
      return state.isDone ? ([], true) : nil
    }
    return found ?? ([], false)
  }

  fileprivate func append(_ event: ResponseEvent) {
    state.update { state in
      if event.isReading {
        state.reading = (event, state.reading.count + 1)
        return
      }
      state.reading.event = nil
      state.events.append(event)
      if let body = event.json["response"]?.objectValue { state.body = body }
    }
  }

  fileprivate func finish() { state.update { $0.isDone = true } }
}

final class ResponseJobs: Sendable {
  private struct State {
    var jobs: [String: ResponseJob] = [:]
    var phase = ConnectionContext.Phase.running
  }

  private let state = Monitor(State())
  private let limit: Int
  private static let stackBytes = 512 << 10

  init(limit: Int = 32) { self.limit = limit }

  /// A response that is being made now.
  func job(_ id: String) -> ResponseJob? { state.withLock { $0.jobs[id] } }

  /// Cancels responses that were asked for with these keys.
  func cut(keys: Set<UInt64>) {
    for job in state.withLock({ Array($0.jobs.values) }) where keys.contains(job.key) { job.cancel() }
  }

  /// Begins a response on a thread of its own and stores it as queued.
  ///
  /// - Throws: what is to be answered instead; then nothing has begun.
  func start(
    _ plan: ResponsePlan, _ scope: RequestScope, requestID: String
  ) throws(APIError) -> ResponseJob {
    let job = ResponseJob(id: plan.id, key: scope.client.key, body: plan.body)
    // A key leaves half of the places to others.
    let most = job.key == 0 ? limit : limit / 2
    let isAdded = state.update { state in
      guard state.phase == .running, state.jobs.count < limit,
        state.jobs.values.count(where: { $0.key == job.key }) < most
      else { return false }
      state.jobs[job.id] = job
      return true
    }
    guard isAdded else {
      throw APIError(
        status: 429, type: "rate_limit_error", code: "rate_limit_exceeded",
        message: "The server is busy: \(most) responses are made in the background already.", retryAfter: 1)
    }
    let start = Monitor<Result<Void, APIError>?>(nil)
    do {
      let thread = try Thread(name: "response", stackBytes: Self.stackBytes) {
        self.work(job, plan, scope, requestID: requestID) { result in
          start.update { $0 = result }
        }
      }
      thread.detach()
    } catch {
      remove(job)
      throw .internalError("\(error)")
    }
    let result: Result<Void, APIError>? = start.wait { $0 }
    if case .failure(let error)? = result { throw error }
    return job
  }

  private func work(
    _ job: ResponseJob, _ plan: ResponsePlan, _ scope: RequestScope, requestID: String,
    report: (Result<Void, APIError>) -> Void
  ) {
    defer {
      job.finish()
      remove(job)
    }
    let run: ResponseRun
    do throws(APIError) {
      run = try ResponseRun(plan, scope, isUnwanted: { job.isCancelled })
    } catch {
      return report(.failure(error))
    }
    do throws(APIError) {
      let record = StoredResponse(
        body: job.body, context: plan.context, input: plan.input, reasoning: scope.reasoningEvents)
      try storing { () throws(PlatformError) in try scope.records.put(record) }
    } catch {
      return report(.failure(error))
    }
    report(.success(()))
    let context = ConnectionContext(
      requestID: requestID, phase: { self.state.withLock { $0.phase } })
    context.client = scope.client
    context.isOneAnswer = false
    _ = run.stream(context, to: ResponseStream(isGone: { job.isCancelled }, send: job.append))
  }

  private func remove(_ job: ResponseJob) { state.update { $0.jobs[job.id] = nil } }

  /// Takes no more, gives those under way some time to finish, then fails them.
  func stop(seconds: Double) {
    func waitUntilEmpty(_ seconds: Double) -> Bool {
      let isEmpty: Bool? = state.wait(until: Instant.now.adding(seconds: seconds)) {
        $0.jobs.isEmpty ? true : nil
      }
      return isEmpty ?? false
    }
    state.update { $0.phase = .draining }
    if waitUntilEmpty(seconds) { return }
    state.update { $0.phase = .expired }
    _ = waitUntilEmpty(5)
  }
}
