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
  private let shortage = Monitor(0)

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

  // MARK: Memory

  /// The bytes of a record that will be read into values, written again and described: claimed. Nil where they are not to
  /// be had, as if the record was not there; `check` says so.
  private func claimed(_ bytes: [UInt8]?) -> [UInt8]? {
    guard let bytes, let memory else { return bytes }
    let weight = 2 * JSONValue.weight(of: bytes) + 3 * bytes.count
    if memory.extend(by: weight) { return bytes }
    shortage.withLock { $0 = max($0, weight) }
    return nil
  }

  /// - Throws: 503 where a record was not read for want of memory.
  func check() throws(APIError) {
    let needed = shortage.withLock { $0 }
    if needed > 0 { throw .outOfMemory(needed: needed, limit: memory?.limit ?? 0) }
  }

  // MARK: Responses

  func response(_ id: String) -> StoredResponse? {
    guard let found = claimed(responses.get(id)).flatMap(StoredResponse.init), sees(found.owner) else {
      return nil
    }
    return found
  }

  func put(_ response: StoredResponse) throws(PlatformError) {
    try responses.put(response.id, owned(response).bytes)
  }

  /// Replaces a response that is still stored; one deleted meanwhile stays deleted.
  func replace(_ response: StoredResponse) throws(PlatformError) {
    try responses.update(response.id) { $0 == nil ? nil : owned(response).bytes }
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
    guard response(id) != nil else { return false }
    return try responses.remove(id)
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
    guard let found = claimed(conversations.get(id)).flatMap(StoredConversation.init), sees(found.owner)
    else {
      return nil
    }
    return found
  }

  /// A conversation as the API shows it, its items not read, and its bytes with its items, as JSON.
  func conversationObject(_ id: String) -> (json: JSONValue, bytes: Int)? {
    guard let bytes = conversations.get(id), let head = StoredConversation.head(bytes), sees(head.owner)
    else {
      return nil
    }
    return (head.object, bytes.count)
  }

  func put(_ conversation: StoredConversation) throws(PlatformError) {
    var conversation = conversation
    conversation.owner = owner
    try conversations.put(conversation.id, conversation.bytes)
  }

  /// False when there is none.
  func removeConversation(_ id: String) throws(PlatformError) -> Bool {
    guard conversationObject(id) != nil else { return false }
    return try conversations.remove(id)
  }

  /// Changes a conversation as one step; nil when there is none. It stays whose it was.
  func updateConversation(
    _ id: String, _ change: (inout StoredConversation) -> Void
  ) throws(PlatformError) -> StoredConversation? {
    var result: StoredConversation?
    try conversations.update(id) { bytes in
      guard var conversation = claimed(bytes).flatMap(StoredConversation.init), sees(conversation.owner)
      else {
        return nil
      }
      change(&conversation)
      result = conversation
      return conversation.bytes
    }
    return result
  }
}

// MARK: Chat completions

extension ClientRecords {
  func completion(_ id: String) -> StoredCompletion? {
    guard let found = claimed(completions.get(id)).flatMap(StoredCompletion.init), sees(found.owner) else {
      return nil
    }
    return found
  }

  /// What is told of each to choose among them, the oldest first.
  func completionHeads() -> [StoredCompletion.Head] {
    completions.ids.compactMap { id in
      guard let found = completions.get(id).flatMap(StoredCompletion.head), sees(found.owner) else {
        return nil
      }
      return found.head
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
    var result: StoredCompletion?
    try completions.update(id) { bytes in
      guard var completion = claimed(bytes).flatMap(StoredCompletion.init), sees(completion.owner) else {
        return nil
      }
      change(&completion)
      result = completion
      return completion.bytes
    }
    return result
  }

  /// False when there is none.
  func removeCompletion(_ id: String) throws(PlatformError) -> Bool {
    guard let found = completions.get(id).flatMap(StoredCompletion.head), sees(found.owner) else {
      return false
    }
    return try completions.remove(id)
  }
}

extension JSONValue {
  /// Whether it is the item of this id, byte for byte.
  func hasID(_ id: String) -> Bool { self["id"]?.stringValue.map { $0.utf8.elementsEqual(id.utf8) } ?? false }
}
