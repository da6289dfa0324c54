// What one client may cause: bytes on the disk, also those that are there for a while, numbers of records, and their memory, while
// another client is served.

import HTTP
import Inference
import JSON
import Platform
import Support
import Testing
import Wire

@testable import Server

@Suite struct ArchiveQuotaTests {
  private let own = ClientIdentity(number: 10, name: "a", isAdmin: false)

  private func archive(_ disk: SimulatedDisk, _ adjust: (inout Archive.Settings) -> Void) throws -> Archive {
    disk.restart(losingPower: false)
    var settings = Archive.Settings()
    settings.folder = "/library"
    adjust(&settings)
    return try Archive(settings, files: disk, now: { 1_800_000_000 })
  }

  private func app(_ archive: Archive, _ service: FakeService = FakeService("yes")) -> App {
    let ids = Monitor(0)
    return makeApp(service) {
      $0.archive = archive
      $0.pollSeconds = 0.001
      $0.now = { 1_800_000_000 }
      $0.makeID = {
        ids.update { count -> String in
          count += 1
          return "\(count)"
        }
      }
    }
  }

  private func send(
    _ app: App, _ method: String, _ path: String, _ body: String = "", as client: ClientIdentity? = nil
  ) throws -> Answer {
    let context = ConnectionContext()
    context.client = client ?? own
    return try app.send(method, path, body: body, context: context)
  }

  private func form(_ members: [(name: String, content: String)]) -> (headers: Headers, body: String) {
    let parts = members.map { name, content in
      let file = name == "file" || name == "data" ? #"; filename="f.txt""# : ""
      return "--X\r\ncontent-disposition: form-data; name=\"\(name)\"\(file)\r\n\r\n\(content)\r\n"
    }
    return (["content-type": "multipart/form-data; boundary=X"], parts.joined() + "--X--\r\n")
  }

  private func upload(
    _ app: App, _ path: String, _ members: [(name: String, content: String)], as client: ClientIdentity? = nil
  ) throws -> Answer {
    let (headers, body) = form(members)
    let context = ConnectionContext()
    context.client = client ?? own
    return try app.send("POST", path, body: body, headers: headers, context: context)
  }

  private func line(_ id: String, text: String = "hi") -> String {
    #"{"custom_id":"\#(id)","method":"POST","url":"/v1/chat/completions","body":{"model":"m","#
      + #""messages":[{"role":"user","content":"\#(text)"}]}}"#
  }

  private func bytes(of disk: SimulatedDisk, _ endings: [String]) -> Int {
    disk.files.filter { path in endings.contains { path.hasSuffix($0) } }
      .reduce(0) { $0 + (disk.content($1)?.count ?? 0) }
  }

  @Test func `files that are sent at once have the room of one client together`() throws {
    let disk = SimulatedDisk { usleep(50) }
    let archive = try archive(disk) { $0.clientBytes = 100_000 }
    let app = app(archive)
    let statuses = Monitor<[Int]>([])
    let content = String(repeating: "x", count: 10_000)
    let threads = try (0..<24).map { number in
      try Thread(name: "client-\(number)", stackBytes: 1 << 20) {
        let answer = try? upload(app, "/v1/files", [("purpose", "user_data"), ("file", content)])
        statuses.withLock { $0.append(answer?.status ?? 0) }
      }
    }
    for thread in threads { thread.join() }
    #expect(statuses.withLock { $0.count { $0 == 200 } } == 10)
    #expect(statuses.withLock { $0.count { $0 == 400 } } == 14)
    #expect(bytes(of: disk, [".data"]) == 100_000)
    let refused = try upload(app, "/v1/files", [("purpose", "user_data"), ("file", "x")])
    #expect(refused.refusal == "400 storage_limit_exceeded null")
    // What is deleted gives its room back, and another client has its own.
    let id = try send(app, "GET", "/v1/files").json["data"]?[0]?["id"]?.stringValue ?? ""
    #expect(try send(app, "DELETE", "/v1/files/" + id).status == 200)
    #expect(try upload(app, "/v1/files", [("purpose", "user_data"), ("file", content)]).status == 200)
    let other = ClientIdentity(number: 11, name: "b")
    #expect(try upload(app, "/v1/files", [("purpose", "user_data"), ("file", "x")], as: other).status == 200)
    app.finish(seconds: 0)
  }

  @Test func `uploads count from their beginning, parts and all, until they are a file or given up`() throws {
    let disk = SimulatedDisk()
    let archive = try archive(disk) { $0.clientBytes = 100_000 }
    let app = app(archive)
    func begin(_ bytes: Int) throws -> Answer {
      try send(
        app, "POST", "/v1/uploads",
        #"{"bytes":\#(bytes),"filename":"f.txt","mime_type":"text/plain","purpose":"user_data"}"#)
    }
    let first = try begin(60_000)
    let id = first.json["id"]?.stringValue ?? ""
    #expect(first.status == 200)
    #expect(try begin(60_000).refusal == "400 storage_limit_exceeded null")
    let part = String(repeating: "x", count: 30_000)
    var parts: [String] = []
    for _ in 0..<2 {
      let added = try upload(app, "/v1/uploads/\(id)/parts", [("data", part)])
      parts.append(added.json["id"]?.stringValue ?? "")
    }
    // More than was promised leaves nothing on the disk.
    #expect(try upload(app, "/v1/uploads/\(id)/parts", [("data", "x")]).status == 400)
    #expect(bytes(of: disk, [".data"]) == 60_000)
    let body = #"{"part_ids":["\#(parts[0])","\#(parts[1])"]}"#
    #expect(try send(app, "POST", "/v1/uploads/\(id)/complete", body).status == 200)
    #expect(try send(app, "POST", "/v1/uploads/\(id)/complete", body).status == 404)
    #expect(bytes(of: disk, [".data"]) == 60_000)
    let quota = archive.state.withLock { $0.quotas.share(of: Archive.owner(own)) }
    #expect(quota == Holding(bytes: 60_000, files: 1, memory: 800))
    // One that is given up gives its room back.
    let second = try begin(40_000).json["id"]?.stringValue ?? ""
    #expect(try begin(1).status == 400)
    #expect(try send(app, "POST", "/v1/uploads/\(second)/cancel").status == 200)
    #expect(try begin(1).status == 200)
    app.finish(seconds: 0)
  }

  @Test func `requests of batches count, their answers too, and what has no room fails`() throws {
    let disk = SimulatedDisk()
    let archive = try archive(disk) { $0.clientBytes = 50_000 }
    // Long answers: after some of them there is no room.
    let app = app(
      archive, FakeService(maxContext: 6_000) { _, _ in Script(text: String(repeating: "ab", count: 2_000)) })
    let content = (0..<4).map { line("r\($0)", text: String(repeating: "t", count: 20)) }.joined(
      separator: "\n")
    let file = try upload(app, "/v1/files", [("purpose", "batch"), ("file", content)]).json["id"]?.stringValue
    let create =
      #"{"input_file_id":"\#(file ?? "")","endpoint":"/v1/chat/completions","completion_window":"24h"}"#
    var (made, refused) = (0, 0)
    var last = ""
    for _ in 0..<10 {
      let answer = try send(app, "POST", "/v1/batches", create)
      if answer.status == 200 {
        made += 1
        last = answer.json["id"]?.stringValue ?? ""
      } else {
        refused += 1
        #expect(answer.refusal == "400 storage_limit_exceeded null")
      }
      let kept = bytes(of: disk, [".data", ".requests", ".output", ".errors"])
      // Errors in the place of answers have their own room.
      #expect(kept <= 50_000 + 4 * 512, "\(kept)")
      for _ in 0..<2_000 {
        guard try send(app, "GET", "/v1/batches/" + last).json["completed_at"] == .null else { break }
        usleep(1_000)
      }
    }
    #expect(made > 1 && refused > 1, "\(made) made, \(refused) refused")
    let over = try send(app, "GET", "/v1/batches/" + last).json
    let errors = over["error_file_id"]?.stringValue ?? ""
    let told = try send(app, "GET", "/v1/files/\(errors)/content").text
    #expect(told.contains("storage_limit_exceeded"), "\(over.text)")
    app.finish(seconds: 0)
    // What is counted is what is there.
    let counted = archive.state.withLock { $0.quotas.all }
    let again = try self.archive(disk) { $0.clientBytes = 50_000 }
    _ = BatchStore(again)
    #expect(again.state.withLock { $0.quotas.all } == counted)
  }

  @Test func `files of no bytes have a number, and each kind of record its memory`() throws {
    let disk = SimulatedDisk()
    let archive = try archive(disk) { $0.clientBytes = 1_000_000 }
    var added = 0
    do throws(APIError) {
      for number in 0..<200 {
        try archive.add(
          FileRecord(
            id: "f\(number)", owner: "a", bytes: 0, created: 1, name: "f", purpose: "user_data"), [])
        added += 1
      }
    } catch {
      #expect(error.code == "storage_limit_exceeded" && error.message.contains("100 files"))
    }
    #expect(added == 100)
  }

  @Test func `one client's records of every kind leave room for another, also after a restart`() throws {
    let disk = SimulatedDisk()
    let limit = 32 << 20
    func adjust(_ settings: inout Archive.Settings) {
      settings.memory = limit
      settings.storesPerClient = 20
    }
    // Long prompts are never answered to their end.
    let service = FakeService { request, _ in
      Script(text: "yes", end: request.promptTokens.count > 150 ? nil : .stop)
    }
    var archive = try archive(disk, adjust)
    var app = app(archive, service)
    let most = archive.settings.recordBytes / 2
    let other = ClientIdentity(number: 11, name: "b")

    func check(_ kind: String) throws {
      #expect(archive.memoryBytes <= most + 1 << 20, "\(kind): \(archive.memoryBytes)")
      // Another client chats, and keeps something.
      let chat = #"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#
      #expect(try send(app, "POST", "/v1/chat/completions", chat, as: other).status == 200, "\(kind)")
      let file = try upload(app, "/v1/files", [("purpose", "user_data"), ("file", "x")], as: other)
      #expect(file.status == 200, "\(kind): \(file.text)")
      let id = file.json["id"]?.stringValue ?? ""
      #expect(try send(app, "DELETE", "/v1/files/" + id, as: other).status == 200)
    }

    /// Sends until it is refused, or for that many times.
    func fill(_ kind: String, _ times: Int, _ send: (Int) throws -> Answer) throws {
      for number in 0..<times {
        let answer = try send(number)
        guard answer.status == 200 else {
          #expect([400, 429].contains(answer.status), "\(kind): \(answer.text)")
          break
        }
      }
      try check(kind)
    }

    let bad = (0..<100).map { #"{"custom_id":"\#($0)","method":"GET"}"# }.joined(separator: "\n")
    let input =
      try upload(app, "/v1/files", [("purpose", "batch"), ("file", bad)]).json["id"]?.stringValue ?? ""
    let text = try upload(app, "/v1/files", [("purpose", "user_data"), ("file", "text")])
    let file = text.json["id"]?.stringValue ?? ""
    let metadata = (0..<16).map { #""k\#($0)":"\#(String(repeating: "v", count: 512))""# }.joined(
      separator: ",")
    try fill("stores", 30) { _ in
      try send(app, "POST", "/v1/vector_stores", #"{"metadata":{\#(metadata)}}"#)
    }
    let stores = try send(app, "GET", "/v1/vector_stores?limit=100").json["data"]?.arrayValue ?? []
    #expect(stores.count == 20)
    let store = stores.first?["id"]?.stringValue ?? ""
    try fill("batches of files", 150) { _ in
      try send(app, "POST", "/v1/vector_stores/\(store)/file_batches", #"{"file_ids":["\#(file)"]}"#)
    }
    #expect(disk.files.count { $0.contains("/\(store)/batches/") } == 100)
    try fill("uploads", 100) { _ in
      try send(
        app, "POST", "/v1/uploads",
        #"{"bytes":10,"filename":"f.txt","mime_type":"text/plain","purpose":"user_data"}"#)
    }
    func fail() throws -> Answer {
      try send(
        app, "POST", "/v1/batches",
        #"{"input_file_id":"\#(input)","endpoint":"/v1/chat/completions","completion_window":"24h"}"#)
    }
    try fill("batches that have failed", 100) { _ in try fail() }
    // What is wrong with its file is told, from the disk.
    let failed = try send(app, "GET", "/v1/batches?limit=1").json["data"]?[0]
    #expect(failed?["errors"]?["data"]?.arrayValue?.count == 100)
    var files: [String] = []
    for _ in 0..<100 {
      let answer = try upload(app, "/v1/files", [("purpose", "user_data"), ("file", "")])
      if let id = answer.json["id"]?.stringValue { files.append(id) }
    }
    #expect(files.count == 100)
    try fill("entries", 100) { number in
      try send(
        app, "POST", "/v1/vector_stores/\(store)/files",
        #"{"file_id":"\#(files[number])","attributes":{\#(metadata)}}"#)
    }
    var more = 0
    try fill("files", 2_000) { _ in
      let answer = try upload(app, "/v1/files", [("purpose", "user_data"), ("file", "")])
      if answer.status == 200 { more += 1 }
      return answer
    }
    #expect(more < 2_000)
    // Now that there is no room, the oldest that has failed goes for a new one.
    let kept = disk.files.count { $0.hasPrefix("/library/batches/") }
    try fill("batches in the place of others", 100) { _ in
      let answer = try fail()
      #expect(answer.status == 200)
      return answer
    }
    #expect(disk.files.count { $0.hasPrefix("/library/batches/") } == kept)
    try fill("responses", 1_200) { _ in
      try send(app, "POST", "/v1/responses", #"{"model":"m","input":"hi","store":true}"#)
    }
    try fill("conversations", 1_200) { _ in
      try send(app, "POST", "/v1/conversations", #"{"metadata":{\#(metadata)}}"#)
    }
    try fill("stored chats", 1_200) { _ in
      let chat = #"{"model":"m","messages":[{"role":"user","content":"hi"}],"store":true}"#
      return try send(app, "POST", "/v1/chat/completions", chat)
    }
    let long = line("r", text: String(repeating: "t", count: 150))
    // Its files made room for a batch of its own.
    for id in files.prefix(20) { _ = try send(app, "DELETE", "/v1/files/" + id) }
    let endless =
      try upload(app, "/v1/files", [("purpose", "batch"), ("file", long)]).json["id"]?.stringValue ?? ""
    var running = 0
    try fill("batches that run", 150) { _ in
      let answer = try send(
        app, "POST", "/v1/batches",
        #"{"input_file_id":"\#(endless)","endpoint":"/v1/chat/completions","completion_window":"24h"}"#)
      if answer.status == 200 { running += 1 }
      return answer
    }
    #expect((1...100).contains(running), "\(running)")
    let counted = archive.state.withLock { $0.quotas.all }
    app.finish(seconds: 0)
    archive = try self.archive(disk, adjust)
    app = self.app(archive, service)
    let found = archive.state.withLock { $0.quotas.all }
    // Uploads are gone with their process.
    #expect(found.bytes <= counted.bytes && found.memory <= counted.memory && found.files < counted.files)
    try check("a restart")
    // And there is a way out.
    var (last, after) = ("", "")
    for _ in 0..<20 {
      let page = try send(app, "GET", "/v1/batches?limit=100" + after).json["data"]?.arrayValue ?? []
      let over = page.first { $0["status"] == "failed" }
      last = (over ?? page.last)?["id"]?.stringValue ?? ""
      after = "&after=" + last
      if over != nil { break }
    }
    #expect(try send(app, "DELETE", "/v1/batches/" + last).json["deleted"] == true)
    #expect(try send(app, "DELETE", "/v1/batches/" + last).status == 404)
    #expect(try send(app, "DELETE", "/v1/vector_stores/" + store).status == 200)
    #expect(archive.state.withLock { $0.quotas.all.memory } < found.memory)
    app.finish(seconds: 0)
  }
}
