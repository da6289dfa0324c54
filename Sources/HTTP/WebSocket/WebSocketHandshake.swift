// The upgrade of a request to a WebSocket (RFC 6455 section 4.2).

import Platform

extension Response {
  /// Whether a request asks for a WebSocket, well or badly.
  package static func isUpgrade(_ request: Request) -> Bool {
    request.headers.hasToken("websocket", in: "upgrade")
  }

  /// The answer that makes the connection a WebSocket, which `serve` gets; it blocks as long as the connection
  /// is to last. Nil when the handshake is malformed.
  ///
  /// No subprotocol and no extension is chosen.
  package static func webSocket(
    answering request: Request, settings: WebSocket.Settings = WebSocket.Settings(),
    serve: @escaping (WebSocket) -> Void
  ) -> Response? {
    guard request.method == "GET", request.minorVersion > 0, isUpgrade(request),
      request.headers.hasToken("upgrade", in: "connection"),
      request.headers["sec-websocket-version"] == "13",
      let key = request.headers.first("sec-websocket-key")?.value, WebSocketHandshake.isKey(key)
    else { return nil }
    return Response(
      status: 101,
      headers: ["upgrade": "websocket", "sec-websocket-accept": WebSocketHandshake.accept(key)],
      body: .upgrade { connection in
        let webSocket = WebSocket(connection, settings: settings)
        serve(webSocket)
        webSocket.close(1000, "")
      })
  }
}

enum WebSocketHandshake {
  private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)

  /// Sixteen bytes in base64.
  static func isKey(_ key: [UInt8]) -> Bool {
    key.count == 24 && key.suffix(2) == [0x3D, 0x3D] && key.prefix(22).allSatisfy(alphabet.contains)
  }

  /// Proves to the client that its key was read by something that speaks the protocol.
  static func accept(_ key: [UInt8]) -> String {
    var hash = SHA1()
    hash.update(key + Array("258EAFA5-E914-47DA-95CA-C5AB0DC85B11".utf8))
    return base64(hash.finish())
  }

  private static func base64(_ bytes: [UInt8]) -> String {
    var out: [UInt8] = []
    for start in stride(from: 0, to: bytes.count, by: 3) {
      let group = bytes[start..<min(start + 3, bytes.count)]
      let bits = group.reduce(UInt32(0)) { $0 << 8 | UInt32($1) } << UInt32(8 * (3 - group.count))
      for index in 0..<4 {
        let isPadding = index > group.count
        out.append(isPadding ? 0x3D : alphabet[Int(bits >> UInt32(18 - 6 * index) & 63)])
      }
    }
    return String(decoding: out, as: UTF8.self)
  }
}
