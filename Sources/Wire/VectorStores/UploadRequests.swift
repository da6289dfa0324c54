// Bodies of /v1/uploads: a file that comes in parts.

package import JSON

/// POST /v1/uploads.
package struct UploadRequest: Sendable {
  package var bytes: Int
  package var name: String
  package var type: String
  package var purpose: String
  /// How long the file is kept, seconds; nil for ever.
  package var expirySeconds: Int?
  /// Top-level fields that nobody knows.
  package var ignored: [String]

  /// - Throws: the first problem found, with the path of its field.
  package init(_ body: JSONValue) throws(APIError) {
    var fields = try Fields(body)
    guard let bytes = try fields.integer("bytes", in: 1...Int(Int32.max)) else { throw .missing("bytes") }
    self.bytes = bytes
    name = try fields.requiredString("filename")
    type = try fields.requiredString("mime_type")
    purpose = try fields.requiredString("purpose")
    if var expiry = try fields.fields("expires_after") {
      guard try expiry.word("anchor", of: ["created_at"]) != nil else {
        throw .missing("expires_after.anchor")
      }
      guard let seconds = try expiry.integer("seconds", in: 60...2_592_000) else {
        throw .missing("expires_after.seconds")
      }
      expirySeconds = seconds
    }
    ignored = fields.unread
  }
}

/// POST /v1/uploads/{id}/complete.
package struct UploadCompletion: Sendable {
  /// In the order of the file's bytes.
  package var parts: [String]
  package var md5: String?
  /// Top-level fields that nobody knows.
  package var ignored: [String]

  /// - Throws: the first problem found, with the path of its field.
  package init(_ body: JSONValue) throws(APIError) {
    var fields = try Fields(body)
    parts = try fields.requiredTexts("part_ids", maxCount: 1_000)
    md5 = try fields.string("md5", maxBytes: 32)
    ignored = fields.unread
  }
}
