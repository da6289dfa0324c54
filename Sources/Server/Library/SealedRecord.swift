// Records of files and stores as they are written: JSON with a checksum as the last member, so that damage is seen.

import JSON
import Platform
import Vectors

enum SealedRecord {
  private static let opening = Array(#","checksum":""#.utf8)
  private static let closing = Array("\"}".utf8)

  /// The text of a record, an object with at least one member.
  static func bytes(of record: JSONValue) -> [UInt8] {
    let text = record.bytes
    return text.dropLast() + opening + Array(sum(of: text[...]).utf8) + closing
  }

  /// The record of a text; those of earlier versions have no checksum.
  ///
  /// - Throws: `IndexError` for another checksum, `JSONError` for no JSON.
  static func record(_ bytes: [UInt8], path: String) throws -> JSONValue {
    let digits = bytes.dropLast(closing.count).suffix(16)
    let text = bytes.dropLast(closing.count + digits.count)
    guard bytes.suffix(closing.count).elementsEqual(closing),
      text.suffix(opening.count).elementsEqual(opening)
    else { return try JSONValue(parsing: bytes) }
    let record = text.dropLast(opening.count) + [UInt8(ascii: "}")]
    guard digits.elementsEqual(sum(of: record).utf8) else {
      throw IndexError.damaged(path: path, what: "its checksum is wrong")
    }
    return try JSONValue(parsing: Array(record))
  }

  /// 16 hexadecimal digits.
  static func sum(of bytes: ArraySlice<UInt8>) -> String { Checksum.of(bytes).hexadecimal }

  static func sum(of bytes: SharedBytes) -> String { Checksum.of(bytes).hexadecimal }
}
