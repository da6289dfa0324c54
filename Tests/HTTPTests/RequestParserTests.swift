// Requests and everything that must not pass for one.

import HTTP
import Support
import Testing

@Suite struct RequestParserTests {
  private let host = "Host: h\r\n"

  private func status(_ text: String, limits: Limits = Limits()) -> Int? {
    parse(text, limits: limits).error?.status
  }

  @Test func `a request without a body is complete at the empty line`() {
    #expect(parse("GET /a?b=c HTTP/1.1\r\nHost: h\r\n\r\n").description == "GET /a | Host=h | ")
    #expect(parse("GET /a HTTP/1.1\r\nHost: h\r\n\r").isIncomplete)
  }

  @Test func `a body has the length that the head says`() {
    #expect(
      parse("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 005\r\n\r\nhello").description
        == "POST / | Host=h Content-Length=005 | hello")
    #expect(parse("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\n\r\nhello").isIncomplete)
  }

  @Test func `pipelined requests come out one by one`() {
    let text = "GET /1 HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nabGET /2 HTTP/1.1\r\nHost: h\r\n\r\n"
    #expect(parse(text).description == "GET /1 | Host=h Content-Length=2 | ab ; GET /2 | Host=h | ")
  }

  @Test func `an error after a good request does not undo it`() {
    let result = parse("GET /1 HTTP/1.1\r\nHost: h\r\n\r\nInvalid\r\n\r\nGET /2 HTTP/1.1\r\nHost: h\r\n\r\n")
    #expect(result.requests == ["GET /1 | Host=h | "])
    #expect(result.error?.status == 400)
  }

  @Test func `empty lines before a request are skipped, a few of them`() {
    #expect(parse("\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n").description == "GET / | Host=h | ")
    #expect(status("\r\n\r\n\r\n\r\n\r\n") == 400)
    #expect(status("\nGET / HTTP/1.1\r\n") == 400)
  }

  @Test func `white space around a value is not part of it`() {
    #expect(
      parse("GET / HTTP/1.1\r\nHost: h\r\nA: \t b c\t \r\nB:\r\nC:  \r\n\r\n").description
        == "GET / | Host=h A=b c B= C= | ")
  }

  @Test func `bytes above ASCII are kept in values`() {
    let bytes = Array("GET / HTTP/1.1\r\nHost: h\r\nA: x".utf8) + [0xE9] + Array("y\r\n\r\n".utf8)
    #expect(parse(bytes).description == "GET / | Host=h A=x\u{FFFD}y | ")
  }

  @Test func `HTTP 1.0 needs no host and later minor versions are 1.1`() {
    #expect(parse("GET / HTTP/1.0\r\n\r\n").description == "GET / |  | ")
    #expect(parse("GET / HTTP/1.9\r\nHost: h\r\n\r\n").error == nil)
    #expect(status("GET / HTTP/1.1\r\n\r\n") == 400)
  }

  @Test(arguments: [
    "GET /\r\n", "GET / HTTP/1.1 \r\n", "GET / HTTP/1.32", "GET / http/1.1", "GET / IHTTP/1.0",
    "GET  / HTTP/1.1",
    "GET /  HTTP/1.1", " GET / HTTP/1.1", "G\tT / HTTP/1.1", "GET\t/ HTTP/1.1", "GET / HTTP/1.1\n",
    "GET / HTTP/1.1\rX",
    "GET / HTTP/x", "GET /a#b HTTP/1.1", "GET /\u{7F} HTTP/1.1", "GET /\u{1} HTTP/1.1", "GET /é HTTP/1.1",
    "GET * HTTP/1.1\r\nHost: h\r\n\r\n", "GET a HTTP/1.1\r\nHost: h\r\n\r\n",
    "PROXY TCP4 1.2.3.4 1.2.3.4 1 2\r\n",
    "\u{16}\u{3}\u{1}", "GET / HTTP/1.1\r\n Host: h", "GET / HTTP/1.1\r\n: v", "GET / HTTP/1.1\r\nA : v",
    "GET / HTTP/1.1\r\nA\r\n", "GET / HTTP/1.1\r\nA: b\n", "GET / HTTP/1.1\r\nA: b\rC",
    "GET / HTTP/1.1\r\nA: b\r\n c",
    "GET / HTTP/1.1\r\nA: b\r\n\tc", "GET / HTTP/1.1\r\nA: b\u{0}", "GET / HTTP/1.1\r\nA: b\u{7F}",
    "GET / HTTP/1.1\r\nHost: h\r\n\rX", "GET / HTTP/1.1\r\nÄ: b",
  ]) func `broken grammar is 400 at the byte that breaks it`(text: String) {
    #expect(status(text) == 400)
  }

  @Test func `versions and methods that are not ours have their own status`() {
    #expect(status("GET / HTTP/2.0") == 505)
    #expect(status("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") == 505)
    #expect(status("GET / HTTP/0.9") == 505)
    #expect(status("BREW / HTTP/1.1\r\n") == 501)
    #expect(status("CONNECT h:1 HTTP/1.1\r\n") == 501)
    #expect(status("get / HTTP/1.1\r\n") == 501)
    #expect(status(String(repeating: "A", count: 33)) == 501)
  }

  @Test(arguments: [
    "+5", "-5", "5_0", "0x5", "5,6", "5, 5", "", "5 5", "9223372036854775808", "18446744073709551621", "٥",
    "５", "5.0",
    "1e3", "\u{A0}5", "5\u{85}",
  ]) func `a content-length is digits and nothing else`(value: String) {
    #expect(status("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: \(value)\r\n") == 400)
  }

  @Test(arguments: [
    ("Content-Length: 5\r\nTransfer-Encoding: chunked", 400),
    ("Transfer-Encoding: chunked\r\nContent-Length: 5", 400),
    ("Content-Length: 5\r\nContent-Length: 5", 400), ("Content-Length: 5\r\nContent-Length: 6", 400),
    ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", 400), ("Transfer-Encoding: identity", 400),
    ("Transfer-Encoding: gzip", 400), ("Transfer-Encoding: gzip, chunked", 501),
    ("Transfer-Encoding: chunked, chunked", 400), ("Transfer-Encoding: chunked, gzip", 400),
    ("Transfer-Encoding: chunked;q=1", 400), ("Transfer-Encoding: xchunked", 400),
    ("Transfer-Encoding:", 400),
    ("Transfer-Encoding: chunked,", 400), ("Transfer-Encoding: chun\u{212A}ed", 400),
    ("Transfer-Encoding: \u{A0}chunked", 400), ("Transfer-Encoding: \u{B}chunked", 400),
    ("Transfer-Encoding: \"chunked\"", 400), ("Authorization: a\r\nauthorization: b", 400),
    ("Host: other", 400),
  ]) func `doubtful framing is refused`(fields: String, expected: Int) {
    #expect(status("POST / HTTP/1.1\r\nHost: h\r\n\(fields)\r\n\r\n0\r\n\r\n") == expected)
  }

  @Test func `the coding's name has no case`() {
    let text = "POST / HTTP/1.1\r\nHost: h\r\nTRANSFER-ENCODING: \t ChunKed \r\n\r\n0\r\n\r\n"
    #expect(parse(text).description == "POST / | Host=h TRANSFER-ENCODING=ChunKed | ")
    #expect(status("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n") == 400)
  }

  @Test func `the only expectation is 100-continue`() {
    let head = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nExpect: "
    #expect(parse(head + "100-Continue\r\n\r\nx").requests.first == "expects 100-continue")
    #expect(status(head + "200-ok\r\n\r\n") == 417)
    #expect(parse("GET / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n\r\n").requests.count == 1)
    #expect(parse("POST / HTTP/1.0\r\nContent-Length: 1\r\nExpect: x\r\n\r\ny").error == nil)
  }

  @Test func `limits are exact`() {
    func get(target: Int) -> String {
      "GET /\(String(repeating: "a", count: target - 1)) HTTP/1.1\r\nHost: h\r\n\r\n"
    }
    #expect(status(get(target: 8192)) == nil)
    #expect(status(get(target: 8193)) == 414)
    func get(line: Int) -> String {
      "GET / HTTP/1.1\r\nHost: h\r\nA: \(String(repeating: "a", count: line - 3))\r\n\r\n"
    }
    #expect(status(get(line: 8192)) == nil)
    #expect(status(get(line: 8193)) == 431)
    func get(fields: Int) -> String {
      "GET / HTTP/1.1\r\nHost: h\r\n" + String(repeating: "A: b\r\n", count: fields - 1) + "\r\n"
    }
    #expect(status(get(fields: 100)) == nil)
    #expect(status(get(fields: 101)) == 431)
  }

  @Test func `the head as a whole is limited`() {
    let fixed = "GET / HTTP/1.1\r\nHost: h\r\n\r\n".utf8.count
    func get(bytes: Int) -> String {
      let lines = 89
      let each = (bytes - fixed) / lines
      let last = bytes - fixed - each * (lines - 1)
      return "GET / HTTP/1.1\r\nHost: h\r\n"
        + String(repeating: "A: \(String(repeating: "a", count: each - 5))\r\n", count: lines - 1)
        + "A: \(String(repeating: "a", count: last - 5))\r\n\r\n"
    }
    #expect(get(bytes: 32768).utf8.count == 32768)
    #expect(status(get(bytes: 32768)) == nil)
    #expect(status(get(bytes: 32769)) == 431)
  }

  @Test func `a body over the limit is refused by its announcement`() {
    var limits = Limits()
    limits.bodyBytes = 4
    #expect(status("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nabcd", limits: limits) == nil)
    #expect(status("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n", limits: limits) == 413)
    #expect(status("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9223372036854775807\r\n\r\n") == 413)
  }

  @Test func `a discarded body is framed but not kept`() throws {
    var parser = RequestParser()
    parser.feed(
      Array(
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhelloGET / HTTP/1.1\r\nHost: h\r\n\r\n".utf8))
    guard case .head = try parser.next() else {
      Issue.record("no head")
      return
    }
    #expect(parser.declaredBodyBytes == 5)
    parser.discardsBody = true
    guard case .body(let body) = try parser.next(), case .head(let second, _) = try parser.next() else {
      Issue.record("no second request")
      return
    }
    #expect(body == [])
    #expect(second.method == "GET")
  }

  @Test func `an error is final`() {
    var parser = RequestParser()
    parser.feed(Array("GET\r\n".utf8))
    #expect(throws: HTTPError.self) { try parser.next() }
    parser.feed(Array("GET / HTTP/1.1\r\nHost: h\r\n\r\n".utf8))
    #expect(throws: HTTPError.self) { try parser.next() }
  }

  @Test func `a header line of any length costs linear time and little memory`() {
    var parser = RequestParser()
    parser.feed(Array("GET / HTTP/1.1\r\nA: ".utf8))
    #expect(throws: HTTPError.self) {
      for _ in 0..<1000 {
        _ = try parser.next()
        parser.feed([UInt8](repeating: 0x61, count: 1024))
      }
    }
  }
}

@Suite struct RefusedBodyTests {
  @Test func `what was read of a body is given back with the error that ends it`() throws {
    var limits = Limits()
    limits.bodyBytes = 100
    var parser = RequestParser(limits: limits)
    parser.feed("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n50\r\n".utf8)
    guard case .head = try parser.next() else { return #expect(Bool(false), "a head") }
    parser.feed([UInt8](repeating: 0x61, count: 80) + Array("\r\n".utf8))
    guard case .needMore = try parser.next() else { return #expect(Bool(false), "a part of the body") }
    #expect(parser.bufferedBodyBytes == 80)
    parser.feed("50\r\n".utf8)
    #expect(throws: HTTPError.bodyTooLarge(limit: 100)) { try parser.next() }
    #expect(parser.bufferedBodyBytes == 0)
    #expect(throws: HTTPError.bodyTooLarge(limit: 100)) { try parser.next() }
  }
}

@Suite struct ParserMutationTests {
  static let seeds = [
    "GET /v1/models?limit=2 HTTP/1.1\r\nHost: localhost:8080\r\nUser-Agent: x\r\nAccept: */*\r\n\r\n",
    "POST /v1/chat/completions HTTP/1.1\r\nHost: [::1]:80\r\nContent-Type: application/json\r\nContent-Length: 11\r\n"
      + "Connection: keep-alive, x\r\n\r\n{\"a\": true}GET / HTTP/1.1\r\nHost: h\r\n\r\n",
    "POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"
      + "5;a=\"b\\\"c\";d = e\r\nhello\r\n1A\r\nabcdefghijklmnopqrstuvwxyz\r\n000\r\nTrailer: x\r\n\r\nGET",
    "OPTIONS http://user.example:1/%2F%41?x HTTP/1.0\r\nX-Request-Id: 1\r\n\r\n",
  ]

  @Test func `ten thousand mutated requests give the same result however they are cut`() {
    var random = SeededGenerator(seed: 0x4854_5450)
    var limits = Limits()
    limits.fieldLineBytes = 60
    limits.headBytes = 300
    limits.fieldCount = 5
    limits.bodyBytes = 40
    limits.chunkExtensionBytes = 20
    limits.trailerBytes = 20
    for round in 0..<10_000 {
      let input = mutated(Array(Self.seeds[round % Self.seeds.count].utf8), using: &random)
      let whole = outcome(input, piece: max(1, input.count), limits: limits)
      let pieces = outcome(input, piece: 1 + round % 9, limits: limits)
      #expect(whole == pieces, "round \(round): \(input)")
      if whole.error != nil { #expect((400...505).contains(whole.error?.status ?? 0)) }
    }
  }

  @Test func `every prefix of a request is incomplete and never an error`() {
    for seed in Self.seeds {
      let bytes = Array(seed.utf8)
      for count in 0...bytes.count {
        #expect(outcome(Array(bytes[..<count]), piece: 3).error == nil, "\(count) bytes of \(seed)")
      }
    }
  }
}
