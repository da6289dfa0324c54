// A server of tools at an address: a request by POST each, answered by an object or by a stream of events.

package import Fetch
package import JSON
import Platform

/// One session, of one answer. Used by the threads of its calls.
package final class HTTPTools: ToolServer {
  private let url: WebURL
  private let fields: [String]
  private let fetcher: Fetcher
  private struct State {
    var session: String?
    /// What the server has chosen; nil before.
    var version: String?
    var isOpening = false
    /// Whether each request says everything itself, without a session.
    var isStateless = false
    var lastID = 0
    var changes = 0
  }
  private let state = Monitor(State())
  /// How long the end of a session may take, seconds.
  private static let endSeconds = 2.0

  /// - Parameters:
  ///   - fields: more lines of the head, such as secrets.
  ///   - fetcher: says which addresses may be asked.
  package init(_ url: WebURL, fields: [String], fetcher: Fetcher) {
    (self.url, self.fields, self.fetcher) = (url, fields, fetcher)
  }

  package var changes: Int { state.withLock { $0.changes } }

  package func ask(
    _ method: String, _ params: JSONObject, _ wait: ToolWait
  ) throws(ToolFault) -> JSONValue {
    try open(wait)
    do throws(ToolFault) {
      return try exchange(method, params, wait)
    } catch {
      // It has forgotten the session, so it has done nothing.
      guard case .status(404) = error, state.withLock({ $0.session }) != nil else { throw error }
      state.withLock { ($0.session, $0.version) = (nil, nil) }
      try open(wait)
      return try exchange(method, params, wait)
    }
  }

  package func end() {
    guard state.withLock({ $0.session }) != nil else { return }
    // One that does not want to be told goes with the server's patience.
    _ = try? post(nil, id: nil, [], ToolWait(seconds: Self.endSeconds) { false })
    state.withLock { $0.session = nil }
  }

  /// Agrees on a version.
  private func open(_ wait: ToolWait) throws(ToolFault) {
    let isOurs: Bool? = state.wait(until: wait.deadline) { state in
      if state.version != nil || state.isStateless { return false }
      guard !state.isOpening else { return nil }
      state.isOpening = true
      return true
    }
    guard let isOurs else { throw .tooSlow }
    guard isOurs else { return }
    defer { state.update { $0.isOpening = false } }
    do throws(ToolFault) {
      let version = try ToolMessage.version(of: exchange("initialize", ToolMessage.hello, wait))
      state.withLock { $0.version = version }
      _ = try post(ToolMessage.initialized, id: nil, [], wait)
    } catch {
      // A server of versions without a handshake does not know the word.
      switch error {
      case .refused, .status(400), .status(404), .status(405): state.withLock { $0.isStateless = true }
      default: throw error
      }
    }
  }

  private func exchange(
    _ method: String, _ params: JSONObject, _ wait: ToolWait
  ) throws(ToolFault) -> JSONValue {
    let (id, isStateless) = state.withLock { state in
      state.lastID += 1
      return (state.lastID, state.isStateless)
    }
    var (params, fields): (JSONObject, [String]) = (params, [])
    if isStateless {
      params["_meta"] = ToolMessage.meta
      fields = ["MCP-Protocol-Version: \(MCPVersion.stateless[0])", "Mcp-Method: \(method)"]
      if let name = params["name"]?.stringValue { fields.append("Mcp-Name: \(Self.headerValue(name))") }
    }
    guard let answer = try post(ToolMessage.request(id, method, params), id: id, fields, wait) else {
      throw .garbage("it did not answer the request")
    }
    return try ToolMessage.result(of: answer)
  }

  /// A name as a header has it: letters other than ASCII's as Base64.
  private static func headerValue(_ name: String) -> String {
    name.utf8.allSatisfy { (0x21...0x7E).contains($0) }
      ? name : "=?base64?\(Base64.encode(Array(name.utf8)))?="
  }

  /// Sends a message.
  ///
  /// - Parameters:
  ///   - message: nil to end the session.
  ///   - id: of a request; nil for a notification, which nothing answers.
  private func post(
    _ message: JSONValue?, id: Int?, _ more: [String], _ wait: ToolWait
  ) throws(ToolFault) -> JSONValue? {
    var fields = self.fields + more
    fields += ["Content-Type: application/json", "Accept: application/json, text/event-stream"]
    let (session, version) = state.withLock { ($0.session, $0.version) }
    if let session { fields.append("Mcp-Session-Id: \(session)") }
    if let version { fields.append("MCP-Protocol-Version: \(version)") }
    var head: Curl.Head?
    var (body, reader): ([UInt8], EventReader) = ([], EventReader())
    var (answer, fault): (JSONValue?, ToolFault?) = (nil, nil)
    var taken = 0
    do throws(FetchError) {
      try fetcher.post(
        message?.text, to: url, fields: fields, until: wait.deadline, isUnwanted: wait.isUnwanted,
        head: { found in
          head = found
          return id != nil || found.status >= 400
        },
        body: { bytes in
          taken += bytes.count
          guard taken <= ToolLimits.messageBytes else {
            fault = .tooLarge(limit: ToolLimits.messageBytes)
            return false
          }
          guard head?["content-type"]?.lowercased().hasPrefix("text/event-stream") == true else {
            body += bytes
            return true
          }
          for event in reader.add(bytes) {
            do throws(ToolFault) {
              answer = try take(event, id)
            } catch {
              fault = error
            }
            if answer != nil || fault != nil { return false }
          }
          return true
        })
    } catch {
      if let fault { throw fault }
      throw ToolFault(error)
    }
    if let fault { throw fault }
    let status = head?.status ?? 0
    if let session = head?["mcp-session-id"], session.utf8.count <= 1024 {
      state.withLock { $0.session = session }
    }
    if answer == nil, id != nil, !body.isEmpty { answer = try? take(body, id) }
    // An error of the protocol says more than the status under which it comes.
    if status >= 400, answer?["error"] == nil || status == 404 { throw .status(status) }
    guard (200..<300).contains(status) || answer != nil else { throw .status(status) }
    return answer
  }

  /// The answer to a request, if a message is it.
  private func take(_ bytes: [UInt8], _ id: Int?) throws(ToolFault) -> JSONValue? {
    let message: JSONValue
    do {
      message = try JSONValue(parsing: bytes, maxDepth: 64, maxValues: 100_000)
    } catch {
      throw .garbage("it is no JSON")
    }
    guard let method = message["method"]?.stringValue else {
      // An error that names no request answers this one.
      let isOurs =
        message["id"]?.intValue == id || (message["error"] != nil && message["id"]?.isNull != false)
      guard isOurs else { return nil }
      return message
    }
    if method == "notifications/tools/list_changed" { state.withLock { $0.changes += 1 } }
    // Whoever asks back would wait for an answer in vain.
    if message["id"] != nil, method != "ping" {
      throw .garbage("it asks for '\(method.prefix(60))', which is not given here")
    }
    return nil
  }
}

/// The data of a stream of events.
struct EventReader {
  private var line: [UInt8] = []
  private var data: [UInt8]?

  /// The events that bytes end.
  mutating func add(_ bytes: ArraySlice<UInt8>) -> [[UInt8]] {
    var events: [[UInt8]] = []
    for byte in bytes {
      guard byte == UInt8(ascii: "\n") else {
        line.append(byte)
        continue
      }
      if line.last == UInt8(ascii: "\r") { line.removeLast() }
      if line.isEmpty {
        if let data { events.append(data) }
        data = nil
      } else if line.starts(with: "data:".utf8) {
        let text = line.dropFirst(5)
        let words = text.first == 0x20 ? text.dropFirst() : text
        data = data.map { $0 + [UInt8(ascii: "\n")] + words } ?? Array(words)
      }
      line = []
    }
    return events
  }
}

extension ToolFault {
  fileprivate init(_ error: FetchError) {
    switch error {
    case .unwanted: self = .unwanted
    case .tooSlow: self = .tooSlow
    case .tooLarge(let limit): self = .tooLarge(limit: limit)
    case .status(let status): self = .status(status)
    default: self = .unreachable("\(error)")
    }
  }
}
