// What the keeper of models knows of any engine: what it weighs, and how it ends.

package import Compute

/// An engine on its thread, whatever its model is for. Usable from any thread.
package protocol ModelEngine: Sendable {
  /// Bytes of weights, mapped or not.
  var weightBytes: Int { get }
  /// The instruction set in use, and how it is computed with: `avx2 fast, q16 cache`.
  var computeName: String { get }
  /// The mode in use: exact where fast was configured and this machine has no integer kernels.
  var computeMode: ComputeMode { get }
  /// Most tokens of a text, or of prompt and answer together.
  var contextTokens: Int { get }
  /// Bytes of keys and values that are in memory beyond a step.
  var touchedBytes: Int { get }
  /// Zeros for an engine that does not generate.
  var statistics: EngineStatistics { get }

  /// Gives back what is cached; returns how many bytes the ledger has got back.
  func reclaim(_ bytes: Int, seconds: Double) -> Int
  /// Refuses new requests; what is queued and running goes on.
  func drain()
  /// Cancels everything and waits for the engine's thread to end. Call once.
  func stop()
}

/// An engine that keeps nothing from one request to the next, and does not generate.
package protocol CachelessEngine: ModelEngine {}

extension CachelessEngine {
  package var touchedBytes: Int { 0 }
  package func reclaim(_ bytes: Int, seconds: Double) -> Int { 0 }
  package var statistics: EngineStatistics { EngineStatistics() }
}

extension EngineClient: ModelEngine {
  package var contextTokens: Int { limits.maxContext }
  package var touchedBytes: Int { touched.value }
}
