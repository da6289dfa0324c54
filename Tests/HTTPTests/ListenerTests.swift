// The life of a server: binding, limits of time and number, the graceful stop.

import HTTP
import Platform
import Testing

@Suite struct ListenerTests {
  private let get = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n"

  private func listener(_ host: String, port: Int = 0) throws -> Listener {
    var configuration = Listener.Configuration()
    configuration.host = host
    configuration.port = port
    return try Listener(configuration, handler: LiveServer.echo)
  }

  @Test func `a free port is taken and told`() throws {
    let listener = try listener("127.0.0.1")
    let endpoints = try listener.start()
    #expect(endpoints.map(\.address) == ["127.0.0.1"])
    #expect((1...65535).contains(try #require(endpoints.first).port))
    #expect(listener.stop())
  }

  @Test func `a name is bound on all its addresses with one port`() throws {
    let listener = try listener("localhost")
    let endpoints = try listener.start()
    #expect(!endpoints.isEmpty)
    #expect(Set(endpoints.map(\.port)).count == 1)
    #expect(endpoints.allSatisfy { ["127.0.0.1", "::1"].contains($0.address) })
    listener.stop()
  }

  @Test func `addresses are written with brackets when they need them`() {
    #expect(Endpoint(address: "::1", port: 80).description == "[::1]:80")
    #expect(Endpoint(address: "127.0.0.1", port: 80).description == "127.0.0.1:80")
  }

  @Test func `a port in use is a clear error`() throws {
    let server = try LiveServer()
    defer { server.stop() }
    let error = #expect(throws: SocketError.self) { try listener("127.0.0.1", port: server.port).start() }
    #expect(
      error?.description
        == "cannot listen on 127.0.0.1:\(server.port): another program uses this port. Stop it or choose another port"
    )
  }

  @Test func `a port is free again at once after a stop with connections`() throws {
    let server = try LiveServer()
    let client = try server.client()
    client.send(get)
    _ = client.read(until: "GET /a")
    server.stop()
    let second = try listener("127.0.0.1", port: server.port)
    #expect(try second.start().first?.port == server.port)
    second.stop()
  }

  @Test(arguments: [
    ("", 80), ("no such host.invalid", 80), ("192.0.2.1", 0), ("127.0.0.1", 65536), ("127.0.0.1", -1),
  ])
  func `a place that cannot be bound is a clear error`(host: String, port: Int) throws {
    let error = #expect(throws: SocketError.self) { try listener(host, port: port).start() }
    #expect(error?.description.hasBytes("cannot listen on \(host):\(port): ") == true)
  }

  @Test func `where all connections work, others get 503, and urgent ones an answer`() throws {
    let gate = Monitor(false)
    let server = try LiveServer {
      $0.limits.connections = 2
      $0.isUrgent = { request, _ in request.path == "/health" }
    } handler: { request, context in
      if request.path == "/wait" { let _: Bool? = gate.wait { $0 ? true : nil } }
      return LiveServer.echo(request, context)
    }
    defer { server.stop() }
    let workers = try (0..<2).map { _ in try server.client() }
    for worker in workers { worker.send("GET /wait HTTP/1.1\r\nHost: h\r\n\r\n") }
    // The workers have to be at work.
    usleep(100_000)
    let refusal = try server.exchange("GET /a HTTP/1.1\r\nHost: h\r\n\r\n")
    #expect(refusal.beginsWithBytes("HTTP/1.1 503 Service Unavailable\r\n"))
    #expect(refusal.hasBytes("\r\nretry-after: 1\r\n") && refusal.hasBytes("All 2 connections"))
    #expect(!refusal.hasBytes("<still open>"))
    for _ in 0..<20 {
      let answer = try server.exchange("GET /health HTTP/1.1\r\nHost: h\r\n\r\n")
      #expect(answer.hasBytes("200 OK") && answer.hasBytes("\r\nconnection: close\r\n"))
    }
    gate.update { $0 = true }
    for worker in workers { #expect(worker.read(until: "GET /wait").hasBytes("200 OK")) }
    workers[0].close()
    #expect(try server.exchange("GET /b HTTP/1.0\r\n\r\n").hasBytes("GET /b"))
  }

  @Test(arguments: [
    (1024, 1 << 20, 1024), (1024, 1024, 768), (1024, 4096, 1024), (1024, 400, 200), (7, 1024, 7), (64, 0, 1),
    (2048, Int.max, 2048),
  ])
  func `connections fit into the descriptors of the process`(wanted: Int, descriptors: Int, fitting: Int) {
    #expect(Limits.connections(wanted, descriptors: descriptors) == fitting)
  }

  @Test func `strangers who open connections faster than their time runs out keep nobody out`() throws {
    let server = try LiveServer { $0.limits.connections = 16 }
    defer { server.stop() }
    let kept = try server.client()
    kept.send(get)
    #expect(kept.read(until: "GET /a").hasBytes("200 OK"))
    var strangers: [RawClient] = []
    for round in 0..<100 {
      for kind in 0..<4 {
        let stranger = try server.client()
        switch kind {
        case 0: break
        case 1: stranger.send("GET / HTTP/1.1\r\n")
        case 2: stranger.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\na")
        default: stranger.send(get)
        }
        strangers.append(stranger)
      }
      #expect(try server.exchange("GET /b HTTP/1.0\r\n\r\n").hasBytes("GET /b"), "round \(round)")
    }
    #expect(server.listener.connectionCount <= 16 + 64)
    for stranger in strangers { stranger.close() }
  }

  @Test func `a head that does not come in time is 408, nothing at all is just closed`() throws {
    let server = try LiveServer { $0.limits.headSeconds = 0.2 }
    defer { server.stop() }
    let silent = try server.client()
    let slow = try server.client()
    slow.send("GET / HTTP/1.1\r\n")
    #expect(slow.readToEnd().beginsWithBytes("HTTP/1.1 408 Request Timeout\r\n"))
    #expect(silent.readToEnd() == "")
  }

  @Test func `the deadline of a head is not moved by its bytes`() throws {
    let server = try LiveServer { $0.limits.headSeconds = 0.3 }
    defer { server.stop() }
    let client = try server.client()
    let start = Instant.now
    client.send("GET / HTTP/1.1\r\nA: ")
    var response: [UInt8] = []
    while response.isEmpty && Instant.now.seconds(since: start) < 5 {
      client.send("x")
      response = client.read(seconds: 0.02).bytes
    }
    #expect(String(decoding: response, as: UTF8.self).beginsWithBytes("HTTP/1.1 408 "))
    #expect((0.25..<2).contains(Instant.now.seconds(since: start)))
  }

  @Test func `an idle connection is closed without a word`() throws {
    let server = try LiveServer { $0.limits.idleSeconds = 0.2 }
    defer { server.stop() }
    let client = try server.client()
    client.send(get)
    let response = client.readToEnd()
    #expect(response.hasBytes("GET /a"))
    #expect(response.occurrences(of: "HTTP/1.1 ") == 1)
    #expect(!response.hasBytes("<still open>"))
  }

  @Test func `a body must keep its pace`() throws {
    let server = try LiveServer { configuration in
      configuration.limits.bodyWindowSeconds = 0.3
      configuration.limits.bodyBytesPerSecond = 100
    }
    defer { server.stop() }
    let slow = try server.client()
    slow.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\nx")
    #expect(slow.readToEnd().beginsWithBytes("HTTP/1.1 408 "))
    let steady = try server.client()
    steady.send("POST /ok HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\nConnection: close\r\n\r\n")
    for _ in 0..<10 {
      steady.send([UInt8](repeating: 0x61, count: 10))
      usleep(60_000)
    }
    #expect(steady.readToEnd().hasBytes("POST /ok aaa"))
  }

  @Test func `bodies share one budget and give it back`() throws {
    let server = try LiveServer { $0.limits.bufferedBodyBytes = 10_000 }
    defer { server.stop() }
    let holder = try server.client()
    holder.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9000\r\n\r\n")
    holder.send([UInt8](repeating: 0x61, count: 8000))
    usleep(100_000)
    let post = "POST /b HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 5000\r\n\r\n"
    let body = String(repeating: "b", count: 5000)
    let refused = try server.exchange(post + String(body.dropLast()))
    #expect(refused.beginsWithBytes("HTTP/1.1 503 "))
    holder.close()
    for _ in 0..<100 where server.listener.connectionCount > 0 { usleep(10_000) }
    #expect(try server.exchange(post + body).beginsWithBytes("HTTP/1.1 200 "))
  }

  @Test func `a refused body is given back before its client has gone`() throws {
    let server = try LiveServer {
      $0.limits.bufferedBodyBytes = 10_000
      $0.limits.lingerSeconds = 5
    }
    defer { server.stop() }
    let (holder, refused) = (try server.client(), try server.client())
    for (client, count) in [(holder, 8000), (refused, 1500)] {
      client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9000\r\n\r\n")
      client.send([UInt8](repeating: 0x61, count: count))
      usleep(100_000)
    }
    refused.send([UInt8](repeating: 0x61, count: 5000))
    usleep(100_000)
    // The server waits for the refused one to close.
    #expect(server.listener.connectionCount == 2)
    let body = String(repeating: "b", count: 1000)
    let post = "POST /b HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 1000\r\n\r\n"
    #expect(try server.exchange(post + body).beginsWithBytes("HTTP/1.1 200 "))
    #expect(refused.readToEnd(seconds: 1).beginsWithBytes("HTTP/1.1 503 "))
    holder.close()
    refused.close()
  }

  @Test func `a thousand short connections leave nothing behind`() throws {
    let server = try LiveServer()
    defer { server.stop() }
    for index in 0..<1000 {
      let client = try server.client()
      if index % 2 == 0 { client.send("GET / HT") }
      if index % 3 == 0 { client.reset() } else { client.close() }
    }
    for _ in 0..<500 where server.listener.connectionCount > 0 { usleep(10_000) }
    #expect(server.listener.connectionCount == 0)
    #expect(try server.exchange("GET /b HTTP/1.0\r\n\r\n").hasBytes("GET /b"))
  }
}

@Suite struct DrainTests {
  private let get = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n"

  @Test func `a stop ends idle connections at once and lets streams finish`() throws {
    let begun = Monitor(0)
    let release = Monitor(false)
    let server = try LiveServer { request, _ in
      guard request.path == "/stream" else { return .text("short") }
      return .events { events in
        try events.send("1")
        begun.update { $0 += 1 }
        _ = release.wait(until: .now.adding(seconds: 10)) { $0 ? true : nil }
        events.finish("[DONE]")
      }
    }
    let idle = try server.client()
    idle.send(get)
    _ = idle.read(until: "short")
    let silent = try server.client()
    let streams = try (0..<10).map { _ in
      let client = try server.client()
      client.send("GET /stream HTTP/1.1\r\nHost: h\r\n\r\n" + get)
      return client
    }
    _ = begun.wait(until: .now.adding(seconds: 5)) { $0 == 10 ? true : nil }

    let result = Monitor<Bool?>(nil)
    let stopper = try Thread(name: "stopper") { [listener = server.listener] in
      let isClean = listener.stop(drainSeconds: 10)
      result.update { $0 = isClean }
    }
    #expect(idle.readToEnd() == "")
    // Its first request was on its way, as far as the server can tell.
    silent.send(get)
    #expect(silent.readToEnd().hasSuffix("short"))
    for _ in 0..<200 where server.listener.connectionCount > 10 { usleep(5000) }
    #expect(server.listener.connectionCount == 10)
    // Whoever asks is answered, and whoever wants something new is told to go elsewhere.
    for _ in 0..<40 {
      let asked = try server.exchange(get)
      #expect(asked.beginsWithBytes("HTTP/1.1 200 ") && asked.hasBytes("\r\nconnection: close\r\n"))
      #expect(asked.hasBytes("short") && !asked.hasBytes("<still open>"))
    }
    #expect(try server.exchange("HEAD /a HTTP/1.1\r\nHost: h\r\n\r\n").beginsWithBytes("HTTP/1.1 200 "))
    for begun in [
      "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nab",
      "GET /a HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
    ] {
      let refused = try server.exchange(begun)
      #expect(refused.beginsWithBytes("HTTP/1.1 503 ") && refused.hasBytes("\r\nretry-after: "))
    }
    let late = try server.client()
    #expect(result.withLock { $0 } == nil)
    release.update { $0 = true }
    for stream in streams {
      let rest = stream.readToEnd()
      #expect(rest.hasBytes("data: [DONE]\n\n\r\n0\r\n\r\n"))
      // What was pipelined after the stream is not begun.
      #expect(!rest.hasBytes("short") && !rest.hasBytes("<still open>"))
    }
    stopper.join()
    #expect(result.withLock { $0 } == true)
    // Nobody waits for those that came late and said nothing.
    #expect(late.readToEnd() == "")
    #expect(throws: (any Error).self) { _ = try server.client() }
  }

  @Test func `probes that never end do not hold up the stop`() throws {
    let begun = Monitor(false)
    let release = Monitor(false)
    let server = try LiveServer { request, context in
      guard request.path == "/stream" else { return .text("\(context.phase)") }
      begun.update { $0 = true }
      let _: Bool? = release.wait { $0 ? true : nil }
      return .text("done")
    }
    let working = try server.client()
    working.send("GET /stream HTTP/1.1\r\nHost: h\r\n\r\n")
    _ = begun.wait(until: .now.adding(seconds: 5)) { $0 ? true : nil }
    let stopper = try Thread(name: "stopper") { [listener = server.listener] in
      listener.stop(drainSeconds: 60)
    }
    for _ in 0..<500 where server.listener.phase == .running { usleep(2000) }
    // More of them than there are places for who comes late: the oldest make room.
    let silent = try (0..<200).map { _ in try server.client() }
    // On a busy machine the threads of the last ones may not have begun to wait: then there is no place.
    var answer = try server.exchange(get)
    for _ in 0..<100 where answer.hasBytes(" 503 ") {
      usleep(10_000)
      answer = try server.exchange(get)
    }
    #expect(answer.hasBytes("draining"))
    release.update { $0 = true }
    stopper.join()
    #expect(working.readToEnd().hasBytes("done"))
    #expect(server.listener.connectionCount == 0)
    for client in silent { client.close() }
  }

  @Test func `a handler learns that the server drains and that the time is over`() throws {
    let seen = Monitor<[ConnectionContext.Phase]>([])
    let begun = Monitor(false)
    let server = try LiveServer { _, context in
      .events { events in
        try events.send("1")
        begun.update { $0 = true }
        while context.phase == .running { usleep(1000) }
        let first = context.phase
        while context.phase != .expired { usleep(1000) }
        seen.update { $0 = [first, context.phase] }
        events.finishWithError("shutting_down")
      }
    }
    let client = try server.client()
    client.send(get)
    _ = begun.wait(until: .now.adding(seconds: 5)) { $0 ? true : nil }
    #expect(!server.listener.stop(drainSeconds: 0.2))
    #expect(seen.withLock { $0 } == [.draining, .expired])
    #expect(client.readToEnd().hasBytes("data: shutting_down\n\n\r\n0\r\n\r\n"))
  }

  @Test func `a stream that ignores everything is cut`() throws {
    let begun = Monitor(false)
    let server = try LiveServer { _, _ in
      .events { events in
        begun.update { $0 = true }
        while true {
          try events.send("x")
          usleep(1000)
        }
      }
    }
    let client = try server.client()
    client.send(get)
    _ = begun.wait(until: .now.adding(seconds: 5)) { $0 ? true : nil }
    let start = Instant.now
    #expect(!server.listener.stop(drainSeconds: 0.1, graceSeconds: 0.2))
    #expect(Instant.now.seconds(since: start) < 3)
    #expect(server.listener.connectionCount == 0)
    #expect(!client.readToEnd().hasBytes("<still open>"))
  }

  @Test func `a request half sent when the stop comes is answered 503`() throws {
    let server = try LiveServer()
    let client = try server.client()
    client.send("GET / HTTP/1.1\r\nHo")
    for _ in 0..<100 where server.listener.connectionCount == 0 { usleep(1000) }
    usleep(50_000)
    let start = Instant.now
    #expect(server.listener.stop(drainSeconds: 5))
    #expect(Instant.now.seconds(since: start) < 2)
    #expect(client.readToEnd().beginsWithBytes("HTTP/1.1 503 "))
  }

  @Test func `stopping twice waits for the first stop`() throws {
    let server = try LiveServer()
    let other = try Thread(name: "other") { [listener = server.listener] in listener.stop(drainSeconds: 1) }
    server.listener.stop(drainSeconds: 1)
    other.join()
    server.listener.waitUntilStopped()
    #expect(server.listener.phase == .draining)
  }
}
