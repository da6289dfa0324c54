// The file that says what an index consists of; replacing it is what makes a new state of the index the valid one.

import JSON
import Platform

/// `index.json` of an index's folder.
struct Manifest: Equatable {
  static let name = "index.json"
  static let version = 3

  /// A segment, and what has changed of it since it was written.
  struct Entry: Equatable {
    var name: String
    /// What its end must be (`Segment.seal`), so that another's copy is seen; nil in versions before 3.
    var seal: UInt64?
    /// Numbers of documents that are gone.
    var removed: [Int] = []
    /// Information that replaces what the segment has, by the document's number.
    var infos: [Int: [UInt8]] = [:]
  }

  /// Names the model and everything else that vectors depend on.
  var fingerprint: String
  var dimensions: Int
  var segments: [Entry] = []
  var log: String
  /// What the first record of the log names as the one before it, so that another log is seen; 0 in versions before 3.
  var logStart: UInt64 = 0
  /// Numbers the files that were ever made.
  var nextFile: Int
  /// Serial numbers below this one are taken.
  var nextSerial: UInt64

  /// Serial numbers of documents go no further, so that counting on is always possible.
  static let mostSerial = 1 << 62

  /// Whether a name is that of a file in the index's own folder.
  private static func isPlain(_ name: String) -> Bool {
    !name.isEmpty && !name.utf8.contains(UInt8(ascii: "/")) && !name.utf8.contains(0)
      && !name.utf8.starts(with: ".".utf8)
  }

  var bytes: [UInt8] {
    let entries = segments.map { entry -> JSONValue in
      let infos = entry.infos.sorted { $0.key < $1.key }.map { number, info -> JSONValue in
        [.int(number), .string(String(decoding: info, as: UTF8.self))]
      }
      return [
        "name": .string(entry.name), "removed": .array(entry.removed.map(JSONValue.int)),
        "infos": .array(infos), "seal": entry.seal.map { .string($0.hexadecimal) } ?? nil,
      ]
    }
    let body: JSONValue = [
      "version": .int(Self.version), "fingerprint": .string(fingerprint), "dimensions": .int(dimensions),
      "segments": .array(entries), "log": .string(log), "log_start": .string(logStart.hexadecimal),
      "next_file": .int(nextFile),
      "next_serial": .int(Int(truncatingIfNeeded: nextSerial)),
    ]
    // The checksum stands on a line of its own: JSON has many spellings of the same.
    let text = body.bytes
    return Array("\(SHA256.hexadecimal(SHA256.digest(text)))\n".utf8) + text
  }

  private static func word(_ value: JSONValue?) -> UInt64? {
    value?.stringValue.flatMap { UInt64($0, radix: 16) }
  }

  init(fingerprint: String, dimensions: Int) {
    (self.fingerprint, self.dimensions) = (fingerprint, dimensions)
    log = "0001.log"
    nextFile = 2
    nextSerial = 1
  }

  /// - Throws: when the bytes are not what was written.
  init(_ bytes: [UInt8], path: String) throws(IndexError) {
    let damage = IndexError.damaged(path: path, what: "its checksum or content is wrong")
    guard let end = bytes.firstIndex(of: UInt8(ascii: "\n")) else { throw damage }
    let text = Array(bytes[(end + 1)...])
    guard SHA256.hexadecimal(SHA256.digest(text)) == String(decoding: bytes[..<end], as: UTF8.self),
      let body = try? JSONValue(parsing: text), let version = body["version"]?.intValue
    else { throw damage }
    guard version <= Self.version else {
      throw .version(path: path, found: version, supported: Self.version)
    }
    guard let fingerprint = body["fingerprint"]?.stringValue, let dimensions = body["dimensions"]?.intValue,
      let log = body["log"]?.stringValue, let nextFile = body["next_file"]?.intValue,
      let nextSerial = body["next_serial"]?.intValue, dimensions > 0, dimensions <= 1 << 16,
      (1...Self.mostSerial).contains(nextSerial), (1...1 << 40).contains(nextFile), Self.isPlain(log)
    else { throw damage }
    (self.fingerprint, self.dimensions, self.log) = (fingerprint, dimensions, log)
    logStart = Self.word(body["log_start"]) ?? 0
    self.nextFile = nextFile
    self.nextSerial = UInt64(nextSerial)
    for entry in body["segments"]?.arrayValue ?? [] {
      guard let name = entry["name"]?.stringValue, Self.isPlain(name) else { throw damage }
      var found = Entry(name: name, seal: Self.word(entry["seal"]))
      found.removed = (entry["removed"]?.arrayValue ?? []).compactMap(\.intValue)
      for info in entry["infos"]?.arrayValue ?? [] {
        guard let number = info[0]?.intValue, let text = info[1]?.stringValue else { throw damage }
        found.infos[number] = Array(text.utf8)
      }
      segments.append(found)
    }
  }
}
