// The black-box HTTP cases of the shared data, run by their own script against a live server.

import HTTP
import Platform
import Support
import Testing

@Suite(.enabled(if: Corpus.isAvailable, "needs the shared data and python3"))
struct CorpusTests {
  @Test func `every black-box case gets the verdict of the list`() throws {
    let server = try LiveServer()
    defer { server.stop() }
    let report = try Corpus.run(port: server.port)
    #expect(report.hasBytes("TOTAL 1892/1892"), "\(report)")
    #expect(report.hasBytes("alive after run: b'HTTP/1.1 200 OK'"), "\(report)")
  }
}

enum Corpus {
  private static let python = "/usr/bin/python3"

  static var isAvailable: Bool {
    TestData.shared.map { File.exists($0 + "/http/run_http_cases.py") } == true && File.exists(python)
  }

  /// Runs the script; returns what it printed.
  static func run(port: Int) throws -> String {
    guard let shared = TestData.shared else { return "" }
    var ends: [Int32] = [-1, -1]
    guard pipe(&ends) == 0 else { throw PlatformError.system(action: "make a pipe", code: errno) }
    defer { close(ends[0]) }
    #if canImport(Darwin)
      var actions: posix_spawn_file_actions_t?
    #else
      var actions = posix_spawn_file_actions_t()
    #endif
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO)
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO)
    // Where the machine is busy or the server instrumented, an answer takes longer than the script's half second.
    let words = [python, shared + "/http/run_http_cases.py", String(port), "--show", "--wait", "1.5"]
    var arguments = words.map { strdup($0) } + [nil]
    defer { for argument in arguments { free(argument) } }
    var process: pid_t = 0
    let status = posix_spawn(&process, python, &actions, nil, &arguments, environ)
    close(ends[1])
    guard status == 0 else { throw PlatformError.system(action: "start \(python)", code: status) }
    var output: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 1 << 14)
    while true {
      let count = chunk.withUnsafeMutableBytes { read(ends[0], $0.baseAddress, $0.count) }
      if count < 0 && errno == EINTR { continue }
      guard count > 0 else { break }
      output += chunk[..<count]
    }
    var code: Int32 = 0
    waitpid(process, &code, 0)
    return String(decoding: output, as: UTF8.self)
  }
}
