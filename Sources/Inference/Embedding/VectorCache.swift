// Vectors of recent texts, and states of passages that were explained: a search that is typed again, or a page that is turned,
// costs nothing.

import Platform

/// Two generations: what is used moves to the young one, and when that is full the old one is forgotten. Usable from any
/// thread.
final class VectorCache: Sendable {
  private struct Generations {
    var young: [[UInt8]: [Float]] = [:]
    var old: [[UInt8]: [Float]] = [:]
    var youngBytes = 0
    /// Bytes of one.
    let limit: Int

    mutating func value(of key: [UInt8]) -> [Float]? {
      if let value = young[key] { return value }
      guard let value = old[key] else { return nil }
      insert(value, key)
      return value
    }

    mutating func insert(_ value: [Float], _ key: [UInt8]) {
      let bytes = 4 * value.count + 128
      if youngBytes + bytes > limit {
        old = young
        young = [:]
        youngBytes = 0
      }
      if young.updateValue(value, forKey: key) == nil { youngBytes += bytes }
    }
  }

  private struct State {
    var vectors: Generations
    /// Those of a text are as large as a hundred vectors, and must not drive these out.
    var states: Generations
    var hits = 0
  }

  private let state: Monitor<State>

  /// - Parameters:
  ///   - bytes: of vectors.
  ///   - stateBytes: of states; the usual is that of some fifty passages.
  init(bytes: Int = 16 << 20, stateBytes: Int = 8 << 20) {
    state = Monitor(
      State(vectors: Generations(limit: bytes / 2), states: Generations(limit: stateBytes / 2)))
  }

  /// Vectors that were still there.
  var hits: Int { state.withLock { $0.hits } }

  /// What was kept for a text; counts as a use.
  func values(of key: [UInt8], _ output: EmbeddingText.Output) -> [Float]? {
    state.withLock { state in
      guard output == .vector else { return state.states.value(of: key) }
      guard let vector = state.vectors.value(of: key) else { return nil }
      state.hits += 1
      return vector
    }
  }

  func keep(_ values: [Float], for key: [UInt8], _ output: EmbeddingText.Output) {
    state.withLock { state in
      if output == .vector { state.vectors.insert(values, key) } else { state.states.insert(values, key) }
    }
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
