// The conversation of a request while a wire's reader writes it down: messages, media, and the calls they made.

import JSON

/// Messages as objects for the chat template, with placeholders for images and audio. The rules that hold on every wire
/// are here; errors name the fields that the reader says.
struct Transcript {
  private let limits: RequestLimits
  private(set) var messages: [JSONValue] = []
  /// What the placeholders in the messages stand for.
  private(set) var media: [MediaPart] = []
  private var callIDs: Set<ByteKey> = []

  init(limits: RequestLimits) { self.limits = limits }

  mutating func append(_ message: JSONValue) { messages.append(message) }

  /// Leaves out all messages but the system's.
  mutating func forget() { messages.removeAll { $0["role"] != "system" && $0["role"] != "developer" } }

  /// What stands for an image or audio in its message.
  mutating func placeholder(of part: MediaPart) throws(APIError) -> JSONValue {
    guard media.count < limits.mediaParts else {
      throw .invalidValue(part.path, "a request holds at most \(limits.mediaParts) images and audio")
    }
    media.append(part)
    return part.placeholder(index: media.count - 1)
  }

  /// Remembers a call, so that a result can answer it.
  mutating func addCall(_ id: String) { callIDs.insert(ByteKey(id)) }

  /// Whether a result with this id answers a call of an earlier message.
  func hasCall(_ id: String) -> Bool { callIDs.contains(ByteKey(id)) }

  /// - Parameter field: the one that holds the id of the call.
  func checkCall(_ id: String, field: String) throws(APIError) {
    guard hasCall(id) else {
      throw .invalidValue(field, "no earlier assistant message has a tool call '\(APIError.shortened(id))'")
    }
  }

  /// - Parameter field: the one that holds the messages. A wire may make several messages of one of its own.
  func checkCount(field: String) throws(APIError) {
    try APIError.check(count: messages.count, atMost: limits.messages, field: field)
  }
}
