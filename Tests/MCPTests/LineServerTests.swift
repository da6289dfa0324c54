// The protocol over lines: clients that send anything, several requests at once, and none that read.

import JSON
import MCP
import Platform
import Testing

/// A client that has sent what it sends, and the lines that came back.
private final class Client: Sendable {
  private let input = Monitor<(pieces: [[UInt8]], isOver: Bool)>(([], false))
  let output = Monitor<[JSONValue]>([])
  /// False where nobody reads.
  let reads = Monitor(true)

  func send(_ text: String) { input.update { $0.pieces.append(Array(text.utf8)) } }
  func end() { input.update { $0.isOver = true } }

  private func read() -> [UInt8] {
    input.wait { input -> [UInt8]? in
      guard input.pieces.isEmpty else { return input.pieces.removeFirst() }
      return input.isOver ? [] : nil
    } ?? []
  }

  /// Serves the client on a thread of its own.
  func serve(_ notes: FakeNotes = FakeNotes()) throws -> Thread {
    try Thread(name: "lines", stackBytes: 4 << 20) { [self] in
      let server = LineServer(NoteServer(notes)) { [output, reads] line in
        guard reads.withLock({ $0 }), let value = try? JSONValue(parsing: line) else { return false }
        output.update { $0.append(value) }
        return true
      }
      server.run(read)
    }
  }

  /// What comes back for all that is sent, to the end.
  static func answers(to text: String, _ notes: FakeNotes = FakeNotes()) throws -> [JSONValue] {
    let client = Client()
    client.send(text)
    client.end()
    try client.serve(notes).join()
    return client.output.withLock { $0 }
  }

  /// Waits for an answer.
  func wait(for id: JSONValue) -> JSONValue {
    output.wait(until: Instant.now.adding(seconds: 60)) { $0.first { $0["id"] == id } } ?? .null
  }
}

private func line(_ id: JSONValue, _ method: String, _ params: JSONValue = [:]) -> String {
  let message: JSONValue = ["jsonrpc": "2.0", "id": id, "method": .string(method), "params": params]
  return message.text + "\n"
}

private func search(_ id: JSONValue, token: JSONValue = .null) -> String {
  line(
    id, "tools/call",
    ["name": "search_notes", "arguments": ["query": "wax"], "_meta": ["progressToken": token]])
}

struct LineServerTests {
  @Test func `what is no message is refused, and the next one answered`() throws {
    let deep = String(repeating: "[", count: 5_000)
    let bad: [(String, Int, JSONValue)] = [
      ("garbage", -32700, .null), (deep, -32700, .null), ("\u{0}", -32700, .null), ("5", -32600, .null),
      (#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, -32600, .null), ("{}", -32600, .null),
      (#"{"jsonrpc":"1.0","id":7,"method":"ping"}"#, -32600, 7),
      (#"{"jsonrpc":"2.0","id":7,"method":5}"#, -32600, 7),
      (#"{"jsonrpc":"2.0","id":7,"method":"ping","params":[1]}"#, -32600, 7),
      (#"{"jsonrpc":"2.0","id":[],"method":"ping"}"#, -32600, .null),
      (#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600, .null),
      (#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, -32600, .null),
      (#"{"jsonrpc":"2.0","id":7,"method":"sampling/createMessage"}"#, -32601, 7),
      ("[" + String(repeating: "1,", count: 100_001) + "1]", -32700, .null),
    ]
    let answers = try Client.answers(
      to: bad.map { $0.0 + "\n" }.joined() + "\r\n\n" + line("last", "ping").dropLast() + "\r\n")
    // Those that need no notes are answered in order.
    let quick = answers.filter { $0["error"]?["code"] != -32601 }
    #expect(quick.count == bad.count)
    for (answer, expected) in zip(quick, bad.filter { $0.1 != -32601 }) {
      #expect(answer["error"]?["code"] == .int(expected.1), "\(expected.0.prefix(60))")
      #expect(answer["id"] == expected.2)
    }
    #expect(answers.contains { $0["error"]?["code"] == -32601 && $0["id"] == 7 })
    #expect(quick.last == ["jsonrpc": "2.0", "id": "last", "result": [:]])
  }

  @Test func `answers and notifications of the client get no answer`() throws {
    let texts = [
      #"{"jsonrpc":"2.0","id":9,"result":{}}"#, #"{"jsonrpc":"2.0","id":9,"error":{"code":1,"message":"x"}}"#,
      #"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, #"{"jsonrpc":"2.0","method":"x"}"#,
      #"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":77}}"#,
      #"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#,
    ]
    #expect(try Client.answers(to: texts.joined(separator: "\n")) == [])
  }

  @Test func `a line that is too long is passed over, wherever it is cut`() throws {
    let client = Client()
    let server = try client.serve()
    for _ in 0..<5 { client.send(String(repeating: "x", count: 1 << 20)) }
    client.send("\n" + line(1, "ping"))
    #expect(client.wait(for: 1)["result"] == [:])
    #expect(client.output.withLock { $0.map { $0["error"]?["code"] } } == [-32600, nil])
    client.end()
    server.join()
  }

  @Test func `a last line without an end counts`() throws {
    #expect(try Client.answers(to: String(line(1, "ping").dropLast())).count == 1)
  }

  @Test func `requests run side by side, and one is taken back alone`() throws {
    let notes = FakeNotes()
    notes.isOpen.update { $0 = false }
    let client = Client()
    let server = try client.serve(notes)
    client.send(search(1) + search("1") + search(2))
    notes.begun.wait { $0 == 3 ? () : nil }
    client.send(line(3, "ping"))
    #expect(client.wait(for: 3)["result"] == [:])
    client.send(search(1))
    #expect(client.wait(for: 1)["error"]?["code"] == -32600)
    client.send(#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"# + "\n")
    // A cancelled request ends without a word, and its id is free again.
    var isFree = false
    for id in 100..<200 where !isFree {
      client.send(search(1))
      isFree = notes.begun.wait(until: Instant.now.adding(seconds: 0.1)) { $0 == 4 ? true : nil } ?? false
      _ = id
    }
    #expect(isFree)
    notes.isOpen.update { $0 = true }
    for id in ["1", 2] as [JSONValue] { #expect(client.wait(for: id)["result"]?["isError"] == false) }
    client.end()
    server.join()
  }

  @Test func `there is a bound on what runs at a time`() throws {
    let notes = FakeNotes()
    notes.isOpen.update { $0 = false }
    let client = Client()
    let server = try client.serve(notes)
    for id in 0..<20 { client.send(search(.int(id))) }
    #expect(client.wait(for: 19)["error"]?["code"] == -32000)
    notes.isOpen.update { $0 = true }
    client.end()
    server.join()
    #expect(client.output.withLock { $0.count { $0["result"] != nil } } == 16)
  }

  @Test func `progress goes to whom has asked for it`() throws {
    let told = try Client.answers(to: search(1, token: "t")).filter { $0["method"] != nil }
    #expect(
      told == [
        [
          "jsonrpc": "2.0", "method": "notifications/progress",
          "params": ["progressToken": "t", "progress": 1, "total": 2, "message": "searching"],
        ]
      ])
    #expect(try Client.answers(to: search(1)).allSatisfy { $0["method"] == nil })
  }

  @Test func `a client that has gone ends everything`() throws {
    let notes = FakeNotes()
    notes.isOpen.update { $0 = false }
    let client = Client()
    let server = try client.serve(notes)
    client.send(search(1))
    notes.begun.wait { $0 == 1 ? () : nil }
    client.reads.update { $0 = false }
    client.send(line(2, "ping"))
    // The search ends though nobody takes it back: it is unwanted.
    client.send(line(3, "ping"))
    client.end()
    server.join()
    #expect(client.output.withLock { $0 } == [])
  }
}
