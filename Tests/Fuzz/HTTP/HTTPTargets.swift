// Bytes from a socket: requests, chunked bodies, forms, WebSocket frames. How they are cut must not matter.

import Driver

@testable import HTTP

@_cdecl("fuzz_http_main")
public func main(_ count: CInt, _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?) -> CInt {
  Fuzz.run(
    count, arguments,
    [
      "http": requests, "chunked": chunks, "multipart": form, "websocket": frames,
    ])
}

/// How long the pieces are that an input is cut into beside the whole: its own bytes decide.
private func step(of bytes: [UInt8]) -> Int {
  [1, 2, 5, 23][Int(bytes.reduce(0, &+) & 3)]
}

private func requests(_ bytes: [UInt8]) {
  check(
    read(bytes, step: bytes.count) == read(bytes, step: step(of: bytes)),
    "a request does not depend on how it is cut")
}

/// What the parser made of a message.
private enum Read: Equatable {
  case head(method: String, path: String, fields: Int, expectsContinue: Bool)
  case body([UInt8])
  case failure(status: Int)
}

private func read(_ bytes: [UInt8], step: Int) -> [Read] {
  var parser = RequestParser()
  var found: [Read] = []
  var rest = bytes[...]
  do throws(HTTPError) {
    while true {
      switch try parser.next() {
      case .head(let request, let expects):
        found.append(
          .head(
            method: request.method, path: request.path, fields: request.headers.fields.count,
            expectsContinue: expects))
      case .body(let body): found.append(.body(body))
      case .needMore:
        if rest.isEmpty { return found }
        parser.feed(rest.prefix(max(1, step)))
        rest = rest.dropFirst(max(1, step))
      }
    }
  } catch {
    found.append(.failure(status: error.status))
  }
  return found
}

/// The body of a request whose head is good.
private func chunks(_ bytes: [UInt8]) {
  requests(Array("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".utf8) + bytes)
}

/// The first line is the content-type.
private func form(_ bytes: [UInt8]) {
  let type = bytes.prefix { $0 != UInt8(ascii: "\n") }
  let body = Array(bytes.dropFirst(type.count + 1))
  let header = String(decoding: type, as: UTF8.self)
  guard let parts = try? Multipart.parse(body, contentType: header, limit: 16) else { return }
  check(parts.count <= 16, "a form keeps its bound")
  check(parts.reduce(0) { $0 + $1.body.count } <= body.count, "parts do not overlap")
}

private func frames(_ bytes: [UInt8]) {
  let (whole, cut) = (messages(bytes, step: bytes.count), messages(bytes, step: step(of: bytes)))
  check(whole.events == cut.events && whole.code == cut.code, "a frame does not depend on how it is cut")
}

private func messages(
  _ bytes: [UInt8], step: Int
) -> (events: [WebSocketFrameReader.Event], code: UInt16?) {
  var reader = WebSocketFrameReader(messageLimit: 4096)
  var found: [WebSocketFrameReader.Event] = []
  var rest = bytes[...]
  do throws(WebSocketFrameReader.Failure) {
    while true {
      let event = try reader.next()
      guard event == .needMore else {
        found.append(event)
        continue
      }
      if rest.isEmpty { return (found, nil) }
      reader.feed(rest.prefix(max(1, step)))
      rest = rest.dropFirst(max(1, step))
    }
  } catch {
    return (found, error.code)
  }
}
