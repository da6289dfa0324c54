// Images and audio in messages: where they are and what is asked of them. Fetching and decoding is the server's.

package import JSON

/// How closely an image is to be looked at.
package enum ImageDetail: String, Sendable, CaseIterable {
  case auto, low, high, original

  /// Reads the member `detail`; `auto` when it is absent.
  static func read(_ fields: inout Fields) throws(APIError) -> ImageDetail {
    try fields.word("detail", of: allCases.map(\.rawValue)).flatMap(ImageDetail.init(rawValue:)) ?? .auto
  }
}

/// An image or an audio clip of a message, as the client names it.
package struct MediaPart: Sendable, Equatable {
  /// What it is, and where its bytes are.
  package enum Content: Sendable, Equatable {
    /// A data URL, or another one that the server may or may not follow.
    case image(url: String, detail: ImageDetail)
    /// Base64, or the name of an attachment, and the container: `wav`.
    case audio(data: String, format: String)
  }

  package var content: Content
  /// The part: `messages[0].content[1]`.
  package var path: String
  /// The field that holds the bytes or says where they are: `messages[0].content[1].image_url.url`.
  package var field: String

  package init(content: Content, path: String, field: String) {
    self.content = content
    self.path = path
    self.field = field
  }

  /// The name of the part of a form that holds the bytes: `attachment:NAME` where a URL or data is expected.
  package var attachment: String? {
    let place: String =
      switch content {
      case .image(let url, _): url
      case .audio(let data, _): data
      }
    let scheme = "attachment:"
    guard place.utf8.starts(with: scheme.utf8) else { return nil }
    return String(decoding: place.utf8.dropFirst(scheme.utf8.count), as: UTF8.self)
  }

  /// What stands for the part in a message: a template asks for the type, the server for the index.
  ///
  /// - Parameter index: into the request's media.
  package func placeholder(index: Int) -> JSONValue {
    let type: JSONValue = if case .image = content { "image" } else { "audio" }
    return ["type": type, "media": .int(index)]
  }

  /// The indices of the media that messages hold, in the order of the conversation.
  package static func indices(in messages: [JSONValue]) -> [Int] {
    messages.flatMap { message in
      // No other part may have one of these types: the reader refuses them.
      (message["content"]?.arrayValue ?? []).compactMap { part in
        part["type"] == "image" || part["type"] == "audio" ? part["media"]?.intValue : nil
      }
    }
  }

  // MARK: Reading

  /// `{"type": "image_url", "image_url": {"url", "detail"}}`, or the URL alone, as some clients send it.
  static func image(_ part: inout Fields) throws(APIError) -> MediaPart {
    let value = try part.required("image_url")
    let field = part.name(of: "image_url")
    if case .string(let url) = value {
      return MediaPart(content: .image(url: url, detail: .auto), path: part.path, field: field)
    }
    var image = try Fields(value, path: field)
    let url = try image.requiredString("url")
    return MediaPart(
      content: .image(url: url, detail: try .read(&image)), path: part.path, field: image.name(of: "url"))
  }

  /// `{"type": "input_audio", "input_audio": {"data", "format"}}`.
  static func audio(_ part: inout Fields) throws(APIError) -> MediaPart {
    guard var audio = try part.fields("input_audio") else { throw .missing(part.name(of: "input_audio")) }
    let data = try audio.requiredString("data")
    guard let format = try audio.string("format", maxBytes: 32) else {
      throw .missing(audio.name(of: "format"))
    }
    return MediaPart(
      content: .audio(data: data, format: format), path: part.path, field: audio.name(of: "data"))
  }
}

/// `data:image/png;base64,iVBO...` (RFC 2397), the base64 form only.
package struct DataURL: Sendable, Equatable {
  /// In lower case; empty when the URL names none.
  package let type: String
  package let encoded: String

  /// Nil for what is no data URL with base64.
  package init?(_ text: String) {
    guard text.utf8.count > 5, text.utf8.prefix(5).elementsEqual("data:".utf8),
      let comma = text.utf8.firstIndex(of: UInt8(ascii: ","))
    else { return nil }
    let head = String(decoding: text.utf8[..<comma].dropFirst(5).prefix(256), as: UTF8.self).lowercased()
    guard head.utf8.count < 256, head.hasSuffix(";base64") else { return nil }
    type = String(decoding: head.utf8.prefix { $0 != UInt8(ascii: ";") }, as: UTF8.self)
    encoded = String(decoding: text.utf8[text.utf8.index(after: comma)...], as: UTF8.self)
  }
}
