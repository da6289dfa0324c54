// A last line on standard error when a fault ends the process: which one, where, and in which thread.
//
// A handler may call almost nothing: it takes no memory and no lock, and puts its line together in a buffer made at
// the start. Each thread lends it a stack of its own, because a fault may be that a stack is full.

import Synchronization

extension Signals {
  /// Has faults tell a line and, where the C library can, the calls that led there; then the process ends as it would
  /// have without. A mapped file that lost its end is told in other words, and ends the process with code 3.
  ///
  /// - Parameter version: of the program, told in the line.
  package static func reportFaults(version: String) {
    let head = Array("mlxserve \(version): ".utf8)
    let line = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: head.count + FaultLine.room)
    _ = line.initialize(from: head)
    let made = UnsafeMutablePointer<Faults>.allocate(capacity: 1)
    made.initialize(to: Faults(line: line, head: head.count, calls: CallList.load()))
    faults.store(UInt(bitPattern: made), ordering: .releasing)
    AlternateStack.lend()
    for number in [SIGILL, SIGTRAP, SIGSEGV, SIGABRT, SIGBUS, SIGFPE] {
      var action = sigaction()
      #if canImport(Darwin)
        action.__sigaction_u.__sa_sigaction = reportFault
      #elseif canImport(Glibc)
        action.__sigaction_handler.sa_sigaction = reportFault
      #else
        action.__sa_handler.sa_sigaction = reportFault
      #endif
      action.sa_flags = Int32(SA_SIGINFO) | Int32(SA_ONSTACK)
      sigaction(number, &action, nil)
    }
  }
}

/// What the handler needs; set once, before it is installed.
private struct Faults {
  let line: UnsafeMutableBufferPointer<UInt8>
  /// Bytes of the line that are always the same.
  let head: Int
  let calls: CallList?
}

/// The address of it; 0 until there is one.
private let faults = Atomic<UInt>(0)

/// The code of a SIGBUS whose page the mapped file no longer has: `BUS_ADRERR` of Linux and Darwin.
private let lostPage: Int32 = 2

private func reportFault(
  _ signal: Int32, _ info: UnsafeMutablePointer<siginfo_t>?, _: UnsafeMutableRawPointer?
) {
  if signal == SIGBUS, info?.pointee.si_code == lostPage { endForLostFile() }
  if let faults = UnsafePointer<Faults>(bitPattern: faults.load(ordering: .acquiring))?.pointee {
    var line = FaultLine(buffer: faults.line, count: faults.head)
    line.add("ended by ")
    line.add(name(of: signal))
    // Signals that another process, or abort, has sent have no place.
    if let info, info.pointee.si_code > 0 {
      line.add(" at ")
      line.add(hexadecimal: address(info.pointee))
    }
    line.add(" in thread ")
    line.addThreadName()
    line.add(". This is a fault of the server: please report this line and those below it.\n")
    line.write()
    faults.calls?.write()
  }
  // The signal is blocked until the handler returns, and then ends the process as if nobody had handled it.
  Platform.signal(signal, SIG_DFL)
  raise(signal)
}

private func name(of signal: Int32) -> StaticString {
  switch signal {
  case SIGILL: "SIGILL (a check in the code failed)"
  case SIGTRAP: "SIGTRAP (a check in the code failed)"
  case SIGSEGV: "SIGSEGV (memory that is not there)"
  case SIGBUS: "SIGBUS (memory that cannot be read)"
  case SIGFPE: "SIGFPE (a number that cannot be computed)"
  default: "SIGABRT (given up)"
  }
}

private func address(_ info: siginfo_t) -> UInt {
  #if canImport(Darwin)
    UInt(bitPattern: info.si_addr)
  #elseif canImport(Glibc)
    UInt(bitPattern: info._sifields._sigfault.si_addr)
  #else
    UInt(bitPattern: info.__si_fields.__sigfault.si_addr)
  #endif
}

/// The words are constant, and no exit handlers run.
private func endForLostFile() -> Never {
  let words: StaticString = """
    mlxserve: a model file became shorter while it was mapped, and what is gone was needed (SIGBUS). To change a \
    model that is served, write a new file and rename it over the old one; never write into it.

    """
  _ = write(STDERR_FILENO, words.utf8Start, words.utf8CodeUnitCount)
  _exit(3)
}

/// A line in the making, in memory that is there already.
private struct FaultLine {
  /// Bytes for what is added.
  static let room = 256

  let buffer: UnsafeMutableBufferPointer<UInt8>
  var count: Int

  private mutating func add(byte: UInt8) {
    guard count < buffer.count else { return }
    buffer[count] = byte
    count += 1
  }

  mutating func add(_ text: StaticString) {
    var index = 0
    while index < text.utf8CodeUnitCount {
      add(byte: text.utf8Start[index])
      index += 1
    }
  }

  mutating func add(hexadecimal number: UInt) {
    add("0x")
    var shift = UInt.bitWidth
    while shift > 0 {
      shift -= 4
      let digit = UInt8(truncatingIfNeeded: (number >> UInt(shift)) & 0xF)
      add(byte: digit < 10 ? 0x30 + digit : 0x57 + digit)
    }
  }

  /// The name in the words of the kernel, which the thread gave itself when it began.
  mutating func addThreadName() {
    guard let rest = buffer.baseAddress.map({ $0 + count }) else { return }
    #if canImport(Darwin)
      let most = min(64, buffer.count - count)
      guard
        pthread_getname_np(
          pthread_self(), UnsafeMutableRawPointer(rest).assumingMemoryBound(to: CChar.self), most) == 0
      else { return }
      while count < buffer.count, buffer[count] != 0 { count += 1 }
    #else
      let comm = open("/proc/thread-self/comm", O_RDONLY | O_CLOEXEC)
      guard comm >= 0 else { return }
      // The last byte is a line end.
      count += max(0, read(comm, rest, min(16, buffer.count - count)) - 1)
      close(comm)
    #endif
  }

  func write() { _ = Platform.write(STDERR_FILENO, buffer.baseAddress, count) }
}

/// The calls that led to a fault, where the C library has `backtrace`.
private struct CallList {
  private typealias Collect = @convention(c) (UnsafeMutablePointer<UnsafeMutableRawPointer?>, Int32) -> Int32
  private typealias Write = @convention(c) (UnsafePointer<UnsafeMutableRawPointer?>, Int32, Int32) -> Void

  private static let most = 64

  private let collect: Collect
  private let writeNames: Write
  private let frames: UnsafeMutablePointer<UnsafeMutableRawPointer?>

  static func load() -> CallList? {
    guard let program = dlopen(nil, RTLD_LAZY), let collect = dlsym(program, "backtrace"),
      let write = dlsym(program, "backtrace_symbols_fd")
    else { return nil }
    let list = CallList(
      collect: unsafeBitCast(collect, to: Collect.self), writeNames: unsafeBitCast(write, to: Write.self),
      frames: .allocate(capacity: most))
    list.frames.initialize(repeating: nil, count: most)
    // The first call loads a library, which takes memory: not in the handler.
    _ = list.collect(list.frames, Int32(most))
    return list
  }

  func write() { writeNames(frames, collect(frames, Int32(Self.most)), STDERR_FILENO) }
}

/// A stack for handlers: a thread whose own stack is full could not run one.
enum AlternateStack {
  private static let bytes = 64 << 10

  /// Gives the calling thread one for as long as it lives; none where memory is short. Untouched, it takes none.
  @discardableResult
  static func lend() -> UnsafeMutableRawPointer? {
    let memory = mmap(nil, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | Int32(MAP_ANON), -1, 0)
    guard let memory, memory != MAP_FAILED else { return nil }
    var stack = stack_t()
    stack.ss_sp = memory
    stack.ss_size = bytes
    sigaltstack(&stack, nil)
    return memory
  }

  /// Takes it back at the thread's end.
  static func take(_ memory: UnsafeMutableRawPointer?) {
    guard let memory else { return }
    var stack = stack_t()
    stack.ss_flags = Int32(SS_DISABLE)
    stack.ss_size = bytes
    sigaltstack(&stack, nil)
    munmap(memory, bytes)
  }
}
