// Methods and paths to handlers.

import HTTP
import Testing

@Suite struct RouterTests {
  private let router: Router = {
    var router = Router()
    router.on("GET", "/health") { _, _ in .text("health") }
    router.on("GET", "/v1/models") { _, _ in .text("models") }
    router.on("GET", "/v1/models/:id") { request, _ in .text("model " + (request.parameter("id") ?? "?")) }
    router.on("GET", "/v1/models/default") { _, _ in .text("the default") }
    router.on("POST", "/v1/responses") { _, _ in .text("create") }
    router.on("DELETE", "/v1/responses/:id") { request, _ in
      .text("delete " + (request.parameter("id") ?? "?"))
    }
    router.on("GET", "/v1/responses/:id/items/:item") { request, _ in
      .text("\(request.parameters.map { "\($0.name)=\($0.value)" })")
    }
    router.on("GET", "/") { _, _ in .text("page") }
    return router
  }()

  private func respond(_ method: String, _ target: String) throws -> String {
    let response = router.respond(to: try Request(method, target), ConnectionContext())
    let body = String(decoding: try response.collectedBody(), as: UTF8.self)
    let allow = response.headers["allow"].map { " [\($0)]" } ?? ""
    return response.status == 200 ? body : "\(response.status)\(allow)"
  }

  @Test(arguments: [
    ("GET", "/health", "health"), ("GET", "/health?x=/v1/models", "health"), ("HEAD", "/health", "health"),
    ("GET", "/", "page"), ("GET", "/v1/models", "models"), ("GET", "/v1/models/org%2Fm", "model org/m"),
    ("GET", "/v1/models/default", "the default"), ("GET", "/v1/models/..", "model .."),
    ("GET", "/v1/responses/r/items/i", #"["id=r", "item=i"]"#), ("DELETE", "/v1/responses/r", "delete r"),
    ("GET", "/v1/nope", "404"), ("GET", "/v1%2fmodels", "404"), ("GET", "//v1/models", "404"),
    ("GET", "/V1/models", "404"), ("GET", "/v1/models/", "404"), ("GET", "/health;/v1/models", "404"),
    ("GET", "/health/../v1/models", "404"), ("GET", "/%2e%2e/", "404"), ("OPTIONS", "/nope", "404"),
    ("PUT", "/v1/responses", "405 [POST, OPTIONS]"), ("GET", "/v1/responses/r", "405 [DELETE, OPTIONS]"),
    ("POST", "/v1/models", "405 [GET, HEAD, OPTIONS]"), ("TRACE", "/health", "405 [GET, HEAD, OPTIONS]"),
    ("HEAD", "/v1/responses", "405 [POST, OPTIONS]"), ("OPTIONS", "/v1/models/x", "204 [GET, HEAD, OPTIONS]"),
    ("OPTIONS", "*", "204 [GET, HEAD, POST, DELETE, OPTIONS]"),
  ]) func `requests find their route`(method: String, target: String, expected: String) throws {
    #expect(try respond(method, target) == expected)
  }

  @Test func `letters that only look the same are another path`() throws {
    var router = Router()
    router.on("GET", "/caf\u{E9}") { _, _ in .text("found") }
    #expect(router.screen(try Request("GET", "/caf%C3%A9"), ConnectionContext()) == nil)
    #expect(router.screen(try Request("GET", "/cafe%CC%81"), ConnectionContext())?.status == 404)
  }

  @Test func `the route that a request took is told`() throws {
    var router = Router()
    router.on("GET", "/v1/models/:id") { _, _ in .text("x") }
    let context = ConnectionContext()
    _ = router.respond(to: try Request("GET", "/v1/nope"), context)
    #expect(context.route == nil)
    _ = router.respond(to: try Request("GET", "/v1/models/a%2Fb"), context)
    #expect(context.route == "/v1/models/:id")
  }

  @Test func `screening answers what needs no body`() throws {
    #expect(router.screen(try Request("POST", "/v1/responses"), ConnectionContext()) == nil)
    #expect(router.screen(try Request("POST", "/nope"), ConnectionContext())?.status == 404)
    #expect(router.screen(try Request("PUT", "/health"), ConnectionContext())?.status == 405)
    #expect(router.screen(try Request("OPTIONS", "/health"), ConnectionContext())?.status == 204)
  }

  @Test func `OPTIONS can be answered by the caller`() throws {
    var router = router
    router.options = { _, allowed in .text(allowed.joined(separator: "+")) }
    let response = router.respond(to: try Request("OPTIONS", "/health"), ConnectionContext())
    #expect(try response.collectedBody() == Array("GET+HEAD+OPTIONS".utf8))
  }

  @Test func `routes can be listed`() {
    #expect(
      router.routes.prefix(2).map { "\($0.method) \($0.pattern)" } == ["GET /health", "GET /v1/models"])
  }
}
