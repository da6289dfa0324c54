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
    body = try fields.requiredMembers("body")
    try checkBody(name: "body")
  }

  /// A line as `json` makes it.
  package init?(kept line: JSONValue) {
    guard let id = line["custom_id"]?.stringValue, let body = line["body"]?.objectValue else { return nil }
    self.init(customID: id, body: body)
  }

  fileprivate static func id(_ fields: inout Fields) throws(APIError) -> String {
    let value = try fields.required(
      "custom_id", #"{"type": "string", "minLength": 1, "maxLength": \#(bytesOfID)}"#,
      "tells it from the others of its batch", like: #""1""#)
    let id = try fields.string("custom_id", maxBytes: bytesOfID) ?? value.stringValue ?? ""
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
package struct BatchCreation: RequestBody {
  /// What every request of the batch is for.
  package var endpoint: String
  package var inputFile: String
  package var metadata: JSONObject?
  /// How long its files are kept, seconds; nil for ever.
  package var outputSeconds: Int?
  package var ignored: [String] = []

  /// The endpoints of which there are batches.
  package static let endpoints = [
    "/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses",
  ]

  package init(_ fields: inout Fields) throws(APIError) {
    inputFile = try fields.requiredString("input_file_id", like: #""file-1""#)
    endpoint = try fields.requiredWord("endpoint", of: Self.endpoints)
    _ = try fields.requiredWord("completion_window", of: ["24h"])
    metadata = try Attributes.metadata(&fields)
    outputSeconds = try fields.lifetime("output_expires_after", in: 3_600...2_592_000)
  }
}

/// POST /v1/messages/batches.
package struct MessageBatchCreation: RequestBody {
  package var lines: [BatchLine]
  package var ignored: [String] = []

  /// Most requests of a batch.
  package static let mostRequests = 100_000

  package init(_ fields: inout Fields) throws(APIError) {
    var known: Set<ByteKey> = []
    let requests = try fields.objects("requests", maxCount: Self.mostRequests) { (request) throws(APIError) in
      let id = try BatchLine.id(&request)
      guard request.isNoted || known.insert(ByteKey(id)).inserted else {
        throw .invalidValue(request.name(of: "custom_id"), "another request of the batch has it")
      }
      let params = try request.requiredMembers(
        "params", like: #"{"model":"demo","max_tokens":64,"messages":[{"role":"user","content":"Hello!"}]}"#)
      let line = BatchLine(customID: id, body: params)
      try line.checkBody(name: request.name(of: "params"))
      return line
    }
    if requests == nil { _ = try fields.required("requests") }
    lines = requests ?? []
    guard fields.isNoted || !lines.isEmpty else { throw .invalidValue("requests", "it is empty") }
  }
}
