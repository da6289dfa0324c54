// Every pair of operations on files, stores, entries, batches and searches at once, in thousands of schedules: what comes of two
// is what would come of them one after the other, in one order or the other, and it is there after a restart.

import HTTP
import JSON
import Pipeline
import Platform
import Support
import Testing
import Wire

@testable import Server

/// What a client may do; two of them run at once.
private enum Operation: CaseIterable {
  case deleteF, deleteG, addF, addG, removeF, attributeOne, attributeTwo, deleteStore, rename, describe
  case batch, cancelBatch, search, makeStore

  var request: (method: String, path: String, body: String) {
    let store = "/v1/vector_stores/s"
    return switch self {
    case .deleteF: ("DELETE", "/v1/files/f", "")
    case .deleteG: ("DELETE", "/v1/files/g", "")
    case .addF: ("POST", store + "/files", #"{"file_id":"f","attributes":{"k":"f"}}"#)
    case .addG: ("POST", store + "/files", #"{"file_id":"g","attributes":{"k":"g"}}"#)
    case .removeF: ("DELETE", store + "/files/f", "")
    case .attributeOne: ("POST", store + "/files/f", #"{"attributes":{"k":"1"}}"#)
    case .attributeTwo: ("POST", store + "/files/f", #"{"attributes":{"k":"2"}}"#)
    case .deleteStore: ("DELETE", store, "")
    case .rename: ("POST", store, #"{"name":"renamed"}"#)
    case .describe: ("POST", store, #"{"metadata":{"m":"1"}}"#)
    case .batch: ("POST", store + "/file_batches", #"{"file_ids":["f","g"]}"#)
    case .cancelBatch: ("POST", store + "/file_batches/b/cancel", "")
    case .search: ("POST", store + "/search", #"{"query":"alps"}"#)
    case .makeStore: ("POST", "/v1/vector_stores", #"{"name":"made","file_ids":["g"]}"#)
    }
  }
}

/// What an operation answers: a status, and what a search may find and must find.
private struct Outcome {
  var status = 200
  var must: Set<String> = []
  var may: Set<String> = []

  func allows(_ status: Int, _ found: Set<String>) -> Bool {
    self.status == status && must.isSubset(of: found) && found.isSubset(of: may)
  }
}

/// The reference: what clients have, and nothing of how it is kept.
private struct Model {
  struct Store: Equatable {
    var name = ""
    var metadata: JSONValue = [:]
    /// The attribute of each file.
    var entries: [String: JSONValue] = [:]
  }

  var files: Set = ["f", "g"]
  /// By id; "made" stands for the id that a store gets.
  var stores: [String: Store] = ["s": Store(entries: ["f": [:]])]
  /// Entries that were indexed before the operations began, and are as they were.
  private var settled: Set = ["f"]

  mutating func apply(_ operation: Operation) -> Outcome {
    let missing = Outcome(status: 404)
    func attribute(_ value: String) -> JSONValue { ["k": .string(value)] }
    switch operation {
    case .deleteF, .deleteG:
      let file = operation == .deleteF ? "f" : "g"
      guard files.remove(file) != nil else { return missing }
      for id in stores.keys { stores[id]?.entries[file] = nil }
      settled.remove(file)
    case .addF, .addG:
      let file = operation == .addF ? "f" : "g"
      guard files.contains(file), stores["s"] != nil else { return missing }
      stores["s"]?.entries[file] = attribute(file)
    case .removeF:
      guard stores["s"]?.entries.removeValue(forKey: "f") != nil else { return missing }
      settled.remove("f")
    case .attributeOne, .attributeTwo:
      guard stores["s"]?.entries["f"] != nil else { return missing }
      stores["s"]?.entries["f"] = attribute(operation == .attributeOne ? "1" : "2")
    case .deleteStore:
      guard stores.removeValue(forKey: "s") != nil else { return missing }
    case .rename:
      guard stores["s"] != nil else { return missing }
      stores["s"]?.name = "renamed"
    case .describe:
      guard stores["s"] != nil else { return missing }
      stores["s"]?.metadata = ["m": "1"]
    case .batch:
      guard files.isSuperset(of: ["f", "g"]), stores["s"] != nil else { return missing }
      for file in ["f", "g"] { stores["s"]?.entries[file] = [:] }
    case .cancelBatch: guard stores["s"] != nil else { return missing }
    case .search:
      guard let store = stores["s"] else { return missing }
      let may = Set(store.entries.keys)
      return Outcome(must: may.intersection(settled), may: may)
    case .makeStore:
      guard files.contains("g") else { return missing }
      stores["made"] = Store(name: "made", entries: ["g": [:]])
    }
    return Outcome()
  }
}

/// A server over a disk whose calls let other threads go first now and then.
private struct Place {
  let disk: SimulatedDisk
  private(set) var library: Library
  private(set) var app: App
  private var fleet: ModelFleet

  init(seed: UInt64) throws {
    let random = Monitor(SeededGenerator(seed: seed))
    disk = SimulatedDisk {
      let pause = random.withLock { UInt32.random(in: 0..<12, using: &$0) }
      if pause < 4 { usleep(pause * 20) }
    }
    library = try openLibrary(disk)
    for (id, text) in [("f", "alps and wax"), ("g", "sea and salt")] {
      try library.add(
        FileRecord(
          id: id, owner: nil, bytes: text.utf8.count, created: 1, name: id + ".txt", purpose: "assistants"),
        Array(text.utf8))
    }
    try library.add(StoreRecord(id: "s", owner: nil, created: 1))
    var entry = EntryRecord(file: "f", store: "s", created: 1)
    entry.batch = "b"
    try library.add([entry], batch: BatchRecord(id: "b", store: "s", created: 1, files: ["f"]))
    // The thread that indexes begins with the app.
    (app, fleet) = try startLibrary(library)
    settle()
  }

  mutating func restart() throws {
    end()
    disk.restart(losingPower: false)
    library = try openLibrary(disk)
    (app, fleet) = try startLibrary(library)
    settle()
  }

  func end() {
    app.finish(seconds: 0)
    fleet.stop()
  }

  /// Waits until nothing is being indexed.
  func settle() { library.settle() }

  func run(_ operation: Operation) -> (status: Int, found: Set<String>) {
    let (method, path, body) = operation.request
    guard let answer = try? app.send(method, path, body: body) else { return (0, []) }
    let found = operation == .search ? answer.json["data"]?.arrayValue ?? [] : []
    return (answer.status, Set(found.compactMap { $0["file_id"]?.stringValue }))
  }

  /// What is wrong beside a model; nil when nothing is.
  func difference(_ model: Model, mayBeCancelled: Bool) throws -> String? {
    func ids(_ path: String) throws -> [JSONValue] {
      try app.send("GET", path).json["data"]?.arrayValue ?? []
    }
    let files = Set(try ids("/v1/files").compactMap { $0["id"]?.stringValue })
    guard files == model.files else { return "files are \(files)" }
    var stores: [String: Model.Store] = [:]
    for object in try ids("/v1/vector_stores") {
      let id = object["id"]?.stringValue ?? ""
      var store = Model.Store(
        name: object["name"]?.stringValue ?? "", metadata: object["metadata"] ?? .null)
      var completed: Set<String> = []
      for entry in try ids("/v1/vector_stores/\(id)/files") {
        let (file, status) = (entry["id"]?.stringValue ?? "", entry["status"]?.stringValue ?? "")
        store.entries[file] = entry["attributes"] ?? .null
        guard status == "completed" || mayBeCancelled && status == "cancelled" else {
          return "\(file) in \(id) is \(entry.text)"
        }
        if status == "completed" { completed.insert(file) }
      }
      let found = try app.send("POST", "/v1/vector_stores/\(id)/search", body: #"{"query":"alps"}"#).json
      let names = Set(found["data"]?.arrayValue?.compactMap { $0["file_id"]?.stringValue } ?? [])
      guard names == completed else { return "\(id) finds \(names), and has \(completed): \(found.text)" }
      stores[id == "s" ? id : "made"] = store
    }
    return stores == model.stores ? nil : "stores are \(stores)"
  }
}

@Suite struct LibraryScheduleTests {
  /// Schedules of each pair, in all parts.
  private static let rounds = 20
  private static let parts = 4

  @Test(arguments: 0..<parts)
  func `two operations at once are as one after the other, also after a restart`(part: Int) throws {
    let operations = Operation.allCases
    var number = 0
    for (index, first) in operations.enumerated() {
      for second in operations[index...] {
        for round in 0..<Self.rounds where round % Self.parts == part {
          number += 1
          try check(first, second, seed: UInt64(1_000 * round + 100 * index + number))
        }
      }
    }
    #expect(number * Self.parts == 2_100)
  }

  private func check(_ first: Operation, _ second: Operation, seed: UInt64) throws {
    var place = try Place(seed: seed)
    defer { place.end() }
    let results = Monitor<[Int: (status: Int, found: Set<String>)]>([:])
    let running = place
    let threads = try [first, second].enumerated().map { index, operation in
      try Thread(name: "client", stackBytes: 1 << 20) {
        let result = running.run(operation)
        results.withLock { $0[index] = result }
      }
    }
    for thread in threads { thread.join() }
    place.settle()
    let found = results.withLock { $0 }
    let mayBeCancelled = first == .cancelBatch || second == .cancelBatch
    var words: [String] = []
    let order = try [(0, first, second), (1, second, first)].first { index, early, late in
      var model = Model()
      let outcomes = [model.apply(early), model.apply(late)]
      for (step, outcome) in outcomes.enumerated() {
        let answer = found[step == 0 ? index : 1 - index] ?? (0, [])
        guard outcome.allows(answer.status, answer.found) else {
          words.append("\(answer) is not \(outcome)")
          return false
        }
      }
      let difference = try place.difference(model, mayBeCancelled: mayBeCancelled)
      if let difference { words.append(difference) }
      return difference == nil
    }
    guard let order else {
      Issue.record("\(first) and \(second), seed \(seed): \(words)")
      return
    }
    var model = Model()
    _ = (model.apply(order.1), model.apply(order.2))
    let counted = place.library.state.withLock { $0.quotas.all }
    try place.restart()
    let difference = try place.difference(model, mayBeCancelled: mayBeCancelled)
    #expect(difference == nil, "\(first) and \(second), seed \(seed), after a restart")
    // What is counted of a client is what is there.
    let recounted = place.library.state.withLock { $0.quotas.all }
    #expect(recounted == counted, "\(first) and \(second), seed \(seed)")
  }
}

@Suite struct LibraryAttemptsTests {
  @Test func `a file that three processes have died of is failed, and tried when it is asked for anew`()
    throws
  {
    for (count, status) in [(2, "completed"), (3, "failed")] {
      var place = try Place(seed: 1)
      defer { place.end() }
      // As a process leaves it that dies while it indexes.
      place.end()
      var entry = EntryRecord(file: "f", store: "s", created: 1)
      entry.turn = 7
      place.disk.put("/library/stores/s/entries/f.json", SealedRecord.bytes(of: entry.record))
      place.disk.put("/library/attempts/s.f", [0x30 + UInt8(count)])
      try place.restart()
      let path = "/v1/vector_stores/s/files/f"
      let found = try place.app.send("GET", path).json
      #expect(found["status"]?.stringValue == status, "\(found.text)")
      #expect(place.disk.content("/library/attempts/s.f") == nil)
      guard count == 3 else { continue }
      #expect(found["last_error"]?["code"] == "invalid_file")
      #expect(
        found["last_error"]?["message"]
          == "the server ended 3 times while it indexed this file, and does not try it again by itself")
      try place.restart()
      #expect(try place.app.send("GET", path).json["status"] == "failed")
      #expect(place.run(.addF).status == 200)
      place.settle()
      #expect(try place.app.send("GET", path).json["status"] == "completed")
    }
  }
}
