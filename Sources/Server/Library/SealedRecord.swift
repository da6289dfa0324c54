// Records of files and stores, and requests of batches, as they are written: JSON with a checksum as the last member, so that
// damage is seen.

import JSON
import Platform
import Vectors
import Wire

enum SealedRecord {
  /// Says that there is a checksum, should its own name be damaged.
  private static let head = Array(#"{"sealed":1,"#.utf8)
  private static let opening = Array(#","checksum":""#.utf8)
  private static let closing = Array("\"}".utf8)

  /// The text of a record, an object with at least one member.
  ///
  /// - Parameter place: what it belongs to, if it does not say so itself: it is under the checksum.
  static func bytes(of record: JSONValue, in place: String = "") -> [UInt8] {
    let text = head + record.bytes.dropFirst()
    return text.dropLast() + opening + Array(sum(of: (text + Array(place.utf8))[...]).utf8) + closing
  }

  /// The record of a text; those of earlier versions have no checksum, or no head.
  ///
  /// - Throws: `IndexError` for another checksum, `JSONError` for no JSON.
  static func record(_ bytes: [UInt8], path: String, in place: String = "") throws -> JSONValue {
    let damage = IndexError.damaged(path: path, what: "its checksum is wrong")
    let isSealed = bytes.starts(with: head)
    let digits = bytes.dropLast(closing.count).suffix(16)
    let text = bytes.dropLast(closing.count + digits.count)
    guard bytes.suffix(closing.count).elementsEqual(closing),
      text.suffix(opening.count).elementsEqual(opening)
    else {
      guard !isSealed else { throw damage }
      return try JSONValue(parsing: bytes)
    }
    let record = text.dropLast(opening.count) + [UInt8(ascii: "}")]
    guard digits.elementsEqual(sum(of: record + Array(place.utf8)).utf8) else { throw damage }
    return try JSONValue(parsing: isSealed ? [head[0]] + record.dropFirst(head.count) : Array(record))
  }

  /// 16 hexadecimal digits.
  static func sum(of bytes: ArraySlice<UInt8>) -> String { Checksum.of(bytes).hexadecimal }

  static func sum(of bytes: SharedBytes) -> String { Checksum.of(bytes).hexadecimal }
}

extension BatchLine {
  /// A line of a batch's requests, as it is kept; nil for one that is damaged, or another batch's.
  init?(sealed bytes: [UInt8], of batch: String) {
    guard let value = try? SealedRecord.record(bytes, path: "", in: batch) else { return nil }
    self.init(kept: value)
  }
}
