// Programs that behave, and programs that do not.

import Platform
import Testing

@Suite struct ChildProcessTests {
  private let later = Instant.now.adding(seconds: 60)
  private let bounds = ChildProcess.Bounds(memory: 64 << 20, seconds: 60)

  private func shell(
    _ script: String, environment: [String] = [], limit: Int = 1 << 20, until deadline: Instant? = nil,
    isUnwanted: () -> Bool = { false }
  ) throws -> (ending: ChildProcess.Ending, text: String) {
    let (ending, output) = try ChildProcess.run(
      "/bin/sh", ["-c", script], environment: environment, bounds: bounds, outputLimit: limit,
      until: deadline ?? later,
      isUnwanted: isUnwanted)
    return (ending, String(decoding: output, as: UTF8.self))
  }

  @Test func `a program's output and exit code come back`() throws {
    let (ending, text) = try shell("echo one; echo two >&2; exit 7")
    #expect(ending == .exited(7))
    #expect(text == "one\n")
    #expect(try shell("kill -9 $$").ending == .exited(nil))
  }

  @Test func `arguments arrive as they are`() throws {
    let words = ["a b", "$HOME", "*", "", "'\"\\", "ä"]
    let (_, output) = try ChildProcess.run(
      "/bin/sh", ["-c", "for word; do echo \"[$word]\"; done", "sh"] + words, bounds: bounds,
      outputLimit: 1000, until: later)
    #expect(String(decoding: output, as: UTF8.self) == words.map { "[\($0)]\n" }.joined())
  }

  @Test func `nothing is inherited but the variables that are named`() throws {
    #expect(try shell("echo \"$HOME|$A\"", environment: ["A=b"]).text == "|b\n")
    #expect(try shell("read line || echo end").text == "end\n")
    #expect(try shell("trap").text == "")
  }

  @Test func `a program reads what it is given, and nothing else`() throws {
    var text: [UInt8] = []
    let input = [UInt8](repeating: 0x61, count: ChildProcess.inputLimit)
    let ending = try ChildProcess.stream("/bin/cat", [], input: .bytes(input), bounds: bounds) { bytes in
      text += bytes
      return true
    }
    #expect(ending == .exited(0))
    #expect(text == input)
    #expect(throws: PlatformError.self) {
      try ChildProcess.stream("/bin/cat", [], input: .bytes(input + [0x61]), bounds: bounds) { _ in true }
    }
    #expect(
      try ChildProcess.stream("/bin/true", [], input: .bytes(input), bounds: bounds) { _ in true }
        == .exited(0))
  }

  @Test func `a program reads a file without a name as often as it likes`() throws {
    let file = try NamelessFile(Array("kept nowhere\n".utf8))
    defer { withExtendedLifetime(file) {} }
    var text: [UInt8] = []
    let ending = try ChildProcess.stream(
      "/bin/cat", [ChildProcess.ownInput, ChildProcess.ownInput], input: .file(file.descriptor),
      bounds: bounds
    ) { bytes in
      text += bytes
      return true
    }
    #expect(ending == .exited(0))
    #expect(String(decoding: text, as: UTF8.self) == "kept nowhere\nkept nowhere\n")
  }

  #if os(Linux)
    @Test func `a program has no more memory and time than its bounds say, and leaves no dump`() throws {
      let words = try shell(
        "ulimit -d; ulimit -v; ulimit -t; ulimit -c; cat /proc/$$/oom_score_adj"
      ).text
      #expect(words == "65536\n589824\n60\n0\n1000\n")
      // A string of 256 MiB.
      let memory = try shell("x=$(head -c 268435456 /dev/zero | tr '\\0' x); echo ${#x}")
      #expect(memory.ending != .exited(0))
      #expect(memory.text == "")
      let time = try ChildProcess.run(
        "/bin/sh", ["-c", "while :; do :; done"], bounds: ChildProcess.Bounds(memory: 64 << 20, seconds: 1),
        outputLimit: 9, until: later)
      #expect(time.ending == .exited(nil))
    }
  #endif

  @Test func `what a program may take is claimed while it runs, or it is not started`() throws {
    let ledger = MemoryLedger(limit: 100 << 20)
    var claimed = 0
    func run(_ memory: Int) throws -> ChildProcess.Ending {
      try ChildProcess.stream(
        "/bin/sh", ["-c", "echo x"], bounds: ChildProcess.Bounds(memory: memory, seconds: 60, ledger: ledger)
      ) { _ in
        claimed = ledger.bytes(of: .programs)
        return true
      }
    }
    #expect(try run(64 << 20) == .exited(0))
    #expect(claimed == 64 << 20)
    #expect(ledger.bytes(of: .programs) == 0)
    #expect(throws: PlatformError.file(action: "run", path: "/bin/sh", code: ENOMEM)) { try run(101 << 20) }
  }

  @Test func `output comes while the program runs, until its reader takes no more`() throws {
    var pieces = 0
    let ending = try ChildProcess.stream(
      "/bin/sh", ["-c", "while echo x; do sleep 0.1; done"], bounds: bounds
    ) { _ in
      pieces += 1
      return pieces < 3
    }
    #expect(ending == .tooMuchOutput)
    #expect(pieces == 3)
  }

  @Test func `too much output ends the program`() throws {
    #expect(try shell("yes", limit: 100_000).ending == .tooMuchOutput)
    #expect(try shell("printf 12345", limit: 5).ending == .exited(0))
    #expect(try shell("printf 123456", limit: 5).ending == .tooMuchOutput)
  }

  @Test func `the end of the time ends the program`() throws {
    #expect(try shell("exec sleep 600", until: Instant.now.adding(seconds: 0.2)).ending == .late)
    #expect(try shell("exec sleep 600 >&-", until: Instant.now.adding(seconds: 0.2)).ending == .late)
    #expect(try shell("echo x", until: Instant(nanoseconds: 0)).ending == .late)
  }

  @Test func `a result that nobody wants ends the program`() throws {
    var looks = 0
    let (ending, _) = try shell("echo first; exec sleep 600") {
      looks += 1
      return looks == 3
    }
    #expect(ending == .unwanted)
  }

  @Test func `programs run beside each other`() throws {
    let done = Monitor(0)
    for _ in 0..<8 {
      try Thread(name: "runs") {
        for _ in 0..<10 {
          let run = try? ChildProcess.run(
            "/bin/sh", ["-c", "echo x"], bounds: self.bounds, outputLimit: 9, until: self.later)
          if run?.output == Array("x\n".utf8) { done.update { $0 += 1 } }
        }
      }.detach()
    }
    let all: Bool? = done.wait(until: later) { $0 == 80 ? true : nil }
    #expect(all == true)
  }

  @Test func `what is no program is an error`() throws {
    for path in ["/none/such", "/", "/etc/passwd"] {
      #expect(throws: PlatformError.self) {
        try ChildProcess.run(path, [], bounds: bounds, outputLimit: 1, until: later)
      }
    }
    #expect(throws: PlatformError.file(action: "run", path: "/bin/sh", code: EINVAL)) {
      try ChildProcess.run("/bin/sh", ["a\0b"], bounds: bounds, outputLimit: 1, until: later)
    }
  }

  @Test func `programs are found in PATH`() {
    #expect(ChildProcess.find("sh")?.hasSuffix("/sh") == true)
    #expect(ChildProcess.find("no-such-program-anywhere") == nil)
  }
}
