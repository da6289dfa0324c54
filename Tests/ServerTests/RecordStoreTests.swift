// The bounded store and its folder: what is kept, what goes, and what a crash leaves.

import HTTP
import JSON
import Platform
import Testing
import Wire

@testable import Server

/// A folder with its contents removed afterwards.
private final class Folder {
  let path: String

  init() throws {
    let base = getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"
    path = base + "/mlxserve-store-\(getpid())-\(UInt64.random(in: 0 ... .max))"
    try SystemFiles().makeFolder(path)
  }

  /// Without the list of what should be there.
  var names: [String] { ((try? File.names(in: path)) ?? []).filter { $0 != Inventory.name } }

  func write(_ name: String, _ bytes: [UInt8]) throws {
    try SystemFiles().writeDurably(bytes, folder: path, name: name)
  }

  deinit { Self.remove(path) }

  private static func remove(_ path: String) {
    for name in (try? File.names(in: path)) ?? [] {
      let inner = path + "/" + name
      if File.isDirectory(inner) { remove(inner) } else { unlink(inner) }
    }
    rmdir(path)
  }
}

struct RecordStoreTests {
  private func store(
    count: Int = 1_000, bytes: Int = 1 << 20, seconds: Int = 100, folder: Folder? = nil,
    now: @escaping @Sendable () -> Int = { 0 }
  ) throws -> RecordStore {
    try RecordStore(
      limits: .init(count: count, bytes: bytes, seconds: seconds), folder: folder?.path, now: now,
      describe: { bytes in .init(parts: bytes.isEmpty ? [] : ["part\(bytes[0])"]) })
  }

  @Test func `ten thousand records leave the newest thousand`() throws {
    let store = try store()
    for index in 0..<10_000 { try store.put("id\(index)", [UInt8(index % 256)]) }
    #expect(store.count == 1_000)
    #expect(store.totalBytes == 1_000)
    #expect(try store.get("id8999") == nil)
    #expect(try store.get("id9000") == [UInt8(9_000 % 256)])
    #expect(store.ids.first == "id9000")
    #expect(store.ids.last == "id9999")
  }

  @Test func `bytes are bounded, and a record beyond all bounds is refused`() throws {
    let store = try store(bytes: 10)
    try store.put("a", [1, 1, 1, 1])
    try store.put("b", [2, 2, 2, 2])
    try store.put("c", [3, 3, 3, 3])
    #expect(store.ids == ["b", "c"])
    #expect(store.totalBytes == 8)
    try store.put("b", [4])
    #expect(store.ids == ["c", "b"])
    #expect(store.totalBytes == 5)
    #expect(throws: PlatformError.tooLarge(path: "d", bytes: 11, limit: 10)) {
      try store.put("d", [UInt8](repeating: 5, count: 11))
    }
    #expect(store.ids == ["c", "b"])
  }

  @Test func `records that come and go, or change, leave nothing behind`() throws {
    let store = try store(count: 50)
    for index in 0..<10_000 { try store.put("id\(index)", [1]) }
    #expect(store.count == 50)
    #expect(store.positionCount <= 165)
    // The oldest stays where it is, and so the others' old positions do not reach the front.
    for _ in 0..<10_000 { try store.put("id9999", [2]) }
    #expect(store.count == 50)
    #expect(store.positionCount <= 165)
    #expect(store.ids.first == "id9950")
  }

  @Test func `old records are forgotten`() throws {
    let time = Monitor(0)
    let store = try store(seconds: 10, now: { time.withLock { $0 } })
    try store.put("a", [1])
    time.update { $0 = 9 }
    #expect(try store.get("a") == [1])
    try store.put("b", [2])
    time.update { $0 = 10 }
    #expect(try store.get("a") == nil)
    try store.put("c", [3])
    #expect(store.ids == ["b", "c"])
  }

  @Test func `records are found by their parts as long as they are there`() throws {
    let store = try store(count: 2)
    try store.put("a", [1])
    try store.put("b", [2])
    #expect(store.id(ofPart: "part1") == "a")
    try store.put("c", [3])
    #expect(store.id(ofPart: "part1") == nil)
    #expect(try store.remove("b"))
    #expect(try !store.remove("b"))
    #expect(store.id(ofPart: "part2") == nil)
    #expect(store.id(ofPart: "part3") == "c")
  }

  @Test func `changes are steps`() throws {
    let store = try store()
    #expect(try !store.update("a") { $0 })
    #expect(try store.update("a") { ($0 ?? []) + [1] })
    #expect(try store.update("a") { ($0 ?? []) + [2] })
    #expect(try store.get("a") == [1, 2])
  }

  @Test func `records outlive their store in a folder, in their order`() throws {
    let folder = try Folder()
    let first = try store(folder: folder)
    for index in 0..<20 { try first.put("id\(index)", [UInt8(index)]) }
    try first.put("id3", [99])
    _ = try first.remove("id4")
    let second = try store(count: 10, folder: folder)
    #expect(second.ids == (11..<20).map { "id\($0)" } + ["id3"])
    #expect(try second.get("id3") == [99])
    #expect(folder.names.count == 10)
    try second.put("new", [1])
    #expect(try store(folder: folder).ids.last == "new")
  }

  @Test func `a file cut off anywhere or with a flipped bit is skipped and kept, and no other is lost`()
    throws
  {
    let body = Array("{\"a\":1}".utf8)
    let whole = RecordFile.encode(body, id: "a", serial: 7, written: 5)
    #expect(RecordFile(whole) == RecordFile(id: "a", serial: 7, written: 5, bytes: body))
    for end in 0..<whole.count { #expect(RecordFile(Array(whole[..<end])) == nil, "\(end)") }
    for bit in 0..<8 * whole.count {
      var damaged = whole
      damaged[bit / 8] ^= 1 << (bit % 8)
      #expect(RecordFile(damaged) == nil, "\(bit)")
    }
    let folder = try Folder()
    try store(folder: folder).put("good", [1])
    for end in stride(from: 0, to: whole.count, by: 5) {
      try folder.write("bad\(end).record", Array(whole[..<end]))
    }
    try folder.write("torn.record.tmp", Array(whole[..<20]))
    try folder.write("other.txt", [1])
    let recovered = try store(folder: folder)
    #expect(recovered.ids == ["good"])
    #expect(folder.names.contains("bad0.record"))
    #expect(!folder.names.contains("torn.record.tmp"))
    #expect(folder.names.contains("other.txt"))
  }

  @Test func `a record under the name of another is not served, and stays`() throws {
    let folder = try Folder()
    try store(folder: folder).put("a", [1])
    let file = try File.read(folder.path + "/a.record", limit: 1 << 20)
    try folder.write("b.record", file)
    #expect(try store(folder: folder).ids == ["a"])
    #expect(folder.names == ["a.record", "b.record"])
    // The old format has no name: what the record says of itself counts.
    try folder.write("c.record", Self.old([9], serial: 1, written: 1))
    let named = try RecordStore(
      limits: .init(), folder: folder.path, now: { 0 }, describe: { _ in .init(id: "a", parts: []) })
    #expect(named.ids == ["a"])
  }

  /// A file as the first format had it.
  private static func old(_ bytes: [UInt8], serial: Int, written: Int) -> [UInt8] {
    let sum = String(FNV1a.hash(bytes), radix: 16)
    return Array("mlxserve-record-1 \(serial) \(written) \(bytes.count) \(sum)\n".utf8) + bytes
  }

  @Test func `records of the first format are read, in their order, and do not age`() throws {
    let folder = try Folder()
    for index in 0..<3 {
      try folder.write("id\(index).record", Self.old([UInt8(index)], serial: 10 - index, written: 7))
    }
    let store = try store(folder: folder, now: { 1_000 })
    #expect(store.ids == ["id2", "id1", "id0"])
    try store.put("new", [9])
    try store.put("newer", [9])
    #expect(try store.get("id1") == [1])
    #expect(try self.store(folder: folder).ids == ["id2", "id1", "id0", "new", "newer"])
  }

  @Test func `no number in a file makes a store trap`() throws {
    let numbers = [Int.min, -1, 0, RecordFile.largestNumber, Int.max - 1, Int.max]
    for serial in numbers {
      for written in numbers {
        let folder = try Folder()
        let body: [UInt8] = [1]
        try folder.write("old.record", Self.old(body, serial: serial, written: written))
        try folder.write("new.record", RecordFile.encode(body, id: "new", serial: serial, written: written))
        for now in [0, 1_800_000_000] {
          let store = try store(folder: folder, now: { now })
          try store.put("a", [2])
          try store.put("a", [3])
          #expect(try store.get("a") == [3])
          #expect(store.ids.last == "a")
        }
      }
    }
  }

  @Test func `a clock that is wrong at a start costs no record`() throws {
    let day = 24 * 3_600
    for wrong in [0, 70 * 366 * day] {
      let folder = try Folder()
      let right = 20_000 * day
      func open(_ now: Int) throws -> RecordStore {
        try store(seconds: 30 * day, folder: folder, now: { now })
      }
      for index in 0..<5 { try open(right + index * day).put("id\(index)", [UInt8(index)]) }
      let astray = try open(wrong)
      #expect(try astray.count == 5 && astray.get("id0") == [0])
      try astray.put("astray", [7])
      try astray.put("astray2", [8])
      #expect(try open(wrong).count == 7)
      let back = try open(right + 5 * day)
      #expect(back.count == 7)
      try back.put("back", [9])
      #expect(back.count == 8)
      for index in 0..<5 { #expect(try back.get("id\(index)") == [UInt8(index)], "\(wrong) \(index)") }
    }
  }

  @Test func `records too old go when the clock agrees with the newest`() throws {
    let folder = try Folder()
    func open(_ now: Int) throws -> RecordStore { try store(folder: folder, now: { now }) }
    for time in [10, 50, 90, 130] { try open(time).put("at\(time)", [1]) }
    // At 130 the first was removed; at 160 the second is too old.
    #expect(folder.names == ["at130.record", "at50.record", "at90.record"])
    #expect(try open(160).ids == ["at90", "at130"])
    #expect(folder.names == ["at130.record", "at90.record"])
    // Nothing is near 400: the clock, or a long rest.
    #expect(try open(400).ids == ["at90", "at130"])
  }

  @Test func `the bytes of records are on the disk, and memory keeps what they are found by`() throws {
    let folder = try Folder()
    let body = [UInt8](repeating: 7, count: 100_000)
    let first = try store(bytes: 64 << 20, folder: folder)
    for index in 0..<100 { try first.put("id\(index)", [UInt8(index)] + body) }
    for store in [first, try store(bytes: 64 << 20, folder: folder)] {
      #expect(store.totalBytes == 10_000_100)
      #expect(store.memoryBytes < 100_000)
      #expect(try store.get("id42") == [42] + body)
      #expect(try store.get("id42", reserve: { $0 < 200_000 }) == nil)
      #expect(store.id(ofPart: "part42") == "id42")
    }
    // What the folder did not take is in memory.
    first.hold("id42", body)
    #expect(first.memoryBytes > 100_000)
    #expect(try first.get("id42") == body)
    let alone = try store()
    try alone.put("a", body)
    #expect(alone.memoryBytes > 100_000)
  }

  @Test func `a record that is gone, older or damaged while it is served is told, and not served`() throws {
    let folder = try Folder()
    let store = try store(folder: folder)
    try store.put("a", [1])
    let older = try File.read(folder.path + "/a.record", limit: 1 << 20)
    try store.put("a", [2])
    let newer = try File.read(folder.path + "/a.record", limit: 1 << 20)
    let damaged = PlatformError.damaged(path: folder.path + "/a.record")
    for bytes in [older, Array(newer.dropLast()), []] {
      try folder.write("a.record", bytes)
      #expect(throws: damaged) { try store.get("a") }
      #expect(throws: damaged) { try store.update("a") { ($0 ?? []) + [3] } }
    }
    unlink(folder.path + "/a.record")
    #expect(throws: damaged) { try store.get("a") }
    #expect(APIError(storing: damaged).code == "file_damaged")
    try folder.write("a.record", newer)
    #expect(try store.get("a") == [2])
    #expect(try store.remove("a") && store.get("a") == nil)
  }

  @Test func `a start tells what is gone and what is older, once`() throws {
    let folder = try Folder()
    let first = try store(folder: folder)
    for id in ["a", "b", "c", "d"] { try first.put(id, [1]) }
    let older = try File.read(folder.path + "/b.record", limit: 1 << 20)
    try first.put("b", [2])
    #expect(try first.remove("d"))
    let list = try File.read(folder.path + "/" + Inventory.name, limit: 1 << 20)
    unlink(folder.path + "/a.record")
    try folder.write("b.record", older)
    func faults() throws -> [String: String] {
      Inventory.faults(
        try Inventory.read(folder: folder.path, files: SystemFiles()),
        try RecordStore.present(folder.path, files: SystemFiles()))
    }
    #expect(
      try faults() == [
        "a": "it is missing", "b": "it is an older one: version 1, and version 4 was stored",
      ])
    let second = try store(folder: folder)
    #expect(second.health.lost == 2 && second.ids == ["b", "c"])
    #expect(try faults() == [:] && store(folder: folder).health.lost == 0)
    for id in ["e", "f"] { try second.put(id, [1]) }
    try folder.write(Inventory.name, list)
    #expect(try faults()[Inventory.name] == "it is older than 2 of the records")
    // One that a crash has cut in its writing is no fault.
    try folder.write(Inventory.name, Array(list.dropLast(3)))
    #expect(try faults()["d"] == "it is missing")
    try folder.write(Inventory.name, list.map { $0 == UInt8(ascii: "c") ? UInt8(ascii: "x") : $0 })
    #expect(try faults()[Inventory.name]?.hasSuffix("of its lines are damaged") == true)
  }

  @Test func `the inventory stays short, and goes on after a write that failed`() throws {
    let folder = try Folder()
    let store = try store(count: 10, folder: folder)
    for index in 0..<3_000 { try store.put("id\(index)", [1]) }
    let list = try #require(try Inventory.read(folder: folder.path, files: SystemFiles()))
    #expect(list.records.count == 10 && list.damaged == 0)
    let bytes = try File.read(folder.path + "/" + Inventory.name, limit: 1 << 20)
    #expect(bytes.count { $0 == 0x0A } < 1_100)
    try folder.write(Inventory.name, bytes + Array("half a line".utf8))
    try store.put("last", [1])
    let after = try #require(try Inventory.read(folder: folder.path, files: SystemFiles()))
    #expect(after.damaged == 0 && after.records["last"] == 3_000)
  }

  @Test func `a folder that cannot be read is an error, not an empty store`() {
    #expect(throws: PlatformError.self) {
      try RecordStore(
        limits: .init(), folder: "/none/such", now: { 0 }, describe: { _ in .init(parts: []) })
    }
  }
}

struct ResponseStoreTests {
  private let nobody = ClientIdentity(number: 7)

  private func response(_ id: String, status: String = "completed") -> StoredResponse {
    var cuts = ResponseEventWriter.Cuts()
    cuts.bytes = [1, 2]
    cuts.logprobs = [0, 3]
    let message: JSONValue = ["id": .string("msg_" + id), "type": "message"]
    var body = JSONObject([("id", .string(id)), ("status", .string(status))])
    body["output"] = .array([message])
    return StoredResponse(
      body: body,
      context: [["id": "c"]], input: [["id": .string("in_" + id)]], cuts: [cuts], reasoning: .openresponses)
  }

  @Test func `a response survives its bytes`() throws {
    #expect(StoredResponse(response("r").bytes) == response("r"))
    #expect(StoredResponse([]) == nil)
    #expect(StoredResponse(Array("{}".utf8)) == nil)
    #expect(response("r").conversation.count == 3)
  }

  @Test func `responses that were under way when the server ended are failed`() throws {
    let folder = try Folder()
    var settings = ResponseStore.Settings()
    settings.folder = folder.path
    do {
      let store = try ResponseStore(settings)
      let records = store.records(of: nobody)
      try records.put(response("done"))
      try records.put(response("queued", status: "queued"))
      try store.records(of: ClientIdentity(number: 1, name: "a")).put(
        response("running", status: "in_progress"))
      #expect(throws: PlatformError.self) { try ResponseStore(settings) }
    }
    let records = try ResponseStore(settings).records(of: ClientIdentity(number: 1, name: "a"))
    #expect(records.response("done") == response("done"))
    for id in ["queued", "running"] {
      #expect(records.response(id)?.status == "failed")
      #expect(records.response(id)?.body["error"]?["code"] == "server_error")
    }
    #expect(records.response("running")?.owner != nil)
  }

  @Test func `a deleted response does not come back`() throws {
    let store = ResponseStore().records(of: nobody)
    try store.put(response("r"))
    #expect(store.item("in_r") == ["id": "in_r"])
    #expect(try store.removeResponse("r"))
    try store.replace(response("r"))
    #expect(store.response("r") == nil)
    #expect(store.item("in_r") == nil)
  }

  @Test func `conversations are changed in one step`() throws {
    let store = ResponseStore().records(of: nobody)
    #expect(try store.updateConversation("c") { $0.items = [] } == nil)
    try store.put(StoredConversation(id: "c", createdAt: 1, metadata: ["a": "b"], items: []))
    let changed = try store.updateConversation("c") { $0.items.append(["id": "x"]) }
    #expect(changed?.items == [["id": "x"]])
    #expect(store.conversation("c") == changed)
    #expect(store.item("x") == ["id": "x"])
    #expect(try store.removeConversation("c"))
  }

  @Test func `records belong to the key that stored them`() throws {
    let store = ResponseStore()
    let ours = store.records(of: ClientIdentity(number: 1, name: "us"))
    let alsoOurs = store.records(of: ClientIdentity(number: 1, name: "us"))
    let theirs = store.records(of: ClientIdentity(number: 2, name: "them"))
    let keyless = store.records(of: nobody)
    try ours.put(response("r"))
    try ours.put(StoredConversation(id: "c", createdAt: 1, metadata: [:], items: [["id": "x", "by": "us"]]))
    #expect(alsoOurs.response("r")?.id == "r")
    #expect(alsoOurs.conversationObject("c")?.json["id"] == "c")
    for other in [theirs, keyless] {
      #expect(other.response("r") == nil)
      #expect(other.item("in_r") == nil)
      #expect(try !other.removeResponse("r"))
      #expect(other.conversation("c") == nil)
      #expect(other.conversationObject("c") == nil)
      #expect(try other.updateConversation("c") { $0.items = [] } == nil)
      #expect(try !other.removeConversation("c"))
      #expect(other.item("x") == nil)
    }
    // An id that two clients have chosen means each one's own item.
    try theirs.put(
      StoredConversation(id: "d", createdAt: 1, metadata: [:], items: [["id": "x", "by": "them"]]))
    #expect(ours.item("x")?["by"] == "us")
    #expect(theirs.item("x")?["by"] == "them")
    #expect(try ours.removeResponse("r") && ours.removeConversation("c"))
    #expect(ours.item("x") == nil)
  }

  @Test func `what was stored without keys is everybody's, and stays so`() throws {
    let store = ResponseStore()
    let keyless = store.records(of: nobody)
    let keyed = store.records(of: ClientIdentity(number: 1, name: "a"))
    try keyless.put(response("r"))
    try keyless.put(StoredConversation(id: "c", createdAt: 1, metadata: [:], items: []))
    #expect(keyed.response("r") == response("r"))
    #expect(keyed.item("in_r") == ["id": "in_r"])
    #expect(try keyed.updateConversation("c") { $0.items.append(["id": "x"]) }?.owner == nil)
    #expect(keyless.item("x") == ["id": "x"])
    #expect(store.records(of: ClientIdentity(number: 9)).response("r") == response("r"))
  }
}

@Suite struct RecordShareTests {
  private func response(_ id: String, _ text: String) -> StoredResponse {
    StoredResponse(
      body: JSONObject([("id", .string(id)), ("status", "completed"), ("text", .string(text))]), context: [],
      input: [], reasoning: .openai)
  }

  private func client(_ number: UInt64) -> ClientIdentity {
    ClientIdentity(number: number, name: "\(number)")
  }

  private func store(count: Int = 10, bytes: Int = 64 << 20) throws -> ResponseStore {
    var settings = ResponseStore.Settings()
    settings.count = count
    settings.bytes = bytes
    return try ResponseStore(settings)
  }

  @Test func `one client's records push out its own, not those of others`() throws {
    let store = try store()
    let (quiet, loud) = (store.records(of: client(1)), store.records(of: client(2)))
    for number in 0..<4 { try quiet.put(response("q\(number)", "")) }
    for number in 0..<100 { try loud.put(response("l\(number)", "")) }
    #expect((0..<4).allSatisfy { quiet.response("q\($0)") != nil })
    #expect((0..<100).filter { loud.response("l\($0)") != nil } == Array(94..<100))
    // A third one gets its part from who has most.
    let third = store.records(of: client(3))
    for number in 0..<3 { try third.put(response("t\(number)", "")) }
    #expect((0..<3).allSatisfy { third.response("t\($0)") != nil })
    #expect((0..<4).allSatisfy { quiet.response("q\($0)") != nil })
    #expect((0..<100).count { loud.response("l\($0)") != nil } == 3)
  }

  @Test func `the same by bytes, and a record beyond its client's part is refused`() throws {
    let store = try store(count: 1000, bytes: 10_000)
    let (quiet, loud) = (store.records(of: client(1)), store.records(of: client(2)))
    for number in 0..<4 { try quiet.put(response("q\(number)", String(repeating: "a", count: 1000))) }
    for number in 0..<20 { try loud.put(response("l\(number)", String(repeating: "a", count: 1000))) }
    #expect((0..<4).allSatisfy { quiet.response("q\($0)") != nil })
    #expect(loud.response("l19") != nil && loud.response("l0") == nil)
    let error = #expect(throws: PlatformError.self) {
      try loud.put(response("large", String(repeating: "a", count: 8_000)))
    }
    #expect(error.map { APIError(storing: $0).code } == "storage_full")
    #expect((0..<4).allSatisfy { quiet.response("q\($0)") != nil } && loud.response("l19") != nil)
    // Alone in the store a client may use all of it.
    let alone = try self.store(count: 1000, bytes: 10_000).records(of: client(2))
    try alone.put(response("large", String(repeating: "a", count: 8_000)))
    #expect(alone.response("large") != nil)
  }
}
