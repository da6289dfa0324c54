// `mlxserve bench`: prefill and decode speed at several depths, beside the machine's read bandwidth.

import Inference
import JSON
import Platform

enum BenchCommand {
  /// What is measured, by the flags.
  struct Plan {
    /// Tokens of a prefill run.
    let promptTokens: Int
    /// Tokens of a decode run, of each sequence.
    let generateTokens: Int
    /// Tokens in the context before the measured ones.
    let depths: [Int]
    /// Sequences that are computed together; 1 is what `depths` measures.
    let counts: [Int]
    let repetitions: Int
    /// Whether decoding with guesses is compared with decoding without.
    let speculates: Bool

    init(_ flags: ParsedFlags) throws(UsageError) {
      promptTokens = flags.integer("prompt-tokens") ?? 512
      generateTokens = flags.integer("generate-tokens") ?? 64
      depths = flags.integers("depth") ?? [0, 1024]
      counts = flags.integers("sequences") ?? [1]
      repetitions = flags.integer("repetitions") ?? 3
      speculates = try flags.word("speculate") == Speculation.lookup
    }

    /// - Throws: when the longest run does not fit a context of this length.
    func check(context: Int) throws(BenchError) {
      for needed in depths.map({ $0 + max(promptTokens, generateTokens) + 1 }) where needed > context {
        throw .contextTooSmall(needed: needed, context: context)
      }
    }
  }

  @Sendable static func run(_ flags: ParsedFlags) throws -> Int32 {
    let plan = try Plan(flags)
    var configuration = try Loading.engineConfiguration(flags)
    // Guesses are measured on their own.
    configuration.speculates = false
    configuration.maxSequences = max(configuration.maxSequences, plan.counts.max() ?? 1)
    configuration.prefixCacheBytes = 0

    let begin = Instant.now
    var engine = try Terminal.showingProgress("loading \(configuration.modelPath)") {
      try EngineClient.start(configuration)
    }
    let loadSeconds = Instant.now.seconds(since: begin)
    if let deepest = plan.depths.max(), 1...engine.limits.maxContext ~= deepest {
      // What stands before the measured tokens is kept between the runs of one depth. Its size is the model's to say; what
      // does not fit the context is refused below.
      configuration.prefixCacheBytes =
        engine.kvBytesPerToken * (deepest + plan.promptTokens + plan.generateTokens)
      engine.stop()
      engine = try EngineClient.start(configuration)
    }
    defer { engine.stop() }
    try plan.check(context: engine.limits.maxContext)
    let report = try BenchRun(plan, engine, configuration).report(loadSeconds: loadSeconds)
    Terminal.print(flags.isSet("json") ? report.json.text : flags.isSet("csv") ? report.csv : report.table)
    return 0
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
