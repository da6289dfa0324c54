// The protocol over standard input and output: a message a line, requests side by side, answers as they come.

import JSON
import Platform

/// Serves one client, to the end of its input. Used once.
package final class LineServer: Sendable {
  private let server: NoteServer
  private let send: @Sendable (String) -> Bool
  private struct State {
    /// Requests that run, by their ids as JSON, and whether each is taken back.
    var running: [ByteKey: Bool] = [:]
    /// Whether nobody reads what is sent.
    var isGone = false
    /// Held while a line is sent.
    var isSending = false
  }
  private let state = Monitor(State())

  /// Bytes of a line, and requests at a time.
  private static let (longest, most) = (4 << 20, 16)
  private static let stackBytes = 4 << 20

  /// - Parameter send: writes a line whole; false where nobody reads any more.
  package init(_ server: NoteServer, send: @escaping @Sendable (String) -> Bool) {
    (self.server, self.send) = (server, send)
  }

  /// Reads to the end of the input, or until nobody reads the answers; then waits for what runs.
  ///
  /// - Parameter read: waits for bytes; empty at the end.
  package func run(_ read: () -> [UInt8]) {
    var (line, isTooLong): ([UInt8], Bool) = ([], false)
    while !isGone {
      let bytes = read()
      guard !bytes.isEmpty else { break }
      var rest = bytes[...]
      while let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
        line += rest[..<end]
        rest = rest[(end + 1)...]
        if isTooLong || line.count > Self.longest { tellTooLong() } else { take(line) }
        (line, isTooLong) = ([], false)
      }
      line += rest
      // The rest of such a line goes nowhere.
      if line.count > Self.longest { (line, isTooLong) = ([], true) }
    }
    if isTooLong { tellTooLong() } else { take(line) }
    // Whoever sends requests from a file reads the answers later.
    state.wait { state in state.running.isEmpty || state.isGone ? () : nil }
  }

  private var isGone: Bool { state.withLock { $0.isGone } }

  private func tellTooLong() {
    write(MCPError.invalidRequest("a line has at most \(Self.longest >> 20) MiB").reply())
  }

  /// One line at a time.
  private func write(_ message: JSONValue) {
    let line = message.text + "\n"
    let isOurs = state.wait { state -> Bool? in
      guard !state.isSending else { return nil }
      state.isSending = !state.isGone
      return state.isSending
    }
    guard isOurs == true else { return }
    let isRead = send(line)
    state.update { state in
      state.isSending = false
      if !isRead { state.isGone = true }
    }
  }

  private func take(_ line: [UInt8]) {
    guard !line.allSatisfy({ [0x20, 0x09, 0x0D].contains($0) }) else { return }
    do throws(MCPError) {
      let message = try MCPMessage(line)
      switch message.kind {
      case .request(let id): try begin(message, id)
      case .notification: if let id = message.cancelledID { cancel(id) }
      // Nothing is asked of the client.
      case .response: break
      }
    } catch {
      write(error.reply())
    }
  }

  private func cancel(_ id: JSONValue) {
    let key = ByteKey(id.text)
    state.update { if $0.running[key] != nil { $0.running[key] = true } }
  }

  private func begin(_ message: MCPMessage, _ id: JSONValue) throws(MCPError) {
    if NoteServer.isQuick(message) { return answer(message, id, MCPWork()) }
    let key = ByteKey(id.text)
    var error = state.withLock { state -> MCPError? in
      guard state.running[key] == nil else { return .invalidRequest("a request with this id is running") }
      guard state.running.count < Self.most else { return .busy }
      state.running[key] = false
      return nil
    }
    error?.id = id
    if let error { throw error }
    let token = message.progressToken
    let thread = try? Thread(name: "request", stackBytes: Self.stackBytes) { [self] in
      let work = MCPWork(
        isUnwanted: { [state] in state.withLock { $0.isGone || $0.running[key] != false } },
        tell: { [self] progress in if let token { write(MCPMessage.progress(token, progress)) } })
      answer(message, id, work)
      state.update { _ = $0.running.removeValue(forKey: key) }
    }
    if let thread { return thread.detach() }
    state.update { _ = $0.running.removeValue(forKey: key) }
    write(MCPError.busy.reply(to: id))
  }

  /// What was taken back gets no answer.
  private func answer(_ message: MCPMessage, _ id: JSONValue, _ work: MCPWork) {
    let reply: JSONValue
    do throws(MCPError) {
      reply = MCPMessage.reply(id, try server.result(of: message, work))
    } catch {
      reply = error.reply(to: id)
    }
    if !work.isUnwanted() { write(reply) }
  }
}
