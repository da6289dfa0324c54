// The bounded store and its folder: what is kept, what goes, and what a crash leaves.

import HTTP
import JSON
import OpenAI
import Platform
import Testing

@testable import Server

/// A folder with its contents removed afterwards.
private final class Folder {
  let path: String

  init() throws {
    let base = getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"
    path = base + "/mlxserve-store-\(getpid())-\(UInt64.random(in: 0 ... .max))"
    try File.makeFolder(path)
  }

  var names: [String] { (try? File.names(in: path)) ?? [] }

  func write(_ name: String, _ bytes: [UInt8]) throws {
    try File.writeDurably(bytes, folder: path, name: name)
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
  ) -> RecordStore {
    RecordStore(
      limits: .init(count: count, bytes: bytes, seconds: seconds), folder: folder?.path, now: now,
      partNames: { bytes in bytes.isEmpty ? [] : ["part\(bytes[0])"] })
  }

  @Test func `ten thousand records leave the newest thousand`() {
    let store = store()
    for index in 0..<10_000 { store.put("id\(index)", [UInt8(index % 256)]) }
    #expect(store.count == 1_000)
    #expect(store.totalBytes == 1_000)
    #expect(store.get("id8999") == nil)
    #expect(store.get("id9000") == [UInt8(9_000 % 256)])
    #expect(store.ids.first == "id9000")
    #expect(store.ids.last == "id9999")
  }

  @Test func `bytes are bounded, and a record beyond all bounds is not kept`() {
    let store = store(bytes: 10)
    store.put("a", [1, 1, 1, 1])
    store.put("b", [2, 2, 2, 2])
    store.put("c", [3, 3, 3, 3])
    #expect(store.ids == ["b", "c"])
    #expect(store.totalBytes == 8)
    store.put("b", [4])
    #expect(store.ids == ["c", "b"])
    #expect(store.totalBytes == 5)
    store.put("d", [UInt8](repeating: 5, count: 11))
    #expect(store.count == 0)
    #expect(store.totalBytes == 0)
  }

  @Test func `records that come and go, or change, leave nothing behind`() {
    let store = store(count: 50)
    for index in 0..<10_000 { store.put("id\(index)", [1]) }
    #expect(store.count == 50)
    #expect(store.positionCount <= 165)
    // The oldest stays where it is, and so the others' old positions do not reach the front.
    for _ in 0..<10_000 { store.put("id9999", [2]) }
    #expect(store.count == 50)
    #expect(store.positionCount <= 165)
    #expect(store.ids.first == "id9950")
  }

  @Test func `old records are forgotten`() {
    let time = Monitor(0)
    let store = store(seconds: 10, now: { time.withLock { $0 } })
    store.put("a", [1])
    time.update { $0 = 9 }
    #expect(store.get("a") == [1])
    store.put("b", [2])
    time.update { $0 = 10 }
    #expect(store.get("a") == nil)
    store.put("c", [3])
    #expect(store.ids == ["b", "c"])
  }

  @Test func `records are found by their parts as long as they are there`() {
    let store = store(count: 2)
    store.put("a", [1])
    store.put("b", [2])
    #expect(store.id(ofPart: "part1") == "a")
    store.put("c", [3])
    #expect(store.id(ofPart: "part1") == nil)
    #expect(store.remove("b"))
    #expect(!store.remove("b"))
    #expect(store.id(ofPart: "part2") == nil)
    #expect(store.id(ofPart: "part3") == "c")
  }

  @Test func `changes are steps`() {
    let store = store()
    #expect(!store.update("a") { $0 })
    #expect(store.update("a") { ($0 ?? []) + [1] })
    #expect(store.update("a") { ($0 ?? []) + [2] })
    #expect(store.get("a") == [1, 2])
  }

  @Test func `records outlive their store in a folder, in their order`() throws {
    let folder = try Folder()
    let first = store(folder: folder)
    for index in 0..<20 { first.put("id\(index)", [UInt8(index)]) }
    first.put("id3", [99])
    _ = first.remove("id4")
    let second = store(count: 10, folder: folder)
    #expect(second.ids == (11..<20).map { "id\($0)" } + ["id3"])
    #expect(second.get("id3") == [99])
    #expect(folder.names.count == 10)
    second.put("new", [1])
    #expect(store(folder: folder).ids.last == "new")
  }

  @Test func `a file cut off anywhere is skipped, and no other is lost`() throws {
    let whole = RecordFile.encode(Array("{\"a\":1}".utf8), serial: 7, written: 5)
    #expect(RecordFile(whole) == RecordFile(bytes: Array("{\"a\":1}".utf8), serial: 7, written: 5))
    for end in 0..<whole.count { #expect(RecordFile(Array(whole[..<end])) == nil, "\(end)") }
    for index in whole.indices {
      var damaged = whole
      damaged[index] ^= 0x20
      if let record = RecordFile(damaged) { #expect(record.bytes == Array("{\"a\":1}".utf8), "\(index)") }
    }
    let folder = try Folder()
    store(folder: folder).put("good", [1])
    for end in stride(from: 0, to: whole.count, by: 5) {
      try folder.write("bad\(end).record", Array(whole[..<end]))
    }
    try folder.write("torn.record.tmp", Array(whole[..<20]))
    try folder.write("other.txt", [1])
    let recovered = store(folder: folder)
    #expect(recovered.ids == ["good"])
    #expect(folder.names.contains("bad0.record"))
    #expect(!folder.names.contains("torn.record.tmp"))
    #expect(folder.names.contains("other.txt"))
  }

  @Test func `records too old for the folder are removed from it`() throws {
    let folder = try Folder()
    store(folder: folder).put("a", [1])
    #expect(store(folder: folder, now: { 100 }).count == 0)
    #expect(folder.names == [])
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

  @Test func `a response survives its bytes`() {
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
      records.put(response("done"))
      records.put(response("queued", status: "queued"))
      store.records(of: ClientIdentity(number: 1, name: "a")).put(response("running", status: "in_progress"))
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

  @Test func `a deleted response does not come back`() {
    let store = ResponseStore().records(of: nobody)
    store.put(response("r"))
    #expect(store.item("in_r") == ["id": "in_r"])
    #expect(store.removeResponse("r"))
    store.replace(response("r"))
    #expect(store.response("r") == nil)
    #expect(store.item("in_r") == nil)
  }

  @Test func `conversations are changed in one step`() {
    let store = ResponseStore().records(of: nobody)
    #expect(store.updateConversation("c") { $0.items = [] } == nil)
    store.put(StoredConversation(id: "c", createdAt: 1, metadata: ["a": "b"], items: []))
    let changed = store.updateConversation("c") { $0.items.append(["id": "x"]) }
    #expect(changed?.items == [["id": "x"]])
    #expect(store.conversation("c") == changed)
    #expect(store.item("x") == ["id": "x"])
    #expect(store.removeConversation("c"))
  }

  @Test func `records belong to the key that stored them`() {
    let store = ResponseStore()
    let ours = store.records(of: ClientIdentity(number: 1, name: "us"))
    let alsoOurs = store.records(of: ClientIdentity(number: 1, name: "us"))
    let theirs = store.records(of: ClientIdentity(number: 2, name: "them"))
    let keyless = store.records(of: nobody)
    ours.put(response("r"))
    ours.put(StoredConversation(id: "c", createdAt: 1, metadata: [:], items: [["id": "x", "by": "us"]]))
    #expect(alsoOurs.response("r")?.id == "r")
    #expect(alsoOurs.conversationObject("c")?.json["id"] == "c")
    for other in [theirs, keyless] {
      #expect(other.response("r") == nil)
      #expect(other.item("in_r") == nil)
      #expect(!other.removeResponse("r"))
      #expect(other.conversation("c") == nil)
      #expect(other.conversationObject("c") == nil)
      #expect(other.updateConversation("c") { $0.items = [] } == nil)
      #expect(!other.removeConversation("c"))
      #expect(other.item("x") == nil)
    }
    // An id that two clients have chosen means each one's own item.
    theirs.put(StoredConversation(id: "d", createdAt: 1, metadata: [:], items: [["id": "x", "by": "them"]]))
    #expect(ours.item("x")?["by"] == "us")
    #expect(theirs.item("x")?["by"] == "them")
    #expect(ours.removeResponse("r") && ours.removeConversation("c"))
    #expect(ours.item("x") == nil)
  }

  @Test func `what was stored without keys is everybody's, and stays so`() {
    let store = ResponseStore()
    let keyless = store.records(of: nobody)
    let keyed = store.records(of: ClientIdentity(number: 1, name: "a"))
    keyless.put(response("r"))
    keyless.put(StoredConversation(id: "c", createdAt: 1, metadata: [:], items: []))
    #expect(keyed.response("r") == response("r"))
    #expect(keyed.item("in_r") == ["id": "in_r"])
    #expect(keyed.updateConversation("c") { $0.items.append(["id": "x"]) }?.owner == nil)
    #expect(keyless.item("x") == ["id": "x"])
    #expect(store.records(of: ClientIdentity(number: 9)).response("r") == response("r"))
  }
}
