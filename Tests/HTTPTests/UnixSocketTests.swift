// Unix sockets: who may connect, and what becomes of the file.

import HTTP
import Platform
import Testing

@Suite struct UnixSocketTests {
  private let get = "GET /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"

  /// A path that nothing stands at, short enough for a socket.
  private func freePath() -> String { "/tmp/mlxserve-test-\(getpid())-\(UInt64.random(in: 0 ... .max)).sock" }

  private func listener(_ place: UnixPlace, tcp: Bool = false) throws -> Listener {
    var configuration = Listener.Configuration()
    configuration.listensOnTCP = tcp
    configuration.unix = place
    return try Listener(configuration) { request, context in .text("\(request.path) \(context.peer)") }
  }

  private func mode(_ path: String) -> UInt32 {
    var status = stat()
    return lstat(path, &status) == 0 ? UInt32(status.st_mode) & 0o777 : 0
  }

  @Test func `requests come over a socket, and its file goes with the server`() throws {
    let path = freePath()
    let listener = try listener(UnixPlace(path: path, mode: 0o620))
    let endpoints = try listener.start()
    #expect(endpoints.map(\.description) == ["unix:" + path])
    #expect(mode(path) == 0o620)
    let client = try RawClient(unixPath: path)
    client.send(get)
    #expect(client.readToEnd().hasBytes("/a unix"))
    listener.stop(drainSeconds: 2)
    #expect(!File.exists(path))
  }

  @Test func `a socket may stand beside TCP`() throws {
    let path = freePath()
    let listener = try listener(UnixPlace(path: path), tcp: true)
    let endpoints = try listener.start()
    #expect(endpoints.map(\.path) == [nil, path])
    let client = try RawClient(port: try #require(endpoints.first).port)
    client.send(get)
    #expect(client.readToEnd().hasBytes("/a 127.0.0.1:"))
    #expect(mode(path) == 0o600)
    listener.stop(drainSeconds: 2)
  }

  @Test func `a file that a dead server left is replaced`() throws {
    let path = freePath()
    let first = try listener(UnixPlace(path: path))
    _ = try first.start()
    // A second name keeps the file when the server removes the first.
    #expect(link(path, path + ".kept") == 0)
    first.stop(drainSeconds: 2)
    #expect(rename(path + ".kept", path) == 0)
    let second = try listener(UnixPlace(path: path))
    // A child of another test holds the first one's socket until it runs its program.
    for _ in 0..<100 where (try? second.start()) == nil { usleep(10_000) }
    let client = try RawClient(unixPath: path)
    client.send(get)
    #expect(client.readToEnd().hasBytes("/a unix"))
    second.stop(drainSeconds: 2)
  }

  @Test func `a socket that somebody listens on is not taken away`() throws {
    let path = freePath()
    let first = try listener(UnixPlace(path: path))
    _ = try first.start()
    let error = #expect(throws: SocketError.self) { try listener(UnixPlace(path: path)).start() }
    #expect(
      error?.description == "cannot listen on \(path): another program listens there. Stop it first")
    let client = try RawClient(unixPath: path)
    client.send(get)
    #expect(client.readToEnd().hasBytes("/a unix"))
    first.stop(drainSeconds: 2)
  }

  @Test func `a file that is no socket is left alone`() throws {
    let path = freePath()
    let descriptor = open(path, O_WRONLY | O_CREAT, 0o600)
    close(descriptor)
    let error = #expect(throws: SocketError.self) { try listener(UnixPlace(path: path)).start() }
    #expect(
      error?.description == "cannot listen on \(path): something other than a socket is there")
    #expect(File.exists(path))
    unlink(path)
  }

  @Test(arguments: ["", "/tmp/" + String(repeating: "a", count: 120), "/nonexistent/folder/s"])
  func `a path that cannot be is a clear error`(path: String) throws {
    let error = #expect(throws: SocketError.self) { try listener(UnixPlace(path: path)).start() }
    #expect(error?.description.hasBytes("cannot listen on \(path): ") == true)
  }

  @Test func `a socket that cannot be bound frees the port that was`() throws {
    var configuration = Listener.Configuration()
    configuration.unix = UnixPlace(path: "")
    let broken = try Listener(configuration, handler: LiveServer.echo)
    #expect(throws: SocketError.self) { try broken.start() }
  }
}
