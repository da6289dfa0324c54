// Files that a client wants read are asked for one after another, and what became of each is told.

import HTTP
import JSON
import Pipeline
import Platform
import Support
import Testing
import Wire

@testable import Server

/// Answers as a test says, and keeps what was asked.
private final class Desk: Sendable {
  struct State {
    var asked: [JSONValue] = []
    var replies: [(status: Int, body: JSONValue)] = []
    var isHeld = false
    var gaveWay = true
  }
  let state = Monitor(State())

  /// The last reply stands for all that follow.
  func answer(_ request: Request, _ context: ConnectionContext) -> Response {
    let body = (try? JSONValue(parsing: request.body)) ?? nil
    state.update {
      $0.asked.append(body)
      $0.gaveWay = $0.gaveWay && context.givesWay
    }
    _ = state.wait { $0.isHeld && !context.isClientGone() ? nil : true }
    return state.withLock { state in
      let reply = state.replies.count > 1 ? state.replies.removeFirst() : state.replies[0]
      return Response(json: reply.body, status: reply.status)
    }
  }
}

struct DocumentReaderTests {
  private let desk = Desk()

  private func reader() -> DocumentReader {
    let model = LoadedModel(
      id: "m", created: 5, service: FakeService("x"), tokenizer: tinyTokenizer, template: tinyTemplate,
      endTokens: [Marker.end])
    let reader = DocumentReader(ModelFleet(ResidentModel(model)))
    reader.resume { [desk] in desk.answer($0, $1) }
    return reader
  }

  private func told(_ reader: DocumentReader, _ file: String) -> JSONValue? {
    for _ in 0..<500 {
      let status = reader.told(of: file)?["status"]
      guard status == "queued" || status == "in_progress" else { break }
      usleep(10_000)
    }
    return reader.told(of: file)
  }

  @Test func `files are read in their order, and what became of each is told`() throws {
    let reader = reader()
    desk.state.withLock {
      $0.replies = [
        (200, ["usage": ["input_tokens": 70]]), (503, [:]), (200, ["usage": ["input_tokens": 80]]),
        (404, ["error": ["message": "There is no such file."]]),
      ]
    }
    try reader.read(["file-1", "file-2", "file-3"], by: "m", for: ClientIdentity())
    #expect(told(reader, "file-1") == ["model": "m", "status": "completed", "tokens": 70])
    #expect(told(reader, "file-2") == ["model": "m", "status": "completed", "tokens": 80])
    #expect(told(reader, "file-3") == ["model": "m", "status": "failed", "error": "There is no such file."])
    #expect(reader.told(of: "file-4") == nil)
    let asked = desk.state.withLock { $0.asked }
    #expect(
      asked.map { $0["input"]?[0]?["content"]?[0]?["file_id"] } == ["file-1", "file-2", "file-2", "file-3"])
    #expect(asked.allSatisfy { $0["keep_prompt"] == true && $0["store"] == false && $0["model"] == "m" })
    #expect(desk.state.withLock { $0.gaveWay })
    reader.stop()
  }

  @Test func `nothing is read without a model, or twice at a time`() throws {
    let reader = reader()
    desk.state.withLock { $0.replies = [(200, ["usage": ["input_tokens": 70]])] }
    try reader.read(["file-1"], by: nil, for: ClientIdentity())
    #expect(reader.told(of: "file-1") == nil)
    desk.state.withLock { $0.isHeld = true }
    for _ in 0..<3 { try reader.read(["file-1", "file-2"], by: "m", for: ClientIdentity()) }
    desk.state.update { $0.isHeld = false }
    #expect(told(reader, "file-2")?["status"] == "completed")
    #expect(desk.state.withLock { $0.asked.count } == 2)
    // What has been read once may be read again.
    try reader.read(["file-1"], by: "m", for: ClientIdentity())
    #expect(told(reader, "file-1")?["status"] == "completed")
    #expect(desk.state.withLock { $0.asked.count } == 3)
    reader.stop()
  }

  @Test func `too many files are refused, and a key's are given up with it`() throws {
    let reader = reader()
    desk.state.withLock { ($0.replies, $0.isHeld) = ([(200, ["usage": ["input_tokens": 1]])], true) }
    let files = (0..<2_001).map { "file-\($0)" }
    let error = #expect(throws: APIError.self) {
      try reader.read(files, by: "m", for: ClientIdentity(key: 7))
    }
    #expect(error?.message.contains("2000 files wait") == true)
    reader.cut(keys: [7])
    #expect(reader.told(of: "file-1999") == nil)
    desk.state.update { $0.isHeld = false }
    reader.stop()
  }

  @Test func `the end of the server ends what is read`() throws {
    let reader = reader()
    desk.state.withLock { ($0.replies, $0.isHeld) = ([(499, [:])], true) }
    try reader.read(["file-1"], by: "m", for: ClientIdentity())
    _ = desk.state.wait { $0.asked.isEmpty ? nil : true }
    let ended = Monitor(false)
    _ = try Thread(name: "end", stackBytes: 1 << 20) { [desk] in
      for _ in 0..<500 where !ended.withLock({ $0 }) {
        usleep(10_000)
        desk.state.update { _ in }
      }
    }
    reader.stop()
    ended.withLock { $0 = true }
    #expect(reader.told(of: "file-1")?["status"] == "failed")
  }
}
