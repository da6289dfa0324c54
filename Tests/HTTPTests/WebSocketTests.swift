// WebSockets over real connections: handshake, messages, hostile bytes, closing and draining.

import Platform
import Testing

@testable import HTTP

@Suite struct WebSocketTests {
  private let handshake =
    "GET /ws HTTP/1.1\r\nHost: h\r\nUpgrade: WebSocket\r\nConnection: keep-alive, Upgrade\r\n"
    + "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"

  /// Answers each message with its text between brackets; `stop` ends the connection.
  private func makeServer(
    _ configure: @escaping (inout Listener.Configuration) -> Void = { _ in },
    settings: WebSocket.Settings = WebSocket.Settings()
  ) throws -> LiveServer {
    try LiveServer(configure) { request, _ in
      let upgrade = Response.webSocket(answering: request, settings: settings) { socket in
        while let message = socket.receive() {
          if message == "stop" { return }
          do {
            try socket.send(Array("[\(message)]".utf8))
          } catch {
            return
          }
        }
      }
      return upgrade ?? .text("no", status: 426)
    }
  }

  /// Everything after the handshake until the server closes.
  private func exchange(_ frames: [UInt8], settings: WebSocket.Settings = WebSocket.Settings()) throws
    -> [UInt8]
  {
    let server = try makeServer(settings: settings)
    defer { server.stop() }
    let client = try server.client()
    client.send(Array(handshake.utf8) + frames)
    let (bytes, ended) = client.read(seconds: 10)
    #expect(ended)
    return afterHead(bytes)
  }

  private func afterHead(_ bytes: [UInt8]) -> [UInt8] {
    for index in bytes.indices.dropLast(3) where bytes[index...].starts(with: "\r\n\r\n".utf8) {
      return Array(bytes[(index + 4)...])
    }
    return []
  }

  private func text(_ text: String) -> [UInt8] { WebSocketFrameWriter.text(Array(text.utf8)) }

  private func closing(_ code: UInt16) -> [UInt8] { [UInt8(code >> 8), UInt8(code & 0xFF)] }

  @Test func `a handshake is answered and messages follow, even those sent at once`() throws {
    let server = try makeServer()
    defer { server.stop() }
    let client = try server.client()
    client.send(Array(handshake.utf8) + clientText("one") + clientText("two"))
    let answer = client.read(until: "[two]")
    #expect(answer.beginsWithBytes("HTTP/1.1 101 Switching Protocols\r\n"))
    for line in [
      "upgrade: websocket", "connection: Upgrade", "sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=",
    ] {
      #expect(answer.hasBytes("\r\n" + line + "\r\n"), "\(line)")
    }
    #expect(!answer.hasBytes("content-length"))
    #expect(answer.hasBytes("[one]"))
    client.send(clientFrame(9, [5, 6]) + clientFrame(8, [0x03, 0xE8]))
    let (rest, ended) = client.read(seconds: 10) { _ in false }
    #expect(rest == WebSocketFrameWriter.pong([5, 6]) + [0x88, 2] + closing(1000))
    // The server waits for the client to close, as TCP wants it.
    #expect(ended)
  }

  @Test(arguments: [
    "Sec-WebSocket-Version: 12", "Sec-WebSocket-Key: short", "Connection: close", "Upgrade: h2c",
  ])
  func `a handshake with a wrong field makes no WebSocket`(line: String) throws {
    let server = try makeServer()
    defer { server.stop() }
    let name = line.split(separator: ":")[0]
    let request = handshake.split(separator: "\r\n", omittingEmptySubsequences: false).map { old in
      old.hasPrefix(name + ":") ? line : String(old)
    }.joined(separator: "\r\n")
    let client = try server.client()
    client.send(request)
    #expect(client.read(until: "\r\n\r\n").beginsWithBytes("HTTP/1.1 426 Upgrade Required"))
  }

  @Test func `the handler's return closes the connection`() throws {
    #expect(
      try exchange(clientText("a") + clientText("stop") + clientText("b")) == text("[a]") + [0x88, 2]
        + closing(1000))
  }

  private static let breaches: [(bytes: [UInt8], code: UInt16)] = [
    (bytes: [0x81, 0x01, 0x61], code: 1002),
    (bytes: clientFrame(1, [0xFF]), code: 1007),
    (bytes: clientFrame(2, [1]), code: 1003),
    (bytes: clientText(String(repeating: "x", count: 101)), code: 1009),
    (bytes: clientFrame(1, [], reserved: 0x40), code: 1002),
    (bytes: Array("GET / HTTP/1.1\r\n\r\n".utf8), code: 1002),
  ]

  @Test func `what breaks the protocol is answered with its status and the connection ends`() throws {
    var settings = WebSocket.Settings()
    settings.messageBytes = 100
    for (bytes, code) in Self.breaches {
      let answer = try exchange(clientText("ok") + bytes, settings: settings)
      #expect(answer.starts(with: text("[ok]")))
      let close = Array(answer.dropFirst(text("[ok]").count))
      #expect(close.first == 0x88)
      #expect(Array(close.dropFirst(2).prefix(2)) == closing(code))
    }
  }

  @Test func `a silent client is pinged, and let go when it stays silent`() throws {
    var settings = WebSocket.Settings()
    settings.pingSeconds = 0.1
    let answer = try exchange([], settings: settings)
    #expect(answer.starts(with: WebSocketFrameWriter.ping()))
  }

  @Test func `a client that never says anything new is let go in the end`() throws {
    var settings = WebSocket.Settings()
    settings.idleSeconds = 0.1
    let answer = try exchange([], settings: settings)
    #expect(Array(answer.dropFirst(2).prefix(2)) == closing(1000))
  }

  @Test func `a message must come at some speed`() throws {
    let server = try makeServer({ $0.limits.bodyWindowSeconds = 0.2 })
    defer { server.stop() }
    let client = try server.client()
    client.send(Array(handshake.utf8) + clientText("whole").dropLast(2))
    let (bytes, ended) = client.read(seconds: 10)
    #expect(ended)
    #expect(Array(afterHead(bytes).dropFirst(2).prefix(2)) == closing(1008))
  }

  @Test func `messages count against the memory of all bodies`() throws {
    let server = try makeServer({ $0.limits.bufferedBodyBytes = 1_000 })
    defer { server.stop() }
    let client = try server.client()
    client.send(handshake)
    _ = client.read(until: "\r\n\r\n")
    client.send(clientText(String(repeating: "x", count: 2_000)))
    let (bytes, _) = client.read(seconds: 10)
    #expect(Array(bytes.dropFirst(2).prefix(2)) == closing(1013))
    let next = try server.client()
    next.send(Array(handshake.utf8) + clientText("small"))
    #expect(next.read(until: "[small]").hasBytes("[small]"))
  }

  @Test func `a client that does not read is given up`() throws {
    let outcome = Monitor<SocketError?>(nil)
    func configure(_ configuration: inout Listener.Configuration) {
      configuration.limits.writeStallSeconds = 0.2
      configuration.limits.sendBufferBytes = 4_096
    }
    let server = try LiveServer(configure) { request, _ in
      let upgrade = Response.webSocket(answering: request) { socket in
        do throws(SocketError) {
          for _ in 0..<1_000 { try socket.send([UInt8](repeating: 0x61, count: 1 << 20)) }
        } catch {
          outcome.update { $0 = error }
        }
      }
      return upgrade ?? .text("no", status: 400)
    }
    defer { server.stop() }
    let client = try RawClient(port: server.port, receiveBufferBytes: 4_096)
    client.send(handshake)
    let error: SocketError? = outcome.wait(until: Instant.now.adding(seconds: 20)) { $0 }
    #expect(error == .clientTooSlow)
    client.close()
  }

  @Test func `a server that drains says goodbye to idle WebSockets`() throws {
    let server = try makeServer()
    let client = try server.client()
    client.send(Array(handshake.utf8) + clientText("a"))
    _ = client.read(until: "[a]")
    let listener = server.listener
    let thread = try Thread(name: "stop") { _ = listener.stop(drainSeconds: 2) }
    let (bytes, ended) = client.read(seconds: 10)
    #expect(Array(bytes.dropFirst(2).prefix(2)) == closing(1001))
    #expect(ended)
    client.close()
    thread.join()
  }

  @Test func `a handler can see that its client left while it works`() throws {
    let seen = Monitor<[String]>([])
    let server = try LiveServer { request, _ in
      let upgrade = Response.webSocket(answering: request) { socket in
        while let message = socket.receive() {
          var turns = 0
          while !socket.isPeerGone(), turns < (message == "first" ? 20 : 5_000) {
            usleep(2_000)
            turns += 1
          }
          seen.update { $0.append("\(message): \(turns == 5_000 ? "never gone" : "done")") }
          try? socket.send(Array("done".utf8))
        }
      }
      return upgrade ?? .text("no", status: 400)
    }
    let client = try server.client()
    client.send(Array(handshake.utf8) + clientText("first") + clientFrame(9, [1]) + clientText("last"))
    // The ping is answered during the work.
    let (bytes, _) = client.read(seconds: 10) { String(decoding: $0, as: UTF8.self).hasBytes("done") }
    #expect(afterHead(bytes) == WebSocketFrameWriter.pong([1]) + text("done"))
    client.close()
    let both: Bool? = seen.wait(until: Instant.now.adding(seconds: 20)) { $0.count == 2 ? true : nil }
    #expect(both == true)
    #expect(seen.withLock { $0 } == ["first: done", "last: done"])
    server.stop()
  }

  @Test func `a WebSocket called without a socket has no body`() throws {
    let request = try Request(
      "GET", "/ws",
      headers: [
        "upgrade": "websocket", "connection": "upgrade", "sec-websocket-version": "13",
        "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
      ])
    let response = try #require(Response.webSocket(answering: request) { _ in })
    #expect(response.status == 101)
    #expect(try response.collectedBody() == [])
  }
}
