// Vectors of recent texts: a search that is typed again, or a page that is turned, costs nothing.

import Platform

/// Two generations: what is used moves to the young one, and when that is full the old one is forgotten. Usable from any
/// thread.
final class VectorCache: Sendable {
  private struct State {
    var young: [[UInt8]: [Float]] = [:]
    var old: [[UInt8]: [Float]] = [:]
    var youngBytes = 0
    var hits = 0
  }

  /// Bytes of each generation's vectors.
  private let limit: Int
  private let state = Monitor(State())

  init(bytes: Int = 16 << 20) { limit = bytes / 2 }

  var hits: Int { state.withLock { $0.hits } }

  /// The vector that was kept; counts as a use.
  func vector(of key: [UInt8]) -> [Float]? {
    state.withLock { state in
      if let vector = state.young[key] {
        state.hits += 1
        return vector
      }
      guard let vector = state.old[key] else { return nil }
      state.hits += 1
      insert(vector, key, &state)
      return vector
    }
  }

  func keep(_ vector: [Float], for key: [UInt8]) { state.withLock { insert(vector, key, &$0) } }

  private func insert(_ vector: [Float], _ key: [UInt8], _ state: inout State) {
    let bytes = 4 * vector.count + 128
    if state.youngBytes + bytes > limit {
      state.old = state.young
      state.young = [:]
      state.youngBytes = 0
    }
    if state.young.updateValue(vector, forKey: key) == nil { state.youngBytes += bytes }
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
