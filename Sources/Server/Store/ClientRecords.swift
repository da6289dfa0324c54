// Stored responses, conversations and chat completions as one client sees them: its own, and those that belong to nobody.
//
// A client with a key sees what was stored with that key, or with another one of the same name. Records of a server
// without keys are nobody's: everybody could read them when they were written. Whatever is somebody else's does not
// exist for a client, in every answer and in references to items, whose ids clients may choose themselves.

import HTTP
import JSON
import Platform
import Wire

struct ClientRecords: Sendable {
  private let responses: RecordStore
  private let conversations: RecordStore
  private let completions: RecordStore
  /// What is written into this client's records; nil for a client without a key.
  private let owner: String?
  /// Where the values of records are claimed.
  private let memory: MemoryLoan?
  /// Why a record was not read.
  private let fault = Monitor<APIError?>(nil)

  init(
    responses: RecordStore, conversations: RecordStore, completions: RecordStore, client: ClientIdentity,
    memory: MemoryLoan? = nil
  ) {
    self.memory = memory
    self.completions = completions
    self.responses = responses
    self.conversations = conversations
    owner = client.name == nil ? nil : String(client.number, radix: 16)
  }

  private func sees(_ owner: String?) -> Bool { owner == nil || owner == self.owner }

  // MARK: Reading

  private func reserve(_ weight: Int) -> Bool {
    guard let memory, !memory.extend(by: weight) else { return true }
    fault.withLock { $0 = .outOfMemory(needed: weight, limit: memory.limit) }
    return false
  }

  /// The value of a record's bytes, for which is claimed what it takes to read them into values, write them again and describe
  /// them. Nil where that is not to be had, as if the record was not there; `check` says so.
  private func value<Record>(_ bytes: [UInt8]?, _ make: ([UInt8]) -> Record?) -> Record? {
    guard let bytes, memory == nil || reserve(2 * JSONValue.weight(of: bytes) + 3 * bytes.count) else {
      return nil
    }
    return make(bytes)
  }

  /// A record that this client sees. Nil too where it cannot be read now; `check` says so.
  private func read<Record>(_ store: RecordStore, _ id: String, _ make: ([UInt8]) -> Record?) -> Record? {
    guard let head = store.head(id), sees(head.owner) else { return nil }
    do throws(PlatformError) {
      return value(try store.get(id, reserve: reserve), make)
    } catch {
      fault.withLock { $0 = APIError(storing: error) }
      return nil
    }
  }

  /// Changes a record as one step; nil when this client sees none.
  private func change<Record>(
    _ store: RecordStore, _ id: String, _ make: ([UInt8]) -> Record?, _ bytes: (Record) -> [UInt8],
    _ change: (inout Record) -> Void
  ) throws(PlatformError) -> Record? {
    var result: Record?
    guard let head = store.head(id), sees(head.owner) else { return nil }
    try store.update(id, reserve: reserve) { old in
      guard var record = value(old, make) else { return nil }
      change(&record)
      result = record
      return bytes(record)
    }
    return result
  }

  /// False when this client sees none.
  private func remove(_ store: RecordStore, _ id: String) throws(PlatformError) -> Bool {
    guard let head = store.head(id), sees(head.owner) else { return false }
    return try store.remove(id)
  }

  /// - Throws: why a record was not read: 503 for want of memory, or what the disk says.
  func check() throws(APIError) {
    if let fault = fault.withLock({ $0 }) { throw fault }
  }

  // MARK: Responses

  func response(_ id: String) -> StoredResponse? { read(responses, id, StoredResponse.init) }

  func put(_ response: StoredResponse) throws(PlatformError) {
    try responses.put(response.id, owned(response).bytes)
  }

  /// Replaces a response that is still stored; one deleted meanwhile stays deleted.
  func replace(_ response: StoredResponse) throws(PlatformError) {
    try responses.replace(response.id, owned(response).bytes)
  }

  /// Keeps a response that could not be stored for as long as the process lives.
  func hold(_ response: StoredResponse) { responses.hold(response.id, owned(response).bytes) }

  private func owned(_ response: StoredResponse) -> StoredResponse {
    var response = response
    response.owner = owner
    return response
  }

  /// False when there is none.
  func removeResponse(_ id: String) throws(PlatformError) -> Bool {
    try remove(responses, id)
  }

  // MARK: Items

  /// What the store finds these items by: an id alone would be the same for two clients that chose it.
  static func partNames(_ items: [JSONValue], owner: String?) -> [String] {
    items.compactMap { $0["id"]?.stringValue.map { partName($0, owner: owner) } }
  }

  private static func partName(_ id: String, owner: String?) -> String { (owner ?? "") + "/" + id }

  /// An item of any response or conversation that this client sees, its own ones first.
  func item(_ id: String) -> JSONValue? {
    item(id, owner: owner) ?? (owner == nil ? nil : item(id, owner: nil))
  }

  private func item(_ id: String, owner: String?) -> JSONValue? {
    let name = Self.partName(id, owner: owner)
    let items =
      responses.id(ofPart: name).flatMap(response)?.items
      ?? conversations.id(ofPart: name).flatMap(conversation)?.items
    return items?.last { $0.hasID(id) }
  }

  // MARK: Conversations

  func conversation(_ id: String) -> StoredConversation? {
    read(conversations, id, StoredConversation.init)
  }

  /// A conversation as the API shows it, its items not read, and its bytes with its items, as JSON.
  func conversationObject(_ id: String) -> (json: JSONValue, bytes: Int)? {
    guard let head = conversations.head(id), sees(head.owner),
      let object = try? JSONValue(parsing: head.bytes)
    else { return nil }
    return (object, head.count)
  }

  func put(_ conversation: StoredConversation) throws(PlatformError) {
    var conversation = conversation
    conversation.owner = owner
    try conversations.put(conversation.id, conversation.bytes)
  }

  /// False when there is none.
  func removeConversation(_ id: String) throws(PlatformError) -> Bool {
    try remove(conversations, id)
  }

  /// Changes a conversation as one step; nil when there is none. It stays whose it was.
  func updateConversation(
    _ id: String, _ change: (inout StoredConversation) -> Void
  ) throws(PlatformError) -> StoredConversation? {
    try self.change(conversations, id, StoredConversation.init, \.bytes, change)
  }
}

// MARK: Chat completions

extension ClientRecords {
  func completion(_ id: String) -> StoredCompletion? {
    read(completions, id, StoredCompletion.init)
  }

  /// What is told of each to choose among them, the oldest first.
  func completionHeads() -> [StoredCompletion.Head] {
    completions.ids.compactMap { id in
      completions.head(id).flatMap { sees($0.owner) ? StoredCompletion.Head($0.bytes) : nil }
    }.sorted { ($0.created, $0.id) < ($1.created, $1.id) }
  }

  func put(_ completion: StoredCompletion) throws(PlatformError) {
    var completion = completion
    completion.owner = owner
    try completions.put(completion.head.id, completion.bytes)
  }

  /// Changes a completion as one step; nil when there is none. It stays whose it was.
  func updateCompletion(
    _ id: String, _ change: (inout StoredCompletion) -> Void
  ) throws(PlatformError) -> StoredCompletion? {
    try self.change(completions, id, StoredCompletion.init, \.bytes, change)
  }

  /// False when there is none.
  func removeCompletion(_ id: String) throws(PlatformError) -> Bool {
    try remove(completions, id)
  }
}

extension JSONValue {
  /// Whether it is the item of this id, byte for byte.
  func hasID(_ id: String) -> Bool { self["id"]?.stringValue.map { $0.utf8.elementsEqual(id.utf8) } ?? false }
}
