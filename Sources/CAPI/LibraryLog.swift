// The log of a host: whole lines, one at a time, to the function that the host gave.
//
// No lock is held while that function runs, so it may call everything here. A line that comes meanwhile waits, and is
// handed on by the thread that is at it already.

import Platform

/// Lines on their way to the host. Nothing is written anywhere else.
final class LibraryLog: Sendable {
  /// `@unchecked Sendable`: the host says by giving them that they may be used on any thread.
  struct Receiver: @unchecked Sendable {
    let call: LogCallback
    let context: UnsafeMutableRawPointer?
  }

  private struct State {
    var receiver: Receiver?
    var waiting: [(level: Int32, line: String)] = []
    /// The thread that is handing on.
    var thread: ThreadID?
  }

  static let shared = LibraryLog()
  /// Lines that may wait; later ones are dropped.
  private static let room = 1000

  private let state = Monitor(State())

  /// Takes the log over, once: a library writes to nobody's standard error.
  static func begin() { _ = started }

  private static let started: Void = {
    Log.configure(level: .warning, json: false)
    Log.redirect { level, line in shared.deliver(Int32(level.rawValue), line) }
  }()

  /// Replaces the receiver, and waits until the old one is called no more.
  func set(_ receiver: Receiver?) {
    let own = ThreadID.current
    state.update { state in
      state.receiver = receiver
      state.waiting = []
    }
    // The receiver itself may replace itself: its own call is the last.
    _ = state.wait { $0.thread == nil || $0.thread == own ? true : nil }
  }

  private func deliver(_ level: Int32, _ line: String) {
    let mayGo = state.withLock { state in
      guard state.receiver != nil, state.waiting.count < Self.room else { return false }
      state.waiting.append((level, line))
      guard state.thread == nil else { return false }
      state.thread = .current
      return true
    }
    guard mayGo else { return }
    while let (receiver, next) = takeNext() {
      next.line.withCString { receiver.call(next.level, $0, receiver.context) }
    }
  }

  private func takeNext() -> (Receiver, (level: Int32, line: String))? {
    state.update { state in
      guard let receiver = state.receiver, !state.waiting.isEmpty else {
        state.thread = nil
        return nil
      }
      return (receiver, state.waiting.removeFirst())
    }
  }
}
