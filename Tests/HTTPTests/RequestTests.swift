// Targets, hosts, queries and header lists.

import HTTP
import Testing

@Suite struct RequestTests {
  private func target(_ text: String, method: String = "GET") -> RequestTarget? {
    (try? Request(method, text))?.target
  }

  @Test func `segments are decoded after splitting`() {
    #expect(target("/v1/models/org%2Fm%20x")?.segments == ["v1", "models", "org/m x"])
    #expect(target("/v1/models/org%2Fm")?.path == "/v1/models/org%2Fm")
    #expect(target("/")?.segments == [""])
    #expect(target("//a/")?.segments == ["", "a", ""])
    #expect(target("/%2e%2e/..")?.segments == ["..", ".."])
  }

  @Test(arguments: ["/%", "/%4", "/%zz", "/%00", "/%ff", "/%ED%A0%80", "/%+1"])
  func `escapes that are not text are refused`(text: String) {
    #expect(target(text) == nil)
  }

  @Test func `an absolute target is a path and an authority`() throws {
    let request = try Request("GET", "HTTP://Example.com:80/a?b", headers: ["host": "other"])
    #expect(request.path == "/a")
    #expect(request.target.query == "b")
    #expect(request.host?.name == "example.com")
    #expect(request.host?.port == 80)
    #expect(target("http://h")?.path == "/")
    #expect(target("http://h?x")?.segments == [""])
    #expect(target("http://h?x")?.query == "x")
    #expect(target("http://user@h/") == nil)
    #expect(target("http:///a") == nil)
    #expect(target("ftp://h/a") == nil)
  }

  @Test func `a star is for OPTIONS`() {
    #expect(target("*", method: "OPTIONS")?.path == "*")
    #expect(target("*") == nil)
  }

  @Test func `query values are decoded as forms`() throws {
    let request = try Request("GET", "/?a=1&b=x+y%20z&c&%64=é&e=%zz&a=2&==&&f=%C3%A9")
    #expect(request.query("a") == "1")
    #expect(request.query("b") == "x y z")
    #expect(request.query("c") == "")
    #expect(request.query("e") == "%zz")
    #expect(request.query("f") == "é")
    #expect(request.query("x") == nil)
    #expect(try Request("GET", "/").query("a") == nil)
  }

  @Test(arguments: [
    "localhost", "LOCALHOST:8080", "127.0.0.1", "a.b-c_d~.", "h:", "h:0", "h:65535", "[::1]", "[::1]:80",
    "[::]",
    "[1:2:3:4:5:6:7:8]", "[1::8]", "[::ffff:1.2.3.4]", "[2001:DB8::1%25en1]:80", "[v0.1azAZ.!$:]:1",
    "-._~!$&'()*+,;=%25.example.com", "example.com.:80",
  ]) func `these are hosts`(text: String) {
    #expect(Authority.parse(text) != nil)
  }

  @Test(arguments: [
    "", ":80", ".", ".a", "a..b", "a/b", "a\\b", "a b", "a@b", "é", "h:8x", "h:65536", "h:-1", "h:80:80",
    "[::1", "::1", "[]",
    "[::1]x", "[::1]:x", "[1:2]", "[1:2:3:4:5:6:7:8:9]", "[1::2::3]", "[:1:2:3:4:5:6:7]", "[12345::]",
    "[::1.2.3]",
    "[::1.2.3.256]", "[::ffff:127.0.0.1]x", "[::1%en1]", "[::1%25]", "[v1]", "[v1.]", "[v0.1/2]",
    "[2001:db8::1..2]",
    "a%2", "a%zz", "localhost\0.evil.com", "h\u{7F}",
  ]) func `these are not`(text: String) {
    #expect(Authority.parse(text) == nil)
  }

  @Test func `the host comes without brackets, port and case`() throws {
    #expect(Authority.parse("[::1]:80")?.host == "::1")
    #expect(Authority.parse("LocalHost")?.host == "localhost")
    #expect(try Request("GET", "/", headers: ["host": "A:1"]).host?.name == "a")
    #expect(try Request("GET", "/").host == nil)
  }
}

@Suite struct HeadersTests {
  @Test func `fields keep their order and are found without case`() {
    var headers: Headers = ["A": "1", "b": "2", "a": "3"]
    #expect(headers.fields.map(\.name) == ["A", "b", "a"])
    #expect(headers["B"] == "2")
    #expect(headers.first("a")?.text == "1")
    headers.set("a", "4")
    #expect(headers.fields.map(\.text) == ["2", "4"])
    headers.remove("A")
    #expect(!headers.contains("a"))
  }

  @Test func `only ASCII letters lose their case`() {
    let headers: Headers = ["k": "1"]
    #expect(headers["\u{212A}"] == nil)
  }

  @Test func `lists are searched over all fields`() {
    let headers: Headers = ["connection": "a , Close", "Connection": "x"]
    #expect(headers.hasToken("close", in: "connection"))
    #expect(headers.hasToken("X", in: "connection"))
    #expect(!headers.hasToken("clos", in: "connection"))
  }

  @Test func `a value cannot forge a second field`() {
    var headers = Headers()
    headers.add("a", "1\r\nSet-Cookie: x\0")
    headers.add("b\r\nc", "2")
    headers.add("", "3")
    #expect(headers.fields.map { "\($0.name)=\($0.text)" } == ["a=1  Set-Cookie: x "])
  }
}
