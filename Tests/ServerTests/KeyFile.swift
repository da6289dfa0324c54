// A key file of a test, and a door with what is behind it.

import HTTP
import Platform
import Server

final class KeyFile {
  let path = "/tmp/mlxserve-test-keys-\(getpid())-\(UInt64.random(in: 0 ... .max))"

  init(_ text: String) { write(text) }

  func write(_ text: String) {
    let descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
    StandardStream.write(text, to: descriptor)
    close(descriptor)
  }

  deinit { unlink(path) }
}

/// A door as a listener uses it, its application open.
struct Door {
  let door: Host
  let configuration: Listener.Configuration

  /// What is answered before the body is read; nil lets the request in.
  func screen(
    _ method: String, _ path: String, headers: Headers = ["host": "localhost"],
    context: ConnectionContext = ConnectionContext()
  ) throws -> Answer? {
    let request = try Request(method, path, headers: headers)
    guard let response = configuration.screen?(request, context) else { return nil }
    return Answer(
      status: response.status, headers: response.headers,
      text: String(decoding: try response.collectedBody(), as: UTF8.self))
  }

  /// The whole way of a request.
  func send(
    _ method: String, _ path: String, headers: Headers = ["host": "localhost"], body: String = "",
    context: ConnectionContext = ConnectionContext()
  ) throws -> Answer {
    var request = try Request(method, path, headers: headers)
    var response = configuration.screen?(request, context)
    if response == nil {
      request.body = Array(body.utf8)
      response = door.respond(to: request, context)
    }
    let inner = response ?? Response()
    let outer = configuration.finish?(inner, request, context) ?? inner
    return Answer(
      status: outer.status, headers: outer.headers,
      text: String(decoding: try outer.collectedBody(), as: UTF8.self))
  }
}

func makeDoor(
  _ app: App?, metrics: Metrics = Metrics(), page: Page? = nil, entrance: Entrance = .only,
  configure: (inout Access.Settings) throws -> Void = { _ in }
) throws -> Door {
  var settings = Access.Settings()
  try configure(&settings)
  let door = Host(access: try Access(settings), metrics: metrics, page: page)
  if let app { door.open(app) }
  return Door(door: door, configuration: door.configured(as: entrance))
}
