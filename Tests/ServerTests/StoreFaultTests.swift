// Every system call of the store fails once, or from there on, and a restart finds what was acknowledged.

import HTTP
import JSON
import Platform
import Support
import Testing
import Wire

@testable import Server

/// What a restart may find of each record: what was acknowledged last, and what was tried since and not acknowledged.
private struct Promises {
  private(set) var allowed: [String: Set<String?>] = [:]
  private(set) var failures: [PlatformError] = []

  /// Makes a change of a record to `value`; nil removes it.
  mutating func change(_ id: String, to value: String?, _ body: () throws(PlatformError) -> Void) {
    do throws(PlatformError) {
      try body()
      allowed[id] = [value]
    } catch {
      allowed[id, default: [nil]].insert(value)
      failures.append(error)
    }
  }
}

struct StoreFaultTests {
  private static let errors = [ENOSPC, EIO, EMFILE, EACCES, EROFS]
  private static let faults = errors.map { SimulatedDisk.Fault.error($0) } + [.short]
  private let nobody = ClientIdentity(number: 7)

  private func response(_ id: String, _ text: String) -> StoredResponse {
    let body = JSONObject([("id", .string(id)), ("status", "completed"), ("text", .string(text))])
    return StoredResponse(body: body, context: [], input: [], reasoning: .openai)
  }

  private func conversation(_ text: String) -> StoredConversation {
    StoredConversation(id: "c", createdAt: 1, metadata: ["text": .string(text)], items: [])
  }

  private func settings(count: Int = 1_000) -> ResponseStore.Settings {
    var settings = ResponseStore.Settings()
    settings.folder = "/state"
    settings.count = count
    settings.now = { 1_800_000_000 }
    return settings
  }

  private func found(_ id: String, _ records: ClientRecords) -> String? {
    id == "c"
      ? records.conversation(id)?.metadata["text"]?.stringValue
      : records.response(id)?.body["text"]?.stringValue
  }

  /// A server's life: opened, used, opened again, used on. After each change memory says what was acknowledged.
  private func live(_ disk: SimulatedDisk, _ promises: inout Promises) throws {
    func put(_ id: String, _ text: String, _ records: ClientRecords, _ promises: inout Promises) {
      promises.change(id, to: text) { () throws(PlatformError) in try records.put(response(id, text)) }
    }
    for round in 0..<2 {
      guard let store = try? ResponseStore(settings(), files: disk) else { continue }
      let records = store.records(of: nobody)
      put("kept", "\(round)", records, &promises)
      put("gone", "\(round)", records, &promises)
      promises.change("c", to: "begun \(round)") { () throws(PlatformError) in
        try records.put(conversation("begun \(round)"))
      }
      promises.change("gone", to: nil) { () throws(PlatformError) in
        // One that is not there is no acknowledgement.
        guard try records.removeResponse("gone") else { throw .system(action: "find it", code: ENOENT) }
      }
      if records.conversation("c") != nil {
        promises.change("c", to: "changed \(round)") { () throws(PlatformError) in
          _ = try records.updateConversation("c") { $0.metadata = ["text": .string("changed \(round)")] }
        }
      }
      put("new\(round)", "new", records, &promises)
      for (id, allowed) in promises.allowed {
        let found = found(id, records)
        // A file that could not be read at the start is missing until the next one.
        let isOnDisk = disk.files.contains { $0.hasSuffix("/\(id).record") }
        #expect(allowed.contains(found) || (found == nil && isOnDisk), "\(id) is \(found ?? "gone")")
      }
    }
  }

  @Test(arguments: faults, [false, true])
  func `after a restart every acknowledged change is there`(fault: SimulatedDisk.Fault, isLasting: Bool)
    throws
  {
    for losesPower in [false, true] {
      var number = 0
      var failures = 0
      while true {
        let disk = SimulatedDisk()
        disk.follow(.init(fault, at: number, isLasting: isLasting))
        var promises = Promises()
        try live(disk, &promises)
        failures += promises.failures.count
        let isOver = disk.calls <= number
        #expect(disk.openDescriptors == 0, "call \(number) leaves a descriptor")
        disk.restart(losingPower: losesPower)
        disk.follow(nil)
        let records = try ResponseStore(settings(), files: disk).records(of: nobody)
        for (id, allowed) in promises.allowed {
          #expect(
            allowed.contains(found(id, records)),
            "\(fault) at call \(number): '\(id)' is \(found(id, records) ?? "gone"), not one of \(allowed)")
        }
        guard !isOver else { break }
        number += 1
      }
      #expect(number > 60)
      #expect((failures > 20) == (fault != .short))
    }
  }

  @Test func `a loss of power after any call costs nothing that was acknowledged`() throws {
    var number = 0
    while true {
      let disk = SimulatedDisk()
      // From here on nothing reaches the disk, and nobody is told that anything does.
      disk.follow(.init(.error(EIO), at: number, isLasting: true))
      var promises = Promises()
      try live(disk, &promises)
      let isOver = disk.calls <= number
      disk.restart(losingPower: true)
      disk.follow(nil)
      let store = try ResponseStore(settings(), files: disk)
      #expect(promises.allowed.allSatisfy { $0.value.contains(found($0.key, store.records(of: nobody))) })
      if isOver { break }
      number += 1
    }
  }

  @Test func `records that are too many go, whatever fails, and none is mixed up`() throws {
    for number in 0..<120 {
      let disk = SimulatedDisk()
      disk.follow(.init(.error(EIO), at: number))
      if let store = try? ResponseStore(settings(count: 3), files: disk) {
        for index in 0..<8 { try? store.records(of: nobody).put(response("r\(index)", "text \(index)")) }
      }
      disk.restart(losingPower: false)
      disk.follow(nil)
      let records = try ResponseStore(settings(count: 3), files: disk).records(of: nobody)
      let there = (0..<8).filter { records.response("r\($0)") != nil }
      #expect(there.count <= 3)
      #expect(there.allSatisfy { found("r\($0)", records) == "text \($0)" })
      #expect(disk.files.count { $0.hasSuffix(".record") } == there.count)
    }
  }

  @Test func `a folder that cannot be listed or entered ends the start`() throws {
    let disk = SimulatedDisk()
    try ResponseStore(settings(), files: disk).records(of: nobody).put(response("r", "text"))
    var refused = 0
    for number in 0..<40 {
      disk.follow(.init(.error(EACCES), at: number))
      guard let store = try? ResponseStore(settings(), files: disk) else {
        refused += 1
        continue
      }
      // Only the file itself may be missing: it is told, and stays.
      _ = store
      #expect(disk.files.contains("/state/responses/r.record"))
    }
    #expect(refused >= 6)
    disk.follow(nil)
    #expect(try ResponseStore(settings(), files: disk).records(of: nobody).response("r") != nil)
  }
}

struct StoringRoutesTests {
  /// An application whose disk can be made to fail.
  private func app(_ disk: SimulatedDisk, _ service: FakeService = FakeService("some")) throws -> App {
    var settings = ResponseStore.Settings()
    settings.folder = "/state"
    let store = try ResponseStore(settings, files: disk)
    let count = Monitor(0)
    return makeApp(service) { app in
      app.store = store
      app.makeID = {
        count.update {
          $0 += 1
          return "\($0)"
        }
      }
    }
  }

  private func fill(_ disk: SimulatedDisk, _ code: Int32 = ENOSPC) {
    disk.follow(.init(.error(code), at: 0, isLasting: true))
  }

  private func post(_ app: App, _ members: String) throws -> Answer {
    try app.send("POST", "/v1/responses", body: #"{"model":"m","input":"x"\#(members)}"#)
  }

  @Test func `an answer that cannot be stored says so, whole and streamed`() throws {
    let disk = SimulatedDisk()
    let app = try app(disk)
    fill(disk)
    let answer = try post(app, "")
    #expect(answer.status == 200)
    #expect(answer.json["store"] == false && answer.json["not_stored"] == "storage_full")
    #expect(answer.headers["x-mlxserve-not-stored"] == "storage_full")
    #expect(answer.json["output"]?[0]?["content"]?[0]?["text"] == "some")
    let id = answer.json["id"]?.stringValue ?? ""
    #expect(try app.send("GET", "/v1/responses/\(id)").status == 404)
    let streamed = try post(app, #","stream":true"#).text
    #expect(
      streamed.contains("\"response.completed\"") && streamed.contains("\"not_stored\":\"storage_full\""))
    disk.follow(nil)
    let stored = try post(app, "")
    #expect(stored.json["store"] == true && stored.headers["x-mlxserve-not-stored"] == nil)
  }

  @Test func `what only stores is refused with a code, and changes nothing`() throws {
    let disk = SimulatedDisk()
    let app = try app(disk)
    let id = try post(app, "").json["id"]?.stringValue ?? ""
    let conversation =
      try app.send("POST", "/v1/conversations", body: #"{"metadata":{"a":"b"}}"#).json["id"]?.stringValue
      ?? ""
    let path = "/v1/conversations/\(conversation)"
    let item = #"{"items":[{"type":"message","role":"user","content":"x"}]}"#
    for (code, refusal) in [(ENOSPC, "507 storage_full null"), (EIO, "503 storage_failed null")] {
      fill(disk, code)
      #expect(try app.send("POST", "/v1/conversations", body: "{}").refusal == refusal)
      #expect(try app.send("POST", path, body: #"{"metadata":{"a":"c"}}"#).refusal == refusal)
      #expect(try app.send("POST", path + "/items", body: item).refusal == refusal)
      #expect(try post(app, #","background":true"#).refusal == refusal)
      let removal = try app.send("DELETE", "/v1/responses/\(id)")
      #expect(removal.refusal == refusal && !removal.text.contains("/state"))
      #expect(try app.send("DELETE", path).refusal == refusal)
      // A full disk can be read, and what a broken one has stays.
      #expect(try app.send("GET", "/v1/responses/\(id)").status == (code == EIO ? 503 : 200))
      disk.follow(nil)
      #expect(try app.send("GET", "/v1/responses/\(id)").status == 200)
      #expect(try app.send("GET", path).json["metadata"]?["a"] == "b")
      #expect(try app.send("GET", path + "/items").json["data"] == [])
    }
    #expect(try app.send("DELETE", "/v1/responses/\(id)").json["deleted"] == true)
  }

  @Test func `health and metrics tell that storing fails, and that it works again`() throws {
    let disk = SimulatedDisk()
    let app = try app(disk)
    #expect(try app.send("GET", "/ready").json == ["status": "ok"])
    fill(disk)
    _ = try post(app, "")
    for path in ["/ready", "/readyz", "/health"] {
      #expect(try app.send("GET", path).json == ["status": "ok", "store": "failing"])
    }
    let failing = try app.send("GET", "/metrics").text
    #expect(failing.contains("\nmlxserve_store_failures_total 1\n"))
    #expect(failing.contains("\nmlxserve_store_failing 1\n"))
    disk.follow(nil)
    _ = try post(app, "")
    #expect(try app.send("GET", "/ready").json == ["status": "ok"])
    #expect(try app.send("GET", "/metrics").text.contains("\nmlxserve_store_failing 0\n"))
  }

  @Test func `a chat answer that cannot be stored says so, and no later one is lost`() throws {
    let disk = SimulatedDisk()
    let app = try app(disk)
    fill(disk)
    let answer = try app.chat(#""store":true"#)
    #expect(answer.status == 200 && answer.headers["x-mlxserve-not-stored"] == "storage_full")
    let id = answer.json["id"]?.stringValue ?? ""
    #expect(try app.send("GET", "/v1/chat/completions/\(id)").status == 404)
    #expect(try app.chat(#""store":true,"stream":true"#).text.hasSuffix("data: [DONE]\n\n"))
    #expect(try app.chat().headers["x-mlxserve-not-stored"] == nil)
    disk.follow(nil)
    let stored = try app.chat(#""store":true,"metadata":{"a":"b"}"#)
    #expect(stored.headers["x-mlxserve-not-stored"] == nil)
    let kept = try app.send("GET", "/v1/chat/completions").json
    #expect(kept["data"]?.arrayValue?.map { $0["id"] } == [stored.json["id"]])
    #expect(kept["data"]?[0]?["metadata"] == ["a": "b"])
    fill(disk)
    let one = "/v1/chat/completions/\(stored.json["id"]?.stringValue ?? "")"
    #expect(try app.send("POST", one, body: #"{"metadata":{}}"#).refusal == "507 storage_full null")
    #expect(try app.send("DELETE", one).refusal == "507 storage_full null")
    #expect(try app.send("GET", one).json["metadata"] == ["a": "b"])
  }

  @Test func `a background answer that cannot be stored is found while the server runs`() throws {
    let disk = SimulatedDisk()
    let app = try app(disk, FakeService("never ends", end: nil))
    let id = try post(app, #","background":true"#).json["id"]?.stringValue ?? ""
    fill(disk)
    #expect(try app.send("POST", "/v1/responses/\(id)/cancel").json["status"] == "cancelled")
    let body = try app.send("GET", "/v1/responses/\(id)").json
    #expect(body["status"] == "cancelled" && body["not_stored"] == "storage_full")
    disk.restart(losingPower: true)
    disk.follow(nil)
    #expect(try self.app(disk).send("GET", "/v1/responses/\(id)").json["status"] == "failed")
  }
}
