// Servers of tools that behave, and those that do not: each fault has its name, and nothing hangs.

import JSON
import Platform
import Testing

@testable import Fetch
@testable import MCP

/// Waits for a while that is short where the server keeps silent.
private func wait(_ seconds: Double = 20) -> ToolWait { ToolWait(seconds: seconds) { false } }

@Suite struct ToolOutputTests {
  @Test(arguments: [
    (#"{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}"#, "a\nb"),
    (#"{"content":[{"type":"image","data":"x"},{"type":"text","text":"b"}]}"#, "[image omitted]\nb"),
    (
      #"{"content":[{"type":"resource","resource":{"text":"r"}},{"type":"resource_link","uri":"u:1"}]}"#,
      "r\nu:1"
    ),
    (#"{"content":[],"structuredContent":{"a":1}}"#, #"{"a":1}"#), (#"{"content":[{}]}"#, "[part omitted]"),
    (#"{"content":[]}"#, ""),
  ])
  func `a result is text`(result: String, expected: String) throws {
    let output = try ToolOutput(JSONValue(parsing: result))
    #expect(output.text == expected && output.failure == nil)
  }

  @Test(arguments: ["{}", #"{"content":"a"}"#, #"{"content":[],"resultType":"input_required"}"#])
  func `what is no result is refused`(result: String) throws {
    let value = try JSONValue(parsing: result)
    #expect(throws: ToolFault.self) { try ToolOutput(value) }
  }

  @Test func `a result has an end, and a failure is one`() throws {
    let part: JSONValue = [
      "type": "text", "text": .string(String(repeating: "x", count: ToolOutput.textBytes)),
    ]
    #expect(try ToolOutput(["content": [part]]).text.utf8.count == ToolOutput.textBytes)
    #expect(throws: ToolFault.tooLarge(limit: ToolOutput.textBytes)) {
      try ToolOutput(["content": [part, part]])
    }
    #expect(try ToolOutput(["content": [part], "isError": true]).failure == [part])
  }

  @Test func `a tool has a name, plain words and a schema`() {
    let tool = RemoteTool(["name": "a", "description": "x\u{1B}y\nz", "inputSchema": "none"])
    #expect(tool == RemoteTool(name: "a", description: "xy\nz", schema: ["type": "object"], annotations: nil))
    #expect(RemoteTool(["name": "", "inputSchema": [:]]) == nil && RemoteTool("a") == nil)
    let long = RemoteTool(["name": "a", "description": .string(String(repeating: "é", count: 5_000))])
    #expect(long?.description.utf8.count == 4 << 10)
    #expect(RemoteTool(["name": "a", "annotations": ["readOnlyHint": true]])?.isReadOnly == true)
  }
}

@Suite struct EventReaderTests {
  @Test func `events are the same however their bytes come`() {
    let stream = Array(
      ": hello\r\nevent: message\r\ndata: {\"a\":\r\ndata: 1}\r\n\r\n\nid: 4\ndata:two\n\ndata: cut".utf8)
    let expected = [Array("{\"a\":\n1}".utf8), Array("two".utf8)]
    for first in 0...stream.count {
      var reader = EventReader()
      #expect(reader.add(stream[..<first]) + reader.add(stream[first...]) == expected)
    }
  }
}

// MARK: Programs

/// Programs are scripts of the shell, which answers with what a test writes.
@Suite struct LineToolsTests {
  /// A server whose answers to a method are lines of the shell; `$id` is the request's.
  private static func server(_ cases: String) -> LineTools {
    let hello =
      #"*'"initialize"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"protocolVersion":"2025-11-25","capabilities":{}}}';;"#
    var program = LineTools.Program(command: "/bin/sh")
    program.arguments = [
      "-c",
      #"while read -r line; do id=${line#*'"id":'}; id=${id%%,*}; case "$line" in "# + cases + hello
        + " esac; done",
    ]
    return LineTools(program)
  }

  private static func says(_ method: String, _ result: String) -> String {
    #"*'"\#(method)"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":\#(result)}';; "#
  }

  @Test func `tools are listed page by page and called`() throws {
    let server = Self.server(
      #"*'"cursor"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"tools":[{"name":"b"}]}}';; "#
        + Self.says("tools/list", #"{"tools":[{"name":"a"}],"nextCursor":"2"}"#)
        + Self.says("tools/call", #"{"content":[{"type":"text","text":"done"}]}"#))
    #expect(try server.tools(wait()).map(\.name) == ["a", "b"])
    #expect(try server.call("a", [:], wait()).text == "done")
    server.end()
  }

  @Test func `calls side by side get their own answers`() throws {
    // The answer holds the line of its request.
    let server = Self.server(
      #"*'"tools/call"'*) name=${line#*'"name":"'}; name=${name%%\"*}; echo '{"jsonrpc":"2.0","id":'$id',"result":{"content":[{"type":"text","text":"'$name'"}]}}';; "#
    )
    let results = Monitor<[String: String]>([:])
    let threads = try (0..<8).map { number in
      try Thread(name: "call") {
        let text = try? server.call("n\(number)", [:], wait()).text
        results.withLock { $0["n\(number)"] = text }
      }
    }
    for thread in threads { thread.join() }
    #expect(results.withLock { $0 } == Dictionary(uniqueKeysWithValues: (0..<8).map { ("n\($0)", "n\($0)") }))
  }

  @Test func `errors and questions of a server are answered`() throws {
    let server = Self.server(
      #"*'"tools/call"'*) echo '{"jsonrpc":"2.0","id":9,"method":"sampling/createMessage"}'; echo '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'; read -r reply; "#
        + #"case "$reply" in *-32601*) echo '{"jsonrpc":"2.0","id":'$id',"error":{"code":-5,"message":"no"}}';; esac;; "#
    )
    #expect(throws: ToolFault.refused(code: -5, message: "no")) { try server.call("a", [:], wait()) }
    #expect(server.changes == 1)
  }

  @Test(arguments: [
    ("*'\"tools/call\"'*) exit 3;; ", ToolFault.died),
    ("*'\"tools/call\"'*) echo nonsense;; ", .garbage("a line is no message")),
    ("*'\"tools/call\"'*) echo '[1]';; ", .garbage("a line is no message")),
    (
      "*'\"tools/call\"'*) head -c 5000000 /dev/zero | tr '\\0' x;; ",
      .tooLarge(limit: 4 << 20)
    ),
  ])
  func `a program that goes wrong is ended, and started again`(cases: String, fault: ToolFault) throws {
    let server = Self.server(cases + Self.says("tools/list", #"{"tools":[]}"#))
    #expect(throws: fault) { try server.call("a", [:], wait()) }
    #expect(try server.tools(wait()).isEmpty)
  }

  @Test func `silence ends at the deadline, or when nobody waits`() throws {
    let server = Self.server("*'\"tools/call\"'*) ;; " + Self.says("tools/list", #"{"tools":[]}"#))
    #expect(try server.tools(wait()).isEmpty)
    #expect(throws: ToolFault.tooSlow) { try server.call("a", [:], wait(0.2)) }
    #expect(throws: ToolFault.unwanted) { try server.call("a", [:], ToolWait(seconds: 60) { true }) }
    // It still answers others.
    #expect(try server.tools(wait()).isEmpty)
  }

  @Test func `a program that greets wrongly is not used, and not started again at once`() throws {
    let old = Self.server(Self.says("initialize", #"{"protocolVersion":"1999-01-01"}"#))
    #expect(throws: ToolFault.self) { try old.tools(wait()) }
    #expect(throws: ToolFault.unreachable("its program ended; it is started again in a while")) {
      try old.tools(wait())
    }
    let missing = LineTools(LineTools.Program(command: "no-such-program-anywhere"))
    #expect(throws: ToolFault.unreachable("the program 'no-such-program-anywhere' is not installed")) {
      try missing.tools(wait())
    }
  }

  @Test func `a program that ends again and again is started ever later`() {
    let server = Self.server("*'\"tools/list\"'*) exit 3;; ")
    var faults: [ToolFault] = []
    while faults.count < 8, faults.last == nil || faults.last == .died {
      do throws(ToolFault) { _ = try server.tools(wait()) } catch { faults.append(error) }
    }
    #expect(faults.first == .died && faults.count > 2)
    #expect(faults.last == .unreachable("its program ended; it is started again in a while"))
  }

  @Test func `prompts and resources are listed and read as texts`() throws {
    let server = Self.server(
      Self.says(
        "prompts/list", #"{"prompts":[{"name":"trip","arguments":[{"name":"to"}],"secret":1},{"name":""},7]}"#
      )
        + Self.says("resources/list", #"{"resources":[{"uri":"file:///a.md","name":"a.md"}]}"#)
        + Self.says(
          "prompts/get",
          #"{"messages":[{"role":"user","content":{"type":"text","text":"Go"}},{"role":"user","content":{"type":"image"}}]}"#
        )
        + Self.says("resources/read", #"{"contents":[{"uri":"file:///a.md","text":"wax"},{"blob":"AA=="}]}"#))
    #expect(
      try ToolTexts.prompts.list(server, wait()) == [["name": "trip", "arguments": [["name": "to"]]]])
    #expect(try ToolTexts.resources.list(server, wait()) == [["uri": "file:///a.md", "name": "a.md"]])
    #expect(
      try ToolTexts.prompts.text(of: "trip", JSONObject(), from: server, wait()) == "Go\n\n[image omitted]")
    #expect(
      try ToolTexts.resources.text(of: "file:///a.md", JSONObject(), from: server, wait())
        == "wax\n\n[resource omitted]")
    // A server that knows neither has none.
    let plain = Self.server(
      #"*'/list"'*) echo '{"jsonrpc":"2.0","id":'$id',"error":{"code":-32601,"message":"no"}}';; "#)
    #expect(try ToolTexts.prompts.list(plain, wait()).isEmpty)
    let odd = Self.server(Self.says("prompts/get", "{}"))
    #expect(throws: ToolFault.garbage("its prompt has no messages")) {
      try ToolTexts.prompts.text(of: "x", JSONObject(), from: odd, wait())
    }
  }

  @Test func `a server's full stop does not end our sentence`() {
    #expect("\(ToolFault.refused(code: 1, message: "No key. "))" == "it answered with error 1: No key")
    #expect("\(ToolFault.refused(code: 1, message: "..."))" == "it answered with error 1: ")
  }

  @Test func `a server has not endless tools`() throws {
    let many = (0..<129).map { #"{"name":"t\#($0)"}"# }.joined(separator: ",")
    let server = Self.server(Self.says("tools/list", "{\"tools\":[\(many)]}"))
    #expect(throws: ToolFault.tooMany("128 at most")) { try server.tools(wait()) }
    let turning = Self.server(Self.says("tools/list", #"{"tools":[],"nextCursor":"1"}"#))
    #expect(throws: ToolFault.tooMany("16 pages at most")) { try turning.tools(wait()) }
    let nothing = Self.server(Self.says("tools/list", #"{"tools":[{"name":1}]}"#))
    #expect(throws: ToolFault.self) { try nothing.tools(wait()) }
  }

  @Test func `a program gets its own variables and few others`() throws {
    var program = LineTools.Program(command: "/bin/sh")
    program.environment = [("SECRET", "s"), ("HOME", "/h")]
    program.folder = "/"
    program.arguments = [
      "-c",
      #"read -r l; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25"}}'; read -r l; read -r l; echo '{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"'$SECRET $HOME $PWD $(env | grep -c ^XDG)'"}]}}'; read -r l"#,
    ]
    #expect(try LineTools(program).call("a", [:], wait()).text == "s /h / 0")
  }
}

// MARK: Addresses

@Suite struct HTTPToolsTests {
  /// What a server says to a message: status, fields and body.
  private typealias Reply = (status: Int, fields: [(name: String, value: String)], body: String)

  /// A server at a public address. `answer` gets the body and the lines of curl.
  private static func server(
    _ sent: Monitor<[String]> = Monitor([]),
    _ answer:
      @escaping @Sendable (_ method: String, _ id: Int, _ lines: String) throws(FetchError) -> (
        Int, [(name: String, value: String)], String
      )
  ) throws -> HTTPTools {
    var rules = FetchRules()
    rules.program = "curl"
    let network = Fetcher.Network(
      find: { _, deadline, held in try IPAddress.find("93.184.216.34", until: deadline, holding: held) },
      send: { request, _, _, head, body throws(FetchError) in
        let lines = String(decoding: try Curl.configuration(request), as: UTF8.self)
        sent.withLock { $0.append(lines) }
        let message = request.body.flatMap { try? JSONValue(parsing: $0) }
        let (status, fields, text) = try answer(
          message?["method"]?.stringValue ?? "", message?["id"]?.intValue ?? 0, lines)
        guard head(Curl.Head(status: status, fields: fields)) else { return .refused }
        // In two pieces.
        let bytes = Array(text.utf8)
        for piece in [bytes[..<(bytes.count / 2)], bytes[(bytes.count / 2)...]] where !body(piece) {
          return .refused
        }
        return .complete
      })
    return HTTPTools(
      try WebURL("https://tools.example/mcp"), fields: ["Authorization: Bearer secret"],
      fetcher: Fetcher(rules, network: network))
  }

  private static let hello = #""result":{"protocolVersion":"2025-06-18"}"#
  private static let json = [(name: "content-type", value: "application/json")]
  private static let events = [(name: "content-type", value: "text/event-stream")]

  private static func message(_ id: Int, _ rest: String) -> String {
    #"{"jsonrpc":"2.0","id":\#(id),\#(rest)}"#
  }

  @Test func `a session is opened, kept and ended, and secrets go to the program's input`() throws {
    let sent = Monitor<[String]>([])
    let server = try Self.server(sent) { method, id, lines throws(FetchError) in
      switch method {
      case "initialize":
        (200, Self.json + [(name: "mcp-session-id", value: "s1")], Self.message(id, Self.hello))
      case "tools/list": (200, Self.json, Self.message(id, #""result":{"tools":[{"name":"a"}]}"#))
      default: (202, [], "")
      }
    }
    #expect(try server.tools(wait()).map(\.name) == ["a"])
    server.end()
    let lines = sent.withLock { $0 }
    #expect(lines.count == 4 && lines.allSatisfy { $0.contains("Authorization: Bearer secret") })
    #expect(!lines[0].contains("Mcp-Session-Id") && lines[2].contains("Mcp-Session-Id: s1"))
    #expect(
      lines[2].contains("MCP-Protocol-Version: 2025-06-18") && lines[3].contains(#"request = "DELETE""#))
    #expect(lines.allSatisfy { $0.contains("93.184.216.34") })
  }

  @Test func `a stream is read to the answer, beside what else it says`() throws {
    let server = try Self.server { method, id, _ throws(FetchError) in
      guard method == "tools/call" else { return (200, Self.json, Self.message(id, Self.hello)) }
      let parts = [
        #"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#,
        #"{"jsonrpc":"2.0","id":7,"method":"ping"}"#,
        #"{"jsonrpc":"2.0","id":99,"result":{}}"#,
        Self.message(id, #""result":{"content":[{"type":"text","text":"ok"}]}"#),
      ]
      return (200, Self.events, ": open\n\n" + parts.map { "data: \($0)\n\n" }.joined() + "data: more\n\n")
    }
    #expect(try server.call("a", [:], wait()).text == "ok")
    #expect(server.changes == 1)
  }

  @Test func `a server without a handshake is asked without one`() throws {
    let sent = Monitor<[String]>([])
    let server = try Self.server(sent) { method, id, _ throws(FetchError) in
      method == "initialize"
        ? (400, Self.json, Self.message(id, #""error":{"code":-32022,"message":"no"}"#))
        : (200, Self.json, Self.message(id, #""result":{"content":[]}"#))
    }
    #expect(try server.call("ä", [:], wait()).text == "")
    let lines = sent.withLock { $0 }
    #expect(lines.count == 2 && lines[1].contains("Mcp-Method: tools/call"))
    #expect(
      lines[1].contains("Mcp-Name: =?base64?w6Q=?=") && lines[1].contains("MCP-Protocol-Version: 2026-07-28"))
  }

  @Test func `a session that is forgotten is opened again once`() throws {
    let opened = Monitor(0)
    let server = try Self.server { method, id, lines throws(FetchError) in
      if method == "initialize" {
        let count = opened.withLock { count in
          count += 1
          return count
        }
        return (200, Self.json + [(name: "mcp-session-id", value: "s\(count)")], Self.message(id, Self.hello))
      }
      guard method == "tools/call" else { return (202, [], "") }
      return lines.contains("s2")
        ? (200, Self.json, Self.message(id, #""result":{"content":[]}"#)) : (404, [], "gone")
    }
    #expect(try server.call("a", [:], wait()).text == "")
    #expect(opened.withLock { $0 } == 2)
  }

  @Test(arguments: [
    (500, "broken", ToolFault.status(500)), (401, "", .status(401)), (302, "", .status(302)),
    (200, "<html>", .garbage("it did not answer the request")),
    (200, "", .garbage("it did not answer the request")),
    (200, #"{"jsonrpc":"2.0","id":1}"#, .garbage("it did not answer the request")),
    (
      400, #"{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"m"}}"#, .refused(code: -1, message: "m")
    ),
    (200, String(repeating: " ", count: 5 << 20), .tooLarge(limit: 4 << 20)),
  ])
  func `what goes wrong has a name`(status: Int, body: String, fault: ToolFault) throws {
    let server = try Self.server { method, id, _ throws(FetchError) in
      method == "tools/call" ? (status, Self.json, body) : (200, Self.json, Self.message(id, Self.hello))
    }
    #expect(throws: fault) { try server.call("a", [:], wait()) }
  }

  @Test func `a stream that asks back, or says nonsense, is a fault`() throws {
    for data in [#"{"jsonrpc":"2.0","id":1,"method":"elicitation/create"}"#, "nonsense"] {
      let server = try Self.server { method, id, _ throws(FetchError) in
        method == "tools/call"
          ? (200, Self.events, "data: \(data)\n\n") : (200, Self.json, Self.message(id, Self.hello))
      }
      #expect(throws: ToolFault.self) { try server.call("a", [:], wait()) }
    }
  }

  @Test func `what curl says becomes a fault without an address`() throws {
    for (error, fault) in [
      (FetchError.tooSlow, ToolFault.tooSlow), (.unwanted, .unwanted),
      (.privateHost("x.example"), .unreachable("\(FetchError.privateHost("x.example"))")),
    ] {
      let server = try Self.server { _, _, _ throws(FetchError) in throw error }
      #expect(throws: fault) { try server.tools(wait()) }
    }
  }
}

// MARK: The file

@Suite struct ToolServersTests {
  private static func servers(_ text: String) throws(ToolServersError) -> ToolServers {
    try ToolServers(Array(text.utf8), curl: "curl", ledger: MemoryLedger(limit: 1 << 30))
  }

  @Test func `a file of a desktop program names servers, and who may use them`() throws {
    let servers = try Self.servers(
      #"{"mcpServers":{"time":{"command":"date","args":["-u"],"env":{"A":"b"}},"#
        + #""far":{"type":"http","url":"https://a.example/mcp","headers":{"X-Key":"k"},"keys":["alice"],"timeout":5},"#
        + #""off":{"command":"x","disabled":true}},"urls":{"hosts":["b.example:8000"],"keys":["bob"]},"other":1}"#
    )
    #expect(servers.labels(for: nil) == ["time"] && servers.labels(for: "alice") == ["time", "far"])
    #expect(servers.entry("time", for: nil)?.isNear == true && servers.entry("far", for: "bob") == nil)
    #expect(servers.entry("far", for: "alice")?.seconds == 5 && servers.entry("off", for: nil) == nil)
    #expect(servers.takesURLs(of: "bob") && !servers.takesURLs(of: nil))
    #expect(try servers.entry("x", at: "https://b.example:8000/", secrets: ["A: b"], for: "bob") != nil)
    #expect(try servers.entry("x", at: "https://b.example:8000/", secrets: [], for: "alice") == nil)
  }

  @Test func `secrets travel encrypted, or to a host of the file`() throws {
    let any = try Self.servers(#"{"urls":true}"#)
    #expect(try any.entry("x", at: "http://a.example/", secrets: [], for: nil) != nil)
    #expect(throws: FetchError.self) {
      try any.entry("x", at: "http://a.example/", secrets: ["A: b"], for: nil)
    }
    #expect(throws: FetchError.self) { try any.entry("x", at: "http://u@a.example/", secrets: [], for: nil) }
    let named = try Self.servers(#"{"urls":{"hosts":["a.example"]}}"#)
    #expect(try named.entry("x", at: "http://a.example/", secrets: ["A: b"], for: nil) != nil)
    #expect(try Self.servers("{}").entry("x", at: "https://a.example/", secrets: [], for: nil) == nil)
  }

  @Test(arguments: [
    ("[", "no JSON"), (#"{"mcpServers":[]}"#, "mcpServers"),
    (#"{"mcpServers":{"a b":{"command":"x"}}}"#, "a b"),
    (#"{"mcpServers":{"a":{}}}"#, "neither"), (#"{"mcpServers":{"a":{"url":"ftp://x"}}}"#, "url"),
    (#"{"mcpServers":{"a":{"type":"sse","url":"https://x.example"}}}"#, "sse"),
    (#"{"mcpServers":{"a":{"command":"x","args":[1]}}}"#, "args"),
    (#"{"mcpServers":{"a":{"command":"x","env":{"A":1}}}}"#, "env"),
    (#"{"mcpServers":{"a":{"url":"https://x.example","headers":{"A":"b\nC: d"}}}}"#, "headers"),
    (#"{"mcpServers":{"a":{"command":"x","timeout":0}}}"#, "timeout"),
    (#"{"mcpServers":{"a":{"command":"x","keys":"alice"}}}"#, "keys"),
    (#"{"urls":{"hosts":["a b"]}}"#, "hosts"),
  ])
  func `a file that cannot be used says where`(text: String, words: String) throws {
    let error = #expect(throws: ToolServersError.self) { try Self.servers(text) }
    #expect(error?.description.contains(words) == true)
  }
}
