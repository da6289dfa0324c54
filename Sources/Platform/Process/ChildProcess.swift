// Another program, run to its end or to a bound: what it wrote to its standard output, whole or as it comes.

/// Runs other programs; nothing but their output and how they ended comes back. Everything that this process starts is
/// started here.
package enum ChildProcess {
  /// What a program may take. Linux holds it to all of this, and where memory runs out ends it before this process; macOS
  /// has no limit of memory for a process, and there the claim and the deadline are what bounds it.
  package struct Bounds: Sendable {
    /// Bytes that no file backs.
    package var memory: Int
    /// Seconds that it computes.
    package var seconds: Int
    /// Where the memory is claimed while it runs; nil for nowhere.
    package var ledger: MemoryLedger?

    package init(memory: Int, seconds: Int, ledger: MemoryLedger? = nil) {
      (self.memory, self.seconds, self.ledger) = (memory, seconds, ledger)
    }
  }

  /// What a program reads on its standard input.
  package enum Input {
    /// `inputLimit` bytes at most. Arguments can be seen by every user of the machine, these not.
    case bytes([UInt8])
    /// An open file, which also stands under the name `ownInput` then.
    case file(Int)
  }

  /// The name of a program's standard input, for those that want a file they can go back and forth in.
  package static let ownInput = "/dev/fd/0"

  /// How a run ended.
  package enum Ending: Sendable, Equatable {
    /// By itself, with this exit code; nil when a signal ended it, or nobody can tell.
    case exited(Int32?)
    /// Killed: it wrote more than its reader takes.
    case tooMuchOutput
    /// Killed: the time was over.
    case late
    /// Killed: nobody wanted the result any more.
    case unwanted
  }

  /// How long nobody looks whether the result is still wanted, seconds.
  private static let lookSeconds = 0.05
  /// No two children are started at once: one must not inherit the pipe of another.
  private static let starting = Monitor(false)
  private static let shell = "/bin/sh"
  /// How long others have to make room for a program, seconds.
  private static let patience = 2.0
  /// Addresses for libraries and other files beside the memory of its own: curl's have 20 MiB, and a locale's file 220.
  private static let mappedBytes = 512 << 20

  /// The first executable file of that name in the absolute folders of PATH.
  package static func find(_ name: String) -> String? {
    for folder in (Environment.value("PATH") ?? "").split(separator: ":") where folder.hasPrefix("/") {
      let path = folder + "/" + name
      if access(path, X_OK) == 0, !File.isDirectory(path) { return path }
    }
    return nil
  }

  /// Most bytes of input: a pipe of any system takes them at once, before anybody reads.
  package static let inputLimit = 16 << 10

  /// Runs a program without a shell. Its errors go nowhere, and signals that a terminal sends to the process do not
  /// reach it.
  ///
  /// - Parameters:
  ///   - program: an absolute path.
  ///   - environment: `NAME=VALUE`; nothing else is inherited.
  ///   - outputLimit: bytes; the program is killed when it writes more.
  ///   - isUnwanted: asked many times a second; must not block.
  /// - Returns: how it ended, and what it wrote until then.
  /// - Throws: when the program cannot be started; `ENOMEM` where its memory is not left.
  package static func run(
    _ program: String, _ arguments: [String], environment: [String] = [], bounds: Bounds, outputLimit: Int,
    until deadline: Instant, isUnwanted: () -> Bool = { false }
  ) throws(PlatformError) -> (ending: Ending, output: [UInt8]) {
    var output: [UInt8] = []
    let ending = try stream(
      program, arguments, environment: environment, bounds: bounds, until: deadline, isUnwanted: isUnwanted
    ) { bytes in
      guard bytes.count <= outputLimit - output.count else { return false }
      output += bytes
      return true
    }
    return (ending, output)
  }

  /// Runs a program as `run` does, and gives away what it writes while it writes it. When this process ends, the
  /// program ends too, as soon as it writes.
  ///
  /// - Parameters:
  ///   - deadline: nil for none.
  ///   - receive: gets the next bytes; false when it takes no more, and the program is killed.
  /// - Throws: when the program cannot be started; `ENOMEM` where its memory is not left.
  package static func stream(
    _ program: String, _ arguments: [String], environment: [String] = [], input: Input = .bytes([]),
    bounds: Bounds, until deadline: Instant? = nil, isUnwanted: () -> Bool = { false },
    receive: (ArraySlice<UInt8>) -> Bool
  ) throws(PlatformError) -> Ending {
    let loan = bounds.ledger.map { MemoryLoan($0, for: .programs, patience: patience) }
    guard loan?.extend(by: bounds.memory) ?? true else {
      throw .file(action: "run", path: program, code: ENOMEM)
    }
    defer { withExtendedLifetime(loan) {} }
    let (process, pipe) = try start(program, arguments, environment, input, bounds)
    defer { close(pipe) }
    func killed(_ ending: Ending) -> Ending {
      kill(process, SIGKILL)
      _ = wait(for: process, until: nil)
      return ending
    }
    var chunk = [UInt8](repeating: 0, count: 64 << 10)
    while true {
      if isUnwanted() { return killed(.unwanted) }
      let left = deadline?.seconds(since: .now) ?? lookSeconds
      guard left > 0 else { return killed(.late) }
      var set = pollfd(fd: pipe, events: Int16(POLLIN), revents: 0)
      let ready = poll(&set, 1, Int32(min(left, lookSeconds) * 1000) + 1)
      if ready == 0 || (ready < 0 && errno == EINTR) { continue }
      let count = chunk.withUnsafeMutableBytes { read(pipe, $0.baseAddress, $0.count) }
      if count < 0 && errno == EINTR { continue }
      guard count > 0 else { break }
      guard receive(chunk[..<count]) else { return killed(.tooMuchOutput) }
    }
    switch wait(for: process, until: deadline) {
    case .running: return killed(.late)
    case .exited(let code): return .exited(code)
    case .unknown: return .exited(nil)
    }
  }

  /// What became of a process.
  private enum Outcome {
    case running
    case exited(Int32)
    /// It runs no more and left no exit code: a signal ended it, or it is no child that can be waited for.
    case unknown
  }

  /// - Parameter deadline: nil waits without limit.
  /// - Returns: `running` only at the deadline.
  private static func wait(for process: pid_t, until deadline: Instant?) -> Outcome {
    var status: Int32 = 0
    while true {
      let result = waitpid(process, &status, deadline == nil ? 0 : WNOHANG)
      if result == process { return status & 0x7F == 0 ? .exited((status >> 8) & 0xFF) : .unknown }
      if result < 0 && errno != EINTR { return .unknown }
      if let deadline, deadline < .now { return .running }
      if result == 0 { usleep(1000) }
    }
  }

  private static func start(
    _ program: String, _ arguments: [String], _ environment: [String], _ input: Input, _ bounds: Bounds
  ) throws(PlatformError) -> (process: pid_t, pipe: Int32) {
    guard ([program] + arguments + environment).allSatisfy({ !$0.utf8.contains(0) }) else {
      throw .file(action: "run", path: program, code: EINVAL)
    }
    guard access(program, X_OK) == 0 else { throw .file(action: "run", path: program, code: errno) }
    guard !File.isDirectory(program) else { throw .file(action: "run", path: program, code: EISDIR) }
    // A shell gives itself the bounds, and becomes the program. A limit that it may not set is a tighter one, or one that
    // the system does not have. The text of a file that is read must not stay in a dump of memory.
    let words = [
      "-c",
      "ulimit -c 0; ulimit -d \(bounds.memory >> 10); ulimit -v \((bounds.memory + mappedBytes) >> 10); "
        + "ulimit -t \(bounds.seconds); echo 1000 > /proc/self/oom_score_adj; exec \"$0\" \"$@\"", program,
    ]
    return try starting.withLock { _ throws(PlatformError) in
      // Whoever started this process may have had it ignored: then the system would forget exit codes.
      signal(SIGCHLD, SIG_DFL)
      var opened: [Int32] = []
      defer { for end in opened { close(end) } }
      let source: Int32
      switch input {
      case .file(let descriptor): source = Int32(descriptor)
      case .bytes(let bytes):
        guard bytes.count <= inputLimit else { throw .file(action: "run", path: program, code: EINVAL) }
        opened = try makePipe()
        source = opened[0]
        var written = 0
        while written < bytes.count {
          let count = bytes[written...].withUnsafeBytes { write(opened[1], $0.baseAddress, $0.count) }
          if count < 0 && errno == EINTR { continue }
          guard count > 0 else { throw .system(action: "write into a pipe", code: errno) }
          written += count
        }
      }
      let ends = try makePipe()
      defer { close(ends[1]) }
      var process: pid_t = 0
      let code = spawn(&process, shell, words + arguments, environment, input: source, output: ends[1])
      guard code == 0 else {
        close(ends[0])
        throw .file(action: "run", path: program, code: code)
      }
      return (process, ends[0])
    }
  }

  /// Starts a program that is talked to.
  ///
  /// - Parameter folder: where it runs.
  /// - Returns: `input` is written to without waiting.
  static func talk(
    _ program: String, _ arguments: [String], _ environment: [String], _ folder: String?
  ) throws(PlatformError) -> (process: pid_t, input: Int32, output: Int32) {
    guard ([program, folder ?? ""] + arguments + environment).allSatisfy({ !$0.utf8.contains(0) }) else {
      throw .file(action: "run", path: program, code: EINVAL)
    }
    guard access(program, X_OK) == 0 else { throw .file(action: "run", path: program, code: errno) }
    return try starting.withLock { _ throws(PlatformError) in
      signal(SIGCHLD, SIG_DFL)
      let (source, ends) = (try makePipe(), try makePipe())
      defer { for end in [source[0], ends[1]] { close(end) } }
      _ = fcntl(source[1], F_SETFL, O_NONBLOCK)
      let words = ["-c", "ulimit -c 0; cd -- \"$0\" || exit 126; exec \"$@\"", folder ?? ".", program]
      var process: pid_t = 0
      let code = spawn(&process, shell, words + arguments, environment, input: source[0], output: ends[1])
      guard code == 0 else {
        for end in [source[1], ends[0]] { close(end) }
        throw .file(action: "run", path: program, code: code)
      }
      return (process, source[1], ends[0])
    }
  }

  /// Waits for the end of such a program, then kills it and what it has started.
  static func end(_ process: pid_t, within seconds: Double) {
    let found = wait(for: process, until: Instant.now.adding(seconds: seconds))
    // Children that it has left have its group.
    kill(-process, SIGKILL)
    if case .running = found { _ = wait(for: process, until: nil) }
  }

  /// Starts a shell that waits for the end of this process, however it comes, and removes a folder then. It has no bounds:
  /// all that it does is to wait, and to unlink.
  ///
  /// - Returns: what it waits for, its pipe, is closed by `stopWaiting`.
  static func removeAtOurEnd(_ folder: String) throws(PlatformError) -> (process: pid_t, pipe: Int32) {
    try starting.withLock { _ throws(PlatformError) in
      let ends = try makePipe()
      defer { close(ends[0]) }
      let null = open("/dev/null", O_WRONLY | O_CLOEXEC)
      defer { close(null) }
      var process: pid_t = 0
      let words = ["-c", "read -r end; exec /bin/rm -rf -- \"$0\"", folder]
      let code = spawn(&process, shell, words, [], input: ends[0], output: null)
      guard code == 0 else {
        close(ends[1])
        throw .file(action: "run", path: shell, code: code)
      }
      return (process, ends[1])
    }
  }

  /// Has that shell do its work now, and waits for it.
  static func stopWaiting(_ shell: (process: pid_t, pipe: Int32)) {
    close(shell.pipe)
    _ = wait(for: shell.process, until: nil)
  }

  private static func makePipe() throws(PlatformError) -> [Int32] {
    var ends: [Int32] = [-1, -1]
    guard pipe(&ends) == 0 else { throw .system(action: "make a pipe", code: errno) }
    for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
    return ends
  }

  /// - Returns: 0 or an `errno`.
  private static func spawn(
    _ process: inout pid_t, _ program: String, _ arguments: [String], _ environment: [String], input: Int32,
    output: Int32
  ) -> Int32 {
    #if canImport(Darwin)
      var actions: posix_spawn_file_actions_t?
      var attributes: posix_spawnattr_t?
      let closing = POSIX_SPAWN_CLOEXEC_DEFAULT
    #else
      var actions = posix_spawn_file_actions_t()
      var attributes = posix_spawnattr_t()
      let closing: Int32 = 0
    #endif
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO)
    posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO)
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0)

    posix_spawnattr_init(&attributes)
    defer { posix_spawnattr_destroy(&attributes) }
    var signals = sigset_t()
    sigemptyset(&signals)
    posix_spawnattr_setsigmask(&attributes, &signals)
    for signal in [SIGPIPE, SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2] { sigaddset(&signals, signal) }
    posix_spawnattr_setsigdefault(&attributes, &signals)
    posix_spawnattr_setpgroup(&attributes, 0)
    let flags = Int32(POSIX_SPAWN_SETPGROUP) | Int32(POSIX_SPAWN_SETSIGMASK) | Int32(POSIX_SPAWN_SETSIGDEF)
    posix_spawnattr_setflags(&attributes, Int16(truncatingIfNeeded: flags | Int32(closing)))

    var words = ([program] + arguments).map { strdup($0) } + [nil]
    var variables = environment.map { strdup($0) } + [nil]
    defer { for text in words + variables { free(text) } }
    return posix_spawn(&process, program, &actions, &attributes, &words, &variables)
  }
}
