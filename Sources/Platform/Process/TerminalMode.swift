// How a terminal hands on what is typed: line by line as usual, or key by key; and back, however the process ends.

/// The terminal that is standard input. Its first settings are remembered, and `restore` brings them back.
package enum TerminalMode {
  private static let usual = Monitor<termios?>(nil)

  /// Hands on every key at once, unseen, also those that usually are signals; false where there is no terminal.
  @discardableResult
  package static func takeKeys() -> Bool {
    // With a handler of any kind, a window that changes ends the wait for a key.
    signal(SIGWINCH) { _ in }
    return change(signals: false)
  }

  /// Keeps what is typed for later, unseen; Ctrl-C and its kind are signals.
  @discardableResult
  package static func keepKeys() -> Bool { change(signals: true) }

  private static func change(signals: Bool) -> Bool {
    let first: termios? = usual.withLock { usual in
      if usual == nil { usual = current() }
      return usual
    }
    guard var mode = first else { return false }
    var hidden = tcflag_t(ECHO) | tcflag_t(ICANON) | tcflag_t(IEXTEN)
    if !signals { hidden |= tcflag_t(ISIG) }
    mode.c_lflag &= ~hidden
    // Enter and Ctrl-J stay apart.
    mode.c_iflag &= ~(tcflag_t(ICRNL) | tcflag_t(IXON))
    return tcsetattr(STDIN_FILENO, TCSADRAIN, &mode) == 0
  }

  private static func current() -> termios? {
    var mode = termios()
    return isatty(STDIN_FILENO) == 1 && tcgetattr(STDIN_FILENO, &mode) == 0 ? mode : nil
  }

  /// Brings the first settings back. Harmless where nothing was changed.
  package static func restore() {
    guard var mode = usual.withLock({ $0 }) else { return }
    _ = tcsetattr(STDIN_FILENO, TCSADRAIN, &mode)
  }

  /// Bytes that were typed; empty at the end of input, nil when none came in time or the window has
  /// changed.
  ///
  /// - Parameter seconds: how long to wait; nil for ever.
  package static func take(seconds: Double? = nil) -> [UInt8]? {
    var set = pollfd(fd: STDIN_FILENO, events: Int16(POLLIN), revents: 0)
    while true {
      let ready = poll(&set, 1, seconds.map { Int32($0 * 1000) } ?? -1)
      guard ready > 0 else { return ready == 0 || errno == EINTR ? nil : [] }
      var bytes = [UInt8](repeating: 0, count: 4096)
      let count = bytes.withUnsafeMutableBytes { read(STDIN_FILENO, $0.baseAddress, $0.count) }
      if count < 0, errno == EINTR { continue }
      return Array(bytes.prefix(max(0, count)))
    }
  }

  /// All of standard input; nil where it is longer than `limit` bytes.
  package static func readAll(limit: Int) -> [UInt8]? {
    var all: [UInt8] = []
    while true {
      // A window that changes is no end.
      guard let bytes = take() else { continue }
      if bytes.isEmpty { return all }
      all += bytes
      if all.count > limit { return nil }
    }
  }

  /// Stops the process until the shell lets it go on, as Ctrl-Z does.
  package static func suspend() {
    restore()
    raise(SIGTSTP)
  }
}
