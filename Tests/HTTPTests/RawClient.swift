// A socket that sends exactly the bytes a test says, and reads what comes back.

import Platform

/// One connection to a server on this machine. Closed by `close`, or when the value goes.
final class RawClient {
  private var descriptor: Int32

  init(port: Int, receiveBufferBytes: Int32? = nil) throws {
    #if canImport(Darwin)
      descriptor = socket(AF_INET, SOCK_STREAM, 0)
    #else
      descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    #endif
    if var size = receiveBufferBytes {
      setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &size, socklen_t(MemoryLayout<Int32>.size))
    }
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = UInt16(port).bigEndian
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    let status = withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
      }
    }
    guard status == 0 else {
      let code = errno
      close()
      throw PlatformError.system(action: "connect to port \(port)", code: code)
    }
  }

  /// A connection to a Unix socket.
  init(unixPath: String) throws {
    #if canImport(Darwin)
      descriptor = socket(AF_UNIX, SOCK_STREAM, 0)
    #else
      descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
    #endif
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: unixPath.utf8) }
    let status = withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
      }
    }
    guard status == 0 else {
      let code = errno
      close()
      throw PlatformError.system(action: "connect to \(unixPath)", code: code)
    }
  }

  deinit { close() }

  /// Sends everything; false when the server has closed.
  @discardableResult
  func send(_ bytes: [UInt8]) -> Bool {
    #if canImport(Darwin)
      let flags: Int32 = 0
    #else
      let flags = Int32(MSG_NOSIGNAL)
    #endif
    var sent = 0
    while sent < bytes.count {
      let count = bytes.withUnsafeBytes {
        Platform.send(descriptor, $0.baseAddress.map { $0 + sent }, bytes.count - sent, flags)
      }
      if count < 0 && errno == EINTR { continue }
      guard count > 0 else { return false }
      sent += count
    }
    return true
  }

  @discardableResult
  func send(_ text: String) -> Bool { send(Array(text.utf8)) }

  /// What arrives within `seconds`, at most; stops at the end of the stream and once `enough` says so.
  func read(seconds: Double = 5, enough: ([UInt8]) -> Bool = { _ in false }) -> (bytes: [UInt8], ended: Bool)
  {
    let deadline = Instant.now.adding(seconds: seconds)
    var all: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 1 << 16)
    while !enough(all) {
      var set = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
      let left = (deadline.nanoseconds - Instant.now.nanoseconds) / 1_000_000
      guard left > 0 else { return (all, false) }
      let ready = poll(&set, 1, Int32(clamping: left))
      if ready < 0 && errno == EINTR { continue }
      guard ready > 0 else { return (all, false) }
      let count = chunk.withUnsafeMutableBytes { recv(descriptor, $0.baseAddress, $0.count, 0) }
      if count < 0 && errno == EINTR { continue }
      guard count > 0 else { return (all, true) }
      all += chunk[..<count]
    }
    return (all, false)
  }

  /// Everything until the server closes, as text.
  func readToEnd(seconds: Double = 5) -> String {
    let (bytes, ended) = read(seconds: seconds)
    return String(decoding: bytes, as: UTF8.self) + (ended ? "" : "<still open>")
  }

  /// Reads until `mark` has come `count` times.
  func read(until mark: String, count: Int = 1, seconds: Double = 5) -> String {
    let (bytes, _) = read(seconds: seconds) {
      String(decoding: $0, as: UTF8.self).occurrences(of: mark) >= count
    }
    return String(decoding: bytes, as: UTF8.self)
  }

  func endSending() {
    #if canImport(Darwin)
      shutdown(descriptor, SHUT_WR)
    #else
      shutdown(descriptor, Int32(SHUT_WR))
    #endif
  }

  /// Closes with a reset instead of an orderly end.
  func reset() {
    var option = linger(l_onoff: 1, l_linger: 0)
    setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
    close()
  }

  func close() {
    if descriptor >= 0 { Platform.close(descriptor) }
    descriptor = -1
  }
}

extension String {
  /// How often `other` occurs, by bytes and without overlaps.
  func occurrences(of other: String) -> Int {
    let text = Array(utf8)
    let part = Array(other.utf8)
    var count = 0
    var index = 0
    while !part.isEmpty && index + part.count <= text.count {
      if text[index..<(index + part.count)].elementsEqual(part) {
        count += 1
        index += part.count
      } else {
        index += 1
      }
    }
    return count
  }

  func hasBytes(_ other: String) -> Bool { occurrences(of: other) > 0 }

  func beginsWithBytes(_ other: String) -> Bool { utf8.starts(with: other.utf8) }
}
