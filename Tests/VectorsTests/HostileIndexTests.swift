// Files of an index that say anything, with right checksums: they are refused or used, and nothing traps.

import JSON
import Platform
import Support
import Testing

@testable import Vectors

@Suite struct HostileIndexTests {
  private static let numbers: [Int] = [
    -1, 0, 1, 2, 64, 1 << 16, 1 << 31, 1 << 40, 1 << 62, .max - 1, .max, .min,
  ]
  /// Words of a file: the above, and floats that are no numbers or very large.
  private static let words: [UInt64] =
    numbers.map { UInt64(bitPattern: Int64($0)) }
    + [0xFFFF_FFFF, 0x7FFF_FFFF_7FFF_FFFF, 0x7FC0_0000_7F80_0000, 0x7F7F_FFFF_FF7F_FFFF]

  private func open(_ disk: SimulatedDisk) throws -> VectorIndex {
    try VectorIndex(folder: "/index", fingerprint: "f", dimensions: 4, files: disk)
  }

  private func put(_ key: String, _ text: String, into index: VectorIndex) throws {
    let row = RowKey(of: Array(text.utf8))
    try index.remember([(row, [1, 2, Float(text.utf8.count), 4])])
    let passage = Passage(text: Array(text.utf8), heading: [72], range: 0..<text.utf8.count, rows: [row])
    try index.commit(NewDocument(key: key, info: [123, 125], passages: [passage]))
  }

  /// Three documents, two of them in a segment of which one is gone; the third in the log.
  private func made() throws -> SimulatedDisk {
    let disk = SimulatedDisk()
    let index = try open(disk)
    for text in ["one word", "two words", "three words"] { try put(text, text, into: index) }
    try index.compact()
    _ = try index.remove("two words")
    _ = try index.setInfos([("one word", [91, 93])])
    try index.compact()
    try put("four", "four words", into: index)
    return disk
  }

  /// Everything that an index does.
  private func use(_ disk: SimulatedDisk) throws {
    let index = try open(disk)
    let view = index.view
    _ = index.faults()
    _ = (view.documents, view.passageCount, view.rowCount, view.memoryBytes, view.fileBytes)
    _ = try? view.nearest([0.5, 0.5, 0.5, 0.5], limit: 3).map { found in
      try found.hits.map { try view.passage($0) }
    }
    _ = try? view.byWords(WordQuery(Array("one words four".utf8)), limit: 3)
    _ = try? view.noiseFloor()
    for document in view.documents { _ = try? view.exported(document.key) }
    _ = index.hasRow(RowKey(of: [1]))
    try? put("new", "new words", into: index)
    _ = try? index.remove("one word")
    _ = try? index.setInfos([("four", [])])
    try? index.compact(all: true)
    _ = try? index.view.byWords(WordQuery(Array("words".utf8)), limit: 3)
  }

  @Test func `any number in a manifest is refused or used`() throws {
    let disk = try made()
    let path = "/index/" + Manifest.name
    let bytes = try #require(disk.content(path))
    let text = Array(bytes.drop { $0 != 10 }.dropFirst())
    let body = try #require(try JSONValue(parsing: text).objectValue)
    let segment = try #require(body["segments"]?[0]?.objectValue)
    var cases: [JSONObject] = []
    for number in Self.numbers {
      for key in ["version", "dimensions", "next_file", "next_serial"] {
        var changed = body
        changed[key] = .int(number)
        cases.append(changed)
      }
      for (key, value) in [
        ("removed", [.int(number)]), ("infos", [[.int(number), "{}"]]),
        ("name", .string("\(number).segment")),
      ] as [(String, JSONValue)] {
        var (changed, part) = (body, segment)
        part[key] = value
        changed["segments"] = [.object(part)]
        cases.append(changed)
      }
    }
    for name in ["", ".", "..", "../index/0001.log", "/etc/passwd", "a\u{0}b"] {
      var changed = body
      changed["log"] = .string(name)
      cases.append(changed)
    }
    var refused = 0
    for changed in cases {
      let content = JSONValue.object(changed).bytes
      disk.restart(losingPower: true)
      disk.put(path, Array("\(SHA256.hexadecimal(SHA256.digest(content)))\n".utf8) + content)
      do { try use(disk) } catch { refused += 1 }
      disk.put(path, bytes)
    }
    #expect(refused >= 6)
    #expect(refused < cases.count)
  }

  @Test func `a log is never a file elsewhere`() throws {
    let disk = try made()
    let path = "/index/" + Manifest.name
    let bytes = try #require(disk.content(path))
    let victim = try #require(disk.files.first { $0.hasSuffix(".segment") })
    let before = disk.content(victim)
    var body = try #require(
      try JSONValue(parsing: Array(bytes.drop { $0 != 10 }.dropFirst())).objectValue)
    body["log"] = .string(".." + victim)
    let content = JSONValue.object(body).bytes
    disk.restart(losingPower: false)
    disk.put(path, Array("\(SHA256.hexadecimal(SHA256.digest(content)))\n".utf8) + content)
    #expect(try open(disk).view.document("one word") != nil)
    #expect(disk.content(victim) == before)
  }

  @Test func `any word in a segment is refused or used`() throws {
    let disk = try made()
    let path = try #require(disk.files.last { $0.hasSuffix(".segment") })
    let whole = try #require(disk.content(path))
    let end = whole.count - SegmentFooter.bytes(in: SegmentFooter.version)
    let manifest = try #require(disk.content("/index/" + Manifest.name))
    let log = try #require(disk.files.first { $0.hasSuffix(".log") })
    let logged = try #require(disk.content(log))
    let others = disk.files.filter { $0.hasSuffix(".segment") && $0 != path }
      .map { ($0, disk.content($0) ?? []) }
    // Content of one block, its sum, and the footer with its own: the sums are made right again.
    for place in stride(from: 0, to: whole.count - 8, by: 4) where !(end - 8..<end).contains(place) {
      // Some of the words at each place: all of them come many times.
      for word in Self.words.indices.filter({ ($0 + place / 4) % 4 == 0 }).map({ Self.words[$0] }) {
        var bytes = whole
        let width = place % 8 == 0 ? 8 : 4
        for byte in 0..<width { bytes[place + byte] = UInt8(truncatingIfNeeded: word >> UInt64(8 * byte)) }
        Self.write(Checksum.of(bytes[..<(end - 8)]), to: &bytes, at: end - 8)
        Self.write(Checksum.of(bytes[end..<(whole.count - 8)]), to: &bytes, at: whole.count - 8)
        disk.restart(losingPower: true)
        for (name, content) in others + [(path, bytes), (log, logged), ("/index/" + Manifest.name, manifest)]
        {
          disk.put(name, content)
        }
        try? use(disk)
      }
    }
    disk.restart(losingPower: true)
    for (name, content) in others + [(path, whole), (log, logged), ("/index/" + Manifest.name, manifest)] {
      disk.put(name, content)
    }
    #expect(try open(disk).faults().isEmpty)
  }

  @Test func `any word in a log is refused or used`() throws {
    let disk = try made()
    let log = try #require(disk.files.first { $0.hasSuffix(".log") })
    let whole = try #require(disk.content(log))
    let kept = disk.files.filter { $0 != log }.map { ($0, disk.content($0) ?? []) }
    let records = Self.records(whole)
    #expect(records.count >= 2)
    let start = whole[8..<16].reversed().reduce(0) { $0 << 8 | UInt64($1) }
    for (number, record) in records.enumerated() {
      for place in stride(from: 0, to: record.count - 8, by: 4) {
        for word in Self.words.indices.filter({ ($0 + place / 4) % 4 == 0 }).map({ Self.words[$0] }) {
          var changed = records
          let width = min(8, record.count - 8 - place)
          for byte in 0..<width {
            changed[number][place + byte] = UInt8(truncatingIfNeeded: word >> UInt64(8 * byte))
          }
          disk.restart(losingPower: true)
          for (name, content) in kept + [(log, Self.chained(changed, start))] { disk.put(name, content) }
          try? use(disk)
        }
      }
    }
    disk.restart(losingPower: true)
    for (name, content) in kept + [(log, Self.chained(records, start))] { disk.put(name, content) }
    #expect(try open(disk).view.document("four") != nil)
  }

  // MARK: Bytes

  private static func write(_ value: UInt64, to bytes: inout [UInt8], at place: Int) {
    for byte in 0..<8 { bytes[place + byte] = UInt8(truncatingIfNeeded: value >> UInt64(8 * byte)) }
  }

  /// The records of a log with their checksums.
  private static func records(_ bytes: [UInt8]) -> [[UInt8]] {
    var found: [[UInt8]] = []
    var at = 0
    while at + 32 <= bytes.count {
      let count = bytes[at..<at + 4].reversed().reduce(0) { $0 << 8 | Int($1) }
      let end = at + 24 + (count + 7) / 8 * 8 + 8
      found.append(Array(bytes[at..<end]))
      at = end
    }
    return found
  }

  /// Records that name one another, with right checksums.
  private static func chained(_ records: [[UInt8]], _ start: UInt64) -> [UInt8] {
    var bytes: [UInt8] = []
    var last = start
    for record in records {
      var record = record
      write(last, to: &record, at: 8)
      last = Checksum.of(record[..<(record.count - 8)])
      write(last, to: &record, at: record.count - 8)
      bytes += record
    }
    return bytes
  }
}
