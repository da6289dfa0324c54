// POST /mcp over a real archive with scripted models: what a client's stores say, and requests that are taken back.

import HTTP
import Inference
import JSON
import Platform
import Testing
import Wire

@testable import Server

private let json = "application/json"

extension App {
  fileprivate func ask(
    _ method: String, _ params: JSONValue = [:], headers: Headers = ["content-type": json],
    context: ConnectionContext = ConnectionContext()
  ) throws -> Answer {
    let body: JSONValue = ["jsonrpc": "2.0", "id": 1, "method": .string(method), "params": params]
    return try send("POST", "/mcp", body: body.text, headers: headers, context: context)
  }

  fileprivate func call(_ tool: String, _ arguments: JSONValue = [:]) throws -> JSONValue? {
    try ask("tools/call", ["name": .string(tool), "arguments": arguments]).json["result"]
  }
}

@Suite struct MCPRouteTests {
  @Test func `stores are notes, by their names where those are unique`() throws {
    let desk = try StoreDesk(["alps": "# Alps\nwhat to pack: wax\n"], scripted("x"))
    defer { desk.end() }
    let note = "\(desk.store)/file-alps"
    #expect(
      try desk.app.call("list_notes")?["structuredContent"]
        == [
          "folders": [.string(desk.store)], "total": 1,
          "notes": [
            [
              "note": .string(note), "title": "alps.txt", "uri": .string("mlxserve://" + note), "bytes": 25,
            ]
          ],
        ])
    _ = try desk.app.send("POST", "/v1/vector_stores/" + desk.store, body: #"{"name":"Trips"}"#)
    _ = try desk.app.send("POST", "/v1/vector_stores", body: #"{"name":"Empty"}"#)
    #expect(try desk.app.call("list_notes")?["structuredContent"]?["folders"] == ["Trips", "Empty"])
    let found = try desk.app.call("search_notes", ["query": "pack", "folder": "Trips"])?["structuredContent"]
    #expect(found?["results"]?[0]?["title"] == "alps.txt")
    #expect(found?["results"]?[0]?["line"]?.intValue.map { $0 >= 1 } == true)
    #expect(
      try desk.app.call("search_notes", ["query": "pack", "folder": "Empty"])?["structuredContent"]
        == ["results": []])
    // By its path and by its title.
    for name in [note, "alps.txt"] {
      let read = try desk.app.call("read_note", ["note": .string(name)])?["structuredContent"]
      #expect(read?["text"] == "# Alps\nwhat to pack: wax")
    }
    let resource = try desk.app.ask("resources/read", ["uri": .string("mlxserve://" + note)])
    #expect(resource.json["result"]?["contents"]?[0]?["text"]?.stringValue?.contains("wax") == true)
  }

  @Test func `an answer rests on passages of the notes, each as it stands there`() throws {
    let desk = try StoreDesk(
      ["alps": "# Alps\nwhat to pack: wax\n"],
      scripted(#"{"quotes": ["what to pack: wax"], "answer": "Wax."}"#))
    defer { desk.end() }
    let answer = try desk.app.call("ask", ["question": "what to pack?"])?["structuredContent"]
    #expect(answer?["answer"] == "Wax.")
    #expect(answer?["citations"]?[0]?["text"] == "what to pack: wax")
    #expect(answer?["citations"]?[0]?["line"] == 2)
    #expect(desk.prompt(0).contains("what to pack?"))
    // A stream tells how far it is.
    let streamed = try desk.app.ask(
      "tools/call",
      ["name": "ask", "arguments": ["question": "what to pack?"], "_meta": ["progressToken": 7]],
      headers: ["content-type": json, "accept": "application/json, text/event-stream"])
    #expect(streamed.headers["content-type"]?.hasPrefix("text/event-stream") == true)
    #expect(streamed.text.contains(#""progressToken":7"#) && streamed.text.contains("answering"))
    #expect(streamed.text.hasSuffix("\n\n"))
  }

  @Test func `an answer that is cut is none`() throws {
    let desk = try StoreDesk(["alps": "what to pack: wax"], scripted(#"{"quotes": ["what"#))
    defer { desk.end() }
    let answer = try desk.app.call("ask", ["question": "what to pack?"])
    #expect(answer?["isError"] == true)
    #expect(answer?["content"]?[0]?["text"] == "the answer was cut before it was whole")
  }

  @Test func `without a place for files there are no notes, and a server without a model does not answer`()
    throws
  {
    let app = makeApp(FakeService("x"))
    #expect(try app.call("list_notes")?["isError"] == true)
    #expect(try app.ask("resources/list").json["error"]?["code"] == -32603)
    #expect(try app.ask("ping").json == ["jsonrpc": "2.0", "id": 1, "result": [:]])
  }

  @Test func `errors have the words of the protocol before a message is read, too`() throws {
    let app = makeApp(FakeService("x"))
    let broken = try app.send("POST", "/mcp", body: "{")
    #expect(broken.status == 400)
    #expect(broken.json["error"]?["code"] == -32700 && broken.json["id"] == .null)
    #expect(try app.send("POST", "/mcp", body: "{}").json["error"]?["code"] == -32600)
    #expect(try app.send("GET", "/mcp").status == 405)
  }

  /// A search that waits at the gate, until it is taken back or its client has gone.
  private func waiting(
    _ headers: Headers, _ end: (StoreDesk) throws -> Void, isGone: Monitor<Bool> = Monitor(false)
  ) throws -> Answer? {
    let desk = try StoreDesk(["a": "some words"], scripted("x"))
    defer { desk.end() }
    desk.encoder.isOpen.withLock { $0 = false }
    let (app, ended) = (desk.app, Monitor<Answer?>(nil))
    let thread = try Thread(name: "search") {
      let context = ConnectionContext(isClientGone: { isGone.withLock { $0 } })
      let answer = try? app.ask(
        "tools/call", ["name": "search_notes", "arguments": ["query": "so"]], headers: headers,
        context: context)
      ended.update { $0 = answer }
    }
    let begun: Bool? = desk.encoder.waiting.wait(until: Instant.now.adding(seconds: 20)) {
      $0 > 0 ? true : nil
    }
    #expect(begun == true)
    try end(desk)
    thread.join()
    return ended.withLock { $0 }
  }

  private func cancel(_ desk: StoreDesk, session: String?) throws {
    var headers: Headers = ["content-type": json]
    if let session { headers.add("mcp-session-id", session) }
    let answer = try desk.app.send(
      "POST", "/mcp",
      body: #"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#,
      headers: headers)
    #expect(answer.status == 202 && answer.text.isEmpty)
  }

  @Test func `a request is taken back within its session alone`() throws {
    let named: Headers = ["content-type": json, "mcp-session-id": "s"]
    let ended = try waiting(named) { desk in
      try cancel(desk, session: "s")
    }
    #expect(ended?.json["error"]?["message"] == "cancelled")
    for (headers, session) in [(named, "other"), (named, nil), (["content-type": json], nil)]
      as [(Headers, String?)]
    {
      let answered = try waiting(headers) { desk in
        try cancel(desk, session: session)
        usleep(100_000)
        desk.encoder.isOpen.withLock { $0 = true }
      }
      // It was not ended by that; what waits at the gate runs into the time of a search.
      #expect(answered?.json["error"] == nil)
    }
  }

  @Test func `an id is used once at a time in a session`() throws {
    let named: Headers = ["content-type": json, "mcp-session-id": "s"]
    _ = try waiting(named) { desk in
      #expect(try desk.app.ask("ping", headers: named).json["error"]?["code"] == -32600)
      #expect(try desk.app.ask("ping").json["result"] == [:])
      try cancel(desk, session: "s")
    }
  }

  @Test func `a client that leaves ends its search`() throws {
    let isGone = Monitor(false)
    let ended = try waiting(["content-type": json], { _ in isGone.update { $0 = true } }, isGone: isGone)
    #expect(ended?.json["error"]?["message"] == "cancelled")
  }
}
