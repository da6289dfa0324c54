// A small server on a free port, as the tests of connections need it.

import HTTP
import Platform

/// Started by `init`; `stop` must be called.
final class LiveServer {
  let listener: Listener
  let port: Int

  convenience init(_ handler: @escaping Listener.Handler) throws { try self.init({ _ in }, handler: handler) }

  convenience init() throws { try self.init({ _ in }, handler: LiveServer.echo) }

  init(
    _ configure: (inout Listener.Configuration) -> Void,
    handler: @escaping Listener.Handler = LiveServer.echo
  ) throws {
    var configuration = Listener.Configuration()
    configuration.limits.lingerSeconds = 0.5
    configure(&configuration)
    listener = try Listener(configuration, handler: handler)
    guard let endpoint = try listener.start().first else {
      throw SocketError.cannotListen(host: configuration.host, port: 0, reason: "no endpoint")
    }
    port = endpoint.port
  }

  func client() throws -> RawClient { try RawClient(port: port) }

  /// Sends `text` on a connection of its own and reads until the server closes.
  func exchange(_ text: String, seconds: Double = 5) throws -> String {
    let client = try client()
    client.send(text)
    return client.readToEnd(seconds: seconds)
  }

  func stop() { listener.stop(drainSeconds: 2) }

  /// Answers with method, path and body.
  static let echo: Listener.Handler = { request, _ in
    .text("\(request.method) \(request.path) \(String(decoding: request.body, as: UTF8.self))")
  }
}

extension Response {
  static func text(_ text: String, status: Int = 200) -> Response {
    Response(status: status, contentType: "text/plain; charset=utf-8", bytes: Array(text.utf8))
  }
}
