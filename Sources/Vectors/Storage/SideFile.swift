// A file beside an index that says more of its passages: bytes by keys, which somebody made and can make again.
//
//   u64 checksum and bytes of every entry  |  `SideRecord` of each, sorted by keys  |  footer
//
// Such a file is a cache. It is written whole and never changed; what is damaged counts as absent.

import Platform

/// An entry in the table; 32 bytes.
struct SideRecord: BitwiseCopyable {
  var high: UInt64
  var low: UInt64
  /// Where its checksum begins; the bytes follow.
  var offset: UInt64
  /// Of both.
  var count: UInt32
  var padding: UInt32 = 0

  var key: RowKey { RowKey(high: high, low: low) }
}

/// Entries that are to be written.
package struct SideBlock: Sendable {
  private(set) var bytes: [UInt8] = []
  private(set) var records: [SideRecord] = []
  private var keys: Set<RowKey> = []

  package init() {}

  /// Entries.
  package var count: Int { records.count }

  /// Bytes of all entries.
  package var byteCount: Int { bytes.count }

  package func has(_ key: RowKey) -> Bool { keys.contains(key) }

  /// Adds an entry; the first of a key stays.
  package mutating func append(_ key: RowKey, _ entry: [UInt8]) {
    guard keys.insert(key).inserted else { return }
    var writer = ByteWriter()
    writer.u64(Checksum.of(entry))
    records.append(
      SideRecord(
        high: key.high, low: key.low, offset: UInt64(bytes.count),
        count: UInt32(truncatingIfNeeded: entry.count + 8)))
    bytes += writer.bytes + entry
  }
}

/// One file. Any number of threads read it.
final class SideFile: Sendable {
  static let ending = ".side"
  private static let magic: UInt64 = 0x3145_4449_5356_4C4D
  /// Magic, maker, where the table begins, its entries, its checksum, and that of these seven.
  private static let footerBytes = 56

  let name: String
  /// Who made the entries: those of others are of no use.
  let maker: RowKey
  let content: SharedBytes
  /// Where the table begins, and entries in it.
  private let table: (start: Int, count: Int)
  private let tableSum: UInt64
  /// Whether the table is what was written; nil before it was looked at.
  private let isWhole = Monitor<Bool?>(nil)

  /// Nil when the end is not that of such a file.
  init?(_ content: SharedBytes, name: String) {
    let bytes = content.bytes
    let start = bytes.count - Self.footerBytes
    guard start >= 0 else { return nil }
    let footer = UnsafeRawBufferPointer(rebasing: bytes[start...])
    var reader = ByteReader(footer)
    guard reader.u64() == Self.magic, let high = reader.u64(), let low = reader.u64(),
      let place = reader.u64().flatMap({ Int(exactly: $0) }),
      let count = reader.u64().flatMap({ Int(exactly: $0) }), let sum = reader.u64(),
      reader.u64() == Checksum.of(UnsafeRawBufferPointer(rebasing: footer.prefix(Self.footerBytes - 8))),
      place <= start, count == (start - place) / MemoryLayout<SideRecord>.stride,
      (start - place) % MemoryLayout<SideRecord>.stride == 0
    else { return nil }
    (self.name, self.content) = (name, content)
    maker = RowKey(high: high, low: low)
    table = (place, count)
    tableSum = sum
  }

  /// Entries.
  var count: Int { table.count }

  /// The table; empty when it is damaged.
  private var span: Range<Int> {
    let isWhole = isWhole.withLock { known -> Bool in
      if let known { return known }
      let end = content.count - Self.footerBytes
      let found = Checksum.of(UnsafeRawBufferPointer(rebasing: content.bytes[table.start..<end])) == tableSum
      known = found
      return found
    }
    return 0..<(isWhole ? table.count : 0)
  }

  private func record(_ number: Int) -> SideRecord {
    content.bytes.loadUnaligned(
      fromByteOffset: table.start + number * MemoryLayout<SideRecord>.stride, as: SideRecord.self)
  }

  /// All records, in the order of their keys.
  var records: [SideRecord] { span.map(record) }

  private func place(of key: RowKey) -> SideRecord? {
    let end = span.upperBound
    var (low, high) = (0, end)
    while low < high {
      let middle = (low + high) / 2
      if record(middle).key < key { low = middle + 1 } else { high = middle }
    }
    guard low < end else { return nil }
    let found = record(low)
    return found.key == key ? found : nil
  }

  func has(_ key: RowKey) -> Bool { place(of: key) != nil }

  /// Whether any byte of it is not what was written.
  var isDamaged: Bool {
    span.count < table.count || records.contains { entry($0) == nil }
      || records.reduce(0) { $0 + Int($1.count) } != table.start
  }

  /// An entry with its checksum; nil when it is damaged.
  func entry(_ record: SideRecord) -> UnsafeRawBufferPointer? {
    guard let start = Int(exactly: record.offset), record.count >= 8, start <= table.start,
      Int(record.count) <= table.start - start
    else { return nil }
    let entry = UnsafeRawBufferPointer(rebasing: content.bytes[start..<start + Int(record.count)])
    let sum = UInt64(littleEndian: entry.loadUnaligned(as: UInt64.self))
    return sum == Checksum.of(UnsafeRawBufferPointer(rebasing: entry[8...])) ? entry : nil
  }

  /// The bytes of a key; nil when they are absent or damaged.
  func bytes(of key: RowKey) -> [UInt8]? {
    place(of: key).flatMap(entry).map { Array($0[8...]) }
  }

  /// What stands behind the entries of a file.
  static func ending(_ records: [SideRecord], at start: Int, maker: RowKey) -> [UInt8] {
    var table = ByteWriter()
    for record in records.sorted(by: { $0.key < $1.key }) {
      table.u64(record.high)
      table.u64(record.low)
      table.u64(record.offset)
      table.u32(Int(record.count))
      table.u32(0)
    }
    var footer = ByteWriter()
    for number in [
      magic, maker.high, maker.low, UInt64(start), UInt64(records.count), Checksum.of(table.bytes),
    ] {
      footer.u64(number)
    }
    footer.u64(Checksum.of(footer.bytes))
    return table.bytes + footer.bytes
  }
}
