// Stored responses and conversations, and the store of these and of chat completions.

import HTTP
import JSON
import Pipeline
package import Platform
import Wire

/// Everything that is kept of a response.
struct StoredResponse: Sendable, Equatable {
  /// Whose it is; nil for everybody's.
  var owner: String?
  /// The response object.
  var body: JSONObject
  /// Items of the turns before it.
  var context: [JSONValue]
  /// Its own input items.
  var input: [JSONValue]
  /// How its stream was cut, per output item.
  var cuts: [ResponseEventWriter.Cuts] = []
  var reasoning = ReasoningEvents.openai
  /// Searches in files with their results, which the body may not have.
  var searches: [JSONValue] = []
  /// Answers of its conversation whose tokens are not the tokenizer's.
  var written: [WrittenAnswer] = []

  var id: String { body["id"]?.stringValue ?? "" }
  var status: String { body["status"]?.stringValue ?? "" }
  var isRunning: Bool { status == "queued" || status == "in_progress" }
  /// The items of its own turn.
  var items: [JSONValue] {
    input
      + (body["output"]?.arrayValue ?? []).map { item in
        guard item["type"] == "file_search_call" else { return item }
        return searches.last { $0["id"] == item["id"] } ?? item
      }
  }
  /// What a response that goes on from this one begins with.
  var conversation: [JSONValue] { context + items }

  var bytes: [UInt8] {
    let cuts = cuts.map { own -> JSONValue in
      [
        "bytes": .array(own.bytes.map(JSONValue.int)), "logprobs": .array(own.logprobs.map(JSONValue.int)),
        "annotations": .array(own.annotations.map(JSONValue.int)),
      ]
    }
    var record = JSONObject([
      ("body", .object(body)), ("context", .array(context)), ("input", .array(input)),
      ("cuts", .array(cuts)), ("reasoning", .string(reasoning.rawValue)),
    ])
    record["owner"] = owner.map(JSONValue.string)
    if !searches.isEmpty { record["searches"] = .array(searches) }
    record["written"] = WrittenAnswer.record(of: written)
    return JSONValue.object(record).bytes
  }

  init(
    body: JSONObject, context: [JSONValue], input: [JSONValue], cuts: [ResponseEventWriter.Cuts] = [],
    reasoning: ReasoningEvents
  ) {
    self.body = body
    self.context = context
    self.input = input
    self.cuts = cuts
    self.reasoning = reasoning
  }

  init?(_ bytes: [UInt8]) {
    guard let record = try? JSONValue(parsing: bytes), let body = record["body"]?.objectValue,
      let context = record["context"]?.arrayValue, let input = record["input"]?.arrayValue,
      let cuts = record["cuts"]?.arrayValue,
      let reasoning = record["reasoning"]?.stringValue.flatMap(ReasoningEvents.init)
    else { return nil }
    self.init(
      body: body, context: context, input: input, cuts: cuts.map(Self.cuts), reasoning: reasoning)
    owner = record["owner"]?.stringValue
    searches = record["searches"]?.arrayValue ?? []
    written = WrittenAnswer.all(inRecord: record)
  }

  private static func cuts(_ value: JSONValue) -> ResponseEventWriter.Cuts {
    var cuts = ResponseEventWriter.Cuts()
    cuts.bytes = (value["bytes"]?.arrayValue ?? []).compactMap(\.intValue).map { max(0, $0) }
    cuts.logprobs = (value["logprobs"]?.arrayValue ?? []).compactMap(\.intValue).map { max(0, $0) }
    cuts.annotations = (value["annotations"]?.arrayValue ?? []).compactMap(\.intValue).map { max(0, $0) }
    return cuts
  }

  static func describe(_ bytes: [UInt8]) -> RecordStore.Description {
    guard let record = StoredResponse(bytes) else { return RecordStore.Description(parts: []) }
    return RecordStore.Description(
      id: record.id, owner: record.owner, parts: ClientRecords.partNames(record.items, owner: record.owner),
      head: record.isRunning ? running : [])
  }

  /// What is kept in memory of one that is under way.
  fileprivate static let running = Array("running".utf8)

  /// Every event of its stream, as it was sent.
  var events: [ResponseEvent] { ResponseReplay.events(of: body, cuts: cuts, reasoning: reasoning) }
}

struct StoredConversation: Sendable, Equatable {
  /// Whose it is; nil for everybody's.
  var owner: String?
  var id: String
  var createdAt: Int
  var metadata: JSONValue
  var items: [JSONValue]
  /// Answers in it whose tokens are not the tokenizer's.
  var written: [WrittenAnswer] = []

  var json: JSONValue { ConversationObject.json(id: id, createdAt: createdAt, metadata: metadata) }

  var bytes: [UInt8] {
    var record = JSONObject()
    record["owner"] = owner.map(JSONValue.string)
    record["conversation"] = json
    record["items"] = .array(items)
    record["written"] = WrittenAnswer.record(of: written)
    return JSONValue.object(record).bytes
  }

  init(id: String, createdAt: Int, metadata: JSONValue, items: [JSONValue]) {
    self.id = id
    self.createdAt = createdAt
    self.metadata = metadata
    self.items = items
  }

  /// The first member of a record but for the owner, who stands before it.
  static func first(_ name: String, of bytes: [UInt8]) -> (owner: String?, value: JSONValue)? {
    guard var reader = try? JSONReader(bytes), (try? reader.enterObject()) != nil else { return nil }
    var owner: String?
    var key: [UInt8] = []
    while (try? reader.nextKey(into: &key)) == true {
      guard let value = try? reader.readValue() else { return nil }
      if key.elementsEqual(name.utf8) { return (owner, value) }
      owner = value.stringValue
    }
    return nil
  }

  init?(_ bytes: [UInt8]) {
    guard let record = try? JSONValue(parsing: bytes), let conversation = record["conversation"],
      let id = conversation["id"]?.stringValue, let createdAt = conversation["created_at"]?.intValue,
      let items = record["items"]?.arrayValue
    else { return nil }
    self.init(id: id, createdAt: createdAt, metadata: conversation["metadata"] ?? [:], items: items)
    owner = record["owner"]?.stringValue
    written = WrittenAnswer.all(inRecord: record)
  }

  static func describe(_ bytes: [UInt8]) -> RecordStore.Description {
    guard let record = StoredConversation(bytes) else { return RecordStore.Description(parts: []) }
    return RecordStore.Description(
      id: record.id, owner: record.owner, parts: ClientRecords.partNames(record.items, owner: record.owner),
      head: record.json.bytes)
  }
}

extension WrittenAnswer {
  /// Tokens of answers that a record keeps, the latest: no more than a long context.
  private static let most = 1 << 16

  /// The member of a record that has them; nil for none.
  static func record(of answers: [WrittenAnswer]) -> JSONValue? {
    var tokens = 0
    let kept = answers.reversed().prefix {
      tokens += $0.tokens.count
      return tokens <= most
    }
    return kept.isEmpty ? nil : .array(kept.reversed().map(\.json))
  }

  static func all(inRecord record: JSONValue) -> [WrittenAnswer] {
    (record["written"]?.arrayValue ?? []).compactMap(WrittenAnswer.init)
  }
}

/// What the server remembers between requests.
package final class ResponseStore: Sendable {
  /// Bounds of the store, and where it is.
  package struct Settings: Sendable {
    /// Responses, and as many conversations and chat completions; the oldest go first.
    package var count = 1_000
    /// Of each of the three, as JSON: on the disk with a folder, and else in memory.
    package var bytes = 64 << 20
    /// Seconds after which they are forgotten.
    package var seconds = 30 * 24 * 3_600
    /// Where they live beyond the process; nil keeps them in memory.
    package var folder: String?
    /// Seconds since 1970.
    package var now: @Sendable () -> Int = { Int(Instant.wallSeconds) }

    package init() {}

    var limits: RecordStore.Limits { RecordStore.Limits(count: count, bytes: bytes, seconds: seconds) }
  }

  /// Of everything that is kept in memory.
  var byteCount: Int { responses.memoryBytes + conversations.memoryBytes + completions.memoryBytes }

  private let responses: RecordStore
  private let conversations: RecordStore
  private let completions: RecordStore
  private let lock: FolderLock?

  /// Reads what the folder holds. Responses that were under way when their server ended are failed now.
  ///
  /// - Throws: when the folder cannot be used, or another process uses it.
  package convenience init(_ settings: Settings, files: any FileSystem = SystemFiles()) throws(PlatformError)
  {
    guard let folder = settings.folder else {
      self.init(inMemory: settings)
      return
    }
    try files.makeFolder(folder)
    let lock = try FolderLock(folder: folder, files: files)
    func store(
      _ name: String, _ describe: @escaping @Sendable ([UInt8]) -> RecordStore.Description
    ) throws(PlatformError) -> RecordStore {
      let inner = folder + "/" + name
      try files.makeFolder(inner)
      return try RecordStore(
        limits: settings.limits, folder: inner, files: files, now: settings.now, describe: describe)
    }
    self.init(
      responses: try store(Self.folders[0], StoredResponse.describe),
      conversations: try store(Self.folders[1], StoredConversation.describe),
      completions: try store(Self.folders[2], StoredCompletion.describe), lock: lock)
    endInterrupted()
  }

  /// Keeps everything in memory.
  package convenience init() { self.init(inMemory: Settings()) }

  private convenience init(inMemory settings: Settings) {
    self.init(
      responses: RecordStore(
        limits: settings.limits, now: settings.now, describe: StoredResponse.describe),
      conversations: RecordStore(
        limits: settings.limits, now: settings.now, describe: StoredConversation.describe),
      completions: RecordStore(
        limits: settings.limits, now: settings.now, describe: StoredCompletion.describe), lock: nil)
  }

  private init(
    responses: RecordStore, conversations: RecordStore, completions: RecordStore, lock: FolderLock?
  ) {
    self.responses = responses
    self.conversations = conversations
    self.completions = completions
    self.lock = lock
  }

  /// Where responses, conversations and chat completions are, within the folder.
  static let folders = ["responses", "conversations", "completions"]

  /// Whether what is acknowledged reaches the folder.
  var health: StoreHealth { responses.health + conversations.health + completions.health }

  private func endInterrupted() {
    for id in responses.ids where responses.head(id).map(\.bytes) == StoredResponse.running {
      guard var record = (try? responses.get(id)).flatMap(StoredResponse.init) else { continue }
      record.body = ResponseObject.ended(
        record.body, .failed(message: "The server ended while the response was being made."), output: [],
        usage: nil, at: 0)
      do throws(PlatformError) {
        try responses.put(id, record.bytes)
      } catch {
        // The next start ends it again.
        responses.hold(id, record.bytes)
      }
    }
  }

  /// The store as one client sees it.
  func records(of client: ClientIdentity, memory: MemoryLoan? = nil) -> ClientRecords {
    ClientRecords(
      responses: responses, conversations: conversations, completions: completions, client: client,
      memory: memory)
  }
}
