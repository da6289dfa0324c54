// Batches of requests on two wires: what begins one, and the lines that its requests are kept in.

package import JSON

/// One request of a batch, as it is kept: a line of JSON.
package struct BatchLine: Sendable, Equatable {
  /// Tells it from the others of its batch.
  package var customID: String
  /// What is sent to the endpoint.
  package var body: JSONObject

  package init(customID: String, body: JSONObject) {
    self.customID = customID
    self.body = body
  }

  private static let bytesOfID = 512

  /// A line of a file for /v1/batches.
  ///
  /// - Parameter endpoint: what every line must name as its `url`.
  /// - Throws: what is wrong, with the path of its field.
  package init(_ line: JSONValue, endpoint: String) throws(APIError) {
    var fields = try Fields(line)
    customID = try Self.id(&fields)
    let method = try fields.requiredString("method")
    guard method.uppercased() == "POST" else { throw .invalidValue("method", "expected 'POST'") }
    let url = try fields.requiredString("url")
    guard url.utf8.elementsEqual(endpoint.utf8) else {
      throw APIError(
        status: 400, code: "mismatched_endpoint", param: "url",
        message: "The url '\(APIError.shortened(url))' is not the batch's endpoint, '\(endpoint)'.")
    }
    guard let body = try fields.object("body") else { throw .missing("body") }
    self.body = body
    try checkBody(name: "body")
  }

  /// A line as `json` makes it.
  package init?(kept line: JSONValue) {
    guard let id = line["custom_id"]?.stringValue, let body = line["body"]?.objectValue else { return nil }
    self.init(customID: id, body: body)
  }

  fileprivate static func id(_ fields: inout Fields) throws(APIError) -> String {
    guard let id = try fields.string("custom_id", maxBytes: bytesOfID) else {
      throw .missing(fields.name(of: "custom_id"))
    }
    guard !id.utf8.isEmpty else { throw .invalidValue(fields.name(of: "custom_id"), "it is empty") }
    return id
  }

  /// Refuses what has no place in a batch: nobody reads a stream of it or asks for the answer later.
  fileprivate func checkBody(name: String) throws(APIError) {
    for field in ["stream", "background"] where body[field]?.boolValue == true {
      throw .unsupportedValue("\(name).\(field)", "the answers of a batch are whole")
    }
  }

  package var json: JSONValue { ["custom_id": .string(customID), "body": .object(body)] }
}

/// POST /v1/batches.
package struct BatchCreation: Sendable {
  /// What every request of the batch is for.
  package var endpoint: String
  package var inputFile: String
  package var metadata: JSONObject?
  /// How long its files are kept, seconds; nil for ever.
  package var outputSeconds: Int?
  /// Top-level fields that nobody knows.
  package var ignored: [String]

  /// The endpoints of which there are batches.
  package static let endpoints = [
    "/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses",
  ]

  /// - Throws: the first problem found, with the path of its field.
  package init(_ body: JSONValue) throws(APIError) {
    var fields = try Fields(body)
    inputFile = try fields.requiredString("input_file_id")
    guard let endpoint = try fields.word("endpoint", of: Self.endpoints) else { throw .missing("endpoint") }
    self.endpoint = endpoint
    guard try fields.word("completion_window", of: ["24h"]) != nil else {
      throw .missing("completion_window")
    }
    metadata = try Attributes.metadata(&fields)
    if var expiry = try fields.fields("output_expires_after") {
      guard try expiry.word("anchor", of: ["created_at"]) != nil else {
        throw .missing("output_expires_after.anchor")
      }
      guard let seconds = try expiry.integer("seconds", in: 3_600...2_592_000) else {
        throw .missing("output_expires_after.seconds")
      }
      outputSeconds = seconds
    }
    ignored = fields.unread
  }
}

/// POST /v1/messages/batches.
package struct MessageBatchCreation: Sendable {
  package var lines: [BatchLine]
  /// Top-level fields that nobody knows.
  package var ignored: [String]

  /// Most requests of a batch.
  package static let mostRequests = 100_000

  /// - Throws: the first problem found, with the path of its field.
  package init(_ body: JSONValue) throws(APIError) {
    var fields = try Fields(body)
    guard let requests = try fields.array("requests", maxCount: Self.mostRequests) else {
      throw .missing("requests")
    }
    guard !requests.isEmpty else { throw .invalidValue("requests", "it is empty") }
    lines = []
    var known: Set<ByteKey> = []
    for (index, value) in requests.enumerated() {
      var request = try Fields(value, path: "requests[\(index)]")
      let id = try BatchLine.id(&request)
      guard known.insert(ByteKey(id)).inserted else {
        throw .invalidValue(request.name(of: "custom_id"), "another request of the batch has it")
      }
      guard let body = try request.object("params") else { throw .missing(request.name(of: "params")) }
      let line = BatchLine(customID: id, body: body)
      try line.checkBody(name: request.name(of: "params"))
      lines.append(line)
    }
    ignored = fields.unread
  }
}
