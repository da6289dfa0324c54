// Records of files and stores, and requests and answers of batches, as they are written: JSON with a version as the first member
// and a checksum as the last one, so that damage is seen.

import JSON
import Platform
import Vectors
import Wire

enum SealedRecord {
  /// Says that there is a checksum, should its own name be damaged. The version follows.
  private static let head = Array(#"{"sealed":"#.utf8)
  private static let opening = Array(#","checksum":""#.utf8)
  private static let closing = Array("\"}".utf8)

  /// The text of a record, an object with at least one member.
  ///
  /// - Parameters:
  ///   - place: what it belongs to, if it does not say so itself: it is under the checksum.
  ///   - version: larger than that of any record before it.
  static func bytes(of record: JSONValue, in place: String = "", version: Int = 1) -> [UInt8] {
    bytes(ofText: record.bytes, in: place, version: version)
  }

  /// The same of an object's text.
  static func bytes(ofText object: [UInt8], in place: String, version: Int = 1) -> [UInt8] {
    let text = head + Array("\(version),".utf8) + object.dropFirst()
    return text.dropLast() + opening + Array(sum(of: (text + Array(place.utf8))[...]).utf8) + closing
  }

  /// The record of a text; those of earlier versions have no checksum, or no head.
  ///
  /// - Throws: `IndexError` for another checksum, `JSONError` for no JSON.
  static func record(_ bytes: [UInt8], path: String, in place: String = "") throws -> JSONValue {
    try JSONValue(parsing: text(bytes, path: path, in: place))
  }

  /// The same as text, which where there is no checksum may be anything.
  static func text(_ bytes: [UInt8], path: String, in place: String = "") throws(IndexError) -> [UInt8] {
    let damage = IndexError.damaged(path: path, what: "its checksum is wrong")
    let isSealed = bytes.starts(with: head)
    let digits = bytes.dropLast(closing.count).suffix(16)
    let text = bytes.dropLast(closing.count + digits.count)
    guard bytes.suffix(closing.count).elementsEqual(closing),
      text.suffix(opening.count).elementsEqual(opening)
    else {
      guard !isSealed else { throw damage }
      return bytes
    }
    let record = text.dropLast(opening.count) + [UInt8(ascii: "}")]
    guard digits.elementsEqual(sum(of: record + Array(place.utf8)).utf8) else { throw damage }
    guard isSealed, let comma = record.firstIndex(of: UInt8(ascii: ",")) else { return Array(record) }
    return [head[0]] + record[(comma + 1)...]
  }

  /// The version that the beginning of a record tells, whether or not the rest is whole.
  static func version(_ beginning: [UInt8]) -> Int? {
    guard beginning.starts(with: head) else { return nil }
    let digits = beginning.dropFirst(head.count).prefix { $0 != UInt8(ascii: ",") }
    return Int(String(decoding: digits, as: UTF8.self)).flatMap { $0 >= 0 ? $0 : nil }
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
