// Records by id, bounded in number, bytes and age, in memory and, if wanted, one file each in a folder.
//
// A record is bytes that nobody here understands. A file is written beside its place, flushed and renamed, so a
// process that is killed loses nothing that was stored before; a file that is damaged all the same is reported and
// left alone.

import JSON
import Platform

final class RecordStore: Sendable {
  struct Limits: Sendable {
    var count = 1_000
    var bytes = 64 << 20
    var seconds = 30 * 24 * 3_600
  }

  private struct Entry {
    var bytes: [UInt8]
    /// Position in the order of writing.
    var serial: Int
    /// Seconds since 1970 when it was written.
    var written: Int
    /// Names by which the record can be found too.
    var parts: [String]
  }

  private struct State {
    var entries: [String: Entry] = [:]
    /// Ids in the order of writing; stale where the serial is not the entry's.
    var order: [(serial: Int, id: String)] = []
    var head = 0
    var nextSerial = 0
    var bytes = 0
    /// Name of a part → the record it was seen in last.
    var parts: [ByteKey: String] = [:]
  }

  private let limits: Limits
  private let folder: String?
  private let now: @Sendable () -> Int
  /// The names within a record's bytes.
  private let partNames: @Sendable ([UInt8]) -> [String]
  private let state = Monitor(State())
  /// Held while a change is written to the folder, so that changes reach it in their order. Readers never wait
  /// for it.
  private let writing = Monitor(false)

  /// - Parameter folder: where records live beyond the process; it must exist.
  init(
    limits: Limits, folder: String?, now: @escaping @Sendable () -> Int,
    partNames: @escaping @Sendable ([UInt8]) -> [String] = { _ in [] }
  ) {
    self.limits = limits
    self.folder = folder
    self.now = now
    self.partNames = partNames
    if folder != nil { recover() }
  }

  var count: Int { state.withLock { $0.entries.count } }

  var totalBytes: Int { state.withLock { $0.bytes } }

  /// Positions in the order of writing, stale ones among them.
  var positionCount: Int { state.withLock { $0.order.count } }

  /// All ids, oldest first.
  var ids: [String] {
    state.withLock { state in state.entries.sorted { $0.value.serial < $1.value.serial }.map(\.key) }
  }

  func get(_ id: String) -> [UInt8]? {
    let oldest = now() - limits.seconds
    return state.withLock { state in
      guard let entry = state.entries[id], entry.written > oldest else { return nil }
      return entry.bytes
    }
  }

  /// The id of the record that holds a part of this name.
  func id(ofPart name: String) -> String? { state.withLock { $0.parts[ByteKey(name)] } }

  func put(_ id: String, _ bytes: [UInt8]) { update(id) { _ in bytes } }

  /// Changes a record as one step: no other change comes between. Nil leaves it as it is.
  ///
  /// - Returns: whether there was a change.
  @discardableResult
  func update(_ id: String, _ change: ([UInt8]?) -> [UInt8]?) -> Bool {
    writing.withLock { _ in
      guard let bytes = change(get(id)) else { return false }
      let written = now()
      let (serial, removed) = insert(id, bytes, written: written, serial: nil)
      save(id, bytes, serial: serial, written: written)
      for id in removed { deleteFile(id) }
      return true
    }
  }

  /// False when there is none.
  func remove(_ id: String) -> Bool {
    writing.withLock { _ in
      guard state.withLock({ Self.drop(id, from: &$0) }) else { return false }
      deleteFile(id)
      return true
    }
  }

  // MARK: Memory

  /// Puts a record in and drops what is too much: the oldest first.
  private func insert(_ id: String, _ bytes: [UInt8], written: Int, serial: Int?) -> (Int, removed: [String])
  {
    let parts = partNames(bytes)
    let oldest = now() - limits.seconds
    return state.withLock { state in
      Self.drop(id, from: &state)
      let own = serial ?? state.nextSerial
      state.nextSerial = max(state.nextSerial, own + 1)
      state.entries[id] = Entry(bytes: bytes, serial: own, written: written, parts: parts)
      state.order.append((own, id))
      state.bytes += bytes.count
      for part in parts { state.parts[ByteKey(part)] = id }
      var removed: [String] = []
      while let first = Self.oldest(&state) {
        let isTooOld = state.entries[first].map { $0.written <= oldest } ?? false
        guard isTooOld || state.entries.count > limits.count || state.bytes > limits.bytes else { break }
        Self.drop(first, from: &state)
        removed.append(first)
      }
      return (own, removed)
    }
  }

  @discardableResult
  private static func drop(_ id: String, from state: inout State) -> Bool {
    guard let entry = state.entries.removeValue(forKey: id) else { return false }
    state.bytes -= entry.bytes.count
    for part in entry.parts where state.parts[ByteKey(part)] == id { state.parts[ByteKey(part)] = nil }
    return true
  }

  /// The id written longest ago.
  private static func oldest(_ state: inout State) -> String? {
    // Changed and removed records leave stale positions behind, each with an id that takes memory.
    if state.order.count > 2 * state.entries.count + 64 {
      state.order = state.order[state.head...].filter { state.entries[$0.id]?.serial == $0.serial }
      state.head = 0
    }
    while state.head < state.order.count {
      let (serial, id) = state.order[state.head]
      if state.entries[id]?.serial == serial { return id }
      state.order[state.head].id = ""
      state.head += 1
    }
    return nil
  }

  // MARK: Folder

  private static let ending = ".record"

  private func save(_ id: String, _ bytes: [UInt8], serial: Int, written: Int) {
    guard let folder, state.withLock({ $0.entries[id] != nil }) else { return }
    do throws(PlatformError) {
      try File.writeDurably(
        RecordFile.encode(bytes, serial: serial, written: written), folder: folder, name: id + Self.ending)
    } catch {
      Log.error("a record is in memory only", ["id": id, "error": "\(error)"])
    }
  }

  private func deleteFile(_ id: String) {
    guard let folder else { return }
    do throws(PlatformError) {
      try File.removeDurably(folder: folder, name: id + Self.ending)
    } catch {
      Log.error("a removed record is still on disk", ["id": id, "error": "\(error)"])
    }
  }

  /// Reads all files. What is not whole is reported and left.
  private func recover() {
    guard let folder, let names = try? File.names(in: folder) else { return }
    var found: [(id: String, record: RecordFile)] = []
    for name in names {
      if name.hasSuffix(".tmp") {
        // A write that never finished: its record was not stored.
        try? File.removeDurably(folder: folder, name: name)
        continue
      }
      guard name.hasSuffix(Self.ending) else { continue }
      let id = String(decoding: name.utf8.dropLast(Self.ending.utf8.count), as: UTF8.self)
      guard let bytes = try? File.read(folder + "/" + name, limit: limits.bytes + 1_024),
        let record = RecordFile(bytes)
      else {
        Log.error("a stored record is damaged and was skipped", ["file": folder + "/" + name])
        continue
      }
      found.append((id, record))
    }
    for (id, record) in found.sorted(by: { $0.record.serial < $1.record.serial }) {
      let removed = insert(id, record.bytes, written: record.written, serial: record.serial).removed
      for id in removed { deleteFile(id) }
    }
    Log.info("records recovered", ["folder": folder, "count": "\(count)"])
  }
}

/// A record as a file: a line with its length and checksum, then its bytes.
struct RecordFile: Equatable {
  var bytes: [UInt8]
  var serial: Int
  var written: Int

  private static let magic = "mlxserve-record-1"

  static func encode(_ bytes: [UInt8], serial: Int, written: Int) -> [UInt8] {
    Array("\(magic) \(serial) \(written) \(bytes.count) \(checksum(bytes))\n".utf8) + bytes
  }

  init(bytes: [UInt8], serial: Int, written: Int) {
    self.bytes = bytes
    self.serial = serial
    self.written = written
  }

  /// Nil unless the file is whole.
  init?(_ file: [UInt8]) {
    guard let end = file.prefix(200).firstIndex(of: 0x0A) else { return nil }
    let words = String(decoding: file[..<end], as: UTF8.self).split(separator: " ").map(String.init)
    let body = Array(file[(end + 1)...])
    guard words.count == 5, words[0] == Self.magic, let serial = Int(words[1]), let written = Int(words[2]),
      (0..<Int.max).contains(serial), Int(words[3]) == body.count, words[4] == Self.checksum(body)
    else { return nil }
    self.init(bytes: body, serial: serial, written: written)
  }

  /// Finds damage, not malice.
  private static func checksum(_ bytes: [UInt8]) -> String { String(FNV1a.hash(bytes), radix: 16) }
}
