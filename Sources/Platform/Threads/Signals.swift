// The signals of a server: asked to end, told that a pipe has no reader.
//
// A handler may do almost nothing, so it writes the signal's number into a pipe, and a thread reads it there.
// Handlers rather than `sigwait`: that needs every thread of the process to have the signal blocked.

/// What the process does at signals; each function sets it for as long as the process runs.
package enum Signals {
  /// What is done at a signal, and how many have come since it was set.
  private struct Reaction: Sendable {
    let hangUp: (@Sendable () -> Void)?
    let body: @Sendable (_ count: Int, _ signal: Int32) -> Void
    var count = 0
  }

  private static let reaction = Monitor<Reaction?>(nil)

  /// Calls `body` on a thread of its own at every SIGTERM, SIGINT and SIGHUP: ask for the end politely
  /// at the first, leave at once at the second. What was set before is replaced, and its count forgotten.
  ///
  /// - Parameters:
  ///   - hangUp: called at SIGHUP instead, which then asks for something else, such as reading a file again.
  ///   - body: gets how many such signals have come, from 1, and which one this is. A shell expects
  ///     `128 + signal` as exit code of a program that ends at once.
  /// - Throws: `PlatformError` when no pipe or thread can be made.
  package static func onTermination(
    hangUp: (@Sendable () -> Void)? = nil, _ body: @escaping @Sendable (_ count: Int, _ signal: Int32) -> Void
  ) throws(PlatformError) {
    let pipe = try terminationPipe.get()
    let isFirst = reaction.withLock { reaction in
      defer { reaction = Reaction(hangUp: hangUp, body: body) }
      return reaction == nil
    }
    guard isFirst else { return }
    let thread = try Thread(name: "signals", stackBytes: 256 << 10) {
      while true {
        pipe.wait()
        for signal in pipe.drain() { react(to: Int32(signal)) }
      }
    }
    thread.detach()
    // Read once here, so that the handler never is the one to initialise it.
    guard terminationDescriptor >= 0 else { return }
    for number in [SIGTERM, SIGINT, SIGHUP] { signal(number, noteTermination) }
  }

  private static func react(to signal: Int32) {
    let current = reaction.withLock { current -> Reaction? in
      if signal != SIGHUP || current?.hangUp == nil { current?.count += 1 }
      return current
    }
    guard let current else { return }
    if signal == SIGHUP, let hangUp = current.hangUp {
      hangUp()
    } else {
      current.body(current.count, signal)
    }
  }

  /// A mask that blocks every signal but those that a thread's own faults raise.
  static var faultsOnly: sigset_t {
    var mask = sigset_t()
    sigfillset(&mask)
    for fault in [SIGILL, SIGTRAP, SIGSEGV, SIGABRT, SIGBUS, SIGFPE] { sigdelset(&mask, fault) }
    return mask
  }

  /// Makes writing to a closed pipe or socket an error instead of the end of the process.
  package static func ignorePipe() { ignore([SIGPIPE]) }

  /// Makes these signals have no effect.
  package static func ignore(_ signals: [Int32]) {
    for signal in signals { Platform.signal(signal, SIG_IGN) }
  }

  /// Made before any handler is installed: a handler must find it ready.
  private static let terminationPipe: Result<WakePipe, PlatformError> = {
    do throws(PlatformError) {
      return .success(try WakePipe())
    } catch {
      return .failure(error)
    }
  }()

  fileprivate static let terminationDescriptor: Int32 = (try? terminationPipe.get())?.writeEnd ?? -1
}

/// The handler itself. `signal` has BSD semantics on every system here: it stays, and calls are restarted.
private func noteTermination(_ signal: Int32) {
  WakePipe.send(UInt8(truncatingIfNeeded: signal), to: Signals.terminationDescriptor)
}
