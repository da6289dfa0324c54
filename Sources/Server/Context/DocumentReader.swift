// Files that are read whole by a model while nobody waits, so that the first question about one begins at once.
//
// Each is asked for as a client would ask: a message with the file alone, whose prompt is kept. It gives way to all other
// work. Where prompts are kept on a disk, what was read outlives the server; which files wait for it does not.

import HTTP
import JSON
import Platform
import Wire

final class DocumentReader: Sendable {
  /// Answers a request as a connection would.
  typealias Answer = @Sendable (Request, ConnectionContext) -> Response

  private enum Status: Equatable {
    case waiting
    case reading
    case read(tokens: Int)
    case failed(String)

    var isOver: Bool { self != .waiting && self != .reading }
  }

  private struct Job {
    let file: String
    let model: String
    let client: ClientIdentity
    var status = Status.waiting

    var json: JSONValue {
      switch status {
      case .waiting: ["model": .string(model), "status": "queued"]
      case .reading: ["model": .string(model), "status": "in_progress"]
      case .read(let tokens): ["model": .string(model), "status": "completed", "tokens": .int(tokens)]
      case .failed(let message):
        ["model": .string(model), "status": "failed", "error": .string(message)]
      }
    }
  }

  private struct State {
    /// In the order in which they were asked for.
    var jobs: [Job] = []
    var answer: Answer?
    var thread: Thread?
    var isStopped = false
  }

  private let models: ModelFleet
  private let state = Monitor(State())

  /// Files that are known at a time.
  private static let most = 2_000
  private static let stackBytes = 1 << 20
  /// Seconds until what the server had no room for is tried again, and how often.
  private static let (pause, mostTries) = (1.0, 600)

  init(_ models: ModelFleet) { self.models = models }

  /// - Parameter answer: how requests are answered from now on.
  func resume(_ answer: @escaping Answer) { state.withLock { $0.answer = answer } }

  /// Has files read, each after those before it. One that waits already, or is being read, is not read twice.
  ///
  /// - Throws: 400 where too many wait.
  func read(_ files: [String], by model: String?, for client: ClientIdentity) throws(APIError) {
    guard let model else { return }
    let isFull = state.update { state -> Bool in
      for file in files {
        guard !state.jobs.contains(where: { $0.file == file && $0.model == model && !$0.status.isOver })
        else {
          continue
        }
        state.jobs.removeAll { $0.file == file && $0.model == model }
        if state.jobs.count >= Self.most, let old = state.jobs.firstIndex(where: { $0.status.isOver }) {
          state.jobs.remove(at: old)
        }
        guard state.jobs.count < Self.most else { return true }
        state.jobs.append(Job(file: file, model: model, client: client))
      }
      if state.thread == nil, !state.isStopped, let answer = state.answer {
        state.thread = try? Thread(name: "documents", stackBytes: Self.stackBytes) { self.run(answer) }
      }
      return false
    }
    if isFull { throw .invalidValue("read_by", "\(Self.most) files wait to be read") }
  }

  /// What became of the last wish to have a file read; nil for none.
  func told(of file: String) -> JSONValue? {
    state.withLock { $0.jobs.last { $0.file == file }?.json }
  }

  /// Gives up what waits for these keys.
  func cut(keys: Set<UInt64>) {
    state.update { state in
      state.jobs.removeAll { keys.contains($0.client.key) && $0.status != .reading }
    }
  }

  func stop() {
    let thread = state.update { state in
      (state.isStopped, state.answer) = (true, nil)
      return state.thread
    }
    thread?.join()
  }

  private var isStopped: Bool { state.withLock { $0.isStopped } }

  // MARK: The thread

  private func run(_ answer: Answer) {
    while let job = next() {
      let status = read(job, answer)
      state.withLock { state in
        guard let index = state.jobs.firstIndex(where: { $0.status == .reading }) else { return }
        state.jobs[index].status = status
      }
    }
  }

  /// Waits for a file; nil at the end of the server.
  private func next() -> Job? {
    state.wait(until: nil) { state -> Job?? in
      guard !state.isStopped else { return .some(nil) }
      guard let index = state.jobs.firstIndex(where: { $0.status == .waiting }) else { return nil }
      state.jobs[index].status = .reading
      return .some(state.jobs[index])
    } ?? nil
  }

  private func read(_ job: Job, _ answer: Answer) -> Status {
    let body: JSONValue = [
      "model": .string(job.model), "store": false, "keep_prompt": true, "max_output_tokens": 1,
      "input": [
        ["role": "user", "content": [["type": "input_file", "file_id": .string(job.file)]]]
      ],
    ]
    for _ in 0..<Self.mostTries {
      guard
        let request = try? Request(
          "POST", "/v1/responses", headers: ["content-type": "application/json"], body: body.bytes)
      else { break }
      let context = ConnectionContext(
        requestID: ConnectionContext.freshRequestID(), isClientGone: { self.isStopped },
        phase: { self.isStopped ? .expired : .running })
      context.client = job.client
      context.memory = MemoryLoan(models.ledger, for: .answers, patience: BodyBudget.patience)
      (context.isOneAnswer, context.givesWay) = (false, true)
      let response = answer(request, context)
      let text = try? response.collectedBody { context.memory?.extend(by: $0) == true }
      let json = text.flatMap { try? JSONValue(parsing: $0) }
      switch response.status {
      case 200:
        guard let tokens = json?["usage"]?["input_tokens"]?.intValue else { break }
        return .read(tokens: tokens)
      case 429, 499, 503: break
      default:
        return .failed(json?["error"]?["message"]?.stringValue ?? "it ended with status \(response.status)")
      }
      _ = state.wait(until: Instant.now.adding(seconds: Self.pause)) { $0.isStopped ? true : nil }
      guard !isStopped else { break }
    }
    return .failed(isStopped ? "the server ended" : "the server had no room for it")
  }
}
