// From the names that fields have in a chat request to those on the wire that it came over.

/// What fields of a chat request are called on another wire, for errors.
struct FieldNames: Sendable, ExpressibleByDictionaryLiteral {
  private var pairs: [(chat: String, wire: String)] = []

  init(dictionaryLiteral pairs: (String, String)...) {
    for (chat, wire) in pairs { add(chat, as: wire) }
  }

  /// Names a field and all that is below it; of several names that of the nearest field counts.
  mutating func add(_ chat: String, as wire: String) { pairs.append((chat, wire)) }

  mutating func add(_ others: FieldNames) { pairs += others.pairs }

  /// The error with the wire's name of the field in `param` and in the message.
  func translated(_ error: APIError) -> APIError {
    guard let param = error.param else { return error }
    // What follows a slash is a JSON pointer into the field's value, of which the message says nothing.
    let path = String(decoding: param.utf8.prefix { $0 != UInt8(ascii: "/") }, as: UTF8.self)
    guard let name = name(of: path) else { return error }
    var translated = error
    translated.param = name + String(decoding: param.utf8.dropFirst(path.utf8.count), as: UTF8.self)
    translated.message = String(
      decoding: Array(error.message.utf8).replacing(Array("'\(path)'".utf8), with: Array("'\(name)'".utf8)),
      as: UTF8.self)
    return translated
  }

  /// Nil for a field that has its own name on this wire too.
  private func name(of path: String) -> String? {
    let bytes = Array(path.utf8)
    let known = pairs.filter { pair in
      let length = pair.chat.utf8.count
      guard bytes.starts(with: pair.chat.utf8) else { return false }
      return bytes.count == length || [UInt8(ascii: "."), UInt8(ascii: "[")].contains(bytes[length])
    }
    return known.max { $0.chat.utf8.count < $1.chat.utf8.count }.map { nearest in
      nearest.wire + String(decoding: bytes[nearest.chat.utf8.count...], as: UTF8.self)
    }
  }
}
