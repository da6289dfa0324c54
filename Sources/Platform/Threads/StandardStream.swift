// Unbuffered writes to the standard streams, and log lines that never block their writer.

/// The descriptors 0 to 2 that every program is started with.
package enum StandardStream {
  /// Writes all of `text`, retrying interrupted and partial writes and waiting for a slow reader; false when
  /// the stream is gone.
  @discardableResult
  package static func write(_ text: String, to descriptor: Int32) -> Bool {
    var rest = Array(text.utf8)[...]
    while !rest.isEmpty {
      let count = rest.withUnsafeBytes { Platform.write(descriptor, $0) }
      if count < 0 && errno == EINTR { continue }
      if count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) {
        var set = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        _ = poll(&set, 1, -1)
        continue
      }
      guard count > 0 else { return false }
      rest = rest.dropFirst(count)
    }
    return true
  }

  /// The width of a terminal; nil where the stream is none, or does not say.
  package static func columns(of descriptor: Int32) -> Int? {
    var size = winsize()
    guard ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return nil }
    return Int(size.ws_col)
  }

  /// Opens `/dev/null` in place of standard streams that the process was started without: else the first
  /// file or socket opened would get their number, and log lines would go there. Called first in a program.
  package static func openMissing() {
    for descriptor in STDIN_FILENO...STDERR_FILENO where fcntl(descriptor, F_GETFD) < 0 && errno == EBADF {
      // The lowest free number is taken, which is this one: all below it are open.
      _ = open("/dev/null", O_RDWR)
    }
  }
}

/// Writes whole lines, one call each; a line that would have to wait for the reader is dropped and counted.
final class LineWriter: Sendable {
  private let descriptor: Int32
  private let dropped = Monitor(0)

  init(descriptor: Int32) { self.descriptor = descriptor }

  /// Writes `line` and a line end, or drops it. `report` makes the line that tells how many were dropped; it
  /// comes first when there is room again.
  func write(_ line: String, report: (Int) -> String) {
    // The lock keeps other threads from filling the room that poll has just found.
    dropped.withLock { dropped in
      guard isWritable else {
        dropped += 1
        return
      }
      if dropped > 0 {
        StandardStream.write(report(dropped) + "\n", to: descriptor)
        dropped = 0
        guard isWritable else {
          dropped = 1
          return
        }
      }
      StandardStream.write(line + "\n", to: descriptor)
    }
  }

  /// A pipe that poll calls writable takes at least 4096 bytes (PIPE_BUF) at once; a line is shorter.
  private var isWritable: Bool {
    var set = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
    return poll(&set, 1, 0) == 1 && Int32(set.revents) & (POLLNVAL | POLLERR) == 0
  }
}

private func write(_ descriptor: Int32, _ bytes: UnsafeRawBufferPointer) -> Int {
  #if canImport(Darwin)
    Darwin.write(descriptor, bytes.baseAddress, bytes.count)
  #elseif canImport(Glibc)
    Glibc.write(descriptor, bytes.baseAddress, bytes.count)
  #else
    Musl.write(descriptor, bytes.baseAddress, bytes.count)
  #endif
}
