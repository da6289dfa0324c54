// The lines of bytes that are shared, as stores of lines find them.

import Platform
import Testing

@Suite struct SharedBytesTests {
  private func bytes(_ text: String) -> SharedBytes { SharedBytes(copying: Array(text.utf8)) }

  @Test(arguments: [
    ("", []), ("\n", []), ("a", ["a"]), ("a\n", ["a"]), ("a\n\n\nbc\n", ["a", "bc"]), ("a\nbc", ["a", "bc"]),
  ]) func `lines are found without empty ones`(_ text: String, _ expected: [String]) {
    let bytes = bytes(text)
    let lines = bytes.lines(takesRest: true)
    #expect(lines.map { String(decoding: bytes.copy($0), as: UTF8.self) } == expected)
    #expect(bytes.lineCount(takesRest: true) == expected.count)
  }

  @Test func `a last line without its end is taken only where it is wanted`() {
    #expect(bytes("a\nbc").lines(takesRest: false) == [0..<1])
    #expect(bytes("a\nbc").lineCount(takesRest: false) == 1)
  }

  @Test func `counting stops where it is told`() {
    let many = bytes(String(repeating: "a\n", count: 100))
    #expect(many.lineCount(takesRest: true, upTo: 7) == 7)
    #expect(many.lineCount(takesRest: true, upTo: 101) == 100)
  }
}
