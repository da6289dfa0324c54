// Batches on both wires: what is taken and refused, what becomes of it, and what a restart or a failing disk leaves.

import HTTP
import Inference
import JSON
import Platform
import Support
import Testing
import Tokenizers
import Wire

@testable import Server

struct BatchTests {
  private func archive(_ disk: any FileSystem, _ adjust: (inout Archive.Settings) -> Void = { _ in }) throws
    -> Archive
  {
    var settings = Archive.Settings()
    settings.folder = "/library"
    adjust(&settings)
    return try Archive(settings, files: disk, now: { 1_800_000_000 })
  }

  private func app(_ service: FakeService, _ archive: Archive) -> App {
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

  private func upload(_ lines: [String], _ archive: Archive, purpose: String = "batch") throws -> String {
    let content = Array((lines.joined(separator: "\n") + "\n").utf8)
    let id = "file-in\(lines.count)\(purpose)"
    try archive.add(
      FileRecord(id: id, owner: nil, bytes: content.count, created: 1, name: "in.jsonl", purpose: purpose),
      content)
    return id
  }

  private func line(_ id: String, _ members: String = "", text: String = "hi") -> String {
    #"{"custom_id":"\#(id)","method":"POST","url":"/v1/chat/completions","body":{"model":"m","#
      + #""messages":[{"role":"user","content":"\#(text)"}]\#(members)}}"#
  }

  private func create(_ app: App, _ file: String, _ members: String = "") throws -> Answer {
    try app.send(
      "POST", "/v1/batches",
      body:
        #"{"input_file_id":"\#(file)","endpoint":"/v1/chat/completions","completion_window":"24h"\#(members)}"#
    )
  }

  /// The batch once it is over, or as it is after a while.
  private func wait(_ app: App, _ path: String, until isOver: (JSONValue) -> Bool) throws -> JSONValue {
    for _ in 0..<2_000 {
      let batch = try app.send("GET", path).json
      if isOver(batch) { return batch }
      usleep(5_000)
    }
    return try app.send("GET", path).json
  }

  private func ended(_ app: App, _ id: JSONValue?) throws -> JSONValue {
    try wait(app, "/v1/batches/\(id?.stringValue ?? "")") {
      ["completed", "failed", "cancelled", "expired"].contains($0["status"]?.stringValue)
    }
  }

  private func lines(_ app: App, _ file: JSONValue?) throws -> [JSONValue] {
    guard let id = file?.stringValue else { return [] }
    return try app.send("GET", "/v1/files/\(id)/content").text.split(separator: "\n").map {
      try JSONValue(parsing: String($0))
    }
  }

  // MARK: OpenAI

  @Test func `answers and errors are in files of their own, and all give way`() throws {
    let service = FakeService("yes")
    let archive = try archive(SimulatedDisk())
    let app = app(service, archive)
    let file = try upload([line("a"), line("b", #","temperature":9"#), line("c")], archive)
    let created = try create(app, file, #","metadata":{"k":"v"}"#)
    #expect(created.status == 200 && created.json["object"] == "batch", "\(created.text)")
    let batch = try ended(app, created.json["id"])
    #expect(batch["status"] == "completed" && batch["model"] == "m", "\(batch.text)")
    #expect(batch["request_counts"] == ["total": 3, "completed": 2, "failed": 1])
    #expect(batch["metadata"]?["k"] == "v" && batch["usage"]?["output_tokens"] == 6)
    let answers = try lines(app, batch["output_file_id"])
    #expect(Set(answers.compactMap { $0["custom_id"]?.stringValue }) == ["a", "c"])
    for answer in answers {
      #expect(answer["response"]?["status_code"] == 200 && answer["error"] == .null)
      #expect(answer["response"]?["body"]?["choices"]?[0]?["message"]?["content"] == "yes")
    }
    let errors = try lines(app, batch["error_file_id"])
    #expect(errors.count == 1 && errors[0]["custom_id"] == "b")
    #expect(errors[0]["response"]?["status_code"] == 400)
    #expect(errors[0]["response"]?["body"]?["error"]?["param"] == "temperature")
    #expect(service.requests.count == 2 && service.requests.allSatisfy(\.givesWay))
    let list = try app.send("GET", "/v1/batches").json
    #expect(list["data"]?.arrayValue?.count == 1 && list["has_more"] == false)
    app.finish(seconds: 0)
  }

  @Test func `a file with bad lines makes a batch that has failed and names them`() throws {
    let archive = try archive(SimulatedDisk())
    let app = app(FakeService("x"), archive)
    let file = try upload(
      [line("a"), "{", line("a"), line("b", #","stream":true"#), line("c").replacing("chat/", with: "")],
      archive)
    let batch = try create(app, file).json
    #expect(batch["status"] == "failed" && batch["request_counts"]?["total"] == 0)
    let faults = batch["errors"]?["data"]?.arrayValue ?? []
    #expect(faults.compactMap { $0["line"]?.intValue } == [2, 3, 4, 5])
    #expect(
      faults.compactMap { $0["code"]?.stringValue } == [
        "invalid_json_line", "duplicate_custom_id", "unsupported_value", "mismatched_endpoint",
      ])
    #expect(try app.send("POST", "/v1/batches/\(batch["id"]?.stringValue ?? "")/cancel").status == 400)
    app.finish(seconds: 0)
  }

  @Test func `what begins no batch is refused by its name`() throws {
    let archive = try archive(SimulatedDisk())
    let app = app(FakeService("x"), archive)
    let other = try upload([line("a")], archive, purpose: "user_data")
    #expect(try create(app, other).refusal == "400 invalid_value input_file_id")
    #expect(try create(app, "file-none").status == 404)
    let file = try upload([line("a"), line("b")], archive)
    for (members, refusal) in [
      (
        #""input_file_id":"\#(file)","endpoint":"/v1/moderations","completion_window":"24h""#,
        "invalid_value endpoint"
      ),
      (
        #""input_file_id":"\#(file)","endpoint":"/v1/embeddings","completion_window":"1h""#,
        "invalid_value completion_window"
      ),
      (#""endpoint":"/v1/embeddings","completion_window":"24h""#, "missing_required_parameter input_file_id"),
    ] {
      #expect(try app.send("POST", "/v1/batches", body: "{\(members)}").refusal == "400 " + refusal)
    }
    #expect(try app.send("GET", "/v1/batches/batch_none").status == 404)
    app.finish(seconds: 0)
  }

  @Test func `a cancelled batch keeps what was answered`() throws {
    // The first is answered, the others never.
    let service = FakeService { request, _ in
      tinyTokenizer.decode(request.promptTokens, skipSpecialTokens: false).contains("first")
        ? Script(text: "yes") : Script(text: "ye", end: nil)
    }
    let archive = try archive(SimulatedDisk())
    let app = app(service, archive)
    let file = try upload([line("a", text: "first"), line("b"), line("c")], archive)
    let id = try create(app, file).json["id"]
    let path = "/v1/batches/\(id?.stringValue ?? "")"
    _ = try wait(app, path) { $0["request_counts"]?["completed"] == 1 }
    let cancelled = try app.send("POST", path + "/cancel").json
    #expect(["cancelling", "cancelled"].contains(cancelled["status"]?.stringValue ?? ""))
    let batch = try ended(app, id)
    #expect(batch["status"] == "cancelled" && batch["cancelled_at"]?.intValue != nil)
    #expect(batch["request_counts"] == ["total": 3, "completed": 1, "failed": 0])
    #expect(try lines(app, batch["output_file_id"]).map { $0["custom_id"] } == ["a"])
    #expect(batch["error_file_id"] == .null)
    app.finish(seconds: 0)
  }

  @Test func `a busy server is asked again until it has time`() throws {
    let tries = Monitor(0)
    let busy = FakeService { _, _ in
      let count = tries.update { count -> Int in
        count += 1
        return count
      }
      return count < 4 ? Script(submitError: .queueFull(limit: 1)) : Script(text: "yes")
    }
    let archive = try archive(SimulatedDisk())
    let app = app(busy, archive)
    let batch = try ended(app, create(app, upload([line("a")], archive)).json["id"])
    #expect(batch["request_counts"] == ["total": 1, "completed": 1, "failed": 0])
    #expect(tries.withLock { $0 } == 4)
    app.finish(seconds: 0)
  }

  // MARK: Restarts

  @Test func `a restart asks what was not answered, and nothing twice`() throws {
    for losesPower in [false, true] {
      let disk = SimulatedDisk()
      let stuck = FakeService { request, _ in
        tinyTokenizer.decode(request.promptTokens, skipSpecialTokens: false).contains("first")
          ? Script(text: "one") : Script(text: "ye", end: nil)
      }
      var archive = try archive(disk)
      var app = app(stuck, archive)
      let file = try upload([line("a", text: "first"), line("b"), line("c")], archive)
      let id = try create(app, file).json["id"]
      _ = try wait(app, "/v1/batches/\(id?.stringValue ?? "")") { $0["request_counts"]?["completed"] == 1 }
      app.finish(seconds: 0)
      disk.restart(losingPower: losesPower)
      let service = FakeService("two")
      archive = try self.archive(disk)
      app = self.app(service, archive)
      let batch = try ended(app, id)
      #expect(batch["status"] == "completed", "\(batch.text)")
      #expect(batch["request_counts"] == ["total": 3, "completed": 3, "failed": 0])
      #expect(service.requests.count == 2)
      let answers = try lines(app, batch["output_file_id"])
      let texts = answers.map {
        $0["response"]?["body"]?["choices"]?[0]?["message"]?["content"]?.stringValue ?? ""
      }
      #expect(texts.sorted() == ["one", "two", "two"])
      app.finish(seconds: 0)
    }
  }

  @Test func `a clock that is wrong at one start costs no batch, and time takes old ones`() throws {
    let disk = SimulatedDisk()
    let day = 86_400
    /// A batch at this time of a new process, once it is over.
    func run(_ time: Int, creates: Bool) throws -> (App, JSONValue?) {
      disk.restart(losingPower: false)
      var settings = Archive.Settings()
      settings.folder = "/library"
      let archive = try Archive(settings, files: disk, now: { time })
      let ids = Monitor(time)
      let app = makeApp(FakeService("x")) {
        $0.archive = archive
        $0.pollSeconds = 0.001
        $0.now = { time }
        $0.makeID = {
          ids.update { count -> String in
            count += 1
            return "\(count)"
          }
        }
      }
      guard creates else { return (app, nil) }
      let content = Array((line("a") + "\n").utf8)
      try archive.add(
        FileRecord(
          id: "file-\(time)", owner: nil, bytes: content.count, created: time, name: "in.jsonl",
          purpose: "batch"),
        content)
      let id = try create(app, "file-\(time)").json["id"]
      #expect(try ended(app, id)["status"] == "completed")
      return (app, id)
    }
    let start = 1_800_000_000
    let (first, old) = try run(start, creates: true)
    first.finish(seconds: 0)
    for time in [start + 400 * day, start - 400 * day, start] {
      let (app, _) = try run(time, creates: false)
      #expect(try app.send("GET", "/v1/batches/\(old?.stringValue ?? "")").status == 200, "\(time - start)")
      app.finish(seconds: 0)
    }
    var kept: [(Int, JSONValue?)] = [(0, old)]
    for days in [20, 40] {
      let (app, id) = try run(start + days * day, creates: true)
      kept.append((days, id))
      app.finish(seconds: 0)
    }
    let (app, _) = try run(start + 41 * day, creates: false)
    for (days, id) in kept {
      #expect(try app.send("GET", "/v1/batches/\(id?.stringValue ?? "")").status == (days == 0 ? 404 : 200))
    }
    app.finish(seconds: 0)
  }

  @Test func `a restart without the key that asked for a batch cancels it`() throws {
    for keys in [["sk-old", "sk-new"], ["sk-new"], []] {
      let disk = SimulatedDisk()
      var ring = KeyRing()
      try ring.add("sk-old", source: "a test")
      var archive = try archive(disk)
      var app = app(FakeService("x", end: nil), archive)
      let context = ConnectionContext()
      context.client = try #require(ring.client(presenting: "sk-old".utf8))
      let content = Array((line("a") + "\n").utf8)
      try archive.add(
        FileRecord(
          id: "file-in", owner: Archive.owner(context.client), bytes: content.count, created: 1,
          name: "in.jsonl",
          purpose: "batch"), content)
      let made = try app.send(
        "POST", "/v1/batches",
        body: #"{"input_file_id":"file-in","endpoint":"/v1/chat/completions","completion_window":"24h"}"#,
        context: context)
      let id = try #require(made.json["id"]?.stringValue)
      app.finish(seconds: 0)
      disk.restart(losingPower: false)
      archive = try self.archive(disk)
      app = self.app(FakeService("x", end: nil), archive)
      #expect(app.keysAtWork == [context.client.key])
      var settings = Access.Settings()
      for key in keys { try settings.keys.add(key, source: "a test") }
      Host(access: try Access(settings), metrics: Metrics()).open(app)
      // Without keys the server is everybody's.
      let isKept = keys.count != 1
      let status =
        try app.send("GET", "/v1/batches/" + id, context: context).json["status"]?.stringValue ?? ""
      #expect(["cancelling", "cancelled"].contains(status) != isKept, "\(keys): \(status)")
      app.finish(seconds: 0)
    }
  }

  @Test func `what the disk does not take is written when it works again`() throws {
    let disk = SimulatedDisk()
    let archive = try archive(disk)
    let app = app(FakeService("yes"), archive)
    let file = try upload([line("a"), line("b")], archive)
    disk.follow(.init(.error(ENOSPC), at: 40, isLasting: true))
    let created = try create(app, file)
    // The batch itself is refused where it cannot be stored, and is lost by nobody.
    guard created.status == 200 else {
      #expect(created.status == 507)
      app.finish(seconds: 0)
      return
    }
    usleep(200_000)
    disk.follow(nil)
    let batch = try ended(app, created.json["id"])
    #expect(batch["request_counts"] == ["total": 2, "completed": 2, "failed": 0], "\(batch.text)")
    #expect(try lines(app, batch["output_file_id"]).count == 2)
    app.finish(seconds: 0)
  }

  @Test func `an answer that was not written to its end is asked again`() throws {
    let disk = SimulatedDisk()
    var archive = try archive(disk)
    let stuck = FakeService("x", end: nil)
    var app = app(stuck, archive)
    let id = try create(app, upload([line("a")], archive)).json["id"]?.stringValue ?? ""
    app.finish(seconds: 0)
    let path = "/library/batches/\(id).output"
    let file = try disk.openToAppend(path)
    try disk.write(Array(#"{"custom_id":"a","resp"#.utf8), to: file.number, at: file.count, path: path)
    disk.close(file.number)
    disk.restart(losingPower: false)
    archive = try self.archive(disk)
    app = self.app(FakeService("yes"), archive)
    let batch = try ended(app, .string(id))
    #expect(batch["request_counts"] == ["total": 1, "completed": 1, "failed": 0])
    #expect(try lines(app, batch["output_file_id"]).count == 1)
    app.finish(seconds: 0)
  }

  @Test func `a request that is damaged on disk has failed, and holds up no other`() throws {
    let disk = SimulatedDisk()
    var archive = try archive(disk)
    var app = app(FakeService("x", end: nil), archive)
    let id = try create(app, upload([line("a"), line("b")], archive)).json["id"]?.stringValue ?? ""
    app.finish(seconds: 0)
    let path = "/library/batches/\(id).requests"
    let kept = try #require(disk.content(path))
    disk.put(path, [UInt8(ascii: "x")] + kept.dropFirst())
    disk.restart(losingPower: false)
    archive = try self.archive(disk)
    app = self.app(FakeService("yes"), archive)
    let batch = try ended(app, .string(id))
    #expect(batch["status"] == "completed")
    #expect(batch["request_counts"] == ["total": 2, "completed": 1, "failed": 1], "\(batch.text)")
    #expect(try lines(app, batch["output_file_id"]).map { $0["custom_id"] } == ["b"])
    app.finish(seconds: 0)
  }

  @Test func `a request that three processes have died of fails, and the others are answered`() throws {
    let disk = SimulatedDisk()
    var archive = try self.archive(disk)
    var app = self.app(FakeService("x", end: nil), archive)
    let id = try create(app, upload([line("a"), line("b")], archive)).json["id"]?.stringValue ?? ""
    let notes = ["/library/attempts/\(id).0", "/library/attempts/\(id).1"]
    for _ in 0..<2_000 where !notes.allSatisfy(disk.files.contains) { usleep(1_000) }
    #expect(notes.map(disk.content) == [[0x31], [0x31]])
    // An end in peace counts for nothing.
    app.finish(seconds: 0)
    #expect(notes.map(disk.content) == [nil, nil])
    disk.restart(losingPower: false)
    for (note, count) in zip(notes, [0x33, 0x32] as [UInt8]) { disk.put(note, [count]) }
    archive = try self.archive(disk)
    app = self.app(FakeService("yes"), archive)
    let batch = try ended(app, .string(id))
    #expect(batch["status"] == "completed", "\(batch.text)")
    #expect(try lines(app, batch["output_file_id"]).map { $0["custom_id"] } == ["b"])
    let errors = try lines(app, batch["error_file_id"])
    #expect(errors.map { $0["custom_id"] } == ["a"])
    #expect(errors[0]["response"]?["status_code"] == 500)
    #expect(errors[0].text.contains("the server ended 3 times while it answered this request"))
    #expect(notes.map(disk.content) == [nil, nil])
    app.finish(seconds: 0)
  }

  @Test func `a clock that is ahead, from one moment on or at one start, expires no batch`() throws {
    let (time, uptime, disk) = (Monitor(1_800_000_000), Monitor(0.0), SimulatedDisk())
    func start() throws -> (App, Archive) {
      disk.restart(losingPower: false)
      var settings = Archive.Settings()
      settings.folder = "/library"
      settings.uptime = { uptime.withLock { $0 } }
      let archive = try Archive(settings, files: disk, now: { time.withLock { $0 } })
      let app = makeApp(FakeService("x", end: nil)) {
        $0.archive = archive
        $0.pollSeconds = 0.001
        $0.now = { time.withLock { $0 } }
      }
      return (app, archive)
    }
    var (app, archive) = try start()
    let id = try create(app, upload([line("a")], archive)).json["id"]
    func status() throws -> String? {
      usleep(20_000)
      return try app.send("GET", "/v1/batches/\(id?.stringValue ?? "")").json["status"]?.stringValue
    }
    time.update { $0 += 40 * 86_400 }
    #expect(try status() == "in_progress")
    app.finish(seconds: 0)
    (app, archive) = try start()
    #expect(try status() == "in_progress")
    uptime.update { $0 += 3_599 }
    #expect(try status() == "in_progress")
    // Who has not set his clock for an hour means it.
    uptime.update { $0 += 1 }
    #expect(try ended(app, id)["status"] == "expired")
    app.finish(seconds: 0)
  }

  @Test func `an answer comes too late after 24 hours`() throws {
    let time = Monitor(1_800_000_000)
    var settings = Archive.Settings()
    settings.folder = "/library"
    settings.uptime = { Double(time.withLock { $0 }) }
    let archive = try Archive(settings, files: SimulatedDisk(), now: { time.withLock { $0 } })
    let app = makeApp(FakeService("x", end: nil)) {
      $0.archive = archive
      $0.pollSeconds = 0.001
      $0.now = { time.withLock { $0 } }
    }
    let id = try create(app, upload([line("a")], archive)).json["id"]
    time.update { $0 += RequestBatch.window }
    let batch = try ended(app, id)
    #expect(batch["status"] == "expired" && batch["output_file_id"] == .null, "\(batch.text)")
    let errors = try lines(app, batch["error_file_id"])
    #expect(errors.map { $0["error"]?["code"] } == ["batch_expired"] && errors[0]["response"] == .null)
    app.finish(seconds: 0)
  }

  @Test func `records may say anything`() {
    var batch = RequestBatch(
      id: "batch_1", api: .openAI, client: ClientIdentity(number: .max, name: "n", key: 3), created: 5,
      endpoint: "/v1/completions")
    batch.counts = RequestBatch.Counts(succeeded: 1, errored: 2, cancelled: 3, expired: 4)
    batch.metadata = JSONObject([("k", "v")])
    batch.outputFile = "file-x"
    batch.ending = .expired
    batch.client.isAdmin = false
    #expect(RequestBatch(batch.record) == batch)
    var random = SeededGenerator(seed: 25)
    for _ in 0..<2_000 {
      guard let value = try? JSONValue(parsing: mutated(batch.record.bytes, using: &random)) else { continue }
      if let read = RequestBatch(value) { _ = (read.json, read.messagesJSON) }
    }
  }

  // MARK: Anthropic

  private func message(_ id: String, _ members: String = "") -> String {
    #"{"custom_id":"\#(id)","params":{"model":"m","max_tokens":5,"#
      + #""messages":[{"role":"user","content":"hi"}]\#(members)}}"#
  }

  @Test func `messages are answered, listed and deleted in Anthropic's words`() throws {
    let service = FakeService("yes")
    let app = app(service, try archive(SimulatedDisk()))
    let created = try app.send(
      "POST", "/v1/messages/batches",
      body: #"{"requests":[\#(message("a")),\#(message("b", #","top_k":"x""#))]}"#)
    #expect(created.status == 200 && created.json["type"] == "message_batch", "\(created.text)")
    let path = "/v1/messages/batches/\(created.json["id"]?.stringValue ?? "")"
    let batch = try wait(app, path) { $0["processing_status"] == "ended" }
    #expect(
      batch["request_counts"] == [
        "processing": 0, "succeeded": 1, "errored": 1, "canceled": 0, "expired": 0,
      ], "\(batch.text)")
    #expect(batch["results_url"] == .string(path + "/results"))
    let results = try app.send("GET", path + "/results")
    #expect(results.headers["content-type"] == "application/x-jsonl")
    let lines = try results.text.split(separator: "\n").map { try JSONValue(parsing: String($0)) }
    #expect(lines.count == 2 && lines[0]["custom_id"] == "a" && lines[0]["result"]?["type"] == "succeeded")
    #expect(lines[0]["result"]?["message"]?["content"]?[0]?["text"] == "yes")
    #expect(lines[1]["result"]?["error"]?["error"]?["type"] == "invalid_request_error")
    #expect(try app.send("GET", "/v1/batches").json["data"] == [])
    #expect(try app.send("DELETE", path).json["type"] == "message_batch_deleted")
    #expect(try app.send("GET", path).json["error"]?["type"] == "not_found_error")
    app.finish(seconds: 0)
  }

  @Test func `requests that were cancelled are told of, one by one`() throws {
    let app = app(FakeService("x", end: nil), try archive(SimulatedDisk()))
    let body = #"{"requests":[\#((0..<12).map { message("r\($0)") }.joined(separator: ","))]}"#
    let path =
      "/v1/messages/batches/\(try app.send("POST", "/v1/messages/batches", body: body).json["id"]?.stringValue ?? "")"
    #expect(try app.send("DELETE", path).status == 400)
    #expect(try app.send("GET", path + "/results").status == 404)
    #expect(try app.send("POST", path + "/cancel").json["cancel_initiated_at"]?.stringValue != nil)
    let batch = try wait(app, path) { $0["processing_status"] == "ended" }
    #expect(batch["request_counts"]?["canceled"] == 12, "\(batch.text)")
    let lines = try app.send("GET", path + "/results").text.split(separator: "\n")
    #expect(lines.count == 12 && lines.allSatisfy { $0.hasSuffix(#""result":{"type":"canceled"}}"#) })
    app.finish(seconds: 0)
  }

  @Test func `pages go both ways`() throws {
    let app = app(FakeService("x"), try archive(SimulatedDisk()))
    let ids = try (0..<5).map { index in
      try app.send("POST", "/v1/messages/batches", body: #"{"requests":[\#(message("a\(index)"))]}"#)
        .json["id"]?.stringValue ?? ""
    }
    func page(_ query: String) throws -> JSONValue {
      try app.send("GET", "/v1/messages/batches?" + query).json
    }
    func names(_ page: JSONValue) -> [String] {
      page["data"]?.arrayValue?.compactMap { $0["id"]?.stringValue } ?? []
    }
    let all = names(try page("limit=100"))
    #expect(Set(all) == Set(ids))
    let first = try page("limit=2")
    #expect(names(first) == Array(all[..<2]) && first["has_more"] == true)
    #expect(names(try page("limit=2&after_id=\(all[1])")) == Array(all[2..<4]))
    let before = try page("limit=2&before_id=\(all[3])")
    #expect(names(before) == Array(all[1..<3]) && before["has_more"] == true)
    #expect(try app.send("GET", "/v1/messages/batches?after_id=x").status == 400)
    app.finish(seconds: 0)
  }

  @Test(arguments: [
    (#"{}"#, "requests"), (#"{"requests":[]}"#, "requests"),
    (#"{"requests":[{"params":{}}]}"#, "requests[0].custom_id"),
    (#"{"requests":[{"custom_id":"a"}]}"#, "requests[0].params"),
    (#"{"requests":[{"custom_id":"a","params":{"stream":true}}]}"#, "requests[0].params.stream"),
    (#"{"requests":[{"custom_id":"a","params":{}},{"custom_id":"a","params":{}}]}"#, "requests[1].custom_id"),
  ])
  func `what is no batch of messages is refused by the field`(body: String, field: String) throws {
    let app = app(FakeService("x"), try archive(SimulatedDisk()))
    let answer = try app.send("POST", "/v1/messages/batches", body: body)
    #expect(
      answer.status == 400 && answer.json["error"]?["message"]?.stringValue?.contains("'\(field)'") == true)
    app.finish(seconds: 0)
  }

  @Test func `a thread is refused with the code by which clients fall back`() throws {
    let body =
      #"{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"hi"}],"thread":{"type":"create"}}"#
    let answer = try makeApp(FakeService("x")).send("POST", "/v1/messages", body: body)
    #expect(answer.status == 400)
    #expect(answer.json["error"]?["details"]?["error_code"] == "thread_unsupported_request")
  }
}
