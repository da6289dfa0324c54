// The log of an index: what was changed since its segments were written, record by record.
//
//   u32 bytes of the payload | u32 kind | u64 checksum of the record before | u64 flushed bytes | payload, padded to 8 |
//   u64 checksum of all that
//
// A record counts when its own checksum is right and it names the one before it; the first names what the manifest says, which
// is another for each log. A log ends with the first that does not count: after a crash that is a record whose writing was under way. When a later record says that the place was flushed
// before it was written, the bytes were changed behind our back: that is damage, and no end.

import Platform

/// What a record changes.
enum LogKind: Int {
  /// Vectors with their keys.
  case rows = 1
  /// A document, whose rows are in the log before it.
  case document = 2
  /// A document is gone.
  case removal = 3
  /// A document's information is another.
  case info = 4
}

/// What there is of a log.
struct LogEnd: Equatable {
  /// Bytes of records that count.
  var count = 0
  /// The checksum of the last of them.
  var last: UInt64
  /// Whether what follows was changed behind our back, or is another log's.
  var isDamaged = false
}

/// An open log that records are appended to. Used under the index's lock.
final class LogFile {
  private let files: any FileSystem
  private let descriptor: Int
  private let path: String
  private(set) var byteCount: Int
  private var flushed: Int
  private var last: UInt64

  /// Most bytes of a payload.
  static let limit = 1 << 28
  private static let headBytes = 24

  private init(files: any FileSystem, descriptor: Int, path: String, _ end: LogEnd) {
    (self.files, self.descriptor, self.path) = (files, descriptor, path)
    (byteCount, last) = (end.count, end.last)
    flushed = byteCount
  }

  deinit { files.close(descriptor) }

  /// Makes an empty log.
  ///
  /// - Parameter start: what its first record names as the one before it.
  static func create(
    folder: String, name: String, start: UInt64, files: any FileSystem
  ) throws(PlatformError) -> LogFile {
    let path = folder + "/" + name
    let descriptor = try files.create(path)
    let log = LogFile(files: files, descriptor: descriptor, path: path, LogEnd(last: start))
    try files.flush(descriptor, path: path)
    try files.synchronizeFolder(folder)
    return log
  }

  /// Opens a log that was read, and cuts off what was not finished.
  static func open(
    folder: String, name: String, _ end: LogEnd, files: any FileSystem
  ) throws(PlatformError) -> LogFile {
    let path = folder + "/" + name
    let log = LogFile(files: files, descriptor: try files.openForWriting(path), path: path, end)
    var facts = FileFacts()
    if files.examine(log.descriptor, &facts) >= 0, facts.bytes > end.count {
      try files.cut(log.descriptor, to: end.count, path: path)
      try files.flush(log.descriptor, path: path)
    }
    return log
  }

  /// A new name for the record before the first: no two logs have the same, and it says with which model its vectors are made.
  static func freshStart(_ kind: Int) -> UInt64 {
    UInt64(truncatingIfNeeded: kind) << 32 | UInt64.random(in: 1...UInt64(UInt32.max))
  }

  /// What the first record names as the one before it, if there is one, and it is of an index of this kind.
  static func start(of content: SharedBytes?, _ kind: Int) -> UInt64? {
    guard let bytes = content?.bytes, let start = Record(bytes, at: 0)?.previous else { return 0 }
    return start == 0 || start >> 32 == UInt64(truncatingIfNeeded: kind) & 0xFFFF_FFFF ? start : nil
  }

  /// Reads the records of a log that count.
  ///
  /// - Parameters:
  ///   - start: what the first of them must name as the one before it.
  ///   - take: called with every record.
  static func read(
    _ content: SharedBytes?, start: UInt64,
    _ take: (LogKind, UnsafeRawBufferPointer) throws(IndexError) -> Void
  ) throws(IndexError) -> LogEnd {
    let bytes = content?.bytes ?? UnsafeRawBufferPointer(start: nil, count: 0)
    var end = LogEnd(last: start)
    end.isDamaged = Record(bytes, at: 0).map { $0.previous != start } ?? false
    while let record = Record(bytes, at: end.count), record.previous == end.last {
      if let kind = LogKind(rawValue: record.kind) { try take(kind, record.payload) }
      end.count += record.byteCount
      end.last = record.checksum
    }
    end.isDamaged = end.isDamaged || isDamage(bytes, after: end.count)
    return end
  }

  /// Whether a record beyond the end was written when the end was flushed already.
  private static func isDamage(_ bytes: UnsafeRawBufferPointer, after end: Int) -> Bool {
    var at = end + 8
    // Each trial reads what would be a record: this bounds the bytes of all trials.
    var work = 1 << 30
    while at + headBytes <= bytes.count, work > 0 {
      if let record = Record(bytes, at: at, work: &work), record.flushed > end { return true }
      at += 8
    }
    return false
  }

  /// Appends records with one write; they outlive a crash after `flush`.
  func append(_ records: [(kind: LogKind, payload: [UInt8])]) throws(IndexError) {
    var writer = ByteWriter()
    var checksum = last
    for record in records {
      guard record.payload.count <= Self.limit else { throw .tooLarge(what: "a document") }
      let start = writer.bytes.count
      writer.u32(record.payload.count)
      writer.u32(record.kind.rawValue)
      writer.u64(checksum)
      writer.u64(UInt64(flushed))
      writer.bytes += record.payload
      writer.bytes += [UInt8](repeating: 0, count: (8 - record.payload.count % 8) % 8)
      checksum = Checksum.of(writer.bytes[start...])
      writer.u64(checksum)
    }
    do throws(PlatformError) {
      try files.write(writer.bytes, to: descriptor, at: byteCount, path: path)
    } catch {
      // What was written of it would be in the way of the next record's end.
      _ = files.truncate(descriptor, to: byteCount)
      throw .system(error)
    }
    byteCount += writer.bytes.count
    last = checksum
  }

  func flush() throws(IndexError) {
    guard flushed < byteCount else { return }
    try IndexError.system { () throws(PlatformError) in try files.flush(descriptor, path: path) }
    flushed = byteCount
  }

  private struct Record {
    var kind: Int
    var previous: UInt64
    var flushed: Int
    var payload: UnsafeRawBufferPointer
    var checksum: UInt64
    var byteCount: Int

    /// Nil when there is none whose checksum is right.
    init?(_ bytes: UnsafeRawBufferPointer, at start: Int) {
      var work = Int.max
      self.init(bytes, at: start, work: &work)
    }

    init?(_ bytes: UnsafeRawBufferPointer, at start: Int, work: inout Int) {
      guard bytes.count - start >= headBytes + 8 else { return nil }
      var reader = ByteReader(UnsafeRawBufferPointer(rebasing: bytes[start...]))
      guard let count = reader.u32(), let kind = reader.u32(), let previous = reader.u64(),
        let flushed = reader.u64(), count <= LogFile.limit, kind > 0, kind < 256, flushed <= UInt64(start)
      else { return nil }
      let end = headBytes + (count + 7) & ~7
      guard end + 8 <= bytes.count - start else { return nil }
      work -= end
      checksum = UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: start + end, as: UInt64.self))
      guard Checksum.of(UnsafeRawBufferPointer(rebasing: bytes[start..<start + end])) == checksum else {
        return nil
      }
      (self.kind, self.previous) = (kind, previous)
      self.flushed = Int(flushed)
      payload = UnsafeRawBufferPointer(rebasing: bytes[start + headBytes..<start + headBytes + count])
      byteCount = end + 8
    }
  }
}
