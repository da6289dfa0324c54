// The bytes of responses and events.

import Support
import Testing

@testable import HTTP

@Suite struct ResponseTests {
  private func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }

  @Test func `a head has its framing, the date and the request's name`() {
    var response = Response.text("hello", status: 404)
    response.headers.add("content-length", "99")
    response.headers.add("Connection", "x")
    let head = ResponseWriter.head(
      response, framing: .length(5), connection: "close", requestID: "r1", date: "now")
    #expect(
      text(head) == """
        HTTP/1.1 404 Not Found\r
        content-type: text/plain; charset=utf-8\r
        content-length: 5\r
        connection: close\r
        date: now\r
        x-request-id: r1\r
        \r\n
        """)
  }

  @Test func `chunks carry their size in hexadecimal`() {
    #expect(
      text(ResponseWriter.chunk([UInt8](repeating: 0x61, count: 26), isLast: false)) == "1a\r\n"
        + String(repeating: "a", count: 26) + "\r\n")
    #expect(text(ResponseWriter.chunk(Array("x".utf8), isLast: true)) == "1\r\nx\r\n0\r\n\r\n")
    #expect(ResponseWriter.chunk([], isLast: false) == [])
    #expect(text(ResponseWriter.chunk([], isLast: true)) == "0\r\n\r\n")
  }

  @Test func `dates are written as the standard's example`() {
    #expect(ResponseWriter.httpDate(784_111_777) == "Sun, 06 Nov 1994 08:49:37 GMT")
    #expect(ResponseWriter.httpDate(0) == "Thu, 01 Jan 1970 00:00:00 GMT")
    #expect(ResponseWriter.httpDate(4_102_444_799) == "Thu, 31 Dec 2099 23:59:59 GMT")
  }

  @Test func `an event is one data line, or one for each line of data`() {
    #expect(text(EventStream.framed(Array("{}".utf8), event: nil)) == "data: {}\n\n")
    #expect(text(EventStream.framed(Array("a".utf8), event: "x\ny")) == "event: xy\ndata: a\n\n")
    #expect(
      text(EventStream.framed(Array("a\nb\r\nc\rd\n".utf8), event: nil))
        == "data: a\ndata: b\ndata: c\ndata: d\ndata: \n\n")
  }

  @Test func `a stream can be collected without a socket`() throws {
    let response = Response.events { events in
      try events.send("1")
      try events.keepAlive()
      #expect(!events.isClientGone())
      events.finish("[DONE]")
      try events.send("too late")
    }
    #expect(text(try response.collectedBody()) == "data: 1\n\n: keep-alive\n\ndata: [DONE]\n\n")
    #expect(try Response.text("x").collectedBody() == [0x78])
  }

  @Test func `one event is one write`() throws {
    var writes: [String] = []
    let writer = BodyWriter { bytes, isLast in writes.append(self.text(bytes) + (isLast ? "END" : "")) }
    let events = EventStream(writer)
    try events.send("1")
    try events.send("2", event: "e")
    events.finish("[DONE]")
    events.finish("again")
    #expect(writes == ["data: 1\n\n", "event: e\ndata: 2\n\n", "data: [DONE]\n\nEND"])
    #expect(writer.bytesWritten == 9 + 18 + 14)
  }

  @Test func `a client that leaves at the end is no error`() {
    let writer = BodyWriter { (_, _) throws(SocketError) in throw .clientGone }
    #expect(throws: SocketError.clientGone) { try writer.write([1]) }
    writer.finish([1])
    #expect(writer.closesConnection)
    #expect(writer.bytesWritten == 0)
  }

  @Test func `errors have a status, a word and a closing connection`() {
    let format = ErrorFormat(contentType: "application/json") { error, _, _ in
      Array("{\"\(error.code)\":\(error.status)}".utf8)
    }
    let overload = format.response(.tooManyBodies)
    #expect(overload.status == 503)
    #expect(overload.headers["retry-after"] == "1")
    #expect(overload.headers["content-type"] == "application/json")
    #expect(overload.closesConnection)
    let method = format.response(.methodNotAllowed(method: "PUT", allowed: ["GET", "HEAD"]))
    #expect(method.headers["allow"] == "GET, HEAD")
    #expect(!method.closesConnection)
    #expect(text((try? method.collectedBody()) ?? []) == "{\"method_not_allowed\":405}")
    #expect(!format.response(.notFound(path: "/x")).closesConnection)
  }

  @Test(arguments: [
    ("abc-1_2.3:4", true), ("", false), ("a b", false), ("a%0d%0ab", false), ("é", false), ("a,b", false),
    (String(repeating: "x", count: 128), true), (String(repeating: "x", count: 129), false),
  ]) func `a client's request identifier is used when it is harmless`(id: String, isUsed: Bool) {
    let used = ConnectionContext.requestID(for: ["x-request-id": id])
    #expect((used == id) == isUsed)
    if !isUsed { #expect(used.beginsWithBytes("req_") && used.utf8.count == 20) }
  }
}
