// What `mlxserve bench` says of its measurements, and of what it could not measure.

import Inference
import JSON
import Testing

@testable import CLI

@Suite struct BenchReportTests {
  private let report = BenchReport(
    model: "m", compute: "portable", threads: 2, loadSeconds: 0.5,
    reads: StepReads(weights: 1_000_000, keysValues: 1000, state: 0), readBytesPerSecond: 1e9,
    readShare: BenchReport.Spread([0.5, 0.75, 0.625]),
    besideForward: BenchReport.Spread([0.015, 0.02, 0.01]), speculation: nil,
    tokenizerBytesPerSecond: nil,
    measurements: [
      .init(phase: .prefill, depth: 64, tokens: 4, speed: nil),
      .init(phase: .decode, depth: 64, tokens: 8, speed: BenchReport.Spread([100, 80, 120])),
    ], peakResidentBytes: 5_000_000)

  private func run(prompt: Int, cached: Int, prefill: Double) -> GenerationTimings {
    var timings = GenerationTimings()
    (timings.promptTokens, timings.cachedTokens, timings.prefill) = (prompt, cached, prefill)
    return timings
  }

  @Test func `a speed is that of the median repetition, between the least and the largest`() throws {
    let runs = [0.5, 0.125, 0.25].map { run(prompt: 72, cached: 64, prefill: $0) }
    let speed = try #require(BenchRun.prefillSpeed(of: runs, depth: 64))
    #expect(speed == BenchReport.Spread([16, 64, 32]))
    #expect(speed.median == 32 && speed.least == 16 && speed.largest == 64)
  }

  @Test func `only whole blocks of the tokens before are kept, and without them there is no speed`() {
    let kept = run(prompt: 108, cached: 96, prefill: 0.5)
    #expect(BenchRun.prefillSpeed(of: [kept], depth: 100) == BenchReport.Spread([24]))
    #expect(BenchRun.prefillSpeed(of: [kept, run(prompt: 108, cached: 0, prefill: 1)], depth: 100) == nil)
    #expect(
      BenchRun.prefillSpeed(of: [run(prompt: 8, cached: 0, prefill: 0.25)], depth: 0)
        == BenchReport.Spread([32]))
  }

  @Test func `what was not measured is null, an empty cell, and words`() {
    let entries = report.json["measurements"]?.arrayValue ?? []
    #expect(entries.map { $0["phase"]?.stringValue } == ["prefill", "decode"])
    for key in ["tokens_per_second", "least", "largest"] { #expect(entries.first?[key] == .null) }
    #expect(report.json["prefill_tokens_per_second"] == .null)
    #expect(report.json["decode_tokens_per_second"] == 100.0)
    #expect(entries.last?["least"] == 80.0 && entries.last?["largest"] == 120.0)
    // 1 MB of weights and 68 tokens of context at 1 kB: 100 tokens read 106.8 MB.
    #expect(
      report.csv.split(separator: "\n").dropFirst() == [
        "prefill,64,1,4,,,,,", "decode,64,1,8,100.00,80.00,120.00,0.11,0.107",
      ])
    let table = report.table(width: nil)
    #expect(table.contains("forward pass: 1.5 % (1.0 - 2.0)"))
    #expect(
      table.split(separator: "\n").suffix(3) == [
        "prefill  64     1     4                                                ",
        "decode   64     1     8       100.00    80.00 - 120.00   1.1     0.11  11 %",
        "prefill after 64 tokens was not measured: there was no room to keep them",
      ])
  }

  @Test(arguments: [40, 60, 80, 120])
  func `every line of the table fits the terminal`(width: Int) {
    let lines = report.table(width: width).split(separator: "\n").dropLast()
    #expect(lines.allSatisfy { $0.count <= width }, "\(lines)")
    #expect(lines.contains { $0.hasPrefix("decode") && $0.contains("100.00") })
  }

  @Test func `sequences of a step share weights and the tokens before them, and have states of their own`() {
    let reads = StepReads(weights: 1_000_000, keysValues: 1000, state: 5000)
    #expect(reads.perToken(depth: 0, tokens: 8) == 1_000_000 + 4000 + 5000)
    #expect(reads.perToken(depth: 100, tokens: 8, sequences: 2) == 550_000 + 4000 + 5000)
  }

  @Test func `a plan asks for a context that holds the longest run`() throws {
    let command = try #require(Command.all.first { $0.name == "bench" })
    func plan(_ arguments: String...) throws -> BenchPlan {
      try BenchPlan(try ParsedFlags(arguments, flags: command.flags))
    }
    let usual = try plan()
    #expect(usual.promptTokens == 512 && usual.generateTokens == 64 && usual.repetitions == 3)
    #expect(usual.depths == [0, 1024] && usual.counts == [1] && !usual.speculates)
    try usual.check(context: 1537)
    let error = try #require(throws: BenchError.self) { try usual.check(context: 1536) }
    #expect(error.description.hasPrefix("the run needs a context of 1537 tokens, this model has 1536"))
    try plan("--prompt-tokens", "8", "--depth", "0").check(context: 65)
  }
}
