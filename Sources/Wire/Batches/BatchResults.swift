// The lines that a batch answers with, on two wires.

package import JSON

/// What became of one request of a batch.
package enum BatchOutcome: Sendable, Equatable {
  /// The status and the body of its answer, as bytes of JSON.
  case answered(status: Int, body: [UInt8], requestID: String)
  case cancelled
  /// The batch's time was over first.
  case expired

  /// Whether it is an answer, and not an error.
  package var isSuccess: Bool {
    if case .answered(let status, _, _) = self { (200..<300).contains(status) } else { false }
  }

  /// The line of a file that /v1/batches makes. There is none of a request that was cancelled.
  ///
  /// - Parameter id: of the line.
  package func line(id: String, customID: String) -> [UInt8] {
    let head = "{\"id\":\(JSONValue.string(id).text),\"custom_id\":\(JSONValue.string(customID).text),"
    switch self {
    case .answered(let status, let body, let requestID):
      let response =
        "\"response\":{\"status_code\":\(status),\"request_id\":\(JSONValue.string(requestID).text),\"body\":"
      return Array((head + response).utf8) + Self.oneLine(body) + Array("},\"error\":null}\n".utf8)
    case .cancelled, .expired:
      let error: JSONValue = [
        "code": self == .expired ? "batch_expired" : "batch_cancelled",
        "message": self == .expired
          ? "This request could not be executed before the completion window expired."
          : "This request was cancelled with its batch.",
      ]
      return Array((head + "\"response\":null,\"error\":" + error.text + "}\n").utf8)
    }
  }

  /// The line of a batch of messages.
  package func messagesLine(customID: String) -> [UInt8] {
    var line = Array("{\"custom_id\":\(JSONValue.string(customID).text),\"result\":{\"type\":".utf8)
    switch self {
    case .answered(_, let body, _):
      line += Array((isSuccess ? "\"succeeded\",\"message\":" : "\"errored\",\"error\":").utf8)
      line += Self.oneLine(body)
    case .cancelled: line += Array("\"canceled\"".utf8)
    case .expired: line += Array("\"expired\"".utf8)
    }
    return line + Array("}}\n".utf8)
  }

  /// A line feed between values of JSON means nothing, and would end the line.
  private static func oneLine(_ body: [UInt8]) -> [UInt8] {
    body.map { $0 == 0x0A || $0 == 0x0D ? 0x20 : $0 }
  }
}

/// Tokens of all answers of a batch.
package struct BatchUsage: Sendable, Equatable {
  package private(set) var input = 0
  package private(set) var cached = 0
  package private(set) var output = 0
  package private(set) var reasoning = 0

  package init() {}

  /// As `json` writes it.
  package init(_ value: JSONValue?) { add(value) }

  /// Adds the `usage` of an answer, in the words of any endpoint.
  package mutating func add(_ usage: JSONValue?) {
    guard let usage else { return }
    func count(_ names: [String], _ detail: String? = nil) -> Int {
      for name in names {
        let value = detail.map { usage[name]?[$0] } ?? usage[name]
        if let found = value?.intValue { return min(max(0, found), 1 << 40) }
      }
      return 0
    }
    input &+= count(["input_tokens", "prompt_tokens"])
    output &+= count(["output_tokens", "completion_tokens"])
    cached &+= count(["input_tokens_details", "prompt_tokens_details"], "cached_tokens")
    reasoning &+= count(["output_tokens_details", "completion_tokens_details"], "reasoning_tokens")
  }

  package var json: JSONValue {
    [
      "input_tokens": .int(input), "input_tokens_details": ["cached_tokens": .int(cached)],
      "output_tokens": .int(output), "output_tokens_details": ["reasoning_tokens": .int(reasoning)],
      "total_tokens": .int(input &+ output),
    ]
  }
}
