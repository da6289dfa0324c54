// Every pair of operations on files, stores, entries, batches and searches at once, in thousands of schedules that a seed chooses:
// what comes of two is what would come of them one after the other, in one order or the other, and it is there after a restart.

import HTTP
import Inference
import JSON
import Pipeline
import Platform
import Support
import Testing
import Vectors
import Wire

@testable import Server

#if DEBUG
  /// What a client may do; two of them run at once.
  private enum Operation: CaseIterable {
    case deleteF, deleteG, addF, addG, removeF, attributeOne, attributeTwo, deleteStore, rename, describe
    case batch, cancelBatch, search, makeStore
    case read, ask, cancelAsked, deleteAsked, deleteRequests, deleteAnswers

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
      case .read: ("GET", "/v1/files/g/content", "")
      case .ask:
        (
          "POST", "/v1/batches",
          #"{"input_file_id":"r","endpoint":"/v1/embeddings","completion_window":"24h"}"#
        )
      case .cancelAsked: ("POST", "/v1/batches/batch_1/cancel", "")
      case .deleteAsked: ("DELETE", "/v1/batches/batch_1", "")
      case .deleteRequests: ("DELETE", "/v1/files/r", "")
      case .deleteAnswers: ("DELETE", "/v1/files/file-output1", "")
      }
    }

    /// Whether it is about a batch of requests: one is under way then.
    var isOfRequests: Bool {
      switch self {
      case .ask, .cancelAsked, .deleteAsked, .deleteRequests, .deleteAnswers: true
      default: false
      }
    }
  }

  /// What a client is answered: a status, what was found, and how far a batch of requests is.
  private struct Outcome: Equatable {
    var status = 0
    var found: Set<String> = []
    var word = ""
  }

  /// The reference: what clients have, and nothing of how it is kept.
  private struct Model {
    struct Store: Equatable {
      var name = ""
      var metadata: JSONValue = [:]
      /// The attribute of each file.
      var entries: [String: JSONValue] = [:]
    }

    /// A batch of requests, which comes to its end at a time of its own.
    struct Asked: Equatable {
      /// Nil until somebody was told.
      var ending: String?
      /// Whether the file of its answers was deleted.
      var isEmptied = false
    }

    var files: Set = ["f", "g", "r"]
    /// By id; "made" stands for the id that a store gets.
    var stores: [String: Store] = ["s": Store(entries: ["f": [:]])]
    /// By how many came before.
    var asked: [Asked?]
    /// Entries that were indexed before the operations began, and are as they were.
    private var settled: Set = ["f"]

    init(isAsked: Bool) { asked = isAsked ? [Asked()] : [] }

    /// Whether an operation may answer so; what comes of it then.
    mutating func allows(_ operation: Operation, _ answer: Outcome) -> Bool {
      func attribute(_ value: String) -> JSONValue { ["k": .string(value)] }
      var isThere = true
      switch operation {
      case .deleteF, .deleteG:
        let file = operation == .deleteF ? "f" : "g"
        isThere = files.remove(file) != nil
        for id in stores.keys { stores[id]?.entries[file] = nil }
        settled.remove(file)
      case .addF, .addG:
        let file = operation == .addF ? "f" : "g"
        isThere = files.contains(file) && stores["s"] != nil
        if isThere { stores["s"]?.entries[file] = attribute(file) }
      case .removeF:
        isThere = stores["s"]?.entries.removeValue(forKey: "f") != nil
        settled.remove("f")
      case .attributeOne, .attributeTwo:
        isThere = stores["s"]?.entries["f"] != nil
        if isThere { stores["s"]?.entries["f"] = attribute(operation == .attributeOne ? "1" : "2") }
      case .deleteStore: isThere = stores.removeValue(forKey: "s") != nil
      case .rename:
        isThere = stores["s"] != nil
        stores["s"]?.name = "renamed"
      case .describe:
        isThere = stores["s"] != nil
        stores["s"]?.metadata = ["m": "1"]
      case .batch:
        isThere = files.isSuperset(of: ["f", "g"]) && stores["s"] != nil
        if isThere { for file in ["f", "g"] { stores["s"]?.entries[file] = [:] } }
      case .cancelBatch: isThere = stores["s"] != nil
      case .search:
        isThere = stores["s"] != nil
        let may = Set((stores["s"]?.entries ?? [:]).keys)
        guard may.intersection(settled).isSubset(of: answer.found), answer.found.isSubset(of: may) else {
          return false
        }
      case .makeStore:
        isThere = files.contains("g")
        if isThere { stores["made"] = Store(name: "made", entries: ["g": [:]]) }
      case .read: isThere = files.contains("g")
      case .ask:
        isThere = files.contains("r")
        if isThere { asked.append(Asked()) }
      case .deleteRequests: isThere = files.remove("r") != nil
      case .cancelAsked, .deleteAsked, .deleteAnswers: return allowsLate(operation, answer)
      }
      return answer.status == (isThere ? 200 : 404)
    }

    /// What depends on how far a batch of requests is when it is asked for.
    private mutating func allowsLate(_ operation: Operation, _ answer: Outcome) -> Bool {
      guard var batch = asked.first ?? nil else {
        // Its answers stay.
        return answer.status == 404 || operation == .deleteAnswers && answer.status == 200
      }
      switch (operation, answer.status) {
      case (.cancelAsked, 200):
        guard answer.word != "cancelling" || batch.ending ?? "cancelled" == "cancelled" else { return false }
        if answer.word == "cancelling" { batch.ending = "cancelled" }
      case (.cancelAsked, 400):
        if batch.ending == nil { batch.ending = "completed" }
      case (.deleteAsked, 200):
        asked[0] = nil
        return true
      case (.deleteAsked, 400): break
      case (.deleteAnswers, 200):
        guard !batch.isEmptied else { return false }
        batch.isEmptied = true
      case (.deleteAnswers, 404): break
      default: return false
      }
      asked[0] = batch
      return true
    }
  }

  /// Holds back what a batch of requests asks the model, so that it is under way when the operations begin.
  private final class HeldEncoder: EmbeddingService {
    private let encoder = FakeEncoder()
    let isOpen = Monitor(true)

    var limits: EmbeddingLimits { encoder.limits }
    var embeddingStatistics: EmbeddingStatistics { encoder.embeddingStatistics }

    func submit(_ request: EmbeddingRequest) throws(InferenceError) -> EmbeddingJob {
      _ = isOpen.wait { $0 ? true : nil }
      return try encoder.submit(request)
    }
  }

  /// A server whose threads run as a seed has them.
  private final class Place: Sendable {
    struct Running: Sendable {
      var archive: Archive
      var app: App
      var fleet: ModelFleet
    }

    let disk = SimulatedDisk()
    private let schedule: Monitor<Schedule>
    private let state = Monitor<Running?>(nil)
    private let encoder = HeldEncoder()
    let isAsked: Bool
    private let isSlow: Bool
    private let traces = Monitor<[UInt64]>([])

    /// - Parameter isAsked: whether a batch of requests is under way.
    init(seed: UInt64, isAsked: Bool, isSlow: Bool = false) throws {
      (self.isAsked, self.isSlow) = (isAsked, isSlow)
      schedule = Monitor(Schedule(seed: seed, isSlow: isSlow))
      try run { try self.start { try self.fill($0) } }
      if isAsked {
        encoder.isOpen.withLock { $0 = false }
        try run { _ = self.answer(.ask) }
      }
    }

    /// Of the turns so far, also before a restart.
    var trace: [UInt64] { traces.withLock { $0 } + [schedule.withLock { $0 }.trace] }

    var running: Running {
      get throws { try #require(state.withLock { $0 }) }
    }

    /// Runs this until nothing is being indexed or answered, with whatever else there is to do.
    func run(_ work: (@Sendable () throws -> Void)...) throws {
      let failures = Monitor<[String]>([])
      let isOver = try schedule.withLock { $0 }.run(
        work.map { work in
          { do { try work() } catch { failures.withLock { $0.append("\(error)") } } }
        })
      let found = failures.withLock { $0 }
      guard isOver, found.isEmpty else {
        throw TestFailure(isOver ? "\(found)" : "all threads wait for each other")
      }
    }

    private func start(_ fill: (Archive) throws -> Void = { _ in }) throws {
      let archive = try openArchive(disk)
      try fill(archive)
      let (app, fleet) = try startArchive(archive, encoder)
      state.withLock { $0 = Running(archive: archive, app: app, fleet: fleet) }
    }

    private func fill(_ archive: Archive) throws {
      let requests = ["a", "b"].map {
        #"{"custom_id":"\#($0)","method":"POST","url":"/v1/embeddings","body":{"model":"e","input":"\#($0)"}}"#
      }
      for (id, text) in [
        ("f", "alps and wax"), ("g", "sea and salt"), ("r", requests.joined(separator: "\n")),
      ] {
        try archive.add(
          FileRecord(
            id: id, owner: nil, bytes: text.utf8.count, created: 1, name: id + ".txt",
            purpose: id == "r" ? "batch" : "assistants"),
          Array(text.utf8))
      }
      try archive.add(StoreRecord(id: "s", owner: nil, created: 1))
      var entry = EntryRecord(file: "f", store: "s", created: 1)
      entry.batch = "b"
      try archive.add([entry], batch: BatchRecord(id: "b", store: "s", created: 1, files: ["f"]))
    }

    func restart() throws {
      let before = trace
      traces.withLock { $0 = before }
      try end()
      disk.restart(losingPower: false)
      schedule.withLock { $0 = Schedule(seed: 1, isSlow: isSlow) }
      try run { try self.start() }
    }

    func end() throws {
      schedule.withLock { $0 }.free()
      encoder.isOpen.update { $0 = true }
      guard let running = state.withLock({ $0.take() }) else { return }
      running.app.finish(seconds: 0)
      running.fleet.stop()
    }

    /// The answers of two operations at once.
    func answers(_ first: Operation, _ second: Operation) throws -> [Outcome] {
      let answers = Monitor([Outcome(), Outcome()])
      let encoder = encoder
      try run(
        {
          let answer = self.answer(first)
          answers.withLock { $0[0] = answer }
        },
        {
          let answer = self.answer(second)
          answers.withLock { $0[1] = answer }
        },
        { encoder.isOpen.update { $0 = true } })
      return answers.withLock { $0 }
    }

    func answer(_ operation: Operation) -> Outcome {
      let (method, path, body) = operation.request
      guard let answer = try? running.app.send(method, path, body: body) else { return Outcome() }
      let found = operation == .search ? answer.json["data"]?.arrayValue ?? [] : []
      return Outcome(
        status: answer.status, found: Set(found.compactMap { $0["file_id"]?.stringValue }),
        word: answer.json["status"]?.stringValue ?? "")
    }

    /// What is wrong beside a model; nil when nothing is.
    func difference(_ model: Model, mayBeCancelled: Bool) throws -> String? {
      let result = Monitor<String?>(nil)
      try run {
        let difference = try self.differenceNow(model, mayBeCancelled: mayBeCancelled)
        result.withLock { $0 = difference }
      }
      return result.withLock { $0 }
    }

    private func list(_ path: String) throws -> [JSONValue] {
      try running.app.send("GET", path).json["data"]?.arrayValue ?? []
    }

    private func differenceNow(_ model: Model, mayBeCancelled: Bool) throws -> String? {
      let files = Set(try list("/v1/files").compactMap { $0["id"]?.stringValue })
      let sent = files.filter { !$0.hasPrefix("file-") }
      guard sent == model.files else { return "files are \(sent)" }
      var stores: [String: Model.Store] = [:]
      for object in try list("/v1/vector_stores") {
        let id = object["id"]?.stringValue ?? ""
        var store = Model.Store(
          name: object["name"]?.stringValue ?? "", metadata: object["metadata"] ?? .null)
        var completed: Set<String> = []
        for entry in try list("/v1/vector_stores/\(id)/files") {
          let (file, status) = (entry["id"]?.stringValue ?? "", entry["status"]?.stringValue ?? "")
          store.entries[file] = entry["attributes"] ?? .null
          guard status == "completed" || mayBeCancelled && status == "cancelled" else {
            return "\(file) in \(id) is \(entry.text)"
          }
          if status == "completed" { completed.insert(file) }
        }
        let found = try running.app.send("POST", "/v1/vector_stores/\(id)/search", body: #"{"query":"alps"}"#)
          .json
        let names = Set(found["data"]?.arrayValue?.compactMap { $0["file_id"]?.stringValue } ?? [])
        let inside = Set(try running.archive.openIndex(id)?.view.documents.map(\.key) ?? [])
        guard inside.isSubset(of: store.entries.keys) else { return "the index of \(id) has \(inside)" }
        guard names == completed else { return "\(id) finds \(names), and has \(completed): \(found.text)" }
        stores[id == "s" ? id : "made"] = store
      }
      guard stores == model.stores else { return "stores are \(stores)" }
      return try differenceOfBatches(model, files)
    }

    private func differenceOfBatches(_ model: Model, _ files: Set<String>) throws -> String? {
      let batches = try list("/v1/batches")
      guard batches.count == model.asked.count(where: { $0 != nil }) else { return "batches are \(batches)" }
      for batch in batches {
        let isFirst = batch["id"] == "batch_1"
        guard let known = isFirst ? model.asked.first ?? nil : model.asked.last ?? nil,
          let status = batch["status"]?.stringValue,
          status == known.ending ?? (status == "cancelled" ? "" : "completed")
        else { return "a batch is \(batch.text)" }
        let counts = batch["request_counts"]
        guard counts?["failed"] == 0, status == "cancelled" || counts?["completed"] == 2 else {
          return "a batch is \(batch.text)"
        }
        guard let output = batch["output_file_id"]?.stringValue else {
          guard counts?["completed"] == 0 else { return "a batch has no answers: \(batch.text)" }
          continue
        }
        guard files.contains(output) != known.isEmptied else {
          return "of \(files) \(output) is not as it was"
        }
        guard !known.isEmptied else { continue }
        let lines = try running.app.send("GET", "/v1/files/\(output)/content").text.split(separator: "\n")
        let names = Set(
          try lines.map { try JSONValue(parsing: String($0))["custom_id"]?.stringValue ?? "" })
        guard names.isSubset(of: ["a", "b"]), lines.count == names.count,
          counts?["completed"] == .int(names.count)
        else { return "answers are \(lines)" }
      }
      return nil
    }
  }

  /// A failure of a test's own making.
  private struct TestFailure: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
  }

  @Suite struct ArchiveScheduleTests {
    private static let pairs = Operation.allCases.enumerated().flatMap { index, first in
      Operation.allCases[index...].map { (first, $0) }
    }

    /// Schedules of each pair, in all parts. `MLXSERVE_SCHEDULE=NUMBER` repeats one that has failed.
    private static let (rounds, parts) = (10, 4)
    private static let only = getenv("MLXSERVE_SCHEDULE").flatMap { Int(String(cString: $0)) }

    @Test(arguments: 0..<parts)
    func `two operations at once are as one after the other, also after a restart`(part: Int) throws {
      #expect(Self.pairs.count * Self.rounds == 2_100)
      let all = 0..<Self.pairs.count * Self.rounds
      for number in Self.only.map({ [$0] }) ?? Array(all) where number % Self.parts == part {
        let (first, second) = Self.pairs[number % Self.pairs.count]
        let problem: String?
        do { problem = try Self.problem(first, second, number).words } catch { problem = "\(error)" }
        if let problem {
          Issue.record("\(first) and \(second), MLXSERVE_SCHEDULE=\(number): \(problem)")
        }
      }
    }

    @Test(arguments: 0..<parts)
    func `a number gives the same schedule again, also on a machine that stalls`(part: Int) throws {
      for number in stride(from: 10 * part + part, to: Self.pairs.count * Self.rounds, by: 10 * Self.parts) {
        let (first, second) = Self.pairs[number % Self.pairs.count]
        let found = try Self.problem(first, second, number)
        let again = try Self.problem(first, second, number, isSlow: true)
        #expect(found.trace == again.trace, "\(first) and \(second), MLXSERVE_SCHEDULE=\(number)")
        #expect(found.trace.count == 2)
      }
    }

    /// What a process finds out of a model with its first search, it knows before the first schedule.
    private static let knowsModel: Bool = {
      guard let place = try? Place(seed: 1, isAsked: false) else { return false }
      defer { try? place.end() }
      return place.answer(.search).status == 200
    }()

    /// What is wrong after two operations at once; no words when nothing is.
    private static func problem(
      _ first: Operation, _ second: Operation, _ number: Int, isSlow: Bool = false
    ) throws -> (words: String?, trace: [UInt64]) {
      try #require(Self.knowsModel)
      let place = try Place(
        seed: UInt64(number), isAsked: first.isOfRequests || second.isOfRequests, isSlow: isSlow)
      defer { try? place.end() }
      let answers = try place.answers(first, second)
      let mayBeCancelled = first == .cancelBatch || second == .cancelBatch
      var words: [String] = []
      var right: Model?
      for order in [[0, 1], [1, 0]] where right == nil {
        var model = Model(isAsked: place.isAsked)
        let isAllowed = order.allSatisfy { model.allows([first, second][$0], answers[$0]) }
        guard isAllowed else { continue }
        if let difference = try place.difference(model, mayBeCancelled: mayBeCancelled) {
          words.append(difference)
        } else {
          right = model
        }
      }
      guard let right else { return ("\(answers), \(words)", place.trace) }
      let counted = try place.running.archive.state.withLock { $0.quotas.all }
      try place.restart()
      if let difference = try place.difference(right, mayBeCancelled: mayBeCancelled) {
        return ("after a restart \(difference)", place.trace)
      }
      // What is counted of a client is what is there.
      let recounted = try place.running.archive.state.withLock { $0.quotas.all }
      return (recounted == counted ? nil : "\(counted) are counted, and then \(recounted)", place.trace)
    }
  }

  @Suite struct ArchiveAttemptsTests {
    @Test func `a file that three processes have died of is failed, and tried when it is asked for anew`()
      throws
    {
      for (count, status) in [(2, "completed"), (3, "failed")] {
        let place = try Place(seed: 1, isAsked: false)
        defer { try? place.end() }
        // As a process leaves it that dies while it indexes.
        try place.end()
        var entry = EntryRecord(file: "f", store: "s", created: 1)
        entry.turn = 7
        place.disk.put("/library/stores/s/entries/f.json", SealedRecord.bytes(of: entry.record))
        place.disk.put("/library/attempts/s.f", [0x30 + UInt8(count)])
        try place.restart()
        let path = "/v1/vector_stores/s/files/f"
        let found = try place.running.app.send("GET", path).json
        #expect(found["status"]?.stringValue == status, "\(found.text)")
        #expect(place.disk.content("/library/attempts/s.f") == nil)
        guard count == 3 else { continue }
        #expect(found["last_error"]?["code"] == "invalid_file")
        #expect(
          found["last_error"]?["message"]
            == "the server ended 3 times while it indexed this file, and does not try it again by itself")
        try place.restart()
        #expect(try place.running.app.send("GET", path).json["status"] == "failed")
        try place.run { #expect(place.answer(.addF).status == 200) }
        #expect(try place.running.app.send("GET", path).json["status"] == "completed")
      }
    }
  }
#endif
