// How fast the known models would answer on this machine: its memory's bandwidth over the bytes of a token.

import Compute
import Hub
import Platform

enum ModelSpeed {
  /// Bytes per second that this machine reads from memory, read for a moment: enough to tell models apart.
  static let bandwidth: Double = {
    let memory = MemoryBandwidth(threads: Machine.cores, bytes: 256 << 20)
    // The best of a few: others use a shared machine at times.
    return (0..<4).map { _ in memory.read(seconds: 0.02) }.max() ?? 1
  }()

  static var fitting: KnownModel? { KnownModels.fitting(memory: MemoryLimit.bytes, bandwidth: bandwidth) }

  /// `qwen3:4b (2.3 GB, about 9 tokens per second)`.
  static func words(_ model: KnownModel) -> String {
    "\(model.name) (\(Size.words(model.bytes)), about \(speed(model)) tokens per second)"
  }

  /// Tokens per second, in words for a table.
  static func speed(_ model: KnownModel) -> String {
    let rate = model.tokensPerSecond(bandwidth)
    return rate < 10 ? fixed(rate, 1) : "\(Int(rate.rounded()))"
  }
}
