// The chat page: what the binary holds, with which fields it is sent, and to whom.

import HTTP
import JSON
import Platform
import Support
import Testing
import Wire

@testable import Server

/// What a browser sends.
private func request(_ method: String = "GET", _ path: String = "/", _ more: Headers = [:]) throws
  -> Request
{
  var headers = more
  headers.add("accept", "text/html,application/xhtml+xml,*/*;q=0.8")
  return try Request(method, path, headers: headers)
}

/// What a policy calls the only element of this kind that stands in the page; there must be no other.
private func digest(of tag: String, in text: String) throws -> String {
  let parts = text.split(separator: "<\(tag)>", omittingEmptySubsequences: false)
  #expect(parts.count == 2 && !text.contains("<\(tag) "))
  let inner = try #require(parts.last?.split(separator: "</\(tag)>").first)
  return "sha256-" + Base64.encode(SHA256.digest(Array(inner.utf8)))
}

private func bytes(_ response: Response?) throws -> [UInt8] { try #require(response).collectedBody() }

@Suite struct PageTests {
  private let page = Page()

  @Test func `the binary holds the files of the sources; run 'make page' after a change`() throws {
    let folder = TestData.root + "/Sources/Server/Page/ui"
    // These two are sent in the page itself.
    let inside = ["early.js", "app.css"]
    let expected = try File.names(in: folder).filter { !inside.contains($0) }.map { name in
      let files = name == "index.html" ? [name] + inside : [name]
      let bytes = try files.flatMap { try File.read(folder + "/" + $0, limit: 1 << 20) }
      let digest = SHA256.hexadecimal(SHA256.digest(bytes))
      return [name == "index.html" ? "" : "ui/" + name, String(digest.prefix(16))]
    }
    #expect(Set(PageFile.all.map { [$0.path, $0.source] }) == Set(expected))
    #expect(page.contents.count == PageFile.all.count)
    // All of it, unpacked and as it is kept and sent.
    #expect(page.contents.map(\.bytes.count).reduce(0, +) < 300_000)
    #expect(PageFile.all.map { $0.packed.utf8.count / 4 * 3 }.reduce(0, +) < 120_000)
  }

  @Test func `the page is sent as it is, or packed to those who take that`() throws {
    let plain = try #require(page.answer(try request()))
    #expect(plain.status == 200)
    #expect(plain.headers["content-type"] == "text/html; charset=utf-8")
    #expect(plain.headers["content-encoding"] == nil)
    #expect(try bytes(plain).starts(with: "<!doctype html>".utf8))
    let packed = try #require(page.answer(try request("GET", "/ui/app.js", ["accept-encoding": "br, gzip"])))
    #expect(packed.headers["content-encoding"] == "gzip")
    #expect(packed.headers["vary"] == "accept-encoding")
    #expect(packed.headers["content-type"] == "text/javascript; charset=utf-8")
    #expect(try bytes(packed).starts(with: [0x1F, 0x8B]))
  }

  @Test func `who reads no HTML gets the sign of life that clients of Ollama look for`() throws {
    for headers: Headers in [[:], ["accept": "*/*"], ["accept": "application/json"]] {
      let response = try #require(page.answer(try Request("GET", "/", headers: headers)))
      #expect(String(decoding: try bytes(response), as: UTF8.self) == "Ollama is running")
      #expect(response.status == 200 && response.headers["vary"] == "accept")
    }
    #expect(try #require(page.answer(try request())).headers["vary"] == "accept, accept-encoding")
  }

  @Test func `who has the page is told so`() throws {
    let first = try #require(page.answer(try request()))
    let tag = try #require(first.headers["etag"])
    let second = try #require(page.answer(try request("GET", "/", ["if-none-match": tag])))
    #expect(second.status == 304)
    #expect(try bytes(second) == [])
    #expect(second.headers["content-security-policy"] == Page.policy)
    let other = page.answer(try request("GET", "/", ["if-none-match": #"W/"0""#]))
    #expect(try #require(other).status == 200)
  }

  @Test func `what is on the page can run nothing, frame nothing and fetch from nowhere else`() throws {
    let response = try #require(page.answer(try request()))
    let text = String(decoding: try bytes(response), as: UTF8.self)
    let script = try digest(of: "script", in: text)
    let style = try digest(of: "style", in: text)
    #expect(
      response.headers["content-security-policy"]
        == "default-src 'none'; script-src 'self' '\(script)'; style-src '\(style)'; "
        + "img-src 'self' data: blob:; media-src 'self' data: blob:; connect-src 'self'; frame-src 'self'; manifest-src 'self'; base-uri 'none'; "
        + "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
        + "trusted-types 'none'"
    )
    #expect(response.headers["referrer-policy"] == "no-referrer")
    #expect(response.headers["cross-origin-opener-policy"] == "same-origin")
  }

  @Test func `a preview has no origin and fetches nothing; its scripts run when asked for`() throws {
    let still = try #require(page.answer(try request("GET", "/ui/preview.html")))
    let text = String(decoding: try bytes(still), as: UTF8.self)
    let rest =
      "style-src 'unsafe-inline'; img-src data: blob:; media-src data: blob:; font-src data:; base-uri 'none'; "
      + "form-action 'none'; frame-ancestors 'self'"
    let own = try digest(of: "script", in: text)
    #expect(
      still.headers["content-security-policy"]
        == "sandbox allow-scripts; default-src 'none'; script-src '\(own)'; " + rest)
    let playing = try #require(page.answer(try request("GET", "/ui/preview.html?scripts")))
    #expect(
      playing.headers["content-security-policy"]
        == "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; " + rest)
    #expect(playing.headers["permissions-policy"] == "camera=(), microphone=(), geolocation=()")
  }

  @Test func `the page needs no key and no model, and nothing else gets in with it`() throws {
    let door = try makeDoor(nil, page: page) { try $0.keys.add("sk-a", source: "test") }
    #expect(try door.send("GET", "/").status == 200)
    let script = try door.send("GET", "/ui/app.js")
    #expect(script.status == 200 && script.headers["x-content-type-options"] == "nosniff")
    #expect(script.headers["cross-origin-resource-policy"] == "same-origin")
    #expect(try door.send("GET", "/ui/none.js").status == 401)
    #expect(try door.send("POST", "/").status == 401)
    #expect(try door.send("GET", "/v1/models").status == 401)
    #expect(
      try door.send("GET", "/v1/models", headers: ["host": "localhost", "authorization": "Bearer sk-a"])
        .status == 503)
  }

  @Test func `hosts and origins are looked at before the page`() throws {
    let door = try makeDoor(nil, page: page)
    #expect(try door.send("GET", "/", headers: ["host": "evil.com"]).status == 403)
    #expect(
      try door.send("GET", "/ui/app.js", headers: ["host": "localhost", "origin": "http://evil.com"]).status
        == 403)
  }

  @Test func `the entrance for administration has no page`() throws {
    for (entrance, status) in [(Entrance.administration, 404), (.clients, 200), (.only, 200)] {
      let door = try makeDoor(makeApp(FakeService("x")), page: page, entrance: entrance)
      #expect(try door.send("GET", "/").status == status, "\(entrance)")
    }
  }

  @Test func `a server without the page has nothing at its path`() throws {
    let door = try makeDoor(makeApp(FakeService("x")))
    #expect(try door.send("GET", "/").status == 404)
  }

  @Test func `other paths and methods are not the page's`() throws {
    for path in ["/ui", "/ui/", "/ui/none.js", "/ui/app.js/", "/v1/models", "/ui/../ui/app.js"] {
      #expect(page.answer(try request("GET", path)) == nil)
    }
    #expect(page.answer(try request("POST")) == nil)
    #expect(page.answer(try request("HEAD")) != nil)
  }
}
