// The fast mode against goldens: how far products of int8 may lead from a reference in float32, family by family.

import Compute
import JSON
import Models
import Platform
import Support
import Testing

/// How far a family's fast mode may be from the reference, on tiny checkpoints of random weights.
private struct FastBound {
  /// Mean Kullback-Leibler divergence of the known rows of logits, nats.
  let divergence: Float
  /// The least share of positions with the reference's likeliest token.
  let agreement: Double
}

/// Bounds of quantized checkpoints by `model_type`, several times what was measured (in the comments; AVX2 and AVX-512
/// agree to 1e-6).
private let bounds: [String: FastBound] = [
  "gemma3": FastBound(divergence: 5e-3, agreement: 0.8),
  "gemma3_text": FastBound(divergence: 5e-3, agreement: 0.8),  // 3.5e-4, 24 of 24
  "gemma3n": FastBound(divergence: 0.05, agreement: 0.7),  // 7.9e-3, 23 of 24
  "gemma3n_text": FastBound(divergence: 0.05, agreement: 0.7),
  // Scores are not scaled: with random norms attention picks single positions, and flips.
  "gemma4": FastBound(divergence: 0.1, agreement: 0.7),  // 1.1e-2, 19 of 20
  "gemma4_text": FastBound(divergence: 0.1, agreement: 0.7),  // 1.0e-3, 36 of 40
  "gemma4_unified": FastBound(divergence: 0.1, agreement: 0.7),
  "granite": FastBound(divergence: 5e-3, agreement: 0.8),
  "llama": FastBound(divergence: 5e-3, agreement: 0.8),  // 9.0e-4, 22 of 24
  "ministral3": FastBound(divergence: 5e-3, agreement: 0.8),
  "mistral": FastBound(divergence: 5e-3, agreement: 0.8),  // 6.2e-4, 24 of 24
  "mistral3": FastBound(divergence: 5e-3, agreement: 0.8),
  "mixtral": FastBound(divergence: 0.02, agreement: 0.7),
  "phi3": FastBound(divergence: 0.01, agreement: 0.8),  // 1.7e-3, 22 of 24
  "qwen2": FastBound(divergence: 5e-3, agreement: 0.8),  // 9.5e-4, 23 of 24
  "qwen2_5_vl": FastBound(divergence: 5e-3, agreement: 0.8),
  "qwen2_vl": FastBound(divergence: 5e-3, agreement: 0.8),
  "qwen3": FastBound(divergence: 5e-3, agreement: 0.8),  // 3.2e-4, 23 of 24
  // A row that goes to another expert differs by more than its rounding.
  "qwen3_moe": FastBound(divergence: 0.02, agreement: 0.7),  // 6.4e-4, 23 of 24
  "qwen3_vl": FastBound(divergence: 5e-3, agreement: 0.8),
  "qwen3_vl_moe": FastBound(divergence: 0.02, agreement: 0.7),
  "smollm3": FastBound(divergence: 5e-3, agreement: 0.8),
]

/// Plain weights are multiplied as in the exact mode: 4e-7 was measured, and the same tokens everywhere.
private let plain = FastBound(divergence: 1e-5, agreement: 1)

@Suite struct FastModeTests {
  @Test(arguments: GoldenFolder.decoders)
  func `the fast mode stays within its family's bounds of the golden`(golden: GoldenFolder) throws {
    let (config, expected) = (try golden.config(), try Expected(golden))
    let type = try #require(config["model_type"]?.stringValue)
    let bound = try #require(config["quantization"] == nil ? plain : bounds[type], "no bound for \(type)")
    for isa in CPUFeatures.available {
      let runner = try Runner(golden.path, isa: isa, mode: .fast)
      let rows = runner.logits(of: expected.inputs, variant: runner.model.ropeVariant(forTokens: 1 << 26))
      try #require(rows.count == expected.argmaxEach.count && !expected.logits.isEmpty)
      let divergences = expected.logits.map { divergence(from: $1, to: rows[$0]) }
      let mean = divergences.reduce(0, +) / Float(divergences.count)
      #expect(mean < bound.divergence, "\(isa): \(mean) nats")
      let same = zip(rows, expected.argmaxEach).count { argmax($0) == $1 }
      #expect(Double(same) >= bound.agreement * Double(rows.count), "\(isa): \(same) of \(rows.count)")
    }
  }

  @Test func `every family has a bound`() {
    #expect(bounds.keys.sorted() == ModelFamily.supportedTypes.sorted())
  }
}

/// How far the distribution that the logits `found` mean is from that of `expected`: Kullback-Leibler divergence, nats.
private func divergence(from expected: [Float], to found: [Float]) -> Float {
  func logarithms(_ logits: [Float]) -> [Float] {
    let most = logits.max() ?? 0
    let sum = logits.reduce(0) { $0 + exp($1 - most) }
    return logits.map { $0 - most - log(sum) }
  }
  return zip(logarithms(expected), logarithms(found)).reduce(0) { $0 + exp($1.0) * ($1.0 - $1.1) }
}
