// What `encrypted_content` holds here: text in an envelope that this server knows again.
//
// It is an encoding and no secret: the client has the text anyway. Envelopes of other servers are foreign and
// are told apart by their beginning and a checksum.

import JSON

enum SealedContent: String {
  case reasoning
  case compaction

  func seal(_ text: String) -> String {
    Base64.encode(Array("mlxserve:\(rawValue):\(Self.checksum(text)):\(text)".utf8))
  }

  /// The text of an envelope of this kind; nil for anything else.
  func open(_ envelope: String) -> String? {
    guard let bytes = Base64.decode(envelope), let whole = String(validating: bytes, as: UTF8.self) else {
      return nil
    }
    let head = Array("mlxserve:\(rawValue):".utf8)
    guard bytes.starts(with: head), bytes.count > head.count + 16, bytes[head.count + 16] == UInt8(ascii: ":")
    else { return nil }
    let text = String(decoding: Array(whole.utf8)[(head.count + 17)...], as: UTF8.self)
    return bytes[head.count..<head.count + 16].elementsEqual(Self.checksum(text).utf8) ? text : nil
  }

  /// FNV-1a as 16 hexadecimal digits.
  private static func checksum(_ text: String) -> String { FNV1a.hash(text).hexadecimal }
}
