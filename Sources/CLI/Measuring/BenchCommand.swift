// `mlxserve bench`: prefill and decode speed at several depths, beside the machine's read bandwidth; or an index's speed.

import Inference
import JSON
import Platform

enum BenchCommand {
  @Sendable static func run(_ flags: ParsedFlags) throws -> Int32 {
    if let sizes = flags[.index] { return try IndexBench(flags).run(sizes) }
    let plan = try BenchPlan(flags)
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
    Terminal.print(
      flags[.json]
        ? report.json.text : flags[.csv] ? report.csv : report.table(width: Terminal.tableWidth))
    return 0
  }
}
