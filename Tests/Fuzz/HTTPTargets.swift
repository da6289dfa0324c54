// Bytes from a socket: requests, chunked bodies, forms, WebSocket frames. How they are cut must not matter.

@testable import HTTP

enum HTTPTargets {
  static func requests(_ bytes: [UInt8]) {
    check(
      read(bytes, step: bytes.count) == read(bytes, step: 1), "a request does not depend on how it is cut")
  }

  /// What the parser made of the bytes, in words.
  private static func read(_ bytes: [UInt8], step: Int) -> [String] {
    var parser = RequestParser()
    var found: [String] = []
    var rest = bytes[...]
    do throws(HTTPError) {
      while true {
        switch try parser.next() {
        case .head(let request, let expects): found.append("\(request.method) \(request.path) \(expects)")
        case .body(let body): found.append("\(body.count)")
        case .needMore:
          if rest.isEmpty { return found }
          parser.feed(rest.prefix(max(1, step)))
          rest = rest.dropFirst(max(1, step))
        }
      }
    } catch {
      found.append("\(error.status)")
    }
    return found
  }

  /// The body of a request whose head is good.
  static func chunks(_ bytes: [UInt8]) {
    requests(Array("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".utf8) + bytes)
  }

  /// The first line is the content-type.
  static func form(_ bytes: [UInt8]) {
    let type = bytes.prefix { $0 != UInt8(ascii: "\n") }
    let body = Array(bytes.dropFirst(type.count + 1))
    let header = String(decoding: type, as: UTF8.self)
    guard let parts = try? Multipart.parse(body, contentType: header, limit: 16) else { return }
    check(parts.count <= 16, "a form keeps its bound")
    check(parts.reduce(0) { $0 + $1.body.count } <= body.count, "parts do not overlap")
  }

  static func frames(_ bytes: [UInt8]) {
    check(
      messages(bytes, step: bytes.count) == messages(bytes, step: 1),
      "a frame does not depend on how it is cut")
  }

  private static func messages(_ bytes: [UInt8], step: Int) -> [String] {
    var reader = WebSocketFrameReader(messageLimit: 4096)
    var found: [String] = []
    var rest = bytes[...]
    do throws(WebSocketFrameReader.Failure) {
      while true {
        let event = try reader.next()
        guard event == .needMore else {
          found.append("\(event)")
          continue
        }
        if rest.isEmpty { return found }
        reader.feed(rest.prefix(max(1, step)))
        rest = rest.dropFirst(max(1, step))
      }
    } catch {
      found.append("\(error.code)")
    }
    return found
  }
}
