// Every family against its golden checkpoints: logits, greedy tokens, and the same bits however a prompt is run.

import Compute
import Models
import Platform
import Support
import Testing

/// Tiny random-weight checkpoints with results of independent implementations in float32.
let goldens: [String] = [
  "gemma3n-tiny-q4", "gemma3text-tiny-q4", "gemma4-mm-tiny-q4",
  "llama-tiny-mxfp4", "llama-tiny-mxfp8", "llama-tiny-nvfp4", "llama-tiny-bf16", "llama-tiny-q2",
  "llama-tiny-q3", "llama-tiny-q5", "llama-tiny-q6", "llama3-tiny-q4",
  "mistral-tiny-q8gs32", "phi35-tiny-q4", "phi4mini-tiny-q4", "qwen2-tiny-q4", "qwen3-tiny-q4",
  "qwen3moe-tiny-q4",
]

/// Those that lie in the package itself.
let fixtures = [
  "llama3-tiny-q4", "llama-tiny-q3", "qwen2-tiny-q4", "gemma4-keqv-tiny", "gemma4-moe-tiny", "granite-tiny",
  "ministral3-tiny", "mixtral-tiny", "phi4-tiny", "qwen3moe-mixed-tiny", "smollm3-tiny",
]

/// Kernel sets to run: everything this machine has, and the reference.
let kernelSets: [ISA?] = CPUFeatures.available + [nil]

@Suite struct ConformanceTests {
  @Test(.enabled(if: TestData.shared != nil, "shared test data is absent"), arguments: goldens)
  func `a golden checkpoint gives the expected logits and tokens`(name: String) throws {
    for kernels in kernelSets { try check((TestData.shared ?? "") + "/goldens/" + name, kernels) }
  }

  @Test(arguments: fixtures)
  func `a fixture gives the expected logits and tokens`(name: String) throws {
    for kernels in kernelSets { try check(TestData.fixtures + "/models/" + name, kernels) }
  }

  private func check(_ path: String, _ kernels: ISA?) throws {
    let runner = try Runner(path, isa: kernels, useReference: kernels == nil)
    // longrope: variant 0 is the short list, 1 the long one, which is the golden's main result.
    if runner.model.ropeVariant(forTokens: 1 << 26) == 1 {
      try check(runner, try Expected(path), variant: 1, "\(path) \(String(describing: kernels)) long")
      try check(
        runner, try Expected(path, variant: "short_factor_variant"), variant: 0,
        "\(path) \(String(describing: kernels)) short")
    } else {
      try check(runner, try Expected(path), variant: 0, "\(path) \(String(describing: kernels))")
    }
  }

  private func check(_ runner: Runner, _ expected: Expected, variant: Int, _ context: String) throws {
    let rows = runner.logits(of: expected.inputs, variant: variant)
    try #require(rows.count == expected.inputs.count && !rows.isEmpty)
    #expect(distance(rows[0], expected.first) < 1e-3, "\(context): first")
    #expect(distance(rows[rows.count - 1], expected.last) < 1e-3, "\(context): last")
    #expect(rows.map(argmax) == expected.argmaxEach, "\(context)")
    let greedy = runner.greedy(expected.inputs, count: expected.greedy.count, variant: variant)
    #expect(greedy == expected.greedy, "\(context)")
  }
}
