// Hosts, origins and keys, before anything of a request's body is read.

import HTTP
import Inference
import JSON
import Platform
import Testing

@testable import Server

@Suite struct AccessTests {
  private let app = makeApp(FakeService("x"))

  private func refusal(_ door: Door, _ headers: Headers, path: String = "/v1/models") throws -> String? {
    try door.screen("GET", path, headers: headers)?.refusal
  }

  // MARK: Wrong keys

  @Test func `an address may try some wrong keys, then one a second`() {
    var wrong = WrongKeys()
    let start = Instant.now
    func note(from address: String, at time: Instant) -> Int? { wrong.note(from: address, at: time) }
    for _ in 0..<20 { #expect(note(from: "a", at: start) == nil) }
    #expect(note(from: "a", at: start) == 1)
    #expect(note(from: "b", at: start) == nil)
    let later = start.adding(seconds: 1.1)
    #expect(note(from: "a", at: later) == nil)
    #expect(note(from: "a", at: later) == 1)
    for _ in 0..<20 { #expect(note(from: "a", at: start.adding(seconds: 1000)) == nil) }
    #expect(note(from: "a", at: start.adding(seconds: 1000)) == 1)
  }

  @Test func `among too many wrong keys only clients that were known before go on`() {
    var wrong = WrongKeys()
    let start = Instant.now
    func note(from address: String, at time: Instant) -> Int? { wrong.note(from: address, at: time) }
    func admits(_ client: UInt64, from address: String, at time: Instant) -> Bool {
      wrong.admits(client, from: address, at: time)
    }
    #expect(admits(1, from: "a", at: start))
    for _ in 0..<20 { #expect(note(from: "a", at: start) == nil) }
    #expect(admits(1, from: "a", at: start) && !admits(2, from: "a", at: start))
    #expect(admits(2, from: "b", at: start))
    #expect(admits(2, from: "a", at: start.adding(seconds: 1.1)))
  }

  @Test func `what is remembered of addresses is bounded`() {
    var wrong = WrongKeys()
    let start = Instant.now
    func note(from address: String, at time: Instant) -> Int? { wrong.note(from: address, at: time) }
    for number in 0..<20_000 {
      #expect(note(from: "\(number)", at: start.adding(seconds: Double(number) / 1000)) == nil)
    }
    #expect(wrong.count <= 4_096)
  }

  @Test func `too many wrong keys are told, and health is still there`() throws {
    let door = try makeDoor(app) { try? $0.keys.add("right", source: "test") }
    func ask(_ key: String) throws -> String? {
      try refusal(door, ["host": "localhost", "authorization": "Bearer \(key)"])
    }
    for _ in 0..<20 { #expect(try ask("wrong") == "401 invalid_api_key null") }
    #expect(try ask("wrong") == "429 too_many_wrong_keys null")
    #expect(try ask("right") == "429 too_many_wrong_keys null")
    #expect(try refusal(door, ["host": "localhost"]) == "401 invalid_api_key null")
    #expect(try refusal(door, ["host": "localhost"], path: "/health") == nil)
  }

  // MARK: Roles and entrances

  private static let adminPaths = [("GET", "/metrics"), ("POST", "/models/load"), ("POST", "/models/unload")]

  private func ask(
    _ method: String, _ path: String, isAdmin: Bool = true, at entrance: Entrance = .only
  ) throws -> String {
    let context = ConnectionContext()
    context.client = ClientIdentity(number: 1, name: "a", key: 1, isAdmin: isAdmin)
    context.entrance = entrance
    let answer = try app.send(method, path, body: method == "POST" ? #"{"model":"m"}"# : "", context: context)
    return answer.status < 400 ? "ok" : answer.refusal
  }

  @Test(arguments: adminPaths)
  func `what concerns all clients needs the role`(method: String, path: String) throws {
    #expect(try ask(method, path, isAdmin: false) == "403 admin_required null")
    #expect(try ask(method, path).contains("admin") == false)
  }

  @Test(arguments: adminPaths)
  func `with an entrance of its own it is only there`(method: String, path: String) throws {
    #expect(try ask(method, path, at: .clients) == "403 wrong_entrance null")
    #expect(try ask(method, path, at: .administration).contains("entrance") == false)
    #expect(try ask(method, path, isAdmin: false, at: .administration) == "403 admin_required null")
  }

  @Test(arguments: [(false, Entrance.only, false), (true, .only, true), (true, .clients, false)])
  func `how long a model stays is said by who may unload it`(isAdmin: Bool, entrance: Entrance, may: Bool)
    throws
  {
    let garage = Garage()
    let fleet = try garage.fleet(["m"])
    defer { fleet.stop() }
    let app = App(fleet)
    func ask(_ members: String) throws -> Answer {
      let context = ConnectionContext()
      context.client.isAdmin = isAdmin
      context.entrance = entrance
      return try app.send(
        "POST", "/api/generate", body: #"{"model":"m","stream":false\#(members)}"#, context: context)
    }
    for time in ["-1", "5", "\"0s\""] {
      let answer = try ask(#","prompt":"a","keep_alive":\#(time)"#)
      #expect(answer.status == 200 && (answer.headers["x-mlxserve-ignored"] == nil) == may)
    }
    #expect(try ask(#","keep_alive":5"#).status == 200)
    #expect(try ask("").status == 200)
    #expect(try ask(#","keep_alive":0"#).status == (may ? 200 : 403))
    // It is loaded once, unless somebody unloads it.
    #expect(garage.stops.isEmpty || may)
  }

  @Test func `the entrance for administration answers nobody's prompts`() throws {
    #expect(try ask("POST", "/tokenize", at: .administration) == "403 wrong_entrance null")
    for path in ["/health", "/ready", "/readyz", "/livez", "/models"] {
      for entrance in [Entrance.only, .clients, .administration] {
        #expect(try ask("GET", path, isAdmin: false, at: entrance) == "ok", "\(path)")
      }
    }
    #expect(try ask("GET", "/v1/models", isAdmin: false) == "ok")
  }

  @Test func `when the server ends, every entrance says so`() throws {
    let context = ConnectionContext()
    context.isLeaving = true
    #expect(try app.send("GET", "/health", context: context).refusal == "503 shutting_down null")
    #expect(try app.send("GET", "/livez", context: context).status == 200)
  }

  // MARK: Hosts

  @Test(arguments: [
    "localhost", "LOCALHOST:8080", "127.0.0.1", "127.0.0.1:1", "[::1]:8080", "localhost.", "127.9.9.9",
    "box.example:80", "BOX.example",
  ])
  func `hosts of this machine and named ones are served`(host: String) throws {
    let door = try makeDoor(app) { $0.hosts = HostRules(allowed: ["box.example"]) }
    #expect(try refusal(door, ["host": host]) == nil)
  }

  @Test(arguments: [
    "evil.com", "evil.com:8080", "localhost.evil.com", "127.0.0.1.nip.io", "0.0.0.0", "169.254.169.254",
    "[::ffff:127.0.0.1]", "127.1", "2130706433", "xlocalhost", "sub.box.example", "127.evil.com",
  ])
  func `other hosts are refused, health included`(host: String) throws {
    let door = try makeDoor(app) { $0.hosts = HostRules(allowed: ["box.example"]) }
    #expect(try refusal(door, ["host": host]) == "403 host_not_allowed null")
    #expect(try refusal(door, ["host": host], path: "/health") == "403 host_not_allowed null")
  }

  @Test func `a server for other machines takes addresses and its own name`() throws {
    let door = try makeDoor(app) { $0.hosts = HostRules(bind: "0.0.0.0", machine: "Tower") }
    for host in ["192.168.1.5:8080", "[fe80::1]", "tower", "TOWER.local:8080", "localhost", "0.0.0.0"] {
      #expect(try refusal(door, ["host": host]) == nil, "\(host)")
    }
    for host in ["evil.com", "tower.evil.com", "192.168.1.5.nip.io"] {
      #expect(try refusal(door, ["host": host]) == "403 host_not_allowed null", "\(host)")
    }
    let any = try makeDoor(app) { $0.hosts = HostRules(bind: "0.0.0.0", allowed: ["*"]) }
    #expect(try refusal(any, ["host": "evil.com"]) == nil)
  }

  @Test func `a Unix socket has no host to check`() throws {
    let context = ConnectionContext(peer: Endpoint(unixPath: ""))
    let door = try makeDoor(app)
    #expect(try door.screen("GET", "/v1/models", headers: ["host": "evil.com"], context: context) == nil)
  }

  // MARK: Origins

  @Test(arguments: [
    "http://localhost:3000", "https://127.0.0.1", "http://[::1]:5173", "https://app.example",
    "chrome-extension://abc",
  ])
  func `pages of this machine and named ones may read answers`(origin: String) throws {
    let door = try makeDoor(app) {
      $0.origins = OriginRules(allowed: ["https://app.example", "chrome-extension://abc"])
    }
    let answer = try door.send("GET", "/v1/models", headers: ["host": "localhost", "origin": origin])
    #expect(answer.status == 200)
    #expect(answer.headers["access-control-allow-origin"] == origin)
    #expect(answer.headers["vary"] == "Origin")
    #expect(answer.headers["access-control-expose-headers"]?.contains("x-request-id") == true)
    #expect(answer.headers["access-control-allow-credentials"] == nil)
  }

  @Test(arguments: [
    "https://evil.com", "null", "http://localhost.evil.com", "http://app.example", "https://APP.example",
    "https://app.example:8443", "https://app.example.", "https://app.example/", "http://x/localhost", "",
    "http://", "file://", "http://localhost@evil.com", "http://\u{301}localhost",
  ])
  func `other pages are refused and told nothing`(origin: String) throws {
    let door = try makeDoor(app) { $0.origins = OriginRules(allowed: ["https://app.example"]) }
    for method in ["GET", "POST"] {
      let path = method == "GET" ? "/v1/models" : "/v1/chat/completions"
      let answer = try door.send(method, path, headers: ["host": "localhost", "origin": origin])
      #expect(answer.refusal == "403 origin_not_allowed null")
      #expect(answer.headers["access-control-allow-origin"] == nil)
    }
  }

  @Test(arguments: [
    ("app://obsidian.md", true), ("app://-", true), ("tauri://localhost", true),
    ("http://tauri.localhost", true),
    ("https://tauri.localhost", true), ("vscode-webview://0abc-def", true),
    ("vscode-file://vscode-app", true),
    ("null", false), ("file://", false), ("https://evil.com", false),
    ("http://tauri.localhost.evil.com", false),
    ("application://x", false), ("https://app://x", false), ("http://x.tauri.localhost", false),
  ])
  func `pages of desktop programs come with one flag, and no page of the web does`(
    origin: String, isDesktop: Bool
  ) throws {
    let headers: Headers = ["host": "localhost", "origin": origin]
    #expect(try refusal(makeDoor(app), headers) == "403 origin_not_allowed null")
    let door = try makeDoor(app) { $0.origins = OriginRules(desktop: true) }
    #expect(try refusal(door, headers) == (isDesktop ? nil : "403 origin_not_allowed null"))
    let answer = try door.send("GET", "/v1/models", headers: headers)
    #expect(answer.headers["access-control-allow-origin"] == (isDesktop ? origin : nil))
  }

  @Test(arguments: ["GET", "HEAD"])
  func `what pages of other sites embed or lead to is refused, but for links to the chat page`(method: String)
    throws
  {
    let page = Page()
    func ask(_ path: String, _ headers: Headers, _ door: Door) throws -> Int {
      var headers = headers
      headers.add("host", "localhost")
      return try door.send(method, path, headers: headers).status
    }
    let door = try makeDoor(app, page: page)
    let image: Headers = [
      "sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image",
    ]
    let link: Headers = [
      "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document",
    ]
    let frame: Headers = [
      "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe",
    ]
    for path in ["/v1/models", "/slots?model=m", "/health", "/", "/ui/app.js", "/nope"] {
      for headers in [image, frame, ["sec-fetch-site": "Cross-Site"], link] {
        let isLink = headers["sec-fetch-dest"] == "document" && path == "/"
        #expect(try ask(path, headers, door) == (isLink ? 200 : 403), "\(path) \(headers)")
      }
      for site in ["same-origin", "same-site", "none"] {
        let status = try ask(path, ["sec-fetch-site": site, "sec-fetch-mode": "no-cors"], door)
        #expect(status == (path == "/nope" ? 404 : 200), "\(path) \(site)")
      }
    }
    #expect(try ask("/?q=x", link, door) == 200)
    // An origin that may come is cross-site too; with all origins nothing is refused.
    let named = try makeDoor(app) {
      $0.origins = OriginRules(allowed: ["https://app.example"], desktop: true)
    }
    for origin in ["https://app.example", "app://obsidian.md"] {
      #expect(try ask("/v1/models", ["origin": origin, "sec-fetch-site": "cross-site"], named) == 200)
    }
    #expect(try ask("/v1/models", image, named) == 403)
    let any = try makeDoor(app) { $0.origins = OriginRules(allowed: ["*"]) }
    #expect(try ask("/v1/models", image, any) == 200)
  }

  @Test func `every answer says what it is, and to whose pages`() throws {
    let door = try makeDoor(app, page: Page()) { $0.origins = OriginRules(allowed: ["https://app.example"]) }
    for path in ["/v1/models", "/health", "/nope", "/", "/metrics"] {
      let answer = try door.send("GET", path)
      #expect(answer.headers["x-content-type-options"] == "nosniff", "\(path)")
      #expect(answer.headers["cross-origin-resource-policy"] == "same-origin", "\(path)")
      for (origin, policy) in [("https://app.example", "cross-origin"), ("https://evil.com", "same-origin")] {
        let answer = try door.send("GET", path, headers: ["host": "localhost", "origin": origin])
        #expect(answer.headers["cross-origin-resource-policy"] == policy, "\(path)")
      }
    }
  }

  @Test func `a page may talk to the host it came from`() throws {
    let door = try makeDoor(app) { $0.hosts = HostRules(allowed: ["box.local"]) }
    #expect(try refusal(door, ["host": "box.local:8080", "origin": "https://box.local"]) == nil)
    #expect(
      try refusal(door, ["host": "box.local:8080", "origin": "http://box.local.evil.example"])
        == "403 origin_not_allowed null")
  }

  @Test func `preflights are answered without a key`() throws {
    let door = try makeDoor(app) {
      try $0.keys.add("k", source: "test")
      $0.origins = OriginRules(allowed: ["https://app.example"])
    }
    var headers: Headers = [
      "host": "localhost", "origin": "https://app.example", "access-control-request-method": "POST",
      "access-control-request-headers": "authorization, x-stainless-os",
    ]
    let answer = try door.send("OPTIONS", "/v1/chat/completions", headers: headers)
    #expect(answer.status == 204)
    #expect(answer.headers["access-control-allow-origin"] == "https://app.example")
    #expect(answer.headers["access-control-allow-headers"] == "authorization, x-stainless-os")
    #expect(answer.headers["access-control-allow-methods"]?.contains("POST") == true)
    #expect(answer.headers["access-control-max-age"] == "600")
    headers.set("origin", "https://evil.com")
    #expect(try door.send("OPTIONS", "/v1/chat/completions", headers: headers).status == 403)
    headers.set("origin", "https://app.example")
    headers.remove("access-control-request-method")
    #expect(try door.send("OPTIONS", "/v1/chat/completions", headers: headers).status == 401)
  }

  @Test func `all origins means a star and no credentials`() throws {
    let door = try makeDoor(app) { $0.origins = OriginRules(allowed: ["*"]) }
    let answer = try door.send("GET", "/v1/models", headers: ["host": "localhost", "origin": "null"])
    #expect(answer.headers["access-control-allow-origin"] == "*")
    #expect(answer.headers["access-control-allow-credentials"] == nil)
  }

  // MARK: Keys

  private func locked() throws -> Door {
    try makeDoor(app) { try $0.keys.add("sk-1", source: "test") }
  }

  @Test func `every route but the open ones wants a key`() throws {
    let door = try locked()
    for (method, pattern) in app.routes {
      let isOpen = ["/health", "/ready", "/readyz", "/livez"].contains(pattern)
      let answer = try door.screen(method, pattern)
      #expect((answer?.status ?? 200) == (isOpen ? 200 : 401), "\(method) \(pattern)")
    }
    for target in [
      "/nope", "/health/../v1/models", "/health;/v1/models", "/%68ealth", "/health/", "/metrics?x=/health",
    ] {
      #expect(try door.screen("GET", target)?.status == 401, "\(target)")
    }
    #expect(try door.screen("GET", "/health?x=/v1/models") == nil)
    #expect(try door.screen("POST", "/health")?.status == 401)
  }

  @Test(arguments: [
    "Bearer sk-1", "bearer sk-1", "BEARER  sk-1",
  ])
  func `the right key opens`(value: String) throws {
    #expect(try refusal(locked(), ["host": "localhost", "authorization": value]) == nil)
    #expect(try refusal(locked(), ["host": "localhost", "x-api-key": "sk-1"]) == nil)
    let both: Headers = ["host": "localhost", "authorization": "Bearer none", "x-api-key": "sk-1"]
    #expect(try refusal(locked(), both) == nil)
  }

  @Test(arguments: [
    "", "Bearer", "Bearer ", "Basic sk-1", "sk-1", "Bearer sk-", "Bearer sk-12", "Bearer SK-1",
    "Bearer  x sk-1",
  ])
  func `everything else is 401 in one shape`(value: String) throws {
    let answer = try #require(
      try locked().screen("GET", "/v1/models", headers: ["host": "localhost", "authorization": value]))
    #expect(answer.refusal == "401 invalid_api_key null")
    #expect(answer.json["error"]?["type"] == "authentication_error")
    #expect(answer.headers["www-authenticate"] == "Bearer")
    #expect(!answer.text.contains("sk-1"))
  }

  @Test func `Anthropic's paths refuse in their own words`() throws {
    let answer = try locked().send(
      "POST", "/v1/messages", headers: ["host": "localhost", "x-api-key": "wrong"])
    #expect(answer.status == 401)
    #expect(answer.json["type"] == "error")
    #expect(answer.json["error"]?["type"] == "authentication_error")
    #expect(answer.headers["request-id"] == "req_test")
  }

  @Test func `a file is read again, and a broken one changes nothing`() throws {
    let file = KeyFile("alice: one")
    var settings = Access.Settings()
    settings.keyFile = file.path
    let access = try Access(settings)
    let door = Host(access: access, metrics: Metrics())
    door.open(app)
    let screen = door.configured().screen
    func status(_ key: String) throws -> Int? {
      let headers: Headers = ["host": "localhost", "authorization": "Bearer \(key)"]
      return screen?(try Request("GET", "/v1/models", headers: headers), ConnectionContext())?.status
    }
    #expect(try status("one") == nil)
    file.write("alice: two\nbob: three")
    let (count, gone) = try access.reload()
    #expect(count == 2 && gone.count == 1)
    #expect(try status("one") == 401)
    #expect(try status("two") == nil)
    file.write("# all gone")
    #expect(throws: KeyError.self) { try access.reload() }
    #expect(try status("three") == nil)
  }

  @Test func `generations know whose they are`() throws {
    let service = FakeService("x")
    let door = try makeDoor(makeApp(service)) {
      $0.keyFile = nil
      try $0.keys.add("a", source: "test")
      try $0.keys.add("b", source: "test")
    }
    let chat = #"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#
    let bodies = [
      ("/v1/chat/completions", chat), ("/v1/completions", #"{"model":"m","prompt":"x"}"#),
      ("/v1/messages", #"{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"hi"}]}"#),
      ("/v1/responses", #"{"model":"m","input":"hi"}"#),
    ]
    for key in ["a", "b"] {
      for (path, body) in bodies {
        let headers: Headers = ["host": "localhost", "authorization": "Bearer \(key)"]
        #expect(try door.send("POST", path, headers: headers, body: body).status == 200, "\(path)")
      }
    }
    let tenants = service.requests.map(\.tenant)
    #expect(Set(tenants[..<4]).count == 1 && Set(tenants[4...]).count == 1)
    #expect(Set(tenants).count == 2 && !tenants.contains(0))
  }

  @Test func `without keys the address is the client`() throws {
    let service = FakeService("x")
    let door = try makeDoor(makeApp(service))
    for (address, port) in [("10.0.0.1", 1), ("10.0.0.1", 2), ("10.0.0.2", 1)] {
      let context = ConnectionContext(peer: Endpoint(address: address, port: port))
      let answer = try door.send(
        "POST", "/v1/completions", body: #"{"model":"m","prompt":"x"}"#, context: context)
      #expect(answer.status == 200)
      #expect(context.client.name == nil)
    }
    let tenants = service.requests.map(\.tenant)
    #expect(tenants[0] == tenants[1] && tenants[0] != tenants[2])
  }

  // MARK: Before the model is there

  @Test func `while the model is loading clients are told how much of it is there`() throws {
    let door = try makeDoor(nil)
    let progress = Progress()
    door.door.follow(progress)
    let words = "The model is being loaded. Try again soon."
    let early = try #require(try door.screen("GET", "/v1/models")).json["error"]
    #expect(early?["message"]?.stringValue == words && early?["details"] == nil)
    progress.begin(1000)
    progress.add(457)
    let error = try #require(try door.screen("GET", "/v1/models")).json["error"]
    #expect(
      error?["message"]?.stringValue
        == "The model is being loaded. 45 % of its weights are there. Try again soon.")
    #expect(error?["details"] == ["progress": 0.457] && error?["code"] == "loading")
    door.door.tell("downloading a/b: 3 %")
    let download = try #require(try door.screen("GET", "/v1/models")).json["error"]
    #expect(download?["message"] == "downloading a/b: 3 %" && download?["code"] == "downloading")
  }

  @Test func `while the model is loading only the process says that it lives`() throws {
    let door = try makeDoor(nil) { try $0.keys.add("k", source: "test") }
    for path in ["/health", "/ready", "/readyz"] {
      let answer = try #require(try door.screen("GET", path))
      #expect(answer.refusal == "503 loading null")
      #expect(answer.headers["retry-after"] == "1")
    }
    #expect(try door.screen("GET", "/livez")?.status == 200)
    #expect(try door.screen("POST", "/v1/chat/completions")?.status == 401)
    let headers: Headers = ["host": "localhost", "authorization": "Bearer k"]
    #expect(try door.screen("POST", "/v1/chat/completions", headers: headers)?.status == 503)
    door.door.open(app)
    #expect(try door.screen("GET", "/ready") == nil)
  }
}
