// Streamed responses over real sockets: framing, keep-alives, clients that leave.

import HTTP
import Platform
import Testing

@Suite struct StreamTests {
  private let get = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n"

  @Test func `events are chunks and the connection stays usable`() throws {
    let server = try LiveServer { _, _ in
      .events { events in
        try events.send("1")
        try events.keepAlive()
        events.finish("[DONE]")
      }
    }
    defer { server.stop() }
    let client = try server.client()
    for _ in 0..<2 {
      client.send(get)
      let response = client.read(until: "\r\n0\r\n\r\n")
      #expect(response.hasBytes("transfer-encoding: chunked\r\n"))
      #expect(response.hasBytes("content-type: text/event-stream; charset=utf-8\r\n"))
      #expect(!response.hasBytes("content-length"))
      let chunks = "\r\n\r\n9\r\ndata: 1\n\n\r\ne\r\n: keep-alive\n\n\r\ne\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"
      #expect(response.occurrences(of: chunks) == 1, "\(response)")
    }
  }

  @Test func `HTTP 1.0 gets a bare stream that ends with the connection`() throws {
    let server = try LiveServer { _, _ in
      .events { events in
        try events.send("1")
        events.finish("2")
      }
    }
    defer { server.stop() }
    let response = try server.exchange("GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    #expect(!response.hasBytes("transfer-encoding"))
    #expect(response.hasBytes("connection: close\r\n"))
    #expect(response.hasBytes("\r\n\r\ndata: 1\n\ndata: 2\n\n"))
    #expect(!response.hasBytes("<still open>"))
  }

  @Test(arguments: ["1.0", "1.1"])
  func `a stream whose length is known is told it, and one that is shorter ends its connection`(
    version: String
  )
    throws
  {
    let server = try LiveServer { request, _ in
      var response = Response(
        body: .stream { writer in
          try writer.write(Array("abc".utf8))
          if request.path == "/a" { writer.finish(Array("de".utf8)) }
        })
      response.length = 5
      return response
    }
    defer { server.stop() }
    let client = try server.client()
    let get = "GET /a HTTP/\(version)\r\nHost: h\r\nConnection: keep-alive\r\n\r\n"
    for _ in 0..<2 {
      client.send(get)
      let response = client.read(until: "abcde")
      #expect(response.hasBytes("content-length: 5\r\n") && response.hasBytes("\r\n\r\nabcde"), "\(response)")
      #expect(!response.hasBytes("transfer-encoding"))
    }
    let cut = try server.exchange(get.replacing("/a", with: "/b"))
    #expect(cut.hasBytes("\r\n\r\nabc") && !cut.hasBytes("<still open>"), "\(cut)")
    let head = try server.exchange("HEAD /a HTTP/\(version)\r\nHost: h\r\nConnection: close\r\n\r\n")
    #expect(head.hasBytes("content-length: 5\r\n") && !head.hasBytes("abc"))
  }

  @Test func `HEAD does not run the stream`() throws {
    let server = try LiveServer { _, _ in .events { _ in Issue.record("the stream ran") } }
    defer { server.stop() }
    let response = try server.exchange("HEAD /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
    #expect(response.hasBytes("text/event-stream"))
    #expect(!response.hasBytes("data:"))
  }

  @Test func `the head can go out before the first event`() throws {
    let release = Monitor(false)
    let server = try LiveServer { _, _ in
      .events { events in
        try events.keepAlive()
        _ = release.wait(until: .now.adding(seconds: 10)) { $0 ? true : nil }
        events.finish("1")
      }
    }
    defer { server.stop() }
    let client = try server.client()
    client.send(get)
    let head = client.read(until: "\r\n\r\n")
    #expect(head.beginsWithBytes("HTTP/1.1 200 OK\r\n"))
    #expect(!head.hasBytes("data:"))
    release.update { $0 = true }
    #expect(client.read(until: "\r\n0\r\n\r\n").hasBytes("data: 1\n\n"))
  }

  @Test func `a stream that fails at once is an error response`() throws {
    struct Failure: Error {}
    let server = try LiveServer { _, _ in .events { _ in throw Failure() } }
    defer { server.stop() }
    #expect(try server.exchange(get).beginsWithBytes("HTTP/1.1 500 "))
  }

  @Test func `a stream that fails later is cut without an end mark`() throws {
    struct Failure: Error {}
    let server = try LiveServer { _, _ in
      .events { events in
        try events.send("1")
        throw Failure()
      }
    }
    defer { server.stop() }
    let response = try server.exchange(get)
    #expect(response.hasBytes("data: 1\n\n"))
    #expect(!response.hasBytes("\r\n0\r\n\r\n"))
    #expect(!response.hasBytes("<still open>"))
  }

  @Test func `an error event closes the connection after the complete stream`() throws {
    let server = try LiveServer { _, _ in
      .events { events in
        try events.send("1")
        events.finishWithError("{\"error\":{}}")
      }
    }
    defer { server.stop() }
    let response = try server.exchange(get)
    #expect(response.hasBytes("data: {\"error\":{}}\n\n\r\n0\r\n\r\n"))
    #expect(!response.hasBytes("<still open>"))
  }

  /// Runs a stream without end; returns how it ended after `leave` was done to its client.
  private func endlessStream(_ leave: (RawClient) -> Void) throws -> (any Error)? {
    let ending = Monitor<[any Error]>([])
    let server = try LiveServer { _, _ in
      .events { events in
        do {
          while true {
            try events.send("x")
            usleep(1000)
          }
        } catch {
          ending.update { $0.append(error) }
          throw error
        }
      }
    }
    defer { server.stop() }
    let client = try server.client()
    client.send(get)
    _ = client.read(until: "data: x", count: 3)
    leave(client)
    let result = ending.wait(until: .now.adding(seconds: 5)) { $0.isEmpty ? nil : $0 }
    return result?.first
  }

  @Test func `a reset or a close during a stream ends it`() throws {
    #expect(try endlessStream { $0.reset() } as? SocketError == .clientGone)
    #expect(try endlessStream { $0.close() } as? SocketError == .clientGone)
  }

  @Test func `a client that does not read is given up after the stall time`() throws {
    let outcome = Monitor<[String]>([])
    let server = try LiveServer { configuration in
      configuration.limits.writeStallSeconds = 0.3
      configuration.limits.sendBufferBytes = 8 << 10
    } handler: { _, _ in
      .events { events in
        do {
          while true { try events.send(String(repeating: "x", count: 1000)) }
        } catch {
          outcome.update { $0.append("\(error) after \(events.writer.bytesWritten < 8 << 20)") }
        }
      }
    }
    defer { server.stop() }
    let client = try RawClient(port: server.port, receiveBufferBytes: 2048)
    client.send(get)
    let result = outcome.wait(until: .now.adding(seconds: 10)) { $0.isEmpty ? nil : $0 }
    #expect(result == ["the client reads too slowly after true"])
  }

  /// What `isClientGone` says to a handler that waits, until it says yes or half a second has passed.
  private func seesGone(inStream: Bool, _ leave: (RawClient) -> Void) throws -> Bool {
    let state = Monitor((isWaiting: false, answer: Bool?.none))
    let server = try LiveServer { _, context in
      func watch(_ isGone: () -> Bool) {
        state.update { $0.isWaiting = true }
        for _ in 0..<100 where !isGone() { usleep(5000) }
        let answer = isGone()
        state.update { $0.answer = answer }
      }
      guard inStream else {
        watch { context.isClientGone() }
        return .text("x")
      }
      return .events { events in
        try events.send("first")
        // Both ways of asking must be harmless to the stream.
        watch { events.isClientGone() || context.isClientGone() }
      }
    }
    defer { server.stop() }
    let client = try server.client()
    client.send(get)
    _ = state.wait(until: .now.adding(seconds: 30)) { $0.isWaiting ? true : nil }
    usleep(20_000)
    leave(client)
    let answer = state.wait(until: .now.adding(seconds: 30)) { $0.answer }
    return try #require(answer as Bool?)
  }

  @Test(arguments: [false, true]) func `a client that closed or reset is seen to be gone`(inStream: Bool)
    throws
  {
    #expect(try seesGone(inStream: inStream) { $0.close() })
    // The end stands after bytes that nobody reads while the answer is made.
    #expect(
      try seesGone(inStream: inStream) {
        $0.send("GET /pipelined HTTP/1.1\r\n")
        $0.close()
      })
    #expect(try seesGone(inStream: inStream) { $0.reset() })
  }

  @Test(arguments: [false, true]) func `a client that waits is not gone`(inStream: Bool) throws {
    #expect(try !seesGone(inStream: inStream) { _ in })
    #expect(try !seesGone(inStream: inStream) { $0.send("GET /pipelined HTTP/1.1\r\n") })
    #expect(try !seesGone(inStream: inStream) { $0.endSending() })
  }

  @Test func `a half-closed client gets the answer it waits for, after an interim response`() throws {
    let server = try LiveServer { _, context in
      for _ in 0..<5 where !context.isClientGone() { usleep(10_000) }
      return .text(context.isClientGone() ? "gone" : "here")
    }
    defer { server.stop() }
    let client = try server.client()
    client.send(get)
    client.endSending()
    let response = client.readToEnd()
    #expect(response.beginsWithBytes("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n"))
    #expect(response.hasBytes("here"))
  }

  @Test func `asking about a half-closed client does not damage its stream`() throws {
    let server = try LiveServer { _, context in
      .events { events in
        try events.send("1")
        for _ in 0..<5 where !context.isClientGone() { usleep(10_000) }
        events.finish(context.isClientGone() ? "gone" : "here")
      }
    }
    defer { server.stop() }
    let client = try server.client()
    client.send(get)
    client.endSending()
    let response = client.readToEnd()
    #expect(
      response.hasBytes("9\r\ndata: 1\n\n\r\ne\r\n: keep-alive\n\n\r\nc\r\ndata: here\n\n\r\n0\r\n\r\n"))
    #expect(response.occurrences(of: "HTTP/1.1 ") == 1)
  }

  @Test func `many streams run side by side without mixing`() throws {
    let server = try LiveServer { request, _ in
      let mark = request.path
      return .events { events in
        for index in 0..<20 {
          try events.send("\(mark) \(index)")
          usleep(500)
        }
        events.finish("[DONE]")
      }
    }
    defer { server.stop() }
    let clients = try (0..<50).map { index in
      let client = try server.client()
      client.send("GET /m\(index)m HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
      return client
    }
    for (index, client) in clients.enumerated() {
      let response = client.readToEnd(seconds: 20)
      #expect(response.occurrences(of: "data: /m") == 20)
      #expect(response.occurrences(of: "data: /m\(index)m ") == 20)
      #expect(response.hasBytes("data: [DONE]"))
    }
  }
}
