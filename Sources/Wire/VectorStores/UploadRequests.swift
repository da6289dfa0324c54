// Bodies of /v1/uploads: a file that comes in parts.

/// POST /v1/uploads.
package struct UploadRequest: RequestBody {
  package let bytes: Int
  package let name: String
  package let type: String
  package let purpose: String
  /// How long the file is kept, seconds; nil for ever.
  package let expirySeconds: Int?
  package var ignored: [String] = []

  package init(_ fields: inout Fields) throws(APIError) {
    let most = fields.limits.fileBytes
    _ = fields.value("bytes", Shape.integer(1...most), like: "6")
    bytes = try fields.requiredInteger("bytes", in: 1...Int(Int32.max))
    name = try fields.requiredString("filename", like: #""notes.txt""#)
    type = try fields.requiredString("mime_type", like: #""text/plain""#)
    _ = try fields.required(
      "purpose", Shape.words(["assistants", "batch", "user_data", "vision"]), like: #""user_data""#)
    purpose = try fields.requiredString("purpose")
    expirySeconds = try fields.lifetime("expires_after", in: 60...2_592_000)
  }
}

extension Fields {
  /// How long something is kept after it was made, seconds.
  mutating func lifetime(_ field: String, in range: ClosedRange<Int>) throws(APIError) -> Int? {
    try object(field) { (expiry) throws(APIError) in
      _ = try expiry.requiredWord("anchor", of: ["created_at"])
      return try expiry.requiredInteger("seconds", in: range)
    }
  }
}

/// POST /v1/uploads/{id}/complete.
package struct UploadCompletion: RequestBody {
  /// In the order of the file's bytes.
  package let parts: [String]
  package let md5: String?
  package var ignored: [String] = []

  package init(_ fields: inout Fields) throws(APIError) {
    parts = try fields.requiredTexts("part_ids", maxCount: 1_000, like: #"["part_1"]"#)
    md5 = try fields.string("md5", maxBytes: 32, "of the whole file")
  }
}
