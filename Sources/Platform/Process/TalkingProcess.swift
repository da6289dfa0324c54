// Another program that stays: lines to its standard input, lines from its standard output.

/// A program that runs until it is let go. Its errors go nowhere. One thread reads; any thread writes, one at a time.
package final class TalkingProcess: Sendable {
  private let process: pid_t
  private let (input, output): (Int32, Int32)
  /// Whether the program was ended, and how many write to it: a descriptor that is closed may be another file's at once.
  private let state = Monitor((isEnded: false, writers: 0))
  /// How long a writer does not look whether that is so, seconds.
  private static let lookSeconds = 0.05
  /// How long it may take to end by itself once its input has ended, seconds.
  private static let endSeconds = 1.0

  /// - Parameters:
  ///   - program: an absolute path. It has no bounds: whoever runs this machine has chosen it.
  ///   - environment: `NAME=VALUE`; nothing else is inherited.
  ///   - folder: where it runs; nil for where this process does.
  package init(
    _ program: String, _ arguments: [String], environment: [String], folder: String? = nil
  ) throws(PlatformError) {
    (process, input, output) = try ChildProcess.talk(program, arguments, environment, folder)
  }

  /// Writes all bytes.
  ///
  /// - Returns: false where the program does not take them in time, or reads no more.
  package func write(_ bytes: [UInt8], until deadline: Instant) -> Bool {
    let isOpen = state.withLock { state in
      if !state.isEnded { state.writers += 1 }
      return !state.isEnded
    }
    guard isOpen else { return false }
    defer { state.update { $0.writers -= 1 } }
    var rest = bytes[...]
    while !rest.isEmpty {
      let left = deadline.seconds(since: .now)
      guard left > 0, !state.withLock({ $0.isEnded }) else { return false }
      var set = pollfd(fd: input, events: Int16(POLLOUT), revents: 0)
      guard poll(&set, 1, Int32(min(left, Self.lookSeconds) * 1000) + 1) > 0 else { continue }
      let count = rest.withUnsafeBytes { Platform.write(input, $0.baseAddress, $0.count) }
      if count < 0, errno == EINTR || errno == EAGAIN { continue }
      guard count > 0 else { return false }
      rest = rest.dropFirst(count)
    }
    return true
  }

  /// Waits for the next bytes; empty at the end.
  package func read() -> [UInt8] {
    var chunk = [UInt8](repeating: 0, count: 64 << 10)
    while true {
      let count = chunk.withUnsafeMutableBytes { Platform.read(output, $0.baseAddress, $0.count) }
      if count < 0, errno == EINTR { continue }
      return Array(chunk.prefix(max(0, count)))
    }
  }

  /// Ends its input, and kills it and its children if that does not end it. Whoever reads gets the end then.
  package func end() {
    let isFirst = state.withLock { state in
      defer { state.isEnded = true }
      return !state.isEnded
    }
    guard isFirst else { return }
    state.wait { $0.writers == 0 ? () : nil }
    close(input)
    ChildProcess.end(process, within: Self.endSeconds)
  }

  deinit {
    end()
    close(output)
  }
}
