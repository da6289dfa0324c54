// Every family against its golden checkpoints: logits, greedy tokens, and the same bits however a prompt is run.

import Compute
import Models
import Platform
import Support
import Testing

/// Kernel sets to run: everything this machine has, and the reference.
let kernelSets: [ISA?] = CPUFeatures.available + [nil]

@Suite struct ConformanceTests {
  @Test(arguments: GoldenFolder.decoders)
  func `a golden checkpoint gives the expected logits and tokens`(golden: GoldenFolder) throws {
    for kernels in kernelSets {
      let runner = try Runner(golden.path, isa: kernels, useReference: kernels == nil)
      let context = kernels.map { "\($0)" } ?? "reference"
      // longrope: variant 0 is the short list, 1 the long one, which is the golden's main result.
      if runner.model.ropeVariant(forTokens: 1 << 26) == 1 {
        try check(runner, try Expected(golden), variant: 1, context + " long")
        let short = try Expected(golden, variant: "short_factor_variant")
        try check(runner, short, variant: 0, context + " short")
      } else {
        try check(runner, try Expected(golden), variant: 0, context)
      }
    }
  }

  @Test(
    .enabled(if: !GoldenFolder.layouts.isEmpty, "the shared data is not beside the package"),
    arguments: GoldenFolder.layouts)
  func `a checkpoint in another tool's layout gives the expected logits and tokens`(
    golden: GoldenFolder
  ) throws {
    for kernels in kernelSets {
      let runner = try Runner(golden.path, isa: kernels, useReference: kernels == nil)
      try check(runner, try Expected(golden), variant: 0, kernels.map { "\($0)" } ?? "reference")
    }
  }

  @Test func `every tiny checkpoint of the package is a golden`() throws {
    let names = try File.names(in: TestData.fixtures + "/models").filter { $0.contains("-tiny") }
    let encoders = EncoderGolden.fixtures.compactMap { $0.path.split(separator: "/").last.map(String.init) }
    #expect(!names.isEmpty && (GoldenFolder.fixtures.map(\.name) + encoders).sorted() == names.sorted())
  }

  private func check(_ runner: Runner, _ expected: Expected, variant: Int, _ context: String) throws {
    let rows = runner.logits(of: expected.inputs, variant: variant)
    try #require(rows.count == expected.inputs.count && !rows.isEmpty)
    try #require(expected.logits.keys.allSatisfy(rows.indices.contains) && !expected.greedy.isEmpty)
    for (position, logits) in expected.logits {
      #expect(distance(rows[position], logits) < 1e-3, "\(context): position \(position)")
    }
    #expect(rows.map(argmax) == expected.argmaxEach, "\(context)")
    let greedy = runner.greedy(expected.inputs, count: expected.greedy.count, variant: variant)
    #expect(greedy == expected.greedy, "\(context)")
  }
}
