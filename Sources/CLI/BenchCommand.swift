// `mlxserve bench`: prefill and decode speed at several depths, beside the machine's read bandwidth.
//
// Works on token ids alone, so a checkpoint with weights and no tokenizer can be measured. Decode is bound by
// memory: the share of the ceiling (a plain read loop, measured in the same run) says how near it comes.

import Compute
import Decoding
import Inference
import JSON
import Platform

enum BenchCommand {
  /// Median, least and largest of the repetitions of one measurement, tokens per second.
  struct Spread: Equatable {
    let median, least, largest: Double

    init(_ values: [Double]) {
      let sorted = values.sorted()
      median = sorted.isEmpty ? 0 : sorted[sorted.count / 2]
      least = sorted.first ?? 0
      largest = sorted.last ?? 0
    }
  }

  struct Measurement {
    enum Phase: String { case prefill, decode }
    let phase: Phase
    /// Tokens in the context before the measured ones.
    let depth: Int
    /// Tokens of one repetition.
    let tokens: Int
    let speed: Spread
  }

  struct Report {
    let model: String
    let compute: String
    let threads: Int
    let loadSeconds: Double
    let bytesPerToken: Int
    let readBytesPerSecond: Double
    let tokenizerBytesPerSecond: Double?
    let measurements: [Measurement]
    let peakResidentBytes: Int
  }

  @Sendable static func run(_ flags: ParsedFlags) throws -> Int32 {
    let configuration = try Loading.engineConfiguration(flags)
    let promptTokens = flags.integer("prompt-tokens") ?? 512
    let generateTokens = flags.integer("generate-tokens") ?? 64
    let depths = flags.integers("depth") ?? [0, 1024]
    let repetitions = flags.integer("repetitions") ?? 3

    let begin = Instant.now
    let engine = try Terminal.showingProgress("loading \(configuration.modelPath)") {
      try EngineClient.start(configuration)
    }
    defer { engine.stop() }
    let loadSeconds = Instant.now.seconds(since: begin)
    let context = engine.limits.maxContext
    for needed in [promptTokens + 1] + depths.map({ max(1, $0) + generateTokens }) where needed > context {
      throw BenchError.contextTooSmall(needed: needed, context: context)
    }

    // The first run touches weights and buffers for the first time: it is not counted.
    _ = try measure(engine, prompt: 8, generate: 2, seed: 0)
    var measurements = [
      Measurement(
        phase: .prefill, depth: 0, tokens: promptTokens,
        speed: Spread(
          try (1...repetitions).map { seed in
            try measure(engine, prompt: promptTokens, generate: 1, seed: seed).prefillTokensPerSecond
          }))
    ]
    for depth in depths {
      let speeds = try (1...repetitions).map { seed in
        try measure(engine, prompt: max(1, depth), generate: generateTokens, seed: seed).decodeTokensPerSecond
      }
      measurements.append(
        Measurement(phase: .decode, depth: depth, tokens: generateTokens, speed: Spread(speeds)))
    }
    // Before the ceiling is measured: its buffer is no part of what serving needs.
    let peakResidentBytes = Machine.peakResidentBytes
    let report = Report(
      model: configuration.modelPath, compute: engine.computeName, threads: configuration.threads,
      loadSeconds: loadSeconds, bytesPerToken: engine.weightBytesPerToken,
      readBytesPerSecond: MemoryBandwidth.read(threads: configuration.threads),
      tokenizerBytesPerSecond: TokenizerBenchmark.bytesPerSecond(modelPath: configuration.modelPath),
      measurements: measurements, peakResidentBytes: peakResidentBytes)
    Terminal.print(flags.isSet("json") ? report.json.text : flags.isSet("csv") ? report.csv : report.table)
    return 0
  }

  /// One generation of exactly `generate` tokens after a prompt of pseudo-random token ids.
  private static func measure(
    _ engine: EngineClient, prompt: Int, generate: Int, seed: Int
  ) throws -> GenerationTimings {
    var state = UInt64(truncatingIfNeeded: seed) &+ 0x9E37_79B9_7F4A_7C15
    let tokens = (0..<prompt).map { _ -> Int32 in
      state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      return Int32((state >> 33) % UInt64(engine.limits.vocabularySize))
    }
    var request = GenerationRequest(promptTokens: tokens, maxTokens: generate)
    request.sampling.temperature = 0
    let generation = try engine.submit(request)
    while true {
      switch generation.next() {
      case .element(.finished(_, let timings)): return timings
      case .element(.failed(let error)): throw error
      case .element: continue
      case .closed, .timedOut: throw InferenceError.draining
      }
    }
  }
}

enum BenchError: Error, CustomStringConvertible {
  case contextTooSmall(needed: Int, context: Int)

  var description: String {
    switch self {
    case .contextTooSmall(let needed, let context):
      "the run needs a context of \(needed) tokens, this model has \(context): "
        + "lower --prompt-tokens, --depth or --generate-tokens"
    }
  }
}

extension BenchCommand.Report {
  private var firstDecode: BenchCommand.Measurement? { measurements.first { $0.phase == .decode } }
  private var prefill: BenchCommand.Measurement? { measurements.first { $0.phase == .prefill } }

  /// Bytes of weights read per second at a decode speed.
  private func weightBytesPerSecond(_ speed: Double) -> Double { speed * Double(bytesPerToken) }

  var json: JSONValue {
    [
      "model": .string(model), "compute": .string(compute), "threads": .int(threads),
      "prefill_tokens_per_second": .double(prefill?.speed.median ?? 0),
      "decode_tokens_per_second": .double(firstDecode?.speed.median ?? 0),
      "load_seconds": .double(loadSeconds), "peak_rss_bytes": .int(peakResidentBytes),
      "weight_bytes_per_token": .int(bytesPerToken),
      "memory_read_bytes_per_second": .double(readBytesPerSecond),
      "tokenizer_bytes_per_second": tokenizerBytesPerSecond.map(JSONValue.double) ?? .null,
      "measurements": .array(
        measurements.map { m in
          [
            "phase": .string(m.phase.rawValue), "depth": .int(m.depth), "tokens": .int(m.tokens),
            "tokens_per_second": .double(m.speed.median), "least": .double(m.speed.least),
            "largest": .double(m.speed.largest),
          ]
        }),
    ]
  }

  var csv: String {
    (["phase,depth,tokens,tokens_per_second,least,largest,gigabytes_per_second,ceiling_share"]
      + measurements.map { m in
        let rate = m.phase == .decode ? weightBytesPerSecond(m.speed.median) : nil
        return [
          m.phase.rawValue, "\(m.depth)", "\(m.tokens)", fixed(m.speed.median, 2), fixed(m.speed.least, 2),
          fixed(m.speed.largest, 2), rate.map { fixed($0 / 1e9, 2) } ?? "",
          rate.map { fixed($0 / readBytesPerSecond, 3) } ?? "",
        ].joined(separator: ",")
      }).joined(separator: "\n")
  }

  var table: String {
    var lines = [
      "model     \(model)",
      "compute   \(compute), \(threads) threads",
      "load      \(fixed(loadSeconds, 3)) s, peak memory \(fixed(Double(peakResidentBytes) / 1e6)) MB",
      "weights   \(fixed(Double(bytesPerToken) / 1e6)) MB read per token; "
        + "a plain read loop reaches \(fixed(readBytesPerSecond / 1e9)) GB/s",
    ]
    if let tokenizerBytesPerSecond {
      lines.append("tokenizer \(fixed(tokenizerBytesPerSecond / 1e6)) MB/s of English prose")
    }
    lines += ["", "phase     depth   tokens   tokens/s    (least - largest)      GB/s   of ceiling"]
    for m in measurements {
      var line =
        m.phase.rawValue.padded(8) + "\(m.depth)".padded(7, left: true) + "\(m.tokens)".padded(9, left: true)
      line += fixed(m.speed.median, 2).padded(11, left: true)
      line += "    (\(fixed(m.speed.least, 2)) - \(fixed(m.speed.largest, 2)))".padded(22)
      if m.phase == .decode {
        let rate = weightBytesPerSecond(m.speed.median)
        line += fixed(rate / 1e9, 2).padded(8, left: true)
        line += (fixed(100 * rate / readBytesPerSecond, 0) + " %").padded(11, left: true)
      }
      lines.append(line)
    }
    return lines.joined(separator: "\n")
  }
}

extension String {
  /// Filled with spaces to `width`; ASCII only.
  fileprivate func padded(_ width: Int, left: Bool = false) -> String {
    let fill = String(repeating: " ", count: max(0, width - utf8.count))
    return left ? fill + self : self + fill
  }
}
