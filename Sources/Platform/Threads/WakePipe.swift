// A pipe to oneself: wakes a thread that waits in poll, from other threads and from signal handlers.

/// For any thread; both ends are closed when the last reference goes.
package final class WakePipe: Sendable {
  /// Readable after `wake`, until `drain`.
  package let readEnd: Int32
  let writeEnd: Int32

  package init() throws(PlatformError) {
    var ends: [Int32] = [-1, -1]
    guard pipe(&ends) == 0 else { throw .system(action: "make a pipe", code: errno) }
    readEnd = ends[0]
    writeEnd = ends[1]
    for end in ends {
      _ = fcntl(end, F_SETFD, FD_CLOEXEC)
      // A full pipe is a pending wake already: writing must not wait.
      _ = fcntl(end, F_SETFL, fcntl(end, F_GETFL) | O_NONBLOCK)
    }
  }

  /// Makes `readEnd` readable; never waits.
  package func wake() { Self.send(0, to: writeEnd) }

  /// Takes and returns what was sent since the last call.
  package func drain() -> [UInt8] {
    var all: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 64)
    while all.count < 1 << 16 {
      let count = chunk.withUnsafeMutableBytes { read(readEnd, $0.baseAddress, $0.count) }
      if count < 0 && errno == EINTR { continue }
      guard count > 0 else { break }
      all += chunk[..<count]
    }
    return all
  }

  /// Waits until `wake` has been called.
  package func wait() {
    var set = pollfd(fd: readEnd, events: Int16(POLLIN), revents: 0)
    while poll(&set, 1, -1) < 0 && errno == EINTR {}
  }

  /// Async-signal-safe: no allocation, no lock, `errno` kept.
  static func send(_ byte: UInt8, to descriptor: Int32) {
    let saved = errno
    var byte = byte
    while write(descriptor, &byte, 1) < 0 && errno == EINTR {}
    errno = saved
  }

  deinit {
    close(readEnd)
    close(writeEnd)
  }
}
