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
    guard let descriptor = connect(host: host, port: port, until: deadline) else { return nil }
    defer { close(descriptor) }
    let bearer = key.map { "Authorization: Bearer \($0)\r\n" } ?? ""
    let request = Array("GET \(path) HTTP/1.1\r\nHost: localhost\r\n\(bearer)Connection: close\r\n\r\n".utf8)
    guard send(descriptor, request, request.count, 0) == request.count else { return nil }
    var reply: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 16 << 10)
    while reply.count < limit {
      guard Socket.wait(descriptor, for: Int32(POLLIN), until: deadline) else { return nil }
      let count = recv(descriptor, &chunk, chunk.count, 0)
      if count < 0 && (errno == EINTR || errno == EAGAIN) { continue }
      guard count > 0 else { break }
      reply += chunk[..<count]
    }
    let words = reply.prefix(64).split(separator: UInt8(ascii: " "), maxSplits: 2)
    guard words.count >= 2, words[0].starts(with: "HTTP/1.".utf8),
      let status = Int(String(decoding: words[1].prefix(3), as: UTF8.self))
    else { return nil }
    let end = reply.firstRange(of: Array("\r\n\r\n".utf8))?.upperBound ?? reply.endIndex
    return (status, Array(reply[end...]))
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
