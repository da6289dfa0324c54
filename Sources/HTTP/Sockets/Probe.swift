// One request to a server of this machine, for checks: a status and a short body.

import Platform

/// A client as small as can be: for addresses as numbers, and `localhost`.
package enum Probe {
  /// The status of a GET; nil where nobody answers in time.
  package static func status(host: String, port: Int, path: String, seconds: Double) -> Int? {
    get(host: host, port: port, path: path, limit: 256, seconds: seconds)?.status
  }

  /// What a GET gives; nil where nobody answers in time. Without framing: the body is all that comes after the head.
  ///
  /// - Parameters:
  ///   - key: of the server, as it stands behind `Bearer`.
  ///   - limit: bytes of head and body; what comes after them is left out.
  package static func get(
    host: String, port: Int, path: String, key: String? = nil, limit: Int = 1 << 20, seconds: Double
  ) -> (status: Int, body: [UInt8])? {
    let deadline = Instant.now.adding(seconds: seconds)
    var body: [UInt8] = []
    let status = exchange(
      head("GET", path, key), host: host, port: port, until: { deadline },
      take: { _, piece in
        body += piece
        return body.count < limit
      })
    return status.map { ($0, body) }
  }

  /// Hands the answer to a POST of JSON on as it comes.
  ///
  /// - Parameters:
  ///   - silence: longest wait for more of it, seconds.
  ///   - take: gets the status and a piece of the body; false ends it.
  /// - Returns: the status; nil where nobody answers, or the answer breaks off in silence.
  package static func post(
    host: String, port: Int, path: String, key: String? = nil, body: [UInt8], silence: Double,
    take: (_ status: Int, _ piece: ArraySlice<UInt8>) -> Bool
  ) -> Int? {
    let fields = "Content-Type: application/json\r\nContent-Length: \(body.count)\r\n"
    return exchange(
      head("POST", path, key, fields) + body, host: host, port: port,
      until: { Instant.now.adding(seconds: silence) }, take: take)
  }

  /// Of HTTP/1.0, so that a body is all that comes after the head.
  private static func head(_ method: String, _ path: String, _ key: String?, _ fields: String = "") -> [UInt8]
  {
    let bearer = key.map { "Authorization: Bearer \($0)\r\n" } ?? ""
    return Array("\(method) \(path) HTTP/1.0\r\nHost: localhost\r\n\(bearer)\(fields)\r\n".utf8)
  }

  private static func exchange(
    _ request: [UInt8], host: String, port: Int, until deadline: () -> Instant,
    take: (_ status: Int, _ piece: ArraySlice<UInt8>) -> Bool
  ) -> Int? {
    guard let descriptor = connect(host: host, port: port, until: deadline()) else { return nil }
    let socket = Socket(accepted: descriptor, sendBufferBytes: 0)
    defer { socket.shut() }
    // Who has heard enough of it may have answered.
    try? socket.send(request, stallSeconds: deadline().seconds(since: .now))
    var head: [UInt8] = []
    var status: Int?
    while let reading = try? socket.receive(most: 16 << 10, until: deadline()) {
      guard case .bytes(let bytes) = reading else {
        if case .end = reading { return status }
        return nil
      }
      if let status {
        if !take(status, bytes[...]) { return status }
        continue
      }
      head += bytes
      guard let end = head.firstRange(of: Array("\r\n\r\n".utf8))?.upperBound else { continue }
      let words = head.prefix(64).split(separator: UInt8(ascii: " "), maxSplits: 2)
      guard words.count >= 2, words[0].starts(with: "HTTP/1.".utf8),
        let number = Int(String(decoding: words[1].prefix(3), as: UTF8.self))
      else { return nil }
      status = number
      if end < head.count, !take(number, head[end...]) { return number }
    }
    return status
  }

  /// Whether a server could listen there now.
  package static func isFree(host: String, port: Int) -> Bool {
    guard let (family, bytes) = address(host: host, port: port) else { return false }
    let descriptor = socket(family, ListeningSocket.streamType, 0)
    guard descriptor >= 0 else { return false }
    defer { close(descriptor) }
    var on: Int32 = 1
    setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, socklen_t(MemoryLayout<Int32>.size))
    return bytes.withUnsafeBytes { raw in
      raw.withMemoryRebound(to: sockaddr.self) { buffer in
        guard let base = buffer.baseAddress else { return false }
        return bind(descriptor, base, socklen_t(bytes.count)) == 0 && listen(descriptor, 1) == 0
      }
    }
  }

  private static func connect(host: String, port: Int, until deadline: Instant) -> Int32? {
    guard let (family, bytes) = address(host: host, port: port) else { return nil }
    let descriptor = socket(family, ListeningSocket.streamType, 0)
    guard descriptor >= 0 else { return nil }
    _ = fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK)
    let result = bytes.withUnsafeBytes { raw in
      raw.withMemoryRebound(to: sockaddr.self) { buffer -> Int32 in
        guard let base = buffer.baseAddress else { return -1 }
        return Platform.connect(descriptor, base, socklen_t(bytes.count))
      }
    }
    var failure: Int32 = 0
    var size = socklen_t(MemoryLayout<Int32>.size)
    guard result == 0 || errno == EINPROGRESS,
      result == 0 || Socket.wait(descriptor, for: Int32(POLLOUT), until: deadline),
      getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &failure, &size) == 0, failure == 0
    else {
      close(descriptor)
      return nil
    }
    return descriptor
  }

  /// A socket address as bytes.
  private static func address(host: String, port: Int) -> (family: Int32, bytes: [UInt8])? {
    guard let number = UInt16(exactly: port) else { return nil }
    let name = host.utf8.elementsEqual("localhost".utf8) ? "127.0.0.1" : host
    var v4 = sockaddr_in()
    if inet_pton(AF_INET, name, &v4.sin_addr) == 1 {
      v4.sin_family = sa_family_t(AF_INET)
      v4.sin_port = number.bigEndian
      return (AF_INET, withUnsafeBytes(of: &v4) { Array($0) })
    }
    var v6 = sockaddr_in6()
    guard inet_pton(AF_INET6, name, &v6.sin6_addr) == 1 else { return nil }
    v6.sin6_family = sa_family_t(AF_INET6)
    v6.sin6_port = number.bigEndian
    return (AF_INET6, withUnsafeBytes(of: &v6) { Array($0) })
  }
}
