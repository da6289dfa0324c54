// Every kind of damage to every kind of file that a server keeps: `verify` sees it, the server starts, and what can be made again
// is found as before; of what cannot, the entry says so.

import HTTP
import JSON
import Platform
import Support
import Testing
import Vectors
import Wire

@testable import Server

/// What happens to a file.
private enum Harm: String, CaseIterable {
  case flipFirst, flipMiddle, flipLast, cutHalf, cutLast, emptied, garbage, missing, copiedOver, swapped,
    older

  /// - Parameters:
  ///   - sibling: another file of its kind.
  ///   - early: the files as they were some time before.
  func apply(to path: String, sibling: String, early: [String: [UInt8]], on disk: SimulatedDisk) {
    guard let bytes = disk.content(path), !bytes.isEmpty, let other = disk.content(sibling) else { return }
    func flipped(_ place: Int) -> [UInt8] {
      var changed = bytes
      changed[place] ^= 1
      return changed
    }
    switch self {
    case .flipFirst: disk.put(path, flipped(0))
    case .flipMiddle: disk.put(path, flipped(bytes.count / 2))
    case .flipLast: disk.put(path, flipped(bytes.count - 1))
    case .cutHalf: disk.put(path, Array(bytes.prefix(bytes.count / 2)))
    case .cutLast: disk.put(path, Array(bytes.dropLast()))
    case .emptied: disk.put(path, [])
    case .garbage: disk.put(path, bytes.indices.map { UInt8(truncatingIfNeeded: 37 &* $0 &+ 11) })
    case .missing: _ = disk.unlink(path)
    case .older: if let early = early[path] { disk.put(path, early) }
    case .copiedOver: disk.put(path, other)
    case .swapped:
      disk.put(path, other)
      disk.put(sibling, bytes)
    }
  }
}

/// A kind of file, by two of them.
private struct Kind {
  let name: String
  let path: String
  let sibling: String
  /// What is no damage, or nobody can know, and why.
  var unseen: [Harm: String] = [:]
  /// Whether only its owner can make it again.
  var stays = false
}

@Suite struct DamageTests {
  private static let texts = [
    "f1": "alps and snow", "f2": "sea and salt", "f3": "desert and sand", "f4": "forest and moss",
    "f5": "river and reed", "f6": "city and stone",
  ]
  private static let client = ClientIdentity()

  /// All files of a state directory that has been used, before its last changes and after them.
  private static func images() throws -> (early: [String: [UInt8]], [String: [UInt8]]) {
    let disk = SimulatedDisk()
    _ = disk.mkdir("/state")
    let archive = try openArchive(disk, folder: "/state/library")
    for (id, text) in texts.sorted(by: { $0.key < $1.key }) {
      try archive.add(
        FileRecord(id: id, owner: nil, bytes: 0, created: 1, name: id + ".txt", purpose: "assistants"),
        Array(text.utf8))
    }
    let (app, fleet) = try startArchive(archive)
    for store in ["s", "t"] { try archive.add(StoreRecord(id: store, owner: nil, created: 1)) }
    for (number, pair) in [["f1", "f2"], ["f3", "f4"], ["f5", "f6"]].enumerated() {
      for store in ["s", "t"] {
        let batch = "b\(number)"
        let entries = pair.map { file in
          var entry = EntryRecord(file: file, store: store, created: 1)
          (entry.batch, entry.attributes) = (batch, JSONObject([("of", .string(file))]))
          return entry
        }
        _ = try app.send("GET", "/v1/vector_stores/\(store)")
        try archive.add(entries, batch: BatchRecord(id: batch, store: store, created: 1, files: pair))
      }
      // Whatever starts the thread that indexes.
      _ = try app.send("POST", "/v1/vector_stores/s/search", body: #"{"query":"alps"}"#)
      archive.settle()
      guard number < 2 else { continue }
      for store in ["s", "t"] { try archive.openIndex(store)?.compact() }
    }
    for number in 1...2 {
      var block = SideBlock()
      for word in ["one", "two"] {
        block.append(RowKey(of: Array("\(word) \(number)".utf8)), Array(word.utf8))
      }
      try archive.openIndex("s")?.addSide(block, maker: RowKey(high: UInt64(number), low: 1))
    }
    app.finish(seconds: 0)
    fleet.stop()
    try addBatches(archive)
    try addRecords(disk)
    disk.put("/state/library/attempts/old", [0x31])
    func image() -> [String: [UInt8]] {
      Dictionary(uniqueKeysWithValues: disk.files.map { ($0, disk.content($0) ?? []) })
    }
    let early = image()
    disk.restart(losingPower: false)
    let again = try openArchive(disk, folder: "/state/library")
    try again.change("s") { $0.name = "renamed" }
    try again.changeEntry("f1", store: "s") { $0.attributes["more"] = "x" }
    let batches = BatchStore(again)
    _ = try batches.cancel(batches.batch("batch_3", .openAI, client))
    again.stop()
    var settings = ResponseStore.Settings()
    (settings.folder, settings.now) = ("/state", { 1_800_000_001 })
    let records = try ResponseStore(settings, files: disk).records(of: client)
    try records.put(response("1", "changed"))
    _ = try records.updateConversation("conv_1") { $0.metadata = ["a": "b"] }
    _ = try records.updateCompletion("chat_1") { $0.head.metadata = ["a": "b"] }
    return (early, image())
  }

  private static func response(_ id: String, _ text: String) -> StoredResponse {
    StoredResponse(
      body: JSONObject([
        ("id", .string("resp_" + id)), ("status", "completed"), ("output", .array([])), ("t", .string(text)),
      ]), context: [], input: [], reasoning: .openai)
  }

  /// Two batches of requests that run, with answers, and two that have ended and keep their answers.
  private static func addBatches(_ archive: Archive) throws {
    let store = BatchStore(archive)
    for (id, api) in [
      ("msgbatch_1", RequestBatch.API.messages), ("msgbatch_2", .messages), ("batch_1", .openAI),
      ("batch_2", .openAI), ("batch_3", .openAI),
    ] {
      let batch = RequestBatch(
        id: id, api: api, client: client, created: 1_800_000_000, endpoint: "/v1/embeddings")
      let lines = api == .messages ? 1 : 4
      try store.add(batch, nil) { write throws(APIError) in
        for number in 0..<lines {
          try write(
            BatchLine(
              customID: "\(id)-\(number)",
              body: JSONObject([("model", "e"), ("input", .string("snow \(number)"))])))
        }
      }
      for number in 0..<min(2, lines) {
        guard case .answer(let work) = store.next() else { continue }
        let body = Array(#"{"data":"answer \#(number)"}"#.utf8)
        try store.put(
          .answered(status: 200, body: body, requestID: "r"), usage: nil, of: work,
          customID: "\(work.batch.id)-\(work.index)")
      }
      guard api == .messages, case .finish(let done) = store.next() else { continue }
      try store.finish(done, nil)
    }
  }

  private static func addRecords(_ disk: SimulatedDisk) throws {
    var settings = ResponseStore.Settings()
    settings.folder = "/state"
    settings.now = { 1_800_000_000 }
    let records = try ResponseStore(settings, files: disk).records(of: client)
    for id in ["1", "2"] {
      try records.put(response(id, "as it was"))
      try records.put(StoredConversation(id: "conv_" + id, createdAt: 1, metadata: [:], items: []))
      try records.put(
        StoredCompletion(
          head: .init(id: "chat_" + id, created: 1, model: "m", metadata: [:]),
          body: JSONObject([("id", .string("chat_" + id))]), messages: []))
    }
  }

  private static func kinds(_ image: [String: [UInt8]]) -> [Kind] {
    let (archive, store) = ("/state/library/", "/state/library/stores/s/")
    func first(_ part: String, _ ending: String) -> [String] {
      image.keys.filter { $0.hasPrefix(archive + part) && $0.hasSuffix(ending) }.sorted()
    }
    let (index, other) = ("stores/s/index-", "stores/t/index-")
    let nobodyKnows = "nobody knows that it was there"
    let answers = "what is cut off, or not there yet, is what a kill leaves: it is answered again"
    return [
      Kind(name: "record of a file", path: archive + "files/f1.json", sibling: archive + "files/f2.json"),
      Kind(
        name: "its copy", path: archive + "files/f1.copy", sibling: archive + "files/f2.copy"),
      Kind(name: "file", path: archive + "files/f1.data", sibling: archive + "files/f2.data", stays: true),
      Kind(name: "record of a store", path: store + "store.json", sibling: archive + "stores/t/store.json"),
      Kind(
        name: "its copy", path: store + "store.copy", sibling: archive + "stores/t/store.copy"),
      Kind(name: "entry", path: store + "entries/f1.json", sibling: store + "entries/f3.json"),
      Kind(
        name: "entry of another store", path: store + "entries/f5.json",
        sibling: archive + "stores/t/entries/f5.json"),
      Kind(name: "batch of files", path: store + "batches/b0.json", sibling: store + "batches/b1.json"),
      Kind(name: "manifest", path: first(index, "index.json")[0], sibling: first(other, "index.json")[0]),
      Kind(name: "segment", path: first(index, ".segment")[0], sibling: first(index, ".segment")[1]),
      Kind(
        name: "segment of another", path: first(index, ".segment")[1], sibling: first(other, ".segment")[0]),
      Kind(name: "log", path: first(index, ".log")[0], sibling: first(other, ".log")[0]),
      Kind(
        name: "file beside an index", path: first(index, ".side")[0], sibling: first(index, ".side")[1],
        unseen: [
          .missing: nobodyKnows, .copiedOver: "what it says is true wherever it stands",
          .swapped: "what it says is true wherever it stands",
        ]),
      Kind(
        name: "batch of requests", path: archive + "batches/batch_1.json",
        sibling: archive + "batches/batch_2.json"),
      Kind(
        name: "batch that has ended", path: archive + "batches/msgbatch_1.json",
        sibling: archive + "batches/msgbatch_2.json"),
      Kind(
        name: "requests", path: archive + "batches/batch_1.requests",
        sibling: archive + "batches/batch_2.requests",
        unseen: [.cutLast: "the end of a line is not needed"]),
      Kind(
        name: "answers of a batch that has ended", path: archive + "batches/msgbatch_1.output",
        sibling: archive + "batches/msgbatch_2.output", stays: true),
      Kind(
        name: "answers of a batch that runs", path: archive + "batches/batch_1.output",
        sibling: archive + "batches/batch_2.output",
        unseen: [
          .cutHalf: answers, .cutLast: answers, .emptied: answers, .missing: answers, .flipLast: answers,
        ]),
      Kind(
        name: "batch that is cancelled", path: archive + "batches/batch_3.json",
        sibling: archive + "batches/batch_2.json"),
      Kind(
        name: "inventory", path: archive + "inventory", sibling: "/state/responses/inventory",
        unseen: [
          .cutLast: "a kill leaves a line half", .flipLast: "likewise",
        ]),
      Kind(
        name: "inventory of responses", path: "/state/responses/inventory",
        sibling: "/state/conversations/inventory",
        unseen: [
          .missing: "an earlier version made none", .cutLast: "a kill leaves a line half",
          .flipLast: "likewise", .older: "one record that is newer is what a kill leaves",
        ]),
      Kind(
        name: "response", path: "/state/responses/resp_1.record", sibling: "/state/responses/resp_2.record",
        stays: true),
      Kind(
        name: "conversation", path: "/state/conversations/conv_1.record",
        sibling: "/state/conversations/conv_2.record", stays: true),
      Kind(
        name: "chat completion", path: "/state/completions/chat_1.record",
        sibling: "/state/conversations/conv_2.record", stays: true),
      Kind(
        name: "number of attempts", path: archive + "attempts/old", sibling: archive + "files/f1.data",
        unseen: [
          .missing: "what is over has none", .emptied: "its writing was under way", .cutHalf: "likewise",
          .cutLast: "likewise",
        ], stays: true),
    ]
  }

  private static func disk(_ image: [String: [UInt8]]) -> SimulatedDisk {
    let disk = SimulatedDisk()
    for path in image.keys.sorted() {
      let parts = path.split(separator: "/").dropLast()
      for count in parts.indices { _ = disk.mkdir("/" + parts[...count].joined(separator: "/")) }
    }
    for (path, bytes) in image { disk.put(path, bytes) }
    return disk
  }

  private static func faults(_ disk: SimulatedDisk) throws -> [String] {
    let archive = try Archive.check(folder: "/state/library", files: disk)
    let records = try ResponseStore.check(folder: "/state", files: disk)
    return (archive.faults + records.faults).map { "\($0.path): \($0.problem)" }
  }

  /// What is found by each word, and what files, stores and batches say.
  private struct Found: Equatable {
    var searches: [String: Set<String>] = [:]
    var failed: [String: String] = [:]
    var names: [String: String] = [:]
  }

  private static func use(_ disk: SimulatedDisk) throws -> Found {
    disk.restart(losingPower: false)
    var settings = ResponseStore.Settings()
    (settings.folder, settings.now) = ("/state", { 1_800_000_001 })
    _ = try ResponseStore(settings, files: disk)
    let archive = try openArchive(disk, folder: "/state/library")
    let (app, fleet) = try startArchive(archive)
    defer {
      app.finish(seconds: 0)
      fleet.stop()
    }
    archive.settle()
    var found = Found()
    for store in ["s", "t"] {
      for word in ["alps", "salt", "stone"] {
        let answer = try app.send(
          "POST", "/v1/vector_stores/\(store)/search", body: #"{"query":"\#(word)","max_num_results":20}"#)
        let data = answer.json["data"]?.arrayValue ?? []
        found.searches["\(store) \(word)"] = Set(data.compactMap { $0["file_id"]?.stringValue })
        for passage in data {
          found.names[passage["file_id"]?.stringValue ?? ""] = passage["filename"]?.stringValue
          #expect(passage["attributes"]?["of"] == passage["file_id"], "\(passage.text)")
        }
      }
      for entry in try app.send("GET", "/v1/vector_stores/\(store)/files").json["data"]?.arrayValue ?? []
      where entry["status"]?.stringValue == "failed" {
        found.failed["\(store) \(entry["id"]?.stringValue ?? "")"] =
          entry["last_error"]?["message"]?.stringValue
      }
    }
    for id in ["batch_1", "batch_2"] {
      var batch: JSONValue = .null
      for _ in 0..<5_000 {
        batch = try app.send("GET", "/v1/batches/" + id).json
        guard batch["status"] == "in_progress" || batch["status"] == "finalizing" else { break }
        usleep(500)
      }
      #expect(batch["status"] == "completed", "\(id): \(batch.text)")
      let counts = batch["request_counts"]
      #expect(
        (counts?["completed"]?.intValue ?? 0) + (counts?["failed"]?.intValue ?? 0) == 4,
        "\(id): \(batch.text)")
    }
    for id in ["msgbatch_1", "msgbatch_2"] {
      let results = try app.send("GET", "/v1/messages/batches/\(id)/results")
      #expect(results.status == 500 || results.text.contains(#""custom_id":"\#(id)-0""#), "\(results.text)")
    }
    return found
  }

  @Test func `each kind of damage is seen, the server starts, and what was found is found again`() throws {
    let (early, image) = try Self.images()
    let whole = Self.disk(image)
    #expect(try Self.faults(whole) == [])
    let before = try Self.use(whole)
    #expect(before.searches.count == 6 && before.failed.isEmpty)
    #expect(before.searches.values.allSatisfy { $0.count == 6 }, "\(before.searches)")
    var kinds = 0
    for kind in Self.kinds(image) {
      for harm in Harm.allCases {
        let what = "\(kind.name), \(harm.rawValue)"
        let disk = Self.disk(image)
        harm.apply(to: kind.path, sibling: kind.sibling, early: early, on: disk)
        let damaged = disk.content(kind.path)
        guard damaged != image[kind.path] else { continue }
        let faults = try Self.faults(disk)
        if kind.unseen[harm] == nil {
          kinds += 1
          #expect(!faults.isEmpty, "\(what): not seen")
        } else {
          #expect(faults.isEmpty, "\(what): \(faults)")
        }
        let found = try Self.use(disk)
        for (search, files) in before.searches {
          let store = search.prefix(1)
          let missing = files.subtracting(found.searches[search] ?? [])
          for file in missing {
            #expect(
              found.failed["\(store) \(file)"]?.contains("damaged") == true,
              "\(what): \(search) does not find \(file), \(found.failed)")
          }
          #expect(found.searches[search]?.subtracting(files) == [], "\(what): \(search)")
        }
        #expect(found.names.allSatisfy { $0.value == $0.key + ".txt" }, "\(what): \(found.names)")
        #expect(found.failed.count <= 2, "\(what): \(found.failed)")
        guard !kind.stays else { continue }
        // Once made again it is whole, and found as before once more.
        disk.restart(losingPower: false)
        #expect(try Self.faults(disk) == [], "\(what), after healing")
        #expect(try Self.use(disk).searches == found.searches, "\(what), after healing")
      }
    }
    #expect(kinds >= 220, "\(kinds)")
  }
}
