// Files and vector stores whose time comes, by a clock that the test turns.

import HTTP
import JSON
import OpenAI
import Platform
import Support
import Testing

@testable import Server

struct LibraryTests {
  private let nobody = ClientIdentity()

  @Test func `a file is gone when its time has come`() throws {
    let clock = Monitor(1_000)
    let library = try Library(settings(), files: SimulatedDisk(), now: { clock.withLock { $0 } })
    var short = FileRecord(
      id: "short", owner: nil, bytes: 1, created: 1_000, name: "s.txt", purpose: "assistants")
    short.expires = 4_600
    try library.add(short, [1])
    try library.add(
      FileRecord(id: "kept", owner: nil, bytes: 1, created: 1_000, name: "k.txt", purpose: "assistants"), [2])
    #expect(short.json["expires_at"] == 4_600)
    clock.withLock { $0 = 4_599 }
    #expect(library.files(of: nobody).map(\.id) == ["kept", "short"])
    clock.withLock { $0 = 4_600 }
    #expect(library.files(of: nobody).map(\.id) == ["kept"])
    #expect(throws: APIError.self) { try library.file("short", nobody) }
    #expect(try library.file("kept", nobody).id == "kept")
  }

  @Test func `a store that nobody used for its days has expired, and says so`() throws {
    let clock = Monitor(1_000)
    let library = try Library(settings(), files: SimulatedDisk(), now: { clock.withLock { $0 } })
    var record = StoreRecord(id: "s", owner: nil, created: 1_000)
    record.expiry = ExpiryRule(days: 1)
    try library.add(record)
    let store = try library.store("s", nobody)
    func status(_ time: Int) -> String? { store.record.json([], now: time)["status"]?.stringValue }
    #expect(status(1_000 + 86_399) == "completed")
    #expect(status(1_000 + 2 * 86_400) == "expired")
    #expect(store.record.json([], now: 1_000)["expires_at"] == .int(1_000 + 86_400))
  }

  private func settings() -> Library.Settings {
    var settings = Library.Settings()
    settings.folder = "/library"
    return settings
  }
}
