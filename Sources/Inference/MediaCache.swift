// Soft tokens of recent images and sounds, and the number that stands for each in the keys of the prefix cache.
//
// Positions of an image all hold the same token, so tokens alone cannot tell two images apart. Their keys are negative
// numbers, one for each content (by its SHA-256), that no token has. An image whose positions are in the prefix cache
// needs no encoder; one that is not, but was seen lately, is found here.

/// Engine thread only.
struct MediaCache {
  private struct Entry {
    let number: Int32
    var soft: [Float] = []
    var lastUse: UInt64
  }

  private var entries: [[UInt8]: Entry] = [:]
  private var floats = 0
  private var clock: UInt64 = 0
  /// Counts down; 2³¹ different images are beyond the life of a process.
  private var nextNumber: Int32 = -1
  private let floatLimit: Int
  private let entryLimit: Int

  /// - Parameters:
  ///   - bytes: most memory for soft tokens; the latest are kept in any case.
  ///   - entries: most contents whose numbers are remembered.
  init(bytes: Int, entries: Int = 1 << 14) {
    floatLimit = bytes / MemoryLayout<Float>.size
    entryLimit = max(1, entries)
  }

  /// What stands for the content in keys: negative, and the same as long as the content is remembered.
  mutating func number(of digest: [UInt8]) -> Int32 {
    clock += 1
    if let entry = entries[digest] {
      entries[digest]?.lastUse = clock
      return entry.number
    }
    if entries.count >= entryLimit { forgetOldest() }
    let number = nextNumber
    nextNumber &-= 1
    entries[digest] = Entry(number: number, lastUse: clock)
    return number
  }

  /// The soft tokens of the content; nil when the encoder must run.
  mutating func soft(of digest: [UInt8]) -> [Float]? {
    guard let entry = entries[digest], !entry.soft.isEmpty else { return nil }
    clock += 1
    entries[digest]?.lastUse = clock
    return entry.soft
  }

  mutating func store(_ soft: [Float], of digest: [UInt8]) {
    _ = number(of: digest)
    floats += soft.count - (entries[digest]?.soft.count ?? 0)
    entries[digest]?.soft = soft
    while floats > floatLimit {
      guard dropSoft(except: digest) else { return }
    }
  }

  /// Frees the longest unused soft tokens; their number stays. False when there are none but the given ones.
  private mutating func dropSoft(except digest: [UInt8]) -> Bool {
    let oldest = entries.filter { !$0.value.soft.isEmpty && $0.key != digest }
      .min { $0.value.lastUse < $1.value.lastUse }
    guard let oldest else { return false }
    floats -= oldest.value.soft.count
    entries[oldest.key]?.soft = []
    return true
  }

  private mutating func forgetOldest() {
    guard let oldest = entries.min(by: { $0.value.lastUse < $1.value.lastUse }) else { return }
    floats -= oldest.value.soft.count
    entries[oldest.key] = nil
  }
}
