// Files and vector stores whose time comes, by a clock that the test turns.

import HTTP
import JSON
import Platform
import Support
import Testing
import Wire

@testable import Server

struct ArchiveTests {
  private let nobody = ClientIdentity()

  @Test func `a file is gone when its time has come`() throws {
    let clock = Monitor(1_000)
    let archive = try Archive(settings(), files: SimulatedDisk(), now: { clock.withLock { $0 } })
    var short = FileRecord(
      id: "short", owner: nil, bytes: 1, created: 1_000, name: "s.txt", purpose: "assistants")
    short.expires = 4_600
    try archive.add(short, [1])
    try archive.add(
      FileRecord(id: "kept", owner: nil, bytes: 1, created: 1_000, name: "k.txt", purpose: "assistants"), [2])
    #expect(short.json["expires_at"] == 4_600)
    clock.withLock { $0 = 4_599 }
    #expect(archive.files(of: nobody).map(\.id) == ["kept", "short"])
    clock.withLock { $0 = 4_600 }
    #expect(archive.files(of: nobody).map(\.id) == ["kept"])
    #expect(throws: APIError.self) { try archive.file("short", nobody) }
    #expect(try archive.file("kept", nobody).id == "kept")
  }

  @Test func `files whose time has come leave the disk, unless the clock is wrong at one start`() throws {
    for (jump, isGone) in [(5_000, true), (400 * 86_400, false)] {
      let disk = SimulatedDisk()
      var settings = settings()
      settings.clientBytes = 10
      func file(_ name: String, _ time: Int) -> FileRecord {
        FileRecord(id: name, owner: "a", bytes: 9, created: time, name: "f.txt", purpose: "assistants")
      }
      let content = [UInt8](repeating: 1, count: 9)
      var archive = try Archive(settings, files: disk, now: { 1_000 })
      var old = file("old", 1_000)
      old.expires = 4_600
      try archive.add(old, content)
      #expect(throws: APIError.self) { try archive.add(file("more", 1_000), content) }
      disk.restart(losingPower: false)
      archive = try Archive(settings, files: disk, now: { 1_000 + jump })
      // What its owner does not see any more takes none of its room.
      try archive.add(file("new", 1_000 + jump), content)
      #expect((disk.content("/library/files/old.data") == nil) == isGone)
      #expect(archive.files(of: ClientIdentity(number: 10, name: "a")).count <= 1)
      disk.restart(losingPower: false)
      archive = try Archive(settings, files: disk, now: { 2_000 })
      #expect(archive.state.withLock { $0.files["old"] != nil } != isGone)
    }
  }

  @Test func `a store that nobody used for its days has expired, and says so`() throws {
    let clock = Monitor(1_000)
    let archive = try Archive(settings(), files: SimulatedDisk(), now: { clock.withLock { $0 } })
    var record = StoreRecord(id: "s", owner: nil, created: 1_000)
    record.expiry = ExpiryRule(days: 1)
    try archive.add(record)
    let store = try archive.store("s", nobody)
    func status(_ time: Int) -> String? { store.record.json([], now: time)["status"]?.stringValue }
    #expect(status(1_000 + 86_399) == "completed")
    #expect(status(1_000 + 2 * 86_400) == "expired")
    #expect(store.record.json([], now: 1_000)["expires_at"] == .int(1_000 + 86_400))
  }

  @Test func `files that wait to be indexed for a key that is gone are cancelled`() throws {
    for isFailing in [false, true] {
      let disk = SimulatedDisk()
      let archive = try Archive(settings(), files: disk, now: { 1_000 })
      try archive.add(StoreRecord(id: "s", owner: nil, created: 1_000))
      for (name, key) in [("a", 7), ("b", 8), ("c", 7), ("d", 0)] {
        try archive.add(
          FileRecord(
            id: name, owner: nil, bytes: 1, created: 1_000, name: name + ".txt", purpose: "assistants"),
          [1])
        try archive.add([EntryRecord(file: name, store: "s", created: 1_000)], batch: nil, key: UInt64(key))
      }
      // The first is being indexed.
      archive.state.update { $0.atWork = $0.queue.removeFirst() }
      if isFailing { disk.follow(.init(.error(ENOSPC), at: 0, isLasting: true)) }
      archive.cut(keys: [7])
      let entries = try archive.store("s", nobody).entries
      #expect(entries.filter { $0.value.status == .cancelled }.keys.sorted() == ["a", "c"])
      #expect(entries["a"]?.turn == 1 && archive.state.withLock { $0.queue.map(\.file) } == ["b", "d"])
    }
  }

  private func settings() -> Archive.Settings {
    var settings = Archive.Settings()
    settings.folder = "/library"
    return settings
  }
}
