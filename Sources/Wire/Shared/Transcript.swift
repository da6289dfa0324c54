// The conversation of a request while a wire's reader writes it down: messages and media.

package import JSON

/// Messages as objects for the chat template, with placeholders for images and audio. The rules that hold on every wire
/// are here; errors name the fields that the reader says.
package struct Transcript {
  private let limits: RequestLimits
  private(set) var messages: [JSONValue] = []
  /// What the placeholders in the messages stand for.
  private(set) var media: [MediaPart] = []
  /// Paths of what is not shown to the model.
  private(set) var leftOut: [String] = []

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

  mutating func leaveOut(_ path: String) { leftOut.append(path) }

  /// The conversation with what known clients change in every request left out, or behind everything else.
  var settled: Transcript {
    var transcript = self
    for rule in MovingLines.allCases where !limits.keptLines.contains(rule) {
      if rule.apply(to: &transcript.messages) { transcript.leaveOut("moving=\(rule.rawValue)") }
    }
    return transcript
  }

  /// A block of a tool's result of a kind that this server does not know, as a part that every model can read: its own
  /// text, the name of a tool that it refers to, else all of it as JSON.
  ///
  /// - Throws: 400 for one that holds bytes of something else than text.
  static func part(of block: Fields, type: String) throws(APIError) -> JSONValue {
    guard !foreignMedia.contains(type) else {
      throw .invalidValue(
        "\(block.path).type", "'\(APIError.shortened(type))' cannot stand in a tool's result")
    }
    var object = block.object
    object["cache_control"] = nil
    let text = object[type == "tool_reference" ? "tool_name" : "text"]?.stringValue
    return ["type": "text", "text": .string(text ?? JSONValue.object(object).text)]
  }

  /// Types of such blocks.
  package static let foreignMedia = [
    "image", "image_url", "input_image", "audio", "input_audio", "video", "video_url", "input_video", "file",
    "input_file", "document",
  ]

  /// - Parameter field: the one that holds the messages. A wire may make several messages of one of its own.
  func checkCount(field: String) throws(APIError) {
    try APIError.check(count: messages.count, atMost: limits.messages, field: field)
  }
}

extension JSONValue {
  /// The assistant's message with one call of a function.
  package static func toolCall(id: String, _ name: String, arguments: String) -> JSONValue {
    [
      "role": "assistant",
      "tool_calls": [
        [
          "id": .string(id), "type": "function",
          "function": ["name": .string(name), "arguments": .string(arguments)],
        ]
      ],
    ]
  }
}
