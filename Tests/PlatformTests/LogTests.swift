// Log lines: one per event, whatever the values hold, and never a reason to wait.

import Testing

@testable import Platform

@Suite struct LogTests {
  /// The line without its time.
  private func text(_ event: String, _ fields: KeyValuePairs<String, String>) -> String {
    String(Log.textLine(.info, event, fields.map { ($0.key, $0.value) }).dropFirst(25))
  }

  private func json(_ event: String, _ fields: KeyValuePairs<String, String>) -> String {
    String(Log.jsonLine(.warning, event, fields.map { ($0.key, $0.value) }).dropFirst(9 + 24))
  }

  @Test func `plain values stand bare and others are quoted`() {
    #expect(
      text("request", ["path": "/v1", "agent": "a b", "none": ""])
        == "info request path=/v1 agent=\"a b\" none=\"\"")
  }

  @Test func `line ends and escapes cannot forge a line`() {
    #expect(
      text("x", ["a": "1\r\n2026 error forged\u{1B}[31m\0\t\"\\"])
        == #"info x a="1\r\n2026 error forged\u001b[31m\u0000\t\"\\""#)
    #expect(text("event\nforged", [:]) == #"info event\nforged"#)
  }

  @Test func `C1 controls, separators and direction marks are escaped`() {
    #expect(
      text("x", ["a": "\u{85}\u{9B}31m\u{2028}\u{2029}\u{202E}\u{2066}\u{61C}é"])
        == #"info x a="\u0085\u009b31m\u2028\u2029\u202e\u2066\u061cé""#)
  }

  @Test func `JSON lines are objects`() {
    #expect(
      json("x", ["a\"b": "1\n", "é": "ü"]) == #"","level":"warning","event":"x","a\"b":"1\n","é":"ü"}"#)
  }

  @Test func `numbers of JSON lines are numbers, but for names`() {
    #expect(
      json(
        "x",
        ["status": "200", "seconds": "0.000500", "n": "-1", "a": "01", "b": "1.", "c": "1e5", "key": "7"])
        == #"","level":"warning","event":"x","status":200,"seconds":0.000500,"n":-1,"a":"01","b":"1.","c":"1e5","key":"7"}"#
    )
  }

  @Test func `a line stays below two kibibytes`() {
    let long = String(repeating: "\u{1}", count: 1 << 20)
    for line in [
      Log.textLine(.error, long, [("a", long)]),
      Log.jsonLine(.error, "x", [("a", "short"), ("b", long), ("c", "lost")]),
    ] {
      #expect(line.utf8.count < 2048)
      #expect(!line.utf8.contains(10))
      #expect(line.unicodeScalars.contains("…"))
    }
  }

  @Test func `the time is UTC with milliseconds`() {
    let time = Array(Log.textLine(.info, "x", []).utf8.prefix(24))
    let shape = "0000-00-00T00:00:00.000Z".utf8.map { $0 }
    #expect(zip(time, shape).allSatisfy { $1 == 0x30 ? (0x30...0x39).contains($0) : $0 == $1 })
  }

  @Test func `levels have names and an order`() {
    #expect(Log.Level(name: "warning") == .warning)
    #expect(Log.Level(name: "WARNING") == nil)
    #expect(Log.Level.debug < .info && Log.Level.info < .warning && Log.Level.warning < .error)
  }

  @Test(.timeLimit(.minutes(1))) func `a full pipe drops lines instead of blocking and tells how many`() {
    var ends: [Int32] = [-1, -1]
    #expect(pipe(&ends) == 0)
    defer { for end in ends { close(end) } }
    let writer = LineWriter(descriptor: ends[1])
    let line = String(repeating: "x", count: 999)
    for _ in 0..<200 { writer.write(line) { "dropped \($0)" } }

    _ = fcntl(ends[0], F_SETFL, O_NONBLOCK)
    func readAll() -> [UInt8] {
      var all: [UInt8] = []
      var chunk = [UInt8](repeating: 0, count: 1 << 16)
      while true {
        let count = read(ends[0], &chunk, chunk.count)
        guard count > 0 else { return all }
        all += chunk[..<count]
      }
    }
    let kept = readAll().count / 1000
    #expect(kept > 0 && kept < 200)
    writer.write("again") { "dropped \($0)" }
    #expect(String(decoding: readAll(), as: UTF8.self) == "dropped \(200 - kept)\nagain\n")
  }

  @Test func `a closed descriptor is no reason to fail`() {
    LineWriter(descriptor: 9999).write("lost") { _ in "" }
    #expect(!StandardStream.write("lost", to: 9999))
  }
}
