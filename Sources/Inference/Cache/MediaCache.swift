// Soft tokens of recent images and audio, by the SHA-256 of their content.
//
// A content whose positions are in the prefix cache needs no encoder; one that is not, but was seen lately, is found
// here.

/// Engine thread only.
struct MediaCache {
  private struct Entry {
    var soft: [Float]
    var lastUse: UInt64
  }

  private var entries: [[UInt8]: Entry] = [:]
  private var floats = 0
  private var clock: UInt64 = 0
  private let floatLimit: Int

  /// - Parameter bytes: most memory; the latest soft tokens are kept in any case.
  init(bytes: Int) { floatLimit = bytes / MemoryLayout<Float>.size }

  /// The soft tokens of the content; nil when the encoder must run.
  mutating func soft(of digest: [UInt8]) -> [Float]? {
    guard let entry = entries[digest] else { return nil }
    clock += 1
    entries[digest]?.lastUse = clock
    return entry.soft
  }

  mutating func store(_ soft: [Float], of digest: [UInt8]) {
    clock += 1
    floats += soft.count - (entries[digest]?.soft.count ?? 0)
    entries[digest] = Entry(soft: soft, lastUse: clock)
    while floats > floatLimit {
      let oldest = entries.filter { $0.key != digest }.min { $0.value.lastUse < $1.value.lastUse }
      guard let oldest else { return }
      floats -= oldest.value.soft.count
      entries[oldest.key] = nil
    }
  }
}
