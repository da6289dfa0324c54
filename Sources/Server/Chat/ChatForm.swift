// A chat request that may come as a form: the JSON in one part, images and audio as they are in others.

import HTTP
import JSON
import Platform
import Wire

struct ChatForm {
  /// The part that holds the JSON.
  private static let requestName = "request"

  var body: JSONValue
  /// The other parts by name.
  var attachments: [ByteKey: [UInt8]] = [:]
  private var names: [String] = []

  init(body: JSONValue) { self.body = body }

  init(_ parts: [FormPart], _ memory: MemoryLoan?) throws(APIError) {
    var body: JSONValue?
    for part in parts {
      if body == nil, part.name.utf8.elementsEqual(Self.requestName.utf8) {
        try claim(JSONValue.weight(ofRequest: part.body), of: memory)
        do {
          body = try JSONValue(request: part.body)
        } catch {
          throw .malformedJSON(error)
        }
      } else if attachments.updateValue(part.body, forKey: ByteKey(part.name)) == nil {
        names.append(part.name)
      } else {
        throw .invalidValue(APIError.shortened(part.name), "two parts have this name")
      }
    }
    guard let body else {
      throw .invalidValue(Self.requestName, "the form has no part of this name with the JSON of the request")
    }
    self.body = body
  }

  /// - Throws: 400 for a part that no message refers to.
  func check(_ request: ChatRequest) throws(APIError) {
    let used = Set(request.media.compactMap { $0.attachment.map(ByteKey.init) })
    for name in names where !used.contains(ByteKey(name)) {
      throw .invalidValue(APIError.shortened(name), "no message refers to this part as 'attachment:NAME'")
    }
  }
}

extension Request {
  /// The body of a chat request, plain JSON or multipart/form-data.
  func chatForm(_ limits: RequestLimits, _ memory: MemoryLoan? = nil) throws(APIError) -> ChatForm {
    guard let type = headers["content-type"], Multipart.isForm(type) else {
      return ChatForm(body: try jsonBody(memory))
    }
    let parts: [FormPart]
    do throws(MultipartError) {
      parts = try Multipart.parse(body, contentType: type, limit: limits.mediaParts + 1)
    } catch {
      throw APIError(status: 400, code: "invalid_multipart", message: "Invalid body: \(error).")
    }
    return try ChatForm(parts, memory)
  }
}
