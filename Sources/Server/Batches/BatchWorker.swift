// The threads that answer the requests of batches: each sends one after another to its route, as a client would.

import HTTP
import JSON
import Platform
import Wire

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
  /// How often a request may find no room: some minutes.
  private static let mostShortages = 20

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
        let memory = makeLoan()
        do throws(APIError) { try store.finish(batch, memory) } catch {
          Log.error("the results of a batch are not stored", ["batch": batch.id, "error": error.message])
          store.pause(seconds: 1)
          store.postpone(batch)
        }
      }
    }
  }

  /// What came of sending a request once.
  private enum Attempt {
    case done
    /// The server is busy, or its disk is full.
    case again
    /// There was no room under `--memory`.
    case short(bytes: Int)
  }

  /// Sends a request until it is answered, or of no use. One that finds no room again and again fails, as it would
  /// without a batch.
  private func answer(_ work: BatchWork, _ answer: Answer) {
    var delay = 0.1
    var shortages = 0
    while !store.isUnwanted(work.batch.id) {
      switch attempt(work, answer) {
      case .done: return
      case .again: break
      case .short(let bytes):
        shortages += 1
        if shortages >= Self.mostShortages,
          fail(work, .outOfMemory(needed: bytes, limit: models.ledger.limit))
        {
          return
        }
      }
      store.pause(seconds: delay)
      delay = min(10, 2 * delay)
    }
    store.giveUp(work)
  }

  private func attempt(_ work: BatchWork, _ answer: Answer) -> Attempt {
    let weight = work.weight
    guard let memory = claim(weight) else { return .short(bytes: weight) }
    let bytes = work.line
    let attempt = "\(work.batch.id).\(work.index)"
    guard store.archive.attempts.begin(attempt, isUnwanted: { self.store.isUnwanted(work.batch.id) }) else {
      let error = APIError.internalError(Attempts.reason("answered this request"))
      guard fail(work, error) else { return .again }
      store.archive.attempts.end(attempt)
      return .done
    }
    defer { store.archive.attempts.end(attempt) }
    guard let line = BatchLine(sealed: bytes, of: work.batch.id),
      let request = try? Request(
        "POST", work.batch.endpoint, headers: ["content-type": "application/json"],
        body: JSONValue.object(line.body).bytes)
    else {
      store.passOver(work)
      return .done
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
    guard let room = Room(response, memory) else { return .again }
    let body: [UInt8]
    switch room {
    case .none(let bytes): return .short(bytes: bytes)
    case .body(let whole): body = whole
    }
    // What was not read to its end was not answered.
    guard !store.isUnwanted(work.batch.id) || response.status < 400 else { return .again }
    if response.errorCode == APIError.outOfMemoryCode { return .short(bytes: weight) }
    guard ![429, 499, 503].contains(response.status) else { return .again }
    let outcome = BatchOutcome.answered(status: response.status, body: body, requestID: context.requestID)
    let usage = outcome.isSuccess ? BatchLine.member("usage", of: body) : nil
    return put(outcome, usage: usage, of: work, line.customID) ? .done : .again
  }

  /// The body of an answer, as far as there is room for it.
  private enum Room {
    case body([UInt8])
    case none(bytes: Int)

    /// As it grows, and in the line that is written of it.
    private static let copies = 5

    /// Nil where the answer ended before its time.
    init?(_ response: Response, _ memory: MemoryLoan) {
      var (count, isShort) = (0, false)
      let body = try? response.collectedBody { more in
        count += Self.copies * more
        isShort = isShort || !memory.extend(by: Self.copies * more)
        return !isShort
      }
      if isShort {
        self = .none(bytes: count)
      } else if let body {
        self = .body(body)
      } else {
        return nil
      }
    }
  }

  /// Memory for a request; nil where it is not left, or where a large one would leave those without that wait for theirs.
  private func claim(_ bytes: Int) -> MemoryLoan? {
    let loan = makeLoan()
    let limit = models.ledger.limit
    guard bytes > limit / 64 else { return loan.extend(by: bytes) ? loan : nil }
    let room = makeLoan()
    return withExtendedLifetime(room) {
      room.extend(by: limit / 4) && loan.extend(by: bytes) ? loan : nil
    }
  }

  private func makeLoan() -> MemoryLoan {
    MemoryLoan(models.ledger, for: .answers, patience: BodyBudget.patience)
  }

  /// Counts a request as failed; false where not even that can be kept now.
  private func fail(_ work: BatchWork, _ error: APIError) -> Bool {
    guard let memory = MemoryLoan(holding: 2 * work.count, of: models.ledger, for: .answers) else {
      return false
    }
    return withExtendedLifetime(memory) {
      guard let customID = BatchLine.member("custom_id", of: work.line)?.stringValue else {
        store.passOver(work)
        return true
      }
      let id = ConnectionContext.freshRequestID()
      let body = work.batch.api == .messages ? MessagesError(error, requestID: id).json : error.json
      let outcome = BatchOutcome.answered(status: error.status, body: body.bytes, requestID: id)
      return put(outcome, usage: nil, of: work, customID)
    }
  }

  /// False where it could not be kept.
  private func put(_ outcome: BatchOutcome, usage: JSONValue?, of work: BatchWork, _ customID: String) -> Bool
  {
    do throws(APIError) {
      try store.put(outcome, usage: usage, of: work, customID: customID)
      return true
    } catch {
      // An error is counted, whatever room there is.
      if error.code == Quotas.code, outcome.isSuccess { return fail(work, error) }
      Log.error("an answer of a batch is not stored", ["batch": work.batch.id, "error": error.message])
      return false
    }
  }
}

extension BatchLine {
  /// One member of an object, whose others may be large: they are passed over.
  static func member(_ name: String, of bytes: [UInt8]) -> JSONValue? {
    guard var reader = try? JSONReader(bytes), (try? reader.enterObject()) != nil else { return nil }
    var key: [UInt8] = []
    while (try? reader.nextKey(into: &key)) == true {
      if key.elementsEqual(name.utf8) { return try? reader.readValue() }
      guard (try? reader.skipValue()) != nil else { return nil }
    }
    return nil
  }
}
