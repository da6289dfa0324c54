// `mlxserve eval`: models side by side, by how well they predict a text, choose among answers, solve tasks
// and call tools.

import Checkpoint
import Compute
import Hub
import Inference
import JSON
import Pipeline
import Platform
import Sampling
import Tokenizers

/// What was measured of one model.
struct ModelScores {
  /// As it was named, and in which mode where modes are compared.
  let name: String
  let bytes: Int
  var perplexity: Double?
  /// Beside the first model; nil for that one.
  var divergence: (mean: Double, largest: Double, same: Double)?
  var choices: Score?
  /// The same, where the likelihood of an answer is divided by its length in bytes.
  var evenChoices: Score?
  var tasks: Score?
  var tools: ToolScores?

  /// A share with its standard error.
  struct Score {
    var right = 0
    var all = 0
    var share: Double { all > 0 ? Double(right) / Double(all) : 0 }
    var error: Double { all > 0 ? (share * (1 - share) / Double(all)).squareRoot() : 0 }
    var words: String { "\(fixed(100 * share)) ± \(fixed(100 * error)) %" }

    mutating func add(_ isRight: Bool) { (right, all) = (right + (isRight ? 1 : 0), all + 1) }

    var json: JSONValue {
      ["right": .int(right), "all": .int(all), "share": .double(share), "standard_error": .double(error)]
    }
  }
}

enum EvalCommand {
  @Sendable static func run(_ flags: ParsedFlags) throws -> Int32 {
    let names = flags.texts(.model)
    guard let first = names.first else { throw UsageError.missingArgument("MODEL") }
    guard [TextFlag.text, .choices, .tasks, .tools].contains(where: { flags.isSet($0) }) else {
      throw UsageError.missingFlag(
        "text", hint: "a text to predict; or --choices, --tasks or --tools, a file of JSON lines")
    }
    // Files first: they are quick to fail.
    let questions = try flags[.choices].map(EvalFile.questions) ?? []
    let tasks = try flags[.tasks].map(EvalFile.tasks) ?? []
    let toolCases = try flags[.tools].map(EvalFile.toolCases) ?? []
    let configurations = try names.flatMap { name in try modes(of: name, flags) }
    let subject = try flags[.text].map {
      try PerplexityCommand.subject(text: $0, model: configurations[0].configuration.modelPath)
    }
    var found = try configurations.map { name, configuration in
      ModelScores(name: name, bytes: try ModelFolder(path: configuration.modelPath).weightBytes)
    }
    if subject != nil || !questions.isEmpty {
      let evaluator = try Terminal.showingProgress("loading \(first)") {
        try PerplexityEvaluator(configurations.map(\.configuration))
      }
      if let subject { try predict(subject, evaluator, flags, &found) }
      if !questions.isEmpty {
        let tokenizer = try ModelFolder(path: configurations[0].configuration.modelPath).tokenizer()
        try choose(questions, evaluator, tokenizer, &found)
      }
    }
    for (index, entry) in configurations.enumerated() where !tasks.isEmpty || !toolCases.isEmpty {
      let (model, engine) = try Terminal.showingProgress("loading \(entry.configuration.modelPath)") {
        try LoadedModel.load(entry.configuration)
      }
      defer { engine.stop() }
      if !tasks.isEmpty { found[index].tasks = try solve(tasks, model, flags) }
      if !toolCases.isEmpty { found[index].tools = try callTools(toolCases, model, flags) }
    }
    let report = EvalReport(models: found)
    if let path = flags[.svg] { try File.replace(path, with: Array(report.chart.utf8)) }
    Terminal.print(
      flags[.json]
        ? report.json.text : report.lines(width: Terminal.tableWidth).joined(separator: "\n"))
    return ExitCode.success
  }

  private static let usualAnswer = 64

  /// Of one model, or with `--compare` of both its modes.
  private static func modes(
    of name: String, _ flags: ParsedFlags
  ) throws -> [(name: String, configuration: EngineConfiguration)] {
    let configuration = try Loading.engineConfiguration(flags, path: try ModelLocator.folder(name, flags))
    guard flags[.compare] else { return [(name, configuration)] }
    return [ComputeMode.exact, .fast].map { mode in
      var one = configuration
      one.computeMode = mode
      return ("\(name) (\(mode.rawValue))", one)
    }
  }

  private static func predict(
    _ subject: PerplexityCommand.Subject, _ evaluator: PerplexityEvaluator, _ flags: ParsedFlags,
    _ found: inout [ModelScores]
  ) throws {
    var bar = ProgressBar()
    defer { bar.clear() }
    let result = try evaluator.evaluate(
      subject.tokens, opening: subject.opening,
      window: flags[.context] ?? min(PerplexityCommand.usualContext, evaluator.contextLength),
      limit: flags[.tokens] ?? .max
    ) { result, total in bar.show(result.tokens, of: total, ["\(result.tokens)/\(total) tokens"]) }
    found[0].perplexity = result.perplexity
    for (index, other) in result.comparisons.enumerated() {
      found[index + 1].perplexity = exp(result.mean(other.negativeLogLikelihood))
      found[index + 1].divergence = (
        result.mean(other.divergence), other.largestDivergence, result.mean(Double(other.sameLikeliest))
      )
    }
  }

  /// The answer that a model holds for the likeliest, by its likelihood as it is and by its length.
  private static func choose(
    _ questions: [EvalFile.Question], _ evaluator: PerplexityEvaluator, _ tokenizer: Tokenizer,
    _ found: inout [ModelScores]
  ) throws {
    var bar = ProgressBar()
    defer { bar.clear() }
    let opening = PerplexityCommand.opening(of: tokenizer)
    for index in found.indices { (found[index].choices, found[index].evenChoices) = (.init(), .init()) }
    for (number, question) in questions.enumerated() {
      var sums: [[Double]] = []
      for choice in question.choices {
        // The text is cut where the tokens of the prompt alone end to be those of the whole.
        let whole = opening + tokenizer.encode(question.prompt + choice, addSpecialTokens: false)
        let prompt = opening + tokenizer.encode(question.prompt, addSpecialTokens: false)
        let shared = zip(whole, prompt).prefix { $0 == $1 }.count
        let cut = max(1, min(shared, whole.count - 1))
        sums.append(try evaluator.logLikelihoods(of: Array(whole[cut...]), after: Array(whole[..<cut])))
      }
      for index in found.indices {
        let plain = sums.map { $0[index] }
        let even = zip(plain, question.choices).map { $0 / Double(max(1, $1.utf8.count)) }
        func best(_ values: [Double]) -> Int? { values.indices.max { values[$0] < values[$1] } }
        found[index].choices?.add(best(plain) == question.answer)
        found[index].evenChoices?.add(best(even) == question.answer)
      }
      bar.show(number + 1, of: questions.count, ["\(number + 1)/\(questions.count) questions"])
    }
  }

  /// Answers whose words are compared.
  private static func solve(
    _ tasks: [EvalFile.Exercise], _ model: LoadedModel, _ flags: ParsedFlags
  ) throws -> ModelScores.Score {
    var score = ModelScores.Score()
    try each(tasks, "tasks") { task in
      let (answer, _) = try answer(to: task.prompt, model, flags, usualTokens: usualAnswer)
      score.add(task.answers.contains { EvalFile.plain($0) == EvalFile.plain(answer) })
    }
    return score
  }

  private static func callTools(
    _ cases: [ToolCase], _ model: LoadedModel, _ flags: ParsedFlags
  ) throws -> ToolScores {
    var scores = ToolScores()
    try each(cases, "requests") { entry in
      let (_, calls) = try answer(
        to: entry.question, tools: entry.tools, model, flags, usualTokens: 4 * usualAnswer)
      scores.add(entry, calls.map { ($0.name, $0.arguments) })
    }
    return scores
  }

  private static func each<Case>(_ cases: [Case], _ noun: String, _ body: (Case) throws -> Void) rethrows {
    var bar = ProgressBar()
    defer { bar.clear() }
    for (number, entry) in cases.enumerated() {
      try body(entry)
      bar.show(number + 1, of: cases.count, ["\(number + 1)/\(cases.count) \(noun)"])
    }
  }

  /// The answer in a conversation of one turn, always by the likeliest token, and the calls that it makes.
  private static func answer(
    to question: String, tools: [JSONValue] = [], _ model: LoadedModel, _ flags: ParsedFlags, usualTokens: Int
  ) throws -> (text: String, calls: [ChatSession.Call]) {
    var settings = ChatSession.Settings()
    settings.maxTokens = flags[.maxTokens] ?? usualTokens
    settings.switchesThinkingOff = true
    settings.tools = tools
    var sampling = SamplingParameters()
    sampling.temperature = 0
    settings.sampling = sampling
    var session = try ChatSession(model, settings)
    _ = try session.send(question) { _ in }
    return (session.answer.content, session.openCalls)
  }
}

/// Questions and tasks in files of JSON lines.
enum EvalFile {
  struct Question {
    let prompt: String
    let choices: [String]
    let answer: Int
  }

  struct Exercise {
    let prompt: String
    let answers: [String]
  }

  private static let limit = 1 << 28

  private static func lines(_ path: String) throws -> [(number: Int, value: JSONValue)] {
    let bytes = try File.read(path, limit: limit)
    var found: [(Int, JSONValue)] = []
    for (index, line) in bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
      .enumerated()
    where line.contains(where: { $0 > 0x20 }) {
      guard let value = try? JSONValue(parsing: Array(line)), value.objectValue != nil else {
        throw EvalFileError(path: path, line: index + 1, expected: "a JSON object")
      }
      found.append((index + 1, value))
    }
    guard !found.isEmpty else {
      throw EvalFileError(path: path, line: 1, expected: "at least one JSON object")
    }
    return found
  }

  /// `{"prompt": …, "choices": […], "answer": 0}`. A `question` becomes a prompt that asks for an answer.
  static func questions(_ path: String) throws -> [Question] {
    try lines(path).map { number, value in
      let choices = (value["choices"]?.arrayValue ?? []).compactMap(\.stringValue)
      let question = value["question"]?.stringValue.map { "Question: \($0)\nAnswer:" }
      guard let prompt = value["prompt"]?.stringValue ?? question, choices.count >= 2,
        choices.count == value["choices"]?.arrayValue?.count, let answer = value["answer"]?.intValue,
        choices.indices.contains(answer), choices.allSatisfy({ !$0.isEmpty })
      else {
        throw EvalFileError(
          path: path, line: number,
          expected:
            "\"question\" or \"prompt\", at least two \"choices\", and \"answer\", the place of the right one from 0"
        )
      }
      // Words of one text have a space between them.
      let isApart = prompt.last.map(\.isWhitespace) ?? true
      return Question(
        prompt: prompt,
        choices: choices.map { isApart || ($0.first.map(\.isWhitespace) ?? false) ? $0 : " " + $0 },
        answer: answer)
    }
  }

  /// `{"prompt": …, "answer": …}`, where several answers may be right.
  static func tasks(_ path: String) throws -> [Exercise] {
    try lines(path).map { number, value in
      let given = value["answer"].map { $0.arrayValue ?? [$0] } ?? []
      let answers = given.map { $0.stringValue ?? $0.text }
      guard let prompt = value["prompt"]?.stringValue, !answers.isEmpty else {
        throw EvalFileError(
          path: path, line: number, expected: "\"prompt\", and \"answer\", a text or several")
      }
      return Exercise(prompt: prompt, answers: answers)
    }
  }

  /// Requests with tools, as `ToolCase` describes them.
  static func toolCases(_ path: String) throws -> [ToolCase] {
    try lines(path).map { number, value in
      guard let found = ToolCase(value) else {
        throw EvalFileError(
          path: path, line: number,
          expected:
            "\"question\", \"tools\", and \"calls\" of these tools with a list of right values for each argument"
        )
      }
      return found
    }
  }

  /// What has to be equal: words without case, space around them, or a full stop at the end.
  static func plain(_ text: String) -> String {
    var words = text.lowercased().split(whereSeparator: \.isWhitespace).joined(separator: " ")
    if words.hasSuffix(".") { words.removeLast() }
    return words
  }
}

struct EvalFileError: Error, CustomStringConvertible {
  let path: String
  let line: Int
  let expected: String

  var description: String { "\(path), line \(line): expected \(expected)" }
}
