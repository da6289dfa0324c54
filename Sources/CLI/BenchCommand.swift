// `mlxserve bench`: prefill and decode speed at several depths, beside the machine's read bandwidth.
//
// Works on token ids alone, so a checkpoint with weights and no tokenizer can be measured. Decode is bound by
// memory: the share of the ceiling says how near it comes. The ceiling is a plain read loop; since shared machines change
// their speed within seconds, both are measured in turns.

import Compute
import Decoding
import Inference
import JSON
import Platform

enum BenchCommand {
  /// Median, least and largest of the repetitions of one measurement.
  struct Spread: Equatable {
    let median, least, largest: Double

    init(_ values: [Double]) {
      let sorted = values.sorted()
      median = sorted.isEmpty ? 0 : sorted[sorted.count / 2]
      least = sorted.first ?? 0
      largest = sorted.last ?? 0
    }

    var json: JSONValue { ["median": .double(median), "least": .double(least), "largest": .double(largest)] }
  }

  struct Measurement {
    enum Phase: String { case prefill, decode }
    let phase: Phase
    /// Tokens in the context before the measured ones.
    let depth: Int
    /// Sequences computed together; the speed is that of all of them.
    var sequences = 1
    /// Tokens of one repetition, of each sequence.
    let tokens: Int
    let speed: Spread
  }

  /// Speed of decoding with guesses as a multiple of the speed without.
  struct Speculation {
    /// Where every guess holds: text that repeats what is known.
    let right: Spread
    /// Where there is always a guess and none holds.
    let wrong: Spread
  }

  struct Report {
    let model: String
    let compute: String
    let threads: Int
    let loadSeconds: Double
    /// Weights that one decode step reads, bytes.
    let weightBytes: Int
    /// Keys and values of one token of context, which every later step reads, bytes.
    let kvBytes: Int
    let readBytesPerSecond: Double
    /// Bytes that decoding at the first depth reads per second, as a share of a read loop right before it.
    let readShare: Spread
    /// Where it was asked for.
    let speculation: Speculation?
    let tokenizerBytesPerSecond: Double?
    let measurements: [Measurement]
    let peakResidentBytes: Int
  }

  @Sendable static func run(_ flags: ParsedFlags) throws -> Int32 {
    var configuration = try Loading.engineConfiguration(flags)
    // Runs must repeat the work that they measure, and guesses are measured on their own.
    configuration.prefixCacheBytes = 0
    configuration.speculates = false
    let counts = flags.integers("sequences") ?? [1]
    configuration.maxSequences = max(configuration.maxSequences, counts.max() ?? 1)
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
    for needed in depths.map({ max($0 + promptTokens, $0 + generateTokens) + 1 }) where needed > context {
      throw BenchError.contextTooSmall(needed: needed, context: context)
    }

    // The first run touches weights and buffers for the first time: it is not counted.
    _ = try measure(engine, prompt: 8, generate: 2, seed: 0)
    var measurements: [Measurement] = []
    for depth in depths {
      var prefill: [Double] = []
      var decode: [Double] = []
      for seed in 1...repetitions {
        let shallow = try measure(engine, prompt: max(1, depth), generate: generateTokens, seed: seed)
        decode.append(shallow.decodeTokensPerSecond)
        // Of the time for depth + prompt tokens, what the first `depth` of them took is not the prompt's.
        let deep = try measure(engine, prompt: depth + promptTokens, generate: 1, seed: seed)
        prefill.append(Double(promptTokens) / (deep.prefill - (depth > 0 ? shallow.prefill : 0)))
      }
      measurements.append(
        Measurement(phase: .prefill, depth: depth, tokens: promptTokens, speed: Spread(prefill)))
      measurements.append(
        Measurement(phase: .decode, depth: depth, tokens: generateTokens, speed: Spread(decode)))
    }
    for count in counts where count > 1 {
      let speeds = try (1...repetitions).map { _ in
        try decodeTogether(engine, count: count, generate: generateTokens)
      }
      measurements.append(
        Measurement(
          phase: .decode, depth: 0, sequences: count, tokens: generateTokens, speed: Spread(speeds)))
    }
    // Before the ceiling is measured: its buffer is no part of what serving needs.
    let peakResidentBytes = Machine.peakResidentBytes
    let first = depths.first ?? 0
    let bandwidth = MemoryBandwidth(threads: configuration.threads)
    var (reads, shares): ([Double], [Double]) = ([], [])
    for seed in 1...max(5, repetitions) {
      let read = bandwidth.read()
      let run = try measure(engine, prompt: max(1, first), generate: generateTokens, seed: seed)
      let bytes = bytesPerToken(
        weights: engine.weightBytesPerToken, kv: engine.kvBytesPerToken, depth: first, tokens: generateTokens)
      reads.append(read)
      shares.append(run.decodeTokensPerSecond * Double(bytes) / read)
    }
    let speculation =
      flags.text("speculate") == "lookup"
      ? try speculation(
        engine, configuration, prompt: max(1, first), generate: generateTokens,
        repetitions: max(5, repetitions))
      : nil
    let report = Report(
      model: configuration.modelPath, compute: engine.computeName, threads: configuration.threads,
      loadSeconds: loadSeconds, weightBytes: engine.weightBytesPerToken,
      kvBytes: engine.kvBytesPerToken,
      readBytesPerSecond: Spread(reads).median, readShare: Spread(shares),
      speculation: speculation,
      tokenizerBytesPerSecond: TokenizerBenchmark.bytesPerSecond(modelPath: configuration.modelPath),
      measurements: measurements, peakResidentBytes: peakResidentBytes)
    Terminal.print(flags.isSet("json") ? report.json.text : flags.isSet("csv") ? report.csv : report.table)
    return 0
  }

  /// Bytes read for one of `tokens` decoded after `depth` others: all weights, shared by the sequences of a step, and the
  /// context's keys and values.
  static func bytesPerToken(weights: Int, kv: Int, depth: Int, tokens: Int, sequences: Int = 1) -> Int {
    weights / sequences + kv * (depth + tokens / 2)
  }

  /// One generation of exactly `generate` tokens after a prompt of pseudo-random token ids.
  private static func measure(
    _ engine: EngineClient, prompt: Int, generate: Int, seed: Int
  ) throws -> GenerationTimings {
    try finish(try engine.submit(request(engine, prompt: prompt, generate: generate, seed: seed))).timings
  }

  /// Decodes in turns without guesses, with guesses from the answer itself, and with guesses of which none holds. Answers are
  /// sampled: those of random weights would soon go round in circles.
  private static func speculation(
    _ plain: EngineClient, _ configuration: EngineConfiguration, prompt: Int, generate: Int, repetitions: Int
  ) throws -> Speculation {
    var configuration = configuration
    configuration.speculates = true
    let guessing = try EngineClient.start(configuration)
    defer { guessing.stop() }
    var (right, wrong): ([Double], [Double]) = ([], [])
    for seed in 1...repetitions {
      var request = request(plain, prompt: prompt, generate: generate, seed: seed)
      request.sampling.temperature = 1
      request.sampling.seed = UInt64(seed)
      let (answer, timings) = try finish(try plain.submit(request))
      request.draft = answer
      right.append(
        try finish(try guessing.submit(request)).timings.decodeTokensPerSecond / timings.decodeTokensPerSecond
      )
      // After any three tokens of the answer comes another than the answer's.
      let vocabulary = Int32(plain.limits.vocabularySize)
      request.draft = answer.indices.dropFirst(3).flatMap { end in
        answer[end - 3..<end] + [(answer[end] + 1) % vocabulary]
      }
      wrong.append(
        try finish(try guessing.submit(request)).timings.decodeTokensPerSecond / timings.decodeTokensPerSecond
      )
    }
    return Speculation(right: Spread(right), wrong: Spread(wrong))
  }

  /// Tokens per second of `count` generations together, from submission to the end of the last.
  private static func decodeTogether(_ engine: EngineClient, count: Int, generate: Int) throws -> Double {
    let begin = Instant.now
    let generations = try (1...count).map { seed in
      try engine.submit(request(engine, prompt: 1, generate: generate, seed: seed))
    }
    for generation in generations { _ = try finish(generation) }
    return Double(count * generate) / Instant.now.seconds(since: begin)
  }

  private static func request(_ engine: EngineClient, prompt: Int, generate: Int, seed: Int)
    -> GenerationRequest
  {
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
  private func first(_ phase: BenchCommand.Measurement.Phase) -> Double {
    measurements.first { $0.phase == phase }?.speed.median ?? 0
  }

  private func bytesPerToken(_ measurement: BenchCommand.Measurement) -> Int {
    BenchCommand.bytesPerToken(
      weights: weightBytes, kv: kvBytes, depth: measurement.depth, tokens: measurement.tokens,
      sequences: measurement.sequences)
  }

  /// Bytes read per second; nil for prefill, which memory does not bound.
  private func bytesPerSecond(_ measurement: BenchCommand.Measurement) -> Double? {
    guard measurement.phase == .decode else { return nil }
    return measurement.speed.median * Double(bytesPerToken(measurement))
  }

  var json: JSONValue {
    [
      "model": .string(model), "compute": .string(compute), "threads": .int(threads),
      "prefill_tokens_per_second": .double(first(.prefill)),
      "decode_tokens_per_second": .double(first(.decode)),
      "load_seconds": .double(loadSeconds), "peak_rss_bytes": .int(peakResidentBytes),
      "weight_bytes_per_token": .int(weightBytes), "kv_bytes_per_context_token": .int(kvBytes),
      "memory_read_bytes_per_second": .double(readBytesPerSecond),
      "decode_share_of_read_loop": readShare.json,
      "speculation": speculation.map { ["right": $0.right.json, "wrong": $0.wrong.json] } ?? .null,
      "tokenizer_bytes_per_second": tokenizerBytesPerSecond.map(JSONValue.double) ?? .null,
      "measurements": .array(
        measurements.map { m in
          [
            "phase": .string(m.phase.rawValue), "depth": .int(m.depth), "sequences": .int(m.sequences),
            "tokens": .int(m.tokens),
            "tokens_per_second": .double(m.speed.median), "least": .double(m.speed.least),
            "largest": .double(m.speed.largest),
            "bytes_per_second": bytesPerSecond(m).map(JSONValue.double) ?? .null,
          ]
        }),
    ]
  }

  var csv: String {
    (["phase,depth,sequences,tokens,tokens_per_second,least,largest,gigabytes_per_second,ceiling_share"]
      + measurements.map { m in
        let rate = bytesPerSecond(m)
        return [
          m.phase.rawValue, "\(m.depth)", "\(m.sequences)", "\(m.tokens)", fixed(m.speed.median, 2),
          fixed(m.speed.least, 2),
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
      "reads     \(fixed(Double(weightBytes) / 1e6)) MB of weights per token, and "
        + "\(fixed(Double(kvBytes) / 1e3)) kB per token of context; a plain read loop reaches \(fixed(readBytesPerSecond / 1e9)) GB/s",
    ]
    func percent(_ share: Double) -> String { fixed(100 * share, 0) }
    lines.append(
      "in turns  decoding reads \(percent(readShare.median)) % of what the loop does "
        + "(\(percent(readShare.least)) - \(percent(readShare.largest)))")
    if let speculation {
      func times(_ spread: BenchCommand.Spread) -> String {
        "\(fixed(spread.median, 2)) (\(fixed(spread.least, 2)) - \(fixed(spread.largest, 2)))"
      }
      lines.append(
        "guesses   decoding is \(times(speculation.right)) times as fast where all guesses hold, "
          + "\(times(speculation.wrong)) times where none does")
    }
    if let tokenizerBytesPerSecond {
      lines.append("tokenizer \(fixed(tokenizerBytesPerSecond / 1e6)) MB/s of English prose")
    }
    lines += [
      "", "phase     depth sequences   tokens   tokens/s    (least - largest)   MB/token    GB/s of ceiling",
    ]
    for m in measurements {
      var line =
        m.phase.rawValue.padded(8) + "\(m.depth)".padded(7, left: true)
        + "\(m.sequences)".padded(10, left: true) + "\(m.tokens)".padded(9, left: true)
      line += fixed(m.speed.median, 2).padded(11, left: true)
      line += "    (\(fixed(m.speed.least, 2)) - \(fixed(m.speed.largest, 2)))".padded(22)
      if let rate = bytesPerSecond(m) {
        line += fixed(Double(bytesPerToken(m)) / 1e6).padded(11, left: true)
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
