// Files, vector stores and what is in them, as records on disk and as objects of the API.

import JSON
import Platform
import Wire

extension JSONValue {
  /// A size or a count of a record; nil beyond what sums of them can take, since a file may say anything.
  var recordedCount: Int? { intValue.flatMap { (0...1 << 40).contains($0) ? $0 : nil } }

  /// A time of a record, seconds since 1970; nil beyond what can be added to and subtracted from.
  var recordedTime: Int? {
    intValue.flatMap { (-(1 << 40)...1 << 40).contains($0) ? $0 : nil }
  }
}

/// A file that a client has sent.
struct FileRecord: Sendable, Equatable {
  var id: String
  /// Whose it is; nil for everybody's.
  var owner: String?
  var bytes: Int
  var created: Int
  var name: String
  var purpose: String
  var contentType: String
  var expires: Int?
  /// Of its bytes; nil for files of earlier versions.
  var checksum: String?

  /// About the bytes that a record takes in memory.
  static let byteCount = 800
  /// The same as JSON.
  static let jsonByteCount = 1_500

  var json: JSONValue {
    var object = JSONObject([
      ("id", .string(id)), ("object", "file"), ("bytes", .int(bytes)), ("created_at", .int(created)),
      ("filename", .string(name)), ("purpose", .string(purpose)), ("status", "processed"),
    ])
    if let expires { object["expires_at"] = .int(expires) }
    return .object(object)
  }

  /// The file as Anthropic's clients know one.
  var messagesJSON: JSONValue {
    [
      "id": .string(id), "type": "file", "filename": .string(name), "mime_type": .string(contentType),
      "size_bytes": .int(bytes), "created_at": .string(Timestamp.text(seconds: Double(created))),
      "downloadable": true, "expires_at": expires.map { .string(Timestamp.text(seconds: Double($0))) } ?? nil,
    ]
  }

  var record: JSONValue {
    [
      "file": json, "owner": owner.map(JSONValue.string) ?? nil, "content_type": .string(contentType),
      "content_checksum": checksum.map(JSONValue.string) ?? nil,
    ]
  }

  /// Longest time that a client may give a file, seconds.
  static let longestLife = 30 * 86_400

  func isExpired(now: Int) -> Bool { expires.map { $0 <= now } ?? false }

  init(id: String, owner: String?, bytes: Int, created: Int, name: String, purpose: String) {
    (self.id, self.owner, self.bytes, self.created) = (id, owner, bytes, created)
    (self.name, self.purpose) = (name, purpose)
    contentType = "application/octet-stream"
  }

  init?(_ record: JSONValue) {
    let file = record["file"]
    guard let id = file?["id"]?.stringValue, let bytes = file?["bytes"]?.recordedCount,
      let created = file?["created_at"]?.recordedTime, let name = file?["filename"]?.stringValue,
      let purpose = file?["purpose"]?.stringValue
    else { return nil }
    self.init(
      id: id, owner: record["owner"]?.stringValue, bytes: bytes, created: created, name: name,
      purpose: purpose)
    contentType = record["content_type"]?.stringValue ?? contentType
    expires = file?["expires_at"]?.recordedTime
    checksum = record["content_checksum"]?.stringValue
  }
}

/// How far a file of a store is.
enum EntryStatus: String, Sendable, CaseIterable {
  case inProgress = "in_progress"
  case completed, failed, cancelled
}

/// A file in a store.
struct EntryRecord: Sendable, Equatable {
  var file: String
  var store: String
  var created: Int
  var status = EntryStatus.inProgress
  var bytes = 0
  var attributes = JSONObject()
  var strategy = ChunkingStrategy()
  var error: (code: String, message: String)?
  /// The batch that it came with.
  var batch: String?
  /// Counts changes: work that was begun for an earlier one is dropped.
  var turn = 0

  /// About the bytes that it takes in memory.
  var byteCount: Int { 600 + (error?.message.utf8.count ?? 0) + attributes.byteCount }
  /// The same of its JSON beside it, as values and as text.
  var jsonByteCount: Int { 2_000 + 2 * byteCount }

  /// What putting entries into a store takes: themselves twice, and one of them at a time as a record on its way to a file.
  static func bytesToAdd(_ entries: [EntryRecord]) -> Int {
    entries.reduce(0) { $0 + 2 * $1.byteCount } + (entries.map(\.jsonByteCount).max() ?? 0)
  }

  static func == (a: EntryRecord, b: EntryRecord) -> Bool { a.record == b.record }

  var json: JSONValue {
    [
      "id": .string(file), "object": "vector_store.file", "created_at": .int(created),
      "vector_store_id": .string(store), "status": .string(status.rawValue), "usage_bytes": .int(bytes),
      "last_error": error.map { ["code": .string($0.code), "message": .string($0.message)] } ?? nil,
      "attributes": .object(attributes), "chunking_strategy": strategy.json,
    ]
  }

  var record: JSONValue { ["entry": json, "batch": batch.map(JSONValue.string) ?? nil, "turn": .int(turn)] }

  init(file: String, store: String, created: Int) {
    (self.file, self.store, self.created) = (file, store, created)
  }

  init?(_ record: JSONValue) {
    let entry = record["entry"]
    guard let file = entry?["id"]?.stringValue, let store = entry?["vector_store_id"]?.stringValue,
      let created = entry?["created_at"]?.recordedTime,
      let status = entry?["status"]?.stringValue.flatMap(EntryStatus.init)
    else { return nil }
    self.init(file: file, store: store, created: created)
    self.status = status
    bytes = entry?["usage_bytes"]?.recordedCount ?? 0
    attributes = entry?["attributes"]?.objectValue ?? JSONObject()
    strategy = (try? ChunkingStrategy(entry?["chunking_strategy"], name: "")) ?? ChunkingStrategy()
    if let code = entry?["last_error"]?["code"]?.stringValue {
      error = (code, entry?["last_error"]?["message"]?.stringValue ?? "")
    }
    batch = record["batch"]?.stringValue
    turn = record["turn"]?.recordedCount ?? 0
  }
}

/// Numbers of files by status.
struct FileCounts: Sendable, Equatable {
  var inProgress = 0
  var completed = 0
  var failed = 0
  var cancelled = 0

  init(_ entries: some Sequence<EntryRecord>) {
    for entry in entries {
      switch entry.status {
      case .inProgress: inProgress += 1
      case .completed: completed += 1
      case .failed: failed += 1
      case .cancelled: cancelled += 1
      }
    }
  }

  var total: Int { inProgress + completed + failed + cancelled }

  var json: JSONValue {
    [
      "in_progress": .int(inProgress), "completed": .int(completed), "failed": .int(failed),
      "cancelled": .int(cancelled), "total": .int(total),
    ]
  }
}

/// A vector store.
struct StoreRecord: Sendable, Equatable {
  var id: String
  var owner: String?
  var created: Int
  var name = ""
  var description: String?
  var metadata = JSONObject()
  var expiry: ExpiryRule?
  var lastActive: Int
  /// The model that was asked for; nil for the server's.
  var model: String?
  /// The folder of the index that answers, in the store's own.
  var index: String?
  /// Components of its vectors.
  var dimensions = 0
  /// Names the model of the index; nil in versions that did not write it.
  var fingerprint: String?

  init(id: String, owner: String?, created: Int) {
    (self.id, self.owner, self.created) = (id, owner, created)
    lastActive = created
  }

  var expires: Int? { expiry.map { lastActive + $0.days * 86_400 } }

  func isExpired(now: Int) -> Bool { expires.map { $0 <= now } ?? false }

  func json(_ entries: [EntryRecord], now: Int) -> JSONValue {
    let counts = FileCounts(entries)
    let status = isExpired(now: now) ? "expired" : counts.inProgress > 0 ? "in_progress" : "completed"
    var object = JSONObject([
      ("id", .string(id)), ("object", "vector_store"), ("created_at", .int(created)), ("name", .string(name)),
      ("usage_bytes", .int(entries.reduce(0) { $0 + $1.bytes })), ("file_counts", counts.json),
      ("status", .string(status)), ("last_active_at", .int(lastActive)), ("metadata", .object(metadata)),
    ])
    if let description { object["description"] = .string(description) }
    if let expiry { object["expires_after"] = expiry.json }
    if let expires { object["expires_at"] = .int(expires) }
    return .object(object)
  }

  var record: JSONValue {
    [
      "id": .string(id), "owner": owner.map(JSONValue.string) ?? nil, "created_at": .int(created),
      "name": .string(name), "description": description.map(JSONValue.string) ?? nil,
      "metadata": .object(metadata), "expires_after": expiry?.json ?? nil, "last_active_at": .int(lastActive),
      "model": model.map(JSONValue.string) ?? nil, "index": index.map(JSONValue.string) ?? nil,
      "dimensions": .int(dimensions), "fingerprint": fingerprint.map(JSONValue.string) ?? nil,
    ]
  }

  init?(_ record: JSONValue) {
    guard let id = record["id"]?.stringValue, let created = record["created_at"]?.recordedTime else {
      return nil
    }
    self.init(id: id, owner: record["owner"]?.stringValue, created: created)
    name = record["name"]?.stringValue ?? ""
    description = record["description"]?.stringValue
    metadata = record["metadata"]?.objectValue ?? JSONObject()
    expiry = record["expires_after"]?["days"]?.recordedCount.map { ExpiryRule(days: min($0, 365)) }
    lastActive = record["last_active_at"]?.recordedTime ?? created
    model = record["model"]?.stringValue
    // The name of a folder here, and nothing that leads elsewhere.
    index = record["index"]?.stringValue.flatMap { $0.utf8.contains(UInt8(ascii: "/")) ? nil : $0 }
    dimensions = record["dimensions"]?.recordedCount ?? 0
    fingerprint = record["fingerprint"]?.stringValue
  }
}

/// Files that were put into a store together.
struct BatchRecord: Sendable, Equatable {
  var id: String
  var store: String
  var created: Int
  var files: [String]
  var isCancelled = false

  /// About the bytes that it takes in memory.
  var byteCount: Int { 400 + files.count * 64 }

  func json(_ entries: [EntryRecord]) -> JSONValue {
    let counts = FileCounts(entries)
    let status =
      counts.inProgress > 0
      ? "in_progress"
      : isCancelled ? "cancelled" : counts.total > 0 && counts.failed == counts.total ? "failed" : "completed"
    return [
      "id": .string(id), "object": "vector_store.files_batch", "created_at": .int(created),
      "vector_store_id": .string(store), "status": .string(status), "file_counts": counts.json,
    ]
  }

  var record: JSONValue {
    [
      "id": .string(id), "store": .string(store), "created_at": .int(created),
      "files": .array(files.map(JSONValue.string)), "cancelled": .bool(isCancelled),
    ]
  }

  init(id: String, store: String, created: Int, files: [String]) {
    (self.id, self.store, self.created, self.files) = (id, store, created, files)
  }

  init?(_ record: JSONValue) {
    guard let id = record["id"]?.stringValue, let store = record["store"]?.stringValue,
      let created = record["created_at"]?.recordedTime
    else { return nil }
    self.init(
      id: id, store: store, created: created,
      files: (record["files"]?.arrayValue ?? []).compactMap(\.stringValue))
    isCancelled = record["cancelled"]?.boolValue ?? false
  }
}
