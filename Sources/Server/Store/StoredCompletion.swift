// A stored chat completion as a record.

import JSON
import Wire

struct StoredCompletion: Sendable, Equatable {
  /// What lists and filters look at: it stands first in a record, and is read alone.
  struct Head: Sendable, Equatable {
    var id: String
    /// Seconds since 1970.
    var created: Int
    var model: String
    var metadata: JSONValue

    init?(_ bytes: [UInt8]) {
      guard let value = try? JSONValue(parsing: bytes) else { return nil }
      self.init(value)
    }

    fileprivate init?(_ value: JSONValue) {
      guard let id = value["id"]?.stringValue, let created = value["created"]?.recordedTime,
        let model = value["model"]?.stringValue
      else { return nil }
      self.init(id: id, created: created, model: model, metadata: value["metadata"] ?? [:])
    }

    init(id: String, created: Int, model: String, metadata: JSONValue) {
      (self.id, self.created, self.model, self.metadata) = (id, created, model, metadata)
    }

    fileprivate var json: JSONValue {
      ["id": .string(id), "created": .int(created), "model": .string(model), "metadata": metadata]
    }
  }

  /// Whose it is; nil for everybody's.
  var owner: String?
  var head: Head
  /// The completion as it was answered.
  var body: JSONObject
  /// The messages of its request, as the client sent them.
  var messages: [JSONValue]

  /// As the API shows it.
  var json: JSONValue {
    var body = body
    body["metadata"] = head.metadata
    return .object(body)
  }

  var bytes: [UInt8] {
    var record = JSONObject()
    record["owner"] = owner.map(JSONValue.string)
    record["head"] = head.json
    record["completion"] = .object(body)
    record["messages"] = .array(messages)
    return JSONValue.object(record).bytes
  }

  init(head: Head, body: JSONObject, messages: [JSONValue]) {
    (self.head, self.body, self.messages) = (head, body, messages)
  }

  init?(_ bytes: [UInt8]) {
    guard let record = try? JSONValue(parsing: bytes), let head = record["head"].flatMap(Head.init),
      let body = record["completion"]?.objectValue, let messages = record["messages"]?.arrayValue
    else { return nil }
    self.init(head: head, body: body, messages: messages)
    owner = record["owner"]?.stringValue
  }

  static func describe(_ bytes: [UInt8]) -> RecordStore.Description {
    guard let found = StoredConversation.first("head", of: bytes), let head = Head(found.value) else {
      return RecordStore.Description(parts: [])
    }
    return RecordStore.Description(id: head.id, owner: found.owner, parts: [], head: head.json.bytes)
  }
}
