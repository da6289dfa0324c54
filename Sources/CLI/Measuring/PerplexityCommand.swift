// `mlxserve perplexity`: how well a model predicts a text, and what a faster compute mode than the exact one costs.

import Checkpoint
import Compute
import Inference
import JSON
import Pipeline
import Platform
import Tokenizers

enum PerplexityCommand {
  struct Report {
    let model: String
    let text: String
    let compute: String
    /// The mode that the exact one is compared with.
    let mode: ComputeMode
    /// Tokens of a window.
    let context: Int
    let seconds: Double
    let result: PerplexityResult
  }

  /// The default window, where the model allows it.
  static let usualContext = 512
  private static let textLimit = 1 << 30
  private static let idsLimit = 1 << 26

  /// What is to be predicted, and the tokens that every window begins with.
  struct Subject {
    let path: String
    let tokens: [Int32]
    let opening: [Int32]
  }

  @Sendable static func run(_ flags: ParsedFlags) throws -> Int32 {
    let configuration = try Loading.engineConfiguration(flags)
    // The text first: it is quick to fail.
    let subject = try subject(of: flags, model: configuration.modelPath)
    let evaluator = try Terminal.showingProgress("loading \(configuration.modelPath)") {
      try PerplexityEvaluator(configuration, comparing: flags[.compare])
    }
    let context = flags[.context] ?? min(usualContext, evaluator.contextLength)
    let begin = Instant.now
    var bar = ProgressBar()
    defer { bar.clear() }
    let result = try evaluator.evaluate(
      subject.tokens, opening: subject.opening, window: context, limit: flags[.tokens] ?? .max
    ) { result, total in
      bar.show(
        result.tokens, of: total,
        [
          "perplexity \(fixed(result.perplexity, 3))", "\(result.tokens)/\(total) tokens",
          "\(fixed(Double(result.tokens) / max(1e-9, Instant.now.seconds(since: begin)), 0)) tokens/s",
        ])
    }
    bar.clear()
    let report = Report(
      model: configuration.modelPath, text: subject.path,
      compute: evaluator.computeNames.joined(separator: " and "),
      mode: configuration.computeMode == .exact ? .fast : configuration.computeMode, context: context,
      seconds: Instant.now.seconds(since: begin), result: result)
    Terminal.print(flags[.json] ? report.json.text : report.table)
    return 0
  }

  private static func subject(of flags: ParsedFlags, model: String) throws -> Subject {
    if let path = flags[.ids] {
      guard flags[.text] == nil else { throw PerplexityTextError.twoTexts }
      return Subject(path: path, tokens: try tokenIDs(of: path), opening: [])
    }
    return try subject(
      text: try flags.required(.text, hint: "the file whose text the model is to predict"), model: model)
  }

  /// A text with the tokens of a model's tokenizer.
  static func subject(text path: String, model: String) throws -> Subject {
    let text = try text(of: path)
    let tokenizer = try ModelFolder(path: model).tokenizer()
    return Subject(
      path: path, tokens: tokenizer.encode(text, addSpecialTokens: false), opening: opening(of: tokenizer))
  }

  private static func tokenIDs(of path: String) throws -> [Int32] {
    let bytes = try File.read(path, limit: idsLimit)
    let ids = ((try? JSONValue(parsing: bytes))?.arrayValue ?? []).map {
      $0.intValue.flatMap { Int32(exactly: $0) }
    }
    guard !ids.isEmpty, ids.allSatisfy({ $0 != nil }) else { throw PerplexityTextError.notIDs(path: path) }
    return ids.compactMap { $0 }
  }

  private static func text(of path: String) throws -> String {
    let bytes = try File.read(path, limit: textLimit)
    guard !bytes.isEmpty else { throw PerplexityTextError.empty(path: path) }
    guard let text = String(validating: bytes, as: UTF8.self) else {
      throw PerplexityTextError.notUTF8(path: path)
    }
    return text
  }

  /// What the tokenizer puts before every text: BOS, or nothing.
  static func opening(of tokenizer: Tokenizer) -> [Int32] {
    let bare = tokenizer.encode("a", addSpecialTokens: false)
    let marked = tokenizer.encode("a", addSpecialTokens: true)
    // The rest, if any, comes after the text and is no part of it either.
    let starts = 0...max(0, marked.count - bare.count)
    return starts.first { marked.dropFirst($0).starts(with: bare) }.map { Array(marked[..<$0]) } ?? []
  }
}

enum PerplexityTextError: Error, CustomStringConvertible {
  case empty(path: String)
  case notUTF8(path: String)
  case notIDs(path: String)
  case twoTexts

  var description: String {
    switch self {
    case .empty(let path): "\(path) is empty: give a file with some text"
    case .notUTF8(let path): "\(path) is not UTF-8: convert it, for example with 'iconv -t UTF-8'"
    case .notIDs(let path): "\(path) is not a JSON array of token ids, such as [1, 15, 7]"
    case .twoTexts: "--text and --ids both say what to predict: give one of them"
    }
  }
}

extension PerplexityCommand.Report {
  private var tokensPerSecond: Double { Double(result.tokens) / max(1e-9, seconds) }

  /// Perplexity of the compared mode over that of the exact one.
  private func ratio(_ comparison: PerplexityResult.Comparison) -> Double {
    exp(result.mean(comparison.negativeLogLikelihood - result.negativeLogLikelihood))
  }

  private func fastPerplexity(_ comparison: PerplexityResult.Comparison) -> Double {
    exp(result.mean(comparison.negativeLogLikelihood))
  }

  var json: JSONValue {
    var fields: [(String, JSONValue)] = [
      ("model", .string(model)), ("text", .string(text)), ("compute", .string(compute)),
      ("context", .int(context)), ("windows", .int(result.windows)), ("tokens", .int(result.tokens)),
      ("mean_nll", .double(result.mean(result.negativeLogLikelihood))),
      ("perplexity", .double(result.perplexity)),
      ("seconds", .double(seconds)), ("tokens_per_second", .double(tokensPerSecond)),
    ]
    if let comparison = result.comparison {
      let values: JSONValue = [
        "\(mode.rawValue)_mean_nll": .double(result.mean(comparison.negativeLogLikelihood)),
        "\(mode.rawValue)_perplexity": .double(fastPerplexity(comparison)),
        "perplexity_ratio": .double(ratio(comparison)),
        "mean_kl": .double(result.mean(comparison.divergence)),
        "max_kl": .double(comparison.largestDivergence),
        "same_top_token_share": .double(result.mean(Double(comparison.sameLikeliest))),
      ]
      fields.append(("comparison", values))
    }
    return .object(JSONObject(fields))
  }

  var table: String {
    var lines = [
      "model       \(model)",
      "compute     \(compute)",
      "text        \(text): \(result.tokens) tokens in \(result.windows) windows of \(context)",
      "speed       \(fixed(tokensPerSecond, 0)) tokens/s, \(fixed(seconds)) s",
    ]
    let mean = fixed(result.mean(result.negativeLogLikelihood), 5)
    guard let comparison = result.comparison else {
      return (lines + ["perplexity  \(fixed(result.perplexity, 4)) (\(mean) nats per token)"])
        .joined(separator: "\n")
    }
    let fastMean = fixed(result.mean(comparison.negativeLogLikelihood), 5)
    lines += [
      "exact       perplexity \(fixed(result.perplexity, 4)) (\(mean) nats per token)",
      "\(mode.rawValue)        perplexity \(fixed(fastPerplexity(comparison), 4)) (\(fastMean) nats per token), "
        + "\(fixed(100 * (ratio(comparison) - 1), 3)) % from exact",
      "divergence  KL(exact to \(mode.rawValue)) \(fixed(result.mean(comparison.divergence), 6)) nats per token, "
        + "largest \(fixed(comparison.largestDivergence, 5))",
      "agreement   \(fixed(100 * result.mean(Double(comparison.sameLikeliest)), 2)) % of tokens have the same likeliest",
    ]
    return lines.joined(separator: "\n")
  }
}
