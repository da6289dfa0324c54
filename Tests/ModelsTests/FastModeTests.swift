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
  "apertus": FastBound(divergence: 0.02, agreement: 0.7),  // 3.1e-4
  "bailing_moe": FastBound(divergence: 0.02, agreement: 0.7),  // 2.5e-3
  "bailing_moe_v2": FastBound(divergence: 0.02, agreement: 0.7),
  "cohere": FastBound(divergence: 0.02, agreement: 0.7),  // 1.7e-6
  "cohere2": FastBound(divergence: 0.02, agreement: 0.7),  // 3.9e-5
  "deepseek_v2": FastBound(divergence: 0.02, agreement: 0.7),  // 2.2e-4
  "deepseek_v3": FastBound(divergence: 0.05, agreement: 0.7),  // 9.9e-3: experts of other groups
  "ernie4_5": FastBound(divergence: 5e-3, agreement: 0.8),  // 1.2e-3
  "ernie4_5_moe": FastBound(divergence: 0.02, agreement: 0.7),  // 3.7e-4
  "exaone4": FastBound(divergence: 0.02, agreement: 0.7),  // 6.4e-4
  "gemma": FastBound(divergence: 5e-3, agreement: 0.8),  // 1.3e-5
  "gemma2": FastBound(divergence: 5e-3, agreement: 0.8),  // 1.8e-5
  "falcon_h1": FastBound(divergence: 5e-3, agreement: 0.8),  // 3.7e-4, 280 of 288
  "granitemoe": FastBound(divergence: 0.02, agreement: 0.7),
  "granitemoehybrid": FastBound(divergence: 0.02, agreement: 0.8),  // 2.2e-3, 272 of 288
  // One position of those known has 0.28 nats, the others have 3e-4 on average.
  "kimi_linear": FastBound(divergence: 0.05, agreement: 0.8),  // 1.4e-2, 194 of 200
  "lfm2": FastBound(divergence: 0.01, agreement: 0.8),  // 1.9e-3, 152 of 160
  "lfm2-vl": FastBound(divergence: 0.02, agreement: 0.7),
  "lfm2_moe": FastBound(divergence: 5e-3, agreement: 0.8),  // 7.0e-5, 156 of 160
  "nemotron_h": FastBound(divergence: 0.02, agreement: 0.8),  // 1.5e-3, 280 of 288
  "gemma3": FastBound(divergence: 5e-3, agreement: 0.8),
  "gemma3_text": FastBound(divergence: 5e-3, agreement: 0.8),  // 3.5e-4, 24 of 24
  "gemma3n": FastBound(divergence: 0.05, agreement: 0.7),  // 7.9e-3, 23 of 24
  "gemma3n_text": FastBound(divergence: 0.05, agreement: 0.7),
  // Scores are not scaled: with random norms attention picks single positions, and flips.
  "gemma4": FastBound(divergence: 0.1, agreement: 0.7),  // 6.4e-3; 1.1e-2 with int8 queries and keys
  "gemma4_text": FastBound(divergence: 0.1, agreement: 0.7),  // 1.0e-3, 36 of 40
  "gemma4_unified": FastBound(divergence: 0.1, agreement: 0.7),
  "glm": FastBound(divergence: 0.02, agreement: 0.7),
  "glm4": FastBound(divergence: 0.02, agreement: 0.7),  // 8.4e-4
  "glm4_moe": FastBound(divergence: 0.02, agreement: 0.7),  // 1.5e-4
  "glm4_moe_lite": FastBound(divergence: 0.02, agreement: 0.7),  // 3.5e-4
  "gpt_oss": FastBound(divergence: 0.02, agreement: 0.7),  // 2.1e-3
  "granite": FastBound(divergence: 5e-3, agreement: 0.8),
  "hunyuan_v1_dense": FastBound(divergence: 5e-3, agreement: 0.8),  // 6.2e-4
  "joyai_llm_flash": FastBound(divergence: 0.02, agreement: 0.7),
  "kimi_k2": FastBound(divergence: 0.02, agreement: 0.7),
  "kimi_k25": FastBound(divergence: 0.02, agreement: 0.7),
  "kimi_vl": FastBound(divergence: 0.02, agreement: 0.7),
  "llama": FastBound(divergence: 5e-3, agreement: 0.8),  // 9.0e-4, 22 of 24
  "llama4": FastBound(divergence: 0.02, agreement: 0.7),  // 1.5e-4
  "llama4_text": FastBound(divergence: 0.02, agreement: 0.7),
  "minimax": FastBound(divergence: 0.02, agreement: 0.7),
  "minimax_m2": FastBound(divergence: 0.02, agreement: 0.7),  // 3.6e-5
  "ministral3": FastBound(divergence: 5e-3, agreement: 0.8),
  "mistral": FastBound(divergence: 5e-3, agreement: 0.8),  // 6.2e-4, 24 of 24
  "mistral3": FastBound(divergence: 5e-3, agreement: 0.8),
  "mixtral": FastBound(divergence: 0.02, agreement: 0.7),
  "olmo2": FastBound(divergence: 0.02, agreement: 0.7),  // 4.6e-4
  "olmo3": FastBound(divergence: 0.02, agreement: 0.7),  // 4.0e-4
  "phi3": FastBound(divergence: 0.01, agreement: 0.8),  // 1.7e-3, 22 of 24
  "qwen2": FastBound(divergence: 5e-3, agreement: 0.8),  // 9.5e-4, 23 of 24
  "qwen2_5_vl": FastBound(divergence: 5e-3, agreement: 0.8),
  "qwen2_moe": FastBound(divergence: 0.02, agreement: 0.7),  // 7.7e-5
  "qwen2_vl": FastBound(divergence: 5e-3, agreement: 0.8),
  "qwen3": FastBound(divergence: 5e-3, agreement: 0.8),  // 3.2e-4, 23 of 24
  // With the inputs and outputs of delta nets in float32 it would be 9.7e-4.
  "qwen3_5": FastBound(divergence: 0.02, agreement: 0.7),  // 4.8e-3, 177 of 200
  "qwen3_5_moe": FastBound(divergence: 0.05, agreement: 0.7),
  "qwen3_5_moe_text": FastBound(divergence: 0.05, agreement: 0.7),
  "qwen3_5_text": FastBound(divergence: 0.02, agreement: 0.7),
  "qwen3_next": FastBound(divergence: 0.05, agreement: 0.7),
  // A row that goes to another expert differs by more than its rounding.
  "qwen3_moe": FastBound(divergence: 0.02, agreement: 0.7),  // 6.4e-4, 23 of 24
  "qwen3_vl": FastBound(divergence: 5e-3, agreement: 0.8),
  "qwen3_vl_moe": FastBound(divergence: 0.02, agreement: 0.7),
  "seed_oss": FastBound(divergence: 5e-3, agreement: 0.8),  // 7.5e-4
  "smollm3": FastBound(divergence: 5e-3, agreement: 0.8),
  "starcoder2": FastBound(divergence: 0.02, agreement: 0.7),  // 2.2e-5
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
