// `mlxserve convert`: a model of any layout that is read here as a folder in MLX's layout, quantized as asked.

import Checkpoint
import Compute
import Conversion
import Hub
import Inference
import JSON
import Pipeline
import Platform
import Tokenizers

enum ConvertCommand {
  /// Of a text, for measuring and for searching.
  private static let textTokens = 4096

  @Sendable static func run(_ flags: ParsedFlags) throws -> Int32 {
    let output = try flags.required(.output, hint: "the folder to write, which must not exist")
    var options = try options(flags)
    _ = try options.base()
    guard !File.exists(output) else { throw ConversionError.exists(path: output) }
    let configuration = try Loading.engineConfiguration(flags)
    let subject = try flags[.text].map {
      try PerplexityCommand.subject(text: $0, model: configuration.modelPath)
    }
    if options.recipe == .best { options.importance = try importance(configuration, subject) }
    let start = Instant.now
    let folder = try bound(configuration)
    let ending = Monitor<Int32?>(nil)
    try Signals.onTermination { count, signal in
      guard count == 1 else { exit(128 + signal) }
      ending.update { $0 = signal }
    }
    let conversion = try Conversion(try ConversionPlan(folder, options), to: output)
    let plan = conversion.plan
    try write(conversion, threads: configuration.threads, until: ending)
    try conversion.writeFiles()
    let seconds = Instant.now.seconds(since: start)
    var made = configuration
    made.modelPath = conversion.folder
    _ = try bound(made)
    let measured = try subject.map { try measure(configuration, made, $0, flags) }
    try conversion.finish(
      card: ModelCard(conversion, source: folder, measured: measured, asked: asked(flags)).text)
    if flags[.json] {
      Terminal.print(report(conversion, seconds, measured).text)
      return ExitCode.success
    }
    for (how, count) in plan.rounded.sorted(by: { $0.key < $1.key }) {
      Terminal.tell("note: \(how) are rounded, in \(count) matrices: MLX has no form for their numbers")
    }
    Terminal.tell(
      "converted \(folder.name): \(ShowCommand.parameters(plan.parameters)) parameters, \(plan.quantizationWords), "
        + "\(fixed(plan.bitsPerWeight, 2)) bits per weight, \(Size.words(plan.bytes)) in \(fixed(seconds)) s"
        + (conversion.relativeError.map { "; rounding changed weights by \(fixed(100 * $0, 2)) %" } ?? ""))
    if let measured { Terminal.tell(measured.words) }
    Terminal.print(output)
    return ExitCode.success
  }

  /// `mlxserve fuse`: a conversion that keeps how weights are stored.
  @Sendable static func fuse(_ flags: ParsedFlags) throws -> Int32 {
    _ = try flags.required(.adapter, hint: "the folder with adapter_config.json")
    return try run(flags)
  }

  private static func options(_ flags: ParsedFlags) throws -> ConversionOptions {
    var options = ConversionOptions()
    options.bits = flags[.bits]
    options.groupSize = flags[.groupSize]
    options.mode = (try flags.word(.mode) as ModeName?).flatMap { Quantization.Mode(rawValue: $0.rawValue) }
    options.recipe = try flags.word(.recipe)
    options.dtype = (try flags.word(.dtype) as FloatName?)?.dtype
    options.dequantizes = flags[.dequantize]
    options.requantizes = flags[.requantize]
    options.adapter = try flags[.adapter].map { try AdapterFolder(path: $0) }
    options.shardBytes = try flags.size(.shardSize) ?? options.shardBytes
    for text in flags.texts(.module) {
      guard let rule = ConversionOptions.ModuleRule(text) else {
        throw UsageError.badValue(
          flag: "module", value: text,
          expected:
            "PATTERN=RULE, where the rule is plain, bits with or without a group size (6/32), or a mode")
      }
      options.rules.append(rule)
    }
    return options
  }

  /// How much an error in each column of each module counts, by a text: the last tokens of the one that is given, of which the
  /// first are measured with, or the program's own.
  private static func importance(
    _ configuration: EngineConfiguration, _ subject: PerplexityCommand.Subject?
  ) throws -> [String: [Float]] {
    let tokenizer = try ModelFolder(path: configuration.modelPath).tokenizer()
    var tokens = tokenizer.encode(CalibrationText.text, addSpecialTokens: false)
    if let subject, subject.tokens.count >= 2 * textTokens {
      tokens = Array(subject.tokens.suffix(textTokens))
    }
    var bar = ProgressBar()
    defer { bar.clear() }
    return try Calibration.meanSquares(
      configuration, tokens: tokens, opening: PerplexityCommand.opening(of: tokenizer), limit: textTokens
    ) { done, all in bar.show(done, of: all, ["reading a text", "\(done)/\(all) tokens"]) }
  }

  /// The flags that decide about the result, as they were given.
  private static func asked(_ flags: ParsedFlags) -> String {
    let names = [
      "bits", "group-size", "mode", "recipe", "dtype", "dequantize", "requantize", "module", "adapter",
    ]
    return names.flatMap { name in
      (flags.values(of: name) ?? []).map { $0.isEmpty ? "--\(name)" : "--\(name) \($0)" }
    }.joined(separator: " ")
  }

  /// A folder whose tensors fit its config.json; after that it is known which of them are matrices.
  private static func bound(_ configuration: EngineConfiguration) throws -> ModelFolder {
    let folder = try ModelFolder(path: configuration.modelPath)
    switch folder.task {
    case .chat: _ = try ModelInspection(folder, configuration)
    case .embed, .rerank: _ = try EncoderInspection(folder, configuration)
    case .transcribe: try SpeechClient.check(folder, configuration)
    }
    return folder
  }

  /// Writes the weights with a bar; a signal leaves what is there for the next run.
  private static func write(_ conversion: Conversion, threads: Int, until ending: Monitor<Int32?>) throws {
    let start = Instant.now
    var bar = ProgressBar()
    defer { bar.clear() }
    do {
      try conversion.writeWeights(try ComputeContext(threads: threads)) { done, all in
        let speed = Double(done) / max(1e-3, Instant.now.seconds(since: start))
        bar.show(
          done, of: all,
          [
            DownloadDisplay.sizes(done, all), "\(Size.words(Int(speed)))/s",
            DownloadDisplay.clock(Double(all - done) / max(1, speed)) + " left",
          ])
        return ending.withLock { $0 == nil }
      }
    } catch ConversionError.ended {
      throw EndedBySignal(signal: ending.withLock { $0 } ?? SIGINT, words: "\(ConversionError.ended)")
    }
  }

  /// How the result predicts a text beside the source, both with exact activations.
  private static func measure(
    _ source: EngineConfiguration, _ made: EngineConfiguration, _ subject: PerplexityCommand.Subject,
    _ flags: ParsedFlags
  ) throws -> MeasuredConversion {
    let both = [source, made].map { one in
      var one = one
      one.computeMode = .exact
      return one
    }
    let evaluator = try PerplexityEvaluator(both)
    var bar = ProgressBar()
    defer { bar.clear() }
    let result = try evaluator.evaluate(
      subject.tokens, opening: subject.opening, window: min(512, evaluator.contextLength),
      limit: flags[.tokens] ?? textTokens
    ) { result, total in
      bar.show(result.tokens, of: total, ["measuring", "\(result.tokens)/\(total) tokens"])
    }
    return MeasuredConversion(text: subject.path, result: result)
  }

  private static func report(
    _ conversion: Conversion, _ seconds: Double, _ measured: MeasuredConversion?
  ) -> JSONValue {
    let plan = conversion.plan
    var fields: [(String, JSONValue)] = [
      ("output", .string(conversion.output)), ("parameters", .int(plan.parameters)),
      ("bytes", .int(plan.bytes)),
      ("bits_per_weight", .double(plan.bitsPerWeight)), ("quantization", .string(plan.quantizationWords)),
      ("seconds", .double(seconds)),
      ("relative_error", conversion.relativeError.map(JSONValue.double) ?? .null),
      ("dropped", .array(plan.dropped.map(JSONValue.string))),
    ]
    if let measured { fields.append(("measured", measured.json)) }
    return .object(JSONObject(fields))
  }
}

/// A text as the source and the result predict it.
struct MeasuredConversion {
  let text: String
  let result: PerplexityResult

  private var other: PerplexityResult.Comparison { result.comparisons.first ?? .init() }
  private var perplexity: Double { exp(result.mean(other.negativeLogLikelihood)) }
  private var divergence: Double { result.mean(other.divergence) }

  var words: String {
    "on \(result.tokens) tokens of \(text): perplexity \(fixed(perplexity, 3)), the source's \(fixed(result.perplexity, 3)); "
      + "KL \(fixed(divergence, 5)) nats per token; "
      + "\(fixed(100 * result.mean(Double(other.sameLikeliest)), 1)) % have the same likeliest token"
  }

  var json: JSONValue {
    [
      "text": .string(text), "tokens": .int(result.tokens), "perplexity": .double(perplexity),
      "source_perplexity": .double(result.perplexity), "mean_kl": .double(divergence),
      "same_top_token_share": .double(result.mean(Double(other.sameLikeliest))),
    ]
  }
}
