// Chunked request bodies.

import HTTP
import Testing

@Suite struct ChunkedDecoderTests {
  private func decode(_ body: String, limits: Limits = Limits()) -> Outcome {
    parse("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" + body, limits: limits)
  }

  private func body(_ text: String, limits: Limits = Limits()) -> String? {
    decode(text, limits: limits).requests.first.map {
      String($0.split(separator: "|").last?.dropFirst() ?? "")
    }
  }

  @Test func `a chunked body ends at the zero-length chunk`() {
    #expect(body("5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n") == "hello world")
    #expect(body("000\r\n\r\n") == "")
    #expect(decode("5\r\nhello\r\n0\r\n").isIncomplete)
  }

  @Test func `sizes are hexadecimal in either case`() {
    #expect(body("a\r\n0123456789\r\nA\r\n0123456789\r\n00\r\n\r\n") == "01234567890123456789")
  }

  @Test func `the next request begins after the last line`() {
    let result = decode("1\r\nx\r\n0\r\n\r\nGET /2 HTTP/1.1\r\nHost: h\r\n\r\n")
    #expect(result.requests.last == "GET /2 | Host=h | ")
  }

  @Test(arguments: [
    "5;a\r\nhello\r\n0\r\n\r\n", "5;a=b;c=\"d;e\\\"f\"\r\nhello\r\n0;x\r\n\r\n",
    "5 ; a = b\r\nhello\r\n0\r\n\r\n",
    "5;a=\"\" ;b\r\nhello\r\n0\r\n\r\n",
  ]) func `extensions are read and ignored`(text: String) {
    #expect(body(text) == "hello")
  }

  @Test(arguments: [
    "+5\r\n", "-5\r\n", "0x5\r\n", "0_5\r\n", " 5\r\n", "\r\n", "5g\r\n", "５\r\n", "8000000000000000\r\n",
    "FFFFFFFFFFFFFFFF\r\n", "00000000000000005\r\n", "5 \r\n", "5\t\r\n", "5\n", "5\rX", "5 x\r\n", "5;\r\n",
    "5;;\r\n", "5;a=\r\n", "5;a=\"b\r\n", "5;a=\"b\"c\r\n", "5;a\nb\r\n", "5;a\rb", "5;a=b=c\r\n", "5;a \r\n",
    "5;=b\r\n",
    "5\r\nhello0\r\n", "5\r\nhello\n", "5\r\nhello\rX", "5\r\nhelloX", "0\r\nbad trailer\r\n",
    "0\r\n a: b\r\n", "0\r\nA: b\n",
    "0\r\n\rX",
  ]) func `broken chunks are 400 at the byte that breaks them`(text: String) {
    #expect(decode(text).error?.status == 400)
  }

  @Test func `trailers are checked and dropped`() {
    #expect(
      decode("1\r\nx\r\n0\r\nContent-Length: 5\r\nHost: evil\r\n\r\n").description
        == "POST / | Host=h Transfer-Encoding=chunked | x")
    let long = "0\r\n" + String(repeating: "A: \(String(repeating: "x", count: 1000))\r\n", count: 17)
    #expect(decode(long).error?.status == 431)
  }

  @Test func `extensions are limited over the whole body`() {
    let one = "1;" + String(repeating: "a", count: 1000) + "\r\nx\r\n"
    #expect(body(String(repeating: one, count: 16) + "0\r\n\r\n")?.utf8.count == 16)
    #expect(decode(String(repeating: one, count: 17) + "0\r\n\r\n").error?.status == 400)
    #expect(decode("1" + String(repeating: " ", count: 20_000)).error?.status == 400)
  }

  @Test func `the body limit counts decoded bytes and strikes at the size line`() {
    var limits = Limits()
    limits.bodyBytes = 10
    #expect(body("5\r\nhello\r\n5\r\nhello\r\n0\r\n\r\n", limits: limits) == "hellohello")
    #expect(decode("5\r\nhello\r\n6\r\n", limits: limits).error?.status == 413)
    #expect(decode("7fffffffffffffff\r\n").error?.status == 413)
    #expect(decode("5\r\nhello\r\n7fffffffffffffff\r\n").error?.status == 413)
  }

  @Test func `half a million one-byte chunks are one body`() throws {
    var parser = RequestParser()
    parser.feed(Array("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n".utf8))
    _ = try parser.next()
    let thousand = Array(String(repeating: "1\r\nx\r\n", count: 1000).utf8)
    for _ in 0..<500 {
      parser.feed(thousand)
      _ = try parser.next()
    }
    #expect(parser.bufferedBodyBytes == 500_000)
    parser.feed(Array("0\r\n\r\n".utf8))
    guard case .body(let body) = try parser.next() else {
      Issue.record("no body")
      return
    }
    #expect(body.count == 500_000)
  }
}
