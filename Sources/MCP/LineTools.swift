// A server of tools that is a program of this machine: a message a line, over its standard input and output.

package import JSON
import Platform

/// Starts the program when it is first needed, and again after it has ended. Shared by all requests.
package final class LineTools: ToolServer {
  /// What is started.
  package struct Program: Sendable, Equatable {
    package var command: String
    package var arguments: [String] = []
    /// Beside the few variables that every program gets.
    package var environment: [(name: String, value: String)] = []
    package var folder: String?

    package init(command: String) { self.command = command }

    package static func == (a: Program, b: Program) -> Bool {
      (a.command, a.arguments, a.folder) == (b.command, b.arguments, b.folder)
        && a.environment.elementsEqual(b.environment, by: ==)
    }
  }

  private let program: Program
  private struct State {
    var process: TalkingProcess?
    /// Whether the program has said which version it speaks.
    var isReady = false
    var isStarting = false
    /// Held while a line is sent.
    var isSending = false
    var lastID = 0
    /// Answers by the ids of requests that wait; nil for none yet.
    var answers: [Int: Result<JSONValue, ToolFault>?] = [:]
    var changes = 0
    /// Starts that led to nothing and lives that were short, one after the other; when the program has started last, and
    /// when it may again.
    var failures = 0
    /// Whether it had been ready when it failed last: then a start is worth a short wait.
    var hasLived = false
    var (began, next) = (Instant(nanoseconds: 0), Instant(nanoseconds: 0))

    /// Has the next start wait, the longer the more often this has happened. It is noted before the program is let go.
    mutating func fail() {
      (failures, hasLived) = (failures + 1, isReady)
      next = Instant.now.adding(seconds: min(LineTools.longestPause, 0.25 * Double(1 << min(8, failures))))
    }
  }
  private let state = Monitor(State())

  /// Variables that a program gets of those of this process.
  private static let inherited = [
    "HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER",
  ]
  /// Longest wait between two starts, after which a life was no short one; and how long a request waits for a start, seconds.
  private static let (longestPause, patience) = (60.0, 1.0)
  /// How long nobody looks whether an answer is still wanted, seconds.
  private static let lookSeconds = 0.05

  package init(_ program: Program) { self.program = program }

  package var changes: Int { state.withLock { $0.changes } }

  package func ask(
    _ method: String, _ params: JSONObject, _ wait: ToolWait
  ) throws(ToolFault) -> JSONValue {
    let process = try running(wait)
    return try exchange(method, params, wait, process)
  }

  package func end() { state.withLock { $0.process }?.end() }

  deinit { end() }

  // MARK: The program

  /// The program, started if it is not there.
  private func running(_ wait: ToolWait) throws(ToolFault) -> TalkingProcess {
    while true {
      let found: Result<TalkingProcess?, ToolFault>? = state.wait(until: look(wait)) { state in
        if state.isStarting { return nil }
        if let process = state.process, state.isReady { return .success(process) }
        let now = Instant.now
        guard now >= state.next else {
          let waits = state.hasLived && state.next <= now.adding(seconds: Self.patience)
          return waits
            ? nil
            : .failure(.unreachable("its program ended; it is started again in a while"))
        }
        state.isStarting = true
        return .success(nil)
      }
      if let found {
        guard let process = try found.get() else { return try start(wait) }
        return process
      }
      try check(wait)
    }
  }

  private func start(_ wait: ToolWait) throws(ToolFault) -> TalkingProcess {
    do throws(ToolFault) {
      let process = try open()
      let result = try exchange("initialize", ToolMessage.hello, wait, process)
      _ = try ToolMessage.version(of: result)
      guard send(ToolMessage.initialized, process, wait.deadline) else { throw ToolFault.died }
      state.update { ($0.isReady, $0.isStarting, $0.began) = (true, false, .now) }
      return process
    } catch {
      let process = state.update { state in
        if error != .unwanted { state.fail() }
        state.isStarting = false
        defer { state.process = nil }
        return state.process
      }
      process?.end()
      throw error
    }
  }

  private func open() throws(ToolFault) -> TalkingProcess {
    let command = program.command
    guard let path = command.hasPrefix("/") ? command : ChildProcess.find(command) else {
      throw .unreachable("the program '\(command)' is not installed")
    }
    let own = program.environment
    let variables =
      Self.inherited.filter { name in !own.contains { $0.name == name } }.compactMap { name in
        Environment.value(name).map { "\(name)=\($0)" }
      } + own.map { "\($0.name)=\($0.value)" }
    do {
      let process = try TalkingProcess(
        path, program.arguments, environment: variables, folder: program.folder)
      state.update { ($0.process, $0.isReady) = (process, false) }
      try Thread(name: "mcp-lines") { [weak self] in Self.listen(to: process) { self } }.detach()
      return process
    } catch {
      throw .unreachable("its program cannot be started")
    }
  }

  /// Reads to the end of the program.
  private static func listen(to process: TalkingProcess, _ owner: () -> LineTools?) {
    var line: [UInt8] = []
    var fault = ToolFault.died
    reading: while true {
      let bytes = process.read()
      guard !bytes.isEmpty, let owner = owner() else { break }
      var rest = bytes[...]
      while let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
        line += rest[..<end]
        rest = rest[(end + 1)...]
        do throws(ToolFault) {
          try owner.take(line, of: process)
        } catch {
          fault = error
          break reading
        }
        line = []
      }
      line += rest
      if line.count > ToolLimits.messageBytes {
        fault = .tooLarge(limit: ToolLimits.messageBytes)
        break
      }
    }
    owner()?.lose(process, fault)
    process.end()
  }

  private func lose(_ process: TalkingProcess, _ fault: ToolFault) {
    state.update { state in
      guard state.process === process else { return }
      if state.isReady {
        if Instant.now.seconds(since: state.began) >= Self.longestPause { state.failures = 0 }
        state.fail()
      }
      (state.process, state.isReady) = (nil, false)
      for id in state.answers.keys { state.answers[id] = .some(.failure(fault)) }
    }
  }

  // MARK: Messages

  /// - Throws: what is wrong with the program.
  private func take(_ line: [UInt8], of process: TalkingProcess) throws(ToolFault) {
    guard !line.allSatisfy({ [0x20, 0x09, 0x0D].contains($0) }) else { return }
    let message: JSONValue
    do {
      message = try JSONValue(parsing: line, maxDepth: 64, maxValues: 100_000)
      guard message["jsonrpc"] == "2.0" else { throw ToolFault.garbage("a line is no message") }
    } catch {
      // Programs greet where they should not.
      guard state.withLock({ $0.isReady }) else { return }
      throw .garbage("a line is no message")
    }
    if let method = message["method"]?.stringValue {
      if method == "notifications/tools/list_changed" { state.update { $0.changes += 1 } }
      guard let id = message["id"] else { return }
      let reply =
        method == "ping" ? MCPMessage.reply(id, [:]) : MCPError.unknownMethod(method).reply(to: id)
      _ = send(reply, process, Instant.now.adding(seconds: 1))
      return
    }
    guard let id = message["id"]?.intValue else { return }
    state.update { state in
      // Whoever asked may have gone.
      guard state.answers[id] != nil else { return }
      state.answers[id] = .some(.success(message))
    }
  }

  private func send(_ message: JSONValue, _ process: TalkingProcess, _ deadline: Instant) -> Bool {
    let isOurs: Bool? = state.wait(until: deadline) { state in
      guard !state.isSending else { return nil }
      state.isSending = true
      return true
    }
    guard isOurs == true else { return false }
    defer { state.update { $0.isSending = false } }
    return process.write(message.bytes + [UInt8(ascii: "\n")], until: deadline)
  }

  private func look(_ wait: ToolWait) -> Instant {
    min(wait.deadline, Instant.now.adding(seconds: Self.lookSeconds))
  }

  private func check(_ wait: ToolWait) throws(ToolFault) {
    if wait.isUnwanted() { throw .unwanted }
    if Instant.now >= wait.deadline { throw .tooSlow }
  }

  private func exchange(
    _ method: String, _ params: JSONObject, _ wait: ToolWait, _ process: TalkingProcess
  ) throws(ToolFault) -> JSONValue {
    let id = state.update { state in
      state.lastID += 1
      state.answers[state.lastID] = .some(nil)
      return state.lastID
    }
    defer { state.update { $0.answers[id] = nil } }
    guard send(ToolMessage.request(id, method, params), process, wait.deadline) else {
      throw Instant.now >= wait.deadline ? .tooSlow : .died
    }
    while true {
      let answer: Result<JSONValue, ToolFault>? = state.wait(until: look(wait)) { state in
        if case .some(.some(let answer)) = state.answers[id] { return answer }
        return state.process === process ? nil : .failure(.died)
      }
      if let answer { return try ToolMessage.result(of: answer.get()) }
      do throws(ToolFault) {
        try check(wait)
      } catch {
        let words = ToolMessage.notification("notifications/cancelled", ["requestId": .int(id)])
        if method != "initialize" { _ = send(words, process, Instant.now.adding(seconds: 0.2)) }
        throw error
      }
    }
  }
}
