// What records a folder should have, and in which version, so that one that is gone is seen, and an older one in its place.
//
//     <checksum of the rest> <version> <name>
//
// A line for each change, the last one counts: written after the record, and before anybody is told of it; with `-` for a version
// before the record goes. A crash between the two leaves one record that is newer than its line, or has none. A start looks first
// and then writes the list anew, of what there is.

import JSON
import Platform

struct Inventory {
  /// A record by name, and its version: nil for one that goes.
  typealias Change = (name: String, version: Int?)

  static let name = "inventory"
  /// What versions of the archive without an inventory wrote as the version of each record.
  static let before = 1
  /// Lines that say nothing any more, beside as many as there are records, before the list is written anew.
  private static let mostStale = 1_000
  /// Of a list; a line has about 80.
  private static let mostBytes = 1 << 30

  private let folder: String
  private let files: any FileSystem
  /// Bytes of whole lines; nil before `begin`.
  private var length: Int?
  private var lines = 0
  private var mostLines = 0

  init(folder: String, files: any FileSystem) { (self.folder, self.files) = (folder, files) }

  /// Writes the list anew.
  mutating func begin(_ records: [String: Int]) throws(PlatformError) {
    let text = records.sorted { $0.key < $1.key }.flatMap { Self.line(($0.key, $0.value)) }
    try files.writeDurably(text, folder: folder, name: Self.name)
    (length, lines, mostLines) = (text.count, records.count, 2 * records.count + Self.mostStale)
  }

  /// Writes changes down, so that they outlive a loss of power. A name that ends with `/` stands for all below it.
  mutating func note(_ changes: [Change]) throws(PlatformError) {
    if length == nil || lines > mostLines {
      try begin(Self.read(folder: folder, files: files)?.records ?? [:])
    }
    guard let length, !changes.isEmpty else { return }
    let (text, path) = (changes.flatMap(Self.line), folder + "/" + Self.name)
    let (descriptor, count) = try files.openToAppend(path)
    defer { files.close(descriptor) }
    // What a write has left that failed.
    if count > length { try files.cut(descriptor, to: length, path: path) }
    try files.write(text, to: descriptor, at: length, path: path)
    try files.flush(descriptor, path: path)
    self.length = length + text.count
    lines += changes.count
  }

  private static func line(_ change: Change) -> [UInt8] {
    let version = change.version.map { String(min($0, RecordFile.largestNumber)) }
    let rest = Array("\(version ?? "-") \(change.name)".utf8)
    return Array((Checksum.of(rest).hexadecimal + " ").utf8) + rest + [0x0A]
  }

  /// The last version of each record, and how many lines are damaged; nil where there is no list, as in a folder of an earlier
  /// version.
  static func read(
    folder: String, files: any FileSystem
  ) throws(PlatformError) -> (records: [String: Int], damaged: Int)? {
    let content: [UInt8]
    do throws(PlatformError) {
      content = try files.read(folder + "/" + name, limit: mostBytes)
    } catch .file(_, _, ENOENT) {
      return nil
    }
    var (records, damaged) = ([String: Int](), 0)
    // What follows the last line feed was being written.
    for line in content.split(separator: 0x0A, omittingEmptySubsequences: false).dropLast() {
      let rest = line.dropFirst(17)
      let words = String(decoding: rest, as: UTF8.self).split(separator: " ", maxSplits: 1)
      guard words.count == 2, line.prefix(16).elementsEqual(Checksum.of(rest).hexadecimal.utf8) else {
        damaged += 1
        continue
      }
      let name = String(words[1])
      if words[0] == "-", name.hasSuffix("/") {
        records = records.filter { !$0.key.hasPrefix(name) }
      } else {
        records[name] = Int(words[0])
      }
    }
    return (records, damaged)
  }

  /// What is wrong, by the names of records and the list's own.
  ///
  /// - Parameters:
  ///   - found: the records that are there, or are being taken away; nil for a version that cannot be read.
  ///   - unlisted: the last version that records may have where there is no list.
  static func faults(
    _ list: (records: [String: Int], damaged: Int)?, _ found: [String: Int?], unlisted: Int = .max
  ) -> [String: String] {
    guard let list else {
      return found.values.contains { $0 ?? 0 > unlisted } ? [Self.name: "it is missing"] : [:]
    }
    var faults: [String: String] = [:]
    for (name, version) in list.records {
      switch found[name] {
      case nil: faults[name] = "it is missing"
      case .some(let there?) where there < version:
        faults[name] = "it is an older one: version \(there), and version \(version) was stored"
      default: break
      }
    }
    let newer = found.count { name, version in version.map { $0 > list.records[name] ?? -1 } ?? false }
    if list.damaged > 0 {
      faults[Self.name] = "\(list.damaged) of its lines are damaged"
    } else if newer > 1 {
      faults[Self.name] = "it is older than \(newer) of the records"
    }
    return faults
  }

  /// The same of a folder in which a server may work: what is wrong twice.
  static func check(
    folder: String, files: any FileSystem, unlisted: Int = .max,
    _ found: () throws(PlatformError) -> [String: Int?]
  ) throws(PlatformError) -> [(name: String, problem: String)] {
    func look() throws(PlatformError) -> [String: String] {
      let list = try read(folder: folder, files: files)
      return faults(list, try found(), unlisted: unlisted)
    }
    let first = try look()
    guard !first.isEmpty else { return [] }
    return try look().filter { first[$0.key] != nil }.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
  }
}
