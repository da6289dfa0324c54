// How many wrong keys an address may try: guessing is slowed down, and clients that are known go on.

import Platform

/// Counts wrong keys by address. A value; its owner guards it.
struct WrongKeys {
  private struct Record {
    /// Wrong keys that may still come at once.
    var left: Double
    var at: Instant
    /// Clients whose right key has come from there.
    var known: Set<UInt64> = []
  }

  /// Wrong keys at once, and more of them per second.
  static let (burst, perSecond) = (20.0, 1.0)
  /// Most addresses that are remembered, and clients of each.
  private static let (mostAddresses, mostKnown) = (4_096, 64)

  private var records: [String: Record] = [:]
  /// Addresses that are remembered.
  var count: Int { records.count }

  /// Whether a request with a right key goes on.
  ///
  /// Where too many wrong ones came from, a right key is no answer either, or guessing would go on at full speed. A
  /// client that was let in from there before is not guessing.
  mutating func admits(_ client: UInt64, from address: String, at now: Instant) -> Bool {
    var record = record(of: address, at: now)
    guard record.left >= 1 || record.known.contains(client) else { return false }
    if record.known.count < Self.mostKnown { record.known.insert(client) }
    keep(record, of: address)
    return true
  }

  /// Notes a wrong key: the seconds to wait before the next one if there have been too many, else nil.
  mutating func note(from address: String, at now: Instant) -> Int? {
    var record = record(of: address, at: now)
    guard record.left >= 1 else { return max(1, Int((1 - record.left) / Self.perSecond + 0.5)) }
    record.left -= 1
    keep(record, of: address)
    return nil
  }

  private func record(of address: String, at now: Instant) -> Record {
    guard var record = records[address] else { return Record(left: Self.burst, at: now) }
    record.left = min(Self.burst, record.left + max(0, now.seconds(since: record.at)) * Self.perSecond)
    record.at = now
    return record
  }

  private mutating func keep(_ record: Record, of address: String) {
    if records.count >= Self.mostAddresses, records[address] == nil {
      // The older half: what they have tried is long ago, or there are more addresses than can be told apart.
      let ages = records.values.map(\.at).sorted()
      let middle = ages[ages.count / 2]
      records = records.filter { $0.value.at > middle }
    }
    records[address] = record
  }
}
