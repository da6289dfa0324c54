// Vectors of recent texts: a search that is typed again, a page that is turned, and words that results had before cost nothing.

import Platform

/// Two generations: what is used moves to the young one, and when that is full the old one is forgotten. Usable from any
/// thread.
final class VectorCache: Sendable {
  private struct State {
    var young: [[UInt8]: [Float]] = [:]
    var old: [[UInt8]: [Float]] = [:]
    var youngBytes = 0
    var hits = 0

    mutating func insert(_ vector: [Float], _ key: [UInt8], limit: Int) {
      let bytes = 4 * vector.count + 128
      if youngBytes + bytes > limit {
        old = young
        young = [:]
        youngBytes = 0
      }
      if young.updateValue(vector, forKey: key) == nil { youngBytes += bytes }
    }
  }

  private let state = Monitor(State())
  /// Bytes of one generation.
  private let limit: Int

  /// - Parameter bytes: of all vectors.
  init(bytes: Int = 24 << 20) { limit = bytes / 2 }

  /// Vectors that were still there.
  var hits: Int { state.withLock { $0.hits } }

  /// What was kept for a text; counts as a use.
  func vector(of key: [UInt8]) -> [Float]? {
    state.withLock { state in
      if let vector = state.young[key] {
        state.hits += 1
        return vector
      }
      guard let vector = state.old[key] else { return nil }
      state.insert(vector, key, limit: limit)
      state.hits += 1
      return vector
    }
  }

  func keep(_ vector: [Float], for key: [UInt8]) {
    state.withLock { $0.insert(vector, key, limit: limit) }
  }

  /// Names a text by all that its vector depends on.
  ///
  /// - Parameter tenant: whose vectors others do not get; 0 for all.
  static func key(_ text: EmbeddingText, tenant: UInt64) -> [UInt8] {
    var hash = SHA256()
    var bytes: [UInt8] = []
    bytes.reserveCapacity(4 * text.tokens.count + 24)
    func append(_ value: UInt64) {
      for shift in 0..<8 { bytes.append(UInt8(truncatingIfNeeded: value >> (8 * UInt64(shift)))) }
    }
    append(tenant)
    append(UInt64(truncatingIfNeeded: text.unpooled))
    append(UInt64(truncatingIfNeeded: text.second ?? -1))
    for token in text.tokens {
      for shift in 0..<4 { bytes.append(UInt8(truncatingIfNeeded: token >> (8 * Int32(shift)))) }
    }
    hash.update(bytes)
    return hash.finish()
  }
}
