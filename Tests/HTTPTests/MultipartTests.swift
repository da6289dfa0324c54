// multipart/form-data: what clients send, and what nobody should.

import Support
import Testing

@testable import HTTP

@Suite struct MultipartTests {
  private static let type = "multipart/form-data; boundary=xYz"

  private func parse(_ text: String, type: String = type, limit: Int = 10) -> Result<
    [FormPart], MultipartError
  > {
    do throws(MultipartError) {
      return .success(try Multipart.parse(Array(text.utf8), contentType: type, limit: limit))
    } catch {
      return .failure(error)
    }
  }

  @Test func `parts have names and bytes`() throws {
    let body =
      "preamble\r\n--xYz\r\nContent-Disposition: form-data; name=\"request\"\r\n\r\n{}\r\n--xYz  \r\n"
      + "content-disposition: form-data; filename=\"a \\\"b\\\".png\"; name=cat\r\nContent-Type: Image/PNG; q=1\r\n\r\n"
      + "\r\n--xY\r\n--xYz\r\nContent-Disposition: form-data; name=empty\r\n\r\n\r\n--xYz--\r\nepilogue"
    #expect(
      try parse(body).get() == [
        FormPart(name: "request", body: Array("{}".utf8)),
        FormPart(
          name: "cat", body: Array("\r\n--xY".utf8), filename: "a \"b\".png", contentType: "Image/PNG; q=1"),
        FormPart(name: "empty", body: []),
      ])
  }

  @Test func `a boundary may be quoted and stand at the start`() throws {
    let body = "--a b\r\nContent-Disposition: form-data; name=x\r\n\r\n1\r\n--a b--"
    let parts = try parse(body, type: "Multipart/Form-Data; charset=utf-8; boundary=\"a b\"").get()
    #expect(parts.map(\.body) == [[0x31]])
  }

  @Test(arguments: [
    ("--xYz--", "multipart/form-data", MultipartError.noBoundary),
    ("--xYz--", "multipart/form-data; boundary=", .noBoundary),
    ("nothing", type, .malformed("the boundary does not occur")),
    ("--xYz", type, .malformed("a boundary's line does not end")),
    ("--xYz\r\nA: b\r\n", type, .malformed("a part's header line does not end, or is too long")),
    ("--xYz\r\nA: b\r\n\r\nx", type, .malformed("the last boundary is missing")),
    ("--xYz\r\nA: b\r\n\r\n\r\n--xYz--", type, .malformed("a part has no name")),
    ("--xYz\r\nA b\r\n\r\n\r\n--xYz--", type, .malformed("a part's header line has no colon")),
    (
      "--xYz\r\nContent-Disposition: form-data; name=x\r\nContent-Transfer-Encoding: base64\r\n\r\n\r\n--xYz--",
      type,
      .malformed("a part has a transfer encoding; send its bytes as they are")
    ),
  ])
  func `what is no form is refused with a reason`(body: String, type: String, error: MultipartError) {
    #expect(parse(body, type: type) == .failure(error))
  }

  @Test func `parts and header lines are counted`() {
    let part = "--xYz\r\nContent-Disposition: form-data; name=x\r\n\r\n1\r\n"
    #expect(parse(part + part + "--xYz--", limit: 1) == .failure(.tooManyParts(limit: 1)))
    let head = String(repeating: "A: b\r\n", count: 17)
    #expect(
      parse("--xYz\r\n" + head + "\r\n\r\n--xYz--")
        == .failure(.malformed("a part has too many header lines")))
  }

  @Test func `mutated forms give parts or an error`() {
    let body = Array(
      "--xYz\r\nContent-Disposition: form-data; name=\"request\"\r\n\r\n{}\r\n--xYz\r\nContent-Disposition: form-data; name=cat\r\n\r\n\0\r\n--xYz--"
        .utf8)
    var random = SeededGenerator(seed: 7)
    var whole = 0
    for _ in 0..<5000 {
      let bytes = mutated(body, using: &random)
      if let parts = try? Multipart.parse(bytes, contentType: Self.type, limit: 10) {
        whole += 1
        #expect(parts.reduce(0) { $0 + $1.body.count } <= bytes.count)
      }
    }
    #expect(whole > 100)
  }
}
