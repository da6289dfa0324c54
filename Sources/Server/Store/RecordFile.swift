// A record as a file: a checksum of everything, what the store knows of the record, and the record's own bytes.
//
//     mlxserve-record-2 <checksum of all that follows>
//     <id> <serial> <time of writing> <length>
//     <bytes>
//
// Format 1 had one line, and a checksum of the bytes alone: it is read, and never written.

import JSON
import Platform

struct RecordFile: Equatable {
  /// Whose record it is; nil in format 1, which did not say.
  var id: String?
  /// Position in the order of writing.
  var serial: Int
  /// Seconds since 1970; nil in format 1, where no checksum covers it.
  var written: Int?
  var bytes: [UInt8]

  /// No store comes near it, and sums with it do not overflow: what a file says beyond is brought down to it.
  static let largestNumber = 1 << 53

  private static let magic = "mlxserve-record-2 "
  private static let oldMagic = "mlxserve-record-1"

  init(id: String?, serial: Int, written: Int?, bytes: [UInt8]) {
    self.id = id
    self.serial = serial
    self.written = written
    self.bytes = bytes
  }

  /// The whole file, in format 2.
  static func encode(_ bytes: [UInt8], id: String, serial: Int, written: Int) -> [UInt8] {
    let rest = Array("\(id) \(serial) \(written) \(bytes.count)\n".utf8) + bytes
    return Array((magic + String(Checksum.of(rest), radix: 16) + "\n").utf8) + rest
  }

  /// Nil unless the file is whole.
  init?(_ file: [UInt8]) {
    guard file.starts(with: Self.magic.utf8) else {
      self.init(old: file)
      return
    }
    guard let (sum, rest) = Self.line(file.dropFirst(Self.magic.utf8.count)),
      sum == String(Checksum.of(rest), radix: 16),
      let (head, body) = Self.line(rest)
    else { return nil }
    let words = head.split(separator: " ", omittingEmptySubsequences: false)
    guard words.count == 4, let serial = Self.number(words[1]), let written = Self.number(words[2]),
      Self.number(words[3]) == body.count
    else { return nil }
    self.init(id: String(words[0]), serial: serial, written: written, bytes: Array(body))
  }

  /// The serial that the beginning of a file tells, whether or not the rest is whole.
  static func serial(_ beginning: [UInt8]) -> Int? {
    guard let (head, rest) = line(beginning[...]) else { return nil }
    let words = (head.hasPrefix(magic) ? line(rest)?.text ?? "" : head).split(separator: " ")
    return words.count > 1 ? number(words[1]) : nil
  }

  private init?(old file: [UInt8]) {
    guard let (head, body) = Self.line(file[...]) else { return nil }
    let words = head.split(separator: " ", omittingEmptySubsequences: false)
    guard words.count == 5, words[0] == Self.oldMagic, let serial = Self.number(words[1]),
      Self.number(words[2]) != nil, Self.number(words[3]) == body.count,
      words[4] == String(FNV1a.hash(Array(body)), radix: 16)
    else { return nil }
    self.init(id: nil, serial: serial, written: nil, bytes: Array(body))
  }

  /// The first line, and what follows it.
  private static func line(_ bytes: ArraySlice<UInt8>) -> (text: String, rest: ArraySlice<UInt8>)? {
    guard let end = bytes.prefix(400).firstIndex(of: 0x0A) else { return nil }
    return (String(decoding: bytes[..<end], as: UTF8.self), bytes[(end + 1)...])
  }

  private static func number(_ text: Substring) -> Int? {
    guard let number = Int(text), number >= 0 else { return nil }
    return min(number, largestNumber)
  }
}

extension RecordFile {
  /// Why a file is no record that can be served.
  struct Fault: Error, Equatable {
    let problem: String
  }

  /// Reads a record from a folder.
  ///
  /// - Parameter name: of the file: the record's id and `RecordStore.ending`.
  /// - Throws: when descriptors or memory are short: the file may be whole, and nothing should be done without it.
  static func read(
    _ name: String, in folder: String, files: any FileSystem, limit: Int,
    describe: ([UInt8]) -> RecordStore.Description
  ) throws(PlatformError) -> Result<
    (id: String, record: RecordFile, description: RecordStore.Description), Fault
  > {
    let bytes: [UInt8]
    do throws(PlatformError) {
      bytes = try files.read(folder + "/" + name, limit: limit + RecordStore.headBytes)
    } catch {
      if error.isPassing { throw error }
      return .failure(Fault(problem: "\(error)"))
    }
    guard let record = RecordFile(bytes) else { return .failure(Fault(problem: "it is damaged")) }
    let id = String(decoding: name.utf8.dropLast(RecordStore.ending.utf8.count), as: UTF8.self)
    let description = describe(record.bytes)
    let ids = [record.id, description.id].compactMap { $0 }
    guard ids.allSatisfy({ $0.utf8.elementsEqual(id.utf8) }) else {
      return .failure(Fault(problem: "it is another record, by its content"))
    }
    return .success((id, record, description))
  }
}
