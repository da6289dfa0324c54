// A batch of requests, as a record on disk and as the objects of the two APIs that have batches.

import HTTP
import JSON
import Platform
import Wire

/// Requests that were sent together, to be answered when nothing else is to be done.
struct RequestBatch: Sendable, Equatable {
  /// In whose words it was asked for.
  enum API: String, Sendable {
    case openAI = "openai"
    case messages
  }

  enum Phase: String, Sendable {
    case running
    /// Its files are being made.
    case finalizing
    case ended
  }

  /// Why it ends, or ended.
  enum Ending: String, Sendable {
    case completed, cancelled, expired
    /// Its file could not be used.
    case failed
  }

  var id: String
  var api: API
  var owner: String?
  /// Whose requests they are.
  var client: ClientIdentity
  var created: Int
  var endpoint: String
  var inputFile = ""
  var metadata: JSONObject?
  /// How long its files are kept, seconds; nil for ever.
  var outputSeconds: Int?
  var model: String?
  var total = 0
  var phase = Phase.running
  var ending: Ending?
  var counts = Counts()
  var usage = BatchUsage()
  /// What is wrong with its file, as the API shows it.
  var faults: [JSONValue] = []
  /// When it was asked to stop, when its files were begun, when it ended.
  var stopped: Int?
  var finalized: Int?
  var ended: Int?
  var outputFile: String?
  var errorFile: String?
  /// Of its results, where they are no files; empty in versions that did not write them.
  var sums: [String] = []

  /// Numbers of requests by what became of them.
  struct Counts: Sendable, Equatable {
    var succeeded = 0
    var errored = 0
    var cancelled = 0
    var expired = 0

    var done: Int { succeeded + errored + cancelled + expired }

    mutating func add(_ outcome: BatchOutcome) {
      switch outcome {
      case .answered: if outcome.isSuccess { succeeded += 1 } else { errored += 1 }
      case .cancelled: cancelled += 1
      case .expired: expired += 1
      }
    }
  }

  /// Its answers and what has failed are files with these endings, one a line.
  static let resultEndings = [".output", ".errors"]

  /// Of these files, in their order.
  static func sums(_ results: [SharedBytes?]) -> [String] {
    results.map { $0.map { SealedRecord.sum(of: $0) } ?? "" }
  }

  /// The time within which it is to be answered, seconds.
  static let window = 24 * 3_600
  /// How long one that has ended is remembered, seconds.
  static let memory = 30 * 24 * 3_600

  var expires: Int { created + Self.window }
  var isOver: Bool { phase == .ended }

  init(id: String, api: API, client: ClientIdentity, created: Int, endpoint: String) {
    (self.id, self.api, self.client, self.created) = (id, api, client, created)
    self.endpoint = endpoint
    owner = Archive.owner(client)
  }

  // MARK: OpenAI's object

  /// As /v1/batches shows it.
  var json: JSONValue {
    func time(_ value: Int?, _ isShown: Bool = true) -> JSONValue {
      isShown ? value.map(JSONValue.int) ?? nil : nil
    }
    return [
      "id": .string(id), "object": "batch", "endpoint": .string(endpoint),
      "model": model.map(JSONValue.string) ?? nil,
      "errors": faults.isEmpty ? nil : ["object": "list", "data": .array(faults)],
      "input_file_id": .string(inputFile), "completion_window": "24h", "status": .string(status),
      "output_file_id": (isOver ? outputFile : nil).map(JSONValue.string) ?? nil,
      "error_file_id": (isOver ? errorFile : nil).map(JSONValue.string) ?? nil,
      "created_at": .int(created), "in_progress_at": time(created, ending != .failed),
      "expires_at": .int(expires), "finalizing_at": time(finalized),
      "completed_at": time(ended, ending == .completed), "failed_at": time(ended, ending == .failed),
      "expired_at": time(ended, ending == .expired), "cancelling_at": time(stopped, ending == .cancelled),
      "cancelled_at": time(ended, ending == .cancelled),
      "request_counts": [
        "total": .int(total), "completed": .int(counts.succeeded),
        "failed": .int(counts.errored + counts.expired),
      ],
      "usage": usage.json, "metadata": metadata.map(JSONValue.object) ?? nil,
    ]
  }

  private var status: String {
    switch (phase, ending) {
    case (.ended, let ending): ending?.rawValue ?? Ending.completed.rawValue
    case (_, .cancelled): "cancelling"
    case (.finalizing, _): "finalizing"
    case (.running, _): "in_progress"
    }
  }

  // MARK: Anthropic's object

  /// As /v1/messages/batches shows it.
  var messagesJSON: JSONValue {
    func time(_ value: Int?) -> JSONValue {
      value.map { .string(Timestamp.text(seconds: Double($0))) } ?? nil
    }
    // Requests leave `processing` together, when all are done.
    let shown = isOver ? counts : Counts()
    return [
      "id": .string(id), "type": "message_batch",
      "processing_status": .string(isOver ? "ended" : ending == .cancelled ? "canceling" : "in_progress"),
      "request_counts": [
        "processing": .int(total - shown.done), "succeeded": .int(shown.succeeded),
        "errored": .int(shown.errored), "canceled": .int(shown.cancelled), "expired": .int(shown.expired),
      ],
      "created_at": time(created), "expires_at": time(expires), "ended_at": time(ended),
      "cancel_initiated_at": ending == .cancelled ? time(stopped) : nil, "archived_at": nil,
      // A path: the address under which a proxy is reached is the client's to know.
      "results_url": isOver ? .string("/v1/messages/batches/\(id)/results") : nil,
    ]
  }

  // MARK: On disk

  var record: JSONValue {
    let numbers = [counts.succeeded, counts.errored, counts.cancelled, counts.expired]
    var sender = JSONObject([
      ("number", .string(String(client.number))), ("key", .string(String(client.key))),
    ])
    sender["name"] = client.name.map(JSONValue.string)
    var record = JSONObject([
      ("id", .string(id)), ("api", .string(api.rawValue)), ("client", .object(sender)),
      ("created", .int(created)), ("endpoint", .string(endpoint)), ("input_file", .string(inputFile)),
      ("total", .int(total)), ("phase", .string(phase.rawValue)), ("usage", usage.json),
      ("faults", .array(faults)), ("counts", .array(numbers.map(JSONValue.int))),
    ])
    record["owner"] = owner.map(JSONValue.string)
    record["metadata"] = metadata.map(JSONValue.object)
    record["output_seconds"] = outputSeconds.map(JSONValue.int)
    record["model"] = model.map(JSONValue.string)
    record["ending"] = (ending?.rawValue).map(JSONValue.string)
    record["stopped"] = stopped.map(JSONValue.int)
    record["finalized"] = finalized.map(JSONValue.int)
    record["ended"] = ended.map(JSONValue.int)
    record["output_file"] = outputFile.map(JSONValue.string)
    record["error_file"] = errorFile.map(JSONValue.string)
    if !sums.isEmpty { record["result_checksums"] = .array(sums.map(JSONValue.string)) }
    return .object(record)
  }

  init?(_ record: JSONValue) {
    guard let id = record["id"]?.stringValue, let api = record["api"]?.stringValue.flatMap(API.init),
      let created = record["created"]?.recordedTime, let endpoint = record["endpoint"]?.stringValue,
      let total = record["total"]?.recordedCount, let phase = record["phase"]?.stringValue.flatMap(Phase.init)
    else { return nil }
    func number(_ name: String) -> UInt64 { record["client"]?[name]?.stringValue.flatMap { UInt64($0) } ?? 0 }
    let client = ClientIdentity(
      number: number("number"), name: record["client"]?["name"]?.stringValue, key: number("key"),
      isAdmin: false)
    self.init(id: id, api: api, client: client, created: created, endpoint: endpoint)
    owner = record["owner"]?.stringValue
    inputFile = record["input_file"]?.stringValue ?? ""
    metadata = record["metadata"]?.objectValue
    outputSeconds = record["output_seconds"]?.recordedCount
    model = record["model"]?.stringValue
    self.total = total
    self.phase = phase
    ending = record["ending"]?.stringValue.flatMap(Ending.init)
    let counts = record["counts"]?.arrayValue?.compactMap(\.recordedCount) ?? []
    if counts.count == 4 {
      self.counts = Counts(
        succeeded: counts[0], errored: counts[1], cancelled: counts[2], expired: counts[3])
    }
    usage = BatchUsage(record["usage"])
    faults = record["faults"]?.arrayValue ?? []
    stopped = record["stopped"]?.recordedTime
    finalized = record["finalized"]?.recordedTime
    ended = record["ended"]?.recordedTime
    outputFile = record["output_file"]?.stringValue.flatMap(Self.fileName)
    errorFile = record["error_file"]?.stringValue.flatMap(Self.fileName)
    sums = (record["result_checksums"]?.arrayValue ?? []).compactMap(\.stringValue)
  }

  /// The name of a file here, and nothing that leads elsewhere.
  private static func fileName(_ name: String) -> String? {
    name.utf8.contains(UInt8(ascii: "/")) || name.utf8.contains(0) ? nil : name
  }
}
