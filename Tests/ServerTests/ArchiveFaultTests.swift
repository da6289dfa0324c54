// Files and vector stores on a disk that fails, and with records that say anything.

import HTTP
import JSON
import Platform
import Support
import Testing
import Vectors
import Wire

@testable import Server

struct ArchiveFaultTests {
  private static let faults = [ENOSPC, EIO, EMFILE, EACCES].map { SimulatedDisk.Fault.error($0) } + [.short]
  private let nobody = ClientIdentity()

  private func open(_ disk: SimulatedDisk) throws -> Archive {
    var settings = Archive.Settings()
    settings.folder = "/library"
    return try Archive(settings, files: disk, now: { 1_800_000_000 })
  }

  private func file(_ id: String, _ text: String) -> FileRecord {
    FileRecord(
      id: id, owner: nil, bytes: text.utf8.count, created: 1, name: text + ".txt", purpose: "assistants")
  }

  private func store(_ id: String, _ name: String) -> StoreRecord {
    var store = StoreRecord(id: id, owner: nil, created: 1)
    store.name = name
    return store
  }

  /// What is found under the name of a promise: a file's text, a store's name, the batch of a file in a store.
  private func found(_ key: String, _ archive: Archive) -> String? {
    let parts = key.split(separator: " ").map(String.init)
    switch parts[0] {
    case "file":
      guard let file = try? archive.file(parts[1], nobody) else { return nil }
      return (try? archive.content(of: file)).map { String(decoding: $0, as: UTF8.self) } ?? "no content"
    case "store": return (try? archive.store(parts[1], nobody))?.record.name
    default: return (try? archive.store(parts[1], nobody))?.entries[parts[2]]?.status.rawValue
    }
  }

  private struct NotThere: Error {}

  /// A server's life, twice: files and stores come, change and go.
  private func live(_ disk: SimulatedDisk, _ promises: inout Promises) {
    for round in 0..<2 {
      guard let archive = try? open(disk) else { continue }
      // Ids are never used twice.
      let (kept, gone) = ("kept\(round)", "gone\(round)")
      for id in [kept, gone] {
        promises.change("file \(id)", to: "text \(round)") {
          try archive.add(file(id, "text \(round)"), Array("text \(round)".utf8))
        }
      }
      for id in ["s", "t"] {
        promises.change("store \(id)", to: "\(id) \(round)") { try archive.add(store(id, "\(id) \(round)")) }
      }
      promises.change("store s", to: "changed \(round)") {
        try archive.change("s") { $0.name = "changed \(round)" }
      }
      let batch = BatchRecord(id: "b\(round)", store: "s", created: 1, files: [kept, gone])
      for id in [kept, gone] {
        promises.change("entry s \(id)", to: "in_progress") {
          guard (try? archive.store("s", nobody)) != nil else { throw NotThere() }
          var entry = EntryRecord(file: id, store: "s", created: 1)
          entry.batch = "b\(round)"
          entry.strategy.size = 100 + round
          try archive.add([entry], batch: batch)
        }
      }
      promises.change("entry s \(kept)", to: "cancelled") {
        guard (try? archive.store("s", nobody))?.entries[kept] != nil else { throw NotThere() }
        try archive.cancel(batch)
      }
      promises.change("entry s \(gone)", to: nil) {
        guard try archive.removeEntry(gone, store: "s") else { throw NotThere() }
      }
      promises.change("file \(gone)", to: nil) { try archive.remove(archive.file(gone, nobody)) }
      promises.change("store t", to: nil) {
        _ = try archive.store("t", nobody)
        try archive.removeStore("t")
      }
      archive.stop()
    }
  }

  @Test(arguments: faults, [false, true])
  func `after a restart every acknowledged change is there`(fault: SimulatedDisk.Fault, isLasting: Bool)
    throws
  {
    for losesPower in [false, true] {
      var (number, failures) = (0, 0)
      while true {
        let disk = SimulatedDisk()
        disk.follow(.init(fault, at: number, isLasting: isLasting))
        var promises = Promises()
        live(disk, &promises)
        failures += promises.failures
        let isOver = disk.calls <= number
        #expect(disk.openDescriptors == 0, "call \(number) leaves a descriptor")
        disk.restart(losingPower: losesPower)
        disk.follow(nil)
        let archive = try open(disk)
        for (key, allowed) in promises.allowed {
          // Cancelling a batch changes several entries, of which each is told.
          let found = found(key, archive)
          #expect(
            allowed.contains(found) || (key.hasPrefix("entry s gone") && found == "cancelled"),
            "\(fault) at call \(number): \(key) is \(found ?? "gone"), not of \(allowed)")
        }
        guard !isOver else { break }
        number += 1
      }
      #expect(number > 100)
      #expect((failures > 20) == (fault != .short))
    }
  }

  @Test func `a disk that fails is told until it works again`() throws {
    let disk = SimulatedDisk()
    let archive = try open(disk)
    disk.follow(.init(.error(ENOSPC), at: 0, isLasting: true))
    do throws(APIError) {
      try archive.add(store("s", "s"))
      Issue.record("stored on a full disk")
    } catch {
      #expect(error.status == 507 && error.code == "storage_full")
    }
    #expect(archive.health == StoreHealth(failures: 1, isFailing: true))
    disk.follow(nil)
    try archive.add(store("s", "s"))
    #expect(archive.health == StoreHealth(failures: 1, isFailing: false))
  }

  @Test func `threads that change one record at once are all acknowledged, and the last is stored`() throws {
    let folder = "/tmp/mlxserve-archive-test-\(getpid())"
    var settings = Archive.Settings()
    settings.folder = folder
    let archive = try Archive(settings, now: { 1_800_000_000 })
    defer { archive.removeTree(folder, depth: 0) }
    try archive.add(store("s", "s"))
    try archive.add(file("f", "text"), Array("text".utf8))
    try archive.add([EntryRecord(file: "f", store: "s", created: 1)], batch: nil)
    let failures = Monitor(0)
    let threads = try (0..<4).map { thread in
      try Thread(name: "put-\(thread)") {
        for number in 0..<50 {
          do throws(APIError) {
            try archive.changeEntry("f", store: "s") { $0.bytes = 1 + 50 * thread + number }
          } catch {
            failures.withLock { $0 += 1 }
          }
        }
      }
    }
    for thread in threads { thread.join() }
    #expect(failures.withLock { $0 } == 0)
    let bytes = try SystemFiles().read(folder + "/stores/s/entries/f.json", limit: 1 << 20)
    let stored = try JSONValue(parsing: bytes)
    #expect(EntryRecord(stored)?.bytes == (try archive.store("s", nobody)).entries["f"]?.bytes)
  }

  @Test func `what indexes and records take in memory is counted, and indexes beyond their room go to files`()
    throws
  {
    var settings = Archive.Settings()
    settings.folder = "/library"
    settings.memory = 32 << 20
    let archive = try Archive(settings, files: SimulatedDisk(), now: { 1_800_000_000 })
    var indexes: [VectorIndex] = []
    for id in ["a", "b", "c"] {
      try archive.add(store(id, id))
      let index = try VectorIndex(
        folder: "/library/stores/\(id)/index-0", fingerprint: "f", dimensions: 4,
        limits: settings.indexLimits,
        files: archive.files)
      archive.state.withLock { $0.stores[id]?.index = index }
      indexes.append(index)
    }
    let text = [UInt8](repeating: UInt8(ascii: "x"), count: 1 << 17)
    // The same document again and again: the earlier ones are gone, but in memory.
    for turn in 0..<30 {
      let index = indexes[turn % 3]
      try index.commit(
        NewDocument(key: "f", info: [], passages: [Passage(text: text, range: 0..<text.count, rows: [])]))
      try archive.settle(index)
      #expect(archive.memoryBytes <= settings.indexBytes + 4 * text.count, "turn \(turn)")
    }
    #expect(indexes.contains { $0.view.fileBytes > 0 })
    for index in indexes { #expect(try index.view.passages(of: "f").first?.text.count == text.count) }
    try archive.add(file("f", "text"), Array("text".utf8))
    let before = archive.memoryBytes
    var entry = EntryRecord(file: "f", store: "a", created: 1)
    entry.attributes = JSONObject([("key", .string(String(repeating: "v", count: 5_000)))])
    try archive.add([entry], batch: BatchRecord(id: "b", store: "a", created: 1, files: ["f"]))
    #expect(archive.memoryBytes >= before + 5_000)
    _ = try archive.removeEntry("f", store: "a")
    #expect(archive.memoryBytes < before + 5_000)
  }

  @Test func `a lack of descriptors fails no file: it is tried until there are some`() throws {
    for code in [EMFILE, ENFILE, ENOMEM, EIO] {
      let disk = SimulatedDisk()
      let archive = try openArchive(disk)
      for id in ["a", "b", "c"] { try archive.add(file(id, "text of \(id)"), Array("text of \(id)".utf8)) }
      try archive.add(store("s", "s"))
      try archive.add(["a", "b", "c"].map { EntryRecord(file: $0, store: "s", created: 1) }, batch: nil)
      disk.follow(.init(.error(code), at: 0, isLasting: true))
      let (app, fleet) = try startArchive(archive)
      for _ in 0..<5_000 where disk.calls < 12 { usleep(1_000) }
      let waiting = try archive.store("s", nobody).entries.values.map(\.status)
      #expect(waiting == [.inProgress, .inProgress, .inProgress], "\(code)")
      disk.follow(nil)
      archive.settle()
      for entry in try archive.store("s", nobody).entries.values {
        #expect(entry.status == .completed, "\(code): \(entry.json.text)")
      }
      #expect(disk.files.allSatisfy { !$0.contains("/attempts/") })
      app.finish(seconds: 0)
      fleet.stop()
    }
  }

  @Test func `updates of one store at once lose none`() throws {
    let archive = try openArchive(SimulatedDisk { usleep(10) })
    let (app, fleet) = try startArchive(archive)
    try archive.add(store("s", "s"))
    for round in 0..<30 {
      let bodies = [
        #"{"name":"name \#(round)"}"#, #"{"metadata":{"m":"\#(round)"}}"#,
        #"{"expires_after":{"anchor":"last_active_at","days":\#(round + 1)}}"#,
      ]
      let statuses = Monitor<[Int]>([])
      let threads = try bodies.map { body in
        try Thread(name: "update", stackBytes: 1 << 20) {
          let answer = try? app.send("POST", "/v1/vector_stores/s", body: body)
          statuses.withLock { $0.append(answer?.status ?? 0) }
        }
      }
      for thread in threads { thread.join() }
      #expect(statuses.withLock { $0 } == [200, 200, 200])
      let found = try app.send("GET", "/v1/vector_stores/s").json
      #expect(found["name"] == .string("name \(round)") && found["metadata"]?["m"] == .string("\(round)"))
      #expect(found["expires_after"]?["days"] == .int(round + 1))
    }
    app.finish(seconds: 0)
    fleet.stop()
  }

  @Test func `an index that was built anew too often is tried again after a change of its store`() throws {
    let disk = SimulatedDisk()
    var archive = try openArchive(disk)
    try archive.add(store("s", "s"))
    _ = disk.mkdir("/library/attempts")
    disk.put("/library/attempts/rebuild.s", [0x33])
    disk.restart(losingPower: false)
    archive = try openArchive(disk)
    #expect(!archive.attempts.begin("rebuild.s"))
    let (app, fleet) = try startArchive(archive)
    #expect(try app.send("POST", "/v1/vector_stores/s", body: #"{"name":"s"}"#).status == 200)
    #expect(archive.attempts.begin("rebuild.s"))
    app.finish(seconds: 0)
    fleet.stop()
  }

  @Test func `a folder that cannot be read ends the start`() throws {
    let disk = SimulatedDisk()
    do {
      let archive = try open(disk)
      try archive.add(store("s", "s"))
      try archive.add(file("f", "text"), Array("text".utf8))
      try archive.add([EntryRecord(file: "f", store: "s", created: 1)], batch: nil)
    }
    disk.follow(nil)
    _ = try open(disk)
    let calls = disk.calls
    var refused = 0
    for number in 0..<calls {
      disk.restart(losingPower: false)
      disk.follow(.init(.error(EACCES), at: number))
      if (try? open(disk)) == nil { refused += 1 }
      disk.restart(losingPower: false)
      disk.follow(nil)
      let archive = try open(disk)
      #expect(found("file f", archive) == "text" && found("entry s f", archive) != nil, "call \(number)")
    }
    // The folders of files, stores, entries and batches, and the lock.
    #expect(refused >= 5)
  }

  @Test func `a record under another's name is not served`() throws {
    let disk = SimulatedDisk()
    do {
      let archive = try open(disk)
      for id in ["a", "b"] {
        try archive.add(file(id, id), Array(id.utf8))
        try archive.add(store(id, id))
      }
      try archive.add([EntryRecord(file: "a", store: "a", created: 1)], batch: nil)
    }
    disk.restart(losingPower: false)
    for (from, to) in [
      ("files/a.json", "files/b.json"), ("stores/a/store.json", "stores/b/store.json"),
      ("stores/a/entries/a.json", "stores/b/entries/b.json"),
    ] { disk.put("/library/" + to, try #require(disk.content("/library/" + from))) }
    let copies = ["/library/files/b.copy", "/library/stores/b/store.copy"].map {
      ($0, disk.content($0) ?? [])
    }
    for (copy, _) in copies { _ = disk.unlink(copy) }
    var archive = try open(disk)
    #expect(found("file b", archive) == nil && found("store b", archive) == nil)
    #expect(found("file a", archive) == "a" && found("entry a a", archive) != nil)
    // What it is the copy says.
    disk.restart(losingPower: false)
    for (copy, bytes) in copies { disk.put(copy, bytes) }
    archive = try open(disk)
    #expect(found("file b", archive) == "b" && found("store b", archive) == "b")
  }

  @Test func `a check names what is not whole, and changes nothing`() throws {
    let disk = SimulatedDisk()
    do {
      let archive = try open(disk)
      for id in ["a", "b", "c"] { try archive.add(file(id, id), Array(id.utf8)) }
      try archive.add(store("s", "s"))
      try archive.add([EntryRecord(file: "a", store: "s", created: 1)], batch: nil)
    }
    let good = try Archive.check(folder: "/library", files: disk)
    #expect(good.whole == 5 && good.faults.isEmpty)
    disk.put("/library/files/a.json", Array("{".utf8))
    disk.put("/library/files/b.data", Array("too long".utf8))
    disk.put(
      "/library/stores/s/entries/z.json", try #require(disk.content("/library/stores/s/entries/a.json")))
    let before = disk.files
    let found = try Archive.check(folder: "/library", files: disk)
    #expect(
      found.faults.map(\.path) == [
        "/library/files/a.json", "/library/files/b.data", "/library/stores/s/entries/z.json",
      ])
    #expect(disk.files == before)
  }

  @Test func `a flipped bit of a record or of a file is seen, and nothing else is lost`() throws {
    let disk = SimulatedDisk()
    do {
      let archive = try open(disk)
      for id in ["a", "b"] { try archive.add(file(id, "content of \(id)"), Array("content of \(id)".utf8)) }
      try archive.add(store("s", "s"))
    }
    let whole = disk.files.compactMap { path in disk.content(path).map { (path, $0) } }.filter {
      !$0.1.isEmpty && !$0.0.hasSuffix("/" + Inventory.name)
    }
    #expect(whole.count == 8)
    for (path, bytes) in whole {
      for index in bytes.indices {
        disk.restart(losingPower: false)
        var changed = bytes
        changed[index] ^= 1 << (index % 8)
        disk.put(path, changed)
        let faults = try Archive.check(folder: "/library", files: disk).faults.map(\.path)
        #expect(faults == [path], "byte \(index)")
        let archive = try open(disk)
        let files = archive.files(of: nobody)
        #expect(files.map(\.id) == ["a", "b"])
        for file in files {
          if path.hasSuffix("/\(file.id).data") {
            let error = #expect(throws: APIError.self) { try archive.content(of: file) }
            #expect(error?.code == "file_damaged")
            #expect(throws: APIError.self) { try archive.mappedContent(of: file) }
          } else {
            #expect(try archive.content(of: file) == Array("content of \(file.id)".utf8))
          }
        }
        #expect(archive.stores(of: nobody).map(\.record.name) == ["s"])
      }
      disk.put(path, bytes)
    }
  }

  @Test func `records of earlier versions have no checksum, and are read`() throws {
    let disk = SimulatedDisk()
    do { try open(disk).add(file("a", "ab"), [1, 2]) }
    let content = try #require(disk.content("/library/files/a.json"))
    var record = try #require(try SealedRecord.record(content, path: "a").objectValue)
    record["content_checksum"] = nil
    disk.restart(losingPower: false)
    disk.put("/library/files/a.json", JSONValue.object(record).bytes)
    let archive = try open(disk)
    #expect(try archive.content(of: try archive.file("a", nobody)) == [1, 2])
    #expect(try Archive.check(folder: "/library", files: disk).faults.isEmpty)
  }

  @Test func `any number in a record is refused or used`() throws {
    let disk = SimulatedDisk()
    do {
      let archive = try open(disk)
      for id in ["a", "b"] { try archive.add(file(id, id), Array(id.utf8)) }
      var record = store("s", "s")
      record.expiry = ExpiryRule(days: 3)
      record.index = "index-0"
      try archive.add(record)
      try archive.add(
        ["a", "b"].map { EntryRecord(file: $0, store: "s", created: 1) },
        batch: BatchRecord(id: "b", store: "s", created: 1, files: ["a", "b"]))
    }
    let numbers = [-1, 0, 1, 1 << 31, 1 << 40, 1 << 62, Int.max - 1, .max, .min]
    let paths = disk.files.filter { $0.hasSuffix(".json") }
    #expect(paths.count == 6)
    let whole = paths.map { ($0, disk.content($0) ?? []) }
    for (path, bytes) in whole {
      for number in numbers {
        disk.restart(losingPower: false)
        for (other, content) in whole { disk.put(other, content) }
        // All numbers of the record at once, and of its sibling, so that sums of them are large.
        for (other, content) in whole
        where other == path || path.hasSuffix("a.json") && other.hasSuffix("b.json") {
          let record = try SealedRecord.record(content, path: other)
          disk.put(other, SealedRecord.bytes(of: Self.withNumbers(number, record)))
        }
        try use(try open(disk))
      }
      _ = bytes
    }
  }

  private static func withNumbers(_ number: Int, _ value: JSONValue) -> JSONValue {
    switch value {
    case .int: .int(number)
    case .array(let elements): .array(elements.map { withNumbers(number, $0) })
    case .object(let object):
      .object(JSONObject(object.entries.map { ($0.key, withNumbers(number, $0.value)) }))
    default: value
    }
  }

  private func use(_ archive: Archive) throws {
    let files = archive.files(of: nobody)
    for file in files { _ = try? archive.content(of: file) }
    for store in archive.stores(of: nobody) {
      _ = store.record.json(Array(store.entries.values), now: 1_800_000_000).bytes
      _ = try? archive.openIndex(store.record.id)
      for batch in store.batches.values { _ = batch.json(Array(store.entries.values)) }
      var entry = EntryRecord(file: "a", store: store.record.id, created: 1)
      entry.strategy.size = 333
      try? archive.add([entry], batch: nil)
      for batch in store.batches.values { try? archive.cancel(batch) }
    }
    try? archive.add(file("new", "new"), [1])
    for file in files { try? archive.remove(file) }
  }
}
