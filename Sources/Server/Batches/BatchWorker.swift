// The threads that answer the requests of batches: each sends one after another to its route, as a client would.

import HTTP
import JSON
import OpenAI
import Platform

final class BatchWorker: Sendable {
  /// Answers a request as a connection would.
  typealias Answer = @Sendable (Request, ConnectionContext) -> Response

  let store: BatchStore
  private let models: ModelFleet
  private struct State {
    var answer: Answer?
    var threads: [Thread] = []
  }
  private let state = Monitor(State())

  /// Requests that are under way at a time: the engine computes them together.
  private static let width = 8
  private static let stackBytes = 1 << 20
  /// How long a request waits for the memory that it needs, seconds.
  private static let patience = 5.0

  init(_ store: BatchStore, models: ModelFleet) {
    self.store = store
    self.models = models
  }

  /// Goes on with what the last process left.
  ///
  /// - Parameter answer: how requests are answered from now on.
  func resume(_ answer: @escaping Answer) {
    state.withLock { $0.answer = answer }
    if store.hasWork { start() }
  }

  /// Starts the threads with the first work.
  func start() {
    state.withLock { state in
      guard state.threads.isEmpty, let answer = state.answer else { return }
      for _ in 0..<Self.width {
        guard let thread = try? Thread(name: "batch", stackBytes: Self.stackBytes, { self.run(answer) })
        else {
          continue
        }
        state.threads.append(thread)
      }
    }
  }

  func stop() {
    store.stop()
    let threads = state.withLock { state in
      defer { (state.threads, state.answer) = ([], nil) }
      return state.threads
    }
    for thread in threads { thread.join() }
  }

  private func run(_ answer: Answer) {
    while let step = store.next() {
      switch step {
      case .answer(let work): self.answer(work, answer)
      case .finish(let batch):
        do throws(APIError) { try store.finish(batch) } catch {
          Log.error("the results of a batch are not stored", ["batch": batch.id, "error": error.message])
          pause(seconds: 1)
          store.postpone(batch)
        }
      }
    }
  }

  /// A short sleep that the end of the server cuts shorter.
  private func pause(seconds: Double) {
    let end = Instant.now.adding(seconds: seconds)
    while Instant.now.seconds(since: end) < 0, !store.isStopped { usleep(50_000) }
  }

  /// Sends a request until it is answered, or of no use.
  private func answer(_ work: BatchWork, _ answer: Answer) {
    var delay = 0.1
    while !store.isUnwanted(work.batch.id) {
      if attempt(work, answer) { return }
      pause(seconds: delay)
      delay = min(10, 2 * delay)
    }
    store.giveUp(work)
  }

  /// False when it is to be tried again: the server is busy, or its disk is full.
  private func attempt(_ work: BatchWork, _ answer: Answer) -> Bool {
    let memory = MemoryLoan(models.ledger, for: .answers, patience: Self.patience)
    guard let line = (try? JSONValue(parsing: work.line)).flatMap(BatchLine.init(kept:)),
      let request = try? Request(
        "POST", work.batch.endpoint, headers: ["content-type": "application/json"],
        body: JSONValue.object(line.body).bytes)
    else {
      store.passOver(work)
      return true
    }
    let context = ConnectionContext(
      requestID: ConnectionContext.freshRequestID(),
      isClientGone: { self.store.isUnwanted(work.batch.id) },
      phase: { self.store.isStopped ? .expired : .running })
    context.client = work.batch.client
    context.memory = memory
    context.isOneAnswer = false
    context.givesWay = true
    let response = answer(request, context)
    // What was not read to its end was not answered.
    guard !store.isUnwanted(work.batch.id) || response.status < 400,
      ![429, 499, 503].contains(response.status),
      let body = try? response.collectedBody()
    else { return false }
    let outcome = BatchOutcome.answered(status: response.status, body: body, requestID: context.requestID)
    let usage = outcome.isSuccess ? Self.usage(of: body) : nil
    do throws(APIError) {
      try store.put(outcome, usage: usage, of: work, customID: line.customID)
      return true
    } catch {
      Log.error("an answer of a batch is not stored", ["batch": work.batch.id, "error": error.message])
      return false
    }
  }

  /// The `usage` of an answer, whose other members may be large.
  private static func usage(of body: [UInt8]) -> JSONValue? {
    guard var reader = try? JSONReader(body), (try? reader.enterObject()) != nil else { return nil }
    var key: [UInt8] = []
    while (try? reader.nextKey(into: &key)) == true {
      if key.elementsEqual("usage".utf8) { return try? reader.readValue() }
      guard (try? reader.skipValue()) != nil else { return nil }
    }
    return nil
  }
}
