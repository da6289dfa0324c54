// Token spellings and ids, both ways, compared by bytes.

/// Spellings in one blob with a hash index over them: no string object per token.
struct Vocabulary: Sendable {
  /// Ids above this are refused: no model has them, and tables are indexed by id.
  static let largestID = (1 << 24) - 1

  private var blob: [UInt8] = []
  /// Entry n is `blob[starts[n]..<starts[n + 1]]`.
  private var starts: [UInt32] = [0]
  private var ids: [Int32] = []
  /// Entry of each id, -1 where there is none.
  private var entryOfID: [Int32] = []
  /// Open addressing: 32 bits of the hash, then the entry + 1. 0 is free.
  private var slots: [UInt64] = []
  /// A file cannot prepare collisions for a seed it does not know.
  private let seed = UInt64.random(in: 0...UInt64.max)

  var count: Int { ids.count }
  /// 1 + the largest id.
  var idLimit: Int { entryOfID.count }
  /// The largest number of bytes in one spelling.
  private(set) var longest = 0

  /// Adds an entry; `finish` must follow before any lookup.
  mutating func append(_ spelling: [UInt8], id: Int32) {
    blob.append(contentsOf: spelling)
    starts.append(UInt32(truncatingIfNeeded: blob.count))
    ids.append(id)
    longest = max(longest, spelling.count)
  }

  /// Builds both indexes.
  ///
  /// - Throws: when there are no tokens, a spelling or an id occurs twice, or ids are so sparse that a table over them is absurd.
  mutating func finish(path: String) throws(TokenizerError) {
    guard !ids.isEmpty else { throw .field(path: path, problem: "has no tokens") }
    let largest = ids.reduce(-1) { max($0, Int($1)) }
    guard blob.count < Int(UInt32.max), largest <= 65536 + 16 * ids.count else {
      throw .field(path: path, problem: "the ids reach \(largest), but there are only \(ids.count) tokens")
    }
    entryOfID = [Int32](repeating: -1, count: largest + 1)
    var capacity = 16
    while capacity < ids.count * 2 { capacity *= 2 }
    slots = [UInt64](repeating: 0, count: capacity)
    for entry in ids.indices {
      guard entryOfID[Int(ids[entry])] < 0 else {
        throw .field(path: path, problem: "the id \(ids[entry]) occurs twice")
      }
      entryOfID[Int(ids[entry])] = Int32(truncatingIfNeeded: entry)
      let range = Int(starts[entry])..<Int(starts[entry + 1])
      let hash = hash(blob, range)
      var slot = Int(truncatingIfNeeded: hash) & (capacity - 1)
      while slots[slot] != 0 {
        if slots[slot] >> 32 == hash >> 32, equals(Int(slots[slot] & 0xFFFF_FFFF) - 1, blob, range) {
          throw .field(
            path: path, problem: "the token '\(String(decoding: blob[range], as: UTF8.self))' occurs twice")
        }
        slot = (slot + 1) & (capacity - 1)
      }
      slots[slot] = hash & 0xFFFF_FFFF_0000_0000 | UInt64(entry + 1)
    }
  }

  /// FNV-1a, one byte further.
  @inline(__always)
  private func extend(_ state: UInt64, _ byte: UInt8) -> UInt64 {
    (state ^ UInt64(byte)) &* 0x0000_0100_0000_01B3
  }

  /// Mixes the bits of a finished hash: the table uses the low ones.
  @inline(__always)
  private func mix(_ state: UInt64) -> UInt64 {
    let hash = (state ^ state >> 32) &* 0x9E37_79B9_7F4A_7C15
    return hash ^ hash >> 29
  }

  @inline(__always)
  private func hash(_ bytes: [UInt8], _ range: Range<Int>) -> UInt64 {
    var state = seed
    for at in range { state = extend(state, bytes[at]) }
    return mix(state)
  }

  @inline(__always)
  private func equals(_ entry: Int, _ bytes: [UInt8], _ range: Range<Int>) -> Bool {
    let start = Int(starts[entry])
    guard Int(starts[entry + 1]) - start == range.count else { return false }
    var at = start
    for other in range {
      if blob[at] != bytes[other] { return false }
      at += 1
    }
    return true
  }

  /// The id of the token spelled `bytes[range]`.
  func id(of bytes: [UInt8], _ range: Range<Int>) -> Int32? {
    guard range.count <= longest, !slots.isEmpty else { return nil }
    return find(hash(bytes, range), bytes, range)
  }

  @inline(__always)
  private func find(_ hash: UInt64, _ bytes: [UInt8], _ range: Range<Int>) -> Int32? {
    let mask = slots.count - 1
    var slot = Int(truncatingIfNeeded: hash) & mask
    while slots[slot] != 0 {
      if slots[slot] >> 32 == hash >> 32 {
        let entry = Int(slots[slot] & 0xFFFF_FFFF) - 1
        if equals(entry, bytes, range) { return ids[entry] }
      }
      slot = (slot + 1) & mask
    }
    return nil
  }

  /// Calls `body` for every token that `bytes[range]` starts with, the shortest first. O(`longest`).
  func forEachPrefix(of bytes: [UInt8], _ range: Range<Int>, _ body: (_ end: Int, _ id: Int32) -> Void) {
    guard !slots.isEmpty else { return }
    var state = seed
    var at = range.lowerBound
    let limit = range.lowerBound + min(range.count, longest)
    while at < limit {
      state = extend(state, bytes[at])
      at += 1
      // Tokens end where characters end.
      if at < bytes.count, bytes[at] & 0xC0 == 0x80 { continue }
      if let id = find(mix(state), bytes, range.lowerBound..<at) { body(at, id) }
    }
  }

  func id(of spelling: [UInt8]) -> Int32? { id(of: spelling, 0..<spelling.count) }

  func id(of spelling: String) -> Int32? { id(of: Array(spelling.utf8)) }

  /// The spelling of `id`; nil where there is no such token.
  func spelling(of id: Int32) -> ArraySlice<UInt8>? {
    guard id >= 0, Int(id) < entryOfID.count, entryOfID[Int(id)] >= 0 else { return nil }
    let entry = Int(entryOfID[Int(id)])
    return blob[Int(starts[entry])..<Int(starts[entry + 1])]
  }
}
