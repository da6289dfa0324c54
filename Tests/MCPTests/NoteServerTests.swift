// What clients get of notes, method by method, in every version of the protocol.

import JSON
import MCP
import Platform
import Testing

struct NoteServerTests {
  private let server = NoteServer(FakeNotes())

  @Test func `a version that is known is spoken, and else the latest`() throws {
    for version in ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"] {
      #expect(
        try server.ask("initialize", ["protocolVersion": .string(version)])["protocolVersion"]
          == .string(version))
    }
    let result = try server.ask("initialize", ["protocolVersion": "1999-01-01"])
    #expect(result["protocolVersion"] == "2025-11-25")
    #expect(result["serverInfo"]?["name"] == "mlxserve")
    #expect(result["capabilities"] == ["tools": [:], "resources": [:], "prompts": [:]])
    #expect(throws: MCPError.self) { try server.ask("initialize") }
    #expect(try server.ask("ping") == [:])
  }

  @Test func `a version without a handshake says everything in each result`() throws {
    let meta: JSONValue = ["io.modelcontextprotocol/protocolVersion": "2026-07-28"]
    let discovered = try server.ask("server/discover", ["_meta": meta])
    #expect(discovered["supportedVersions"] == ["2026-07-28"])
    #expect(discovered["resultType"] == "complete")
    #expect(discovered["ttlMs"] == 0)
    #expect(discovered["_meta"]?["io.modelcontextprotocol/serverInfo"]?["name"] == "mlxserve")
    let called = try server.ask(
      "tools/call", ["_meta": meta, "name": "list_notes"])
    #expect(called["resultType"] == "complete")
    #expect(called["ttlMs"] == nil)
    // Methods of the other kind of version are unknown in it.
    for (method, said) in [("initialize", true), ("ping", true), ("server/discover", false)] {
      let error = #expect(throws: MCPError.self) {
        try server.ask(method, said ? ["_meta": meta, "protocolVersion": "2025-06-18"] : [:])
      }
      #expect(error?.code == -32601)
    }
    let unknown = #expect(throws: MCPError.self) {
      try server.ask("tools/list", ["_meta": ["io.modelcontextprotocol/protocolVersion": "2030-01-01"]])
    }
    #expect(unknown?.code == -32022)
    #expect(unknown?.data == ["supported": ["2026-07-28"], "requested": "2030-01-01"])
  }

  @Test func `a tool that needs a model is there where there is one`() throws {
    func names(_ server: NoteServer) throws -> [String] {
      (try server.ask("tools/list")["tools"]?.arrayValue ?? []).compactMap { $0["name"]?.stringValue }
    }
    #expect(try names(server) == ["search_notes", "read_note", "list_notes", "ask"])
    var silent = FakeNotes()
    silent.answers = false
    #expect(try names(NoteServer(silent)) == ["search_notes", "read_note", "list_notes"])
    #expect(throws: MCPError.self) { try NoteServer(silent).call("ask", ["question": "x"]) }
    for tool in try #require(try server.ask("tools/list")["tools"]?.arrayValue) {
      #expect(tool["annotations"]?["readOnlyHint"] == true)
    }
  }

  @Test func `a result says where and why`() throws {
    let found = try server.call("search_notes", ["query": "wax"])
    #expect(found["isError"] == false)
    #expect(
      found["content"]?[0]?["text"]
        == "1. alps.md:2 (matched word)\n# Alps\nBring wax.\nBring goggles.\n")
    #expect(
      found["structuredContent"]?["results"]?[0]
        == [
          "note": "alps.md", "title": "alps.md", "uri": "file:///notes/alps.md", "line": 2, "score": 0.5,
          "sentence": "Bring wax.", "why": "matched word", "text": "# Alps\nBring wax.\nBring goggles.\n",
        ])
    #expect(try server.call("search_notes", ["query": "absent"])["structuredContent"] == ["results": []])
    let answer = try server.call("ask", ["question": "what to bring?"])
    #expect(answer["content"]?[0]?["text"] == "Wax.\n\n> Bring wax.\n  (alps.md:2)")
    #expect(answer["structuredContent"]?["citations"]?[0]?["line"] == 2)
  }

  @Test func `a note is read whole, in parts and by its URI`() throws {
    let whole = try server.call("read_note", ["note": "alps.md"])["structuredContent"]
    #expect(whole?["text"] == "# Alps\nBring wax.\nBring goggles.")
    #expect(whole?["total_lines"] == 3)
    #expect(whole?["next_line"] == nil)
    let part = try server.call("read_note", ["note": "file:///notes/alps.md", "line": 2, "lines": 1])
    #expect(part["structuredContent"]?["text"] == "Bring wax.")
    #expect(part["structuredContent"]?["next_line"] == 3)
    #expect(
      part["content"]?[0]?["text"] == "Bring wax.\n[1 more lines: call read_note with line 3]")
  }

  @Test func `no answer is longer than its bound, and nothing of a note gets lost`() throws {
    let lines = (0..<20_000).map { "line \($0)" }
    let long = String(repeating: "é", count: 70_000)
    let server = NoteServer(
      FakeNotes(texts: [("long.md", lines.joined(separator: "\n")), ("wide.md", long + "\nend")]))
    var (read, next): ([String], Int?) = ([], 1)
    while let line = next {
      let part = try server.call("read_note", ["note": "long.md", "line": .int(line), "lines": 5_000])
      let text = try #require(part["structuredContent"]?["text"]?.stringValue)
      #expect(text.utf8.count <= 64 << 10)
      read += text.split(separator: "\n").map(String.init)
      next = part["structuredContent"]?["next_line"]?.intValue
    }
    #expect(read == lines)
    let wide = try server.call("read_note", ["note": "wide.md"])["structuredContent"]
    #expect((wide?["text"]?.stringValue?.utf8.count ?? 0) > 60_000)
    #expect(wide?["next_line"] == 2)
  }

  @Test func `notes are listed a page at a time`() throws {
    let names = (0..<250).map { "n\(1_000 + $0).md" }
    let server = NoteServer(FakeNotes(texts: names.map { ($0, "x") }))
    var (listed, last): ([JSONValue], JSONValue?) = ([], nil)
    repeat {
      let page = try server.call("list_notes", last.map { ["after": $0] } ?? [:])["structuredContent"]
      #expect(page?["total"] == 250)
      listed += (page?["notes"]?.arrayValue ?? []).compactMap { $0["note"] }
      last = page?["next_after"]
    } while last != nil
    #expect(listed == names.map { .string($0) })
    var (uris, cursor): (Int, JSONValue?) = (0, nil)
    repeat {
      let page = try server.ask("resources/list", cursor.map { ["cursor": $0] } ?? [:])
      uris += page["resources"]?.arrayValue?.count ?? 0
      cursor = page["nextCursor"]
    } while cursor != nil
    #expect(uris == 250)
    #expect(throws: MCPError.self) { try server.ask("resources/list", ["cursor": "file:///etc/passwd"]) }
    let some = try server.call("list_notes", ["contains": "N1007"])["structuredContent"]
    #expect(some?["total"] == 1)
  }

  @Test func `what is wrong with a call is told to the model, what is no call to the client`() throws {
    let wrong: [(String, JSONValue, String)] = [
      ("search_notes", [:], "'query' is missing"), ("search_notes", ["query": "  "], "'query' is missing"),
      ("search_notes", ["query": 5], "'query' is a text"),
      ("search_notes", ["query": "x", "limit": 21], "'limit' is a whole number from 1 to 20"),
      ("search_notes", ["query": "x", "folder": "etc"], "there is no folder 'etc'; there are: notes"),
      (
        "search_notes", ["query": .string(String(repeating: "x", count: 8_001))],
        "'query' is longer than 8000 bytes"
      ),
      (
        "read_note", ["note": "../secret"],
        "there is no note '../secret'; list_notes shows those that there are"
      ),
      ("read_note", ["note": "alps.md", "line": 4], "the note has 3 lines"),
      ("list_notes", ["after": "x"], "'after' names no note of this list"),
    ]
    for (tool, arguments, words) in wrong {
      let result = try server.call(tool, arguments)
      #expect(result["isError"] == true)
      #expect(result["content"]?[0]?["text"] == .string(words))
    }
    for (method, params) in [
      ("tools/call", ["name": "rm"]), ("tools/call", [:]),
      ("tools/call", ["name": "list_notes", "arguments": []]), ("prompts/get", ["name": "x"]),
      ("prompts/get", ["name": "answer_from_notes"]), ("resources/read", [:]),
      ("resources/read", ["uri": "file:///etc/passwd"]), ("resources/read", ["uri": "file:///notes/../x"]),
    ] as [(String, JSONValue)] {
      let error = #expect(throws: MCPError.self) { try server.ask(method, params) }
      #expect(error?.code == -32602, "\(method) \(params.text)")
    }
    #expect(throws: MCPError.unknownMethod("x/y")) { try server.ask("x/y") }
  }

  @Test func `resources and prompts have the text of notes`() throws {
    let content = try server.ask("resources/read", ["uri": "file:///notes/tarts.md"])["contents"]?[0]
    #expect(
      content
        == ["uri": "file:///notes/tarts.md", "mimeType": "text/plain", "text": "The queen made tarts.\n"])
    let long = NoteServer(FakeNotes(texts: [("x", String(repeating: "x", count: 1 << 20) + "x")]))
    #expect(throws: MCPError.self) { try long.ask("resources/read", ["uri": "file:///notes/x"]) }
    let prompt = try server.ask(
      "prompts/get", ["name": "summarize_note", "arguments": ["note": "tarts.md"]])
    #expect(prompt["messages"]?[1]?["content"]?["resource"] == content)
    let question = try server.ask(
      "prompts/get", ["name": "answer_from_notes", "arguments": ["question": "{question}?"]])
    #expect(
      question["messages"]?[0]?["content"]?["text"]?.stringValue?.hasPrefix(
        "Answer from my notes: {question}?")
        == true)
  }

  @Test func `progress grows, and comes no oftener than somebody reads`() {
    var told: [MCPProgress] = []
    let work = MCPWork(tell: { told.append($0) })
    work.tell(MCPProgress(5, "indexing: 3 of 9 files"))
    work.tell(MCPProgress(6, "indexing: 4 of 9 files"))
    work.tell(MCPProgress(1, "answering"))
    for count in 2..<1_000 { work.tell(MCPProgress(Double(count), "answering")) }
    usleep(150_000)
    work.tell(MCPProgress(2, "answering"))
    #expect(told.map(\.words).prefix(2) == ["indexing: 3 of 9 files", "answering"])
    #expect(told.map(\.done).prefix(2) == [5, 6])
    #expect(told.count >= 3 && told.count < 500)
    #expect(zip(told, told.dropFirst()).allSatisfy { $0.done < $1.done })
  }
}
