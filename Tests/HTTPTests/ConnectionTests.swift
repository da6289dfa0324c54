// Connections over real sockets: what a client sees.

import HTTP
import Platform
import Testing

@Suite struct ConnectionTests {
  private let get = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n"
  private let close = "GET /last HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"

  /// What follows the head of the first response in `text`.
  private func body(_ text: String) -> String {
    let bytes = Array(text.utf8)
    for index in bytes.indices.dropLast(3) where bytes[index...].starts(with: "\r\n\r\n".utf8) {
      return String(decoding: bytes[(index + 4)...], as: UTF8.self)
    }
    return "<no head>"
  }

  @Test func `a response has its length, date and identifier`() throws {
    let server = try LiveServer()
    defer { server.stop() }
    let response = try server.exchange(
      "POST /x?q HTTP/1.1\r\nHost: h\r\nX-Request-Id: id-1\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi"
    )
    #expect(response.beginsWithBytes("HTTP/1.1 200 OK\r\n"))
    for line in ["content-length: 10", "connection: close", "x-request-id: id-1", "date: "] {
      #expect(response.hasBytes("\r\n" + line), "\(line)")
    }
    #expect(body(response) == "POST /x hi")
  }

  @Test func `a hundred pipelined requests are answered in order on one connection`() throws {
    let server = try LiveServer()
    defer { server.stop() }
    let requests = (0..<99).map { "GET /\($0) HTTP/1.1\r\nHost: h\r\n\r\n" }.joined()
    let response = try server.exchange(requests + close)
    #expect(response.occurrences(of: "HTTP/1.1 200 OK") == 100)
    var rest = response
    for index in 0..<99 {
      #expect(body(rest).beginsWithBytes("GET /\(index) HTTP/1.1"), "\(index)")
      rest = body(rest)
    }
  }

  @Test func `a request sent byte by byte is the same request`() throws {
    let server = try LiveServer()
    defer { server.stop() }
    let client = try server.client()
    for byte in "POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n".utf8 {
      client.send([byte])
      usleep(200)
    }
    client.send(close)
    #expect(client.readToEnd().hasBytes("POST /x hiHTTP/1.1 200"))
  }

  @Test func `a good request before a bad one is answered first`() throws {
    let server = try LiveServer()
    defer { server.stop() }
    let response = try server.exchange(get + "Invalid\r\n\r\n" + get)
    #expect(response.occurrences(of: "HTTP/1.1 ") == 2)
    #expect(response.hasBytes("GET /a HTTP/1.1 400 Bad Request"))
    #expect(!response.hasBytes("<still open>"))
  }

  @Test func `HEAD has the head of GET and no body`() throws {
    let server = try LiveServer()
    defer { server.stop() }
    let response = try server.exchange("HEAD /a HTTP/1.1\r\nHost: h\r\n\r\n" + close)
    #expect(response.hasBytes("content-length: 8\r\n"))
    #expect(body(response).beginsWithBytes("HTTP/1.1 200 OK"))
  }

  @Test func `HTTP 1.0 closes, or stays when asked to`() throws {
    let server = try LiveServer()
    defer { server.stop() }
    #expect(try server.exchange("GET /a HTTP/1.0\r\n\r\n").hasBytes("connection: close"))
    let both = try server.exchange("GET /a HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\nGET /b HTTP/1.0\r\n\r\n")
    #expect(both.occurrences(of: "connection: keep-alive") == 1)
    #expect(both.hasBytes("GET /b "))
  }

  @Test func `a client that waits for 100 Continue gets it and one that does not wait does not`() throws {
    let server = try LiveServer()
    defer { server.stop() }
    let head =
      "POST /x HTTP/1.1\r\nHost: h\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"
    let client = try server.client()
    client.send(head)
    #expect(client.read(until: "\r\n\r\n") == "HTTP/1.1 100 Continue\r\n\r\n")
    client.send("hi")
    #expect(body(client.readToEnd()) == "POST /x hi")
    #expect(try server.exchange(head + "hi").beginsWithBytes("HTTP/1.1 200"))
  }

  @Test func `a refused upload is refused before it is sent`() throws {
    let server = try LiveServer { configuration in
      configuration.limits.bodyBytes = 100
      configuration.screen = { request, _ in request.path == "/no" ? .text("denied", status: 401) : nil }
    }
    defer { server.stop() }
    let large = try server.exchange(
      "POST /x HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 101\r\n\r\n")
    #expect(large.beginsWithBytes("HTTP/1.1 413 "))
    let denied = try server.exchange(
      "POST /no HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n")
    #expect(denied.beginsWithBytes("HTTP/1.1 401 "))
    #expect(denied.occurrences(of: "HTTP/1.1 ") == 1)
    #expect(denied.hasBytes("connection: close"))
  }

  @Test func `an early answer to a small body keeps the connection`() throws {
    let server = try LiveServer { configuration in
      configuration.screen = { request, _ in request.path == "/no" ? .text("denied", status: 401) : nil }
    }
    defer { server.stop() }
    let response = try server.exchange("POST /no HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi" + close)
    #expect(response.beginsWithBytes("HTTP/1.1 401 "))
    #expect(response.hasBytes("deniedHTTP/1.1 200 OK"))
  }

  @Test func `an early answer to a large body can be read by a client that sends it all first`() throws {
    let server = try LiveServer { configuration in
      configuration.screen = { _, _ in .text("not here", status: 404) }
    }
    defer { server.stop() }
    let client = try server.client()
    client.send("POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 5000000\r\n\r\n")
    #expect(client.send([UInt8](repeating: 0x61, count: 5_000_000)))
    #expect(body(client.readToEnd()) == "not here")
  }

  @Test func `an error can be read while the client still sends`() throws {
    let server = try LiveServer()
    defer { server.stop() }
    let client = try server.client()
    client.send("GET / HTTP/1.1\r\nHost: h\r\nA: ")
    client.send([UInt8](repeating: 0x61, count: 1 << 20))
    let response = client.readToEnd()
    #expect(response.beginsWithBytes("HTTP/1.1 431 "))
    #expect(response.occurrences(of: "HTTP/1.1 ") == 1)
  }

  @Test func `a client that ends its sending after the request gets the whole response`() throws {
    let body = [UInt8](repeating: 0x62, count: 3 << 20)
    let server = try LiveServer { _, _ in Response(contentType: "x/y", bytes: body) }
    defer { server.stop() }
    let client = try server.client()
    client.send(get)
    client.endSending()
    #expect(client.read().bytes.count > body.count)
  }

  @Test func `a body cut short has no effect and the connection ends`() throws {
    let calls = Monitor(0)
    let server = try LiveServer { _, _ in
      calls.update { $0 += 1 }
      return .text("x")
    }
    defer { server.stop() }
    let client = try server.client()
    client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nhalf")
    client.endSending()
    #expect(client.readToEnd() == "")
    #expect(calls.withLock { $0 } == 0)
  }

  @Test func `the last request of a connection says so`() throws {
    let server = try LiveServer { $0.limits.requestsPerConnection = 3 }
    defer { server.stop() }
    let response = try server.exchange(get + get + get + get)
    #expect(response.occurrences(of: "HTTP/1.1 200 OK") == 3)
    #expect(response.occurrences(of: "connection: close") == 1)
  }

  @Test func `a large response reaches a slow reader whole`() throws {
    let body = (0..<2_000_000).map { UInt8(truncatingIfNeeded: $0) }
    let server = try LiveServer { _, _ in Response(contentType: "x/y", bytes: body) }
    defer { server.stop() }
    let client = try RawClient(port: server.port, receiveBufferBytes: 4096)
    client.send(close)
    usleep(50_000)
    #expect(client.read(seconds: 20).bytes.suffix(body.count).elementsEqual(body))
  }

  @Test func `204 and 304 have neither body nor length`() throws {
    let server = try LiveServer { request, _ in
      Response(status: request.path == "/a" ? 204 : 304, body: .bytes([1]))
    }
    defer { server.stop() }
    let response = try server.exchange(get + close)
    #expect(response.beginsWithBytes("HTTP/1.1 204 No Content\r\n"))
    #expect(!response.hasBytes("content-length"))
    #expect(body(response).beginsWithBytes("HTTP/1.1 304 Not Modified\r\n"))
  }

  @Test func `each response is logged with what was asked and sent`() throws {
    let records = Monitor<[AccessRecord]>([])
    let server = try LiveServer { configuration in
      configuration.log = { record in records.update { $0.append(record) } }
    }
    defer { server.stop() }
    _ = try server.exchange("POST /x?secret=1 HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhiBAD\r\n")
    let all = records.wait(until: .now.adding(seconds: 5)) { $0.count == 2 ? $0 : nil } ?? []
    #expect(
      all.map { "\($0.method) \($0.path) \($0.status) \($0.bytes) \($0.isComplete)" }.first
        == "POST /x 200 10 true")
    #expect(all.last?.status == 400)
    #expect(all.first?.peer.address == "127.0.0.1")
    #expect(all.first?.requestID.beginsWithBytes("req_") == true)
  }

  @Test func `every response to a request passes the last touch, and the log knows route and error`() throws {
    let records = Monitor<[AccessRecord]>([])
    let server = try LiveServer { configuration in
      configuration.limits.bodyBytes = 10
      configuration.screen = { request, context in
        context.client = ClientIdentity(number: 7, name: "alice")
        return request.path == "/no" ? .text("denied", status: 401) : nil
      }
      configuration.finish = { response, request, _ in
        var response = response
        response.headers.add("x-path", request.path)
        return response
      }
      configuration.log = { record in records.update { $0.append(record) } }
    }
    defer { server.stop() }
    for (head, status) in [
      ("GET /a", "200"), ("GET /no", "401"), ("POST /long", "413"), ("POST /chunked", "413"),
    ] {
      let path = String(head.split(separator: " ")[1])
      let body =
        path == "/long"
        ? "Content-Length: 11\r\n\r\n"
        : path == "/chunked" ? "Transfer-Encoding: chunked\r\n\r\nb\r\nhello world\r\n0\r\n\r\n" : "\r\n"
      let response = try server.exchange("\(head) HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\(body)")
      #expect(response.beginsWithBytes("HTTP/1.1 \(status) "), "\(response)")
      #expect(response.hasBytes("\r\nx-path: \(path)\r\n"))
      #expect(response.occurrences(of: "HTTP/1.1 ") == 1)
    }
    let all = records.wait(until: .now.adding(seconds: 5)) { $0.count == 4 ? $0 : nil } ?? []
    #expect(
      all.map { "\($0.path) \($0.errorCode ?? "-") \($0.client.name ?? "-")" } == [
        "/a - alice", "/no - alice", "/long request_too_large alice", "/chunked request_too_large alice",
      ])
  }

  @Test func `messages about limits name the numbers`() throws {
    #expect("\(HTTPError.timeout("head", seconds: 10))".hasBytes("within 10 seconds"))
    #expect(
      "\(HTTPError.bodyTooSlow(bytesPerSecond: 1024, seconds: 2.5))".hasBytes(
        "less than 1024 bytes per second for 2.5 seconds"))
    #expect(HTTPError.bodyTooSlow(bytesPerSecond: 1, seconds: 1).status == 408)
  }

  @Test func `error bodies are made by the caller`() throws {
    let server = try LiveServer { configuration in
      configuration.errors = ErrorFormat(contentType: "application/json") { error, _, _ in
        Array("{\"code\":\"\(error.code)\"}".utf8)
      }
    }
    defer { server.stop() }
    let response = try server.exchange("BAD\r\n")
    #expect(response.hasBytes("content-type: application/json\r\n"))
    #expect(body(response) == "{\"code\":\"bad_http\"}")
  }
}
