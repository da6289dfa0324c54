// What is fetched and what is not: URLs that read in two ways, names with private addresses, redirects, curl's answers.

import Platform
import Testing

@testable import Fetch

@Suite struct WebURLTests {
  @Test(arguments: [
    ("http://a.example", "http://a.example:80/"), ("HTTPS://A.Example./x?y#z", "https://a.example:443/x?y"),
    ("http://a.example:8080?q=[1]", "http://a.example:8080/?q=%5B1%5D"),
    ("http://1.2.3.4/{a,b}", "http://1.2.3.4:80/%7Ba,b%7D"),
    ("http://[2001:DB8::1]:1/", "http://[2001:db8::1]:1/"),
    ("https://a.example/größe.png", "https://a.example:443/gr%C3%B6%C3%9Fe.png"),
    ("https://xn--bcher-kva.example/%20", "https://xn--bcher-kva.example:443/%20"),
    ("http://a.example:/x", "http://a.example:80/x"), ("http://a.example/@b", "http://a.example:80/@b"),
  ])
  func `a URL is written anew from its parts`(text: String, expected: String) throws {
    #expect(try WebURL(text).text == expected)
    #expect(try WebURL(expected).text == expected)
  }

  @Test(arguments: [
    "", "http:", "http:/a.example", "http:a.example", "http:///x", "ftp://a.example/", "file:///etc/passwd",
    "gopher://a.example/", "http://user@a.example/", "http://user:pw@a.example/",
    "http://a.example\\@b.example/",
    "http://a.example /", "http://a.example/a b", "http://a.example/\r\nHost: b", "http://a.example\u{0}/",
    "http://a.example:0/", "http://a.example:65536/", "http://a.example:80:80/", "http://a.example:+80/",
    "http://bücher.example/", "http://a%2eexample/", "http://.a.example/", "http://a..example/",
    "http://a,b/",
    "http://2130706433/", "http://0x7f000001/", "http://0x7f.1/", "http://127.1/", "http://0177.0.0.1/",
    "http://127.0.0.01/", "http://127.0.0.1.5/", "http://256.0.0.1/", "http://１２７.0.0.1/", "http://[::1/",
    "http://::1/",
    "http://[fe80::1%25eth0]/", "http://[v1.a]/", "http://[127.0.0.1]/",
  ])
  func `a URL that can be read in another way is refused`(text: String) {
    #expect(throws: FetchError.self) { try WebURL(text) }
  }

  @Test func `a URL has an end`() throws {
    #expect(try WebURL("http://a/" + String(repeating: "x", count: 8183)).target.utf8.count == 8184)
    #expect(throws: FetchError.self) { try WebURL("http://a/" + String(repeating: "x", count: 8184)) }
    #expect(throws: FetchError.self) {
      try WebURL("http://" + String(repeating: "a", count: 64) + ".example/")
    }
  }
}

@Suite struct FetcherTests {
  /// A world of names, and of what curl says to each URL.
  private final class World: Sendable {
    let names: [String: [String]]
    /// curl's exit code, and a body with a line behind it: a status, and where it leads.
    let answers: [String: (Int32, String)]
    /// What curl was told.
    let commands = Monitor<[String]>([])

    init(names: [String: [String]], answers: [String: (Int32, String)] = [:]) {
      self.names = names
      self.answers = answers
    }

    var network: Fetcher.Network {
      Fetcher.Network(
        find: { host, deadline, held in
          // Numbers are read by the C library without a network.
          var all: [IPAddress] = []
          for text in self.names[host] ?? [] {
            all += try IPAddress.find(text, until: Instant.now.adding(seconds: 30), holding: held) ?? []
          }
          return all
        },
        send: { request, _, _, head, body throws(FetchError) in
          let lines = String(decoding: try Curl.configuration(request), as: UTF8.self)
          self.commands.withLock { $0.append(lines) }
          let (code, output) = self.answers[request.url.text] ?? (7, "\n000 ")
          let report = output.split(separator: "\n").last?.split(separator: " ").map(String.init) ?? []
          if let status = report.first.flatMap({ Int($0) }), status > 0 {
            let fields = report.dropFirst().map { (name: "location", value: $0) }
            guard head(Curl.Head(status: status, fields: fields)) else { return .refused }
            let end = output.lastIndex(of: "\n") ?? output.startIndex
            guard body(Array(output[..<end].utf8)[...]) else { return .refused }
          }
          return code == 0 ? .complete : .failed(Curl.meaning(of: code))
        })
    }

    func fetch(_ url: String, hosts: [FetchRules.Host] = []) throws(FetchError) -> String {
      var rules = FetchRules()
      rules.program = "/usr/bin/curl"
      rules.hosts = hosts
      let fetcher = Fetcher(rules, network: network)
      return String(
        decoding: try fetcher.bytes(at: url, until: Instant.now.adding(seconds: 30), isUnwanted: { false }),
        as: UTF8.self)
    }
  }

  private static let a = "http://a.example:80/"

  private func refusal(_ world: World, _ url: String, hosts: [FetchRules.Host] = []) -> FetchError? {
    do throws(FetchError) {
      _ = try world.fetch(url, hosts: hosts)
      return nil
    } catch {
      return error
    }
  }

  @Test func `the connection goes to the addresses that were checked`() throws {
    let world = World(
      names: ["a.example": ["9.9.9.9", "2620:fe::fe"]], answers: [Self.a: (0, "one\ntwo\n200 ")])
    #expect(try world.fetch("http://A.example") == "one\ntwo")
    let command = try #require(world.commands.withLock { $0.first })
    #expect(command.hasPrefix("url = \"\(Self.a)\"\n"))
    #expect(command.contains("\nconnect-to = \"::checked.invalid:80\"\n"))
    #expect(command.contains("\nresolve = \"checked.invalid:80:9.9.9.9,[2620:fe:0:0:0:0:0:fe]\"\n"))
    #expect(command.contains("\nnoproxy = \"*\"\n") && !command.contains("location"))
  }

  @Test(arguments: [
    ["127.0.0.1"], ["9.9.9.9", "10.0.0.1"], ["::1"], ["::ffff:192.168.0.1"], ["169.254.169.254"], ["fd00::1"],
  ])
  func `a name with an address that is not public is refused before anything is sent`(addresses: [String]) {
    let world = World(names: ["a.example": addresses], answers: [Self.a: (0, "x\n200 ")])
    #expect(refusal(world, "http://a.example/") == .privateHost("a.example"))
    #expect(world.commands.withLock { $0.isEmpty })
  }

  @Test func `redirects are followed a few times and each is checked`() throws {
    let world = World(
      names: ["a.example": ["9.9.9.9"], "b.example": ["8.8.8.8"], "c.example": ["127.0.0.1"]],
      answers: [
        Self.a: (0, "moved\n302 https://b.example/x"), "https://b.example:443/x": (0, "image\n200 "),
        "http://a.example:80/in": (0, "\n301 http://c.example/"),
        "http://a.example:80/file": (0, "\n301 file:///etc/passwd"),
        "http://a.example:80/round": (0, "\n307 http://a.example/round"),
        "http://a.example:80/nowhere": (0, "\n304 "), "http://c.example:80/": (0, "secret\n200 "),
      ])
    #expect(try world.fetch("http://a.example/") == "image")
    let commands = world.commands.withLock { $0 }
    #expect(commands.count == 2 && commands[1].contains("\"checked.invalid:443:8.8.8.8\""))
    #expect(refusal(world, "http://a.example/in") == .privateHost("c.example"))
    guard case .badURL = refusal(world, "http://a.example/file") else {
      Issue.record("a redirect to a file was followed")
      return
    }
    #expect(refusal(world, "http://a.example/round") == .tooManyRedirects(limit: 3))
    #expect(refusal(world, "http://a.example/nowhere") == .status(304))
  }

  @Test func `hosts that are named are the only ones and may be private`() throws {
    let world = World(
      names: ["a.example": ["9.9.9.9"], "store": ["10.0.0.7"]],
      answers: [
        Self.a: (0, "a\n200 "), "http://store:9000/": (0, "s\n200 "), "http://store:80/": (0, "t\n200 "),
        "http://store:9000/out": (0, "\n302 http://a.example/"),
      ])
    let narrow = [FetchRules.Host(name: "store", port: 9000)]
    #expect(try world.fetch("http://STORE:9000/", hosts: narrow) == "s")
    #expect(refusal(world, "http://store/", hosts: narrow) == .unlistedHost("store"))
    #expect(refusal(world, "http://a.example/", hosts: narrow) == .unlistedHost("a.example"))
    #expect(refusal(world, "http://store:9000/out", hosts: narrow) == .unlistedHost("a.example"))
    #expect(try world.fetch("http://store/", hosts: [FetchRules.Host(name: "store", port: nil)]) == "t")
    #expect(refusal(world, "http://store/") == .privateHost("store"))
  }

  @Test(arguments: [
    (Int32(7), "\n000 ", FetchError.unreachable("a.example")), (0, "\n404 ", .status(404)),
    (28, "half\n200 ", .tooSlow), (60, "\n000 ", .insecure("a.example")),
    (35, "\n000 ", .insecure("a.example")), (56, "half\n200 ", .broken), (6, "\n000 ", .broken),
    (0, String(repeating: "x", count: 20_971_521) + "\n200 ", .tooLarge(limit: 20_971_520)),
  ])
  func `what curl says is told in words`(code: Int32, output: String, expected: FetchError) {
    let world = World(names: ["a.example": ["9.9.9.9"]], answers: [Self.a: (code, output)])
    #expect(refusal(world, "http://a.example/") == expected)
  }

  @Test func `a host that nobody knows, and a machine without curl`() {
    #expect(refusal(World(names: [:]), "http://a.example/") == .unknownHost("a.example"))
    let fetcher = Fetcher(FetchRules(), network: World(names: [:]).network)
    #expect(throws: FetchError.noProgram) {
      try fetcher.bytes(at: "http://a.example/", until: .now, isUnwanted: { false })
    }
  }

  @Test func `few are fetched at a time, and who waits may leave`() throws {
    var rules = FetchRules()
    rules.program = "/usr/bin/curl"
    let started = Monitor(0)
    let isOpen = Monitor(false)
    let network = Fetcher.Network(
      find: { _, _, _ in IPAddress([9, 9, 9, 9]).map { [$0] } },
      send: { _, _, _, head, body throws(FetchError) in
        started.update { $0 += 1 }
        let _: Bool? = isOpen.wait { $0 ? true : nil }
        return head(Curl.Head(status: 200, fields: [])) && body([120]) ? .complete : .refused
      })
    let fetcher = Fetcher(rules, network: network)
    let later = Instant.now.adding(seconds: 60)
    let ended = Monitor(0)
    for _ in 0..<8 {
      try Thread(name: "fetch") {
        let bytes = try? fetcher.bytes(at: "http://a.example/", until: later, isUnwanted: { false })
        if bytes == [120] { ended.update { $0 += 1 } }
      }.detach()
    }
    let _: Bool? = started.wait(until: later) { $0 == 8 ? true : nil }
    #expect(throws: FetchError.unwanted) {
      try fetcher.bytes(at: "http://a.example/", until: later, isUnwanted: { true })
    }
    #expect(throws: FetchError.busy) {
      try fetcher.bytes(at: "http://a.example/", until: .now, isUnwanted: { false })
    }
    isOpen.update { $0 = true }
    let all: Bool? = ended.wait(until: later) { $0 == 8 ? true : nil }
    #expect(all == true && started.withLock { $0 } == 8)
    #expect(try fetcher.bytes(at: "http://a.example/", until: later, isUnwanted: { false }) == [120])
  }
}
