// The measurements of `mlxserve bench`.
//
// Works on token ids alone, so a checkpoint with weights and no tokenizer can be measured. Decode is bound by
// memory: the share of the ceiling says how near it comes. The ceiling is a plain read loop; since shared machines change
// their speed within seconds, both are measured in turns.

import Compute
import Decoding
import Inference
import Platform
import Sampling

/// One engine and what is to be measured with it.
struct BenchRun {
  private let plan: BenchPlan
  private let engine: EngineClient
  private let configuration: EngineConfiguration

  init(_ plan: BenchPlan, _ engine: EngineClient, _ configuration: EngineConfiguration) {
    (self.plan, self.engine, self.configuration) = (plan, engine, configuration)
  }

  func report(loadSeconds: Double) throws -> BenchReport {
    // The first run touches weights and buffers for the first time: it is not counted. Nor are those that go on while weights
    // are copied, a little in each step.
    _ = try measure(prompt: max(8, plan.promptTokens), generate: 2, seed: 0)
    var copied = 0
    while EngineClient.copiedWeightBytes > copied {
      copied = EngineClient.copiedWeightBytes
      _ = try measure(prompt: 8, generate: 64, seed: 0)
    }
    var measurements: [BenchReport.Measurement] = []
    for (index, depth) in plan.depths.enumerated() { measurements += try alone(depth: depth, index) }
    for count in plan.counts where count > 1 {
      for (index, depth) in ([0] + plan.depths.filter { $0 > 0 }).enumerated() {
        measurements.append(try together(count, depth: depth, index))
      }
    }
    // Before the ceiling is measured: its buffer is no part of what serving needs.
    let peakResidentBytes = Machine.peakResidentBytes
    let ceiling = try ceiling()
    return BenchReport(
      model: configuration.modelPath, compute: engine.computeName, threads: configuration.threads,
      loadSeconds: loadSeconds, reads: reads,
      readBytesPerSecond: ceiling.read.median, readShare: ceiling.share, besideForward: ceiling.besideForward,
      speculation: plan.speculates ? try speculation() : nil,
      tokenizerBytesPerSecond: TokenizerBenchmark.bytesPerSecond(modelPath: configuration.modelPath),
      measurements: measurements, peakResidentBytes: peakResidentBytes)
  }

  private var reads: StepReads {
    StepReads(
      weights: engine.weightBytesPerToken, keysValues: engine.kvBytesPerToken, state: engine.stateBytes)
  }

  // MARK: Speeds

  /// The read loop goes on for as long as the decoding beside it, but no longer, seconds.
  private static let longestRead = 1.0

  /// Prefill and decode of one sequence after `depth` tokens, which the engine keeps. No other depth of the plan begins
  /// with the same tokens.
  private func alone(depth: Int, _ index: Int) throws -> [BenchReport.Measurement] {
    var prefill: [GenerationTimings] = []
    var decode: [Double] = []
    for repetition in 1...plan.repetitions {
      let seed = 1_000_000 * index + repetition
      let shallow = try measure(prompt: max(1, depth), generate: plan.generateTokens, seed: seed)
      decode.append(shallow.decodeTokensPerSecond)
      prefill.append(try measure(prompt: depth + plan.promptTokens, generate: 1, seed: seed))
    }
    return [
      BenchReport.Measurement(
        phase: .prefill, depth: depth, tokens: plan.promptTokens,
        speed: Self.prefillSpeed(of: prefill, depth: depth)),
      BenchReport.Measurement(
        phase: .decode, depth: depth, tokens: plan.generateTokens, speed: BenchReport.Spread(decode)),
    ]
  }

  /// Tokens per second of the prompts after `depth` tokens; nil when those were computed again.
  static func prefillSpeed(of runs: [GenerationTimings], depth: Int) -> BenchReport.Spread? {
    // Whole blocks are kept.
    guard runs.allSatisfy({ $0.cachedTokens > depth - KVCache.blockTokens }) else { return nil }
    return BenchReport.Spread(runs.map(\.prefillTokensPerSecond))
  }

  /// Decode of `count` sequences in one batch, after `depth` tokens that they share.
  private func together(_ count: Int, depth: Int, _ index: Int) throws -> BenchReport.Measurement {
    let speeds = try (1...plan.repetitions).map { repetition in
      try decodeTogether(count, depth: depth, seed: 1_000_000 * (index + 1) - repetition)
    }
    return BenchReport.Measurement(
      phase: .decode, depth: depth, sequences: count, tokens: plan.generateTokens,
      speed: BenchReport.Spread(speeds))
  }

  /// Tokens per second of `count` generations together, from submission to the end of the last.
  private func decodeTogether(_ count: Int, depth: Int, seed: Int) throws -> Double {
    // The shared tokens are computed before.
    if depth > 0 { _ = try measure(prompt: depth + 1, generate: 1, seed: seed) }
    let begin = Instant.now
    let generations = try (1...count).map { sequence in
      try engine.submit(
        request(prompt: depth + 1, generate: plan.generateTokens, seed: depth > 0 ? seed : sequence))
    }
    for generation in generations { _ = try Self.finish(generation) }
    return Double(count * plan.generateTokens) / Instant.now.seconds(since: begin)
  }

  /// Bytes per second of a read loop; what decoding at the first depth reads right before it, as a share of that; and the share
  /// of this decoding that is not the forward pass.
  private func ceiling() throws -> (
    read: BenchReport.Spread, share: BenchReport.Spread, besideForward: BenchReport.Spread
  ) {
    let depth = plan.depths.first ?? 0
    let bytes = reads.perToken(depth: depth, tokens: plan.generateTokens)
    let bandwidth = MemoryBandwidth(threads: configuration.threads)
    var (reads, shares, besideForward): ([Double], [Double], [Double]) = ([], [], [])
    for _ in 1...max(5, plan.repetitions) {
      let before = engine.statistics
      let run = try measure(prompt: max(1, depth), generate: plan.generateTokens, seed: 1)
      // The prompt is kept but for its last row: its step is like the others.
      let (steps, forward) = engine.statistics.forward(since: before)
      besideForward.append(1 - forward / Double(max(1, steps)) * run.decodeTokensPerSecond)
      let seconds = Double(plan.generateTokens) / run.decodeTokensPerSecond
      let read = bandwidth.read(seconds: min(seconds, Self.longestRead))
      reads.append(read)
      shares.append(run.decodeTokensPerSecond * Double(bytes) / read)
    }
    return (BenchReport.Spread(reads), BenchReport.Spread(shares), BenchReport.Spread(besideForward))
  }

  /// Decodes in turns without guesses, with guesses from the answer itself, and with guesses of which none holds. Answers are
  /// sampled: those of random weights would soon go round in circles.
  private func speculation() throws -> BenchReport.Speculation {
    var configuration = configuration
    configuration.speculates = true
    let guessing = try EngineClient.start(configuration)
    defer { guessing.stop() }
    func speed(_ request: GenerationRequest) throws -> Double {
      try Self.finish(try guessing.submit(request)).timings.decodeTokensPerSecond
    }
    var (right, wrong): ([Double], [Double]) = ([], [])
    for seed in 1...max(5, plan.repetitions) {
      var request = request(
        prompt: max(1, plan.depths.first ?? 0), generate: plan.generateTokens, seed: seed)
      request.sampling.temperature = 1
      request.sampling.seed = UInt64(seed)
      let (answer, timings) = try Self.finish(try engine.submit(request))
      request.draft = answer
      right.append(try speed(request) / timings.decodeTokensPerSecond)
      // After any three tokens of the answer comes another than the answer's.
      let vocabulary = Int32(engine.limits.vocabularySize)
      request.draft = answer.indices.dropFirst(3).flatMap { end in
        answer[end - 3..<end] + [(answer[end] + 1) % vocabulary]
      }
      wrong.append(try speed(request) / timings.decodeTokensPerSecond)
    }
    return BenchReport.Speculation(right: BenchReport.Spread(right), wrong: BenchReport.Spread(wrong))
  }

  // MARK: One generation

  /// One generation of exactly `generate` tokens after a prompt of pseudo-random token ids.
  private func measure(prompt: Int, generate: Int, seed: Int) throws -> GenerationTimings {
    try Self.finish(try engine.submit(request(prompt: prompt, generate: generate, seed: seed))).timings
  }

  private func request(prompt: Int, generate: Int, seed: Int) -> GenerationRequest {
    var state = UInt64(truncatingIfNeeded: seed) &+ 0x9E37_79B9_7F4A_7C15
    let tokens = (0..<prompt).map { _ -> Int32 in
      state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      return Int32((state >> 33) % UInt64(engine.limits.vocabularySize))
    }
    var request = GenerationRequest(promptTokens: tokens, maxTokens: generate)
    request.sampling.temperature = 0
    return request
  }

  private static func finish(_ generation: Generation) throws -> (tokens: [Int32], timings: GenerationTimings)
  {
    var tokens: [Int32] = []
    while true {
      switch generation.next() {
      case .element(.token(let token)): tokens.append(token.id)
      case .element(.finished(_, let timings)): return (tokens, timings)
      case .element(.failed(let error)): throw error
      case .element: continue
      case .closed, .timedOut: throw InferenceError.draining
      }
    }
  }
}
