// A POSIX thread with a name and a stack size; the only place that starts one.

/// A running thread; join it exactly once, or let it run detached by calling `detach`.
package struct Thread: Sendable {
  private let handle: ThreadHandle

  /// Starts `body` on a new thread, which no signal interrupts: those that come from outside are for threads of the
  /// program, also where this code is a library in it.
  ///
  /// - Parameters:
  ///   - name: at most 15 bytes are shown by debuggers on Linux.
  ///   - stackBytes: rounded up to whole pages.
  package init(
    name: String, stackBytes: Int = 1 << 20, _ body: sending @escaping () -> Void
  ) throws(PlatformError) {
    var attributes = pthread_attr_t()
    pthread_attr_init(&attributes)
    defer { pthread_attr_destroy(&attributes) }
    let page = Int(getpagesize())
    pthread_attr_setstacksize(&attributes, (stackBytes + page - 1) / page * page)

    // A new thread inherits the mask of the one that starts it.
    var mask = Signals.faultsOnly
    var before = sigset_t()
    pthread_sigmask(SIG_SETMASK, &mask, &before)
    defer { pthread_sigmask(SIG_SETMASK, &before, nil) }

    #if DEBUG
      let body = Turns.joined(body)
    #endif
    let start = Unmanaged.passRetained(StartBox(name: name, stackBytes: stackBytes, body: body))
    #if canImport(Darwin)
      var thread: pthread_t?
    #else
      var thread = pthread_t()
    #endif
    let code = pthread_create(&thread, &attributes, threadMain, start.toOpaque())
    guard code == 0 else {
      start.release()
      throw .system(action: "start thread \(name)", code: code)
    }
    #if canImport(Darwin)
      guard let thread else { throw .system(action: "start thread \(name)", code: EAGAIN) }
    #endif
    handle = ThreadHandle(thread: thread)
  }

  /// Waits until the thread's body has returned.
  package func join() { pthread_join(handle.thread, nil) }

  /// Gives up the right to join; the thread cleans up after itself.
  package func detach() { pthread_detach(handle.thread) }

  /// Keeps the calling thread on some of the processors, where the system has a way to.
  package static func keepCurrent(on processors: [Int]) {
    #if os(Linux)
      guard let last = processors.max(), let symbol = dlsym(nil, "sched_setaffinity") else { return }
      let set = unsafeBitCast(
        symbol, to: (@convention(c) (pid_t, Int, UnsafePointer<UInt>) -> Int32).self)
      var mask = [UInt](repeating: 0, count: last / UInt.bitWidth + 1)
      for processor in processors { mask[processor / UInt.bitWidth] |= 1 << (processor % UInt.bitWidth) }
      // A container may forbid it: the thread runs where the system puts it then.
      _ = set(0, mask.count * MemoryLayout<UInt>.size, mask)
    #endif
  }
}

/// Tells one thread from another for as long as both run.
package struct ThreadID: Sendable, Equatable {
  private let handle: ThreadHandle

  /// The calling thread.
  package static var current: ThreadID { ThreadID(handle: ThreadHandle(thread: pthread_self())) }

  package static func == (a: ThreadID, b: ThreadID) -> Bool {
    pthread_equal(a.handle.thread, b.handle.thread) != 0
  }
}

/// `@unchecked Sendable`: a `pthread_t` is an opaque identifier that any thread may join or detach.
private struct ThreadHandle: @unchecked Sendable {
  let thread: pthread_t
}

private final class StartBox {
  let name: String
  let stackBytes: Int
  let body: () -> Void

  init(name: String, stackBytes: Int, body: @escaping () -> Void) {
    (self.name, self.stackBytes, self.body) = (name, stackBytes, body)
  }
}

private func run(_ box: StartBox) {
  #if canImport(Darwin)
    pthread_setname_np(box.name)
  #else
    // glibc hides pthread_setname_np behind _GNU_SOURCE; the kernel offers the same as a file.
    let comm = open("/proc/thread-self/comm", O_WRONLY | O_CLOEXEC)
    if comm >= 0 {
      StandardStream.write(String(decoding: box.name.utf8.prefix(15), as: UTF8.self), to: comm)
      close(comm)
    }
  #endif
  let stack = AlternateStack.lend()
  defer { AlternateStack.take(stack) }
  box.body()
  discardStack(of: box.stackBytes)
}

/// Gives back what the thread has used of its stack, but for the pages that it still stands on. The C library keeps stacks
/// of threads that have ended for the next ones, up to 40 MiB of addresses, and of each the 16 KiB that were used last:
/// with hundreds of connections these are more than all they have in the heap.
private func discardStack(of stackBytes: Int) {
  #if canImport(Glibc)
    guard !isUnderAddressSanitizer else { return }
    let page = UInt(getpagesize())
    var mark: UInt8 = 0
    withUnsafeMutablePointer(to: &mark) { mark in
      // The rest of this page and the one below are for the call itself.
      let end = (UInt(bitPattern: mark) & ~(page - 1)) - page
      // Far less than the stack, of which a thread that ends has used little.
      let count = UInt(min(64 << 10, stackBytes / 8)) & ~(page - 1)
      guard count > 0, let start = UnsafeMutableRawPointer(bitPattern: end - count) else { return }
      madvise(start, Int(count), Int32(MADV_DONTNEED))
    }
  #endif
}

#if canImport(Glibc)
  /// It keeps variables elsewhere than on the stack.
  private let isUnderAddressSanitizer = dlsym(nil, "__asan_init") != nil
#endif

#if canImport(Darwin)
  private func threadMain(_ argument: UnsafeMutableRawPointer) -> UnsafeMutableRawPointer? {
    run(Unmanaged<StartBox>.fromOpaque(argument).takeRetainedValue())
    return nil
  }
#else
  private func threadMain(_ argument: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
    if let argument { run(Unmanaged<StartBox>.fromOpaque(argument).takeRetainedValue()) }
    return nil
  }
#endif
